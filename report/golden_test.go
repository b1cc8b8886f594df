package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// load writes the job to a directory and reads it.
func load(t *testing.T, j synth.Job, o Options) *Report {
	t.Helper()
	dir := t.TempDir()
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	r, err := Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// unfinished makes a rank one that was killed in its 50th second.
func unfinished(s *synth.Segment) *synth.Segment {
	h := &s.Header
	h.State = segment.StateRunning
	h.FinalizeEnterTicks, h.FinalizeExitTicks, h.ExitTicks = 0, 0, 0
	h.LastTicks = synth.Ticks(50e9)
	return s
}

// in puts the first thread of a rank into a call.
func in(s *synth.Segment, name string, offset, atNS, comm uint64, peer, tag int32) *synth.Segment {
	t := &s.Threads[0]
	t.Call, t.Address, t.EnterTicks = synth.ID(name), synth.ModuleBase+offset, synth.Ticks(atNS)
	t.Details, t.CommHandle, t.Peer, t.Tag = 1, comm, peer, tag
	return s
}

// Communicators of the solver.
const (
	commWorld = 0x100
	commGrid  = 0x300
)

// killed is a job of which rank 3 was outside MPI when all were killed, and
// rank 5 left nothing.
func killed() synth.Job {
	return synth.Job{ID: "killed", Ranks: 8, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
		switch rank {
		case 3:
			return unfinished(s)
		case 5:
			return nil
		}
		return in(unfinished(s), "MPI_Allreduce", 0x13a0, 49e9+uint64(rank)*1e6, commWorld, -1, -1)
	}}
}

// aborted is a job in which rank 1 called MPI_Abort.
func aborted() synth.Job {
	return synth.Job{ID: "aborted", Ranks: 4, RanksPerNode: 2, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
		unfinished(s)
		if rank == 1 {
			s.Header.State, s.Header.AbortCode = segment.StateAborted, 3
			return in(s, "MPI_Abort", 0x1500, 50e9, commWorld, -1, -1)
		}
		return s
	}}
}

// deadlocked is a job in which each rank receives from the next.
func deadlocked() synth.Job {
	return synth.Job{ID: "deadlocked", Ranks: 3, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
		return in(unfinished(s), "MPI_Recv", 0x1700, 20e9, commGrid, int32((rank+1)%3), 7)
	}}
}

// blemished is a finished job about which there is much to say.
func blemished() synth.Job {
	return synth.Job{ID: "blemished", Ranks: 4, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
		t, h := &s.Threads[0], &s.Header
		switch rank {
		case 0:
			t.SitesDropped, t.RequestsDropped, t.ClockDropped, t.GuardRepairs, t.ReceivesEstimated = 11, 12, 13, 14, 15
			s.Sites = append(s.Sites, segment.RawSite{Call: uint16(synth.ID("MPI_Send")), Flags: segment.SiteFlagOther, Calls: 11, Ticks: 4000, MaxTicks: 900})
			s.Functions[0].Errors = 2
		case 1:
			h.Flags = segment.HeaderFlagPrivate | segment.HeaderFlagKilled | segment.HeaderFlagSessions
			synth.SetText(h.Fault[:], "no place for \x1b[31m a record")
		case 2:
			h.FunctionsIntercepted, h.Measuring, h.ClockSource = 400, 0, segment.ClockSourceVDSO
			s.Extra = []synth.Section{synth.NewSection[segment.RawPeer](segment.SectionKindPeers, 1)}
			s.Extra[0].Dropped = 6
		case 3:
			h.World = [64]byte{'z'}
			h.WorldRank, h.WorldSize = 0, 2
		}
		return s
	}}
}

// phased is a job with two phases and stacks.
func phased() synth.Job {
	return synth.Job{ID: "phased", Ranks: 4, Mutate: func(_ int, s *synth.Segment) *synth.Segment {
		s.Phases = append(s.Phases, segment.RawPhase{Level: 3, Entered: 2, Ticks: 20e9})
		synth.SetText(s.Phases[1].Name[:], "assembly")
		site := s.Sites[6]
		site.Phase, site.Stack = 1, 1
		s.Sites = append(s.Sites, site)
		s.Stacks = []segment.RawStack{{Depth: 2, Frames: [16]uint64{synth.ModuleBase + 0x13a0, 0x10}}}
		return s
	}}
}

