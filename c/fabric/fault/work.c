/* work.c: what is posted to a layer of faults, and polled from it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layer.h"

/* ---- the depth of a queue ---- */

static struct mt_fault_slot *mt_slot(const struct mt_fault_qp *qp,
                                     uint64_t number)
{
    return &qp->slots[number % qp->base.options.send_depth];
}

/* A number for new work; false: the queue is full. */
static bool mt_slot_take(struct mt_fault_qp *qp,
                         const struct mt_fabric_send *work)
{
    struct mt_fault_slot *slot = mt_slot(qp, qp->tail);
    if (slot->used) {
        return false;
    }
    *slot = (struct mt_fault_slot){
        .id = work->id,
        .number = qp->tail,
        .used = true,
        .signaled = (work->flags & MT_FABRIC_SIGNALED) != 0};
    qp->tail++;
    return true;
}

/* It was not posted after all. */
static void mt_slot_undo(struct mt_fault_qp *qp)
{
    mt_slot(qp, --qp->tail)->used = false;
}

/* Work is over, and with it what was posted before it without SIGNALED. False:
 * that was known. */
static bool mt_slot_free(struct mt_fault_qp *qp, uint64_t number,
                         uint64_t *id_p)
{
    struct mt_fault_slot *slot = mt_slot(qp, number);
    if (!slot->used || slot->number != number) {
        return false;
    }
    for (uint64_t n = qp->oldest; n < number; n++) {
        mt_slot(qp, n)->used = mt_slot(qp, n)->used && mt_slot(qp, n)->signaled;
    }
    slot->used = false;
    while (qp->oldest < qp->tail && !mt_slot(qp, qp->oldest)->used) {
        qp->oldest++;
    }
    *id_p = slot->id;
    return true;
}

/* ---- posting ---- */

void mt_fault_held_free(struct mt_fault_held *held)
{
    if (held != NULL) {
        free(held->copy);
        free(held);
    }
}

static struct mt_fault_held *mt_held_make(const struct mt_fabric_send *work)
{
    struct mt_fault_held *held =
        calloc(1, sizeof(*held) +
                      work->piece_count * sizeof(struct mt_fabric_piece));
    if (held == NULL) {
        return NULL;
    }
    held->work = *work;
    held->work.pieces = held->pieces;
    if (work->piece_count > 0) {
        memcpy(held->pieces, work->pieces,
               work->piece_count * sizeof(struct mt_fabric_piece));
    }
    if (work->ah != NULL) {
        held->work.ah = ((struct mt_fault_ah *)work->ah)->inner;
    }
    return held;
}

static uint32_t mt_bytes_of(const struct mt_fabric_send *work)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < work->piece_count; i++) {
        bytes += work->pieces[i].bytes;
    }
    return bytes;
}

/* The bytes as they are now, in memory of ours: sent inline from there. */
static bool mt_held_copy(struct mt_fault_held *held)
{
    uint32_t bytes = mt_bytes_of(&held->work), at = 0;
    held->copy = malloc(bytes + 1);
    if (held->copy == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < held->work.piece_count; i++) {
        memcpy(held->copy + at, held->pieces[i].address, held->pieces[i].bytes);
        at += held->pieces[i].bytes;
    }
    held->pieces[0] = (struct mt_fabric_piece){.address = held->copy,
                                               .bytes = bytes};
    held->work.piece_count = 1;
    held->work.flags |= MT_FABRIC_INLINE;
    return true;
}

void mt_fault_append(struct mt_fault_qp *qp, struct mt_fault_held *held)
{
    held->next = NULL;
    *qp->last = held;
    qp->last = &held->next;
}

/* What befalls a datagram. Those that would have to be copied to be changed
 * stay as they are if they are too long to be sent inline. */
