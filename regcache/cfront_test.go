//go:build cgo

package regcache

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	front "github.com/mpitrace/mpitrace/c/regcache"
)

func TestConstants(t *testing.T) {
	if FrontSlots != front.Regions || Buckets != front.Buckets || BucketShift != front.BucketShift {
		t.Errorf("%d slots, %d buckets of 2^%d here; %d, %d, 2^%d in the headers",
			FrontSlots, Buckets, BucketShift, front.Regions, front.Buckets, front.BucketShift)
	}
}

// cTable is c/regcache as the front, called as the shim's service thread will.
type cTable struct {
	front.Table
	t       testing.TB
	regions []*Region // by slot; of the service
}

func newCTable(t testing.TB) (*cTable, *Generations) {
	watched := front.Watch()
	c := &cTable{Table: front.New(), t: t, regions: make([]*Region, FrontSlots)}
	t.Cleanup(func() { front.Unwatch(); c.Free() })
	return c, (*Generations)(watched)
}

func (c *cTable) order(o front.Order) bool {
	orders := []front.Order{o}
	c.Serve(orders)
	if s := orders[0].Status; s != front.OK && s != front.Again {
		c.t.Errorf("order %+v: status %d", o, s)
	}
	return orders[0].Status == front.OK
}

func (c *cTable) Publish(r *Region) {
	c.regions[r.Slot()] = r
	c.order(front.Order{
		Verb: front.Publish, Slot: uint32(r.Slot()), Start: r.Start(), End: r.End(), Generation: r.Generation(),
		Handle: r.Handle().ID, LKey: r.Handle().LKey, RKey: r.Handle().RKey,
	})
}

func (c *cTable) Point(addr uint64, r *Region) {
	c.order(front.Order{Verb: front.Point, Slot: uint32(r.Slot()), Start: addr})
}

func (c *cTable) Retire(r *Region) bool {
	return c.order(front.Order{Verb: front.Retire, Slot: uint32(r.Slot())})
}

func (c *cTable) Revoke(r *Region) {
	c.order(front.Order{Verb: front.Revoke, Slot: uint32(r.Slot())})
}

func (c *cTable) Drained(r *Region) bool {
	return c.order(front.Order{Verb: front.Drain, Slot: uint32(r.Slot())})
}

func (c *cTable) Forget(addr uint64) { c.order(front.Order{Verb: front.Forget, Start: addr}) }
func (c *cTable) ForgetAll()         { c.order(front.Order{Verb: front.ForgetAll}) }
func (c *cTable) breached() string   { return "" }

func (c *cTable) take(_ *Generations, addr, length uint64) (*Region, func(), bool) {
	if slot := c.Take(addr, length); slot >= 0 {
		return c.regions[slot], func() { c.Put(slot) }, false
	}
	return nil, nil, len(c.Misses(make([]front.Miss, 4))) > 0
}

