/* send.c: what a queue pair does with posted sends. */
#include "shm.h"

/* How far a send got. */
enum mt_shm_step { MT_STEP_DONE, MT_STEP_BEGUN, MT_STEP_BLOCKED, MT_STEP_FAILED };

void mt_shm_fail(struct mt_shm_qp *qp, struct mt_soft_work *failed,
                 enum mt_status status)
{
    mt_shm_part(qp, status);
    qp->answer_head = qp->answer_tail;
    if (qp->receiving) {
        struct mt_fabric_completion c = {.status = MT_EFLUSHED};
        qp->receiving = false;
        mt_soft_received(&qp->soft, qp->current.id, &c, false);
    }
    mt_soft_qp_fail(&qp->soft, failed, status);
}

/* A record with room for payload behind it, filled but for its payload. */
static struct mt_ring_record *mt_record(struct mt_shm_qp *qp,
                                        const struct mt_soft_work *w,
                                        enum mt_shm_kind kind, uint32_t payload)
{
    struct mt_ring_record *r =
        mt_ring_reserve(&qp->out, mt_ring_size(payload));
    if (r == NULL) {
        return NULL;
    }
    r->kind = (uint8_t)kind;
    r->flags = (uint8_t)(MT_SHM_FIRST | MT_SHM_LAST);
    r->flags |= (w->flags & MT_FABRIC_SOLICITED) != 0 ? MT_SHM_SOLICIT : 0;
    r->flags |=
        w->opcode == MT_FABRIC_WRITE_WITH_IMM ? (uint8_t)MT_SHM_HAS_IMM : 0;
    r->pieces = 0;
    r->immediate = w->immediate;
    r->address = w->remote_address;
    r->total = w->bytes;
    r->rkey = w->rkey;
    r->bytes = payload;
    return r;
}

static void mt_publish(struct mt_shm_qp *qp, struct mt_ring_record *r)
{
    /* what a sleeper has to carry out wakes it, whatever it waits for */
    bool solicited = (r->flags & MT_SHM_SOLICIT) != 0 ||
                     (r->kind != MT_SHM_SEND && r->kind != MT_SHM_IMM);
    mt_ring_publish(&qp->out, r, mt_ring_size(r->bytes));
    mt_shm_wake(mt_shm_context_of(qp), qp->peer, solicited);
}

/* The payload through the ring, in parts if it is long. */
static enum mt_shm_step mt_send_copy(struct mt_shm_qp *qp,
                                     struct mt_soft_work *w,
                                     enum mt_shm_kind kind)
{
    do {
        uint64_t left = w->bytes - w->moved;
        uint32_t n = (uint32_t)(left < MT_SHM_COPY ? left : MT_SHM_COPY);
        struct mt_ring_record *r = mt_record(qp, w, kind, n);
        if (r == NULL) {
            return MT_STEP_BLOCKED;
        }
        mt_soft_gather(w->pieces, w->piece_count, w->moved, r + 1, n);
        r->address += w->moved;
        r->flags &= (uint8_t)~(w->moved > 0 ? MT_SHM_FIRST : 0);
        r->flags &= (uint8_t)~(n < left ? MT_SHM_LAST : 0);
        w->moved += n;
        mt_publish(qp, r);
    } while (w->moved < w->bytes);
    return MT_STEP_DONE;
}

/* Asks the peer to copy from or to the pieces. */
static enum mt_shm_step mt_send_order(struct mt_shm_qp *qp,
                                      struct mt_soft_work *w,
                                      enum mt_shm_kind kind)
{
    uint32_t bytes = w->piece_count * (uint32_t)sizeof(w->pieces[0]);
    struct mt_ring_record *r = mt_record(qp, w, kind, bytes);
    if (r == NULL) {
        return MT_STEP_BLOCKED;
    }
    r->pieces = w->piece_count;
    memcpy(r + 1, w->pieces, bytes);
    w->token = ++qp->orders;
    mt_publish(qp, r);
    return MT_STEP_BEGUN;
}

static enum mt_shm_step mt_send_failed(struct mt_soft_work *w,
                                       enum mt_status status)
{
    w->status = status;
    return MT_STEP_FAILED;
}

static enum mt_shm_step mt_begin_send(struct mt_shm_qp *qp,
                                      struct mt_soft_work *w)
{
    /* once in parts, always in parts: the peer may tell meanwhile that it pulls */
    bool copied = w->bytes <= MT_SHM_COPY || w->moved > 0 || !mt_shm_pulls(qp) ||
                  (w->flags & MT_FABRIC_INLINE) != 0;
    return copied ? mt_send_copy(qp, w, MT_SHM_SEND)
                  : mt_send_order(qp, w, MT_SHM_SEND_PULL);
}

