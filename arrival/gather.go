package arrival

import (
	"cmp"
	"math"
	"slices"
)

// sortRows finds the rows of each instance, ordered by rank, and tells rows in
// nanoseconds of their domain. Instances below the level of their class, which
// may have risen since, lose their rows.
func (a *Analysis) sortRows() {
	for i := range a.instances {
		in := &a.instances[i]
		c := &a.classes[in.class]
		if !Reaches(Hash(in.comm, in.sequence, in.start), c.level) {
			in.rows = 0
		}
	}
	total := uint32(0)
	for i := range a.instances {
		a.instances[i].first = total
		total += a.instances[i].rows
	}
	a.order = make([]uint32, total)
	fill := make([]uint32, len(a.instances))
	for i := range a.rows.n {
		r := a.rows.at(i)
		if in := &a.instances[r.instance]; in.rows > 0 {
			a.order[in.first+fill[r.instance]] = i
			fill[r.instance]++
		}
		d := &a.domains[a.processes[r.process].domain]
		r.enter, r.wait, r.exit = d.ns(r.enter), d.ns(r.wait), d.ns(r.exit)
	}
	for i := range a.instances {
		a.sortInstance(&a.instances[i])
	}
	a.sortClasses()
}

// rowsOf is the numbers of the rows of an instance.
func (a *Analysis) rowsOf(in *instance) []uint32 { return a.order[in.first : in.first+in.rows] }

// sortInstance orders rows by rank; a rank or process that comes twice is a
// conflict.
func (a *Analysis) sortInstance(in *instance) {
	rows := a.rowsOf(in)
	byRank := func(x, y uint32) int { return cmp.Compare(a.rows.at(x).rank, a.rows.at(y).rank) }
	if !slices.IsSortedFunc(rows, byRank) {
		slices.SortFunc(rows, byRank)
	}
	for i := 1; i < len(rows); i++ {
		in.conflict = in.conflict || a.rows.at(rows[i]).rank == a.rows.at(rows[i-1]).rank
	}
	if in.conflict {
		a.skipped.Conflicts++
	}
}

// sortClasses gives each class its instances in the order of their calls:
// communicators by when they were used first, then by number.
func (a *Analysis) sortClasses() {
	type classComm struct {
		class uint32
		comm  uint64
	}
	first := map[classComm]int64{}
	for i := range a.instances {
		in := &a.instances[i]
		if in.rows == 0 || in.conflict {
			continue
		}
		c := &a.classes[in.class]
		c.instances = append(c.instances, uint32(i))
		key, enter := classComm{in.class, in.comm}, a.rows.at(a.rowsOf(in)[0]).enter
		if before, ok := first[key]; !ok || enter < before {
			first[key] = enter
		}
	}
	for i := range a.classes {
		slices.SortFunc(a.classes[i].instances, func(x, y uint32) int {
			p, q := &a.instances[x], &a.instances[y]
			if p.comm != q.comm {
				return cmp.Or(cmp.Compare(first[classComm{p.class, p.comm}], first[classComm{q.class, q.comm}]), cmp.Compare(p.comm, q.comm))
			}
			return cmp.Or(cmp.Compare(p.sequence, q.sequence), cmp.Compare(p.start, q.start))
		})
	}
}

// collectExtents finds for the operations that align clocks when each domain
// was in them. Domains whose ranks turn out not to share a clock are split.
func (a *Analysis) collectExtents() {
	a.gatherExtents()
	if a.splitDomains() {
		a.gatherExtents()
	}
	a.dropViolations()
	for i := range a.comms {
		a.comms[i].finish(a.extents)
	}
}

func (a *Analysis) gatherExtents() {
	comms := map[classKey]int{}
	a.extents, a.comms, a.extentOfDomain = nil, nil, make([]uint32, len(a.domains))
	for i := range a.classes {
		c := &a.classes[i]
		if !operationOf(c.call).aligns {
			continue
		}
		key := classKey{kin: c.kin, world: c.world}
		index, ok := comms[key]
		if !ok {
			index = len(a.comms)
			comms[key] = index
			a.comms = append(a.comms, commDomains{})
		}
		for _, n := range c.instances {
			a.addExtents(n, &a.comms[index])
		}
	}
}

// addExtents is the extents of one instance.
func (a *Analysis) addExtents(index uint32, comm *commDomains) {
	from := len(a.extents)
	for _, n := range a.rowsOf(&a.instances[index]) {
		r := a.rows.at(n)
		e := a.extentFor(from, a.processes[r.process].domain)
		e.firstExit = min(e.firstExit, r.exit)
		if r.active {
			e.lastArrival = max(e.lastArrival, r.enter)
		}
	}
	slices.SortFunc(a.extents[from:], func(x, y extent) int { return cmp.Compare(x.domain, y.domain) })
	comm.instances = append(comm.instances, alignedInstance{index, uint32(from), uint32(len(a.extents))})
}

// extentFor finds or adds the extent of a domain among those since from.
func (a *Analysis) extentFor(from int, domain int32) *extent {
	i := int(a.extentOfDomain[domain])
	if i >= from && i < len(a.extents) && a.extents[i].domain == domain {
		return &a.extents[i]
	}
	a.extentOfDomain[domain] = uint32(len(a.extents))
	a.extents = append(a.extents, extent{domain, math.MinInt64, math.MaxInt64})
	return &a.extents[len(a.extents)-1]
}

// violation is by how much a rank of the domain left before another entered.
func (e *extent) violation() float64 {
	if e.lastArrival == math.MinInt64 {
		return 0
	}
	return float64(e.lastArrival) - float64(e.firstExit)
}

// splitDomains gives the ranks of a domain clocks of their own if one in 20
// operations contradicts that they share one; these are then aligned like
// those of different nodes.
func (a *Analysis) splitDomains() (split bool) {
	seen := make([]uint64, len(a.domains))
	for i := range a.extents {
		e := &a.extents[i]
		seen[e.domain]++
		if d := &a.domains[e.domain]; e.violation() > d.errorNS {
			d.violations++
		}
	}
	for i := range seen {
		d := &a.domains[i]
		if d.violations*20 <= seen[i] {
			continue
		}
		split = true
		for _, p := range d.processes[1:] {
			own := a.domains[i]
			own.processes, own.rejected = []uint32{p}, 0
			a.processes[p].domain = int32(len(a.domains))
			a.domains = append(a.domains, own)
		}
		a.domains[i].processes = a.domains[i].processes[:1]
	}
	return split
}

// dropViolations drops the few operations that contradict a shared clock.
func (a *Analysis) dropViolations() {
	for i := range a.comms {
		a.comms[i].instances = slices.DeleteFunc(a.comms[i].instances, func(in alignedInstance) bool {
			for j := in.from; j < in.to; j++ {
				if e := &a.extents[j]; e.violation() > a.domains[e.domain].errorNS {
					a.skipped.Impossible++
					a.instances[in.instance].impossible = true
					return true
				}
			}
			return false
		})
	}
}

// finish lists the domains of a communicator.
func (c *commDomains) finish(extents []extent) {
	seen := map[int32]bool{}
	for _, in := range c.instances {
		for _, e := range extents[in.from:in.to] {
			if !seen[e.domain] {
				seen[e.domain] = true
				c.domains = append(c.domains, e.domain)
			}
		}
	}
	slices.Sort(c.domains)
}
