package report

import (
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
)

// Options of Load.
type Options struct {
	Ranks  Ranges // world ranks to look at; nil: all
	Detail bool   // keep functions and peers of each rank, as JSON wants them
	Pairs  int    // how many of the heaviest pairs to keep; at least 64
	// TotalsOnly leaves away all but ranks, calls in progress, and the totals of
	// functions and places: what a live view reads again and again. Of segments in
	// shared memory the rest is not even read.
	TotalsOnly bool
	// Symbols finds source lines; nil: a new one for this report.
	Symbols *symbols.Resolver
	// Matrix keeps the messages between all ranks, in at most 512 groups of
	// neighbours of a world: what the HTML page draws. So does Rasters: for how
	// many places, those with the most waiting first, the arrivals are kept.
	Matrix  bool
	Rasters int
	// EagerLimit is the largest payload that the MPI library sends at once; 0:
	// reusetrack.DefaultEagerLimit.
	EagerLimit uint64
	// Network is the time of one message; nil: that in Calibrations, which is
	// CalibrationDir or empty, else imbalance factors are withheld.
	Network      *Network
	Calibrations string
	// Costs of the machine; nil: how many buffers are frequently used, and what
	// sending from them would save, is withheld.
	Costs *reusetrack.Costs
	// placesOnly: of traces only the places matter, not the messages.
	placesOnly bool
	// untraced: trace files are left alone.
	untraced bool
	// visit sees every segment that the report is made of.
	visit func(*segment.Segment)
}

// Load reads a result (a directory, a packed file, or the job directory of a
// live job) and adds it up. The error says that nothing could be read; what
// could not be read of the rest is in Problems.
func Load(path string, options Options) (*Report, error) {
	b := newBuilder(options)
	if err := b.load(path); err != nil {
		return nil, err
	}
	return b.report, nil
}

func (b *builder) load(path string) error {
	b.path = path
	var kinds []uint32 // all
	if b.options.TotalsOnly {
		kinds = totalsKinds
	}
	result, err := segment.WalkResult(path, func(s *segment.Segment) error {
		if b.wants(s) {
			b.add(s)
			if b.options.visit != nil {
				b.options.visit(s)
			}
		}
		return nil
	}, kinds...)
	if err != nil {
		return err
	}
	if len(b.report.Ranks) == 0 {
		return fmt.Errorf("%s: none of the ranks asked for has data", path)
	}
	b.report.Problems = result.Problems
	if !b.options.TotalsOnly && !b.options.untraced {
		b.addTrace()
	}
	b.readJob(result.Job)
	b.addAct(result.Job, result.Ledgers)
	b.learnSymbols(result.Symbols)
	b.finish()
	return nil
}

// totalsKinds is the sections that TotalsOnly needs.
var totalsKinds = []uint32{segment.SectionKindThread, segment.SectionKindSites, segment.SectionKindModules, segment.SectionKindComms,
	segment.SectionKindAct, segment.SectionKindActCounts}

// builder adds segments up.
type builder struct {
	*measured
	options Options
	report  *Report
	path    string // of the result

	worlds    map[string]int
	modules   map[moduleKey]int32
	functions map[uint32]*Function
	sites     map[siteKey]*Site
	stacks    map[string]int32
	comms     map[commKey]*Comm
	types     map[typeKey]*Datatype
	phases    map[phaseKey]int
	nodes     map[string]bool
	pairs     pairHeap
	notes     notes
	waiting   map[waitKey]map[int]bool // ranks by the call they are in
	matrices  map[int]*Matrix          // by world
	acts      []actRank                // of a job in act mode

	serial     int // of the segment being added
	firstStart int64
	resolution float64 // coarsest clock, ns
	endNS      int64   // realtime of the last known moment
	worldSize  []int   // by world

	launchHost string // of job.json
	processors int    // of it; 0: not known
}

type moduleKey struct {
	id   [32]byte
	path [256]byte
}

// siteKey tells call sites apart over ranks.
type siteKey struct {
	offset uint64
	call   uint32
	module int32 // index into Report.modules plus 1
	phase  int32
	stack  int32 // index into Report.stacks plus 1
	flags  uint8
}

type commKey struct {
	id   uint64
	kind uint32
	name [64]byte
}

type typeKey struct {
	name      [64]byte
	size      int64
	createdBy uint32
}

type phaseKey struct {
	level int32
	name  [64]byte
}

func newBuilder(options Options) *builder {
	if options.Symbols == nil {
		options.Symbols = symbols.New(symbols.Options{})
	}
	b := &builder{
		options: options,
		report: &Report{Schema: Schema, resolver: options.Symbols, options: options, restricted: options.Ranks != nil,
			Stuck: []Stuck{}, Pairs: []Pair{}, Findings: []string{},
			Arrivals: []*Arrival{}, Reuse: []*Reuse{}, Overlap: []*Overlap{}, Clocks: []Clock{},
			Job: Job{Nodes: []string{}, Worlds: []string{}, MissingRanks: []int{}}},
		worlds: map[string]int{}, modules: map[moduleKey]int32{}, functions: map[uint32]*Function{},
		sites: map[siteKey]*Site{}, stacks: map[string]int32{}, comms: map[commKey]*Comm{},
		types: map[typeKey]*Datatype{}, phases: map[phaseKey]int{}, nodes: map[string]bool{},
		matrices: map[int]*Matrix{},
	}
	b.measured = newMeasured(&options, b.transfer)
	return b
}

