package exporter

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/prometheus/client_golang/prometheus"
)

// hourNS stands for the time since the machine was started.
const hourNS = 3600e9

func parse(t testing.TB, s *synth.Segment) *segment.Segment {
	t.Helper()
	parsed, err := segment.Parse("synthetic", s.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestOperations: every function has an operation; forms of one collective have
// the same.
func TestOperations(t *testing.T) {
	for name, want := range map[string]string{
		"MPI_Allreduce": "allreduce", "MPI_Iallreduce": "allreduce", "MPI_Allreduce_init": "allreduce", "MPI_Allreduce_c": "allreduce",
		"MPI_Ineighbor_alltoallw": "neighbor_alltoallw", "MPI_Ibarrier": "barrier", "MPI_Reduce_scatter_block": "reduce_scatter_block",
		"MPI_Send": "send", "MPI_Irecv": "recv", "MPI_Waitall": "wait", "MPI_Testsome": "test", "MPI_Put": "rma", "MPI_Win_fence": "rma_sync",
		"MPI_File_write": "io", "MPI_Comm_split": "manage", "MPI_Init": "setup", "MPI_Comm_rank": "other", "MPI_Pcontrol": "other",
	} {
		call, ok := segment.CallByName(name)
		if got := Operation(call); !ok || got != want {
			t.Errorf("%s (%v): operation %s, want %s", name, ok, got, want)
		}
	}
	if got := Operation(60_000); got != "other" {
		t.Errorf("a function of the future: %s", got)
	}
	for id := range segment.Call(segment.CallLarge) {
		class := id.Class()
		if strings.HasSuffix(class, "coll") && Operation(id) == "other" {
			t.Errorf("%s is collective, and has no operation of its own", id)
		}
	}
}

// TestCounters compares with sums made from the rows directly.
func TestCounters(t *testing.T) {
	w := synth.Job{ID: "j", Ranks: 9, Sampled: true}.Segment(4)
	w.Threads[0].RequestsDropped = 5
	s := parse(t, w)
	c, _, err := countersOf(s, hourNS)
	if err != nil {
		t.Fatal(err)
	}
	var want Counters
	for _, site := range s.Sites() {
		name := Operation(segment.Call(site.Call))
		op := slices.Index(operations[:], name)
		want.Calls[op] += site.Calls
		want.TimeNS[op] += site.Ticks / 2 // of synth: two ticks a nanosecond
		want.Bytes[op] += site.Bytes
		want.BlockedNS += site.BlockedTicks / 2
		if name != "setup" {
			want.MPINS += site.Ticks / 2
		}
	}
	want.WallNS, want.OverheadNS = 60e9, c.OverheadNS
	want.Accesses[segment.PathSend], want.Accesses[segment.PathReceive] = 40_000, 40_000
	want.Reuses[segment.PathSend], want.Reuses[segment.PathReceive] = 39_996, 39_996
	want.Dropped[tableRequests] = 5
	if c != want {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if ms := c.OverheadNS / 1e6; ms < 2 || ms > 10 {
		t.Errorf("overhead of %d ms for %d calls of some 20 ns", ms, c.Calls[operationCount-1])
	}
}

// TestShare: of two threads the one that is in MPI for longer counts, with the
// call that it is in; a job that hangs in its first call is all MPI. A shard of
// several threads tells of none.
func TestShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1-2.seg")
	for _, c := range []struct {
		enter         float64
		overflow      uint32
		want, wantMPI float64
	}{{1e9, 0, 1, 1}, {31e9, 0, 0.5, 0.5}, {1e9, 1, 0.1, 1}} {
		w := (&synth.Job{ID: "j", Ranks: 1}).Segment(0)
		h := &w.Header
		h.State, h.FinalizeEnterTicks, h.FinalizeExitTicks, h.ExitTicks = segment.StateRunning, 0, 0, 0
		second := segment.RawThread{TID: 9, Call: synth.ID("MPI_Recv"), EnterTicks: synth.Ticks(uint64(c.enter)), Overflow: c.overflow, ThreadsServed: 1 + uint64(c.overflow)}
		w.Extra = []synth.Section{synth.NewSection(segment.SectionKindThread, 1, second)}
		if err := errors.Join(w.Live(os.Getpid()), os.WriteFile(path, w.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := segment.ReadOpen(path, f, CounterSections...)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ProcessOf(s, 1<<50)
		if err != nil || p.State != StateRunning || !p.InMPI || math.Abs(p.share()-c.want) > 0.05 {
			t.Errorf("state %s, in MPI %v, share %v, want %v of %d ns: %v", p.State, p.InMPI, p.share(), c.want, p.WallNS, err)
		}
		if done, _, err := countersOf(s, 1<<50); err != nil || math.Abs(float64(p.MPINS-done.MPINS)/float64(p.WallNS)-c.wantMPI) > 0.05 {
			t.Errorf("MPI time of %d ns, %d of them of calls that have returned: %v", p.MPINS, done.MPINS, err)
		}
	}
}

// TestManyThreads: what 50 threads did that share a shard is possible, and is not
// the share of one.
func TestManyThreads(t *testing.T) {
	w := synth.Job{ID: "j", Ranks: 1}.Segment(0)
	recv := uint16(synth.ID("MPI_Recv"))
	w.Sites = []segment.RawSite{{Call: recv, Calls: 1, Ticks: 2 * 30e9}} // two ticks a nanosecond
	w.Extra = []synth.Section{synth.NewSection(segment.SectionKindThread, 15, segment.RawThread{Overflow: 1, ThreadsServed: 50}),
		synth.NewSection(segment.SectionKindSites, 15, segment.RawSite{Call: recv, Calls: 50, Ticks: 2 * 50 * 60e9})}
	w.Header.ThreadsSeen = 65
	for _, uptime := range []uint64{61e9, math.MaxUint64} {
		p, err := ProcessOf(parse(t, w), uptime)
		if err != nil || p.MPINS != 3030e9 || p.BusyNS != 30e9 {
			t.Errorf("uptime %d: %d ns in MPI, %d ns of a thread: %v", uptime, p.MPINS, p.BusyNS, err)
		}
	}
	w.Header.ThreadsSeen = 20
	if _, err := ProcessOf(parse(t, w), 61e9); !errors.Is(err, ErrImplausible) {
		t.Errorf("50 threads in 20: %v", err)
	}
}

// TestRaise: on random figures, nothing ever goes backward, and what the growths
// add up to is what there is.
func TestRaise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func() (c Counters) {
		c.pairs(&c, func(x *uint64, _ uint64) { *x = r.Uint64N(1000) })
		return c
	}
	var now, sum Counters
	for range 200 {
		before, next := now, random()
		growth := now.Raise(&next)
		sum.Add(&growth)
		now.pairs(&before, func(x *uint64, before uint64) {
			if *x < before {
				t.Fatalf("%d became %d", before, *x)
			}
		})
		now.pairs(&next, func(x *uint64, next uint64) {
			if *x < next {
				t.Fatalf("%d is less than what was read, %d", *x, next)
			}
		})
	}
	if sum != now {
		t.Errorf("growths add up to %+v, want %+v", sum, now)
	}
	full := Counters{MPINS: math.MaxUint64 - 1}
	full.Add(&Counters{MPINS: 7})
	if full.MPINS != math.MaxUint64 {
		t.Errorf("a sum wrapped around to %d", full.MPINS)
	}
}

// TestImplausible: figures that no process can have are refused.
func TestImplausible(t *testing.T) {
	for name, spoil := range map[string]func(s *synth.Segment){
		"calls":   func(s *synth.Segment) { s.Sites[3].Calls = math.MaxUint64 / 2 },
		"time":    func(s *synth.Segment) { s.Sites[3].Ticks = math.MaxUint64 },
		"bytes":   func(s *synth.Segment) { s.Sites[3].Bytes = math.MaxUint64 },
		"wall":    func(s *synth.Segment) { s.Header.FinalizeEnterTicks = math.MaxUint64 },
		"rate":    func(s *synth.Segment) { s.Header.TicksPerNS = 1e-4 },
		"own":     func(s *synth.Segment) { s.Header.OwnInitNS = math.MaxUint64 },
		"dropped": func(s *synth.Segment) { s.Threads[0].EventsDropped = math.MaxUint64 },
		"reuse":   func(s *synth.Segment) { s.Reuse[0].Reused[3] = math.MaxUint64 },
		"act": func(s *synth.Segment) {
			s.Extra = synth.Act(segment.Act{Counted: true, Counts: segment.ActCounts{segment.ActEagerBytes: math.MaxUint64}})
		},
	} {
		w := synth.Job{ID: "j", Ranks: 4, Sampled: true}.Segment(1)
		spoil(w)
		if _, err := ProcessOf(parse(t, w), hourNS); !errors.Is(err, ErrImplausible) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAct: of a job that was to act the counts of its ranks are summed up, what is
// pinned only of those that run; a job that was not has none of it.
func TestAct(t *testing.T) {
	job := Job{ID: "1", User: "u", Run: "r"}
	for rank := range 3 {
		w := synth.Job{ID: "j", Ranks: 3}.Segment(rank)
		a := segment.Act{State: segment.ActStateActs, Counted: true, Counts: segment.ActCounts{
			segment.ActEagerMessages: 10, segment.ActRendezvousMessages: 4, segment.ActReadMessages: 3, segment.ActWrittenMessages: 1, segment.ActReadBytes: 1 << 20,
			segment.ActMessagesByArguments: 2, segment.ActWrongMessages: uint64(rank), segment.ActCachePinnedBytes: 4096,
			segment.ActCacheRegions: 3, segment.ActCacheHits: 11, segment.ActCacheMisses: 12, segment.ActCacheRegistrations: 13,
			segment.ActCacheEvictions: 14, segment.ActCacheInvalidations: 15, segment.ActCacheRefused: 16,
		}, Decisions: []segment.RawActDecision{synth.Decision(65536, 4, 1<<20, rank == 0), synth.Decision(131072, 4, 1<<20, true)}}
		copy(a.Decisions[1].Newcomer[:], "receiver")
		if rank == 2 {
			a = segment.Act{State: segment.ActStateObserves}
		}
		w.Extra = synth.Act(a)
		p, err := ProcessOf(parse(t, w), hourNS)
		if err != nil {
			t.Fatal(err)
		}
		if rank == 0 {
			p.State = StateRunning
		}
		job.Ranks = append(job.Ranks, p)
		job.Total.Add(&p.Counters)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Exporter{Page: &Page{Node: "n", Jobs: []Job{job, {ID: "2", User: "u", Run: "q", Ranks: []Process{{}}}}}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sample := func(name string, labels ...string) (sum float64, found bool) {
		for _, f := range families {
			for _, m := range f.GetMetric() {
				with := 0
				for _, l := range m.GetLabel() {
					if slices.Contains(labels, l.GetValue()) {
						with++
					}
				}
				if f.GetName() == name && with == len(labels) {
					sum, found = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
				}
			}
		}
		return sum, found
	}
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"ranks", nil, 2}, {"messages_total", nil, 28}, {"protocol_messages_total", []string{"eager"}, 20}, {"protocol_messages_total", []string{"read"}, 6},
		{"protocol_messages_total", []string{"written"}, 2}, {"protocol_bytes_total", []string{"read"}, 2 << 20}, {"protocol_messages_total", []string{"fragments"}, 0},
		{"left_messages_total", []string{"arguments"}, 4}, {"left_messages_total", []string{"communicator"}, 0}, {"wrong_messages_total", nil, 1}, {"pinned_bytes", nil, 4096},
		{"pinned_regions", nil, 3}, {"cache_hits_total", nil, 22}, {"cache_misses_total", nil, 24}, {"cache_registrations_total", nil, 26},
		{"cache_evictions_total", nil, 28}, {"cache_invalidations_total", nil, 30}, {"cache_refused_total", nil, 32},
		{"decisions", []string{"write", "kept"}, 1}, {"decisions", []string{"write", "retreated"}, 1}, {"decisions", []string{"receiver", "kept"}, 2}, {"decisions", []string{"receiver", "trying"}, 0},
	} {
		if got, found := sample("mpitrace_job_act_"+c.name, append(c.labels, "r")...); got != c.want || !found {
			t.Errorf("%s %q: %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if _, found := sample("mpitrace_job_act_ranks", "q"); found {
		t.Error("a job that was not to act has figures of act mode")
	}
}

// TestQuantile compares with a list that has each value as often as it weighs.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var sorted []weighted
		var long []float64
		value := 0.0
		for range 1 + r.IntN(20) {
			value += float64(r.IntN(5))
			w := 1 + r.IntN(6)
			sorted = append(sorted, weighted{value, float64(w)})
			for range w {
				long = append(long, value)
			}
		}
		for _, q := range []float64{0, 0.5, 0.95, 1} {
			want := long[max(0, int(math.Ceil(q*float64(len(long))-1e-9))-1)]
			if got := quantile(sorted, q); got != want {
				t.Fatalf("quantile %g of %v: %g, want %g", q, sorted, got, want)
			}
		}
	}
}

// TestArrivals: the late rank of a synthetic job is found, and what is made of
// the classes agrees with them.
func TestArrivals(t *testing.T) {
	job := synth.Job{ID: "j", Ranks: 8, Sampled: true}
	analysis := arrival.New(arrival.Options{})
	for rank := range job.Ranks {
		analysis.Add(parse(t, job.Segment(rank)))
	}
	result := analysis.Result()
	a := ArrivalsOf(result)
	class := result.Classes[0]
	if a.Sampled != class.Sampled || a.P50 != class.Worst.P50 || a.P95 != class.Worst.P95 || a.WaitingNS != class.Waiting.NS {
		t.Errorf("%+v is not what its only class says: %+v", a, class.Figures)
	}
	late := a.Ranks[Seat{"world-0", int32(job.LateRank())}]
	if late.LateShare != a.LateShare || late.LateShare < 0.9 || late.CausedNS < a.WaitingNS/2 {
		t.Errorf("the late rank: %+v of %+v", late, a)
	}
	j := &Job{Arrivals: a}
	for rank := range job.Ranks {
		p, err := ProcessOf(parse(t, job.Segment(rank)), hourNS)
		if err != nil {
			t.Fatal(err)
		}
		j.Ranks = append(j.Ranks, p, p) // twice, as only a forged segment could
	}
	if got := worst(j, 3); len(got) != 3 || int(got[0].Rank) != job.LateRank() || got[1].Rank == got[0].Rank {
		t.Errorf("worst ranks %+v", got)
	}
	if got := worst(j, -1); len(got) != job.Ranks {
		t.Errorf("%d ranks, want each of %d once", len(got), job.Ranks)
	}
}

// TestBadLabel: a sample that Prometheus would refuse marks its collector, and
// spoils nothing else.
func TestBadLabel(t *testing.T) {
	page := &Page{Node: "n", Jobs: []Job{{ID: "1", User: "u", Run: "r", Program: "\xff"}}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Exporter{Page: page})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	success := map[string]float64{}
	for _, family := range families {
		switch family.GetName() {
		case "mpitrace_job_info":
			t.Error("a sample with a bad label was sent")
		case "mpitrace_agent_collector_success":
			for _, m := range family.GetMetric() {
				success[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	if len(success) != len(collectors) || success["job"] != 0 || success["operation"] != 1 {
		t.Errorf("success %v", success)
	}
}

// FuzzProcess: whatever a segment holds, it gives a process within limits or an
// error, and the arrivals can be compared.
func FuzzProcess(f *testing.F) {
	w := synth.Job{ID: "j", Ranks: 2, Sampled: true}.Segment(1)
	w.Arrivals = w.Arrivals[:4]
	f.Add(w.Bytes())
	w.Extra = synth.Act(segment.Act{State: segment.ActStateActs, Counted: true, Counts: segment.ActCounts{segment.ActCachePinnedBytes: math.MaxUint64}})
	f.Add(w.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := segment.Parse("fuzz", data)
		if err != nil {
			return
		}
		p, err := ProcessOf(s, hourNS)
		if err != nil {
			return
		}
		if p.WallNS > hourNS || p.IdleNS > hourNS {
			t.Fatalf("%+v", p)
		}
		analysis := arrival.New(arrival.Options{})
		analysis.Add(s)
		job := Job{ID: "1", User: "u", Run: "r", Ranks: []Process{p}, Total: p.Counters, Arrivals: ArrivalsOf(analysis.Result())}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(Exporter{Page: &Page{Node: "n", Worst: -1, Jobs: []Job{job}}})
		if _, err := registry.Gather(); err != nil {
			t.Fatal(err)
		}
	})
}
