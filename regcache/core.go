package regcache

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// retries bounds how often a registration is tried again: after an eviction
// when too much is pinned, and when the memory's bucket changed meanwhile.
const retries = 4

// waryFor is how many calls of Maintain, a minute of them, the budget stays
// lowered after more could not be pinned: the limit is shared, and others may
// have given back what they had.
const waryFor = 600

// Core is the cache, for one thread.
type Core struct {
	opt   Options
	index index
	// lru has the regions of the index. One that is in use when it is the
	// oldest is moved to the other end, so it need not be touched while held.
	lru   *simplelru.LRU[*Region, struct{}]
	dying []*Region       // not in the index any more, still referenced
	slots []int           // of the front, free
	fixed uint64          // bytes of regions that are held or dying: not to be evicted
	swept uint64          // total of the generations when sweep looked last
	most  uint64          // MaxBytes, or what could be pinned when more was refused
	wary  int             // calls of Maintain until most is MaxBytes again
	vain  []*Region       // whose memory changed before they were found, since Maintain
	again map[uint64]bool // pages whose memory changed before it was registered, since then
	asked bool            // the front waits with asking for pages that were refused
	dead  bool
	stats Stats
}

// NewCore makes an empty cache.
func NewCore(o Options) (*Core, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	lru, err := simplelru.NewLRU[*Region, struct{}](o.MaxRegions, nil)
	if err != nil {
		return nil, fmt.Errorf("regcache: %w", err)
	}
	c := &Core{opt: o, lru: lru, most: o.MaxBytes, again: map[uint64]bool{}}
	for slot := o.MaxRegions - 1; o.Front != nil && slot >= 0; slot-- {
		c.slots = append(c.slots, slot)
	}
	return c, nil
}

// Stats returns what was counted.
func (c *Core) Stats() Stats { return c.stats }

// Acquire returns a region that covers the bytes, registered if it has to be,
// with a reference that Release gives back. The memory must be the caller's
// from before the call until Release. The error is a *Refusal.
func (c *Core) Acquire(addr, length uint64) (*Region, error) {
	var r *Region
	var err error
	for try := 0; try < retries; try++ {
		var since uint64
		if g := c.opt.Generations(); g != nil && addr+length > addr {
			since = g.Sum(addr, addr+length)
		}
		r, err = c.acquire(addr, length, since, true)
		if err == nil || !refusedFor(err, Changed) {
			break
		}
	}
	return r, c.count(err)
}

// Promote makes the front serve a request that it missed; since is the sum of
// the request's generations, read by the thread that asked, when it asked.
//
// Memory that changes for every message is registered in vain for each. So what
// changed before it was found again, or twice before it could be registered, is not
// asked for before Maintain: the caller copies anyway. Once it may be that only the
// service came late.
func (c *Core) Promote(addr, length, since uint64) error {
	if c.opt.Front == nil {
		return errors.New("regcache: Promote needs Options.Front")
	}
	if c.opt.Generations() == nil {
		return c.count(c.refusal(addr, length, NoMonitor, nil))
	}
	r, err := c.acquire(addr, length, since, false)
	switch {
	case err == nil && r.state == live:
		c.opt.Front.Point(addr, r)
		c.release(r)
	case err == nil: // the monitor went away meanwhile
		c.release(r)
		err = c.refusal(addr, length, NoMonitor, nil)
	case refusedFor(err, Changed) && !c.again[addr/c.opt.PageSize] && !c.inVain(addr, addr+length):
		c.again[addr/c.opt.PageSize] = true
		c.opt.Front.Forget(addr)
	default:
		c.asked = true // asked for again after Maintain
	}
	return c.count(err)
}

// refusal makes the error of a request; count counts it.
func (c *Core) refusal(addr, length uint64, reason Reason, err error) error {
	return &Refusal{Addr: addr, Length: length, Reason: reason, Err: err}
}

func (c *Core) count(err error) error {
	if err == nil {
		return nil
	}
	var r *Refusal
	if errors.As(err, &r) {
		c.stats.Refused++
		c.stats.RefusedBy[r.Reason]++
	}
	return err
}

// acquire is one try; since is the sum of the request's generations while the
// memory was its owner's. anyway: also what was registered in vain lately.
func (c *Core) acquire(addr, length, since uint64, anyway bool) (*Region, error) {
	if c.dead {
		return nil, c.refusal(addr, length, Dead, nil)
	}
	start := addr &^ (c.opt.PageSize - 1)
	end := (addr + length + c.opt.PageSize - 1) &^ (c.opt.PageSize - 1)
	if length == 0 || addr+length < addr || end <= start {
		return nil, c.refusal(addr, length, Invalid, nil)
	}
	g := c.opt.Generations()
	if r := c.find(g, start, end); r != nil {
		c.stats.Hits++
		r.used = true
		c.lru.Get(r)
		c.hold(r)
		return r, nil
	}
	c.stats.Misses++
	c.drain()
	if !anyway && c.inVain(start, end) {
		return nil, c.refusal(addr, length, Changed, nil)
	}
	r, reason, err := c.fetch(g, start, end, since)
	if r == nil {
		return nil, c.refusal(addr, length, reason, err)
	}
	return r, nil
}

