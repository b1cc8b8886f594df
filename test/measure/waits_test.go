package measure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/internal/launch/harvest"
	"github.com/mpitrace/mpitrace/segment"
)

// waits is what a ledger of messages comes to.
type waits struct {
	messages, early            int
	lateSender, lateReceiver   int     // calls that waited
	lateSenderNS, lateReceivNS float64 // how long
	nonblocking                int     // receives completed by another call
	windowNS, blockedNS        float64 // of these: until that call, and in it
}

// waitsOf pairs the k-th message sent from one rank to another with the k-th
// one got, and adds up the waiting by its definition.
func (l ledger) waitsOf(t *testing.T) (w waits) {
	t.Helper()
	sent := map[[2]int][]line{}
	for _, rank := range slices.Sorted(maps.Keys(l)) {
		for _, line := range l.of(rank, "sent") {
			to := int(line.number(t, 0))
			sent[[2]int{rank, to}] = append(sent[[2]int{rank, to}], line)
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(l)) {
		waited := map[int]float64{}  // by completing call: for its latest sender
		blocked := map[int]float64{} // by completing call of receives posted before
		for _, line := range l.of(rank, "got") {
			key := [2]int{int(line.number(t, 0)), rank}
			if len(sent[key]) == 0 {
				t.Fatalf("rank %d got a message that nobody sent: %q", rank, line)
			}
			s := sent[key][0]
			sent[key] = sent[key][1:]
			w.messages++
			sendEnter, sendExit := s.number(t, 1), s.number(t, 2)
			post, enter, exit := line.number(t, 1), line.number(t, 2), line.number(t, 3)
			if post < sendEnter {
				w.early++
			}
			if post < enter {
				w.nonblocking++
				w.windowNS += enter - post
				blocked[int(line.number(t, 4))] = exit - enter
			}
			if ns := math.Min(sendEnter, exit) - enter; ns > 0 {
				call := int(line.number(t, 4))
				waited[call] = math.Max(waited[call], ns)
			}
			if ns := post - sendEnter; ns > 0 && sendExit > post && s.number(t, 3) == 1 {
				w.lateReceiver++
				w.lateReceivNS += ns
			}
		}
		for _, ns := range blocked {
			w.blockedNS += ns
		}
		for _, ns := range waited {
			w.lateSender++
			w.lateSenderNS += ns
		}
	}
	return w
}

// agrees compares with the analysis; the messages by which ranks meet are not
// in the ledger.
func (w waits) agrees(d *deviation, m *arrival.Messages, slack float64) {
	var got waits
	var matched uint64
	for i := range m.Sites {
		s := &m.Sites[i]
		if s.Call.String() == "MPI_Sendrecv" {
			continue
		}
		got.messages += int(s.Receives)
		got.lateSenderNS += s.LateSenderNS
		got.lateReceivNS += s.LateReceiverNS
		got.lateSender += int(s.LateSender)
		got.lateReceiver += int(s.LateReceiver)
		got.nonblocking += int(s.Nonblocking)
		got.windowNS += s.WindowNS
		got.blockedNS += s.BlockedNS
		if s.Receives > 0 {
			got.early += int(s.Early)
			matched += s.Matched
		}
	}
	d.equal("messages, matched", fmt.Sprint(got.messages, matched), fmt.Sprint(w.messages, w.messages))
	d.near("late senders", got.lateSenderNS, w.lateSenderNS, 0.02, slack)
	d.near("late receivers", got.lateReceivNS, w.lateReceivNS, 0.02, slack)
	d.equal("receives completed by another call", got.nonblocking, w.nonblocking)
	d.near("window", got.windowNS, w.windowNS, 0.02, slack)
	d.near("blocked", got.blockedNS, w.blockedNS, 0.02, slack)
	// What comes at the same moment may be taken for either.
	d.near("calls that waited for a sender", float64(got.lateSender), float64(w.lateSender), 0.02, 1)
	d.near("calls that waited for a receiver", float64(got.lateReceiver), float64(w.lateReceiver), 0.02, 1)
	d.near("receives that were early", float64(got.early), float64(w.early), 0.02, 1)
}

// TestWaits: who waited for the other end of a message, and how long.
func TestWaits(t *testing.T) {
	for _, test := range []struct {
		scenario       string
		ranks          int
		sender, receiv bool // whether anybody is to wait for one
	}{
		{"late-sender", 2, true, false},
		{"rendezvous", 2, false, true},
		{"ssend", 2, false, true},
		{"early-receiver", 2, false, false},
		{"wildcard", 3, true, false},
		{"waitall", 3, true, false},
		{"matched", 2, true, false},
	} {
		t.Run(test.scenario, func(t *testing.T) {
			eachMPI(t, func(t *testing.T, m mpi) {
				try(t, func() (d deviation) {
					const n, lateNS = 30, 2_000_000
					r := m.run(t, job{program: "waits", args: []string{test.scenario, fmt.Sprint(n), fmt.Sprint(lateNS / 1000)}, ranks: test.ranks, env: []string{"MPITRACE_TRACE=1"}})
					result, _ := r.analyse(t, arrival.Options{})
					w := r.ledger.waitsOf(t)
					slack := n * (r.ledger.stampNS(t) + pausedNS)
					for _, c := range result.Clocks {
						slack += n*c.ErrorNS + 2*coldNS
					}
					d.about("messages")
					wantSound(&d, &result.Messages)
					w.agrees(&d, &result.Messages, slack)
					if (w.lateSenderNS > n*lateNS/2) != test.sender || (w.lateReceivNS > n*lateNS/2) != test.receiv {
						d.add("the ledger tells of another scenario: %+v", w)
					}
					if !d.holds() {
						return d
					}
					var control deviation
					longer := w
					longer.lateSenderNS, longer.lateReceivNS, longer.early = 1.1*w.lateSenderNS+2*slack, 1.1*w.lateReceivNS+2*slack, w.early+n/10
					longer.windowNS, longer.blockedNS = 1.1*w.windowNS+2*slack, 1.1*w.blockedNS+2*slack
					if longer.agrees(&control, &result.Messages, slack); len(control.found[""]) != 5 {
						t.Errorf("a false ledger is accepted: %q", control.found)
					}
					return d
				})
			})
		})
	}
}

// wantSound demands that nothing was left out.
func wantSound(d *deviation, m *arrival.Messages) {
	d.equal("stopped, gaps, tail, strangers, unaddressed, damaged, duplicates, unaligned, dropped",
		fmt.Sprint(m.StoppedStreams, m.Stopped, m.Gaps, m.Tail, m.Strangers, m.Unaddressed, m.Damaged, m.Duplicates, m.Unaligned, m.DroppedEvents),
		fmt.Sprint(0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
}

// TestTraceBound: what comes after the largest trace file is dropped and
// counted, and what was kept is matched with its own other end.
func TestTraceBound(t *testing.T) {
	eachMPI(t, func(t *testing.T, m mpi) {
		const n = 5000
		r := m.run(t, job{program: "waits", args: []string{"flood", fmt.Sprint(n), "0"}, ranks: 2, env: []string{"MPITRACE_TRACE=1", "MPITRACE_TRACE_BYTES=64K"}})
		result, _ := r.analyse(t, arrival.Options{})
		got := &result.Messages
		if got.DroppedEvents == 0 || got.DroppingRanks != 2 || got.Matched == 0 || got.Matched > n {
			t.Errorf("%d events dropped by %d ranks, %d messages matched", got.DroppedEvents, got.DroppingRanks, got.Matched)
		}
		if got.Stopped != 0 || got.StoppedStreams != 0 || got.Damaged != 0 || got.Duplicates != 0 {
			t.Errorf("%d events of %d streams contradict each other, %d are damaged, %d come twice", got.Stopped, got.StoppedStreams, got.Damaged, got.Duplicates)
		}
		kept := map[uint8]uint64{}
		r.events(t, 0, func(e *segment.RawEvent) { kept[e.Kind]++ })
		// Each call leaves two events, and MPI_Init and MPI_Finalize one each.
		calls := uint64(0)
		r.walk(t, func(s *segment.Segment) {
			if s.Header.WorldRank == 0 {
				calls = s.Threads()[0].EventsDropped
			}
		})
		if sends := kept[segment.EventKindSend]; sends == 0 || sends >= n || kept[segment.EventKindCall]+sends+calls < 2*n {
			t.Errorf("kept %v and dropped %d events of %d sends", kept, calls, n)
		}
		traces, err := segment.TraceFiles(r.out())
		if err != nil || len(traces) != 2 {
			t.Errorf("trace files %q, %v", traces, err)
		}
	})
}

// events visits all events of a rank: those of its trace file, then the rest.
func (r ran) events(t *testing.T, rank int32, visit func(*segment.RawEvent)) {
	t.Helper()
	var process segment.Process
	var rest []segment.RawEvent
	r.walk(t, func(s *segment.Segment) {
		if s.Header.WorldRank == rank {
			process, rest = s.Header.Process(), s.BeyondTrace(r.out()).Events()
		}
	})
	problems, err := segment.WalkTrace(r.out(), func(head segment.RawTraceFile, events []segment.RawEvent) error {
		for i := range events {
			if head.Process() == process {
				visit(&events[i])
			}
		}
		return nil
	})
	if err != nil || len(problems) > 0 {
		t.Errorf("the trace: %q, %v", problems, err)
	}
	for i := range rest {
		visit(&rest[i])
	}
}

// TestKilledTail: a rank that is killed has every event, the last ones in its
// segment.
func TestKilledTail(t *testing.T) {
	eachMPI(t, func(t *testing.T, m mpi) {
		const n = 700 // 1400 events: two full sections in the file, one begun
		r := m.run(t, job{program: "waits", args: []string{"killed", fmt.Sprint(n), "0"}, ranks: 2, env: []string{"MPITRACE_TRACE=1"}, dies: true})
		r.collect(t)
		next := uint32(1)
		r.events(t, 0, func(e *segment.RawEvent) {
			if e.Kind != segment.EventKindSend {
				return
			}
			if e.Serial != next {
				t.Errorf("serial %d after %d", e.Serial, next-1)
			}
			next = e.Serial + 1
		})
		if next != n+1 {
			t.Errorf("the last event has serial %d, want %d", next-1, n)
		}
		if sent := len(r.ledger.of(0, "sent")); sent != n {
			t.Errorf("the ledger has %d messages", sent)
		}
	})
}

// collect brings in what killed processes left.
func (r ran) collect(t *testing.T) {
	t.Helper()
	s, err := harvest.Collect(t.Context(), harvest.Options{Bases: []string{r.segments}, Output: func(string) string { return r.out() }, Wait: 10 * time.Second, Writer: "test"})
	if err != nil || s.Processes == 0 || s.Alive != 0 || s.Damaged != 0 {
		t.Fatalf("collecting what is left: %+v, %v", s, err)
	}
}
