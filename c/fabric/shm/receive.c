/* receive.c: what a queue pair does with the records of its peer. Nothing in a
 * record is trusted: a peer that writes nonsense breaks its own connection. */
#include "shm.h"

enum { MT_TAKE_AT_ONCE = 16 };

/* What became of a record. */
enum mt_taken { MT_TAKEN, MT_TAKEN_PART, MT_TAKEN_WAITS, MT_TAKEN_FAILED };

static const char *mt_payload(const struct mt_ring_record *r)
{
    return (const char *)(r + 1);
}

static void mt_arrived(struct mt_shm_qp *qp, const struct mt_ring_record *r,
                       uint64_t bytes, bool written)
{
    struct mt_soft_receives *receives = qp->soft.receives;
    struct mt_fabric_completion c = {.opcode = MT_FABRIC_RECEIVE,
                                     .bytes = (uint32_t)bytes,
                                     .immediate = r->immediate,
                                     .has_immediate = written};
    uint64_t id = mt_soft_receive_first(receives)->id;
    mt_soft_receive_drop(receives);
    mt_soft_received(&qp->soft, id, &c, (r->flags & MT_SHM_SOLICIT) != 0);
}

static enum mt_taken mt_broken(struct mt_shm_qp *qp, enum mt_status status)
{
    mt_shm_fail(qp, NULL, status);
    return MT_TAKEN_FAILED;
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

static enum mt_taken mt_take_send(struct mt_shm_qp *qp,
                                  const struct mt_ring_record *r)
{
    const struct mt_soft_receive *to = mt_soft_receive_first(qp->soft.receives);
    if (to == NULL) {
        return MT_TAKEN_WAITS;
    }
    if ((r->flags & MT_SHM_FIRST) != 0) {
        qp->received = 0;
    }
    if (r->total > to->bytes) {
        return mt_too_long(qp);
    }
    if (qp->received + r->bytes > r->total) {
        return mt_broken(qp, MT_EPEER);
    }
    mt_soft_scatter(to->pieces, to->piece_count, qp->received, mt_payload(r),
                    r->bytes);
    qp->received += r->bytes;
    if ((r->flags & MT_SHM_LAST) != 0) {
        mt_arrived(qp, r, qp->received, false);
    }
    return MT_TAKEN;
}

/* The pieces of an order, copied out of reach of the peer. */
static bool mt_pieces_of(const struct mt_ring_record *r,
                         struct mt_fabric_piece *pieces)
{
    uint64_t sum = 0;
    if (r->pieces > MT_SOFT_PIECES ||
        r->bytes != r->pieces * sizeof(*pieces)) {
        return false;
    }
    memcpy(pieces, r + 1, r->bytes);
    for (unsigned i = 0; i < r->pieces; i++) {
        sum += pieces[i].bytes;
    }
    return sum == r->total;
}

/* Copies between pieces of the peer and pieces here, one after the other. */
static enum mt_status mt_copy_pieces(const struct mt_shm_peer *peer, bool write,
                                     const struct mt_fabric_piece *theirs,
                                     uint32_t count,
                                     const struct mt_fabric_piece *ours,
                                     uint32_t our_count)
{
    uint64_t skip = 0;
    enum mt_status status = MT_OK;
    for (uint32_t i = 0; i < count && status == MT_OK; i++) {
        if (theirs[i].bytes > 0) {
            status = mt_shm_peer_copy(
                peer, write, ours, our_count, skip,
                (uint64_t)(uintptr_t)theirs[i].address, theirs[i].bytes);
        }
        skip += theirs[i].bytes;
    }
    return status;
}

/* An order is carried out: its sender looks at done. */
static void mt_ordered(struct mt_shm_qp *qp)
{
    __atomic_store_n(&qp->ring->done, qp->ring->done + 1, __ATOMIC_RELEASE);
    mt_shm_wake(mt_shm_context_of(qp), qp->peer, false);
}

static enum mt_taken mt_take_send_pull(struct mt_shm_qp *qp,
                                       const struct mt_ring_record *r)
{
    struct mt_fabric_piece pieces[MT_SOFT_PIECES];
    const struct mt_soft_receive *to = mt_soft_receive_first(qp->soft.receives);
    if (to == NULL) {
        return MT_TAKEN_WAITS;
    }
    if (!mt_pieces_of(r, pieces)) {
        return mt_broken(qp, MT_EPEER);
    }
    if (r->total > to->bytes) {
        return mt_too_long(qp);
    }
    enum mt_status status = mt_copy_pieces(qp->peer, false, pieces, r->pieces,
                                           to->pieces, to->piece_count);
    if (status != MT_OK) {
        return mt_broken(qp, status);
    }
    mt_ordered(qp);
    mt_arrived(qp, r, r->total, false);
    return MT_TAKEN;
}

/* The memory of ours that a record names; NULL: it may not. */
static void *mt_named(struct mt_shm_qp *qp, const struct mt_ring_record *r,
                      uint64_t bytes, uint32_t access)
{
    uint64_t offset;
    const struct mt_shm_context *context = mt_shm_context_of(qp);
    return mt_shm_region_find(context->arena.root, r->rkey, r->address, bytes,
                              access, &offset) == MT_OK
               ? (void *)(uintptr_t)r->address
               : NULL;
}

static enum mt_taken mt_take_write(struct mt_shm_qp *qp,
                                   const struct mt_ring_record *r)
{
    bool notifies = (r->flags & (MT_SHM_LAST | MT_SHM_HAS_IMM)) ==
                    (MT_SHM_LAST | MT_SHM_HAS_IMM);
    if (notifies && mt_soft_receive_first(qp->soft.receives) == NULL) {
        return MT_TAKEN_WAITS;
    }
    if (r->bytes > 0) {
        void *to = mt_named(qp, r, r->bytes, MT_FABRIC_REMOTE_WRITE);
        uint64_t word;
        if (to == NULL) {
            return mt_broken(qp, MT_EACCESS);
        }
        if (r->bytes == sizeof(word) && (uintptr_t)to % sizeof(word) == 0) {
            memcpy(&word, mt_payload(r), sizeof(word));
            __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
        } else {
            memcpy(to, mt_payload(r), r->bytes);
        }
    }
    if (notifies) {
        mt_arrived(qp, r, r->total, true);
    }
    return MT_TAKEN;
}

static enum mt_taken mt_take_imm(struct mt_shm_qp *qp,
                                 const struct mt_ring_record *r)
{
    if (mt_soft_receive_first(qp->soft.receives) == NULL) {
        return MT_TAKEN_WAITS;
    }
    mt_arrived(qp, r, r->total, true);
    return MT_TAKEN;
}

/* WRITE_PULL and READ_PUSH: the poster lets us copy. */
static enum mt_taken mt_take_order(struct mt_shm_qp *qp,
                                   const struct mt_ring_record *r)
{
    bool write = r->kind == MT_SHM_WRITE_PULL;
    bool notifies = (r->flags & MT_SHM_HAS_IMM) != 0;
    struct mt_fabric_piece pieces[MT_SOFT_PIECES];
    if (notifies && mt_soft_receive_first(qp->soft.receives) == NULL) {
        return MT_TAKEN_WAITS;
    }
    if (!mt_pieces_of(r, pieces) || r->total > UINT32_MAX) {
        return mt_broken(qp, MT_EPEER);
    }
    struct mt_fabric_piece mine = {.bytes = (uint32_t)r->total};
    mine.address =
        mt_named(qp, r, r->total,
                 write ? MT_FABRIC_REMOTE_WRITE : MT_FABRIC_REMOTE_READ);
    if (r->total > 0 && mine.address == NULL) {
        return mt_broken(qp, MT_EACCESS);
    }
    enum mt_status status =
        mt_copy_pieces(qp->peer, !write, pieces, r->pieces, &mine, 1);
    if (status != MT_OK) {
        return mt_broken(qp, status);
    }
    mt_ordered(qp);
    if (notifies) {
        mt_arrived(qp, r, r->total, true);
    }
    return MT_TAKEN;
}

static enum mt_taken mt_take_read(struct mt_shm_qp *qp,
                                  const struct mt_ring_record *r)
{
    if (qp->answer_tail - qp->answer_head >= MT_SHM_READS) {
        return MT_TAKEN_WAITS;
    }
    if (r->total > 0 &&
        mt_named(qp, r, r->total, MT_FABRIC_REMOTE_READ) == NULL) {
        return mt_broken(qp, MT_EACCESS);
    }
    struct mt_shm_answer *a = &qp->answers[qp->answer_tail++ % MT_SHM_READS];
    *a = (struct mt_shm_answer){.address = r->address, .bytes = r->total};
    memcpy(&a->work, r + 1, sizeof(a->work));
    return MT_TAKEN;
}

static enum mt_taken mt_take_data(struct mt_shm_qp *qp,
                                  const struct mt_ring_record *r)
{
    struct mt_soft_qp *soft = &qp->soft;
    uint32_t index = (uint32_t)r->address;
    struct mt_soft_work *w = mt_soft_work_at(soft, index);
    bool known = index - soft->head < soft->next - soft->head &&
                 w->opcode == MT_FABRIC_READ && !w->done;
    if (!known || r->total > w->bytes || r->bytes > w->bytes - r->total) {
        return mt_broken(qp, MT_EPEER);
    }
    mt_soft_scatter(w->pieces, w->piece_count, r->total, mt_payload(r),
                    r->bytes);
    if ((r->flags & MT_SHM_LAST) != 0) {
        w->done = true;
        soft->reads--;
        mt_soft_retire(soft);
    }
    return MT_TAKEN;
}

static enum mt_taken mt_take_one(struct mt_shm_qp *qp,
                                 const struct mt_ring_record *r)
{
    switch (r->kind) {
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
        return mt_broken(qp, MT_EPEER);
    }
}

bool mt_shm_take(struct mt_shm_qp *qp)
{
    bool moved = false;
    for (unsigned n = 0; n < MT_TAKE_AT_ONCE; n++) {
        uint64_t size;
        struct mt_ring_record *r = mt_ring_peek(&qp->in, &size);
        if (r == NULL) {
            break;
        }
        if (size == 0 ||
            (r->kind != MT_SHM_REST && mt_ring_size(r->bytes) != size)) {
            mt_broken(qp, MT_EPEER);
            return true;
        }
        enum mt_taken taken = mt_take_one(qp, r);
        if (taken == MT_TAKEN_WAITS) {
            break;
        }
        moved = true;
        if (taken == MT_TAKEN_FAILED) {
            break;
        }
        mt_ring_drop(&qp->in, r, size);
    }
    return moved;
}
