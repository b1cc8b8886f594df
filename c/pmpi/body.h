/* body.h: what each class of MPI function counts, for the wrappers that
 * internal/gen writes. Included once per ABI by gen/wrappers.gen.c.
 *
 * Functions here run between mt_stop and mt_leave of a call that succeeded,
 * so its arguments are valid; arguments that MPI does not read on this rank
 * (a receive count on a rank that is not the root, say) are not touched. */
#ifndef MPITRACE_PMPI_BODY_H
#define MPITRACE_PMPI_BODY_H

#include "handles.h"
#include "lifecycle.h"

/* Set once MPI_Cancel was called: statuses are asked only from then on. */
extern uint32_t mt_cancel_used;

MT_INLINE bool mt_was_cancelled(const MT_Status *status)
{
    return mt_unlikely(mt_cancel_used != 0) && mt_status_cancelled(status) != 0;
}

/* ---- point to point ---- */

/* Handles are looked up only where there is a peer: with MPI_PROC_NULL the
 * others need not be valid. */
#define MT_MESSAGE(buffer_, count_, type_, comm_, peer_, tag_)               \
    (mt_unlikely((peer_) == MT_PROC_NULL)                                    \
         ? (struct mt_message){.comm = mt_comm(call.shard, MT_U64(comm_)),   \
                               .peer = MT_PROC_NULL,                         \
                               .tag = (tag_)}                                \
         : mt_message_of(call.shard, buffer_, count_, MT_U64(type_),         \
                         MT_U64(comm_), peer_, tag_))

/* That of a matched probe, which MPI knows by itself. */
#define MT_MESSAGE_IN(buffer_, count_, type_, matched_, message_)            \
    ((message_) == MT_MESSAGE_NO_PROC                                        \
         ? (struct mt_message){.comm = (matched_).comm,                      \
                               .peer = MT_PROC_NULL,                         \
                               .tag = -1}                                    \
         : mt_message_matched(call.shard, buffer_, count_, MT_U64(type_),    \
                              &(matched_)))

MT_INLINE struct mt_message mt_message_matched(struct mt_shard *shard,
                                               const void *buffer,
                                               int64_t count, uint64_t type,
                                               const struct mt_matched *matched)
{
    struct mt_message m = mt_message_in(shard, buffer, count, type,
                                        matched->comm, MT_ANY_SOURCE, -1);
    m.serial = matched->serial;
    return m;
}

/* A matched probe found a message. */
MT_INLINE void mt_body_matched(const struct mt_call *call, MT_Message message,
                               MT_Comm comm)
{
    bool traced = call->shard != NULL && call->shard->traced != 0;
    if (message != MT_MESSAGE_NO_PROC) { /* which nobody has to receive */
        mt_message_put(MT_U64(message), MT_U64(comm),
                       traced ? mt_event_serial(true) : 0);
    }
}

MT_INLINE struct mt_envelope mt_envelope_of(const MT_Status *status)
{
    return (struct mt_envelope){status->source, status->tag,
                                mt_status_bytes(status)};
}

MT_INLINE void mt_body_send(struct mt_call *call, struct mt_message m)
{
    if (mt_likely(m.peer != MT_PROC_NULL)) {
        mt_count_sent(call, &m, true);
    } else {
        mt_count_peerless(call);
    }
}

MT_INLINE void mt_body_recv(struct mt_call *call, struct mt_message m,
                            const MT_Status *status)
{
    if (mt_likely(status->source != MT_PROC_NULL)) {
        struct mt_envelope got = mt_envelope_of(status);
        mt_count_message_call(call, &m);
        mt_count_got(call, &m, &got);
    } else {
        mt_count_peerless(call);
    }
}

