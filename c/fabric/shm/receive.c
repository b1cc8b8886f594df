/* receive.c: what a queue pair does with the records of its peer. Nothing in a
 * record is trusted: a peer that writes nonsense breaks its own connection. */
#include "shm.h"

enum {
    MT_TAKE_AT_ONCE = 16,
    MT_TAKE_ALL = MT_RING_BYTES / MT_RING_LINE / MT_TAKE_AT_ONCE, /* of a full ring */
};

/* A record as it was when it was read: the peer may change it any time. */
struct mt_incoming {
    struct mt_ring_record h;
    const void *payload;
};

/* What became of a record. */
enum mt_taken { MT_TAKEN, MT_TAKEN_PART, MT_TAKEN_WAITS, MT_TAKEN_FAILED };

static void mt_arrived(struct mt_shm_qp *qp, const struct mt_incoming *r,
                       uint64_t bytes, bool written)
{
    struct mt_soft_receives *receives = qp->soft.receives;
    struct mt_fabric_completion c = {.opcode = MT_FABRIC_RECEIVE,
                                     .bytes = (uint32_t)bytes,
                                     .immediate = r->h.immediate,
                                     .has_immediate = written};
    uint64_t id = mt_soft_receive_first(receives)->id;
    mt_soft_receive_drop(receives);
    mt_soft_received(&qp->soft, id, &c, (r->h.flags & MT_SHM_SOLICIT) != 0);
}

static enum mt_taken mt_broken(struct mt_shm_qp *qp, enum mt_status status)
{
    mt_shm_fail(qp, NULL, status);
    return MT_TAKEN_FAILED;
}

/* What no peer of this version sends. */
static enum mt_taken mt_malformed(struct mt_shm_qp *qp)
{
    mt_fabric_throw_away(&mt_shm_context_of(qp)->soft.base);
    return mt_broken(qp, MT_EPEER);
}

/* A message that the receive is too short for: an error at either end
 * (InfiniBand 1.5, 9.9.3). */
static enum mt_taken mt_too_long(struct mt_shm_qp *qp)
{
    struct mt_fabric_completion c = {.status = MT_ETRUNCATED};
    uint64_t id = mt_soft_receive_first(qp->soft.receives)->id;
    mt_soft_receive_drop(qp->soft.receives);
    mt_soft_received(&qp->soft, id, &c, true);
    return mt_broken(qp, MT_ETRUNCATED);
}

static enum mt_taken mt_take_whole(struct mt_shm_qp *qp,
                                   const struct mt_incoming *r)
{
    const struct mt_soft_receive *to = mt_soft_receive_first(qp->soft.receives);
    if (to == NULL) {
        return MT_TAKEN_WAITS;
    }
    if (r->h.bytes > to->bytes) {
        return mt_too_long(qp);
    }
    mt_soft_scatter(to->pieces, to->piece_count, 0, r->payload, r->h.bytes);
    mt_arrived(qp, r, r->h.bytes, false);
    return MT_TAKEN;
}

/* A part of a message keeps the receive of its first one: others may take from
 * the same shared queue meanwhile. */
static enum mt_taken mt_take_part(struct mt_shm_qp *qp,
                                  const struct mt_incoming *r)
{
    bool first = (r->h.flags & MT_SHM_FIRST) != 0;
    const struct mt_soft_receive *next = mt_soft_receive_first(qp->soft.receives);
    if (first != !qp->receiving) {
        return mt_malformed(qp);
    }
    if (first && next == NULL) {
        return MT_TAKEN_WAITS;
    }
    if (first && r->h.total > next->bytes) {
        return mt_too_long(qp);
    }
    if (first) {
        qp->current = *next;
        qp->receiving = true;
        qp->received = 0;
        mt_soft_receive_drop(qp->soft.receives);
    }
    if (qp->received + r->h.bytes > qp->current.bytes) {
        return mt_malformed(qp);
    }
    mt_soft_scatter(qp->current.pieces, qp->current.piece_count, qp->received,
                    r->payload, r->h.bytes);
    qp->received += r->h.bytes;
    if ((r->h.flags & MT_SHM_LAST) != 0) {
        struct mt_fabric_completion c = {.opcode = MT_FABRIC_RECEIVE,
                                         .bytes = (uint32_t)qp->received};
        qp->receiving = false;
        mt_soft_received(&qp->soft, qp->current.id, &c,
                         (r->h.flags & MT_SHM_SOLICIT) != 0);
    }
    return MT_TAKEN;
}

