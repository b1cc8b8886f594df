package arrival

import (
	"math"
	"testing"

	"github.com/mpitrace/mpitrace/segment"
)

// TestGolden: three ranks on one node, everything computed by hand.
//
// Arrivals 1000, 1300 and 1900: mean 1400, distances 400, 100 and 500, so the
// mean distance is 1000/3; omega is 900.
func TestGolden(t *testing.T) {
	enter := []float64{1000, 1300, 1900}
	exit := []float64{2000, 2010, 2020}
	type figures struct{ blocked, waiting, beyond float64 }
	for _, test := range []struct {
		name string
		op   op
		want figures
		of   [3]float64 // own waiting
		by   [3]float64 // waiting of others caused
	}{
		{"all wait for rank 2", op{call: "MPI_Allreduce", bytes: 8, root: -1, enter: enter, exit: exit}, figures{1830, 1500, 330}, [3]float64{900, 600, 0}, [3]float64{0, 0, 1500}},
		{"a barrier needs no bytes", op{call: "MPI_Barrier", root: -1, enter: enter, exit: exit}, figures{1830, 1500, 330}, [3]float64{900, 600, 0}, [3]float64{0, 0, 1500}},
		{"nothing to reduce, nobody waits", op{call: "MPI_Allreduce", root: -1, enter: enter, exit: exit}, figures{1830, 0, 1830}, [3]float64{}, [3]float64{}},
		// Rank 0 waits for the root until 1300, rank 2 comes after it.
		{"leaves wait for the root", op{call: "MPI_Bcast_c", bytes: 8, root: 1, enter: enter, exit: []float64{1400, 1350, 1950}}, figures{500, 300, 200}, [3]float64{300, 0, 0}, [3]float64{0, 300, 0}},
		{"nothing to broadcast", op{call: "MPI_Bcast", root: 1, enter: enter, exit: []float64{1400, 1350, 1950}}, figures{500, 0, 500}, [3]float64{}, [3]float64{}},
		{"the root waits for all", op{call: "MPI_Reduce", bytes: 8, root: 0, enter: enter, exit: []float64{2000, 1310, 1910}}, figures{1020, 900, 120}, [3]float64{900, 0, 0}, [3]float64{0, 0, 900}},
		{"predecessors", op{call: "MPI_Scan", bytes: 8, root: -1, enter: []float64{1900, 1300, 1000}, exit: []float64{1950, 2000, 2010}}, figures{1760, 1500, 260}, [3]float64{0, 600, 900}, [3]float64{1500, 0, 0}},
		// Only the blocked part: 100 from 1800 to 1900, 50 from 1850.
		{"nonblocking", op{call: "MPI_Iallreduce", bytes: 8, root: -1, enter: enter, wait: []float64{1800, 1850, 1950}, exit: exit}, figures{430, 150, 280}, [3]float64{100, 50, 0}, [3]float64{0, 0, 150}},
		{"persistent", op{call: "MPI_Barrier_init", start: 3, root: -1, enter: enter, wait: []float64{1800, 1850, 1950}, exit: exit}, figures{430, 150, 280}, [3]float64{100, 50, 0}, [3]float64{0, 0, 150}},
		{"neighbours are not known", op{call: "MPI_Neighbor_alltoall", bytes: 8, root: -1, enter: enter, exit: exit}, figures{1830, 0, 1830}, [3]float64{}, [3]float64{}},
		{"alltoallv that waited", op{call: "MPI_Alltoallv", bytes: 8, root: -1, enter: enter, exit: exit}, figures{1830, 1500, 330}, [3]float64{900, 600, 0}, [3]float64{0, 0, 1500}},
		{"alltoallv that did not", op{call: "MPI_Alltoallv", bytes: 8, root: -1, enter: enter, exit: []float64{1400, 2010, 2020}}, figures{1230, 0, 1230}, [3]float64{}, [3]float64{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJob(oneNode(), 0, 0, 0)
			j.add(test.op)
			call := string(smallCountName(test.op.call))
			j.count(test.op.call, 4, 0)
			_, r := j.analyse(t, Options{TransferNS: Hockney(100, 25)})
			c := classOf(t, r, call)
			if c.Sampled != 1 || c.Instances != 4 || c.RanksSeen != 3 || c.Size != 3 {
				t.Fatalf("%+v", c)
			}
			equal(t, "blocked", c.Blocked.NS, 4*test.want.blocked)
			equal(t, "waiting", c.Waiting.NS, 4*test.want.waiting)
			equal(t, "beyond", c.Beyond.NS, 4*test.want.beyond)
			equal(t, "error of one sample", c.Waiting.ErrorNS, -1)
			equal(t, "mean distance", c.Average.Mean, 1000.0/3)
			equal(t, "omega", c.Worst.Mean, 900)
			equal(t, "T", 900/c.Factors.Worst, 100+25*float64(test.op.bytes))
			for _, s := range c.Ranks {
				equal(t, "own waiting", s.WaitingNS, 4*test.of[s.CommRank])
				equal(t, "caused", s.CausedNS, 4*test.by[s.CommRank])
			}
			if len(c.Sites) != 1 || c.Sites[0].Address != 0x1000 || c.Sites[0].Rank != 0 {
				t.Errorf("sites: %+v", c.Sites)
			}
			s := r.Sample(c, 0)
			if len(s.Arrivals) != 3 || s.Arrivals[2].Address != 0x3000 || s.Arrivals[1].EnterNS-s.Arrivals[0].EnterNS != int64(test.op.enter[1]-test.op.enter[0]) {
				t.Errorf("sample: %+v", s)
			}
		})
	}
}

