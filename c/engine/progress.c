/* progress.c: completions, and what is gone: peers, or the device. */
#include "rings.h"

enum {
    MT_POLL = 16,
    /* Who spins looks further than at rings in one of so many turns: */
    MT_RING_TURNS = 8, /* that found something in them */
    MT_RING_LOOKS = 4, /* that found nothing */
    MT_RING_SKIPS = 8, /* rounds, of which one looks into rings without a need */
    MT_DEVICE_TURNS = 4096, /* turns without anything between looks at events */
};

/* ---- peers ---- */

void mt_peer_busy(struct mt_engine_peer *peer)
{
    struct mt_engine *engine = peer->engine;
    if (!peer->busy) {
        peer->busy = true;
        peer->busy_next = engine->busy;
        engine->busy = peer;
        mt_engine_add(&engine->busy_count, 1);
    }
}

void mt_peer_end(struct mt_engine_peer *peer)
{
    struct mt_engine *engine = peer->engine;
    if (peer->ended) {
        return;
    }
    peer->ended = true;
    if (peer->qp != NULL) {
        mt_fabric_qp_fail(peer->qp); /* nothing of ours is touched after that
                                      * but by READs, which complete */
    }
    if (mt_datagrams_first(engine)) {
        mt_connect_end(peer);
    }
    mt_peer_busy(peer);
    if (peer->ring != NULL && peer->ring->out.owes) {
        struct mt_path_rest *rest = &peer->ring->out.rest;
        peer->ring->out.owes = false; /* and so will not complete */
        mt_eager_left(rest->piece.bytes > 0 ? rest->value : 0, MT_EPEER);
    }
    while (peer->leaving != NULL) {
        struct mt_engine_request *r = peer->leaving;
        mt_leave_remove(r);
        /* a receive that only has to say thanks has got its message */
        mt_request_wait(r, mt_leave_thanks(r) ? r->status : MT_EPEER);
    }
    for (uint32_t i = 0; i < engine->transfer_count; i++) {
        struct mt_engine_request *r = engine->transfers[i]->request;
        if (r != NULL && r->peer == peer &&
            (r->state == MT_REQUEST_ANSWER || r->state == MT_REQUEST_COLLECT)) {
            mt_request_wait(r, MT_EPEER);
        }
    }
    mt_posted_end(engine, peer->process);
}

/* READs that wait for others begin. On a queue pair that has failed they come back flushed,
 * but where the device takes nothing there. */
static void mt_peer_reads(struct mt_engine_peer *peer)
{
    enum mt_status status = mt_reads_flush(&peer->reads);
    while (peer->ended && status != MT_OK && status != MT_EAGAIN) {
        mt_transfer_read(mt_reads_take(&peer->reads)->user, MT_EPEER);
        status = mt_reads_flush(&peer->reads);
    }
}

/* Does what had to wait. True: nothing is left of it. */
static bool mt_peer_serve(struct mt_engine_peer *peer)
{
    if (mt_unlikely(peer->engine->device_lost)) {
        return true; /* what the device has of it stays there */
    }
    bool left = mt_datagrams_first(peer->engine) && mt_connect_serve(peer);
    left = !mt_leave_flush(peer) || left;
    if (mt_unlikely(peer->rtr != NULL) && !peer->ended) {
        left = !mt_rtr_flush(peer) || left;
    }
    mt_peer_reads(peer);
    left = left || peer->writing > 0 ||
           peer->reads.tokens < peer->reads.limit ||
           peer->reads.first != NULL || mt_credits_sending(&peer->credits);
    left = mt_ring_busy(peer) || left;
    if (!peer->ended && peer->qp != NULL &&
        mt_credits_owing(&peer->credits)) {
        mt_credits_flush(&peer->credits);
        left = true; /* what went has to complete */
    }
    return !left;
}

static void mt_peers_serve(struct mt_engine *engine)
{
    struct mt_engine_peer **place = &engine->busy;
    while (*place != NULL) {
        struct mt_engine_peer *peer = *place;
        if (mt_peer_serve(peer)) {
            /* ahead of it there may be new ones */
            place = &engine->busy;
            while (*place != peer) {
                place = &(*place)->busy_next;
            }
            *place = peer->busy_next;
            peer->busy = false;
            mt_engine_add(&engine->busy_count, -1);
        } else {
            place = &peer->busy_next;
        }
    }
}

/* ---- the device ---- */

/* All peers are reached through it. Nothing completes any more, or not all of it,
 * so what waits for that ends, too. */
