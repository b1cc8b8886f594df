/* messages.c: SEND and receive on connected queue pairs. */
#include "harness.h"

enum { SIGNALED = MT_FABRIC_SIGNALED };

static struct mt_fabric_send send_of(uint64_t id, const struct mt_fabric_piece *p,
                                     uint32_t count, uint32_t flags)
{
    return (struct mt_fabric_send){.id = id,
                                   .opcode = MT_FABRIC_SEND,
                                   .flags = flags,
                                   .piece_count = count,
                                   .pieces = p};
}

/* Messages of many sizes, one at a time, both ways. */
static void sizes(struct side *s)
{
    static const size_t all[] = {0, 1, 8, 24, 25, 63, 64, 65, 100, 256, 257,
                                 1000, 4096, 8191, 8192, 8193, 65536, 100001,
                                 1 << 20};
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *out = registered(s, 1 << 20);
    struct mt_fabric_mr *in = registered(s, (1 << 20) + 64);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        size_t n = all[i];
        memset(in->address, 0xee, in->bytes);
        fill(out->address, n, i + (unsigned)s->rank);
        post_receive(s, s->qp, 100 + i, piece(in, 0, n + 1));
        meet(s);
        struct mt_fabric_piece p = piece(out, 0, n);
        struct mt_fabric_send work = send_of(i, &p, 1, SIGNALED);
        post(s, s->qp, &work);
        struct mt_fabric_completion c = next_ok(s, s->receive_cq);
        EQ(c.id, 100 + i);
        EQ(c.opcode, MT_FABRIC_RECEIVE);
        EQ(c.bytes, n);
        EQ(c.qp, mt_fabric_qp_number(s->qp));
        CHECK(!c.has_immediate);
        CHECK(filled(in->address, n, i + 1 - (unsigned)s->rank));
        EQ(((uint8_t *)in->address)[n], 0xee);
        c = next_ok(s, s->send_cq);
        EQ(c.id, i);
        EQ(c.opcode, MT_FABRIC_SEND);
        meet(s);
    }
    release(out);
    release(in);
    side_close(s);
}

