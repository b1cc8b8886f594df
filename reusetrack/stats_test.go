package reusetrack

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// record replays a log in one shard.
func record(rank int, log []Access) *Rank {
	var table Table
	for _, a := range log {
		table.Access(a)
	}
	return NewRank(rank, table.Rows(), table.Reuse())
}

// sends is uses of buffers one after the other: each of count buffers of a size
// is sent uses times. Addresses begin at base.
func sends(base uint64, count, uses int, bytes uint64) []Access {
	var log []Access
	for b := range count {
		for range uses {
			log = append(log, Access{base + uint64(b)*16384, segment.PathSend, bytes})
		}
	}
	return log
}

// Patterns like those of the four published applications: the buffer that is
// used most as published, the rest made up to come near the published shares.
func patterns(rank int) map[string][]Access {
	lu := sends(1<<20, 1, 3749+rank%2, []uint64{1560, 1600, 1640}[rank%3])
	lu = append(lu, sends(2<<20, 1, 2000, 1600)...)
	lu = append(lu, sends(3<<20, 4, 18, 2040)...) // below a quarter of the 110 uses that 2 KB needs
	lu = append(lu, sends(4<<20, 68, 1, 40)...)

	// The sum of a dot product, and vectors that are sent from a new place
	// each time.
	cg := sends(1<<20, 1, 7904, 8)
	cg = append(cg, sends(1<<30, 10_500, 1, 8)...)

	amg := sends(1<<20, 1, []int{45, 67, 72, 292}[rank%4], []uint64{8, 300, 372, 2400}[rank%4])
	amg = append(amg, sends(2<<20, 9, 31, 2048)...)
	amg = append(amg, sends(3<<20, 94, 3, 400)...)
	amg = append(amg, sends(1<<30, 69, 1, 64)...)

	milc := sends(1<<20, 1, []int{2, 1178, 2006, 5010}[rank%4], []uint64{8, 2000, 4696, 4800}[rank%4])
	if rank%4 == 0 { // a rank that hardly sends
		milc = append(milc, sends(4<<20, 343, 1, 2000)...)
	} else {
		milc = append(milc, sends(2<<20, 120, 20, 4096)...)
		milc = append(milc, sends(8<<20, 300, 1, 2000)...)
		milc = append(milc, sends(1<<30, 5770, 1, 64)...)
	}
	return map[string][]Access{"NPB CG class C": cg, "NPB LU class C": lu, "ASC AMG2006": amg, "SPEC MPI2007 104.milc": milc}
}

// TestPublishedApps: the tables of the papers come out of patterns like those
// of their applications, in their order.
func TestPublishedApps(t *testing.T) {
	reused, often := map[string]float64{}, map[string]float64{}
	for _, app := range PublishedApps() {
		s := NewSummary(Options{Costs: backSolved(columns["fast"])})
		for rank := range 16 {
			s.Add(record(rank, patterns(rank)[app.Name]))
		}
		one := s.Table1(segment.PathSend)
		two, ok := s.Table2(segment.PathSend)
		if one.Ranks != 16 || !ok {
			t.Fatalf("%s: %+v", app.Name, one)
		}
		if one.MaxUses.Min != app.MaxUses.Min || one.MaxUses.Max != app.MaxUses.Max || math.Abs(one.MaxUses.Mean-app.MaxUses.Mean) > 1 {
			t.Errorf("%s: used %+v times, published %+v", app.Name, one.MaxUses, app.MaxUses)
		}
		if one.Bytes.Max > app.Bytes.Max || one.Bytes.Min < app.Bytes.Min || math.Abs(one.Bytes.Mean-app.Bytes.Mean) > 5 {
			t.Errorf("%s: payload %+v, published %+v", app.Name, one.Bytes, app.Bytes)
		}
		if math.Abs(one.ReusedPercent-app.Reused) > 0.5 || math.Abs(two.Percent-app.Often) > 0.5 {
			t.Errorf("%s: %.1f %% reused, %.1f %% often; published %.1f and %.1f", app.Name, one.ReusedPercent, two.Percent, app.Reused, app.Often)
		}
		reused[app.Name], often[app.Name] = one.ReusedPercent, two.Percent
	}
	cg, lu, amg, milc := "NPB CG class C", "NPB LU class C", "ASC AMG2006", "SPEC MPI2007 104.milc"
	if !(reused[lu] > 98 && reused[lu] < 99 && reused[lu] > reused[amg] && reused[amg] > reused[milc] && reused[milc] > reused[cg]) {
		t.Errorf("order of reuse: %v", reused)
	}
	if !(often[lu] > often[milc] && often[milc] > often[amg] && often[amg] > often[cg] && often[cg] == 0) {
		t.Errorf("order of frequent use: %v", often)
	}
}