/* One call that sends and receives counts once for its communicator. */
MT_INLINE void mt_body_sendrecv(struct mt_call *call, struct mt_message sent,
                                struct mt_message m, const MT_Status *status)
{
    if (mt_unlikely(sent.peer == MT_PROC_NULL)) {
        mt_body_recv(call, m, status);
        return;
    }
    mt_count_sent(call, &sent, true);
    if (mt_likely(status->source != MT_PROC_NULL)) {
        struct mt_envelope got = mt_envelope_of(status);
        mt_count_got(call, &m, &got);
    }
}

MT_INLINE void mt_body_isend(struct mt_call *call, struct mt_message m,
                             const MT_Request *request)
{
    struct mt_started started = {.handle = MT_U64(*request),
                                 .kind = MT_REQUEST_SEND,
                                 .message = m};
    if (mt_unlikely(m.peer == MT_PROC_NULL)) {
        mt_request_peerless(call);
        return;
    }
    mt_count_sent(call, &m, false);
    mt_request_insert(call, &started);
}

/* Follows a receive; the call itself is counted by the caller. */
MT_INLINE void mt_body_posted(struct mt_call *call, struct mt_message m,
                              const MT_Request *request)
{
    struct mt_started started = {.handle = MT_U64(*request),
                                 .kind = MT_REQUEST_RECV,
                                 .message = m};
    if (mt_unlikely(m.peer == MT_PROC_NULL)) {
        mt_request_peerless(call);
        return;
    }
    mt_reuse(call->shard, m.buffer, m.bytes, MPITRACE_PATH_RECEIVE);
    if (mt_unlikely(call->shard->traced != 0)) {
        started.sequence = mt_message_serial(&m);
    }
    mt_request_insert(call, &started);
}

MT_INLINE void mt_body_irecv(struct mt_call *call, struct mt_message m,
                             const MT_Request *request)
{
    mt_count_message_call(call, &m);
    mt_body_posted(call, m, request);
}

MT_INLINE struct mt_started mt_persistent_of(uint16_t direction,
                                             struct mt_message m,
                                             const MT_Request *request)
{
    uint16_t peerless = m.peer == MT_PROC_NULL ? MT_REQUEST_PEERLESS : 0;
    return (struct mt_started){.handle = MT_U64(*request),
                               .kind = direction | MT_REQUEST_PERSISTENT | peerless,
                               .message = m};
}

/* A persistent request is made; its payload counts when it is started. */
MT_INLINE void mt_body_persistent(struct mt_call *call, uint16_t direction,
                                  MT_Comm comm, struct mt_message m,
                                  const MT_Request *request)
{
    struct mt_started started = mt_persistent_of(direction, m, request);
    mt_count_comm(call, MT_U64(comm));
    mt_request_insert(call, &started);
}

/* The same while measurement is paused. */
MT_INLINE void mt_body_persistent_paused(struct mt_call *call,
                                         uint16_t direction,
                                         struct mt_message m,
                                         const MT_Request *request)
{
    struct mt_started started = mt_persistent_of(direction, m, request);
    mt_request_insert_paused(call, &started);
}

/* Lends the thread's shard to a call that is not measured, for its caches of
 * handles. False: there is none. */
MT_INLINE bool mt_body_borrow(struct mt_call *call)
{
    struct mt_shard *shard = mt_tls.shard;
    shard = shard != NULL ? shard : mt_ops.shard_attach();
    if (shard != NULL) {
        mt_shard_lock(shard);
        call->shard = shard;
    }
    return shard != NULL;
}

MT_INLINE void mt_body_give_back(struct mt_call *call)
{
    mt_shard_unlock(call->shard);
    call->shard = NULL;
}

/* A request that only has to be followed (one-sided, file). */
MT_INLINE void mt_body_request(struct mt_call *call, uint16_t kind,
                               const MT_Request *request)
{
    struct mt_started started = {.handle = MT_U64(*request),
                                 .kind = kind,
                                 .message = {.bytes = call->bytes,
                                             .peer = -1,
                                             .tag = -1}};
    mt_request_insert(call, &started);
}

