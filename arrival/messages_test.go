package arrival

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// message ends in true nanoseconds.
type end struct {
	rank, peer  int
	tag         int32
	bytes       uint64
	post, enter float64
	exit        float64
	call        string
	flags       uint8
	address     uint64
	serial      uint32 // 0: the next one
	drop        bool
}

func (j *testJob) event(kind uint8, e end) {
	n := j.nodes[j.nodeOf[e.rank]]
	counter := &j.sends[e.rank]
	if kind == segment.EventKindReceive {
		counter = &j.receives[e.rank]
	}
	if e.serial == 0 {
		*counter++
		e.serial = *counter
	}
	if e.drop {
		return
	}
	if e.post == 0 {
		e.post = e.enter
	}
	j.events[e.rank] = append(j.events[e.rank], segment.RawEvent{Kind: kind, Flags: e.flags, Call: uint16(synth.ID(e.call)), Serial: e.serial,
		EnterTicks: n.ticks(e.enter), ExitTicks: n.ticks(e.exit), PostTicks: n.ticks(e.post), Address: e.address, CommID: 7, Bytes: e.bytes, Peer: int32(e.peer), Tag: e.tag})
}

func (j *testJob) send(e end) {
	if e.call == "" {
		e.call = "MPI_Send"
	}
	j.event(segment.EventKindSend, e)
}

func (j *testJob) receive(e end) {
	if e.call == "" {
		e.call = "MPI_Recv"
	}
	j.event(segment.EventKindReceive, e)
}

// TestMessagesGolden: wait states of three messages, by hand.
func TestMessagesGolden(t *testing.T) {
	j := newJob(oneNode(), 0, 0)
	// Late sender: received from 1000 on, sent at 1700.
	j.receive(end{rank: 1, peer: 0, tag: 1, bytes: 8, enter: 1000, exit: 1800, address: 0x10})
	j.send(end{rank: 0, peer: 1, tag: 1, bytes: 8, enter: 1700, exit: 1750, address: 0x20})
	// Late receiver: a synchronous send from 2000 to 2900, posted at 2500.
	j.send(end{rank: 0, peer: 1, tag: 2, bytes: 80, enter: 2000, exit: 2900, address: 0x21})
	j.receive(end{rank: 1, peer: 0, tag: 2, bytes: 80, enter: 2500, exit: 2950, address: 0x11, flags: segment.EventFlagAnySource})
	// Eager: the send was over before the receive was posted.
	j.send(end{rank: 0, peer: 1, tag: 3, bytes: 8, enter: 3000, exit: 3010, address: 0x22})
	j.receive(end{rank: 1, peer: 0, tag: 3, bytes: 8, enter: 3500, exit: 3550, address: 0x12, flags: segment.EventFlagAnyTag})
	// Nonblocking: posted at 4000, waited for from 4600, sent at 4700.
	for range 2 {
		j.receive(end{rank: 1, peer: 0, tag: 4, bytes: 8, post: 4000, enter: 4600, exit: 4900, address: 0x13, call: "MPI_Irecv", flags: segment.EventFlagNonblocking})
	}
	j.send(end{rank: 0, peer: 1, tag: 4, bytes: 8, enter: 4500, exit: 4510, address: 0x23})
	j.send(end{rank: 0, peer: 1, tag: 4, bytes: 8, enter: 4700, exit: 4710, address: 0x23})
	_, r := j.analyse(t, Options{})
	m := r.Messages
	if m.Sends != 5 || m.Receives != 5 || m.Matched != 5 || m.Streams != 4 || m.Stopped+m.Tail+m.Gaps+m.Strangers != 0 {
		t.Errorf("%+v", m)
	}
	equal(t, "late sender", m.LateSenderNS, 700+100)
	equal(t, "late receiver", m.LateReceiverNS, 500)
	at := map[uint64]MessageSite{}
	for _, s := range m.Sites {
		at[s.Address] = s
	}
	if s := at[0x10]; s.LateSender != 1 || s.LateSenderNS != 700 || s.Early != 1 || s.Bytes != 8 {
		t.Errorf("%+v", s)
	}
	if s := at[0x21]; s.LateReceiver != 1 || s.LateReceiverNS != 500 || s.Unexpected != 1 || s.Sends != 1 {
		t.Errorf("%+v", s)
	}
	if s := at[0x11]; s.AnySource != 1 || s.AnyTag != 0 || s.Unexpected != 1 || s.LateSender != 0 {
		t.Errorf("%+v", s)
	}
	if s := at[0x13]; s.Nonblocking != 2 || s.WindowNS != 1200 || s.BlockedNS != 300 || s.LateSender != 1 || s.LateSenderNS != 100 || s.Early != 2 {
		t.Errorf("%+v", s)
	}
	if len(m.Ranks) != 2 || m.Ranks[0].Rank != 0 || m.Ranks[0].CausedNS != 800 || m.Ranks[0].LateReceiverNS != 500 || m.Ranks[1].CausedNS != 500 || m.Ranks[1].LateSenderNS != 800 {
		t.Errorf("%+v", m.Ranks)
	}
}

