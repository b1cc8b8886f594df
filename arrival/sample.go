package arrival

import "github.com/mpitrace/mpitrace/segment"

// Hash decides which instances of collective operations are kept: the same
// on all ranks, and bit by bit the same as mt_arrival_hash of
// c/probe/arrival.h. The finaliser is that of SplitMix64 (Steele, Lea, Flood
// 2014), so that the low bits do not follow the rhythm of the sequence numbers.
func Hash(commID uint64, sequence, start uint32) uint64 {
	x := commID ^ ((uint64(start)<<32|uint64(sequence))+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Reaches tells whether an instance with this hash is kept at a level: it has
// at least so many trailing zero bits. Levels are nested.
func Reaches(hash uint64, level uint16) bool {
	return level == 0 || level < 64 && hash<<(64-level) == 0 || level >= 64 && hash == 0
}

// levelMax is beyond what any table can ask for; more is damage.
const levelMax = 64

// spanMax bounds moments of a clock, so that differences never overflow.
const spanMax = 1 << 61

// row is one sampled operation of one rank. Times are ticks of its clock as
// they come in, and nanoseconds of its clock domain once the domains are known.
type row struct {
	enter, wait, exit int64
	instance          uint32
	process           uint32
	rank              int32  // in the communicator
	site              uint16 // index into process.sites
	active            bool   // it moves data, or is a barrier
}

const blockRows = 4096

// rowStore is a list of rows that grows without copying.
type rowStore struct {
	blocks [][]row
	n      uint32
}

func (s *rowStore) add(r row) {
	if s.n%blockRows == 0 {
		s.blocks = append(s.blocks, make([]row, 0, blockRows))
	}
	last := &s.blocks[len(s.blocks)-1]
	*last = append(*last, r)
	s.n++
}

func (s *rowStore) at(i uint32) *row { return &s.blocks[i/blockRows][i%blockRows] }

// sampleOf is the row of a raw sample, or false if its times are impossible.
func sampleOf(raw *segment.RawArrival, active bool) (row, bool) {
	if raw.EnterTicks == 0 || raw.EnterTicks > raw.WaitTicks || raw.WaitTicks > raw.ExitTicks || raw.ExitTicks > spanMax {
		return row{}, false
	}
	if raw.Size < 1 || raw.Rank < 0 || raw.Rank >= raw.Size || raw.Root >= raw.Size {
		return row{}, false
	}
	return row{enter: int64(raw.EnterTicks), wait: int64(raw.WaitTicks), exit: int64(raw.ExitTicks), rank: raw.Rank, active: active}, true
}
