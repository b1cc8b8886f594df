package report

import (
	"cmp"
	"fmt"

	"github.com/mpitrace/mpitrace/segment"
)

// addRank makes the row of a process.
func (b *builder) addRank(l *local) *Rank {
	h := &l.s.Header
	world := h.WorldID()
	index, ok := b.worlds[world]
	if !ok {
		index = len(b.report.Job.Worlds)
		b.worlds[world] = index
		b.report.Job.Worlds = append(b.report.Job.Worlds, world)
		b.worldSize = append(b.worldSize, 0)
	}
	b.worldSize[index] = max(b.worldSize[index], int(h.WorldSize))
	r := &Rank{
		Rank: int(h.WorldRank), World: b.report.Job.Worlds[index], world: index, Node: h.NodeName(), PID: h.PID,
		State: rankState(l.s), alive: l.s.Alive, ThreadLevel: h.ThreadLevel, Threads: h.ThreadsSeen, AbortCode: h.AbortCode,
		MemoryHigh: min(h.MemoryHighKiB, 1<<50) * 1024, Path: l.s.Path,
		Functions: []RankFunction{}, Peers: []RankPeer{}, Current: []Current{},
	}
	if start, end := l.s.StartTicks(), l.s.EndTicks(); start > 0 && end > start {
		r.WallNS = h.NS(end - start)
		r.startNS, r.endNS = h.RealtimeNS(start), h.RealtimeNS(end)
	}
	if h.WorldRank >= 0 && h.WorldRank < h.WorldSize {
		r.group = int(int64(h.WorldRank) * rankGroups / int64(max(h.WorldSize, rankGroups)))
	}
	b.report.groupRanks[r.group]++
	for i := range l.threads {
		t := &l.threads[i]
		r.InternalCalls += t.CallsInternal
		r.CallbackCalls += t.CallsCallback
		r.GuardRepairs += t.GuardRepairs
		r.Requests.Started += t.RequestsStarted
		r.Requests.Completed += t.RequestsCompleted
		r.Requests.Shared += t.RequestsShared
		r.Requests.Freed += t.RequestsFreed
		r.Requests.Cancelled += t.RequestsCancelled
		r.Requests.Dropped += t.RequestsDropped
	}
	b.addIdentity(h)
	b.endNS = max(b.endNS, h.RealtimeNS(l.s.EndTicks()))
	b.nodes[r.Node] = true
	b.report.Ranks = append(b.report.Ranks, r)
	return r
}

// addIdentity fills what is the same for all processes from the first one
// that knows it.
func (b *builder) addIdentity(h *segment.RawHeader) {
	job := &b.report.Job
	job.ID = cmp.Or(job.ID, h.JobID())
	job.Command = cmp.Or(job.Command, segment.Text(h.Command[:]), segment.Text(h.Executable[:]))
	job.Launcher = cmp.Or(job.Launcher, segment.Text(h.Launcher[:]))
	job.MPI = cmp.Or(job.MPI, segment.Text(h.MPIVersion[:]))
	if start := h.RealtimeNS(h.FirstTicks); start > 0 && (b.firstStart == 0 || start < b.firstStart) {
		b.firstStart = start
	}
}

func rankState(s *segment.Segment) string {
	switch {
	case s.Header.Ended():
		return StateFinished
	case s.Header.State == segment.StateAborted:
		return StateAborted
	case s.Header.State == segment.StateExitedEarly:
		return StateExited
	case s.Alive:
		return StateRunning
	}
	return StateDied
}

func (b *builder) addPeers(l *local) {
	peers := map[int32]*Traffic{}
	raws := l.s.Peers()
	for i := range raws {
		raw := &raws[i]
		t := peers[raw.Rank]
		if t == nil {
			t = &Traffic{}
			peers[raw.Rank] = t
		}
		t.add(Traffic{raw.SentMessages, raw.SentBytes, raw.ReceivedMessages, raw.ReceivedBytes})
	}
	for rank, t := range peers {
		l.rank.Messages.add(*t)
		if t.SentMessages > 0 {
			b.report.pairs++
			b.pairs.add(b.options.Pairs, Pair{l.rank.World, l.rank.Rank, int(rank), t.SentMessages, t.SentBytes})
		}
		if b.options.Detail {
			l.rank.Peers = append(l.rank.Peers, RankPeer{rank, *t})
		}
	}
	b.addMatrix(l.rank, l.s.Header.WorldSize, peers)
	sortBy(l.rank.Peers, func(a, b RankPeer) int { return cmp.Compare(a.Rank, b.Rank) })
	b.report.Job.Messages.add(l.rank.Messages)
}

func (t *Traffic) add(other Traffic) {
	t.SentMessages += other.SentMessages
	t.SentBytes += other.SentBytes
	t.ReceivedMessages += other.ReceivedMessages
	t.ReceivedBytes += other.ReceivedBytes
}

var commKinds = [...]string{"other", "world", "self", "created", "found"}