MT_INLINE void mt_body_rma(struct mt_call *call, const void *origin, int target,
                           int64_t count, MT_Datatype type)
{
    if (mt_likely(target != MT_PROC_NULL)) {
        uint64_t before = call->bytes;
        mt_count_moved(call, count, MT_U64(type));
        mt_reuse(call->shard, origin, call->bytes - before,
                 MPITRACE_PATH_ORIGIN);
    } else {
        mt_count_peerless(call);
    }
}

/* ---- completion ---- */

/* The time of the call in progress, shared among what it completed. */
MT_INLINE uint64_t mt_body_blocked(const struct mt_call *call, uint32_t sharing)
{
    uint64_t ticks = call->stop - call->start;
    return sharing <= 1 ? ticks : ticks / sharing;
}

MT_INLINE void mt_body_completed(struct mt_call *call,
                                 const struct mt_pending *pending,
                                 const MT_Status *status, uint64_t blocked)
{
    if (pending->slot < 0) {
        return;
    }
    bool receive = mt_request_is_receive(pending);
    if (mt_unlikely(receive && status->source == MT_PROC_NULL)) {
        mt_request_fail(call, pending); /* complete, and nothing came */
        return;
    }
    struct mt_envelope got;
    bool awaited = mt_likely(mt_request_is_awaited(pending));
    struct mt_completion how = {.blocked = awaited ? blocked : 0,
                                .cancelled = mt_was_cancelled(status),
                                .seen = true};
    if (receive) {
        got = mt_envelope_of(status);
        how.got = &got;
    }
    mt_request_complete(call, pending, &how);
}

/* The same without a status: what came is taken to be what was posted. */
MT_INLINE void mt_body_completed_untold(struct mt_call *call,
                                        const struct mt_pending *pending,
                                        uint64_t blocked)
{
    if (pending->slot >= 0) {
        bool awaited = mt_request_is_awaited(pending);
        const struct mt_completion how = {.blocked = awaited ? blocked : 0,
                                          .seen = true};
        mt_request_complete(call, pending, &how);
    }
}

MT_INLINE bool mt_body_array_has(const struct mt_array *array, int i)
{
    return i >= 0 && i < array->n;
}

MT_INLINE void mt_body_array_one(struct mt_call *call, struct mt_array *array,
                                 int i, const MT_Status *status,
                                 uint64_t blocked)
{
    if (mt_body_array_has(array, i)) {
        mt_body_completed(call, &array->pending[i], status, blocked);
    }
}

/* One of an array, by its status: it succeeded or failed. */
MT_INLINE void mt_body_array_told(struct mt_call *call,
                                  const struct mt_pending *pending,
                                  const MT_Status *status, uint64_t blocked)
{
    if (mt_likely(status->error == MT_SUCCESS)) {
        mt_body_completed(call, pending, status, blocked);
    } else {
        mt_request_fail(call, pending);
    }
}

/* A call that completes all has failed. Those are over that lost their handle.
 * A persistent request keeps it: what became of it is in its status, which is
 * set if the call says so. */
MT_INLINE void mt_body_array_all_failed(struct mt_call *call,
                                        const struct mt_array *array,
                                        const MT_Request *requests, int rc)
{
    uint64_t blocked = mt_body_blocked(call, array->awaited);
    bool told = MT_NAME(error_class)(rc) == MT_ERR_IN_STATUS;
    for (int i = 0; i < array->n; i++) {
        const struct mt_pending *pending = &array->pending[i];
        const MT_Status *status = &array->statuses[i];
        bool lost = MT_U64(requests[i]) != pending->handle;
        if (array->given == MT_STATUS_IGNORE) {
            if (lost) {
                mt_request_fail(call, pending);
            }
            continue;
        }
        if (lost || (told && mt_request_is_persistent(pending) &&
                     MT_NAME(error_class)(status->error) != MT_ERR_PENDING)) {
            mt_body_array_told(call, pending, status, blocked);
        }
    }
}

