package main

import (
	"fmt"
	"path/filepath"
	"regexp"
)

// app is one program of Debian and how to judge what it prints.
type app struct {
	name      string
	mpi       string   // library that Debian has linked it with
	packages  []string // that bring it
	ranks     int
	env       []string               // KEY=VALUE for the ranks
	prepare   func(dir string) error // writes the input into the working folder
	copies    []string               // folders or files of Debian to copy there
	steps     [][]string             // program and arguments, run one after the other
	stdin     string                 // file in the working folder for rank 0
	outputs   []string               // files in the working folder to compare beside stdout
	keep      *regexp.Regexp         // lines to compare; nil: all
	mask      *regexp.Regexp         // parts of lines that are timings
	tolerance float64                // relative, of printed numbers that depend on the order of messages
	stderr    bool                   // its results are on stderr; compared together with stdout
	check     func(dir string) error // further demands on the files left
	calls     map[string]uint64      // exact calls of each rank, where the source tells them
}

const scalapackDir = "/usr/lib/x86_64-linux-gnu/scalapack"

// apps lists all programs.
func apps(home string) []app {
	list := []app{
		hpcc(), lammps("melt", regexp.MustCompile(`^ *\d+( +-?[\d.]+){5} *$|neighbors`)),
		lammps("peptide", regexp.MustCompile(`^(TotEng|PotEng|E_dihed|E_coul)|^ +\d+ +[\d.]+ |neighbors`)),
		gromacs(), mumps(), ptscotch(), ordering(),
		netpipe("openmpi", "NPopenmpi", "netpipe-openmpi"),
		netpipe("mpich", "NPmpich2", "netpipe-mpich2"),
		mpi4py(home), petsc(home), hdf5(home), espresso(), cp2k(), nwchem(),
		superlu("pddrive", "big.rua", 4, "-r", "2", "-c", "2"),
		superlu("pzdrive", "cg20.cua", 4, "-r", "2", "-c", "2"),
		superlu("pddrive4", "big.rua", 10), // on two parts of its ranks, 6 and 4
	}
	for _, mpi := range []string{"openmpi", "mpich"} {
		for _, tester := range []string{"xdlu", "xdqr", "xdinv", "xdls", "xdbrd", "xdhrd", "xdtrd", "xdsvd", "xdsyevr", "xzlu", "xcgblu", "xsptllt"} {
			list = append(list, scalapack(mpi, tester))
		}
		list = append(list, blacs(mpi))
	}
	return list
}

// hpcc runs all of the HPC Challenge on a small problem; of its output the
// checks and the numbers that do not depend on time are compared. PTRANS has a line
// CPU for a test only if the clock of processor time has moved.
func hpcc() app {
	return app{
		name: "hpcc", mpi: "openmpi", packages: []string{"hpcc"}, ranks: 4,
		prepare: hpccInput, steps: [][]string{{"hpcc"}}, outputs: []string{"hpccoutf.txt"},
		keep: regexp.MustCompile(`^WALL .*(PASSED|FAILED)|\.\.\. (PASSED|FAILED)|Found \d+ errors|Node\(s\) with error|Success=|HPL_(Rnorm|Anorm|Xnorm|Bnorm|N=)|Solution Validates|tests completed|_residual=|_errorRate|_maxError`),
		mask: regexp.MustCompile(`\d+\.\d{2,3}(\s|$)`),
	}
}

func lammps(example string, keep *regexp.Regexp) app {
	return app{
		name: "lammps-" + example, mpi: "openmpi", packages: []string{"lammps", "lammps-examples"}, ranks: 4,
		copies: []string{"/usr/share/lammps/examples/" + example},
		steps:  [][]string{{"lmp", "-in", "in." + example}},
		keep:   keep,
	}
}

// gromacs computes 1,728 water molecules, with its option for reproducible
// results, and compares all energies.
func gromacs() app {
	return app{
		name: "gromacs", mpi: "openmpi", packages: []string{"gromacs", "gromacs-data"}, ranks: 4,
		prepare: gromacsInput, env: []string{"OMP_NUM_THREADS=1", "GMX_MAXBACKUP=-1"},
		steps: [][]string{{"gmx_mpi", "mdrun", "-s", "topol.tpr", "-reprod", "-ntomp", "1",
			"-notunepme", "-dlb", "no", "-pin", "off"}},
		outputs: []string{"md.log"},
		keep:    regexp.MustCompile(`^ +-?\d\.\d{5}e[+-]\d\d`),
	}
}

