package arrival

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// endList is Ends in memory.
type endList []End

func (l endList) Len() int      { return len(l) }
func (l endList) At(i int) *End { return &l[i] }

// tracedRanks is segments and events of a solver, with what mutate does to
// them.
func tracedRanks(t *testing.T, mutate func(rank int, s *synth.Segment, events []segment.RawEvent) []segment.RawEvent) ([]*segment.Segment, [][]segment.RawEvent) {
	t.Helper()
	job := synth.Job{ID: "matched", Ranks: 6, RanksPerNode: 3}
	var segments []*segment.Segment
	var events [][]segment.RawEvent
	for rank := range job.Ranks {
		var list []segment.RawEvent
		job.Trace(rank, 40, func(e segment.RawEvent) { list = append(list, e) })
		raw := job.Segment(rank)
		list = mutate(rank, raw, list)
		s, err := segment.Parse("rank", raw.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		segments, events = append(segments, s), append(events, list)
	}
	return segments, events
}

// inMemoryCounts is what the analysis says that keeps all events.
func inMemoryCounts(segments []*segment.Segment, events [][]segment.RawEvent) Messages {
	a := New(Options{})
	for i, s := range segments {
		a.Add(s)
		a.AddEvents(s, events[i])
	}
	m := a.Result().Messages
	m.Sites, m.Ranks, m.LateSenderNS, m.LateReceiverNS, m.UnclaimedNS = nil, nil, 0, 0, 0
	return m
}

// streamed matches the same one stream after the other.
func streamed(t *testing.T, segments []*segment.Segment, events [][]segment.RawEvent) Messages {
	t.Helper()
	a := New(Options{})
	for _, s := range segments {
		a.Add(s)
	}
	r := a.Result()
	m := r.NewMatcher()
	var ends []End
	for i, s := range segments {
		process, ok := r.Process(s.Header.Process())
		if !ok {
			t.Fatal("a process was not analysed")
		}
		for _, e := range events[i] {
			if end := (End{Event: e, Process: process}); e.Kind != segment.EventKindCall && m.Take(&end) {
				ends = append(ends, end)
			}
		}
	}
	slices.SortFunc(ends, func(x, y End) int { return m.Compare(&x, &y) })
	for len(ends) > 0 {
		n := slices.IndexFunc(ends, func(e End) bool { return !m.SameStream(&ends[0], &e) })
		if n < 0 {
			n = len(ends)
		}
		var sides [2]endList
		for i := range ends[:n] {
			e := ends[i]
			side := &sides[int(e.Event.Kind)-segment.EventKindSend]
			if k := len(*side); k > 0 && m.Compare(&(*side)[k-1], &e) == 0 {
				m.Duplicate()
				continue
			}
			*side = append(*side, e)
		}
		m.Stream(sides[0], sides[1])
		ends = ends[n:]
	}
	return m.Messages()
}

// TestMatcher: matching stream by stream says what matching in memory says, of
// whole traces and of all kinds of broken ones.
func TestMatcher(t *testing.T) {
	message := func(e *segment.RawEvent) bool { return e.Kind != segment.EventKindCall }
	for name, mutate := range map[string]func(rank int, s *synth.Segment, events []segment.RawEvent) []segment.RawEvent{
		"whole": func(_ int, _ *synth.Segment, e []segment.RawEvent) []segment.RawEvent { return e },
		"dropped at the end": func(rank int, s *synth.Segment, e []segment.RawEvent) []segment.RawEvent {
			if rank == 1 {
				s.Threads[0].EventsDropped = 100
				return e[:len(e)-100]
			}
			return e
		},
		"dropped in between": func(rank int, s *synth.Segment, e []segment.RawEvent) []segment.RawEvent {
			if rank == 2 {
				s.Threads[0].EventsDropped = 50
				return slices.Delete(slices.Clone(e), 100, 150)
			}
			return e
		},
		"a rank without events": func(rank int, _ *synth.Segment, e []segment.RawEvent) []segment.RawEvent {
			if rank == 3 {
				return nil
			}
			return e
		},
		"killed": func(rank int, s *synth.Segment, e []segment.RawEvent) []segment.RawEvent {
			s.Header.State = segment.StateRunning
			if rank == 0 {
				return e[:len(e)/2]
			}
			return e
		},
		"twice": func(_ int, _ *synth.Segment, e []segment.RawEvent) []segment.RawEvent { return append(e, e[:30]...) },
		"other bytes": func(rank int, _ *synth.Segment, e []segment.RawEvent) []segment.RawEvent {
			for i := range e {
				if rank == 4 && message(&e[i]) && e[i].Serial == 9 {
					e[i].Bytes++
				}
			}
			return e
		},
		"unknown partners and impossible times": func(rank int, _ *synth.Segment, e []segment.RawEvent) []segment.RawEvent {
			random := rand.New(rand.NewPCG(3, uint64(rank)))
			for i := range e {
				switch n := random.IntN(60); {
				case !message(&e[i]) || e[i].Serial < 20:
				case n == 0:
					e[i].Peer = segment.PeerUnknown
				case n == 1:
					e[i].Tag = -1
				case n == 2:
					e[i].ExitTicks = 0
				case n == 3:
					e[i].Peer = segment.PeerForeign
				}
			}
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			segments, events := tracedRanks(t, mutate)
			want, got := inMemoryCounts(segments, events), streamed(t, segments, events)
			want.Sites, want.Ranks = nil, nil
			if !sameCounts(got, want) {
				t.Errorf("streamed %+v\nin memory %+v", got, want)
			}
			if want.Sends == 0 || want.Matched == 0 {
				t.Errorf("the test has nothing to match: %+v", want)
			}
		})
	}
}

func sameCounts(x, y Messages) bool {
	counts := func(m Messages) [14]uint64 {
		return [14]uint64{m.Sends, m.Receives, m.Matched, uint64(m.Streams), uint64(m.StoppedStreams), m.Stopped, m.Gaps, m.Tail, m.Strangers, m.Unaddressed,
			m.Damaged, m.Duplicates, m.Unaligned, m.DroppedEvents}
	}
	return counts(x) == counts(y)
}

// TestSerials compares with a plain set.
func TestSerials(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for range 2000 {
		s, have := &serials{}, map[uint32]bool{}
		for range random.IntN(40) {
			n := random.Uint32N(30)
			s.add(n)
			have[n] = true
		}
		want := uint32(0)
		for have[want+1] {
			want++
		}
		if got := s.complete(); got != want {
			t.Fatalf("complete up to %d, want %d: %v of %v", got, want, s.spans, have)
		}
	}
	s := &serials{}
	for _, n := range []uint32{1<<32 - 1, 1<<32 - 2, 0, 1} {
		s.add(n)
	}
	if s.complete() != 1 || len(s.spans) != 2 {
		t.Errorf("at the ends of the numbers: %v", s.spans)
	}
}
