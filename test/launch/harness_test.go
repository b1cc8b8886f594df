// Package launch_test runs real MPI programs under mpitrace run: every
// launcher, every kind of death. docs/launchers.md states what these tests
// prove.
package launch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/segment"
)

// limit bounds one run; it only serves to end a test that hangs.
const limit = 2 * time.Minute

// exchanges is how often each rank of rank.c calls MPI_Sendrecv.
const exchanges = 10

// missing is the only reason to skip a test: the machine lacks something.
type missing struct{ what, mend string }

func (m missing) Error() string { return m.what + " is missing: " + m.mend }

// need skips the test for want of something, and fails it where the machine
// is expected to have everything.
func need(t *testing.T, err error) {
	t.Helper()
	var m missing
	if err == nil {
		return
	}
	if errors.As(err, &m) && os.Getenv("CI") != "true" {
		t.Skip(m.Error())
	}
	t.Fatal(err)
}

// paths of what is tested, made by TestMain.
var mpitrace, shim, scratch string

func TestMain(m *testing.M) {
	status, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

func prepare(m *testing.M) (int, error) {
	var err error
	if scratch, err = os.MkdirTemp("", "mpitrace-launch-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	// Slurm's daemons and other users' processes must be able to pass.
	if err := os.Chmod(scratch, 0o755); err != nil {
		return 1, err
	}
	mpitrace = filepath.Join(scratch, "mpitrace")
	cmd := exec.Command("go", "build", "-o", mpitrace, "github.com/mpitrace/mpitrace/cmd/mpitrace")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	// A copy: a build at the same time does not change it under the ranks.
	if err = copyShim(); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// copyShim copies the library that make build left; without one, programs skip.
func copyShim() error {
	shim = filepath.Join(scratch, "libmpishim.so")
	library, err := os.ReadFile("../../build/libmpishim.so")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(shim, library, 0o755)
}

// mpi is an MPI to test with.
type mpi struct {
	name, cc, run string
	options       []string
	install       string
}

var mpis = []mpi{
	{"openmpi", "mpicc.openmpi", "mpirun.openmpi", []string{"--oversubscribe"}, "apt-get install libopenmpi-dev openmpi-bin"},
	{"mpich", "mpicc.mpich", "mpiexec.hydra", nil, "apt-get install libmpich-dev mpich"},
}

// program compiles testdata/rank.c, once for each MPI.
func (m mpi) program(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(shim); err != nil {
		need(t, missing{"build/libmpishim.so", "make build"})
	}
	for _, tool := range []string{m.cc, m.run} {
		if _, err := exec.LookPath(tool); err != nil {
			need(t, missing{tool, m.install})
		}
	}
	path := filepath.Join(scratch, "rank."+m.name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	out, err := exec.Command(m.cc, "-g", "-o", path, "testdata/rank.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", m.cc, err, out)
	}
	return path
}

// launch is the command that starts n ranks of a program.
func (m mpi) launch(n int, words ...string) []string {
	return slices.Concat([]string{m.run}, m.options, []string{"-n", fmt.Sprint(n)}, words)
}

// environment lets Open MPI run as root, and keeps the UCX of MPICH from
// catching SIGHUP. Settings of whoever runs the tests stay back.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "MPITRACE_") })
	return append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "UCX_DEBUG_SIGNO=0")
}

// ran is what a run printed and how it ended.
type ran struct {
	status         int
	stdout, stderr string
}

// process is a command under way.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// start starts a command in its own process group, so that signals of a
// terminal do not reach it.
func start(t *testing.T, dir string, env, args []string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(args[0], args[1:]...)}
	p.Dir, p.Env, p.Stdout, p.Stderr = dir, env, &p.stdout, &p.stderr
	p.WaitDelay = 5 * time.Second
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(limit, func() { _ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) })
	t.Cleanup(func() {
		killer.Stop()
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
	})
	return p
}

// end waits for the command; its status is that of a shell.
func (p *process) end(t *testing.T) ran {
	t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%s: %v", p.Path, err)
	}
	r := ran{status: p.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: p.stderr.String()}
	if ws := p.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		r.status = 128 + int(ws.Signal())
	}
	return r
}

// run runs a command to its end.
func run(t *testing.T, dir string, env []string, args ...string) ran {
	t.Helper()
	return start(t, dir, env, args).end(t)
}

// traced is the command under mpitrace run, with its result in dir/out.
func traced(dir string, args []string) []string {
	return append([]string{mpitrace, "run", "--shim", shim, "-o", filepath.Join(dir, "out"), "--"}, args...)
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
