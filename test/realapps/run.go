package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// bench is what all runs share.
type bench struct {
	mpitrace string
	traced   way // that is compared with the native one
	scratch  string
	segments string // where the shim keeps its segments
	mpi      map[string]mpijob.MPI
	helpers  map[string][]string // by MPI: preloaded behind everything else
	wrong    map[string]string   // by MPI: the negative control
}

// way is how an app is started.
type way struct {
	name    string
	preload []string
	before  []string // mpitrace run and its options up to where the result goes; none: it starts by its launcher alone
}

// trace is what one run of an app has left.
type trace struct {
	lines   []string // to compare
	status  []int    // of each step
	notes   []string // lines of the shim on stderr
	results []string // result folders, one a step
	elapsed time.Duration
	problem error // the app's own check of its files, or a step out of time
}

// run starts an app in a fresh folder.
func (b *bench) run(a app, w way, limit time.Duration) (trace, error) {
	dir := filepath.Join(b.scratch, w.name)
	if err := os.RemoveAll(dir); err != nil {
		return trace{}, fmt.Errorf("empty %s: %w", dir, err)
	}
	if err := a.layOut(dir); err != nil {
		return trace{}, fmt.Errorf("input of %s: %w", a, err)
	}
	var stdin []byte
	if a.stdin != "" {
		text, err := os.ReadFile(filepath.Join(dir, a.stdin))
		if err != nil {
			return trace{}, fmt.Errorf("input of %s: %w", a, err)
		}
		stdin = text
	}
	var t trace
	for i, argv := range a.steps {
		result := filepath.Join(b.scratch, fmt.Sprintf("%s-result-%d", w.name, i))
		for _, stale := range []string{result, b.segments} {
			if err := os.RemoveAll(stale); err != nil {
				return trace{}, fmt.Errorf("empty %s: %w", stale, err)
			}
		}
		job := mpijob.Job{
			MPI: b.mpi[a.mpi], Ranks: a.ranks, Argv: argv, Dir: dir, Stdin: stdin, Timeout: limit,
			Preload: append(append([]string{}, w.preload...), b.helpers[a.mpi]...),
			Env:     append([]string{"WRONG=send,bcast,allreduce,alltoall,scatterv"}, a.env...),
		}
		if w.before != nil {
			job.Before = append(append([]string{}, w.before...), "--segment-dir", b.segments, "--output", result, "--")
		} else {
			job.Env = append(job.Env, "MPITRACE_OUTPUT="+result, "MPITRACE_SEGMENT_DIR="+b.segments)
		}
		out, err := mpijob.Run(job)
		if err != nil {
			return trace{}, err
		}
		if err := b.collect(result); err != nil {
			return trace{}, err
		}
		t.take(a, out, result)
	}
	t.finish(a, dir)
	return t, nil
}

// collect does what the epilog of a batch system does: it fetches what
// processes that were killed have left. A launcher may return before its
// killed processes are gone; so it asks again for a while.
func (b *bench) collect(result string) error {
	for range 50 {
		jobs, err := os.ReadDir(b.segments)
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("segments left: %w", err)
		}
		if len(jobs) == 0 {
			return nil
		}
		for _, job := range jobs {
			cmd := exec.Command(b.mpitrace, "collect", "--quiet", "--segment-dir", b.segments, "--job", job.Name(), "-o", result)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", cmd, err, out)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("segments are left in %s 5 s after the end of the program", b.segments)
}

// layOut makes the working folder of an app.
func (a app) layOut(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, source := range a.copies {
		cmd := exec.Command("cp", "-rL", source+"/.", dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
	}
	if a.prepare != nil {
		return a.prepare(dir)
	}
	return nil
}

// take adds one step.
func (t *trace) take(a app, out mpijob.Outcome, result string) {
	t.lines = append(t.lines, essence(string(out.Stdout), a.keep, a.mask)...)
	if a.stderr {
		t.lines = append(t.lines, essence(string(out.Stderr), a.keep, a.mask)...)
	}
	t.status = append(t.status, out.Status)
	t.results = append(t.results, result)
	t.elapsed += out.Elapsed
	for _, line := range strings.Split(string(out.Stderr), "\n") {
		if strings.HasPrefix(line, "mpitrace:") {
			t.notes = append(t.notes, line)
		}
	}
	if out.TimedOut && t.problem == nil {
		t.problem = fmt.Errorf("still running after %.0f s", out.Elapsed.Seconds())
	}
}

// finish adds the files that the app has written, and its own check of them.
func (t *trace) finish(a app, dir string) {
	for _, name := range a.outputs {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && t.problem == nil {
			t.problem = fmt.Errorf("output file: %w", err)
		}
		t.lines = append(t.lines, essence(string(text), a.keep, a.mask)...)
	}
	if a.check != nil && t.problem == nil {
		t.problem = a.check(dir)
	}
}

// sameAs says how t differs from the run without anything preloaded.
func (t trace) sameAs(golden trace, tolerance float64) error {
	if t.problem != nil {
		return t.problem
	}
	if fmt.Sprint(t.status) != fmt.Sprint(golden.status) {
		return fmt.Errorf("exit status %v, without the shim %v", t.status, golden.status)
	}
	if difference := firstDifference(golden.lines, t.lines, tolerance); difference != "" {
		return fmt.Errorf("%s", difference)
	}
	return nil
}