// TestGolden keeps every kind of report as a file to look at.
func TestGolden(t *testing.T) {
	utc := View{Location: time.UTC}
	with := func(change func(v *View)) View {
		v := utc
		change(&v)
		return v
	}
	for _, test := range []struct {
		name string
		job  synth.Job
		view View
	}{
		{"finished", synth.Job{ID: "finished", Ranks: 64, RanksPerNode: 16}, utc},
		{"finished-ascii", synth.Job{ID: "finished", Ranks: 64}, with(func(v *View) { v.ASCII = true })},
		{"finished-color", synth.Job{ID: "finished", Ranks: 2}, with(func(v *View) { v.Color = true })},
		{"finished-narrow", synth.Job{ID: "finished", Ranks: 300}, with(func(v *View) { v.Width = 80 })},
		{"single", synth.Job{ID: "single", Ranks: 1}, utc},
		{"killed", killed(), utc},
		{"aborted", aborted(), utc},
		{"deadlocked", deadlocked(), utc},
		{"blemished", blemished(), utc},
		{"by-call", synth.Job{ID: "j", Ranks: 8}, with(func(v *View) { v.By = "call"; v.Sort = "calls" })},
		{"by-site", phased(), with(func(v *View) { v.By = "site"; v.Top = 6 })},
		{"by-peer", synth.Job{ID: "j", Ranks: 8}, with(func(v *View) { v.By = "peer"; v.Top = 5 })},
		{"by-comm", synth.Job{ID: "j", Ranks: 8}, with(func(v *View) { v.By = "comm" })},
		{"by-type", synth.Job{ID: "j", Ranks: 8}, with(func(v *View) { v.By = "type" })},
		{"by-rank", killed(), with(func(v *View) { v.By = "rank"; v.Sort = "time" })},
		{"by-phase", phased(), with(func(v *View) { v.By = "phase" })},
		{"sampled", sampled(), utc},
		{"sampled-narrow", sampled(), with(func(v *View) { v.Width = 80; v.ASCII = true })},
		{"sampled-single", synth.Job{ID: "single", Ranks: 1, Sampled: true}, utc},
		{"traced", traced(), utc},
		{"apart", apart(), utc},
		{"jumping", jumping(), utc},
		{"by-arrival", sampled(), with(func(v *View) { v.By = "arrival" })},
		{"by-arrival-apart", apart(), with(func(v *View) { v.By = "arrival" })},
		{"by-reuse", sampled(), with(func(v *View) { v.By = "reuse" })},
		{"by-overlap", sampled(), with(func(v *View) { v.By = "overlap" })},
		{"by-overlap-traced", traced(), with(func(v *View) { v.By = "overlap" })},
		{"by-arrival-none", phased(), with(func(v *View) { v.By = "arrival" })},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := load(t, test.job, Options{}).WriteText(&out, test.view); err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(out.String(), "\n") {
				if !test.view.Color && width(line) > test.view.width() {
					t.Errorf("line %d has %d columns: %s", i+1, width(line), line)
				}
				if test.view.ASCII && strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
					t.Errorf("line %d is not ASCII: %s", i+1, line)
				}
			}
			// The sections on arrivals, buffers and requests may go beyond.
			answer, _, _ := strings.Cut(out.String(), "\nmpitrace itself: ")
			if n := strings.Count(answer, "\n") + 1; test.view.By == "" && test.name != "blemished" && n > 40 {
				t.Errorf("the answer has %d lines", n)
			}
			golden.Compare(t, test.name+".txt", out.Bytes())
		})
	}
}

// TestGoldenMachine keeps JSON and CSV.
func TestGoldenMachine(t *testing.T) {
	r := load(t, phased(), Options{Detail: true})
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "phased.json", out.Bytes())
	s := load(t, traced(), Options{Detail: true})
	out.Reset()
	if err := s.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "traced.json", out.Bytes())
	for _, by := range Views() {
		out.Reset()
		if slices.Contains([]string{"arrival", "reuse", "overlap"}, by) {
			r = s
		}
		if err := r.WriteCSV(&out, View{By: by}); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, by+".csv", out.Bytes())
	}
}

