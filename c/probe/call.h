/* call.h: one intercepted call, from entry to return.
 *
 * The order on the hot path: mt_enter (guard, shard, call site) -> mt_go
 * (publish the call in progress, read the clock) -> the MPI library ->
 * mt_stop (read the clock) -> what the class of the call counts (tally.h) ->
 * mt_leave (totals, guard). Nothing here allocates, locks or enters the
 * kernel; the slow paths declared here are in enter.c and site.c. */
#ifndef MPITRACE_PROBE_CALL_H
#define MPITRACE_PROBE_CALL_H

#include "shard.h"

struct mt_call {
    void *real;               /* where the call goes */
    struct mt_shard *shard;   /* NULL: not counted */
    struct mt_seg_site *site;
    uint64_t start;
    uint64_t stop;
    uint64_t bytes;           /* payload, see struct mt_seg_site */
    uintptr_t restore;        /* guard to put back */
    uintptr_t address;        /* call site */
    uint32_t id;
    uint32_t nested;          /* made inside a callback: outer is to be published again */
    struct mt_seg_thread outer;
};

enum mt_verdict {
    MT_FORWARD = 0, /* not the application's call, or nothing is measured */
    MT_COUNT = 1,
    MT_WATCH = 2, /* measurement is paused, registries go on */
};

/* The caller of a wrapper: the return address, and the canonical frame address
 * of the wrapper (the caller's stack pointer at the call). */
#define MT_HERE                                                              \
    (uintptr_t) __builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa()

/* Where the application's calls go: the next definition behind us, or what
 * stands in for it. */
extern void *mt_real_mpi[MPITRACE_CALL_LIMIT];

enum mt_verdict mt_enter_slow(struct mt_call *call, uintptr_t address,
                              uintptr_t frame);
struct mt_seg_site *mt_site_slow(struct mt_shard *shard, uint32_t id,
                                 uintptr_t address, uintptr_t frame,
                                 uintptr_t *found_p);
/* The site of a call from inside a callback: one of its own, flagged. */
struct mt_seg_site *mt_site_nested(struct mt_shard *shard, uint32_t id,
                                   uintptr_t address, uintptr_t frame,
                                   uintptr_t *found_p);
struct mt_seg_function *mt_function_slow(struct mt_shard *shard, uint32_t id);
/* The row of this shard for a call site met in another one. */
struct mt_seg_site *mt_site_of_other(struct mt_shard *shard,
                                     const struct mt_seg_site *site);

/* The row to which the completion of a request adds: that of its start call. */
MT_INLINE struct mt_seg_site *mt_site_of_request(
    struct mt_shard *shard, const struct mt_seg_site *site, uint32_t number)
{
    return mt_likely(number == shard->number)
               ? (struct mt_seg_site *)(uintptr_t)site
               : mt_site_of_other(shard, site);
}

/* The call site: the return address, or the one outside the binding, whose
 * stack frame begins at frame. */
MT_INLINE struct mt_seg_site *mt_site_find(struct mt_shard *shard, uint32_t id,
                                           uintptr_t address, uintptr_t frame,
                                           uintptr_t *found_p)
{
    const struct mt_site_cached *c =
        &shard->sites[mt_site_cache_slot(address, id)];
    if (mt_likely(c->address == address && c->call == id &&
                  c->phase == mt_phase)) {
        *found_p = address;
        return c->site;
    }
    return mt_site_slow(shard, id, address, frame, found_p);
}

MT_INLINE enum mt_verdict mt_enter(struct mt_call *call, uint32_t id,
                                   uintptr_t address, uintptr_t frame)
{
    struct mt_tls *tls = &mt_tls;
    call->id = id;
    call->real = mt_real_mpi[id];
    struct mt_shard *shard = tls->shard;
    if (mt_unlikely((tls->guard | mt_gate) != 0 || shard == NULL ||
                    shard->shared != 0)) {
        return mt_enter_slow(call, address, frame);
    }
    tls->guard = frame;
    call->restore = 0;
    call->nested = 0;
    call->shard = shard;
    call->bytes = 0;
    call->site = mt_site_find(shard, id, address, frame, &call->address);
    call->site->calls++; /* on entry: a call that never returns counts too */
    return MT_COUNT;
}

/* Publishes the call in progress and starts its time. A reader that finds
 * call and enter_ticks the same before and after has a consistent record, so
 * the stores need only stay in this order (x86: they do; arm64: release). */
MT_INLINE void mt_go(struct mt_call *call)
{
    if (mt_unlikely(call->shard == NULL)) {
        return;
    }
    struct mt_seg_thread *t = call->shard->thread;
    t->details = 0;
    t->address = call->address;
    call->start = mt_clock_now();
    t->enter_ticks = call->start;
    __atomic_store_n(&t->call, call->id, __ATOMIC_RELEASE);
}

