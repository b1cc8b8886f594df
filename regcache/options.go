package regcache

import (
	"errors"
	"fmt"
	"os"
)

// Handle names a registration and carries the keys under which a device knows
// it. All of it is the registrar's.
type Handle struct {
	ID         uint64
	LKey, RKey uint32
}

// Registrar makes memory known to a device. Its methods are called one at a
// time and must not call the cache.
//
// Registrations nest: deregistering one leaves the pages of any other
// registered, also those that both have (ibv_reg_mr does that; Mlock counts).
type Registrar interface {
	// Register pins the pages from addr, length bytes, both multiples of the
	// page size. An error that is syscall.ENOMEM or syscall.EAGAIN says that
	// too much is pinned: the cache makes room and tries again.
	Register(addr, length uint64) (Handle, error)
	Deregister(Handle)
}

// Front is a table from which threads take references to regions without
// entering the cache. Its methods are called by the thread that calls the cache.
type Front interface {
	// Publish lets threads take r, in the slot r.Slot(), which is free. After
	// Retire it lets them take r again.
	Publish(r *Region)
	// Point leads requests that start in the page of addr to r, and lets that
	// page be asked for again.
	Point(addr uint64, r *Region)
	// Retire withdraws r unless a thread holds it, or has taken it since Retire
	// was called last. It reports whether r is withdrawn.
	Retire(r *Region) bool
	// Revoke withdraws r whoever holds it, and is followed by Drained.
	Revoke(r *Region)
	// Drained reports whether the last reference to a revoked region is gone.
	Drained(r *Region) bool
	// Forget lets the page of addr be asked for again, ForgetAll every page.
	Forget(addr uint64)
	ForgetAll()
}

// FrontSlots is how many regions a Front has slots for (MT_REGCACHE_REGIONS).
const FrontSlots = 4096

// Options of a cache. Registrar is required, zero values mean the defaults.
type Options struct {
	Registrar Registrar
	// Generations returns the counters of whoever watches memory, nil as long
	// as nobody does: then nothing is cached, and a region is deregistered when
	// it is released. Counters only grow.
	Generations func() *Generations
	// Front is the table in front, nil for none.
	Front Front
	// MaxBytes is how much may be registered at a time, dead regions that are
	// still referenced included; 0 means DefaultBytes(1).
	MaxBytes uint64
	// MaxRegions is how many regions there may be, at most FrontSlots, which
	// is the default.
	MaxRegions int
	// PageSize is a power of two, by default the system's.
	PageSize uint64
}

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.Registrar == nil {
		return o, errors.New("regcache: Options.Registrar is missing")
	}
	if o.Generations == nil {
		o.Generations = func() *Generations { return nil }
	}
	if o.PageSize == 0 {
		o.PageSize = uint64(os.Getpagesize())
	}
	if o.PageSize&(o.PageSize-1) != 0 || o.PageSize > bucketSize {
		return o, fmt.Errorf("regcache: page size %d is no power of two up to %d", o.PageSize, uint64(bucketSize))
	}
	if o.MaxRegions == 0 {
		o.MaxRegions = FrontSlots
	}
	if o.MaxRegions < 1 || o.MaxRegions > FrontSlots {
		return o, fmt.Errorf("regcache: %d regions: choose 1 to %d", o.MaxRegions, FrontSlots)
	}
	if o.MaxBytes == 0 {
		limit, err := DefaultBytes(1)
		if err != nil {
			return o, err
		}
		o.MaxBytes = limit
	}
	return o, nil
}
