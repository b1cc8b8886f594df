package arrival

import (
	"cmp"
	"math"
	"slices"
)

// measureClasses computes the figures of all classes.
func (a *Analysis) measureClasses() []*Class {
	var out []*Class
	for i := range a.classes {
		out = append(out, a.measureClass(&a.classes[i]))
	}
	slices.SortStableFunc(out, func(x, y *Class) int {
		return cmp.Or(-cmp.Compare(x.Waiting.NS, y.Waiting.NS), -cmp.Compare(x.Worst.Mean, y.Worst.Mean),
			cmp.Compare(x.World, y.World), cmp.Compare(x.CommID, y.CommID), cmp.Compare(x.Call, y.Call))
	})
	return out
}

// siteKey is where an instance was called: address in a process.
type siteKey struct {
	process uint32
	site    uint16
}

// measureClass goes through the instances that most ranks have recorded.
func (a *Analysis) measureClass(c *class) *Class {
	out := &Class{World: a.worlds[c.world], Call: c.call, Dependency: operationOf(c.call).dependency,
		Level: c.level, Instances: c.least, InstancesMost: c.most, Dropped: c.dropped}
	for i, n := range c.instances {
		in := &a.instances[n]
		if out.Comms == 0 || a.instances[c.instances[i-1]].comm != in.comm {
			out.Comms++
		}
		out.RanksSeen, out.Size = max(out.RanksSeen, int(in.rows)), max(out.Size, int(in.size))
	}
	if out.Comms > 0 {
		out.CommID = a.instances[c.instances[0]].comm
	}
	all := newTally(a)
	sites := map[siteKey]*tally{}
	var members []member
	var shares []share
	for _, n := range c.instances {
		in := &a.instances[n]
		if !a.usable(in, out) {
			continue
		}
		var ok, known bool
		if members, _, ok = a.members(in, members); !ok {
			out.Unaligned++
			continue
		}
		out.sampled = append(out.sampled, n)
		shares, known = a.costs(in, operationOf(c.call), members, shares)
		key := siteKey{members[0].process, members[0].site}
		if sites[key] == nil {
			sites[key] = newTally(a)
		}
		all.add(in, members, shares, known)
		sites[key].add(in, members, shares, known)
	}
	out.Instances = max(out.Instances, uint64(len(out.sampled)))
	out.InstancesMost = max(out.InstancesMost, out.Instances)
	a.finishClass(out, all, sites)
	return out
}

// usable tells whether an instance can be measured, and counts why not.
func (a *Analysis) usable(in *instance, out *Class) bool {
	switch {
	case int(in.rows) < out.RanksSeen || in.rows < 2:
		out.Incomplete++
	case in.impossible:
		out.Impossible++
	default:
		return true
	}
	return false
}

// finishClass turns sums into figures.
func (a *Analysis) finishClass(out *Class, all *tally, sites map[siteKey]*tally) {
	scale := extrapolation{len(out.sampled), float64(out.Instances)}
	out.Figures = all.figures(scale)
	out.WorstNS = all.worst
	for key, t := range sites {
		p := &a.processes[key.process]
		out.Sites = append(out.Sites, &Site{Address: p.sites[key.site], Rank: p.rank, Figures: t.figures(scale)})
	}
	slices.SortFunc(out.Sites, func(x, y *Site) int {
		return cmp.Or(-cmp.Compare(x.Waiting.NS, y.Waiting.NS), -cmp.Compare(x.Sampled, y.Sampled),
			cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Address, y.Address))
	})
}

// extrapolation is from sampled to all instances of a class.
type extrapolation struct {
	sampled int
	all     float64
}

func (e extrapolation) factor() float64 {
	if e.sampled == 0 {
		return 0
	}
	return e.all / float64(e.sampled)
}

// moments of a figure that instances of other sites have as 0.
type moments struct{ sum, squares float64 }

func (m *moments) add(v float64) {
	m.sum += v
	m.squares += v * v
}

// total is the sum over all instances, by the estimator of simple random
// sampling without replacement (Cochran 1977, 2.5).
func (m *moments) total(e extrapolation) Total {
	t := Total{NS: m.sum * e.factor()}
	n := float64(e.sampled)
	switch {
	case n == 0 || n >= e.all:
	case n == 1:
		t.ErrorNS = -1
	default:
		variance := max(0, (m.squares-m.sum*m.sum/n)/(n-1))
		t.ErrorNS = e.all * math.Sqrt(variance/n*(1-n/e.all))
	}
	return t
}

// tally sums the instances of a class or site.
type tally struct {
	analysis       *Analysis
	average, worst []float64
	factors        Factors
	withFactors    int
	balanced       int
	bound          moments
	boundMax       float64

	blocked, waiting, beyond, unclaimed moments
	withoutCost                         int

	ranks       map[uint32]*RankShare
	undecided   int
	undecidedNS float64
	pattern     patternTally
}

