package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// runs executes a command line and returns its status and output.
func runs(args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = execute(args, &out, &err)
	return status, out.String(), err.String()
}

// results writes two results, of which the second has half again the wall
// time and twice the Allreduce.
func results(t *testing.T) (before, after string) {
	t.Helper()
	before, after = filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
	if err := (synth.Job{ID: "a", Ranks: 4}).Write(before); err != nil {
		t.Fatal(err)
	}
	slower := synth.Job{ID: "b", Ranks: 4, Mutate: func(_ int, s *synth.Segment) *synth.Segment {
		s.Header.FinalizeEnterTicks += 2 * 30e9
		s.Sites[6].Ticks *= 2
		return s
	}}
	if err := slower.Write(after); err != nil {
		t.Fatal(err)
	}
	return before, after
}

// TestReportCommand goes through the forms of output and the refusals.
func TestReportCommand(t *testing.T) {
	dir, _ := results(t)
	t.Setenv("LC_ALL", "C.UTF-8")
	for _, test := range []struct {
		args   string
		status int
		want   string // in stdout if status is 0, else in stderr
	}{
		{"", 0, "MPI takes"},
		{"--by rank --sort time --top 2", 0, "… and 2 more"},
		{"--csv", 0, "function,calls,time_ns,share"},
		{"--csv --by peer", 0, "from,to,messages,bytes"},
		{"--rank 1 --by peer", 0, "received messages"},
		{"--color always", 0, "\x1b[1m"},
		{"--by beauty", 2, "choose one of call, site"},
		{"--by peer --sort time", 2, "can be sorted by bytes, calls"},
		{"--sort size", 2, "choose one of time"},
		{"--rank x", 2, `"x" is neither a rank nor a range`},
		{"--rank 99", 2, "none of the ranks"},
		{"--color blue", 2, "choose auto, always or never"},
		{"--json --csv", 2, "json"},
		{"--nonsense", 2, "nonsense"},
	} {
		args := append([]string{"report"}, strings.Fields(test.args)...)
		status, stdout, stderr := runs(append(args, dir)...)
		text := stdout
		if test.status != 0 {
			text = stderr
		}
		if status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s: status %d, want %d and %q:\n%s%s", test.args, status, test.status, test.want, stdout, stderr)
		}
	}
	if status, _, stderr := runs("report", filepath.Join(dir, "none")); status != 2 || !strings.HasPrefix(stderr, "mpitrace: ") {
		t.Errorf("no such result: status %d, %s", status, stderr)
	}
}

// TestProblems: whatever is asked for, what could not be read is said.
func TestProblems(t *testing.T) {
	dir, _ := results(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.mtn"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged\x1b[31m.mtn")
	if err := os.WriteFile(damaged, text[:len(text)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"report"}, {"report", "--by", "rank"}, {"report", "--csv"}, {"report", "--json"}, {"advise"}, {"diff", dir}} {
		status, stdout, stderr := runs(append(args, damaged)...)
		if said := stdout + stderr; status != 0 || !strings.Contains(said, "truncated") || strings.Contains(said, "\x1b[31m") {
			t.Errorf("%q: status %d, %.300q", args, status, said)
		}
	}
}

// TestReportHTML writes a page, once unless forced.
func TestReportHTML(t *testing.T) {
	dir, _ := results(t)
	file := filepath.Join(t.TempDir(), "report.html")
	for _, test := range []struct {
		args   string
		status int
		want   string // in stdout of -, else in stderr
	}{
		{"--html FILE", 0, "report.html is written, "},
		{"--html FILE", 2, "report.html exists already: remove it, choose another name, or replace it with --force"},
		{"--html FILE --force", 0, "report.html is written, "},
		{"--html -", 0, "<!DOCTYPE html>"},
		{"--html - --rank 1", 0, "Only what the ranks chosen with --rank sent."},
		{"--html FILE/below.html", 2, "below.html: "},
		{"--html FILE --json", 2, "html"},
		{"--html FILE --by site", 2, "by"},
		{"--force", 2, "--force replaces the file of --html"},
	} {
		args := append([]string{"report"}, strings.Fields(strings.ReplaceAll(test.args, "FILE", file))...)
		status, stdout, stderr := runs(append(args, dir)...)
		said := stderr
		if strings.HasPrefix(test.args, "--html -") {
			said = stdout
		}
		if status != test.status || !strings.Contains(said, test.want) {
			t.Errorf("%s: status %d, want %d and %q: %.200s", test.args, status, test.status, test.want, said)
		}
	}
	// What cannot be written is refused before the result is read.
	if _, _, stderr := runs("report", "--html", file, filepath.Join(dir, "none")); !strings.Contains(stderr, "exists already") {
		t.Errorf("a file that exists, and no result: %s", stderr)
	}
	if page, err := os.ReadFile(file); err != nil || !strings.Contains(string(page), "<h2 id=\"findings-head\">Findings</h2>") {
		t.Errorf("the file is no page: %v", err)
	}
}