// TestMetamorphicC is TestMetamorphic with the table in C in front.
func TestMetamorphicC(t *testing.T) {
	const worlds, bytes = 200, 8000
	var hits uint64
	for seed := range uint64(worlds) {
		random := rand.New(rand.NewPCG(seed, 5))
		w := newWorld(t, randomBytes(random, bytes), func() (threads, *Generations) { return newCTable(t) })
		w.play()
		if c, ok := w.front.(*cTable); ok {
			n, _, _ := c.Counts()
			hits += n
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if hits < 10*worlds {
		t.Errorf("only %d hits in the front", hits)
	}
}

func FuzzFront(f *testing.F) {
	f.Add([]byte("\x10\x05\x01\x01 some requests, some changes, and what is held"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		newWorld(t, stream, func() (threads, *Generations) { return newCTable(t) }).play()
	})
}

// TestThreadsC lets threads take from the C table and unmap what they own,
// while one serves them from a cache with room for half of it.
func TestThreadsC(t *testing.T) {
	const threads, hitsEach, pagesEach = 3, 5000, 64
	const base = 12345 * bucketSize
	c, watched := newCTable(t)
	var versions [threads * pagesEach]atomic.Uint32
	var pinned [1 << 16]atomic.Pointer[[]uint32] // by handle, the newest
	device := newDevice()
	core, err := NewCore(Options{
		Registrar: registrar{device, func(h Handle, addr, length uint64) {
			var v []uint32
			for p := (addr - base) / page; p < (addr+length-base)/page; p++ {
				v = append(v, versions[p].Load())
			}
			pinned[h.ID%uint64(len(pinned))].Store(&v)
		}},
		Generations: func() *Generations { return watched }, Front: c,
		PageSize: page, MaxBytes: threads * pagesEach * page, MaxRegions: 8,
	})
	if err != nil {
		t.Fatal(err)
	}
	var published [FrontSlots]atomic.Pointer[Region]
	seen := &observer{cTable: c, publish: func(r *Region) { published[r.Slot()].Store(r) }}
	core.opt.Front = seen

	deadline := time.Now().Add(5 * time.Minute)
	var all sync.WaitGroup
	var working atomic.Int32
	working.Store(threads)
	for thread := range uint64(threads) {
		all.Go(func() {
			defer working.Add(-1)
			random := rand.New(rand.NewPCG(thread, 6))
			for had := 0; had < hitsEach; {
				if time.Now().After(deadline) {
					t.Errorf("thread %d: %d hits only", thread, had)
					return
				}
				first := thread*pagesEach + random.Uint64N(6)*10
				length := 1 + random.Uint64N(4*page)
				addr := base + first*page
				slot := c.Take(addr, length)
				if slot < 0 {
					time.Sleep(time.Microsecond) // let the service answer
				} else {
					had++
					r := published[slot].Load()
					v := *pinned[r.Handle().ID%uint64(len(pinned))].Load()
					if r.Start() > addr || addr+length > r.End() {
						t.Errorf("%v does not cover %#x, %d bytes", r, addr, length)
						return
					}
					for p := first; p <= (addr+length-1-base)/page; p++ {
						if v[p-(r.Start()-base)/page] != versions[p].Load() {
							t.Errorf("page %d is stale in %v", p, r)
						}
					}
					c.Put(slot)
				}
				if random.Uint64N(1000) == 0 { // the generation, and later the page
					watched.Change(addr, addr+1)
					runtime.Gosched()
					versions[first].Add(1)
				}
			}
		})
	}
	misses := make([]front.Miss, 32)
	for n := 0; working.Load() > 0; n++ {
		taken := c.Misses(misses)
		for _, m := range taken {
			_ = core.Promote(m.Address, m.Bytes, m.Generation) // refusals are counted
		}
		if len(taken) == 0 {
			runtime.Gosched()
		}
		if n%64 == 0 {
			core.Maintain()
		}
		if s := core.Stats(); s.PinnedBytes > core.opt.MaxBytes || s.PinnedBytes != device.bytes {
			t.Errorf("%d bytes are registered: %+v", device.bytes, s)
		}
	}
	all.Wait()
	if err := core.Close(); err != nil || len(device.registered) != 0 {
		t.Errorf("%v; left: %v", err, device.registered)
	}
	hits, _, _ := c.Counts()
	if s := core.Stats(); hits != threads*hitsEach || s.Evictions == 0 || s.Invalidations == 0 {
		t.Errorf("%d hits, want %d; evictions, invalidations: %+v", hits, threads*hitsEach, s)
	}
}

// observer tells threads which region is in a slot.
type observer struct {
	*cTable
	publish func(*Region)
}

func (o *observer) Publish(r *Region) {
	o.publish(r)
	o.cTable.Publish(r)
}

// TestKillC: in a child of fork nothing hits, whatever is published.
func TestKillC(t *testing.T) {
	c, watched := newCTable(t)
	core, err := NewCore(Options{Registrar: newDevice(), Generations: func() *Generations { return watched }, Front: c, MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	take := func() bool {
		slot := c.Take(0x10000, 100)
		if slot >= 0 {
			c.Put(slot)
		}
		return slot >= 0
	}
	if err := core.Promote(0x10000, 100, watched.Sum(0x10000, 0x10064)); err != nil || !take() {
		t.Fatalf("not promoted: %v", err)
	}
	front.Unwatch()
	if take() {
		t.Error("a hit without a monitor")
	}
	front.Watch()
	if !take() {
		t.Error("no hit with a monitor")
	}
	c.Kill()
	core.Kill()
	if take() || core.Promote(0x10000, 100, 0) == nil {
		t.Error("alive after it was killed")
	}
}
