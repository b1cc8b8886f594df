/* errors.c: what goes wrong gives an error with a name, at the side that has to
 * know, and nothing else. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "harness.h"

static struct mt_fabric_send one_sided(enum mt_fabric_opcode opcode,
                                       const struct mt_fabric_piece *p,
                                       uint64_t address, uint32_t rkey)
{
    return (struct mt_fabric_send){.id = 5,
                                   .opcode = opcode,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = p,
                                   .remote_address = address,
                                   .rkey = rkey};
}

static void await_error(struct side *s)
{
    struct mt_fabric_completion none;
    while (mt_fabric_qp_state(s->qp) != MT_FABRIC_QP_ERROR) {
        mt_fabric_poll(s->send_cq, &none, 0);
        waiting(s);
    }
}

/* A fresh connection, an access that must fail, and nothing written. */
static void expect_denied(struct side *s, enum mt_fabric_opcode opcode,
                          struct remote r, size_t bytes)
{
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, bytes);
    if (s->rank == 0) {
        struct mt_fabric_piece p = piece(mr, 0, bytes);
        struct mt_fabric_send work = one_sided(opcode, &p, r.address, r.rkey);
        post(s, s->qp, &work);
        struct mt_fabric_completion c = next(s, s->send_cq);
        EQ(c.id, 5);
        /* a WRITE may complete when it is on its way */
        CHECK(c.status == MT_EACCESS ||
              (c.status == MT_OK && opcode == MT_FABRIC_WRITE));
        await_error(s);
        /* what is posted now is flushed */
        post(s, s->qp, &work);
        EQ(next(s, s->send_cq).status, MT_EFLUSHED);
    }
    meet(s);
    OK(mt_fabric_qp_destroy(s->qp));
    s->qp = NULL;
    release(mr);
}

static void denied(struct side *s)
{
    enum { SIZE = 4096 };
    side_open(s, false);
    struct mt_fabric_mr *mr = registered(s, SIZE), *other;
    memset(mr->address, 0xee, SIZE);
    struct remote there = remote_of(s, mr), wrong = there;
    wrong.rkey ^= 0x40000;
    expect_denied(s, MT_FABRIC_WRITE, wrong, 100);
    expect_denied(s, MT_FABRIC_READ, wrong, 100);
    wrong = there;
    wrong.address += SIZE - 50; /* beyond the end */
    expect_denied(s, MT_FABRIC_WRITE, wrong, 100);
    wrong.address = there.address - 1;
    expect_denied(s, MT_FABRIC_READ, wrong, 100);
    void *page = NULL;
    CHECK(posix_memalign(&page, SIZE, SIZE) == 0);
    OK(mt_fabric_mr_register(s->pd, page, SIZE, MT_FABRIC_LOCAL_WRITE, &other));
    struct remote local_only = remote_of(s, other);
    expect_denied(s, MT_FABRIC_WRITE, local_only, 100);
    expect_denied(s, MT_FABRIC_READ, local_only, 100);
    OK(mt_fabric_mr_destroy(other));
    free(page);
    for (size_t i = 0; i < SIZE; i++) {
        EQ(((uint8_t *)mr->address)[i], 0xee);
    }
    meet(s);
    release(mr);
    /* the key of memory that is not registered any more */
    expect_denied(s, MT_FABRIC_WRITE, there, 100);
    side_close(s);
}

/* Carries the device's work out until the other has come to the next meet(). */
static void await_other(struct side *s)
{
    struct pollfd wire = {.fd = s->wire, .events = POLLIN};
    while (poll(&wire, 1, 0) == 0) {
        mt_fabric_poll(s->receive_cq, NULL, 0);
        waiting(s);
    }
    meet(s);
}

/* Memory that its owner takes back while the other side writes to it: from then on
 * it is the owner's alone. */
