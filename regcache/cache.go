package regcache

import "sync"

// Cache is a Core that any goroutine may use. The lock is held while the
// registrar works.
type Cache struct {
	mu   sync.Mutex
	core *Core // mu
}

// New makes an empty cache.
func New(o Options) (*Cache, error) {
	core, err := NewCore(o)
	if err != nil {
		return nil, err
	}
	return &Cache{core: core}, nil
}

// Acquire is Core.Acquire.
func (c *Cache) Acquire(addr, length uint64) (*Region, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Acquire(addr, length)
}

// Release is Core.Release.
func (c *Cache) Release(r *Region) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Release(r)
}

// Promote is Core.Promote.
func (c *Cache) Promote(addr, length, since uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Promote(addr, length, since)
}

// Sweep is Core.Sweep.
func (c *Cache) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.Sweep()
}

// Maintain is Core.Maintain.
func (c *Cache) Maintain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.Maintain()
}

// Stats is Core.Stats.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Stats()
}

// Kill is Core.Kill.
func (c *Cache) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.Kill()
}

// Close is Core.Close.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Close()
}
