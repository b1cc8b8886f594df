package launch

import (
	"debug/elf"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// functions is a set of names of MPI functions.
type functions map[string]bool

// ChooseShim returns the shim for a command: shim, which has every function, or the
// smallest variant beside it (libmpishim-3.1.so) that has all functions of the MPI
// library which the ranks will load. A program that looks whether a function exists
// then finds what it would find without us. launcher is the file of args[0].
//
// The MPI library is that of the programs on the command line; where none is linked
// with one, as an interpreter, that of the launcher. If it is not found, or not the one
// that is loaded in the end, the shim says so in the rank.
func ChooseShim(shim string, kind Kind, launcher string, args, env []string) string {
	has := ofPrograms(args)
	if len(has) == 0 {
		has = ofLauncher(kind, launcher, env)
	}
	best, least := shim, exportsOf(shim)
	maps.DeleteFunc(has, func(name string, _ bool) bool { return !least[name] })
	if len(has) == 0 {
		return shim
	}
	variants, _ := filepath.Glob(strings.TrimSuffix(shim, ".so") + "-[0-9]*.so")
	for _, path := range variants {
		if set := exportsOf(path); len(set) < len(least) && set.holds(has) {
			best, least = path, set
		}
	}
	return best
}

// holds tells whether all of other are in f.
func (f functions) holds(other functions) bool {
	for name := range other {
		if !f[name] {
			return false
		}
	}
	return true
}

// exportsOf are the MPI functions that a library defines, none if it cannot be read.
func exportsOf(path string) functions {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	return definedBy(f)
}

func definedBy(f *elf.File) functions {
	out := functions{}
	symbols, _ := f.DynamicSymbols()
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC &&
			(strings.HasPrefix(s.Name, "MPI_") || s.Name == "PMPI_Init") {
			out[s.Name] = true
		}
	}
	return out
}

// ofPrograms are the functions of the MPI libraries that the programs among the words
// of a command are linked with.
func ofPrograms(words []string) functions {
	out := functions{}
	eachProgram(words, func(path string, root *elf.File) {
		eachNeeded(path, root, func(name string, f *elf.File) bool {
			if f == nil || !isMPI(filepath.Base(name)) {
				return true
			}
			has := definedBy(f)
			if has["PMPI_Init"] {
				out.add(has)
			}
			return !has["PMPI_Init"]
		})
	})
	return out
}

func (f functions) add(other functions) {
	for name := range other {
		if name != "PMPI_Init" {
			f[name] = true
		}
	}
}

// ofLauncher are the functions of the MPI library that a program would load which is
// started by a launcher: from LD_LIBRARY_PATH, from where the launcher is installed, or
// from the system. For srun and the like the launcher is the mpirun that would be found.
func ofLauncher(kind Kind, launcher string, env []string) functions {
	if kind != OpenMPI && kind != Hydra {
		for _, name := range []string{"mpirun", "mpiexec"} {
			if path, err := exec.LookPath(name); err == nil {
				launcher, kind = path, Recognise(path, Version)
				break
			}
		}
	}
	path, _ := lookup(env, "LD_LIBRARY_PATH")
	dirs := filepath.SplitList(path)
	if kind == OpenMPI || kind == Hydra {
		if resolved, err := filepath.EvalSymlinks(launcher); err == nil {
			launcher = resolved
		}
		prefix := filepath.Dir(filepath.Dir(launcher))
		dirs = append(dirs, filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"))
	}
	for _, dir := range append(dirs, SystemLibraryDirs()...) {
		if has := ofDirectory(dir, kind); len(has) > 0 {
			return has
		}
	}
	return nil
}

// ofDirectory are the functions of the MPI libraries in a directory; of one family only
// if kind is the launcher of that.
func ofDirectory(dir string, kind Kind) functions {
	out := functions{}
	seen := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(dir, "libmpi*.so*"))
	for _, file := range files {
		resolved, err := filepath.EvalSymlinks(file)
		if err != nil || seen[resolved] || !isMPI(filepath.Base(file)) {
			continue
		}
		seen[resolved] = true
		f, err := elf.Open(resolved)
		if err != nil {
			continue
		}
		has := definedBy(f)
		if has["PMPI_Init"] && runs(kind, f) {
			out.add(has)
		}
		f.Close()
	}
	return out
}

// runs tells whether a launcher of this kind is for programs of an MPI library.
func runs(kind Kind, library *elf.File) bool {
	if machine, ok := machines[runtime.GOARCH]; ok && library.Machine != machine {
		return false
	}
	if kind != OpenMPI && kind != Hydra {
		return true
	}
	symbols, _ := library.DynamicSymbols()
	for _, s := range symbols {
		if s.Name == "ompi_mpi_comm_world" {
			return kind == OpenMPI
		}
	}
	return kind == Hydra
}