/* The same for a call that has a communicator: peer is a rank in it (negative:
 * any or none), tag likewise. */
MT_INLINE void mt_go_peer(struct mt_call *call, uint64_t comm, int32_t peer,
                          int32_t tag)
{
    if (mt_unlikely(call->shard == NULL)) {
        return;
    }
    struct mt_seg_thread *t = call->shard->thread;
    t->comm_handle = comm;
    t->peer = peer;
    t->tag = tag;
    t->details = 1;
    t->address = call->address;
    call->start = mt_clock_now();
    t->enter_ticks = call->start;
    __atomic_store_n(&t->call, call->id, __ATOMIC_RELEASE);
}

/* A quick call is local and takes less time than reading the clock twice: it
 * is always counted, and timed once in MT_QUICK_TIMED calls of a site. Returns
 * true when it has been counted and need not be timed. */
enum { MT_QUICK_TIMED = 16 };

MT_INLINE bool mt_quick(uint32_t id, uintptr_t address)
{
    const struct mt_tls *tls = &mt_tls;
    const struct mt_shard *shard = tls->shard;
    if (mt_unlikely((tls->guard | mt_gate) != 0 || shard == NULL ||
                    shard->shared != 0)) {
        return false;
    }
    const struct mt_site_cached *c =
        &shard->sites[mt_site_cache_slot(address, id)];
    if (mt_unlikely(c->address != address || c->call != id ||
                    c->phase != mt_phase)) {
        return false;
    }
    if (mt_unlikely(c->site == NULL)) {
        return true; /* a conversion made by a binding: not the application's */
    }
    if (mt_unlikely(c->site->calls % MT_QUICK_TIMED == 0)) {
        return false;
    }
    c->site->calls++;
    return true;
}

/* Binding libraries convert handles for themselves: such calls are remembered
 * as not to be counted. Returns true if this is one. */
bool mt_conversion_of_binding(uint32_t id, uintptr_t address);

MT_INLINE void mt_stop(struct mt_call *call)
{
    if (mt_likely(call->shard != NULL)) {
        call->stop = mt_clock_now();
        if (mt_unlikely(call->shard->shared != 0)) {
            mt_tls.started = call->start; /* that of the shard is anybody's */
            mt_shard_lock(call->shard);
        }
    }
}

void mt_leave_slow(struct mt_call *call, uint64_t ticks);

MT_INLINE struct mt_seg_function *mt_function(struct mt_shard *shard,
                                              uint32_t id)
{
    struct mt_seg_function *f = shard->functions[id];
    return mt_likely(f != NULL) ? f : mt_function_slow(shard, id);
}

/* Adds the call's time to its site and function, and ends it. */
MT_INLINE void mt_leave(struct mt_call *call, bool failed)
{
    struct mt_shard *shard = call->shard;
    if (mt_unlikely(shard == NULL)) {
        mt_tls.guard = call->restore;
        return;
    }
    uint64_t ticks = call->stop - call->start;
    struct mt_seg_site *site = call->site;
    struct mt_seg_function *f = mt_function(shard, call->id);
    site->bytes += call->bytes;
    if (mt_unlikely(failed)) {
        f->errors++;
    }
    if (mt_unlikely(ticks > (UINT64_C(1) << 62) || call->nested != 0 ||
                    (shard->shared | shard->traced) != 0)) {
        mt_leave_slow(call, ticks);
        return;
    }
    site->ticks += ticks;
    if (ticks > site->max_ticks) {
        site->max_ticks = ticks;
    }
    f->time_bins[mt_bin(ticks, MPITRACE_TIME_BINS)]++;
    shard->thread->exit_ticks = call->stop;
    __atomic_store_n(&shard->thread->call, 0, __ATOMIC_RELEASE);
    mt_tls.guard = 0;
}

/* The same for a quick call: the first of a site stands for itself, every
 * sixteenth after it for sixteen, and one between them (made through a binding,
 * so that mt_quick did not find its site) for none. */
MT_INLINE void mt_leave_quick(struct mt_call *call, bool failed)
{
    if (mt_likely(call->shard != NULL)) {
        uint64_t ticks = call->stop - call->start;
        uint64_t earlier = call->site->calls - 1;
        uint64_t weight = earlier % MT_QUICK_TIMED != 0 ? 0
                          : earlier != 0                ? MT_QUICK_TIMED
                                                        : 1;
        if (mt_likely(ticks <= UINT64_C(1) << 32)) {
            call->site->ticks += ticks * weight - ticks;
        }
    }
    mt_leave(call, failed);
}

#endif
