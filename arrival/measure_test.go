package arrival

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// truth is the dumb twin: what an all-to-all operation cost, from true times.
type truth struct{ waiting, beyond, average, worst float64 }

func truthOf(enter, exit []float64) (out truth) {
	last, mean := slices.Max(enter), 0.0
	for _, e := range enter {
		mean += e / float64(len(enter))
	}
	for i := range enter {
		w := max(0, min(exit[i], last)-enter[i])
		out.waiting += w
		out.beyond += exit[i] - enter[i] - w
		out.average += math.Abs(enter[i]-mean) / float64(len(enter))
	}
	out.worst = last - slices.Min(enter)
	return out
}

// TestLedgers: random imbalance on random clocks gives the true waiting within
// the bound, the parts add up, and nothing is claimed within the bound.
func TestLedgers(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(20, seed))
		nodes := randomNodes(rng, 1+rng.IntN(3))
		var nodeOf []int
		for i := range nodes {
			nodes[i].drift = (rng.Float64() - 0.5) * 1e-7 // so that durations may be compared with true ones
			for range 1 + rng.IntN(3) {
				nodeOf = append(nodeOf, i)
			}
		}
		if len(nodeOf) < 2 {
			nodeOf = append(nodeOf, 0)
		}
		j := newJob(nodes, nodeOf...)
		imbalance := math.Pow(10, 2+5*rng.Float64())
		var want truth
		n := 40
		for k := range n {
			enter, exit := barrierLike(rng, len(nodeOf), j.endNS*float64(k+1)/float64(n+2), imbalance, 2000)
			j.add(op{call: "MPI_Allreduce", bytes: 8, root: -1, sequence: uint32(k), enter: enter, exit: exit})
			w := truthOf(enter, exit)
			want.waiting += w.waiting
			want.beyond += w.beyond
			want.worst += w.worst / float64(n)
		}
		j.count("MPI_Allreduce", uint64(n), 0)
		_, r := j.analyse(t, Options{})
		c := classOf(t, r, "MPI_Allreduce")
		room := float64(n*len(nodeOf)) * (c.BoundMax + 10)
		if math.Abs(c.Waiting.NS+c.Unclaimed.NS-want.waiting) > room || math.Abs(c.Beyond.NS-want.beyond) > room {
			t.Errorf("seed %d: waiting %v + %v, truly %v; beyond %v, truly %v; room %v", seed, c.Waiting.NS, c.Unclaimed.NS, want.waiting, c.Beyond.NS, want.beyond, room)
		}
		if c.Worst.Mean > want.worst+c.BoundMax+10 {
			t.Errorf("seed %d: omega %v, truly %v", seed, c.Worst.Mean, want.worst)
		}
		if imbalance < c.BoundNS/2 && len(nodes) > 1 && c.Waiting.NS > 0 && c.Balanced != n {
			t.Errorf("seed %d: claims %v of waiting within the bound", seed, c.Waiting.NS)
		}
		checkLedger(t, c)
	}
}

// TestNothingWithinTheBound: two nodes, one rank 300 ns late, a latency of 2
// us: no waiting is claimed, none is lost.
func TestNothingWithinTheBound(t *testing.T) {
	nodes := randomNodes(rand.New(rand.NewPCG(25, 25)), 2)
	j := newJob(nodes, 0, 1)
	for k := range 50 {
		at := 1e7 * float64(k+1)
		j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: []float64{at, at + 300}, exit: []float64{at + 2300, at + 2300}})
	}
	_, r := j.analyse(t, Options{})
	c := classOf(t, r, "MPI_Barrier")
	if c.Waiting.NS != 0 || c.Unclaimed.NS == 0 || c.Balanced != 50 || c.Undecided != 50 || c.Worst.Max != 0 || c.Pattern.Persistent {
		t.Errorf("%+v", c)
	}
	checkLedger(t, c)
}

