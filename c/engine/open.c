/* open.c: wire-up, the end, counts. Cold. */
#include "rings.h"

#include <stdlib.h>
#include <string.h>

enum {
    MT_WINDOW = 64,             /* receives for each peer, at most */
    MT_WINDOW_LEAST = 8,
    MT_WINDOW_BYTES = 512 << 10, /* of memory for them, at most */
    MT_SLOT_LEAST = 4096,        /* so that fragments are not tiny */
    MT_SLOT_MOST = 1 << 19,
    MT_READS = 16,
    MT_WRITES = 16,
    MT_RING_WORKS = 128, /* two for each message */
    MT_WORK = 1 << 30,   /* bytes of one READ or WRITE, at most, */
    MT_WORK_INLINE = 16 << 20, /* .. and where the rank itself moves them */
};

/* What all processes must agree on. */
struct mt_engine_hello {
    uint32_t version;
    uint32_t status; /* whether it could open its device */
    uint64_t eager_limit;
    uint32_t rendezvous;
    uint16_t reads, writes; /* whether its device has them */
    uint64_t ring_bytes;    /* 0: it cannot */
    uint32_t datagrams;     /* they come first */
};

static enum mt_status mt_hello_judge(const struct mt_engine_options *o,
                                     const struct mt_engine_hello *mine,
                                     const struct mt_engine_hello *theirs,
                                     uint32_t i)
{
    if (theirs->version != mine->version) {
        mt_path_say(o->say, o->user,
                    "process %u speaks version %u of the engine's protocol, "
                    "this one version %u: run the same mpitrace everywhere",
                    i, theirs->version, mine->version);
        return MT_EVERSION;
    }
    if (theirs->status != MT_OK) { /* it has said so itself, or looks on */
        return theirs->status < MT_STATUSES ? (enum mt_status)theirs->status
                                            : MT_EINVAL;
    }
    if (theirs->eager_limit != mine->eager_limit ||
        theirs->rendezvous != mine->rendezvous ||
        theirs->datagrams != mine->datagrams) {
        mt_path_say(o->say, o->user,
                    "process %u has another eager limit (which is its "
                    "device's, where none is stated), rendezvous or transport "
                    "than process %u: give all the same settings, and devices "
                    "of one kind",
                    i, o->wireup.rank);
        return MT_EINVAL;
    }
    return MT_OK;
}

/* status: of this process. The verdict on all; MT_EAGAIN: some do not know yet, and
 * nobody cannot. READs, WRITEs and rings are used if all have them. */
static enum mt_status mt_hello(struct mt_engine *engine, enum mt_status status)
{
    const struct mt_engine_options *o = &engine->o;
    struct mt_engine_hello mine = {.version = MT_WIRE_VERSION,
                                   .status = status,
                                   .eager_limit = o->terms.eager_limit,
                                   .rendezvous = o->terms.rendezvous,
                                   .reads = engine->reads,
                                   .writes = engine->writes,
                                   .ring_bytes = engine->ring_bytes,
                                   .datagrams = o->datagrams.first};
    struct mt_engine_hello *all = calloc(engine->processes, sizeof(*all));
    bool waits = false;
    if (status != MT_OK && status != MT_EAGAIN) {
        mt_path_say(o->say, o->user, "cannot take part: %s",
                    mt_status_text(status));
    }
    status = o->wireup.exchange(o->wireup.user, &mine, sizeof(mine), all);
    for (uint32_t i = 0; i < engine->processes && status == MT_OK; i++) {
        status = mt_hello_judge(o, &mine, &all[i], i);
        if (status == MT_EAGAIN) {
            waits = true;
            status = MT_OK;
        }
        engine->reads = engine->reads && all[i].reads != 0;
        engine->writes = engine->writes && all[i].writes != 0;
        engine->ring_bytes = engine->ring_bytes < all[i].ring_bytes
                                 ? engine->ring_bytes
                                 : all[i].ring_bytes;
    }
    free(all);
    return status == MT_OK && waits ? MT_EAGAIN : status;
}

/* Peers with datagrams are all there, or none goes on. A mesh does that by itself. */
static enum mt_status mt_hello_datagrams(struct mt_engine *engine,
                                         enum mt_status status)
{
    uint64_t end = mt_engine_now_ns() + MT_MESH_MS * UINT64_C(1000000);
    status = status == MT_OK ? mt_connect_greet(engine) : status;
    do {
        if (status == MT_OK || status == MT_EAGAIN) {
            status = mt_connect_await(engine, end);
        }
        status = mt_hello(engine, status);
    } while (status == MT_EAGAIN);
    return status;
}

/* ---- the device ---- */

