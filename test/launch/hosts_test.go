package launch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/hosts"
)

// networkless lets the UCX of MPICH speak TCP only.
func networkless() []string { return append(environment(), "UCX_TLS=tcp,self") }

// quiet is how a job on two hosts ends when nothing happens to it. Between
// hosts without fast network the MPI_Finalize of MPICH 4.0 hangs now and then
// by itself: one rank waits for an answer over tcp while the other sits in the
// barrier of the process manager (without mpitrace: 2 of 40 runs with 2 ranks,
// 6 of 12 with 4). Its ranks leave by exit, then.
func (m mpi) quiet() []string {
	if m.Name == "mpich" {
		return []string{"early"}
	}
	return []string{"ok", "early"}
}

// TestHosts: whatever happens to one rank, on the host of the launcher or on
// the other, one mpitrace run gives the whole result of both hosts.
func TestHosts(t *testing.T) {
	for _, m := range mpis {
		program := m.program(t)
		for _, ending := range append(m.quiet(), "kill 0", "kill 1", "kill 2", "abort 1", "term 3", "immediate") {
			t.Run(m.Name+"/"+ending, func(t *testing.T) {
				h, dir := hosts.New(t, 2), t.TempDir()
				command := h.Across(m.MPI, append([]string{program}, strings.Fields(ending)...)...)
				recorded, launcher := recordStatus(t, 4, command)
				got := run(t, dir, networkless(), h.OnIn(0, dir, traced(dir, recorded)...)...)
				launcher.want(t, got)
				if ending == "ok" && got.status != 0 {
					t.Errorf("status %d\n%s\n%s", got.status, got.stdout, got.stderr)
				}
				wantLine(t, got, "result in out (4 ranks, 2 nodes)")
				wantRanks(t, filepath.Join(dir, "out"), 4)
				wantEmpty(t, h)
			})
		}
	}
}

// wantEmpty demands that no host keeps anything in shared memory. The last rank
// of the other host may still be removing what it wrote down.
func wantEmpty(t *testing.T, h *hosts.Hosts) {
	t.Helper()
	for i, pid := range h.PIDs {
		var found []string
		for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
			var err error
			if found, err = filepath.Glob(fmt.Sprintf("/proc/%d/root%s/*", pid, segment.BaseDirs()[0])); err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 || time.Now().After(end) {
				break
			}
		}
		for _, path := range found {
			inside, _ := os.ReadDir(path)
			t.Errorf("%s: left in shared memory: %s: %v", h.Names[i], path, inside)
		}
	}
}

// TestHostsCollected: mpitrace run is killed with the job; collect on each
// host gives the whole.
func TestHostsCollected(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			program := m.program(t)
			h, dir := hosts.New(t, 2), t.TempDir()
			ready := filepath.Join(dir, "ready")
			p := start(t, dir, networkless(), h.OnIn(0, dir, traced(dir, h.Across(m.MPI, program, "wait", "0", ready))...))
			waitFor(t, ready)
			ranks := ranksOf(t, program, ready)
			job := jobOf(t, ranks[0])
			_ = syscall.Kill(p.Process.Pid, syscall.SIGKILL) // nsenter became mpitrace
			for _, pid := range ranks {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				waitGone(t, pid)
			}
			p.end(t)
			for i := range h.Names {
				got := run(t, dir, environment(), h.OnIn(i, dir, mpitrace, "collect", "--job", job, "-o", filepath.Join(dir, "out"))...)
				wantLine(t, got, "collected 2 processes into")
			}
			wantRanks(t, filepath.Join(dir, "out"), 4)
		})
	}
}

// TestHostsKept: --keep-segments holds on all hosts, and for collect by any word
// for yes.
func TestHostsKept(t *testing.T) {
	m := mpis[0]
	program := m.program(t)
	h, dir := hosts.New(t, 2), t.TempDir()
	command := slices.Concat([]string{mpitrace, "run", "--keep-segments", "-o", "out", "--"}, h.Across(m.MPI, program, "kill", "1"))
	wantLine(t, run(t, dir, networkless(), h.OnIn(0, dir, command...)...), "result in out (4 ranks, 2 nodes)")
	wantRanks(t, filepath.Join(dir, "out"), 4)
	env := append(environment(), "MPITRACE_KEEP_SEGMENTS=yes")
	for i, pid := range h.PIDs {
		got := run(t, dir, env, h.OnIn(i, dir, mpitrace, "collect", "-o", "again")...)
		wantLine(t, got, "collected 2 processes into")
		kept, err := filepath.Glob(fmt.Sprintf("/proc/%d/root%s/*/*.seg", pid, segment.BaseDirs()[0]))
		if err != nil || len(kept) != 2 {
			t.Errorf("%s: %v, %v: want the segments of 2 ranks kept", h.Names[i], kept, err)
		}
	}
}

// ranksOf finds the processes that run a program with an argument of this
// test's own.
func ranksOf(t *testing.T, program, argument string) []int {
	t.Helper()
	var out []int
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		words := strings.Split(string(text), "\x00")
		if err != nil || words[0] != program || !slices.Contains(words, argument) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil {
			out = append(out, pid)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no process runs %s %s", program, argument)
	}
	return out
}