// checkLedger: blocked = waiting + beyond + unclaimed, and waiting is caused by
// somebody or undecided; spread keeps its invariants.
func checkLedger(t *testing.T, c *Class) {
	t.Helper()
	equal(t, "blocked", c.Blocked.NS, c.Waiting.NS+c.Beyond.NS+c.Unclaimed.NS)
	var caused, waiting, blocked, bySite float64
	last := 0
	for _, s := range c.Ranks {
		caused, waiting, blocked, last = caused+s.CausedNS, waiting+s.WaitingNS, blocked+s.BlockedNS, last+s.Last
	}
	equal(t, "caused", caused+c.UndecidedNS, c.Waiting.NS)
	equal(t, "own waiting", waiting, c.Waiting.NS)
	equal(t, "own blocked", blocked, c.Blocked.NS)
	if last+c.Undecided != c.Sampled {
		t.Errorf("%d last, %d undecided, of %d", last, c.Undecided, c.Sampled)
	}
	for _, s := range c.Sites {
		bySite += s.Waiting.NS
	}
	equal(t, "waiting by site", bySite, c.Waiting.NS)
	if c.Average.Mean > c.Worst.Mean || c.Average.Max > c.Worst.Max || c.Worst.P50 > c.Worst.P95 || c.Worst.P95 > c.Worst.Max {
		t.Errorf("spread: %+v, %+v", c.Average, c.Worst)
	}
}

// TestSpreadProperties: omega >= mean distance, both against the plain sums.
func TestSpreadProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 21))
	for range 2000 {
		var members []member
		var enter []float64
		for range 1 + rng.IntN(20) {
			v := math.Round(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12))))
			members, enter = append(members, member{enter: v}), append(enter, v)
		}
		average, worst := spreadOf(members)
		want := truthOf(enter, enter)
		if average > worst || average < 0 {
			t.Fatalf("mean distance %v, omega %v", average, worst)
		}
		equal(t, "mean distance", average, want.average)
		equal(t, "omega", worst, want.worst)
	}
}

// TestLevels: ranks and shards with different levels meet at the largest, and
// totals are extrapolated to the exact number of operations.
func TestLevels(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 22))
	j := newJob(oneNode(), 0, 0, 0)
	levels := []uint16{0, 3, 1}
	waiting, n := 0.0, 4000
	for k := range n {
		enter, exit := barrierLike(rng, 3, 2e5*float64(k+1), 10000, 500)
		j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: enter, exit: exit})
		waiting += truthOf(enter, exit).waiting
	}
	for r, level := range levels {
		call := uint16(synth.ID("MPI_Barrier"))
		j.classes[r] = []segment.RawArrivalClass{{Kin: 7, Call: call, Instances: uint64(n - 10), Level: level}, {Kin: 7, Call: call, Instances: 10 + uint64(r), Level: 0},
			{Kin: 7, Call: call, Level: 65535}, {Instances: 5}}
		j.arrivals[r] = slices.DeleteFunc(j.arrivals[r], func(a segment.RawArrival) bool { return !Reaches(Hash(7, a.Sequence, 0), level) })
	}
	_, r := j.analyse(t, Options{})
	c := classOf(t, r, "MPI_Barrier")
	if c.Level != 3 || c.Instances != uint64(n) || c.InstancesMost != uint64(n+2) || c.Sampled < 400 || c.Sampled > 600 || c.Incomplete != 0 {
		t.Errorf("%+v", c)
	}
	if off := math.Abs(c.Waiting.NS - waiting); c.Waiting.ErrorNS <= 0 || off > 4*c.Waiting.ErrorNS {
		t.Errorf("waiting %v +- %v, truly %v", c.Waiting.NS, c.Waiting.ErrorNS, waiting)
	}
	if r.Skipped.Classes != 3 || r.Skipped.Unclassed != 15 {
		t.Errorf("%+v", r.Skipped)
	}
}

// TestMadeAnew: a program that makes a communicator for every three operations
// gets the figures of one that keeps it.
func TestMadeAnew(t *testing.T) {
	measured := func(id func(k int) (comm uint64, sequence uint32)) *Class {
		rng := rand.New(rand.NewPCG(29, 29))
		j := newJob(oneNode(), 0, 0, 0, 0)
		for k := range 120 {
			enter, exit := barrierLike(rng, 4, 1e6*float64(k+1), 1000, 500)
			enter[k/30] += 5000
			for i := range exit {
				exit[i] += 5000
			}
			comm, sequence := id(k)
			j.add(op{call: "MPI_Barrier", root: -1, comm: comm, kin: 7, sequence: sequence, enter: enter, exit: exit})
		}
		j.count("MPI_Barrier", 120, 0)
		_, r := j.analyse(t, Options{})
		if len(r.Classes) != 1 {
			t.Fatalf("%d classes", len(r.Classes))
		}
		return r.Classes[0]
	}
	kept := measured(func(k int) (uint64, uint32) { return 7, uint32(k) })
	anew := measured(func(k int) (uint64, uint32) { return Hash(uint64(k/3), 0, 0), uint32(k % 3) })
	if kept.Comms != 1 || anew.Comms != 40 || kept.Sampled != 120 || !kept.Pattern.ByPrevious {
		t.Errorf("%d and %d communicators, %d sampled, pattern %+v", kept.Comms, anew.Comms, kept.Sampled, kept.Pattern)
	}
	if !reflect.DeepEqual(kept.Figures, anew.Figures) {
		t.Errorf("kept %+v\nmade anew %+v", kept.Figures, anew.Figures)
	}
}