static uint32_t mt_slot_bytes(const struct mt_engine *engine)
{
    uint64_t limit = engine->o.terms.eager_limit;
    uint64_t most = limit > MT_SLOT_LEAST ? limit : MT_SLOT_LEAST;
    return (uint32_t)most + (uint32_t)sizeof(struct mt_wire) +
           (uint32_t)sizeof(struct mt_wire_rest);
}

static uint32_t mt_window(const struct mt_engine *engine)
{
    uint32_t window = MT_WINDOW_BYTES / engine->message_bytes;
    return window > MT_WINDOW         ? MT_WINDOW
           : window < MT_WINDOW_LEAST ? MT_WINDOW_LEAST
                                      : window;
}

static uint32_t mt_reads_at_once(const struct mt_engine *engine)
{
    uint32_t most = engine->rails.rails[0].caps->max_reads;
    return most < MT_READS ? most : MT_READS;
}

static uint32_t mt_send_depth(const struct mt_engine *engine)
{
    return mt_window(engine) + mt_reads_at_once(engine) + MT_WRITES +
           (engine->ring_bytes > 0 ? MT_RING_WORKS : 0);
}

/* Where a flag behind a message is seen behind it. */
static uint64_t mt_ring_size(const struct mt_engine *engine)
{
    const struct mt_fabric_caps *caps = engine->rails.rails[0].caps;
    uint64_t bytes = engine->o.ring_bytes < MT_PATH_RING_MOST
                         ? engine->o.ring_bytes
                         : MT_PATH_RING_MOST;
    bytes = bytes / MT_PATH_RING_LINE * MT_PATH_RING_LINE;
    return (caps->notify & MT_FABRIC_NOTIFY_FLAG_WRITE) != 0 &&
                   engine->writes &&
                   mt_path_ring_right(bytes)
               ? bytes
               : 0;
}

static enum mt_status mt_device_open(struct mt_engine *engine)
{
    struct mt_rail *rail = &engine->rails.rails[0];
    engine->o.fabric.say = engine->o.say;
    engine->o.fabric.user = engine->o.user;
    engine->o.fabric.no_crc = true; /* as MPI libraries have it over TCP */
    enum mt_status status = mt_fabric_open(engine->o.device,
                                           &engine->o.fabric, &engine->device);
    if (status != MT_OK) {
        return status;
    }
    const struct mt_fabric_device *device = mt_fabric_query(engine->device);
    rail->context = engine->device;
    rail->caps = &device->caps;
    for (uint32_t i = 0; i < device->port_count && rail->port == 0; i++) {
        if (device->ports[i].up) {
            rail->port = device->ports[i].number;
            memcpy(rail->name, device->ports[i].name, sizeof(rail->name));
        }
    }
    if (rail->port == 0) {
        mt_path_say(engine->o.say, engine->o.user, "no port of %s is up",
                    device->name);
        return MT_ENODEVICE;
    }
    if (engine->o.datagrams.first &&
        ((rail->caps->transports & MT_FABRIC_UD) == 0 ||
         (rail->caps->ud_operations & MT_FABRIC_SEND) == 0)) {
        mt_path_say(engine->o.say, engine->o.user,
                    "%s has no datagrams, which transport=ud-first needs: take "
                    "another device, or transport=rc",
                    device->name);
        return MT_ENOTSUP;
    }
    engine->rails.count = 1;
    engine->reads = (rail->caps->rc_operations & MT_FABRIC_READ) != 0 &&
                    rail->caps->max_reads > 0;
    engine->writes = (rail->caps->rc_operations & MT_FABRIC_WRITE) != 0;
    engine->ring_bytes = mt_ring_size(engine);
    /* who carries a work request out itself does it under the engine's lock */
    uint64_t most = rail->caps->offloads ? MT_WORK : MT_WORK_INLINE;
    engine->max_work =
        rail->caps->max_message < most ? rail->caps->max_message : most;
    status = mt_fabric_pd_create(engine->device, &rail->pd);
    engine->pd = rail->pd;
    if (engine->o.thread && rail->caps->events && status == MT_OK) {
        status = mt_fabric_channel_create(engine->device, &engine->channel);
    }
    uint32_t peers = engine->processes, sends = 0, receives = 0;
    if (engine->o.datagrams.first) {
        peers = engine->o.datagrams.connections < peers
                    ? engine->o.datagrams.connections
                    : peers;
        sends = mt_connect_sends(engine);
        receives = mt_connect_receives();
    }
    if (status == MT_OK) {
        status = mt_fabric_cq_create(engine->device,
                                     mt_send_depth(engine) * peers + sends,
                                     engine->channel, &rail->send_cq);
    }
    if (status == MT_OK) {
        status = mt_fabric_cq_create(engine->device,
                                     mt_window(engine) * peers + receives,
                                     engine->channel, &rail->receive_cq);
    }
    return status;
}

