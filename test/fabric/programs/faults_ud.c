/* faults_ud.c: what a fault script does to datagrams: the fault of its name and
 * nothing else, and to a connection nothing at all. Each test is run with that
 * script (testdata/). */
#include <time.h>

#include "harness.h"

enum { BYTES = 64 };

static struct mt_fabric_send send_of(uint64_t id, const struct mt_fabric_piece *p,
                                     struct mt_fabric_ah *ah)
{
    return (struct mt_fabric_send){.id = id,
                                   .opcode = MT_FABRIC_SEND,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = p,
                                   .ah = ah};
}

/* ---- corrupt ---- */

static size_t bytes_changed(const void *memory, uint64_t seed)
{
    uint8_t right[BYTES];
    size_t n = 0;
    fill(right, BYTES, seed);
    for (size_t i = 0; i < BYTES; i++) {
        n += right[i] != ((const uint8_t *)memory)[i];
    }
    return n;
}

/* The change is made before the device sees the bytes: what arrives is called
 * right, is as long as it was, and has one byte wrong, or none. */
static void corrupted(struct side *s)
{
    enum { N = 60 };
    side_open(s, false);
    struct mt_fabric_ah *ah = ud_connect(s, &s->qp);
    size_t head = s->caps->ud_headroom, wrong = 0;
    struct mt_fabric_mr *out = registered(s, BYTES);
    struct mt_fabric_mr *in = registered(s, head + BYTES);
    for (uint64_t i = 0; i < N; i++) {
        post_receive(s, s->qp, i, piece(in, 0, head + BYTES));
        fill(out->address, BYTES, i);
        meet(s);
        struct mt_fabric_piece p = piece(out, 0, BYTES);
        struct mt_fabric_send work = send_of(i, &p, ah);
        post(s, s->qp, &work);
        next_ok(s, s->send_cq);
        CHECK(filled(out->address, BYTES, i)); /* what is sent is a copy */
        EQ(next_ok(s, s->receive_cq).bytes, head + BYTES);
        size_t changed = bytes_changed((char *)in->address + head, i);
        CHECK(changed <= 1);
        wrong += changed;
        meet(s);
    }
    CHECK(wrong > 0 && wrong < N);
    OK(mt_fabric_ah_destroy(ah));
    release(out);
    release(in);
    side_close(s);
}

/* ---- drop, duplicate, reorder ---- */

enum {
    N = 40,     /* numbered messages, from 0 */
    SLOTS = 64, /* receives */
    ENDS = 10000,
};

/* What came of the numbered messages. */
struct arrivals {
    uint64_t came;  /* different ones */
    uint64_t twice; /* that came again, right behind themselves */
    uint64_t late;  /* that came right behind the one after them */
    uint64_t last;  /* the highest number */
    bool seen[N];
};

static void arrived(struct arrivals *a, uint64_t number)
{
    CHECK(number < N);
    if (a->seen[number]) {
        EQ(number, a->last);
        a->twice++;
        return;
    }
    if (a->came > 0 && number < a->last) {
        EQ(number, a->last - 1);
        a->late++;
    } else {
        a->last = number;
    }
    a->seen[number] = true;
    a->came++;
}

/* Takes the message of a completion, and posts its receive again. Returns its
 * number. */
static uint64_t take(struct side *s, struct mt_fabric_qp *qp, size_t head,
                     const struct mt_fabric_mr *in,
                     const struct mt_fabric_completion *c)
{
    struct mt_fabric_piece p =
        piece(in, c->id * (head + BYTES), head + BYTES);
    uint8_t *payload = (uint8_t *)p.address + head;
    uint64_t number;
    EQ(c->status, MT_OK);
    EQ(c->bytes, head + BYTES);
    memcpy(&number, payload, sizeof(number));
    fill(payload, sizeof(number), number);
    CHECK(filled(payload, BYTES, number));
    post_receive(s, qp, c->id, p);
    return number;
}

/* A message with a number, in a place of its own. */
static void send_number(struct side *s, struct mt_fabric_qp *qp,
                        struct mt_fabric_ah *ah, const struct mt_fabric_mr *out,
                        uint64_t number)
{
    struct mt_fabric_piece p = piece(out, number * BYTES, BYTES);
    struct mt_fabric_send work = send_of(number, &p, ah);
    fill(p.address, BYTES, number);
    memcpy(p.address, &number, sizeof(number));
    post(s, qp, &work);
}