// TestWhoIsLate: patterns that can be foretold, and one that cannot.
func TestWhoIsLate(t *testing.T) {
	for _, test := range []struct {
		name       string
		late       func(k int, rng *rand.Rand) int
		persistent bool
		predicted  int32
		previous   bool
	}{
		{"always rank 2", func(int, *rand.Rand) int { return 2 }, true, 2, false},
		{"turns by blocks", func(k int, _ *rand.Rand) int { return k / 25 % 4 }, true, 3, true},
		{"anybody", func(_ int, rng *rand.Rand) int { return rng.IntN(4) }, false, 0, false},
		{"mostly rank 1", func(k int, rng *rand.Rand) int {
			if rng.IntN(10) == 0 {
				return 3
			}
			return 1
		}, true, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(23, 23))
			j := newJob(oneNode(), 0, 0, 0, 0)
			for k := range 100 {
				enter, exit := barrierLike(rng, 4, 1e6*float64(k+1), 1000, 500)
				late := test.late(k, rng)
				enter[late] += 5000
				for i := range exit {
					exit[i] += 5000
				}
				j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: enter, exit: exit})
			}
			_, r := j.analyse(t, Options{})
			c := classOf(t, r, "MPI_Barrier")
			p := c.Pattern
			if p.Pairs != 99 || p.OrderPairs != 99 || p.Persistent != test.persistent || test.persistent && (p.Predicted != test.predicted || p.ByPrevious != test.previous) {
				t.Errorf("%+v", p)
			}
			if !test.persistent && (math.Abs(p.Repeat-p.Chance) > 0.15 || math.Abs(p.Correlation) > 0.2) {
				t.Errorf("%+v", p)
			}
			checkLedger(t, c)
		})
	}
}

// TestTie: nobody is last by less than the bound.
func TestTie(t *testing.T) {
	j := newJob(oneNode(), 0, 0, 0)
	j.add(op{call: "MPI_Barrier", root: -1, enter: []float64{1000, 5000, 5000}, exit: []float64{6000, 6000, 6000}})
	_, r := j.analyse(t, Options{})
	c := classOf(t, r, "MPI_Barrier")
	if c.Undecided != 1 || c.UndecidedNS != 4000 || c.Waiting.NS != 4000 || r.Sample(c, 0).Last != -1 {
		t.Errorf("%+v", c)
	}
	checkLedger(t, c)
}

// TestSites: instances are told apart by the call site of the lowest rank.
func TestSites(t *testing.T) {
	j := newJob(oneNode(), 0, 0)
	for k := range 6 {
		at := 1e5 * float64(k+1)
		j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), address: uint64(k % 3), enter: []float64{at, at + 100*float64(1+k%3)}, exit: []float64{at + 900, at + 900}})
	}
	j.count("MPI_Barrier", 12, 0)
	_, r := j.analyse(t, Options{})
	c := classOf(t, r, "MPI_Barrier")
	if len(c.Sites) != 3 || c.Sites[0].Address != 0x1002 || c.Sites[0].Sampled != 2 || c.Sites[0].Waiting.NS != 1200 || c.Sites[0].Waiting.ErrorNS <= 0 {
		t.Errorf("%+v", c.Sites[0])
	}
	for _, r := range c.Sites[0].Ranks {
		if want := uint64(0x1000*(r.Rank+1) + 2); !slices.Equal(r.Addresses, []uint64{want}) {
			t.Errorf("rank %d calls at %x, truly %x", r.Rank, r.Addresses, want)
		}
	}
	checkLedger(t, c)
}