func (b *builder) addComms(l *local) {
	h := &l.s.Header
	totals := l.s.CommTotals()
	for i := range l.raw {
		raw := &l.raw[i]
		key := commKey{kind: raw.Kind, name: raw.Name}
		if raw.Comparable != 0 && raw.Kind != segment.CommKindSelf {
			key.id = raw.ID
		}
		c, ok := b.comms[key]
		if !ok {
			c = newComm(raw, key.id)
			b.comms[key] = c
			b.report.Comms = append(b.report.Comms, c)
		}
		l.comm = append(l.comm, c)
		c.Members++
		if key.id != 0 {
			c.members = append(c.members, member{raw.Rank, int32(l.rank.Rank)})
		}
		t := at(totals, i)
		c.Calls += t.Calls
		c.TimeNS += h.NS(t.Ticks)
		c.SentBytes += t.SentBytes
		c.ReceivedBytes += t.ReceivedBytes
		c.Collectives += t.Collectives
	}
}

func newComm(raw *segment.RawComm, id uint64) *Comm {
	c := &Comm{Name: segment.Text(raw.Name[:]), Size: int(raw.Size), RemoteSize: int(raw.RemoteSize)}
	if int(raw.Kind) < len(commKinds) {
		c.Kind = commKinds[raw.Kind]
	}
	if raw.CreatedBy != 0 {
		c.CreatedBy = segment.Call(raw.CreatedBy).String()
	}
	if id != 0 {
		c.ID = fmt.Sprintf("%016x", id)
	}
	if c.Name == "" {
		c.Name = c.describe()
	}
	return c
}

// describe names a communicator that has no name of its own.
func (c *Comm) describe() string {
	switch {
	case c.Kind == "other":
		return "(others)"
	case c.Kind == "world":
		return "MPI_COMM_WORLD"
	case c.Kind == "self":
		return "MPI_COMM_SELF"
	case c.CreatedBy != "":
		return fmt.Sprintf("%s of %d", c.CreatedBy, c.Size)
	}
	return fmt.Sprintf("communicator of %d", c.Size)
}

func (b *builder) addTypes(l *local) {
	h := &l.s.Header
	totals := l.s.TypeTotals()
	for i, raw := range l.s.Types() {
		key := typeKey{raw.Name, raw.Size, raw.CreatedBy}
		d, ok := b.types[key]
		if !ok {
			d = &Datatype{Name: segment.Text(raw.Name[:]), Size: raw.Size}
			if raw.CreatedBy != 0 {
				d.CreatedBy = segment.Call(raw.CreatedBy).String()
			}
			if d.Name == "" {
				d.Name = cmp.Or(d.CreatedBy, "(others)")
			}
			b.types[key] = d
			b.report.Types = append(b.report.Types, d)
		}
		t := at(totals, i)
		d.Instances += raw.Instances
		d.Calls += t.Calls
		d.TimeNS += h.NS(t.Ticks)
		d.SentBytes += t.SentBytes
		d.ReceivedBytes += t.ReceivedBytes
	}
}

// addCurrent takes over the calls in progress.
func (b *builder) addCurrent(l *local) {
	h, rank := &l.s.Header, l.rank
	now, last, until := l.s.NowTicks(), l.s.StartTicks(), l.s.EndTicks()
	for i := range l.threads {
		t := &l.threads[i]
		last = max(last, t.EnterTicks)
		if t.Call == 0 || rank.State == StateFinished || h.Ended() {
			continue
		}
		c := Current{Name: segment.Call(t.Call).String(), Peer: -1, Tag: -1, Torn: t.Torn, Thread: t.TID, call: t.Call,
			at: h.RealtimeNS(t.EnterTicks)}
		c.Entered = realtime(c.at)
		if l.s.Alive && now > t.EnterTicks {
			c.SinceNS, until = h.NS(now-t.EnterTicks), now
		}
		// the call that it died in counts up to the last moment known
		if until > t.EnterTicks && !setup(t.Call) {
			ns := h.NS(until - t.EnterTicks)
			if int64(t.Shard) != l.shared {
				rank.BusyNS = max(rank.BusyNS, l.busyNS[t.Shard]+ns)
			}
			if !l.s.Alive {
				rank.MPINS += ns
			}
		}
		if t.Details != 0 && !t.Torn {
			c.Peer, c.Tag = t.Peer, t.Tag
			c.comm = l.byHandle(t.CommHandle)
		}
		if c.comm != nil {
			c.Comm = c.comm.Name
		}
		c.Site = b.currentSite(l, t)
		rank.Current = append(rank.Current, c)
	}
	rank.Share = ratio(rank.BusyNS, rank.WallNS)
	if rank.alive && now > last {
		rank.idleNS = h.NS(now - last)
	}
}

// currentSite is the row of the call site in progress. It may have no row yet:
// sites are counted when a call returns.
func (b *builder) currentSite(l *local, t *segment.Thread) *Site {
	key := siteKey{offset: t.Address, call: t.Call, phase: at(l.phase, int(l.s.Header.Phase))}
	for i := range l.modules {
		if m := &l.modules[i]; m.Start <= t.Address && t.Address < m.End {
			key.module, key.offset = l.module[i], t.Address-m.Base
			break
		}
	}
	if site, ok := b.sites[key]; ok {
		return site
	}
	return b.newSite(key)
}

// byHandle finds a communicator that is not freed; handles come back.
func (l *local) byHandle(handle uint64) *Comm {
	var freed *Comm
	for i := len(l.raw) - 1; i > 0; i-- {
		if l.raw[i].Handle == handle && handle != 0 {
			if l.raw[i].Freed == 0 {
				return l.comm[i]
			}
			freed = l.comm[i]
		}
	}
	return freed
}
