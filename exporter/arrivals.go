package exporter

import (
	"cmp"
	"math"
	"slices"

	"github.com/mpitrace/mpitrace/arrival"
)

// Arrivals is how the ranks of a job on one node arrived at collective
// operations. Times are nanoseconds, extrapolated from samples.
type Arrivals struct {
	Sampled   int     // operations
	P50, P95  float64 // arrival of the last rank less that of the first
	WaitingNS float64 // of all ranks for others
	LateShare float64 // of the operations, those that the rank that is last most often entered last
	Ranks     map[Seat]RankArrivals
}

// Seat is a rank of a world.
type Seat struct {
	World string
	Rank  int32
}

// RankArrivals is the part of one rank.
type RankArrivals struct{ WaitingNS, CausedNS, LateShare float64 }

// ArrivalsOf sums a result up over functions and communicators; each sample
// stands for as many operations as its class has of it.
func ArrivalsOf(r *arrival.Result) *Arrivals {
	out := &Arrivals{Ranks: map[Seat]RankArrivals{}}
	var spreads []weighted
	all := 0.0
	for _, c := range r.Classes {
		if c.Sampled == 0 {
			continue
		}
		weight := float64(c.Instances) / float64(c.Sampled)
		all += float64(c.Instances)
		out.Sampled += c.Sampled
		out.WaitingNS += c.Waiting.NS
		for _, ns := range c.WorstNS {
			spreads = append(spreads, weighted{ns, weight})
		}
		for _, rank := range c.Ranks {
			seat := Seat{c.World, rank.Rank}
			sum := out.Ranks[seat]
			sum.WaitingNS += rank.WaitingNS
			sum.CausedNS += rank.CausedNS
			sum.LateShare += float64(rank.Last) * weight // divided below
			out.Ranks[seat] = sum
		}
	}
	for seat, rank := range out.Ranks {
		rank.LateShare = ratio(rank.LateShare, all)
		out.Ranks[seat] = rank
		out.LateShare = max(out.LateShare, rank.LateShare)
	}
	slices.SortFunc(spreads, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	out.P50, out.P95 = quantile(spreads, 0.5), quantile(spreads, 0.95)
	return out
}

// weighted is a value that stands for so many.
type weighted struct{ value, weight float64 }

// quantile of ascending values by nearest rank; 0 without any.
func quantile(sorted []weighted, q float64) float64 {
	total := 0.0
	for _, w := range sorted {
		total += w.weight
	}
	below := 0.0
	for _, w := range sorted {
		// The product may be rounded up past a whole number of equal weights.
		if below += w.weight; below >= q*total-1e-9*total {
			return w.value
		}
	}
	return 0
}

// arrivalCollector: how unevenly ranks arrive at collective operations.
type arrivalCollector struct{}

func (arrivalCollector) Update(p *Page, out *sink) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		a := j.Arrivals
		if a == nil || a.Sampled == 0 {
			continue
		}
		out.job(jobWaitSeconds, j, nanoseconds(a.WaitingNS))
		out.job(jobImbalanceSeconds, j, nanoseconds(a.P50), "p50")
		out.job(jobImbalanceSeconds, j, nanoseconds(a.P95), "p95")
		out.job(jobLateRankRatio, j, a.LateShare)
		out.job(jobCollectivesSampled, j, float64(a.Sampled))
	}
}

// nanoseconds as seconds; what is no number is 0.
func nanoseconds(ns float64) float64 {
	if math.IsNaN(ns) || math.IsInf(ns, 0) {
		return 0
	}
	return ns / 1e9
}
