package exporter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// rankCollector: the ranks of each job that the others wait for most, or all
// if the reader asks for them.
type rankCollector struct{}

func (rankCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		for _, r := range worst(j, p.Worst) {
			rank := strconv.Itoa(int(r.Rank))
			out.job(rankMPISeconds, j, seconds(r.MPINS), rank, r.World)
			out.job(rankSeconds, j, seconds(r.WallNS), rank, r.World)
			if j.Arrivals == nil {
				continue
			}
			a := j.Arrivals.Ranks[Seat{r.World, r.Rank}]
			out.job(rankWaitSeconds, j, nanoseconds(a.WaitingNS), rank, r.World)
			out.job(rankCausedWaitSeconds, j, nanoseconds(a.CausedNS), rank, r.World)
			out.job(rankLateRatio, j, a.LateShare, rank, r.World)
		}
	}
}

// worst are the k ranks that caused most waiting, or all if k is negative. A
// rank that nobody was seen to wait for comes by the least share of MPI time:
// others wait while it works. Of a rank that comes twice, which only a damaged
// or forged segment can do, the first counts.
func worst(j *Job, k int) []*Process {
	seen := map[Seat]bool{}
	var ranks []*Process
	for i := range j.Ranks {
		r := &j.Ranks[i]
		if seat := (Seat{r.World, r.Rank}); r.Rank >= 0 && !seen[seat] {
			seen[seat] = true
			ranks = append(ranks, r)
		}
	}
	caused := func(r *Process) float64 {
		if j.Arrivals == nil {
			return 0
		}
		return j.Arrivals.Ranks[Seat{r.World, r.Rank}].CausedNS
	}
	slices.SortFunc(ranks, func(a, b *Process) int {
		return cmp.Or(-cmp.Compare(caused(a), caused(b)),
			cmp.Compare(a.share(), b.share()),
			strings.Compare(a.World, b.World), cmp.Compare(a.Rank, b.Rank))
	})
	if k >= 0 {
		ranks = ranks[:min(k, len(ranks))]
	}
	return ranks
}
