package launch_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endings are the ways in which rank.c ends.
var endings = []string{"ok", "status", "early", "immediate", "term", "kill", "segv", "abort"}

// victim is the rank that dies in a job of several.
const victim = 2

// TestEndings: with each launcher, whatever happens to one rank, all ranks
// are in the result with all they counted, output and status are those of the
// program alone, and nothing is left in shared memory.
func TestEndings(t *testing.T) {
	for _, m := range mpis {
		for _, ranks := range []int{1, 4} {
			for _, ending := range endings {
				t.Run(fmt.Sprintf("%s/%d/%s", m.Name, ranks, ending), func(t *testing.T) {
					testEnding(t, m, ranks, ending)
				})
			}
		}
	}
}

func testEnding(t *testing.T, m mpi, ranks int, ending string) {
	dir := t.TempDir()
	command := []string{m.program(t), ending}
	if ranks > 1 {
		command = m.launch(ranks, append(command, fmt.Sprint(victim))...)
	}
	recorded, launcher := recordStatus(t, ranks, command)
	alone := run(t, dir, environment(), command...)
	got := run(t, dir, environment(), traced(dir, recorded)...)
	launcher.want(t, got)
	// Hydra's own status differs from run to run where ranks do not finalize.
	varies := ranks > 1 && m.Name == "mpich" && ending != "ok" && ending != "status"
	if got.status != alone.status && !varies {
		t.Errorf("status %d, alone %d\n%s\nalone:\n%s", got.status, alone.status, got.stderr, alone.stderr)
	}
	output, expected := ranksOnly(got.stdout), ranksOnly(alone.stdout)
	if ranks > 1 && m.Name == "mpich" && ending == "abort" {
		// Hydra leaves unread what ranks printed just before MPI_Abort.
		output, expected = all(ranks, output), all(ranks, expected)
	}
	if output != expected {
		t.Errorf("output:\n%s\nalone:\n%s", output, expected)
	}
	wantLine(t, got, "result in out (")
	wantRanks(t, filepath.Join(dir, "out"), ranks)
	wantNoRest(t, dir)
}

// all is an output with the lines of ranks that are not in it.
func all(ranks int, output string) string {
	for rank := range ranks {
		if line := fmt.Sprintf("rank %d of %d", rank, ranks); !strings.Contains(output, line) {
			output += "\n" + line
		}
	}
	return lines(output)
}

// ranksOnly are the lines that the ranks printed. What a launcher says of a dead
// rank names its process.
func ranksOnly(text string) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "rank ") {
			out = append(out, line)
		}
	}
	return lines(strings.Join(out, "\n"))
}

// waiting starts a job whose ranks wait for a signal.
func waiting(t *testing.T, dir string, m mpi, ranks int) process {
	t.Helper()
	return startWaiting(t, dir, m.waiting(t, dir, ranks))
}

// waiting is the command of a job whose ranks wait for a signal.
func (m mpi) waiting(t *testing.T, dir string, ranks int) []string {
	t.Helper()
	command := []string{m.program(t), "wait", "0", filepath.Join(dir, "ready")}
	if ranks > 1 {
		command = m.launch(ranks, command...)
	}
	return command
}

// startWaiting starts such a command and waits until its ranks wait.
func startWaiting(t *testing.T, dir string, command []string) process {
	t.Helper()
	p := start(t, dir, environment(), traced(dir, command))
	waitFor(t, filepath.Join(dir, "ready"))
	return p
}

// TestSignals: what mpitrace run is sent reaches the program, or the launcher,
// which hands it on as it does.
func TestSignals(t *testing.T) {
	for _, m := range mpis {
		for _, c := range []struct {
			ranks  int
			signal syscall.Signal
			status int // 0: what the launcher makes of it
		}{
			{1, syscall.SIGTERM, 143}, {1, syscall.SIGINT, 130}, {1, syscall.SIGHUP, 129},
			{1, syscall.SIGUSR1, 3}, {1, syscall.SIGUSR2, 140},
			{4, syscall.SIGTERM, 0}, {4, syscall.SIGINT, 0},
		} {
			t.Run(fmt.Sprintf("%s/%d/%v", m.Name, c.ranks, c.signal), func(t *testing.T) {
				dir := t.TempDir()
				recorded, launcher := recordStatus(t, c.ranks, m.waiting(t, dir, c.ranks))
				p := startWaiting(t, dir, recorded)
				if err := p.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
				got := p.end(t)
				launcher.want(t, got)
				if c.status != 0 && got.status != c.status {
					t.Errorf("status %d, want %d\n%s", got.status, c.status, got.stderr)
				}
				wantLine(t, got, "result in out (")
				wantRanks(t, filepath.Join(dir, "out"), c.ranks)
				wantNoRest(t, dir)
			})
		}
	}
}

