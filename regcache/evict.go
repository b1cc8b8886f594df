package regcache

import "slices"

// fits reports whether one more region of that size keeps the budgets, when so
// many regions with gone bytes are no longer there.
func (c *Core) fits(bytes uint64, regions int, gone uint64) bool {
	return bytes <= c.most-c.stats.PinnedBytes+gone && c.stats.Regions-uint64(regions) < uint64(c.opt.MaxRegions)
}

// makeRoom deregisters dead regions, then those that [start, end) covers, then
// the longest unused ones, until it fits. It evicts nothing if what is held
// leaves no room. What threads hold is known only when all else is withdrawn;
// then that is put back.
func (c *Core) makeRoom(start, end uint64) bool {
	bytes := end - start
	if c.fits(bytes, 0, 0) {
		return true
	}
	c.sweep()
	if bytes > c.most-c.fixed {
		return false
	}
	var out []*Region
	var gone uint64
	for _, r := range slices.Clone(c.index.inside(start, end)) {
		if c.withdraw(r) || c.withdraw(r) { // its uses do not matter: they go on with the new one
			out, gone = append(out, r), gone+r.bytes()
		}
	}
	for !c.fits(bytes, len(out), gone) {
		r := c.oldest()
		if r == nil {
			for _, r := range out {
				c.restore(r)
			}
			return false
		}
		out, gone = append(out, r), gone+r.bytes()
	}
	for _, r := range out {
		c.evict(r)
	}
	return true
}

// evictBytes evicts until that many bytes are gone, or nothing is left to
// evict. It reports whether anything went.
func (c *Core) evictBytes(bytes uint64) bool {
	var gone uint64
	for gone < bytes {
		r := c.oldest()
		if r == nil {
			break
		}
		gone += r.bytes()
		c.evict(r)
	}
	return gone > 0
}

// oldest withdraws the longest unused region that nobody holds, nil if there is
// none. The uses that the front saw are asked for only now: a region that was
// taken since the last time gets a second chance, so each may have to be looked
// at twice.
func (c *Core) oldest() *Region {
	for range 2 * c.lru.Len() {
		r, _, _ := c.lru.GetOldest()
		if c.withdraw(r) {
			return r
		}
		c.lru.Get(r) // to the other end
	}
	return nil
}

// withdraw removes r and reports whether it did: not if somebody holds it, or a
// thread has taken it since it was looked at last.
func (c *Core) withdraw(r *Region) bool {
	if r.refs > 0 || r.slot >= 0 && !c.opt.Front.Retire(r) {
		r.used = true
		return false
	}
	c.remove(r)
	return true
}

// restore undoes withdraw.
func (c *Core) restore(r *Region) {
	c.index.insert(r)
	c.lru.Add(r, struct{}{})
	if r.slot >= 0 {
		c.opt.Front.Publish(r)
	}
}

// evict deregisters a region that is withdrawn.
func (c *Core) evict(r *Region) {
	c.stats.Evictions++
	c.deregister(r)
}

// Sweep drops the regions whose memory changed, and deregisters dead ones whose
// references from the front are gone. To be called when memory has changed:
// nothing depends on it but how long memory that is gone stays pinned.
func (c *Core) Sweep() {
	c.sweep()
	c.drain()
}

// Maintain is Sweep, and lets the front ask again for what was refused. To be
// called now and then, some ten times a second: nothing depends on it but how
// soon a refused request is tried again.
func (c *Core) Maintain() {
	c.Sweep()
	c.vain = nil
	clear(c.again)
	if c.asked {
		c.asked = false
		c.opt.Front.ForgetAll()
	}
	if c.wary--; c.wary <= 0 {
		c.wary, c.most = 0, c.opt.MaxBytes
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

// invalidate drops a region whose memory changed. It was in vain if no thread has
// taken it.
func (c *Core) invalidate(r *Region) {
	c.stats.Invalidations++
	if !r.used && r.slot >= 0 && c.opt.Front.Retire(r) {
		c.vain = append(c.vain, r)
	}
	c.drop(r)
}

// inVain reports whether [start, end) has pages that were registered in vain.
func (c *Core) inVain(start, end uint64) bool {
	return slices.ContainsFunc(c.vain, func(r *Region) bool { return r.start < end && start < r.end })
}

// supersede drops the regions that a new one covers. It comes after the
// registration: a request that cannot be served takes nothing away.
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
