package arrival

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mpitrace/mpitrace/segment"
)

// seeds is two ranks of a job on two nodes, with a bit of everything.
func seeds(t testing.TB) (out [][]byte) {
	rng := rand.New(rand.NewPCG(40, 40))
	j := newJob(randomNodes(rng, 2), 0, 1)
	for k, call := range []string{"MPI_Barrier", "MPI_Bcast", "MPI_Iallreduce", "MPI_Scan", "MPI_Reduce", "MPI_Barrier"} {
		enter, exit := barrierLike(rng, 2, 1e6*float64(k+1), 1000, 1000)
		j.add(op{call: call, bytes: 8, sequence: uint32(k), enter: enter, exit: exit})
		j.count(call, 10, 0)
	}
	j.send(end{rank: 0, peer: 1, tag: 1, bytes: 8, enter: 1e5, exit: 1.1e5})
	j.receive(end{rank: 1, peer: 0, tag: 1, bytes: 8, enter: 5e4, exit: 1.2e5})
	for r := range 2 {
		out = append(out, parse(t, j.segment(r)).Compact())
	}
	return out
}

// FuzzAdd: any two segments that can be parsed give figures that are numbers.
func FuzzAdd(f *testing.F) {
	s := seeds(f)
	f.Add(s[0], s[1])
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a := New(Options{TransferNS: Hockney(1000, 0.1)})
		for _, data := range [][]byte{x, y, s[1]} {
			if parsed, err := segment.Parse("fuzz", data); err == nil {
				a.Add(parsed)
				a.AddEvents(parsed, parsed.Events())
			}
		}
		check(t, a.Result())
	})
}

// TestDamaged is a fuzz run that every test run makes: bytes of the sections
// are changed at random.
func TestDamaged(t *testing.T) {
	s := seeds(t)
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(41, seed))
		a := New(Options{TransferNS: Hockney(1000, 0.1)})
		for _, data := range s {
			data = append([]byte(nil), data...)
			for range 1 + rng.IntN(30) {
				at := rng.IntN(len(data))
				if at >= 64 || rng.IntN(20) == 0 {
					data[at] = byte(rng.IntN(256))
				}
			}
			if parsed, err := segment.Parse("damaged", data); err == nil {
				a.Add(parsed)
			}
		}
		check(t, a.Result())
	}
}

// check finds figures that are no numbers, or impossible.
func check(t *testing.T, r *Result) {
	t.Helper()
	number := func(what string, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < -1 {
			t.Fatalf("%s is %v", what, v)
		}
	}
	for _, c := range r.Classes {
		for _, d := range []Distribution{c.Average, c.Worst} {
			number("mean", d.Mean)
			number("maximum", d.Max)
		}
		if c.Average.Mean > c.Worst.Mean*(1+1e-9) {
			t.Fatalf("mean distance %v, omega %v", c.Average.Mean, c.Worst.Mean)
		}
		for _, v := range []Total{c.Blocked, c.Waiting, c.Beyond, c.Unclaimed} {
			number("total", v.NS)
			number("error", v.ErrorNS)
		}
		number("bound", c.BoundNS)
		for i := range c.Sampled {
			r.Sample(c, i)
		}
	}
	for _, c := range r.Clocks {
		number("rate", c.TicksPerNS)
		number("bound", c.BoundNS)
		number("rate error", c.RateErrorPPM)
	}
	m := &r.Messages
	number("late sender", m.LateSenderNS)
	number("late receiver", m.LateReceiverNS)
	if 2*m.Matched+m.Stopped+m.Gaps+m.Tail+m.Strangers+m.Unaddressed+m.Damaged+m.Duplicates != m.Sends+m.Receives {
		t.Fatalf("events do not add up: %+v", m)
	}
}
