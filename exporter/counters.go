package exporter

import (
	"errors"
	"fmt"
	"math"

	"github.com/mpitrace/mpitrace/segment"
)

// Counters are the figures of a process that only grow, or sums of them. Times
// are nanoseconds.
type Counters struct {
	Calls, TimeNS, Bytes [operationCount]uint64
	MPINS                uint64 // inside calls, without set-up and callbacks; of a running process with those in progress
	WallNS               uint64 // return of MPI_Init to entry of MPI_Finalize
	BlockedNS            uint64 // inside calls that complete requests
	OverheadNS           uint64 // of measuring
	Accesses, Reuses     [segment.PathPaths]uint64
	Dropped              [tableCount]uint64
	Act                  segment.ActCounts // of a job in act mode, but what is pinned, which comes and goes
}

// tables are the values of the label table.
var tables = [...]string{"sites", "functions", "peers", "communicators", "datatypes", "modules", "stacks", "phases", "arrivals", "requests", "events", "clock"}

const (
	tableCount    = len(tables)
	tableArrivals = tableCount - 4 // counted elsewhere than in the directory, as those after it
	tableRequests = tableCount - 3
	tableEvents   = tableCount - 2
	tableClock    = tableCount - 1
)

// tableKinds is the kind of section of the tables before tableArrivals.
var tableKinds = [tableArrivals]uint32{
	segment.SectionKindSites, segment.SectionKindFunctions, segment.SectionKindPeers, segment.SectionKindComms, segment.SectionKindTypes,
	segment.SectionKindModules, segment.SectionKindStacks, segment.SectionKindPhases,
}

// CounterSections are the sections that ProcessOf needs.
var CounterSections = []uint32{segment.SectionKindThread, segment.SectionKindSites, segment.SectionKindReuse, segment.SectionKindArrivalClasses,
	segment.SectionKindAct, segment.SectionKindActCounts, segment.SectionKindActDecisions}

// ErrImplausible is wrapped by errors about figures that no process can have.
var ErrImplausible = errors.New("impossible figures")

// countersOf adds up what a segment holds; busy is the MPI time of each shard.
// uptimeNS is how long the machine has run: a segment that claims more time, or
// more than a call a nanosecond, is refused, so that nobody's file can make a
// sum overflow.
func countersOf(s *segment.Segment, uptimeNS uint64) (c Counters, busy map[uint32]uint64, err error) {
	busy = map[uint32]uint64{}
	h := &s.Header
	var own float64
	s.EachSite(func(shard uint32, site *segment.RawSite) {
		f := functionOf(segment.Call(site.Call))
		ns := h.NS(site.Ticks)
		grow(&c.Calls[f.operation], site.Calls)
		grow(&c.TimeNS[f.operation], ns)
		grow(&c.Bytes[f.operation], site.Bytes)
		grow(&c.BlockedNS, h.NS(site.BlockedTicks))
		if site.Flags&segment.SiteFlagCallback == 0 && !f.setup {
			grow(&c.MPINS, ns)
			busy[shard] += ns
		}
		if f.message {
			own += float64(site.Calls) * h.OwnMessageNS
		} else {
			own += float64(site.Calls) * h.OwnCallNS
		}
	})
	if own > 0 && own < 1e18 {
		c.OverheadNS = uint64(own)
	}
	grow(&c.OverheadNS, h.OwnInitNS)
	grow(&c.OverheadNS, h.OwnFinalizeNS)
	if start, end := s.StartTicks(), s.EndTicks(); start > 0 && end > start {
		c.WallNS = h.NS(end - start)
	}
	c.addDropped(s)
	c.addReuse(s)
	if act := s.Act(); act != nil {
		c.Act = act.Counts
		c.Act[segment.ActCachePinnedBytes], c.Act[segment.ActCacheRegions] = 0, 0 // not totals
	}
	return c, busy, c.check(s, uptimeNS)
}

