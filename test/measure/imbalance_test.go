package measure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/arrival"
)

// moment is one rank in one collective operation, in ns.
type moment struct{ enter, wait, exit float64 }

// operation is all calls of one function on one communicator: by instance,
// then by rank of the communicator.
type operation struct {
	function, comm string
	instances      [][]moment
}

// operations reads the lines "call" of a ledger.
func (l ledger) operations(t *testing.T) []*operation {
	t.Helper()
	byName := map[string]*operation{}
	for _, rank := range slices.Sorted(maps.Keys(l)) {
		for _, line := range l.of(rank, "call") {
			if len(line) != 7 {
				t.Fatalf("rank %d: the ledger is cut: %q", rank, line)
			}
			key := line[0] + " on " + line[1]
			o := byName[key]
			if o == nil {
				o = &operation{function: line[0], comm: line[1]}
				byName[key] = o
			}
			index, seat := int(line.number(t, 2)), int(line.number(t, 3))
			for len(o.instances) <= index {
				o.instances = append(o.instances, nil)
			}
			for len(o.instances[index]) <= seat {
				o.instances[index] = append(o.instances[index], moment{})
			}
			o.instances[index][seat] = moment{line.number(t, 4), line.number(t, 5), line.number(t, 6)}
		}
	}
	out := slices.Collect(maps.Values(byName))
	slices.SortFunc(out, func(a, b *operation) int {
		return cmp.Or(cmp.Compare(a.function, b.function), cmp.Compare(a.comm, b.comm))
	})
	return out
}

func (o *operation) name() string { return o.function + " on " + o.comm }

// spread is the imbalance of an instance by its definition (Qian 2010, Eq. 6.1
// to 6.3): mean distance from the mean arrival, and omega.
func spread(in []moment) (average, worst float64) {
	mean, first, last := 0.0, math.Inf(1), math.Inf(-1)
	for _, m := range in {
		mean += m.enter
		first, last = math.Min(first, m.enter), math.Max(last, m.enter)
	}
	mean /= float64(len(in))
	for _, m := range in {
		average += math.Abs(m.enter-mean) / float64(len(in))
	}
	return average, last - first
}

// lateFor is whose arrival rank i of an instance needs, by what the function
// does; -1 for nobody's.
func (o *operation) lateFor(in []moment, i int) int {
	latest := func(list []moment) int {
		best := -1
		for r := range list {
			if best < 0 || list[r].enter > list[best].enter {
				best = r
			}
		}
		return best
	}
	switch o.function {
	case "Bcast":
		if o.comm == "world" {
			return 0
		}
		return 1 // in the halves
	case "Reduce":
		if i == 1 {
			return latest(in)
		}
		return -1
	case "Scan":
		return latest(in[:i])
	case "Neighbor_alltoall", "Ineighbor_allgather", "Neighbor_alltoall_init":
		return -1
	}
	return latest(in)
}

// waiting is what the ranks of an instance waited.
func (o *operation) waiting(in []moment) (sum float64) {
	for i, m := range in {
		if late := o.lateFor(in, i); late >= 0 && late != i {
			sum += math.Max(0, math.Min(m.exit, in[late].enter)-m.wait)
		}
	}
	return sum
}

// lastOf is who arrived last, -1 if two did within slack.
func lastOf(in []moment, slack float64) int {
	order := make([]int, len(in))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(in[b].enter, in[a].enter) })
	if in[order[0]].enter-in[order[1]].enter <= slack {
		return -1
	}
	return order[0]
}

// mean of a figure of an instance over all.
func (o *operation) mean(f func([]moment) float64) (sum float64) {
	for _, in := range o.instances {
		sum += f(in) / float64(len(o.instances))
	}
	return sum
}

// classOf is what the analysis says of the operation.
func (o *operation) classOf(result *arrival.Result, comms map[string]uint64) *arrival.Class {
	for _, c := range result.Classes {
		if c.Call.String() == "MPI_"+o.function && c.CommID == comms[o.comm] {
			return c
		}
	}
	return nil
}

// coldNS is what the first call of a function may cost in the shim, before and
// after the operation: tables are filled and pages touched. All ranks may wait
// for it.
const coldNS = 25_000

// pausedNS is what any call after a pause of milliseconds may cost in the shim,
// before and after the operation: on a virtual machine that was idle its tables
// are in no cache and no TLB. 2 to 14 us were seen.
const pausedNS = 20_000

