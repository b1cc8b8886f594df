package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// sampledResult writes a result with arrivals, buffers and requests, and files
// that describe the machine.
func sampledResult(t *testing.T) (dir, costs, network string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "result")
	if err := (synth.Job{ID: "s", Ranks: 8, Sampled: true}).Write(dir); err != nil {
		t.Fatal(err)
	}
	costs, network = filepath.Join(t.TempDir(), "costs.json"), filepath.Join(t.TempDir(), "network.json")
	for path, text := range map[string]string{
		costs: `{"schema": 1, "source": "made up", "copy": [{"bytes": 128, "ns": 30}, {"bytes": 8192, "ns": 90000}],
			"register": [{"bytes": 4096, "ns": 30000}], "usage_lookup": [{"bytes": 128, "ns": 10}]}`,
		network: `{"startup_ns": 2000, "ns_per_byte": 0.1}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, costs, network
}

// TestAdviseCommand goes through the forms of output and the refusals.
func TestAdviseCommand(t *testing.T) {
	dir, costs, network := sampledResult(t)
	for _, test := range []struct {
		args   string
		status int
		want   string // in stdout if status is 0, else in stderr
	}{
		{"--costs " + costs, 0, "zero-copy eager: MPI_Isend at heat.c:91"},
		{"--costs " + costs + " --eager-limit 4K --network " + network, 0, "Nothing to gain"},
		{"", 0, "Nothing to gain"},
		{"--eager-limit much", 2, `--eager-limit: "much" is not a size`},
		{"--costs " + network, 2, "--costs: "},
		{"--costs none.json", 2, "--costs: open none.json"},
		{"--network " + costs, 2, "--network: "},
		{"--costs " + costs + " --save-costs x.json", 2, "choose one of --costs, --save-costs"},
		{"--save-costs " + filepath.Join(dir, "none", "x.json"), 2, "--save-costs: "},
		{"--save-costs " + costs, 2, "exists already"},
		{"--nonsense", 2, "nonsense"},
	} {
		args := append([]string{"advise", dir}, strings.Fields(test.args)...)
		status, stdout, stderr := runs(args...)
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
	if status, _, stderr := runs("advise", filepath.Join(dir, "none")); status != 2 || !strings.HasPrefix(stderr, "mpitrace: ") {
		t.Errorf("no such result: status %d, %s", status, stderr)
	}
}

// TestAdviseJSON reads the JSON back.
func TestAdviseJSON(t *testing.T) {
	dir, costs, _ := sampledResult(t)
	status, stdout, stderr := runs("advise", "--json", "--costs", costs, dir)
	var got struct {
		Schema, Ranks   int
		Recommendations []struct{ Technique, Function, Place string }
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	if got.Schema != 1 || got.Ranks != 8 || len(got.Recommendations) != 1 || got.Recommendations[0].Place != "heat.c:91" {
		t.Errorf("%+v", got)
	}
}

// TestReportSampled shows the sections, each in full on demand.
func TestReportSampled(t *testing.T) {
	dir, costs, network := sampledResult(t)
	t.Setenv("LC_ALL", "C.UTF-8")
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"", 0, "rank 6 arrives last at heat.c:121 in 95 % of 10,000 MPI_Allreduce calls"},
		{"--by arrival", 0, "withheld: the time of a message is not known (--network, or mpitrace bench latency)"},
		{"--by arrival --network " + network, 0, "times a message of this size"},
		{"--by reuse", 0, "depends on what copying and registering cost"},
		{"--by reuse --costs " + costs, 0, "frequently used: 20 of 20 buffers"},
		{"--by reuse --eager-limit 4K", 0, "send rendezvous"},
		{"--by overlap --sort calls", 0, "known from a trace only: mpitrace run --trace"},
		{"--by overlap --csv", 0, "function,place,requests,mean_request_ns"},
		{"--by reuse --sort time", 2, "can be sorted by calls, name"},
		{"--network none.json", 2, "--network: open none.json"},
		{"--costs none.json", 2, "--costs: open none.json"},
	} {
		status, stdout, stderr := runs(append([]string{"report", dir}, strings.Fields(test.args)...)...)
		text := stdout
		if test.status != 0 {
			text = stderr
		}
		if status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s: status %d, want %d and %q:\n%s%s", test.args, status, test.status, test.want, stdout, stderr)
		}
	}
}
