/* progress.c: whose socket is looked at, and when. A few queue pairs are read
 * in each round, starting behind the one that was read last; of many, those
 * that epoll names and those that were busy lately. Under the lock of the
 * context.
 *
 * Before a stream is read, poll is asked whether there is anything: a read takes
 * the lock of the socket, and whoever delivers a segment meanwhile, on another
 * processor, has to leave it to the reader, which takes longer than a call more. */
#define _GNU_SOURCE 1
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "iwarp.h"

enum {
    MT_EPOLL_AT_ONCE = 32,
    MT_EPOLL_ROUNDS = 64, /* between two looks at what is seldom ready */
    MT_HOT_IDLE = 64,     /* rounds without anything, then it is not hot */
    MT_TICK_ROUNDS = 2048,
};

/* ---- which queue pairs there are ---- */

void mt_iwarp_live_add(struct mt_iwarp_context *context, struct mt_iwarp_qp *qp)
{
    qp->place = context->live_count;
    context->live[context->live_count++] = qp;
    qp->is_live = true;
}

void mt_iwarp_live_remove(struct mt_iwarp_context *context,
                          struct mt_iwarp_qp *qp)
{
    if (!qp->is_live) {
        return;
    }
    struct mt_iwarp_qp *last = context->live[--context->live_count];
    context->live[qp->place] = last;
    last->place = qp->place;
    qp->is_live = false;
    mt_iwarp_waits(qp, false);
    context->muted -= qp->muted;
    qp->muted = false;
    for (unsigned i = 0; i < MT_IWARP_HOT; i++) {
        if (context->hot[i] == qp) {
            context->hot[i] = NULL;
        }
    }
}

/* What epoll watches its socket for. */
static void mt_listen(struct mt_iwarp_qp *qp)
{
    struct epoll_event event = {.events = (qp->muted ? 0 : EPOLLIN) |
                                          (qp->wants_out ? EPOLLOUT : 0),
                                .data.ptr = &qp->watch};
    epoll_ctl(mt_iwarp_context_of(qp)->epoll, EPOLL_CTL_MOD, qp->fd, &event);
}

/* It waits for room in the socket, and not for an answer of the peer. */
static bool mt_needs_room(const struct mt_iwarp_qp *qp)
{
    return qp->waits &&
           (qp->out == NULL || qp->out->first != qp->out->count);
}

/* What needs room goes on as soon as there is some, although all sleep. */
static void mt_listen_for_room(struct mt_iwarp_qp *qp)
{
    if (!qp->wants_out && mt_needs_room(qp)) {
        qp->wants_out = true;
        mt_listen(qp);
    }
}

void mt_iwarp_waits(struct mt_iwarp_qp *qp, bool waits)
{
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    if (mt_likely(!qp->waits && !waits)) {
        return;
    }
    context->waiting += (uint32_t)waits - (uint32_t)qp->waits;
    qp->waits = waits;
    if (waits && mt_soft_sleeps(&context->soft)) {
        mt_listen_for_room(qp); /* they began to when it did not wait */
    }
    if (qp->wants_out && !mt_needs_room(qp)) {
        qp->wants_out = false;
        if (qp->fd >= 0) {
            mt_listen(qp);
        }
    }
}

static void mt_mute(struct mt_iwarp_qp *qp, bool muted)
{
    if (qp->muted != muted) {
        qp->muted = muted;
        mt_iwarp_context_of(qp)->muted += muted ? 1 : UINT32_MAX;
        mt_listen(qp);
    }
}

void mt_iwarp_unmute(struct mt_iwarp_context *context,
                     const struct mt_soft_receives *receives)
{
    for (uint32_t i = 0; i < context->live_count; i++) {
        struct mt_iwarp_qp *qp = context->live[i];
        if (qp->muted && qp->soft.receives == receives) {
            mt_mute(qp, false);
        }
    }
}

/* ---- what is done for one of them ---- */

static bool mt_has_work(const struct mt_iwarp_qp *qp)
{
    return qp->soft.next != qp->soft.tail || qp->waits ||
           qp->answer_head != qp->answer_tail;
}

static bool mt_send_some(struct mt_iwarp_qp *qp)
{
    return qp->out == NULL            ? mt_iwarp_ud_out(qp)
           : qp->link == MT_LINK_OPEN ? mt_iwarp_out(qp)
                                      : false;
}

void mt_iwarp_push(struct mt_soft_qp *soft)
{
    struct mt_iwarp_qp *qp = (struct mt_iwarp_qp *)soft;
    if (soft->base.state == MT_FABRIC_QP_RTS) {
        mt_send_some(qp);
    }
}