static void taken_back(struct side *s)
{
    enum { SIZE = 1 << 18, ROUNDS = 15, MOST_SPINS = 20000 };
    uint64_t random = s->setting->seed + 1;
    side_open(s, false);
    for (int i = 0; i < ROUNDS; i++) {
        side_connect(s);
        struct mt_fabric_mr *mine = registered(s, SIZE), *mr;
        uint8_t *memory = malloc(SIZE);
        CHECK(memory != NULL);
        memset(memory, 0, SIZE);
        memset(mine->address, 0xaa, SIZE);
        OK(mt_fabric_mr_register(s->pd, memory, SIZE,
                                 MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE,
                                 &mr));
        struct remote there = remote_of(s, mr);
        uint64_t spins = random_next(&random) % MOST_SPINS;
        if (s->rank == 0) {
            struct mt_fabric_piece p = piece(mine, 0, SIZE);
            struct mt_fabric_send work =
                one_sided(MT_FABRIC_WRITE, &p, there.address, there.rkey);
            post(s, s->qp, &work);
            next_ok(s, s->send_cq);
            meet(s);
            do {
                post(s, s->qp, &work);
            } while (next(s, s->send_cq).status == MT_OK);
            await_error(s);
            meet(s);
        } else {
            await_other(s);
            for (uint64_t n = 0; n < spins; n++) {
                mt_fabric_poll(s->receive_cq, NULL, 0);
            }
            OK(mt_fabric_mr_destroy(mr));
            memset(memory, 0x55, SIZE);
            await_other(s);
        }
        OK(mt_fabric_qp_destroy(s->qp));
        s->qp = NULL;
        if (s->rank == 1) {
            for (size_t k = 0; k < SIZE; k++) {
                EQ(memory[k], 0x55);
            }
        } else {
            OK(mt_fabric_mr_destroy(mr));
        }
        free(memory);
        release(mine);
    }
    side_close(s);
}

/* A message that is longer than the receive. */
static void truncated(struct side *s)
{
    static const size_t sizes[] = {200, 30000};
    side_open(s, false);
    for (int i = 0; i < 2; i++) {
        side_connect(s);
        struct mt_fabric_mr *mr = registered(s, 1 << 16);
        memset(mr->address, 0xee, 1 << 16);
        if (s->rank == 1) {
            post_receive(s, s->qp, 3, piece(mr, 0, 100));
            meet(s);
            struct mt_fabric_completion c = next(s, s->receive_cq);
            EQ(c.id, 3);
            EQ(c.status, MT_ETRUNCATED);
            EQ(((uint8_t *)mr->address)[100], 0xee);
        } else {
            struct mt_fabric_piece p = piece(mr, 0, sizes[i]);
            struct mt_fabric_send work = {.id = 4,
                                          .opcode = MT_FABRIC_SEND,
                                          .flags = MT_FABRIC_SIGNALED,
                                          .piece_count = 1,
                                          .pieces = &p};
            meet(s);
            post(s, s->qp, &work);
            /* a provider that completes when the data is on its way cannot know */
            struct mt_fabric_completion c = next(s, s->send_cq);
            CHECK(c.status == MT_OK || c.status == MT_ETRUNCATED ||
                  c.status == MT_EPEER);
        }
        await_error(s);
        meet(s);
        OK(mt_fabric_qp_destroy(s->qp));
        s->qp = NULL;
        release(mr);
    }
    side_close(s);
}

