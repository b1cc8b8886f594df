package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// onRows is the sampled job on one node with its ranks changed.
func onRows(change func(rank int, s *synth.Segment)) synth.Job {
	j := sampled()
	j.RanksPerNode = j.Ranks
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		change(rank, s)
		return s
	}
	return j
}

// reductions is the call site of the reductions of a rank.
func reductions(s *synth.Segment) *segment.RawSite {
	for i := range s.Sites {
		if uint32(s.Sites[i].Call) == synth.ID("MPI_Allreduce") {
			return &s.Sites[i]
		}
	}
	return nil
}

// finding is the first one that holds a text, empty for none.
func findingWith(r *Report, text string) string {
	for _, f := range r.Findings {
		if strings.Contains(f, text) {
			return f
		}
	}
	return ""
}

// arrive sets when a rank comes to its i-th sampled reduction, in ns after a
// moment of the operation, which all leave so long after it.
func arrive(s *synth.Segment, exit uint64, after func(i int) uint64) {
	for i := range s.Arrivals {
		a, moment := &s.Arrivals[i], uint64(i+1)*(exit+1_000_000)
		a.EnterTicks, a.ExitTicks = synth.Ticks(moment+after(i)), synth.Ticks(moment+exit)
		a.WaitTicks = a.EnterTicks
	}
}

// TestSettled: the extrapolated sums never exceed what the call site took, and
// are it if all calls are operations of one communicator.
func TestSettled(t *testing.T) {
	for name, calls := range map[string]uint64{"all sampled": 10_000, "more calls": 11_000, "fewer calls": 4_000} {
		for _, factor := range []uint64{1, 3} {
			r := load(t, onRows(func(_ int, s *synth.Segment) {
				site := reductions(s)
				site.Calls, site.Ticks = calls, site.Ticks/factor
			}), Options{})
			a := r.Arrivals[0]
			if a.Blocked.NS > a.Site.TimeNS || a.Operations*8 > a.Site.Calls {
				t.Errorf("%s, time / %d: %d operations take %d ns, %d calls take %d ns", name, factor, a.Operations, a.Blocked.NS, a.Site.Calls, a.Site.TimeNS)
			}
			if name == "all sampled" && (a.Operations*8 != a.Site.Calls || a.Blocked.NS < a.Site.TimeNS-8) {
				t.Errorf("%d operations take %d ns, %d calls take %d ns", a.Operations, a.Blocked.NS, a.Site.Calls, a.Site.TimeNS)
			}
			caused := a.UndecidedNS
			for _, rank := range a.Ranks {
				caused += rank.CausedNS
			}
			if sum := a.Waiting.NS + a.Beyond.NS + a.Unclaimed.NS; sum > a.Blocked.NS || sum+8 < a.Blocked.NS || caused > a.Waiting.NS || caused+16 < a.Waiting.NS {
				t.Errorf("%s: parts %d of %d ns, caused %d of %d ns", name, sum, a.Blocked.NS, caused, a.Waiting.NS)
			}
		}
	}
}

// TestOwnPlace names the place where the late rank calls, not where others do.
func TestOwnPlace(t *testing.T) {
	r := load(t, onRows(func(rank int, s *synth.Segment) {
		if rank != 6 {
			return
		}
		reductions(s).Address = synth.ModuleBase + 0x1460
		for i := range s.Arrivals {
			s.Arrivals[i].Address = synth.ModuleBase + 0x1460
		}
	}), Options{})
	if findingWith(r, "rank 6 arrives last at heat.c:54 in ") == "" {
		t.Errorf("findings %q", r.Findings)
	}
	a := r.Arrivals[0]
	if len(a.others) != 1 || r.location(a.Site) != "heat.c:121" || a.Operations != 10_000 || a.Blocked.NS > a.Site.TimeNS+a.others[0].TimeNS {
		t.Errorf("%d other places, %d operations, %+v", len(a.others), a.Operations, a.Blocked)
	}
}