// fetch registers the pages [start, end), with neighbours if they fit too.
func (c *Core) fetch(g *Generations, start, end, since uint64) (*Region, Reason, error) {
	if end-start > c.most {
		return nil, TooLarge, nil
	}
	if g == nil {
		return c.register(start, end)
	}
	if g.Sum(start, end) != since {
		return nil, Changed, nil
	}
	from, to := c.merged(start, end, since)
	r, reason, err := c.register(from, to)
	if r == nil && to-from > end-start {
		r, reason, err = c.register(start, end)
	}
	if r == nil {
		return nil, reason, err
	}
	if g.Sum(r.start, r.end) != since {
		c.release(r)
		return nil, Changed, nil
	}
	r.generation = since
	c.admit(r)
	return r, 0, nil
}

// find returns a live region that covers [start, end). Dead ones that it comes
// across are dropped: another may cover the range then.
func (c *Core) find(g *Generations, start, end uint64) *Region {
	if g == nil {
		c.sweep()
		return nil
	}
	for {
		r := c.index.covering(start, end)
		if r == nil || g.Sum(r.start, r.end) == r.generation {
			return r
		}
		c.invalidate(r)
	}
}

// hold takes a reference to a live region.
func (c *Core) hold(r *Region) {
	if r.refs++; r.refs == 1 {
		c.fixed += r.bytes()
	}
}

// admit lets a new region be handed out again, in place of those that it covers.
func (c *Core) admit(r *Region) {
	c.supersede(r.start, r.end)
	r.state = live
	i := slices.Index(c.dying, r)
	c.dying = slices.Delete(c.dying, i, i+1)
	c.index.insert(r)
	c.lru.Add(r, struct{}{})
	if c.opt.Front != nil {
		r.slot = c.slots[len(c.slots)-1]
		c.slots = c.slots[:len(c.slots)-1]
		c.opt.Front.Publish(r)
	}
}

// register registers [start, end) within the budgets. The region comes with one
// reference, and as one of the dying: unless it is admitted, it goes with that.
func (c *Core) register(start, end uint64) (*Region, Reason, error) {
	bytes := end - start
	if !c.makeRoom(start, end) {
		return nil, Busy, nil
	}
	h, err := c.opt.Registrar.Register(start, bytes)
	for try := 0; tooMuch(err) && try < retries && c.evictBytes(bytes); try++ {
		h, err = c.opt.Registrar.Register(start, bytes)
	}
	switch {
	case tooMuch(err):
		// asked for again, it is too large, and nothing is evicted for it
		c.most, c.wary = c.stats.PinnedBytes+bytes-1, waryFor
		return nil, Memlock, err
	case err != nil:
		return nil, Failed, err
	}
	c.stats.PinnedBytes += bytes
	c.stats.Regions++
	c.fixed += bytes
	r := &Region{start: start, end: end, handle: h, slot: -1, refs: 1, state: dying}
	c.dying = append(c.dying, r)
	return r, 0, nil
}

func tooMuch(err error) bool {
	return errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN)
}

// Release gives back a reference of Acquire. A live region stays registered.
func (c *Core) Release(r *Region) error {
	if r.refs == 0 {
		return ErrNotHeld
	}
	c.release(r)
	return nil
}

func (c *Core) release(r *Region) {
	if r.refs--; r.refs > 0 {
		return
	}
	switch r.state {
	case live:
		c.fixed -= r.bytes()
	case dying:
		c.settle(r)
	case lost:
	}
}

// Kill makes the cache forget everything without deregistering: in a child of
// fork, the registrations are the parent's.
func (c *Core) Kill() {
	for _, r := range slices.Concat(c.index, c.dying) {
		r.state = lost
	}
	c.index, c.dying, c.fixed, c.dead = nil, nil, 0, true
	c.lru.Purge()
	c.stats.PinnedBytes, c.stats.Regions = 0, 0
}

// Close deregisters everything that is not referenced, and lets nothing in any
// more. The error says what is still referenced; it is deregistered when
// released, or by Maintain if threads hold it from the front.
func (c *Core) Close() error {
	c.dead = true
	for len(c.index) > 0 {
		c.drop(c.index[len(c.index)-1])
	}
	c.drain()
	if len(c.dying) > 0 {
		return fmt.Errorf("regcache: %d regions, %d bytes, are still referenced", len(c.dying), c.stats.PinnedBytes)
	}
	return nil
}
