package measure

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/arrival"
	"github.com/mpitrace/mpitrace/segment"
)

// kept is which instances of a class a rank has, and the level of the class.
type kept struct {
	comm      uint64
	level     uint16
	sequences []uint32
}

// keptOf reads the rows of MPI_Allreduce of each rank.
func (r ran) keptOf(t *testing.T) (out []kept) {
	t.Helper()
	r.walk(t, func(s *segment.Segment) {
		var k kept
		for _, c := range s.ArrivalClasses() {
			if segment.Call(c.Call).String() == "MPI_Allreduce" {
				k.level = c.Level
			}
		}
		rows, torn := s.Arrivals()
		for _, row := range rows {
			if segment.Call(row.Call).String() == "MPI_Allreduce" {
				k.comm = row.CommID
				k.sequences = append(k.sequences, row.Sequence)
			}
		}
		if torn {
			t.Error("the rows are torn")
		}
		slices.Sort(k.sequences)
		out = append(out, k)
	})
	return out
}

// at is the instances that reach a level.
func (k kept) at(level uint16) (out []uint32) {
	for _, s := range k.sequences {
		if arrival.Reaches(arrival.Hash(k.comm, s, 0), level) {
			out = append(out, s)
		}
	}
	return out
}

// TestSampling: of 20,000 operations all ranks keep the same few, and what
// these say of all is true within the error that is printed with it.
func TestSampling(t *testing.T) {
	const n, late, ranks = 20_000, 1, 3
	eachMPI(t, func(t *testing.T, m mpi) {
		try(t, func() (d deviation) {
			r := m.run(t, job{program: "sampling", args: []string{fmt.Sprint(n), fmt.Sprint(late), "100"}, ranks: ranks})
			sameInstances(t, r.keptOf(t), n)
			result, comms := r.analyse(t, arrival.Options{})
			for _, o := range r.ledger.operations(t) {
				c := o.classOf(result, comms)
				if c == nil {
					t.Fatalf("%s is not in the result", o.name())
				}
				if o.function == "Barrier" { // rare: none of them is lost to the many
					d.equal(o.name()+": instances, sampled, level", fmt.Sprint(c.Instances, c.Sampled, c.Level), fmt.Sprint(len(o.instances), len(o.instances), 0))
					continue
				}
				d.about(o.name())
				extrapolated(t, &d, o, result, c)
				if c.Ranks[0].Rank != late || !c.Pattern.Persistent || c.Pattern.Predicted != late {
					d.add("rank %d is waited for, pattern %+v", c.Ranks[0].Rank, c.Pattern)
				}
			}
			return d
		})
	})
}

// sameInstances demands that all ranks have exactly the instances that reach
// the highest level of any.
func sameInstances(t *testing.T, ranks []kept, n int) {
	t.Helper()
	level := uint16(0)
	for _, k := range ranks {
		level = max(level, k.level)
	}
	if level < 5 { // 20,000 in 512 rows need 6; the barriers take some
		t.Errorf("level %d", level)
	}
	all := kept{comm: ranks[0].comm}
	for k := range n {
		all.sequences = append(all.sequences, uint32(k+k/1000+1))
	}
	want := all.at(level)
	if len(want) < n>>level/2 {
		t.Errorf("%d of %d instances reach level %d", len(want), n, level)
	}
	for rank, k := range ranks {
		if !slices.Equal(k.at(level), want) {
			t.Errorf("rank %d has %d instances at level %d, want %d: %v instead of %v", rank, len(k.at(level)), level, len(want), k.at(level), want)
		}
		if !slices.Equal(k.sequences, all.at(k.level)) {
			t.Errorf("rank %d has %d instances at its level %d, want %d", rank, len(k.sequences), k.level, len(all.at(k.level)))
		}
	}
}

// extrapolated compares the samples with the same instances of the ledger, and
// the totals with all of them. These may be three standard errors off, as
// printed or as it follows from all instances of the ledger: a sample knows
// nothing of the rare instance that took a hundred times as long.
func extrapolated(t *testing.T, d *deviation, o *operation, result *arrival.Result, c *arrival.Class) {
	t.Helper()
	d.equal("instances", c.Instances, len(o.instances))
	if c.Sampled < 100 || c.Sampled > 512 {
		d.add("%d sampled", c.Sampled)
		return
	}
	scale := float64(len(o.instances)) / float64(c.Sampled)
	// ledger and shim look at the clock one after the other, on a cold machine
	between := float64(c.Sampled) * pausedNS / 4
	for _, f := range []struct {
		what  string
		total arrival.Total
		of    func([]moment) float64
	}{
		{"waiting", c.Waiting, o.waiting},
		{"blocked", c.Blocked, func(in []moment) (sum float64) {
			for _, m := range in {
				sum += m.exit - m.wait
			}
			return sum
		}},
	} {
		sampled := 0.0
		for i := range c.Sampled {
			s := result.Sample(c, i)
			sampled += f.of(o.instances[s.Sequence-s.Sequence/1001-1])
		}
		d.near(f.what+" of the samples", f.total.NS/scale, sampled, 0.02, between)
		want, sigma := float64(len(o.instances))*o.mean(f.of), o.deviation(f.of)
		own := float64(len(o.instances)) * sigma * math.Sqrt((1-1/scale)/float64(c.Sampled))
		off := 3 * math.Max(f.total.ErrorNS, own)
		d.near(f.what, f.total.NS, want, 0, off)
		t.Logf("%s: %.1f ms from %d samples (the ledger of these: %.1f), the ledger of all says %.1f ms; standard error %.1f ms printed, %.1f ms by the ledger",
			f.what, f.total.NS/1e6, c.Sampled, sampled*scale/1e6, want/1e6, f.total.ErrorNS/1e6, own/1e6)
		if f.total.ErrorNS <= 0 {
			d.add("%s has no error", f.what)
		}
		var control deviation
		control.near(f.what, f.total.NS, 1.1*want+2*off, 0, off)
		if control.near(f.what, f.total.NS/scale, 1.1*sampled+2*between, 0.02, between); d.holds() && len(control.found[""]) != 2 {
			t.Errorf("a false ledger of %s is accepted", f.what)
		}
	}
}

// deviation is the standard deviation of a figure over the instances.
func (o *operation) deviation(f func([]moment) float64) float64 {
	mean := o.mean(f)
	return math.Sqrt(o.mean(func(in []moment) float64 { return (f(in) - mean) * (f(in) - mean) }))
}
