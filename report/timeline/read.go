package timeline

import (
	"cmp"
	"context"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/internal/extsort"
	"github.com/mpitrace/mpitrace/segment"
)

// reader reads the trace: calls go to their place in time, ends of messages
// are matched first.
type reader struct {
	*loader
	ctx     context.Context
	options extsort.Options
	matcher *arrival.Matcher
	records *extsort.Sorter[record]
	ends    *extsort.Sorter[arrival.End]
	summary Summary
}

// read reads all events of a result.
func (r *reader) read(path string) error {
	r.matcher = r.timeline.Arrivals.NewMatcher()
	r.records = extsort.New(compareRecords, r.options)
	r.ends = extsort.New(r.matcher.Compare, r.options)
	problems, err := segment.WalkTrace(path, func(head segment.RawTraceFile, events []segment.RawEvent) error {
		rank := r.rankOf(head.Process(), len(events))
		for i := range events {
			if rank == nil {
				break
			}
			rank.Traced, rank.fromFile = true, true
			if err := r.event(rank, rank.lanes.next(&events[i]), &events[i]); err != nil {
				return err
			}
		}
		return r.ctx.Err()
	})
	r.summary.Problems = append(r.summary.Problems, problems...)
	if err != nil {
		return err
	}
	return r.readRest(path)
}

// rankOf is the rank of a process with so many events, nil if it has none.
func (r *reader) rankOf(p segment.Process, events int) *Rank {
	number, ok := r.numbers[p]
	if !ok {
		r.summary.Homeless += uint64(events)
		return nil
	}
	return r.byNumber[number]
}

// readRest reads the events that are not in trace files but in the segments,
// and the calls in progress.
func (r *reader) readRest(path string) error {
	var failed error
	_, err := segment.WalkResult(path, func(s *segment.Segment) error {
		rest := s.BeyondTrace(path)
		rank := r.rankOf(s.Header.Process(), len(rest.Events()))
		if rank == nil {
			return nil
		}
		rest.EachEvents(func(shard uint32, events []segment.RawEvent) {
			rank.Traced = true
			if first := begins(events); first > 0 && (rank.begins == 0 || first < rank.begins) {
				rank.begins = first
			}
			lane := rank.lanes.rest(shard, &events[0])
			for i := range events {
				rank.lanes.ends[lane] = max(rank.lanes.ends[lane], events[i].ExitTicks)
				if failed == nil {
					failed = r.event(rank, lane, &events[i])
				}
			}
		})
		if failed == nil {
			failed = r.readOpen(rank, s.EndTicks())
		}
		return cmp.Or(failed, r.ctx.Err())
	})
	return err
}

// begins is the serial of the first message among events, 0 without one.
func begins(events []segment.RawEvent) uint32 {
	first := uint32(0)
	for i := range events {
		if e := &events[i]; e.Kind != segment.EventKindCall && (first == 0 || e.Serial < first) {
			first = e.Serial
		}
	}
	return first
}

// readOpen takes over the calls that a rank was in at its last moment.
func (r *reader) readOpen(rank *Rank, end uint64) error {
	for shard := range rank.lanes.open {
		t := &rank.lanes.open[shard]
		if t.Call == 0 {
			continue
		}
		e := segment.RawEvent{Kind: segment.EventKindCall, Call: uint16(t.Call), EnterTicks: t.EnterTicks, ExitTicks: max(end, t.EnterTicks),
			Address: t.Address, Peer: segment.PeerUnknown, Tag: -1}
		if err := r.records.Add(record{Event: e, Rank: uint32(rank.Index), Lane: uint16(rank.lanes.of(shard)), Class: classOpen}); err != nil {
			return err
		}
	}
	rank.lanes.open = nil
	return nil
}

// event puts one event where it belongs.
func (r *reader) event(rank *Rank, lane int, e *segment.RawEvent) error {
	lane = min(lane, 1<<16-1)
	switch e.Kind {
	case segment.EventKindCall:
		return r.place(rank, lane, e, classCall, 0)
	case segment.EventKindSend, segment.EventKindReceive:
		end := arrival.End{Event: *e, Process: rank.process, Ref: uint64(lane)}
		if r.matcher.Take(&end) {
			return r.ends.Add(end)
		}
		return r.placeEnd(rank, lane, e, 0)
	}
	return nil // of a kind that newer versions know
}

// place adds a record whose times are possible.
func (r *reader) place(rank *Rank, lane int, e *segment.RawEvent, c class, flow uint64) error {
	if e.EnterTicks == 0 || e.EnterTicks > e.ExitTicks || e.ExitTicks > 1<<61 {
		r.summary.Damaged++
		return nil
	}
	return r.records.Add(record{Event: *e, Rank: uint32(rank.Index), Lane: uint16(lane), Class: c, Flow: flow})
}

// placeEnd adds a message at the call that sent or completed it, and the
// request of a nonblocking receive where it was posted.
func (r *reader) placeEnd(rank *Rank, lane int, e *segment.RawEvent, flow uint64) error {
	if err := r.place(rank, lane, e, classEnd, flow); err != nil {
		return err
	}
	if e.Kind != segment.EventKindReceive || e.Flags&segment.EventFlagNonblocking == 0 || e.PostTicks == 0 || e.PostTicks > e.EnterTicks {
		return nil
	}
	request := *e
	request.EnterTicks, request.PostTicks = e.PostTicks, e.EnterTicks
	return r.place(rank, lane, &request, classRequest, flow)
}