// network is the dumb twin of matching: queues of what was posted and what has
// arrived, searched from the front, as an MPI library does.
type network struct {
	posted  []*queued
	arrived []*queued
}

type queued struct {
	peer, tag int // negative: any
	at        float64
	message   *queued // what a receive got
}

func (n *network) post(r *queued) {
	for i, m := range n.arrived {
		if fits(r, m) {
			r.message = m
			n.arrived = append(n.arrived[:i], n.arrived[i+1:]...)
			return
		}
	}
	n.posted = append(n.posted, r)
}

func (n *network) arrive(m *queued) {
	for i, r := range n.posted {
		if fits(r, m) {
			r.message = m
			n.posted = append(n.posted[:i], n.posted[i+1:]...)
			return
		}
	}
	n.arrived = append(n.arrived, m)
}

func fits(r, m *queued) bool {
	return (r.peer < 0 || r.peer == m.peer) && (r.tag < 0 || r.tag == m.tag)
}

// TestMatchingAgainstQueues: random sends and receives, wildcards among them,
// to one rank. Late-sender waiting tells whether the right ends were matched:
// each message has times of its own.
func TestMatchingAgainstQueues(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(30, seed))
		ranks, n := 2+rng.IntN(3), 5+rng.IntN(60)
		var nodeOf []int
		for range ranks {
			nodeOf = append(nodeOf, 0)
		}
		j := newJob(oneNode(), nodeOf...)
		net := &network{}
		var sends, receives []*queued
		for range 2 * n {
			at := 1e6 * float64(len(sends)+len(receives)+1)
			if len(receives) < n && (len(sends) == n || rng.IntN(2) == 0) {
				r := &queued{peer: rng.IntN(ranks) - 1, tag: rng.IntN(4) - 1, at: at}
				r.peer = max(r.peer, -1)
				if r.peer == 0 {
					r.peer = -1
				}
				receives = append(receives, r)
				net.post(r)
				continue
			}
			m := &queued{peer: 1 + rng.IntN(ranks-1), tag: rng.IntN(3), at: at}
			sends = append(sends, m)
			net.arrive(m)
		}
		want, matched := 0.0, uint64(0)
		for k, m := range sends {
			j.send(end{rank: m.peer, peer: 0, tag: int32(m.tag), bytes: 8, enter: m.at, exit: m.at + 10, address: uint64(k)})
		}
		for _, r := range receives {
			if r.message == nil {
				j.receives[0]++ // never completed: no event, but a serial
				continue
			}
			matched++
			enter := r.at + 1000
			exit := max(enter, r.message.at) + 500
			want += max(0, r.message.at-enter)
			flags := uint8(segment.EventFlagNonblocking)
			j.receive(end{rank: 0, peer: r.message.peer, tag: int32(r.message.tag), bytes: 8, post: r.at, enter: enter, exit: exit, call: "MPI_Irecv", flags: flags})
		}
		j.change = func(_ int, s *synth.Segment) { s.Header.State = segment.StateAborted }
		_, r := j.analyse(t, Options{})
		m := r.Messages
		if m.Matched != matched || m.StoppedStreams != 0 || m.Tail != uint64(n)-matched {
			t.Errorf("seed %d: %d matched, should be %d: %+v", seed, m.Matched, matched, m)
		}
		equal(t, "late sender", m.LateSenderNS, want)
	}
}

// stream is n messages from rank 0 to rank 1, 1000 ns apart, each received 100
// ns after it was sent; change may spoil the ends.
func stream(n int, change func(k int, s, r *end)) *testJob {
	j := newJob(oneNode(), 0, 0)
	for k := range n {
		at := 1000 * float64(k+1)
		s := end{rank: 0, peer: 1, tag: 5, bytes: 8, enter: at, exit: at + 10}
		r := end{rank: 1, peer: 0, tag: 5, bytes: 8, enter: at + 50, exit: at + 100}
		change(k, &s, &r)
		j.send(s)
		j.receive(r)
	}
	return j
}

func dropped(rank int) func(int, *synth.Segment) {
	return func(r int, s *synth.Segment) {
		if r == rank {
			s.Threads[0].EventsDropped = 1
		}
	}
}

