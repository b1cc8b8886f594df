package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/advise"
	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
)

// sampled is a job on two nodes of which rank 6 is late at most reductions.
func sampled() synth.Job { return synth.Job{ID: "sampled", Ranks: 8, RanksPerNode: 4, Sampled: true} }

// traced is the same with a trace of its first messages: each rank sends to the
// next one, every third time too late.
func traced() synth.Job {
	j := sampled()
	j.ID = "traced"
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		for i := range uint32(30) {
			at := uint64(i+1) * 1_000_000
			send := at - 40_000 // ns
			if i%3 == 0 {
				send = at + 500_000
			}
			s.Events = append(s.Events,
				event(segment.EventKindSend, "MPI_Isend", 0x12c0, i+1, (rank+1)%8, send, send, send+900),
				event(segment.EventKindReceive, "MPI_Irecv", 0x1240, i+1, (rank+7)%8, at-10_000, at, max(at, send)+5_000))
		}
		return s
	}
	return j
}

// event is one end of a message of the grid, times in ns.
func event(kind uint8, name string, offset uint64, serial uint32, peer int, post, enter, exit uint64) segment.RawEvent {
	return segment.RawEvent{Kind: kind, Flags: segment.EventFlagNonblocking, Call: uint16(synth.ID(name)), Serial: serial, PostTicks: synth.Ticks(post),
		EnterTicks: synth.Ticks(enter), ExitTicks: synth.Ticks(exit), Address: synth.ModuleBase + offset, CommID: 0x300 * 77, Bytes: 8192, Peer: int32(peer), Tag: 3}
}

// apart is a job whose nodes have no operation in common but one that compares
// no clocks.
func apart() synth.Job {
	j := sampled()
	j.ID = "apart"
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		bcast := s.Arrivals[:3:3]
		for i := range bcast {
			bcast[i].Call, bcast[i].Root, bcast[i].Address = uint16(synth.ID("MPI_Bcast")), 0, synth.ModuleBase+0x1460
		}
		for i := range s.Arrivals[3:] {
			a := &s.Arrivals[3+i]
			a.CommID, a.Kin, a.Rank, a.Size = 0x900+uint64(rank/4), 0x900+uint64(rank/4), int32(rank%4), 4
		}
		s.ArrivalClasses[9].Kin = 0x900 + uint64(rank/4)
		s.ArrivalClasses[9].Level = 0
		return s
	}
	return j
}

// jumping is a job whose second node has a clock that means nothing.
func jumping() synth.Job {
	j := sampled()
	j.ID = "jumping"
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		if rank >= 4 {
			for i := range s.Arrivals {
				a := &s.Arrivals[i]
				jump := uint64(i*i%17) * 10_000_000
				a.EnterTicks, a.WaitTicks, a.ExitTicks = a.EnterTicks+jump, a.WaitTicks+jump, a.ExitTicks+jump
			}
		}
		return s
	}
	return j
}

// TestLateRank finds who is late, how often, and what it costs.
func TestLateRank(t *testing.T) {
	j := sampled()
	r := load(t, j, Options{Network: &Network{StartupNS: 2000, NSPerByte: 0.1}})
	if len(r.Arrivals) != 1 {
		t.Fatalf("%d rows of arrivals", len(r.Arrivals))
	}
	a := r.Arrivals[0]
	last, known := a.lastRank()
	if !known || last.Rank != j.LateRank() || last.Share < 0.85 || last.Share > 0.98 || a.Operations != 10_000 || a.RanksSeen != 8 {
		t.Errorf("%+v in %d operations of %d ranks", last, a.Operations, a.RanksSeen)
	}
	if a.Site.Line == 0 && r.location(a.Site) != "heat.c:121" || a.Comm != "grid" || a.Function.Calls != 80_000 {
		t.Errorf("%s at %s on %s, %+v", a.Function.Name, r.location(a.Site), a.Comm, a.Function)
	}
	if a.Factors == nil || a.Factors.Worst <= a.Factors.Average {
		t.Errorf("factors %+v", a.Factors)
	}
	if !strings.Contains(strings.Join(r.Findings, "\n"), "rank 6 arrives last at heat.c:121 in ") {
		t.Errorf("findings %q", r.Findings)
	}
	if sum := a.Waiting.NS + a.Beyond.NS + a.Unclaimed.NS; sum < a.Blocked.NS-8 || sum > a.Blocked.NS+8 {
		t.Errorf("%d ns blocked are not the sum of their parts %d", a.Blocked.NS, sum)
	}
}

