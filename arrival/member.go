package arrival

import "math"

// member is one rank in an instance, in ns of the reference clock after the
// origin of the instance.
type member struct {
	enter, wait, exit float64
	bound             float64 // against the reference clock
	domain            int32
	process           uint32
	rank              int32
	site              uint16
	active            bool
}

// members is the ranks of an instance by rank in the communicator, on one
// clock; false if their clocks cannot be compared.
func (a *Analysis) members(in *instance, buffer []member) (members []member, origin int64, ok bool) {
	members = buffer[:0]
	component := int32(-1)
	for k, n := range a.rowsOf(in) {
		r := a.rows.at(n)
		d := a.processes[r.process].domain
		if c := a.domains[d].component; k == 0 {
			component = c
		} else if c != component {
			return members, origin, false
		}
		enter, bound := a.reference(d, r.enter)
		wait := enter
		if r.wait != r.enter {
			wait, _ = a.reference(d, r.wait)
		}
		exit, _ := a.reference(d, r.exit)
		if k == 0 {
			origin = enter
		}
		// Where a clock was cut, the order within a rank must not turn.
		wait = max(wait, enter)
		exit = max(exit, wait)
		members = append(members, member{float64(enter - origin), float64(wait - origin), float64(exit - origin), bound, d, r.process, r.rank, r.site, r.active})
	}
	return members, origin, true
}

// uncertainty is how far the difference of two moments of these ranks may be
// off.
func (a *Analysis) uncertainty(x, y *member) float64 {
	if x.domain == y.domain {
		return a.domains[x.domain].errorNS
	}
	return x.bound + y.bound + a.domains[x.domain].errorNS + a.domains[y.domain].errorNS
}

// boundOf is how far the difference of any two arrivals may be off: the sum
// of the two worst clocks.
func (a *Analysis) boundOf(members []member) float64 {
	first, second, domain := 0.0, 0.0, int32(-1)
	for i := range members {
		m := &members[i]
		b := m.bound + a.domains[m.domain].errorNS
		switch {
		case domain < 0 || b > first && m.domain == domain:
			first, domain = b, m.domain
		case b > first:
			first, second, domain = b, first, m.domain
		case m.domain != domain:
			second = max(second, b)
		}
	}
	if second == 0 && domain >= 0 && sameDomain(members) {
		return a.domains[domain].errorNS
	}
	return first + second
}

func sameDomain(members []member) bool {
	for i := range members {
		if members[i].domain != members[0].domain {
			return false
		}
	}
	return true
}

// imbalance is the mean distance from the mean arrival (Qian 2010, Eq. 6.1 and
// 6.2) and the distance of the last from the first (Eq. 6.3), and the bound;
// both are 0 within the bound.
func (a *Analysis) imbalance(members []member) (average, worst, bound float64) {
	bound = a.boundOf(members)
	average, worst = spreadOf(members)
	if worst <= bound {
		return 0, 0, bound
	}
	return average, worst, bound
}

func spreadOf(members []member) (average, worst float64) {
	mean, least, most := 0.0, math.Inf(1), math.Inf(-1)
	for i := range members {
		enter := members[i].enter
		mean += enter / float64(len(members))
		least, most = min(least, enter), max(most, enter)
	}
	for i := range members {
		average += math.Abs(members[i].enter-mean) / float64(len(members))
	}
	// Rounding must not break average <= worst.
	return min(average, most-least), most - least
}

// lastOf is the member that arrived last, -1 if the bound leaves it open.
func (a *Analysis) lastOf(members []member) int {
	last := 0
	for i := range members {
		if members[i].enter > members[last].enter {
			last = i
		}
	}
	for i := range members {
		if i != last && members[last].enter-members[i].enter <= a.uncertainty(&members[last], &members[i]) {
			return -1
		}
	}
	return last
}
