/* enter.c: entry and return when the plain case does not hold: a call from
 * inside MPI, the first call of a thread, a stale guard, the shared shard, a
 * closed gate, a handler of a signal that came while this thread held a lock. */
#include "event.h"

_Thread_local struct mt_tls mt_tls
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
struct mt_ops mt_ops;
uint32_t mt_gate = MT_GATE_CLOSED;
uint32_t mt_phase;
uint32_t mt_type_epoch = 1;
uint32_t mt_comm_epoch = 1;
uint32_t mt_stack_depth;
uint32_t mt_clock_source = MPITRACE_CLOCK_SOURCE_VDSO;
uint32_t mt_acting;
void *mt_real_mpi[MPITRACE_CALL_LIMIT];

/* Counts a call that is the application's although the plain case failed. */
static enum mt_verdict mt_enter_counted(struct mt_call *call, uintptr_t address,
                                        uintptr_t frame, uintptr_t guard,
                                        bool nested)
{
    struct mt_tls *tls = &mt_tls;
    struct mt_shard *shard = tls->shard;
    if (shard == NULL) {
        shard = mt_ops.shard_attach();
    }
    if (shard == NULL) {
        tls->guard = guard;
        return MT_FORWARD;
    }
    mt_shard_lock(shard);
    call->shard = shard;
    call->nested = nested;
    if (nested) {
        shard->thread->calls_callback++;
        call->outer = *shard->thread;
        call->site = mt_site_nested(shard, call->id, address, frame,
                                    &call->address);
    } else {
        shard->thread->guard_repairs += guard != 0;
        call->site =
            mt_site_find(shard, call->id, address, frame, &call->address);
    }
    call->site->calls++;
    mt_shard_unlock(shard);
    return MT_COUNT;
}

bool mt_conversion_of_binding(uint32_t id, uintptr_t address)
{
    struct mt_shard *shard = mt_tls.shard; /* NULL: a thread's first call */
    if (mt_gate != 0 || (mt_tls.guard & MT_GUARD_LOCKED) != 0 ||
        mt_ops.caller(address) == MT_CALLER_APPLICATION) {
        return false;
    }
    mt_tls.guard &= ~MT_GUARD_PMPI;
    if (shard != NULL && shard->shared == 0) {
        shard->sites[mt_site_cache_slot(address, id)] = (struct mt_site_cached){
            .address = address, .call = id, .phase = mt_phase};
    }
    return true;
}

MT_COLD enum mt_verdict mt_enter_slow(struct mt_call *call, uintptr_t address,
                                      uintptr_t frame)
{
    struct mt_tls *tls = &mt_tls;
    bool by_pmpi_name = (tls->guard & MT_GUARD_PMPI) != 0;
    bool locked = (tls->guard & MT_GUARD_LOCKED) != 0;
    uintptr_t guard = tls->guard & ~MT_GUARD_PMPI;
    uint32_t gate = __atomic_load_n(&mt_gate, __ATOMIC_ACQUIRE);
    tls->guard = guard;
    call->shard = NULL;
    call->nested = 0;
    call->bytes = 0;
    if ((gate & MT_GATE_CLOSED) != 0) {
        if (mt_ops.forward != NULL) {
            call->real = mt_ops.forward(call->id, address, by_pmpi_name);
        }
        return MT_FORWARD;
    }
    call->real = mt_ops.forward(call->id, address, by_pmpi_name);
    if (locked) { /* a signal handler's call, see MT_GUARD_MARKS */
        return MT_FORWARD;
    }
    /* A guard below the caller is left from a call that was jumped out of; one
     * above it may be. */
    bool nested = guard != 0 && frame < guard;
    /* A thread that the library made for itself gets no shard in act mode: with
     * one, its calls would take the plain case, and go to the stand-ins. */
    if ((nested || mt_acting != 0) &&
        mt_ops.caller(address) == MT_CALLER_LIBRARY) {
        if (tls->shard != NULL && tls->shard->shared == 0) {
            tls->shard->thread->calls_internal++;
        }
        return MT_FORWARD;
    }
    nested = nested && mt_ops.inside(frame, guard);
    call->restore = nested ? guard : 0;
    tls->guard = nested ? guard : frame;
    if ((gate & MT_GATE_PAUSED) != 0) {
        return MT_WATCH;
    }
    return mt_enter_counted(call, address, frame, guard, nested);
}

void mt_leave_slow(struct mt_call *call, uint64_t ticks)
{
    struct mt_shard *shard = call->shard;
    struct mt_seg_site *site = call->site;
    struct mt_seg_thread *t = shard->thread;
    if (shard->traced != 0) {
        mt_event_call(call);
    }
    if (ticks > UINT64_C(1) << 62) {
        t->clock_dropped++;
    } else {
        site->ticks += ticks;
        if (ticks > site->max_ticks) {
            site->max_ticks = ticks;
        }
        mt_function(shard, call->id)
            ->time_bins[mt_bin(ticks, MPITRACE_TIME_BINS)]++;
    }
    if (call->nested != 0) {
        t->details = call->outer.details;
        t->address = call->outer.address;
        t->comm_handle = call->outer.comm_handle;
        t->peer = call->outer.peer;
        t->tag = call->outer.tag;
        t->enter_ticks = call->outer.enter_ticks;
        __atomic_store_n(&t->call, call->outer.call, __ATOMIC_RELEASE);
    } else {
        t->exit_ticks = call->stop;
        __atomic_store_n(&t->call, 0, __ATOMIC_RELEASE);
    }
    mt_shard_unlock(shard);
    mt_tls.guard = call->restore;
}
