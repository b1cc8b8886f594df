// Package front runs the production C of this folder under Go tests: the only
// thing it is for. It stands beside the C because Go then sees when that changes.
// A table is made of C memory; there is one monitor for all, as in a process.
package front

/*
#include <stdlib.h>
#include "front.h"

struct mt_memhook mt_memhook;

static void watch(const uint64_t *generations)
{
	__atomic_store_n(&mt_memhook.generations, generations, __ATOMIC_RELEASE);
}

// Tests make addresses up: they are numbers, not pointers into Go memory.
static int take(struct mt_regcache *cache, uint64_t address, uint64_t bytes)
{
	const struct mt_regcache_region *r =
		mt_regcache_region_get(cache, (void *)(uintptr_t)address, bytes);
	return r == NULL ? -1 : (int)(r - cache->regions);
}

static void put(struct mt_regcache *cache, int slot)
{
	mt_regcache_region_put(&cache->regions[slot]);
}
*/
import "C"

import "unsafe"

// What the Go side repeats of the headers.
const (
	Regions     = C.MT_REGCACHE_REGIONS
	Buckets     = C.MT_MEMHOOK_BUCKETS
	BucketShift = C.MT_MEMHOOK_SHIFT
)

// The verbs of orders.
const (
	Publish   = C.MT_REGCACHE_PUBLISH
	Point     = C.MT_REGCACHE_POINT
	Retire    = C.MT_REGCACHE_RETIRE
	Revoke    = C.MT_REGCACHE_REVOKE
	Drain     = C.MT_REGCACHE_DRAIN
	Forget    = C.MT_REGCACHE_FORGET
	ForgetAll = C.MT_REGCACHE_FORGET_ALL
)

// The states of an order that was carried out.
const (
	OK    = C.MT_OK
	Again = C.MT_EAGAIN
)

// Order is struct mt_regcache_order.
type Order struct {
	Verb, Slot                     uint32
	Start, End, Generation, Handle uint64
	LKey, RKey                     uint32
	Status, _                      uint32
}

// Miss is struct mt_regcache_miss.
type Miss struct{ Address, Bytes, Generation uint64 }

// The layouts agree, or this does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Order{})-C.sizeof_struct_mt_regcache_order]
	_ = [1]struct{}{}[unsafe.Offsetof(Order{}.Status)-unsafe.Offsetof(C.struct_mt_regcache_order{}.status)]
	_ = [1]struct{}{}[unsafe.Sizeof(Miss{})-C.sizeof_struct_mt_regcache_miss]
)

// Watch makes generations in C memory and lets them be those of the process.
func Watch() *[Buckets]uint64 {
	g := (*[Buckets]uint64)(C.calloc(Buckets, 8))
	C.watch((*C.uint64_t)(&g[0]))
	return g
}

// Unwatch takes them away, as in a child of fork.
func Unwatch() { C.watch(nil) }

// Table is a struct mt_regcache.
type Table struct{ c *C.struct_mt_regcache }

// New makes an empty table; Free ends it.
func New() Table {
	c := (*C.struct_mt_regcache)(C.aligned_alloc(64, C.sizeof_struct_mt_regcache))
	C.mt_regcache_init(c)
	return Table{c}
}

// Free gives the table's memory back.
func (t Table) Free() { C.free(unsafe.Pointer(t.c)) }

// Kill is mt_regcache_kill.
func (t Table) Kill() { C.mt_regcache_kill(t.c) }

// Take is mt_regcache_region_get: a slot, or -1.
func (t Table) Take(address, bytes uint64) int {
	return int(C.take(t.c, C.uint64_t(address), C.uint64_t(bytes)))
}

// Put is mt_regcache_region_put.
func (t Table) Put(slot int) { C.put(t.c, C.int(slot)) }

// Serve is mt_regcache_serve.
func (t Table) Serve(orders []Order) {
	if len(orders) > 0 {
		C.mt_regcache_serve(t.c, (*C.struct_mt_regcache_order)(unsafe.Pointer(&orders[0])), C.uint32_t(len(orders)))
	}
}

// Misses is mt_regcache_misses_take: what was missed, at most len(buffer).
func (t Table) Misses(buffer []Miss) []Miss {
	n := C.mt_regcache_misses_take(t.c, (*C.struct_mt_regcache_miss)(unsafe.Pointer(unsafe.SliceData(buffer))), C.uint32_t(len(buffer)))
	return buffer[:n]
}

// Counts is mt_regcache_count.
func (t Table) Counts() (hits, misses, dropped uint64) {
	var c C.struct_mt_regcache_counts
	C.mt_regcache_count(t.c, &c)
	return uint64(c.hits), uint64(c.misses), uint64(c.dropped)
}
