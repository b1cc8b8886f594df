package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/internal/stats"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
)

// maxWorld bounds the ranks of a world that are shown although they have no
// data.
const maxWorld = 1 << 16

// seat is a place in a world.
type seat struct {
	world string
	rank  int32
}

// commKey tells communicators apart; process is 0 for those whose ids mean the
// same in all of them.
type commKey struct {
	world   string
	id      uint64
	process uint32
}

// present is what is kept of a segment while the job is read.
type present struct {
	process                       segment.Process
	seat                          seat
	worldSize                     int32
	node                          string
	pid                           uint32
	firstTicks, startTicks, ended uint64
	realtimeNS                    uint64
	dropped                       uint64
	threads                       uint32
	open                          []segment.Thread // calls in progress, by shard
	comms                         []segment.RawComm
}

// presentOf takes over what the export needs of a segment.
func presentOf(s *segment.Segment) present {
	h := &s.Header
	p := present{process: h.Process(), seat: seat{h.WorldID(), h.WorldRank}, worldSize: h.WorldSize, node: h.NodeName(), pid: h.PID,
		firstTicks: h.FirstTicks, startTicks: cmp.Or(h.InitEnterTicks, h.InitExitTicks, h.FirstTicks), ended: s.EndTicks(),
		realtimeNS: h.FirstRealtimeNS, threads: h.ThreadsSeen, comms: s.Comms()}
	p.ended = max(p.ended, h.FinalizeExitTicks, p.startTicks)
	for _, t := range s.Threads() {
		p.dropped += t.EventsDropped
		open := segment.Thread{}
		if t.Call != 0 && !h.Ended() && t.EnterTicks > 0 {
			open = t
		}
		p.open = append(p.open, open)
	}
	return p
}

// loader builds the Job.
type loader struct {
	job      *Job
	timeline *report.Timeline
	here     []present
	ranks    map[seat]*Rank
	byNumber map[uint32]*Rank // by number of arrival.Result
	numbers  map[segment.Process]uint32
	comms    map[commKey]*Comm
	shift    map[int]int64 // ns to add to the clocks of a component
}

// load reads a result, without its trace.
func load(path string, options report.Options) (*loader, error) {
	l := &loader{job: &Job{}, ranks: map[seat]*Rank{}, byNumber: map[uint32]*Rank{}, numbers: map[segment.Process]uint32{},
		comms: map[commKey]*Comm{}, shift: map[int]int64{}}
	var err error
	l.job.Report, l.timeline, err = report.LoadTimeline(path, options, func(s *segment.Segment) { l.here = append(l.here, presentOf(s)) })
	if err != nil {
		return nil, err
	}
	l.addRanks()
	l.placeClocks()
	l.addTimes()
	l.addComms()
	l.here = nil
	return l, nil
}

// addRanks makes the ranks of all worlds, also those that left no data.
func (l *loader) addRanks() {
	sizes := map[string]int32{}
	l.here = slices.DeleteFunc(l.here, func(p present) bool {
		number, ok := l.timeline.Arrivals.Process(p.process)
		if !ok || l.ranks[p.seat] != nil {
			return true // it has no place of its own
		}
		sizes[p.seat.world] = max(sizes[p.seat.world], min(p.worldSize, maxWorld))
		r := &Rank{World: p.seat.world, Rank: p.seat.rank, Node: p.node, PID: p.pid, Dropped: p.dropped, process: number}
		r.lanes.single = p.threads <= 1
		l.ranks[p.seat], l.byNumber[number], l.numbers[p.process] = r, r, number
		return false
	})
	for world, size := range sizes {
		for rank := range size {
			if key := (seat{world, rank}); l.ranks[key] == nil {
				l.ranks[key] = &Rank{World: world, Rank: rank, Missing: true}
			}
		}
	}
	l.job.Ranks = slices.SortedFunc(maps.Values(l.ranks), func(x, y *Rank) int {
		return cmp.Or(strings.Compare(x.World, y.World), cmp.Compare(x.Rank, y.Rank))
	})
	for i, r := range l.job.Ranks {
		r.Index = i
	}
	for _, rank := range l.job.Report.Ranks {
		if r := l.ranks[seat{rank.World, int32(rank.Rank)}]; r != nil && r.PID == rank.PID {
			r.State = rank.State
		}
	}
}

// placeClocks finds what to add to the clocks of each component so that 0 is
// the start of the first rank on the reference clock. Components that cannot be
// compared with it are placed by their wall clocks.
func (l *loader) placeClocks() {
	arrivals := l.timeline.Arrivals
	wall := map[int][]float64{} // wall clock less aligned clock, by component
	ranks := map[int]int{}
	base := map[int]int64{}
	for i := range l.here {
		p := &l.here[i]
		number := l.numbers[p.process]
		c := arrivals.Clocks[arrivals.Clock(number)].Component
		ranks[c]++
		ns, _ := arrivals.Moment(number, p.firstTicks)
		if _, ok := base[c]; !ok {
			base[c] = ns
		}
		if p.realtimeNS > 0 && p.realtimeNS < math.MaxInt64/2 {
			wall[c] = append(wall[c], float64(int64(p.realtimeNS)-ns-wallBase))
		}
	}
	reference := -1
	for c, n := range ranks {
		if reference < 0 || n > ranks[reference] || n == ranks[reference] && c < reference {
			reference = c
		}
	}
	offset := func(c int) int64 {
		if len(wall[c]) == 0 {
			return 0
		}
		return int64(stats.Median(wall[c]))
	}
	for c := range ranks {
		switch {
		case c == reference:
			l.shift[c] = 0
		case len(wall[c]) > 0 && len(wall[reference]) > 0:
			l.shift[c] = offset(c) - offset(reference)
		default:
			l.shift[c] = base[reference] - base[c]
		}
	}
	l.zero(reference)
	if len(wall[reference]) > 0 {
		l.job.StartRealtimeNS = offset(reference) + wallBase - l.shift[reference]
	}
	l.job.ClockBoundNS = l.job.Report.ClockBoundNS()
	for i, c := range arrivals.Clocks {
		if c.Component != reference && ranks[c.Component] > 0 {
			l.job.Apart = append(l.job.Apart, arrivals.Clocks[i].Node)
		}
	}
	slices.Sort(l.job.Apart)
	l.job.Apart = slices.Compact(l.job.Apart)
	for _, r := range l.byNumber {
		r.Aligned = arrivals.Clocks[arrivals.Clock(r.process)].Component == reference
	}
}

