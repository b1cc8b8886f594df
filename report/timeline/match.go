package timeline

import (
	"cmp"
	"fmt"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/internal/extsort"
	"github.com/mpitrace/mpitrace/segment"
)

// match matches the messages, hands them to the writer and puts all ends to
// their places.
func (e *exporter) match(w Writer) error {
	sorted, err := e.ends.Sort()
	if err != nil {
		return err
	}
	defer sorted.Close()
	sends, receives := &side{sorted: sorted.View()}, &side{sorted: sorted.View()}
	flow := uint64(0)
	for i := 0; i < sorted.Len(); {
		next, err := e.extent(sorted, i, sends, receives)
		if err != nil {
			return err
		}
		n := e.matcher.Stream(sends, receives)
		for k := range max(sends.Len(), receives.Len()) {
			if err := e.ctx.Err(); k%checkEvery == 0 && err != nil {
				return err
			}
			id := uint64(0)
			if k < n {
				flow++
				id = flow
			}
			if err := e.matched(w, sends, receives, k, id); err != nil {
				return err
			}
		}
		if sends.err != nil || receives.err != nil {
			return fmt.Errorf("reading what was sorted: %w", cmp.Or(sends.err, receives.err))
		}
		i = next
	}
	e.summary.Messages = e.matcher.Messages()
	return nil
}

// extent finds the stream that begins at i: its sends, its receives, and where
// the next one begins. An end that was recorded twice counts once.
func (e *exporter) extent(sorted *extsort.Sorted[arrival.End], i int, sends, receives *side) (int, error) {
	first, err := sorted.At(i)
	if err != nil {
		return 0, err
	}
	begin, last := *first, *first
	sends.reset()
	receives.reset()
	for n := i; ; n++ {
		if n == sorted.Len() {
			return n, nil
		}
		next, err := sorted.At(n)
		if err != nil {
			return 0, err
		}
		switch {
		case n > i && !e.matcher.SameStream(&begin, next):
			return n, nil
		case n > i && e.matcher.Compare(&last, next) == 0:
			e.matcher.Duplicate()
		case next.Event.Kind == segment.EventKindSend:
			sends.add(n)
		default:
			receives.add(n)
		}
		last = *next
	}
}

// matched puts end k of both sides to its place; id is 0 if they were not
// matched.
func (e *exporter) matched(w Writer, sends, receives *side, k int, id uint64) error {
	var ends [2]arrival.End
	for i, s := range []*side{sends, receives} {
		if k >= s.Len() {
			continue
		}
		end := s.At(k)
		if s.err != nil {
			return fmt.Errorf("reading what was sorted: %w", s.err)
		}
		ends[i] = *end
		if err := e.placeEnd(e.byNumber[end.Process], int(end.Ref), &end.Event, id); err != nil {
			return err
		}
	}
	if id == 0 {
		return nil
	}
	return w.Message(e.message(&ends[0], &ends[1], id))
}

// message is both ends of a message.
func (e *exporter) message(send, receive *arrival.End, id uint64) *Message {
	s, r := &send.Event, &receive.Event
	from, to := e.byNumber[send.Process], e.byNumber[receive.Process]
	a := e.timeline.Arrivals
	x, y := a.Clock(send.Process), a.Clock(receive.Process)
	m := &Message{
		Flow: id, Sender: from, Receiver: to, Comm: e.comm(from, s.CommID), Tag: s.Tag, Bytes: s.Bytes,
		SendCall: segment.Call(s.Call), ReceiveCall: segment.Call(r.Call), SendPlace: e.placeOf(from, s.Address, s.Call), ReceivePlace: e.placeOf(to, r.Address, r.Call),
		SendNonblocking: s.Flags&segment.EventFlagNonblocking != 0, ReceiveNonblocking: r.Flags&segment.EventFlagNonblocking != 0,
		AnySource: r.Flags&segment.EventFlagAnySource != 0, AnyTag: r.Flags&segment.EventFlagAnyTag != 0, Estimated: r.Flags&segment.EventFlagEstimated != 0,
		SendBeginNS: e.at(from, s.EnterTicks), SendEndNS: e.at(from, s.ExitTicks),
		PostNS: e.at(to, r.PostTicks), ReceiveBeginNS: e.at(to, r.EnterTicks), ReceiveEndNS: e.at(to, r.ExitTicks),
		Comparable: a.Clocks[x].Component == a.Clocks[y].Component,
	}
	_, first := a.Moment(send.Process, s.EnterTicks)
	_, second := a.Moment(receive.Process, r.ExitTicks)
	m.BoundNS = boundNS(a.Clocks[x].ErrorNS)
	if x != y {
		m.BoundNS = boundNS(first + second)
	}
	return m
}

// side is the sends or the receives of one stream: places among what was
// sorted, as spans, for duplicates leave holes.
type side struct {
	sorted *extsort.Sorted[arrival.End]
	spans  []placeSpan
	n, at  int // ends; the span used last
	err    error
}

// placeSpan is places first, first+1 ... of ends from, from+1 ...
type placeSpan struct{ from, first int }

func (s *side) reset() { s.spans, s.n, s.at = s.spans[:0], 0, 0 }

func (s *side) add(place int) {
	if last := len(s.spans) - 1; last < 0 || s.spans[last].first+s.n-s.spans[last].from != place {
		s.spans = append(s.spans, placeSpan{s.n, place})
	}
	s.n++
}

// Len is the number of ends.
func (s *side) Len() int { return s.n }

// At is an end; after a failure, which err tells, an empty one.
func (s *side) At(i int) *arrival.End {
	for s.at > 0 && s.spans[s.at].from > i {
		s.at--
	}
	for s.at+1 < len(s.spans) && s.spans[s.at+1].from <= i {
		s.at++
	}
	span := s.spans[s.at]
	e, err := s.sorted.At(span.first + i - span.from)
	if err != nil {
		s.err = err
		return &arrival.End{}
	}
	return e
}
