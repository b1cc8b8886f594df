package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	arrivalTold    = 3 // findings on arrivals
	fewOperations  = 5 // from so few samples only what matters fewTimesMore is told
	fewTimesMore   = 5
	standardErrors = 2 // by which an extrapolation may be too high
)

// arrivalFindings names those that others wait for in collectives.
func (r *Report) arrivalFindings() []finding {
	var out []finding
	for _, g := range r.arrivalGroups() {
		least := g.leastWaiting()
		if g.sampled() < fewOperations {
			least /= fewTimesMore
		}
		if a := g[0]; len(out) < arrivalTold && r.material(least) && a.Worst.Mean > a.BoundNS && !r.restricted {
			out = append(out, finding{g.waiting(), r.arrivalFinding(g)})
		}
	}
	return out
}

// arrivalGroup is one place on all communicators.
type arrivalGroup []*Arrival

func (g arrivalGroup) waiting() (sum uint64) {
	for _, a := range g {
		sum += a.Waiting.NS
	}
	return sum
}

// leastWaiting is what the waiting is at least, for all that samples tell: the
// errors of communicators are independent. One whose error is not known counts
// nothing.
func (g arrivalGroup) leastWaiting() uint64 {
	sum, variance := 0.0, 0.0
	for _, a := range g {
		w := a.Waiting
		if w.ErrorNS < 0 {
			continue
		}
		sum += float64(w.NS)
		variance += float64(w.ErrorNS) * float64(w.ErrorNS)
	}
	return wholeNS(sum - standardErrors*math.Sqrt(variance))
}

// spent is the time in the calls, counted if it can be.
func (g arrivalGroup) spent() uint64 { return cmp.Or(g[0].spentNS, g.blocked()) }

func (g arrivalGroup) sampled() (sum int) {
	for _, a := range g {
		sum += a.Sampled
	}
	return sum
}

func (g arrivalGroup) blocked() (sum uint64) {
	for _, a := range g {
		sum += a.Blocked.NS
	}
	return sum
}

// arrivalGroups puts the communicators of each place together, most waiting
// first.
func (r *Report) arrivalGroups() []arrivalGroup {
	var out []arrivalGroup
	index := map[*Site]int{}
	for _, a := range r.Arrivals {
		i, ok := index[a.Site]
		if !ok {
			i = len(out)
			index[a.Site] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], a)
	}
	slices.SortStableFunc(out, func(x, y arrivalGroup) int {
		switch a, b := x.waiting(), y.waiting(); {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return out
}

func (r *Report) arrivalFinding(g arrivalGroup) string {
	a := g[0]
	all := part(g.waiting(), g.spent())
	if len(g) > 1 {
		return fmt.Sprintf("%s spent in %s at %s, on %d communicators, is waiting for ranks that arrive late", all, a.Function.Name, r.spots(a.sites(), 1), len(g))
	}
	cause := a.Ranks[0]
	if cause.CausedNS*2 <= a.Waiting.NS {
		last, _ := a.lastRank()
		return fmt.Sprintf("%s spent in %s at %s is waiting for the last rank, which changes: rank %d most often, in %s calls%s",
			all, a.Function.Name, r.spots(a.sites(), 1), last.Rank, a.lastShare(&last), a.sampledText())
	}
	return r.lateRank(a, &cause)
}

// lateRank is the finding on a rank that causes most of the waiting.
func (r *Report) lateRank(a *Arrival, cause *ArrivalRank) string {
	place, waiting := r.spot(cause.site), part(cause.CausedNS, arrivalGroup{a}.spent())
	who, comes := fmt.Sprintf("rank %d", cause.Rank), "arrives last"
	if a.rooted {
		who, comes = who+", the root,", "arrives late"
	}
	last, _ := a.lastRank()
	switch {
	case a.Operations == 1:
		return fmt.Sprintf("%s %s at the only %s at %s: %s spent there is waiting for it", who, comes, a.Function.Name, place, waiting)
	case a.rooted:
		return fmt.Sprintf("%s %s at %s: %s spent in its %s %s there is waiting for it", who, comes, place, waiting, countText(a.Operations), calls(a))
	case last.Rank != cause.Rank:
		return fmt.Sprintf("%s %s at %s in only %s %s, but then by much: %s spent there is waiting for it",
			who, comes, place, a.lastShare(cause), calls(a), waiting)
	}
	return fmt.Sprintf("%s %s at %s in %s %s; %s spent there is waiting for rank %d",
		who, comes, place, a.lastShare(cause), calls(a), waiting, cause.Rank)
}

// fewCalls is up to how many calls are counted rather than told in percent.
const fewCalls = 10

// lastShare is in how many of its calls a rank was last.
func (a *Arrival) lastShare(r *ArrivalRank) string {
	if uint64(a.Sampled) == a.Operations && a.Operations <= fewCalls {
		return fmt.Sprintf("%d of %d", r.Last, a.Operations)
	}
	return fmt.Sprintf("%s of %s", percent(r.Share), countText(a.Operations))
}

// part is a time as part of another.
func part(ns, of uint64) string {
	if some, all := duration(ns), duration(of); some != all {
		return some + " of the " + all
	}
	return "all of the " + duration(of)
}

// sites is all places that ranks call it from.
func (a *Arrival) sites() []*Site { return append([]*Site{a.Site}, a.others...) }

// calls names the calls of a place.
func calls(a *Arrival) string {
	return a.Function.Name + " calls" + a.sampledText()
}

// sampledText says how many calls the figures come from, if not from all.
func (a *Arrival) sampledText() string {
	if uint64(a.Sampled) >= a.Operations {
		return ""
	}
	return fmt.Sprintf(" (%s sampled)", countText(uint64(a.Sampled)))
}