func (c *Counters) addDropped(s *segment.Segment) {
	for i, kind := range tableKinds {
		c.Dropped[i] = s.Dropped(kind)
	}
	for _, class := range s.ArrivalClasses() {
		grow(&c.Dropped[tableArrivals], class.Dropped)
	}
	for _, t := range s.Threads() {
		grow(&c.Dropped[tableRequests], t.RequestsDropped)
		grow(&c.Dropped[tableEvents], t.EventsDropped)
		grow(&c.Dropped[tableClock], t.ClockDropped)
	}
}

func (c *Counters) addReuse(s *segment.Segment) {
	for _, r := range s.Reuse() {
		if r.Path >= segment.PathPaths {
			continue
		}
		for bin := range r.Accesses {
			grow(&c.Accesses[r.Path], r.Accesses[bin])
			grow(&c.Reuses[r.Path], r.Reused[bin])
		}
	}
}

// bytesPerNS bounds the payload of a thread: far above any memory's speed.
const bytesPerNS = 100_000

// threadsMost bounds what a header may claim: more than processes have at once.
const threadsMost = 4096

// check refuses figures that the threads of the process cannot have reached
// since the machine was started. Many of them may share a shard.
func (c *Counters) check(s *segment.Segment, uptimeNS uint64) error {
	threads := max(1, uint64(len(s.Threads())), min(uint64(s.Header.ThreadsSeen), threadsMost))
	limit := uint64(math.MaxUint64 / 4) // some figures may be four times it
	if uptimeNS < limit/threads {
		limit = uptimeNS * threads
	}
	var most Counters
	for i := range operations {
		most.Calls[i], most.TimeNS[i], most.Bytes[i] = limit, limit, math.MaxInt64/1024
	}
	if limit < math.MaxInt64/1024/bytesPerNS {
		for i := range operations {
			most.Bytes[i] = limit * bytesPerNS
		}
	}
	most.MPINS, most.WallNS, most.OverheadNS, most.BlockedNS = limit, uptimeNS, limit, limit
	for i := range most.Accesses {
		most.Accesses[i], most.Reuses[i] = 4*limit, 4*limit
	}
	for i := range most.Dropped {
		most.Dropped[i] = 4 * limit
	}
	for i := range most.Act {
		most.Act[i] = most.Bytes[0]
	}
	var err error
	c.pairs(&most, func(x *uint64, most uint64) {
		if *x > most && err == nil {
			err = fmt.Errorf("segment %s: a figure of %d, at most %d is possible: %w", s.Path, *x, most, ErrImplausible)
		}
	})
	return err
}

// Add adds other.
func (c *Counters) Add(other *Counters) { c.pairs(other, grow) }

// Raise makes no figure smaller: each becomes the larger one of both. It
// returns by how much they grew.
func (c *Counters) Raise(other *Counters) (growth Counters) {
	growth = *other
	growth.pairs(c, func(x *uint64, y uint64) { *x -= min(*x, y) })
	c.Add(&growth)
	return growth
}

// pairs calls f with every figure of c and that of other.
func (c *Counters) pairs(other *Counters, f func(x *uint64, y uint64)) {
	all := func(x, y []uint64) {
		for i := range x {
			f(&x[i], y[i])
		}
	}
	all(c.Calls[:], other.Calls[:])
	all(c.TimeNS[:], other.TimeNS[:])
	all(c.Bytes[:], other.Bytes[:])
	all(c.Accesses[:], other.Accesses[:])
	all(c.Reuses[:], other.Reuses[:])
	all(c.Dropped[:], other.Dropped[:])
	all(c.Act[:], other.Act[:])
	f(&c.MPINS, other.MPINS)
	f(&c.WallNS, other.WallNS)
	f(&c.BlockedNS, other.BlockedNS)
	f(&c.OverheadNS, other.OverheadNS)
}

// grow adds y to x, which stays at the largest number rather than wrap around.
func grow(x *uint64, y uint64) {
	if *x > math.MaxUint64-y {
		*x = math.MaxUint64
		return
	}
	*x += y
}
