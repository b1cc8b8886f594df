/* connect.c: peers that are reached by datagrams first (paths/datagrams.h), and
 * get a connection when they have had many messages (paths/demand.h; Rashti 2010,
 * 6.4.2), as long as this process has one left; the fewer it has, the more messages
 * that takes (the thesis leaves open which peers get one).
 *
 * A message is the same by either, and one sequence counts them. The change is a
 * matter of the sender alone, for each direction by itself: when the connection
 * is made it sends nothing until the peer has acknowledged all datagrams, so what
 * goes by the connection finds everything before it in its place. There is no way
 * back. What needs a connection (READs, WRITEs, rings) is used only by who knows
 * that it is made; the peer's own is connected then, too.
 *
 * Connecting is asked for by a message like any other (CONNECT). A process that
 * has no connection left answers with which it refuses, and the peer asks again when
 * it has sent twice as much. */
#include "inside.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MT_PACKET_BYTES = 4096,
    MT_PACKET_LEAST = 1024, /* of the ranks whose network has the smallest MTU */
    MT_PACKETS = 128, /* kept or on their way, to all peers */
    MT_RECEIVES = 256,
    MT_DATAGRAM_WINDOW = 64 << 10, /* bytes; half of what Linux gives a socket for
                                    * all peers by default, and two send at once */
    MT_ASK_MS = 20, /* until a request that found no room is repeated, */
    MT_ASK_MOST_MS = 1280, /* or one that left, which datagrams.h does not lose */
    MT_MEET_MS = 500, /* until who still waits tells the others, at the beginning */
};

/* ---- what leaves ---- */

enum mt_status mt_connect_reserve(struct mt_engine_peer *peer, void **place_p)
{
    struct mt_engine *engine = peer->engine;
    if (peer->connection != MT_CONNECTION_MADE) {
        return mt_datagrams_reserve(&engine->datagrams, peer->process, place_p);
    }
    if (!mt_datagrams_flushed(&engine->datagrams, peer->process)) {
        return MT_EAGAIN;
    }
    peer->datagrams = false;
    return mt_credits_reserve(&peer->credits, place_p);
}

enum mt_status mt_connect_commit(struct mt_engine_peer *peer, uint32_t count,
                                 uint32_t flags)
{
    struct mt_engine *engine = peer->engine;
    engine->counts.datagram_messages++;
    return mt_datagrams_commit(&engine->datagrams, peer->process, count, flags);
}

/* ---- connecting ---- */

/* There is none after all. */
static void mt_connect_drop(struct mt_engine_peer *peer)
{
    struct mt_engine *engine = peer->engine;
    mt_demand_drop(&engine->demand, peer->process);
    mt_credits_close(&peer->credits);
    memset(&peer->credits, 0, sizeof(peer->credits));
    memset(&peer->reads, 0, sizeof(peer->reads));
    peer->qp = NULL;
    peer->connection = MT_CONNECTION_NONE;
    peer->connect_after = peer->sent < UINT32_MAX / 2
                              ? 2 * (uint32_t)peer->sent
                              : UINT32_MAX;
    engine->connections--;
    memset(engine->by_qp, 0,
           (engine->by_qp_mask + 1) * sizeof(struct mt_engine_peer *));
    for (uint32_t i = 0; i < engine->processes; i++) {
        if (engine->peers[i].qp != NULL) {
            mt_peer_enter(&engine->peers[i]);
        }
    }
}

static enum mt_status mt_connect_prepare(void *user, uint32_t process,
                                         struct mt_fabric_qp *qp)
{
    struct mt_engine *engine = user;
    struct mt_engine_peer *peer = &engine->peers[process];
    if (peer->connection != MT_CONNECTION_WANTED) {
        return MT_ESTATE; /* nobody has asked in its name */
    }
    peer->qp = qp;
    enum mt_status status = mt_peer_prepare(peer);
    if (status != MT_OK) {
        mt_credits_close(&peer->credits);
        peer->qp = NULL;
        return status;
    }
    mt_peer_enter(peer);
    return MT_OK;
}

