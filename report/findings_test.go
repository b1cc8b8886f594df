package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// twoPrograms moves the second half of the ranks into a world of its own, so long after
// the first.
func twoPrograms(ns uint64) func(int, *synth.Segment) *synth.Segment {
	return func(rank int, s *synth.Segment) *synth.Segment {
		if rank >= 2 {
			synth.SetText(s.Header.World[:], "world-1")
			s.Header.WorldRank -= 2
			s.Header.FirstRealtimeNS += ns
		}
		s.Header.WorldSize = 2
		return s
	}
}

// TestCrowded says that ranks share processors where that is known.
func TestCrowded(t *testing.T) {
	const job = `{"command":"x","host":"node000","processors":2}`
	for _, c := range []struct {
		name, file string
		job        synth.Job
		want       bool
	}{
		{"crowded", job, synth.Job{ID: "j", Ranks: 4}, true},
		{"one for each", job, synth.Job{ID: "j", Ranks: 2}, false},
		{"two programs together", job, synth.Job{ID: "j", Ranks: 4, Mutate: twoPrograms(1e9)}, true},
		{"one after the other", job, synth.Job{ID: "j", Ranks: 4, Mutate: twoPrograms(3600e9)}, false},
		{"other nodes too", job, synth.Job{ID: "j", Ranks: 4, RanksPerNode: 2}, false},
		{"launched elsewhere", strings.Replace(job, "node000", "login", 1), synth.Job{ID: "j", Ranks: 4}, false},
		{"older result", `{"command":"x","host":"node000"}`, synth.Job{ID: "j", Ranks: 4}, false},
	} {
		dir := t.TempDir()
		if err := c.job.Write(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "job.json"), []byte(c.file), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Load(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := findingWith(r, "4 ranks share the 2 processors of node000") != ""; got != c.want {
			t.Errorf("%s: findings %q", c.name, r.Findings)
		}
	}
}

// TestBalanceOfWorlds compares the ranks of each world, not those of programs that
// have nothing to do with each other.
func TestBalanceOfWorlds(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting [4]uint64 // of the ranks, in seconds of their minute
		want    string
	}{
		{"each balanced", [4]uint64{40, 40, 1, 1}, ""},
		{"one of them not", [4]uint64{40, 40, 40, 1}, "unbalanced: rank 0 of world 2 is in MPI"},
	} {
		separate := twoPrograms(3600e9)
		job := synth.Job{ID: "j", Ranks: 4, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
			for i := range s.Sites {
				s.Sites[i].Ticks = 0
			}
			s.Sites[len(s.Sites)-2].Ticks = synth.Ticks(c.waiting[rank]*1e9) - synth.Ticks(0)
			return separate(rank, s)
		}}
		dir := t.TempDir()
		if err := job.Write(dir); err != nil {
			t.Fatal(err)
		}
		r, err := Load(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := findingWith(r, "unbalanced"); (got != "") != (c.want != "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q of shares %+v", c.name, got, r.Job.Share)
		}
		if uneven := strings.Contains(r.Summary(nil).Verdict, "differs much"); uneven != (c.want != "") {
			t.Errorf("%s: %s", c.name, r.Summary(nil).Verdict)
		}
	}
}