/* All complete as sent, each once, whatever became of them. */
static void send_all(struct side *s, struct mt_fabric_qp *qp,
                     struct mt_fabric_ah *ah, const struct mt_fabric_mr *out)
{
    bool completed[N] = {false};
    for (uint64_t i = 0; i < N; i++) {
        send_number(s, qp, ah, out, i);
    }
    for (uint64_t i = 0; i < N; i++) {
        struct mt_fabric_completion c = next_ok(s, s->send_cq);
        CHECK(c.id < N && !completed[c.id]);
        completed[c.id] = true;
    }
}

/* Datagrams to the other side until it has said that one of them came: then all
 * that were sent before are there, or will never be. */
static void send_end(struct side *s, struct mt_fabric_ah *ah,
                     const struct mt_fabric_mr *out)
{
    char none = 0, over = 0;
    for (int tries = 0; !over; tries++) {
        CHECK(tries < ENDS);
        send_number(s, s->qp, ah, out, N);
        EQ(next_ok(s, s->send_cq).id, N);
        swap(s, &none, &over, 1);
    }
}

static struct arrivals take_until_end(struct side *s, size_t head,
                                      const struct mt_fabric_mr *in)
{
    struct arrivals a = {.came = 0};
    for (char over = 0, none; !over; swap(s, &over, &none, 1)) {
        struct mt_fabric_completion c;
        /* what was sent before may be on its way still */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        while (took(s->receive_cq, &c)) {
            uint64_t number = take(s, s->qp, head, in, &c);
            over = over || number == N;
            if (number < N) {
                arrived(&a, number);
            }
        }
    }
    return a;
}

/* Rank 0 sends numbered messages over a connection, where all come as they were
 * sent, and as datagrams. What came of those, at rank 1. */
static struct arrivals flood(struct side *s)
{
    struct arrivals a = {.came = 0};
    side_open(s, false);
    struct mt_fabric_qp_options options = rc_options(s);
    struct mt_fabric_qp *rc = connect_with(s, &options);
    struct mt_fabric_ah *ah = ud_connect(s, &s->qp);
    size_t head = s->caps->ud_headroom;
    struct mt_fabric_mr *out = registered(s, (N + 1) * BYTES);
    struct mt_fabric_mr *in = registered(s, SLOTS * (head + BYTES));
    struct mt_fabric_mr *rc_in = registered(s, N * BYTES);
    for (uint64_t i = 0; i < SLOTS && s->rank == 1; i++) {
        post_receive(s, s->qp, i, piece(in, i * (head + BYTES), head + BYTES));
    }
    for (uint64_t i = 0; i < N && s->rank == 1; i++) {
        post_receive(s, rc, i, piece(rc_in, i * BYTES, BYTES));
    }
    meet(s);
    if (s->rank == 0) {
        send_all(s, rc, NULL, out);
        meet(s);
        send_all(s, s->qp, ah, out);
        meet(s);
        send_end(s, ah, out);
    } else {
        for (uint64_t i = 0; i < N; i++) {
            struct mt_fabric_completion c = next(s, s->receive_cq);
            EQ(take(s, rc, 0, rc_in, &c), i);
        }
        meet(s);
        meet(s);
        a = take_until_end(s, head, in);
    }
    meet(s);
    OK(mt_fabric_ah_destroy(ah));
    OK(mt_fabric_qp_destroy(rc));
    side_qp_destroy(s);
    release(out);
    release(in);
    release(rc_in);
    side_close(s);
    return a;
}

/* Some never come; those that do are in order, and the sender is told nothing. */
static void dropped(struct side *s)
{
    struct arrivals a = flood(s);
    CHECK(s->rank == 0 || (a.came > 0 && a.came < N));
    EQ(a.twice, 0);
    EQ(a.late, 0);
}

/* All come, some of them twice, and they complete once. */
static void duplicated(struct side *s)
{
    struct arrivals a = flood(s);
    CHECK(s->rank == 0 || (a.twice > 0 && a.twice < N));
    EQ(a.came, s->rank == 0 ? 0 : N);
    EQ(a.late, 0);
}

/* All come once, some of them after the next one. */
static void reordered(struct side *s)
{
    struct arrivals a = flood(s);
    CHECK(s->rank == 0 || (a.late > 0 && a.late < N));
    EQ(a.came, s->rank == 0 ? 0 : N);
    EQ(a.twice, 0);
}

const struct test tests_faults_ud[] = {
    {"fault corrupt", corrupted, needs_ud},
    {"fault drop", dropped, needs_ud},
    {"fault duplicate", duplicated, needs_ud},
    {"fault reorder", reordered, needs_ud},
    {NULL, NULL, NULL},
};
