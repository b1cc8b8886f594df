package advise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
)

const second = 1_000_000_000

// costs of a machine with a network: copies of 10 GB/s, registration of 30 us.
func costs() *reusetrack.Costs {
	return &reusetrack.Costs{Schema: reusetrack.CostsSchema, Source: "made up",
		Copy: reusetrack.Curve{{Bytes: 128, NS: 30}, {Bytes: 8192, NS: 900}}, CopyCold: reusetrack.Curve{{Bytes: 128, NS: 120}, {Bytes: 8192, NS: 1800}},
		Register: reusetrack.Curve{{Bytes: 4096, NS: 30_000}}, UsageLookUp: reusetrack.Curve{{Bytes: 128, NS: 10}},
		CacheLookUp: reusetrack.Curve{{Bytes: 128, NS: 10}}, Exposed: reusetrack.Curve{{Bytes: 128, NS: 2000}, {Bytes: 8192, NS: 3500}}}
}

// reuse is what the cost model says of ranks that use some buffers of a size
// some times each.
func reuse(c *reusetrack.Costs, ranks int, path uint16, buffers int, uses uint32, bytes uint64) []reusetrack.Prediction {
	s := reusetrack.NewSummary(reusetrack.Options{Costs: c})
	for rank := range ranks {
		var rows []segment.RawBuffer
		total := segment.RawReuse{Path: uint32(path)}
		for i := range buffers {
			rows = append(rows, segment.RawBuffer{Address: uint64(i+1) << 16, Bytes: bytes, Accesses: uses, Path: path})
			bin := 0
			for bytes>>bin > 0 {
				bin++
			}
			total.Accesses[bin] += uint64(uses)
			total.Reused[bin] += uint64(uses) - 1
		}
		s.Add(reusetrack.NewRank(rank, rows, []segment.RawReuse{total}))
	}
	return s.Predictions()
}

// heat is a balanced stencil with small halos: nothing to gain.
func heat() Input {
	return Input{Ranks: 4, MPINS: 20 * second, Sites: []Site{
		{Function: "MPI_Isend", Place: "heat.c:91", Calls: 40_000, Bytes: 40_000 * 2048, TimeNS: second / 10, RequestNS: 8 * second, BlockedNS: 4 * second},
		{Function: "MPI_Irecv", Place: "heat.c:88", Calls: 40_000, Bytes: 40_000 * 2048, TimeNS: second / 20, RequestNS: 8 * second, BlockedNS: 4 * second},
		{Function: "MPI_Waitall", Place: "heat.c:97", Calls: 10_000, TimeNS: 8 * second},
		{Function: "MPI_Allreduce", Place: "heat.c:121", Calls: 40_000, TimeNS: 11 * second, Waiting: &Waiting{Operations: 10_000, Processes: 4, WaitingNS: 10 * second, WorkNS: second, Persistence: 0.9, Coverage: 0.1}},
	}, Reuse: reuse(costs(), 4, segment.PathSend, 8, 1250, 2048)}
}

// eager sends 4 KiB from two buffers, from one place with computation behind
// it and one without.
func eager() Input {
	return Input{Ranks: 16, MPINS: 60 * second, Sites: []Site{
		{Function: "MPI_Isend", Place: "lu.f:310", Calls: 24_000_000, Bytes: 24_000_000 * 4096, TimeNS: 22 * second, RequestNS: 290 * second, BlockedNS: 10 * second},
		{Function: "MPI_Send", Place: "lu.f:402", Calls: 8_000_000, Bytes: 8_000_000 * 4096, TimeNS: 9 * second},
		{Function: "MPI_Send", Place: "lu.f:11", Calls: 100, Bytes: 800, TimeNS: 1000},
	}, Reuse: reuse(costs(), 16, segment.PathSend, 2, 1_000_000, 4096)}
}

