package report

import (
	"cmp"
	"strings"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/segment"
)

// Overlap is the requests started at one place, and with a trace the waiting
// of its messages.
type Overlap struct {
	Function  SiteFunction `json:"function"` // with the totals of the place
	Site      *Site        `json:"site"`
	Requests  uint64       `json:"requests"`   // started here
	RequestNS uint64       `json:"request_ns"` // from the return of the start call to that of the completing call
	BeforeNS  uint64       `json:"before_ns"`  // of it, before the completing calls: what can have been overlapped
	BlockedNS uint64       `json:"blocked_ns"` // inside completing calls, each shared evenly by the requests that it completed
	// Overlapped is the share of RequestNS that is BeforeNS.
	Overlapped float64       `json:"overlapped"`
	Messages   *MessageWaits `json:"messages"` // null without a trace
	key        placeKey
}

// MessageWaits is what the two ends of the messages of a place tell.
type MessageWaits struct {
	Sends          uint64 `json:"sends"`
	Receives       uint64 `json:"receives"`
	Bytes          uint64 `json:"bytes"`
	AnySource      uint64 `json:"any_source"`
	AnyTag         uint64 `json:"any_tag"`
	Matched        uint64 `json:"matched"`          // compared with their other end
	Early          uint64 `json:"early"`            // the receive was posted before the send was entered
	Unexpected     uint64 `json:"unexpected"`       // ... after it
	LateSenders    uint64 `json:"late_senders"`     // receives that waited for the send
	LateSenderNS   uint64 `json:"late_sender_ns"`   //
	LateReceivers  uint64 `json:"late_receivers"`   // blocking sends that waited for the receive
	LateReceiverNS uint64 `json:"late_receiver_ns"` //
}

// Trace is how far the messages of a trace could be matched.
type Trace struct {
	Sends          uint64 `json:"sends"`
	Receives       uint64 `json:"receives"`
	Matched        uint64 `json:"matched"`
	Unmatched      uint64 `json:"unmatched"` // events whose other end is missing or in doubt
	Unaligned      uint64 `json:"unaligned"` // matched, but on clocks that cannot be compared
	Dropped        uint64 `json:"dropped"`   // events of any kind that were not kept
	LateSenderNS   uint64 `json:"late_sender_ns"`
	LateReceiverNS uint64 `json:"late_receiver_ns"`
	UnclaimedNS    uint64 `json:"unclaimed_ns"` // as these two, within the error of the clocks
}

// finishOverlap lists the places that start requests.
func (b *builder) finishOverlap() {
	for key, sites := range b.byPlace {
		var requestNS uint64
		for _, s := range sites {
			requestNS += s.RequestNS
		}
		if requestNS > 0 {
			b.overlap(key).fill(b.requestsOf(key, sites))
		}
	}
	sortBy(b.report.Overlap, func(x, y *Overlap) int {
		return cmp.Or(-cmp.Compare(x.BlockedNS, y.BlockedNS), -cmp.Compare(x.waitingNS(), y.waitingNS()), -cmp.Compare(x.RequestNS, y.RequestNS),
			strings.Compare(x.Function.Name, y.Function.Name), strings.Compare(x.Site.Module, y.Site.Module), cmp.Compare(x.Site.Offset, y.Site.Offset))
	})
}

// overlap is the row of a place, made if it is new.
func (b *builder) overlap(key placeKey) *Overlap {
	o, ok := b.overlaps[key]
	if !ok {
		site := b.placeSite(key)
		o = &Overlap{Function: SiteFunction{segment.Call(key.call).String(), site.Totals}, Site: site, key: key}
		b.overlaps[key] = o
		b.report.Overlap = append(b.report.Overlap, o)
	}
	return o
}

// fill takes the times of the requests.
func (o *Overlap) fill(requests uint64) {
	o.Requests, o.RequestNS = requests, o.Site.RequestNS
	o.BeforeNS = min(o.Site.BeforeNS, o.RequestNS)
	o.BlockedNS = min(o.Site.BlockedNS, o.RequestNS-o.BeforeNS)
	o.Overlapped = ratio(o.BeforeNS, o.RequestNS)
}

// requestsOf is the requests that a place started: one for each call, but of
// MPI_Startall as many as all its places did on average.
func (b *builder) requestsOf(key placeKey, sites []*Site) uint64 {
	var calls uint64
	for _, s := range sites {
		calls += s.Calls
	}
	if f := b.functions[key.call]; f != nil && f.Calls > 0 && f.Completed > f.Calls && strings.HasPrefix(f.Name, "MPI_Startall") {
		return uint64(float64(calls) * float64(f.Completed) / float64(f.Calls))
	}
	return calls
}

