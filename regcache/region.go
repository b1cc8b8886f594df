package regcache

import (
	"fmt"
	"slices"
	"sort"
)

// Region is a registered range of whole pages. It is valid from the Acquire that
// returned it to its Release.
type Region struct {
	start, end uint64
	generation uint64 // the sum over its buckets when its owner asked for it
	handle     Handle
	slot       int // of the Front, -1 if it is not published
	refs       int
	used       bool // it was found since it was registered, as far as is known
	state      state
}

type state int

const (
	live  state = iota // in the index: may be handed out
	dying              // deregistered as soon as nobody holds it
	lost               // the cache was killed: not ours to deregister
)

// Start returns the first address.
func (r *Region) Start() uint64 { return r.start }

// End returns the address behind the last byte.
func (r *Region) End() uint64 { return r.end }

// Generation returns the sum of its buckets' generations at registration.
func (r *Region) Generation() uint64 { return r.generation }

// Handle returns what the registrar gave for it.
func (r *Region) Handle() Handle { return r.handle }

// Slot returns its slot in the Front, -1 if it has none.
func (r *Region) Slot() int { return r.slot }

func (r *Region) bytes() uint64 { return r.end - r.start }

func (r *Region) String() string { return fmt.Sprintf("[%#x,%#x)", r.start, r.end) }

// index holds the regions that may be handed out. None of them lies inside
// another, so that in the order of their starts their ends ascend too: of all
// regions that start at or before an address, the last one reaches farthest and
// is the only one to look at.
type index []*Region

// from returns the position of the first region that starts at or behind start.
func (x index) from(start uint64) int {
	return sort.Search(len(x), func(i int) bool { return x[i].start >= start })
}

// covering returns the region that covers [start, end), nil if there is none.
func (x index) covering(start, end uint64) *Region {
	i := sort.Search(len(x), func(i int) bool { return x[i].start > start }) - 1
	if i < 0 || x[i].end < end {
		return nil
	}
	return x[i]
}

// inside returns the regions that lie inside [start, end).
func (x index) inside(start, end uint64) []*Region {
	i := x.from(start)
	j := i
	for j < len(x) && x[j].end <= end {
		j++
	}
	return x[i:j]
}

// left returns the last region that starts before start, right the first one
// that ends behind end.
func (x index) left(start uint64) *Region {
	if i := x.from(start); i > 0 {
		return x[i-1]
	}
	return nil
}

func (x index) right(end uint64) *Region {
	i := sort.Search(len(x), func(i int) bool { return x[i].end > end })
	if i < len(x) {
		return x[i]
	}
	return nil
}

// insert adds r; nothing lies inside r, and r inside nothing.
func (x *index) insert(r *Region) { *x = slices.Insert(*x, x.from(r.start), r) }

func (x *index) remove(r *Region) {
	i := x.from(r.start)
	*x = slices.Delete(*x, i, i+1)
}
