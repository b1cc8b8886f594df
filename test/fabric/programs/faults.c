/* faults.c: what a fault script does, and that a named error or the right result
 * comes of it in bounded time. Each test is run with the script of its name
 * (testdata/). Those of datagrams are in faults_ud.c. */
#include <poll.h>

#include "harness.h"

enum { BYTES = 64, RECEIVES = 64 };

static struct mt_fabric_send send_of(uint64_t id, const struct mt_fabric_piece *p)
{
    return (struct mt_fabric_send){.id = id,
                                   .opcode = MT_FABRIC_SEND,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = p};
}

/* ---- break ---- */

/* Sends until the queue pair breaks, which it does while the peer has receives;
 * returns how many went. */
static uint64_t send_until_broken(struct side *s, const struct mt_fabric_mr *mr)
{
    for (uint64_t sent = 0;; sent++) {
        struct mt_fabric_piece p = piece(mr, 0, BYTES);
        struct mt_fabric_send work = send_of(sent, &p);
        CHECK(sent < RECEIVES);
        fill(mr->address, BYTES, sent);
        post(s, s->qp, &work);
        struct mt_fabric_completion c = next(s, s->send_cq);
        EQ(c.id, sent);
        if (c.status != MT_OK) {
            EQ(c.status, MT_EFLUSHED);
            EQ(mt_fabric_qp_state(s->qp), MT_FABRIC_QP_ERROR);
            return sent;
        }
        moved();
    }
}

/* Takes what comes until the connection is over; returns how many came. Over verbs
 * only who has something to send is told that it is over, hence a SEND for which
 * there never is a receive. */
static uint64_t receive_until_broken(struct side *s,
                                     const struct mt_fabric_mr *mr)
{
    uint64_t came = 0;
    if (s->caps->waits_for_receive) {
        const struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND};
        post(s, s->qp, &work);
    }
    for (uint64_t i = 0; i < RECEIVES; i++) {
        struct mt_fabric_completion c = next(s, s->receive_cq);
        EQ(c.id, i);
        if (c.status == MT_OK) {
            EQ(came, i);
            EQ(c.bytes, BYTES);
            CHECK(filled((char *)mr->address + i * BYTES, BYTES, i));
            came++;
        } else {
            CHECK(c.status == MT_EFLUSHED || c.status == MT_EPEER);
        }
    }
    EQ(mt_fabric_qp_state(s->qp), MT_FABRIC_QP_ERROR);
    return came;
}

/* A queue pair that breaks says so at either end, and works again when it was
 * reset. */
static void broken(struct side *s)
{
    enum { LIVES = 3 };
    uint64_t all = 0;
    side_open(s, false);
    struct mt_fabric_qp_options options = rc_options(s);
    options.timeout_ms = 1000; /* each life ends by it, where nothing is told */
    s->qp = connect_with(s, &options);
    struct mt_fabric_mr *mr = registered(s, RECEIVES * BYTES);
    for (int life = 0; life < LIVES; life++) {
        uint64_t mine, theirs;
        for (uint64_t i = 0; i < RECEIVES && s->rank == 1; i++) {
            post_receive(s, s->qp, i, piece(mr, i * BYTES, BYTES));
        }
        meet(s);
        mine = s->rank == 0 ? send_until_broken(s, mr)
                            : receive_until_broken(s, mr);
        struct mt_fabric_event event;
        while (mt_fabric_event_take(s->context, &event) != MT_OK) {
            mt_fabric_poll(s->send_cq, NULL, 0);
            waiting(s);
        }
        EQ(event.kind, MT_FABRIC_EVENT_QP_FATAL);
        EQ(event.qp, mt_fabric_qp_number(s->qp));
        swap(s, &mine, &theirs, sizeof(mine));
        EQ(mine, theirs);
        all += mine;
        OK(mt_fabric_qp_reset(s->qp));
        struct mt_fabric_address here = {0}, there;
        OK(mt_fabric_qp_address(s->qp, &here));
        swap(s, &here, &there, sizeof(here));
        OK(mt_fabric_qp_connect(s->qp, &there));
    }
    CHECK(all > 0);
    release(mr);
    side_close(s);
}

/* ---- die ---- */