// TestSignalAfterEnd: a signal after the command has ended ends the waiting for
// its ranks; the result is there, and the status is the command's.
func TestSignalAfterEnd(t *testing.T) {
	dir := t.TempDir()
	script := `"$0" ok; "$0" wait 0 ready & echo $! > rank; while ! test -e ready; do sleep 0.1; done; exit 3`
	p := start(t, dir, environment(), traced(dir, []string{"sh", "-c", script, mpis[0].program(t)}))
	waitFor(t, filepath.Join(dir, "ready"))
	ended := make(chan ran)
	go func() { ended <- p.end(t) }()
	var got ran
	for running := true; running; {
		select {
		case got = <-ended:
			running = false
		case <-time.After(100 * time.Millisecond):
			if len(childrenOf(t, p.Process.Pid)) == 0 {
				_ = p.Process.Signal(syscall.SIGTERM)
			}
		}
	}
	if got.status != 3 {
		t.Errorf("status %d, want 3", got.status)
	}
	var rank int
	text, err := os.ReadFile(filepath.Join(dir, "rank"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &rank)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(rank, syscall.SIGKILL)
	wantLine(t, got, "result in out (1 rank, 1 node; 1 process still run")
	if _, err := os.Stat(filepath.Join(dir, "out", "job.json")); err != nil {
		t.Error(err)
	}
}

// TestStop: SIGTSTP stops the program and mpitrace, SIGCONT lets both go on.
func TestStop(t *testing.T) {
	dir := t.TempDir()
	p := waiting(t, dir, mpis[0], 1)
	child := children(t, p.Process.Pid)[0]
	if err := p.Process.Signal(syscall.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	waitState(t, p.Process.Pid, "T")
	waitState(t, child, "T")
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waitState(t, p.Process.Pid, "SR")
	waitState(t, child, "SR")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.end(t); got.status != 143 {
		t.Errorf("status %d, want 143", got.status)
	}
}

// TestLauncherKilled: the launcher dies without a word; its ranks follow, and
// the result has them.
func TestLauncherKilled(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			p := waiting(t, dir, m, 4)
			if err := syscall.Kill(children(t, p.Process.Pid)[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			got := p.end(t)
			if got.status != 137 {
				t.Errorf("status %d, want 137", got.status)
			}
			wantLine(t, got, "result in out (4 ranks, 1 node)")
			wantRanks(t, filepath.Join(dir, "out"), 4)
		})
	}
}

// TestRunKilled: mpitrace run and all ranks die at once; mpitrace collect
// finds what they left.
func TestRunKilled(t *testing.T) {
	dir := t.TempDir()
	p := waiting(t, dir, mpis[0], 1)
	child := children(t, p.Process.Pid)[0]
	if err := syscall.Kill(p.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	job := jobOf(t, child)
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.end(t)
	waitGone(t, child)
	got := run(t, dir, environment(), mpitrace, "collect", "--job", job, "-o", filepath.Join(dir, "out"))
	wantLine(t, got, "collected 1 process into out")
	wantRanks(t, filepath.Join(dir, "out"), 1)
	again := run(t, dir, environment(), mpitrace, "collect", "--job", job, "-o", filepath.Join(dir, "out"))
	wantLine(t, again, "no dead process left anything")
}

// TestUnwritable: where the result cannot be written, run says so and where the
// figures are.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	p := waiting(t, dir, mpis[0], 1)
	if err := errors.Join(os.Remove(out), os.WriteFile(out, nil, 0o600), p.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	got := p.end(t)
	if got.status != 143 {
		t.Errorf("status %d, want 143", got.status)
	}
	wantLine(t, got, "the result could not be written: ")
	_, hint, _ := strings.Cut(got.stderr, "what was measured is in shared memory: mpitrace collect --job ")
	id, _, _ := strings.Cut(hint, " -o DIR\n")
	again := run(t, dir, environment(), mpitrace, "collect", "--job", id, "-o", "elsewhere")
	wantLine(t, again, "collected 1 process into elsewhere")
	wantRanks(t, filepath.Join(dir, "elsewhere"), 1)
}

// TestUnreadable: where it cannot be read, run does not say that there is none.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	script := `"$0" ok && for file in out/*.mtn; do echo broken > "$file"; done`
	got := run(t, dir, environment(), traced(dir, []string{"sh", "-c", script, mpis[0].program(t)})...)
	wantLine(t, got, "the result cannot be read: ")
	if got.status != 0 {
		t.Errorf("status %d, want 0", got.status)
	}
}

// TestPlainPreload: LD_PRELOAD without mpitrace run; a killed rank is collected
// afterwards.
func TestPlainPreload(t *testing.T) {
	dir := t.TempDir()
	program := mpis[0].program(t)
	id := fmt.Sprint("plain-preload-", os.Getpid()) // what another run left is not found
	env := append(environment(), "LD_PRELOAD="+shim, "MPITRACE_OUTPUT="+filepath.Join(dir, "out"), "MPITRACE_JOB_ID="+id)
	if got := run(t, dir, env, program, "kill"); got.status != 137 {
		t.Errorf("status %d, want 137", got.status)
	}
	got := run(t, dir, environment(), mpitrace, "collect", "--job", id, "-o", "out")
	wantLine(t, got, "collected 1 process into out")
	wantRanks(t, filepath.Join(dir, "out"), 1)
}

// children are the processes that a process started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	out := childrenOf(t, pid)
	if len(out) == 0 {
		t.Fatalf("process %d has no children", pid)
	}
	return out
}

// childrenOf is the same where there may be none.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	var out []int
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				out = append(out, child)
			}
		}
	}
	slices.Sort(out)
	return out
}

// jobOf is the job id in the environment of a process.
func jobOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range strings.Split(string(text), "\x00") {
		if job, ok := strings.CutPrefix(entry, "MPITRACE_JOB_ID="); ok {
			return job
		}
	}
	t.Fatalf("process %d has no MPITRACE_JOB_ID", pid)
	return ""
}

// stateOf is the state letter of a process, empty if it does not exist.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	return fields[0]
}
