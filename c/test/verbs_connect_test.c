/* sources: c/engine/connect.c c/fabric/fabric.c c/fabric/status.c c/fabric/fault/?*.c c/fabric/paths/credits.c c/fabric/paths/datagrams.c c/fabric/paths/demand.c c/fabric/paths/paths.c c/fabric/verbs/device.c c/fabric/verbs/verbs.c c/fabric/verbs/qp.c c/fabric/verbs/work.c c/fabric/verbs/source.c c/fabric/verbs/ports.c */
/* verbs_connect_test.c: an engine whose peer is reached by datagrams first, over a
 * device that is made up (verbs_made.h): what its connections ask of the device, what
 * becomes of one that fails half-way, and ports of different MTUs. */
#include "../engine/inside.h"
#include "verbs_made.h"

enum { US, PEER, RANKS, WINDOW = 8, HELLO = 512 };

static struct mt_engine engine;
static struct mt_engine_peer peers[RANKS], *by_qp[2 * RANKS];
static struct mt_fabric_caps caps;
static char said[512];

/* ---- the rest of the engine ---- */

enum mt_status mt_peer_prepare(struct mt_engine_peer *peer)
{
    const struct mt_credits_options o = {.pd = engine.pd,
                                         .qp = peer->qp,
                                         .window = WINDOW,
                                         .peer_window = WINDOW,
                                         .bytes = 64};
    return mt_credits_open(&peer->credits, &o);
}

void mt_peer_enter(struct mt_engine_peer *peer)
{
    (void)peer;
}

void mt_peer_busy(struct mt_engine_peer *peer)
{
    (void)peer;
}

void mt_peer_end(struct mt_engine_peer *peer)
{
    peer->ended = true;
}

enum mt_status mt_leave_note(struct mt_engine_peer *peer,
                             const struct mt_wire *head,
                             const struct mt_wire_rest *rest,
                             const void *payload, uint32_t payload_bytes)
{
    (void)peer, (void)head, (void)rest, (void)payload, (void)payload_bytes;
    return MT_OK;
}

enum mt_status mt_arrive(struct mt_engine_peer *peer, const void *bytes,
                         uint32_t count)
{
    (void)peer, (void)bytes, (void)count;
    return MT_OK;
}

bool mt_engine_progress(struct mt_engine *engine)
{
    (void)engine;
    return false;
}

static void say(void *user, const char *text)
{
    (void)user;
    snprintf(said, sizeof(said), "%s", text);
}

/* ---- beginning and end ---- */

/* What each rank brings into the exchange. The one that comes first does not hear the
 * other. */
struct meeting {
    uint32_t rank;
    bool came[RANKS];
    char hellos[RANKS][HELLO];
};

static enum mt_status exchange(void *user, const void *mine, size_t bytes,
                               void *all)
{
    struct meeting *m = user;
    assert(bytes <= HELLO);
    memcpy(m->hellos[m->rank], mine, bytes);
    m->came[m->rank] = true;
    for (uint32_t i = 0; i < RANKS; i++) {
        if (!m->came[i]) {
            return MT_EPEER;
        }
        memcpy((char *)all + i * bytes, m->hellos[i], bytes);
    }
    return MT_OK;
}

static const struct mt_fabric_qp_options *rc_options(void)
{
    static struct mt_fabric_qp_options rc;
    rc = (struct mt_fabric_qp_options){
        .transport = MT_FABRIC_RC,
        .send_cq = engine.rails.rails[0].send_cq,
        .receive_cq = engine.rails.rails[0].receive_cq,
        .send_depth = WINDOW,
        .receive_depth = WINDOW,
        .pieces = 1,
        .port = 1,
        .open_ms = MT_OPEN_MS};
    return &rc;
}

static enum mt_status open_as(struct meeting *m, uint32_t rank,
                              uint32_t ud_payload)
{
    memset(peers, 0, sizeof(peers));
    for (uint32_t i = 0; i < RANKS; i++) {
        peers[i].engine = &engine;
        peers[i].process = i;
    }
    m->rank = engine.process = rank;
    engine.o.wireup.rank = rank;
    engine.o.wireup.user = m;
    engine.connections = 0;
    caps.ud_payload = ud_payload;
    return mt_connect_open(&engine, rc_options());
}

/* This rank, and what the peer with its own MTU said before it. */
static enum mt_status begin(uint32_t mine, uint32_t theirs)
{
    struct meeting m = {.rank = PEER};
    assert(open_as(&m, PEER, theirs) == MT_EPEER);
    mt_connect_close(&engine);
    return open_as(&m, US, mine);
}

static void end(void)
{
    mt_connect_close(&engine);
    mt_credits_close(&peers[PEER].credits);
}

