package export

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/report"
	timeline "github.com/mpitrace/mpitrace/report/timeline/export"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// limit bounds one job; it only serves to end one that hangs.
const limit = 5 * time.Minute

// run runs the example with a trace and returns the result directory.
func run(t *testing.T, m mpijob.MPI, ranks int, env ...string) string {
	t.Helper()
	mpijob.Need(t, m.Missing())
	shim, err := filepath.Abs("../../build/libmpishim.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(shim); err != nil {
		mpijob.Need(t, mpijob.Missing("build/libmpishim.so", "make build"))
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "heat")
	if err := mpijob.Compile(m.CC, program, "-O2", "-g", "../../examples/heat.c", "-lm"); err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	helpers, err := m.Helpers(dir)
	t.Chdir("test/export")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "result")
	got, err := mpijob.Run(mpijob.Job{
		MPI: m, Ranks: ranks, Argv: []string{program, "-n", "64", "-s", "300"}, Dir: dir, Preload: append([]string{shim}, helpers...), Timeout: limit,
		Env: append([]string{"MPITRACE_TRACE=1", "MPITRACE_JOB_ID=export", "MPITRACE_OUTPUT=" + out}, env...),
	})
	if err != nil || got.TimedOut || got.Status != 0 {
		t.Fatalf("status %d, over its limit %v, %v\n%s\n%s", got.Status, got.TimedOut, err, got.Stdout, got.Stderr)
	}
	return out
}

