package arrival

import (
	"math"

	"github.com/mpitrace/mpitrace/segment"
)

// Options of New. The zero value is good.
type Options struct {
	// TransferNS is the time in nanoseconds of one message of so many bytes:
	// T of the imbalance factors (Qian 2010, 6.3). nil: factors are withheld.
	TransferNS func(bytes uint64) float64
	// MaxDriftPPM is how much the rates of two nodes' clocks may differ, in
	// parts per million; 0: 1000. It bounds what few samples leave open.
	MaxDriftPPM float64
	// WanderPPB is how much the rate of a clock may change within a job, in
	// parts per billion; 0: 10. It keeps the bound honest over long jobs.
	WanderPPB float64
}

// Analysis takes segments in and gives a Result.
type Analysis struct {
	options Options
	skipped Skipped

	worlds    []string
	worldOf   map[string]int32
	processes []process
	processOf map[segment.Process]uint32
	seats     map[seat]bool

	classes    []class
	classOf    map[classKey]uint32
	instances  []instance
	instanceOf map[instanceKey]uint32
	rows       rowStore

	domains []domain
	result  *Result
	scratch
}

// Skipped counts what could not be used, by reason.
type Skipped struct {
	TornRanks    int    // ranks with rows that were being thinned out when they died
	Homeless     int    // processes without a world rank, or a second one of the same rank
	Rows         uint64 // samples with impossible times or ranks
	Incomparable uint64 // samples on communicators whose ids mean nothing to other ranks
	Classes      uint64 // rows of ARRIVAL_CLASSES that are damaged
	Unclassed    uint64 // operations beyond the tables: counted, never sampled
	Conflicts    uint64 // instances whose ranks contradict each other (root, size, a rank twice)
	Impossible   uint64 // instances left before entered by ranks that share a clock
}

// process is one rank.
type process struct {
	world, rank int32
	domain      int32
	finished    bool
	dropped     uint64 // events that were not kept
	clock       clockPairs
	sites       []uint64
	private     map[uint64]bool // communicators whose ids are its own affair
	messages
}

// seat is a place in a world that one process may take.
type seat struct{ world, rank int32 }

// classKey has what communicators made alike have in common.
type classKey struct {
	kin   uint64
	world int32
	call  segment.Call
}

// class is all operations of one function on communicators made alike.
type class struct {
	classKey
	level       uint16
	least, most uint64 // instances completed, by rank
	ranks       int    // that counted any
	dropped     uint64
	instances   []uint32
}

type instanceKey struct {
	comm                   uint64
	class, sequence, start uint32
}

// instance is one operation; rows of it are found by order.
type instance struct {
	instanceKey
	rows       uint32
	first      uint32 // into Analysis.order
	size, root int32
	bytes      uint64 // largest share
	conflict   bool   // ranks contradict each other
	impossible bool   // left before it was entered
}

// New makes an empty analysis.
func New(options Options) *Analysis {
	if !(options.MaxDriftPPM > 0) {
		options.MaxDriftPPM = 1000
	}
	if !(options.WanderPPB > 0) {
		options.WanderPPB = 10
	}
	return &Analysis{
		options: options, worldOf: map[string]int32{}, processOf: map[segment.Process]uint32{}, seats: map[seat]bool{},
		classOf: map[classKey]uint32{}, instanceOf: map[instanceKey]uint32{},
	}
}

// Add takes over what a rank has recorded: samples, classes and the events
// that are not in its trace file. Segments may come in any order; none may
// come after Result.
func (a *Analysis) Add(s *segment.Segment) {
	index, ok := a.addProcess(s)
	if !ok {
		a.skipped.Homeless++
		return
	}
	p := &a.processes[index]
	for _, c := range s.Comms() {
		if c.Comparable == 0 || c.RemoteSize > 0 {
			p.hide(c.ID, c.RemoteSize > 0 && c.Comparable != 0)
		}
	}
	for _, t := range s.Threads() {
		p.dropped += t.EventsDropped
	}
	a.addClasses(s, p.world)
	a.addRows(s, index)
	a.AddEvents(s, s.Events())
}