// TestStoppedTablesAreSaid: CG's table stops, and the figures say so.
func TestStoppedTablesAreSaid(t *testing.T) {
	p := record(0, patterns(0)["NPB CG class C"]).Path(segment.PathSend, 0)
	low, high := p.ReusedShare()
	if !p.LowerBound || p.Stopped != 1 || p.Buffers != TableChunk || low != 7903.0/18404 || high <= low {
		t.Errorf("share %v to %v of %+v", low, high, p)
	}
	if note := p.Note(); !strings.Contains(note, "1 of 1 ranks") || !strings.Contains(note, "lower bound") {
		t.Error(note)
	}
	p = record(0, patterns(0)["NPB LU class C"]).Path(segment.PathSend, 0)
	if low, high := p.ReusedShare(); p.LowerBound || low != high || p.Note() != "" {
		t.Errorf("exact figures are called bounds: %+v", p)
	}
	// Accesses without an address are no buffers that were turned away.
	p = record(0, []Access{{0, 0, 100}, {64, 0, 100}, {64, 0, 100}}).Path(segment.PathSend, 0)
	if p.LowerBound || p.Untracked != 1 || p.Accesses != 3 || p.Reused != 1 {
		t.Errorf("%+v", p)
	}
}

// TestShardsMerge: a log spread over threads gives the statistics of the log,
// if no buffer changes size.
func TestShardsMerge(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		var whole Table
		shards := make([]Table, 1+r.IntN(5))
		for range 3000 {
			b := uint64(1 + r.IntN(300))
			a := Access{b * 64, uint32(b % 3), b * b}
			whole.Access(a)
			shards[r.IntN(len(shards))].Access(a)
		}
		var rows []segment.RawBuffer
		var totals []segment.RawReuse
		for i := range shards {
			rows, totals = append(rows, shards[i].Rows()...), append(totals, shards[i].Reuse()...)
		}
		got, want := NewRank(0, rows, totals), NewRank(0, whole.Rows(), whole.Reuse())
		for path := range segment.PathPaths {
			g, w := got.Path(path, 0), want.Path(path, 0)
			g.Distances, w.Distances = nil, nil // those between threads are not known
			if !reflect.DeepEqual(g, w) {
				t.Fatalf("%d shards, path %s:\n%+v\n%+v", len(shards), w.Path, g, w)
			}
		}
	}
}

// TestEagerSplit counts against a plain loop, for limits inside and at the
// ends of bins.
func TestEagerSplit(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		var log []Access
		for range 2000 {
			b := uint64(1 + r.IntN(100))
			log = append(log, Access{b * 65536, segment.PathSend, b * 137})
		}
		rank := record(0, log)
		for _, limit := range []uint64{1, 127, 4095, 4096, 5000, 8192, 1 << 20, math.MaxUint64} {
			var eager, rest Part
			seen := map[uint64]bool{}
			for _, a := range log {
				part := &eager
				if a.Bytes > limit {
					part = &rest
				}
				part.Accesses++
				if seen[a.Address] {
					part.Reused++
				} else {
					part.Buffers++
				}
				seen[a.Address] = true
			}
			if p := rank.Path(segment.PathSend, limit); p.Eager != eager || p.Rendezvous != rest {
				t.Fatalf("limit %d: %+v and %+v, want %+v and %+v", limit, p.Eager, p.Rendezvous, eager, rest)
			}
		}
	}
}