/* All of them completed, unless the call failed. */
MT_INLINE void mt_body_array_all(struct mt_call *call, struct mt_array *array,
                                 const MT_Request *requests, int rc)
{
    if (mt_unlikely(rc != MT_SUCCESS)) {
        mt_body_array_all_failed(call, array, requests, rc);
        return;
    }
    uint64_t blocked = mt_body_blocked(call, array->awaited);
    for (int i = 0; i < array->n; i++) {
        if (mt_unlikely(array->given == MT_STATUS_IGNORE)) {
            mt_body_completed_untold(call, &array->pending[i], blocked);
        } else {
            mt_body_completed(call, &array->pending[i], &array->statuses[i],
                              blocked);
        }
    }
}

/* After a failure of a call that completes one: what lost its handle. */
MT_INLINE void mt_body_array_failed(struct mt_call *call,
                                    const struct mt_array *array,
                                    const MT_Request *requests)
{
    for (int i = 0; i < array->n; i++) {
        if (MT_U64(requests[i]) != array->pending[i].handle) {
            mt_request_fail(call, &array->pending[i]);
        }
    }
}

/* The same for a single request. A persistent one keeps its handle. */
MT_INLINE void mt_body_failed(struct mt_call *call,
                              const struct mt_pending *pending,
                              const MT_Request *request)
{
    if (request != NULL && (mt_request_is_persistent(pending) ||
                            MT_U64(*request) != pending->handle)) {
        mt_request_fail(call, pending);
    }
}

/* While measurement is paused, what completes is no longer followed. */
MT_INLINE void mt_body_dropped(const struct mt_pending *pending,
                               const MT_Request *request)
{
    if (request != NULL && MT_U64(*request) != pending->handle) {
        mt_request_drop(pending);
    }
}

MT_INLINE void mt_body_array_dropped(const struct mt_array *array,
                                     const MT_Request *requests)
{
    for (int i = 0; i < array->n; i++) {
        if (MT_U64(requests[i]) != array->pending[i].handle) {
            mt_request_drop(&array->pending[i]);
        }
    }
}

/* Of Waitsome and Testsome: outcount entries, statuses packed. They have an
 * error each if the call failed by its requests. */
MT_INLINE void mt_body_array_some(struct mt_call *call, struct mt_array *array,
                                  int outcount, const int *indices, bool failed)
{
    uint32_t awaited = 0, stamp = mt_request_count_begin();
    if (outcount == MT_UNDEFINED) {
        return;
    }
    for (int i = 0; i < outcount && i < array->n; i++) {
        awaited += mt_body_array_has(array, indices[i]) &&
                   mt_request_has_share(&array->pending[indices[i]], stamp);
    }
    uint64_t blocked = mt_body_blocked(call, awaited);
    for (int i = 0; i < outcount && i < array->n; i++) {
        const MT_Status *status = &array->statuses[i];
        if (!mt_body_array_has(array, indices[i])) {
            continue;
        }
        if (mt_unlikely(failed)) {
            mt_body_array_told(call, &array->pending[indices[i]], status,
                               blocked);
        } else {
            mt_body_completed(call, &array->pending[indices[i]], status,
                              blocked);
        }
    }
}

/* Waitsome or Testsome has failed. */
MT_INLINE void mt_body_array_some_failed(struct mt_call *call,
                                         struct mt_array *array,
                                         const MT_Request *requests,
                                         const int *outcount,
                                         const int *indices, int rc)
{
    if (MT_NAME(error_class)(rc) == MT_ERR_IN_STATUS) {
        mt_body_array_some(call, array, *outcount, indices, true);
    } else {
        mt_body_array_failed(call, array, requests);
    }
}

/* ---- collectives: the rank's own share, docs/measurements.md ---- */

MT_INLINE uint64_t mt_type_bytes(struct mt_call *call, int64_t count,
                                 MT_Datatype type)
{
    return (uint64_t)(count * mt_type(call->shard, MT_U64(type))->size);
}

