package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/segment"
)

func solver() synth.Job {
	return synth.Job{ID: "solver", Ranks: 6, RanksPerNode: 3, Sampled: true}
}

// TestWhole: all that is in a trace comes out, in order, with ends that fit;
// whether it is sorted in memory or in files.
func TestWhole(t *testing.T) {
	dir := writeTraced(t, solver(), 300)
	want := readPlain(t, dir)
	for _, bytes := range []int{0, 16 << 10} {
		r, s := export(t, dir, timeline.Options{Bytes: bytes, Dir: t.TempDir()})
		m := &s.Messages
		if s.Calls != want.calls || m.Sends != want.sends || m.Receives != want.receives || m.Matched != want.sends || s.Unmatched() != 0 || s.Requests != want.receives {
			t.Errorf("%d calls, %+v, %d requests, want %+v", s.Calls, m, s.Requests, want)
		}
		if s.Dropped != 0 || s.Damaged != 0 || s.Homeless != 0 || s.Implied != 0 || s.Open != 0 || s.Gaps != 0 || len(s.Problems) > 0 {
			t.Errorf("something is wrong with a whole trace: %+v", s)
		}
		var calls, bytes, received, ns, tracks, ends, posted uint64
		flows := map[uint64]int{}
		for i := range r.calls {
			c := &r.calls[i]
			calls++
			bytes += c.Bytes
			ns += uint64(c.EndNS - c.BeginNS)
			tracks = max(tracks, uint64(c.Track+1))
			posted += uint64(len(c.Posted))
			for j := range c.Ends {
				e := &c.Ends[j]
				ends++
				flows[e.Flow]++
				if e.Receive {
					received += e.Bytes
				}
			}
			if c.Place == nil || c.Place.Site.Line == 0 || c.Place.Function != c.Name {
				t.Fatalf("%s has no source line: %+v", c.Name, c.Place)
			}
		}
		if calls != want.calls || bytes != want.bytes || received != want.received || ends != want.sends+want.receives || posted != want.receives || tracks != 1 {
			t.Errorf("%d calls, %d bytes, %d received, %d ends, %d posted, %d tracks, want %+v", calls, bytes, received, ends, posted, tracks, want)
		}
		if off := int64(ns) - int64(want.ticks/2); off < -int64(calls) || off > int64(calls) {
			t.Errorf("%d ns in calls, %d in the trace", ns, want.ticks/2)
		}
		if flows[0] > 0 || len(flows) != int(m.Matched) {
			t.Errorf("%d flows, %d ends without one", len(flows), flows[0])
		}
		for id, n := range flows {
			if n != 2 {
				t.Fatalf("flow %d has %d ends", id, n)
			}
		}
		checkMessages(t, r)
	}
}

// checkMessages: of the solver, message k of a pair is that of step k.
func checkMessages(t *testing.T, r *recorder) {
	t.Helper()
	steps := map[[2]int32]int64{}
	for i := range r.messages {
		m := &r.messages[i]
		pair := [2]int32{m.Sender.Rank, m.Receiver.Rank}
		step := steps[pair]
		steps[pair]++
		if !m.Comparable || m.Comm == nil || m.Comm.Name != "grid" || m.SendBeginNS/1_000_000 != m.ReceiveEndNS/1_000_000 ||
			step > 0 && m.SendBeginNS-step*1_000_000 > r.messages[0].SendBeginNS+1_000_000 {
			t.Fatalf("message %d from %v: %+v", step, pair, m)
		}
		if m.PostNS > m.ReceiveBeginNS || m.ReceiveBeginNS > m.ReceiveEndNS || m.SendBeginNS > m.SendEndNS {
			t.Fatalf("message that runs backward: %+v", m)
		}
	}
}