static enum mt_taken mt_take_send(struct mt_shm_qp *qp,
                                  const struct mt_incoming *r)
{
    const uint8_t both = MT_SHM_FIRST | MT_SHM_LAST;
    return mt_likely((r->h.flags & both) == both) ? mt_take_whole(qp, r)
                                                  : mt_take_part(qp, r);
}

/* The pieces of an order, copied out of reach of the peer. */
static bool mt_pieces_of(const struct mt_incoming *r,
                         struct mt_fabric_piece *pieces)
{
    uint64_t sum = 0;
    if (r->h.pieces > MT_SOFT_PIECES ||
        r->h.bytes != r->h.pieces * sizeof(*pieces)) {
        return false;
    }
    memcpy(pieces, r->payload, r->h.bytes);
    for (unsigned i = 0; i < r->h.pieces; i++) {
        sum += pieces[i].bytes;
    }
    return sum == r->h.total;
}

/* Copies between one piece of the peer and pieces here, behind skip. Who is gone
 * has its memory in use for other things. */
static enum mt_status mt_copy_piece(const struct mt_shm_qp *qp, bool write,
                                    const struct mt_fabric_piece *theirs,
                                    const struct mt_fabric_piece *ours,
                                    uint32_t our_count, uint64_t skip)
{
    struct mt_shm_context *context = mt_shm_context_of(qp);
    enum mt_status status = MT_OK;
    uint64_t n;
    for (uint64_t at = 0; at < theirs->bytes && status == MT_OK; at += n) {
        n = theirs->bytes - at;
        n = n < MT_SHM_AT_ONCE ? n : MT_SHM_AT_ONCE;
        mt_shm_touch(context, qp->peer);
        bool gone = __atomic_load_n(&qp->ring->gone, __ATOMIC_ACQUIRE) !=
                    MT_RING_HERE;
        status = gone ? MT_EPEER
                      : mt_shm_peer_copy(
                            qp->peer, write, ours, our_count, skip + at,
                            (uint64_t)(uintptr_t)theirs->address + at, n);
        mt_shm_touched(context);
    }
    return status;
}

/* ... and pieces of the peer, one after the other. */
static enum mt_status mt_copy_pieces(const struct mt_shm_qp *qp, bool write,
                                     const struct mt_fabric_piece *theirs,
                                     uint32_t count,
                                     const struct mt_fabric_piece *ours,
                                     uint32_t our_count)
{
    uint64_t skip = 0;
    enum mt_status status = MT_OK;
    for (uint32_t i = 0; i < count && status == MT_OK; i++) {
        status = mt_copy_piece(qp, write, &theirs[i], ours, our_count, skip);
        skip += theirs[i].bytes;
    }
    return status;
}

/* An order is carried out: its sender looks at done. Asleep, it is woken whatever it
 * waits for: what it posted behind the order goes on then. */
static void mt_ordered(struct mt_shm_qp *qp)
{
    __atomic_store_n(&qp->ring->done, qp->ring->done + 1, __ATOMIC_RELEASE);
    mt_shm_wake(mt_shm_context_of(qp), qp->peer, true);
}

static enum mt_taken mt_take_send_pull(struct mt_shm_qp *qp,
                                       const struct mt_incoming *r)
{
    struct mt_fabric_piece pieces[MT_SOFT_PIECES];
    const struct mt_soft_receive *to = mt_soft_receive_first(qp->soft.receives);
    if (to == NULL) {
        return MT_TAKEN_WAITS;
    }
    if (!mt_pieces_of(r, pieces)) {
        return mt_malformed(qp);
    }
    if (r->h.total > to->bytes) {
        return mt_too_long(qp);
    }
    enum mt_status status = mt_copy_pieces(qp, false, pieces, r->h.pieces,
                                           to->pieces, to->piece_count);
    if (status != MT_OK) {
        return mt_broken(qp, status);
    }
    mt_ordered(qp);
    mt_arrived(qp, r, r->h.total, false);
    return MT_TAKEN;
}

