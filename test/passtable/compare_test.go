package passtable

import (
	"os"
	"strings"
	"testing"
)

// The checks of the table themselves: what they must see.
func TestCompare(t *testing.T) {
	want := expectation{
		calls:    counts{"Send": 2, "Recv": 1},
		bytes:    counts{"Send": 16},
		peers:    both(1, 2, 16),
		requests: &requests{Started: 1, Completed: 1},
	}
	good := func() *rankReport {
		return &rankReport{
			Functions: []function{{Name: "MPI_Send", Calls: 2, Bytes: 16}, {Name: "MPI_Recv", Calls: 1, Bytes: 9}},
			Peers:     both(1, 2, 16),
			Requests:  requests{Started: 1, Completed: 1},
		}
	}
	for _, test := range []struct {
		name  string
		spoil func(*rankReport)
		found string
	}{
		{"equal", func(*rankReport) {}, ""},
		{"too few calls", func(r *rankReport) { r.Functions[0].Calls = 1 }, "MPI_Send: got 1 calls, want 2"},
		{"a function more", func(r *rankReport) { r.Functions = append(r.Functions, function{Name: "MPI_Wait", Calls: 1}) }, "MPI_Wait: got 1 calls, want 0"},
		{"a function missing", func(r *rankReport) { r.Functions = r.Functions[:1] }, "MPI_Recv: got 0 calls, want 1"},
		{"bytes", func(r *rankReport) { r.Functions[0].Bytes = 17 }, "MPI_Send: got 17 bytes, want 16"},
		{"no peer", func(r *rankReport) { r.Peers = nil }, "no traffic with rank 1"},
		{"peer", func(r *rankReport) { r.Peers[0].ReceivedBytes = 0 }, "traffic with rank 1"},
		{"requests", func(r *rankReport) { r.Requests.Completed = 0 }, "requests: got"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := good()
			test.spoil(got)
			problems := strings.Join(want.compare(got, false), "; ")
			if (test.found == "") != (problems == "") || !strings.Contains(problems, test.found) {
				t.Errorf("got %q, want %q", problems, test.found)
			}
		})
	}
	if problems := want.compare(nil, true); len(problems) != 1 {
		t.Errorf("a rank that is not in the report: got %q", problems)
	}
}

// Every file of test/programs belongs to the table or to the control.
func TestProgramsAreUsed(t *testing.T) {
	used := map[string]bool{"program.h": true, "wrong.c": true, "wrong_target.c": true}
	for _, r := range allRows() {
		for _, name := range append([]string{r.program, r.front, r.behind}, r.args...) {
			used[strings.TrimPrefix(name, "@")] = true
		}
	}
	entries, err := os.ReadDir("../programs")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !used[entry.Name()] {
			t.Errorf("test/programs/%s is in no row: give it one or remove it", entry.Name())
		}
	}
}
