package main

import (
	"math"
	"math/rand/v2"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/mpitrace/mpitrace/regcache"
)

// room is how many buffers the caches of measureEviction hold.
const room = 64

// traces are accesses to numbered buffers of one size, made with fixed seeds.
func traces() []struct {
	name string
	of   []int
} {
	const n = 50000
	trace := func(next func(i int, random *rand.Rand) int) []int {
		random := rand.New(rand.NewPCG(1, 1))
		list := make([]int, n)
		for i := range list {
			list[i] = next(i, random)
		}
		return list
	}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(2, 2)), 1.1, 1, 511)
	return []struct {
		name string
		of   []int
	}{
		{"48 buffers in turn (fits)", trace(func(i int, _ *rand.Rand) int { return i % 48 })},
		{"80 buffers in turn", trace(func(i int, _ *rand.Rand) int { return i % 80 })},
		{"80 at random", trace(func(_ int, r *rand.Rand) int { return r.IntN(80) })},
		{"Zipf 1.1 of 512", trace(func(int, *rand.Rand) int { return int(zipf.Uint64()) })},
		{"48, others every 2000", trace(func(i int, r *rand.Rand) int { return i/2000*48 + r.IntN(48) })},
		{"32 and as many used once", trace(func(i int, r *rand.Rand) int {
			if i%2 == 0 {
				return r.IntN(32)
			}
			return 1000 + i
		})},
	}
}

// measureEviction replays traces: the share of accesses that find their buffer.
func measureEviction(_ options, r *report) error {
	r.say("Hits of 50,000 accesses with room for %d buffers, %%", room)
	r.say("  %-28s %9s %9s %9s %9s", "", "LRU", "cache", "and front", "optimum")
	for _, t := range traces() {
		cache, err := replay(t.of, nil)
		if err != nil {
			return err
		}
		behind, err := replay(t.of, &table{})
		if err != nil {
			return err
		}
		rates := []float64{lru(t.of), cache, behind, optimum(t.of)}
		r.say("  %-28s %9.1f %9.1f %9.1f %9.1f", t.name, 100*rates[0], 100*rates[1], 100*rates[2], 100*rates[3])
		for i, name := range []string{"lru", "cache", "front", "optimum"} {
			r.figure("evict", t.name+", "+name, rates[i])
		}
	}
	return nil
}

// lru is golang-lru as it comes.
func lru(trace []int) float64 {
	cache, _ := simplelru.NewLRU[int, struct{}](room, nil) // room is positive
	hits := 0
	for _, b := range trace {
		if _, ok := cache.Get(b); ok {
			hits++
		} else {
			cache.Add(b, struct{}{})
		}
	}
	return float64(hits) / float64(len(trace))
}

// optimum evicts the buffer that is needed again last (L. A. Belady, IBM Systems
// Journal 1966): no policy can do better.
func optimum(trace []int) float64 {
	next := make([]int, len(trace)) // access → the next one to the same buffer
	last := map[int]int{}
	for i := len(trace) - 1; i >= 0; i-- {
		next[i] = math.MaxInt
		if at, ok := last[trace[i]]; ok {
			next[i] = at
		}
		last[trace[i]] = i
	}
	cached := map[int]int{} // buffer → its next access
	hits := 0
	for i, b := range trace {
		if _, ok := cached[b]; ok {
			hits++
		} else if len(cached) == room {
			victim, latest := -1, -1
			for c, at := range cached {
				if at > latest {
					victim, latest = c, at
				}
			}
			delete(cached, victim)
		}
		cached[b] = next[i]
	}
	return float64(hits) / float64(len(trace))
}

// replay runs a trace through the cache; with a table in front, the cache sees
// only what the table misses.
func replay(trace []int, front *table) (float64, error) {
	var watched regcache.Generations
	o := regcache.Options{
		Registrar: nothing{}, MaxBytes: 1 << 40, MaxRegions: room,
		Generations: func() *regcache.Generations { return &watched },
	}
	if front != nil {
		front.regions = map[uint64]*seat{}
		o.Front = front
	}
	c, err := regcache.NewCore(o)
	if err != nil {
		return 0, err
	}
	hits := 0
	for _, b := range trace {
		addr := uint64(b+1) << regcache.BucketShift
		if front != nil && front.take(addr) {
			hits++
			continue
		}
		before := c.Stats().Hits
		if front != nil {
			err = c.Promote(addr, 8192, 0)
		} else {
			err = use(c, addr, 8192)
		}
		if err != nil {
			return 0, err
		}
		hits += int(c.Stats().Hits - before)
	}
	return float64(hits) / float64(len(trace)), nil
}

// table is a front for one thread that holds nothing: it tells only which
// regions were taken.
type table struct{ regions map[uint64]*seat }

type seat struct{ taken, seen int }

func (t *table) take(addr uint64) bool {
	s := t.regions[addr]
	if s != nil {
		s.taken++
	}
	return s != nil
}

// Publish and the rest are regcache.Front.
func (t *table) Publish(r *regcache.Region) { t.regions[r.Start()] = &seat{} }

// Retire gives a second chance to what was taken since.
func (t *table) Retire(r *regcache.Region) bool {
	s := t.regions[r.Start()]
	if s.taken != s.seen {
		s.seen = s.taken
		return false
	}
	delete(t.regions, r.Start())
	return true
}

// Revoke withdraws r.
func (t *table) Revoke(r *regcache.Region) { delete(t.regions, r.Start()) }

// Point, Drained, Forget and ForgetAll have nothing to do.
func (t *table) Point(uint64, *regcache.Region) {}

// Drained is true: nothing is held.
func (t *table) Drained(*regcache.Region) bool { return true }

// Forget does nothing.
func (t *table) Forget(uint64) {}

// ForgetAll does nothing.
func (t *table) ForgetAll() {}
