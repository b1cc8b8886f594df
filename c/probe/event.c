/* event.c: makes events and puts them into the section of the shard. */
#include "event.h"

#include "tally.h"

static uint32_t mt_event_sends, mt_event_receives;

uint32_t mt_event_serial(bool receive)
{
    return __atomic_add_fetch(receive ? &mt_event_receives : &mt_event_sends, 1,
                              __ATOMIC_RELAXED);
}

/* A place for the next event; NULL if there is none. */
static struct mt_seg_event *mt_event_row(struct mt_shard *shard)
{
    struct mt_seg_section *s = shard->event_section;
    if (s->used >= s->capacity && !mt_ops.spill(shard)) {
        shard->thread->events_dropped++;
        return NULL;
    }
    return &shard->event_rows[s->used];
}

static void mt_event_add(struct mt_shard *shard, const struct mt_seg_event *e)
{
    struct mt_seg_event *row = mt_event_row(shard);
    if (row != NULL) {
        *row = *e;
        __atomic_store_n(&shard->event_section->used,
                         shard->event_section->used + 1, __ATOMIC_RELEASE);
    }
}

/* The communicator of the call in progress, if it is known already: the call may
 * have failed, so MPI is not asked; nor in a shard of several threads, where what is
 * shown of a call in progress may be another thread's. */
static const struct mt_comm *mt_event_comm(const struct mt_shard *shard)
{
    uint64_t handle = shard->thread->comm_handle;
    bool known = shard->shared == 0 && shard->thread->details != 0;
    for (int i = 0; known && i < MT_COMM_CACHE; i++) {
        const struct mt_comm_cached *c = &shard->comms[i];
        if (c->comm != NULL && c->handle == handle &&
            c->epoch == mt_comm_epoch) {
            return c->comm;
        }
    }
    return NULL;
}

void mt_event_call(const struct mt_call *call)
{
    const struct mt_seg_thread *t = call->shard->thread;
    const struct mt_comm *comm = mt_event_comm(call->shard);
    struct mt_seg_event e = {
        .kind = MPITRACE_EVENT_KIND_CALL,
        .call = (uint16_t)call->id,
        .enter_ticks = call->start,
        .exit_ticks = call->stop,
        .post_ticks = call->start,
        .address = call->address,
        .comm_id = comm != NULL ? comm->id : 0,
        .bytes = call->bytes,
        .peer = comm != NULL && t->peer >= 0 ? mt_world_rank(comm, t->peer)
                                             : MPITRACE_PEER_UNKNOWN,
        .tag = comm != NULL ? t->tag : -1,
    };
    mt_event_add(call->shard, &e);
}

void mt_event_sent(const struct mt_call *call, const struct mt_comm *comm,
                   int32_t peer, int32_t tag, uint64_t bytes, bool blocking)
{
    struct mt_seg_event e = {
        .kind = MPITRACE_EVENT_KIND_SEND,
        .flags = blocking ? 0 : MPITRACE_EVENT_FLAG_NONBLOCKING,
        .call = (uint16_t)call->id,
        .serial = mt_event_serial(false),
        .enter_ticks = call->start,
        .exit_ticks = call->stop,
        .post_ticks = call->start,
        .address = call->address,
        .comm_id = comm->id,
        .bytes = bytes,
        .peer = mt_world_rank(comm, peer),
        .tag = tag,
    };
    mt_event_add(call->shard, &e);
}

void mt_event_received(const struct mt_call *call, const struct mt_comm *comm,
                       const struct mt_posted *posted,
                       const struct mt_envelope *got, uint64_t bytes)
{
    uint32_t flags = posted->blocking ? 0 : MPITRACE_EVENT_FLAG_NONBLOCKING;
    flags |= posted->peer < 0 ? MPITRACE_EVENT_FLAG_ANY_SOURCE : 0;
    flags |= posted->tag < 0 ? MPITRACE_EVENT_FLAG_ANY_TAG : 0;
    flags |= got == NULL ? MPITRACE_EVENT_FLAG_ESTIMATED : 0;
    struct mt_seg_event e = {
        .kind = MPITRACE_EVENT_KIND_RECEIVE,
        .flags = (uint8_t)flags,
        .call = (uint16_t)posted->call,
        .serial = posted->serial,
        .enter_ticks = call->start,
        .exit_ticks = call->stop,
        .post_ticks = posted->ticks,
        .address = posted->address,
        .comm_id = comm->id,
        .bytes = bytes,
        .peer = mt_world_rank(comm, got != NULL ? got->source : posted->peer),
        .tag = got != NULL ? got->tag : posted->tag,
    };
    mt_event_add(call->shard, &e);
}
