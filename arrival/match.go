package arrival

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
)

// endKey is the stream of an event: who sent to whom.
func (m *matcher) endKey(e *message, receive bool) streamKey {
	p := &m.a.processes[e.process]
	key := streamKey{comm: e.comm, world: p.world, from: p.rank, to: e.peer, tag: e.tag}
	if receive {
		key.from, key.to = e.peer, p.rank
	}
	return key
}

func compareStreams(x, y *streamKey) int {
	return cmp.Or(cmp.Compare(x.world, y.world), cmp.Compare(x.comm, y.comm), cmp.Compare(x.from, y.from),
		cmp.Compare(x.to, y.to), cmp.Compare(x.tag, y.tag))
}

// match goes through both sides in the order of streams.
func (m *matcher) match(sends, receives []message) {
	m.sortEnds(sends, false)
	m.sortEnds(receives, true)
	for len(sends) > 0 || len(receives) > 0 {
		key := m.nextStream(sends, receives)
		s, r := m.run(sends, &key, false), m.run(receives, &key, true)
		m.out.Streams++
		m.stream(&key, sends[:s], receives[:r])
		sends, receives = sends[s:], receives[r:]
	}
}

func (m *matcher) sortEnds(list []message, receive bool) {
	slices.SortFunc(list, func(x, y message) int {
		p, q := m.endKey(&x, receive), m.endKey(&y, receive)
		return cmp.Or(compareStreams(&p, &q), cmp.Compare(x.serial, y.serial), cmp.Compare(x.enter, y.enter))
	})
}

// nextStream is the first stream of either side.
func (m *matcher) nextStream(sends, receives []message) streamKey {
	switch {
	case len(sends) == 0:
		return m.endKey(&receives[0], true)
	case len(receives) == 0:
		return m.endKey(&sends[0], false)
	}
	s, r := m.endKey(&sends[0], false), m.endKey(&receives[0], true)
	if compareStreams(&r, &s) < 0 {
		return r
	}
	return s
}

// run is how many events at the start of list belong to the stream.
func (m *matcher) run(list []message, key *streamKey, receive bool) int {
	n := 0
	for n < len(list) {
		if k := m.endKey(&list[n], receive); compareStreams(&k, key) != 0 {
			break
		}
		n++
	}
	return n
}

// ends is one side of a stream in the order of its serials, each serial once.
type ends interface {
	len() int
	at(i int) *message // until the next call
}

// inMemory is ends that are kept.
type inMemory []message

func (s inMemory) len() int          { return len(s) }
func (s inMemory) at(i int) *message { return &s[i] }

// stream matches one stream, as far as its ends can be trusted.
func (m *matcher) stream(key *streamKey, sends, receives []message) {
	sends, receives = m.unique(sends), m.unique(receives)
	for i := range m.pairs(key, inMemory(sends), inMemory(receives)) {
		m.pair(&sends[i], &receives[i])
	}
}

// pairs is how many sends of a stream, from the first on, belong to the
// receive of the same place; the others are counted by reason.
func (m *matcher) pairs(key *streamKey, sends, receives ends) int {
	key.fromSeat, key.toSeat = m.seat(key.world, key.from), m.seat(key.world, key.to)
	all := sends.len() + receives.len()
	if m.silent(key.fromSeat) || m.silent(key.toSeat) {
		m.out.Strangers += uint64(all)
		return 0
	}
	s := trusted(sends, m.limitOf(key, false))
	r := trusted(receives, m.limitOf(key, true))
	cut := s < sends.len() || r < receives.len() || m.a.processes[key.fromSeat].dropped > 0 || m.a.processes[key.toSeat].dropped > 0
	finished := m.a.processes[key.fromSeat].finished && m.a.processes[key.toSeat].finished
	n := min(s, r)
	if !m.plausible(sends, receives, n) || finished && !cut && s != r {
		m.out.StoppedStreams++
		m.out.Stopped += uint64(all)
		return 0
	}
	m.out.Gaps += uint64(all - s - r)
	m.out.Tail += uint64(s + r - 2*n)
	return n
}

// unique drops events that were recorded twice: the same serial again.
func (m *matcher) unique(list []message) []message {
	out := slices.CompactFunc(list, func(x, y message) bool { return x.serial == y.serial })
	m.out.Duplicates += uint64(len(list) - len(out))
	return out
}

func (m *matcher) seat(world, rank int32) int32 {
	if p, ok := m.seats[seat{world, rank}]; ok {
		return int32(p)
	}
	return -1
}

// silent tells that a rank is missing, or was not traced.
func (m *matcher) silent(process int32) bool { return process < 0 || !m.limits[process].traced }

// limitOf is the last serial of a stream's end that may be matched.
func (m *matcher) limitOf(key *streamKey, receive bool) uint32 {
	process, peer := key.fromSeat, key.to
	if receive {
		process, peer = key.toSeat, key.from
	}
	l := &m.limits[process]
	most := l.sends
	if receive {
		most = l.receives
	}
	for u, serial := range l.unknown {
		may := u.receive == receive && u.comm == key.comm && (u.peer < 0 || u.peer == peer) && (u.tag < 0 || u.tag == key.tag)
		if may {
			most = min(most, max(serial, 1)-1)
		}
	}
	return most
}

