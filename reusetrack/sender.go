package reusetrack

import (
	"cmp"
	"math/bits"
	"slices"
)

// The rules of a Sender, as in c/engine/reuse.h.
const (
	SenderLook     = 8     // samples of a cost that are looked at, and before which it is not known
	SenderCopies   = 16    // after which one copy in so many is timed,
	SenderSends    = 8     // and one message straight from its buffer in so many;
	SenderAgain    = 1024  // of these one in so many is copied, and timed
	SenderSites    = 256   // places and sizes whose waits are told apart; then they are one
	SenderHold     = 2048  // messages that a place which waits too long is left alone for; doubled
	SenderHoldMost = 65536 // each time that it still does, up to this
	SenderRefusals = 10    // a buffer that was refused is left alone for 2, 4, .. 2^10 uses
)

// SenderOptions of NewSender. Of what is 0 the default is taken.
type SenderOptions struct {
	From        uint64      // shorter payloads are copied; MinBytes, and never less
	Speculation Speculation // Quarter
	Room        int         // buffers that the table has room for at first; TableChunk
	MaxRows     int         // the same at most; TableRows
}

// Sent is how a message is to leave.
type Sent struct {
	Straight bool // from its buffer, which has to be registered; else through a copy
	Timed    bool // what it costs is wanted: Copied, or Exposed,
	Looks    bool // and what its look-up of a registration takes: Borrowed
}

// Sender decides for each short message of a process whether it is copied or
// leaves straight from its buffer, by the cost model with costs that were
// measured where the messages are sent. It is the reference of c/engine/reuse.c;
// both replay testdata/sender. It has no clock, and is not safe for concurrent
// use.
//
// The wait Lm is that of a place of the program and a size. It is known only
// where messages left straight; until then it is taken for nothing, which costs a
// place SenderLook messages. One that turns out to wait longer than a copy takes
// copies, and is looked at again SenderHold messages later. The look-ups V are taken
// for nothing until they are known, too: the first finds no registration, and memory
// that nobody has touched yet. Where they seem to cost more than a copy, messages leave
// straight all the same while such a look lasts, for that of registrations is measured
// only where it is used.
type Sender struct {
	o         SenderOptions
	copies    [64]latest  // Cm by size: from 2^i to less than 2^(i+1) bytes
	seen      [64]uint64  // messages, the same way
	register  [64]float64 // Rm
	usage     latest      // V: of the table here,
	cache     latest      // and of what keeps registrations
	rows      map[uint64]*senderRow
	room      int
	frequent  int // buffers that were found worth registering
	stopped   bool
	untracked uint64 // messages from buffers that found no place in the table
	retreats  uint64 // times that a place was found to wait too long
	sites     map[senderKey]*senderSite
}

type senderRow struct {
	uses, retry uint64 // retry: not before this use
	refusals    int
	frequent    bool
}

type senderKey struct {
	site uint64
	size int
}

type senderSite struct {
	exposed latest // Lm
	asked   uint64 // messages that left straight since it was last forgotten
	rested  uint64 // messages that were copied since
	hold    uint64
	rests   bool
	looks   bool // V was more than a copy takes: its look-ups are measured again
}

// latest are the latest times of something, in ns.
type latest struct {
	ns [SenderLook]uint64
	n  uint64 // so far
}

func (s *latest) add(ns uint64) {
	s.ns[s.n%SenderLook] = ns
	s.n++
}

func (s *latest) known() bool { return s.n >= SenderLook }

// median of the latest; 0 before it is known.
func (s *latest) median() float64 {
	if !s.known() {
		return 0
	}
	v := slices.Sorted(slices.Values(s.ns[:]))
	return float64(v[(SenderLook-1)/2]+v[SenderLook/2]) / 2
}

// mean of the latest but for the largest, in which the machine may have done
// something else; 0 before it is known. It is no median, for a wait that is there
// every third time counts.
func (s *latest) mean() float64 {
	if !s.known() {
		return 0
	}
	sum, largest := uint64(0), uint64(0)
	for _, ns := range s.ns {
		sum, largest = sum+ns, max(largest, ns)
	}
	return float64(sum-largest) / (SenderLook - 1)
}

// NewSender is one that knows no costs yet, and copies everything.
func NewSender(o SenderOptions) *Sender {
	o.From = max(o.From, MinBytes)
	o.Speculation = cmp.Or(o.Speculation, Quarter)
	o.Room = cmp.Or(o.Room, TableChunk)
	o.MaxRows = cmp.Or(o.MaxRows, TableRows)
	return &Sender{o: o, room: o.Room, rows: map[uint64]*senderRow{}, sites: map[senderKey]*senderSite{}}
}

