/* engine_world.h: engines of up to three simulated processes in one, and wires
 * between them on which nothing moves but by world_move, one work request at a
 * time. So a test decides every interleaving. Memory is reachable only while it
 * is registered, as on a device: a WRITE or READ elsewhere ends the test.
 *
 * world_heard is told of each message as it is posted, world_came as it is taken
 * off its wire. */
#ifndef MPITRACE_TEST_ENGINE_WORLD_H
#define MPITRACE_TEST_ENGINE_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "../engine/rings.h"
#include "check.h"
#include "bare_device.h"

enum {
    WORLD = 3,
    WORLD_WIRE = 512,
    WORLD_MEMORIES = 4096, /* registrations of a test, one after the other */
    WORLD_CONTEXT = 3,
    WORLD_PATIENCE = 1 << 20, /* turns until what is gone is noticed, and left */
};

struct mt_fabric_qp {
    const struct mt_fabric_ops *ops;
    uint32_t at, to;
    bool failed;
    struct mt_fabric_send work[WORLD_WIRE]; /* posted, not moved */
    struct mt_fabric_piece pieces[WORLD_WIRE][2];
    uint32_t first, last;
    struct mt_fabric_receive receives[WORLD_WIRE];
    struct mt_fabric_piece slots[WORLD_WIRE];
    uint32_t taken, posted;
};

struct mt_fabric_cq {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_completion done[2 * WORLD_WIRE];
    uint32_t count;
};

struct mt_fabric_context {
    bool lost, told;
};

struct mt_fabric_pd {
    bool refuses; /* to register memory */
    bool full;    /* no WRITE finds room in a queue, .. */
    uint32_t but; /* .. but so many */
};

struct world_memory {
    struct mt_fabric_mr *mr; /* NULL: gone */
    uint32_t access;
    uint32_t process;
};

struct world_options {
    uint32_t processes, window, eager_limit, usage, sample;
    uint32_t ring_bytes, verify_every;
    bool straight; /* short messages from memory that a keeper registers */
    uint64_t max_work; /* bytes of a READ or WRITE */
    enum mt_engine_rendezvous rendezvous;
    bool try_asking; /* receivers ask first by trial */
};

static struct {
    uint32_t size;
    bool dead[WORLD];
    struct mt_engine engines[WORLD];
    struct mt_engine_peer peers[WORLD][WORLD], *by_qp[WORLD][8];
    struct mt_fabric_qp qps[WORLD][WORLD];
    struct mt_fabric_cq cqs[WORLD][2]; /* of sends, of receives */
    struct mt_fabric_context devices[WORLD];
    struct mt_fabric_pd pds[WORLD];
    struct mt_engine_context *contexts[WORLD];
    struct world_memory memories[WORLD_MEMORIES];
    uint32_t memory_count, memories_alive;
    uint32_t ended; /* requests, as the programs have seen */
} world;

static void world_heard(uint32_t from, uint32_t to,
                        const struct mt_fabric_send *work,
                        const struct mt_wire_message *message);
static void world_came(uint32_t from, uint32_t to,
                       const struct mt_wire_message *message);

/* ---- the device ---- */

/* The message of a SEND; false: it only brings credits. */
static bool world_message(const struct mt_fabric_send *work,
                          struct mt_wire_message *message_p)
{
    const char *bytes = work->pieces[0].address; /* credits, count, message */
    uint32_t count;
    memcpy(&count, bytes + 4, sizeof(count));
    return work->opcode == MT_FABRIC_SEND && count != UINT32_MAX &&
           mt_wire_parse(bytes + 8, count, message_p) == MT_OK;
}

static void world_complete(uint32_t process, uint32_t queue,
                           struct mt_fabric_completion c)
{
    struct mt_fabric_cq *cq = &world.cqs[process][queue];
    if (cq->count == 2 * WORLD_WIRE) {
        printf("too many completions\n");
        exit(1);
    }
    cq->done[cq->count++] = c;
}

