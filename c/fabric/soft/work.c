/* work.c: send and receive queues in memory. */
#include "soft.h"

#include <stdlib.h>
#include <string.h>

/* ---- receives ---- */

static enum mt_status mt_receives_make(struct mt_soft_receives *r,
                                       uint32_t depth)
{
    uint32_t slots = mt_soft_slots(depth);
    r->slots = calloc(slots, sizeof(*r->slots));
    r->mask = slots - 1;
    r->depth = depth;
    return r->slots != NULL ? MT_OK : MT_ENOMEM;
}

static enum mt_status mt_receives_add(struct mt_soft_receives *r,
                                      uint32_t pieces,
                                      const struct mt_fabric_receive *work)
{
    if (work->piece_count > pieces) {
        return MT_EINVAL;
    }
    if (r->tail - r->head >= r->depth) {
        return MT_EAGAIN;
    }
    struct mt_soft_receive *slot = &r->slots[r->tail & r->mask];
    slot->id = work->id;
    slot->piece_count = work->piece_count;
    slot->bytes = 0;
    for (uint32_t i = 0; i < work->piece_count; i++) {
        slot->pieces[i] = work->pieces[i];
        slot->bytes += work->pieces[i].bytes;
    }
    r->tail++;
    return MT_OK;
}

enum mt_status mt_soft_srq_create(struct mt_fabric_pd *pd,
                                  const struct mt_fabric_srq_options *options,
                                  struct mt_fabric_srq **srq_p)
{
    struct mt_soft_srq *srq = calloc(1, sizeof(*srq));
    if (srq == NULL) {
        return MT_ENOMEM;
    }
    if (mt_receives_make(&srq->receives, options->depth) != MT_OK) {
        free(srq);
        return MT_ENOMEM;
    }
    srq->base.ops = pd->ops;
    *srq_p = &srq->base;
    return MT_OK;
}

void mt_soft_srq_destroy(struct mt_fabric_srq *base)
{
    struct mt_soft_srq *srq = (struct mt_soft_srq *)base;
    free(srq->receives.slots);
    free(srq);
}

/* A message may have waited for this receive while its reader sleeps. */
static void mt_received_while_asleep(struct mt_soft_context *context)
{
    if (mt_soft_sleeps(context)) {
        context->progress(context);
    }
}

enum mt_status mt_soft_post_srq_receive(struct mt_fabric_srq *base,
                                        const struct mt_fabric_receive *work)
{
    struct mt_soft_srq *srq = (struct mt_soft_srq *)base;
    struct mt_soft_context *context =
        (struct mt_soft_context *)base->pd->context;
    mt_soft_lock(context);
    enum mt_status status =
        mt_receives_add(&srq->receives, base->options.pieces, work);
    mt_received_while_asleep(context);
    mt_soft_unlock(context);
    return status;
}

enum mt_status mt_soft_post_receive(struct mt_fabric_qp *base,
                                    const struct mt_fabric_receive *work)
{
    struct mt_soft_qp *qp = (struct mt_soft_qp *)base;
    struct mt_soft_context *context = mt_soft_context_of(qp);
    enum mt_status status = MT_EINVAL;
    mt_soft_lock(context);
    if (base->options.srq == NULL) {
        status = mt_receives_add(&qp->own, base->options.pieces, work);
    }
    if (status == MT_OK && mt_unlikely(base->state == MT_FABRIC_QP_ERROR)) {
        struct mt_fabric_completion c = {.status = MT_EFLUSHED};
        mt_soft_receive_drop(&qp->own);
        mt_soft_received(qp, work->id, &c, false);
    }
    mt_received_while_asleep(context);
    mt_soft_unlock(context);
    return status;
}

void mt_soft_received(struct mt_soft_qp *qp, uint64_t id,
                      const struct mt_fabric_completion *how, bool solicited)
{
    struct mt_fabric_completion c = *how;
    c.id = id;
    c.opcode = MT_FABRIC_RECEIVE;
    c.qp = qp->base.number;
    mt_soft_complete((struct mt_soft_cq *)qp->base.options.receive_cq, &c,
                     solicited);
}

/* ---- sends ---- */