static void mt_device_close(struct mt_engine *engine)
{
    struct mt_rail *rail = &engine->rails.rails[0];
    if (rail->receive_cq != NULL) {
        mt_fabric_cq_destroy(rail->receive_cq);
    }
    if (rail->send_cq != NULL) {
        mt_fabric_cq_destroy(rail->send_cq);
    }
    if (engine->channel != NULL) {
        mt_fabric_channel_destroy(engine->channel);
    }
    if (rail->pd != NULL) {
        mt_fabric_pd_destroy(rail->pd);
    }
    if (engine->device != NULL) {
        mt_fabric_close(engine->device);
    }
}

/* ---- peers ---- */

void mt_peer_enter(struct mt_engine_peer *peer)
{
    struct mt_engine *engine = peer->engine;
    uint32_t at = mt_fabric_qp_number(peer->qp);
    while (engine->by_qp[at & engine->by_qp_mask] != NULL) {
        at++;
    }
    engine->by_qp[at & engine->by_qp_mask] = peer;
}

enum mt_status mt_peer_prepare(struct mt_engine_peer *peer)
{
    const struct mt_engine *engine = peer->engine;
    struct mt_credits_options o = {.pd = engine->pd,
                                   .qp = peer->qp,
                                   .window = mt_window(engine),
                                   .peer_window = mt_window(engine),
                                   .bytes = engine->message_bytes};
    enum mt_status status = mt_credits_open(&peer->credits, &o);
    uint32_t reads = mt_reads_at_once(engine);
    if (status == MT_OK && reads > 0) {
        status = mt_reads_open(&peer->reads, peer->qp, reads);
    }
    return status;
}

static enum mt_status mt_peer_prepare_rail(void *user, uint32_t process,
                                           uint32_t rail,
                                           struct mt_fabric_qp *qp)
{
    struct mt_engine *engine = user;
    struct mt_engine_peer *peer = &engine->peers[process];
    (void)rail;
    peer->qp = qp;
    mt_peer_enter(peer);
    return mt_peer_prepare(peer);
}

static enum mt_status mt_peers_open(struct mt_engine *engine)
{
    uint32_t slots = 2;
    engine->peers = calloc(engine->processes, sizeof(*engine->peers));
    while (slots < 2 * engine->processes) {
        slots *= 2;
    }
    engine->by_qp = calloc(slots, sizeof(struct mt_engine_peer *));
    engine->by_qp_mask = slots - 1;
    if (engine->peers == NULL || engine->by_qp == NULL) {
        return MT_ENOMEM;
    }
    for (uint32_t i = 0; i < engine->processes; i++) {
        struct mt_engine_peer *peer = &engine->peers[i];
        peer->engine = engine;
        peer->process = i;
        peer->leaving_tail = &peer->leaving;
    }
    return MT_OK;
}

static enum mt_status mt_peers_connect(struct mt_engine *engine)
{
    struct mt_mesh_options o = {
        .rc = {.send_depth = mt_send_depth(engine),
               .receive_depth = mt_window(engine),
               .pieces = engine->eager != NULL ? 2 : 1,
               .reads = mt_reads_at_once(engine),
               .open_ms = MT_MESH_MS},
        .prepare = mt_peer_prepare_rail,
        .user = engine,
        .say = engine->o.say,
        .say_user = engine->o.user,
    };
    if (engine->o.datagrams.first) {
        o.rc.send_cq = engine->rails.rails[0].send_cq;
        o.rc.receive_cq = engine->rails.rails[0].receive_cq;
        o.rc.port = engine->rails.rails[0].port;
        o.rc.open_ms = MT_OPEN_MS;
        return mt_connect_open(engine, &o.rc);
    }
    return mt_mesh_create(&engine->rails, &engine->o.wireup, &o,
                          &engine->mesh);
}

/* ---- beginning and end ---- */

static void mt_engine_free(struct mt_engine *engine)
{
    mt_contexts_free(engine);
    mt_discards_free(engine);
    mt_messages_free(engine);
    mt_transfers_free(engine);
    for (unsigned i = 0; i < MT_ENGINE_TRIALS; i++) {
        mt_choices_free(&engine->choices[i]);
    }
    mt_eager_close(engine);
    if (engine->mesh.rails != NULL) {
        mt_mesh_destroy(&engine->mesh);
    }
    mt_connect_close(engine);
    for (uint32_t i = 0; engine->peers != NULL && i < engine->processes; i++) {
        mt_ring_free(&engine->peers[i]);
        mt_credits_close(&engine->peers[i].credits);
        free(engine->peers[i].rtr);
    }
    mt_device_close(engine);
    free(engine->by_qp);
    free(engine->peers);
    free(engine);
}