static enum mt_status world_post_send(struct mt_fabric_qp *qp,
                                      const struct mt_fabric_send *work)
{
    struct mt_wire_message m;
    if (world.devices[qp->at].lost) {
        return MT_OK; /* which is all that happens */
    }
    if (qp->failed) {
        world_complete(qp->at, 0,
                       (struct mt_fabric_completion){.id = work->id,
                                                     .status = MT_EFLUSHED,
                                                     .qp = 1 + qp->to});
        return MT_OK;
    }
    struct mt_fabric_pd *pd = &world.pds[qp->at];
    bool full = work->opcode == MT_FABRIC_WRITE && pd->full;
    if (qp->last - qp->first == WORLD_WIRE || (full && pd->but == 0)) {
        return MT_EAGAIN;
    }
    pd->but -= full;
    uint32_t place = qp->last++ % WORLD_WIRE;
    qp->work[place] = *work;
    for (uint32_t i = 0; i < work->piece_count; i++) {
        qp->pieces[place][i] = work->pieces[i];
    }
    qp->work[place].pieces = qp->pieces[place];
    bool has = world_message(work, &m);
    if (has || work->opcode != MT_FABRIC_SEND) {
        world_heard(qp->at, qp->to, work, has ? &m : NULL);
    }
    return MT_OK;
}

static enum mt_status world_post_receive(struct mt_fabric_qp *qp,
                                         const struct mt_fabric_receive *work)
{
    uint32_t place = qp->posted++ % WORLD_WIRE;
    qp->receives[place] = *work;
    qp->slots[place] = work->pieces[0];
    return MT_OK;
}

static uint32_t world_poll(struct mt_fabric_cq *cq,
                           struct mt_fabric_completion *completions,
                           uint32_t limit)
{
    size_t process =
        (size_t)((char *)cq - (char *)world.cqs) / sizeof(world.cqs[0]);
    uint32_t n = cq->count < limit ? cq->count : limit;
    if (world.devices[process].lost) {
        return 0;
    }
    memcpy(completions, cq->done, n * sizeof(*completions));
    memmove(cq->done, cq->done + n, (cq->count - n) * sizeof(*completions));
    cq->count -= n;
    return n;
}

static const struct mt_fabric_ops world_ops = {
    .post_send = world_post_send,
    .post_receive = world_post_receive,
    .poll = world_poll};

static struct mt_fabric_mr *world_memory_new(struct mt_fabric_pd *pd,
                                             void *address, size_t bytes,
                                             uint32_t access)
{
    struct mt_fabric_mr *mr = calloc(1, sizeof(*mr));
    if (world.memory_count == WORLD_MEMORIES) {
        printf("too many registrations\n");
        exit(1);
    }
    *mr = (struct mt_fabric_mr){.address = address,
                                .bytes = bytes,
                                .rkey = world.memory_count,
                                .pd = pd};
    world.memories[world.memory_count++] = (struct world_memory){
        .mr = mr, .access = access, .process = (uint32_t)(pd - world.pds)};
    world.memories_alive++;
    return mr;
}

enum mt_status mt_fabric_mr_allocate(struct mt_fabric_pd *pd, size_t bytes,
                                     uint32_t access, struct mt_fabric_mr **mr_p)
{
    *mr_p = world_memory_new(pd, calloc(1, bytes), bytes, access);
    (*mr_p)->lkey = 1; /* it is ours to free */
    return MT_OK;
}

enum mt_status mt_fabric_mr_register(struct mt_fabric_pd *pd, void *address,
                                     size_t bytes, uint32_t access,
                                     struct mt_fabric_mr **mr_p)
{
    if (pd->refuses) {
        return MT_ENOMEM;
    }
    *mr_p = world_memory_new(pd, address, bytes, access);
    return MT_OK;
}

enum mt_status mt_fabric_mr_implicit(struct mt_fabric_pd *pd,
                                     struct mt_fabric_mr **mr_p)
{
    (void)pd;
    (void)mr_p;
    return MT_ENOTSUP;
}

enum mt_status mt_fabric_mr_destroy(struct mt_fabric_mr *mr)
{
    world.memories[mr->rkey].mr = NULL;
    world.memories_alive--;
    if (mr->lkey == 1) {
        free(mr->address);
    }
    free(mr);
    return MT_OK;
}

/* A keeper that keeps nothing: what it lends is registered as long as that. */
enum { WORLD_LENT = 10 }; /* its lkeys: more by this than the rkeys */

