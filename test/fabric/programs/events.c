/* events.c: completion channels: one event for an armed queue, solicited or not,
 * and none otherwise. */
#include <poll.h>

#include "harness.h"

static const char *needs_events(const struct mt_fabric_caps *caps)
{
    return caps->events ? "" : "completion channels";
}

/* Sleeps on the channel until a queue has fired, NULL: not in that time. */
static struct mt_fabric_cq *sleep_on(struct side *s, int ms)
{
    uint64_t until = now_ms() + (uint64_t)ms;
    for (;;) {
        struct mt_fabric_cq *cq;
        if (mt_fabric_channel_take(s->channel, &cq) == MT_OK) {
            return cq;
        }
        uint64_t now = now_ms();
        if (now >= until) {
            return NULL;
        }
        struct pollfd fd = {.fd = mt_fabric_channel_fd(s->channel),
                            .events = POLLIN};
        poll(&fd, 1, (int)(until - now));
    }
}

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
            if (mt_fabric_poll(s->receive_cq, &c, 1) == 1) {
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

const struct test tests_events[] = {
    {"event for the next completion", next_event, needs_events},
    {"event for a solicited completion", solicited, needs_events},
    {"event of a read", read_event, needs_read},
    {"event ping-pong", ping_pong, needs_events},
    {NULL, NULL, NULL},
};
