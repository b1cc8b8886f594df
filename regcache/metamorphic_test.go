package regcache

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// world drives a cache by a stream of bytes and checks every answer against
// what a dumb observer knows: which ranges the device has registered, which
// version of each page was there when it was, and who holds what. Memory is
// three buckets of pages; a page's version grows when it is unmapped, after the
// generation of its bucket changed.
type world struct {
	t        testing.TB
	stream   []byte
	core     *Core
	device   *device
	front    threads
	watched  *Generations
	none     bool
	versions [worldPages]uint32
	pinned   map[uint64][]uint32 // handle → versions at registration
	held     []hold
	leaving  [][2]uint64 // ranges of which an unmapping has begun
	owned    [][2]uint64 // the buffer of a call in progress
	max      uint64
	regions  int
}

// hold is a reference, of the cache or of the front.
type hold struct {
	region *Region
	give   func()
}

const (
	worldPages = 3 * bucketSize / page
	worldBase  = 7 * bucketSize
)

// newWorld makes a world of the first bytes of the stream; most have a front.
func newWorld(t testing.TB, stream []byte, newFront func() (threads, *Generations)) *world {
	w := &world{t: t, stream: stream, device: newDevice(), watched: new(Generations), pinned: map[uint64][]uint32{}}
	w.max = (4 + uint64(w.byte()%64)) * page
	w.regions = 1 + w.byte()%20
	if w.byte()%4 == 0 {
		w.device.limit = w.max / 2
	}
	o := Options{Registrar: w, PageSize: page, MaxBytes: w.max, MaxRegions: w.regions, Generations: w.generations}
	if w.byte()%4 > 0 {
		w.front, w.watched = newFront()
		o.Front = w.front
	}
	var err error
	if w.core, err = NewCore(o); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) generations() *Generations {
	if w.none {
		return nil
	}
	return w.watched
}

func (w *world) byte() int {
	if len(w.stream) == 0 {
		return 0
	}
	b := w.stream[0]
	w.stream = w.stream[1:]
	return int(b)
}

// Register pins what is mapped now, and lets memory change in the middle.
func (w *world) Register(addr, length uint64) (Handle, error) {
	if w.byte()%16 == 0 {
		w.change()
	}
	h, err := w.device.Register(addr, length)
	if err == nil {
		first := (addr - worldBase) / page
		w.pinned[h.ID] = slices.Clone(w.versions[first : first+length/page])
	}
	if w.byte()%16 == 0 {
		w.change()
	}
	return h, err
}

func (w *world) Deregister(h Handle) {
	for _, hold := range w.held {
		if hold.region.Handle() == h {
			w.t.Errorf("handle %d is deregistered while it is held", h.ID)
		}
	}
	if w.device.registered[h.ID] == [2]uint64{} {
		w.t.Errorf("handle %d is deregistered but not registered", h.ID)
	}
	w.device.Deregister(h)
}

// request is a range within the world, near one of a few places, the
// boundaries of buckets among them, so that requests meet.
func (w *world) request() (addr, length uint64) {
	const bucket = bucketSize / page
	places := [...]uint64{0, bucket / 2, bucket - 12, 2*bucket - 4}
	first := places[w.byte()%len(places)] + uint64(w.byte()%24)
	addr = worldBase + first*page + uint64(w.byte())*16
	length = 1 + uint64(w.byte()%8)*uint64(w.byte())*16
	return addr, length
}

// overlaps reports whether a range has pages in common with one of the others.
func overlaps(addr, length uint64, others [][2]uint64) bool {
	return slices.ContainsFunc(others, func(o [2]uint64) bool {
		return addr&^(page-1) < o[1] && o[0] <= (addr+length-1)|(page-1)
	})
}

// change unmaps some pages that nobody uses. The generation changes first; the
// pages may go much later, and until then nobody asks for them.
func (w *world) change() {
	addr, length := w.request()
	if overlaps(addr, length, w.leaving) || overlaps(addr, length, w.owned) {
		return
	}
	for _, h := range w.held {
		if overlaps(addr, length, [][2]uint64{{h.region.start, h.region.end}}) {
			return
		}
	}
	w.watched.Change(addr, addr+length)
	w.leaving = append(w.leaving, [2]uint64{addr, addr + length})
	if w.byte()%2 == 0 {
		w.gone()
	}
}

