/* cq.c: completion queues and channels in memory. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "soft.h"

enum mt_status mt_soft_cq_create(struct mt_fabric_context *context,
                                 uint32_t depth,
                                 struct mt_fabric_channel *channel,
                                 struct mt_fabric_cq **cq_p)
{
    (void)channel;
    if (depth > UINT32_C(1) << 22) {
        return MT_EINVAL;
    }
    struct mt_soft_cq *cq = calloc(1, sizeof(*cq));
    uint32_t slots = mt_soft_slots(depth);
    if (cq == NULL) {
        return MT_ENOMEM;
    }
    cq->slots = calloc(slots, sizeof(*cq->slots));
    if (cq->slots == NULL) {
        free(cq);
        return MT_ENOMEM;
    }
    cq->mask = slots - 1;
    cq->base.ops = context->ops;
    *cq_p = &cq->base;
    return MT_OK;
}

static void mt_cq_set(struct mt_soft_cq *cq, enum mt_soft_armed armed)
{
    struct mt_soft_context *context = (struct mt_soft_context *)cq->base.context;
    context->armed_count[cq->armed]--;
    context->armed_count[armed]++;
    cq->armed = (uint8_t)armed;
}

/* Takes the oldest fired queue out of its channel, NULL: there is none. */
static struct mt_soft_cq *mt_channel_pop(struct mt_soft_channel *channel)
{
    struct mt_soft_cq *cq = channel->first;
    if (cq != NULL) {
        channel->first = cq->next_fired;
        channel->last = channel->first != NULL ? channel->last : &channel->first;
        cq->fired = false;
    }
    return cq;
}

static void mt_channel_push(struct mt_soft_channel *channel,
                            struct mt_soft_cq *cq)
{
    cq->fired = true;
    cq->next_fired = NULL;
    *channel->last = cq;
    channel->last = &cq->next_fired;
}

/* A fired queue may still stand in its channel. */
static void mt_channel_forget(struct mt_soft_channel *channel,
                              const struct mt_soft_cq *gone)
{
    struct mt_soft_cq *cq, *all = channel->first;
    channel->first = NULL;
    channel->last = &channel->first;
    while ((cq = all) != NULL) {
        all = cq->next_fired;
        if (cq != gone) {
            mt_channel_push(channel, cq);
        }
    }
}

/* So may the event that it was overrun. */
static void mt_events_forget(struct mt_soft_context *context,
                             const struct mt_fabric_cq *cq)
{
    uint32_t kept = context->event_head;
    for (uint32_t i = context->event_head; i != context->event_tail; i++) {
        struct mt_fabric_event event = context->events[i % MT_SOFT_EVENTS];
        if (event.cq != cq) {
            context->events[kept++ % MT_SOFT_EVENTS] = event;
        }
    }
    context->event_tail = kept;
}

void mt_soft_cq_destroy(struct mt_fabric_cq *base)
{
    struct mt_soft_cq *cq = (struct mt_soft_cq *)base;
    struct mt_soft_context *context = (struct mt_soft_context *)base->context;
    mt_soft_lock(context);
    mt_cq_set(cq, MT_SOFT_DISARMED);
    if (base->channel != NULL) {
        mt_channel_forget((struct mt_soft_channel *)base->channel, cq);
    }
    mt_events_forget(context, base);
    mt_soft_unlock(context);
    free(cq->slots);
    free(cq);
}

/* One timer wakes who sleeps on any channel of the context. */
static bool mt_timer_watch(struct mt_soft_context *context,
                           struct mt_soft_channel *channel)
{
    mt_soft_lock(context);
    if (context->timer < 0) {
        context->timer =
            timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    }
    mt_soft_unlock(context);
    return context->timer >= 0 &&
           mt_soft_channel_watch(channel, context->timer) == MT_OK;
}

enum mt_status mt_soft_channel_create(struct mt_fabric_context *context,
                                      struct mt_fabric_channel **channel_p)
{
    struct mt_soft_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL) {
        return MT_ENOMEM;
    }
    channel->last = &channel->first;
    channel->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    channel->base.fd = epoll_create1(EPOLL_CLOEXEC);
    if (channel->event_fd < 0 || channel->base.fd < 0 ||
        mt_soft_channel_watch(channel, channel->event_fd) != MT_OK ||
        !mt_timer_watch((struct mt_soft_context *)context, channel)) {
        mt_soft_channel_destroy(&channel->base);
        return MT_ENOMEM;
    }
    channel->base.ops = context->ops;
    *channel_p = &channel->base;
    return MT_OK;
}

void mt_soft_channel_destroy(struct mt_fabric_channel *base)
{
    struct mt_soft_channel *channel = (struct mt_soft_channel *)base;
    if (channel->event_fd >= 0) {
        close(channel->event_fd);
    }
    if (channel->base.fd >= 0) {
        close(channel->base.fd);
    }
    free(channel);
}