// TestTornArrivals leaves the samples of a rank out that died while it thinned
// them out, and says so.
func TestTornArrivals(t *testing.T) {
	j := sampled()
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		if rank == 2 {
			torn := synth.NewSection(segment.SectionKindArrivals, 0, s.Arrivals...)
			torn.Reserved0 = 1
			s.Arrivals, s.Extra = nil, []synth.Section{torn}
		}
		return s
	}
	r := load(t, j, Options{})
	if !strings.Contains(strings.Join(r.Findings, "\n"), "1 rank died while thinning out") {
		t.Errorf("findings %q", r.Findings)
	}
	if len(r.Arrivals) != 1 || r.Arrivals[0].RanksSeen != 7 || !strings.Contains(r.Arrivals[0].callsText(), "7 of 8 ranks seen: spread and waiting are lower bounds") {
		t.Errorf("%d rows of arrivals", len(r.Arrivals))
	}
}

// TestRestrictedArrivals does not blame a rank when others were not looked at.
func TestRestrictedArrivals(t *testing.T) {
	r := load(t, sampled(), Options{Ranks: Ranges{{0, 3}}})
	if len(r.Arrivals) != 1 || r.Arrivals[0].RanksSeen != 4 {
		t.Fatalf("%d rows of arrivals", len(r.Arrivals))
	}
	if text := strings.Join(r.Findings, "\n"); strings.Contains(text, "arrives last") {
		t.Errorf("findings %q", text)
	}
}

// TestSymbolsOfSamples keeps the lines of addresses that are in no row of the
// call sites.
func TestSymbolsOfSamples(t *testing.T) {
	j := sampled()
	j.Mutate = func(_ int, s *synth.Segment) *synth.Segment {
		for i := range s.Arrivals {
			s.Arrivals[i].Address = synth.ModuleBase + 0x1180
		}
		return s
	}
	dir := t.TempDir()
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := WriteSymbols(dir); err != nil {
		t.Fatal(err)
	}
	r, err := Load(dir, Options{Symbols: symbols.New(symbols.Options{DebugDirs: []string{}})})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.location(r.Arrivals[0].Site); got != "heat.c:40" || r.Arrivals[0].Function.Calls != 0 {
		t.Errorf("%s, %+v", got, r.Arrivals[0].Function)
	}
}

// someCosts is a machine on which the buffers of the solver pay.
func someCosts() *reusetrack.Costs {
	return &reusetrack.Costs{Schema: reusetrack.CostsSchema, Source: "made up", Copy: reusetrack.Curve{{Bytes: 128, NS: 30}, {Bytes: 8192, NS: 90_000}},
		Register: reusetrack.Curve{{Bytes: 4096, NS: 30_000}}, UsageLookUp: reusetrack.Curve{{Bytes: 128, NS: 10}},
		Exposed: reusetrack.Curve{{Bytes: 128, NS: 2000}}}
}

// TestReuseFigures: every buffer of the solver is used 10,000 times.
func TestReuseFigures(t *testing.T) {
	r := load(t, sampled(), Options{Costs: someCosts()})
	if len(r.Reuse) != 2 || r.Reuse[0].Buffers != 20 || r.Reuse[0].Reused != 20*10_000-20 {
		t.Fatalf("%+v", r.Reuse)
	}
	t1, t2 := r.Reuse[0].Table1, r.Reuse[0].Table2
	if t1 == nil || t1.MaxUses.Min != 10_000 || t1.Bytes.Max != 8192 || t2 == nil || t2.Frequent != 20 || t2.Buffers != 20 {
		t.Errorf("tables %+v, %+v", t1, t2)
	}
	small := load(t, sampled(), Options{EagerLimit: 4096})
	if parts := small.reuseParts(); len(parts) != 2 || parts[0].name != "send rendezvous" {
		t.Errorf("%+v", parts)
	}
	if small.Reuse[0].Table2 != nil {
		t.Error("buffers are judged without costs")
	}
}