// TestGoldenDiff compares two jobs.
func TestGoldenDiff(t *testing.T) {
	slower := synth.Job{ID: "b", Ranks: 4, Mutate: func(_ int, s *synth.Segment) *synth.Segment {
		s.Header.FinalizeEnterTicks += 2 * 6e9
		s.Sites[6].Ticks *= 2
		s.Sites = append(s.Sites, segment.RawSite{Address: synth.ModuleBase + 0x1800, Module: 1, Call: uint16(synth.ID("MPI_Barrier")), Calls: 3, Ticks: 3000})
		return s
	}}
	d := Diff{Before: load(t, synth.Job{ID: "a", Ranks: 4}, Options{}), After: load(t, slower, Options{}), Names: [2]string{"before", "after"}}
	var out bytes.Buffer
	if err := d.WriteText(&out, View{Location: time.UTC}); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "diff.txt", out.Bytes())
	m, err := d.Metric("wall")
	if err != nil || m.Change() < 0.0999 || m.Change() > 0.1001 {
		t.Errorf("wall time changed by %v, want 0.1: %v", m.Change(), err)
	}
	if _, err := d.Metric("beauty"); err == nil {
		t.Error("an unknown metric is accepted")
	}
}

// TestLive reports a job in shared memory whose processes are gone, by the
// name of the job.
func TestLive(t *testing.T) {
	base := t.TempDir()
	dir, err := deadlocked().WriteSegments(base)
	if err != nil {
		t.Fatal(err)
	}
	path, said, err := Find("deadlocked", t.TempDir(), []string{base}, false)
	if err != nil || path != dir || !strings.Contains(said, "shared memory") {
		t.Fatalf("found %q (%s): %v", path, said, err)
	}
	r, err := Load(path, Options{})
	if err != nil || r.Job.State != StateDied || len(r.Stuck) != 1 || len(r.Stuck[0].Ranks) != 3 {
		t.Errorf("state %s, stuck %+v: %v", r.Job.State, r.Stuck, err)
	}
	if err := r.WriteText(io.Discard, View{}); err != nil {
		t.Error(err)
	}
}