func smallCountName(call string) string {
	for id := range segment.Call(2048) {
		if id.String() == call {
			return smallCount(uint16(id)).String()
		}
	}
	return call
}

// TestExtrapolation: 2 of 4 instances with 100 and 300 ns of waiting: mean 200,
// variance 20000, error 4 sqrt(20000 / 2 (1 - 2/4)).
func TestExtrapolation(t *testing.T) {
	j := newJob(oneNode(), 0, 0)
	for k, late := range []float64{100, 300} {
		at := 1e5 * float64(k+1)
		j.add(op{call: "MPI_Barrier", root: -1, sequence: uint32(k), enter: []float64{at, at + late}, exit: []float64{at + 900, at + 900}})
	}
	j.count("MPI_Barrier", 4, 0)
	_, r := j.analyse(t, Options{})
	c := classOf(t, r, "MPI_Barrier")
	equal(t, "total", c.Waiting.NS, 800)
	equal(t, "error", c.Waiting.ErrorNS, 4*math.Sqrt(5000))
	j.classes = make([][]segment.RawArrivalClass, 2)
	_, r = j.analyse(t, Options{})
	equal(t, "error of all", classOf(t, r, "MPI_Barrier").Waiting.ErrorNS, 0)
}

// TestHash pins the values that C must give too.
func TestHash(t *testing.T) {
	for _, test := range []struct {
		comm            uint64
		sequence, start uint32
		want            uint64
	}{{0, 0, 0, 0xe220a8397b1dcdaf}, {0x0123456789abcdef, 42, 0, 0x95f2f51fe5430ce8}, {7, 5, 9, 0xc4ad56176f971919}, {1<<64 - 1, 1<<32 - 1, 1<<32 - 1, 0xb4d055fcf2cbbd7b}} {
		if got := Hash(test.comm, test.sequence, test.start); got != test.want {
			t.Errorf("Hash(%#x, %d, %d) is %#x, in C it is %#x", test.comm, test.sequence, test.start, got, test.want)
		}
	}
}

// TestSamplingHasNoRhythm: a loop of so many collectives, or a persistent one,
// keeps about its share of a function at each level.
func TestSamplingHasNoRhythm(t *testing.T) {
	for period := uint32(1); period <= 16; period++ {
		for level := uint16(1); level <= 4; level++ {
			loop, persistent := 0, 0
			for i := range uint32(4096) {
				if Reaches(Hash(99, i*period+1, 0), level) {
					loop++
				}
				if Reaches(Hash(99, period, i+1), level) {
					persistent++
				}
			}
			want := 4096 >> level
			for _, got := range []int{loop, persistent} {
				if math.Abs(float64(got-want)) > 6*math.Sqrt(float64(want)) {
					t.Errorf("period %d, level %d: %d of 4096 kept", period, level, got)
				}
			}
		}
	}
}

func TestReaches(t *testing.T) {
	for _, test := range []struct {
		hash  uint64
		level uint16
		want  bool
	}{{1, 0, true}, {1, 1, false}, {8, 3, true}, {8, 4, false}, {0, 64, true}, {1 << 63, 63, true}, {1 << 63, 64, false}} {
		if Reaches(test.hash, test.level) != test.want {
			t.Errorf("Reaches(%#x, %d) should be %v", test.hash, test.level, test.want)
		}
	}
}