// blocking sends only, and the wait for the network is not known.
func blocking() Input {
	c := costs()
	c.Exposed = nil
	return Input{Ranks: 16, MPINS: 30 * second, CostsStandIn: true, Sites: []Site{
		{Function: "MPI_Send", Place: "lu.f:402", Calls: 32_000_000, Bytes: 32_000_000 * 4096, TimeNS: 25 * second},
	}, Reuse: reuse(c, 16, segment.PathSend, 2, 1_000_000, 4096)}
}

// rendezvous posts megabytes, computes, and waits.
func rendezvous() Input {
	in := Input{Ranks: 8, MPINS: 100 * second, TransferBytesPerNS: 5, Sites: []Site{
		{Function: "MPI_Irecv", Place: "bt.f:70", Calls: 100_000, Bytes: 100_000 << 20, TimeNS: second / 10, RequestNS: 150 * second, BlockedNS: 30 * second},
		{Function: "MPI_Isend", Place: "bt.f:92", Calls: 100_000, Bytes: 100_000 << 20, TimeNS: second, RequestNS: 31 * second, BlockedNS: 30 * second},
		{Function: "MPI_Issend", Place: "late.f:1", Calls: 100, Bytes: 100 * 20_000, TimeNS: second, RequestNS: 40 * second, BlockedNS: 20 * second},
	}}
	for i := range 3 {
		in.Sites = append(in.Sites, Site{Function: "MPI_Isend_c", Place: fmt.Sprint("small.f:", i), Calls: 1000, Bytes: 1000 << 20, TimeNS: 1000, RequestNS: second, BlockedNS: second / 4})
	}
	return in
}

// collectives comes late in an alltoall always by the same ranks.
func collectives() Input {
	return Input{Ranks: 16, MPINS: 50 * second, Sites: []Site{
		{Function: "MPI_Alltoall", Place: "ft.f:500", Calls: 352, TimeNS: 40 * second, Waiting: &Waiting{Operations: 22, Processes: 16, WaitingNS: 12 * second, WorkNS: 28 * second, Persistence: 0.95, Coverage: 1}},
		{Function: "MPI_Allgatherv", Place: "nbody.c:7", Calls: 16_000, TimeNS: 6 * second, Waiting: &Waiting{Operations: 1000, Processes: 16, WaitingNS: 5 * second, WorkNS: second, Persistence: 0.2, Coverage: 0.5}},
	}}
}

// oneSided puts from one buffer between fences.
func oneSided() Input {
	return Input{Ranks: 2, MPINS: 8 * second, CostsStandIn: true, Sites: []Site{
		{Function: "MPI_Put", Place: "halo.c:12", Calls: 4_000_000, Bytes: 4_000_000 * 8192, TimeNS: 4 * second},
	}, Reuse: reuse(costs(), 2, segment.PathOrigin, 1, 2_000_000, 8192)}
}

func TestGolden(t *testing.T) {
	for name, in := range map[string]Input{"nothing": heat(), "eager": eager(), "blocking": blocking(), "rendezvous": rendezvous(),
		"collectives": collectives(), "one-sided": oneSided(), "empty": {}} {
		var text, data bytes.Buffer
		r := Advise(in)
		if err := errors.Join(r.WriteText(&text), r.WriteJSON(&data)); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, name+".txt", text.Bytes())
		if name == "eager" || name == "nothing" {
			golden.Compare(t, name+".json", data.Bytes())
		}
		var back Result
		if err := json.Unmarshal(data.Bytes(), &back); err != nil || len(back.Recommendations) != len(r.Recommendations) {
			t.Errorf("%s: JSON does not come back: %v", name, err)
		}
		check(t, in, r)
	}
}

// check is what holds for any result.
func check(t *testing.T, in Input, r *Result) {
	t.Helper()
	last := math.Inf(1)
	for _, f := range r.Recommendations {
		s := f.SavedSeconds
		if !(0 <= s.Low && s.Low <= s.Expected && s.Expected <= s.High) || math.IsInf(s.High, 1) {
			t.Errorf("%s at %s: %+v is no range", f.Technique, f.Place, s)
		}
		if s.Expected > last || f.ShareOfMPITime < 0 || f.ShareOfMPITime > 1 || f.How == "" || len(f.Assumptions) == 0 || f.Reason == "" {
			t.Errorf("%+v", f)
		}
		last = s.Expected
	}
	nothing := strings.HasPrefix(r.Verdict, "Nothing to gain")
	if nothing != (len(r.Recommendations) == 0) {
		t.Errorf("%q with %d recommendations (MPI %v)", r.Verdict, len(r.Recommendations), in.MPINS)
	}
}