static void mt_device_lose(struct mt_engine *engine, const char *what)
{
    mt_path_say(engine->o.say, engine->o.user,
                "%s of process %u %s, as its driver reports: its messages "
                "to and from others end with an error from now on",
                engine->rails.rails[0].name, engine->process, what);
    __atomic_store_n(&engine->device_lost, true, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < engine->processes; i++) {
        if (i != engine->process) {
            mt_peer_end(&engine->peers[i]);
        }
    }
    for (uint32_t i = 0; i < engine->transfer_count; i++) {
        struct mt_engine_request *r = engine->transfers[i]->request;
        if (r != NULL) {
            mt_request_end(r, MT_EPEER);
        }
    }
    mt_posted_end_any(engine);
}

void mt_device_look(struct mt_engine *engine)
{
    struct mt_fabric_event event;
    while (!engine->device_lost &&
           mt_fabric_event_take(engine->device, &event) == MT_OK) {
        if (event.kind == MT_FABRIC_EVENT_DEVICE_FATAL) {
            mt_device_lose(engine, "is lost");
        } else if (event.kind == MT_FABRIC_EVENT_CQ_OVERRUN) {
            mt_device_lose(engine, "has lost completions");
        } /* what else there is, completions say */
    }
}

/* ---- completions ---- */

enum mt_status mt_mail_arrive(struct mt_engine_peer *peer,
                              const struct mt_credits_message *m)
{
    enum mt_status status = mt_arrive(peer, m->bytes, m->count);
    if (status == MT_OK && !peer->ended) {
        status = mt_credits_release(&peer->credits, m);
    }
    if (mt_credits_sending(&peer->credits) ||
        mt_credits_owing(&peer->credits)) {
        mt_peer_busy(peer);
    }
    return status == MT_EAGAIN ? MT_OK : status;
}

static void mt_mail(struct mt_engine_peer *peer,
                    const struct mt_fabric_completion *c)
{
    struct mt_credits_message m;
    if (mt_unlikely(peer->ended)) {
        return;
    }
    enum mt_status status = mt_credits_received(&peer->credits, c, &m);
    if (status == MT_OK && mt_unlikely(mt_arrive_early(peer, m.bytes, m.count))) {
        mt_ring_early(peer->ring, &m);
    } else if (status == MT_OK) {
        status = mt_mail_arrive(peer, &m);
    } else if (mt_credits_sending(&peer->credits) ||
               mt_credits_owing(&peer->credits)) {
        mt_peer_busy(peer);
    }
    if (mt_unlikely(!peer->offered) && !peer->ended) {
        mt_ring_offer(peer);
    }
    if (status != MT_OK && status != MT_EAGAIN) {
        mt_peer_end(peer);
    }
}

static struct mt_engine_peer *mt_peer_of(const struct mt_engine *engine,
                                         uint32_t qp)
{
    struct mt_engine_peer *peer;
    for (uint32_t at = qp;; at++) {
        peer = engine->by_qp[at & engine->by_qp_mask];
        if (mt_likely(peer == NULL || mt_fabric_qp_number(peer->qp) == qp)) {
            return peer;
        }
    }
}

static void mt_ring_completion(struct mt_engine_peer *peer,
                               const struct mt_fabric_completion *c)
{
    struct mt_engine_ring *ring = peer->ring;
    enum mt_path_kind kind = mt_path_kind(c->id);
    enum mt_status status =
        kind == MT_PATH_RING        ? mt_path_ring_written(&ring->out, c)
        : kind == MT_PATH_RING_TOLD ? mt_path_ring_told(&ring->in, c)
                                    : c->status;
    if (kind == MT_PATH_RING) {
        mt_eager_left(mt_path_value(c->id), status);
    }
    if (mt_unlikely(status != MT_OK)) {
        mt_peer_end(peer);
    }
}

