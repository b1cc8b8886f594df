package timeline

import "github.com/mpitrace/mpitrace/segment"

// traceBlock is how many events of one thread stand together in a trace file:
// MT_EVENT_ROWS of c/probe/shard.h.
const traceBlock = 512

// lanes tells the threads of a process apart. An event does not say whose it
// is; but blocks of traceBlock events are of one thread each, and the events of
// a thread follow each other: a block that begins before another one ended is
// of another thread. Threads that take turns may so come onto one lane, which
// shows nothing wrong; two threads in MPI at the same time never do.
type lanes struct {
	single bool     // there is but one thread
	ends   []uint64 // when the last event of each lane ended, ticks
	shards map[uint32]int
	lane   int
	events int              // of the block so far
	open   []segment.Thread // calls in progress, by shard
}

// next is the lane of an event of the trace file.
func (n *lanes) next(e *segment.RawEvent) int {
	if n.events%traceBlock == 0 {
		n.lane = n.choose(e)
	}
	n.events++
	n.ends[n.lane] = max(n.ends[n.lane], e.ExitTicks)
	return n.lane
}

// choose is the lane of a block that begins with e: the one that ended last
// before it.
func (n *lanes) choose(e *segment.RawEvent) int {
	best := -1
	for i, end := range n.ends {
		if (end <= e.EnterTicks || n.single) && (best < 0 || end > n.ends[best]) {
			best = i
		}
	}
	if best < 0 {
		best = len(n.ends)
		n.ends = append(n.ends, 0)
	}
	return best
}

// rest is the lane of the events of a shard that are in the segment.
func (n *lanes) rest(shard uint32, first *segment.RawEvent) int {
	if n.shards == nil {
		n.shards = map[uint32]int{}
	}
	lane := n.choose(first)
	n.shards[shard] = lane
	return lane
}

// of is the lane of a shard: of the call in progress in it.
func (n *lanes) of(shard int) int {
	if lane, ok := n.shards[uint32(shard)]; ok {
		return lane
	}
	if n.single || len(n.ends) == 0 {
		return 0
	}
	return shard
}
