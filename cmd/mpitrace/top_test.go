package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// TestTopCommand goes through the plain form and the refusals; test/terminal
// has the other one.
func TestTopCommand(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("MPITRACE_SEGMENT_DIR", base)
	if status, _, stderr := runs("top"); status != 2 || !strings.Contains(stderr, "no job in shared memory") {
		t.Errorf("no job: status %d, %s", status, stderr)
	}
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	j := synth.Job{ID: "4711", Ranks: 4, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
		if rank == 0 { // one pid is one process
			if err := s.Live(os.Getpid()); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}}
	if _, err := j.WriteSegments(base); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   string
		status int
		want   string // in stdout if status is 0, else in stderr
	}{
		{"--once", 0, "job 4711  running for"},
		{"--once 4711", 0, "     3 finished    -   4%"},
		{"--once --filter 1-2 --sort all", 0, "     1 finished    -  17%"},
		{"--once --filter nothing", 0, "no rank matches the filter"},
		{"--once " + filepath.Join(base, "4711"), 0, "4 ranks"},
		{"--once 4712", 2, "4712: neither a file or directory nor a job"},
		{"--sort beauty", 2, "choose one of rank, state, now"},
		{"--interval 1ms", 2, "at least 100ms"},
		{"--interval 5", 2, "--interval"},
		{"a b", 2, "accepts at most 1 arg"},
	} {
		status, stdout, stderr := runs(append([]string{"top"}, strings.Fields(test.args)...)...)
		text := stdout
		if test.status != 0 {
			text = stderr
			if strings.Count(stderr, "\n") != 1 || stdout != "" {
				t.Errorf("%s: not one line: %s%s", test.args, stdout, stderr)
			}
		}
		if status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s: status %d, want %d and %q:\n%s%s", test.args, status, test.status, test.want, stdout, stderr)
		}
	}
}
