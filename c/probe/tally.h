/* tally.h: adds what a call moved to the totals of its communicator, datatype
 * and peer. Called between mt_stop and mt_leave, after the MPI call succeeded:
 * only then are its arguments known to be valid, so only then may the slow
 * paths ask the MPI library about a handle. Handles are 64-bit numbers here. */
#ifndef MPITRACE_PROBE_TALLY_H
#define MPITRACE_PROBE_TALLY_H

#include "arrival.h"
#include "event.h"
#include "reuse.h"

uint16_t mt_peer_slow(struct mt_shard *shard, int32_t world_rank);

MT_INLINE const struct mt_type_cached *mt_type(struct mt_shard *shard,
                                               uint64_t handle)
{
    struct mt_type_cached *c =
        &shard->types[(mt_hash(handle) >> 58) & (MT_TYPE_CACHE - 1)];
    if (mt_unlikely(c->handle != handle || c->epoch != mt_type_epoch)) {
        uint32_t epoch = mt_type_epoch;
        mt_ops.type_find(handle, c);
        c->handle = handle;
        c->epoch = epoch;
    }
    return c;
}

MT_INLINE struct mt_comm *mt_comm(struct mt_shard *shard, uint64_t handle)
{
    struct mt_comm_cached *c =
        &shard->comms[(mt_hash(handle) >> 60) & (MT_COMM_CACHE - 1)];
    if (mt_unlikely(c->handle != handle || c->epoch != mt_comm_epoch)) {
        uint32_t epoch = mt_comm_epoch;
        c->comm = mt_ops.comm_find(handle);
        c->handle = handle;
        c->epoch = epoch;
    }
    return c->comm;
}

/* Rank in the communicator -> rank in MPI_COMM_WORLD, or PEER_*. */
MT_INLINE int32_t mt_world_rank(const struct mt_comm *comm, int32_t rank)
{
    if (mt_unlikely((uint32_t)rank >= (uint32_t)comm->peers)) {
        return MPITRACE_PEER_UNKNOWN;
    }
    if (mt_likely(comm->identity != 0)) {
        return rank;
    }
    return comm->world != NULL ? comm->world[rank] : MPITRACE_PEER_UNKNOWN;
}

MT_INLINE struct mt_seg_peer *mt_peer(struct mt_shard *shard,
                                      int32_t world_rank)
{
    uint16_t row = 0;
    if (mt_likely((uint32_t)world_rank < shard->peer_limit)) {
        row = shard->peer_index[world_rank];
    }
    if (mt_unlikely(row == 0)) {
        row = mt_peer_slow(shard, world_rank);
    }
    return &shard->peers[row - 1];
}

MT_INLINE void mt_size_bin(struct mt_shard *shard, uint32_t id, uint64_t bytes)
{
    struct mt_seg_function *f = mt_function(shard, id);
    f->messages++;
    f->size_bins[mt_bin(bytes, MPITRACE_SIZE_BINS)]++;
}

/* A call that names a communicator but moves nothing (Probe, Comm_rank). */
MT_INLINE void mt_count_comm(struct mt_call *call, uint64_t comm)
{
    struct mt_seg_total *t =
        &call->shard->comm_totals[mt_comm(call->shard, comm)->index];
    t->calls++;
    t->ticks += call->stop - call->start;
}

/* A message to or from MPI_PROC_NULL: nothing moves. */
MT_INLINE void mt_count_peerless(struct mt_call *call)
{
    call->site->peerless++;
}

/* A message as the application names it, its handles looked up. */
struct mt_message {
    const void *buffer;
    uint64_t bytes;
    struct mt_comm *comm; /* NULL: of no communicator */
    uint32_t type;        /* entry of TYPES */
    int32_t peer;         /* rank in comm */
    int32_t tag;
    uint32_t serial; /* of a matched probe in a trace, else 0 */
};

/* The number of a receive in a trace: drawn where its place in the order of the
 * process is settled, which is now unless it was matched by a probe. */
MT_INLINE uint32_t mt_message_serial(const struct mt_message *m)
{
    return m->serial != 0 ? m->serial : mt_event_serial(true);
}

MT_INLINE struct mt_message mt_message_in(struct mt_shard *shard,
                                          const void *buffer, int64_t count,
                                          uint64_t datatype,
                                          struct mt_comm *comm, int32_t peer,
                                          int32_t tag)
{
    const struct mt_type_cached *type = mt_type(shard, datatype);
    return (struct mt_message){.buffer = buffer,
                               .bytes = (uint64_t)(count * type->size),
                               .comm = comm,
                               .type = type->index,
                               .peer = peer,
                               .tag = tag};
}

