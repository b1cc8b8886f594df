package passtable

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

const python = "/usr/bin/python3"

// harness knows where everything is.
type harness struct {
	programs string // test/programs
	cache    string // what was built from it
	shim     string // libmpishim.so
	command  string // mpitrace
	runs     string // a directory of each run is made here
	segments string // segment directory of all runs
}

// newHarness finds the products of make build.
func newHarness(t *testing.T) *harness {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{
		programs: filepath.Join(root, "test", "programs"),
		cache:    filepath.Join(root, "build", "test"),
		shim:     filepath.Join(root, "build", "libmpishim.so"),
		command:  filepath.Join(root, "build", "mpitrace"),
		runs:     t.TempDir(),
		segments: fmt.Sprintf("/dev/shm/mpitrace-passtable-%d", os.Getpid()),
	}
	for _, product := range []string{h.shim, h.command} {
		if _, err := os.Stat(product); err != nil {
			t.Fatalf("%v: run make build first", err)
		}
	}
	t.Cleanup(func() { os.RemoveAll(h.segments) })
	return h
}

// build compiles a program for m and returns its path; a .py is itself the
// program. A product newer than its source and program.h is taken as it is.
func (h *harness) build(m *mpi, program string, flags ...string) (string, error) {
	source := filepath.Join(h.programs, program)
	if filepath.Ext(program) == ".py" {
		return source, nil
	}
	name := strings.Join(append([]string{program}, flags...), "")
	target := filepath.Join(h.cache, m.Name, strings.NewReplacer("/", "_", " ", "").Replace(name))
	if newer(target, source, filepath.Join(h.programs, "program.h")) {
		return target, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", fmt.Errorf("building %s: %w", program, err)
	}
	args := append(compiler(m, program), flags...)
	args = append(args, source, "-ldl", "-lm", "-pthread")
	return target, mpijob.Compile(args[0], target, args[1:]...)
}

// library is build for a preloaded library or plug-in.
func (h *harness) library(m *mpi, source string) (string, error) {
	return h.build(m, source, "-shared", "-fPIC")
}

// compiler gives the command and its options for the language of the program.
func compiler(m *mpi, program string) []string {
	switch filepath.Ext(program) {
	case ".cpp":
		return []string{m.CXX, "-O2", "-g"}
	case ".f", ".f90":
		return []string{m.FC, "-O2", "-g", "-ffixed-line-length-none", "-fallow-argument-mismatch"}
	}
	if withoutMPI[program] {
		return []string{"gcc", "-std=gnu11", "-O2", "-g"}
	}
	return []string{m.CC, "-std=gnu11", "-O2", "-g", "-Wno-stringop-overflow"}
}

// withoutMPI are the programs that must not be linked with MPI.
var withoutMPI = map[string]bool{"plugin_host.c": true, "preload_other.c": true}

// newer tells whether target exists and is newer than all sources.
func newer(target string, sources ...string) bool {
	made, err := os.Stat(target)
	if err != nil {
		return false
	}
	for _, source := range sources {
		info, err := os.Stat(source)
		if err != nil || info.ModTime().After(made.ModTime()) {
			return false
		}
	}
	return true
}
