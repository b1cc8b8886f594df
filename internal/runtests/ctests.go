package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// cLimit bounds one C test; none needs more than a few seconds.
const cLimit = 3 * time.Minute

// sanitizers of the C tests: how each is asked for, and the compiler to use.
var sanitizers = []struct {
	name, cc string
	flags    []string
}{
	{"plain", "gcc", []string{"-O2"}},
	{"plain", "clang", []string{"-O2"}},
	{"address,undefined", "gcc", []string{"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}},
	{"thread", "gcc", []string{"-O1", "-fsanitize=thread"}},
}

// cTests builds each c/test/*_test.c with the sources its first line names
// ("/* sources: c/probe/a.c c/probe/b.c */") and runs it under every
// sanitizer; then the tests that need an MPI (c/test/mpi_*.c), once per MPI.
func cTests(t *tally) {
	dir, err := os.MkdirTemp("", "mpitrace-ctest")
	if err != nil {
		fmt.Println(err)
		t.fail("c tests")
		return
	}
	defer os.RemoveAll(dir)
	tests, _ := filepath.Glob("c/test/*_test.c")
	for _, path := range tests {
		for _, s := range sanitizers {
			args := append([]string{"-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"}, s.flags...)
			name := fmt.Sprintf("%s (%s, %s)", filepath.Base(path), s.cc, s.name)
			buildAndRun(t, name, dir, s.cc, append(args, path), sourcesOf(path))
		}
	}
	facts, _ := filepath.Glob("c/test/mpi_*.c")
	for _, path := range facts {
		for mpi, define := range map[string]string{"openmpi": "-DMT_ABI_OPENMPI=1", "mpich": "-DMT_ABI_MPICH=1"} {
			name := fmt.Sprintf("%s (%s)", filepath.Base(path), mpi)
			buildAndRun(t, name, dir, "mpicc."+mpi, []string{"-std=gnu11", "-Wall", "-Wno-deprecated-declarations", "-Werror", define, path}, sourcesOf(path))
		}
	}
	if len(tests) == 0 || len(facts) == 0 {
		t.fail("c/test is empty")
	}
}

// sourcesOf reads the first line of a test: which sources it is built with. A
// name may be a pattern.
func sourcesOf(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	line = bytes.TrimSuffix(bytes.TrimPrefix(line, []byte("/* sources:")), []byte("*/"))
	var sources []string
	for _, name := range strings.Fields(string(line)) {
		files, err := filepath.Glob(name)
		if err != nil || len(files) == 0 {
			files = []string{name} // the compiler says that it is not there
		}
		sources = append(sources, files...)
	}
	return sources
}

func buildAndRun(t *tally, name, dir, cc string, args, sources []string) {
	exe := filepath.Join(dir, "test")
	args = append(append(args, sources...), "-o", exe, "-lpthread", "-ldl", "-lm")
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		fmt.Printf("%s %s\n%s", cc, strings.Join(args, " "), out)
		t.fail(name)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("not finished after %v", cLimit)
	}
	if err != nil {
		fmt.Printf("%s: %v\n%s", name, err, out)
		t.fail(name)
		return
	}
	t.pass()
}