/* bytes: of a hello, or 0: this one of its is refused. */
static enum mt_status mt_connect_tell(struct mt_engine_peer *peer,
                                      uint64_t refused, const void *bytes,
                                      uint32_t count)
{
    const struct mt_wire head = {.kind = MT_WIRE_CONNECT};
    const struct mt_wire_rest rest = {.number = refused};
    return peer->ended ? MT_EPEER
                       : mt_leave_note(peer, &head, &rest, bytes, count);
}

static enum mt_status mt_connect_carry(void *user, uint32_t process,
                                       const void *bytes, uint32_t count)
{
    struct mt_engine *engine = user;
    return mt_connect_tell(&engine->peers[process], 0, bytes, count);
}

static uint32_t mt_connect_left(const struct mt_engine *engine)
{
    uint32_t most = engine->o.datagrams.connections;
    return engine->connections < most ? most - engine->connections : 0;
}

static bool mt_connect_take(struct mt_engine_peer *peer)
{
    struct mt_engine *engine = peer->engine;
    if (mt_connect_left(engine) == 0) {
        return false;
    }
    engine->connections++;
    peer->connection = MT_CONNECTION_WANTED;
    return true;
}

/* Whether enough was sent to it: the more, the fewer connections are left, so that
 * those that a program begins with do not take them all from the busiest. */
static bool mt_connect_wants(const struct mt_engine_peer *peer)
{
    const struct mt_engine *engine = peer->engine;
    uint64_t left = mt_connect_left(engine), sent = peer->sent - peer->greeted;
    return peer->connection == MT_CONNECTION_NONE &&
           sent >= peer->connect_after && left > 0 &&
           sent * left >= (uint64_t)engine->o.datagrams.after *
                              engine->o.datagrams.connections;
}

/* How far it is. */
static void mt_connect_look(struct mt_engine_peer *peer)
{
    struct mt_fabric_qp *qp;
    if (peer->connection != MT_CONNECTION_WANTED || peer->ended) {
        return;
    }
    enum mt_status status =
        mt_demand_qp(&peer->engine->demand, peer->process, &qp);
    if (status == MT_OK) {
        peer->connection = MT_CONNECTION_MADE;
    } else if (status != MT_EAGAIN && peer->qp == NULL) {
        mt_connect_drop(peer); /* the device has no more */
    } else if (status != MT_EAGAIN) {
        mt_peer_end(peer);
    }
}

static enum mt_status mt_connect_refused(struct mt_engine_peer *peer,
                                         uint64_t life)
{
    if (peer->connection == MT_CONNECTION_WANTED &&
        mt_demand_asks(&peer->engine->demand, peer->process, life)) {
        mt_connect_drop(peer);
    }
    return MT_OK;
}

/* Not now: it asks again later, or, where there is no room to tell it, in a
 * moment. */
static void mt_connect_refuse(struct mt_engine_peer *peer,
                              const struct mt_wire_message *m)
{
    struct mt_demand *demand = &peer->engine->demand;
    uint64_t life = mt_demand_life(demand, m->payload, m->payload_bytes);
    if (life != 0 && mt_connect_tell(peer, life, NULL, 0) == MT_OK) {
        mt_demand_refused(demand, peer->process, life);
    }
}

enum mt_status mt_connect_heard(struct mt_engine_peer *peer,
                                const struct mt_wire_message *m)
{
    struct mt_demand *demand = &peer->engine->demand;
    if (m->payload_bytes == 0) {
        return mt_connect_refused(peer, m->rest.number);
    }
    mt_peer_busy(peer);
    if (peer->connection != MT_CONNECTION_NONE || mt_connect_take(peer)) {
        mt_demand_heard(demand, m->payload, m->payload_bytes);
        mt_connect_look(peer);
    }
    if (peer->connection == MT_CONNECTION_NONE && !peer->ended) {
        mt_connect_refuse(peer, m);
    }
    return MT_OK;
}

/* ---- what arrives, and progress ---- */

static enum mt_status mt_connect_came(void *user, uint32_t process,
                                      const void *bytes, uint32_t count)
{
    struct mt_engine *engine = user;
    return mt_arrive(&engine->peers[process], bytes, count);
}

