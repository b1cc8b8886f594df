package otf2_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/report/timeline/otf2"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// program is the built mpitrace-otf2.
func program(t *testing.T) string {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("otf2-tools", "otf2-print"))
	path, err := filepath.Abs("../../../build/" + otf2.Program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		mpijob.Need(t, mpijob.Missing("build/"+otf2.Program, "apt-get install -y libopen-trace-format2-dev pkg-config && make build"))
	}
	return path
}

// archive exports a result and returns the anchor file.
func archive(t *testing.T, dir string) (string, *timeline.Summary, *otf2.Writer) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "archive")
	w := otf2.New(out, "trace", program(t))
	defer w.Close()
	s, err := timeline.Export(context.Background(), dir, w, timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(out, "trace.otf2"), s, w
}

// printed is what otf2-print says, which must not complain.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("otf2-print", args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "[OTF2]") {
		t.Fatalf("otf2-print %q: %v\n%.2000s", args, err, out)
	}
	return string(out)
}

// counts is the lines of otf2-print by their first word.
func counts(text string) map[string]int {
	out := map[string]int{}
	for _, line := range strings.Split(text, "\n") {
		word, _, _ := strings.Cut(line, " ")
		out[word]++
	}
	return out
}

// TestArchive: otf2-print reads what was written, as many events as the trace
// has, and the definitions that they need.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	const ranks, steps = 6, 30
	if err := (synth.Job{ID: "solver", Ranks: ranks, RanksPerNode: 3}).WriteTraced(dir, steps); err != nil {
		t.Fatal(err)
	}
	anchor, s, w := archive(t, dir)
	text := printed(t, anchor)
	n := counts(text)
	want := map[string]int{"ENTER": int(s.Calls), "LEAVE": int(s.Calls), "MPI_ISEND": int(s.Messages.Matched), "MPI_IRECV": int(s.Messages.Matched),
		"MPI_IRECV_REQUEST": int(s.Requests), "MPI_COLLECTIVE_BEGIN": ranks * steps, "MPI_COLLECTIVE_END": ranks * steps}
	for event, count := range want {
		if n[event] != count || count == 0 {
			t.Errorf("%d %s, want %d", n[event], event, count)
		}
	}
	if w.Unwritten != 0 {
		t.Errorf("%d ends were not written", w.Unwritten)
	}
	definitions := printed(t, "-G", anchor)
	n = counts(definitions)
	if n["LOCATION"] != ranks || n["LOCATION_GROUP"] != ranks || n["SYSTEM_TREE_NODE"] != 3 || n["COMM"] != 2 || n["REGION"] != 4 {
		t.Errorf("definitions %v", n)
	}
	for _, pattern := range []string{
		`REGION .*"MPI_Allreduce".*heat\.c:121 in main.*COLL_ALL2ALL.*Begin: 121`, `COMM .*"grid"`, `COMM .*"MPI_COMM_WORLD"`,
		`GROUP .*COMM_LOCATIONS.* 6 Members`, `LOCATION_GROUP .*"MPI rank 5 on node001".*"node::node001"`, `mpitrace::clock_error_ns`,
	} {
		if !regexp.MustCompile(pattern).MatchString(definitions) {
			t.Errorf("the definitions do not hold %s:\n%s", pattern, definitions)
		}
	}
}

// TestPython: Python's reader agrees, and pairs of messages fit.
func TestPython(t *testing.T) {
	mpijob.Need(t, mpijob.Tools("python3 python3-otf2", "/usr/bin/python3"))
	dir := t.TempDir()
	if err := (synth.Job{ID: "solver", Ranks: 4}).WriteTraced(dir, 20); err != nil {
		t.Fatal(err)
	}
	anchor, s, _ := archive(t, dir)
	script := `
import sys, collections, otf2
sent, got, open_ = collections.Counter(), collections.Counter(), collections.Counter()
with otf2.reader.open(sys.argv[1]) as trace:
    for location, event in trace.events:
        rank = int(location.group.name.split()[2])
        kind = type(event).__name__
        if kind == "MpiIsend": sent[(rank, event.receiver, event.msg_tag, event.msg_length)] += 1
        if kind == "MpiIrecv": got[(event.sender, rank, event.msg_tag, event.msg_length)] += 1
        if kind == "Enter": open_[location] += 1
        if kind == "Leave": open_[location] -= 1
assert sent == got and not +open_, (sent, got, open_)
print(sum(sent.values()))
`
	out, err := exec.Command("/usr/bin/python3", "-c", script, anchor).CombinedOutput()
	if want := fmt.Sprintln(s.Messages.Matched); err != nil || string(out) != want {
		t.Errorf("python3-otf2 pairs %s messages, want %s: %v", out, want, err)
	}
}

