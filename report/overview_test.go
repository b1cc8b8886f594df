package report

import (
	"strings"
	"testing"
)

// TestNothingToJudge: a rank that is still in MPI_Init does not know who it is, and its
// share of time says nothing.
func TestNothingToJudge(t *testing.T) {
	r := &Report{Job: Job{Calls: 3}, Ranks: []*Rank{{Rank: -1, WallNS: 5, Share: 0.01}, {Rank: -1, WallNS: 5}}}
	r.Job.Share = sharesOf(r.Ranks)
	if head := (&writer{r: r, v: &View{}}).shareHead(); !strings.Contains(head, "MPI_Init has not returned") || r.Summary(nil).Verdict != "" {
		t.Errorf("%q, %q", head, r.Summary(nil).Verdict)
	}
	r.Ranks = append(r.Ranks, &Rank{Rank: 2, WallNS: 5, Share: 0.5})
	if s := sharesOf(r.Ranks); s.Mean != 0.5 || s.MinRank != 2 || s.MaxRank != 2 || !r.hasVerdict() {
		t.Errorf("%+v", s)
	}
}