static void mt_work_fill(struct mt_soft_work *w,
                         const struct mt_fabric_send *work, uint64_t bytes)
{
    w->id = work->id;
    w->remote_address = work->remote_address;
    w->bytes = bytes;
    w->ah = work->ah;
    w->moved = 0;
    w->token = 0;
    w->rkey = work->rkey;
    w->immediate = work->immediate;
    w->flags = work->flags;
    w->opcode = (uint16_t)work->opcode;
    w->piece_count = (uint16_t)work->piece_count;
    w->stage = 0;
    w->done = false;
    w->status = MT_OK;
    if ((work->flags & MT_FABRIC_INLINE) != 0) {
        mt_soft_gather(work->pieces, work->piece_count, 0, w->data, bytes);
        w->pieces[0] =
            (struct mt_fabric_piece){.address = w->data, .bytes = (uint32_t)bytes};
        w->piece_count = 1;
        return;
    }
    for (uint32_t i = 0; i < work->piece_count; i++) {
        w->pieces[i] = work->pieces[i];
    }
}

static enum mt_status mt_send_add(struct mt_soft_qp *qp,
                                  const struct mt_fabric_send *work)
{
    uint64_t bytes;
    enum mt_status status = mt_fabric_send_check(&qp->base, work, &bytes);
    if (status != MT_OK) {
        return status;
    }
    if (mt_soft_is_full(qp)) {
        return MT_EAGAIN;
    }
    mt_work_fill(mt_soft_work_at(qp, qp->tail), work, bytes);
    qp->tail++;
    return MT_OK;
}

/* A send posted to a queue pair in error is flushed. */
static void mt_send_flush(struct mt_soft_qp *qp)
{
    for (uint32_t i = qp->head; i != qp->tail; i++) {
        struct mt_soft_work *w = mt_soft_work_at(qp, i);
        w->status = w->status != MT_OK ? w->status : MT_EFLUSHED;
        w->done = true;
    }
    qp->next = qp->tail;
    mt_soft_retire(qp);
}

enum mt_status mt_soft_post_send(struct mt_fabric_qp *base,
                                 const struct mt_fabric_send *work)
{
    struct mt_soft_qp *qp = (struct mt_soft_qp *)base;
    struct mt_soft_context *context = mt_soft_context_of(qp);
    enum mt_status status = MT_ESTATE;
    mt_soft_lock(context);
    if (base->state == MT_FABRIC_QP_RTS || base->state == MT_FABRIC_QP_ERROR) {
        status = mt_send_add(qp, work);
    }
    if (status == MT_OK && mt_unlikely(base->state == MT_FABRIC_QP_ERROR)) {
        mt_send_flush(qp);
    } else if (status == MT_OK && !context->has_engine &&
               !(context->holds_more && (work->flags & MT_FABRIC_MORE) != 0)) {
        context->push(qp);
    }
    mt_soft_unlock(context);
    return status;
}

void mt_soft_retire(struct mt_soft_qp *qp)
{
    while (qp->head != qp->next && mt_soft_work_at(qp, qp->head)->done) {
        const struct mt_soft_work *w = mt_soft_work_at(qp, qp->head);
        qp->head++;
        if ((w->flags & MT_FABRIC_SIGNALED) == 0 && w->status == MT_OK) {
            continue;
        }
        struct mt_fabric_completion c = {.id = w->id,
                                         .status = w->status,
                                         .opcode = w->opcode,
                                         .qp = qp->base.number,
                                         .bytes = (uint32_t)w->bytes};
        qp->unpolled++;
        mt_soft_complete((struct mt_soft_cq *)qp->base.options.send_cq, &c,
                         false);
    }
}

void mt_soft_qp_fail(struct mt_soft_qp *qp, struct mt_soft_work *failed,
                     enum mt_status status)
{
    if (qp->base.state == MT_FABRIC_QP_ERROR) {
        return;
    }
    __atomic_store_n(&qp->base.state, MT_FABRIC_QP_ERROR, __ATOMIC_RELEASE);
    if (failed != NULL) {
        failed->status = status;
    }
    mt_send_flush(qp);
    qp->reads = 0;
    if (qp->base.options.srq == NULL) {
        struct mt_fabric_completion c = {.status = MT_EFLUSHED};
        struct mt_soft_receive *r;
        while ((r = mt_soft_receive_first(&qp->own)) != NULL) {
            mt_soft_receive_drop(&qp->own);
            mt_soft_received(qp, r->id, &c, false);
        }
    }
    mt_soft_event(mt_soft_context_of(qp),
                  &(struct mt_fabric_event){.kind = MT_FABRIC_EVENT_QP_FATAL,
                                            .qp = qp->base.number});
}