static void mt_completion(struct mt_engine *engine,
                          const struct mt_fabric_completion *c)
{
    enum mt_path_kind kind = mt_path_kind(c->id);
    if (mt_unlikely(kind == MT_PATH_PACKET || kind == MT_PATH_PACKET_IN)) {
        mt_connect_completion(engine, c);
        return;
    }
    struct mt_engine_peer *peer = mt_peer_of(engine, c->qp);
    struct mt_read *read;
    if (mt_unlikely(peer == NULL)) {
        return;
    }
    switch (kind) {
    case MT_PATH_MAIL:
        mt_mail(peer, c);
        break;
    case MT_PATH_MESSAGE:
        mt_credits_sent(&peer->credits, c);
        mt_eager_left(mt_path_value(c->id), c->status);
        if (c->status != MT_OK) {
            mt_peer_end(peer);
        }
        break;
    case MT_PATH_READ:
        read = mt_reads_done(&peer->reads, c);
        mt_transfer_read(read->user, c->status);
        if (c->status != MT_OK) {
            mt_peer_end(peer);
        }
        break;
    case MT_PATH_RING:
    case MT_PATH_RING_DATA: /* it failed, and so will the flag */
    case MT_PATH_RING_TOLD:
        mt_ring_completion(peer, c);
        break;
    default: /* a WRITE */
        mt_transfer_written(
            (struct mt_engine_transfer *)(uintptr_t)mt_path_value(c->id),
            c->status);
        if (c->status != MT_OK) {
            mt_peer_end(peer);
        }
        break;
    }
}

static bool mt_poll(struct mt_engine *engine, struct mt_fabric_cq *cq)
{
    struct mt_fabric_completion c[MT_POLL];
    uint32_t n = mt_fabric_poll(cq, c, MT_POLL);
    for (uint32_t i = 0; i < n; i++) {
        mt_completion(engine, &c[i]);
    }
    return n > 0;
}

/* All but rings. */
static bool mt_queues_poll(struct mt_engine *engine)
{
    const struct mt_rail *rail = &engine->rails.rails[0];
    if (mt_unlikely(engine->device_lost)) {
        mt_peers_serve(engine);
        return false;
    }
    bool moved = mt_poll(engine, rail->receive_cq);
    if (engine->busy != NULL) {
        /* what only sends completes there */
        moved = mt_poll(engine, rail->send_cq) || moved;
        mt_peers_serve(engine);
    }
    return moved;
}

bool mt_engine_round(struct mt_engine *engine)
{
    bool awaited = engine->posted > 0;
    bool moved = mt_queues_poll(engine); /* which may be what fills rings */
    bool served = awaited && engine->posted == 0;
    /* who looks by a probe, each time behind such a round, finds what is in one */
    if (!served || ++engine->ring_skips % MT_RING_SKIPS == 0) {
        moved = mt_rings_poll(engine, awaited) || moved;
    }
    if (!moved && mt_unlikely(engine->rings_owe)) {
        mt_rings_tell(engine);
    }
    return moved;
}

/* A round of whoever waits or looks. spins: see mt_engine_spin. */
static bool mt_turn(struct mt_engine *engine, bool spins)
{
    bool moved;
    mt_engine_lock(engine);
    __atomic_store_n(&engine->rounds, engine->rounds + 1, __ATOMIC_RELAXED);
    if (mt_unlikely(engine->holding != NULL)) {
        mt_hold_end(engine);
    }
    if (mt_unlikely(mt_eager_waited(engine))) {
        mt_eager_idles(engine);
        spins = false; /* for what completes, too */
    }
    if (!spins || engine->rails.rails[0].caps->writes_need_polls) {
        moved = mt_engine_round(engine);
    } else {
        moved = mt_rings_poll(engine, engine->posted > 0);
        /* whoever waited for what was there waits no longer */
        if (!moved || ++engine->ring_turn % MT_RING_TURNS == 0) {
            moved = mt_queues_poll(engine) || moved;
        }
        if (!moved && mt_unlikely(engine->rings_owe)) {
            mt_rings_tell(engine);
        }
    }
    if (moved && mt_unlikely(mt_eager_waited(engine))) {
        mt_eager_moved(engine);
    }
    if (!moved && ++engine->idle_turns % MT_DEVICE_TURNS == 0) {
        mt_device_look(engine);
    }
    mt_engine_unlock(engine);
    return moved;
}

bool mt_engine_progress(struct mt_engine *engine)
{
    return mt_likely(!engine->forgotten) && mt_turn(engine, false);
}

bool mt_engine_spin(struct mt_engine *engine)
{
    uint32_t spins = __atomic_load_n(&engine->spins, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&engine->spins, spins, __ATOMIC_RELAXED);
    if (mt_unlikely(engine->forgotten) ||
        (spins % MT_RING_LOOKS != 0 && mt_rings_empty(engine) &&
         __atomic_load_n(&engine->holding, __ATOMIC_RELAXED) == NULL &&
         !engine->rails.rails[0].caps->writes_need_polls &&
         !mt_eager_waited(engine))) {
        return false; /* and the thread does not count on it */
    }
    return mt_turn(engine, true);
}