// TestGaps: gaps are regions with a name, and ranks without data are there.
func TestGaps(t *testing.T) {
	dir := t.TempDir()
	j := synth.Job{ID: "broken", Ranks: 4}
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		switch rank {
		case 1:
			s.Threads[0].EventsDropped = 77
		case 2:
			return nil
		case 3:
			h := &s.Header
			h.State, h.FinalizeEnterTicks, h.FinalizeExitTicks, h.ExitTicks = segment.StateRunning, 0, 0, 0
			h.LastTicks, h.LastMonotonicNS = synth.Ticks(40_000_000), 5_040_000_000
			s.Threads[0].Call, s.Threads[0].Address, s.Threads[0].EnterTicks = synth.ID("MPI_Recv"), synth.ModuleBase+0x1240, synth.Ticks(30_000_000)
		}
		return s
	}
	if err := j.WriteTraced(dir, 20); err != nil {
		t.Fatal(err)
	}
	anchor, s, w := archive(t, dir)
	text := printed(t, anchor)
	if n := counts(text); n["ENTER"] != int(s.Calls)+s.Gaps || n["ENTER"] != n["LEAVE"] || w.Unwritten != s.Unmatched() || w.Unwritten == 0 {
		t.Errorf("%v of %+v, %d unwritten", n, s, w.Unwritten)
	}
	for _, what := range []string{"77 events of rank 1 were not kept", "no data of rank 2", "rank 3 died"} {
		if strings.Count(text, what) != 2 {
			t.Errorf("%q is not a region", what)
		}
	}
	if all := printed(t, "-G", anchor); !strings.Contains(all, "grid (ranks of MPI_COMM_WORLD: not all members are known)") {
		t.Errorf("the communicator that misses a member is not named as such:\n%s", all)
	}
}

// TestRefused: results without a trace, and a program that is not there or
// fails, are told clearly.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	if err := (synth.Job{ID: "untraced", Ranks: 2}).Write(dir); err != nil {
		t.Fatal(err)
	}
	run := func(dir, program string) error {
		w := otf2.New(filepath.Join(t.TempDir(), "a"), "a", program)
		defer w.Close()
		_, err := timeline.Export(context.Background(), dir, w, timeline.Options{})
		return err
	}
	if err := run(dir, "/bin/false"); !errors.Is(err, otf2.ErrNoTrace) {
		t.Errorf("%v", err)
	}
	traced := t.TempDir()
	if err := (synth.Job{ID: "traced", Ranks: 2}).WriteTraced(traced, 2000); err != nil {
		t.Fatal(err)
	}
	if err := run(traced, "/nowhere/x"); err == nil || !strings.Contains(err.Error(), "/nowhere/x") {
		t.Errorf("%v", err)
	}
	if err := run(traced, "/bin/false"); err == nil {
		t.Error("a program that fails is not noticed")
	}
	w := otf2.New(filepath.Join(t.TempDir(), "no", "directory"), "a", program(t))
	defer w.Close()
	if _, err := timeline.Export(context.Background(), traced, w, timeline.Options{}); err != nil && !strings.Contains(err.Error(), otf2.Program) {
		t.Errorf("%v", err)
	}
	t.Setenv("PATH", "/nowhere")
	if _, err := otf2.Find("/bin/true"); !errors.Is(err, otf2.ErrNoProgram) {
		t.Errorf("%v", err)
	}
}

// TestFind: beside the program, and where make install puts it.
func TestFind(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"bin", "libexec/mpitrace"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	executable := filepath.Join(root, "bin", "mpitrace")
	for _, path := range []string{executable, filepath.Join(root, "libexec/mpitrace", otf2.Program)} {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := otf2.Find(executable); err != nil || !strings.HasSuffix(got, "/libexec/mpitrace/"+otf2.Program) {
		t.Errorf("%q, %v", got, err)
	}
}