static void mt_befall_datagram(struct mt_fault_context *context,
                               struct mt_fault_qp *qp,
                               struct mt_fault_held *held)
{
    uint32_t bytes = mt_bytes_of(&held->work);
    bool copyable = held->work.piece_count > 0 && bytes > 0 &&
                    bytes <= qp->base.options.inline_bytes;
    held->lost = mt_fault_draw(context, MT_FAULT_DROP);
    if (mt_fault_draw(context, MT_FAULT_CORRUPT) && copyable && mt_held_copy(held)) {
        held->copy[mt_fault_random(context) % bytes] ^= 0x40;
    }
    if (mt_fault_draw(context, MT_FAULT_DUPLICATE) && !held->lost) {
        struct mt_fault_held *second = mt_held_make(&held->work);
        if (second != NULL) {
            second->work.ah = held->work.ah;
            second->work.flags &= (uint32_t)~MT_FABRIC_SIGNALED;
            second->work.id = MT_FAULT_SECOND;
            bool sound = held->copy == NULL || mt_held_copy(second);
            if (sound) {
                mt_fault_append(qp, second);
            } else {
                mt_fault_held_free(second);
            }
        }
    }
}

/* It completes as one that was sent. */
static void mt_lose(struct mt_fault_qp *qp, const struct mt_fabric_send *work)
{
    struct mt_fault_cq *cq = (struct mt_fault_cq *)qp->base.options.send_cq;
    if ((work->flags & MT_FABRIC_SIGNALED) != 0 &&
        cq->early_tail - cq->early_head < MT_EARLY) {
        cq->early[cq->early_tail++ % MT_EARLY] = (struct mt_fabric_completion){
            .id = work->id,
            .opcode = work->opcode,
            .qp = qp->base.number,
            .bytes = mt_bytes_of(work)};
    }
}

/* What was accepted may find the queue of a device full, which has room only when
 * completions are polled, and its caller need not poll any more. */
static bool mt_make_room(struct mt_fault_qp *qp)
{
    struct mt_fault_cq *cq = (struct mt_fault_cq *)qp->base.options.send_cq;
    if (cq->early_tail - cq->early_head == MT_EARLY ||
        mt_fabric_poll(cq->inner, &cq->early[cq->early_tail % MT_EARLY], 1) ==
            0) {
        return false;
    }
    cq->early_tail++;
    return true;
}

void mt_fault_release(struct mt_fault_qp *qp)
{
    while (qp->first != NULL && qp->first->polls == 0) {
        struct mt_fault_held *held = qp->first;
        if (held->lost) {
            mt_lose(qp, &held->work);
        } else if (mt_fabric_post_send(qp->inner, &held->work) == MT_EAGAIN) {
            if (mt_make_room(qp)) {
                continue;
            }
            return;
        }
        qp->first = held->next;
        qp->last = qp->first == NULL ? &qp->first : qp->last;
        mt_fault_held_free(held);
    }
    if (qp->first != NULL) {
        qp->first->polls--;
    }
}

/* Puts work into our queue, where things may befall it. */
static enum mt_status mt_hold(struct mt_fault_context *context,
                              struct mt_fault_qp *qp,
                              const struct mt_fabric_send *work, bool delayed)
{
    bool datagram = qp->base.options.transport == MT_FABRIC_UD;
    struct mt_fault_held *held = mt_held_make(work);
    if (held == NULL) {
        return MT_ENOMEM;
    }
    if ((work->flags & MT_FABRIC_INLINE) != 0 && work->piece_count > 0 &&
        !mt_held_copy(held)) {
        mt_fault_held_free(held);
        return MT_ENOMEM;
    }
    held->polls = delayed ? context->script.delay_polls : 0;
    if (datagram) {
        mt_befall_datagram(context, qp, held);
    }
    if (datagram && qp->reordered == NULL &&
        mt_fault_draw(context, MT_FAULT_REORDER)) {
        qp->reordered = held;
        return MT_OK;
    }
    mt_fault_append(qp, held);
    if (qp->reordered != NULL) {
        mt_fault_append(qp, qp->reordered);
        qp->reordered = NULL;
    }
    mt_fault_release(qp);
    return MT_OK;
}