static void start(void)
{
    const struct mt_fabric_options options = {.engine_cpu = -1, .say = say};
    struct mt_rail *rail = &engine.rails.rails[0];
    assert(pipe(made_events) == 0);
    assert(mt_fabric_open("made0", &options, &rail->context) == MT_OK);
    assert(mt_fabric_pd_create(rail->context, &rail->pd) == MT_OK);
    assert(mt_fabric_cq_create(rail->context, DEPTH, NULL, &rail->send_cq) ==
           MT_OK);
    assert(mt_fabric_cq_create(rail->context, DEPTH, NULL,
                               &rail->receive_cq) == MT_OK);
    caps = mt_fabric_query(rail->context)->caps;
    rail->caps = &caps;
    rail->port = 1;
    engine.pd = rail->pd;
    engine.processes = RANKS;
    engine.peers = peers;
    engine.by_qp = by_qp;
    engine.by_qp_mask = 2 * RANKS - 1;
    engine.message_bytes = 4096;
    engine.o.say = say;
    engine.o.datagrams.first = true;
    engine.o.datagrams.after = 1;
    engine.o.datagrams.connections = 1;
    engine.o.wireup =
        (struct mt_fabric_wireup){.size = RANKS, .exchange = exchange};
}

static void stop(void)
{
    struct mt_rail *rail = &engine.rails.rails[0];
    assert(mt_fabric_cq_destroy(rail->send_cq) == MT_OK);
    assert(mt_fabric_cq_destroy(rail->receive_cq) == MT_OK);
    assert(mt_fabric_pd_destroy(rail->pd) == MT_OK);
    assert(mt_fabric_close(rail->context) == MT_OK);
}

/* ---- connections ---- */

/* A hello of the peer, which it repeats as long as it is not answered. */
struct asking {
    struct mt_demand demand;
    char hello[HELLO];
    uint32_t bytes;
};

static enum mt_status carry(void *user, uint32_t to, const void *bytes,
                            uint32_t count)
{
    struct asking *a = user;
    assert(to == US && count <= HELLO);
    memcpy(a->hello, bytes, count);
    a->bytes = count;
    return MT_OK;
}

static void ask(struct asking *a)
{
    const struct mt_demand_options o = {.rank = PEER,
                                        .size = RANKS,
                                        .pd = engine.pd,
                                        .rc = *rc_options(),
                                        .carry = carry,
                                        .user = a};
    struct mt_fabric_qp *qp;
    assert(mt_demand_open(&a->demand, &o) == MT_OK);
    assert(mt_demand_qp(&a->demand, US, &qp) == MT_EAGAIN && a->bytes > 0);
}

static void hear(const struct asking *a)
{
    const struct mt_wire_message m = {.payload = a->hello,
                                      .payload_bytes = a->bytes};
    assert(mt_connect_heard(&peers[PEER], &m) == MT_OK);
}

/* A peer has long to come, but one that came and is silent is gone soon. */
static void silent(void)
{
    struct asking a = {.bytes = 0};
    assert(begin(2048, 2048) == MT_OK);
    ask(&a);
    hear(&a);
    assert(peers[PEER].qp != NULL && !peers[PEER].ended);
    assert(made_timeout == 18); /* seven of 1.07 s */
    assert(engine.demand.o.rc.open_ms == MT_OPEN_MS);
    mt_demand_close(&a.demand);
    end();
}

/* Without memory it is asked for again, as long as the queue pair is as it was. One
 * that has lost its receives would let the peer wait for ever. */
static void half_way(int receive_error, int send_error)
{
    struct asking a = {.bytes = 0};
    assert(begin(2048, 2048) == MT_OK);
    ask(&a);
    made_receive_error = receive_error;
    made_send_error = send_error;
    said[0] = '\0';
    hear(&a);
    made_receive_error = made_send_error = 0;
    assert(peers[PEER].ended == (send_error != 0));
    assert(send_error == 0 || strstr(said, "connecting to rank 1") != NULL);
    hear(&a);
    assert(mt_fabric_qp_state(peers[PEER].qp) ==
           (send_error != 0 ? MT_FABRIC_QP_INIT : MT_FABRIC_QP_RTS));
    mt_demand_close(&a.demand);
    end();
}

/* ---- MTUs ---- */

/* Whatever the ports take, all ranks can begin; or a line says why not. */
static void different_mtus(void)
{
    static const uint32_t messages[] = {4096, 16 << 10, 64 << 10, 512 << 10};
    for (uint32_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        engine.message_bytes = messages[i] + 64;
        for (uint32_t mine = 1024; mine <= 4096; mine *= 2) {
            for (uint32_t theirs = 1024; theirs <= 4096; theirs *= 2) {
                assert(begin(mine, theirs) == MT_OK);
                assert(engine.datagrams.o.packet_bytes ==
                       (mine < theirs ? mine : theirs));
                end();
            }
        }
        assert(begin(256, 256) == MT_OK);
        end();
    }
    assert(begin(4096, 256) == MT_EINVAL);
    assert(strstr(said, "longer datagrams than the 256 bytes") != NULL);
    end();
}

int main(void)
{
    start();
    silent();
    half_way(ENOMEM, 0);
    half_way(0, ENOMEM);
    different_mtus();
    stop();
    puts("No Errors");
    return 0;
}
