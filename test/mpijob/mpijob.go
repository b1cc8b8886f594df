// Package mpijob knows the MPI libraries of this machine and runs small jobs
// with them, for tests and benchmarks: what their tools are called and which
// packages bring them, how each launcher passes the environment, runs as root,
// runs more ranks than processors, and how to end a job that hangs. It must
// not know anything of what a job computes.
package mpijob

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// MPI is one MPI library of Debian, by the names of its tools.
type MPI struct {
	Name        string // openmpi, mpich: the suffix of Debian's alternatives
	CC, CXX, FC string // compiler wrappers
	Launcher    string // mpirun of this library
	packages    string
}

// All lists the MPI libraries the tests know.
var All = []MPI{named("openmpi", "libopenmpi-dev openmpi-bin"), named("mpich", "libmpich-dev mpich")}

func named(name, packages string) MPI {
	return MPI{name, "mpicc." + name, "mpicxx." + name, "mpifort." + name, "mpirun." + name, packages}
}

// Parse turns a comma-separated list of names into libraries, in that order.
func Parse(list string) ([]MPI, error) {
	var out []MPI
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(All, func(m MPI) bool { return m.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("unknown MPI %q: known are openmpi and mpich", name)
		}
		out = append(out, All[i])
	}
	return out, nil
}

// missing is the only reason to skip a test: the machine lacks something.
type missing struct{ what, mend string }

func (m missing) Error() string { return m.what + " is missing: " + m.mend }

// Missing is the error that something is not on this machine, and how to mend it.
func Missing(what, mend string) error { return missing{what, mend} }

// Tools is that error for the first tool that is not installed, nil if all are.
func Tools(packages string, tools ...string) error {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return Missing(tool, "apt-get install -y "+packages)
		}
	}
	return nil
}

// Memory is that error where less memory is available than so many MiB, by
// /proc/meminfo.
func Memory(mib int) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			if kib/1024 < mib {
				return Missing(fmt.Sprintf("memory for the test (%d MiB, %d are available)", mib, kib/1024), "end other programs, or take a machine with more")
			}
			return nil
		}
	}
	return errors.New("/proc/meminfo does not say how much memory is available")
}

// Missing is that error for the tools of m.
func (m MPI) Missing() error {
	return Tools("gcc g++ gfortran "+m.packages, m.CC, m.CXX, m.FC, m.Launcher)
}

// Need ends a test because of an error: it is skipped for want of something,
// unless this is CI, where the machine is expected to have everything.
func Need(t testing.TB, err error) {
	t.Helper()
	if errors.As(err, new(missing)) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Compile has a compiler make target.
func Compile(compiler, target string, args ...string) error {
	cmd := exec.Command(compiler, append([]string{"-o", target}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// Helpers compiles into dir what has to be preloaded behind the shim for this
// MPI to run more ranks than processors, and returns the full paths. It works
// at the top of the source tree.
func (m MPI) Helpers(dir string) ([]string, error) {
	if m.Name != "mpich" {
		return nil, nil
	}
	library, err := filepath.Abs(filepath.Join(dir, "libucxnap.so"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if strings.ContainsAny(library, ": ") {
		return nil, fmt.Errorf("%s holds a colon or a space, which LD_PRELOAD cannot take: choose another folder", library)
	}
	return []string{library}, Compile("cc", library, "-O2", "-fPIC", "-shared", "-Wall", "test/mpijob/ucxnap.c", "-ldl")
}
