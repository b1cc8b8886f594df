// Package launch_test runs real MPI programs under mpitrace run: every
// launcher, every kind of death. docs/launchers.md states what these tests
// prove.
package launch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// limit bounds one run; it only serves to end a test that hangs.
const limit = 5 * time.Minute

// exchanges is how often each rank of rank.c calls MPI_Sendrecv.
const exchanges = 10

// paths of what is tested, made by TestMain.
var mpitrace, shim, scratch string

func TestMain(m *testing.M) {
	if path := os.Getenv(statusEnv); path != "" {
		os.Exit(beLauncher(path, os.Args[1:]))
	}
	os.Exit(mpijob.Main(m, prepare))
}

func prepare(dir string) (err error) {
	scratch = dir
	// Slurm's daemons and other users' processes must be able to pass.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if mpitrace, err = mpijob.BuildCommand(dir); err != nil {
		return err
	}
	variants, err := filepath.Glob("../../build/libmpishim-*.so")
	for _, path := range variants {
		if err == nil {
			_, err = mpijob.CopyBuilt(dir, filepath.Base(path))
		}
	}
	if err == nil {
		shim, err = mpijob.CopyBuilt(dir, "libmpishim.so")
	}
	return err
}

// mpi is an MPI to test with.
type mpi struct{ mpijob.MPI }

var mpis = []mpi{{mpijob.All[0]}, {mpijob.All[1]}}

// program compiles testdata/rank.c, once for each MPI.
func (m mpi) program(t *testing.T) string {
	t.Helper()
	if shim == "" {
		mpijob.Need(t, mpijob.Missing("build/libmpishim.so", "make build"))
	}
	mpijob.Need(t, m.Missing())
	path := filepath.Join(scratch, "rank."+m.Name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := mpijob.Compile(m.CC, path, "-g", "testdata/rank.c"); err != nil {
		t.Fatal(err)
	}
	return path
}

// launch is the command that starts n ranks of a program.
func (m mpi) launch(n int, words ...string) []string {
	return mpijob.Job{MPI: m.MPI, Ranks: n, Argv: words}.Command()
}

// environment also keeps the UCX of MPICH from catching SIGHUP.
func environment() []string { return mpijob.Environ("UCX_DEBUG_SIGNO=0") }

// ran is what a run printed and how it ended.
type ran struct {
	status         int
	stdout, stderr string
}

// process is a command under way.
type process struct{ *mpijob.Running }

// start starts a command, of which nothing outlives the test.
func start(t *testing.T, dir string, env, args []string) process {
	t.Helper()
	p, err := mpijob.Start(limit, dir, env, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return process{p}
}

// end waits for the command.
func (p process) end(t *testing.T) ran {
	t.Helper()
	got, err := p.Wait()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	if got.TimedOut {
		t.Errorf("%q was still running after %v", p.Args, limit)
	}
	return ran{got.Status, string(got.Stdout), string(got.Stderr)}
}

// run runs a command to its end.
func run(t *testing.T, dir string, env []string, args ...string) ran {
	t.Helper()
	return start(t, dir, env, args).end(t)
}

// traced is the command under mpitrace run, with its result in dir/out. A rank
// that dies on a busy machine may take its time.
func traced(dir string, args []string) []string {
	return append([]string{mpitrace, "run", "--wait", (limit / 2).String(), "-o", filepath.Join(dir, "out"), "--"}, args...)
}

// ours are the lines of stderr that mpitrace wrote.
func (r ran) ours() []string {
	var out []string
	for _, line := range strings.Split(r.stderr, "\n") {
		if strings.HasPrefix(line, "mpitrace:") {
			out = append(out, line)
		}
	}
	return out
}

// lines are the lines of a text in a fixed order: ranks print when they like.
func lines(text string) string {
	list := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// calls are the calls of a function by world and rank.
func calls(t *testing.T, dir, function string) map[string]uint64 {
	t.Helper()
	result, err := segment.ReadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Problems) > 0 {
		t.Errorf("problems of the result: %v", result.Problems)
	}
	worlds := map[string]int{}
	out := map[string]uint64{}
	for _, s := range result.Segments {
		world := s.Header.WorldID()
		if _, ok := worlds[world]; !ok {
			worlds[world] = len(worlds)
		}
		key := fmt.Sprintf("%d.%d", worlds[world], s.Header.WorldRank)
		out[key] += 0
		for _, site := range s.Sites() {
			if segment.Call(site.Call).String() == function {
				out[key] += site.Calls
			}
		}
	}
	return out
}

// wantRanks demands a result with all ranks of worlds of these sizes, with
// all their exchanges.
func wantRanks(t *testing.T, dir string, sizes ...int) {
	t.Helper()
	got := calls(t, dir, "MPI_Sendrecv")
	for world, size := range sizes {
		for rank := range size {
			key := fmt.Sprintf("%d.%d", world, rank)
			if got[key] != exchanges {
				t.Errorf("world %d rank %d: %d exchanges, want %d", world, rank, got[key], exchanges)
			}
			delete(got, key)
		}
	}
	if len(got) > 0 {
		t.Errorf("ranks that should not be: %v", got)
	}
}

// wantLine demands that the last of our lines holds a text and that there is
// no other of ours.
func wantLine(t *testing.T, r ran, text string) {
	t.Helper()
	if got := r.ours(); len(got) != 1 || !strings.Contains(got[0], text) {
		t.Errorf("lines of mpitrace %q, want one with %q\nstderr:\n%s", got, text, r.stderr)
	}
}

// wantNoRest demands that the job left nothing in shared memory.
func wantNoRest(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "out", "job.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), `"job": "`)
	job, _, _ := strings.Cut(after, `"`)
	for _, base := range segment.BaseDirs() {
		if _, err := os.Stat(filepath.Join(base, job)); job == "" || err == nil {
			t.Errorf("left in shared memory: %s/%s", base, job)
		}
	}
}

// waitFor waits until a file exists.
func waitFor(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not appear", path)
		}
	}
}
