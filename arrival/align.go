package arrival

import (
	"math"
	"slices"
	"sort"
)

// Status says how the clock of a domain relates to those of others.
type Status string

// The states of a clock.
const (
	StatusReference     Status = "reference"     // others are aligned to it
	StatusAligned       Status = "aligned"       // by samples, see the bound
	StatusAlone         Status = "alone"         // no common operation that needs all ranks was sampled
	StatusContradictory Status = "contradictory" // no line fits: the clock was set, or jumped too often
)

// scratch is what Result works with.
type scratch struct {
	order          []uint32 // rows by instance, then by rank in the communicator
	extents        []extent
	extentOfDomain []uint32 // the one made last, by domain
	comms          []commDomains
}

// extent is when the ranks of one domain were in an operation.
type extent struct {
	domain      int32
	lastArrival int64 // of those that the others need; MinInt64 if none
	firstExit   int64
}

// alignedInstance is an operation that nobody leaves before all have entered.
type alignedInstance struct{ instance, from, to uint32 }

// commDomains is the operations of one communicator that align clocks.
type commDomains struct {
	domains   []int32 // sorted
	instances []alignedInstance
}

// edge is two domains that share operations.
type edge struct{ a, b int32 }

// pairsAllBelow is the number of domains up to which all pairs are tried.
const pairsAllBelow = 32

// align compares the clocks of all domains.
func (a *Analysis) align() {
	a.collectExtents()
	reference := a.referenceDomain()
	for i := range a.domains {
		a.domains[i].parent, a.domains[i].component, a.domains[i].status = -1, int32(i), StatusAlone
	}
	if reference < 0 {
		return
	}
	links := map[edge]*envelope{}
	neighbours := make([][]int32, len(a.domains))
	for _, e := range a.edges(reference) {
		link, ok := a.compare(e.a, e.b)
		if link == nil {
			continue
		}
		if !ok {
			a.mark(e, StatusContradictory)
			continue
		}
		links[e] = link
		neighbours[e.a], neighbours[e.b] = append(neighbours[e.a], e.b), append(neighbours[e.b], e.a)
	}
	a.grow(reference, neighbours, links)
	for i := range a.domains {
		a.grow(int32(i), neighbours, links)
	}
}

func (a *Analysis) mark(e edge, status Status) {
	a.domains[e.a].status, a.domains[e.b].status = status, status
}

// referenceDomain is the one with most ranks.
func (a *Analysis) referenceDomain() int32 {
	best := -1
	for i := range a.domains {
		if best < 0 || len(a.domains[i].processes) > len(a.domains[best].processes) {
			best = i
		}
	}
	return int32(best)
}

// grow makes the tree of shortest sums of bounds from a root (Dijkstra 1959).
func (a *Analysis) grow(root int32, neighbours [][]int32, links map[edge]*envelope) {
	first := &a.domains[root]
	if first.parent >= 0 || first.status == StatusReference {
		return
	}
	if len(neighbours[root]) == 0 {
		if len(a.domains) == 1 {
			first.status = StatusReference
		}
		return
	}
	sum := make([]float64, len(a.domains))
	done := make([]bool, len(a.domains))
	for i := range sum {
		sum[i] = math.Inf(1)
	}
	sum[root], first.status = 0, StatusReference
	for next := nearest(sum, done); next >= 0; next = nearest(sum, done) {
		done[next] = true
		a.domains[next].component = root
		for _, other := range neighbours[next] {
			link, inverse := links[edge{min(next, other), max(next, other)}], next > other
			if s := sum[next] + link.typical(); !done[other] && s < sum[other] {
				sum[other] = s
				d := &a.domains[other]
				d.parent, d.link, d.inverse, d.status = next, link, inverse, StatusAligned
			}
		}
	}
}

// nearest is the domain with the least sum that is not done, -1 without one.
func nearest(sum []float64, done []bool) int32 {
	best := -1
	for i := range sum {
		if !done[i] && !math.IsInf(sum[i], 1) && (best < 0 || sum[i] < sum[best]) {
			best = i
		}
	}
	return int32(best)
}