/* Arguments and states that are refused, and change nothing. */
static void refused(struct side *s)
{
    struct mt_fabric_context *none;
    struct mt_fabric_mr *mr;
    struct mt_fabric_cq *cq;
    struct mt_fabric_qp *qp;
    side_open(s, false);
    EQ(mt_fabric_open("no such device", NULL, &none), MT_ENODEVICE);
    EQ(mt_fabric_mr_register(s->pd, s, 0, MT_FABRIC_LOCAL_WRITE, &mr), MT_EINVAL);
    EQ(mt_fabric_mr_register(s->pd, s, 8, MT_FABRIC_REMOTE_WRITE, &mr),
       MT_EINVAL);
    EQ(mt_fabric_mr_register(s->pd, s, 8, 1024, &mr), MT_EINVAL);
    EQ(mt_fabric_cq_create(s->context, 0, NULL, &cq), MT_EINVAL);
    EQ(mt_fabric_cq_arm(s->send_cq, false), MT_ESTATE);
    struct mt_fabric_qp_options o = rc_options(s);
    o.port = 99;
    EQ(mt_fabric_qp_create(s->pd, &o, &qp), MT_EINVAL);
    o = rc_options(s);
    o.pieces = s->caps->max_pieces + 1;
    EQ(mt_fabric_qp_create(s->pd, &o, &qp), MT_EINVAL);
    o = rc_options(s);
    OK(mt_fabric_qp_create(s->pd, &o, &qp));
    EQ(mt_fabric_qp_state(qp), MT_FABRIC_QP_INIT);
    uint64_t word = 0;
    struct mt_fabric_piece p = {&word, 8, 0};
    struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND, .piece_count = 1,
                                  .pieces = &p};
    EQ(mt_fabric_post_send(qp, &work), MT_ESTATE);
    struct mt_fabric_address wrong = {.bytes = 100};
    EQ(mt_fabric_qp_connect(qp, NULL), MT_EINVAL);
    EQ(mt_fabric_qp_connect(qp, &wrong), MT_EINVAL);
    wrong.bytes = 3;
    EQ(mt_fabric_qp_connect(qp, &wrong), MT_EINVAL);
    /* of this provider, another version: the word behind the name */
    struct mt_fabric_address old;
    OK(mt_fabric_qp_address(qp, &old));
    old.data[4] ^= 0x7f;
    EQ(mt_fabric_qp_connect(qp, &old), MT_EVERSION);
    EQ(mt_fabric_qp_state(qp), MT_FABRIC_QP_INIT);
    EQ(mt_fabric_pd_destroy(s->pd), MT_ESTATE);
    EQ(mt_fabric_cq_destroy(s->send_cq), MT_ESTATE);
    EQ(mt_fabric_close(s->context), MT_ESTATE);
    OK(mt_fabric_qp_destroy(qp));
    side_close(s);
}

/* Failed by its owner: everything posted comes back, once, and there is an
 * event; the other side learns of it. */
static void failed(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    for (uint64_t i = 0; i < 10; i++) {
        post_receive(s, s->qp, i, piece(mr, 0, 64));
    }
    meet(s);
    if (s->rank == 0) {
        OK(mt_fabric_qp_fail(s->qp));
        EQ(mt_fabric_qp_state(s->qp), MT_FABRIC_QP_ERROR);
    }
    meet(s); /* what is sent from here on comes too late */
    for (uint64_t i = 0; i < 10; i++) {
        struct mt_fabric_completion c;
        if (s->rank == 1 && i == 0) {
            /* on a real device only a send finds out; one that completes when
             * the data is on its way does not know */
            struct mt_fabric_piece p = piece(mr, 0, 8);
            struct mt_fabric_send work = {.id = 1,
                                          .opcode = MT_FABRIC_SEND,
                                          .flags = MT_FABRIC_SIGNALED,
                                          .piece_count = 1,
                                          .pieces = &p};
            post(s, s->qp, &work);
            c = next(s, s->send_cq);
            CHECK(c.status == MT_OK || c.status == MT_EPEER ||
                  c.status == MT_EFLUSHED);
        }
        c = next(s, s->receive_cq);
        EQ(c.id, i);
        EQ(c.status, MT_EFLUSHED);
    }
    struct mt_fabric_event event;
    while (mt_fabric_event_take(s->context, &event) != MT_OK) {
        waiting(s);
    }
    EQ(event.kind, MT_FABRIC_EVENT_QP_FATAL);
    EQ(event.qp, mt_fabric_qp_number(s->qp));
    quiet(s, s->receive_cq, 10);
    meet(s);
    /* reset, it works again */
    OK(mt_fabric_qp_reset(s->qp));
    EQ(mt_fabric_qp_state(s->qp), MT_FABRIC_QP_INIT);
    struct mt_fabric_address mine = {0}, theirs;
    OK(mt_fabric_qp_address(s->qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_qp_connect(s->qp, &theirs));
    post_receive(s, s->qp, 77, piece(mr, 64, 64));
    meet(s);
    struct mt_fabric_piece p = piece(mr, 0, 64);
    struct mt_fabric_send work = {.id = 78,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p};
    post(s, s->qp, &work);
    EQ(next_ok(s, s->send_cq).id, 78);
    EQ(next_ok(s, s->receive_cq).id, 77);
    release(mr);
    side_close(s);
}

/* The other process dies: what is posted comes back with an error. */
static void killed(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 1 << 20);
    if (s->rank == 0) {
        post_receive(s, s->qp, 1, piece(mr, 0, 64));
    }
    meet(s);
    if (s->rank == 1) {
        happens();
        kill(getpid(), SIGKILL);
    }
    struct mt_fabric_piece p = piece(mr, 0, 1 << 20);
    struct mt_fabric_send work = {.id = 2,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p};
    OK(mt_fabric_post_send(s->qp, &work));
    struct mt_fabric_completion c = next(s, s->send_cq);
    EQ(c.id, 2);
    /* a provider that completes when the data is on its way cannot know */
    CHECK(c.status == MT_EPEER || c.status == MT_EFLUSHED ||
          (c.status == MT_OK && !s->caps->waits_for_receive));
    c = next(s, s->receive_cq);
    EQ(c.id, 1);
    CHECK(c.status == MT_EPEER || c.status == MT_EFLUSHED);
    EQ(mt_fabric_qp_state(s->qp), MT_FABRIC_QP_ERROR);
    noticed("a death", death_ms(s));
    release(mr);
    side_close_alone(s);
}