// TestEagerSplitEstimates: where a buffer changed size inside the bin of the
// limit the split is called an estimate, and adds up.
func TestEagerSplitEstimates(t *testing.T) {
	p := record(0, []Access{{64, 0, 8192}, {64, 0, 9000}, {64, 0, 8192}, {128, 0, 8500}}).Path(segment.PathSend, 0)
	if !p.Eager.Estimated || p.Eager.Accesses+p.Rendezvous.Accesses != 4 || p.Eager.Reused+p.Rendezvous.Reused != 2 || p.Eager.Buffers != 1 {
		t.Errorf("%+v %+v", p.Eager, p.Rendezvous)
	}
	if p := record(0, []Access{{64, 0, 100}, {64, 0, 120}}).Path(segment.PathSend, 0); p.Eager.Estimated {
		t.Error("sizes far from the limit do not matter")
	}
}

func TestPathLists(t *testing.T) {
	log := append(sends(1<<20, 3, 5, 1000), sends(2<<20, 1, 40, 70_000)...)
	p := record(0, log).Path(segment.PathSend, 0)
	if want := []SizeUse{{70_000, 40, 1}, {1000, 15, 3}}; !reflect.DeepEqual(p.Sizes, want) {
		t.Errorf("sizes %+v", p.Sizes)
	}
	if want := []Class{{512, 1024, 15, 12, 3, 5, 0}, {65536, 131072, 40, 39, 1, 40, 0}}; !reflect.DeepEqual(p.Classes, want) {
		t.Errorf("classes %+v", p.Classes)
	}
	if want := []Bin{{4, 8, 3}, {32, 64, 1}}; !reflect.DeepEqual(p.Uses, want) {
		t.Errorf("uses %+v", p.Uses)
	}
	if want := []Bin{{1, 2, 51}}; !reflect.DeepEqual(p.Distances, want) {
		t.Errorf("distances %+v", p.Distances)
	}
	if other := record(0, log).Path(segment.PathOrigin, 0); other.Accesses != 0 || other.Ranks != 0 || len(other.Classes) != 0 {
		t.Errorf("%+v", other)
	}
	many := sizes{}
	for i := range uint64(3 * sizesKept) {
		many.add(&segment.RawBuffer{Bytes: i, Accesses: uint32(i)})
	}
	if top := many.top(1); len(many) > 2*sizesKept || top[0].Bytes != 3*sizesKept-1 {
		t.Errorf("%d sizes kept, first %+v", len(many), top)
	}
}

// TestPredictionAddsUp holds a prediction against Tc - Tn of its buffers.
func TestPredictionAddsUp(t *testing.T) {
	c := &Costs{Schema: CostsSchema, Copy: Curve{{0, 500}}, CopyCold: Curve{{0, 900}}, Register: Curve{{0, 4000}},
		UsageLookUp: Curve{{0, 60}}, CacheLookUp: Curve{{0, 40}}, Exposed: Curve{{0, 200}}} // n: 11 hidden, 21 exposed, 6 at best
	log := append(sends(4096, 2, 100, 1000), sends(1<<20, 3, 4, 1000)...)
	log = append(log, sends(2<<20, 1, 50, 100)...)  // below 128 bytes
	log = append(log, sends(3<<20, 1, 50, 9000)...) // of rendezvous size
	s := NewSummary(Options{Costs: c, Speculation: Full})
	s.Add(record(0, log))
	p := s.Predictions()
	if len(p) != 2 { // nothing of what is above the limit
		t.Fatalf("%+v", p)
	}
	if p[0].From != 64 || p[0].Hidden != (Saving{}) {
		t.Errorf("small buffers: %+v", p[0])
	}
	got := p[1]
	if got.From != 512 || got.To != 1024 || got.Accesses != 212 || got.Reused != 207 || got.Buffers != 5 || got.MeanBytes != 1000 || !got.ExposedKnown {
		t.Errorf("%+v", got)
	}
	lost := 12 * 60.0 // three buffers that never pay
	for _, k := range []struct {
		name string
		got  Saving
		want Saving
	}{
		{"hidden", got.Hidden, Saving{11, 2, 8192, 180, 2*(90*400-4000-10*60) - lost}},
		{"exposed", got.Exposed, Saving{21, 2, 8192, 160, 2*(80*200-4000-20*60) - lost}},
		{"best", got.Best, Saving{6, 2, 8192, 190, 2*(95*800-4000-5*60) - lost}},
	} {
		if math.Abs(k.got.NetNS-k.want.NetNS) > 1e-6 {
			t.Errorf("%s saves %v ns, want %v", k.name, k.got.NetNS, k.want.NetNS)
		}
		if k.got.NetNS = k.want.NetNS; k.got != k.want {
			t.Errorf("%s: %+v, want %+v", k.name, k.got, k.want)
		}
	}
}

