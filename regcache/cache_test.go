package regcache

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestThreads lets threads share a cache. Each owns some pages and is the only
// one to unmap them, after it changed their generation, as programs do; pages of
// different threads share buckets.
func TestThreads(t *testing.T) {
	const threads, rounds, pagesEach = 4, 3000, 64
	var watched Generations
	var versions [threads * pagesEach]atomic.Uint32
	var mu sync.Mutex
	pinned := map[uint64][]uint32{} // mu
	device := newDevice()
	c, err := New(Options{
		Registrar: registrar{device, func(h Handle, addr, length uint64) {
			var v []uint32
			for p := addr / page; p < (addr+length)/page; p++ {
				v = append(v, versions[p].Load())
			}
			mu.Lock()
			defer mu.Unlock()
			pinned[h.ID] = v
		}},
		Generations: func() *Generations { return &watched },
		PageSize:    page, MaxBytes: threads * pagesEach * page / 2, MaxRegions: 12,
	})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for thread := range uint64(threads) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(thread, 2))
			for range rounds {
				first := thread*pagesEach + random.Uint64N(pagesEach-8)
				length := 1 + random.Uint64N(7*page)
				r, err := c.Acquire(first*page, length)
				if err != nil {
					continue
				}
				mu.Lock()
				v := pinned[r.Handle().ID]
				mu.Unlock()
				for p := first; p <= (first*page+length-1)/page; p++ {
					if v[p-r.Start()/page] != versions[p].Load() {
						t.Errorf("page %d is stale in %v", p, r)
					}
				}
				if err := c.Release(r); err != nil {
					t.Error(err)
				}
				if random.Uint64N(100) == 0 {
					watched.Change(first*page, (first+1)*page)
					versions[first].Add(1)
				}
				if random.Uint64N(50) == 0 {
					c.Maintain()
				}
			}
		})
	}
	all.Wait()
	stats := c.Stats()
	if stats.Hits == 0 || stats.Invalidations == 0 || stats.Evictions == 0 {
		t.Errorf("too little happened: %+v", stats)
	}
	if err := c.Close(); err != nil || len(device.registered) != 0 {
		t.Errorf("%v; left: %v", err, device.registered)
	}
}

// registrar tells what is pinned before the cache knows it.
type registrar struct {
	*device
	pin func(h Handle, addr, length uint64)
}

func (r registrar) Register(addr, length uint64) (Handle, error) {
	h, err := r.device.Register(addr, length)
	if err == nil {
		r.pin(h, addr, length)
	}
	return h, err
}

func newTestCore(t testing.TB, d *device, o Options) (*Core, *Generations) {
	t.Helper()
	watched := new(Generations)
	o.Registrar, o.PageSize = d, page
	o.Generations = func() *Generations { return watched }
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 40
	}
	c, err := NewCore(o)
	if err != nil {
		t.Fatal(err)
	}
	return c, watched
}

// TestMergeCost registers the pages of a bucket one by one: upwards, downwards
// and in random order. The pages registered stay below what merge.go says.
func TestMergeCost(t *testing.T) {
	const n = bucketSize / page
	up, down := make([]int, n), make([]int, n)
	for i := range n {
		up[i], down[i] = i, n-1-i
	}
	for name, order := range map[string][]int{"up": up, "down": down, "random": rand.New(rand.NewPCG(3, 3)).Perm(n)} {
		d := newDevice()
		c, _ := newTestCore(t, d, Options{})
		for _, p := range order {
			r, err := c.Acquire(uint64(p)*page, page)
			if err != nil {
				t.Fatal(err)
			}
			if r.bytes() > smallMerge {
				t.Errorf("%s: %v is larger than 64 KiB", name, r)
			}
			_ = c.Release(r)
		}
		if d.total > 5*n*page {
			t.Errorf("%s: each page was registered %d times", name, d.total/n/page)
		}
	}
}