// wallBase keeps differences with the wall clock small enough to be exact as
// float64: 2026-01-01.
const wallBase = 1_767_225_600_000_000_000

// zero moves all clocks so that the first rank starts at 0.
func (l *loader) zero(reference int) {
	first := int64(math.MaxInt64)
	for i := range l.here {
		p := &l.here[i]
		first = min(first, l.ns(l.byNumber[l.numbers[p.process]], p.startTicks))
	}
	if first == math.MaxInt64 {
		return
	}
	for c := range l.shift {
		l.shift[c] -= first
	}
}

// ns is a moment of a rank on the time axis of the job.
func (l *loader) ns(r *Rank, ticks uint64) int64 {
	a := l.timeline.Arrivals
	ns, _ := a.Moment(r.process, ticks)
	return ns + l.shift[a.Clocks[a.Clock(r.process)].Component]
}

// addTimes fills what needs the time axis.
func (l *loader) addTimes() {
	for i := range l.here {
		p := &l.here[i]
		r := l.byNumber[l.numbers[p.process]]
		r.StartNS = max(0, l.ns(r, p.startTicks))
		r.EndNS = max(r.StartNS, l.ns(r, p.ended))
		for _, ticks := range []uint64{p.startTicks, p.ended} {
			_, bound := l.timeline.Arrivals.Moment(r.process, ticks)
			r.BoundNS = max(r.BoundNS, boundNS(bound))
		}
		r.lanes.open = p.open
		l.job.EndNS = max(l.job.EndNS, r.EndNS)
	}
}

// boundNS rounds a bound up.
func boundNS(v float64) uint64 {
	if !(v > 0) {
		return 0
	}
	return uint64(math.Ceil(min(v, 1<<62)))
}

// addComms joins what the ranks know of their communicators.
func (l *loader) addComms() {
	for i := range l.here {
		p := &l.here[i]
		r := l.byNumber[l.numbers[p.process]]
		for j := range p.comms {
			l.addComm(r, &p.comms[j])
		}
		p.comms = nil
	}
	named := map[string]int{}
	for _, c := range l.job.Comms {
		c.Whole = c.Whole && len(c.Members) == c.Size && !slices.Contains(c.Members, -1)
		if named[c.World+" "+c.Name]++; named[c.World+" "+c.Name] > 1 && !c.Self {
			c.Name += fmt.Sprintf(" #%d", named[c.World+" "+c.Name])
		}
	}
}

// keyOf is the key of a communicator in a rank.
func (l *loader) keyOf(r *Rank, raw *segment.RawComm) commKey {
	key := commKey{world: r.World, id: raw.ID}
	if raw.Comparable == 0 || raw.Kind == segment.CommKindSelf {
		key.process = r.process + 1
	}
	return key
}

func (l *loader) addComm(r *Rank, raw *segment.RawComm) {
	if raw.ID == 0 || raw.Kind == segment.CommKindOther {
		return
	}
	key := l.keyOf(r, raw)
	c := l.comms[key]
	if c == nil {
		c = &Comm{Index: len(l.job.Comms), ID: raw.ID, World: r.World, Size: int(min(max(raw.Size, 0), maxWorld)), Self: raw.Kind == segment.CommKindSelf,
			Name: l.timeline.Comm(raw.ID, int(raw.Size)), Whole: raw.RemoteSize == 0 && raw.Size > 0 && raw.Size <= maxWorld}
		if c.Self {
			c.Name = "MPI_COMM_SELF"
		}
		l.comms[key] = c
		l.job.Comms = append(l.job.Comms, c)
	}
	if raw.Rank < 0 || int(raw.Rank) >= c.Size || int(raw.Size) != c.Size {
		c.Whole = false
		return
	}
	for int(raw.Rank) >= len(c.Members) {
		c.Members = append(c.Members, -1)
	}
	if old := c.Members[raw.Rank]; old >= 0 && old != int32(r.Index) {
		c.Whole = false
		return
	}
	c.Members[raw.Rank] = int32(r.Index)
}

// comm finds the communicator of an event.
func (l *loader) comm(r *Rank, id uint64) *Comm {
	if id == 0 {
		return nil
	}
	if c := l.comms[commKey{r.World, id, r.process + 1}]; c != nil {
		return c
	}
	return l.comms[commKey{r.World, id, 0}]
}

// String names a rank for people.
func (r *Rank) String() string {
	if r.Missing {
		return fmt.Sprintf("rank %d (no data)", r.Rank)
	}
	return fmt.Sprintf("rank %d on %s", r.Rank, r.Node)
}