MT_INLINE struct mt_message mt_message_of(struct mt_shard *shard,
                                          const void *buffer, int64_t count,
                                          uint64_t datatype, uint64_t comm,
                                          int32_t peer, int32_t tag)
{
    return mt_message_in(shard, buffer, count, datatype, mt_comm(shard, comm),
                         peer, tag);
}

/* A call that named a communicator and a datatype. */
MT_INLINE void mt_count_message_call(struct mt_call *call,
                                     const struct mt_message *m)
{
    uint64_t ticks = call->stop - call->start;
    struct mt_seg_total *t = &call->shard->comm_totals[m->comm->index];
    t->calls++;
    t->ticks += ticks;
    t = &call->shard->type_totals[m->type];
    t->calls++;
    t->ticks += ticks;
}

/* The message was handed to MPI for sending. */
MT_INLINE void mt_count_sent(struct mt_call *call, const struct mt_message *m,
                             bool blocking)
{
    struct mt_shard *shard = call->shard;
    mt_count_message_call(call, m);
    shard->comm_totals[m->comm->index].sent_bytes += m->bytes;
    shard->type_totals[m->type].sent_bytes += m->bytes;
    struct mt_seg_peer *p = mt_peer(shard, mt_world_rank(m->comm, m->peer));
    p->sent_messages++;
    p->sent_bytes += m->bytes;
    call->bytes += m->bytes;
    mt_size_bin(shard, call->id, m->bytes);
    mt_reuse(shard, m->buffer, m->bytes, MPITRACE_PATH_SEND);
    if (mt_unlikely(shard->traced != 0)) {
        mt_event_sent(call, m->comm, m->peer, m->tag, m->bytes, blocking);
    }
}

/* bytes arrived from peer in a call of function id. The call itself is counted
 * by the caller, or was when the request was started. */
MT_INLINE void mt_count_arrived(struct mt_shard *shard, uint32_t id,
                                const struct mt_comm *comm, int32_t peer,
                                uint64_t bytes, uint32_t type_index)
{
    shard->comm_totals[comm->index].received_bytes += bytes;
    shard->type_totals[type_index].received_bytes += bytes;
    struct mt_seg_peer *p = mt_peer(shard, mt_world_rank(comm, peer));
    p->received_messages++;
    p->received_bytes += bytes;
    mt_size_bin(shard, id, bytes);
}

/* A blocking receive of m returned what the envelope says. */
MT_INLINE void mt_count_got(struct mt_call *call, const struct mt_message *m,
                            const struct mt_envelope *got)
{
    struct mt_shard *shard = call->shard;
    call->bytes += (uint64_t)got->bytes;
    mt_count_arrived(shard, call->id, m->comm, got->source,
                     (uint64_t)got->bytes, m->type);
    mt_reuse(shard, m->buffer, m->bytes, MPITRACE_PATH_RECEIVE);
    if (mt_unlikely(shard->traced != 0)) {
        struct mt_posted posted = {.ticks = call->start,
                                   .address = call->address,
                                   .call = call->id,
                                   .serial = mt_message_serial(m),
                                   .peer = m->peer,
                                   .tag = m->tag,
                                   .blocking = true};
        mt_event_received(call, m->comm, &posted, got, (uint64_t)got->bytes);
    }
}

/* The rank's share of a collective: bytes of one datatype (0: of none or of
 * several, already multiplied out). */
MT_INLINE void mt_count_collective(struct mt_call *call,
                                   const struct mt_comm *comm, uint64_t bytes,
                                   uint64_t datatype)
{
    struct mt_shard *shard = call->shard;
    struct mt_seg_total *t = &shard->comm_totals[comm->index];
    t->calls++;
    t->collectives++;
    t->ticks += call->stop - call->start;
    t->sent_bytes += bytes;
    if (datatype != 0) {
        t = &shard->type_totals[mt_type(shard, datatype)->index];
        t->calls++;
        t->collectives++;
        t->ticks += call->stop - call->start;
        t->sent_bytes += bytes;
    }
    call->bytes += bytes;
    mt_size_bin(shard, call->id, bytes);
}

/* Payload of a one-sided or file operation: size and function only; it has no
 * receiving call that could be counted on the other side. */
MT_INLINE void mt_count_file(struct mt_call *call, int64_t bytes,
                             uint64_t datatype)
{
    struct mt_shard *shard = call->shard;
    struct mt_seg_total *t =
        &shard->type_totals[mt_type(shard, datatype)->index];
    t->calls++;
    t->ticks += call->stop - call->start;
    t->sent_bytes += (uint64_t)bytes;
    call->bytes += (uint64_t)bytes;
    mt_size_bin(shard, call->id, (uint64_t)bytes);
}

MT_INLINE void mt_count_moved(struct mt_call *call, int64_t count,
                              uint64_t datatype)
{
    mt_count_file(call, count * mt_type(call->shard, datatype)->size, datatype);
}

#endif
