package arrival

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// gridRange is the dumb twin of polygon.at: it tries drifts one by one.
func gridRange(brackets []bracket, slack, most, t float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	const steps = 20000
	for i := range steps + 1 {
		d := -most + 2*most*float64(i)/steps
		up, down := math.Inf(1), math.Inf(-1)
		for _, b := range brackets {
			up, down = min(up, b.upper+slack-d*b.upperAt), max(down, b.lower-slack-d*b.lowerAt)
		}
		if up >= down {
			low, high = min(low, down+d*t), max(high, up+d*t)
		}
	}
	return low, high
}

func TestPolygonAgainstGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	infeasible := 0
	for range 60 {
		var brackets []bracket
		for range 1 + rng.IntN(8) {
			at := rng.Float64() * 1e6
			b := bracket{upperAt: at, upper: rng.Float64() * 300, lowerAt: at + 10, lower: -rng.Float64() * 300}
			if rng.IntN(4) == 0 {
				b.upper -= 150
			}
			brackets = append(brackets, b)
		}
		p, ok := feasible(brackets, 3, -1e-3, 1e-3)
		at := rng.Float64()*2e6 - 5e5
		low, high := gridRange(brackets, 3, 1e-3, at)
		if !ok {
			infeasible++
			if low < high {
				t.Fatalf("no line found, but there is one: %v to %v at %v of %+v", low, high, at, brackets)
			}
			continue
		}
		gotLow, gotHigh := p.at(at)
		if low > high {
			continue // a sliver between two drifts of the grid
		}
		// The grid lies inside and misses at most a step of drift.
		step := 1e-7 * 2e6
		if gotLow > low+1e-6 || gotHigh < high-1e-6 || gotLow < low-2*step || gotHigh > high+2*step {
			t.Errorf("range at %v is %v to %v, by trying %v to %v", at, gotLow, gotHigh, low, high)
		}
	}
	if infeasible == 0 || infeasible == 60 {
		t.Errorf("%d of 60 infeasible: the test does not test", infeasible)
	}
}

// checkBounds compares aligned clocks with the truth, and returns the worst
// bound.
func checkBounds(t *testing.T, a *Analysis, nodes []*testNode, from, to float64) (worst float64) {
	t.Helper()
	for x := range a.domains {
		for y := range a.domains {
			if a.domains[x].component != a.domains[y].component || x == y {
				continue
			}
			for i := range 21 {
				at := from + (to-from)*float64(i)/20
				d, e := &a.domains[x], &a.domains[y]
				p, b := a.reference(int32(x), d.ns(int64(nodeNamed(nodes, d.node).ticks(at))))
				q, c := a.reference(int32(y), e.ns(int64(nodeNamed(nodes, e.node).ticks(at))))
				bound := b + c + 2
				worst = max(worst, bound)
				if off := math.Abs(float64(p - q)); off > bound {
					t.Fatalf("clocks %s and %s are %v ns apart at %v, bound %v", d.node, e.node, off, at, bound)
				}
			}
		}
	}
	return worst
}

func nodeNamed(nodes []*testNode, name string) *testNode {
	for _, n := range nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// TestAlignRandom recovers random offsets and drifts within the bound, and the
// bound is that of the network's latency.
func TestAlignRandom(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(2, seed))
		nodes := randomNodes(rng, 2+rng.IntN(3))
		var nodeOf []int
		for i := range nodes {
			for range 1 + rng.IntN(4) {
				nodeOf = append(nodeOf, i)
			}
		}
		j := newJob(nodes, nodeOf...)
		j.endNS = math.Pow(10, 7+5*rng.Float64()) // 10 ms to 1000 s
		n := 3 + rng.IntN(100)
		for k := range n {
			enter, exit := barrierLike(rng, len(nodeOf), j.endNS*float64(k+1)/float64(n+2), 20000, 2000)
			j.add(op{call: []string{"MPI_Allreduce", "MPI_Barrier", "MPI_Ialltoall"}[k%3], bytes: 8, root: -1, sequence: uint32(k), enter: enter, exit: exit})
		}
		a, r := j.analyse(t, Options{})
		worst := checkBounds(t, a, nodes, 0, j.endNS)
		if n > 50 && worst > 200_000 {
			t.Errorf("seed %d: %d operations over %v s give a bound of %v ns only", seed, n, j.endNS/1e9, worst)
		}
		for _, c := range r.Clocks {
			if c.Status == StatusAlone || c.Status == StatusContradictory {
				t.Errorf("seed %d: %+v", seed, c)
			}
		}
	}
}