/* Processes that data goes to: the remote group of an intercommunicator. */
MT_INLINE int mt_comm_processes(struct mt_call *call, MT_Comm comm)
{
    return mt_comm(call->shard, MT_U64(comm))->peers;
}

MT_INLINE int mt_comm_size(struct mt_call *call, MT_Comm comm)
{
    return mt_comm(call->shard, MT_U64(comm))->size;
}

MT_INLINE int mt_comm_rank(struct mt_call *call, MT_Comm comm)
{
    return mt_comm(call->shard, MT_U64(comm))->rank;
}

/* The communicator with its neighbours known. */
MT_INLINE const struct mt_comm *mt_comm_topology(struct mt_call *call,
                                                 MT_Comm comm)
{
    struct mt_comm *c = mt_comm(call->shard, MT_U64(comm));
    if (mt_unlikely(c->neighbours < 0)) {
        MT_NAME(comm_neighbours)(c);
    }
    return c;
}

MT_INLINE int mt_comm_degree(struct mt_call *call, MT_Comm comm)
{
    return mt_comm_topology(call, comm)->neighbours;
}

MT_INLINE uint64_t mt_comm_absent(struct mt_call *call, MT_Comm comm)
{
    return mt_comm_topology(call, comm)->absent;
}

/* Neighbours that data goes to. */
MT_INLINE int mt_comm_receivers(struct mt_call *call, MT_Comm comm)
{
    const struct mt_comm *c = mt_comm_topology(call, comm);
    return c->neighbours - __builtin_popcountll(c->absent);
}

/* This rank is the root: by rank, or MPI_ROOT in an intercommunicator. Of one that is
 * not followed nobody is known to be, and what means something there is not touched. */
MT_INLINE bool mt_is_root(struct mt_call *call, MT_Comm comm, int root)
{
    const struct mt_comm *c = mt_comm(call->shard, MT_U64(comm));
    return root == MT_ROOT ||
           (c->inter == 0 && c->size > 0 && root == c->rank);
}

/* Entry i goes nowhere: bit i of absent. */
MT_INLINE bool mt_is_absent(uint64_t absent, int i)
{
    return mt_unlikely(absent != 0) && i < 64 && ((absent >> i) & 1) != 0;
}

#define MT_SUM(name, type)                                                   \
    MT_INLINE int64_t name(const type *counts, int n, uint64_t absent)       \
    {                                                                        \
        int64_t sum = 0;                                                     \
        for (int i = 0; i < n; i++) {                                        \
            sum += mt_is_absent(absent, i) ? 0 : counts[i];                  \
        }                                                                    \
        return sum;                                                          \
    }
MT_SUM(mt_sum_int, int)
MT_SUM(mt_sum_count, MT_Count)
#define mt_sum(counts, n, absent)                                            \
    _Generic((counts), const int *: mt_sum_int, const MT_Count *: mt_sum_count)( \
        counts, n, absent)

#define MT_SUM_TYPES(name, type)                                             \
    MT_INLINE uint64_t name(struct mt_call *call, const type *counts,        \
                            const MT_Datatype *types, int n,                 \
                            uint64_t absent)                                 \
    {                                                                        \
        uint64_t sum = 0;                                                    \
        for (int i = 0; i < n; i++) {                                        \
            if (counts[i] > 0 && !mt_is_absent(absent, i)) {                 \
                sum += mt_type_bytes(call, counts[i], types[i]);             \
            }                                                                \
        }                                                                    \
        return sum;                                                          \
    }
MT_SUM_TYPES(mt_sum_types_int, int)
MT_SUM_TYPES(mt_sum_types_count, MT_Count)
#define mt_sum_types(call, counts, types, n, absent)                         \
    _Generic((counts), const int *: mt_sum_types_int,                        \
             const MT_Count *: mt_sum_types_count)(call, counts, types, n, absent)