static bool world_lend(void *user, void *address, uint64_t bytes,
                       struct mt_engine_kept *kept_p)
{
    struct mt_fabric_mr *mr;
    if (mt_fabric_mr_register(user, address, bytes,
                              MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE |
                                  MT_FABRIC_REMOTE_READ,
                              &mr) != MT_OK) {
        return false;
    }
    *kept_p = (struct mt_engine_kept){
        .reference = mr, .lkey = WORLD_LENT + mr->rkey, .rkey = mr->rkey};
    return true;
}

static void world_back(void *user, const void *reference)
{
    (void)user;
    mt_fabric_mr_destroy((struct mt_fabric_mr *)reference);
}

enum mt_status mt_fabric_event_take(struct mt_fabric_context *context,
                                    struct mt_fabric_event *event_p)
{
    if (!context->lost || context->told) {
        return MT_EAGAIN;
    }
    context->told = true;
    *event_p =
        (struct mt_fabric_event){.kind = MT_FABRIC_EVENT_DEVICE_FATAL};
    return MT_OK;
}

/* What was posted comes back, and nothing of it happens any more. */
enum mt_status mt_fabric_qp_fail(struct mt_fabric_qp *qp)
{
    if (world.devices[qp->at].lost) {
        return MT_EIO;
    }
    qp->failed = true;
    for (; qp->first != qp->last; qp->first++) {
        const struct mt_fabric_send *work = &qp->work[qp->first % WORLD_WIRE];
        world_complete(qp->at, 0,
                       (struct mt_fabric_completion){.id = work->id,
                                                     .status = MT_EFLUSHED,
                                                     .qp = 1 + qp->to});
    }
    return MT_OK;
}

uint32_t mt_fabric_qp_number(const struct mt_fabric_qp *qp)
{
    return 1 + qp->to;
}

void mt_thread_call(struct mt_engine *engine)
{
    (void)engine;
}

void mt_thread_noted(struct mt_engine *engine)
{
    (void)engine;
}

void mt_thread_watches(struct mt_engine *engine)
{
    (void)engine;
}

/* ---- moving ---- */

static const struct world_memory *world_reach(uint32_t process, uint32_t rkey,
                                              uint64_t address, uint64_t bytes,
                                              uint32_t access)
{
    const struct world_memory *m =
        rkey < world.memory_count ? &world.memories[rkey] : NULL;
    if (m == NULL || m->mr == NULL || m->process != process ||
        (m->access & access) == 0 || address < (uintptr_t)m->mr->address ||
        address + bytes > (uintptr_t)m->mr->address + m->mr->bytes) {
        printf("memory of process %u is reached that is not exposed (key %u)\n",
               process, rkey);
        check_failures++;
        return NULL;
    }
    return m;
}

/* Pieces one behind the other, to there (NULL: they are only counted). What is
 * lent must still be. */
static uint32_t world_gather(uint32_t process,
                             const struct mt_fabric_send *work, void *to)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < work->piece_count; i++) {
        const struct mt_fabric_piece *p = &work->pieces[i];
        if (to != NULL && (p->lkey < WORLD_LENT ||
                           world_reach(process, p->lkey - WORLD_LENT,
                                       (uintptr_t)p->address, p->bytes,
                                       MT_FABRIC_LOCAL_WRITE) != NULL)) {
            memcpy((char *)to + bytes, p->address, p->bytes);
        }
        bytes += p->bytes;
    }
    return bytes;
}

static void world_send_moves(struct mt_fabric_qp *qp,
                             const struct mt_fabric_send *work)
{
    struct mt_fabric_qp *other = &world.qps[qp->to][qp->at];
    if (other->taken == other->posted) {
        printf("a message of %u finds no receive at %u\n", qp->at, qp->to);
        exit(1);
    }
    uint32_t place = other->taken++ % WORLD_WIRE;
    uint32_t bytes =
        world_gather(qp->at, work, other->slots[place].address);
    world_complete(qp->to, 1,
                   (struct mt_fabric_completion){
                       .id = other->receives[place].id,
                       .status = MT_OK,
                       .opcode = MT_FABRIC_RECEIVE,
                       .qp = 1 + qp->at,
                       .bytes = bytes});
}

/* With rings only one look in four goes further. */
static void world_progress(uint32_t process)
{
    for (unsigned i = 0; i < 4; i++) {
        mt_engine_progress(&world.engines[process]);
    }
}