// finishMessages takes over what the traces tell of messages.
func (b *builder) finishMessages(m *arrival.Messages) {
	if m.Sends+m.Receives == 0 || len(b.headless) > 0 {
		return
	}
	b.report.Trace = &Trace{Sends: m.Sends, Receives: m.Receives, Matched: m.Matched,
		Unmatched: m.Stopped + m.Gaps + m.Tail + m.Strangers + m.Unaddressed + m.Damaged, Unaligned: m.Unaligned, Dropped: m.DroppedEvents,
		LateSenderNS: wholeNS(m.LateSenderNS), LateReceiverNS: wholeNS(m.LateReceiverNS), UnclaimedNS: wholeNS(m.UnclaimedNS)}
	for i := range m.Sites {
		s := &m.Sites[i]
		o := b.overlap(b.placeOf(s.World, s.Rank, s.Address, uint32(s.Call)))
		if o.Messages == nil {
			o.Messages = &MessageWaits{}
		}
		o.Messages.add(s)
	}
}

func (w *MessageWaits) add(s *arrival.MessageSite) {
	w.Sends += s.Sends
	w.Receives += s.Receives
	w.Bytes += s.Bytes
	w.AnySource += s.AnySource
	w.AnyTag += s.AnyTag
	w.Matched += s.Matched
	w.Early += s.Early
	w.Unexpected += s.Unexpected
	w.LateSenders += s.LateSender
	w.LateSenderNS += wholeNS(s.LateSenderNS)
	w.LateReceivers += s.LateReceiver
	w.LateReceiverNS += wholeNS(s.LateReceiverNS)
}

// waitingNS is the waiting for the other end, as far as it is known.
func (o *Overlap) waitingNS() uint64 {
	if o.Messages == nil {
		return 0
	}
	return o.Messages.LateSenderNS + o.Messages.LateReceiverNS
}

// overlapTable has a row for each place that starts requests.
func (r *Report) overlapTable(list []*Overlap) *table {
	t := &table{title: "Overlap", order: map[string]int{"name": 0, "calls": 2, "time": 5, "bytes": 7}, empty: "no requests were started", spare: []string{"blocked", "mean time"},
		columns: []column{{"function", "function", unitText, false}, {"place", "place", unitText, true}, {"requests", "requests", unitCount, false},
			{"mean time", "mean_request_ns", unitNS, false}, {"blocked", "mean_blocked_ns", unitNS, false}, {"blocked in all", "blocked_ns", unitNS, false},
			{"overlapped", "overlapped", unitShare, false}, {"", "bytes", unitBytes, false}, {"", "request_ns", unitNS, false}, {"", "before_ns", unitNS, false},
			{"", "matched", unitCount, false}, {"", "late_sender_ns", unitNS, false}, {"", "late_receiver_ns", unitNS, false},
			{"", "early", unitCount, false}, {"", "unexpected", unitCount, false}, {"", "any_source", unitCount, false}, {"", "any_tag", unitCount, false}}}
	for _, o := range list {
		m := cmp.Or(o.Messages, &MessageWaits{})
		t.rows = append(t.rows, []any{o.Function.Name, r.location(o.Site), o.Requests, mean(o.RequestNS, o.Requests), mean(o.BlockedNS, o.Requests), o.BlockedNS,
			o.Overlapped, o.Function.Bytes, o.RequestNS, o.BeforeNS, m.Matched, m.LateSenderNS, m.LateReceiverNS, m.Early, m.Unexpected, m.AnySource, m.AnyTag})
	}
	return t
}

// started is the rows with requests.
func started(list []*Overlap) []*Overlap {
	var out []*Overlap
	for _, o := range list {
		if o.RequestNS > 0 {
			out = append(out, o)
		}
	}
	return out
}

// waitTable is what a trace tells of messages, by place, most waiting first.
func (r *Report) waitTable() *table {
	t := &table{spare: []string{"wildcard"}, columns: []column{{"function", "", unitText, false}, {"place", "", unitText, true}, {"messages", "", unitCount, false},
		{"late sender", "", unitNS, false}, {"late receiver", "", unitNS, false}, {"early receiver", "", unitShare, false}, {"unexpected", "", unitShare, false}, {"wildcard", "", unitShare, false}}}
	var list []*Overlap
	for _, o := range r.Overlap {
		if o.Messages != nil {
			list = append(list, o)
		}
	}
	sortBy(list, func(x, y *Overlap) int { return -cmp.Compare(x.waitingNS(), y.waitingNS()) })
	for _, o := range list {
		m := o.Messages
		t.rows = append(t.rows, []any{o.Function.Name, r.location(o.Site), m.Sends + m.Receives, m.LateSenderNS, m.LateReceiverNS,
			ratio(m.Early, m.Matched), ratio(m.Unexpected, m.Matched), ratio(max(m.AnySource, m.AnyTag), m.Receives)})
	}
	return t
}
