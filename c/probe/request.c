#include "request.h"

struct mt_request *mt_requests;
uint64_t *mt_request_keys;
uint32_t *mt_request_generations;
uint32_t mt_request_threads;

_Static_assert(MT_REQUEST_BUCKETS == 1 << 10, "mt_request_find takes 10 bits");
_Static_assert(sizeof(struct mt_request) == 48, "private memory is bounded");

/* Keys that are no handle of either MPI: a slot being filled, and an entry
 * whose handle went to another request before its completion was counted. */
#define MT_KEY_BUSY (~UINT64_C(0))
#define MT_KEY_ORPHAN (~UINT64_C(1))

static uint32_t mt_generation;

/* Claims a free slot near the handle's bucket, or -1. */
static int32_t mt_request_claim(uint64_t handle)
{
    unsigned bucket = (unsigned)(mt_hash(handle) >> 54);
    for (unsigned probe = 0; probe < 2; probe++) {
        unsigned first = ((bucket + probe) % MT_REQUEST_BUCKETS) * MT_REQUEST_WAYS;
        for (unsigned i = first; i < first + MT_REQUEST_WAYS; i++) {
            uint64_t free_key = 0;
            if (__atomic_load_n(&mt_request_keys[i], __ATOMIC_RELAXED) == 0 &&
                __atomic_compare_exchange_n(&mt_request_keys[i], &free_key,
                                            MT_KEY_BUSY, false, __ATOMIC_ACQUIRE,
                                            __ATOMIC_RELAXED)) {
                return (int32_t)i;
            }
        }
    }
    return -1;
}

/* Takes the right to count the completion of a request: one caller gets it,
 * whoever else saw it complete does not. The slot stays as it is until
 * mt_request_release. */