func TestExpectedFigures(t *testing.T) {
	r := Advise(rendezvous())
	by := map[string]Recommendation{}
	for _, f := range r.Recommendations {
		by[f.Place] = f
	}
	// 100,000 MiB at 5 GB/s are 21 s, of 30 s blocked; the window is longer.
	if s := by["bt.f:70"].SavedSeconds; math.Abs(s.Expected-20.97152) > 1e-9 || s.High != 30 || math.Abs(s.Low-20.97152*20.97152/30) > 1e-9 {
		t.Errorf("receive: %+v", s)
	}
	// The window of the sends is 1 s: nothing to move the rest into.
	if s := by[""].SavedSeconds; math.Abs(s.Expected-(1+3*0.2097152+0.0004)) > 1e-9 || by["bt.f:92"].Place != "" {
		t.Errorf("small places: %+v", s)
	}
	if f := by[""]; f.Confidence != Low || !strings.Contains(f.Function, "5 more") {
		t.Errorf("%+v", f)
	}
	// Alltoall: 1 - 1/1.09 of 40 s, at 95 %.
	f := Advise(collectives()).Recommendations[0]
	if want := 0.95 * (1 - 1/1.09) * 40; math.Abs(f.SavedSeconds.Expected-want) > 1e-9 || f.SavedSeconds.High != 12 {
		t.Errorf("%+v, want %v", f.SavedSeconds, want)
	}
	// Zero-copy: the nonblocking site has three quarters of the messages.
	in := eager()
	f = Advise(in).Recommendations[0]
	if want := 0.75 * in.Reuse[0].Hidden.NetNS / 1e9; f.Place != "lu.f:310" || math.Abs(f.SavedSeconds.Expected-want) > 1e-9 {
		t.Errorf("%+v, want %v", f, want)
	}
}

// TestWaitDecides: the same sends gain or not by what is behind them.
func TestWaitDecides(t *testing.T) {
	for _, c := range []struct {
		function string
		window   uint64 // ns per request
		gains    bool
	}{{"MPI_Isend", 10_000, true}, {"MPI_Isend", 1000, false}, {"MPI_Send", 10_000, false}, {"MPI_Ssend", 10_000, false}, {"MPI_Issend", 10_000, false}, {"MPI_Startall", 10_000, true}} {
		in := eager()
		in.Sites = []Site{{Function: c.function, Place: "a", Calls: 32_000_000, Bytes: 32_000_000 * 4096, TimeNS: 22 * second, RequestNS: 32_000_000 * c.window}}
		r := Advise(in)
		gains := len(r.Recommendations) > 0 && r.Recommendations[0].Place == "a"
		if gains != c.gains {
			t.Errorf("%s with %d ns behind it: %+v %q", c.function, c.window, r.Recommendations, r.Notes)
		}
	}
}

func TestNothingIsSaidPlainly(t *testing.T) {
	in := rendezvous()
	in.MPINS = 10_000 * second
	if r := Advise(in); len(r.Recommendations) != 0 || !strings.Contains(strings.Join(r.Notes, "\n"), "too little to matter") {
		t.Errorf("less than 1 %%: %+v", r)
	}
	in = rendezvous()
	for i := range in.Sites {
		s := &in.Sites[i]
		s.Calls, s.Bytes, s.RequestNS, s.BlockedNS = s.Calls/1000, s.Bytes/1000, s.RequestNS/1000, s.BlockedNS/1000
	}
	in.MPINS /= 1000
	if r := Advise(in); len(r.Recommendations) != 0 || !strings.HasPrefix(r.Verdict, "Nothing to gain") {
		t.Errorf("less than 0.1 s: %+v", r)
	}
}