// typical is the bound in the middle of the job.
func (e *envelope) typical() float64 {
	from, to := e.span()
	_, bound := e.at(from + (to-from)/2)
	return bound
}

// edges is which pairs of domains to compare: all if they are few, else for
// each communicator one domain with all others of it.
func (a *Analysis) edges(reference int32) []edge {
	seen := map[edge]bool{}
	var out []edge
	add := func(x, y int32) {
		e := edge{min(x, y), max(x, y)}
		if x != y && !seen[e] {
			seen[e] = true
			out = append(out, e)
		}
	}
	for i := range a.comms {
		c := &a.comms[i]
		if len(a.domains) <= pairsAllBelow {
			for j, x := range c.domains {
				for _, y := range c.domains[j+1:] {
					add(x, y)
				}
			}
			continue
		}
		hub := a.hub(c, reference)
		for _, d := range c.domains {
			add(hub, d)
		}
	}
	return out
}

// hub is the domain of a communicator that the others are compared with.
func (a *Analysis) hub(c *commDomains, reference int32) int32 {
	best := c.domains[0]
	for _, d := range c.domains {
		if d == reference {
			return d
		}
		if len(a.domains[d].processes) > len(a.domains[best].processes) {
			best = d
		}
	}
	return best
}

// compare fits the clock of child to that of parent; nil without a common
// operation, false if no line fits.
func (a *Analysis) compare(parent, child int32) (*envelope, bool) {
	var brackets []bracket
	originT, originV, have := int64(0), int64(0), false
	for i := range a.comms {
		c := &a.comms[i]
		if !contains(c.domains, parent) || !contains(c.domains, child) {
			continue
		}
		for _, in := range c.instances {
			p, q := a.extentOf(in, parent), a.extentOf(in, child)
			if p == nil || q == nil || p.lastArrival == math.MinInt64 || q.lastArrival == math.MinInt64 {
				continue
			}
			if !have {
				originT, originV, have = q.firstExit, p.firstExit-q.firstExit, true
			}
			brackets = append(brackets, bracketOf(p, q, originT, originV))
		}
	}
	if !have {
		return nil, false
	}
	x, y := &a.domains[parent], &a.domains[child]
	e, ok := newEnvelope(brackets, terms{x.errorNS + y.errorNS + 2, a.options.MaxDriftPPM * 1e-6, a.options.WanderPPB * 1e-9})
	e.originT, e.originV = originT, originV
	return e, ok
}

// bracketOf: the parent's first exit is not before the child's last arrival,
// and the other way round.
func bracketOf(p, q *extent, originT, originV int64) bracket {
	return bracket{
		upperAt: float64(q.lastArrival - originT), upper: float64(p.firstExit - q.lastArrival - originV),
		lowerAt: float64(q.firstExit - originT), lower: float64(p.lastArrival - q.firstExit - originV),
	}
}

func contains(sorted []int32, v int32) bool {
	_, ok := slices.BinarySearch(sorted, v)
	return ok
}

func (a *Analysis) extentOf(in alignedInstance, domain int32) *extent {
	list := a.extents[in.from:in.to]
	i := sort.Search(len(list), func(i int) bool { return list[i].domain >= domain })
	if i == len(list) || list[i].domain != domain {
		return nil
	}
	return &list[i]
}

// reference converts a moment of a domain to the clock of its component, and
// says how far it may be off.
func (a *Analysis) reference(domain int32, ns int64) (int64, float64) {
	bound := 0.0
	for d := &a.domains[domain]; d.parent >= 0; d = &a.domains[d.parent] {
		difference, b := d.difference(ns)
		ns, bound = ns+difference, bound+b
	}
	return ns, bound
}

// difference is the clock of the parent less that of the domain.
func (d *domain) difference(ns int64) (int64, float64) {
	if d.inverse {
		return d.link.inverse(ns)
	}
	return d.link.at(ns)
}