// TestAlignFew: one or two samples give a bound that grows with distance in
// time as unknown drift may, and never breaks.
func TestAlignFew(t *testing.T) {
	for n := 1; n <= 2; n++ {
		rng := rand.New(rand.NewPCG(3, uint64(n)))
		nodes := randomNodes(rng, 2)
		j := newJob(nodes, 0, 1)
		for k := range n {
			enter, exit := barrierLike(rng, 2, 5e8+1e8*float64(k), 1000, 1000)
			j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: enter, exit: exit})
		}
		a, r := j.analyse(t, Options{})
		checkBounds(t, a, nodes, 0, j.endNS)
		if c := r.Clocks[1]; c.Status != StatusAligned || c.Compared != n || c.BoundNS > 20000 {
			t.Errorf("%d samples: %+v", n, c)
		}
	}
}

// TestAlignChain: nodes 0 and 2 share no operation but both share some with
// node 1, and so can be compared with the sum of the bounds; node 3 cannot.
func TestAlignChain(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	nodes := randomNodes(rng, 4)
	j := newJob(nodes, 0, 1, 1, 2, 3)
	part := func(o op, ranks ...int) {
		all := newJob(nodes, j.nodeOf...)
		wide := o
		wide.enter, wide.exit = make([]float64, 5), make([]float64, 5)
		for i, r := range ranks {
			wide.enter[r], wide.exit[r] = o.enter[i], o.exit[i]
		}
		all.add(wide)
		for i, r := range ranks {
			raw := all.arrivals[r][0]
			raw.Rank, raw.Size = int32(i), int32(len(ranks))
			j.arrivals[r] = append(j.arrivals[r], raw)
		}
	}
	for k := range 50 {
		enter, exit := barrierLike(rng, 2, 1e7*float64(k+1), 1000, 1000)
		part(op{call: "MPI_Barrier", comm: 11, root: -1, sequence: uint32(k), enter: enter, exit: exit}, 0, 1)
		part(op{call: "MPI_Barrier", comm: 12, root: -1, sequence: uint32(k), enter: enter, exit: exit}, 2, 3)
		enter, exit = barrierLike(rng, 5, 1e7*float64(k+1)+5e6, 1000, 1000)
		part(op{call: "MPI_Bcast", comm: 13, bytes: 8, sequence: uint32(k), enter: enter, exit: exit}, 0, 1, 2, 3, 4)
	}
	a, r := j.analyse(t, Options{})
	checkBounds(t, a, nodes, 0, 5e8)
	status := map[Status]int{}
	for _, c := range r.Clocks {
		status[c.Status]++
	}
	if status[StatusReference] != 1 || status[StatusAligned] != 2 || status[StatusAlone] != 1 {
		t.Errorf("clocks: %+v", r.Clocks)
	}
	// The reference is node 1, which has most ranks; the bounds of the others
	// add up.
	for i, d := range a.domains {
		if d.parent >= 0 {
			at := a.domains[i].ns(int64(nodeNamed(nodes, d.node).ticks(2e8)))
			_, own := d.difference(at)
			if _, bound := a.reference(int32(i), at); bound < own {
				t.Errorf("%s: bound %v, of one link %v", d.node, bound, own)
			}
		}
	}
	if c := classOf(t, r, "MPI_Bcast"); c.Sampled != 0 || c.Unaligned != 50 || c.Waiting.NS != 0 {
		t.Errorf("a broadcast over clocks that cannot be compared: %+v", c)
	}
}

// TestBoundsAddUp: three clocks in a row.
func TestBoundsAddUp(t *testing.T) {
	link := func(width float64) *envelope {
		e, ok := newEnvelope([]bracket{{0, width, 0, -width}}, terms{drift: 1e-9})
		if !ok {
			t.Fatal("no line")
		}
		return e
	}
	a := New(Options{})
	a.domains = []domain{{parent: -1}, {parent: 0, link: link(100)}, {parent: 1, link: link(30), inverse: true}}
	if _, bound := a.reference(2, 0); math.Abs(bound-130) > 1 {
		t.Errorf("bound %v, should be 130", bound)
	}
	members := []member{{domain: 0}, {domain: 1, bound: 100}, {domain: 1, bound: 90}, {domain: 2, bound: 130}}
	if b := a.boundOf(members); b != 230 {
		t.Errorf("bound of three clocks %v, should be 230", b)
	}
	if b := a.boundOf(members[1:3]); b != 0 {
		t.Errorf("bound of one clock %v", b)
	}
}

