package report

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// segments lays a job out as it lies in shared memory.
func segments(t *testing.T, j synth.Job) string {
	t.Helper()
	dir, err := j.WriteSegments(filepath.Join(t.TempDir(), "base"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTotalsOnly: what is read of the parts is what is read of the whole.
func TestTotalsOnly(t *testing.T) {
	for name, j := range map[string]synth.Job{"scale": synth.Scale(8), "killed": killed(), "deadlocked": deadlocked(), "blemished": blemished()} {
		dir := segments(t, j)
		full, err := Load(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		part, err := Load(dir, Options{TotalsOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if part.Job.State != full.Job.State || part.Job.Share != full.Job.Share || part.Job.Calls != full.Job.Calls || part.Job.MPINS != full.Job.MPINS || part.Deadlock() != full.Deadlock() {
			t.Errorf("%s: job %+v, want %+v", name, part.Job, full.Job)
		}
		for i, rank := range full.Ranks {
			got := part.Ranks[i]
			if got.Rank != rank.Rank || got.State != rank.State || got.WallNS != rank.WallNS || got.BusyNS != rank.BusyNS || got.Calls != rank.Calls ||
				got.Bytes != rank.Bytes || got.Requests != rank.Requests || len(got.Current) != len(rank.Current) || got.Path != rank.Path {
				t.Errorf("%s: rank %+v, want %+v", name, got, rank)
			}
		}
		if part.Functions[0].Name != full.Functions[0].Name || part.Functions[0].Totals != full.Functions[0].Totals {
			t.Errorf("%s: functions differ", name)
		}
		for i, g := range full.Stuck {
			if got := part.Stuck[i]; got.Name != g.Name || got.Comm != g.Comm || !reflect.DeepEqual(got.Ranks, g.Ranks) || !reflect.DeepEqual(got.Missing, g.Missing) {
				t.Errorf("%s: stuck %+v, want %+v", name, got, g)
			}
		}
		if len(part.Arrivals)+len(part.Reuse)+len(part.Types)+len(part.Pairs) > 0 {
			t.Errorf("%s: more than totals", name)
		}
	}
}

// TestSharedShard: the time of threads that share a shard is not that of one
// thread, neither in calls that have returned nor in the one in progress.
func TestSharedShard(t *testing.T) {
	for _, c := range []struct {
		name             string
		overflow, served uint32
		seconds          uint64
	}{{"shared", 1, 49, 10}, {"a thread", 0, 1, 80}, {"the only one there", 1, 1, 80}} {
		j := synth.Job{ID: "threads", Ranks: 1, Mutate: func(_ int, s *synth.Segment) *synth.Segment {
			unfinished(s)
			recv := uint16(synth.ID("MPI_Recv"))
			s.Sites = []segment.RawSite{{Call: recv, Calls: 1, Ticks: 10e9 * 2}} // two ticks a nanosecond
			last := segment.RawThread{TID: 9, Call: uint32(recv), EnterTicks: synth.Ticks(20e9), Overflow: c.overflow, ThreadsServed: uint64(c.served)}
			s.Extra = []synth.Section{synth.NewSection(segment.SectionKindThread, 15, last),
				synth.NewSection(segment.SectionKindSites, 15, segment.RawSite{Call: recv, Calls: 1, Ticks: 50e9 * 2})}
			return s
		}}
		rank := load(t, j, Options{}).Ranks[0]
		if rank.BusyNS != c.seconds*1e9 || rank.MPINS != 90e9 {
			t.Errorf("%s: busy %d ns, %d ns in MPI", c.name, rank.BusyNS, rank.MPINS)
		}
	}
}

// TestBusyThread: of two threads the one that is in MPI for longer counts, with
// the call that it is in.
func TestBusyThread(t *testing.T) {
	j := synth.Job{ID: "threads", Ranks: 1, Mutate: func(_ int, s *synth.Segment) *synth.Segment {
		unfinished(s)
		s.Threads[0].Call, s.Threads[0].EnterTicks = synth.ID("MPI_Recv"), synth.Ticks(49e9)
		second := segment.RawThread{TID: 9, Call: synth.ID("MPI_Recv"), EnterTicks: synth.Ticks(20e9), ThreadsServed: 1}
		s.Extra = []synth.Section{synth.NewSection(segment.SectionKindThread, 1, second)}
		return s
	}}
	path := filepath.Join(t.TempDir(), "1-2.seg")
	s := j.Segment(0)
	if err := errors.Join(s.Live(os.Getpid()), os.WriteFile(path, s.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := Load(path, Options{TotalsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	rank := r.Ranks[0]
	if len(rank.Current) != 2 || rank.Current[1].Thread != 9 || rank.Current[1].SinceNS <= rank.Current[0].SinceNS {
		t.Fatalf("calls in progress: %+v", rank.Current)
	}
	completed := uint64(0)
	for _, f := range r.Functions {
		if !f.setup {
			completed += f.TimeNS
		}
	}
	if want := max(completed+rank.Current[0].SinceNS, rank.Current[1].SinceNS); rank.BusyNS != want {
		t.Errorf("busy %d ns, want %d", rank.BusyNS, want)
	}
}
