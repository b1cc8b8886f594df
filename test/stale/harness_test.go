package stale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/memmon"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

var cycles = flag.Int("cycles", 500, "how often each way is gone")

// limit bounds the time in which a program does not come nearer to its end.
const limit = 10 * time.Minute

// need skips a test where the kernel or the privilege is missing, but never in CI.
func need(t *testing.T, err error) {
	t.Helper()
	var n *memmon.NotSupportedError
	if errors.As(err, &n) {
		err = mpijob.Missing(n.What, n.Mend)
	}
	mpijob.Need(t, err)
}

// helper serves until the test ends and returns its socket.
func helper(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memmon.sock")
	s, err := memmon.New(memmon.Options{Socket: path})
	need(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return path
}

// build compiles the torture program; programs are the same with an MPI.
func build(t *testing.T, cc string, flags ...string) string {
	t.Helper()
	need(t, mpijob.Tools("gcc libopenmpi-dev libmpich-dev", cc))
	exe := filepath.Join(t.TempDir(), "stale")
	sources := []string{"stale.c", "ways_place.c", "ways_libc.c", "ways_raw.c", "ways_file.c", "ways_process.c"}
	for i, s := range sources {
		sources[i] = filepath.Join("programs", s)
	}
	compile(t, cc, exe, append(flags, sources...)...)
	return exe
}

func compile(t *testing.T, cc, exe string, args ...string) {
	t.Helper()
	monitor, err := filepath.Glob("../../c/memhook/*.c")
	if err != nil || len(monitor) == 0 {
		t.Fatalf("c/memhook has no sources (%v)", err)
	}
	args = append([]string{"-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror"}, args...)
	args = append(append(args, monitor...), "-lpthread", "-ldl")
	if err := mpijob.Compile(cc, exe, args...); err != nil {
		t.Fatal(err)
	}
}

// ways are all ways that the program knows.
func ways(t *testing.T, exe string) []string {
	t.Helper()
	out, err := exec.Command(exe, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// counts is what a run of a way found.
type counts struct {
	way                         string
	cycles, reused, hits, stale int
	monitor                     string // who watched
	said                        string // by the program, in all ranks
}

// unsupported is the program's exit status where the kernel lacks a call.
const unsupported = 77

// run goes the ways and returns what each found, for each rank.
func run(t *testing.T, env []string, argv ...string) []counts {
	t.Helper()
	p, err := mpijob.StartTelling(limit, mpijob.Environ(env...), argv)
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if o.Status == unsupported && os.Getenv("CI") != "true" {
		t.Skipf("this kernel cannot: %s", o.Stderr)
	}
	if o.Status != 0 || o.TimedOut {
		t.Fatalf("%v: status %d, timed out %v\n%s%s", argv, o.Status, o.TimedOut, o.Stdout, o.Stderr)
	}
	all := parse(t, string(o.Stdout))
	for i := range all {
		all[i].said = string(o.Stderr)
	}
	return all
}

// parse reads what the program found, and logs it.
func parse(t *testing.T, text string) []counts {
	t.Helper()
	var all []counts
	for line := range strings.Lines(text) {
		var c counts
		if n, err := fmt.Sscanf(line, "%s cycles %d reused %d hits %d stale %d monitor %s", &c.way, &c.cycles, &c.reused, &c.hits, &c.stale, &c.monitor); err != nil || n != 6 {
			continue
		}
		c.way = strings.TrimSuffix(c.way, ":")
		t.Logf("%s: %s", t.Name(), strings.TrimSpace(line))
		all = append(all, c)
	}
	if len(all) == 0 {
		t.Fatalf("no counts in %q", text)
	}
	return all
}

// single is run of one way on this machine, without an MPI.
func single(t *testing.T, exe, way string, threads int, env ...string) counts {
	t.Helper()
	c := run(t, env, exe, way, fmt.Sprint(*cycles), fmt.Sprint(threads))[0]
	if c.cycles != *cycles/threads*threads {
		t.Errorf("%s: %d cycles, not %d", way, c.cycles, *cycles)
	}
	return c
}

// most says whether a count is nearly as large as it could be: an address comes
// back, and a fresh registration is found, unless something else happens nearby.
func most(n, of int) bool { return n >= of*9/10 }

// expectFresh is what a monitor that sees a way must find.
func expectFresh(t *testing.T, c counts) {
	t.Helper()
	if c.stale != 0 {
		t.Errorf("%s: %d of %d stale", c.way, c.stale, c.cycles)
	}
	if !most(c.hits, c.cycles) || !most(c.reused, c.cycles) {
		t.Errorf("%s proves nothing: of %d cycles %d found what was registered, and %d the address again", c.way, c.cycles, c.hits, c.reused)
	}
}

// expectStale is what must be found by a monitor that does not see a way.
func expectStale(t *testing.T, c counts) {
	t.Helper()
	if !most(c.stale, c.cycles) {
		t.Errorf("%s: %d of %d stale: it is seen after all (the documentation says it is not), or loses nothing", c.way, c.stale, c.cycles)
	}
}

// expectRefused is what must be found where libucm refuses: each process says once
// why, and no registration is kept.
func expectRefused(t *testing.T, why string, all []counts) {
	t.Helper()
	for _, c := range all {
		if c.monitor != "none" || c.hits != 0 || c.stale != 0 {
			t.Errorf("want nothing kept: %+v", c)
		}
	}
	line := "nobody watches memory, so no registration is kept (kernel monitor not wanted; " + why
	if said := all[0].said; strings.Count(said, line) != len(all) {
		t.Errorf("of %d processes each must say once %q: %q", len(all), line, said)
	}
}

func without(all []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(w string) bool { return slices.Contains(some, w) })
}