// wants tells whether the user asked for this rank.
func (b *builder) wants(s *segment.Segment) bool {
	return b.options.Ranks.Has(int(s.Header.WorldRank))
}

// local is what the entries of one segment mean to the whole report.
type local struct {
	s       *segment.Segment
	rank    *Rank
	modules []segment.RawModule
	module  []int32 // index into Report.modules plus 1, by entry of MODULES
	stack   []int32
	phase   []int32 // index into Report.Phases, by entry of PHASES
	raw     []segment.RawComm
	comm    []*Comm // by entry of COMMS
	threads []segment.Thread
	shared  int64                    // shard of several threads at once, or -1
	busyNS  map[uint32]uint64        // MPI time of completed calls by shard
	ranks   map[uint32]*RankFunction // with Detail only
}

// add takes one segment over.
func (b *builder) add(s *segment.Segment) {
	b.serial++
	h := &s.Header
	l := &local{s: s, threads: s.Threads(), modules: s.Modules(), raw: s.Comms()}
	l.shared = segment.SharedShard(l.threads)
	l.rank = b.addRank(l)
	b.addModules(l)
	b.addPhases(l)
	b.addSites(l)
	b.addComms(l)
	b.addCurrent(l)
	b.note(l)
	b.addOwn(l)
	b.addFunctions(l)
	if act := s.Act(); act != nil {
		b.acts = append(b.acts, actRank{l.rank.World, l.rank.Rank, h.Ended(), act})
	}
	if !b.options.TotalsOnly {
		b.addPeers(l)
		b.addTypes(l)
		b.addMeasured(l)
	}
	if rate := h.NS(1 << 20); rate > 0 {
		b.resolution = max(b.resolution, float64(rate)/(1<<20)*float64(min(h.ClockResolutionTicks, 1<<30)))
	}
}

func (b *builder) addModules(l *local) {
	for i := range l.modules {
		raw := &l.modules[i]
		key := moduleKey{raw.BuildID, raw.Path}
		index, ok := b.modules[key]
		if !ok {
			id := hex.EncodeToString(raw.BuildID[:min(raw.BuildIDBytes, uint32(len(raw.BuildID)))])
			b.report.modules = append(b.report.modules, Module{segment.Text(raw.Path[:]), id})
			index = int32(len(b.report.modules))
			b.modules[key] = index
		}
		l.module = append(l.module, index)
	}
	for _, raw := range l.s.Stacks() {
		l.stack = append(l.stack, b.addStack(l, &raw))
	}
}

// frame is a place of a call stack.
type frame struct {
	module int32 // index into Report.modules plus 1
	offset uint64
}

// addStack gives equal stacks of different ranks one number.
func (b *builder) addStack(l *local, raw *segment.RawStack) int32 {
	frames := make([]frame, 0, segment.StackFrames)
	text := make([]byte, 0, 256)
	for _, address := range raw.Frames[:min(raw.Depth, segment.StackFrames)] {
		f := frame{offset: address}
		for i := range l.modules {
			if m := &l.modules[i]; m.Start <= address && address < m.End {
				f = frame{l.module[i], address - m.Base}
				break
			}
		}
		frames = append(frames, f)
		text = fmt.Appendf(text, "%d+%x ", f.module, f.offset)
	}
	index, ok := b.stacks[string(text)]
	if !ok {
		b.report.stacks = append(b.report.stacks, frames)
		index = int32(len(b.report.stacks))
		b.stacks[string(text)] = index
	}
	return index
}

func (b *builder) addPhases(l *local) {
	h := &l.s.Header
	raw := l.s.Phases()
	if len(raw) == 0 {
		raw = []segment.RawPhase{{}}
	}
	for i := range raw {
		p := &raw[i]
		key := phaseKey{p.Level, p.Name}
		index, ok := b.phases[key]
		if !ok {
			index = len(b.report.Phases)
			b.phases[key] = index
			b.report.Phases = append(b.report.Phases, &Phase{Level: p.Level, Name: segment.Text(p.Name[:])})
		}
		ticks := p.Ticks
		if end := l.s.EndTicks(); uint32(i) == h.Phase && h.PhaseEnterTicks > 0 && end > h.PhaseEnterTicks {
			ticks += end - h.PhaseEnterTicks
		}
		phase := b.report.Phases[index]
		phase.Ranks++
		phase.Entered += uint64(p.Entered)
		phase.TimeNS += h.NS(ticks)
		l.phase = append(l.phase, int32(index))
	}
}

// at returns the element at index, or the zero value beyond the end: indices
// in segments are not to be trusted.
func at[T any](list []T, index int) (zero T) {
	if index < 0 || index >= len(list) {
		return zero
	}
	return list[index]
}

// realtime formats nanoseconds since 1970, empty for 0.
func realtime(ns int64) string {
	if ns <= 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339)
}

// pageBytes is what a segment occupies in memory at least.
var pageBytes = uint64(os.Getpagesize())
