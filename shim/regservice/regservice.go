// Package regservice is the Go half of c/regservice: a regcache.Core for each
// service, entered by that service's thread and by no other. The table in front,
// registering and deregistering are functions of C, handed in as pointers.
//
// It must not contain decisions: those are regcache's.
package regservice

/*
#include "../../c/regservice/core.h"

static inline enum mt_status enlist(struct mt_regservice_calls *c,
                                    uint64_t address, uint64_t bytes,
                                    struct mt_regservice_keys *keys_p)
{
	return c->enlist(c->user, address, bytes, keys_p);
}

static inline void discharge(struct mt_regservice_calls *c, uint64_t handle)
{
	c->discharge(c->user, handle);
}

static inline uint32_t order(struct mt_regservice_calls *c,
                             struct mt_regcache_order *order)
{
	c->serve(c->user, order, 1);
	return order->status;
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/mpitrace/mpitrace/regcache"
)

// service is what the thread of one service has.
type service struct {
	calls *C.struct_mt_regservice_calls
	core  *regcache.Core
	keys  C.struct_mt_regservice_keys // on the heap, once: C writes there
	order C.struct_mt_regcache_order

	registered uint64 // times that the device did
}

// Register has the device register memory.
func (s *service) Register(addr, length uint64) (regcache.Handle, error) {
	switch status := C.enlist(s.calls, C.uint64_t(addr), C.uint64_t(length), &s.keys); status {
	case C.MT_OK:
		s.registered++
		return regcache.Handle{ID: uint64(s.keys.handle), LKey: uint32(s.keys.lkey), RKey: uint32(s.keys.rkey)}, nil
	case C.MT_ENOMEM:
		return regcache.Handle{}, syscall.ENOMEM
	default:
		return regcache.Handle{}, fmt.Errorf("the device refused: status %d", int(status))
	}
}

// Deregister has the device forget it.
func (s *service) Deregister(h regcache.Handle) { C.discharge(s.calls, C.uint64_t(h.ID)) }

// serve has the table carry out an order; false: not now.
func (s *service) serve(verb, slot uint32, r *regcache.Region, addr uint64) bool {
	o := C.struct_mt_regcache_order{verb: C.uint32_t(verb), slot: C.uint32_t(slot), start: C.uint64_t(addr)}
	if verb == C.MT_REGCACHE_PUBLISH {
		h := r.Handle()
		o.start, o.end, o.generation = C.uint64_t(r.Start()), C.uint64_t(r.End()), C.uint64_t(r.Generation())
		o.handle, o.lkey, o.rkey = C.uint64_t(h.ID), C.uint32_t(h.LKey), C.uint32_t(h.RKey)
	}
	s.order = o
	return C.order(s.calls, &s.order) == C.MT_OK
}

// front is the table as regcache wants it.
type front struct{ *service }

func (f front) Publish(r *regcache.Region) { f.serve(C.MT_REGCACHE_PUBLISH, uint32(r.Slot()), r, 0) }
func (f front) Point(addr uint64, r *regcache.Region) {
	f.serve(C.MT_REGCACHE_POINT, uint32(r.Slot()), nil, addr)
}
func (f front) Retire(r *regcache.Region) bool {
	return f.serve(C.MT_REGCACHE_RETIRE, uint32(r.Slot()), nil, 0)
}
func (f front) Revoke(r *regcache.Region) { f.serve(C.MT_REGCACHE_REVOKE, uint32(r.Slot()), nil, 0) }
func (f front) Drained(r *regcache.Region) bool {
	return f.serve(C.MT_REGCACHE_DRAIN, uint32(r.Slot()), nil, 0)
}
func (f front) Forget(addr uint64) { f.serve(C.MT_REGCACHE_FORGET, 0, nil, addr) }
func (f front) ForgetAll()         { f.serve(C.MT_REGCACHE_FORGET_ALL, 0, nil, 0) }

// watched reads the pointer to the generations, which whoever watches memory
// sets and takes away again.
func watched(hook *C.struct_mt_memhook) *regcache.Generations {
	return (*regcache.Generations)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&hook.generations))))
}

// The layouts agree, or this does not compile.
var _ = [1]struct{}{}[unsafe.Sizeof(regcache.Generations{})-8*C.MT_MEMHOOK_BUCKETS]

//export mt_regservice_core_open
func mt_regservice_core_open(calls *C.struct_mt_regservice_calls, text *C.char, bytes C.size_t) C.uintptr_t {
	runtime.GOMAXPROCS(1) // one thread calls, and a rank has other work for processors
	s := &service{calls: calls}
	limit := uint64(calls.max_bytes)
	var err error
	if limit == 0 {
		limit, err = regcache.DefaultBytes(int(calls.local_ranks))
	} else {
		limit, err = regcache.Bounded(limit)
	}
	if err == nil {
		s.core, err = regcache.NewCore(regcache.Options{
			Registrar: s, Front: front{s}, MaxBytes: limit,
			Generations: func() *regcache.Generations { return watched(calls.watched) },
		})
	}
	if err != nil {
		b := unsafe.Slice((*byte)(unsafe.Pointer(text)), int(bytes))
		b[copy(b[:len(b)-1], err.Error())] = 0
		return 0
	}
	return C.uintptr_t(cgo.NewHandle(s))
}

//export mt_regservice_core_step
func mt_regservice_core_step(core C.uintptr_t, misses *C.struct_mt_regcache_miss, n C.uint32_t, maintain C.bool, figures *C.struct_mt_regservice_figures) {
	s := cgo.Handle(core).Value().(*service)
	for _, m := range unsafe.Slice(misses, int(n)) {
		_ = s.core.Promote(uint64(m.address), uint64(m.bytes), uint64(m.generation)) // refusals are counted
	}
	switch {
	case bool(maintain):
		s.core.Maintain()
	case n == 0:
		s.core.Sweep()
	}
	s.count(figures)
}

//export mt_regservice_core_close
func mt_regservice_core_close(core C.uintptr_t, abandon C.bool, figures *C.struct_mt_regservice_figures) C.uint32_t {
	h := cgo.Handle(core)
	s := h.Value().(*service)
	var held uint64
	if s.core.Close() != nil {
		held = s.core.Stats().Regions
	}
	s.count(figures)
	if held == 0 || bool(abandon) {
		h.Delete()
	}
	return C.uint32_t(held)
}

func (s *service) count(figures *C.struct_mt_regservice_figures) {
	t := s.core.Stats()
	*figures = C.struct_mt_regservice_figures{
		pinned_bytes: C.uint64_t(t.PinnedBytes), regions: C.uint64_t(t.Regions),
		registrations: C.uint64_t(s.registered), merges: C.uint64_t(t.Merges), evictions: C.uint64_t(t.Evictions),
		invalidations: C.uint64_t(t.Invalidations), refused: C.uint64_t(t.Refused),
	}
}