// TestSavingsAreBounded: no site saves more than it took, whatever the figures.
func TestSavingsAreBounded(t *testing.T) {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		in := Input{Ranks: r.IntN(100), MPINS: r.Uint64() >> r.IntN(64), TransferBytesPerNS: []float64{0, -1, 4, math.NaN(), math.Inf(1)}[r.IntN(5)], CostsStandIn: r.IntN(2) == 0}
		for range r.IntN(12) {
			s := Site{Function: names[r.IntN(len(names))], Place: fmt.Sprint(r.IntN(9)), Calls: r.Uint64() >> r.IntN(64), Bytes: r.Uint64() >> r.IntN(64),
				TimeNS: r.Uint64() >> r.IntN(64), RequestNS: r.Uint64() >> r.IntN(64), BlockedNS: r.Uint64() >> r.IntN(64), MeanBytes: r.Uint64() >> r.IntN(64)}
			if r.IntN(2) == 0 {
				s.Waiting = &Waiting{Processes: r.IntN(20) - 2, WaitingNS: r.Uint64() >> r.IntN(64), WorkNS: r.Uint64() >> r.IntN(64), Persistence: r.NormFloat64(), Coverage: math.NaN()}
			}
			in.Sites = append(in.Sites, s)
		}
		for _, path := range []uint16{segment.PathSend, segment.PathOrigin} {
			in.Reuse = append(in.Reuse, reuse(costs(), 1, path, r.IntN(5), r.Uint32()>>r.IntN(32)+1, 1<<r.IntN(20))...)
		}
		check(t, in, Advise(in))
	}
}

// TestUnknownPlaces: sends that no call site is known for save no more than MPI
// took.
func TestUnknownPlaces(t *testing.T) {
	c := costs()
	c.Exposed = reusetrack.Curve{{Bytes: 128, NS: 1}}
	in := Input{Ranks: 16, MPINS: second, Reuse: reuse(c, 16, segment.PathSend, 2, 1_000_000, 4096)}
	if r := Advise(in); len(r.Recommendations) != 1 || r.Recommendations[0].SavedSeconds.High > 1 || !strings.HasPrefix(r.Verdict, "About 1.00 s of the 1.00 s") {
		t.Errorf("%+v", r)
	}
}

// TestNoSmallMessages: buffers were followed and no message was small; the mean
// of a site that also sends to nobody only looks so.
func TestNoSmallMessages(t *testing.T) {
	in := Input{Ranks: 2, MPINS: second, Sites: []Site{{Function: "MPI_Isend", Place: "heat.c:145", Calls: 400, Bytes: 200 * 12_000}}}
	if r := Advise(in); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "was not recorded") {
		t.Errorf("not followed: %q", r.Notes)
	}
	in.ReuseKnown = true
	if r := Advise(in); len(r.Notes) != 0 {
		t.Errorf("followed: %q", r.Notes)
	}
	in.ReuseKnown, in.Sites[0].Bytes = false, 0
	if r := Advise(in); len(r.Notes) != 0 {
		t.Errorf("no message at all: %q", r.Notes)
	}
}

// TestMostlyWaiting: that no technique helps is not all there is to say where
// late ranks are the cause.
func TestMostlyWaiting(t *testing.T) {
	in := heat()
	if r := Advise(in); !strings.Contains(r.Verdict, "10.0 s of it is waiting for late ranks at collectives") {
		t.Errorf("half: %q", r.Verdict)
	}
	in.MPINS *= 3
	if r := Advise(in); strings.Contains(r.Verdict, "waiting") {
		t.Errorf("a sixth: %q", r.Verdict)
	}
}

func TestWriteFails(t *testing.T) {
	r := Advise(eager())
	if r.WriteText(broken{}) == nil || r.WriteJSON(broken{}) == nil {
		t.Error("errors of the writer are lost")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }
