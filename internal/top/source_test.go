package top

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
)

// live lays out a job whose ranks all are this process, so that they are alive.
// They are told apart by their nodes.
func live(t *testing.T, base, id string, ranks int) (dir string) {
	t.Helper()
	j := synth.Job{ID: id, Ranks: ranks, RanksPerNode: 1, Sampled: true}
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		if err := s.Live(os.Getpid()); err != nil {
			t.Fatal(err)
		}
		if rank > 0 {
			th := &s.Threads[0]
			th.Call, th.Address, th.EnterTicks = synth.ID("MPI_Allreduce"), synth.ModuleBase+0x13a0, synth.Ticks(55e9)
			th.Details, th.CommHandle = 1, 0x100
		}
		return s
	}
	dir = filepath.Join(base, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for rank := range ranks {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+rank))+".seg"), j.Segment(rank).Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSegments reads a job that lives, all of it.
func TestSegments(t *testing.T) {
	base := t.TempDir()
	dir := live(t, base, "j1", 4)
	s := NewSegments([]string{base})
	jobs, problems := s.Jobs()
	if len(jobs) != 1 || len(problems) != 0 || jobs[0].Alive != 4 || jobs[0].Path != dir || !strings.Contains(jobs[0].Command, "heat") || jobs[0].Start.IsZero() {
		t.Fatalf("jobs %+v, problems %q", jobs, problems)
	}
	shot, err := s.Snapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(shot.Ranks) != 4 || shot.Job.State != report.StateRunning || len(shot.Waits) != 1 || len(shot.Problems) > 0 {
		t.Fatalf("%+v", shot)
	}
	w := shot.Waits[0]
	if w.Name != "MPI_Allreduce" || len(w.Ranks) != 3 || len(w.Missing) != 1 || w.Missing[0].Rank != 0 || w.SinceNS < 5e9 || shot.states()[0] != stateLate || shot.states()[2] != stateWaits {
		t.Errorf("wait %+v, states %q", w, shot.states())
	}
	rank := &shot.Ranks[2]
	if in := rank.longest(); in == nil || in.Comm != "MPI_COMM_WORLD" || rank.BusyNS <= in.SinceNS || rank.WallNS < 60e9 || rank.share() <= 0 {
		t.Errorf("rank %+v", rank)
	}
	d, err := s.Detail(dir, rank.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d.ID != rank.ID || len(d.Functions) == 0 || len(d.Peers) == 0 || len(d.Places) == 0 || d.Requests.Started == 0 {
		t.Errorf("detail %+v", d)
	}
	late, err := s.Lateness(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(late.Places) == 0 {
		t.Errorf("late %+v", late)
	}
}

// TestActing: what the ranks of a job carry themselves is summed up; where one of
// them only observes it says why.
func TestActing(t *testing.T) {
	for reason, off := range map[string]string{"": "", "no room": "no room"} {
		job := synth.Job{ID: "j1", Ranks: 2, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
			a := segment.Act{State: segment.ActStateActs, Counted: true, Counts: segment.ActCounts{segment.ActEagerMessages: 6, segment.ActRendezvousMessages: 2, segment.ActReadMessages: 2,
				segment.ActEagerBytes: 30, segment.ActMessagesByArguments: 2, segment.ActBytesOfCommunicators: 10, segment.ActFallBacks: 1, segment.ActWrongMessages: uint64(rank)}}
			if reason != "" && rank == 1 {
				a = segment.Act{State: segment.ActStateObserves, Reason: reason}
			}
			s.Extra = synth.Act(a)
			return s
		}}
		dir, err := job.WriteSegments(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		shot, err := NewSegments(nil).Snapshot(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := &Act{Off: off, Messages: 0.8, Bytes: 0.75, Ways: []Way{{"eager", 0.75}, {"read", 0.25}}, FallBacks: 2, Wrong: 1}
		if off != "" {
			want.FallBacks, want.Wrong = 1, 0
		}
		if got := shot.Job.Act; !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", reason, got, want)
		}
	}
}

// TestVanishing: a job, a rank and a directory that go away while they are
// read are no error to stop at.
func TestVanishing(t *testing.T) {
	base := t.TempDir()
	dir := live(t, base, "j1", 3)
	s := NewSegments([]string{base, filepath.Join(base, "none")})
	shot, err := s.Snapshot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "b.seg")), os.Truncate(filepath.Join(dir, "c.seg"), 9000),
		os.Symlink("a.seg", filepath.Join(dir, "d.seg")), os.WriteFile(filepath.Join(dir, "e.seg"), []byte("\x1b[2J"), 0o600),
		os.WriteFile(filepath.Join(dir, "\x1b[31m.seg"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	part, err := s.Snapshot(dir)
	if err != nil || len(part.Ranks) != 1 || len(part.Problems) != 4 {
		t.Fatalf("%v, %d ranks, problems %q", err, len(part.Ranks), part.Problems)
	}
	m := NewModel(Options{Job: dir}).Resize(200, 60).Take(Reading{Want: Want{Job: dir}, Snapshot: part})
	checkScreen(t, m, m.Text())
	if _, err := s.Detail(dir, shot.Ranks[1].ID); err == nil {
		t.Error("a rank whose segment is gone was read")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(dir); !errors.Is(err, ErrGone) {
		t.Errorf("error %v, want that it is gone", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(dir); !errors.Is(err, ErrGone) {
		t.Errorf("error %v, want that nothing is left", err)
	}
	if last, path := s.Result(dir); last != nil || path != "" {
		t.Errorf("a result of a job that left none: %s", path)
	}
	if jobs, problems := s.Jobs(); len(jobs)+len(problems) > 0 {
		t.Errorf("jobs %+v, problems %q", jobs, problems)
	}
}

// TestWrongDirectory: a directory of somebody else, or that others may write.
func TestWrongDirectory(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	live(t, base, "j1", 1)
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	jobs, problems := NewSegments([]string{base, link}).Jobs()
	if len(jobs) > 0 || len(problems) != 2 || !strings.Contains(problems[0], "may be written by others") || !strings.Contains(problems[1], "not a directory") {
		t.Errorf("jobs %+v, problems %q", jobs, problems)
	}
}

// TestResult finds what a job has left where its ranks were told to leave it.
func TestResult(t *testing.T) {
	base, result := t.TempDir(), filepath.Join(t.TempDir(), "result")
	dir := live(t, base, "j1", 2)
	s := NewSegments([]string{base})
	if _, err := s.Snapshot(dir); err != nil {
		t.Fatal(err)
	}
	s.results[dir] = resultSpot{result, "j1"} // this process has no such environment
	if err := errors.Join((synth.Job{ID: "j1", Ranks: 2, RanksPerNode: 1, Sampled: true}).Write(result), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	r := &reader{source: s}
	reading := r.read(Want{Job: dir, Totals: true, Late: true})
	if !reading.Gone || reading.Result != result || reading.Snapshot == nil || reading.Snapshot.Job.State != report.StateFinished || len(reading.Problems) > 0 || reading.Lateness == nil {
		t.Fatalf("%+v", reading)
	}
	if d, err := s.Detail(dir, reading.Snapshot.Ranks[1].ID); err != nil || d.ID.Rank != 1 {
		t.Errorf("detail %+v, error %v", d, err)
	}
	m := NewModel(Options{Job: dir}).Take(Reading{Want: Want{Job: dir}, Snapshot: reading.Snapshot, Gone: true, Result: result})
	if !strings.Contains(m.Ended(), "finished after 60.0 s; see: mpitrace report "+result) || m.Want().Totals {
		t.Errorf("ended %q, wants %+v", m.Ended(), m.Want())
	}
	s.results[dir] = resultSpot{result, "another"}
	if last, _ := s.Result(dir); last != nil {
		t.Error("the result of another job was taken")
	}
}

// TestResultDir looks into the environment of a rank.
func TestResultDir(t *testing.T) {
	at := Snapshot{Job: Job{ID: "j1"}, Ranks: []Rank{{State: report.StateDied, ID: RankID{PID: 1 << 30}}, {State: report.StateRunning, ID: RankID{PID: uint32(os.Getpid())}}}}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(cwd, "mpitrace-j1")
	if dir := os.Getenv("MPITRACE_OUTPUT"); dir != "" {
		want = dir
	}
	if got := resultDir(&at); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	at.Ranks[1].ID.PID = 1 << 30
	if got := resultDir(&at); got != "" {
		t.Errorf("%s, of a process that is no more", got)
	}
}

// counting is a Source that counts what is asked of it.
type counting struct {
	*Segments
	late atomic.Int32
}

func (c *counting) Lateness(job string) (*Lateness, error) {
	c.late.Add(1)
	return &Lateness{At: time.Now(), Took: time.Second}, nil
}

// TestLateDue: who is late is worked out at the first reading, and not again
// until it has become cheap beside the refreshes.
func TestLateDue(t *testing.T) {
	base := t.TempDir()
	dir := live(t, base, "j1", 2)
	source := &counting{Segments: NewSegments([]string{base})}
	r := &reader{source: source}
	for range 5 {
		if got := r.read(Want{Job: dir, Totals: true}); got.Snapshot == nil {
			t.Fatalf("%+v", got)
		}
	}
	if n := source.late.Load(); n != 1 {
		t.Errorf("worked out %d times in 5 readings, want once", n)
	}
	r.lateAt = r.lateAt.Add(-latePeriod)
	r.read(Want{Job: dir, Totals: true})
	if n := source.late.Load(); n != 1 {
		t.Errorf("worked out after a minute although it takes a second")
	}
	r.lateAt = r.lateAt.Add(-lateCostOdds * time.Second)
	r.read(Want{Job: dir, Totals: true})
	r.read(Want{Job: dir, Totals: true, Late: true})
	r.lateAt = r.lateAt.Add(-lateCostLooking * time.Second)
	r.read(Want{Job: dir, Totals: true, Late: true})
	if n := source.late.Load(); n != 3 {
		t.Errorf("worked out %d times, want 3", n)
	}
}

// TestRates: no reading makes a negative or absurd rate.
func TestRates(t *testing.T) {
	id := RankID{"w", 0, "n", 1}
	rank := func(wall, busy, calls, bytes uint64) Rank {
		return Rank{ID: id, WallNS: wall, BusyNS: busy, Calls: calls, Bytes: bytes}
	}
	const s = 1_000_000_000
	for name, test := range map[string]struct {
		old, now Rank
		want     Rate
	}{
		"usual":             {rank(10*s, 2*s, 100, 1000), rank(12*s, 3*s, 300, 5000), Rate{0.5, 100, 2000}},
		"nothing":           {rank(10*s, 2*s, 100, 1000), rank(12*s, 2*s, 100, 1000), Rate{0, 0, 0}},
		"a little backward": {rank(10*s, 2*s, 100, 1000), rank(12*s, 2*s-s/100, 100, 1000), Rate{0, 0, 0}},
		"backward":          {rank(10*s, 9*s, 100, 1000), rank(12*s, 2*s, 50, 999), noRate},
		"clock backward":    {rank(10*s, 2*s, 100, 1000), rank(9*s, 2*s, 300, 5000), Rate{-1, 100, 2000}},
		"busier than time":  {rank(10*s, 2*s, 100, 1000), rank(12*s, 9*s, 100, 1000), Rate{1, 0, 0}},
		"torn":              {rank(10*s, 2*s, 100, 1000), rank(12*s, 3*s, 1<<63, 1<<63), Rate{0.5, -1, -1}},
		"another process":   {Rank{ID: RankID{"w", 0, "n", 2}}, rank(12*s, 3*s, 300, 5000), noRate},
	} {
		got := rates(&Snapshot{At: start, Ranks: []Rank{test.old}}, &Snapshot{At: start.Add(2 * time.Second), Ranks: []Rank{test.now}})
		if len(got) != 1 || got[0] != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	same := &Snapshot{At: start, Ranks: []Rank{rank(1, 1, 1, 1)}}
	if got := rates(same, same); got[0] != noRate {
		t.Errorf("no time between: %v", got)
	}
	if got := rates(nil, same); got[0] != noRate {
		t.Errorf("no earlier snapshot: %v", got)
	}
}

// TestBatch writes plain text until the job has ended.
func TestBatch(t *testing.T) {
	base := t.TempDir()
	dir := live(t, base, "j1", 3)
	var out strings.Builder
	if err := Batch(NewSegments([]string{base}), Options{Job: dir, Color: true, Sort: "state", Filter: "late"}, 100, true, &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "1 late") || !strings.Contains(text, "\n     0 late  ") || strings.Contains(text, "\x1b") || strings.Contains(text, ">") || strings.Count(text, "MPI_Allreduce heat") > 0 {
		t.Errorf("%s", text)
	}
	ended, err := (synth.Job{ID: "j2", Ranks: 2}).WriteSegments(base)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := Batch(NewSegments([]string{base}), Options{Job: ended, Interval: time.Hour}, 100, false, &out); err != nil || !strings.Contains(out.String(), "finished after 60.0 s") {
		t.Errorf("%v: %s", err, out.String())
	}
	for path, want := range map[string]string{filepath.Join(base, "none"): "no longer in shared memory", filepath.Join(dir, "a.seg") + "x": "no longer"} {
		if err := Batch(NewSegments([]string{base}), Options{Job: path}, 100, true, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