// events counts the events of a result by kind.
func events(t *testing.T, dir string) (calls, sends, receives int) {
	t.Helper()
	count := func(list []segment.RawEvent) {
		for i := range list {
			switch list[i].Kind {
			case segment.EventKindCall:
				calls++
			case segment.EventKindSend:
				sends++
			case segment.EventKindReceive:
				receives++
			}
		}
	}
	if _, err := segment.WalkTrace(dir, func(_ segment.RawTraceFile, list []segment.RawEvent) error { count(list); return nil }); err != nil {
		t.Fatal(err)
	}
	_, err := segment.WalkResult(dir, func(s *segment.Segment) error { count(s.BeyondTrace(dir).Events()); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return calls, sends, receives
}

// export exports a result in a format.
func export(t *testing.T, dir, format string) *timeline.Done {
	t.Helper()
	program, err := filepath.Abs("../../build/mpitrace")
	if err != nil {
		t.Fatal(err)
	}
	done, err := timeline.Run(context.Background(), dir, timeline.Options{Format: format, Output: filepath.Join(t.TempDir(), "out"), Executable: program})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// rows is a table of the CSV export.
func rows(t *testing.T, dir, table string) (names []string, all [][]string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, table+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err = csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return all[0], all[1:]
}

// TestJobs: what real jobs did is in each format, and what the report says of
// them agrees.
func TestJobs(t *testing.T) {
	for _, job := range []struct {
		mpi   mpijob.MPI
		ranks int
	}{{mpijob.All[0], 2}, {mpijob.All[0], 4}, {mpijob.All[1], 2}} {
		t.Run(fmt.Sprint(job.mpi.Name, job.ranks), func(t *testing.T) {
			dir := run(t, job.mpi, job.ranks)
			calls, sends, receives := events(t, dir)
			if sends == 0 || sends != receives {
				t.Fatalf("the job has %d sends and %d receives", sends, receives)
			}
			done := export(t, dir, "csv")
			s := done.Summary
			if int(s.Calls) != calls || int(s.Messages.Matched) != sends || s.Unmatched() != 0 || s.Gaps != 0 || s.Implied != 0 || len(s.Problems) > 0 {
				t.Errorf("%d calls, %d sends: %+v", calls, sends, s)
			}
			tables(t, done.Output, dir, calls, sends)
			perfettoReads(t, export(t, dir, "perfetto").Output, calls, sends)
			otf2Reads(t, export(t, dir, "otf2").Output, calls, sends)
			if files, err := filepath.Glob(filepath.Join(export(t, dir, "parquet").Output, "*.parquet")); err != nil || len(files) != 6 {
				t.Errorf("%q, %v", files, err)
			}
		})
	}
}

// tables compares the CSV with the trace and the report.
func tables(t *testing.T, out, dir string, calls, sends int) {
	t.Helper()
	r, err := report.Load(dir, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names, all := rows(t, out, "calls")
	function := map[string]uint64{}
	for _, row := range all {
		function[row[slices.Index(names, "function")]]++
	}
	for _, f := range r.Functions {
		if f.Name != "MPI_Finalize" && !f.Estimated && function[f.Name] != f.Calls {
			t.Errorf("%d calls of %s, the report has %d", function[f.Name], f.Name, f.Calls)
		}
	}
	names, messages := rows(t, out, "messages")
	for _, row := range messages {
		at := func(name string) int {
			n, err := strconv.Atoi(row[slices.Index(names, name)])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if at("receive_exit_ns")+at("clock_error_ns") < at("send_enter_ns") || at("receive_post_ns") > at("receive_enter_ns") {
			t.Fatalf("a message that arrives before it is sent: %q", row)
		}
	}
	if len(all) != calls || len(messages) != sends {
		t.Errorf("%d rows of calls, %d of messages, want %d and %d", len(all), len(messages), calls, sends)
	}
	names, all = rows(t, out, "sites")
	lines := 0
	for _, row := range all {
		if row[slices.Index(names, "line")] != "" && strings.HasSuffix(row[slices.Index(names, "file")], "heat.c") {
			lines++
		}
	}
	if lines < 8 {
		t.Errorf("only %d of %d places have a line of heat.c", lines, len(all))
	}
}

// perfettoReads decodes the trace by its schema.
func perfettoReads(t *testing.T, path string, calls, sends int) {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("protobuf-compiler", "protoc"))
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command("protoc", "--proto_path=../../report/timeline/perfetto/testdata", "--decode=trace.Trace", "trace.proto")
	cmd.Stdin = in
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	begins, flows, ends := 0, 0, 0
	for _, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "    type: 1":
			begins++
		case strings.HasPrefix(line, "    flows: "):
			flows++
		case strings.HasPrefix(line, "    ends: "):
			ends++
		}
	}
	// Each call, each nonblocking receive, and the slice of metadata.
	if begins != calls+sends+1 || flows != sends || ends != sends {
		t.Errorf("%d slices, %d flows begin and %d end, of %d calls and %d messages", begins, flows, ends, calls, sends)
	}
}

// otf2Reads reads the archive with otf2-print.
func otf2Reads(t *testing.T, dir string, calls, sends int) {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("otf2-tools", "otf2-print"))
	text, err := exec.Command("otf2-print", filepath.Join(dir, "out.otf2")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, text)
	}
	count := func(event string) int { return strings.Count(string(text), "\n"+event+" ") }
	if count("ENTER") != calls || count("LEAVE") != calls || count("MPI_ISEND") != sends || count("MPI_IRECV") != sends || count("MPI_COLLECTIVE_END") == 0 {
		t.Errorf("%d ENTER, %d LEAVE, %d MPI_ISEND, %d MPI_IRECV, of %d calls and %d messages", count("ENTER"), count("LEAVE"), count("MPI_ISEND"), count("MPI_IRECV"), calls, sends)
	}
}

// TestLimit: a trace that was cut by its limit says so in each format.
func TestLimit(t *testing.T) {
	dir := run(t, mpijob.All[0], 2, "MPITRACE_TRACE_BYTES=64K", "MPITRACE_QUIET=1")
	calls, _, _ := events(t, dir)
	for _, format := range timeline.Formats() {
		done := export(t, dir, format)
		s := done.Summary
		if s.Dropped == 0 || s.Gaps != 2 || int(s.Calls-s.Implied) != calls || !strings.Contains(strings.Join(done.Lines(), "\n"), "events were not kept") {
			t.Errorf("%s: %+v", format, s)
		}
	}
}