// TestLateButNotOften does not take who is late by much for who is last most
// often.
func TestLateButNotOften(t *testing.T) {
	r := load(t, onRows(func(rank int, s *synth.Segment) {
		arrive(s, 5_000_000, func(i int) uint64 {
			switch {
			case rank == 6 && i%5 < 2:
				return 2_000_000
			case rank == 3:
				return 10_000
			}
			return 0
		})
	}), Options{})
	if f := findingWith(r, "rank 6 arrives last at heat.c:121 in only 40 % of 10,000 MPI_Allreduce calls"); !strings.Contains(f, "but then by much: ") {
		t.Errorf("findings %q", r.Findings)
	}
	if a := r.Arrivals[0]; !strings.HasPrefix(a.lastRanksText(), "rank 3 60 %") || !strings.HasPrefix(a.awaitedText(), "rank 6 ") {
		t.Errorf("last %q, awaited %q", a.lastRanksText(), a.awaitedText())
	}
}

// TestFewCalls counts a handful of calls instead of telling percents of them.
func TestFewCalls(t *testing.T) {
	r := &ArrivalRank{Last: 1, Share: 0.25}
	for want, a := range map[string]*Arrival{"1 of 4": {Operations: 4, Sampled: 4}, "25 % of 8": {Operations: 8, Sampled: 4}, "25 % of 40": {Operations: 40, Sampled: 40}} {
		if got := a.lastShare(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRoot: of a broadcast the root is waited for, whoever comes last.
func TestRoot(t *testing.T) {
	asBcast := func(rank int, s *synth.Segment, root uint64, sampled int) {
		s.Arrivals = s.Arrivals[:sampled]
		arrive(s, root+2_000_000, func(int) uint64 { return map[int]uint64{0: root, 3: root + 1_000_000}[rank] })
		for i := range s.Arrivals {
			s.Arrivals[i].Call, s.Arrivals[i].Root = uint16(synth.ID("MPI_Bcast")), 0
		}
		class := &s.ArrivalClasses[9]
		class.Call, class.Instances, class.Level = uint16(synth.ID("MPI_Bcast")), uint64(sampled), 0
		site := reductions(s)
		site.Call, site.Calls = uint16(synth.ID("MPI_Bcast")), uint64(sampled)
	}
	late := load(t, onRows(func(rank int, s *synth.Segment) { asBcast(rank, s, 2_000_000, 250) }), Options{})
	if a := late.Arrivals[0]; a.lastText() != "root: rank 0" || !strings.HasPrefix(a.lastRanksText(), "rank 3 100 %") || !strings.HasPrefix(a.awaitedText(), "rank 0 ") {
		t.Errorf("%q, last %q, awaited %q", a.lastText(), a.lastRanksText(), a.awaitedText())
	}
	if findingWith(late, "rank 0, the root, arrives late at heat.c:121: ") == "" {
		t.Errorf("findings %q", late.Findings)
	}
	first := load(t, onRows(func(rank int, s *synth.Segment) { asBcast(rank, s, 0, 250) }), Options{})
	if a := first.Arrivals[0]; a.lastText() != "root in time" || a.awaitedText() != "nobody" {
		t.Errorf("%q, awaited %q", a.lastText(), a.awaitedText())
	}
	once := load(t, onRows(func(rank int, s *synth.Segment) { asBcast(rank, s, 3_000_000_000, 1) }), Options{})
	if findingWith(once, "rank 0, the root, arrives late at the only MPI_Bcast at heat.c:121: ") == "" {
		t.Errorf("findings %q", once.Findings)
	}
}

// TestNoise: little waiting, and waiting that one sample of many tells of, are
// not worth a word.
func TestNoise(t *testing.T) {
	for name, change := range map[string]func(int, *synth.Segment){
		"little time": func(_ int, s *synth.Segment) { reductions(s).Ticks /= 100 },
		"one sample":  func(_ int, s *synth.Segment) { s.Arrivals = s.Arrivals[:1] },
		"a large error": func(rank int, s *synth.Segment) {
			arrive(s, 5_000_000, func(i int) uint64 { return once(rank == 6 && i == 7, 4_000_000) })
		},
		"MPI hardly counts": func(_ int, s *synth.Segment) { s.Header.FinalizeEnterTicks *= 100 },
	} {
		r := load(t, onRows(change), Options{})
		if f := findingWith(r, "waiting for"); f != "" {
			t.Errorf("%s: %q, with an error of %d ns", name, f, r.Arrivals[0].Waiting.ErrorNS)
		}
	}
}

func once(is bool, ns uint64) uint64 {
	if is {
		return ns
	}
	return 0
}

// TestSpent tells the time of a place as its row in the table of places does,
// not as samples of some communicators extrapolate it.
func TestSpent(t *testing.T) {
	r := load(t, onRows(func(_ int, s *synth.Segment) {
		site := reductions(s)
		site.Calls, site.Ticks = 2*site.Calls, 2*site.Ticks // as many on communicators without samples
	}), Options{})
	s := r.Arrivals[0].Site
	if findingWith(r, "of the "+duration(s.TimeNS)+" spent there is waiting for rank 6") == "" || s.TimeNS < 39e9 {
		t.Errorf("%s in the table, findings %q", duration(s.TimeNS), r.Findings)
	}
}

// TestSpentOnTwo: the same of a place that works on two communicators.
func TestSpentOnTwo(t *testing.T) {
	r := load(t, onRows(func(rank int, s *synth.Segment) {
		site := reductions(s)
		site.Calls, site.Ticks = 2*site.Calls, 3*site.Ticks
		second := s.ArrivalClasses[9]
		second.Kin += 2
		s.ArrivalClasses = append(s.ArrivalClasses, second)
		for i := range s.Arrivals {
			if i%3 == 0 {
				s.Arrivals[i].CommID, s.Arrivals[i].Kin = s.Arrivals[i].CommID+2, second.Kin
			}
		}
		for i := range s.ArrivalClasses {
			s.ArrivalClasses[i].Level = 0 // what was kept need not match the hash of another communicator
		}
	}), Options{})
	if s := r.Arrivals[0].Site; len(r.Arrivals) != 2 || findingWith(r, "of the "+duration(s.TimeNS)+" spent in MPI_Allreduce at heat.c:121, on 2 communicators") == "" {
		t.Errorf("%d rows, %s in the table, findings %q", len(r.Arrivals), duration(s.TimeNS), r.Findings)
	}
}

// TestMadeAnew: communicators that are made anew for some operations each change
// nothing in what is found.
func TestMadeAnew(t *testing.T) {
	kept := load(t, onRows(func(int, *synth.Segment) {}), Options{})
	anew := load(t, onRows(func(_ int, s *synth.Segment) {
		for i := range s.Arrivals {
			s.Arrivals[i].CommID += uint64(s.Arrivals[i].Sequence / 100)
		}
		for i := range s.ArrivalClasses {
			s.ArrivalClasses[i].Level = 0 // what was kept need not match the hash of another communicator
		}
	}), Options{})
	if !slices.Equal(kept.Findings, anew.Findings) || len(anew.Arrivals) != 1 {
		t.Errorf("%d rows, findings %q instead of %q", len(anew.Arrivals), anew.Findings, kept.Findings)
	}
	if a := anew.Arrivals[0]; a.Comms < 50 || a.Comm != "communicators of 8, made alike" {
		t.Errorf("%d communicators, %q", a.Comms, a.Comm)
	}
}

// TestOrder: what costs most is told first.
func TestOrder(t *testing.T) {
	r := load(t, sampled(), Options{})
	text := strings.Join(r.Findings, "\n")
	if requests, late := strings.Index(text, "32.0 s blocked"), strings.Index(text, "10.3 s of the 20.0 s"); requests < 0 || late < requests {
		t.Errorf("findings %q", r.Findings)
	}
}

// TestPolling names who asks again and again, and leaves a test now and then
// alone.
func TestPolling(t *testing.T) {
	for calls, want := range map[uint64]bool{50_000_000: true, 10_000: false} {
		r := load(t, onRows(func(_ int, s *synth.Segment) {
			s.Sites = append(s.Sites, segment.RawSite{Address: synth.ModuleBase + 0x1460, Module: 1, Call: uint16(synth.ID("MPI_Testany")), Calls: calls, Ticks: synth.Ticks(4e9)})
		}), Options{})
		f := findingWith(r, "the program polls: ")
		if (f != "") != want || want && !strings.Contains(f, "in 400 M calls of MPI_Testany at heat.c:54, 1000 for each request") {
			t.Errorf("%d calls: %q", calls, f)
		}
	}
}
