package arrival

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// Messages is what the events of point-to-point messages tell. Times are ns;
// all are of matched messages only, nothing is extrapolated.
type Messages struct {
	Sends, Receives uint64 // events
	Matched         uint64 // messages of which both ends were found
	Streams         int    // (communicator, source, destination, tag)

	// Why others were not matched.
	StoppedStreams int    // streams whose ends contradict each other: number, order in time, or bytes
	Stopped        uint64 // events of them
	Gaps           uint64 // events behind a gap in the trace of their rank, or behind one whose partner is not known
	Tail           uint64 // the other end was not recorded when the job was looked at, or ended early
	Strangers      uint64 // the other rank has no events at all
	Unaddressed    uint64 // rank, tag or communicator of the other end not known
	Damaged        uint64 // impossible times
	Duplicates     uint64
	Unaligned      uint64 // matched, but the clocks cannot be compared

	DroppedEvents uint64 // events of any kind that were not kept
	DroppingRanks int    // ranks that did not keep some

	LateSenderNS   float64 // receivers blocked before the send was entered
	LateReceiverNS float64 // blocking senders blocked before the receive was posted
	UnclaimedNS    float64 // as these two, within the bound of the clocks

	Sites []MessageSite // by waiting, most first
	Ranks []MessageRank // by waiting caused, most first
}

// MessageSite is the messages posted by one rank at one place.
type MessageSite struct {
	World      string
	Rank       int32 // world rank in whose address space the address lies
	Address    uint64
	Call       segment.Call
	Sends      uint64
	Receives   uint64
	Bytes      uint64
	AnySource  uint64 // receives with MPI_ANY_SOURCE
	AnyTag     uint64 // receives with MPI_ANY_TAG
	Matched    uint64 // messages compared with their other end
	Early      uint64 // of these: the receive was posted before the send was entered
	Unexpected uint64 // of these: the send was entered before the receive was posted
	// The rest of Matched: the bound leaves it open.

	LateSender     uint64 // receives that waited for a late sender
	LateSenderNS   float64
	LateReceiver   uint64 // blocking sends that waited for a late receiver
	LateReceiverNS float64

	Nonblocking uint64  // receives completed by another call
	WindowNS    float64 // of these: from the post to the entry of the completing call
	BlockedNS   float64 // of these: inside it, shared evenly by the receives that it completed
}

// MessageRank is the waiting at one rank, and the waiting of others for it.
type MessageRank struct {
	World          string
	Rank           int32
	LateSenderNS   float64 // it waited, as receiver
	LateReceiverNS float64 // it waited, as sender
	CausedNS       float64 // others waited for it
}

// messages is the events of one process.
type messages struct{ sends, receives []message }

// message is one end of a message. Times are ticks of the process.
type message struct {
	enter, exit, post int64
	address, bytes    uint64
	comm              uint64
	process           uint32
	serial            uint32
	peer, tag         int32
	siblings          uint32 // receives that its completing call completed
	call              uint16
	flags             uint8
}

// AddEvents takes events of a process whose segment was added before: those of
// its trace file. Events of any kind may be among them.
func (a *Analysis) AddEvents(s *segment.Segment, events []segment.RawEvent) {
	index, ok := a.processOf[s.Header.Process()]
	if !ok || len(events) == 0 {
		return
	}
	p := &a.processes[index]
	sends, receives := 0, 0
	for i := range events {
		switch events[i].Kind {
		case segment.EventKindSend:
			sends++
		case segment.EventKindReceive:
			receives++
		}
	}
	p.sends, p.receives = slices.Grow(p.sends, sends), slices.Grow(p.receives, receives)
	for i := range events {
		switch events[i].Kind {
		case segment.EventKindSend:
			p.sends = append(p.sends, messageOf(&events[i], index))
		case segment.EventKindReceive:
			p.receives = append(p.receives, messageOf(&events[i], index))
		}
	}
}