// gone ends the unmappings that have begun: other memory is there now.
func (w *world) gone() {
	for _, r := range w.leaving {
		for p := (r[0] - worldBase) / page; p <= (r[1]-1-worldBase)/page; p++ {
			w.versions[p]++
		}
	}
	w.leaving = nil
}

// right checks a region that was handed out for a request.
func (w *world) right(r *Region, addr, length uint64) {
	w.t.Helper()
	if r.Start() > addr || addr+length > r.End() {
		w.t.Fatalf("%v does not cover %#x, %d bytes", r, addr, length)
	}
	if w.device.registered[r.Handle().ID] != [2]uint64{r.Start(), r.End()} {
		w.t.Fatalf("%v is not registered", r)
	}
	if w.none {
		return
	}
	if w.watched.Sum(r.Start(), r.End()) != r.Generation() {
		w.t.Fatalf("%v is stale by its generation", r)
	}
	first := (r.Start() - worldBase) / page
	for i, version := range w.pinned[r.Handle().ID] {
		if w.versions[first+uint64(i)] != version {
			w.t.Fatalf("%v is stale at page %d", r, i)
		}
	}
}

func (w *world) step() {
	switch op := w.byte() % 16; {
	case op < 4:
		w.acquire()
	case op < 7:
		w.take()
	case op < 13:
		for range min(2, len(w.held)) {
			w.release(w.byte() % len(w.held))
		}
	case op == 13:
		w.change()
		if w.byte()%2 == 0 {
			w.gone()
		}
	case op == 14:
		w.core.Maintain()
	case op == 15 && w.byte() < 8:
		w.none = !w.none
	}
	w.invariants()
}

func (w *world) acquire() {
	addr, length := w.request()
	if overlaps(addr, length, w.leaving) {
		return
	}
	w.owned = [][2]uint64{{addr, addr + length}}
	r, err := w.core.Acquire(addr, length)
	w.owned = nil
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		w.refused(refusal)
		return
	case err != nil:
		w.t.Fatal(err)
	}
	w.right(r, addr, length)
	give := func() {
		if err := w.core.Release(r); err != nil {
			w.t.Fatal(err)
		}
	}
	w.held = append(w.held, hold{r, give})
	if w.none {
		return
	}
	w.gone()
	w.right(r, addr, length)
	again, err := w.core.Acquire(addr, length)
	if again != r || err != nil {
		w.t.Fatalf("%v was just handed out, now: %v, %v", r, again, err)
	}
	w.held = append(w.held, hold{r, give})
}

// refused checks that there was a reason.
func (w *world) refused(e *Refusal) {
	held := map[uint64]uint64{} // handle → bytes
	for _, h := range w.held {
		held[h.region.Handle().ID] = h.region.bytes()
	}
	var bytes uint64
	for _, n := range held {
		bytes += n
	}
	start := e.Addr &^ (page - 1)
	asked := (e.Addr+e.Length+page-1)&^(page-1) - start
	most := w.max
	if w.device.limit > 0 { // which the cache may have found out
		most = min(most, w.device.limit)
	}
	good := map[Reason]bool{
		TooLarge: asked > most,
		Busy:     bytes+asked > most || len(held) >= w.regions,
		Memlock:  w.device.limit > 0 && bytes+asked > w.device.limit,
		Changed:  true, // the stream decides
	}
	if !good[e.Reason] {
		w.t.Fatalf("refused without need: %v; %d bytes in %d regions are held", e, bytes, len(held))
	}
}

// take is a thread's way: the front, and the cache if it does not have it.
// Between its miss and the service, memory may change.
func (w *world) take() {
	if w.front == nil || w.none {
		return
	}
	addr, length := w.request()
	if overlaps(addr, length, w.leaving) {
		return
	}
	r, give, ask := w.front.take(w.watched, addr, length)
	if r != nil {
		w.right(r, addr, length)
		w.held = append(w.held, hold{r, give})
		return
	}
	if !ask {
		return
	}
	since := w.watched.Sum(addr, addr+length)
	if w.byte()%8 == 0 {
		w.change()
	}
	if err := w.core.Promote(addr, length, since); err != nil {
		return
	}
	w.gone()
	if r, give, _ = w.front.take(w.watched, addr, length); r == nil && w.watched.Sum(addr, addr+length) == since {
		w.t.Fatalf("%#x, %d bytes were promoted and are not in the front", addr, length)
	} else if r != nil {
		w.right(r, addr, length)
		w.held = append(w.held, hold{r, give})
	}
}

