package reusetrack

import (
	"cmp"
	"math"
	"slices"

	"github.com/mpitrace/mpitrace/segment"
)

// Rank is what one process recorded of its buffers, its shards merged.
type Rank struct {
	Rank  int
	rows  []segment.RawBuffer // sorted by path and address, one each
	paths [segment.PathPaths]totals
}

// totals is the accesses of one path by size. Sums over ranks are totals too.
type totals struct {
	accesses, reused [segment.SizeBins]uint64
	distances        [segment.DistanceBins]uint64
	untracked        uint64
	stopped          uint64 // ranks whose table stopped
}

// FromSegment takes over what a segment holds.
func FromSegment(s *segment.Segment) *Rank {
	return NewRank(int(s.Header.WorldRank), s.Buffers(), s.Reuse())
}

// NewRank merges the rows of the shards of a process. A buffer that several
// threads used is one buffer: its first use in each further shard was a use
// again, which the shard could not know, and is counted as one, in the bin of
// the payload it had last; how long before it had been used is not known, so
// such uses are in no bin of the distances.
func NewRank(rank int, buffers []segment.RawBuffer, reuse []segment.RawReuse) *Rank {
	r := &Rank{Rank: rank}
	for i := range reuse {
		if reuse[i].Path < segment.PathPaths {
			r.paths[reuse[i].Path].addRaw(&reuse[i])
		}
	}
	rows := make([]segment.RawBuffer, 0, len(buffers))
	for _, b := range buffers {
		if b.Path < segment.PathPaths && b.Address != 0 && b.Accesses > 0 {
			rows = append(rows, b)
		}
	}
	slices.SortStableFunc(rows, func(a, b segment.RawBuffer) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Address, b.Address), -cmp.Compare(a.Accesses, b.Accesses))
	})
	for _, b := range rows {
		last := len(r.rows) - 1
		if last < 0 || r.rows[last].Path != b.Path || r.rows[last].Address != b.Address {
			r.rows = append(r.rows, b)
			continue
		}
		r.paths[b.Path].reused[sizeBin(b.Bytes)]++
		merge(&r.rows[last], &b)
	}
	return r
}

// merge adds the uses that another shard made of a buffer. The payload stays
// that of the shard that used it most.
func merge(into, other *segment.RawBuffer) {
	into.Accesses = uint32(min(uint64(into.Accesses)+uint64(other.Accesses), math.MaxUint32))
	into.Resized = uint16(min(uint32(into.Resized)+uint32(other.Resized), math.MaxUint16))
}

// Path is the statistics of one path (segment.Path*) of the rank. eagerLimit
// is the largest payload of eager size, 0 for DefaultEagerLimit.
func (r *Rank) Path(path int, eagerLimit uint64) Path {
	s := NewSummary(Options{EagerLimit: eagerLimit})
	s.Add(r)
	return s.Path(path)
}

// pathRows is the rows of one path.
func (r *Rank) pathRows(path int) []segment.RawBuffer {
	find := func(p int) int {
		i, _ := slices.BinarySearchFunc(r.rows, p, func(b segment.RawBuffer, p int) int { return cmp.Compare(int(b.Path), p) })
		return i
	}
	return r.rows[find(path):find(path+1)]
}

func (t *totals) addRaw(raw *segment.RawReuse) {
	addAll(t.accesses[:], raw.Accesses[:])
	addAll(t.reused[:], raw.Reused[:])
	addAll(t.distances[:], raw.Distances[:])
	t.untracked += raw.Untracked
	if raw.Stopped != 0 {
		t.stopped = 1 // of this rank, however many of its shards
	}
}

func (t *totals) add(other *totals) {
	addAll(t.accesses[:], other.accesses[:])
	addAll(t.reused[:], other.reused[:])
	addAll(t.distances[:], other.distances[:])
	t.untracked += other.untracked
	t.stopped += other.stopped
}

func addAll(into, other []uint64) {
	for i := range into {
		into[i] += other[i]
	}
}