// messageOf is the end of a message that an event of a process tells of.
func messageOf(e *segment.RawEvent, process uint32) message {
	return message{enter: int64(e.EnterTicks), exit: int64(e.ExitTicks), post: int64(e.PostTicks), address: e.Address,
		bytes: e.Bytes, comm: e.CommID, process: process, serial: e.Serial, peer: e.Peer, tag: e.Tag, call: e.Call, flags: e.Flags}
}

// sane tells whether the times of an event are possible: post <= enter <= exit.
func (m *message) sane() bool {
	return m.post > 0 && m.post <= m.enter && m.enter <= m.exit && m.exit <= spanMax
}

// streamKey is messages that cannot overtake each other.
type streamKey struct {
	comm             uint64
	world            int32
	from, to         int32 // world ranks
	tag              int32
	fromSeat, toSeat int32 // processes, -1 if their segment is missing
}

// matcher pairs the ends of messages.
//
// Messages of one stream do not overtake each other, and receives of one
// stream match in the order of their posting even where they were posted with
// wildcards (MPI 4.1, 3.5): so the k-th send belongs to the k-th receive.
type matcher struct {
	a        *Analysis
	out      Messages
	seats    map[seat]uint32
	limits   []limit
	sites    map[messageSiteKey]*MessageSite
	ranks    []MessageRank
	lateness []lateness
}

// limit is the serials up to which the events of a process are complete, and
// what may stand at gaps in them.
type limit struct {
	sends, receives uint32
	traced          bool
	unknown         map[unknown]uint32 // the first serial of each
}

// unknown is receives or sends whose partner is not known: what comes after
// them may be one place off in any stream that they could belong to.
type unknown struct {
	comm      uint64
	peer, tag int32 // negative: any
	receive   bool
}

type messageSiteKey struct {
	address uint64
	process uint32
	call    uint16
}

// measureMessages matches all messages and computes wait states.
func (a *Analysis) measureMessages() Messages {
	m := a.newMatcher()
	var sends, receives []message
	for i := range a.processes {
		p := &a.processes[i]
		m.limits[i].traced = len(p.sends)+len(p.receives) > 0
		if p.dropped > 0 {
			m.limits[i].sends, m.limits[i].receives = complete(p.sends), complete(p.receives)
		}
		sends = append(sends, m.take(p.sends, false)...)
		receives = append(receives, m.take(p.receives, true)...)
		p.messages = messages{}
	}
	m.out.Sends += uint64(len(sends))
	m.out.Receives += uint64(len(receives))
	m.match(sends, receives)
	m.chargeLateSenders()
	return m.finish()
}

// newMatcher knows all processes, and that nothing of them is missing.
func (a *Analysis) newMatcher() *matcher {
	m := &matcher{a: a, seats: map[seat]uint32{}, limits: make([]limit, len(a.processes)), sites: map[messageSiteKey]*MessageSite{}}
	for i := range a.processes {
		p := &a.processes[i]
		m.seats[seat{p.world, p.rank}] = uint32(i)
		m.ranks = append(m.ranks, MessageRank{World: a.worlds[p.world], Rank: p.rank})
		m.out.DroppedEvents += p.dropped
		if p.dropped > 0 {
			m.out.DroppingRanks++
		}
		m.limits[i] = limit{sends: math.MaxUint32, receives: math.MaxUint32}
	}
	return m
}

// complete is the serial up to which none is missing.
func complete(list []message) uint32 {
	serials := make([]uint32, 0, len(list))
	for i := range list {
		serials = append(serials, list[i].serial)
	}
	slices.Sort(serials)
	next := uint32(1)
	for _, s := range serials {
		if s > next {
			break
		}
		next = max(next, s+1)
	}
	return next - 1
}

// take counts the events of a process by site and keeps those that can be
// matched.
func (m *matcher) take(list []message, receive bool) []message {
	if receive {
		countSiblings(list)
	}
	kept := list[:0]
	for i := range list {
		e := list[i]
		m.count(&e, receive)
		if m.matchable(&e, receive) {
			kept = append(kept, e)
		}
	}
	return kept
}