/* empty: there is nothing in its stream. */
static bool mt_visit(struct mt_iwarp_qp *qp, bool empty)
{
    if (mt_unlikely(qp->soft.base.state != MT_FABRIC_QP_RTS)) {
        return false;
    }
    bool moved = qp->out == NULL                      ? mt_iwarp_ud_in(qp)
                 : qp->link == MT_LINK_OPEN && !empty ? mt_iwarp_in(qp)
                                                      : false;
    if (mt_unlikely(mt_has_work(qp)) &&
        qp->soft.base.state == MT_FABRIC_QP_RTS) {
        moved = mt_send_some(qp) || moved;
    }
    return moved;
}

/* What is below the mark at which the socket is readable (SO_RCVLOWAT) is not seen by
 * poll either. */
static bool mt_asks_first(const struct mt_iwarp_qp *qp)
{
    return qp->out != NULL && qp->link == MT_LINK_OPEN && qp->wakes_at <= 1;
}

/* empty[i]: there is nothing in the stream of qps[i], some of which may be NULL. */
static void mt_ask(struct mt_iwarp_qp *const *qps, uint32_t count,
                   bool empty[MT_IWARP_HOT])
{
    struct pollfd fds[MT_IWARP_HOT];
    uint32_t of[MT_IWARP_HOT], n = 0;
    for (uint32_t i = 0; i < count; i++) {
        empty[i] = false;
        if (qps[i] != NULL && mt_asks_first(qps[i])) {
            of[n] = i;
            fds[n++] = (struct pollfd){.fd = qps[i]->fd, .events = POLLIN};
        }
    }
    if (n > 0 && poll(fds, n, 0) >= 0) {
        for (uint32_t k = 0; k < n; k++) {
            empty[of[k]] = fds[k].revents == 0;
        }
    }
}

static void mt_remember(struct mt_iwarp_context *context,
                        struct mt_iwarp_qp *qp)
{
    for (unsigned i = 0; i < MT_IWARP_HOT; i++) {
        if (context->hot[i] == qp) {
            return;
        }
    }
    unsigned place = context->hot_turn++ % MT_IWARP_HOT;
    context->hot[place] = qp;
    context->hot_idle[place] = 0;
}

/* ---- rounds ---- */

static bool mt_ready(struct mt_iwarp_context *context,
                     struct mt_iwarp_watch *watch)
{
    struct mt_iwarp_qp *qp;
    switch (watch->kind) {
    case MT_WATCH_LISTENER:
        mt_iwarp_accept(context);
        return true;
    case MT_WATCH_NOTICES:
        mt_iwarp_port_look(context);
        return true;
    case MT_WATCH_GUEST:
        mt_iwarp_guest_hear(context, (struct mt_iwarp_guest *)watch);
        return true;
    default:
        qp = (struct mt_iwarp_qp *)((char *)watch -
                                    offsetof(struct mt_iwarp_qp, watch));
        if (qp->out != NULL && qp->link != MT_LINK_OPEN) {
            mt_iwarp_stream_step(qp);
            return true;
        }
        if (!mt_visit(qp, false)) {
            return false;
        }
        mt_remember(context, qp);
        return true;
    }
}

static bool mt_look_at_epoll(struct mt_iwarp_context *context)
{
    struct epoll_event events[MT_EPOLL_AT_ONCE];
    int n = epoll_wait(context->epoll, events, MT_EPOLL_AT_ONCE, 0);
    bool moved = false;
    context->rounds = 0;
    for (int i = 0; i < n; i++) {
        moved = mt_ready(context, events[i].data.ptr) || moved;
    }
    return moved;
}

/* How long a guest may stay: as its queue pair, if that is known, may take to open. */
static uint32_t mt_guest_ms(const struct mt_iwarp_context *context,
                            const struct mt_iwarp_guest *guest)
{
    const struct mt_soft_qp *qp =
        guest->parked ? context->soft.qps[guest->number - 1] : NULL;
    return qp != NULL ? ((const struct mt_iwarp_qp *)qp)->open_ms
                      : MT_IWARP_GUEST_MS;
}

