/* work.c: posting and polling. The library's id of a request is
 *   generation (28 bits) | owner (20) | receive (1) | slot (15)
 * so that a completion finds its queue and its caller's id, and one of a queue
 * pair that was destroyed or reset meanwhile is recognised and dropped. */
#include "verbs.h"

#if MT_VERBS

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

enum { MT_SLOT_BITS = 15, MT_OWNER_SHIFT = 16, MT_GENERATION_SHIFT = 36 };

_Static_assert(MT_VERBS_DEPTH == 1 << MT_SLOT_BITS, "a slot fits into its bits");
_Static_assert(MT_VERBS_CHUNK * MT_VERBS_CHUNKS ==
                   1 << (MT_GENERATION_SHIFT - MT_OWNER_SHIFT),
               "an owner fits into its bits");

static const uint64_t mt_receive_bit = UINT64_C(1) << MT_SLOT_BITS;

static uint64_t mt_id(const struct mt_verbs_context *context, uint32_t owner,
                      uint32_t slot)
{
    uint64_t generation = mt_verbs_owner_at(context, owner)->generation;
    return generation << MT_GENERATION_SHIFT |
           (uint64_t)owner << MT_OWNER_SHIFT | slot;
}

static uint32_t mt_sges(struct ibv_sge *sges,
                        const struct mt_fabric_piece *pieces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sges[i] = (struct ibv_sge){.addr = (uintptr_t)pieces[i].address,
                                   .length = pieces[i].bytes,
                                   .lkey = pieces[i].lkey};
    }
    return count;
}

static enum mt_status mt_post_status(int error)
{
    return error == 0        ? MT_OK
           : error == ENOMEM ? MT_EAGAIN /* the queue is full */
                             : mt_verbs_status(error);
}

/* ---- sends ---- */

/* A READ goes without FENCE: it is answered after those before it anyway (InfiniBand
 * 1.5, 10.8.3.3). Soft-RoCE counts a READ that it has to repeat among those that it
 * waits for, and would never send it again (Linux 6.1; docs/design/0008). */
static unsigned mt_send_flags(const struct mt_fabric_send *work)
{
    uint32_t flags = work->opcode == MT_FABRIC_READ
                         ? work->flags & ~(uint32_t)MT_FABRIC_FENCE
                         : work->flags;
    return ((flags & MT_FABRIC_SIGNALED) != 0 ? IBV_SEND_SIGNALED : 0) |
           ((flags & MT_FABRIC_INLINE) != 0 ? IBV_SEND_INLINE : 0) |
           ((flags & MT_FABRIC_FENCE) != 0 ? IBV_SEND_FENCE : 0) |
           ((flags & MT_FABRIC_SOLICITED) != 0 ? IBV_SEND_SOLICITED : 0);
}

