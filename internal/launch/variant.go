package launch

import (
	"debug/elf"
	"maps"
	"path/filepath"
	"runtime"
	"strings"
)

// functions is a set of names of MPI functions.
type functions map[string]bool

// ChooseShim returns the shim for a command: shim, which has every function, or the
// smallest variant beside it (libmpishim-3.1.so) that has all functions of the MPI
// library which the ranks will load. A program that looks whether a function exists
// then finds what it would find without us, if the library has those of one version of
// MPI. launcher is the file that is started, words those of the command and the programs
// that it names elsewhere (Plan.Programs).
//
// The MPI library is that of the programs; where none is linked with one, as an
// interpreter, what it may load: see loadable. If it is not found, or not the one that is
// loaded in the end, the shim says so in the rank.
func ChooseShim(shim string, kind Kind, launcher string, words, env []string) string {
	has := ofPrograms(words)
	if len(has) == 0 {
		has = loadable(kind, launcher, words, env)
	}
	best, least := shim, exportsOf(shim)
	maps.DeleteFunc(has, func(name string, _ bool) bool { return !least[name] })
	if len(has) == 0 {
		return shim
	}
	for _, path := range Variants(shim) {
		if set := exportsOf(path); len(set) < len(least) && set.holds(has) {
			best, least = path, set
		}
	}
	return best
}

// Variants are the files beside the shim that it may be replaced by.
func Variants(shim string) []string {
	paths, _ := filepath.Glob(strings.TrimSuffix(shim, ".so") + "-[0-9]*.so")
	return paths
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

// loadable are the functions of the MPI libraries that a program may load which is
// not linked with one: in LD_LIBRARY_PATH, where the launcher is installed, and where the
// programs are (conda, venv); in the system if there is none in these. Those of the
// launcher's family only; a script may start either, and its mpirun is that of PATH.
func loadable(kind Kind, launcher string, words, env []string) functions {
	path, _ := lookup(env, "LD_LIBRARY_PATH")
	out := ofDirectories(filepath.SplitList(path), kind)
	out.add(ofDirectories(librariesBeside(launcher), kind))
	if kind != OpenMPI && kind != Hydra {
		if mpirun, err := LookPath("mpirun"); err == nil {
			out.add(ofDirectories(librariesBeside(mpirun), kind))
		}
	}
	eachProgram(words, func(path string, _ *elf.File) {
		out.add(ofDirectories(librariesBeside(path), kind))
	})
	if len(out) == 0 {
		out = ofDirectories(SystemLibraryDirs(), kind)
	}
	return out
}

// librariesBeside are the directories of the libraries that were installed together with
// a program: a link to it (venv) first, then the program itself.
func librariesBeside(program string) []string {
	programs := []string{program}
	if resolved, err := filepath.EvalSymlinks(program); err == nil && resolved != program {
		programs = append(programs, resolved)
	}
	var dirs []string
	for _, path := range programs {
		prefix := filepath.Dir(filepath.Dir(path))
		dirs = append(dirs, filepath.Join(prefix, "lib"), filepath.Join(prefix, "lib64"))
	}
	return dirs
}

// ofDirectories are the functions in the first directory that has an MPI library.
func ofDirectories(dirs []string, kind Kind) functions {
	for _, dir := range dirs {
		if has := ofDirectory(dir, kind); len(has) > 0 {
			return has
		}
	}
	return functions{}
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
		if has["PMPI_Init"] && belongsTo(f, kind) {
			out.add(has)
		}
		f.Close()
	}
	return out
}

// belongsTo tells whether a launcher of this kind starts programs of an MPI library.
func belongsTo(library *elf.File, kind Kind) bool {
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
