package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// cLimit ends a C test that hangs; none needs more than half a minute, on a machine
// that is not loaded.
const cLimit = 15 * time.Minute

// slow tests, of C and of Go, are named with their time, for whoever wants the whole to
// be faster.
const slow = 5 * time.Second

// sanitizers of the C tests: how each is asked for, and the compiler to use. What gcc
// makes without one is the library that all other tests preload.
var sanitizers = []struct {
	name, cc string
	flags    []string
}{
	{"plain", "clang", []string{"-O2"}},
	{"address,undefined", "gcc", []string{"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}},
	{"thread", "gcc", []string{"-O1", "-fsanitize=thread"}},
}

// cTests builds each c/test/*_test.c with the sources its first line names
// ("/* sources: c/probe/a.c c/probe/b.c */") and runs it under every
// sanitizer, as many at once as there are processors; then the tests that need an MPI
// (c/test/mpi_*.c), once per MPI.
func cTests(t *tally) {
	dir, err := os.MkdirTemp("", "mpitrace-ctest")
	if err != nil {
		t.fail("c tests", err.Error()+"\n")
		return
	}
	defer os.RemoveAll(dir)
	tests, _ := filepath.Glob("c/test/*_test.c")
	var runs []func()
	for _, s := range sanitizers {
		flags := append([]string{"-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"}, s.flags...)
		o := objects{dir: filepath.Join(dir, s.cc+" "+s.name), cc: s.cc, flags: flags}
		o.make(tests)
		for _, path := range tests {
			name := fmt.Sprintf("%s (%s, %s)", filepath.Base(path), s.cc, s.name)
			runs = append(runs, func() { buildAndRun(t, name, o.dir, s.cc, flags, o.of(path)) })
		}
	}
	atOnce(runs)
	facts, _ := filepath.Glob("c/test/mpi_*.c")
	for _, path := range facts {
		for mpi, define := range map[string]string{"openmpi": "-DMT_ABI_OPENMPI=1", "mpich": "-DMT_ABI_MPICH=1"} {
			name := fmt.Sprintf("%s (%s)", filepath.Base(path), mpi)
			flags := []string{"-std=gnu11", "-Wall", "-Wno-deprecated-declarations", "-Werror", define}
			buildAndRun(t, name, dir, "mpicc."+mpi, flags, append(sourcesOf(path), path))
		}
	}
	if len(tests) == 0 || len(facts) == 0 {
		t.fail("c/test is empty", "")
	}
}

// objects are sources compiled once for all tests, by one compiler with the same
// flags.
type objects struct {
	dir, cc string
	flags   []string
}

func (o *objects) of(path string) []string {
	var out []string
	for _, source := range append(sourcesOf(path), path) {
		out = append(out, filepath.Join(o.dir, strings.ReplaceAll(source, "/", "_")+".o"))
	}
	return out
}

// make compiles what tests need. A source that does not compile leaves no object,
// which its tests will miss.
func (o *objects) make(tests []string) {
	sources := map[string]bool{}
	for _, path := range tests {
		sources[path] = true
		for _, source := range sourcesOf(path) {
			sources[source] = true
		}
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		fmt.Println(err)
		return
	}
	var compiles []func()
	for source := range sources {
		object := filepath.Join(o.dir, strings.ReplaceAll(source, "/", "_")+".o")
		args := append(slices.Clone(o.flags), "-c", source, "-o", object)
		compiles = append(compiles, func() {
			if out, err := exec.Command(o.cc, args...).CombinedOutput(); err != nil {
				fmt.Printf("%s %s\n%s", o.cc, strings.Join(args, " "), out)
			}
		})
	}
	atOnce(compiles)
}

// atOnce calls functions, as many at once as there are processors.
func atOnce(functions []func()) {
	var group sync.WaitGroup
	turn := make(chan bool, runtime.NumCPU())
	for _, f := range functions {
		turn <- true
		group.Go(func() {
			defer func() { <-turn }()
			f()
		})
	}
	group.Wait()
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

// buildAndRun links files, sources or objects, and runs what comes of it.
func buildAndRun(t *tally, name, dir, cc string, flags, files []string) {
	exe := filepath.Join(dir, name)
	args := append(slices.Concat(flags, files), "-o", exe, "-lpthread", "-ldl", "-lm")
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.fail(name, fmt.Sprintf("%s %s\n%s", cc, strings.Join(args, " "), out))
		return
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), cLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("not finished after %v", cLimit)
	}
	if err != nil {
		t.fail(name, fmt.Sprintf("%v\n%s", err, out))
		return
	}
	if took := time.Since(begin); took > slow {
		fmt.Printf("ok   %s %.0f s\n", name, took.Seconds())
	}
	t.pass()
}
