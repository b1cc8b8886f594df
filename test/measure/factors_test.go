package measure

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/arrival"
)

// published is Table 6.1 of Qian 2010 by falling worst-case factor: FT first
// in its reductions, last in its alltoall. MG class B is left out: its figures
// contradict each other.
var published = []string{"FT.C.reduce", "FT.B.reduce", "MG.C.allreduce", "LU.C.allreduce", "LU.B.allreduce", "LU.C.bcast", "LU.B.bcast", "FT.B.alltoall"}

// TestFactors runs the imbalance of FT, LU and MG, smaller by a known factor:
// the imbalance factors must be the ledger's and come out in the published
// order.
func TestFactors(t *testing.T) {
	eachMPI(t, func(t *testing.T, m mpi) {
		try(t, func() (d deviation) {
			r := m.run(t, job{program: "factors", args: []string{"200", "6"}, ranks: 4})
			transfer, scale := r.ledger.transfer(t), r.ledger.of(0, "scale")[0].number(t, 0)
			result, comms := r.analyse(t, arrival.Options{TransferNS: transfer})
			operations := r.ledger.operations(t)
			var order []string
			found := map[string]*arrival.Factors{}
			for _, o := range operations {
				c := o.classOf(result, comms)
				if c == nil || c.Factors == nil {
					t.Fatalf("%s has no factors", o.name())
				}
				d.about(o.name())
				ns := transfer(result.Sample(c, 0).Bytes)
				average, worst := o.mean(func(in []moment) float64 { a, _ := spread(in); return a })/ns, o.mean(func(in []moment) float64 { _, w := spread(in); return w })/ns
				slack := (c.BoundMax + r.ledger.stampNS(t) + coldNS/float64(len(o.instances))) / ns
				d.near("omega / T in 1/1000", 1000*c.Factors.Worst, 1000*worst, 0.02, 1000*slack)
				d.near("mean distance / T in 1/1000", 1000*c.Factors.Average, 1000*average, 0.02, 1000*slack)
				var control deviation
				control.near("omega", c.Factors.Worst, 1.1*worst+2*slack, 0.02, slack)
				if control.near("distance", c.Factors.Average, 1.1*average+2*slack, 0.02, slack); d.holds() && len(control.found[""]) != 2 {
					t.Errorf("%s: false factors are accepted", o.name())
				}
				order, found[o.comm] = append(order, o.comm), c.Factors
			}
			d.about("order")
			byWorst := slices.Clone(order)
			slices.SortFunc(byWorst, func(a, b string) int { return cmp.Compare(found[b].Worst, found[a].Worst) })
			d.equal("by omega / T", byWorst, fmt.Sprint(published))
			byAverage := slices.Clone(order)
			slices.SortFunc(byAverage, func(a, b string) int { return cmp.Compare(found[b].Average, found[a].Average) })
			d.equal("by mean distance / T", byAverage, fmt.Sprint(published))
			for _, row := range published {
				t.Logf("%-15s mean distance / T %8.1f, omega / T %8.1f, %8.0f times the divisor", row, found[row].Average, found[row].Worst, found[row].Worst*scale)
			}
			return d
		})
	})
}

// transfer is T as the program measured it.
func (l ledger) transfer(t *testing.T) func(uint64) float64 {
	t.Helper()
	lines := l.of(0, "transfer")
	if len(lines) != 2 {
		t.Fatalf("transfers %q", lines)
	}
	small, large, limit := lines[0].number(t, 1), lines[1].number(t, 1), uint64(lines[1].number(t, 0))
	return func(bytes uint64) float64 {
		if bytes < limit/2 {
			return small
		}
		return large
	}
}