enum mt_status mt_engine_open(const struct mt_engine_options *options,
                              struct mt_engine **engine_p)
{
    struct mt_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        struct mt_engine_hello none = {.version = MT_WIRE_VERSION,
                                       .status = MT_ENOMEM};
        options->wireup.exchange(options->wireup.user, &none, sizeof(none),
                                 NULL);
        return MT_ENOMEM;
    }
    engine->o = *options;
    mt_lock_open(&engine->lock, options->alone);
    engine->opened_ns = mt_engine_now_ns();
    for (unsigned i = 0; i < MT_ENGINE_TRIALS; i++) {
        engine->choices[i].salt = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    if (engine->o.terms.eager_limit > MT_SLOT_MOST) {
        engine->o.terms.eager_limit = MT_SLOT_MOST;
    }
    engine->message_bytes = mt_slot_bytes(engine);
    engine->process = options->wireup.rank;
    engine->processes = options->wireup.size;
    enum mt_status status = mt_device_open(engine);
    if (status == MT_OK) {
        status = mt_peers_open(engine);
    }
    status = mt_hello(engine, status);
    if (status == MT_OK) {
        mt_eager_open(engine);
        mt_hold_open(engine);
        status = mt_peers_connect(engine);
        if (engine->o.datagrams.first) {
            status = mt_hello_datagrams(engine, status);
        }
    }
    if (status == MT_OK && options->thread) {
        status = mt_thread_start(engine);
    }
    if (status != MT_OK) {
        mt_engine_free(engine);
        return status;
    }
    *engine_p = engine;
    return MT_OK;
}

enum mt_status mt_engine_close(struct mt_engine *engine)
{
    if (engine->forgotten ||
        __atomic_load_n(&engine->pending, __ATOMIC_RELAXED) > 0) {
        return MT_ESTATE;
    }
    mt_thread_stop(engine);
    mt_engine_free(engine);
    return MT_OK;
}

void mt_engine_forget(struct mt_engine *engine)
{
    engine->forgotten = true;
    engine->pending = engine->posted = 0; /* obligations are the parent's */
    engine->busy_count = 0;
    engine->holding = NULL;
    mt_lock_forget(&engine->lock); /* perhaps of a thread that is not in the child */
}

struct mt_fabric_pd *mt_engine_pd(const struct mt_engine *engine)
{
    return engine->pd;
}

const struct mt_fabric_device *mt_engine_device(const struct mt_engine *engine)
{
    return mt_fabric_query(engine->device);
}

uint32_t mt_engine_obligations(const struct mt_engine *engine)
{
    return mt_engine_owes(engine);
}

void mt_engine_count_peers(const struct mt_engine *engine,
                           struct mt_engine_peers *peers_p)
{
    struct mt_engine *e = (struct mt_engine *)engine;
    uint64_t each = sizeof(struct mt_engine_peer);
    if (engine->o.datagrams.first) {
        each += sizeof(struct mt_datagrams_peer);
    }
    mt_engine_lock_aside(e);
    *peers_p = (struct mt_engine_peers){
        .datagrams_bytes = each,
        .connected_bytes =
            each + UINT64_C(2) * mt_window(engine) * engine->message_bytes,
        .shared_bytes = mt_datagrams_bytes(&engine->datagrams),
        .ring_bytes = engine->ring_count * engine->ring_bytes};
    for (uint32_t i = 0; i < engine->processes; i++) {
        const struct mt_engine_peer *p = &engine->peers[i];
        if (i != engine->process) {
            *(mt_peer_connected(p)            ? &peers_p->connected
              : p->sent > p->greeted || p->arrived > p->greets ? &peers_p->datagrams
                                              : &peers_p->idle) += 1;
        }
    }
    mt_engine_unlock_aside(e);
}

void mt_engine_count(const struct mt_engine *engine,
                     struct mt_engine_counts *counts_p)
{
    struct mt_engine *e = (struct mt_engine *)engine;
    mt_engine_lock_aside(e);
    *counts_p = engine->counts;
    counts_p->malformed_messages = e->datagrams.counts.malformed +
                                   e->demand.counts.malformed +
                                   mt_fabric_malformed(e->device);
    if (e->eager != NULL) {
        const struct mt_reuse *reuse = &e->eager->reuse;
        counts_p->reuse_buffers = reuse->count;
        counts_p->reuse_frequent = reuse->frequent;
        counts_p->reuse_untracked = reuse->untracked;
        counts_p->reuse_retreats = reuse->retreats;
    }
    mt_engine_unlock_aside(e);
}
