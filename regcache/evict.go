package regcache

import "slices"

// fits reports whether one more region of that size keeps the budgets.
func (c *Core) fits(bytes uint64) bool {
	return bytes <= c.opt.MaxBytes-c.stats.PinnedBytes && c.stats.Regions < uint64(c.opt.MaxRegions)
}

// makeRoom deregisters dead regions, then the longest unused ones, until a
// region of that size fits. It evicts nothing if what is held leaves no room.
func (c *Core) makeRoom(bytes uint64) bool {
	if c.fits(bytes) {
		return true
	}
	c.sweep()
	if bytes > c.opt.MaxBytes-c.fixed {
		return false
	}
	for !c.fits(bytes) {
		if c.evict() == 0 {
			return false
		}
	}
	return true
}

// evictBytes evicts until that many bytes are gone, or nothing is left to
// evict. It reports whether anything went.
func (c *Core) evictBytes(bytes uint64) bool {
	var gone uint64
	for gone < bytes {
		n := c.evict()
		if n == 0 {
			break
		}
		gone += n
	}
	return gone > 0
}

// evict deregisters the longest unused region that nobody holds and returns its
// bytes, 0 if there is none. The uses that the front saw are asked for only
// now: a region that was taken since the last time gets a second chance, so
// each may have to be looked at twice.
func (c *Core) evict() uint64 {
	for range 2 * c.lru.Len() {
		r, _, _ := c.lru.GetOldest()
		if r.refs > 0 || r.slot >= 0 && !c.opt.Front.Retire(r) {
			c.lru.Get(r) // to the other end
			continue
		}
		c.remove(r)
		c.stats.Evictions++
		c.deregister(r)
		return r.bytes()
	}
	return 0
}

// Maintain drops the regions whose memory changed, deregisters dead ones whose
// references from the front are gone, and lets the front ask again for what was
// refused. To be called now and then, some ten times a second: nothing depends on
// it but how long memory stays pinned, and how soon a refused request is tried
// again.
func (c *Core) Maintain() {
	c.sweep()
	c.drain()
	if c.asked {
		c.asked = false
		c.opt.Front.ForgetAll()
	}
}

// sweep drops the regions whose memory changed.
func (c *Core) sweep() {
	g := c.opt.Generations()
	if g == nil {
		for len(c.index) > 0 {
			c.invalidate(c.index[len(c.index)-1])
		}
		return
	}
	total := g.total()
	if total == c.swept {
		return
	}
	c.swept = total
	for _, r := range slices.Clone(c.index) {
		if g.Sum(r.start, r.end) != r.generation {
			c.invalidate(r)
		}
	}
}

// drain deregisters dead regions whose references from the front are gone.
func (c *Core) drain() {
	for _, r := range slices.Clone(c.dying) {
		c.settle(r)
	}
}

// invalidate drops a region whose memory changed.
func (c *Core) invalidate(r *Region) {
	c.stats.Invalidations++
	c.drop(r)
}

// supersede drops the regions that a new one will cover. It comes before the
// registration, so that no page needs room for both in the budget.
func (c *Core) supersede(start, end uint64) {
	for _, r := range slices.Clone(c.index.inside(start, end)) {
		c.stats.Merges++
		c.drop(r)
	}
}

// remove takes r out of the index: it is not handed out any more.
func (c *Core) remove(r *Region) {
	c.index.remove(r)
	c.lru.Remove(r)
}

// drop removes r and deregisters it as soon as nobody holds it.
func (c *Core) drop(r *Region) {
	c.remove(r)
	if r.slot >= 0 {
		c.opt.Front.Revoke(r)
	}
	if r.refs == 0 {
		c.fixed += r.bytes()
	}
	r.state = dying
	c.dying = append(c.dying, r)
	c.settle(r)
}

// settle deregisters a dying region if nobody holds it.
func (c *Core) settle(r *Region) {
	if r.refs > 0 || r.slot >= 0 && !c.opt.Front.Drained(r) {
		return
	}
	i := slices.Index(c.dying, r)
	c.dying = slices.Delete(c.dying, i, i+1)
	c.fixed -= r.bytes()
	c.deregister(r)
}

// deregister ends the registration of a region that nobody holds. Its slot is
// free again.
func (c *Core) deregister(r *Region) {
	if r.slot >= 0 {
		c.slots = append(c.slots, r.slot)
		r.slot = -1
	}
	c.stats.PinnedBytes -= r.bytes()
	c.stats.Regions--
	c.opt.Registrar.Deregister(r.handle)
}