// broken writes a solver whose ranks 1 to 4 are each broken in their own way.
func broken(t *testing.T) string {
	t.Helper()
	j := solver()
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		switch rank {
		case 1:
			s.Threads[0].EventsDropped = 1234
		case 2:
			s.Header.State, s.Header.FinalizeEnterTicks, s.Header.FinalizeExitTicks, s.Header.ExitTicks = segment.StateRunning, 0, 0, 0
			s.Header.LastTicks, s.Header.LastMonotonicNS = synth.Ticks(40_000_000), 5_040_000_000
			s.Threads[0].Call, s.Threads[0].Address = synth.ID("MPI_Allreduce"), synth.ModuleBase+0x13a0
			s.Threads[0].EnterTicks = synth.Ticks(35_000_000)
		case 3:
			return nil
		}
		return s
	}
	dir := writeTraced(t, j, 30)
	for rank, keep := range map[int]bool{4: false, 5: true} {
		h := j.Segment(rank).Header
		path := filepath.Join(dir, fmt.Sprintf("%s.%d.%d.mtt", h.NodeName(), h.PID, h.PIDStart))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !keep {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, data[:len(data)-40], 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestBroken: what a trace lacks is named, and what it has is there.
func TestBroken(t *testing.T) {
	dir := broken(t)
	want := readPlain(t, dir)
	r, s := export(t, dir, timeline.Options{})
	if s.Calls != want.calls+1+s.Implied || s.Open != 1 || s.Dropped != 1234 || s.Gaps != 4 {
		t.Errorf("%d calls of %d, %d implied, %d open, %d dropped, %d gaps", s.Calls, want.calls, s.Implied, s.Open, s.Dropped, s.Gaps)
	}
	for rank, what := range map[int32][]string{
		1: {"1234 events of rank 1 were not kept"}, 2: {"rank 2 died"}, 3: {"no data of rank 3"}, 4: {"the trace file of rank 4 is not here"},
	} {
		gaps := r.gaps[rank]
		for i := range what {
			if i >= len(gaps) || !strings.Contains(gaps[i].What, what[i]) || gaps[i].ToNS <= gaps[i].FromNS {
				t.Errorf("gaps of rank %d: %+v, want %q", rank, gaps, what)
			}
		}
	}
	if len(s.Problems) == 0 || !slices.ContainsFunc(s.Problems, func(p string) bool { return strings.Contains(p, "ends within an event") }) {
		t.Errorf("problems %q", s.Problems)
	}
	if m := &s.Messages; s.Unmatched() == 0 || m.Strangers == 0 || m.Matched == 0 {
		t.Errorf("messages %+v", m)
	}
	for i := range r.calls {
		if c := &r.calls[i]; c.Open && (c.Rank.Rank != 2 || c.Name != "MPI_Allreduce" || c.EndNS <= c.BeginNS) {
			t.Errorf("in progress: %+v", c)
		}
	}
	if missing := r.job.Ranks[3]; !missing.Missing || missing.State != "" {
		t.Errorf("rank 3: %+v", missing)
	}
}

// TestImplied: messages whose call was not kept stand for it.
func TestImplied(t *testing.T) {
	j := synth.Job{ID: "implied", Ranks: 2}
	dir := t.TempDir()
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		j.Trace(rank, 3, func(e segment.RawEvent) {
			if e.Kind != segment.EventKindCall {
				s.Events = append(s.Events, e)
			}
		})
		return s
	}
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	r, s := export(t, dir, timeline.Options{})
	// In each step a rank posts one receive, sends once and waits once.
	if s.Calls != 18 || s.Implied != 18 || s.Messages.Matched != 6 || s.Requests != 6 {
		t.Errorf("%d calls, %d implied, %+v", s.Calls, s.Implied, s.Messages)
	}
	names := map[string]int{}
	for i := range r.calls {
		names[r.calls[i].Name]++
	}
	if names["MPI_Irecv"] != 6 || names["MPI_Isend"] != 6 || names["(a call that completes messages)"] != 6 {
		t.Errorf("%v", names)
	}
}

// TestThreads: events of several threads that were in MPI at the same time come
// onto tracks of their own, on which calls nest.
func TestThreads(t *testing.T) {
	const threads, each = 3, 1300 // two full blocks and a bit
	j := synth.Job{ID: "threads", Ranks: 1}
	dir := t.TempDir()
	call := func(thread, n int) segment.RawEvent {
		from := uint64(1_000_000 + n*1000 + thread*10)
		return segment.RawEvent{Kind: segment.EventKindCall, Call: uint16(synth.ID("MPI_Send")), EnterTicks: synth.Ticks(from), ExitTicks: synth.Ticks(from + 900),
			PostTicks: synth.Ticks(from), Address: synth.ModuleBase + 0x12c0, Peer: segment.PeerUnknown, Tag: -1}
	}
	j.Mutate = func(_ int, s *synth.Segment) *synth.Segment {
		s.Header.ThreadsSeen, s.Header.Shards = threads, threads
		err := synth.WriteTrace(dir, &s.Header, func(add func(segment.RawEvent)) {
			for block := 0; block < each/timeline.TraceBlock; block++ {
				for thread := range threads {
					for n := range timeline.TraceBlock {
						add(call(thread, block*timeline.TraceBlock+n))
					}
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
		for thread := range threads {
			var rest []segment.RawEvent
			for n := each / timeline.TraceBlock * timeline.TraceBlock; n < each; n++ {
				rest = append(rest, call(thread, n))
			}
			s.Extra = append(s.Extra, synth.NewSection(segment.SectionKindEvents, uint32(thread), rest...))
		}
		return s
	}
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	r, s := export(t, dir, timeline.Options{})
	seen := map[int]int{}
	for i := range r.calls {
		c := &r.calls[i]
		seen[c.Track]++
		if c.Thread != c.Track {
			t.Fatalf("thread %d is on track %d", c.Thread, c.Track)
		}
	}
	if s.Calls != threads*each || len(seen) != threads || seen[0] != each || seen[2] != each {
		t.Errorf("%d calls, by track %v", s.Calls, seen)
	}
}

// TestNested: a call made inside another one lies within it.
func TestNested(t *testing.T) {
	j := synth.Job{ID: "nested", Ranks: 1}
	event := func(name string, from, to uint64) segment.RawEvent {
		return segment.RawEvent{Kind: segment.EventKindCall, Call: uint16(synth.ID(name)), EnterTicks: synth.Ticks(from), ExitTicks: synth.Ticks(to),
			Address: synth.ModuleBase + 0x13a0, Peer: segment.PeerUnknown, Tag: -1}
	}
	j.Mutate = func(_ int, s *synth.Segment) *synth.Segment {
		s.Header.ThreadsSeen = 1
		s.Events = []segment.RawEvent{event("MPI_Comm_rank", 2000, 2100), event("MPI_Comm_size", 2200, 2300), event("MPI_Allreduce", 1000, 3000),
			event("MPI_Barrier", 3000, 4000), event("MPI_Send", 3500, 5000), event("MPI_Recv", 0, 1<<62)}
		return s
	}
	dir := t.TempDir()
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	r, s := export(t, dir, timeline.Options{})
	var order []string
	for i := range r.calls {
		order = append(order, fmt.Sprint(r.calls[i].Name, r.calls[i].Track))
	}
	// MPI_Send overlaps MPI_Barrier, which one thread cannot do: a track of its own.
	want := []string{"MPI_Allreduce0", "MPI_Comm_rank0", "MPI_Comm_size0", "MPI_Barrier0", "MPI_Send1"}
	if !slices.Equal(order, want) || s.Damaged != 1 {
		t.Errorf("%q, %d damaged", order, s.Damaged)
	}
}

// TestUntraced: a result without a trace has samples, and says that it has none.
func TestUntraced(t *testing.T) {
	j := solver()
	dir := t.TempDir()
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	r, s := export(t, dir, timeline.Options{})
	if r.job.Traced || s.Calls != 0 || len(r.samples) == 0 || s.Samples != uint64(len(r.samples)) || s.Gaps != 0 {
		t.Errorf("%+v, %d samples", s, len(r.samples))
	}
	if last := r.samples[0]; last.Place.Site.Line != 121 || last.Comm.Name != "grid" || !last.Comm.Whole {
		t.Errorf("%+v", last)
	}
}

// TestStops: an error of the writer, and the end of the context, end the export.
func TestStops(t *testing.T) {
	dir := writeTraced(t, solver(), 5)
	stop := errors.New("stop")
	for _, at := range []string{"Begin", "Message", "Sample", "BeginRank", "Enter", "Leave", "EndRank", "End"} {
		w := &failing{recorder: recorder{t: t}, at: at, err: stop}
		if _, err := timeline.Export(context.Background(), dir, w, timeline.Options{}); !errors.Is(err, stop) {
			t.Errorf("an error of %s became %v", at, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := timeline.Export(ctx, dir, &recorder{t: t}, timeline.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := timeline.Export(context.Background(), t.TempDir(), &recorder{t: t}, timeline.Options{}); err == nil {
		t.Error("an empty directory is exported")
	}
}

// failing fails in one method.
type failing struct {
	recorder
	at  string
	err error
}

func (f *failing) fail(at string, err error) error {
	if f.at == at {
		return f.err
	}
	return err
}

func (f *failing) Begin(j *timeline.Job) error       { return f.fail("Begin", f.recorder.Begin(j)) }
func (f *failing) Message(m *timeline.Message) error { return f.fail("Message", nil) }
func (f *failing) Sample(s *timeline.Sample) error   { return f.fail("Sample", nil) }
func (f *failing) BeginRank(r *timeline.Rank) error {
	return f.fail("BeginRank", f.recorder.BeginRank(r))
}
func (f *failing) Enter(c *timeline.Call) error   { return f.fail("Enter", f.recorder.Enter(c)) }
func (f *failing) Leave(c *timeline.Call) error   { return f.fail("Leave", f.recorder.Leave(c)) }
func (f *failing) EndRank(r *timeline.Rank) error { return f.fail("EndRank", nil) }
func (f *failing) End(s *timeline.Summary) error  { return f.fail("End", nil) }