/* Rank 1 is killed by its own script in the middle of what it sends. */
static void died(struct side *s)
{
    enum { POSTINGS = 50 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, RECEIVES * BYTES);
    for (uint64_t i = 0; i < RECEIVES && s->rank == 0; i++) {
        post_receive(s, s->qp, i, piece(mr, i * BYTES, BYTES));
    }
    meet(s);
    for (uint64_t i = 0; s->rank == 1; i++) {
        struct mt_fabric_piece p = piece(mr, 0, BYTES);
        struct mt_fabric_send work = send_of(i, &p);
        if (i == POSTINGS) {
            FAIL("alive after %d postings", POSTINGS);
        }
        fill(mr->address, BYTES, i);
        post(s, s->qp, &work);
        next_ok(s, s->send_cq);
    }
    uint64_t came = receive_until_broken(s, mr);
    CHECK(came < POSTINGS);
    release(mr);
    side_close_alone(s);
}

/* ---- lose ---- */

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* Nothing completes any more, and what asks the device fails. */
static void is_gone(struct side *s, const struct mt_fabric_send *work)
{
    struct mt_fabric_completion c;
    struct mt_fabric_mr *mr;
    static uint8_t memory[BYTES];
    for (int i = 0; i < 1000; i++) {
        enum mt_status status = mt_fabric_post_send(s->qp, work);
        CHECK(status == MT_OK || status == MT_EAGAIN);
        EQ(mt_fabric_poll(s->send_cq, &c, 1), 0);
        EQ(mt_fabric_poll(s->receive_cq, &c, 1), 0);
    }
    EQ(mt_fabric_mr_register(s->pd, memory, BYTES, 0, &mr), MT_EIO);
    EQ(mt_fabric_qp_fail(s->qp), MT_EIO);
    EQ(mt_fabric_qp_reset(s->qp), MT_EIO);
}

/* Rank 1 loses its device in the middle of what it sends, and is told so once;
 * the other one finds a connection that is broken. */
static void lost(struct side *s)
{
    enum { POSTINGS = 50 };
    struct mt_fabric_event event;
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, RECEIVES * BYTES);
    struct mt_fabric_piece p = piece(mr, 0, BYTES);
    struct mt_fabric_send work = send_of(0, &p);
    for (uint64_t i = 0; i < RECEIVES && s->rank == 0; i++) {
        post_receive(s, s->qp, i, piece(mr, i * BYTES, BYTES));
    }
    meet(s);
    for (uint64_t i = 0; i < POSTINGS - 1 && s->rank == 1; i++) {
        fill(mr->address, BYTES, i);
        post(s, s->qp, &work);
        next_ok(s, s->send_cq);
    }
    if (s->rank == 1) {
        int fd = mt_fabric_event_fd(s->context);
        CHECK(fd >= 0 && !readable(fd));
        post(s, s->qp, &work);
        CHECK(readable(fd));
        EQ(mt_fabric_event_take(s->context, &event), MT_OK);
        EQ(event.kind, MT_FABRIC_EVENT_DEVICE_FATAL);
        EQ(mt_fabric_event_take(s->context, &event), MT_EAGAIN);
        CHECK(!readable(fd));
        is_gone(s, &work);
    } else {
        EQ(receive_until_broken(s, mr), POSTINGS - 1);
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* ---- register ---- */

/* A registration that fails says MT_ENOMEM and leaves nothing behind; tried
 * again, it works. */
static void unregistered(struct side *s)
{
    enum {
        N = 30,
        ACCESS = MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE |
                 MT_FABRIC_REMOTE_READ
    };
    static uint8_t memory[N][BYTES];
    struct mt_fabric_mr *mrs[N];
    uint32_t refused = 0;
    side_open(s, false);
    side_connect(s);
    for (uint64_t i = 0; i < N; i++) {
        enum mt_status status;
        while ((status = i % 2 == 0
                             ? mt_fabric_mr_register(s->pd, memory[i], BYTES,
                                                     ACCESS, &mrs[i])
                             : mt_fabric_mr_allocate(s->pd, BYTES, ACCESS,
                                                     &mrs[i])) != MT_OK) {
            EQ(status, MT_ENOMEM);
            CHECK(++refused < 1000);
        }
    }
    CHECK(refused > 0);
    for (uint64_t i = 0; i < N; i++) {
        struct mt_fabric_piece p = piece(mrs[i], 0, BYTES);
        struct mt_fabric_send work = send_of(i, &p);
        if (s->rank == 1) {
            post_receive(s, s->qp, i, p);
        }
        meet(s);
        if (s->rank == 0) {
            fill(mrs[i]->address, BYTES, i);
            post(s, s->qp, &work);
            next_ok(s, s->send_cq);
        } else {
            EQ(next_ok(s, s->receive_cq).bytes, BYTES);
            CHECK(filled(mrs[i]->address, BYTES, i));
        }
        meet(s);
    }
    for (uint64_t i = 0; i < N; i++) {
        OK(mt_fabric_mr_destroy(mrs[i]));
    }
    side_close(s); /* the domain goes: no region is left in it */
}

/* ---- event ---- */

/* Who sleeps no longer than a while, and then arms and looks again, gets all
 * completions, whether their events were lost or not. */
static void eventless(struct side *s)
{
    enum { N = 24, WHILE_MS = 20 };
    uint32_t events = 0, looks = 0;
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, BYTES);
    for (uint64_t i = 0; i < N; i++) {
        struct mt_fabric_piece p = piece(mr, 0, BYTES);
        struct mt_fabric_send work = send_of(i, &p);
        struct mt_fabric_completion c;
        if (s->rank == 1) {
            post_receive(s, s->qp, i, p);
            OK(mt_fabric_cq_arm(s->receive_cq, false));
        }
        meet(s);
        if (s->rank == 0) {
            fill(mr->address, BYTES, i);
            post(s, s->qp, &work);
            next_ok(s, s->send_cq);
            meet(s);
            continue;
        }
        for (bool came = false; !came;) {
            bool event = sleep_on(s, WHILE_MS) != NULL;
            events += event;
            looks += !event;
            OK(mt_fabric_cq_arm(s->receive_cq, false));
            came = took(s->receive_cq, &c);
            waiting(s);
        }
        EQ(c.id, i);
        CHECK(filled(mr->address, BYTES, i));
        meet(s);
    }
    CHECK(s->rank == 0 || (events > 0 && looks > 0));
    release(mr);
    side_close(s);
}

