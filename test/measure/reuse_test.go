package measure

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
)

// buffers is what a rank did with buffers on one path.
type buffers struct{ accesses, buffers, reused, resized uint64 }

// buffersOf reads the lines "path" of a rank.
func (l ledger) buffersOf(t *testing.T, rank int) map[string]buffers {
	t.Helper()
	out := map[string]buffers{}
	for _, line := range l.of(rank, "path") {
		n := func(i int) uint64 { return uint64(line.number(t, i)) }
		out[line[0]] = buffers{n(1), n(2), n(3), n(4)}
	}
	return out
}

// eagerLimit is where the program parts eager from rendezvous sends, in bytes.
const eagerLimit = 64 << 10

// pathNames are the names of the paths by their numbers.
var pathNames = []string{segment.PathSend: "send", segment.PathReceive: "receive", segment.PathOrigin: "origin"}

// TestReuseBySide: payloads of both sides of the eager limit are told apart,
// also next to it.
func TestReuseBySide(t *testing.T) {
	for _, mode := range []string{"limit", "nonblocking", "lu"} {
		t.Run(mode, func(t *testing.T) {
			eachMPI(t, func(t *testing.T, m mpi) {
				r := m.run(t, job{program: "reuse", args: []string{mode}, ranks: 2})
				r.walk(t, func(s *segment.Segment) {
					rank := reusetrack.FromSegment(s)
					all := r.ledger.buffersOf(t, rank.Rank)
					for _, line := range r.ledger.of(rank.Rank, "eager") {
						n := func(i int) uint64 { return uint64(line.number(t, i)) }
						whole := all[line[0]]
						want := [2]reusetrack.Part{{Accesses: n(1), Buffers: n(2), Reused: n(3)}}
						want[1] = reusetrack.Part{Accesses: whole.accesses - n(1), Buffers: whole.buffers - n(2), Reused: whole.reused - n(3)}
						p := rank.Path(slices.Index(pathNames, line[0]), eagerLimit)
						if got := [2]reusetrack.Part{p.Eager, p.Rendezvous}; got != want {
							t.Errorf("rank %d, %s: %+v, the ledger says %+v", rank.Rank, line[0], got, want)
						}
					}
				})
			})
		})
	}
}

// agrees compares a path with the ledger: equal as long as the table was not
// full, bounds after that.
func (b buffers) agrees(d *deviation, p *reusetrack.Path, stopped bool) {
	d.equal("accesses", p.Accesses, b.accesses)
	d.equal("lower bound", p.LowerBound, stopped)
	if !p.LowerBound {
		d.equal("buffers, reused, resized, untracked", fmt.Sprint(p.Buffers, p.Reused, p.Resized, p.Untracked), fmt.Sprint(b.buffers, b.reused, b.resized, 0))
		return
	}
	low, high := p.ReusedShare()
	share := float64(b.reused) / float64(b.accesses)
	if p.Reused > b.reused || p.Buffers > b.buffers || share < low || share > high {
		d.add("reused %d, buffers %d, share %.4f to %.4f; the ledger says %d, %d, %.4f", p.Reused, p.Buffers, low, high, b.reused, b.buffers, share)
	}
}

// falsified is a tenth more of everything.
func (b buffers) falsified() buffers {
	more := func(n uint64) uint64 { return n + max(1, n/10) }
	return buffers{more(b.accesses), more(b.buffers), more(b.reused), more(b.resized)}
}

// TestReuse: programs use buffers in known patterns, and count them.
func TestReuse(t *testing.T) {
	for _, test := range []struct {
		mode    string
		stopped bool    // more buffers than a table takes
		percent float64 // of Table 1, where it is known from elsewhere
		uses    uint64  // of the most used buffer
	}{
		{mode: "lu", percent: 98.71, uses: 3750},
		{mode: "cg", stopped: true, percent: 42.94, uses: 7904},
		{mode: "cg-small", percent: 42.92, uses: 198},
		{mode: "fresh", percent: 0, uses: 1},
		{mode: "fresh-many", stopped: true, uses: 1},
		{mode: "resize", percent: math.NaN(), uses: 300},
		{mode: "limit", percent: math.NaN(), uses: 50},
		{mode: "onesided", percent: math.NaN()},
		{mode: "persistent", percent: math.NaN(), uses: 600},
		{mode: "nonblocking", percent: math.NaN(), uses: 50},
		{mode: "threads", percent: math.NaN(), uses: 400},
	} {
		t.Run(test.mode, func(t *testing.T) {
			eachMPI(t, func(t *testing.T, m mpi) {
				var d deviation
				r := m.run(t, job{program: "reuse", args: []string{test.mode}, ranks: 2})
				r.walk(t, func(s *segment.Segment) {
					rank := reusetrack.FromSegment(s)
					for path := range segment.PathPaths {
						name := reusetrack.PathName(path)
						want, ok := r.ledger.buffersOf(t, rank.Rank)[name]
						if !ok {
							t.Fatalf("rank %d has no line for %s", rank.Rank, name)
						}
						p := rank.Path(path, 0)
						d.about(fmt.Sprintf("rank %d, %s", rank.Rank, name))
						want.agrees(&d, &p, test.stopped && want.accesses > 0)
						var control deviation
						if want.falsified().agrees(&control, &p, test.stopped); len(control.found) == 0 {
							t.Errorf("rank %d, %s: a false ledger is accepted", rank.Rank, name)
						}
					}
					if rank.Rank == 0 {
						d.about("Table 1")
						sender(&d, rank, test.percent, test.uses)
					}
				})
				once(t, &d)
			})
		})
	}
}

// sender compares the table of the papers with what is known of rank 0.
func sender(d *deviation, rank *reusetrack.Rank, percent float64, uses uint64) {
	s := reusetrack.NewSummary(reusetrack.Options{EagerLimit: 1 << 20})
	s.Add(rank)
	table := s.Table1(segment.PathSend)
	d.equal("uses of the most used buffer", table.MaxUses.Max, uses)
	if !math.IsNaN(percent) {
		d.equal("reused percent", fmt.Sprintf("%.2f", table.ReusedPercent), fmt.Sprintf("%.2f", percent))
	}
}