/* The memory of ours that a record names; NULL: it may not. */
static void *mt_named(struct mt_shm_qp *qp, const struct mt_incoming *r,
                      uint64_t bytes, uint32_t access)
{
    uint64_t offset;
    const struct mt_shm_context *context = mt_shm_context_of(qp);
    return mt_shm_region_find(context->arena.root, r->h.rkey, r->h.address, bytes,
                              access, &offset) == MT_OK
               ? (void *)(uintptr_t)r->h.address
               : NULL;
}

static enum mt_taken mt_take_write(struct mt_shm_qp *qp,
                                   const struct mt_incoming *r)
{
    bool notifies = (r->h.flags & (MT_SHM_LAST | MT_SHM_HAS_IMM)) ==
                    (MT_SHM_LAST | MT_SHM_HAS_IMM);
    if (notifies && mt_soft_receive_first(qp->soft.receives) == NULL) {
        return MT_TAKEN_WAITS;
    }
    if (r->h.bytes > 0) {
        void *to = mt_named(qp, r, r->h.bytes, MT_FABRIC_REMOTE_WRITE);
        uint64_t word;
        if (to == NULL) {
            return mt_broken(qp, MT_EACCESS);
        }
        if (r->h.bytes == sizeof(word) && (uintptr_t)to % sizeof(word) == 0) {
            memcpy(&word, r->payload, sizeof(word));
            __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
        } else {
            memcpy(to, r->payload, r->h.bytes);
        }
    }
    if (notifies) {
        mt_arrived(qp, r, r->h.total, true);
    }
    return MT_TAKEN;
}

static enum mt_taken mt_take_imm(struct mt_shm_qp *qp,
                                 const struct mt_incoming *r)
{
    if (mt_soft_receive_first(qp->soft.receives) == NULL) {
        return MT_TAKEN_WAITS;
    }
    mt_arrived(qp, r, r->h.total, true);
    return MT_TAKEN;
}

/* WRITE_PULL and READ_PUSH: the poster lets us copy. */
static enum mt_taken mt_take_order(struct mt_shm_qp *qp,
                                   const struct mt_incoming *r)
{
    bool write = r->h.kind == MT_SHM_WRITE_PULL;
    bool notifies = (r->h.flags & MT_SHM_HAS_IMM) != 0;
    struct mt_fabric_piece pieces[MT_SOFT_PIECES];
    if (notifies && mt_soft_receive_first(qp->soft.receives) == NULL) {
        return MT_TAKEN_WAITS;
    }
    if (!mt_pieces_of(r, pieces) || r->h.total > UINT32_MAX) {
        return mt_malformed(qp);
    }
    struct mt_fabric_piece mine = {.bytes = (uint32_t)r->h.total};
    mine.address =
        mt_named(qp, r, r->h.total,
                 write ? MT_FABRIC_REMOTE_WRITE : MT_FABRIC_REMOTE_READ);
    if (r->h.total > 0 && mine.address == NULL) {
        return mt_broken(qp, MT_EACCESS);
    }
    enum mt_status status =
        mt_copy_pieces(qp, !write, pieces, r->h.pieces, &mine, 1);
    if (status != MT_OK) {
        return mt_broken(qp, status);
    }
    mt_ordered(qp);
    if (notifies) {
        mt_arrived(qp, r, r->h.total, true);
    }
    return MT_TAKEN;
}

static enum mt_taken mt_take_read(struct mt_shm_qp *qp,
                                  const struct mt_incoming *r)
{
    if (qp->answer_tail - qp->answer_head >= MT_SHM_READS) {
        return MT_TAKEN_WAITS;
    }
    if (r->h.total > 0 &&
        mt_named(qp, r, r->h.total, MT_FABRIC_REMOTE_READ) == NULL) {
        return mt_broken(qp, MT_EACCESS);
    }
    struct mt_shm_answer *a = &qp->answers[qp->answer_tail++ % MT_SHM_READS];
    *a = (struct mt_shm_answer){.address = r->h.address,
                                .bytes = r->h.total,
                                .rkey = r->h.rkey};
    memcpy(&a->work, r->payload, sizeof(a->work));
    return MT_TAKEN;
}