/* Stores into memory that both map. Eight aligned bytes are one store, so that
 * whoever polls them sees all or nothing, after what was written before. */
static void mt_store(void *to, const struct mt_fabric_piece *pieces,
                     uint32_t count, uint64_t skip, uint64_t bytes)
{
    uint64_t word;
    if (bytes == sizeof(word) && (uintptr_t)to % sizeof(word) == 0) {
        mt_soft_gather(pieces, count, skip, &word, sizeof(word));
        __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
    } else {
        mt_soft_gather(pieces, count, skip, to, bytes);
    }
}

static bool mt_gave_up(const struct mt_shm_qp *qp)
{
    return __atomic_load_n(&qp->out.ring->failed, __ATOMIC_ACQUIRE) != MT_OK;
}

/* A part of a WRITE or READ by the poster, who has said that it touches. */
static enum mt_status mt_touch_part(const struct mt_shm_qp *qp,
                                    const struct mt_soft_work *w,
                                    uint64_t done, uint64_t bytes)
{
    uint64_t offset;
    bool write = w->opcode != MT_FABRIC_READ;
    uint32_t access = write ? MT_FABRIC_REMOTE_WRITE : MT_FABRIC_REMOTE_READ;
    enum mt_status status =
        mt_shm_region_find(qp->peer->root, w->rkey, w->remote_address, w->bytes,
                           access, &offset);
    if (status == MT_OK && bytes > 0 && offset == 0) {
        mt_shm_name(mt_shm_context_of(qp), w->rkey);
        status = mt_shm_region_find(qp->peer->root, w->rkey, w->remote_address,
                                    w->bytes, access, &offset);
    }
    if (status != MT_OK || bytes == 0) {
        return status;
    }
    char *there = offset != 0 ? mt_shm_at(qp->peer, offset, w->bytes) : NULL;
    if (there == NULL) {
        return mt_shm_peer_copy(qp->peer, write, w->pieces, w->piece_count,
                                done, w->remote_address + done, bytes);
    }
    if (write) {
        mt_store(there + done, w->pieces, w->piece_count, done, bytes);
    } else {
        mt_soft_scatter(w->pieces, w->piece_count, done, there + done, bytes);
    }
    return MT_OK;
}

/* WRITE or READ by the poster. MT_EAGAIN: the peer is not connected yet, or gave
 * up. */
static enum mt_status mt_direct(struct mt_shm_qp *qp,
                                const struct mt_soft_work *w)
{
    struct mt_shm_context *context = mt_shm_context_of(qp);
    enum mt_status status = mt_shm_joined(qp) ? MT_OK : MT_EAGAIN;
    uint64_t done = 0, n;
    for (; status == MT_OK; done += n) {
        n = w->bytes - done;
        n = n < MT_SHM_AT_ONCE ? n : MT_SHM_AT_ONCE;
        mt_shm_touch(context, qp->peer);
        status = mt_gave_up(qp) ? MT_EAGAIN : mt_touch_part(qp, w, done, n);
        mt_shm_touched(context);
        if (done + n == w->bytes) {
            break;
        }
    }
    return status;
}

/* All of them, or none: what goes through the ring must not be overtaken by what
 * is stored directly. */
static bool mt_by_peer(const struct mt_shm_qp *qp)
{
    return !qp->peer->reads ||
           qp->soft.base.pd->context->options.engine == MT_FABRIC_ENGINE_PEER;
}

/* stage: 1 once the data is there and only the notice is to be sent. */
static enum mt_shm_step mt_begin_write(struct mt_shm_qp *qp,
                                       struct mt_soft_work *w)
{
    bool pull = mt_shm_pulls(qp) && w->bytes > MT_SHM_COPY && w->moved == 0 &&
                (w->flags & MT_FABRIC_INLINE) == 0;
    if (w->stage == 0 && mt_by_peer(qp)) {
        return pull ? mt_send_order(qp, w, MT_SHM_WRITE_PULL)
                    : mt_send_copy(qp, w, MT_SHM_WRITE);
    }
    if (w->stage == 0) {
        /* not ahead of what the peer has still to carry out */
        enum mt_status status =
            qp->soft.head == qp->soft.next ? mt_direct(qp, w) : MT_EAGAIN;
        if (status == MT_EAGAIN) {
            return MT_STEP_BLOCKED;
        }
        if (status != MT_OK) {
            return mt_send_failed(w, status);
        }
        w->stage = 1;
    }
    if (w->opcode == MT_FABRIC_WRITE) {
        return MT_STEP_DONE;
    }
    struct mt_ring_record *r = mt_record(qp, w, MT_SHM_IMM, 0);
    if (r == NULL) {
        return MT_STEP_BLOCKED;
    }
    mt_publish(qp, r);
    return MT_STEP_DONE;
}

