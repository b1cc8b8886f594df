package regcache

import (
	"fmt"
	"syscall"
)

const page = 4096

// device is a registrar in memory. It can have a limit, fail, and run something
// in the middle of a registration.
type device struct {
	limit      uint64 // bytes, 0: none
	err        error
	during     func()
	say        func(format string, args ...any)
	registered map[uint64][2]uint64 // handle → range
	bytes      uint64
	total      uint64 // bytes ever registered
	next       uint64
}

func newDevice() *device {
	return &device{registered: map[uint64][2]uint64{}, say: func(string, ...any) {}}
}

func (d *device) Register(addr, length uint64) (Handle, error) {
	if d.during != nil {
		d.during()
	}
	err := d.err
	if err == nil && d.limit > 0 && d.bytes+length > d.limit {
		err = syscall.ENOMEM
	}
	if err != nil {
		d.say("register %s: %v", pages(addr, addr+length), err)
		return Handle{}, err
	}
	d.next++
	d.registered[d.next] = [2]uint64{addr, addr + length}
	d.bytes += length
	d.total += length
	d.say("register %s as %d", pages(addr, addr+length), d.next)
	return Handle{ID: d.next}, nil
}

func (d *device) Deregister(h Handle) {
	r, ok := d.registered[h.ID]
	if !ok {
		d.say("deregister %d, WHICH IS NOT REGISTERED", h.ID)
		return
	}
	delete(d.registered, h.ID)
	d.bytes -= r[1] - r[0]
	d.say("deregister %s, %d", pages(r[0], r[1]), h.ID)
}

// pages writes a range in pages.
func pages(start, end uint64) string { return fmt.Sprintf("[%d,%d)", start/page, end/page) }

// threads is a front with the threads' side of it.
type threads interface {
	Front
	// take is what a thread does: a reference and how to give it back, or nil
	// and whether the page is now asked for that was not before.
	take(g *Generations, addr, length uint64) (r *Region, give func(), ask bool)
	// breached returns the first breach of Front's contract.
	breached() string
}

// table is a front for one thread: what c/regcache does, without its speed.
type table struct {
	slots  map[int]*seat
	points map[uint64]*Region // page → region
	asked  map[uint64]bool    // pages that wait for an answer
	wrong  string             // the first breach of the contract
}

type seat struct {
	region      *Region
	revoked     bool
	refs        int
	taken, seen int
}

func newTable() *table {
	return &table{slots: map[int]*seat{}, points: map[uint64]*Region{}, asked: map[uint64]bool{}}
}

func (t *table) breach(format string, args ...any) {
	if t.wrong == "" {
		t.wrong = fmt.Sprintf(format, args...)
	}
}

func (t *table) Publish(r *Region) {
	if s := t.slots[r.Slot()]; s != nil && (!s.revoked || s.refs > 0) {
		t.breach("slot %d of %v is published for %v", r.Slot(), s.region, r)
	}
	t.slots[r.Slot()] = &seat{region: r}
}

func (t *table) Point(addr uint64, r *Region) {
	if s := t.slots[r.Slot()]; s == nil || s.region != r || s.revoked {
		t.breach("%v is pointed to but not published", r)
	}
	t.points[addr/page] = r
	delete(t.asked, addr/page)
}

func (t *table) Retire(r *Region) bool {
	s := t.slots[r.Slot()]
	if s.refs > 0 || s.taken != s.seen {
		s.seen = s.taken
		return false
	}
	s.revoked = true
	return true
}

func (t *table) Revoke(r *Region)       { t.slots[r.Slot()].revoked = true }
func (t *table) Drained(r *Region) bool { return t.slots[r.Slot()].refs == 0 }
func (t *table) Forget(addr uint64)     { delete(t.asked, addr/page) }
func (t *table) ForgetAll()             { clear(t.asked) }

func (t *table) breached() string { return t.wrong }

func (t *table) take(g *Generations, addr, length uint64) (*Region, func(), bool) {
	r := t.points[addr/page]
	if r != nil && r.start <= addr && addr+length <= r.end && g.Sum(r.start, r.end) == r.generation {
		if s := t.slots[r.Slot()]; s != nil && s.region == r && !s.revoked {
			s.refs++
			s.taken++
			return r, func() { s.refs-- }, false
		}
	}
	ask := !t.asked[addr/page]
	t.asked[addr/page] = true
	return nil, nil, ask
}