// TestFind chooses the newest of what there is.
func TestFind(t *testing.T) {
	dir, base := t.TempDir(), t.TempDir()
	if _, _, err := Find("", dir, []string{base}, false); err == nil || !strings.Contains(err.Error(), "mpitrace run") {
		t.Errorf("nothing there: %v", err)
	}
	if _, _, err := Find("nonsense", dir, []string{base}, false); err == nil {
		t.Error("an unknown name is accepted")
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Find("", dir, []string{base}, true); err == nil || !strings.Contains(err.Error(), "may be written by others") {
		t.Errorf("a directory that is not looked through: %v", err)
	}
	if err := os.Chmod(base, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := killed().WriteSegments(base); err != nil {
		t.Fatal(err)
	}
	if path, _, err := Find("", dir, []string{base}, false); err != nil || path != filepath.Join(base, "killed") {
		t.Errorf("found %s: %v", path, err)
	}
	for i, name := range []string{"old", "new [1]", "empty"} {
		full := filepath.Join(dir, name)
		if err := os.Mkdir(full, 0o755); err != nil {
			t.Fatal(err)
		}
		if name != "empty" {
			if err := (synth.Job{ID: name, Ranks: 1}).Write(full); err != nil {
				t.Fatal(err)
			}
		}
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(full, at, at); err != nil {
			t.Fatal(err)
		}
	}
	path, said, err := Find("", dir, []string{base}, false)
	if err != nil || path != filepath.Join(dir, "new [1]") || !strings.Contains(said, "newest") {
		t.Errorf("found %s (%s): %v", path, said, err)
	}
	if path, said, err := Find("", dir, []string{base}, true); err != nil || path != filepath.Join(base, "killed") || !strings.Contains(said, "no process") {
		t.Errorf("--live found %s (%s): %v", path, said, err)
	}
	if _, _, err := Find(filepath.Join(dir, "old"), dir, []string{base}, true); err == nil || !strings.Contains(err.Error(), "leave out --live") {
		t.Errorf("--live takes a result for a job in shared memory: %v", err)
	}
	for _, name := range []string{"killed", filepath.Join(base, "killed")} {
		if path, _, err := Find(name, dir, []string{base}, true); err != nil || path != filepath.Join(base, "killed") {
			t.Errorf("%s, --live: found %s: %v", name, path, err)
		}
	}
}

// TestPack reports the same from a packed file as from the directory.
func TestPack(t *testing.T) {
	dir := t.TempDir()
	if err := killed().Write(dir); err != nil {
		t.Fatal(err)
	}
	job := `{"command":["mpirun","-n","8","./heat"],"start":"2026-01-02T09:29:58.5Z","end":"2026-01-02T09:31:00Z","exit_status":137,"signal":"SIGKILL"}`
	if err := os.WriteFile(filepath.Join(dir, "job.json"), []byte(job), 0o644); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(t.TempDir(), "p.mtn")
	if n, problems, err := Pack(dir, packed, "test"); n != 7 || len(problems) != 0 || err != nil {
		t.Fatalf("%d packed, %q: %v", n, problems, err)
	}
	if _, _, err := Pack(dir, packed, "test"); err == nil {
		t.Error("a file was replaced")
	}
	var texts [2]bytes.Buffer
	for i, path := range []string{dir, packed} {
		r, err := Load(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.WriteText(&texts[i], View{Location: time.UTC}); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0].String() != texts[1].String() {
		t.Errorf("packed:\n%s\ndirectory:\n%s", &texts[1], &texts[0])
	}
	golden.Compare(t, "killed-run.txt", texts[1].Bytes())
}

// TestWriteSymbols keeps source lines when the program is gone.
func TestWriteSymbols(t *testing.T) {
	dir := t.TempDir()
	if err := (synth.Job{ID: "j", Ranks: 2}).Write(dir); err != nil {
		t.Fatal(err)
	}
	lines := func() string {
		r, err := Load(dir, Options{Symbols: symbols.New(symbols.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, s := range r.Sites {
			fmt.Fprintln(&out, s.Function.Name, r.place(s))
		}
		return out.String()
	}
	before := lines()
	if !strings.Contains(before, "MPI_Waitall heat.c:97 (exchange_halo)") {
		t.Errorf("no lines:\n%s", before)
	}
	if err := WriteSymbols(dir); err != nil {
		t.Fatal(err)
	}
	if after := lines(); after != before {
		t.Errorf("saved:\n%s\nbefore:\n%s", after, before)
	}
	if err := os.WriteFile(filepath.Join(dir, "symbols.json"), []byte(`{"schema":7}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := Load(dir, Options{}); err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "newer") {
		t.Errorf("a newer symbols.json: %v, %q", err, r.Problems)
	}
}

// TestRanks restricts a report to some ranks.
func TestRanks(t *testing.T) {
	ranks, err := ParseRanges("1,3-4")
	if err != nil {
		t.Fatal(err)
	}
	r := load(t, synth.Job{ID: "j", Ranks: 8}, Options{Ranks: ranks, Detail: true})
	if len(r.Ranks) != 3 || r.Ranks[2].Rank != 4 || len(r.Job.MissingRanks) != 0 {
		t.Errorf("%d ranks, missing %v", len(r.Ranks), r.Job.MissingRanks)
	}
	var out bytes.Buffer
	if err := r.WriteText(&out, View{By: "peer", Location: time.UTC}); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "rank-peers.txt", out.Bytes())
	for _, bad := range []string{"a", "3-1", "-1", "1,,2", "1-"} {
		if _, err := ParseRanges(bad); err == nil {
			t.Errorf("ranks %q are accepted", bad)
		}
	}
	dir := t.TempDir()
	if err := (synth.Job{ID: "j", Ranks: 2}).Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, Options{Ranks: Ranges{{77, 77}}}); err == nil {
		t.Error("ranks that do not exist give a report")
	}
}