static enum mt_shm_step mt_begin_read(struct mt_shm_qp *qp,
                                      struct mt_soft_work *w)
{
    enum mt_shm_step step;
    if (!mt_by_peer(qp)) {
        enum mt_status status = mt_direct(qp, w);
        return status == MT_OK       ? MT_STEP_DONE
               : status == MT_EAGAIN ? MT_STEP_BLOCKED
                                     : mt_send_failed(w, status);
    }
    if (qp->soft.reads >= qp->soft.base.options.reads) {
        return MT_STEP_BLOCKED;
    }
    if (mt_shm_pulls(qp)) {
        step = mt_send_order(qp, w, MT_SHM_READ_PUSH);
    } else {
        struct mt_ring_record *r = mt_record(qp, w, MT_SHM_READ, 8);
        if (r == NULL) {
            return MT_STEP_BLOCKED;
        }
        uint64_t index = qp->soft.next;
        memcpy(r + 1, &index, sizeof(index));
        mt_publish(qp, r);
        step = MT_STEP_BEGUN;
    }
    qp->soft.reads += step == MT_STEP_BEGUN;
    return step;
}

static enum mt_shm_step mt_begin(struct mt_shm_qp *qp, struct mt_soft_work *w)
{
    if (qp->soft.base.options.transport == MT_FABRIC_UD) {
        w->status = mt_shm_datagram(qp, w);
        return w->status == MT_OK ? MT_STEP_DONE : MT_STEP_FAILED;
    }
    switch (w->opcode) {
    case MT_FABRIC_SEND:
        return mt_begin_send(qp, w);
    case MT_FABRIC_READ:
        return mt_begin_read(qp, w);
    default:
        return mt_begin_write(qp, w);
    }
}

void mt_shm_push(struct mt_soft_qp *soft)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)soft;
    while (soft->next != soft->tail && soft->base.state == MT_FABRIC_QP_RTS) {
        struct mt_soft_work *w = mt_soft_work_at(soft, soft->next);
        bool waits = (w->flags & MT_FABRIC_FENCE) != 0 && soft->reads > 0;
        if (waits) {
            break;
        }
        enum mt_shm_step step = mt_begin(qp, w);
        if (step == MT_STEP_BLOCKED && qp->out.ring != NULL) {
            if (mt_ring_want(&qp->out)) {
                continue; /* there is room since */
            }
            /* what is behind it may be what the peer wants to be woken for */
            mt_shm_wake(mt_shm_context_of(qp), qp->peer, true);
        }
        if (step == MT_STEP_BLOCKED) {
            break;
        }
        if (step == MT_STEP_FAILED) {
            mt_shm_fail(qp, w, w->status);
            return;
        }
        w->done = step == MT_STEP_DONE;
        soft->next++;
        if (w->done) { /* a WRITE behind it waits until it is out of the way */
            mt_soft_retire(soft);
        }
    }
}

void mt_shm_settle(struct mt_shm_qp *qp)
{
    struct mt_soft_qp *soft = &qp->soft;
    uint64_t done = __atomic_load_n(&qp->out.ring->done, __ATOMIC_ACQUIRE);
    for (uint32_t i = soft->head; i != soft->next; i++) {
        struct mt_soft_work *w = mt_soft_work_at(soft, i);
        if (w->token != 0 && !w->done && w->token <= done) {
            w->done = true;
            soft->reads -= w->opcode == MT_FABRIC_READ;
        }
    }
    mt_soft_retire(soft);
}

/* Where answers go: a ring of their own if the peer has one, since those to its
 * READs do not wait for its receives. */
static struct mt_ring_writer *mt_answer_lane(struct mt_shm_qp *qp)
{
    if (qp->lane_out.ring == NULL) {
        uint64_t offset = __atomic_load_n(&qp->ring->lane, __ATOMIC_ACQUIRE);
        qp->lane_out.ring =
            offset != 0 && offset % MT_RING_LINE == 0
                ? mt_shm_at(qp->peer, offset, sizeof(struct mt_ring))
                : NULL;
    }
    return qp->lane_out.ring != NULL ? &qp->lane_out : &qp->out;
}

