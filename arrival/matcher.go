package arrival

import (
	"cmp"
	"slices"

	"github.com/mpitrace/mpitrace/segment"
)

// End is one end of a message: an event SEND or RECEIVE of a process.
type End struct {
	Event   segment.RawEvent
	Process uint32 // as Result.Process numbers it
	Ref     uint64 // the caller's
}

// Ends is one side of a stream: sends or receives in the order of
// Matcher.Compare, none twice.
type Ends interface {
	Len() int
	At(i int) *End // until the next call; mostly asked for in order
}

// Matcher matches the messages of traces that are too large to be kept in
// memory by AddEvents, by the same rules. The caller keeps the ends and puts
// them in order:
//
//	m := result.NewMatcher()
//	keep := m.Take(&end)               // of every event, in any order
//	m.Compare(&x, &y)                  // to sort what is to be kept
//	n := m.Stream(sends, receives)     // of each stream: Compare says StreamOf is equal
//
// A Matcher keeps of each process only which serials are missing, so that its
// memory does not grow with the trace. It is not safe for concurrent use.
type Matcher struct {
	m       *matcher
	serials map[serialsKey]*serials // of processes with dropped events
}

type serialsKey struct {
	process uint32
	receive bool
}

// NewMatcher makes a Matcher for the processes that were analysed.
func (r *Result) NewMatcher() *Matcher {
	return &Matcher{m: r.analysis.newMatcher(), serials: map[serialsKey]*serials{}}
}

// Take looks at one end and tells whether it is to be kept and sorted: if not,
// its other end cannot be told, and it is counted.
func (t *Matcher) Take(e *End) bool {
	message, receive := messageOf(&e.Event, e.Process), e.receive()
	t.m.limits[e.Process].traced = true
	if t.m.a.processes[e.Process].dropped > 0 {
		key := serialsKey{e.Process, receive}
		if t.serials[key] == nil {
			t.serials[key] = &serials{}
		}
		t.serials[key].add(e.Event.Serial)
	}
	if !t.m.matchable(&message, receive) {
		return false
	}
	if receive {
		t.m.out.Receives++
	} else {
		t.m.out.Sends++
	}
	return true
}

func (e *End) receive() bool { return e.Event.Kind == segment.EventKindReceive }

func (t *Matcher) key(e *End) streamKey {
	message := messageOf(&e.Event, e.Process)
	return t.m.endKey(&message, e.receive())
}

// Compare orders ends by stream, sends before receives, then as they were
// posted; 0 is the same event recorded twice.
func (t *Matcher) Compare(x, y *End) int {
	p, q := t.key(x), t.key(y)
	return cmp.Or(compareStreams(&p, &q), cmp.Compare(x.Event.Kind, y.Event.Kind), cmp.Compare(x.Event.Serial, y.Event.Serial))
}

// SameStream tells whether messages of the two ends cannot overtake each other.
func (t *Matcher) SameStream(x, y *End) bool {
	p, q := t.key(x), t.key(y)
	return compareStreams(&p, &q) == 0
}

// Duplicate counts an end that is equal to one before it and was left away.
func (t *Matcher) Duplicate() { t.m.out.Duplicates++ }

// Stream is how many messages of a stream were matched: send i belongs to
// receive i. Ends behind them are counted by reason. All ends must have been
// taken before.
func (t *Matcher) Stream(sends, receives Ends) int {
	t.limit()
	t.m.out.Streams++
	first := sends
	if sends.Len() == 0 {
		first = receives
	}
	key := t.key(first.At(0))
	n := t.m.pairs(&key, &kept{Ends: sends}, &kept{Ends: receives})
	t.m.out.Matched += uint64(n)
	if n > 0 && !t.m.a.comparable(uint32(key.fromSeat), uint32(key.toSeat)) {
		t.m.out.Unaligned += uint64(n)
	}
	return n
}

// limit takes over up to which serial nothing is missing, once.
func (t *Matcher) limit() {
	if t.serials == nil {
		return
	}
	for i := range t.m.limits {
		if t.m.a.processes[i].dropped > 0 {
			l := &t.m.limits[i]
			l.sends, l.receives = t.serials[serialsKey{uint32(i), false}].complete(), t.serials[serialsKey{uint32(i), true}].complete()
		}
	}
	t.serials = nil
}

// Messages is the counts of the messages so far; times, sites and ranks are
// left out.
func (t *Matcher) Messages() Messages { return t.m.out }

// kept is Ends of the caller.
type kept struct {
	Ends
	message message
}

func (k *kept) len() int { return k.Len() }

func (k *kept) at(i int) *message {
	e := k.At(i)
	k.message = messageOf(&e.Event, e.Process)
	return &k.message
}

// serials is a set of serials, as spans without gaps.
type serials struct{ spans []span }

type span struct{ from, to uint32 } // both included

func (s *serials) add(n uint32) {
	if last := len(s.spans) - 1; last >= 0 && n > 0 && s.spans[last].to == n-1 {
		s.spans[last].to = n // the usual case
		return
	}
	i, found := slices.BinarySearchFunc(s.spans, n, func(p span, n uint32) int {
		switch {
		case p.to < n:
			return -1
		case p.from > n:
			return 1
		}
		return 0
	})
	if found {
		return
	}
	s.spans = slices.Insert(s.spans, i, span{n, n})
	if i+1 < len(s.spans) && s.spans[i+1].from == n+1 {
		s.spans[i].to = s.spans[i+1].to
		s.spans = slices.Delete(s.spans, i+1, i+2)
	}
	if i > 0 && s.spans[i-1].to == n-1 {
		s.spans[i-1].to = s.spans[i].to
		s.spans = slices.Delete(s.spans, i, i+1)
	}
}

// complete is the serial up to which none is missing; serials begin with 1.
func (s *serials) complete() uint32 {
	if s == nil || len(s.spans) == 0 || s.spans[0].from > 1 {
		return 0
	}
	if s.spans[0].to == 0 && len(s.spans) > 1 && s.spans[1].from == 1 {
		return s.spans[1].to
	}
	return s.spans[0].to
}
