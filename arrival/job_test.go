package arrival

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// testNode is a clock: its nanoseconds are true ones times 1+drift plus offset.
type testNode struct {
	name   string
	offset float64 // ns
	drift  float64
	rate   float64 // ticks per ns
	jumpAt float64 // true ns at which the clock jumps
	jump   float64 // ns
}

func (n *testNode) ns(t float64) float64 {
	v := t*(1+n.drift) + n.offset
	if n.jumpAt > 0 && t >= n.jumpAt {
		v += n.jump
	}
	return v
}

func (n *testNode) ticks(t float64) uint64 { return uint64(math.Round(n.ns(t) * n.rate)) }

// testJob collects what ranks would record, in true nanoseconds.
type testJob struct {
	nodes    []*testNode
	nodeOf   []int
	arrivals [][]segment.RawArrival
	classes  [][]segment.RawArrivalClass
	events   [][]segment.RawEvent
	comms    []segment.RawComm
	sends    []uint32
	receives []uint32
	endNS    float64
	change   func(rank int, s *synth.Segment)
}

func newJob(nodes []*testNode, nodeOf ...int) *testJob {
	n := len(nodeOf)
	return &testJob{
		nodes: nodes, nodeOf: nodeOf, arrivals: make([][]segment.RawArrival, n), classes: make([][]segment.RawArrivalClass, n),
		events: make([][]segment.RawEvent, n), sends: make([]uint32, n), receives: make([]uint32, n), endNS: 1e9,
		comms: []segment.RawComm{{}, {ID: 7, Comparable: 1, Size: int32(n)}},
	}
}

// oneNode is a node whose ticks are true nanoseconds.
func oneNode() []*testNode { return []*testNode{{name: "n0", rate: 1}} }

// op is one collective operation: by rank the true times; nil wait: blocking.
type op struct {
	call              string
	comm, kin         uint64 // kin 0: like comm
	sequence, start   uint32
	root              int32
	bytes             uint64
	enter, wait, exit []float64
	address           uint64
}

func (j *testJob) add(o op) {
	if o.comm == 0 {
		o.comm = 7
	}
	for r := range o.enter {
		n := j.nodes[j.nodeOf[r]]
		wait := o.enter[r]
		if o.wait != nil {
			wait = o.wait[r]
		}
		j.arrivals[r] = append(j.arrivals[r], segment.RawArrival{CommID: o.comm, Kin: cmp.Or(o.kin, o.comm), Sequence: o.sequence, Start: o.start,
			EnterTicks: n.ticks(o.enter[r]), WaitTicks: n.ticks(wait), ExitTicks: n.ticks(o.exit[r]), Bytes: o.bytes,
			Address: 0x1000*uint64(r+1) + o.address, Root: o.root, Rank: int32(r), Size: int32(len(o.enter)), Call: uint16(synth.ID(o.call))})
	}
}

// count declares a class on all ranks.
func (j *testJob) count(call string, instances uint64, level uint16) {
	for r := range j.classes {
		j.classes[r] = append(j.classes[r], segment.RawArrivalClass{Kin: 7, Call: uint16(synth.ID(call)), Instances: instances, Level: level})
	}
}

// segment is what one rank left.
func (j *testJob) segment(rank int) *synth.Segment {
	n := j.nodes[j.nodeOf[rank]]
	h := segment.RawHeader{VersionMajor: segment.VersionMajor, VersionMinor: segment.VersionMinor, LayoutHash: segment.LayoutHash,
		HeaderBytes: 4096, SectionEntryBytes: 64, State: segment.StateExited, WorldRank: int32(rank), WorldSize: int32(len(j.nodeOf)),
		PID: uint32(100 + rank), PIDStart: 5, ClockSource: segment.ClockSourceTSC, TicksPerNS: n.rate * (1 + 1e-5), ClockResolutionTicks: 1,
		FirstTicks: n.ticks(1), FirstMonotonicNS: uint64(math.Round(n.ns(1))), LastTicks: n.ticks(j.endNS), LastMonotonicNS: uint64(math.Round(n.ns(j.endNS)))}
	copy(h.Magic[:], "MPITRSEG")
	synth.SetText(h.BootID[:], "boot-"+n.name)
	synth.SetText(h.Node[:], n.name)
	synth.SetText(h.World[:], "w")
	s := &synth.Segment{Header: h, Comms: j.comms, Threads: []segment.RawThread{{}}}
	s.Extra = []synth.Section{
		synth.NewSection(segment.SectionKindArrivals, 0, j.arrivals[rank]...),
		synth.NewSection(segment.SectionKindArrivalClasses, 0, j.classes[rank]...),
		synth.NewSection(segment.SectionKindEvents, 0, j.events[rank]...),
	}
	if j.change != nil {
		j.change(rank, s)
	}
	return s
}

func parse(t testing.TB, s *synth.Segment) *segment.Segment {
	t.Helper()
	parsed, err := segment.Parse("test", s.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// analyse feeds all ranks.
func (j *testJob) analyse(t testing.TB, options Options) (*Analysis, *Result) {
	t.Helper()
	a := New(options)
	for r := range j.nodeOf {
		a.Add(parse(t, j.segment(r)))
	}
	return a, a.Result()
}

// classOf finds the class of a function.
func classOf(t testing.TB, r *Result, call string) *Class {
	t.Helper()
	for _, c := range r.Classes {
		if c.Call.String() == call {
			return c
		}
	}
	t.Fatalf("no class of %s", call)
	return nil
}

func equal(t testing.TB, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, should be %v", what, got, want)
	}
}

// barrierLike is enters around start and exits after the last of them.
func barrierLike(rng *rand.Rand, n int, start, imbalance, latency float64) (enter, exit []float64) {
	last := 0.0
	for range n {
		enter = append(enter, start+rng.Float64()*imbalance)
		last = max(last, enter[len(enter)-1])
	}
	for range n {
		exit = append(exit, last+latency*(1+3*rng.ExpFloat64()))
	}
	return enter, exit
}

// randomNodes have clocks hours and tens of ppm apart.
func randomNodes(rng *rand.Rand, n int) (nodes []*testNode) {
	for i := range n {
		nodes = append(nodes, &testNode{name: fmt.Sprint("n", i), offset: 1e12 + rng.Float64()*1e14, drift: (rng.Float64() - 0.5) * 1e-4, rate: 1 + 2*rng.Float64()})
	}
	return nodes
}