static bool mt_request_take(const struct mt_pending *pending)
{
    uint32_t generation = pending->generation;
    return generation != 0 &&
           __atomic_compare_exchange_n(&mt_request_generations[pending->slot],
                                       &generation, 0, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static void mt_request_release(const struct mt_pending *pending)
{
    __atomic_store_n(&mt_request_keys[pending->slot], 0, __ATOMIC_RELEASE);
}

/* Counts a completed request; request is a private copy or a stable entry. */
static void mt_request_count(struct mt_shard *shard,
                             const struct mt_request *request, uint64_t now,
                             int32_t source, int64_t bytes)
{
    shard->thread->requests_completed++;
    struct mt_seg_function *f = mt_function(shard, request->call);
    uint64_t ticks = now - request->start;
    struct mt_seg_site *site =
        mt_site_of_request(shard, request->site, request->shard);
    f->completed++;
    if (mt_likely(ticks <= UINT64_C(1) << 62)) {
        f->completed_ticks += ticks;
        site->request_ticks += ticks;
    }
    if ((request->kind & MT_REQUEST_RECV) == 0 ||
        (request->kind & MT_REQUEST_PEERLESS) != 0) {
        return;
    }
    if (bytes < 0) {
        shard->thread->receives_estimated++;
        bytes = (int64_t)request->bytes;
        source = request->peer;
    }
    site->bytes += (uint64_t)bytes;
    mt_count_arrived(shard, request->call, request->comm, source,
                     (uint64_t)bytes, request->type);
}

/* The handle is in the table already, so the request that had it is complete:
 * the library shares the handle among completed sends, or it has come back
 * before the completing call could count it. The next insert or completion of
 * a handle thus counts the one before it, and each counts once. A receive's
 * completing call is another thread's, between the library's return and ours,
 * and only it knows what arrived: its entry is left to it, without the handle. */
static void mt_request_again(struct mt_call *call, struct mt_pending *pending)
{
    while (pending->slot >= 0) {
        if (mt_request_threads != 0 && mt_request_is_receive(pending)) {
            uint64_t key = pending->handle; /* may have just been released */
            __atomic_compare_exchange_n(&mt_request_keys[pending->slot], &key,
                                        MT_KEY_ORPHAN, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED);
        } else if (mt_request_take(pending)) {
            call->shard->thread->requests_shared++;
            mt_request_count(call->shard, &mt_requests[pending->slot],
                             call->stop, -1, -1);
            mt_request_release(pending);
        }
        mt_request_find(pending->handle, pending);
    }
}

void mt_request_insert(struct mt_call *call, uint64_t handle, uint16_t kind,
                       uint64_t comm, int32_t peer, uint64_t bytes,
                       uint64_t datatype)
{
    struct mt_shard *shard = call->shard;
    struct mt_request fresh = {
        .start = call->stop,
        .site = call->site,
        .bytes = bytes,
        .comm = comm != 0 || (kind & MT_REQUEST_OTHER) == 0
                    ? mt_comm(shard, comm)
                    : NULL,
        .peer = peer,
        .call = (uint16_t)call->id,
        .type = datatype != 0 ? (uint16_t)mt_type(shard, datatype)->index : 0,
        .kind = kind,
        .shard = (uint16_t)shard->number,
        .tag = shard->thread->details != 0 ? shard->thread->tag : -1,
    };
    uint32_t generation =
        __atomic_add_fetch(&mt_generation, MT_GENERATION_STEP,
                           __ATOMIC_RELAXED);
    bool persistent = (kind & MT_REQUEST_PERSISTENT) != 0;
    shard->thread->requests_started += !persistent;
    struct mt_pending present;
    mt_request_find(handle, &present);
    if (mt_unlikely(present.slot >= 0)) {
        mt_request_again(call, &present);
    }
    int32_t slot = mt_request_claim(handle);
    if (mt_unlikely(slot < 0)) {
        shard->thread->requests_dropped++;
        return;
    }
    generation |= (kind & MT_REQUEST_RECV) != 0 ? MT_GENERATION_RECEIVE : 0;
    generation |= persistent ? MT_GENERATION_PERSISTENT : 0;
    mt_requests[slot] = fresh;
    __atomic_store_n(&mt_request_keys[slot], handle, __ATOMIC_RELEASE);
    __atomic_store_n(&mt_request_generations[slot], generation,
                     __ATOMIC_RELEASE);
}

void mt_request_activate(struct mt_call *call, uint64_t handle)
{
    struct mt_pending found;
    mt_request_find(handle, &found);
    if (found.slot < 0) {
        return;
    }
    struct mt_shard *shard = call->shard;
    struct mt_request *r = &mt_requests[found.slot];
    r->start = call->stop;
    r->site = call->site;
    r->call = (uint16_t)call->id;
    r->shard = (uint16_t)shard->number;
    r->kind |= MT_REQUEST_ACTIVE;
    shard->thread->requests_started++;
    if ((r->kind & MT_REQUEST_SEND) != 0 &&
        (r->kind & MT_REQUEST_PEERLESS) == 0) {
        shard->comm_totals[r->comm->index].sent_bytes += r->bytes;
        shard->type_totals[r->type].sent_bytes += r->bytes;
        struct mt_seg_peer *p =
            mt_peer(shard, mt_world_rank(r->comm, r->peer));
        p->sent_messages++;
        p->sent_bytes += r->bytes;
        call->bytes += r->bytes;
        mt_size_bin(shard, call->id, r->bytes);
    } else if ((r->kind & MT_REQUEST_OTHER) != 0) {
        call->bytes += r->bytes;
    }
}

/* A cancelled operation moved nothing: a send was counted when it started. */
static void mt_request_undo(struct mt_shard *shard,
                            const struct mt_request *request)
{
    shard->thread->requests_cancelled++;
    shard->thread->requests_completed++;
    if ((request->kind & MT_REQUEST_SEND) == 0 ||
        (request->kind & MT_REQUEST_PEERLESS) != 0) {
        return;
    }
    shard->comm_totals[request->comm->index].sent_bytes -= request->bytes;
    shard->type_totals[request->type].sent_bytes -= request->bytes;
    struct mt_seg_peer *p =
        mt_peer(shard, mt_world_rank(request->comm, request->peer));
    p->sent_messages--;
    p->sent_bytes -= request->bytes;
}

/* A persistent request stays in the table; it is active or not. */
static void mt_request_rest(struct mt_call *call,
                            const struct mt_pending *pending, int32_t source,
                            int64_t bytes, bool cancelled)
{
    struct mt_request *r = &mt_requests[pending->slot];
    if ((r->kind & MT_REQUEST_ACTIVE) == 0) {
        return;
    }
    r->kind &= (uint16_t)~MT_REQUEST_ACTIVE;
    if (cancelled) {
        mt_request_undo(call->shard, r);
    } else {
        mt_request_count(call->shard, r, call->stop, source, bytes);
    }
}

void mt_request_complete(struct mt_call *call, const struct mt_pending *pending,
                         int32_t source, int64_t bytes, bool cancelled)
{
    struct mt_pending p = *pending;
    if ((p.generation & MT_GENERATION_PERSISTENT) != 0) {
        mt_request_rest(call, pending, source, bytes, cancelled);
        return;
    }
    /* One that was counted already had a handle shared among sends: whichever
     * of them still has it is complete too. */
    while (!mt_request_take(&p)) {
        mt_request_find(p.handle, &p);
        if (p.slot < 0 || mt_request_is_receive(&p)) {
            return;
        }
    }
    const struct mt_request *r = &mt_requests[p.slot];
    if (mt_unlikely(cancelled)) {
        mt_request_undo(call->shard, r);
    } else {
        mt_request_count(call->shard, r, call->stop, source, bytes);
    }
    mt_request_release(&p);
}

void mt_request_fail(struct mt_call *call, const struct mt_pending *pending)
{
    if (pending->slot >= 0 &&
        (pending->generation & MT_GENERATION_PERSISTENT) == 0 &&
        mt_request_take(pending)) {
        call->shard->thread->requests_completed++;
        mt_request_release(pending);
    }
}

void mt_request_drop(const struct mt_pending *pending)
{
    if (pending->slot >= 0 &&
        (pending->generation & MT_GENERATION_PERSISTENT) == 0 &&
        mt_request_take(pending)) {
        mt_request_release(pending);
    }
}

void mt_request_forget(struct mt_call *call, const struct mt_pending *pending)
{
    if (pending->slot < 0 || !mt_request_take(pending)) {
        return;
    }
    const struct mt_request *r = &mt_requests[pending->slot];
    bool active = (r->kind & (MT_REQUEST_PERSISTENT | MT_REQUEST_ACTIVE)) !=
                  MT_REQUEST_PERSISTENT;
    if (active) {
        call->shard->thread->requests_freed++;
        mt_request_count(call->shard, r, call->stop, -1, -1);
    }
    mt_request_release(pending);
}