// TestAdvice keeps the advice on the sampled job.
func TestAdvice(t *testing.T) {
	for name, o := range map[string]Options{"advice": {Costs: someCosts()}, "advice-no-costs": {}, "advice-rendezvous": {EagerLimit: 4096, Network: &Network{StartupNS: 500, NSPerByte: 0.1}}} {
		var out bytes.Buffer
		if err := advise.Advise(load(t, sampled(), o).AdviceInput()).WriteText(&out); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, name+".txt", out.Bytes())
	}
}

// TestPlaceOfPhases: a place that is a row in each of two phases has the sum of both.
func TestPlaceOfPhases(t *testing.T) {
	split := func(phases int) *Overlap {
		r := load(t, onRows(func(_ int, s *synth.Segment) {
			s.Phases = append(s.Phases, segment.RawPhase{Level: 3, Entered: 1})
			for i := range s.Sites {
				if site := &s.Sites[i]; uint32(site.Call) == synth.ID("MPI_Isend") && phases == 2 {
					part := *site
					part.Phase, part.Calls, part.RequestTicks, part.BeforeTicks, part.BlockedTicks = 1, site.Calls/2, site.RequestTicks/2, site.BeforeTicks/2, site.BlockedTicks/2
					site.Calls, site.RequestTicks, site.BeforeTicks, site.BlockedTicks = part.Calls, part.RequestTicks, part.BeforeTicks, part.BlockedTicks
					part.Peerless, site.Peerless = 3, 4
					s.Sites = append(s.Sites, part)
				} else if uint32(site.Call) == synth.ID("MPI_Isend") {
					site.Peerless = 7
				}
			}
		}), Options{})
		for _, o := range r.Overlap {
			if o.Function.Name == "MPI_Isend" {
				return o
			}
		}
		t.Fatal("no place of MPI_Isend")
		return nil
	}
	one, two := split(1), split(2)
	if two.Overlapped < 0.01 || two.Overlapped != one.Overlapped || two.BeforeNS != one.BeforeNS || two.BlockedNS != one.BlockedNS || two.Site.Peerless != one.Site.Peerless {
		t.Errorf("of one row  %+v, %d peerless\nof two rows %+v, %d peerless", one, one.Site.Peerless, two, two.Site.Peerless)
	}
}