/* The next work request of a wire, and nobody looks. False: there is none. */
static bool world_land(uint32_t from, uint32_t to)
{
    struct mt_fabric_qp *qp = &world.qps[from][to];
    if (qp->first == qp->last) {
        return false;
    }
    struct mt_fabric_send work = qp->work[qp->first % WORLD_WIRE];
    struct mt_fabric_piece pieces[2];
    struct mt_wire_message m;
    memcpy(pieces, qp->pieces[qp->first++ % WORLD_WIRE], sizeof(pieces));
    work.pieces = pieces;
    enum mt_status status = MT_OK;
    if (world.dead[to] || world.devices[to].lost ||
        world.qps[to][from].failed) {
        status = MT_EPEER;
    } else if (work.opcode == MT_FABRIC_SEND) {
        world_send_moves(qp, &work);
    } else if (world_reach(to, work.rkey, work.remote_address,
                           world_gather(from, &work, NULL),
                           work.opcode == MT_FABRIC_WRITE
                               ? MT_FABRIC_REMOTE_WRITE
                               : MT_FABRIC_REMOTE_READ) != NULL) {
        void *remote = (void *)(uintptr_t)work.remote_address;
        if (work.opcode == MT_FABRIC_WRITE) {
            world_gather(from, &work, remote);
        } else {
            memcpy(pieces[0].address, remote, pieces[0].bytes);
        }
    }
    bool has = world_message(&work, &m);
    if ((work.flags & MT_FABRIC_SIGNALED) != 0 || status != MT_OK) {
        world_complete(from, 0,
                       (struct mt_fabric_completion){.id = work.id,
                                                     .status = status,
                                                     .opcode = work.opcode,
                                                     .qp = 1 + to});
    }
    if (has && status == MT_OK) {
        world_came(from, to, &m);
    }
    return true;
}

/* The same, and both look. */
static bool world_move(uint32_t from, uint32_t to)
{
    if (!world_land(from, to)) {
        return false;
    }
    world_progress(to);
    if (!world.dead[from]) {
        world_progress(from);
    }
    return true;
}

/* Everything, until nothing moves any more. */
static inline void world_settle(void)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < world.size * world.size; i++) {
            uint32_t from = i / world.size, to = i % world.size;
            moved = (from != to && world_move(from, to)) || moved;
        }
    }
    world.ended++; /* or so: all programs wait */
}

/* Others notice that they do not reach it any more, and owe it nothing. */
static inline void world_apart(uint32_t process)
{
    for (uint32_t i = 0; i < world.size; i++) {
        struct mt_engine_peer *peer = &world.peers[i][process];
        if (i == process) {
            continue;
        }
        mt_peer_end(peer);
        world_progress(i);
        for (uint32_t n = 0; n < WORLD_PATIENCE && peer->busy; n++) {
            mt_engine_progress(&world.engines[i]);
        }
        CHECK(!peer->busy);
    }
}

/* A process is gone: what it had posted never happens. */
static inline void world_die(uint32_t process)
{
    world.dead[process] = true;
    for (uint32_t i = 0; i < world.size; i++) {
        if (i != process) {
            mt_fabric_qp_fail(&world.qps[process][i]);
        }
    }
    world_apart(process);
}

/* Its device is: nothing happens and nothing completes of what it had posted. It
 * finds out when it has waited for a while, and owes nothing then. */
static inline void world_lose(uint32_t process)
{
    struct mt_engine *e = &world.engines[process];
    world.devices[process].lost = true;
    for (uint32_t i = 0; i < world.size; i++) {
        world.qps[process][i].first = world.qps[process][i].last;
    }
    world_apart(process);
    for (uint32_t n = 0; n < WORLD_PATIENCE && !e->device_lost; n++) {
        mt_engine_progress(e);
    }
    CHECK(e->device_lost);
    mt_engine_progress(e);
    CHECK_EQ(mt_engine_owes(e), 0);
}

/* ---- beginning and end ---- */

