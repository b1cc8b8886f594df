/* request.c: the cold half of the table of requests (request.h): slots are taken, found
 * by another key, and given back. */
#include "request.h"

struct mt_request *mt_requests;
uint64_t *mt_request_keys;
uint32_t *mt_request_generations;
uint8_t *mt_request_displaced;
uint32_t *mt_request_stamps;
uint32_t mt_request_threads;

_Static_assert(MT_REQUEST_SLOTS == MT_REQUEST_WAYS << 10,
               "mt_request_bucket takes 10 bits");
_Static_assert(sizeof(struct mt_request) == 64, "private memory is bounded");

/* Keys that are no handle of either MPI: a slot being filled, and an entry
 * whose handle went to another request before its completion was counted. */
#define MT_KEY_BUSY (~UINT64_C(0))
#define MT_KEY_ORPHAN (~UINT64_C(1))

static uint32_t mt_generation = MT_GENERATION_LIVE;

/* Takes a slot that was seen free. Below MPI_THREAD_MULTIPLE the application
 * lets no two calls run at once, and no locked instruction is paid for. */
static bool mt_request_lock(unsigned slot)
{
    uint64_t free_key = 0;
    if (mt_likely(mt_request_threads == 0)) {
        __atomic_store_n(&mt_request_keys[slot], MT_KEY_BUSY, __ATOMIC_RELAXED);
        return true;
    }
    return __atomic_compare_exchange_n(&mt_request_keys[slot], &free_key,
                                       MT_KEY_BUSY, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static uint32_t mt_generation_next(void)
{
    if (mt_likely(mt_request_threads == 0)) {
        mt_generation += MT_GENERATION_STEP;
        return mt_generation;
    }
    return __atomic_add_fetch(&mt_generation, MT_GENERATION_STEP,
                              __ATOMIC_RELAXED);
}

uint32_t mt_request_count_begin(void)
{
    static uint32_t counts;
    if (mt_likely(mt_request_threads == 0)) {
        return ++counts;
    }
    return __atomic_add_fetch(&counts, 1, __ATOMIC_RELAXED);
}

/* Takes one of n slots, or -1. */
static int32_t mt_request_claim_one(unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++) {
        if (__atomic_load_n(&mt_request_keys[i], __ATOMIC_RELAXED) == 0 &&
            mt_request_lock(i)) {
            return (int32_t)i;
        }
    }
    return -1;
}

/* Claims a free slot for a handle, or -1. */
static int32_t mt_request_claim(uint64_t handle)
{
    unsigned home = mt_request_home(handle);
    int32_t slot = mt_request_claim_one(home, 1);
    if (mt_unlikely(slot < 0)) {
        /* before the key can be found elsewhere */
        __atomic_store_n(&mt_request_displaced[home], 1, __ATOMIC_SEQ_CST);
    }
    for (unsigned which = 0; which < MT_REQUEST_TRIES && mt_unlikely(slot < 0);
         which++) {
        slot = mt_request_claim_one(mt_request_bucket(handle, which),
                                    MT_REQUEST_WAYS);
    }
    return slot;
}

/* Takes the right to count the completion of a request: one caller gets it,
 * whoever else saw it complete does not. The slot stays as it is until
 * mt_request_release. */
static bool mt_request_take(const struct mt_pending *pending)
{
    uint32_t generation = pending->generation;
    uint32_t *place = &mt_request_generations[pending->slot];
    if (mt_likely(mt_request_threads == 0)) {
        bool mine = generation != 0 && *place == generation;
        if (mine) {
            __atomic_store_n(place, 0, __ATOMIC_RELAXED);
        }
        return mine;
    }
    return generation != 0 &&
           __atomic_compare_exchange_n(place, &generation, 0, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static void mt_request_release(const struct mt_pending *pending)
{
    __atomic_store_n(&mt_request_keys[pending->slot], 0, __ATOMIC_RELEASE);
}

/* A collective operation is over for this rank. */
static void mt_request_arrival(struct mt_call *call,
                               const struct mt_request *request,
                               const struct mt_seg_site *site)
{
    struct mt_instance seen = {
        .call = request->type,
        .sequence = request->sequence,
        .start = (request->kind & MT_REQUEST_PERSISTENT) != 0 ? request->starts
                                                              : 0,
        .root = request->peer,
        .enter = request->start - request->took,
        .wait = call->start,
        .exit = call->stop,
        .bytes = request->bytes,
        .address = site->address,
    };
    mt_arrival(call->shard, request->comm, &seen);
}

static void mt_request_event(struct mt_call *call,
                             const struct mt_request *request,
                             const struct mt_seg_site *site,
                             const struct mt_envelope *got, uint64_t bytes)
{
    struct mt_posted posted = {.ticks = request->start - request->took,
                               .address = site->address,
                               .call = request->call,
                               .serial = request->sequence,
                               .peer = request->peer,
                               .tag = request->tag};
    mt_event_received(call, request->comm, &posted, got, bytes);
}

/* Counts a completed request; request is a private copy or a stable entry. */
static void mt_request_count(struct mt_call *call,
                             const struct mt_request *request,
                             const struct mt_completion *how)
{
    struct mt_shard *shard = call->shard;
    shard->thread->requests_completed++;
    struct mt_seg_function *f = mt_function(shard, request->call);
    uint64_t ticks = call->stop - request->start;
    uint64_t before = how->seen ? call->start - request->start : ticks;
    before = before <= ticks ? before : 0; /* another thread started it since */
    struct mt_seg_site *site =
        mt_site_of_request(shard, request->site, request->shard);
    f->completed++;
    if (mt_likely(ticks <= UINT64_C(1) << 62)) {
        f->completed_ticks += ticks;
        f->before_ticks += before;
        f->blocked_ticks += how->blocked;
        site->request_ticks += ticks;
        site->before_ticks += before;
        site->blocked_ticks += how->blocked;
    }
    if ((request->kind & MT_REQUEST_COLLECTIVE) != 0 && how->seen) {
        mt_request_arrival(call, request, site);
    }
    if ((request->kind & MT_REQUEST_RECV) == 0 ||
        (request->kind & MT_REQUEST_PEERLESS) != 0) {
        return;
    }
    uint64_t bytes = request->bytes;
    int32_t source = request->peer;
    if (mt_likely(how->got != NULL)) {
        bytes = (uint64_t)how->got->bytes;
        source = how->got->source;
    } else {
        shard->thread->receives_estimated++;
    }
    site->bytes += bytes;
    mt_count_arrived(shard, request->call, request->comm, source, bytes,
                     request->type);
    if (mt_unlikely(shard->traced != 0)) {
        mt_request_event(call, request, site, how->got, bytes);
    }
}

/* False for a persistent request that is not started. */
static bool mt_request_is_active(const struct mt_request *request)
{
    return (request->kind & (MT_REQUEST_PERSISTENT | MT_REQUEST_ACTIVE)) !=
           MT_REQUEST_PERSISTENT;
}

/* It is known to be over, but no call of its own completed it. */
static const struct mt_completion mt_unseen;

/* The handle is in the table already, so the request that had it is complete:
 * the library shares the handle among completed sends, or it has come back
 * before the completing call could count it. The next insert or completion of
 * a handle thus counts the one before it, and each counts once. A receive's
 * completing call is another thread's, between the library's return and ours,
 * and only it knows what arrived: its entry is left to it, without the handle.
 * While measurement is paused (call is NULL) nothing is counted. */
static void mt_request_again(struct mt_call *call, struct mt_pending *pending)
{
    while (pending->slot >= 0) {
        if (mt_request_threads != 0 && mt_request_is_receive(pending)) {
            uint64_t key = pending->handle; /* may have just been released */
            __atomic_compare_exchange_n(&mt_request_keys[pending->slot], &key,
                                        MT_KEY_ORPHAN, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED);
        } else if (mt_request_take(pending)) {
            if (call != NULL &&
                mt_request_is_active(&mt_requests[pending->slot])) {
                call->shard->thread->requests_shared++;
                mt_request_count(call, &mt_requests[pending->slot],
                                 &mt_unseen);
            }
            mt_request_release(pending);
        }
        mt_request_find(pending->handle, pending);
    }
}

/* The handle that the library gives to every send that is complete at once: it
 * has come back MT_SHARED_CERTAIN times in a row while it was followed. From
 * then on such a send is over when it starts, and is not followed at all. */
enum { MT_SHARED_CERTAIN = 16 };
static uint64_t mt_shared_handle, mt_shared_candidate;
static uint32_t mt_shared_times;

static void mt_shared_learn(uint64_t handle)
{
    if (handle != mt_shared_candidate) {
        mt_shared_candidate = handle;
        mt_shared_times = 0;
    }
    if (++mt_shared_times == MT_SHARED_CERTAIN) {
        mt_shared_handle = handle;
    }
}

/* A request that was over when it was started. */
static void mt_request_over(struct mt_call *call)
{
    struct mt_shard *shard = call->shard;
    shard->thread->requests_started++;
    shard->thread->requests_completed++;
    mt_function(shard, call->id)->completed++;
}

static void mt_shared_count(struct mt_call *call)
{
    call->shard->thread->requests_shared++;
    mt_request_over(call);
}

void mt_request_peerless(struct mt_call *call)
{
    mt_count_peerless(call);
    mt_request_over(call);
}

/* Ticks since a moment, as far as 32 bits hold them. */
static uint32_t mt_ticks_between(uint64_t from, uint64_t to)
{
    return to - from < UINT32_MAX ? (uint32_t)(to - from) : UINT32_MAX;
}

/* The record of a request, as far as it does not depend on how it is measured. */
MT_INLINE struct mt_request mt_request_of(const struct mt_call *call,
                                          const struct mt_started *started)
{
    const struct mt_message *m = &started->message;
    bool collective = (started->kind & MT_REQUEST_COLLECTIVE) != 0;
    struct mt_request r = {
        .bytes = m->bytes,
        .comm = m->comm,
        .buffer = collective ? NULL : m->buffer,
        .peer = m->peer,
        .tag = m->tag,
        .call = (uint16_t)call->id,
        .type = (uint16_t)(collective ? call->id : m->type),
        .kind = started->kind,
        .sequence = started->sequence,
    };
    if (collective) {
        r.datatype = m->type;
    }
    return r;
}

/* From now on the record in the slot is found. */
MT_INLINE void mt_request_publish(int32_t slot, const struct mt_started *started)
{
    const uint16_t kind = started->kind;
    uint32_t generation = mt_generation_next();
    /* a receive from MPI_PROC_NULL has nothing to tell */
    generation |= (kind & (MT_REQUEST_RECV | MT_REQUEST_PEERLESS)) ==
                          MT_REQUEST_RECV
                      ? MT_GENERATION_RECEIVE
                      : 0;
    generation |= (kind & MT_REQUEST_PERSISTENT) != 0 ? MT_GENERATION_PERSISTENT
                                                      : 0;
    generation |= (kind & MT_REQUEST_PEERLESS) != 0 ? MT_GENERATION_PEERLESS : 0;
    generation |= (kind & (MT_REQUEST_SEND | MT_REQUEST_PEERLESS)) != 0 &&
                          (kind & MT_REQUEST_PERSISTENT) == 0
                      ? MT_GENERATION_SHARES
                      : 0;
    __atomic_store_n(&mt_request_keys[slot], started->handle, __ATOMIC_RELEASE);
    __atomic_store_n(&mt_request_generations[slot], generation,
                     __ATOMIC_RELEASE);
}

void mt_request_insert(struct mt_call *call, const struct mt_started *started)
{
    struct mt_shard *shard = call->shard;
    const uint16_t kind = started->kind;
    const uint64_t handle = started->handle;
    bool send = kind == MT_REQUEST_SEND;
    if (send && handle == mt_shared_handle && mt_request_threads == 0) {
        mt_shared_count(call);
        return;
    }
    shard->thread->requests_started += (kind & MT_REQUEST_PERSISTENT) == 0;
    struct mt_pending former;
    mt_request_find(handle, &former);
    if (mt_unlikely(former.slot >= 0)) {
        if (send && mt_request_threads == 0) {
            mt_shared_learn(handle);
        }
        mt_request_again(call, &former);
    }
    int32_t slot = mt_request_claim(handle);
    if (mt_unlikely(slot < 0)) {
        shard->thread->requests_dropped++;
        return;
    }
    struct mt_request *r = &mt_requests[slot];
    *r = mt_request_of(call, started);
    r->start = call->stop;
    r->site = call->site;
    r->shard = (uint16_t)shard->number;
    r->took = mt_ticks_between(call->start, call->stop);
    mt_request_publish(slot, started);
}

void mt_request_insert_paused(struct mt_call *call,
                              const struct mt_started *started)
{
    struct mt_pending former;
    mt_request_find(started->handle, &former);
    mt_request_again(NULL, &former);
    int32_t slot = mt_request_claim(started->handle);
    if (slot < 0) {
        call->shard->thread->requests_dropped++;
        return;
    }
    mt_requests[slot] = mt_request_of(call, started);
    mt_request_publish(slot, started);
}

/* A persistent message of a trace was started. */
static void mt_request_posted(struct mt_call *call, struct mt_request *r,
                              bool receive)
{
    if (receive) {
        r->sequence = mt_event_serial(true);
    } else {
        mt_event_sent(call, r->comm, r->peer, r->tag, r->bytes, false);
    }
}

/* A persistent collective was started: what mt_count_collective counts of others,
 * but the call, which names no communicator. */
static void mt_request_operation(struct mt_call *call,
                                 const struct mt_request *r)
{
    struct mt_shard *shard = call->shard;
    struct mt_seg_total *t = &shard->comm_totals[r->comm->index];
    t->collectives++;
    t->sent_bytes += r->bytes;
    if (r->datatype != (uint32_t)MT_TYPE_NONE) {
        t = &shard->type_totals[r->datatype];
        t->collectives++;
        t->sent_bytes += r->bytes;
    }
    call->bytes += r->bytes;
    mt_size_bin(shard, call->id, r->bytes);
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
    r->shard = (uint16_t)shard->number;
    r->kind |= MT_REQUEST_ACTIVE;
    r->took = mt_ticks_between(call->start, call->stop);
    shard->thread->requests_started++;
    r->call = (uint16_t)call->id;
    if ((r->kind & MT_REQUEST_PEERLESS) != 0 &&
        call->id == MPITRACE_CALL_Start) {
        mt_count_peerless(call);
    }
    if ((r->kind & MT_REQUEST_COLLECTIVE) != 0) {
        r->starts++;
        mt_request_operation(call, r);
    }
    if ((r->kind & (MT_REQUEST_OTHER | MT_REQUEST_PEERLESS)) == 0) {
        bool receive = (r->kind & MT_REQUEST_RECV) != 0;
        mt_reuse(shard, r->buffer, r->bytes,
                 receive ? MPITRACE_PATH_RECEIVE : MPITRACE_PATH_SEND);
        if (mt_unlikely(shard->traced != 0)) {
            mt_request_posted(call, r, receive);
        }
    }
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
    }
}

void mt_request_unmeasured(uint64_t handle)
{
    struct mt_pending found;
    mt_request_find(handle, &found);
    if (found.slot >= 0 &&
        (mt_requests[found.slot].kind & MT_REQUEST_COLLECTIVE) != 0) {
        mt_requests[found.slot].starts++;
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
                            const struct mt_pending *pending,
                            const struct mt_completion *how)
{
    struct mt_request *r = &mt_requests[pending->slot];
    if ((r->kind & MT_REQUEST_ACTIVE) == 0) {
        return;
    }
    r->kind &= (uint16_t)~MT_REQUEST_ACTIVE;
    if (how->cancelled) {
        mt_request_undo(call->shard, r);
    } else {
        mt_request_count(call, r, how);
    }
}

void mt_request_complete(struct mt_call *call, const struct mt_pending *pending,
                         const struct mt_completion *how)
{
    struct mt_pending p = *pending;
    if ((p.generation & MT_GENERATION_PERSISTENT) != 0) {
        mt_request_rest(call, pending, how);
        return;
    }
    if (p.handle == mt_shared_candidate) {
        mt_shared_times = 0; /* MT_SHARED_CERTAIN times in a row, that is */
    }
    /* One that was counted already had a handle shared among sends: whichever
     * of them still has it is complete too. */
    while (!mt_request_take(&p)) {
        mt_request_find(p.handle, &p);
        if (p.slot < 0 || (p.generation & MT_GENERATION_SHARES) == 0) {
            return;
        }
    }
    const struct mt_request *r = &mt_requests[p.slot];
    if (mt_unlikely(how->cancelled)) {
        mt_request_undo(call->shard, r);
    } else {
        mt_request_count(call, r, how);
    }
    mt_request_release(&p);
}

void mt_request_fail(struct mt_call *call, const struct mt_pending *pending)
{
    if (pending->slot < 0) {
        return;
    }
    if ((pending->generation & MT_GENERATION_PERSISTENT) != 0) {
        struct mt_request *r = &mt_requests[pending->slot];
        call->shard->thread->requests_completed +=
            (r->kind & MT_REQUEST_ACTIVE) != 0;
        r->kind &= (uint16_t)~MT_REQUEST_ACTIVE;
    } else if (mt_request_take(pending)) {
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

void mt_request_abandon(const struct mt_pending *pending)
{
    if (pending->slot >= 0 && mt_request_take(pending)) {
        mt_request_release(pending);
    }
}

void mt_request_forget(struct mt_call *call, const struct mt_pending *pending)
{
    if (pending->slot < 0 || !mt_request_take(pending)) {
        return;
    }
    const struct mt_request *r = &mt_requests[pending->slot];
    if (mt_request_is_active(r)) {
        call->shard->thread->requests_freed++;
        mt_request_count(call, r, &mt_unseen);
    }
    mt_request_release(pending);
}