/* ---- queue pairs ---- */

enum mt_status mt_soft_qp_start(struct mt_soft_context *context,
                                struct mt_soft_qp *qp,
                                const struct mt_fabric_qp_options *options)
{
    uint32_t slots = mt_soft_slots(options->send_depth);
    uint32_t number = 0;
    qp->base.options = *options; /* stopping it looks for its queues */
    qp->works = calloc(slots, sizeof(*qp->works));
    qp->mask = slots - 1;
    qp->receives = options->srq == NULL
                       ? &qp->own
                       : &((struct mt_soft_srq *)options->srq)->receives;
    enum mt_status status =
        options->srq == NULL ? mt_receives_make(&qp->own, options->receive_depth)
                             : MT_OK;
    if (qp->works == NULL || status != MT_OK) {
        mt_soft_qp_stop(context, qp);
        return MT_ENOMEM;
    }
    mt_soft_lock(context);
    while (number < context->qp_limit && context->qps[number] != NULL) {
        number++;
    }
    if (number < context->qp_limit) {
        qp->base.number = number + 1;
        context->qps[number] = qp;
    }
    mt_soft_unlock(context);
    if (number == context->qp_limit) {
        mt_fabric_say(&context->base.options,
                      "%s: all of its %u queue pairs are taken: reach the peers "
                      "by datagrams (transport=ud-first)",
                      context->base.device.name, context->qp_limit);
        mt_soft_qp_stop(context, qp);
        return MT_ENOMEM;
    }
    qp->base.ops = context->base.ops;
    return MT_OK;
}

void mt_soft_qp_stop(struct mt_soft_context *context, struct mt_soft_qp *qp)
{
    mt_soft_lock(context);
    if (qp->base.number > 0) {
        mt_soft_qp_clear(qp);
        context->qps[qp->base.number - 1] = NULL;
    }
    mt_soft_unlock(context);
    free(qp->works);
    free(qp->own.slots);
    qp->works = NULL;
    qp->own.slots = NULL;
}

/* Completions of a queue pair that is gone or reset would be taken for those of
 * the next one with its number. */
static void mt_completions_forget(struct mt_soft_cq *cq, uint32_t number)
{
    uint32_t kept = cq->head;
    for (uint32_t i = cq->head; i != cq->tail; i++) {
        const struct mt_fabric_completion *c = &cq->slots[i & cq->mask];
        if (c->qp != number) {
            cq->slots[kept++ & cq->mask] = *c;
        }
    }
    cq->tail = kept;
}

void mt_soft_qp_clear(struct mt_soft_qp *qp)
{
    mt_completions_forget((struct mt_soft_cq *)qp->base.options.send_cq,
                          qp->base.number);
    mt_completions_forget((struct mt_soft_cq *)qp->base.options.receive_cq,
                          qp->base.number);
    qp->unpolled = 0;
    qp->head = qp->next = qp->tail;
    qp->own.head = qp->own.tail;
    qp->reads = 0;
}

/* ---- pieces ---- */

void mt_soft_scatter(const struct mt_fabric_piece *pieces, uint32_t count,
                     uint64_t skip, const void *from, uint64_t bytes)
{
    const char *source = from;
    for (uint32_t i = 0; i < count && bytes > 0; i++) {
        if (skip >= pieces[i].bytes) {
            skip -= pieces[i].bytes;
            continue;
        }
        uint64_t n = pieces[i].bytes - skip;
        n = n < bytes ? n : bytes;
        memcpy((char *)pieces[i].address + skip, source, n);
        source += n;
        bytes -= n;
        skip = 0;
    }
}

void mt_soft_gather(const struct mt_fabric_piece *pieces, uint32_t count,
                    uint64_t skip, void *to, uint64_t bytes)
{
    char *target = to;
    for (uint32_t i = 0; i < count && bytes > 0; i++) {
        if (skip >= pieces[i].bytes) {
            skip -= pieces[i].bytes;
            continue;
        }
        uint64_t n = pieces[i].bytes - skip;
        n = n < bytes ? n : bytes;
        memcpy(target, (const char *)pieces[i].address + skip, n);
        target += n;
        bytes -= n;
        skip = 0;
    }
}