static void world_begin_process(uint32_t p, const struct world_options *o)
{
    static const uint32_t processes[WORLD] = {0, 1, 2};
    struct mt_engine *e = &world.engines[p];
    static const struct mt_fabric_caps caps = {.max_pieces = 2,
                                               .offloads = true};
    world.cqs[p][0].ops = world.cqs[p][1].ops = &world_ops;
    e->rails.rails[0].caps = &caps;
    strcpy(e->rails.rails[0].name, "toy:1");
    e->device = &world.devices[p];
    e->ring_bytes = o->ring_bytes;
    e->o = (struct mt_engine_options){.terms.eager_limit = o->eager_limit,
                                      .terms.rendezvous = o->rendezvous,
                                      .terms.try_asking = o->try_asking,
                                      .terms.reuse =
                                          o->straight ? MT_ENGINE_REUSES_ALWAYS
                                                      : MT_ENGINE_COPIES,
                                      .speculation = 25,
                                      .ended = &world.ended,
                                      .verify_every = o->verify_every,
                                      .rtr_usage = o->usage,
                                      .rtr_sample = o->sample};
    e->process = p;
    e->processes = o->processes;
    e->peers = world.peers[p];
    e->by_qp = world.by_qp[p];
    e->by_qp_mask = 7;
    e->reads = e->writes = true;
    e->max_work = o->max_work;
    e->message_bytes = o->eager_limit + MT_WIRE_LONG_BYTES;
    e->pd = &world.pds[p];
    e->rails.rails[0].send_cq = &world.cqs[p][0];
    e->rails.rails[0].receive_cq = &world.cqs[p][1];
    for (uint32_t i = 0; i < o->processes; i++) {
        struct mt_engine_peer *peer = &world.peers[p][i];
        struct mt_fabric_qp *qp = &world.qps[p][i];
        *qp = (struct mt_fabric_qp){.ops = &world_ops, .at = p, .to = i};
        peer->engine = e;
        peer->process = i;
        peer->qp = qp;
        peer->leaving_tail = &peer->leaving;
        if (i != p) {
            world.by_qp[p][1 + i] = peer;
            struct mt_credits_options credits = {
                .pd = e->pd,
                .qp = qp,
                .window = o->window,
                .peer_window = o->window,
                .bytes = o->eager_limit + MT_WIRE_LONG_BYTES};
            CHECK_EQ(mt_credits_open(&peer->credits, &credits), MT_OK);
            CHECK_EQ(mt_reads_open(&peer->reads, qp, 4), MT_OK);
        }
    }
    if (o->straight) {
        const struct mt_engine_keeper keeper = {world_lend, world_back, e->pd};
        mt_eager_open(e);
        mt_engine_keep(e, &keeper);
    }
    CHECK_EQ(mt_engine_context_open(e, WORLD_CONTEXT, p, o->processes,
                                    processes, &world.contexts[p]),
             MT_OK);
}

static void world_begin(const struct world_options *o)
{
    memset(&world, 0, sizeof(world));
    world.size = o->processes;
    for (uint32_t p = 0; p < o->processes; p++) {
        world_begin_process(p, o);
    }
}

/* All requests are done. */
static void world_end(void)
{
    for (uint32_t p = 0; p < world.size; p++) {
        struct mt_engine *e = &world.engines[p];
        for (uint32_t k = 0; k < MT_ENGINE_TRIALS * 2 * MT_CHOICES; k++) {
            const struct mt_choice *c =
                e->choices[k % MT_ENGINE_TRIALS].rows[k / MT_ENGINE_TRIALS];
            CHECK(c == NULL || c->under_way == 0 || world.dead[p]);
        }
        if (!world.dead[p]) {
            CHECK_EQ(e->pending, 0);
        }
        e->pending = 0; /* of one that died they are nobody's */
        mt_engine_context_close(world.contexts[p]);
        for (uint32_t i = 0; i < e->transfer_count; i++) {
            if (e->transfers[i]->request != NULL) {
                mt_transfer_free(e->transfers[i]);
            }
        }
        mt_contexts_free(e);
        mt_discards_free(e);
        mt_messages_free(e);
        mt_transfers_free(e);
        mt_eager_close(e);
        for (unsigned what = 0; what < MT_ENGINE_TRIALS; what++) {
            mt_choices_free(&e->choices[what]);
        }
        for (uint32_t i = 0; i < world.size; i++) {
            mt_credits_close(&world.peers[p][i].credits);
            mt_ring_free(&world.peers[p][i]);
            free(world.peers[p][i].rtr);
        }
    }
    CHECK_EQ(world.memories_alive, 0);
}

#endif
