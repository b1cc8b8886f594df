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

	operations float64 // that the sampled ones stand for
	spreads    []weighted
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
	for _, c := range r.Classes {
		if c.Sampled == 0 {
			continue
		}
		weight := float64(c.Instances) / float64(c.Sampled)
		out.operations += float64(c.Instances)
		out.Sampled += c.Sampled
		out.WaitingNS += c.Waiting.NS
		for _, ns := range c.WorstNS {
			out.spreads = append(out.spreads, weighted{ns, weight})
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
		rank.LateShare = ratio(rank.LateShare, out.operations)
		out.Ranks[seat] = rank
	}
	out.finish()
	return out
}

// Plus is these and those of other worlds; either may be nil.
func (a *Arrivals) Plus(other *Arrivals) *Arrivals {
	switch {
	case a == nil:
		return other
	case other == nil:
		return a
	}
	out := &Arrivals{Sampled: a.Sampled + other.Sampled, WaitingNS: a.WaitingNS + other.WaitingNS, Ranks: map[Seat]RankArrivals{},
		operations: a.operations + other.operations, spreads: slices.Concat(a.spreads, other.spreads)}
	for _, part := range [2]*Arrivals{a, other} {
		for seat, rank := range part.Ranks {
			sum := out.Ranks[seat]
			sum.WaitingNS += rank.WaitingNS
			sum.CausedNS += rank.CausedNS
			sum.LateShare += rank.LateShare * ratio(part.operations, out.operations)
			out.Ranks[seat] = sum
		}
	}
	out.finish()
	return out
}

// finish computes what needs all ranks and samples.
func (a *Arrivals) finish() {
	for _, rank := range a.Ranks {
		a.LateShare = max(a.LateShare, rank.LateShare)
	}
	slices.SortFunc(a.spreads, func(x, y weighted) int { return cmp.Compare(x.value, y.value) })
	a.P50, a.P95 = quantile(a.spreads, 0.5), quantile(a.spreads, 0.95)
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