enum mt_status mt_soft_channel_watch(struct mt_soft_channel *channel, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(channel->base.fd, EPOLL_CTL_ADD, fd, &event) == 0
               ? MT_OK
               : MT_ENOMEM;
}

void mt_soft_channel_ignore(struct mt_soft_channel *channel, int fd)
{
    epoll_ctl(channel->base.fd, EPOLL_CTL_DEL, fd, NULL);
}

static void mt_cq_fire(struct mt_soft_cq *cq)
{
    struct mt_soft_channel *channel = (struct mt_soft_channel *)cq->base.channel;
    const uint64_t one = 1;
    mt_cq_set(cq, MT_SOFT_DISARMED);
    if (!cq->fired) { /* armed again, it may not have been taken yet */
        mt_channel_push(channel, cq);
    }
    ssize_t n = write(channel->event_fd, &one, sizeof(one));
    (void)n; /* full: it is readable, which is all that is wanted */
}

static void mt_drain(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof(count));
    (void)n;
}

enum mt_status mt_soft_channel_take(struct mt_fabric_channel *base,
                                    struct mt_fabric_cq **cq_p)
{
    struct mt_soft_channel *channel = (struct mt_soft_channel *)base;
    struct mt_soft_context *context = (struct mt_soft_context *)base->context;
    mt_soft_lock(context);
    if (context->timer_at != 0 && mt_soft_now() >= context->timer_at) {
        context->timer_at = 0;
        mt_drain(context->timer);
    }
    if (channel->first == NULL && !context->has_engine) {
        if (context->armed != NULL) {
            context->armed(context); /* what comes from here on wakes */
        }
        context->progress(context);
        mt_soft_doze(context);
    }
    struct mt_soft_cq *cq = mt_channel_pop(channel);
    if (channel->first == NULL) {
        mt_drain(channel->event_fd);
    }
    mt_soft_unlock(context);
    if (cq == NULL) {
        return MT_EAGAIN;
    }
    *cq_p = &cq->base;
    return MT_OK;
}

enum mt_status mt_soft_cq_arm(struct mt_fabric_cq *base, bool solicited)
{
    struct mt_soft_cq *cq = (struct mt_soft_cq *)base;
    struct mt_soft_context *context = (struct mt_soft_context *)base->context;
    mt_soft_lock(context);
    /* armed for all is not weakened: InfiniBand 1.5, 11.4.2.2 */
    if (cq->armed != MT_SOFT_ARMED) {
        mt_cq_set(cq, solicited ? MT_SOFT_ARMED_SOLICITED : MT_SOFT_ARMED);
    }
    if (context->armed != NULL) {
        context->armed(context);
    }
    mt_soft_doze(context);
    mt_soft_unlock(context);
    return MT_OK;
}

void mt_soft_complete(struct mt_soft_cq *cq,
                      const struct mt_fabric_completion *completion,
                      bool solicited)
{
    if (mt_unlikely(cq->tail - cq->head > cq->mask)) {
        if (!cq->overrun) {
            cq->overrun = true;
            mt_soft_event((struct mt_soft_context *)cq->base.context,
                          &(struct mt_fabric_event){
                              .kind = MT_FABRIC_EVENT_CQ_OVERRUN,
                              .cq = &cq->base});
        }
        return;
    }
    cq->slots[cq->tail & cq->mask] = *completion;
    cq->tail++;
    if (mt_unlikely(cq->armed != MT_SOFT_DISARMED) &&
        (cq->armed == MT_SOFT_ARMED || solicited ||
         completion->status != MT_OK)) {
        mt_cq_fire(cq);
    }
}

uint32_t mt_soft_poll(struct mt_fabric_cq *base,
                      struct mt_fabric_completion *completions, uint32_t limit)
{
    struct mt_soft_cq *cq = (struct mt_soft_cq *)base;
    struct mt_soft_context *context = (struct mt_soft_context *)base->context;
    uint32_t n = 0;
    mt_soft_lock(context);
    if ((cq->head == cq->tail || limit == 0) && !context->has_engine) {
        context->progress(context);
    }
    while (n < limit && cq->head != cq->tail) {
        const struct mt_fabric_completion *c = &cq->slots[cq->head++ & cq->mask];
        struct mt_soft_qp *qp = context->qps[c->qp - 1];
        if (qp != NULL && base == qp->base.options.send_cq &&
            (c->opcode != MT_FABRIC_RECEIVE) && qp->unpolled > 0) {
            qp->unpolled--;
        }
        completions[n++] = *c;
    }
    mt_soft_unlock(context);
    return n;
}