// trusted is how many events come up to the limit.
func trusted(list ends, limit uint32) int {
	return sort.Search(list.len(), func(i int) bool { return list.at(i).serial > limit })
}

// plausible tells of the first n of both sides that no message arrives before
// it was sent, and that what was sent is what arrived: else the ends have
// shifted against each other.
func (m *matcher) plausible(sends, receives ends, n int) bool {
	for i := range n {
		s, r := sends.at(i), receives.at(i)
		estimated := r.flags&segment.EventFlagEstimated != 0
		if !estimated && s.bytes != r.bytes {
			return false
		}
		t, ok := m.times(s, r)
		if ok && !estimated && t.exit < t.sendEnter-t.bound {
			return false
		}
	}
	return true
}

// times of a message in ns of one clock, after the entry of the send.
type times struct {
	sendEnter, sendExit float64
	post, enter, exit   float64
	bound               float64
}

// times puts both ends on one clock; false if they cannot be compared.
func (m *matcher) times(s, r *message) (times, bool) {
	a := m.a
	x, y := a.processes[s.process].domain, a.processes[r.process].domain
	if a.domains[x].component != a.domains[y].component {
		return times{}, false
	}
	origin, bound := a.reference(x, a.domains[x].ns(s.enter))
	t := times{bound: a.domains[x].errorNS}
	at := func(d int32, ticks int64) float64 {
		ns, b := a.reference(d, a.domains[d].ns(ticks))
		if x != y {
			t.bound = max(t.bound, bound+b+a.domains[x].errorNS+a.domains[y].errorNS)
		}
		return float64(ns - origin)
	}
	t.sendExit = at(x, s.exit)
	t.post, t.enter, t.exit = at(y, r.post), at(y, r.enter), at(y, r.exit)
	return t, true
}

// pair computes the wait states of one message.
func (m *matcher) pair(s, r *message) {
	m.out.Matched++
	t, ok := m.times(s, r)
	if !ok {
		m.out.Unaligned++
		return
	}
	for _, site := range []*MessageSite{m.site(s), m.site(r)} {
		site.Matched++
		switch {
		case t.post < -t.bound:
			site.Early++
		case t.post > t.bound:
			site.Unexpected++
		}
		if s.process == r.process && s.address == r.address && s.call == r.call {
			break // one site has both ends: count it once
		}
	}
	m.lateReceiver(s, r, t)
	if r.flags&segment.EventFlagEstimated == 0 {
		m.lateSender(s, r, t)
	}
}

// lateReceiver: a blocking send that was left after the receive was posted
// waited for that post. What a Sendrecv waited for is told by its receive.
func (m *matcher) lateReceiver(s, r *message, t times) {
	waiting := min(t.post, t.sendExit)
	if s.flags&segment.EventFlagNonblocking != 0 || t.sendExit <= t.post || waiting <= 0 || isSendrecv(s.call) {
		return
	}
	if waiting <= t.bound {
		m.out.UnclaimedNS += waiting
		return
	}
	site := m.site(s)
	site.LateReceiver++
	site.LateReceiverNS += waiting
	m.out.LateReceiverNS += waiting
	m.ranks[s.process].LateReceiverNS += waiting
	m.ranks[r.process].CausedNS += waiting
}

func isSendrecv(call uint16) bool {
	return strings.Contains(strings.ToLower(segment.Call(call).String()), "sendrecv")
}

// lateness is a receive that was blocked before its message was sent.
type lateness struct {
	process, sender uint32
	enter, exit     int64 // of the completing call
	waiting, bound  float64
	site            *MessageSite
}

// lateSender: the receiver was blocked, the send not yet entered.
func (m *matcher) lateSender(s, r *message, t times) {
	if waiting := min(0, t.exit) - t.enter; waiting > 0 {
		m.lateness = append(m.lateness, lateness{process: r.process, sender: s.process, enter: r.enter, exit: r.exit,
			waiting: waiting, bound: t.bound, site: m.site(r)})
	}
}

// chargeLateSenders charges each completing call once, to its latest sender:
// the receives of one MPI_Waitall wait at the same time.
func (m *matcher) chargeLateSenders() {
	list := m.lateness
	slices.SortStableFunc(list, func(x, y lateness) int {
		return cmp.Or(cmp.Compare(x.process, y.process), cmp.Compare(x.enter, y.enter), cmp.Compare(x.exit, y.exit), -cmp.Compare(x.waiting, y.waiting))
	})
	for i := range list {
		l := &list[i]
		if i > 0 && list[i-1].process == l.process && list[i-1].enter == l.enter && list[i-1].exit == l.exit {
			continue
		}
		if l.waiting <= l.bound {
			m.out.UnclaimedNS += l.waiting
			continue
		}
		l.site.LateSender++
		l.site.LateSenderNS += l.waiting
		m.out.LateSenderNS += l.waiting
		m.ranks[l.process].LateSenderNS += l.waiting
		m.ranks[l.sender].CausedNS += l.waiting
	}
	m.lateness = nil
}