/* ... and how soon that is noticed by one that polls without a pause, or sleeps.
 * On a real device only a send finds out. */
static void killed_watched(struct side *s, bool sleeps)
{
    side_open(s, sleeps);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    struct mt_fabric_completion c = {.status = MT_OK};
    struct mt_fabric_piece p = piece(mr, 0, 64);
    struct mt_fabric_send work = {.id = 2,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p};
    post_receive(s, s->qp, 1, piece(mr, 1024, 64));
    meet(s);
    if (s->rank == 1) {
        usleep(20000); /* the other sleeps by then */
        happens();
        kill(getpid(), SIGKILL);
    }
    OK(mt_fabric_post_send(s->qp, &work));
    uint64_t began = now_ms();
    bool armed = false;
    while (c.id != 1) {
        CHECK(now_ms() - began < s->setting->limit_ms);
        if (mt_fabric_poll(s->receive_cq, &c, 1) == 1 ||
            mt_fabric_poll(s->send_cq, &c, 1) == 1) {
            if (c.id == 2 && c.status == MT_OK && death_ms(s) == 0) {
                OK(mt_fabric_post_send(s->qp, &work)); /* there is no receive */
            }
            continue;
        }
        if (!sleeps) {
            continue;
        }
        if (armed) {
            CHECK(sleep_on(s, (int)s->setting->limit_ms) != NULL);
        } else { /* and look again */
            OK(mt_fabric_cq_arm(s->receive_cq, false));
            OK(mt_fabric_cq_arm(s->send_cq, false));
        }
        armed = !armed;
    }
    noticed(sleeps ? "a death, by who sleeps" : "a death, by who polls",
            death_ms(s));
    CHECK(c.status == MT_EPEER || c.status == MT_EFLUSHED);
    EQ(mt_fabric_qp_state(s->qp), MT_FABRIC_QP_ERROR);
    release(mr);
    side_close_alone(s);
}

static void killed_polled(struct side *s)
{
    killed_watched(s, false);
}

static void killed_asleep(struct side *s)
{
    killed_watched(s, true);
}

