/* datagrams.c: UD queue pairs. A datagram may be lost; none is changed, cut or
 * credited to another. */
#include "harness.h"

static struct mt_fabric_ah *ud_connect(struct side *s)
{
    struct mt_fabric_qp_options options = ud_options(s);
    struct mt_fabric_address mine = {0}, theirs;
    struct mt_fabric_ah *ah;
    OK(mt_fabric_qp_create(s->pd, &options, &s->qp));
    OK(mt_fabric_qp_connect(s->qp, NULL));
    OK(mt_fabric_qp_address(s->qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_ah_create(s->pd, &theirs, &ah));
    return ah;
}

static void send_to(struct side *s, struct mt_fabric_ah *ah, uint64_t id,
                    struct mt_fabric_piece p)
{
    struct mt_fabric_send work = {.id = id,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .ah = ah};
    post(s, s->qp, &work);
    struct mt_fabric_completion c = next_ok(s, s->send_cq);
    EQ(c.id, id);
}

/* Every size, answered to where it came from. */
static void echo(struct side *s)
{
    side_open(s, false);
    struct mt_fabric_ah *ah = ud_connect(s);
    size_t head = s->caps->ud_headroom, most = s->caps->ud_payload;
    struct mt_fabric_mr *in = registered(s, head + most);
    struct mt_fabric_mr *out = registered(s, most);
    size_t sizes[] = {0, 1, 8, 100, 1000, most};
    struct mt_fabric_source first = {{0}};
    for (size_t i = 0; i < 6; i++) {
        size_t n = sizes[i];
        post_receive(s, s->qp, i, piece(in, 0, head + most));
        meet(s);
        if (s->rank == 0) {
            fill(out->address, n, i);
            send_to(s, ah, i, piece(out, 0, n));
        }
        struct mt_fabric_completion c = next_ok(s, s->receive_cq);
        EQ(c.id, i);
        EQ(c.bytes, head + n);
        CHECK(filled((char *)in->address + head, n, i));
        CHECK(i == 0 || memcmp(&first, &c.source, sizeof(first)) == 0);
        first = c.source;
        if (s->rank == 1) {
            struct mt_fabric_ah *back;
            OK(mt_fabric_ah_create_source(s->pd, &c.source, &back));
            memcpy(out->address, (char *)in->address + head, n);
            send_to(s, back, i, piece(out, 0, n));
            OK(mt_fabric_ah_destroy(back));
        }
        meet(s);
    }
    OK(mt_fabric_ah_destroy(ah));
    release(in);
    release(out);
    side_close(s);
}

/* Beyond the limit nothing is sent; without a handle neither. */
static void refused(struct side *s)
{
    side_open(s, false);
    struct mt_fabric_ah *ah = ud_connect(s);
    struct mt_fabric_mr *mr = registered(s, s->caps->ud_payload + 1);
    struct mt_fabric_piece p = piece(mr, 0, s->caps->ud_payload + 1);
    struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .ah = ah};
    EQ(mt_fabric_post_send(s->qp, &work), MT_EINVAL);
    p.bytes = 8;
    work.ah = NULL;
    EQ(mt_fabric_post_send(s->qp, &work), MT_EINVAL);
    work.ah = ah;
    if ((s->caps->ud_operations & MT_FABRIC_WRITE) == 0) {
        work.opcode = MT_FABRIC_WRITE;
        EQ(mt_fabric_post_send(s->qp, &work), MT_ENOTSUP);
    }
    meet(s);
    OK(mt_fabric_ah_destroy(ah));
    release(mr);
    side_close(s);
}

/* Sends it again where it does not complete: a queue pair of Soft-RoCE may stop in a
 * flood, until something is posted behind (docs/design/0008-verbs.md). */
static void send_reminding(struct side *s, struct mt_fabric_ah *ah, uint64_t id,
                           struct mt_fabric_piece p)
{
    struct mt_fabric_send work = {.id = id,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .ah = ah};
    unsigned posted = 1, done = 0;
    uint64_t until = now_ms() + 1000;
    post(s, s->qp, &work);
    while (done < posted) {
        struct mt_fabric_completion c;
        if (took(s->send_cq, &c)) {
            EQ(c.status, MT_OK);
            EQ(c.id, id);
            done++;
        } else if (done == 0 && now_ms() > until) {
            CHECK(strcmp(mt_fabric_query(s->context)->provider, "verbs") == 0);
            post(s, s->qp, &work);
            posted++;
            until = now_ms() + 1000;
        } else {
            waiting(s);
        }
    }
}

/* More than the receiver takes: some are lost, the others are whole, and the
 * sender completes all. Then it works again. */
static void overrun(struct side *s)
{
    enum { N = 5000, SLOTS = 64 };
    side_open(s, false);
    struct mt_fabric_ah *ah = ud_connect(s);
    size_t head = s->caps->ud_headroom, n = 500;
    struct mt_fabric_mr *mr = registered(s, SLOTS * (head + n));
    if (s->rank == 1) {
        for (uint64_t i = 0; i < SLOTS; i++) {
            post_receive(s, s->qp, i, piece(mr, i * (head + n), head + n));
        }
    }
    meet(s);
    if (s->rank == 0) {
        for (uint64_t i = 0; i < N; i++) {
            fill(mr->address, n, i);
            memcpy(mr->address, &i, sizeof(i));
            send_reminding(s, ah, i, piece(mr, 0, n));
        }
        meet(s);
        uint64_t last = UINT64_MAX;
        fill(mr->address, n, last);
        memcpy(mr->address, &last, sizeof(last));
        /* a lost one is sent again, until the other says that it has it */
        char got = 0;
        for (int tries = 0; got == 0; tries++) {
            CHECK(tries < 1000);
            send_to(s, ah, 1, piece(mr, 0, n));
            char mine = 0;
            swap(s, &mine, &got, 1);
        }
    } else {
        uint64_t came = 0, until = 0;
        char met = 0, done = 0;
        while (!done) {
            struct mt_fabric_completion c;
            if (took(s->receive_cq, &c)) {
                uint64_t number;
                char *at = (char *)mr->address + c.id * (head + n) + head;
                EQ(c.status, MT_OK);
                EQ(c.bytes, head + n);
                memcpy(&number, at, sizeof(number));
                fill(at, sizeof(number), number);
                CHECK(filled(at, n, number));
                came++;
                done = number == UINT64_MAX;
                post_receive(s, s->qp, c.id,
                             piece(mr, c.id * (head + n), head + n));
                until = now_ms() + 50;
            } else if (!met) {
                meet(s);
                met = 1;
                until = now_ms() + 50;
            } else if (now_ms() > until) {
                char theirs;
                swap(s, &done, &theirs, 1);
                until = now_ms() + 50;
            }
        }
        CHECK(came > 0 && came <= N + 100);
        char theirs;
        swap(s, &done, &theirs, 1);
    }
    meet(s);
    OK(mt_fabric_ah_destroy(ah));
    release(mr);
    side_close(s);
}

const struct test tests_datagrams[] = {
    {"datagram echo", echo, needs_ud},
    {"datagram refused", refused, needs_ud},
    {"datagram overrun", overrun, needs_ud},
    {NULL, NULL, NULL},
};