// matchable tells whether the other end of an event can be looked for; else it
// is counted, and what it leaves in doubt is noted.
func (m *matcher) matchable(e *message, receive bool) bool {
	matchable, hidden := m.a.processes[e.process].private[e.comm]
	switch {
	case !e.sane():
		m.refuse(&m.out.Damaged, receive)
		m.doubt(e, receive)
	case e.comm == 0 || hidden && !matchable || e.peer == segment.PeerForeign:
		m.refuse(&m.out.Unaddressed, receive)
	case e.peer < 0 || e.tag < 0:
		m.refuse(&m.out.Unaddressed, receive)
		m.doubt(e, receive)
	default:
		return true
	}
	return false
}

// refuse counts an event that is not matched.
func (m *matcher) refuse(why *uint64, receive bool) {
	*why++
	if receive {
		m.out.Receives++
	} else {
		m.out.Sends++
	}
}

// doubt notes that an event leaves a gap of unknown place.
func (m *matcher) doubt(e *message, receive bool) {
	l := &m.limits[e.process]
	if l.unknown == nil {
		l.unknown = map[unknown]uint32{}
	}
	key := unknown{e.comm, e.peer, e.tag, receive}
	if first, ok := l.unknown[key]; !ok || e.serial < first {
		l.unknown[key] = e.serial
	}
}

// countSiblings finds how many receives each completing call completed.
func countSiblings(receives []message) {
	slices.SortFunc(receives, func(x, y message) int { return cmp.Or(cmp.Compare(x.enter, y.enter), cmp.Compare(x.exit, y.exit)) })
	for i := 0; i < len(receives); {
		j := i + 1
		for j < len(receives) && receives[j].enter == receives[i].enter && receives[j].exit == receives[i].exit {
			j++
		}
		for k := i; k < j; k++ {
			receives[k].siblings = uint32(j - i)
		}
		i = j
	}
}

// site is the figures of the place that posted e.
func (m *matcher) site(e *message) *MessageSite {
	key := messageSiteKey{e.address, e.process, e.call}
	s := m.sites[key]
	if s == nil {
		p := &m.a.processes[e.process]
		s = &MessageSite{World: m.a.worlds[p.world], Rank: p.rank, Address: e.address, Call: segment.Call(e.call)}
		m.sites[key] = s
	}
	return s
}

// count adds an event to its site.
func (m *matcher) count(e *message, receive bool) {
	s := m.site(e)
	s.Bytes += e.bytes
	if !receive {
		s.Sends++
		return
	}
	s.Receives++
	if e.flags&segment.EventFlagAnySource != 0 {
		s.AnySource++
	}
	if e.flags&segment.EventFlagAnyTag != 0 {
		s.AnyTag++
	}
	if e.flags&segment.EventFlagNonblocking == 0 || e.flags&segment.EventFlagEstimated != 0 || !e.sane() {
		return
	}
	d := &m.a.domains[m.a.processes[e.process].domain]
	s.Nonblocking++
	s.WindowNS += float64(d.ns(e.enter) - d.ns(e.post))
	s.BlockedNS += float64(d.ns(e.exit)-d.ns(e.enter)) / float64(e.siblings)
}

// finish puts the figures in order.
func (m *matcher) finish() Messages {
	for _, s := range m.sites {
		m.out.Sites = append(m.out.Sites, *s)
	}
	slices.SortFunc(m.out.Sites, func(x, y MessageSite) int {
		return cmp.Or(-cmp.Compare(x.LateSenderNS+x.LateReceiverNS, y.LateSenderNS+y.LateReceiverNS),
			strings.Compare(x.World, y.World), cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Address, y.Address), cmp.Compare(x.Call, y.Call))
	})
	m.out.Ranks = slices.DeleteFunc(m.ranks, func(r MessageRank) bool {
		return r.CausedNS == 0 && r.LateSenderNS == 0 && r.LateReceiverNS == 0
	})
	slices.SortFunc(m.out.Ranks, func(x, y MessageRank) int {
		return cmp.Or(-cmp.Compare(x.CausedNS, y.CausedNS), strings.Compare(x.World, y.World), cmp.Compare(x.Rank, y.Rank))
	})
	return m.out
}
