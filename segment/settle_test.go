package segment

import (
	"bytes"
	"io"
	"testing"
	"unsafe"
)

// restless gives a thread record that is another at each reading, until it
// comes to rest.
type restless struct{ readings, restAfter int }

func (r *restless) ReadAt(into []byte, _ int64) (int, error) {
	r.readings++
	return copy(into, Encode(RawThread{Call: 7, EnterTicks: uint64(min(r.readings, r.restAfter))})), nil
}

// TestSettle reads a call in progress again until it stays the same, and gives
// up after a few tries.
func TestSettle(t *testing.T) {
	record := Encode(RawThread{Call: 7})
	fresh := make([]byte, len(record))
	if !settleOne(&restless{restAfter: 2}, record, fresh, 0) {
		t.Error("a record that comes to rest is torn")
	}
	if got := decode[RawThread](nil, record, len(record), 1)[0]; got.EnterTicks != 2 {
		t.Errorf("the record read first was kept: %d", got.EnterTicks)
	}
	busy := &restless{restAfter: 1 << 30}
	if settleOne(busy, record, fresh, 0) || busy.readings != settleTries {
		t.Errorf("a record that never rests is whole after %d readings", busy.readings)
	}
	if settleOne(failing{}, record, fresh, 0) {
		t.Error("a record that cannot be read again is whole")
	}
}

// TestSettlePair: a pair that was being written when it was read, or that is
// another at a second look, is not used.
func TestSettlePair(t *testing.T) {
	read := RawHeader{ClockSequence: 4, FirstTicks: 10, FirstMonotonicNS: 20, LastTicks: 30, LastMonotonicNS: 40}
	for sequence, kept := range map[uint32]bool{4: true, 5: false, 6: false} {
		s := &Segment{Header: read}
		now := read
		now.ClockSequence = sequence
		s.settlePair(bytes.NewReader(Encode(now)))
		if got := s.Header.LastTicks == 30 && s.Header.LastMonotonicNS == 40; got != kept {
			t.Errorf("sequence %d at the second look: kept %v", sequence, got)
		}
		if dropped := s.Header.LastTicks == 10 && s.Header.LastMonotonicNS == 20; dropped == kept {
			t.Errorf("sequence %d at the second look: %+v", sequence, s.Header)
		}
	}
	s := &Segment{Header: read}
	s.settlePair(failing{})
	if s.Header.LastTicks != 30 {
		t.Error("a file that cannot be read again changed what was read")
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestSettleMoved: rows that moved between the reading of the directory and
// that of the rows are not taken for what they were.
func TestSettleMoved(t *testing.T) {
	stride := int(unsafe.Sizeof(RawSection{}))
	before := []RawSection{{Kind: SectionKindArrivals, Used: 4, Reserved0: 2}, {Kind: SectionKindEvents, Used: 9}, {Kind: SectionKindArrivals, Used: 3, Reserved0: 6}}
	after := []RawSection{{Kind: SectionKindArrivals, Used: 2, Reserved0: 4}, {Kind: SectionKindEvents, Used: 1}, {Kind: SectionKindArrivals, Used: 5, Reserved0: 6}}
	file := append(make([]byte, SectionsOffset), Encode(after...)...)
	s := &Segment{sections: before}
	s.settleMoved(bytes.NewReader(file))
	if s.sections[0].Reserved0%2 == 0 || s.sections[1].Used != 0 || s.sections[2].Reserved0%2 != 0 || s.sections[2].Used != 3 {
		t.Errorf("sections after the second look: %+v", s.sections)
	}
	s = &Segment{sections: []RawSection{{Kind: SectionKindEvents, Used: 9}}}
	s.settleMoved(bytes.NewReader(file[:SectionsOffset+stride/2]))
	if s.sections[0].Used != 9 {
		t.Error("a file that shrank changed what was read")
	}
}