// TestIncomplete: ranks that are missing, for a while or for good.
func TestIncomplete(t *testing.T) {
	add := func(j *testJob) {
		for k := range 4 {
			at := 1e5 * float64(k+1)
			j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: []float64{at, at + 100, at + 200}, exit: []float64{at + 900, at + 900, at + 900}})
		}
	}
	j := newJob(oneNode(), 0, 0, 0)
	add(j)
	j.arrivals[1] = j.arrivals[1][:3] // killed before the last one returned
	_, r := j.analyse(t, Options{})
	if c := classOf(t, r, "MPI_Barrier"); c.Sampled != 3 || c.Incomplete != 1 || c.RanksSeen != 3 || c.Waiting.NS != 900 {
		t.Errorf("%+v", c)
	}
	j = newJob(oneNode(), 0, 0, 0)
	add(j)
	j.arrivals[2] = nil // never measured: what is seen is a lower bound
	_, r = j.analyse(t, Options{})
	if c := classOf(t, r, "MPI_Barrier"); c.Sampled != 4 || c.Size != 3 || c.RanksSeen != 2 || c.Waiting.NS != 400 {
		t.Errorf("%+v", c)
	}
	j = newJob(oneNode(), 0, 0, 0)
	add(j)
	j.arrivals[1], j.arrivals[2] = nil, nil
	_, r = j.analyse(t, Options{})
	if c := classOf(t, r, "MPI_Barrier"); c.Sampled != 0 || c.Incomplete != 4 || c.Blocked.NS != 0 {
		t.Errorf("%+v", c)
	}
}

// TestOdd: torn sections, freed and private communicators, damaged rows,
// contradictions, ranks that come twice; and nothing at all.
func TestOdd(t *testing.T) {
	two := func() *testJob {
		j := newJob(oneNode(), 0, 0)
		j.add(op{call: "MPI_Barrier", root: -1, enter: []float64{1000, 2000}, exit: []float64{3000, 3000}})
		return j
	}
	sampled := func(j *testJob) (int, Skipped) {
		_, r := j.analyse(t, Options{})
		n := 0
		for _, c := range r.Classes {
			n += c.Sampled
		}
		return n, r.Skipped
	}
	j := two()
	j.comms[1].Freed = 1
	if n, _ := sampled(j); n != 1 {
		t.Errorf("a freed communicator: %d samples", n)
	}
	j = two()
	j.comms[1].Comparable = 0
	if n, s := sampled(j); n != 0 || s.Incomparable != 2 {
		t.Errorf("a communicator whose id means nothing: %d samples, %+v", n, s)
	}
	j = two()
	j.comms[1].RemoteSize = 2
	if n, s := sampled(j); n != 0 || s.Incomparable != 2 {
		t.Errorf("an intercommunicator: %d samples, %+v", n, s)
	}
	j = two()
	j.change = func(rank int, s *synth.Segment) { s.Extra[0].Reserved0 = uint32(rank) }
	if n, s := sampled(j); n != 0 || s.TornRanks != 1 {
		t.Errorf("a torn section: %d samples, %+v", n, s)
	}
	for name, damage := range map[string]func(*segment.RawArrival){
		"backward":     func(a *segment.RawArrival) { a.ExitTicks = a.EnterTicks - 1 },
		"huge":         func(a *segment.RawArrival) { a.ExitTicks = math.MaxUint64 },
		"rank":         func(a *segment.RawArrival) { a.Rank = a.Size },
		"root":         func(a *segment.RawArrival) { a.Root = a.Size },
		"no enter":     func(a *segment.RawArrival) { a.EnterTicks = 0 },
		"negative":     func(a *segment.RawArrival) { a.Size, a.Rank = -1, -1 },
		"wait too big": func(a *segment.RawArrival) { a.WaitTicks = a.ExitTicks + 1 },
	} {
		j = two()
		damage(&j.arrivals[0][0])
		if n, s := sampled(j); n != 0 || s.Rows != 1 {
			t.Errorf("%s: %d samples, %+v", name, n, s)
		}
	}
	j = two()
	j.arrivals[0][0].Root = 1
	if n, s := sampled(j); n != 0 || s.Conflicts != 1 {
		t.Errorf("two roots: %d samples, %+v", n, s)
	}
	j = two()
	j.arrivals[1][0].Rank = 0
	if n, s := sampled(j); n != 0 || s.Conflicts != 1 {
		t.Errorf("one rank twice: %d samples, %+v", n, s)
	}
	j = two()
	j.change = func(_ int, s *synth.Segment) { s.Header.WorldRank = 0 }
	if n, s := sampled(j); n != 0 || s.Homeless != 1 {
		t.Errorf("one place, two processes: %d samples, %+v", n, s)
	}
	if r := New(Options{}).Result(); len(r.Classes)+len(r.Clocks) != 0 {
		t.Errorf("nothing: %+v", r)
	}
	if r := New(Options{MaxDriftPPM: math.NaN()}); r.options.MaxDriftPPM != 1000 {
		t.Error("an option that is no number")
	}
	j = newJob(oneNode(), 0)
	if _, r := j.analyse(t, Options{}); len(r.Classes) != 0 || r.Clocks[0].Status != StatusReference {
		t.Errorf("one rank: %+v", r)
	}
}