// agrees compares all figures of a class with the ledger. A rank that arrives
// shortly after another may be taken for the earlier one.
func (o *operation) agrees(d *deviation, result *arrival.Result, c *arrival.Class, stamp float64) {
	d.about(o.name())
	d.equal("instances, sampled, level, dropped",
		fmt.Sprint(c.Instances, c.Sampled, c.Level, c.Dropped, c.Incomplete, c.Impossible), fmt.Sprint(len(o.instances), len(o.instances), 0, 0, 0, 0))
	if c.Sampled != len(o.instances) {
		return
	}
	n, size := float64(len(o.instances)), float64(len(o.instances[0]))
	slack := c.BoundMax + stamp
	total := n*size*slack + size*size*coldNS
	d.near("omega", c.Worst.Mean, o.mean(func(in []moment) float64 { _, w := spread(in); return w }), 0.02, slack)
	d.near("mean distance", c.Average.Mean, o.mean(func(in []moment) float64 { a, _ := spread(in); return a }), 0.02, slack)
	d.near("waiting", c.Waiting.NS+c.Unclaimed.NS, n*o.mean(o.waiting), 0.02, total)
	// the time in the call has what the shim does in it, after a pause in each
	d.near("blocked", c.Blocked.NS, n*o.mean(func(in []moment) (sum float64) {
		for _, m := range in {
			sum += m.exit - m.wait
		}
		return sum
	}), 0.02, total+n*size*pausedNS)
	for i, in := range o.instances {
		s := result.Sample(c, i)
		if s.WorstNS < s.AverageNS {
			d.add("instance %d: omega %v is less than the mean distance %v", i, s.WorstNS, s.AverageNS)
		}
		if last := lastOf(in, 50_000); last >= 0 {
			got := slices.IndexFunc(s.Arrivals, func(a arrival.Arrival) bool { return a.Rank == s.Last })
			if got >= 0 {
				got = int(s.Arrivals[got].CommRank)
			}
			d.equal(fmt.Sprintf("instance %d: last rank", i), got, last)
		}
	}
	if o.comm == "ring" {
		d.equal("instances without cost", c.WithoutCost, len(o.instances))
	}
}

// falsified is the ledger with all distances a tenth larger, or with the ranks
// the other way round.
func (o *operation) falsified(turned bool) *operation {
	out := &operation{function: o.function, comm: o.comm}
	for _, in := range o.instances {
		first := in[0].enter
		for _, m := range in {
			first = math.Min(first, m.enter)
		}
		var other []moment
		for _, m := range in {
			other = append(other, moment{first + 1.1*(m.enter-first), first + 1.1*(m.wait-first), first + 1.1*(m.exit-first)})
		}
		if turned {
			other = slices.Clone(in)
			slices.Reverse(other)
		}
		out.instances = append(out.instances, other)
	}
	return out
}

// TestImbalance: ranks come late by a known time to every kind of collective
// operation.
func TestImbalance(t *testing.T) {
	eachMPI(t, func(t *testing.T, m mpi) {
		for _, pattern := range []string{"fixed", "random", "ramp", "alternating"} {
			t.Run(pattern, func(t *testing.T) {
				try(t, func() deviation { return imbalanceOnce(t, m, pattern) })
			})
		}
	})
}

func imbalanceOnce(t *testing.T, m mpi, pattern string) (d deviation) {
	const ranks = 4
	instances := 30
	if *long {
		instances = 34 // 15 classes in each rank: no more fit without sampling
	}
	r := m.run(t, job{program: "imbalance", args: []string{pattern, fmt.Sprint(instances), "2000", "7"}, ranks: ranks})
	result, comms := r.analyse(t, arrival.Options{})
	operations := r.ledger.operations(t)
	want := 15 // 7 of all ranks, 3 of each half, 2 of the ring
	if m.Name == "mpich" {
		want = 18 // and the persistent ones
	}
	if len(operations) != want {
		t.Errorf("%d operations in the ledger, want %d", len(operations), want)
	}
	stamp := r.ledger.stampNS(t)
	for _, o := range operations {
		c := o.classOf(result, comms)
		if c == nil {
			d.about(o.name())
			d.add("not in the result")
			continue
		}
		if o.agrees(&d, result, c, stamp); !d.holds() {
			continue
		}
		var larger, turned deviation
		o.falsified(false).agrees(&larger, result, c, stamp)
		o.falsified(true).agrees(&turned, result, c, stamp)
		if len(larger.found[o.name()]) < 2 || len(turned.found) == 0 {
			t.Errorf("%s: a false ledger is accepted: %q, %q", o.name(), larger.found, turned.found)
		}
	}
	return d
}
