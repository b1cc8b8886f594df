package launch_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestMPMD: every program of a command line is measured.
func TestMPMD(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			program := m.program(t)
			command := append(m.launch(1, program, "ok"), ":", "-n", "2", program, "ok")
			got := run(t, dir, environment(), traced(dir, command)...)
			if got.status != 0 {
				t.Errorf("status %d\n%s", got.status, got.stderr)
			}
			wantLine(t, got, "result in out (3 ranks, 1 node)")
			wantRanks(t, filepath.Join(dir, "out"), 3)
		})
	}
}

// TestApplicationFile: Open MPI takes the programs from a file, and ignores
// the rest of its command line.
func TestApplicationFile(t *testing.T) {
	m, dir := mpis[0], t.TempDir()
	program := m.program(t)
	app := filepath.Join(dir, "app")
	text := "# two programs\n-n 1 " + program + " ok\n-n 1 " + program + " ok\n"
	if err := os.WriteFile(app, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := run(t, dir, environment(), traced(dir, []string{m.Launcher, "--app", app})...)
	wantLine(t, got, "result in out (2 ranks, 1 node)")
	wantRanks(t, filepath.Join(dir, "out"), 2)
}

// TestConfigFile: the same for Hydra.
func TestConfigFile(t *testing.T) {
	m, dir := mpis[1], t.TempDir()
	program := m.program(t)
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte("-n 1 "+program+" ok\n-n 1 "+program+" ok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := run(t, dir, environment(), traced(dir, []string{m.Launcher, "-configfile", file})...)
	wantLine(t, got, "result in out (2 ranks, 1 node)")
	wantRanks(t, filepath.Join(dir, "out"), 2)
}

// TestLive: while a job hangs, the report says who is stuck in what and who
// stays away; the job goes on.
func TestLive(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			program := m.program(t)
			ready := filepath.Join(dir, "ready")
			p := start(t, dir, environment(), traced(dir, m.launch(2, program, "hang", "1", ready)))
			waitFor(t, ready)
			pids := ranksOf(t, program, ready)
			job := jobOf(t, pids[0])
			var live struct {
				Job   struct{ ID, State string }
				Ranks []struct {
					Rank    int
					Current []struct{ Name string }
				}
			}
			// rank 1 may still be on its way out of the call that both made before
			for end := time.Now().Add(limit); len(live.Ranks) != 2 || len(live.Ranks[0].Current) == 0 || len(live.Ranks[1].Current) != 0; {
				if time.Now().After(end) {
					t.Fatalf("rank 0 is not seen in a call, rank 1 in none: %+v", live)
				}
				live.Ranks = nil
				got := run(t, dir, environment(), mpitrace, "report", "--live", "--json", job)
				if err := json.Unmarshal([]byte(got.stdout), &live); err != nil {
					t.Fatalf("%v: status %d, %s", err, got.status, got.stderr)
				}
			}
			if live.Job.ID != job || live.Job.State != "running" && live.Job.State != "hung" {
				t.Errorf("job %+v, want %s alive", live.Job, job)
			}
			if name := live.Ranks[0].Current[0].Name; name != "MPI_Barrier" {
				t.Errorf("rank 0 in %s, want MPI_Barrier", name)
			}
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			p.end(t)
			wantRanks(t, filepath.Join(dir, "out"), 2)
		})
	}
}

// TestSnapshot: MPI_Pcontrol(2) writes down what each rank has measured so far;
// the result counts every rank once all the same.
func TestSnapshot(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			run(t, dir, environment(), traced(dir, m.launch(2, m.program(t), "snapshot"))...)
			wantRanks(t, filepath.Join(dir, "out"), 2)
			files, err := filepath.Glob(filepath.Join(dir, "out", "snapshot-0-*.mtn"))
			if err != nil || len(files) != 2 {
				t.Fatalf("snapshots %q, %v, want one of each rank", files, err)
			}
			for _, file := range files {
				_, records, err := segment.ReadNodeFile(file)
				if err != nil || len(records) != 1 {
					t.Fatalf("%s: %d records, %v", file, len(records), err)
				}
				s, err := segment.Parse(file, records[0].Data)
				if err != nil || s.Header.State != segment.StateRunning {
					t.Errorf("%s: %v, state %d, want a rank at work", file, err, s.Header.State)
				}
			}
		})
	}
}