void mt_connect_completion(struct mt_engine *engine,
                           const struct mt_fabric_completion *c)
{
    uint32_t process = UINT32_MAX;
    enum mt_status status =
        mt_path_kind(c->id) == MT_PATH_PACKET
            ? mt_datagrams_done(&engine->datagrams, c)
            : mt_datagrams_received(&engine->datagrams, c, &process);
    if (mt_likely(process != UINT32_MAX)) {
        mt_peer_busy(&engine->peers[process]); /* it may have to be answered */
    }
    for (uint32_t i = 0; i < engine->processes && status != MT_OK; i++) {
        struct mt_engine_peer *peer = &engine->peers[i];
        bool its = process == UINT32_MAX
                       ? peer->datagrams && i != engine->process
                       : i == process;
        if (its) {
            mt_peer_end(peer);
        }
    }
}

bool mt_connect_serve(struct mt_engine_peer *peer)
{
    struct mt_engine *engine = peer->engine;
    enum mt_status status =
        mt_datagrams_serve(&engine->datagrams, peer->process);
    if (status == MT_EPEER && !peer->ended) {
        mt_peer_end(peer);
    }
    if (peer->ended) {
        return status != MT_OK;
    }
    if (mt_connect_wants(peer)) {
        mt_connect_take(peer);
    }
    if (peer->connection == MT_CONNECTION_WANTED) {
        mt_demand_progress(&engine->demand);
        mt_connect_look(peer);
    }
    return status != MT_OK || peer->connection == MT_CONNECTION_WANTED;
}

uint64_t mt_connect_due(const struct mt_engine *engine)
{
    uint64_t due = UINT64_MAX;
    for (const struct mt_engine_peer *p = engine->busy; p != NULL;
         p = p->busy_next) {
        uint64_t its = mt_datagrams_due(&engine->datagrams, p->process);
        due = its < due ? its : due;
        if (p->connection == MT_CONNECTION_WANTED &&
            engine->demand.next_ns < due) {
            due = engine->demand.next_ns;
        }
    }
    return due;
}

void mt_connect_end(struct mt_engine_peer *peer)
{
    mt_datagrams_end(&peer->engine->datagrams, peer->process);
}

/* ---- beginning and end ---- */

static uint32_t mt_connect_packet_bytes(const struct mt_engine *engine)
{
    uint32_t most = engine->rails.rails[0].caps->ud_payload;
    return most < MT_PACKET_BYTES ? most : MT_PACKET_BYTES;
}

uint32_t mt_connect_sends(const struct mt_engine *engine)
{
    /* How short the packets of all are is known later: two of the longest messages
     * fit, and acknowledgements, where another rank has the least. */
    uint32_t own = mt_connect_packet_bytes(engine);
    uint32_t room = (own < MT_PACKET_LEAST ? own : MT_PACKET_LEAST) -
                    MT_DATAGRAMS_HEAD;
    uint32_t packets = 2 * (engine->message_bytes / room + 16);
    return packets > MT_PACKETS ? packets : MT_PACKETS;
}

uint32_t mt_connect_receives(void)
{
    return MT_RECEIVES;
}

enum mt_status mt_connect_open(struct mt_engine *engine,
                               const struct mt_fabric_qp_options *rc)
{
    const struct mt_rail *rail = &engine->rails.rails[0];
    struct mt_demand_options on_demand = {.rank = engine->process,
                                          .size = engine->processes,
                                          .pd = engine->pd,
                                          .rc = *rc,
                                          .prepare = mt_connect_prepare,
                                          .carry = mt_connect_carry,
                                          .user = engine,
                                          .retry_ms = MT_ASK_MS,
                                          .retry_most_ms = MT_ASK_MOST_MS,
                                          /* who is silent is given up by
                                           * datagrams.h */
                                          .tries = UINT32_MAX,
                                          .say = engine->o.say,
                                          .say_user = engine->o.user};
    struct mt_datagrams_options o = {
        .pd = engine->pd,
        .send_cq = rail->send_cq,
        .receive_cq = rail->receive_cq,
        .port = rail->port,
        .headroom = rail->caps->ud_headroom,
        .packet_bytes = mt_connect_packet_bytes(engine),
        .message_bytes = engine->message_bytes,
        .sends = mt_connect_sends(engine),
        .receives = MT_RECEIVES,
        .window_bytes = MT_DATAGRAM_WINDOW,
        .tries = engine->o.datagrams.tries,
        .came = mt_connect_came,
        .user = engine,
        .say = engine->o.say,
        .say_user = engine->o.user};
    enum mt_status status = mt_demand_open(&engine->demand, &on_demand);
    enum mt_status opened =
        mt_datagrams_open(&engine->datagrams, &o, &engine->o.wireup);
    for (uint32_t i = 0; i < engine->processes; i++) {
        engine->peers[i].datagrams = true;
        engine->peers[i].connect_after = engine->o.datagrams.after;
    }
    return status != MT_OK ? status : opened;
}