// mumps solves a system of 900 unknowns and compares every one.
func mumps() app {
	return app{
		name: "mumps", mpi: "openmpi", packages: []string{"mumps-test"}, ranks: 4,
		prepare: mumpsInput, stdin: "matrix.txt",
		steps: [][]string{{"/usr/lib/mumps/dsimpletest"}},
		// its fronts are summed up in the order in which messages arrive
		tolerance: 1e-7,
		keep:      regexp.MustCompile(`Solution is|INFOG\(1\)|Structural|Number of level`),
	}
}

// ptscotch scatters a graph over the ranks and gathers it again: it must
// come back byte for byte.
func ptscotch() app {
	return app{
		name: "ptscotch", mpi: "openmpi", packages: []string{"ptscotch"}, ranks: 4, prepare: graphInput,
		steps: [][]string{
			{"dgtst", "graph.grf"},
			{"dgscat", "graph.grf", "part-%p-%r.dgr"},
			{"dggath", "part-%p-%r.dgr", "back.grf"},
		},
		outputs: []string{"back.grf"},
		check: func(dir string) error {
			return sameFiles(filepath.Join(dir, "graph.grf"), filepath.Join(dir, "back.grf"))
		},
	}
}

// ordering lets PT-Scotch order that graph. Its result depends on timing, so
// only its validity is judged: every vertex and every place once.
func ordering() app {
	return app{
		name: "ptscotch-order", mpi: "openmpi", packages: []string{"ptscotch"}, ranks: 4, prepare: graphInput,
		env:   []string{"SCOTCH_DETERMINISTIC=1", "SCOTCH_PTHREAD_NUMBER=1"},
		steps: [][]string{{"dgord", "graph.grf", "order.ord"}},
		check: func(dir string) error { return permutation(filepath.Join(dir, "order.ord")) },
	}
}

// netpipe sends messages of growing length and checks every byte of them.
func netpipe(mpi, program, pkg string) app {
	return app{
		name: "netpipe", mpi: mpi, packages: []string{pkg}, ranks: 2,
		steps: [][]string{{program, "-i", "-u", "100000", "-n", "10", "-o", "np.out"}},
		keep:  regexp.MustCompile(`Integrity check (passed|failed)`), stderr: true,
	}
}

// scalapack runs one tester; a residual that is too large prints FAILED.
// (Two are left out because they are unreliable without any tool, too: xdsep
// fails one case, and xdllt hangs, now and then.)
func scalapack(mpi, tester string) app {
	return app{
		name: "scalapack-" + tester, mpi: mpi, packages: []string{"scalapack-mpi-test"}, ranks: 4,
		copies: []string{"/usr/share/scalapack"},
		steps:  [][]string{{filepath.Join(scalapackDir, mpi+"-tests", tester)}},
		keep:   regexp.MustCompile(`(?i)passed|failed|skipped|END OF TESTS|tests? completed`),
		mask:   regexp.MustCompile(`-?\d+\.\d+(E[+-]?\d+)?`),
	}
}

// blacs runs the tester of the communication layer below ScaLAPACK. It ends
// with a test of its own abort, so its status is not 0 and must stay so.
func blacs(mpi string) app {
	return app{
		name: "blacs", mpi: mpi, packages: []string{"scalapack-mpi-test"}, ranks: 4,
		copies: []string{"/usr/share/scalapack/BLACS"},
		steps:  [][]string{{filepath.Join(scalapackDir, mpi+"-tests/BLACS/xCbtest")}},
		// which it is depends on the order in which messages arrive
		mask: regexp.MustCompile(`(PASSED|SKIPPED)\s+REPEATABLE`),
	}
}

