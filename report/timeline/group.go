package timeline

import (
	"github.com/mpitrace/mpitrace/segment"
)

// group is the records of one rank that begin at the same moment: calls, and
// the messages and requests that belong to them.
type group struct {
	*exporter
	rank    *Rank
	records []record
	calls   []placed
}

// placed is a call with its ticks.
type placed struct {
	Call
	record record
}

// flush hands the calls of the moment out.
func (g *group) flush(w Writer) error {
	if len(g.records) == 0 {
		return nil
	}
	g.calls = g.calls[:0]
	for i := range g.records {
		switch rec := &g.records[i]; rec.Class {
		case classCall, classOpen:
			g.add(rec, false)
		case classEnd:
			c := g.owner(rec)
			c.Ends = append(c.Ends, g.end(rec))
		case classRequest:
			c := g.poster(rec)
			c.Posted = append(c.Posted, g.request(rec))
		}
	}
	g.records = g.records[:0]
	for i := range g.calls {
		if err := g.enter(w, &g.calls[i]); err != nil {
			return err
		}
	}
	return nil
}

// add makes a call of a record; implied says that the call itself has none.
func (g *group) add(rec *record, implied bool) *placed {
	e, r := &rec.Event, g.rank
	c := placed{record: *rec, Call: Call{
		Rank: r, Call: segment.Call(e.Call), Comm: g.comm(r, e.CommID), Root: -1, Peer: e.Peer, Tag: e.Tag, Bytes: e.Bytes,
		Open: rec.Class == classOpen, Implied: implied, Thread: int(rec.Lane)}}
	c.Name = c.Call.Call.String()
	if e.Call == 0 {
		c.Name = "(a call that completes messages)"
	} else {
		c.Place = g.placeOf(r, e.Address, e.Call)
	}
	if c.Call.Call.Class() == "coll" && e.Peer >= 0 {
		c.Root = e.Peer
	}
	g.exporter.calls++
	c.ID = g.exporter.calls
	g.calls = append(g.calls, c)
	return &g.calls[len(g.calls)-1]
}

// owner is the call that sent or completed a message: same begin, end and
// thread. If it was not kept the message stands for it.
func (g *group) owner(rec *record) *placed {
	for i := len(g.calls) - 1; i >= 0; i-- {
		c := &g.calls[i]
		if c.record.Class == classCall && c.record.Event.ExitTicks == rec.Event.ExitTicks && c.record.Lane == rec.Lane {
			return c
		}
	}
	implied := *rec
	implied.Class = classCall
	if e := &implied.Event; e.Kind == segment.EventKindReceive && e.Flags&segment.EventFlagNonblocking != 0 {
		// The event names the call that posted it, not the one that completed it.
		e.Call, e.Address, e.CommID, e.Bytes, e.Peer, e.Tag = 0, 0, 0, 0, segment.PeerUnknown, -1
	}
	return g.add(&implied, true)
}

// poster is the call that posted a request.
func (g *group) poster(rec *record) *placed {
	for i := len(g.calls) - 1; i >= 0; i-- {
		c := &g.calls[i]
		if c.record.Class == classCall && c.record.Event.Call == rec.Event.Call && c.record.Event.Address == rec.Event.Address {
			return c
		}
	}
	implied := *rec
	implied.Class = classCall
	implied.Event.ExitTicks = implied.Event.EnterTicks
	implied.Event.Bytes = 0
	return g.add(&implied, true)
}

// end is a message at a call.
func (g *group) end(rec *record) End {
	e, r := &rec.Event, g.rank
	return End{
		Receive: e.Kind == segment.EventKindReceive, Nonblocking: e.Flags&segment.EventFlagNonblocking != 0, Estimated: e.Flags&segment.EventFlagEstimated != 0,
		AnySource: e.Flags&segment.EventFlagAnySource != 0, AnyTag: e.Flags&segment.EventFlagAnyTag != 0, Serial: e.Serial,
		Call: segment.Call(e.Call), Place: g.placeOf(r, e.Address, e.Call), PostNS: g.at(r, e.PostTicks), Comm: g.comm(r, e.CommID),
		Peer: e.Peer, Tag: e.Tag, Bytes: e.Bytes, Flow: rec.Flow,
	}
}

// request is a nonblocking receive; post and enter of its record are swapped.
func (g *group) request(rec *record) Request {
	g.summary.Requests++
	out := Request{End: g.end(rec), CompleteNS: g.at(g.rank, rec.Event.PostTicks), DoneNS: g.at(g.rank, rec.Event.ExitTicks)}
	out.PostNS = g.at(g.rank, rec.Event.EnterTicks)
	out.CompleteNS = max(out.CompleteNS, out.PostNS)
	out.DoneNS = max(out.DoneNS, out.CompleteNS)
	return out
}

// at is a moment of a rank on the time axis, never before 0.
func (l *loader) at(r *Rank, ticks uint64) int64 { return max(0, l.ns(r, ticks)) }

// enter finds the track of a call, closes what has ended on it and hands the
// call out.
func (g *group) enter(w Writer, c *placed) error {
	r := g.rank
	t, err := r.trackFor(w, c.Thread, c.record.Event.EnterTicks, c.record.Event.ExitTicks)
	if err != nil {
		return err
	}
	c.Track = t.index
	c.BeginNS, c.EndNS = g.at(r, c.record.Event.EnterTicks), g.at(r, c.record.Event.ExitTicks)
	// The alignment may turn moments that are closer than its bound: calls of a
	// track stay one within or after the other.
	c.BeginNS = max(c.BeginNS, t.lastNS)
	if n := len(t.open); n > 0 {
		c.BeginNS = min(c.BeginNS, t.open[n-1].EndNS)
		c.EndNS = min(c.EndNS, t.open[n-1].EndNS)
	}
	c.EndNS = max(c.EndNS, c.BeginNS)
	t.lastNS = c.BeginNS
	t.open = append(t.open, *c)
	r.firstNS, r.lastNS = min(r.firstNS, c.BeginNS), max(r.lastNS, c.EndNS)
	r.Calls++
	g.summary.Calls++
	if c.Open {
		g.summary.Open++
	}
	if c.Implied {
		g.summary.Implied++
	}
	return w.Enter(&t.open[len(t.open)-1].Call)
}