// TestWorlds: equal ranks and communicators of two worlds do not mix.
func TestWorlds(t *testing.T) {
	a := New(Options{})
	for world := range 2 {
		j := newJob(oneNode(), 0, 0)
		j.add(op{call: "MPI_Barrier", root: -1, enter: []float64{1000, 2000 + 1000*float64(world)}, exit: []float64{9000, 9000}})
		j.change = func(_ int, s *synth.Segment) {
			s.Header.PID += uint32(10 * world)
			synth.SetText(s.Header.World[:], string(rune('a'+world)))
		}
		for r := range 2 {
			a.Add(parse(t, j.segment(r)))
		}
	}
	r := a.Result()
	if len(r.Classes) != 2 || r.Classes[0].World != "b" || r.Classes[0].Waiting.NS != 2000 || r.Classes[1].Waiting.NS != 1000 {
		t.Errorf("%+v", r.Classes)
	}
	if a.Result() != r {
		t.Error("another result the second time")
	}
}

// TestOperations: every collective function of MPI is known.
func TestOperations(t *testing.T) {
	kinds := map[Dependency]int{}
	for id := range segment.Call(2048) {
		if class := id.Class(); class == "coll" || class == "icoll" || class == "coll_init" {
			op := operationOf(id)
			if op.dependency == DependencyUnknown {
				t.Errorf("%v is not known", id)
			}
			kinds[op.dependency]++
		}
	}
	if len(kinds) != 5 {
		t.Errorf("%v", kinds)
	}
	if operationOf(segment.Call(synth.ID("MPI_Start"))).dependency != DependencyUnknown {
		t.Error("MPI_Start is no operation")
	}
}

// TestScale: 4096 ranks with 500 samples each take seconds and less than
// 200 MB, with 64 ranks on a node or one.
func TestScale(t *testing.T) {
	for _, perNode := range []int{64, 1} {
		ranks, samples := 4096, 500
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		a := New(Options{})
		var spent time.Duration
		for r := range ranks {
			s := parse(t, scaleRank(r, ranks, samples, perNode))
			began := time.Now()
			a.Add(s)
			spent += time.Since(began)
		}
		began := time.Now()
		result := a.Result()
		spent += time.Since(began)
		runtime.GC()
		runtime.ReadMemStats(&after)
		used := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20
		t.Logf("%d ranks on a node: %v, %d MB live, %d MB of the system", perNode, spent, used, after.HeapSys>>20)
		if used > 200 {
			t.Errorf("%d MB", used)
		}
		if len(result.Classes) != 4 || result.Classes[0].Sampled != samples/4 || result.Clocks[ranks/perNode-1].Status != StatusAligned {
			t.Errorf("%d classes, %d samples", len(result.Classes), result.Classes[0].Sampled)
		}
	}
}

// scaleRank is a rank that calls one of four functions each time.
func scaleRank(rank, ranks, samples, perNode int) *synth.Segment {
	rng := rand.New(rand.NewPCG(24, uint64(rank)))
	n := &testNode{name: fmt.Sprint("n", rank/perNode), offset: float64(rank/perNode) * 1e9, rate: 1}
	j := newJob([]*testNode{n}, 0)
	j.endNS = 1e11
	for k := range samples {
		at := 1e8 * float64(k+1)
		call := []string{"MPI_Allreduce", "MPI_Bcast", "MPI_Barrier", "MPI_Scan"}[k%4]
		j.arrivals[0] = append(j.arrivals[0], segment.RawArrival{CommID: 7, Kin: 7, Sequence: uint32(k), EnterTicks: n.ticks(at + 1e5*rng.Float64()), ExitTicks: n.ticks(at + 2e5),
			Bytes: 8, Address: uint64(0x1000 + k%20), Rank: int32(rank), Size: int32(ranks), Call: uint16(synth.ID(call))})
		j.arrivals[0][k].WaitTicks = j.arrivals[0][k].EnterTicks
	}
	s := j.segment(0)
	s.Header.WorldRank, s.Header.PID = int32(rank), uint32(rank)
	return s
}
