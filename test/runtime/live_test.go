package runtime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/exporter"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// What each of the two ranks of steady.c sends.
const (
	steadyShort = 500
	steadyLong  = 200
	steadyBytes = 200_000
)

// TestLive: what ranks carry is seen while they run, by the report, the live view
// and the agent; and after they were killed the result has the same.
func TestLive(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		base, err := os.MkdirTemp("/dev/shm", "mpitrace-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		dir := t.TempDir()
		result := filepath.Join(dir, "out")
		command := []string{at("mpitrace"), "run", "--shim", at("libmpishim.so"), "-o", result, "--act", "--"}
		command = append(command, mpijob.Job{MPI: m, Ranks: 2, Argv: []string{made(t, m, "steady"), "wait"}}.Command()...)
		p, err := mpijob.Start(limit, dir, mpijob.Environ("MPITRACE_SEGMENT_DIR="+base), command, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Kill()
		job, live := carried(t, base)
		checkTop(t, job)
		checkExporter(t, job)
		for _, rank := range live.Ranks {
			// the launcher may have ended it, for the other is dead
			if err := syscall.Kill(int(rank.PID), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Error(err)
			}
		}
		got, err := p.Wait()
		if err != nil || got.TimedOut {
			t.Fatalf("%v, timed out %v\n%s", err, got.TimedOut, got.Stderr)
		}
		killed, err := report.Load(result, report.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, got.Stderr)
		}
		steady(t, killed, 0)
		if v := killed.Act.Verdicts; len(v) != 1 || !v[0].Act || !reflect.DeepEqual(v, live.Act.Verdicts) {
			t.Errorf("verdicts %+v, while it ran %+v", v, live.Act.Verdicts)
		}
	})
}

// carried waits until the ranks of the only job have shown all that they send: they
// do so about ten times a second, and what is counted last may come later.
func carried(t *testing.T, base string) (job string, r *report.Report) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		wrong := "no job"
		jobs, err := filepath.Glob(filepath.Join(base, "*"))
		if err == nil && len(jobs) == 1 {
			job = jobs[0]
			if r, err = report.Load(job, report.Options{}); err == nil {
				wrong = unsteady(r, 0)
			}
		}
		if err == nil && wrong == "" {
			return job, r
		}
		if time.Now().After(end) {
			t.Fatalf("not shown within %v: jobs %q, %v, %s", limit, jobs, err, wrong)
		}
	}
}

// unsteady is what is wrong with a report of both ranks of steady.c, so many of
// which have left a ledger; empty: nothing.
func unsteady(r *report.Report, ledgers int) string {
	a := r.Act
	if a == nil {
		return "nobody acts"
	}
	c := &a.Counts
	long := c[segment.ActReadMessages] + c[segment.ActWrittenMessages]
	messages, bytes := a.Share()
	switch {
	case a.Ranks != 2 || a.Ledgers != ledgers || c[segment.ActEagerMessages] != 2*steadyShort || c[segment.ActRendezvousMessages] != 2*steadyLong ||
		long != 2*steadyLong || c[segment.ActRendezvousBytes] != 2*steadyLong*steadyBytes || len(a.Left) != 0 || a.Sent != a.Messages || a.SentBytes != a.Bytes:
		return fmt.Sprintf("%+v", a)
	case messages != 1 || bytes != 1:
		return fmt.Sprintf("%v of the messages and %v of the bytes", messages, bytes)
	case len(a.Decisions) != 2 || a.Decisions[0].Newcomer != "write" || a.Decisions[1].Newcomer != "receiver":
		return fmt.Sprintf("decisions %+v", a.Decisions)
	case len(r.Problems) > 0:
		return fmt.Sprintf("problems %q", r.Problems)
	}
	for _, d := range a.Decisions {
		if d.Ranks != 2 || d.Messages != 2*steadyLong || d.From > steadyBytes || d.To <= steadyBytes {
			return fmt.Sprintf("decision %+v", d)
		}
	}
	return ""
}

// steady requires a report to be right.
func steady(t *testing.T, r *report.Report, ledgers int) {
	t.Helper()
	if wrong := unsteady(r, ledgers); wrong != "" {
		t.Error(wrong)
	}
}

func checkTop(t *testing.T, job string) {
	t.Helper()
	out, err := exec.Command(at("mpitrace"), "top", "--once", job).CombinedOutput()
	if want := "act 100% of messages, 100% of bytes · "; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: no %q in\n%s", err, want, out)
	}
}

func checkExporter(t *testing.T, job string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(job, "*"+segment.FileSuffix))
	if err != nil || len(files) != 2 {
		t.Fatalf("segments %q, %v", files, err)
	}
	for _, file := range files {
		s, err := segment.ReadFile(file, exporter.CounterSections...)
		if err != nil {
			t.Fatal(err)
		}
		p, err := exporter.ProcessOf(s, 1<<50)
		if err != nil || !p.Acts || p.Act[segment.ActEagerMessages] != steadyShort || p.Act[segment.ActRendezvousMessages] != steadyLong {
			t.Errorf("%v: %+v", err, p)
		}
	}
}

// TestLedgerAgrees: what a rank writes down at MPI_Finalize is what its segment
// shows.
func TestLedgerAgrees(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		got := job{m: m, options: []string{"--act=verify=7"}, program: []string{made(t, m, "steady")}}.run(t)
		result, err := segment.ReadResult(got.result)
		if err != nil || got.status != 0 || len(result.Segments) != 2 || len(result.Ledgers) != 2 {
			t.Fatalf("status %d, %v, %+v\n%s", got.status, err, result, got.err)
		}
		for _, text := range result.Ledgers {
			var ledger struct {
				Rank         int32
				World        string
				Counts, Left segment.ActCounts
				Decisions    []map[string]any
			}
			if err := json.Unmarshal(text.Data, &ledger); err != nil {
				t.Fatal(err)
			}
			s := result.Segments[ledger.Rank]
			a := s.Act()
			ledger.Counts.Add(&ledger.Left)
			if a == nil || s.Header.WorldID() != ledger.World || a.State != segment.ActStateActs || a.Torn || a.Counts != ledger.Counts || len(a.Decisions) != len(ledger.Decisions) {
				t.Fatalf("%s: %+v\nthe segment of rank %d: %+v", text.Name, ledger, s.Header.WorldRank, a)
			}
			for i, d := range a.Decisions {
				l := ledger.Decisions[i]
				if l["communicator"] != segment.Text(d.Communicator[:]) || l["state"] != segment.Text(d.State[:]) || l["reason"] != segment.Text(d.Reason[:]) ||
					l["chosen"] != segment.Text(d.Chosen[:]) || l["messages"] != float64(d.Messages) || l["decided_ns"] != float64(d.DecidedNS) || l["pairs"] != float64(d.Pairs) {
					t.Errorf("%s: %v, the segment: %+v", text.Name, l, d)
				}
			}
			if a.Counts[segment.ActVerifiedMessages] == 0 || len(a.Decisions) == 0 {
				t.Errorf("%s: the test shows nothing: %+v", text.Name, a)
			}
		}
		r, err := report.Load(got.result, report.Options{})
		if err != nil {
			t.Fatal(err)
		}
		steady(t, r, 2)
	})
}