// TestCutIsOpen: between two stretches the bound covers both.
func TestCutIsOpen(t *testing.T) {
	var brackets []bracket
	for k := range 40 {
		at, v := 1000*float64(k), 0.0
		if k >= 20 {
			v = 5000
		}
		brackets = append(brackets, bracket{at, v + 10, at, v - 10})
	}
	e, ok := newEnvelope(brackets, terms{drift: 1e-6})
	if !ok || len(e.stretches) != 2 {
		t.Fatalf("%v: %+v", ok, e)
	}
	for _, test := range []struct {
		at         int64
		value, off float64
	}{{10_000, 0, 10}, {19_500, 2500, 2510}, {30_000, 5000, 10}} {
		if v, b := e.at(test.at); math.Abs(float64(v)-test.value) > 1 || math.Abs(b-test.off) > 1 {
			t.Errorf("at %d: %v +- %v, should be %v +- %v", test.at, v, b, test.value, test.off)
		}
	}
}

// TestAlignMany takes the way of large jobs, with one node for each rank.
func TestAlignMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	n := pairsAllBelow + 8
	nodes := randomNodes(rng, n)
	var nodeOf []int
	for i := range n {
		nodeOf = append(nodeOf, i)
	}
	j := newJob(nodes, nodeOf...)
	for k := range 40 {
		enter, exit := barrierLike(rng, n, 2e7*float64(k+1), 5000, 1000)
		j.add(op{call: "MPI_Allreduce", bytes: 8, root: -1, sequence: uint32(k), enter: enter, exit: exit})
	}
	a, _ := j.analyse(t, Options{})
	if worst := checkBounds(t, a, nodes, 0, 1e9); worst > 50000 {
		t.Errorf("bound %v", worst)
	}
}

// TestClockJump: a clock that was set once is cut there, and right on both
// sides; one that jumps all the time is withheld.
func TestClockJump(t *testing.T) {
	run := func(jumps func(k int) float64) (*Analysis, *Result, []*testNode) {
		rng := rand.New(rand.NewPCG(6, 6))
		nodes := randomNodes(rng, 2)
		j := newJob(nodes, 0, 0, 1, 1)
		for k := range 60 {
			nodes[1].jumpAt, nodes[1].jump = 1, jumps(k)
			enter, exit := barrierLike(rng, 4, 1e7*float64(k+1), 5000, 1000)
			j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: enter, exit: exit})
		}
		a, r := j.analyse(t, Options{})
		return a, r, nodes
	}
	a, r, nodes := run(func(k int) float64 {
		if k < 30 {
			return 0
		}
		return 5e6
	})
	if c := r.Clocks[1]; c.Status != StatusAligned || c.Cuts != 1 {
		t.Errorf("a clock that was set once: %+v", c)
	}
	nodes[1].jump = 0
	checkBounds(t, a, nodes, 0, 3.0e8)
	nodes[1].jump = 5e6
	checkBounds(t, a, nodes, 3.1e8, 6e8)
	_, r, _ = run(func(k int) float64 { return 1e6 * float64(k*k%17) })
	if c := r.Clocks[1]; c.Status != StatusContradictory || classOf(t, r, "MPI_Barrier").Unaligned != 60 {
		t.Errorf("a clock that jumps all the time: %+v", c)
	}
}

// TestWander: a clock whose rate changes as it warms up stays within the bound
// over a long job.
func TestWander(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	nodes := randomNodes(rng, 2)
	j := newJob(nodes, 0, 1)
	j.endNS = 3600e9
	warm := func(at float64) float64 { return 8e-9 * 3600e9 / 6.3 * math.Sin(at/3600e9*6.3) }
	for k := range 2000 {
		at := j.endNS * float64(k+1) / 2002
		nodes[1].jumpAt, nodes[1].jump = 1, warm(at)
		enter, exit := barrierLike(rng, 2, at, 5000, 1500)
		j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: enter, exit: exit})
	}
	nodes[1].jumpAt = 0
	a, r := j.analyse(t, Options{})
	if r.Clocks[1].BoundNS > 8000 {
		t.Errorf("bound of %v ns", r.Clocks[1].BoundNS)
	}
	for i := 1; i < 100; i++ {
		at := j.endNS * float64(i) / 100
		nodes[1].jumpAt, nodes[1].jump = 1, warm(at)
		checkBounds(t, a, nodes, at, at)
	}
}

