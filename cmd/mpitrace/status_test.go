package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestUsage: a wrong command line has status 2 and one line, whatever the
// command.
func TestUsage(t *testing.T) {
	var walk func(c *cobra.Command, words []string)
	tried := 0
	walk = func(c *cobra.Command, words []string) {
		for _, sub := range c.Commands() {
			walk(sub, append(append([]string{}, words...), sub.Name()))
		}
		if !c.Runnable() || c.DisableFlagParsing || len(words) == 0 || words[0] == "help" || words[0] == "completion" {
			return
		}
		tried++
		status, stdout, stderr := runs(append(words, "--no-such-flag")...)
		if status != statusUsage || stdout != "" || !strings.HasPrefix(stderr, "mpitrace: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %q, %q", words, status, stdout, stderr)
		}
	}
	walk(newRootCommand(), nil)
	if tried < 10 {
		t.Errorf("%d commands tried", tried)
	}
}

// TestUnreadable: so has input that is not there.
func TestUnreadable(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{
		{"report", none}, {"advise", none}, {"diff", none, none}, {"pack", none}, {"export", "--format", "csv", "-o", none + ".csv", none}, {"top", none},
	} {
		status, stdout, stderr := runs(args...)
		if status != statusUsage || stdout != "" || !strings.HasPrefix(stderr, "mpitrace: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

// TestOutputFull: a command whose output cannot be written has status 1.
func TestOutputFull(t *testing.T) {
	before, after := results(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"policy", "show"}, {"report", before}, {"report", "--json", before}, {"diff", before, after}} {
		var stderr bytes.Buffer
		status := execute(args, full, &stderr)
		if text := stderr.String(); status != statusFailed || !strings.HasPrefix(text, "mpitrace: ") || strings.Count(text, "\n") != 1 {
			t.Errorf("%q: status %d, %q", args, status, text)
		}
	}
}

// TestPartly: a command that could not do all of its work has status 1.
func TestPartly(t *testing.T) {
	file := filepath.Join("testdata", "..", "status_test.go") // no directory of segments
	for _, command := range []string{"collect", "clean"} {
		status, _, stderr := runs(command, "--segment-dir", file)
		if status != statusFailed || !strings.Contains(stderr, "mpitrace: "+command+": ") {
			t.Errorf("%s: status %d, %q", command, status, stderr)
		}
	}
}