/* ---- rate ---- */

/* On a slow link, whoever posted sleeps until each message is through, and is
 * woken for what the link is only then free for; nothing is through sooner than
 * the link can carry it. */
static void paced(struct side *s)
{
    enum { N = 12, SIZE = 4000, BITS_PER_MS = 2000 };
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, SIZE);
    for (uint64_t i = 0; i < N; i++) {
        post_receive(s, s->qp, i, piece(mr, 0, SIZE));
    }
    meet(s);
    uint64_t began = now_ms();
    struct mt_fabric_piece p = piece(mr, 0, SIZE);
    for (uint64_t i = 0; i < N && s->rank == 0; i++) {
        struct mt_fabric_send work = send_of(i, &p);
        post(s, s->qp, &work);
    }
    for (uint64_t i = 0; i < N; i++) {
        struct mt_fabric_cq *cq = s->rank == 0 ? s->send_cq : s->receive_cq;
        struct mt_fabric_completion c;
        OK(mt_fabric_cq_arm(cq, false));
        while (!took(cq, &c)) {
            CHECK(sleep_on(s, (int)s->setting->limit_ms) == cq);
            OK(mt_fabric_cq_arm(cq, false));
        }
        EQ(c.status, MT_OK);
        EQ(c.id, i);
        CHECK(s->rank == 1 || /* began within a millisecond */
              now_ms() - began + 1 >= (i + 1) * SIZE * 8 / BITS_PER_MS);
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* ---- starve ---- */

/* Completions of receives come late, all of them and in order. Who posts receives
 * only for those that completed lets a sender without credits wait. */
static void starved(struct side *s)
{
    enum { POLLS = 300, FEW = 4, N = 40 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, N * BYTES);
    uint64_t receives =
        s->rank == 1 && s->caps->waits_for_receive ? FEW : N;
    for (uint64_t i = 0; i < receives && s->rank == 1; i++) {
        post_receive(s, s->qp, i, piece(mr, i * BYTES, BYTES));
    }
    meet(s);
    for (uint64_t i = 0; i < N && s->rank == 0; i++) {
        struct mt_fabric_piece p = piece(mr, i * BYTES, BYTES);
        struct mt_fabric_send work = send_of(i, &p);
        fill(p.address, BYTES, i);
        post(s, s->qp, &work);
    }
    uint64_t polls = 0, spans = 0;
    for (uint64_t i = 0; i < N && s->rank == 1; i++) {
        struct mt_fabric_completion c;
        uint64_t before = polls;
        while (!took(s->receive_cq, &c)) {
            polls++;
            waiting(s);
        }
        spans += polls - before >= POLLS;
        EQ(c.status, MT_OK);
        EQ(c.id, i);
        CHECK(filled((char *)mr->address + i * BYTES, BYTES, i));
        if (receives < N) {
            post_receive(s, s->qp, receives, piece(mr, receives * BYTES, BYTES));
            receives++;
        }
    }
    CHECK(s->rank == 0 || spans > 0);
    /* few receives and a span for those that were there: they ran out */
    CHECK(s->rank == 0 || !s->caps->waits_for_receive ||
          spans >= N / FEW);
    for (uint64_t i = 0; i < N && s->rank == 0; i++) {
        EQ(next_ok(s, s->send_cq).id, i);
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* ---- delay ---- */

/* Work is begun late, and what was posted behind it on the same queue pair later
 * still: in order, and all of it. */
static void delayed(struct side *s)
{
    enum { POLLS = 1000, AT_ONCE = 8, N = 40 };
    uint64_t spans = 0;
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, N * BYTES);
    for (uint64_t i = 0; i < N && s->rank == 1; i++) {
        post_receive(s, s->qp, i, piece(mr, i * BYTES, BYTES));
    }
    meet(s);
    for (uint64_t i = 0; i < N && s->rank == 0; i++) {
        uint64_t polls = 0;
        for (uint64_t n = i; n < i + AT_ONCE && i % AT_ONCE == 0; n++) {
            struct mt_fabric_piece p = piece(mr, n * BYTES, BYTES);
            struct mt_fabric_send work = send_of(n, &p);
            fill(p.address, BYTES, n);
            OK(mt_fabric_post_send(s->qp, &work));
        }
        struct mt_fabric_completion c;
        while (!took(s->send_cq, &c)) {
            polls++;
            waiting(s);
        }
        EQ(c.status, MT_OK);
        EQ(c.id, i);
        spans += polls + AT_ONCE >= POLLS; /* each posting is a turn as well */
    }
    for (uint64_t i = 0; i < N && s->rank == 1; i++) {
        EQ(next_ok(s, s->receive_cq).id, i);
        CHECK(filled((char *)mr->address + i * BYTES, BYTES, i));
    }
    CHECK(s->rank == 1 || spans > 0);
    release(mr);
    side_close(s);
}

/* ---- full ---- */

/* Posting to a queue that has room finds it full, and nothing is posted then:
 * tried again, each message goes once. */
static void filled_up(struct side *s)
{
    enum { N = 40 };
    uint64_t refused = 0;
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, (N + 1) * BYTES);
    for (uint64_t i = 0; i <= N && s->rank == 1; i++) {
        post_receive(s, s->qp, i, piece(mr, i * BYTES, BYTES));
    }
    meet(s);
    for (uint64_t i = 0; i < N && s->rank == 0; i++) {
        struct mt_fabric_piece p = piece(mr, i * BYTES, BYTES);
        struct mt_fabric_send work = send_of(i, &p);
        enum mt_status status;
        fill(p.address, BYTES, i);
        while ((status = mt_fabric_post_send(s->qp, &work)) != MT_OK) {
            EQ(status, MT_EAGAIN);
            CHECK(++refused < 1000);
        }
        EQ(next_ok(s, s->send_cq).id, i); /* the queue is empty again */
    }
    for (uint64_t i = 0; i < N && s->rank == 1; i++) {
        EQ(next_ok(s, s->receive_cq).id, i);
        CHECK(filled((char *)mr->address + i * BYTES, BYTES, i));
    }
    CHECK(s->rank == 1 || refused > 0);
    meet(s);
    quiet(s, s->receive_cq, 20); /* and not one more */
    release(mr);
    side_close(s);
}

const struct test tests_faults[] = {
    {"fault break", broken, NULL},
    {"fault die", died, NULL},
    {"fault lose", lost, NULL},
    {"fault register", unregistered, NULL},
    {"fault event", eventless, needs_events},
    {"fault rate", paced, needs_events},
    {"fault starve", starved, NULL},
    {"fault delay", delayed, NULL},
    {"fault full", filled_up, NULL},
    {NULL, NULL, NULL},
};