func (w *world) release(i int) {
	h := w.held[i]
	w.held = slices.Delete(w.held, i, i+1)
	h.give()
}

func (w *world) invariants() {
	stats := w.core.Stats()
	switch {
	case stats.PinnedBytes != w.device.bytes || stats.Regions != uint64(len(w.device.registered)):
		w.t.Fatalf("%d bytes in %d regions are registered, the cache says %d in %d", w.device.bytes, len(w.device.registered), stats.PinnedBytes, stats.Regions)
	case stats.PinnedBytes > w.max || stats.Regions > uint64(w.regions):
		w.t.Fatalf("%d bytes in %d regions: beyond the budget of %d and %d", stats.PinnedBytes, stats.Regions, w.max, w.regions)
	case w.front != nil && w.front.breached() != "":
		w.t.Fatal(w.front.breached())
	case w.core.lru.Len() != len(w.core.index):
		w.t.Fatalf("%d regions in order of use, %d in order of addresses", w.core.lru.Len(), len(w.core.index))
	}
	for i := 1; i < len(w.core.index); i++ {
		if a, b := w.core.index[i-1], w.core.index[i]; a.start >= b.start || a.end >= b.end {
			w.t.Fatalf("%v stands before %v", a, b)
		}
	}
	var fixed uint64
	for _, r := range w.core.index {
		if r.refs > 0 {
			fixed += r.bytes()
		}
	}
	for _, r := range w.core.dying {
		fixed += r.bytes()
	}
	if fixed != w.core.fixed {
		w.t.Fatalf("%d bytes cannot be evicted, the cache says %d", fixed, w.core.fixed)
	}
}

// finish gives everything back: nothing may be left.
func (w *world) finish() {
	for len(w.held) > 0 {
		w.release(len(w.held) - 1)
	}
	if err := w.core.Close(); err != nil {
		w.t.Fatal(err)
	}
	if len(w.device.registered) != 0 {
		w.t.Fatalf("left: %v", w.device.registered)
	}
}

func (w *world) play() {
	for len(w.stream) > 0 {
		w.step()
	}
	w.finish()
}

func TestMetamorphic(t *testing.T) {
	const worlds, bytes = 300, 8000
	var total Stats
	for seed := range uint64(worlds) {
		w := newWorld(t, randomBytes(rand.New(rand.NewPCG(seed, 1)), bytes), newFake)
		w.play()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		total.add(w.core.Stats())
	}
	// The streams must lead everywhere, or they show nothing.
	if total.Hits < 1000 || total.Merges < 1000 || total.Evictions < 1000 || total.Invalidations < 1000 {
		t.Errorf("too little happened: %+v", total)
	}
	for _, reason := range []Reason{TooLarge, Busy, Memlock, Changed} {
		if total.RefusedBy[reason] < 10 {
			t.Errorf("refused as %v: %d times only", reason, total.RefusedBy[reason])
		}
	}
}

func randomBytes(random *rand.Rand, n int) []byte {
	stream := make([]byte, n)
	for i := range stream {
		stream[i] = byte(random.Uint32())
	}
	return stream
}

func newFake() (threads, *Generations) { return newTable(), new(Generations) }

func (s *Stats) add(o Stats) {
	s.Hits += o.Hits
	s.Merges += o.Merges
	s.Evictions += o.Evictions
	s.Invalidations += o.Invalidations
	for i, n := range o.RefusedBy {
		s.RefusedBy[i] += n
	}
}

func FuzzCore(f *testing.F) {
	f.Add([]byte("\x10\x05\x01\x01 some requests, some changes, and what is held"))
	f.Fuzz(func(t *testing.T, stream []byte) { newWorld(t, stream, newFake).play() })
}