/* Numbers go on while measurement is paused: on other ranks it may not be. */
MT_INLINE void mt_body_unmeasured(MT_Comm comm, int rc)
{
    if (rc == MT_SUCCESS) {
        mt_ops.comm_find(MT_U64(comm))->sequence++;
    } else {
        mt_registry_comm_distrust(MT_U64(comm));
    }
}

/* Ends a blocking collective whose share is bytes of type (a handle, or 0). Its
 * number is the same on all members of the communicator, which start their
 * operations in one order (MPI 4.1, 6.14). */
MT_INLINE void mt_body_coll(struct mt_call *call, MT_Comm comm, int root,
                            uint64_t bytes, uint64_t type)
{
    struct mt_comm *c = mt_comm(call->shard, MT_U64(comm));
    struct mt_instance seen = {.call = call->id,
                               .sequence = c->sequence++,
                               .root = root,
                               .enter = call->start,
                               .wait = call->start,
                               .exit = call->stop,
                               .bytes = bytes,
                               .address = call->address};
    mt_count_collective(call, c, bytes, type);
    mt_arrival(call->shard, c, &seen);
}

/* A collective that another call completes. */
MT_INLINE struct mt_started mt_collective_of(struct mt_comm *comm, int root,
                                             uint64_t bytes, uint32_t type,
                                             uint16_t kind,
                                             const MT_Request *request)
{
    return (struct mt_started){
        .handle = MT_U64(*request),
        .kind = kind | MT_REQUEST_OTHER | MT_REQUEST_COLLECTIVE,
        .message = {.bytes = bytes,
                    .comm = comm,
                    .type = type,
                    .peer = root,
                    .tag = -1},
        .sequence = comm->sequence++};
}

/* A nonblocking collective was started. */
MT_INLINE void mt_body_icoll(struct mt_call *call, MT_Comm comm, int root,
                             uint64_t bytes, uint64_t type,
                             const MT_Request *request)
{
    struct mt_comm *c = mt_comm(call->shard, MT_U64(comm));
    struct mt_started started = mt_collective_of(
        c, root, bytes, (uint32_t)MT_TYPE_NONE, 0, request);
    mt_count_collective(call, c, bytes, type);
    mt_request_insert(call, &started);
}

MT_INLINE struct mt_started mt_coll_init_of(struct mt_call *call, MT_Comm comm,
                                            int root, uint64_t bytes,
                                            uint64_t type,
                                            const MT_Request *request)
{
    uint32_t index = type != 0 ? mt_type(call->shard, type)->index
                               : (uint32_t)MT_TYPE_NONE;
    return mt_collective_of(mt_comm(call->shard, MT_U64(comm)), root, bytes,
                            index, MT_REQUEST_PERSISTENT, request);
}

/* Payload that the call itself does not carry: a persistent collective's is
 * remembered by its request and counted at MPI_Start. */
MT_INLINE void mt_body_coll_init(struct mt_call *call, MT_Comm comm, int root,
                                 uint64_t bytes, uint64_t type,
                                 const MT_Request *request)
{
    struct mt_started started =
        mt_coll_init_of(call, comm, root, bytes, type, request);
    mt_count_comm(call, MT_U64(comm));
    mt_request_insert(call, &started);
}

/* The same while measurement is paused; it has its number all the same. */
MT_INLINE void mt_body_coll_init_paused(struct mt_call *call, MT_Comm comm,
                                        int root, uint64_t bytes, uint64_t type,
                                        const MT_Request *request)
{
    struct mt_started started =
        mt_coll_init_of(call, comm, root, bytes, type, request);
    mt_request_insert_paused(call, &started);
}

/* FNV-1a of a string tag. */
MT_INLINE uint64_t mt_text_hash(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; text != NULL && *text != '\0'; text++) {
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return h;
}

static const struct mt_family_ops MT_NAME(family) = {
    .world_begin = MT_NAME(world_begin),
    .world_end = MT_NAME(world_end),
    .query_thread_level = MT_NAME(query_thread_level),
    .is_spawned = MT_NAME(is_spawned),
};

#endif