/* Lists of pieces on both sides that do not match each other. */
static void pieces(struct side *s)
{
    static const size_t cuts[2][3] = {{1, 7000, 11}, {6000, 1, 1011}};
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 1 << 16);
    struct mt_fabric_piece list[3];
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        list[i] = piece(mr, at + 100 * (size_t)i, cuts[s->rank][i]);
        if (s->rank == 0) {
            for (size_t k = 0; k < list[i].bytes; k++) {
                ((uint8_t *)list[i].address)[k] = (uint8_t)((at + k) % 251);
            }
        }
        at += cuts[s->rank][i];
    }
    if (s->rank == 0) {
        struct mt_fabric_send work = send_of(1, list, 3, SIGNALED);
        meet(s);
        post(s, s->qp, &work);
        next_ok(s, s->send_cq);
    } else {
        struct mt_fabric_receive work = {.id = 2, .piece_count = 3, .pieces = list};
        OK(mt_fabric_post_receive(s->qp, &work));
        meet(s);
        EQ(next_ok(s, s->receive_cq).bytes, 7012);
        at = 0;
        for (int i = 0; i < 3; i++) {
            for (size_t k = 0; k < list[i].bytes; k++, at++) {
                EQ(((uint8_t *)list[i].address)[k], at % 251);
            }
        }
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* Behind a registered piece one of memory that nobody registered, and that was
 * not there yet when all memory was. */
static void implicit(struct side *s)
{
    enum { HEAD = 40, REST = 20000 };
    struct mt_fabric_mr *all;
    side_open(s, false);
    side_connect(s);
    enum mt_status status = mt_fabric_mr_implicit(s->pd, &all);
    EQ(status, s->caps->implicit ? MT_OK : MT_ENOTSUP);
    struct mt_fabric_mr *mr = registered(s, HEAD + REST);
    char *rest = malloc(REST);
    CHECK(rest != NULL);
    if (status == MT_OK && s->rank == 0) {
        struct mt_fabric_piece list[2] = {
            piece(mr, 0, HEAD),
            {.address = rest, .bytes = REST, .lkey = all->lkey}};
        struct mt_fabric_send work = send_of(1, list, 2, SIGNALED);
        fill(mr->address, HEAD, 1);
        fill(rest, REST, 2);
        meet(s);
        post(s, s->qp, &work);
        next_ok(s, s->send_cq);
    } else if (status == MT_OK) {
        post_receive(s, s->qp, 2, piece(mr, 0, HEAD + REST));
        meet(s);
        EQ(next_ok(s, s->receive_cq).bytes, HEAD + REST);
        CHECK(filled(mr->address, HEAD, 1));
        CHECK(filled((char *)mr->address + HEAD, REST, 2));
    }
    meet(s);
    if (status == MT_OK) {
        OK(mt_fabric_mr_destroy(all));
    }
    free(rest);
    release(mr);
    side_close(s);
}

/* Inline pieces may change at once, whether the message goes or waits. */
static void inlined(struct side *s)
{
    enum { N = 30 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    uint64_t word = 0;
    if (s->rank == 0) {
        struct mt_fabric_piece p = {&word, sizeof(word), 0};
        ready(s);
        for (uint64_t i = 0; i < N; i++) {
            word = 1000 + i;
            struct mt_fabric_send work =
                send_of(i, &p, 1, SIGNALED | MT_FABRIC_INLINE);
            post(s, s->qp, &work);
            word = 0;
        }
        meet(s);
        for (uint64_t i = 0; i < N; i++) {
            EQ(next_ok(s, s->send_cq).id, i);
        }
    } else {
        for (uint64_t i = 0; i < N; i++) {
            post_receive(s, s->qp, i, piece(mr, 8 * i, 8));
        }
        ready(s);
        meet(s);
        for (uint64_t i = 0; i < N; i++) {
            EQ(next_ok(s, s->receive_cq).id, i);
            EQ(((uint64_t *)mr->address)[i], 1000 + i);
        }
    }
    meet(s);
    release(mr);
    side_close(s);
}

static const char *needs_inline(const struct mt_fabric_caps *caps)
{
    return caps->max_inline >= 8 ? "" : "inline data";
}

static const char *needs_waiting(const struct mt_fabric_caps *caps)
{
    return caps->waits_for_receive ? "" : "waiting for a receive";
}

/* A receive that is posted late. */
static void late_receive(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 1 << 17);
    for (size_t n = 100; n <= 1 << 17; n = n * 10 + 31) {
        struct mt_fabric_piece p = piece(mr, 0, n);
        if (s->rank == 0) {
            fill(mr->address, n, n);
            struct mt_fabric_send work = send_of(n, &p, 1, SIGNALED);
            post(s, s->qp, &work);
            meet(s);
            EQ(next_ok(s, s->send_cq).id, n);
        } else {
            quiet(s, s->receive_cq, 20);
            post_receive(s, s->qp, n, p);
            meet(s);
            EQ(next_ok(s, s->receive_cq).bytes, n);
            CHECK(filled(mr->address, n, n));
        }
        meet(s);
    }
    release(mr);
    side_close(s);
}

/* Many messages of changing size, in order, receives always there; the sender
 * asks for a completion now and then only. */
static void stream(struct side *s)
{
    enum { N = 2000, SLOTS = 48, SIZE = 20000 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, SLOTS * SIZE);
    if (s->rank == 0) {
        uint32_t credit = SLOTS;
        ready(s);
        for (uint32_t i = 0; i < N; i++) {
            if (credit == 0) { /* never more than the other has receives for */
                meet(s);
                credit = SLOTS;
            }
            size_t n = (i * 7919u) % (i % 16 == 3 ? SIZE : 300);
            char *at = (char *)mr->address + (i % SLOTS) * SIZE;
            fill(at, n, i);
            struct mt_fabric_piece p = piece(mr, (i % SLOTS) * SIZE, n);
            struct mt_fabric_send work =
                send_of(i, &p, 1, i % 8 == 7 ? SIGNALED : 0);
            post(s, s->qp, &work);
            credit--;
        }
        meet(s);
        for (uint32_t i = 7; i < N; i += 8) {
            EQ(next_ok(s, s->send_cq).id, i);
        }
    } else {
        for (uint32_t i = 0; i < N; i++) {
            if (i % SLOTS == 0) {
                for (uint32_t k = 0; k < SLOTS && i + k < N; k++) {
                    post_receive(s, s->qp, i + k, piece(mr, k * SIZE, SIZE));
                }
                if (i > 0) {
                    meet(s);
                } else {
                    ready(s);
                }
            }
            struct mt_fabric_completion c = next_ok(s, s->receive_cq);
            size_t n = (i * 7919u) % (i % 16 == 3 ? SIZE : 300);
            EQ(c.id, i);
            EQ(c.bytes, n);
            CHECK(filled((char *)mr->address + (i % SLOTS) * SIZE, n, i));
        }
        meet(s);
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* The queue takes send_depth requests, and no more until one was polled. */
static void full_queue(struct side *s)
{
    side_open(s, false);
    struct mt_fabric_qp_options options = rc_options(s);
    options.send_depth = 4;
    s->qp = connect_with(s, &options);
    struct mt_fabric_mr *mr = registered(s, 1 << 20);
    struct mt_fabric_piece p = piece(mr, 0, 1 << 20);
    if (s->rank == 0) {
        struct mt_fabric_send work = send_of(0, &p, 1, SIGNALED);
        enum mt_status status = MT_OK;
        uint32_t posted = 0;
        while (posted < 5 && status == MT_OK) {
            work.id = posted;
            status = mt_fabric_post_send(s->qp, &work);
            posted += status == MT_OK;
        }
        EQ(posted, 4);
        EQ(status, MT_EAGAIN);
        meet(s);
        for (uint32_t i = 0; i < 4; i++) {
            EQ(next_ok(s, s->send_cq).id, i);
        }
        post(s, s->qp, &work);
        EQ(next_ok(s, s->send_cq).id, work.id);
    } else {
        quiet(s, s->receive_cq, 10);
        for (uint32_t i = 0; i < 5; i++) {
            post_receive(s, s->qp, i, p);
        }
        meet(s);
        for (uint32_t i = 0; i < 5; i++) {
            EQ(next_ok(s, s->receive_cq).id, i);
        }
    }
    meet(s);
    release(mr);
    side_close(s);
}

/* One pool of receives for several queue pairs. */
static void shared_receives(struct side *s)
{
    enum { QPS = 4, EACH = 20 };
    struct mt_fabric_qp *qps[QPS];
    struct mt_fabric_srq *srq = NULL;
    side_open(s, false);
    struct mt_fabric_qp_options options = rc_options(s);
    if (s->rank == 1) {
        struct mt_fabric_srq_options o = {.depth = 128, .pieces = 1};
        OK(mt_fabric_srq_create(s->pd, &o, &srq));
        options.srq = srq;
    }
    struct mt_fabric_mr *mr = registered(s, QPS * EACH * 64);
    for (int i = 0; i < QPS; i++) {
        qps[i] = connect_with(s, &options);
    }
    if (s->rank == 1) {
        for (uint64_t i = 0; i < QPS * EACH; i++) {
            struct mt_fabric_piece p = piece(mr, i * 64, 64);
            struct mt_fabric_receive work = {.id = i, .piece_count = 1,
                                             .pieces = &p};
            OK(mt_fabric_post_srq_receive(srq, &work));
            EQ(mt_fabric_post_receive(qps[0], &work), MT_EINVAL);
        }
        EQ(mt_fabric_srq_destroy(srq), MT_ESTATE);
    }
    meet(s);
    if (s->rank == 0) {
        for (uint64_t i = 0; i < QPS * EACH; i++) {
            uint64_t *word = (uint64_t *)((char *)mr->address + i * 64);
            *word = i;
            struct mt_fabric_piece p = piece(mr, i * 64, 8);
            struct mt_fabric_send work = send_of(i, &p, 1, SIGNALED);
            post(s, qps[i % QPS], &work);
        }
        meet(s);
    } else {
        uint64_t seen[QPS] = {0}, ids = 0;
        for (uint64_t i = 0; i < QPS * EACH; i++) {
            struct mt_fabric_completion c = next_ok(s, s->receive_cq);
            uint64_t word = *(uint64_t *)((char *)mr->address + c.id * 64);
            uint64_t from = word % QPS;
            EQ(c.qp, mt_fabric_qp_number(qps[from]));
            EQ(word / QPS, seen[from]); /* in order on each queue pair */
            seen[from]++;
            ids += c.id;
        }
        EQ(ids, (QPS * EACH) * (QPS * EACH - 1) / 2);
        meet(s);
    }
    meet(s);
    for (int i = 0; i < QPS; i++) {
        OK(mt_fabric_qp_destroy(qps[i]));
    }
    if (srq != NULL) {
        OK(mt_fabric_srq_destroy(srq));
    }
    release(mr);
    side_close(s);
}

static const char *needs_srq(const struct mt_fabric_caps *caps)
{
    return caps->srq ? "" : "shared receive queues";
}

/* Queue pairs of two processes to each other, all used. */
static void many(struct side *s)
{
    enum { QPS = 128 };
    struct mt_fabric_qp *qps[QPS];
    side_open(s, false);
    struct mt_fabric_qp_options options = rc_options(s);
    options.send_depth = options.receive_depth = 4;
    struct mt_fabric_mr *mr = registered(s, 2 * QPS * 8);
    uint64_t *words = mr->address;
    for (uint64_t i = 0; i < QPS; i++) {
        qps[i] = connect_with(s, &options);
        post_receive(s, qps[i], i, piece(mr, (QPS + i) * 8, 8));
    }
    meet(s);
    for (uint64_t i = 0; i < QPS; i++) {
        words[i] = i * 3 + (uint64_t)s->rank;
        struct mt_fabric_piece p = piece(mr, i * 8, 8);
        struct mt_fabric_send work = send_of(i, &p, 1, SIGNALED);
        post(s, qps[i], &work);
    }
    for (uint64_t i = 0; i < QPS; i++) {
        struct mt_fabric_completion c = next_ok(s, s->receive_cq);
        EQ(c.qp, mt_fabric_qp_number(qps[c.id]));
        EQ(words[QPS + c.id], c.id * 3 + 1 - (uint64_t)s->rank);
    }
    meet(s);
    for (int i = 0; i < QPS; i++) {
        OK(mt_fabric_qp_destroy(qps[i]));
    }
    release(mr);
    side_close(s);
}

static const char *needs_many(const struct mt_fabric_caps *caps)
{
    return caps->max_qps >= 128 ? "" : "128 queue pairs";
}

const struct test tests_messages[] = {
    {"send sizes", sizes, NULL},
    {"send pieces", pieces, NULL},
    {"send implicit", implicit, NULL},
    {"send inline", inlined, needs_inline},
    {"send before the receive", late_receive, needs_waiting},
    {"send stream", stream, NULL},
    {"send queue full", full_queue, needs_waiting},
    {"shared receive queue", shared_receives, needs_srq},
    {"many queue pairs", many, needs_many},
    {NULL, NULL, NULL},
};