/* ... in the middle of a stream of everything: an error, and no hang. */
static void killed_busy(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 1 << 16);
    struct mt_fabric_mr *ring = allocated(s, 1 << 16);
    struct remote there = remote_of(s, ring);
    uint64_t state = s->setting->seed * 977 + 5;
    uint64_t death = now_ms() + random_next(&state) % 40;
    struct mt_fabric_completion c = {.status = MT_OK};
    for (uint64_t i = 0; c.status == MT_OK; i++) {
        static const enum mt_fabric_opcode opcodes[] = {
            MT_FABRIC_SEND, MT_FABRIC_WRITE, MT_FABRIC_READ};
        if (s->rank == 1 && now_ms() >= death) {
            happens();
            kill(getpid(), SIGKILL);
        }
        waiting(s);
        size_t n = random_next(&state) % 20000;
        struct mt_fabric_piece p = piece(mr, 0, n);
        struct mt_fabric_receive receive = {.id = i, .piece_count = 1,
                                            .pieces = &p};
        p.bytes = 1 << 16;
        mt_fabric_post_receive(s->qp, &receive);
        p.bytes = (uint32_t)n;
        uint64_t kind = random_next(&state) % 3;
        kind += kind == 0 && !s->caps->waits_for_receive; /* no SENDs */
        struct mt_fabric_send work =
            one_sided(opcodes[kind], &p, there.address, there.rkey);
        mt_fabric_post_send(s->qp, &work);
        if (!took(s->receive_cq, &c)) {
            mt_fabric_poll(s->send_cq, &c, 1);
        }
    }
    if (s->rank == 1) {
        FAIL("before it died: %s", mt_status_text(c.status));
    }
    /* a kernel may take back memory before queue pairs */
    bool denied = c.status == MT_EACCESS && death_ms(s) == 0;
    if (c.status != MT_EPEER && c.status != MT_EFLUSHED && !denied) {
        FAIL("of a dead peer: %s", mt_status_text(c.status));
    }
    noticed("a death in traffic", death_ms(s));
    OK(mt_fabric_qp_destroy(s->qp));
    s->qp = NULL;
    release(mr); /* what was posted is over */
    OK(mt_fabric_mr_destroy(ring));
    side_close_alone(s);
}

static const char *needs_none_waiting(const struct mt_fabric_caps *caps)
{
    return caps->waits_for_receive ? "a broken stream" : "";
}

/* Where a SEND does not wait for its receive, it breaks the connection. */
static void unexpected(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    struct mt_fabric_piece p = piece(mr, 0, 100);
    struct mt_fabric_send work = {.id = 1,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p};
    if (s->rank == 0) {
        post(s, s->qp, &work);
        EQ(next(s, s->send_cq).id, 1);
    }
    await_error(s);
    meet(s);
    release(mr);
    side_close(s);
}

/* The network between the two is cut by whoever runs this, when rank 0 says so:
 * one that waits for an answer finds out, and one that waits for nothing. */
static void cut_off(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    struct remote there = remote_of(s, mr);
    struct mt_fabric_piece p = piece(mr, 0, 100);
    struct mt_fabric_send work =
        one_sided(MT_FABRIC_READ, &p, there.address, there.rkey);
    post(s, s->qp, &work);
    next_ok(s, s->send_cq);
    post_receive(s, s->qp, 6, p);
    meet(s);
    happens(); /* soon; nobody here can tell the other when */
    if (s->rank == 0) {
        char line[8];
        printf("cut now\n");
        fflush(stdout);
        CHECK(fgets(line, sizeof(line), stdin) != NULL);
        happens(); /* it was just cut */
        post(s, s->qp, &work);
        struct mt_fabric_completion c = next(s, s->send_cq);
        EQ(c.id, 5);
        EQ(c.status, MT_EPEER);
    }
    EQ(next(s, s->receive_cq).status, MT_EFLUSHED);
    noticed(s->rank == 0 ? "a cut, by who waits for an answer"
                         : "a cut, by who waits for nothing",
            10 * rc_options(s).timeout_ms);
    EQ(mt_fabric_qp_state(s->qp), MT_FABRIC_QP_ERROR);
    release(mr);
    side_close_alone(s);
}

const struct test tests_errors[] = {
    {"access denied", denied, NULL},
    {"memory taken back", taken_back, NULL},
    {"truncated", truncated, NULL},
    {"refused", refused, NULL},
    {"failed and reset", failed, NULL},
    {"peer killed", killed, NULL},
    {"peer killed while it is polled", killed_polled, NULL},
    {"peer killed while the other sleeps", killed_asleep, needs_events},
    {"peer killed in traffic", killed_busy, NULL},
    {"send without a receive", unexpected, needs_none_waiting},
    {NULL, NULL, NULL},
};

const struct test tests_apart[] = {
    {"peer cut off", cut_off, NULL},
    {NULL, NULL, NULL},
};