static enum mt_status mt_fault_post_send(struct mt_fabric_qp *base,
                                         const struct mt_fabric_send *work)
{
    struct mt_fault_qp *qp = (struct mt_fault_qp *)base;
    struct mt_fault_context *context = mt_fault_of(base->pd->context);
    bool datagram = base->options.transport == MT_FABRIC_UD;
    uint64_t bytes;
    enum mt_status status = mt_fabric_send_check(base, work, &bytes);
    if (status != MT_OK) {
        return status;
    }
    if (context->script.die_at > 0 &&
        ++context->posted >= context->script.die_at) {
        kill(getpid(), SIGKILL);
    }
    if (mt_fault_draw(context, MT_FAULT_BREAK)) {
        mt_fabric_qp_fail(qp->inner);
    }
    if (mt_fault_draw(context, MT_FAULT_FULL) || !mt_slot_take(qp, work)) {
        return MT_EAGAIN;
    }
    struct mt_fabric_send numbered = *work;
    numbered.id = qp->tail - 1;
    bool delayed = mt_fault_draw(context, MT_FAULT_DELAY);
    if (!delayed && !datagram && qp->first == NULL) {
        status = mt_fabric_post_send(qp->inner, &numbered);
    } else {
        status = mt_hold(context, qp, &numbered, delayed);
    }
    if (status != MT_OK) {
        mt_slot_undo(qp);
    }
    return status;
}

static enum mt_status mt_fault_post_receive(struct mt_fabric_qp *base,
                                            const struct mt_fabric_receive *work)
{
    return mt_fabric_post_receive(((struct mt_fault_qp *)base)->inner, work);
}

static enum mt_status
mt_fault_post_srq_receive(struct mt_fabric_srq *base,
                          const struct mt_fabric_receive *work)
{
    return mt_fabric_post_srq_receive(((struct mt_fault_srq *)base)->inner,
                                      work);
}

/* Gives a completion of a send its caller's id; false: the caller posted none. */
static bool mt_restore(const struct mt_fault_context *context,
                       struct mt_fabric_completion *c)
{
    struct mt_fault_qp *qp = context->qps;
    if (c->opcode == MT_FABRIC_RECEIVE) {
        return true;
    }
    while (qp != NULL && qp->base.number != c->qp) {
        qp = qp->next;
    }
    return qp != NULL && c->id != MT_FAULT_SECOND &&
           mt_slot_free(qp, c->id, &c->id);
}

static uint32_t mt_fault_poll(struct mt_fabric_cq *base,
                              struct mt_fabric_completion *completions,
                              uint32_t limit)
{
    struct mt_fault_context *context = mt_fault_of(base->context);
    struct mt_fault_cq *cq = (struct mt_fault_cq *)base;
    uint32_t n = 0, kept = 0;
    while (n < limit && cq->early_head != cq->early_tail) {
        completions[n++] = cq->early[cq->early_head++ % MT_EARLY];
    }
    n += mt_fabric_poll(cq->inner, completions + n, limit - n);
    for (uint32_t i = 0; i < n; i++) {
        if (mt_restore(context, &completions[i])) {
            completions[kept++] = completions[i];
        }
    }
    for (struct mt_fault_qp *qp = context->qps; qp != NULL; qp = qp->next) {
        if (n == 0 && qp->reordered != NULL) {
            mt_fault_append(qp, qp->reordered); /* nothing followed it */
            qp->reordered = NULL;
        }
        mt_fault_release(qp);
        qp->base.state = mt_fabric_qp_state(qp->inner);
    }
    return kept;
}

const struct mt_fabric_ops mt_fault_ops = {
    .post_send = mt_fault_post_send,
    .post_receive = mt_fault_post_receive,
    .post_srq_receive = mt_fault_post_srq_receive,
    .poll = mt_fault_poll,
};
