package reusetrack

import (
	"math"

	"github.com/mpitrace/mpitrace/segment"
)

// Range is the least, the greatest and the mean over ranks.
type Range struct {
	Min  uint64  `json:"min"`
	Max  uint64  `json:"max"`
	Mean float64 `json:"mean"`
}

// Table1 is Table 1 of the papers for this application: of each rank the
// buffer of eager size that it used most. "Reuse count" there is the number of
// uses: 7904 of CG class C is the sends of one variable in 76 calls of
// conj_grad with 104 each.
type Table1 struct {
	Ranks   uint64 `json:"ranks"`    // with buffers of eager size
	MaxUses Range  `json:"max_uses"` // uses of the rank's most used buffer
	Bytes   Range  `json:"bytes"`    // its payload; of equally used ones the largest
	// ReusedPercent is accesses to buffers used before, of all accesses of
	// eager size in all ranks. If tables stopped it lies between the two.
	ReusedPercent     float64 `json:"reused_percent"`
	ReusedPercentHigh float64 `json:"reused_percent_high"`
	LowerBound        bool    `json:"lower_bound"` // MaxUses and ReusedPercent are
}

// Table2 is Table 2 of the papers for this application: buffers above MinBytes
// in the tables of all ranks, and those that became frequently used: that were
// used as often as Speculation of the minimum for their size.
type Table2 struct {
	Buffers  uint64  `json:"buffers"`
	Frequent uint64  `json:"frequent"`
	Percent  float64 `json:"percent"`
	// Incomplete: tables stopped. Frequent is then a lower bound; Percent
	// holds for the buffers in the tables only.
	Incomplete bool `json:"incomplete"`
}

// table1 collects Table1.
type table1 struct {
	ranks      uint64
	uses, size rangeSum
}

type rangeSum struct {
	min, max uint64
	sum      float64
}

func (s *rangeSum) add(first bool, v uint64) {
	if first {
		s.min = v
	}
	s.min, s.max = min(s.min, v), max(s.max, v)
	s.sum += float64(v)
}

func (s *rangeSum) over(n uint64) Range {
	return Range{s.min, s.max, s.sum / math.Max(1, float64(n))}
}

func (t *table1) add(rows []segment.RawBuffer, limit uint64) {
	var most *segment.RawBuffer
	for i := range rows {
		b := &rows[i]
		if b.Bytes > limit {
			continue
		}
		if most == nil || b.Accesses > most.Accesses || b.Accesses == most.Accesses && b.Bytes > most.Bytes {
			most = b
		}
	}
	if most == nil {
		return
	}
	t.uses.add(t.ranks == 0, uint64(most.Accesses))
	t.size.add(t.ranks == 0, most.Bytes)
	t.ranks++
}

// Table1 is the first table of a path (segment.Path*); the papers' is that of
// sends.
func (s *Summary) Table1(path int) Table1 {
	p := s.Path(path)
	t := &s.paths[path].table1
	out := Table1{Ranks: t.ranks, MaxUses: t.uses.over(t.ranks), Bytes: t.size.over(t.ranks), LowerBound: p.LowerBound,
		ReusedPercent: 100 * share(p.Eager.Reused, p.Eager.Accesses)}
	out.ReusedPercentHigh = out.ReusedPercent
	if p.LowerBound {
		out.ReusedPercentHigh = 100 * share(p.Eager.Reused+p.Untracked, p.Eager.Accesses)
	}
	return out
}

// table2 collects Table2.
type table2 struct{ buffers, frequent uint64 }

func (t *table2) add(b *segment.RawBuffer, c *Costs, part Speculation) {
	if b.Bytes <= MinBytes {
		return
	}
	t.buffers++
	if at, ok := c.Threshold(b.Bytes, 0, part); ok && uint64(b.Accesses) >= at {
		t.frequent++
	}
}

// Table2 is the second table of a path, sends or origins; false without Costs.
func (s *Summary) Table2(path int) (Table2, bool) {
	if s.options.Costs == nil {
		return Table2{}, false
	}
	p := &s.paths[path]
	return Table2{p.table2.buffers, p.table2.frequent, 100 * share(p.table2.frequent, p.table2.buffers), p.stopped > 0}, true
}