static enum mt_taken mt_take_data(struct mt_shm_qp *qp,
                                  const struct mt_incoming *r)
{
    struct mt_soft_qp *soft = &qp->soft;
    uint32_t index = (uint32_t)r->h.address;
    struct mt_soft_work *w = mt_soft_work_at(soft, index);
    bool known = index - soft->head < soft->next - soft->head &&
                 w->opcode == MT_FABRIC_READ && !w->done;
    if (!known || r->h.total > w->bytes || r->h.bytes > w->bytes - r->h.total) {
        return mt_malformed(qp);
    }
    mt_soft_scatter(w->pieces, w->piece_count, r->h.total, r->payload,
                    r->h.bytes);
    if ((r->h.flags & MT_SHM_LAST) != 0) {
        w->done = true;
        soft->reads--;
        mt_soft_retire(soft);
    }
    return MT_TAKEN;
}

static enum mt_taken mt_take_one(struct mt_shm_qp *qp,
                                 const struct mt_incoming *r)
{
    switch (r->h.kind) {
    case MT_SHM_REST:
        return MT_TAKEN;
    case MT_SHM_SEND:
        return mt_take_send(qp, r);
    case MT_SHM_SEND_PULL:
        return mt_take_send_pull(qp, r);
    case MT_SHM_IMM:
        return mt_take_imm(qp, r);
    case MT_SHM_WRITE:
        return mt_take_write(qp, r);
    case MT_SHM_WRITE_PULL:
    case MT_SHM_READ_PUSH:
        return mt_take_order(qp, r);
    case MT_SHM_READ:
        return mt_take_read(qp, r);
    case MT_SHM_DATA:
        return mt_take_data(qp, r);
    default:
        return mt_malformed(qp);
    }
}

/* From the ring that all comes by, or from that of answers alone. */
static bool mt_take_from(struct mt_shm_qp *qp, struct mt_ring_reader *from)
{
    bool moved = false;
    uint64_t told = from->told;
    for (unsigned n = 0; n < MT_TAKE_AT_ONCE; n++) {
        uint64_t size;
        struct mt_incoming in;
        struct mt_ring_record *r = mt_ring_peek(from, &size);
        if (r == NULL) {
            break;
        }
        memcpy(&in.h, r, sizeof(in.h));
        in.payload = r + 1;
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* it is not read again */
        if (size == 0 ||
            (in.h.kind != MT_SHM_REST && mt_ring_size(in.h.bytes) != size)) {
            mt_malformed(qp);
            return false;
        }
        enum mt_taken taken = mt_take_one(qp, &in);
        if (taken == MT_TAKEN_FAILED) {
            return false;
        }
        if (taken == MT_TAKEN_WAITS) {
            break;
        }
        moved = true;
        mt_ring_drop(from, r, size);
    }
    if (mt_unlikely(from->told != told) && mt_ring_wanted(from->ring)) {
        mt_shm_wake(mt_shm_context_of(qp), qp->peer, true);
    }
    return moved;
}

static bool mt_take_some(struct mt_shm_qp *qp)
{
    if (qp->soft.base.state != MT_FABRIC_QP_RTS) {
        return false;
    }
    bool moved = mt_take_from(qp, &qp->in);
    if (mt_unlikely(qp->lane != NULL) &&
        qp->soft.base.state == MT_FABRIC_QP_RTS) {
        moved = mt_take_from(qp, &qp->lane_in) || moved;
    }
    return moved;
}

/* Who published before the arming wakes nobody: where somebody may sleep, all that is
 * there is taken. */
bool mt_shm_take(struct mt_shm_qp *qp)
{
    const struct mt_soft_context *context = mt_soft_context_of(&qp->soft);
    bool moved = mt_take_some(qp), more = moved;
    for (unsigned n = 1; more && n < MT_TAKE_ALL && mt_soft_sleeps(context);
         n++) {
        more = mt_take_some(qp);
    }
    return moved;
}
