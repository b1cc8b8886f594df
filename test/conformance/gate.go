package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// gate runs tests of the suite for one MPI, with or without the shim.
type gate struct {
	mpi          mpijob.MPI
	build        string          // built suite
	preload      []string        // libraries of the ranks; the shim is the first one
	shim         string          // the library under test
	shimmed      bool            // the shim is among them, or brought by act
	hosts        *hosts.Hosts    // that the ranks are dealt out to; nil: they stay here
	act          []string        // mpitrace run --act, up to where the result goes; empty: no act mode
	reporter     string          // mpitrace command that must read each result; empty: not checked
	scratch      string          // for results; emptied after each test
	timeout      time.Duration   // of one test
	checkedFiles int             // results read so far
	repeated     int             // tests that passed the second time
	ended        context.Context // by a signal: nothing else is to be run
}

// noErrors is how every program of the suite says that it passed.
var noErrors = regexp.MustCompile(`(?m)^\s*No [Ee]rrors\s*$`)

func saysNoErrors(stdout []byte) bool { return noErrors.Match(stdout) }

// allowedNotes are the lines of the shim that a healthy run may bring.
var allowedNotes = regexp.MustCompile(`^mpitrace: (result in |spawned processes are only observed|act mode is off, .* \(sessions are only observed\)$)`)

// foreignNotes returns the lines in which the shim complains.
func foreignNotes(stderr []byte) []string {
	var notes []string
	for _, line := range strings.Split(string(stderr), "\n") {
		if strings.HasPrefix(line, "mpitrace:") && !allowedNotes.MatchString(line) {
			notes = append(notes, line)
		}
	}
	return notes
}

// twice runs a test until it passes, at most two times: both MPIs have
// flakes of their own under load. The error says why it failed twice. What passed
// only then is named, for a hang of ours may look like a flake of theirs.
func (g *gate) twice(t suiteTest) error {
	first := g.once(t)
	if first == nil {
		return nil
	}
	again := g.once(t)
	if again == nil {
		g.repeated++
		fmt.Printf("passed the second time: %s: %s: first %v\n", g.mpi.Name, t.Name, first)
	}
	return again
}

// passesAlways says whether the test passes so many times in a row.
func (g *gate) passesAlways(t suiteTest, times int) error {
	for range times {
		if err := g.once(t); err != nil {
			return err
		}
	}
	return nil
}

// native is the gate without the shim.
func (g *gate) native() *gate {
	n := *g
	n.shimmed, n.act, n.reporter = false, nil, ""
	n.preload = slices.DeleteFunc(slices.Clone(g.preload), func(path string) bool { return path == g.shim })
	return &n
}

// once runs a test and says why it failed.
func (g *gate) once(t suiteTest) error {
	dir := filepath.Join(g.build, t.Dir)
	if _, err := os.Stat(filepath.Join(dir, t.Prog)); err != nil {
		return fmt.Errorf("not built: %w", err)
	}
	if err := os.RemoveAll(g.scratch); err != nil {
		return fmt.Errorf("empty %s: %w", g.scratch, err)
	}
	result := filepath.Join(g.scratch, "result")
	env, before := t.Env, []string(nil)
	switch {
	case g.act != nil:
		before = append(slices.Clone(g.act), result, "--")
	case g.shimmed:
		env = append([]string{
			"MPITRACE_OUTPUT=" + result,
			"MPITRACE_SEGMENT_DIR=" + filepath.Join(g.scratch, "segments"),
		}, t.Env...)
	}
	if err := os.MkdirAll(filepath.Join(g.scratch, "segments"), 0o700); err != nil {
		return fmt.Errorf("make the segment folder: %w", err)
	}
	job := mpijob.Job{
		MPI: g.mpi, Ranks: t.Ranks, Argv: append([]string{"./" + t.Prog}, t.Args...),
		Dir: dir, Preload: g.preload, Env: env, Before: before, Timeout: g.timeout,
	}
	if g.hosts != nil {
		perHost := (t.Ranks + len(g.hosts.Names) - 1) / len(g.hosts.Names)
		job.Before, job.Across = g.hosts.OnIn(0, dir, before...), g.hosts.Launcher(g.mpi, perHost)
	}
	p, err := mpijob.Start(job.Timeout, job.Dir, mpijob.Environ(), job.Command(), job.Stdin)
	if err != nil {
		return err
	}
	defer context.AfterFunc(g.ended, p.Kill)()
	out, err := p.Wait()
	if err != nil {
		return err
	}
	if err := judge(out); err != nil || !g.shimmed {
		return err
	}
	if notes := foreignNotes(out.Stderr); len(notes) > 0 {
		return fmt.Errorf("the shim complained: %s", strings.Join(notes, "; "))
	}
	return g.readable(result)
}

// judge applies the suite's own rule: " No Errors" and status 0.
func judge(out mpijob.Outcome) error {
	switch {
	case out.TimedOut:
		return fmt.Errorf("still running after %.0f s%s", out.Elapsed.Seconds(), lastWords(out))
	case out.Status != 0:
		return fmt.Errorf("status %d%s", out.Status, lastWords(out))
	case !saysNoErrors(out.Stdout):
		return fmt.Errorf("did not print No Errors%s", lastWords(out))
	}
	return nil
}

func lastWords(out mpijob.Outcome) string {
	text := bytes.TrimSpace(append(tail(out.Stdout, 400), tail(out.Stderr, 400)...))
	if len(text) == 0 {
		return ""
	}
	return ": " + strings.ReplaceAll(string(text), "\n", "\n      ")
}

// readable checks that the reader takes the result, and that it holds the
// ranks of the test.
func (g *gate) readable(result string) error {
	if g.reporter == "" {
		return nil
	}
	var stderr bytes.Buffer
	cmd := exec.Command(g.reporter, "report", "--json", result)
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("report cannot read the result: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var report struct {
		Schema int
		Ranks  []struct{ Calls uint64 }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("report --json is no JSON: %w", err)
	}
	if report.Schema != 1 || len(report.Ranks) == 0 {
		return fmt.Errorf("report --json has schema %d and %d ranks", report.Schema, len(report.Ranks))
	}
	g.checkedFiles++
	return nil
}
