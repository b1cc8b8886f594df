package reusetrack

import (
	"cmp"
	"math/bits"

	"github.com/mpitrace/mpitrace/segment"
)

// The rules of the usage table, as in c/probe/shard.h.
const (
	TableChunk    = 512  // buffers that the table has room for at first
	TableRows     = 8192 // buffers that it holds at most
	TableFrequent = 16   // accesses that make a buffer one in frequent use
	TableShare    = 5    // a full table grows while at least one buffer in so many is in frequent use
)

// Access is one use of a buffer.
type Access struct {
	Address uint64
	Path    uint32 // segment.Path*
	Bytes   uint64 // payload; of a receive the size of the buffer as posted
}

// Table is the usage table of one shard, a twin of the one in C: the same
// accesses give the same rows and the same totals. The zero value is empty and
// ready for use. It is not safe for concurrent use.
//
// A buffer is an address on a path. Two lengths at one address are one buffer,
// the second use a resized one; so is memory that was freed and handed out
// again, which the table cannot know. Whoever registers buffers must watch
// what the program gives back.
type Table struct {
	// MaxRows is how many buffers the table holds at most; 0: TableRows. A
	// shard whose segment has no more room stops earlier. Set it before the
	// first access.
	MaxRows int

	rows     []segment.RawBuffer
	index    []uint32 // row + 1, 0 if free: open addressing, at most half full
	shift    uint     // 64 - log2(len(index))
	room     int
	now      uint32 // accesses so far, over all paths
	frequent int    // buffers with at least TableFrequent accesses
	stopped  bool
	paths    [segment.PathPaths]segment.RawReuse
}

// Access counts one use of a buffer and tells whether it was used before. A
// path that does not exist is not counted.
func (t *Table) Access(a Access) (reused bool) {
	if a.Path >= segment.PathPaths {
		return false
	}
	path := &t.paths[a.Path]
	bin := sizeBin(a.Bytes)
	t.now++
	path.Accesses[bin]++
	row := t.find(a.Address, uint16(a.Path))
	if row == nil {
		t.add(a)
		return false
	}
	row.Accesses++
	if row.Accesses == TableFrequent {
		t.frequent++
	}
	path.Reused[bin]++
	path.Distances[min(bits.Len32(t.now-row.Last), segment.DistanceBins-1)]++
	row.Last = t.now
	if row.Bytes != a.Bytes {
		row.Bytes = a.Bytes
		if row.Resized < 1<<16-1 {
			row.Resized++
		}
	}
	return true
}

// Rows is a copy of the buffers in the order in which they came.
func (t *Table) Rows() []segment.RawBuffer { return append([]segment.RawBuffer(nil), t.rows...) }

// Reuse is the totals, one row per path.
func (t *Table) Reuse() []segment.RawReuse {
	out := append([]segment.RawReuse(nil), t.paths[:]...)
	for path := range out {
		out[path].Path = uint32(path)
		if t.stopped {
			out[path].Stopped = 1
		}
	}
	return out
}

// Stopped tells whether a buffer was turned away: the table is full, or too
// few of its buffers are in frequent use for it to grow.
func (t *Table) Stopped() bool { return t.stopped }

// slot is where the search for a buffer begins: multiplicative hashing, of
// which the high bits are good.
func (t *Table) slot(address uint64, path uint16) int {
	return int((address + uint64(path)) * 0x9e3779b97f4a7c15 >> t.shift)
}

func (t *Table) find(address uint64, path uint16) *segment.RawBuffer {
	if len(t.index) == 0 {
		return nil
	}
	for slot := t.slot(address, path); ; slot = (slot + 1) & (len(t.index) - 1) {
		entry := t.index[slot]
		if entry == 0 {
			return nil
		}
		if row := &t.rows[entry-1]; row.Address == address && row.Path == path {
			return row
		}
	}
}

func (t *Table) add(a Access) {
	if a.Address == 0 || !t.grow() {
		t.paths[a.Path].Untracked++
		return
	}
	t.rows = append(t.rows, segment.RawBuffer{Address: a.Address, Bytes: a.Bytes, Accesses: 1, Last: t.now, Path: uint16(a.Path)})
	t.insert(len(t.rows) - 1)
}

func (t *Table) insert(row int) {
	slot := t.slot(t.rows[row].Address, t.rows[row].Path)
	for t.index[slot] != 0 {
		slot = (slot + 1) & (len(t.index) - 1)
	}
	t.index[slot] = uint32(row + 1)
}

// grow makes room for one more buffer, or stops the table for good. These are
// the paper's two conditions; a full table stands for its growing chains.
func (t *Table) grow() bool {
	if len(t.rows) < t.room {
		return true
	}
	worth := len(t.rows) == 0 || t.frequent*TableShare >= len(t.rows)
	if room := max(TableChunk, 2*t.room); t.stopped || !worth || room > cmp.Or(t.MaxRows, TableRows) {
		t.stopped = true
		return false
	}
	t.room = max(TableChunk, 2*t.room)
	t.index = make([]uint32, 2*t.room)
	t.shift = uint(64 - bits.Len(uint(len(t.index)-1)))
	for row := range t.rows {
		t.insert(row)
	}
	return true
}

// sizeBin is the bin of a payload, as of segment.SizeBins.
func sizeBin(bytes uint64) int { return min(bits.Len64(bytes), segment.SizeBins-1) }

// sizeBounds is the payloads of a bin: from to less than to; 0: no end.
func sizeBounds(bin int) (from, to uint64) {
	if bin > 0 {
		from = 1 << (bin - 1)
	}
	if bin < segment.SizeBins-1 {
		to = 1 << bin
	}
	return from, to
}