// TestGaps: what is lost never shifts what is matched.
func TestGaps(t *testing.T) {
	run := func(name string, j *testJob, matched, gaps, stopped, tail uint64) {
		t.Helper()
		_, r := j.analyse(t, Options{})
		m := r.Messages
		if m.Matched != matched || m.Gaps != gaps || m.Stopped != stopped || m.Tail != tail {
			t.Errorf("%s: %+v", name, m)
		}
		if m.LateSenderNS != 0 {
			t.Errorf("%s: claims %v", name, m.LateSenderNS)
		}
	}
	run("whole", stream(10, func(int, *end, *end) {}), 10, 0, 0, 0)
	j := stream(10, func(k int, s, _ *end) { s.drop = k == 4 })
	j.change = dropped(0)
	run("a send lost and known", j, 4, 5, 0, 6)
	j = stream(10, func(k int, _, r *end) { r.drop = k == 4 })
	j.change = dropped(1)
	run("a receive lost and known", j, 4, 5, 0, 6)
	run("a send lost silently", stream(10, func(k int, s, _ *end) { s.drop = k == 4 }), 0, 0, 19, 0)
	run("a receive lost silently", stream(10, func(k int, _, r *end) { r.drop = k == 4 }), 0, 0, 19, 0)
	run("one of each lost silently", stream(10, func(k int, s, r *end) { s.drop, r.drop = k == 4, k == 9 }), 0, 0, 18, 0)
	run("other bytes", stream(10, func(k int, s, _ *end) { s.bytes = uint64(8 + k/9) }), 0, 0, 20, 0)
	run("partner unknown", stream(10, func(k int, _, r *end) {
		if k == 3 {
			r.peer, r.flags = segment.PeerUnknown, segment.EventFlagEstimated|segment.EventFlagAnySource
		}
	}), 3, 6, 0, 7)
	run("partner outside", stream(10, func(k int, s, r *end) {
		if k == 3 {
			s.peer, r.peer = segment.PeerForeign, segment.PeerForeign
		}
	}), 9, 0, 0, 0)
	j = stream(10, func(k int, _, r *end) { r.drop = k == 9 })
	j.change = func(rank int, s *synth.Segment) {
		if rank == 1 {
			s.Header.State = segment.StateRunning
		}
	}
	run("in flight", j, 9, 0, 0, 1)
	j = stream(10, func(int, *end, *end) {})
	j.events[0] = append(j.events[0], j.events[0][4])
	run("recorded twice", j, 10, 0, 0, 0)
}

// TestStrangers: the other rank was not traced, or is missing.
func TestStrangers(t *testing.T) {
	j := stream(5, func(int, *end, *end) {})
	j.events[1] = nil
	_, r := j.analyse(t, Options{})
	if r.Messages.Strangers != 5 || r.Messages.Matched != 0 {
		t.Errorf("%+v", r.Messages)
	}
	j = newJob(oneNode(), 0)
	j.send(end{rank: 0, peer: 9, enter: 1000, exit: 1100})
	_, r = j.analyse(t, Options{})
	if r.Messages.Strangers != 1 {
		t.Errorf("%+v", r.Messages)
	}
}

// TestMessagesTwoNodes: late senders on other clocks, within the bound.
func TestMessagesTwoNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 31))
	nodes := randomNodes(rng, 2)
	nodes[0].drift, nodes[1].drift = 1e-8, -1e-8
	for _, aligned := range []bool{true, false} {
		j := newJob(nodes, 0, 1)
		for k := range 50 {
			at := 1e7 * float64(k+1)
			if aligned {
				enter, exit := barrierLike(rng, 2, at, 1000, 1000)
				j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: enter, exit: exit})
			}
			j.receive(end{rank: 1, peer: 0, tag: 1, bytes: 8, enter: at + 1e6, exit: at + 2.1e6})
			j.send(end{rank: 0, peer: 1, tag: 1, bytes: 8, enter: at + 2e6, exit: at + 2e6 + 100})
		}
		_, r := j.analyse(t, Options{})
		m := r.Messages
		if !aligned {
			if m.Unaligned != 50 || m.LateSenderNS != 0 {
				t.Errorf("%+v", m)
			}
			continue
		}
		bound := max(r.Clocks[0].BoundNS, r.Clocks[1].BoundNS) + 10
		if m.Matched != 50 || math.Abs(m.LateSenderNS-50e6) > 50*bound {
			t.Errorf("%v of late senders, bound %v: %+v", m.LateSenderNS, bound, m)
		}
	}
}