// TestMergeWindows moves a window over a bucket, in steps of a page: a miss
// registers at most four times what was asked for (a merge on each side), and
// regions do not pile up.
func TestMergeWindows(t *testing.T) {
	const window = 40
	d := newDevice()
	c, _ := newTestCore(t, d, Options{})
	for p := uint64(0); p < 2*bucketSize/page; p++ {
		before := d.total
		r, err := c.Acquire(p*page, window*page)
		if err != nil {
			t.Fatal(err)
		}
		if registered := (d.total - before) / page; registered > 4*window {
			t.Errorf("%d pages were registered for a window of %d", registered, window)
		}
		_ = c.Release(r)
	}
	if s := c.Stats(); s.Regions > 200 || s.Merges < 100 {
		t.Errorf("too little was merged: %+v", s)
	}
}

// TestHitAllocatesNothing: what the service thread does most often is free of
// garbage.
func TestHitAllocatesNothing(t *testing.T) {
	c, _ := newTestCore(t, newDevice(), Options{})
	got := testing.AllocsPerRun(100, func() {
		r, err := c.Acquire(0x10000, 5000)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Release(r)
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestRelease(t *testing.T) {
	c, _ := newTestCore(t, newDevice(), Options{})
	r, err := c.Acquire(page, page)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err == nil {
		t.Error("closed although a region is held")
	}
	if err := c.Release(r); err != nil {
		t.Error(err)
	}
	if err := c.Release(r); !errors.Is(err, ErrNotHeld) {
		t.Errorf("released twice: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Promote(page, page, 0); err == nil {
		t.Error("promoted without a front")
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no registrar": {},
		"page size":    {Registrar: newDevice(), PageSize: 3000},
		"many regions": {Registrar: newDevice(), MaxRegions: FrontSlots + 1},
		"few regions":  {Registrar: newDevice(), MaxRegions: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	c, err := NewCore(Options{Registrar: newDevice()})
	if err != nil {
		t.Fatal(err)
	}
	want, err := DefaultBytes(1)
	if err != nil || c.opt.MaxBytes != want || want == 0 || want > 1<<62 {
		t.Errorf("default budget %d, want %d (%v)", c.opt.MaxBytes, want, err)
	}
}

func TestBudget(t *testing.T) {
	const machine, unlimited = 16 << 30, ^uint64(0)
	for _, test := range []struct {
		memlock uint64
		ranks   int
		want    uint64
	}{{8 << 20, 1, 4 << 20}, {8 << 20, 2, 4 << 20}, {8 << 20, 4, 2 << 20}, {unlimited, 1, 4 << 30}, {unlimited, 16, 256 << 20}, {0, 2, 0}, {12 << 30, 2, 2 << 30}} {
		if got := budget(test.memlock, machine, test.ranks); got != test.want {
			t.Errorf("memlock %d for %d ranks: %d, want %d", test.memlock, test.ranks, got, test.want)
		}
	}
	if _, err := DefaultBytes(0); err == nil {
		t.Error("no ranks: accepted")
	}
}

func TestSum(t *testing.T) {
	var g Generations
	for i := range g {
		g[i] = 1 << (i % 8)
	}
	dumb := func(start, end uint64) (sum uint64) {
		seen := map[int]bool{}
		for at := start; at < end; at = at&^(bucketSize-1) + bucketSize {
			if b := Bucket(at); !seen[b] {
				seen[b] = true
				sum += g[b]
			}
		}
		return sum
	}
	random := rand.New(rand.NewPCG(4, 4))
	for range 2000 {
		start := random.Uint64N(1 << 47)
		end := start + random.Uint64N(1<<random.Uint64N(33))
		if got, want := g.Sum(start, end), dumb(start, end); got != want {
			t.Fatalf("sum of %#x to %#x: %d, want %d", start, end, got, want)
		}
		before := g.Sum(start, end)
		g.Change(start, end)
		if start < end && g.Sum(start, end) == before {
			t.Fatalf("a change of %#x to %#x is not seen", start, end)
		}
		if end == start && before != 0 {
			t.Fatal("nothing has a sum")
		}
	}
}

func TestReasons(t *testing.T) {
	for r := range reasons {
		if r.String() == "" || reasonTexts[r] == "" {
			t.Errorf("reason %d has no words", int(r))
		}
	}
	if got := Reason(99).String(); got != "Reason(99)" {
		t.Error(got)
	}
}