// mpi4py runs counts.py, whose source tells the number of calls.
func mpi4py(home string) app {
	return app{
		name: "mpi4py", mpi: "openmpi", packages: []string{"python3-mpi4py"}, ranks: 4,
		steps: [][]string{{"/usr/bin/python3", filepath.Join(home, "counts.py")}},
		calls: map[string]uint64{
			"MPI_Sendrecv": 200, "MPI_Allreduce": 200, "MPI_Bcast": 20,
			"MPI_Irecv": 4, "MPI_Isend": 4, "MPI_Waitall": 1, "MPI_Barrier": 1,
		},
	}
}

// petsc runs petsc.py: solvers of PETSc, HYPRE, SuperLU_DIST and MUMPS.
func petsc(home string) app {
	return app{
		name: "petsc", mpi: "openmpi", packages: []string{"python3-petsc4py"}, ranks: 4,
		env:   []string{"OMP_NUM_THREADS=1"},
		steps: [][]string{{"/usr/bin/python3", filepath.Join(home, "petsc.py")}},
	}
}

// hdf5 runs hdf5.py: a file of all ranks, whose pieces the MPI library sends about.
func hdf5(home string) app {
	return app{
		name: "hdf5", mpi: "openmpi", packages: []string{"python3-h5py-mpi"}, ranks: 4,
		steps: [][]string{{"/usr/bin/python3", filepath.Join(home, "hdf5.py")}},
	}
}

// espresso computes two atoms of silicon by Quantum ESPRESSO, and compares energies,
// forces and stress.
func espresso() app {
	return app{
		name: "quantum-espresso", mpi: "openmpi", packages: []string{"quantum-espresso", "abinit-data"}, ranks: 4,
		prepare: espressoInput, env: []string{"OMP_NUM_THREADS=1"},
		steps:     [][]string{{"pw.x", "-in", "silicon.in"}},
		keep:      regexp.MustCompile(`total energy +=|force = |Total force|^ +(-?\d\.\d{8} +){3}|convergence has been`),
		tolerance: 1e-5,
	}
}

// cp2k moves a molecule of water two steps, and compares energies and what is conserved.
func cp2k() app {
	return app{
		name: "cp2k", mpi: "openmpi", packages: []string{"cp2k", "cp2k-data"}, ranks: 4,
		prepare: cp2kInput, env: []string{"OMP_NUM_THREADS=1", "CP2K_DATA_DIR=/usr/share/cp2k"},
		steps:     [][]string{{"cp2k.popt", "water.inp"}},
		keep:      regexp.MustCompile(`ENERGY\| |MD\| (Conserved|Potential)|SCF run converged`),
		tolerance: 1e-8,
	}
}

// nwchem computes water by Global Arrays: Hartree-Fock with its gradient, and by
// density functionals. (Under MPICH Debian's does not converge.)
func nwchem() app {
	return app{
		name: "nwchem", mpi: "openmpi", packages: []string{"nwchem-openmpi"}, ranks: 4,
		prepare: nwchemInput, env: []string{"OMP_NUM_THREADS=1"},
		steps:     [][]string{{"nwchem.openmpi", "water.nw"}},
		keep:      regexp.MustCompile(`Total (SCF|DFT) energy|^ +\d [OH] +(-?\d+\.\d+ *){6}`),
		tolerance: 1e-5,
	}
}

const superluDir = "/usr/lib/x86_64-linux-gnu/superlu-dist/tests/EXAMPLE"

// superlu solves a system of a file that SuperLU_DIST brings. An error that is no more
// than rounding, which depends on the order of messages, is masked.
func superlu(program, matrix string, ranks int, grid ...string) app {
	argv := append([]string{filepath.Join(superluDir, program)}, grid...)
	return app{
		name: "superlu-" + program, mpi: "openmpi", packages: []string{"libsuperlu-dist-dev"}, ranks: ranks,
		env:   []string{"OMP_NUM_THREADS=1"},
		steps: [][]string{append(argv, filepath.Join(superluDir, matrix))},
		keep:  regexp.MustCompile(`Xtrue`),
		mask:  regexp.MustCompile(`\d\.\d+e-1[3-9]`),
	}
}

func (a app) String() string { return fmt.Sprintf("%s (%s)", a.name, a.mpi) }
