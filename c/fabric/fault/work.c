/* work.c: what is posted to a layer of faults, and polled from it. */
#define _GNU_SOURCE 1
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
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

/* ---- work that is held ---- */

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
            second->due_ns = held->due_ns;
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
        !mt_fault_ring_is_full(&cq->early)) {
        *mt_fault_ring_next(&cq->early) = (struct mt_fabric_completion){
            .id = work->id,
            .opcode = work->opcode,
            .qp = qp->base.number,
            .bytes = mt_bytes_of(work)};
        cq->early.tail++;
    }
}

/* What was accepted may find the queue of a device full, which has room only when
 * completions are polled, and its caller need not poll any more. */
static bool mt_make_room(struct mt_fault_qp *qp)
{
    struct mt_fault_cq *cq = (struct mt_fault_cq *)qp->base.options.send_cq;
    if (mt_fault_ring_is_full(&cq->early) ||
        mt_fabric_poll(cq->inner, mt_fault_ring_next(&cq->early), 1) == 0) {
        return false;
    }
    cq->early.tail++;
    return true;
}

/* ---- the rate of a link ---- */

static uint64_t mt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* When the link has carried these bytes, behind what it carries now. */
static uint64_t mt_carried(struct mt_fault_context *context, uint32_t port,
                           uint32_t bytes)
{
    uint64_t *free_ns = &context->free_ns[port - 1], now = mt_now_ns();
    *free_ns = (*free_ns > now ? *free_ns : now) +
               (uint64_t)((double)bytes * 8e9 /
                          (double)context->script.bits_per_second);
    return *free_ns;
}

/* What is flushed does not travel. */
static bool mt_is_due(const struct mt_fault_qp *qp,
                      const struct mt_fault_held *held)
{
    return held->polls == 0 &&
           (held->due_ns == 0 || held->due_ns <= mt_now_ns() ||
            mt_fabric_qp_state(qp->inner) == MT_FABRIC_QP_ERROR);
}

void mt_fault_doze(const struct mt_fault_context *context)
{
    uint64_t at = 0;
    for (const struct mt_fault_qp *qp = context->qps; qp != NULL;
         qp = qp->next) {
        uint64_t due = qp->first != NULL ? qp->first->due_ns : 0;
        at = due != 0 && (at == 0 || due < at) ? due : at;
    }
    if (context->timer >= 0) {
        const struct itimerspec when = {
            .it_value = {.tv_sec = (time_t)(at / UINT64_C(1000000000)),
                         .tv_nsec = (long)(at % UINT64_C(1000000000))}};
        timerfd_settime(context->timer, TFD_TIMER_ABSTIME, &when, NULL);
    }
}

/* ---- letting go ---- */

void mt_fault_release(struct mt_fault_qp *qp)
{
    while (qp->first != NULL && mt_is_due(qp, qp->first)) {
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
    if (qp->first != NULL && qp->first->polls > 0) {
        qp->first->polls--;
    }
}

/* ---- posting ---- */

/* The device is gone: what it has accepted is carried out by nobody any more, and
 * its peers find that out. */
static void mt_device_lose(struct mt_fault_context *context)
{
    const uint64_t one = 1;
    context->gone = true;
    for (struct mt_fault_qp *qp = context->qps; qp != NULL; qp = qp->next) {
        mt_fabric_qp_fail(qp->inner);
    }
    ssize_t n = write(context->loss, &one, sizeof(one));
    (void)n; /* full: it is readable, which is all that is wanted */
}

/* A posting is counted, and is perhaps the one. */
static void mt_count(struct mt_fault_context *context)
{
    const struct mt_fault_script *script = &context->script;
    context->posted++;
    if (script->die_at > 0 && context->posted >= script->die_at) {
        kill(getpid(), SIGKILL);
    }
    if (script->lose_at > 0 && context->posted == script->lose_at) {
        mt_device_lose(context);
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
    held->due_ns = context->script.bits_per_second > 0
                       ? mt_carried(context, qp->base.options.port,
                                    mt_bytes_of(work))
                       : 0;
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
    mt_fault_doze(context);
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
    mt_count(context);
    if (mt_fault_draw(context, MT_FAULT_BREAK)) {
        mt_fabric_qp_fail(qp->inner);
    }
    if (mt_fault_draw(context, MT_FAULT_FULL) || !mt_slot_take(qp, work)) {
        return MT_EAGAIN;
    }
    if (context->gone) {
        return MT_OK; /* which is all that happens */
    }
    struct mt_fabric_send numbered = *work;
    numbered.id = qp->tail - 1;
    bool delayed = mt_fault_draw(context, MT_FAULT_DELAY);
    if (!delayed && !datagram && qp->first == NULL &&
        context->script.bits_per_second == 0) {
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
    return mt_fault_of(base->pd->context)->gone
               ? MT_OK
               : mt_fabric_post_receive(((struct mt_fault_qp *)base)->inner,
                                        work);
}

static enum mt_status
mt_fault_post_srq_receive(struct mt_fabric_srq *base,
                          const struct mt_fabric_receive *work)
{
    return mt_fault_of(base->pd->context)->gone
               ? MT_OK
               : mt_fabric_post_srq_receive(
                     ((struct mt_fault_srq *)base)->inner, work);
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

/* Keeps a completion of a receive back, and those behind it, until enough polls
 * are over. Not from who may sleep if it finds none. */
static bool mt_starve(struct mt_fault_context *context, struct mt_fault_cq *cq,
                      const struct mt_fabric_completion *c)
{
    if (c->opcode != MT_FABRIC_RECEIVE) {
        return false;
    }
    if (cq->starved == 0 && !cq->armed &&
        mt_fault_draw(context, MT_FAULT_STARVE)) {
        cq->starved = context->script.starve_polls;
    }
    if (cq->starved == 0 || mt_fault_ring_is_full(&cq->kept)) {
        return false;
    }
    *mt_fault_ring_next(&cq->kept) = *c;
    cq->kept.tail++;
    return true;
}

static uint32_t mt_fault_poll(struct mt_fabric_cq *base,
                              struct mt_fabric_completion *completions,
                              uint32_t limit)
{
    struct mt_fault_context *context = mt_fault_of(base->context);
    struct mt_fault_cq *cq = (struct mt_fault_cq *)base;
    if (context->gone) {
        return 0;
    }
    cq->starved -= cq->starved > 0;
    uint32_t given = cq->starved == 0
                         ? mt_fault_ring_take(&cq->kept, completions, limit)
                         : 0;
    uint32_t n = given;
    n += mt_fault_ring_take(&cq->early, completions + n, limit - n);
    n += mt_fabric_poll(cq->inner, completions + n, limit - n);
    for (uint32_t i = given; i < n; i++) {
        if (mt_restore(context, &completions[i]) &&
            !mt_starve(context, cq, &completions[i])) {
            completions[given++] = completions[i];
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
    return given;
}

const struct mt_fabric_ops mt_fault_ops = {
    .post_send = mt_fault_post_send,
    .post_receive = mt_fault_post_receive,
    .post_srq_receive = mt_fault_post_srq_receive,
    .poll = mt_fault_poll,
};