func TestNetwork(t *testing.T) {
	n, err := ReadNetwork(strings.NewReader(`{"startup_ns": 1500, "ns_per_byte": 0.1}`))
	if b := newBuilder(Options{Network: n}); err != nil || b.transfer(1000) != 1600 {
		t.Errorf("%+v: %v", n, err)
	}
	for _, bad := range []string{"", "{}", `{"startup_ns": 1}`, `{"startup_ns": 0, "ns_per_byte": 1}`, `{"startup_ns": 1, "ns_per_byte": -1}`,
		`{"startup_ns": 1, "ns_per_byte": 1, "x": 1}`, `{"startup_ns": 1, "ns_per_byte": 1} 7`, `[1]`} {
		if _, err := ReadNetwork(strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), "network calibration: ") {
			t.Errorf("%s is accepted: %v", bad, err)
		}
	}
	if _, err := LoadNetwork(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// TestCalibration: what mpitrace bench has stored counts for jobs on its node
// with its MPI, unless the user says otherwise.
func TestCalibration(t *testing.T) {
	single := onRows(func(int, *synth.Segment) {})
	plain := load(t, single, Options{})
	if len(plain.Job.Nodes) != 1 || plain.Network != nil {
		t.Fatalf("nodes %q, network %+v", plain.Job.Nodes, plain.Network)
	}
	stored := Network{StartupNS: 700, NSPerByte: 0.25, Node: plain.Job.Nodes[0], MPI: plain.Job.MPI, Time: "2026-01-02T03:04:05Z"}
	factors := func(j synth.Job, n Network, o Options) *Report {
		o.Calibrations = filepath.Join(t.TempDir(), "network")
		if err := n.Store(o.Calibrations); err != nil {
			t.Fatal(err)
		}
		return load(t, j, o)
	}
	r := factors(single, stored, Options{})
	if r.Network == nil || *r.Network != stored || r.Arrivals[0].Factors == nil {
		t.Errorf("network %+v", r.Network)
	}
	if text := r.Arrivals[0].factorsText(r.Network); !strings.HasSuffix(text, "(700 ns and 0.25 ns a byte, measured by mpitrace bench on "+stored.Node+" at 2026-01-02T03:04:05Z)") {
		t.Error(text)
	}
	if text := load(t, single, Options{Network: &Network{StartupNS: 1, NSPerByte: 2}}).Arrivals[0].factorsText(&Network{StartupNS: 1, NSPerByte: 2}); !strings.HasSuffix(text, "(1.00 ns and 2.00 ns a byte, given by --network)") {
		t.Error(text)
	}
	for name, change := range map[string]func(n *Network){"node": func(n *Network) { n.Node += "x" }, "MPI": func(n *Network) { n.MPI += "x" }} {
		other := stored
		if change(&other); factors(single, other, Options{}).Network != nil {
			t.Errorf("that of another %s is used", name)
		}
	}
	if r := factors(sampled(), stored, Options{}); r.Network != nil {
		t.Errorf("%+v is used for a job on nodes %q", r.Network, r.Job.Nodes)
	}
	if r := factors(single, stored, Options{Network: &Network{StartupNS: 1, NSPerByte: 1}}); r.Network.StartupNS != 1 {
		t.Errorf("%+v is used although the user gave another", r.Network)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, calibrationName(stored.Node, stored.MPI)), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := load(t, single, Options{Calibrations: dir}); r.Network != nil || len(r.Problems) != len(plain.Problems)+1 {
		t.Errorf("a broken calibration: %+v, problems %q", r.Network, r.Problems)
	}
}

// TestJSONMembers: the report is written with every member that it has.
func TestJSONMembers(t *testing.T) {
	var out bytes.Buffer
	if err := load(t, sampled(), Options{Network: &Network{StartupNS: 500, NSPerByte: 0.1}}).WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Report]()) {
		if name := field.Tag.Get("json"); name != "" && name != "-" && all[name] == nil && name != "trace" && name != "act" {
			t.Errorf("there is no %q", name)
		}
	}
}

// TestJSONSchema: lists are lists, and a function is an object with name, calls,
// time and bytes wherever it stands.
func TestJSONSchema(t *testing.T) {
	for _, j := range []synth.Job{traced(), {ID: "plain", Ranks: 1}} {
		var out bytes.Buffer
		if err := load(t, j, Options{}).WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		var all map[string]any
		if err := json.Unmarshal(out.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"arrivals", "reuse", "overlap", "clocks"} {
			list, ok := all[name].([]any)
			if !ok || j.Sampled && len(list) == 0 {
				t.Errorf("%s is %v", name, all[name])
			}
			for _, row := range list {
				checkFunctions(t, name, row)
			}
		}
		if _, ok := all["trace"]; !ok || all["schema"] != float64(Schema) {
			t.Errorf("trace %v, schema %v", all["trace"], all["schema"])
		}
	}
}

// checkFunctions looks at all members called function.
func checkFunctions(t *testing.T, where string, value any) {
	t.Helper()
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for name, member := range object {
		if f, ok := member.(map[string]any); name == "function" {
			for _, field := range []string{"name", "calls", "time_ns", "bytes"} {
				if _, has := f[field]; !ok || !has {
					t.Errorf("%s: function %v has no %s", where, member, field)
				}
			}
		}
		checkFunctions(t, where+"."+name, member)
	}
}