// TestDomainFit: the rate comes from the pairs, one wrong pair does no harm,
// impossible ones are counted, and a rank with a clock of its own is put apart.
func TestDomainFit(t *testing.T) {
	nodes := []*testNode{{name: "n0", rate: 2.5, offset: 5e12}}
	j := newJob(nodes, 0, 0, 0, 0, 0, 0)
	j.change = func(rank int, s *synth.Segment) {
		h := &s.Header
		switch rank {
		case 1: // read late
			h.LastMonotonicNS += 100_000
		case 2: // backward
			h.LastTicks = h.FirstTicks - 5
		case 3: // impossible rate
			h.LastTicks += (h.LastTicks - h.FirstTicks) / 2
		case 4: // counter of its own
			h.FirstTicks += 1 << 40
			h.LastTicks += 1 << 40
		}
	}
	_, r := j.analyse(t, Options{})
	if len(r.Clocks) != 2 || r.Clocks[0].Ranks != 5 || r.Clocks[1].Ranks != 1 {
		t.Fatalf("clocks: %+v", r.Clocks)
	}
	if c := r.Clocks[0]; c.PairsRejected != 2 || math.Abs(c.TicksPerNS/2.5-1) > 1e-7 || c.RateErrorPPM > 0.1 {
		t.Errorf("%+v", c)
	}
}

// TestSharedClockViolated: ranks of one node whose counters differ after all.
func TestSharedClockViolated(t *testing.T) {
	for _, often := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(8, 8))
		j := newJob(oneNode(), 0, 0)
		for k := range 100 {
			enter, exit := barrierLike(rng, 2, 1e6*float64(k+1), 1000, 1000)
			if often || k == 50 {
				enter[1] += 50_000
				exit[1] += 50_000
			}
			j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: enter, exit: exit})
		}
		_, r := j.analyse(t, Options{})
		c := classOf(t, r, "MPI_Barrier")
		if often && (len(r.Clocks) != 2 || math.Abs(math.Abs(r.Clocks[1].OffsetNS)-50_000) > r.Clocks[1].BoundNS || c.Sampled != 100 || c.Worst.Max > 2500) {
			t.Errorf("counters that differ by 50 us: %+v, %+v", c, r.Clocks)
		}
		if !often && (c.Sampled != 99 || c.Impossible != 1 || r.Clocks[0].ErrorNS > 10) {
			t.Errorf("one impossible sample: %+v, %+v", c, r.Clocks[0])
		}
	}
}

// TestKilled: only the first pair of each rank is there.
func TestKilled(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	nodes := randomNodes(rng, 2)
	j := newJob(nodes, 0, 1)
	j.change = func(_ int, s *synth.Segment) {
		s.Header.LastTicks, s.Header.LastMonotonicNS, s.Header.State = 0, 0, segment.StateRunning
	}
	for k := range 30 {
		enter, exit := barrierLike(rng, 2, 1e7*float64(k+1), 1000, 1000)
		j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: enter, exit: exit})
	}
	a, r := j.analyse(t, Options{})
	// Rates are off by 10 ppm, so the true time of the reference differs; the
	// two clocks still agree with each other.
	checkBounds(t, a, nodes, 0, 3e8)
	if c := r.Clocks[0]; c.RateErrorPPM != rateErrorHeader*1e6 || c.PairsRejected != 0 {
		t.Errorf("%+v", c)
	}
}

// TestRateErrorCoversReading: the clocks of a pair are not read at the same
// moment. What all pairs of a moment share shows in no residual, but the error
// of the rate must cover it.
func TestRateErrorCoversReading(t *testing.T) {
	const span, late = 7e6, 15 // ns
	j := newJob([]*testNode{{name: "n0", rate: 2}}, 0, 0)
	j.endNS = span
	j.change = func(_ int, s *synth.Segment) { s.Header.LastMonotonicNS += late }
	_, r := j.analyse(t, Options{})
	c := r.Clocks[0]
	if off := math.Abs(c.TicksPerNS/2-1) * 1e6; off < 1 || off > c.RateErrorPPM || c.RateErrorPPM > 10 {
		t.Errorf("the rate is off by %.2f ppm, its error is said to be %.2f", off, c.RateErrorPPM)
	}
}