/* Time limits: of connecting, of guests, of peers that are silent. */
static void mt_look_at_clock(struct mt_iwarp_context *context)
{
    uint64_t now = mt_soft_now();
    uint64_t since_ms = (now - context->looked_ns) / 1000000;
    context->ticks = 0;
    if (since_ms < MT_SOFT_TICK_MS) {
        return;
    }
    context->looked_ns = now;
    /* all may have been elsewhere, waiting for the last of them to call */
    uint32_t waited_ms = since_ms < 1000 ? (uint32_t)since_ms : 1000;
    for (uint32_t i = 0; i < context->live_count; i++) {
        struct mt_iwarp_qp *qp = context->live[i];
        if (qp->out == NULL || qp->link == MT_LINK_NONE) {
            continue;
        }
        if (qp->link != MT_LINK_OPEN) {
            qp->stalled_ms += waited_ms;
        }
        if (qp->link == MT_LINK_OPEN ? mt_iwarp_stream_silent(qp)
                                     : qp->stalled_ms > qp->open_ms) {
            mt_iwarp_fail_oldest(qp, MT_EPEER);
        }
    }
    struct mt_iwarp_guest *guest = context->guests;
    while (guest != NULL) {
        struct mt_iwarp_guest *next = guest->next;
        guest->waited_ms += waited_ms;
        if (guest->waited_ms > mt_guest_ms(context, guest)) {
            context->refused++;
            mt_iwarp_guest_drop(context, guest);
        }
        guest = next;
    }
    mt_iwarp_linger(context, false);
    mt_iwarp_hear(context, true); /* there may be descriptors again */
}

static bool mt_visit_few(struct mt_iwarp_context *context)
{
    bool moved = false, empty[MT_IWARP_HOT];
    mt_ask(context->live, context->live_count, empty);
    for (uint32_t n = 0; n < context->live_count; n++) {
        context->turn++;
        context->turn = context->turn < context->live_count ? context->turn : 0;
        moved = mt_visit(context->live[context->turn], empty[context->turn]) ||
                moved;
    }
    return moved;
}

static bool mt_visit_hot(struct mt_iwarp_context *context)
{
    bool moved = false, empty[MT_IWARP_HOT];
    mt_ask(context->hot, MT_IWARP_HOT, empty);
    for (unsigned i = 0; i < MT_IWARP_HOT; i++) {
        struct mt_iwarp_qp *qp = context->hot[i];
        if (qp == NULL) {
            continue;
        }
        if (mt_visit(qp, empty[i])) {
            context->hot_idle[i] = 0;
            moved = true;
        } else if (++context->hot_idle[i] > MT_HOT_IDLE) {
            context->hot[i] = NULL;
        }
    }
    return moved;
}

/* Those that wait for room, or to be sent at all. */
static bool mt_push_waiting(struct mt_iwarp_context *context)
{
    bool moved = false;
    for (uint32_t i = 0; i < context->live_count; i++) {
        struct mt_iwarp_qp *qp = context->live[i];
        if (qp->waits && qp->soft.base.state == MT_FABRIC_QP_RTS) {
            moved = mt_send_some(qp) || moved;
        }
    }
    return moved;
}

bool mt_iwarp_progress(struct mt_soft_context *soft)
{
    struct mt_iwarp_context *context = (struct mt_iwarp_context *)soft;
    bool few = context->live_count <= MT_IWARP_HOT;
    bool moved = few ? mt_visit_few(context) : mt_visit_hot(context);
    if (!few && context->waiting > 0) {
        moved = mt_push_waiting(context) || moved;
    }
    if (mt_unlikely(++context->rounds >= MT_EPOLL_ROUNDS ||
                    context->connecting > 0 || (!few && !moved))) {
        moved = mt_look_at_epoll(context) || moved;
    }
    if (mt_unlikely(++context->ticks >= MT_TICK_ROUNDS || soft->yields)) {
        mt_look_at_clock(context);
    }
    return moved;
}

/* Somebody may go to sleep on the epoll instance: it must be readable whenever
 * there is something to do, and not otherwise. */
void mt_iwarp_armed(struct mt_soft_context *soft)
{
    struct mt_iwarp_context *context = (struct mt_iwarp_context *)soft;
    context->rounds = MT_EPOLL_ROUNDS;
    context->ticks = MT_TICK_ROUNDS;
    for (uint32_t i = 0; i < context->live_count; i++) {
        struct mt_iwarp_qp *qp = context->live[i];
        if (qp->soft.base.state != MT_FABRIC_QP_RTS || qp->fd < 0) {
            continue;
        }
        mt_listen_for_room(qp);
        if (qp->out != NULL) {
            mt_iwarp_in_armed(qp);
        } else {
            mt_mute(qp, qp->soft.receives->head == qp->soft.receives->tail);
        }
    }
}
