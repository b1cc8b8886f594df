package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/internal/launch"
)

// family is a family of MPI libraries, which the shim tells apart by the
// number in the name of the C library.
type family struct {
	name      string
	libraries []string // file name patterns
	kind      launch.Kind
	install   string
}

var families = []family{
	{"Open MPI", []string{"libmpi.so.40*", "libmpi.so.80*"}, launch.OpenMPI, "apt-get install openmpi-bin"},
	{"MPICH family", []string{"libmpi.so.12*", "libmpich.so.12*", "libmpich.so.1[0-9]", "libmpi_cray.so*"}, launch.Hydra, "apt-get install mpich"},
}

// mpis looks for MPI libraries and their launchers. One family is enough.
func mpis() []Check {
	launchers := findLaunchers()
	var checks []Check
	any := false
	for _, f := range families {
		libraries := find(f.libraries)
		c := Check{Name: f.name, Grade: OK}
		switch of := launchers[f.kind]; {
		case len(libraries) == 0 && len(of) == 0:
			c.Grade, c.Found = Warn, "not found"
			c.Mend = "nothing, unless you use it: load its module, or " + f.install
		case len(of) == 0:
			c.Grade, c.Found = Warn, "library "+libraries[0]+", no launcher in PATH"
			c.Mend = "put its mpirun or mpiexec into PATH, or use srun"
			any = true
		case len(libraries) == 0:
			c.Found = strings.Join(of, ", ") + "; its library is not in the directories of the system"
			any = true
		default:
			c.Found = libraries[0] + "; " + strings.Join(of, ", ")
			any = true
		}
		checks = append(checks, c)
	}
	if !any {
		for i := range checks {
			checks[i].Grade = Fail
			checks[i].Mend = strings.TrimPrefix(checks[i].Mend, "nothing, unless you use it: ")
		}
	}
	if _, err := exec.LookPath("srun"); err == nil {
		checks = append(checks, Check{Name: "Slurm", Grade: OK, Found: "srun in PATH"})
	}
	return checks
}

// find returns the libraries that match a pattern, in the directories of
// LD_LIBRARY_PATH and of the system and those below them that MPIs use.
func find(patterns []string) []string {
	dirs := append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), launch.SystemLibraryDirs()...)
	for _, dir := range dirs[:len(dirs):len(dirs)] {
		for _, sub := range []string{"openmpi/lib", "mpich/lib", "mpich"} {
			dirs = append(dirs, filepath.Join(dir, sub))
		}
	}
	var found []string
	for _, dir := range dirs {
		for _, pattern := range patterns {
			matches, _ := filepath.Glob(filepath.Join(dir, pattern))
			found = append(found, matches...)
		}
	}
	return found
}

// findLaunchers returns the launchers in PATH by kind, with their version.
func findLaunchers() map[launch.Kind][]string {
	out := map[launch.Kind][]string{}
	var seen []string
	for _, name := range []string{"mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.hydra", "mpiexec.mpich", "prterun"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		resolved, err := filepath.EvalSymlinks(path)
		if err != nil || slices.Contains(seen, resolved) {
			continue
		}
		seen = append(seen, resolved)
		kind := launch.Recognise(path, launch.Version)
		out[kind] = append(out[kind], fmt.Sprintf("%s %s", path, number(launch.Version(path))))
	}
	return out
}

// number is the first word of a text that looks like a version.
func number(text string) string {
	for _, word := range strings.Fields(text) {
		if word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return strings.Trim(word, "(),;")
		}
	}
	return "(version unknown)"
}