bool mt_shm_answer(struct mt_shm_qp *qp)
{
    struct mt_shm_context *context = mt_shm_context_of(qp);
    struct mt_ring_writer *out = mt_answer_lane(qp);
    bool moved = false;
    while (qp->answer_head != qp->answer_tail) {
        struct mt_shm_answer *a = &qp->answers[qp->answer_head % MT_SHM_READS];
        uint64_t left = a->bytes - a->moved, offset;
        uint32_t n = (uint32_t)(left < MT_SHM_COPY ? left : MT_SHM_COPY);
        struct mt_ring_record *r = mt_ring_reserve(out, mt_ring_size(n));
        if (r == NULL && mt_ring_want(out)) {
            continue;
        }
        if (r == NULL) {
            break;
        }
        /* it may not be registered any more */
        if (mt_shm_region_find(context->arena.root, a->rkey,
                               a->address + a->moved, n, MT_FABRIC_REMOTE_READ,
                               &offset) != MT_OK) {
            mt_shm_fail(qp, NULL, MT_EACCESS);
            return true;
        }
        *r = (struct mt_ring_record){.kind = MT_SHM_DATA,
                                     .flags = n == left ? MT_SHM_LAST : 0,
                                     .address = a->work,
                                     .total = a->moved,
                                     .bytes = n};
        memcpy(r + 1, (const char *)(uintptr_t)a->address + a->moved, n);
        a->moved += n;
        mt_ring_publish(out, r, mt_ring_size(n));
        mt_shm_wake(context, qp->peer, true);
        qp->answer_head += n == left;
        moved = true;
    }
    return moved;
}

/* What needs no queue is complete when it is posted. */
static void mt_completed_at_once(struct mt_shm_qp *qp,
                                 const struct mt_fabric_send *work)
{
    if ((work->flags & MT_FABRIC_SIGNALED) != 0) {
        qp->soft.unpolled++;
        struct mt_fabric_completion c = {.id = work->id,
                                         .opcode = work->opcode,
                                         .qp = qp->soft.base.number,
                                         .bytes = work->pieces[0].bytes};
        mt_soft_complete((struct mt_soft_cq *)qp->soft.base.options.send_cq, &c,
                         false);
    }
}

/* A short SEND to a ring with room. */
static bool mt_send_at_once(struct mt_shm_qp *qp,
                            const struct mt_fabric_send *work)
{
    uint32_t bytes = work->pieces[0].bytes;
    uint64_t size = mt_ring_size(bytes);
    struct mt_ring_record *r =
        bytes <= MT_SOFT_INLINE ? mt_ring_reserve(&qp->out, size) : NULL;
    if (r == NULL) {
        return false;
    }
    bool solicited = (work->flags & MT_FABRIC_SOLICITED) != 0;
    r->kind = MT_SHM_SEND;
    r->flags = (uint8_t)(MT_SHM_FIRST | MT_SHM_LAST |
                         (solicited ? MT_SHM_SOLICIT : 0));
    r->total = bytes;
    r->bytes = bytes;
    memcpy(r + 1, work->pieces[0].address, bytes);
    mt_ring_publish(&qp->out, r, size);
    mt_shm_wake(mt_shm_context_of(qp), qp->peer, solicited);
    mt_completed_at_once(qp, work);
    return true;
}

/* A short WRITE into memory that both map. */
static bool mt_write_at_once(struct mt_shm_qp *qp,
                             const struct mt_fabric_send *work)
{
    struct mt_shm_context *context = mt_shm_context_of(qp);
    const struct mt_fabric_piece *p = &work->pieces[0];
    uint64_t offset = 0;
    void *to = NULL;
    if (p->bytes > MT_SHM_COPY || mt_by_peer(qp) || !mt_shm_joined(qp)) {
        return false;
    }
    mt_shm_touch(context, qp->peer);
    if (!mt_gave_up(qp) &&
        mt_shm_region_find(qp->peer->root, work->rkey, work->remote_address,
                           p->bytes, MT_FABRIC_REMOTE_WRITE,
                           &offset) == MT_OK &&
        offset != 0) {
        to = mt_shm_at(qp->peer, offset, p->bytes);
    }
    if (to != NULL) {
        mt_store(to, p, 1, 0, p->bytes);
    }
    mt_shm_touched(context);
    if (to != NULL) {
        mt_completed_at_once(qp, work);
    }
    return to != NULL;
}

static bool mt_post_at_once(struct mt_shm_qp *qp,
                            const struct mt_fabric_send *work)
{
    const struct mt_soft_qp *soft = &qp->soft;
    if (soft->head != soft->tail || work->piece_count != 1 ||
        qp->peer == NULL || soft->base.state != MT_FABRIC_QP_RTS ||
        mt_soft_is_full(soft)) {
        return false;
    }
    return work->opcode == MT_FABRIC_SEND    ? mt_send_at_once(qp, work)
           : work->opcode == MT_FABRIC_WRITE ? mt_write_at_once(qp, work)
                                             : false;
}

enum mt_status mt_shm_post_send(struct mt_fabric_qp *base,
                                const struct mt_fabric_send *work)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)base;
    struct mt_soft_context *context = mt_soft_context_of(&qp->soft);
    if (mt_likely(!context->has_engine)) {
        mt_soft_lock(context);
        bool posted = mt_post_at_once(qp, work);
        mt_soft_unlock(context);
        if (mt_likely(posted)) {
            return MT_OK;
        }
    }
    return mt_soft_post_send(base, work);
}
