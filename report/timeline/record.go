package timeline

import (
	"cmp"

	"github.com/mpitrace/mpitrace/segment"
)

// record is an event on its way to its place in time. Records are sorted by
// rank and by the moment at which they begin.
type record struct {
	Event segment.RawEvent
	Rank  uint32 // Rank.Index
	Lane  uint16
	Class class
	_     uint8
	Flow  uint64
}

// class is what a record stands for, in the order in which records of one
// moment are wanted.
type class uint8

const (
	classCall    class = iota // enter to exit of a call
	classOpen                 // a call in progress: its exit is the last moment known
	classEnd                  // a message, at the call that sent or completed it
	classRequest              // a nonblocking receive: enter is its posting, exit its end, post the entry of the completing call
)

// compareRecords: calls of one moment from the outermost inwards, then what
// belongs to them.
func compareRecords(a, b *record) int {
	behind := func(r *record) int {
		if r.Class <= classOpen {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Event.EnterTicks, b.Event.EnterTicks), cmp.Compare(behind(a), behind(b)),
		-cmp.Compare(a.Event.ExitTicks, b.Event.ExitTicks), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Class, b.Class),
		cmp.Compare(a.Event.Kind, b.Event.Kind), cmp.Compare(a.Event.Serial, b.Event.Serial))
}
