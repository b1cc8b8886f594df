package arrival

import (
	"cmp"
	"math"
	"slices"
)

// persistentSamples is how many decided pairs a prediction needs at least.
const persistentSamples = 5

// patternTally follows who is last and in what order ranks arrive.
type patternTally struct {
	last     map[uint32]int // instances by process
	decided  int
	before   int32 // process that was last in the instance before, -1 open
	started  bool
	pairs    int
	repeats  int
	ranks    []float64 // of the instance before, by member
	members  []uint32  // processes of it
	scratch  []int
	rho      float64
	rhoPairs int
}

// add takes the next instance in the order of calls; last is a process or -1.
func (p *patternTally) add(last int32, members []member) {
	if last >= 0 {
		if p.last == nil {
			p.last = map[uint32]int{}
		}
		p.last[uint32(last)]++
		p.decided++
		if p.started && p.before >= 0 {
			p.pairs++
			if p.before == last {
				p.repeats++
			}
		}
	}
	p.before, p.started = last, true
	p.correlate(members)
}

// correlate compares the order of arrival with that of the instance before.
func (p *patternTally) correlate(members []member) {
	same := len(members) == len(p.members)
	processes := p.members[:0]
	for i := range members {
		same = same && p.members[i] == members[i].process
		processes = append(processes, members[i].process)
	}
	p.members = processes
	ranks := p.order(members)
	if same && p.ranks != nil {
		if rho, ok := correlation(p.ranks, ranks); ok {
			p.rho += rho
			p.rhoPairs++
		}
	}
	p.ranks = ranks
}

// order is the rank of each member in the order of arrival, ties sharing the
// mean of their places.
func (p *patternTally) order(members []member) []float64 {
	p.scratch = p.scratch[:0]
	for i := range members {
		p.scratch = append(p.scratch, i)
	}
	slices.SortFunc(p.scratch, func(x, y int) int { return cmp.Compare(members[x].enter, members[y].enter) })
	ranks := make([]float64, len(members))
	for i := 0; i < len(members); {
		j := i + 1
		for j < len(members) && members[p.scratch[j]].enter == members[p.scratch[i]].enter {
			j++
		}
		for k := i; k < j; k++ {
			ranks[p.scratch[k]] = float64(i+j-1) / 2
		}
		i = j
	}
	return ranks
}

// correlation of two lists (Pearson 1895), of ranks that of Spearman 1904;
// false if one does not vary.
func correlation(x, y []float64) (float64, bool) {
	mean := float64(len(x)-1) / 2
	var xx, yy, xy float64
	for i := range x {
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
		xy += (x[i] - mean) * (y[i] - mean)
	}
	if xx == 0 || yy == 0 {
		return 0, false
	}
	return xy / math.Sqrt(xx*yy), true
}

// result sums up.
func (p *patternTally) result(a *Analysis) Pattern {
	out := Pattern{Pairs: p.pairs, OrderPairs: p.rhoPairs, Predicted: -1}
	most, mode := 0, uint32(0)
	for process, n := range p.last {
		share := float64(n) / float64(p.decided)
		out.Chance += share * share
		if n > most || n == most && a.processes[process].rank < a.processes[mode].rank {
			most, mode = n, process
		}
	}
	if p.rhoPairs > 0 {
		out.Correlation = p.rho / float64(p.rhoPairs)
	}
	if p.pairs == 0 {
		return out
	}
	out.Repeat = float64(p.repeats) / float64(p.pairs)
	byMode, byPrevious := wilson(most, p.decided), wilson(p.repeats, p.pairs)
	out.Predicted, out.Confidence = a.processes[mode].rank, byMode
	if byPrevious > byMode && p.before >= 0 {
		out.Predicted, out.Confidence, out.ByPrevious = a.processes[p.before].rank, byPrevious, true
	}
	out.Persistent = out.Confidence > 0.5 && p.pairs >= persistentSamples
	return out
}

// wilson is the lower end of the 95 % interval of a share (Wilson 1927).
func wilson(hits, of int) float64 {
	if of == 0 {
		return 0
	}
	const z = 1.96
	n, p := float64(of), float64(hits)/float64(of)
	centre := p + z*z/(2*n)
	return max(0, (centre-z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n)))/(1+z*z/n))
}
