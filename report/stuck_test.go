package report

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// TestDeadlock: ranks that wait for each other for long are a deadlock; messages
// on their way, calls that return without the peer, and the two ends of one message
// are none.
func TestDeadlock(t *testing.T) {
	type call struct {
		name      string
		at        uint64 // of 50 seconds
		comm      uint64
		peer, tag int32
	}
	const early, late = 20e9, 45e9
	pair := func(x, y string) []call {
		return []call{{x, early, commWorld, 1, 7}, {y, early, commWorld, 0, 7}}
	}
	ring := func(name string, at uint64) []call {
		return []call{{name, at, commGrid, 1, 7}, {name, at, commGrid, 2, 7}, {name, at, commGrid, 0, 7}}
	}
	for _, c := range []struct {
		name  string
		calls []call // by rank
		want  bool
	}{
		{"receives", ring("MPI_Recv", early), true},
		{"receives, just begun", ring("MPI_Recv", late), false},
		{"one just begun", append(ring("MPI_Recv", early)[:2], call{"MPI_Recv", late, commGrid, 0, 7}), false},
		{"sends", pair("MPI_Send", "MPI_Ssend"), true},
		{"both ways at once", pair("MPI_Sendrecv", "MPI_Sendrecv"), true},
		{"both ways at once, just begun", ring("MPI_Sendrecv", late), false},
		{"one request each", pair("MPI_Wait", "MPI_Wait"), true},
		{"one request of several", pair("MPI_Waitall", "MPI_Waitany"), true},
		{"several requests", []call{{"MPI_Waitall", early, 0, -1, -1}, {"MPI_Recv", early, commWorld, 0, 7}}, false},
		{"tests", pair("MPI_Test", "MPI_Testall"), false},
		{"probes that return", pair("MPI_Iprobe", "MPI_Improbe"), false},
		{"probes that wait", pair("MPI_Probe", "MPI_Mprobe"), true},
		{"a message", pair("MPI_Send", "MPI_Recv"), false},
		{"a message, the other way", pair("MPI_Recv", "MPI_Ssend_c"), false},
		{"a message looked at", pair("MPI_Mprobe", "MPI_Send"), false},
		{"any tag", []call{{"MPI_Recv", early, commWorld, 1, -1}, {"MPI_Send", early, commWorld, 0, 7}}, false},
		{"another tag", []call{{"MPI_Recv", early, commWorld, 1, 6}, {"MPI_Send", early, commWorld, 0, 7}}, true},
		{"another communicator", []call{{"MPI_Recv", early, commGrid, 1, 7}, {"MPI_Send", early, commWorld, 0, 7}}, true},
	} {
		r := load(t, synth.Job{ID: "waits", Ranks: len(c.calls), Mutate: func(rank int, s *synth.Segment) *synth.Segment {
			w := c.calls[rank]
			return in(unfinished(s), w.name, 0x1700, w.at, w.comm, w.peer, w.tag)
		}}, Options{})
		if got := r.Deadlock(); (got != "") != c.want {
			t.Errorf("%s: %q, want a deadlock: %v", c.name, got, c.want)
		}
	}
}

// TestStuckOrder: what living ranks wait in is listed by entry, although the
// segment that is read last has waited for longest.
func TestStuckOrder(t *testing.T) {
	dir := t.TempDir()
	j := synth.Job{ID: "hangs", Ranks: 2}
	for rank, name := range []string{"MPI_Recv", "MPI_Barrier"} {
		s := in(unfinished(j.Segment(rank)), name, 16, 20e9+1000*uint64(rank), 1, -1, -1)
		path := filepath.Join(dir, strconv.Itoa(rank)+"-2.seg")
		if err := errors.Join(s.Live([]int{os.Getpid(), os.Getppid()}[rank]), os.WriteFile(path, s.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Stuck) != 2 || r.Stuck[0].SinceNS == 0 || r.Stuck[0].Name != "MPI_Recv" {
		t.Errorf("calls in progress: %+v", r.Stuck)
	}
}