static enum ibv_wr_opcode mt_opcode(enum mt_fabric_opcode opcode)
{
    return opcode == MT_FABRIC_SEND    ? IBV_WR_SEND
           : opcode == MT_FABRIC_WRITE ? IBV_WR_RDMA_WRITE
           : opcode == MT_FABRIC_READ  ? IBV_WR_RDMA_READ
                                       : IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* false: the handle does not lead out of the port of the queue pair. */
static bool mt_send_target(const struct mt_verbs_qp *qp,
                           const struct mt_fabric_send *work,
                           struct ibv_send_wr *wr)
{
    const struct mt_verbs_ah *ah = (const struct mt_verbs_ah *)work->ah;
    if (ah == NULL) {
        wr->wr.rdma.remote_addr = work->remote_address;
        wr->wr.rdma.rkey = work->rkey;
        return true;
    }
    wr->wr.ud.ah = ah->handles[qp->base.options.port];
    wr->wr.ud.remote_qpn = ah->number;
    wr->wr.ud.remote_qkey = MT_VERBS_QKEY;
    return wr->wr.ud.ah != NULL;
}

/* A port drops what is longer than its MTU: nobody would ever know. */
static MT_COLD enum mt_status mt_too_long(struct mt_verbs_context *context,
                                          uint64_t bytes, uint32_t mtu)
{
    if (!__atomic_exchange_n(&context->told_of_mtu, true, __ATOMIC_RELAXED)) {
        mt_fabric_say(&context->base.options,
                      "verbs: datagrams to a peer may have %u bytes, the MTU of "
                      "its port; one of %llu is refused",
                      mtu, (unsigned long long)bytes);
    }
    return MT_EINVAL;
}

static enum mt_status mt_verbs_post_send(struct mt_fabric_qp *base,
                                         const struct mt_fabric_send *work)
{
    struct mt_verbs_qp *qp = (struct mt_verbs_qp *)base;
    struct mt_verbs_context *context = mt_verbs_context_of(base);
    struct mt_verbs_queue *sends = &qp->sends;
    struct ibv_sge sges[MT_VERBS_PIECES];
    struct ibv_send_wr *bad, wr;
    uint64_t bytes;
    enum mt_status status = mt_fabric_send_check(base, work, &bytes);
    if (mt_unlikely(status != MT_OK)) {
        return status;
    }
    if (mt_unlikely(mt_fabric_qp_state(base) == MT_FABRIC_QP_INIT)) {
        return MT_ESTATE;
    }
    const struct mt_verbs_ah *ah = (const struct mt_verbs_ah *)work->ah;
    if (mt_unlikely(ah != NULL && bytes > ah->mtu)) {
        return mt_too_long(context, bytes, ah->mtu);
    }
    wr.next = NULL;
    wr.sg_list = sges;
    wr.num_sge = (int)mt_sges(sges, work->pieces, work->piece_count);
    wr.opcode = mt_opcode(work->opcode);
    wr.send_flags = mt_send_flags(work);
    wr.imm_data = htonl(work->immediate);
    if (mt_unlikely(!mt_send_target(qp, work, &wr))) {
        return MT_EINVAL;
    }
    mt_verbs_lock(context);
    uint32_t slot = sends->tail & sends->mask;
    if (sends->tail - sends->head == sends->depth) {
        status = MT_EAGAIN;
    } else {
        sends->slots[slot].id = work->id;
        wr.wr_id = mt_id(context, qp->owner, slot);
        status = mt_post_status(ibv_post_send(qp->qp, &wr, &bad));
    }
    sends->tail += status == MT_OK;
    mt_verbs_unlock(context);
    return status;
}

/* ---- receives ---- */

/* Takes a slot for a receive and fills what is posted. */
static enum mt_status mt_receive_prepare(struct mt_verbs_context *context,
                                         struct mt_verbs_queue *queue,
                                         uint32_t owner,
                                         const struct mt_fabric_receive *work,
                                         struct ibv_sge *sges,
                                         struct ibv_recv_wr *wr)
{
    if (mt_unlikely(queue->datagrams &&
                    (work->piece_count == 0 ||
                     work->pieces[0].bytes < MT_VERBS_HEADROOM))) {
        return MT_EINVAL; /* the route header would have no place */
    }
    if (queue->used == queue->depth) {
        return MT_EAGAIN;
    }
    uint32_t slot = queue->unused[queue->depth - 1 - queue->used];
    queue->slots[slot].id = work->id;
    queue->slots[slot].grh =
        work->piece_count > 0 ? work->pieces[0].address : NULL;
    wr->wr_id = mt_id(context, owner, slot) | mt_receive_bit;
    wr->next = NULL;
    wr->sg_list = sges;
    wr->num_sge = (int)mt_sges(sges, work->pieces, work->piece_count);
    return MT_OK;
}

static enum mt_status
mt_verbs_post_receive(struct mt_fabric_qp *base,
                      const struct mt_fabric_receive *work)
{
    struct mt_verbs_qp *qp = (struct mt_verbs_qp *)base;
    struct mt_verbs_context *context = mt_verbs_context_of(base);
    struct ibv_sge sges[MT_VERBS_PIECES];
    struct ibv_recv_wr *bad, wr;
    if (mt_unlikely(base->options.srq != NULL ||
                    work->piece_count > base->options.pieces)) {
        return MT_EINVAL;
    }
    mt_verbs_lock(context);
    enum mt_status status = mt_receive_prepare(context, &qp->own, qp->owner,
                                               work, sges, &wr);
    if (status == MT_OK) {
        status = mt_post_status(ibv_post_recv(qp->qp, &wr, &bad));
    }
    qp->own.used += status == MT_OK;
    mt_verbs_unlock(context);
    return status;
}

static enum mt_status
mt_verbs_post_srq_receive(struct mt_fabric_srq *base,
                          const struct mt_fabric_receive *work)
{
    struct mt_verbs_srq *srq = (struct mt_verbs_srq *)base;
    struct mt_verbs_context *context =
        (struct mt_verbs_context *)base->pd->context;
    struct ibv_sge sges[MT_VERBS_PIECES];
    struct ibv_recv_wr *bad, wr;
    if (mt_unlikely(work->piece_count > base->options.pieces)) {
        return MT_EINVAL;
    }
    mt_verbs_lock(context);
    enum mt_status status = mt_receive_prepare(context, &srq->receives,
                                               srq->owner, work, sges, &wr);
    if (status == MT_OK) {
        status = mt_post_status(ibv_post_srq_recv(srq->srq, &wr, &bad));
    }
    srq->receives.used += status == MT_OK;
    mt_verbs_unlock(context);
    return status;
}

/* ---- completions ---- */

static enum mt_status mt_completion_status(enum ibv_wc_status status,
                                           bool receive)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return MT_OK;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_REM_INV_REQ_ERR: /* its commonest reason */
        return MT_ETRUNCATED;
    case IBV_WC_LOC_QP_OP_ERR:
        /* Soft-RoCE: instead of IBV_WC_LOC_LEN_ERR; and of a send that there is no
         * way to the peer, because the link is down. Sends that are wrong were
         * refused when they were posted. */
        return receive ? MT_ETRUNCATED : MT_EPEER;
    case IBV_WC_LOC_PROT_ERR:
        return MT_EINVAL;
    case IBV_WC_WR_FLUSH_ERR:
        return MT_EFLUSHED;
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_REM_ACCESS_ERR:
        return MT_EACCESS;
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return MT_EPEER;
    default:
        return MT_EIO;
    }
}