// TestReportJSON reads the JSON back.
func TestReportJSON(t *testing.T) {
	dir, _ := results(t)
	status, stdout, stderr := runs("report", "--json", dir)
	var got struct {
		Schema    int
		Functions []struct {
			Name   string
			Calls  uint64
			TimeNS uint64 `json:"time_ns"`
			Bytes  uint64
		}
		Ranks []struct{ Functions []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	if got.Schema != 1 || len(got.Ranks) != 4 || len(got.Ranks[0].Functions) != 9 || got.Functions[0].Name != "MPI_Waitall" || got.Functions[0].TimeNS == 0 {
		t.Errorf("%+v", got)
	}
}

// TestReportDefault finds the newest result in the current directory and says
// so on stderr.
func TestReportDefault(t *testing.T) {
	dir, _ := results(t)
	t.Chdir(filepath.Dir(dir))
	status, stdout, stderr := runs("report")
	if status != 0 || !strings.Contains(stderr, "before, the newest result here") || !strings.Contains(stdout, "MPI takes") {
		t.Errorf("status %d: %s%s", status, stderr, stdout)
	}
}

// TestDiffCommand passes and fails.
func TestDiffCommand(t *testing.T) {
	before, after := results(t)
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"", 0, ""},
		{"--fail-above 40", 1, "FAIL: wall grew by 50.00 %"},
		{"--fail-above 60", 0, "pass: wall"},
		{"--fail-above 0 --metric calls", 0, "pass: calls changed by 0.00 %"},
		{"--fail-above 10 --metric mpi", 1, "FAIL: mpi"},
		{"--metric speed", 2, "choose one of wall"},
		{"--fail-above -3", 2, "0 or more"},
		{"--fail-above NaN", 2, "0 or more"},
	} {
		args := append([]string{"diff", before, after}, strings.Fields(test.args)...)
		if status, _, stderr := runs(args...); status != test.status || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: status %d, want %d and %q: %s", test.args, status, test.status, test.want, stderr)
		}
	}
	if status, stdout, _ := runs("diff", before, before); status != 0 || !strings.Contains(stdout, "no difference") {
		t.Errorf("a result differs from itself: %s", stdout)
	}
	if status, _, _ := runs("diff", before, before+"x"); status != 2 {
		t.Errorf("a missing result gives status %d, want 2", status)
	}
}

// TestPackCommand packs once, and reads the file back.
func TestPackCommand(t *testing.T) {
	dir, _ := results(t)
	file := filepath.Join(t.TempDir(), "one.mtn")
	if status, _, stderr := runs("pack", dir); status != 2 || !strings.Contains(stderr, "-o") {
		t.Errorf("without -o: status %d, %s", status, stderr)
	}
	if status, _, stderr := runs("pack", dir, "-o", file); status != 0 || !strings.Contains(stderr, "4 processes") {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if status, _, stderr := runs("pack", dir, "-o", file); status != 2 || !strings.Contains(stderr, "exists already") {
		t.Errorf("again: status %d, %s", status, stderr)
	}
	if status, stdout, stderr := runs("diff", dir, file); status != 0 || !strings.Contains(stdout, "no difference") {
		t.Errorf("the packed result differs: %s%s", stdout, stderr)
	}
	if err := os.Truncate(file, 9000); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := runs("report", file); status != 2 || !strings.Contains(stderr, "truncated") {
		t.Errorf("cut: status %d, %s", status, stderr)
	}
}
