/* completion.c: completion queues and channels of the layer. A queue has
 * completions of its own that wait (layer.h); a channel wakes its reader also when
 * a link of the script's rate is free. */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "layer.h"

/* ---- channels ---- */

int mt_fault_epoll_over(int first, int second)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd >= 0 && (epoll_ctl(fd, EPOLL_CTL_ADD, first, &event) != 0 ||
                    epoll_ctl(fd, EPOLL_CTL_ADD, second, &event) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

enum mt_status
mt_fault_channel_create(struct mt_fabric_context *context,
                        struct mt_fabric_channel **channel_p)
{
    int timer = mt_fault_of(context)->timer;
    struct mt_fabric_channel *inner;
    enum mt_status status =
        mt_fabric_channel_create(mt_fault_of(context)->inner, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(channel, base, context->ops, inner, channel_p);
    int fd = mt_fabric_channel_fd(inner);
    object->base.fd = timer >= 0 ? mt_fault_epoll_over(fd, timer) : fd;
    if (object->base.fd < 0) {
        mt_fabric_channel_destroy(inner);
        free(object);
        return MT_ENOMEM;
    }
    return MT_OK;
}

void mt_fault_channel_destroy(struct mt_fabric_channel *channel)
{
    if (mt_fault_of(channel->context)->timer >= 0) {
        close(channel->fd);
    }
    mt_fabric_channel_destroy(((struct mt_fault_channel *)channel)->inner);
    free(channel);
}

enum mt_status mt_fault_channel_take(struct mt_fabric_channel *base,
                                            struct mt_fabric_cq **cq_p)
{
    struct mt_fault_context *context = mt_fault_of(base->context);
    struct mt_fabric_cq *inner;
    if (context->gone) {
        return MT_EAGAIN;
    }
    for (struct mt_fault_qp *qp = context->qps;
         qp != NULL && context->timer >= 0; qp = qp->next) {
        mt_fault_release(qp);
    }
    mt_fault_doze(context);
    enum mt_status status = mt_fabric_channel_take(
        ((struct mt_fault_channel *)base)->inner, &inner);
    if (status != MT_OK) {
        return status;
    }
    struct mt_fabric_cq *cq = mt_fault_cq_of(context, inner);
    if (cq == NULL) {
        return MT_EAGAIN;
    }
    ((struct mt_fault_cq *)cq)->armed = false;
    if (mt_fault_draw(context, MT_FAULT_EVENT)) {
        return MT_EAGAIN; /* lost: it is disarmed, and nobody is told */
    }
    *cq_p = cq;
    return MT_OK;
}

/* ---- completion queues ---- */

struct mt_fabric_cq *mt_fault_cq_of(const struct mt_fault_context *context,
                                    const struct mt_fabric_cq *inner)
{
    struct mt_fault_cq *cq = context->cqs;
    while (cq != NULL && cq->inner != inner) {
        cq = cq->next;
    }
    return cq != NULL ? &cq->base : NULL;
}

/* Sizes are powers of two: head and tail run on beyond 2^32. */
static bool mt_ring_make(struct mt_fault_ring *ring, uint32_t least)
{
    ring->size = 1;
    while (ring->size < least) {
        ring->size *= 2;
    }
    ring->slots = calloc(ring->size, sizeof(*ring->slots));
    return ring->slots != NULL;
}

static void mt_cq_free(struct mt_fault_cq *cq)
{
    mt_fabric_cq_destroy(cq->inner);
    free(cq->early.slots);
    free(cq->kept.slots);
    free(cq);
}

enum mt_status mt_fault_cq_create(struct mt_fabric_context *context,
                                         uint32_t depth,
                                         struct mt_fabric_channel *base,
                                         struct mt_fabric_cq **cq_p)
{
    struct mt_fault_channel *channel = (struct mt_fault_channel *)base;
    struct mt_fabric_cq *inner;
    enum mt_status status = mt_fabric_cq_create(
        mt_fault_of(context)->inner, depth,
        channel != NULL ? channel->inner : NULL, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(cq, base, context->ops, inner, cq_p);
    if (!mt_ring_make(&object->early, MT_EARLY) ||
        !mt_ring_make(&object->kept, depth)) {
        mt_cq_free(object);
        return MT_ENOMEM;
    }
    object->next = mt_fault_of(context)->cqs;
    mt_fault_of(context)->cqs = object;
    return MT_OK;
}

void mt_fault_cq_destroy(struct mt_fabric_cq *base)
{
    struct mt_fault_cq *cq = (struct mt_fault_cq *)base;
    struct mt_fault_cq **place = &mt_fault_of(base->context)->cqs;
    while (*place != cq) {
        place = &(*place)->next;
    }
    *place = cq->next;
    mt_cq_free(cq);
}

/* Who is about to sleep does not poll any more: what is held goes now. */
enum mt_status mt_fault_cq_arm(struct mt_fabric_cq *cq, bool solicited)
{
    struct mt_fault_context *context = mt_fault_of(cq->context);
    if (context->gone) {
        return MT_EIO;
    }
    for (struct mt_fault_cq *c = context->cqs; c != NULL; c = c->next) {
        c->starved = 0;
    }
    for (struct mt_fault_qp *qp = context->qps; qp != NULL; qp = qp->next) {
        if (qp->reordered != NULL) {
            mt_fault_append(qp, qp->reordered);
            qp->reordered = NULL;
        }
        for (struct mt_fault_held *held = qp->first; held != NULL;
             held = held->next) {
            held->polls = 0;
        }
        mt_fault_release(qp);
    }
    mt_fault_doze(context);
    ((struct mt_fault_cq *)cq)->armed = true;
    return mt_fabric_cq_arm(((struct mt_fault_cq *)cq)->inner, solicited);
}

/* Completions that wait are of the queue pair as it was. */
static void mt_ring_forget(struct mt_fault_ring *ring, uint32_t number)
{
    uint32_t kept = ring->head;
    for (uint32_t i = ring->head; i != ring->tail; i++) {
        if (ring->slots[i % ring->size].qp != number) {
            ring->slots[kept++ % ring->size] = ring->slots[i % ring->size];
        }
    }
    ring->tail = kept;
}

void mt_fault_completions_forget(struct mt_fabric_cq *base, uint32_t number)
{
    struct mt_fault_cq *cq = (struct mt_fault_cq *)base;
    mt_ring_forget(&cq->early, number);
    mt_ring_forget(&cq->kept, number);
}