func newTally(a *Analysis) *tally { return &tally{analysis: a, ranks: map[uint32]*RankShare{}} }

// add takes one instance.
func (t *tally) add(in *instance, members []member, shares []share, known bool) {
	average, worst, bound := t.analysis.imbalance(members)
	t.average, t.worst = append(t.average, average), append(t.worst, worst)
	t.bound.add(bound)
	t.boundMax = max(t.boundMax, bound)
	if worst == 0 {
		t.balanced++
	}
	t.addFactors(average, worst, in.bytes)
	if !known {
		t.withoutCost++
	}
	last := t.analysis.lastOf(members)
	t.addShares(members, shares)
	if last < 0 {
		t.undecided++
		t.pattern.add(-1, members)
		return
	}
	t.rank(&members[last]).Last++
	t.pattern.add(int32(members[last].process), members)
}

func (t *tally) addFactors(average, worst float64, bytes uint64) {
	model := t.analysis.options.TransferNS
	if model == nil {
		return
	}
	if ns := model(bytes); ns > 0 && !math.IsInf(ns, 1) {
		t.withFactors++
		t.factors.Average += average / ns
		t.factors.Worst += worst / ns
	}
}

// addShares charges the waiting of each member to whom it waited for.
func (t *tally) addShares(members []member, shares []share) {
	var sum share
	for i := range members {
		s, own := &shares[i], t.rank(&members[i])
		sum.blocked += s.blocked
		sum.waiting += s.waiting
		sum.beyond += s.beyond
		sum.unclaimed += s.unclaimed
		own.BlockedNS += s.blocked
		own.WaitingNS += s.waiting
		own.BeyondNS += s.beyond
		if s.cause < 0 {
			t.undecidedNS += s.waiting
			continue
		}
		t.rank(&members[s.cause]).CausedNS += s.waiting
	}
	t.blocked.add(sum.blocked)
	t.waiting.add(sum.waiting)
	t.beyond.add(sum.beyond)
	t.unclaimed.add(sum.unclaimed)
}

func (t *tally) rank(m *member) *RankShare {
	r := t.ranks[m.process]
	if r == nil {
		r = &RankShare{Rank: t.analysis.processes[m.process].rank, CommRank: m.rank}
		t.ranks[m.process] = r
	}
	if !slices.Contains(r.sites, m.site) {
		r.sites = append(r.sites, m.site)
		r.Addresses = append(r.Addresses, t.analysis.processes[m.process].sites[m.site])
	}
	return r
}

// figures turns sums into means and totals.
func (t *tally) figures(e extrapolation) Figures {
	n := float64(max(1, len(t.worst)))
	f := Figures{
		Sampled: len(t.worst), Average: distribution(t.average), Worst: distribution(t.worst), Balanced: t.balanced,
		BoundNS: t.bound.sum / n, BoundMax: t.boundMax,
		Blocked: t.blocked.total(e), Waiting: t.waiting.total(e), Beyond: t.beyond.total(e), Unclaimed: t.unclaimed.total(e),
		WithoutCost: t.withoutCost, Undecided: t.undecided, UndecidedNS: t.undecidedNS * e.factor(),
		Ranks: make([]RankShare, 0, len(t.ranks)),
	}
	if k := float64(t.withFactors); k > 0 {
		f.Factors = &Factors{t.factors.Average / k, t.factors.Worst / k}
	}
	for _, r := range t.ranks {
		s := *r
		s.Share = float64(s.Last) / n
		s.CausedNS, s.WaitingNS = s.CausedNS*e.factor(), s.WaitingNS*e.factor()
		s.BlockedNS, s.BeyondNS = s.BlockedNS*e.factor(), s.BeyondNS*e.factor()
		f.Ranks = append(f.Ranks, s)
	}
	slices.SortFunc(f.Ranks, func(x, y RankShare) int {
		return cmp.Or(-cmp.Compare(x.CausedNS, y.CausedNS), -cmp.Compare(x.Last, y.Last), cmp.Compare(x.Rank, y.Rank))
	})
	f.Pattern = t.pattern.result(t.analysis)
	return f
}

// distribution by nearest rank; sorts v.
func distribution(v []float64) Distribution {
	if len(v) == 0 {
		return Distribution{}
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	quantile := func(q float64) float64 { return v[max(0, int(math.Ceil(q*float64(len(v))))-1)] }
	return Distribution{Mean: sum / float64(len(v)), P50: quantile(0.5), P95: quantile(0.95), Max: v[len(v)-1]}
}