// TestLosersLose: an application like AMG, whose buffers are used a little more
// than the threshold, and one without any reuse, both lose.
func TestLosersLose(t *testing.T) {
	c := backSolved(columns["fast"])
	for name, log := range map[string][]Access{"near the threshold": sends(4096, 20, 16, 4096), "no reuse": sends(4096, 5000, 1, 4096)} {
		s := NewSummary(Options{Costs: c})
		s.Add(record(0, log))
		p := s.Predictions()
		if len(p) != 1 || p[0].Hidden.NetNS >= 0 || p[0].ExposedKnown {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// 4488 untracked accesses pay their look-up too.
	s := NewSummary(Options{Costs: c})
	s.Add(record(0, sends(4096, 5000, 1, 4096)))
	if p := s.Predictions()[0]; p.Hidden.NetNS != -5000*60 || !p.LowerBound {
		t.Errorf("%+v", p)
	}
}

// TestDamagedRows: what a torn or damaged segment holds makes no panic and no
// nonsense.
func TestDamagedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	s := NewSummary(Options{Costs: fullCosts(), EagerLimit: math.MaxUint64})
	for rank := range 50 {
		rows := make([]segment.RawBuffer, 20)
		for i := range rows {
			rows[i] = segment.RawBuffer{Address: r.Uint64() << (r.IntN(64)), Bytes: r.Uint64() >> r.IntN(64), Accesses: uint32(r.Uint64() >> (32 + r.IntN(32))), Path: uint16(r.IntN(5)), Resized: uint16(r.Uint32())}
		}
		totals := make([]segment.RawReuse, 4)
		for i := range totals {
			totals[i] = segment.RawReuse{Path: uint32(r.IntN(5)), Stopped: r.Uint32(), Untracked: r.Uint64()}
			totals[i].Accesses[r.IntN(segment.SizeBins)] = r.Uint64()
			totals[i].Reused[r.IntN(segment.SizeBins)] = r.Uint64()
		}
		s.Add(NewRank(rank, rows, totals))
	}
	for path := range segment.PathPaths {
		p := s.Path(path)
		if low, high := p.ReusedShare(); low < 0 || high > 1 {
			t.Errorf("%v %v", low, high)
		}
		s.Table1(path)
		s.Table2(path)
	}
	for _, p := range s.Predictions() {
		if math.IsNaN(p.Hidden.NetNS) || math.IsNaN(p.Best.NetNS) {
			t.Errorf("%+v", p)
		}
	}
	NewRank(0, nil, nil).Path(segment.PathSend, 0)
}

// TestFromSegment goes by the bytes of a segment with two shards.
func TestFromSegment(t *testing.T) {
	var one, two Table
	for _, a := range sends(4096, 3, 4, 1000) {
		one.Access(a)
		two.Access(a)
	}
	raw := synth.Job{ID: "reuse", Ranks: 2}.Segment(1)
	for shard, table := range []*Table{&one, &two} {
		raw.Extra = append(raw.Extra, synth.NewSection(segment.SectionKindBuffers, uint32(shard), table.Rows()...),
			synth.NewSection(segment.SectionKindReuse, uint32(shard), table.Reuse()...))
	}
	parsed, err := segment.Parse("rank 1", raw.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	r := FromSegment(parsed)
	if p := r.Path(segment.PathSend, 0); r.Rank != 1 || p.Accesses != 24 || p.Buffers != 3 || p.Reused != 21 || p.Classes[0].MaxUses != 8 {
		t.Errorf("%+v", p)
	}
}