/* Of each process the neighbours at distances 1, 2, 4, .. before and behind it, as in a
 * dissemination barrier (Hensgen, Finkel and Manber, 1988): a device that leads nowhere
 * is found out by them, and all is done with few peers. Whether each reaches each they
 * do not say. */
static struct mt_engine_peer *mt_connect_behind(struct mt_engine *engine,
                                                uint32_t far)
{
    return &engine->peers[(engine->process + far) % engine->processes];
}

static struct mt_engine_peer *mt_connect_before(struct mt_engine *engine,
                                                uint32_t far)
{
    return &engine->peers[(engine->process + engine->processes - far) %
                          engine->processes];
}

enum mt_status mt_connect_greet(struct mt_engine *engine)
{
    enum mt_status status = MT_OK;
    for (uint32_t far = 1; far < engine->processes && status == MT_OK; far *= 2) {
        struct mt_engine_peer *behind = mt_connect_behind(engine, far);
        mt_connect_before(engine, far)->greets = true;
        behind->greeted = true;
        /* of a request that nobody has made: it means nothing */
        status = mt_connect_tell(behind, 0, NULL, 0);
    }
    engine->counts.datagram_messages = 0;
    return status;
}

/* Nothing is under way to or from it. */
static bool mt_connect_idle(struct mt_engine_peer *peer)
{
    return !peer->ended && mt_datagrams_serve(&peer->engine->datagrams,
                                              peer->process) == MT_OK;
}

/* One that has not answered, or has not been heard. */
static struct mt_engine_peer *mt_connect_silent(struct mt_engine *engine)
{
    for (uint32_t far = 1; far < engine->processes; far *= 2) {
        struct mt_engine_peer *behind = mt_connect_behind(engine, far);
        struct mt_engine_peer *before = mt_connect_before(engine, far);
        if (!mt_connect_idle(behind)) {
            return behind;
        }
        if (before->arrived == 0 || !mt_connect_idle(before)) {
            return before;
        }
    }
    return NULL;
}

enum mt_status mt_connect_await(struct mt_engine *engine, uint64_t end_ns)
{
    const struct timespec nap = {.tv_nsec = 20000};
    uint64_t turn = mt_engine_now_ns() + MT_MEET_MS * UINT64_C(1000000);
    for (;;) {
        /* also for others whose last acknowledgement was lost */
        mt_engine_progress(engine);
        struct mt_engine_peer *silent = mt_connect_silent(engine);
        uint64_t now = mt_engine_now_ns();
        if (silent == NULL) {
            return MT_OK;
        }
        if (silent->ended || (now >= turn && now >= end_ns)) {
            mt_path_say(engine->o.say, engine->o.user,
                        "rank %u does not answer over %s: name a device by which "
                        "all ranks reach each other",
                        silent->process, engine->rails.rails[0].name);
            return MT_EPEER;
        }
        if (now >= turn) {
            return MT_EAGAIN;
        }
        nanosleep(&nap, NULL);
    }
}

void mt_connect_close(struct mt_engine *engine)
{
    if (engine->demand.peers != NULL) {
        mt_demand_close(&engine->demand);
    }
    mt_datagrams_close(&engine->datagrams);
}