static enum mt_fabric_opcode mt_completion_opcode(enum ibv_wc_opcode opcode)
{
    return opcode == IBV_WC_SEND         ? MT_FABRIC_SEND
           : opcode == IBV_WC_RDMA_READ  ? MT_FABRIC_READ
           : opcode == IBV_WC_RDMA_WRITE ? MT_FABRIC_WRITE
                                         : MT_FABRIC_RECEIVE;
}

/* A queue pair does not survive an error: one of datagrams would go on receiving
 * (its state is SQE), so it is stopped. */
static MT_COLD void mt_failed(struct mt_verbs_qp *qp)
{
    if (qp->base.options.transport == MT_FABRIC_UD &&
        mt_fabric_qp_state(&qp->base) != MT_FABRIC_QP_ERROR) {
        struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
        mt_verbs_library()->modify_qp(qp->qp, &a, IBV_QP_STATE);
    }
    mt_verbs_qp_failed(qp);
}

/* The slot of a completion, given back; NULL: its owner is gone. */
static const struct mt_verbs_slot *mt_slot_take(struct mt_verbs_owner *owner,
                                                const struct ibv_wc *wc)
{
    uint32_t slot = wc->wr_id & (mt_receive_bit - 1);
    if ((wc->wr_id & mt_receive_bit) == 0) {
        struct mt_verbs_queue *sends = &owner->qp->sends;
        /* those posted before it without SIGNALED are over, too */
        sends->head += ((slot - sends->head) & sends->mask) + 1;
        return &sends->slots[slot];
    }
    struct mt_verbs_queue *receives =
        owner->qp != NULL ? &owner->qp->own : &owner->srq->receives;
    receives->used--;
    receives->unused[receives->depth - 1 - receives->used] = (uint16_t)slot;
    return &receives->slots[slot];
}

/* false: of a queue pair that is gone. */
static bool mt_complete(struct mt_verbs_context *context,
                        const struct ibv_wc *wc, struct mt_fabric_completion *c)
{
    struct mt_verbs_owner *owner = mt_verbs_owner_at(
        context, (uint32_t)(wc->wr_id >> MT_OWNER_SHIFT) &
                     (MT_VERBS_CHUNK * MT_VERBS_CHUNKS - 1));
    uint64_t generation = (uint64_t)owner->generation << MT_GENERATION_SHIFT;
    if (mt_unlikely((generation ^ wc->wr_id) >> MT_GENERATION_SHIFT != 0)) {
        return false;
    }
    bool receive = (wc->wr_id & mt_receive_bit) != 0;
    const struct mt_verbs_slot *slot = mt_slot_take(owner, wc);
    c->id = slot->id;
    c->status = mt_completion_status(wc->status, receive);
    c->qp = wc->qp_num;
    c->opcode = receive ? MT_FABRIC_RECEIVE : MT_FABRIC_SEND;
    if (mt_unlikely(wc->status != IBV_WC_SUCCESS)) {
        if (owner->qp != NULL) {
            mt_failed(owner->qp);
        }
        return true;
    }
    c->opcode = receive ? c->opcode : mt_completion_opcode(wc->opcode);
    c->bytes = wc->byte_len;
    c->has_immediate = receive && (wc->wc_flags & IBV_WC_WITH_IMM) != 0;
    c->immediate = c->has_immediate ? ntohl(wc->imm_data) : 0;
    if (receive && (owner->qp != NULL ? owner->qp->own.datagrams
                                      : owner->srq->receives.datagrams)) {
        mt_verbs_source_read(context->ethernet, wc, slot->grh, &c->source);
    }
    return true;
}

static uint32_t mt_verbs_poll(struct mt_fabric_cq *base,
                              struct mt_fabric_completion *completions,
                              uint32_t limit)
{
    enum { BATCH = 16 };
    struct mt_verbs_context *context = (struct mt_verbs_context *)base->context;
    struct ibv_cq *cq = ((struct mt_verbs_cq *)base)->cq;
    struct ibv_wc wcs[BATCH];
    uint32_t n = 0;
    int got = 1, wanted = 1;
    mt_verbs_lock(context);
    while (n < limit && got == wanted) {
        wanted = limit - n < BATCH ? (int)(limit - n) : BATCH;
        got = ibv_poll_cq(cq, wanted, wcs);
        for (int i = 0; i < got; i++) {
            n += mt_complete(context, &wcs[i], &completions[n]);
        }
    }
    mt_verbs_unlock(context);
    return n;
}

const struct mt_fabric_ops mt_verbs_ops = {
    .post_send = mt_verbs_post_send,
    .post_receive = mt_verbs_post_receive,
    .post_srq_receive = mt_verbs_post_srq_receive,
    .poll = mt_verbs_poll,
};

#endif
