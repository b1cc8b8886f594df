#include "request.h"

struct mt_request *mt_requests;
uint64_t *mt_request_keys;
uint32_t mt_request_threads;

_Static_assert(MT_REQUEST_BUCKETS == 1 << 10, "mt_request_find takes 10 bits");
_Static_assert(sizeof(struct mt_request) == 56, "private memory is bounded");

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

/* Releases the slot of a pending request if it still holds it. */
static void mt_request_release(const struct mt_pending *pending)
{
    if (mt_requests[pending->slot].generation == pending->generation) {
        __atomic_store_n(&mt_request_keys[pending->slot], 0, __ATOMIC_RELEASE);
    }
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
        mt_site_of_request(shard, request->call, request->address, request->phase);
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

/* The handle is in the table already. A send: the library shares the handle
 * among completed sends, and this one is complete as well. A receive: the
 * older request is complete, but its completing call has not come to count it
 * (another thread is between the library's return and ours), so its entry is
 * left to that thread, without the handle; with one thread it never will, and
 * the entry goes. */
static bool mt_request_again(struct mt_call *call,
                             const struct mt_pending *pending,
                             const struct mt_request *fresh)
{
    struct mt_request *old = &mt_requests[pending->slot];
    struct mt_seg_thread *t = call->shard->thread;
    bool shared_now = (old->kind & MT_REQUEST_SHARED) != 0;
    if ((fresh->kind & MT_REQUEST_RECV) != 0 &&
        (fresh->kind & MT_REQUEST_PEERLESS) == 0) {
        if (mt_request_threads != 0 && !shared_now) {
            /* unless that thread has just released it */
            uint64_t key = pending->handle;
            __atomic_compare_exchange_n(&mt_request_keys[pending->slot], &key,
                                        MT_KEY_ORPHAN, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED);
        } else {
            mt_request_release(pending);
        }
        return false;
    }
    if (!shared_now) {
        t->requests_shared++;
        mt_request_count(call->shard, old, call->stop, -1, -1);
        __atomic_store_n(&old->kind, old->kind | MT_REQUEST_SHARED,
                         __ATOMIC_RELEASE);
    }
    t->requests_shared++;
    mt_request_count(call->shard, fresh, call->stop, -1, 0);
    return true;
}

void mt_request_insert(struct mt_call *call, uint64_t handle, uint16_t kind,
                       uint64_t comm, int32_t peer, uint64_t bytes,
                       uint64_t datatype)
{
    struct mt_shard *shard = call->shard;
    struct mt_request fresh = {
        .start = call->stop,
        .address = call->address,
        .bytes = bytes,
        .comm = comm != 0 ? mt_comm(shard, comm) : NULL,
        .generation = __atomic_add_fetch(&mt_generation, 1, __ATOMIC_RELAXED),
        .peer = peer,
        .call = (uint16_t)call->id,
        .type = datatype != 0 ? (uint16_t)mt_type(shard, datatype)->index : 0,
        .kind = kind,
        .site_call = (uint16_t)call->id,
        .phase = mt_phase,
        .tag = shard->thread->details != 0 ? shard->thread->tag : -1,
    };
    bool persistent = (kind & MT_REQUEST_PERSISTENT) != 0;
    shard->thread->requests_started += !persistent;
    struct mt_pending present;
    mt_request_find(handle, &present);
    if (mt_unlikely(present.slot >= 0) && !persistent &&
        mt_request_again(call, &present, &fresh)) {
        return;
    }
    int32_t slot = mt_request_claim(handle);
    if (mt_unlikely(slot < 0)) {
        shard->thread->requests_dropped++;
        return;
    }
    mt_requests[slot] = fresh;
    __atomic_store_n(&mt_request_keys[slot], handle, __ATOMIC_RELEASE);
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
    r->address = call->address;
    r->call = (uint16_t)call->id;
    r->phase = mt_phase;
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

void mt_request_complete(struct mt_call *call, const struct mt_pending *pending,
                         int32_t source, int64_t bytes, bool cancelled)
{
    if (pending->slot < 0) {
        return;
    }
    struct mt_request *r = &mt_requests[pending->slot];
    if ((r->kind & MT_REQUEST_SHARED) != 0 ||
        r->generation != pending->generation) {
        return;
    }
    if ((r->kind & MT_REQUEST_PERSISTENT) != 0) {
        if ((r->kind & MT_REQUEST_ACTIVE) == 0) {
            return;
        }
        r->kind &= (uint16_t)~MT_REQUEST_ACTIVE;
    }
    if (mt_unlikely(cancelled)) {
        mt_request_undo(call->shard, r);
    } else {
        mt_request_count(call->shard, r, call->stop, source, bytes);
    }
    if ((r->kind & MT_REQUEST_PERSISTENT) == 0) {
        mt_request_release(pending);
    }
}

void mt_request_forget(struct mt_call *call, const struct mt_pending *pending)
{
    if (pending->slot < 0) {
        return;
    }
    const struct mt_request *r = &mt_requests[pending->slot];
    if ((r->kind & MT_REQUEST_SHARED) != 0) {
        return;
    }
    bool active = (r->kind & (MT_REQUEST_PERSISTENT | MT_REQUEST_ACTIVE)) !=
                  MT_REQUEST_PERSISTENT;
    if (active) {
        call->shard->thread->requests_freed++;
        mt_request_count(call->shard, r, call->stop, -1, -1);
    }
    mt_request_release(pending);
}
