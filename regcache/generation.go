package regcache

import "sync/atomic"

// The address space is folded into buckets, as in c/include/memhook.h.
const (
	Buckets     = 1024
	BucketShift = 21
	bucketSize  = 1 << BucketShift
)

// Generations counts the changes of each bucket of addresses. A counter grows
// before memory of its bucket is unmapped, moved or replaced.
type Generations [Buckets]uint64

// Bucket is the index of the counter for addr.
func Bucket(addr uint64) int { return int(addr >> BucketShift % Buckets) }

// Sum adds the counters of the buckets that [start, end) touches, each once.
// As counters only grow, a sum is unchanged only if every counter is.
func (g *Generations) Sum(start, end uint64) uint64 {
	if start >= end {
		return 0
	}
	first, last := start>>BucketShift, (end-1)>>BucketShift
	if last-first >= Buckets {
		last = first + Buckets - 1
	}
	var sum uint64
	for b := first; b <= last; b++ {
		sum += atomic.LoadUint64(&g[b%Buckets])
	}
	return sum
}

// Change counts a change of [start, end), as a monitor does it before the
// memory goes.
func (g *Generations) Change(start, end uint64) {
	if start >= end {
		return
	}
	first, last := start>>BucketShift, (end-1)>>BucketShift
	if last-first >= Buckets {
		last = first + Buckets - 1
	}
	for b := first; b <= last; b++ {
		atomic.AddUint64(&g[b%Buckets], 1)
	}
}

// total is the sum of all counters.
func (g *Generations) total() uint64 { return g.Sum(0, Buckets<<BucketShift) }