// TestSingletons: processes that no launcher started are worlds of their own,
// under one mpitrace run and, preloaded by hand, in one directory.
func TestSingletons(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			script := m.program(t) + " ok & " + m.program(t) + " ok & wait"
			got := run(t, dir, environment(), traced(dir, []string{"sh", "-c", script})...)
			wantLine(t, got, "result in out (2 ranks, 1 node)")
			wantRanks(t, filepath.Join(dir, "out"), 1, 1)

			byHand := t.TempDir()
			run(t, byHand, append(environment(), "LD_PRELOAD="+shim), "sh", "-c", script)
			results, err := filepath.Glob(filepath.Join(byHand, "mpitrace-*"))
			if err != nil || len(results) != 2 {
				t.Fatalf("results %q, %v, want one for each process", results, err)
			}
			for _, result := range results {
				wantRanks(t, result, 1)
			}
		})
	}
}

// TestExec: a process that runs its program again in its place has a segment of each,
// and leaves nothing behind.
func TestExec(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			out, segments := filepath.Join(dir, "out"), filepath.Join(dir, "segments")
			env := append(environment(), "LD_PRELOAD="+shim, "MPITRACE_OUTPUT="+out, "MPITRACE_SEGMENT_DIR="+segments)
			wantLine(t, run(t, dir, env, m.program(t), "exec"), "result in")
			files, _ := filepath.Glob(filepath.Join(out, "*.mtn"))
			if len(files) != 1 {
				t.Fatalf("node files %q, want one", files)
			}
			_, records, err := segment.ReadNodeFile(files[0])
			if err != nil || len(records) != 2 {
				t.Errorf("%d segments, %v, want that of each program", len(records), err)
			}
			if left, _ := filepath.Glob(filepath.Join(segments, "*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestNoLeak: neither the launcher nor its daemons on this node have the
// preload in their environment.
func TestNoLeak(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			got := run(t, dir, environment(), traced(dir, m.launch(2, m.program(t), "parent"))...)
			if n := strings.Count(got.stdout, ": 1 bytes, clean"); n != 2 {
				t.Errorf("%d parents are known to be clean, want 2:\n%s", n, got.stdout)
			}
			wantRanks(t, filepath.Join(dir, "out"), 2)
		})
	}
}

// TestOwnPreload: a library that the user preloads stays, behind ours.
func TestOwnPreload(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			libm, err := filepath.Glob("/lib/*-linux-gnu/libm.so.6")
			if err != nil || len(libm) == 0 {
				mpijob.Need(t, mpijob.Missing("libm.so.6", "apt-get install libc6"))
			}
			m.program(t)
			env := append(environment(), "LD_PRELOAD="+libm[0])
			got := run(t, dir, env, traced(dir, m.launch(1, "sh", "-c", "printenv LD_PRELOAD; sleep 1"))...)
			ours, user, _ := strings.Cut(got.stdout, ":")
			if !strings.HasPrefix(ours, strings.TrimSuffix(shim, ".so")) || user != libm[0]+"\n" {
				t.Errorf("LD_PRELOAD of the rank %q, want a variant of %s and %s", got.stdout, shim, libm[0])
			}
		})
	}
}

// TestScript: a script that calls launchers itself gives one result that
// keeps its jobs apart.
func TestScript(t *testing.T) {
	m, dir := mpis[0], t.TempDir()
	line := strings.Join(m.launch(2, m.program(t), "ok"), " ")
	script := filepath.Join(dir, "job.sh")
	text := "#!/bin/sh\n" + line + "\n" + line + " &\n" + line + "\nwait\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	got := run(t, dir, environment(), traced(dir, []string{script})...)
	wantLine(t, got, "result in out (6 ranks, 1 node)")
	wantRanks(t, filepath.Join(dir, "out"), 2, 2, 2)
}