// sizeOf is the class of a payload, which is at least 1.
func sizeOf(bytes uint64) int { return bits.Len64(bytes) - 1 }

// Register sets Rm of the size of a payload; 0, which it is before: all memory
// is registered as it is.
func (s *Sender) Register(bytes uint64, ns float64) { s.register[sizeOf(bytes)] = ns }

// Copied takes a measured Cm.
func (s *Sender) Copied(bytes, ns uint64) { s.copies[sizeOf(bytes)].add(ns) }

// LookedUp takes a measured look-up in the table.
func (s *Sender) LookedUp(ns uint64) { s.usage.add(ns) }

// Borrowed takes a measured look-up of a registration.
func (s *Sender) Borrowed(ns uint64) { s.cache.add(ns) }

// Exposed takes a measured Lm of a message that left straight.
func (s *Sender) Exposed(bytes, site, ns uint64) { s.site(site, bytes).exposed.add(ns) }

// Refused takes back that a message leaves straight: its buffer is not registered
// now.
func (s *Sender) Refused(address, bytes, site uint64) {
	s.site(site, bytes).asked--
	row := s.rows[address]
	row.refusals = min(row.refusals+1, SenderRefusals)
	row.retry = row.uses + 1<<row.refusals
}

// Send counts a message from a buffer and decides how it leaves. site is where in
// the program it is sent.
func (s *Sender) Send(address, bytes, site uint64) Sent {
	if bytes < s.o.From {
		return Sent{}
	}
	size := sizeOf(bytes)
	known := s.copies[size].known()
	timed := !known || s.seen[size]%SenderCopies == 0
	s.seen[size]++
	row := s.use(address)
	if row == nil || !known || row.uses < row.retry {
		return Sent{Timed: timed}
	}
	at := s.site(site, bytes)
	if !s.pays(at, bytes, row.uses) {
		return Sent{Timed: timed}
	}
	if !row.frequent {
		row.frequent = true
		s.frequent++
	}
	at.asked++
	if at.asked%SenderAgain == 0 {
		return Sent{Timed: true}
	}
	return Sent{Straight: true, Timed: !at.exposed.known() || at.asked%SenderSends == 0, Looks: at.looks}
}

// pays tells whether a buffer has been used often enough, at this place.
func (s *Sender) pays(at *senderSite, bytes, uses uint64) bool {
	size := sizeOf(bytes)
	point := func(ns float64) Curve { return Curve{{Bytes: bytes, NS: ns}} }
	costs := Costs{
		Copy: point(s.copies[size].median()), Register: point(s.register[size]),
		UsageLookUp: point(s.usage.median()), CacheLookUp: point(s.cache.median()),
	}
	least, ever := costs.Threshold(bytes, 0, s.o.Speculation)
	if ever && uses < least {
		return false // whatever the place waits
	}
	at.looks = at.looks && at.asked < SenderLook
	if at.looks && !ever {
		return true
	}
	n, ok := costs.Threshold(bytes, at.exposed.mean(), s.o.Speculation)
	if ok && (at.exposed.known() || at.asked < SenderLook) {
		at.rests, at.rested = false, 0
		if at.exposed.known() {
			at.hold = SenderHold
		}
		return uses >= n
	}
	if !ok && !at.rests {
		at.rests = true
		if ever {
			s.retreats++
		}
	}
	if at.rested++; at.rested < at.hold {
		return false
	}
	*at = senderSite{hold: min(2*at.hold, SenderHoldMost), looks: !ever}
	return true
}

// use counts a use of a buffer; nil: it has no place in the table.
func (s *Sender) use(address uint64) *senderRow {
	row := s.rows[address]
	if row == nil {
		if address == 0 || len(s.rows) == s.room && !s.grow() {
			s.untracked++
			return nil
		}
		row = &senderRow{}
		s.rows[address] = row
	}
	row.uses++
	return row
}

// grow makes room for more buffers, or stops adding them for good. These are the
// paper's two conditions; a full table stands for its growing chains.
func (s *Sender) grow() bool {
	worth := s.frequent*TableShare >= len(s.rows)
	s.stopped = s.stopped || !worth || 2*s.room > s.o.MaxRows
	if !s.stopped {
		s.room *= 2
	}
	return !s.stopped
}

// site is what is known of a place and size.
func (s *Sender) site(site, bytes uint64) *senderSite {
	key := senderKey{site, sizeOf(bytes)}
	if s.sites[key] == nil && len(s.sites) >= SenderSites {
		key = senderKey{size: -1} // one for all the others
	}
	if s.sites[key] == nil {
		s.sites[key] = &senderSite{hold: SenderHold}
	}
	return s.sites[key]
}