// addProcess gives the process of s a number, unless its place is taken.
func (a *Analysis) addProcess(s *segment.Segment) (uint32, bool) {
	h := &s.Header
	world, ok := a.worldOf[h.WorldID()]
	if !ok {
		world = int32(len(a.worlds))
		a.worlds = append(a.worlds, h.WorldID())
		a.worldOf[h.WorldID()] = world
	}
	place := seat{world, h.WorldRank}
	if h.WorldRank < 0 || a.seats[place] {
		return 0, false
	}
	index := uint32(len(a.processes))
	if _, ok := a.processOf[h.Process()]; ok {
		return 0, false
	}
	a.seats[place] = true
	a.processOf[h.Process()] = index
	a.processes = append(a.processes, process{world: world, rank: h.WorldRank, finished: h.Ended(), clock: pairsOf(h), sites: []uint64{0}})
	return index, true
}

// hide notes a communicator that arrivals must not be compared on; matchable
// tells that messages on it still can be.
func (p *process) hide(id uint64, matchable bool) {
	if p.private == nil {
		p.private = map[uint64]bool{}
	}
	p.private[id] = matchable
}

// addClasses merges levels by the largest and counts by rank.
func (a *Analysis) addClasses(s *segment.Segment, world int32) {
	mine := map[uint32]uint64{}
	for _, raw := range s.ArrivalClasses() {
		switch {
		case raw.Call == 0:
			a.skipped.Unclassed += raw.Instances
			continue
		case raw.Kin == 0 || raw.Level > levelMax:
			a.skipped.Classes++
			continue
		}
		index := a.class(classKey{raw.Kin, world, smallCount(raw.Call)})
		c := &a.classes[index]
		c.level = max(c.level, raw.Level)
		c.dropped += raw.Dropped
		mine[index] += raw.Instances
	}
	for index, n := range mine {
		c := &a.classes[index]
		c.most = max(c.most, n)
		if c.ranks++; c.ranks == 1 || n < c.least {
			c.least = n
		}
	}
}

func (a *Analysis) class(key classKey) uint32 {
	index, ok := a.classOf[key]
	if !ok {
		index = uint32(len(a.classes))
		a.classes = append(a.classes, class{classKey: key})
		a.classOf[key] = index
	}
	return index
}

// addRows keeps the samples that reach the level known so far.
func (a *Analysis) addRows(s *segment.Segment, index uint32) {
	kept, torn := s.Arrivals()
	if torn {
		a.skipped.TornRanks++
	}
	p := &a.processes[index]
	sites := map[uint64]uint16{}
	for i := range kept {
		raw := &kept[i]
		if _, private := p.private[raw.CommID]; private || raw.CommID == 0 || raw.Kin == 0 {
			a.skipped.Incomparable++
			continue
		}
		call := smallCount(raw.Call)
		r, ok := sampleOf(raw, raw.Bytes > 0 || operationOf(call).weightless)
		if !ok {
			a.skipped.Rows++
			continue
		}
		class := a.class(classKey{raw.Kin, p.world, call})
		if !Reaches(Hash(raw.CommID, raw.Sequence, raw.Start), a.classes[class].level) {
			continue
		}
		r.instance = a.instance(instanceKey{raw.CommID, class, raw.Sequence, raw.Start}, raw)
		r.process = index
		r.site = p.site(sites, raw.Address)
		a.rows.add(r)
	}
}

// instance finds the operation that a sample belongs to.
func (a *Analysis) instance(key instanceKey, raw *segment.RawArrival) uint32 {
	index, ok := a.instanceOf[key]
	if !ok {
		index = uint32(len(a.instances))
		a.instances = append(a.instances, instance{instanceKey: key, size: raw.Size, root: raw.Root})
		a.instanceOf[key] = index
	}
	i := &a.instances[index]
	i.rows++
	i.bytes = max(i.bytes, raw.Bytes)
	i.conflict = i.conflict || i.size != raw.Size || i.root != raw.Root
	return index
}

// site numbers the call sites of a process; 0 is one too many.
func (p *process) site(known map[uint64]uint16, address uint64) uint16 {
	n, ok := known[address]
	if !ok && len(p.sites) < math.MaxUint16 {
		n = uint16(len(p.sites))
		p.sites = append(p.sites, address)
		known[address] = n
	}
	return n
}