// TestWrapper: ranks that a script starts, and not the launcher, are one world.
func TestWrapper(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			command := m.launch(2, "sh", "-c", `sh -c "$0 ok; exit \$?"; exit $?`, m.program(t))
			got := run(t, dir, environment(), traced(dir, command)...)
			if got.status != 0 {
				t.Errorf("status %d\n%s", got.status, got.stderr)
			}
			wantLine(t, got, "result in out (2 ranks, 1 node)")
			wantRanks(t, filepath.Join(dir, "out"), 2)
		})
	}
}

// TestSpawn: children of MPI_Comm_spawn are a world of their own.
func TestSpawn(t *testing.T) {
	m, dir := mpis[0], t.TempDir()
	got := run(t, dir, environment(), traced(dir, m.launch(2, m.program(t), "spawn"))...)
	if got.status != 0 {
		t.Errorf("status %d\n%s", got.status, got.stderr)
	}
	wantLine(t, got, "result in out (4 ranks, 1 node)")
	wantRanks(t, filepath.Join(dir, "out"), 2, 2)
}

// TestAtOnce: jobs that run at the same time in one directory, each with its
// own result, do not mix.
func TestAtOnce(t *testing.T) {
	var jobs []process
	var dirs []string
	for _, m := range mpis {
		for range 2 {
			dir := t.TempDir()
			dirs = append(dirs, dir)
			jobs = append(jobs, start(t, dir, environment(), traced(dir, m.launch(2, m.program(t), "kill", "1"))))
		}
	}
	for i, job := range jobs {
		got := job.end(t)
		wantLine(t, got, "result in out (2 ranks, 1 node)")
		wantRanks(t, filepath.Join(dirs[i], "out"), 2)
	}
}

// TestDefaultResult: without -o the result lies in the working directory,
// under the name of the job, and says how it came about.
func TestDefaultResult(t *testing.T) {
	dir := t.TempDir()
	program := mpis[0].program(t)
	got := run(t, dir, environment(), mpitrace, "run", "--shim", shim, "--stack", "2", "--", program, "status")
	wantLine(t, got, "result in mpitrace-20")
	found, err := filepath.Glob(filepath.Join(dir, "mpitrace-*", "job.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Schema     int
		Job        string
		Command    []string
		Launcher   string
		ExitStatus int `json:"exit_status"`
		Settings   map[string]string
	}
	if err := json.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	if job.Schema != 1 || "mpitrace-"+job.Job != filepath.Base(filepath.Dir(found[0])) || job.Launcher != "direct" ||
		job.ExitStatus != 7 || len(job.Command) != 2 || job.Settings["stack"] != "2" {
		t.Errorf("job.json: %+v", job)
	}
}

// TestQuiet: nothing on stderr.
func TestQuiet(t *testing.T) {
	dir := t.TempDir()
	got := run(t, dir, environment(), mpitrace, "run", "--quiet", "--shim", shim, "-o", "out", "--", mpis[0].program(t), "ok")
	if len(got.ours()) != 0 {
		t.Errorf("lines %q, want none", got.ours())
	}
	wantRanks(t, filepath.Join(dir, "out"), 1)
}

// TestUnread: the result is there though nobody reads what is said of it.
func TestUnread(t *testing.T) {
	m, dir := mpis[0], t.TempDir()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer write.Close()
	args := traced(dir, []string{m.program(t), "ok"})
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, environment(), write
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	wantNoRest(t, dir)
	if got := calls(t, filepath.Join(dir, "out"), "MPI_Sendrecv"); len(got) != 1 {
		t.Errorf("ranks %v, want one", got)
	}
}

// TestSettings: settings reach ranks that the launcher starts, from options
// and from the environment.
func TestSettings(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			m.program(t)
			env := append(environment(), "MPITRACE_STACK=3", "MPITRACE_CLOCK=tsc")
			command := m.launch(1, "sh", "-c", "echo $MPITRACE_STACK $MPITRACE_CLOCK $MPITRACE_SKIP $MPITRACE_SEGMENT_BYTES; sleep 1")
			args := append([]string{mpitrace, "run", "--shim", shim, "--clock", "vdso", "--skip", "liba,libb", "--segment-bytes=1M", "--"}, command...)
			got := run(t, dir, env, args...)
			if got.stdout != "3 vdso liba,libb 1048576\n" {
				t.Errorf("settings of the rank: %q\n%s", got.stdout, got.stderr)
			}
		})
	}
}