// TestHeadlessTrace says nothing of messages whose first events are elsewhere.
func TestHeadlessTrace(t *testing.T) {
	j := traced()
	whole := j.Mutate
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		s = whole(rank, s)
		s.Events = s.Events[20:]
		return s
	}
	r := load(t, j, Options{})
	if r.Trace != nil || !strings.Contains(strings.Join(r.Problems, "\n"), "the trace files of 8 ranks are not here") {
		t.Errorf("%+v, problems %q", r.Trace, r.Problems)
	}
}

// TestHeadless tells ranks without messages from those whose messages are gone.
func TestHeadless(t *testing.T) {
	call := segment.RawEvent{Kind: segment.EventKindCall}
	first, later := segment.RawEvent{Kind: segment.EventKindSend, Serial: 1}, segment.RawEvent{Kind: segment.EventKindReceive, Serial: 9}
	for _, c := range []struct {
		name   string
		events []segment.RawEvent
		sent   bool
		want   bool
	}{
		{"not traced", nil, true, false},
		{"only calls, no messages", []segment.RawEvent{call}, false, false},
		{"only calls left", []segment.RawEvent{call}, true, true},
		{"from the first on", []segment.RawEvent{call, later, first}, true, false},
		{"from a later one on", []segment.RawEvent{call, later}, true, true},
	} {
		if got := headless(c.events, c.sent); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestResizedBuffers: where buffers change their size around the eager limit,
// figures of either side are estimates, and told as such.
func TestResizedBuffers(t *testing.T) {
	j := sampled()
	j.Mutate = func(_ int, s *synth.Segment) *synth.Segment {
		for i := range s.Buffers {
			s.Buffers[i].Bytes, s.Buffers[i].Resized = 9000, 5
		}
		for i := range s.Sites {
			s.Sites[i].Bytes = 9000 * s.Sites[i].Calls
		}
		return s
	}
	r := load(t, j, Options{})
	if text := strings.Join(r.Findings, "\n"); !strings.Contains(text, "~100 % of about 200,000 sends above 8 KiB use a buffer again: about 3 buffers a rank, at heat.c:91") {
		t.Errorf("findings %q", r.Findings)
	}
}

// TestPartnerless names no place that only has MPI_PROC_NULL as partner, though
// its requests share the waiting.
func TestPartnerless(t *testing.T) {
	j := sampled()
	j.Mutate = func(_ int, s *synth.Segment) *synth.Segment {
		for i := range s.Sites {
			if uint32(s.Sites[i].Call) == synth.ID("MPI_Irecv") {
				s.Sites[i].Bytes = 0
			}
		}
		return s
	}
	if r := load(t, j, Options{}); !strings.HasPrefix(r.Findings[0], "MPI_Isend at heat.c:91: 32.0 s blocked in ") {
		t.Errorf("findings %q", r.Findings)
	}
}

// TestNothingOverlapped names the place whose requests are waited for at once.
func TestNothingOverlapped(t *testing.T) {
	j := sampled()
	j.Mutate = func(_ int, s *synth.Segment) *synth.Segment {
		for i := range s.Sites {
			switch site := &s.Sites[i]; uint32(site.Call) {
			case synth.ID("MPI_Irecv"):
				site.BlockedTicks, site.BeforeTicks = site.RequestTicks, 0
			case synth.ID("MPI_Isend"):
				site.BeforeTicks = site.RequestTicks / 4
			}
		}
		return s
	}
	r := load(t, j, Options{})
	if text := strings.Join(r.Findings, "\n"); !strings.Contains(text, "MPI_Irecv at heat.c:88: 86.4 s blocked in MPI_Waitall at heat.c:97, nothing overlapped") ||
		!strings.Contains(text, "MPI_Isend at heat.c:91: 16.0 s blocked in MPI_Waitall at heat.c:97, 25 % of the requests' time overlapped") {
		t.Errorf("findings %q", r.Findings)
	}
	if o := r.Overlap[0]; o.Overlapped != 0 || o.Requests != 200_000 {
		t.Errorf("%+v", o)
	}
}
