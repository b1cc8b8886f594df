package mpijob

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAcross: the words that say on which hosts take the place of the launcher, behind
// what is given it and before what is said to the ranks.
func TestAcross(t *testing.T) {
	for _, m := range All {
		job := Job{MPI: m, Ranks: 4, Argv: []string{"./program", "7"}, Env: []string{"A=b"}, Before: []string{"mpitrace", "run", "--"}}
		here := strings.Join(job.Command(), " ")
		job.Across = []string{"launcher", "-hosts", "one,two"}
		there := strings.Join(job.Command(), " ")
		if !strings.HasPrefix(here, "mpitrace run -- "+m.Launcher+" ") || !strings.HasPrefix(there, "mpitrace run -- launcher -hosts one,two ") {
			t.Errorf("%s: %q and %q", m.Name, here, there)
		}
		for _, line := range []string{here, there} {
			if !strings.Contains(line, " A") || !strings.HasSuffix(line, " -n 4 ./program 7") {
				t.Errorf("%s: %q", m.Name, line)
			}
		}
	}
}

// TestMemory: no machine lacks nothing, none has a million GiB.
func TestMemory(t *testing.T) {
	if err := Memory(0); err != nil {
		t.Error(err)
	}
	if err := Memory(1 << 30); !errors.As(err, new(missing)) {
		t.Errorf("%v", err)
	}
}

// TestTelling: a command that prints has its time anew, and none when it is
// silent.
func TestTelling(t *testing.T) {
	script := `for i in $(seq 40); do echo $i; sleep 0.5; done; sleep 1000`
	p, err := StartTelling(15*time.Second, Environ(), []string{"sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := p.Wait(); err != nil || !out.TimedOut || !strings.HasSuffix(string(out.Stdout), "\n40\n") {
		t.Errorf("%+v, %v", out, err)
	}
}

// patience is for what happens soon, unless the machine is busy.
const patience = 2 * time.Minute

// runs says whether a process runs that was given dir; one that was killed does so
// until it gets to a processor.
func runs(pid, dir string) bool {
	line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	return err == nil && strings.Contains(string(line), dir)
}

// TestLimit: nothing is left of a job whose time is over, not even when its
// launcher hangs and its ranks are deaf to SIGTERM.
func TestLimit(t *testing.T) {
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			Need(t, m.Missing())
			dir := t.TempDir()
			script := `trap "" TERM; touch "$0/$$"; while :; do sleep 0.1; done`
			job := Job{MPI: m, Ranks: 2, Argv: []string{"sh", "-c", script, dir}}
			p, err := Start(patience, dir, Environ(), job.Command(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var ranks []string
			for len(ranks) < 2 && p.ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
				ranks, _ = filepath.Glob(filepath.Join(dir, "*"))
			}
			_ = p.Process.Signal(syscall.SIGSTOP)
			p.timer.Reset(0)
			if out, err := p.Wait(); err != nil || !out.TimedOut || out.Status != 137 || len(ranks) != 2 {
				t.Errorf("%+v, %v, ranks %q", out, err, ranks)
			}
			for _, rank := range ranks {
				for end := time.Now().Add(patience); runs(filepath.Base(rank), dir); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("rank %s still runs", rank)
					}
				}
			}
		})
	}
}
