/* events.c: completion channels: one event for an armed queue, solicited or not,
 * and none otherwise. */
#include <poll.h>
#include <unistd.h>

#include "harness.h"

static void send_word(struct side *s, struct mt_fabric_mr *mr, uint32_t flags)
{
    struct mt_fabric_piece p = piece(mr, 0, 8);
    struct mt_fabric_send work = {.id = 1,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED | flags,
                                  .piece_count = 1,
                                  .pieces = &p};
    post(s, s->qp, &work);
    next_ok(s, s->send_cq);
}

/* Armed for the next completion: any message wakes, once. */
static void next_event(struct side *s)
{
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    int limit = (int)s->setting->limit_ms;
    if (s->rank == 1) {
        for (uint64_t i = 0; i < 4; i++) {
            post_receive(s, s->qp, i, piece(mr, 0, 8));
        }
        CHECK(sleep_on(s, 30) == NULL);
        OK(mt_fabric_cq_arm(s->receive_cq, false));
        quiet(s, s->receive_cq, 1);
        meet(s); /* 1: the first message */
        CHECK(sleep_on(s, limit) == s->receive_cq);
        EQ(next_ok(s, s->receive_cq).id, 0);
        meet(s); /* 2: another, not armed */
        EQ(next_ok(s, s->receive_cq).id, 1);
        CHECK(sleep_on(s, 30) == NULL);
        OK(mt_fabric_cq_arm(s->receive_cq, false));
        meet(s); /* 3: two for one event */
        CHECK(sleep_on(s, limit) == s->receive_cq);
        EQ(next_ok(s, s->receive_cq).id, 2);
        EQ(next_ok(s, s->receive_cq).id, 3);
        CHECK(sleep_on(s, 30) == NULL);
    } else {
        meet(s);
        send_word(s, mr, 0);
        meet(s);
        send_word(s, mr, 0);
        meet(s);
        send_word(s, mr, 0);
        send_word(s, mr, 0);
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* Armed for solicited ones: others complete without an event. */
static void solicited(struct side *s)
{
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    if (s->rank == 1) {
        for (uint64_t i = 0; i < 3; i++) {
            post_receive(s, s->qp, i, piece(mr, 0, 8));
        }
        OK(mt_fabric_cq_arm(s->receive_cq, true));
        meet(s); /* 1: unsolicited */
        CHECK(sleep_on(s, 100) == NULL);
        EQ(next_ok(s, s->receive_cq).id, 0);
        meet(s); /* 2: solicited */
        CHECK(sleep_on(s, (int)s->setting->limit_ms) == s->receive_cq);
        EQ(next_ok(s, s->receive_cq).id, 1);
        /* armed for all, and then for solicited ones: for all */
        OK(mt_fabric_cq_arm(s->receive_cq, false));
        OK(mt_fabric_cq_arm(s->receive_cq, true));
        meet(s); /* 3: unsolicited */
        CHECK(sleep_on(s, (int)s->setting->limit_ms) == s->receive_cq);
        EQ(next_ok(s, s->receive_cq).id, 2);
    } else {
        meet(s);
        send_word(s, mr, 0);
        meet(s);
        send_word(s, mr, MT_FABRIC_SOLICITED);
        meet(s);
        send_word(s, mr, 0);
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* A READ completes without soliciting; armed for the next one, it fires. */
static void read_event(struct side *s)
{
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 1 << 16);
    struct remote there = remote_of(s, mr);
    if (s->rank == 0) {
        struct mt_fabric_piece p = piece(mr, 0, 1 << 16);
        struct mt_fabric_send work = {.id = 9,
                                      .opcode = MT_FABRIC_READ,
                                      .flags = MT_FABRIC_SIGNALED,
                                      .piece_count = 1,
                                      .pieces = &p,
                                      .remote_address = there.address,
                                      .rkey = there.rkey};
        OK(mt_fabric_cq_arm(s->send_cq, true));
        post(s, s->qp, &work);
        CHECK(sleep_on(s, 50) == NULL);
        EQ(next_ok(s, s->send_cq).id, 9);
        OK(mt_fabric_cq_arm(s->send_cq, false));
        post(s, s->qp, &work);
        CHECK(sleep_on(s, (int)s->setting->limit_ms) == s->send_cq);
        EQ(next_ok(s, s->send_cq).id, 9);
    }
    meet(s);
    release(mr);
    side_close(s);
}

static const char *needs_read(const struct mt_fabric_caps *caps)
{
    return (caps->rc_operations & MT_FABRIC_READ) == 0 ? "READ"
                                                       : needs_events(caps);
}

/* Back and forth, both sides asleep in between, never missing a message. */
static void ping_pong(struct side *s)
{
    enum { N = 300 };
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    post_receive(s, s->qp, 0, piece(mr, 64, 8));
    meet(s);
    for (uint64_t i = 0; i < N; i++) {
        if (s->rank == 0) {
            send_word(s, mr, i % 3 == 0 ? MT_FABRIC_SOLICITED : 0);
        }
        struct mt_fabric_completion c;
        for (;;) {
            OK(mt_fabric_cq_arm(s->receive_cq, false));
            if (took(s->receive_cq, &c)) {
                break;
            }
            CHECK(sleep_on(s, (int)s->setting->limit_ms) == s->receive_cq);
        }
        EQ(c.status, MT_OK);
        EQ(c.id, i);
        post_receive(s, s->qp, i + 1, piece(mr, 64, 8));
        if (s->rank == 1) {
            send_word(s, mr, 0);
        }
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* The ends of the wire, without polling meanwhile as meet() does. */
static void tell(struct side *s)
{
    CHECK(write(s->wire, "t", 1) == 1);
}

static void hear(struct side *s)
{
    char byte;
    CHECK(read(s->wire, &byte, 1) == 1);
}

/* A WRITE behind more SENDs than the peer takes: whoever posted them sleeps
 * until the WRITE is done, and nothing is left lying meanwhile. */
static void behind_full(struct side *s)
{
    enum { SENDS = 31, BYTES = 4000 };
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, BYTES);
    struct mt_fabric_mr *flag = allocated(s, 4096);
    struct remote there = remote_of(s, flag);
    for (uint64_t i = 0; i < SENDS; i++) {
        post_receive(s, s->qp, i, piece(mr, 0, BYTES));
    }
    meet(s);
    if (s->rank == 0) {
        struct mt_fabric_piece p = piece(mr, 0, BYTES);
        struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                      .piece_count = 1,
                                      .pieces = &p};
        *(uint64_t *)mr->address = 1; /* what is posted is not touched */
        for (int i = 0; i < SENDS; i++) {
            post(s, s->qp, &work);
        }
        p.bytes = 8;
        work = (struct mt_fabric_send){.id = 7,
                                       .opcode = MT_FABRIC_WRITE,
                                       .flags = MT_FABRIC_SIGNALED,
                                       .piece_count = 1,
                                       .pieces = &p,
                                       .remote_address = there.address,
                                       .rkey = there.rkey};
        post(s, s->qp, &work);
        OK(mt_fabric_cq_arm(s->send_cq, false));
        tell(s);
        struct mt_fabric_completion c;
        if (!took(s->send_cq, &c)) {
            CHECK(sleep_on(s, (int)s->setting->limit_ms) == s->send_cq);
            c = next_ok(s, s->send_cq);
        }
        EQ(c.id, 7);
    } else {
        hear(s);
        for (uint64_t i = 0; i < SENDS; i++) {
            EQ(next_ok(s, s->receive_cq).id, i);
        }
        struct mt_fabric_completion none;
        while (__atomic_load_n((uint64_t *)flag->address, __ATOMIC_ACQUIRE) !=
               1) {
            mt_fabric_poll(s->send_cq, &none, 0);
            waiting(s);
        }
    }
    meet(s);
    release(mr);
    OK(mt_fabric_mr_destroy(flag));
    side_close(s);
}

static const char *needs_flag(const struct mt_fabric_caps *caps)
{
    return (caps->notify & MT_FABRIC_NOTIFY_FLAG_WRITE) == 0
               ? "flag writes"
               : needs_events(caps);
}

/* A solicited SEND behind many WRITEs, all there before the other side arms: it
 * looks once, sleeps, and hears of the SEND at once. */
static void behind_writes(struct side *s)
{
    enum { WRITES = 800, MOST_MS = 5000 };
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 8), *in = allocated(s, 8);
    struct mt_fabric_piece p = piece(mr, 0, 8);
    struct remote there = remote_of(s, in);
    struct mt_fabric_send work = {.opcode = MT_FABRIC_WRITE,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = there.address,
                                  .rkey = there.rkey};
    if (s->rank == 1) {
        post_receive(s, s->qp, 7, p);
    }
    meet(s);
    if (s->rank == 0) {
        for (int i = 0; i < WRITES; i++) {
            post(s, s->qp, &work);
        }
        for (int i = 0; i < WRITES; i++) {
            next_ok(s, s->send_cq);
        }
        send_word(s, mr, MT_FABRIC_SOLICITED);
        tell(s);
    } else {
        struct mt_fabric_completion c;
        hear(s);
        happens();
        OK(mt_fabric_cq_arm(s->receive_cq, true));
        if (!took(s->receive_cq, &c)) {
            CHECK(sleep_on(s, (int)s->setting->limit_ms) == s->receive_cq);
            c = next_ok(s, s->receive_cq);
        }
        noticed("a SEND behind many WRITEs", MOST_MS);
        EQ(c.id, 7);
    }
    meet(s);
    release(mr);
    OK(mt_fabric_mr_destroy(in));
    side_close(s);
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* More queues fire at once than anybody would have room for: none is missed.
 * More queue pairs fail than events are kept: the others are counted. */
static void many_fire(struct side *s)
{
    enum { N = 300 };
    static struct mt_fabric_cq *cqs[N];
    static struct mt_fabric_qp *qps[N];
    static bool fired[N];
    struct mt_fabric_event event;
    side_open(s, true);
    struct mt_fabric_mr *mr = registered(s, 4096);
    int fd = mt_fabric_event_fd(s->context);
    CHECK(fd >= 0 && !readable(fd));
    for (int i = 0; i < N; i++) {
        struct mt_fabric_qp_options o = rc_options(s);
        OK(mt_fabric_cq_create(s->context, 4, s->channel, &cqs[i]));
        o.receive_cq = cqs[i];
        o.send_depth = o.receive_depth = 2;
        OK(mt_fabric_qp_create(s->pd, &o, &qps[i]));
        post_receive(s, qps[i], 1, piece(mr, 0, 64));
        OK(mt_fabric_cq_arm(cqs[i], true));
    }
    for (int i = 0; i < N; i++) {
        OK(mt_fabric_qp_fail(qps[i]));
    }
    CHECK(readable(fd));
    for (int n = 0; n < N; n++) {
        struct mt_fabric_cq *cq = sleep_on(s, (int)s->setting->limit_ms);
        int i = 0;
        while (i < N && cqs[i] != cq) {
            i++;
        }
        CHECK(i < N && !fired[i]);
        fired[i] = true;
        EQ(next(s, cq).status, MT_EFLUSHED);
    }
    for (uint32_t n = 0; n < N;) {
        enum mt_status status = mt_fabric_event_take(s->context, &event);
        waiting(s);
        if (status == MT_OK) {
            CHECK(event.kind == MT_FABRIC_EVENT_QP_FATAL ||
                  event.kind == MT_FABRIC_EVENT_LOST);
            n += event.kind == MT_FABRIC_EVENT_LOST ? event.count : 1;
            CHECK(n <= N);
        }
    }
    EQ(mt_fabric_event_take(s->context, &event), MT_EAGAIN);
    CHECK(!readable(fd));
    for (int i = 0; i < N; i++) {
        OK(mt_fabric_qp_destroy(qps[i]));
        OK(mt_fabric_cq_destroy(cqs[i]));
    }
    release(mr);
    side_close(s);
}

static struct mt_fabric_event await_event(struct side *s)
{
    struct mt_fabric_event event;
    while (mt_fabric_event_take(s->context, &event) != MT_OK) {
        waiting(s);
    }
    return event;
}

/* The link of the device, whose interface is in a namespace of its own, goes down
 * and comes back: each is told, to who asks for events and to who polls. */
static void link_down(struct side *s)
{
    const char *interface = strchr(s->setting->device, ':') + 1;
    char down[64], up[64];
    struct mt_fabric_event event;
    side_open(s, false);
    const struct mt_fabric_port *port = &mt_fabric_query(s->context)->ports[0];
    int fd = mt_fabric_event_fd(s->context);
    snprintf(down, sizeof(down), "ip link set %s down", interface);
    snprintf(up, sizeof(up), "ip link set %s up", interface);
    EQ(mt_fabric_event_take(s->context, &event), MT_EAGAIN);
    CHECK(port->up && fd >= 0 && !readable(fd));
    for (int i = 0; i < 3; i++) {
        meet(s);
        if (s->rank == 0) {
            happens();
            CHECK(system(down) == 0);
        }
        event = await_event(s);
        noticed("a link that went down", 10000);
        CHECK(event.kind == MT_FABRIC_EVENT_PORT_DOWN && event.port == 1);
        CHECK(!port->up);
        EQ(mt_fabric_event_take(s->context, &event), MT_EAGAIN);
        meet(s);
        CHECK(s->rank == 1 || system(up) == 0);
        while (!readable(fd)) { /* by polling alone */
            struct mt_fabric_completion none;
            mt_fabric_poll(s->send_cq, &none, 0);
            waiting(s);
        }
        event = await_event(s);
        CHECK(event.kind == MT_FABRIC_EVENT_PORT_UP && event.port == 1);
        CHECK(port->up && !readable(fd));
    }
    side_close(s);
}

/* A completion queue gets more than it holds: that is told, and by which. */
static void cq_overrun(struct side *s)
{
    enum { DEPTH = 4, SENDS = 32 };
    struct mt_fabric_cq *small;
    struct mt_fabric_event event;
    side_open(s, false);
    OK(mt_fabric_cq_create(s->context, DEPTH, NULL, &small));
    struct mt_fabric_qp_options o = rc_options(s);
    o.send_cq = small;
    o.send_depth = SENDS;
    s->qp = connect_with(s, &o);
    struct mt_fabric_mr *mr = registered(s, 4096);
    for (uint64_t i = 0; i < SENDS; i++) {
        post_receive(s, s->qp, i, piece(mr, 0, 8));
    }
    meet(s);
    struct mt_fabric_piece p = piece(mr, 64, 8);
    struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p};
    for (int i = 0; i < SENDS && s->rank == 0; i++) {
        post(s, s->qp, &work);
    }
    while (s->rank == 0 &&
           mt_fabric_event_take(s->context, &event) != MT_OK) {
        struct mt_fabric_completion none;
        mt_fabric_poll(s->receive_cq, &none, 1);
        waiting(s);
    }
    if (s->rank == 0) {
        EQ(event.kind, MT_FABRIC_EVENT_CQ_OVERRUN);
        CHECK(event.cq == small);
    }
    meet(s);
    OK(mt_fabric_qp_destroy(s->qp));
    s->qp = NULL;
    OK(mt_fabric_cq_destroy(small));
    release(mr);
    side_close(s);
}

const struct test tests_events[] = {
    {"event for the next completion", next_event, needs_events},
    {"event for a solicited completion", solicited, needs_events},
    {"event of a read", read_event, needs_read},
    {"event ping-pong", ping_pong, needs_events},
    {"event behind a full queue", behind_full, needs_flag},
    {"event behind many writes", behind_writes, needs_flag},
    {"many events at once", many_fire, needs_events},
    {"completion queue overrun", cq_overrun, NULL},
    {NULL, NULL, NULL},
};

const struct test tests_links[] = {
    {"link down and up", link_down, NULL},
    {NULL, NULL, NULL},
};
