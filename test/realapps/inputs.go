package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// hpccInput is Debian's example with a problem that takes seconds.
func hpccInput(dir string) error {
	text, err := readMaybeGzip("/usr/share/doc/hpcc/examples/_hpccinf.txt")
	if err != nil {
		return err
	}
	small := regexp.MustCompile(`(?m)^1000 +Ns`).ReplaceAllString(text, "400 Ns")
	if small == text {
		return fmt.Errorf("the example input of hpcc has no line '1000 Ns' to make smaller")
	}
	return write(dir, "hpccinf.txt", small)
}

// readMaybeGzip reads a file of /usr/share/doc, which may be compressed.
func readMaybeGzip(path string) (string, error) {
	if text, err := os.ReadFile(path); err == nil {
		return string(text), nil
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		return "", fmt.Errorf("example input: %w", err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return "", fmt.Errorf("unpack %s.gz: %w", path, err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		return "", fmt.Errorf("unpack %s.gz: %w", path, err)
	}
	return string(text), nil
}

const gromacsTopology = `#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
SOL 1728
`

const gromacsRun = `integrator = md
nsteps = 100
dt = 0.002
nstlog = 20
cutoff-scheme = Verlet
rlist = 0.9
rcoulomb = 0.9
rvdw = 0.9
coulombtype = PME
tcoupl = no
gen_vel = yes
gen_temp = 300
gen_seed = 1
constraints = h-bonds
`

// gromacsInput repeats the 216 molecules that come with GROMACS.
func gromacsInput(dir string) error {
	if err := write(dir, "topol.top", gromacsTopology); err != nil {
		return err
	}
	if err := write(dir, "md.mdp", gromacsRun); err != nil {
		return err
	}
	serial := [][]string{
		{"gmx", "genconf", "-f", "/usr/share/gromacs/top/spc216.gro", "-nbox", "2", "2", "2", "-o", "water.gro"},
		{"gmx", "grompp", "-f", "md.mdp", "-c", "water.gro", "-p", "topol.top", "-o", "topol.tpr"},
	}
	for _, argv := range serial {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GMX_MAXBACKUP=-1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// mumpsInput writes an unsymmetric five-point matrix of 30 x 30 points.
func mumpsInput(dir string) error {
	const side = 30
	var entries []string
	for y := range side {
		for x := range side {
			row := y*side + x + 1
			entries = append(entries, fmt.Sprintf("%d %d 4.0", row, row))
			for _, step := range []struct {
				dx, dy int
				value  string
			}{{1, 0, "-1.25"}, {-1, 0, "-1.0"}, {0, 1, "-1.0"}, {0, -1, "-1.0"}} {
				if inside(x+step.dx, side) && inside(y+step.dy, side) {
					column := (y+step.dy)*side + x + step.dx + 1
					entries = append(entries, fmt.Sprintf("%d %d %s", row, column, step.value))
				}
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d :N\n%d :NZ\n%s\n", side*side, len(entries), strings.Join(entries, "\n"))
	for i := range side * side {
		fmt.Fprintf(&b, "%d.0\n", 1+i%7)
	}
	return write(dir, "matrix.txt", b.String())
}

// graphInput writes a grid of 24 x 24 x 24 points in Scotch's format.
func graphInput(dir string) error {
	const side = 24
	var b strings.Builder
	edges := 0
	for vertex := range side * side * side {
		x, y, z := vertex%side, vertex/side%side, vertex/side/side
		var next []string
		for _, d := range [][3]int{{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}} {
			if inside(x+d[0], side) && inside(y+d[1], side) && inside(z+d[2], side) {
				next = append(next, strconv.Itoa(vertex+d[0]+side*(d[1]+side*d[2])))
			}
		}
		edges += len(next)
		fmt.Fprintf(&b, "%d\t%s\n", len(next), strings.Join(next, "\t"))
	}
	head := fmt.Sprintf("0\n%d\t%d\n0\t000\n", side*side*side, edges)
	return write(dir, "graph.grf", head+b.String())
}

// espressoInput takes a pseudopotential of ABINIT's, for Debian has none for Quantum
// ESPRESSO itself.
func espressoInput(dir string) error {
	return write(dir, "silicon.in", `&control
 calculation='scf', prefix='si', pseudo_dir='/usr/share/abinit/psp', outdir='.'
 tprnfor=.true., tstress=.true.
/
&system
 ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=14
/
&electrons
 conv_thr=1d-9
/
ATOMIC_SPECIES
 Si 28.086 14-Si.nlcc.UPF
ATOMIC_POSITIONS alat
 Si 0.00 0.00 0.00
 Si 0.26 0.25 0.24
K_POINTS automatic
 2 2 2 1 1 1
`)
}

func cp2kInput(dir string) error {
	return write(dir, "water.inp", `&GLOBAL
  PROJECT water
  RUN_TYPE MD
&END GLOBAL
&MOTION
  &MD
    ENSEMBLE NVE
    STEPS 2
    TIMESTEP 0.5
    TEMPERATURE 300
  &END MD
&END MOTION
&FORCE_EVAL
  METHOD Quickstep
  &DFT
    BASIS_SET_FILE_NAME BASIS_SET
    POTENTIAL_FILE_NAME GTH_POTENTIALS
    &MGRID
      CUTOFF 120
    &END MGRID
    &SCF
      EPS_SCF 1.0E-7
      SCF_GUESS ATOMIC
    &END SCF
    &XC
      &XC_FUNCTIONAL Pade
      &END XC_FUNCTIONAL
    &END XC
  &END DFT
  &SUBSYS
    &CELL
      ABC 6.0 6.0 6.0
    &END CELL
    &COORD
      O 0.0  0.0   -0.0656
      H 0.0 -0.7571 0.5205
      H 0.0  0.7571 0.5205
    &END COORD
    &KIND H
      BASIS_SET DZVP-GTH-PADE
      POTENTIAL GTH-PADE-q1
    &END KIND
    &KIND O
      BASIS_SET DZVP-GTH-PADE
      POTENTIAL GTH-PADE-q6
    &END KIND
  &END SUBSYS
&END FORCE_EVAL
`)
}

func nwchemInput(dir string) error {
	return write(dir, "water.nw", `start water
geometry units au noautosym
  O 0.0  0.0   0.0
  H 0.0  1.43 -0.89
  H 0.0 -1.43 -0.89
end
basis
  * library 6-31g*
end
task scf gradient
task dft energy
`)
}

func inside(at, side int) bool { return at >= 0 && at < side }

func write(dir, name, text string) error {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the input: %w", err)
	}
	return nil
}
