/* onesided.c: WRITE, WRITE_WITH_IMM, READ, fences. */
#include "harness.h"

enum { SIGNALED = MT_FABRIC_SIGNALED };

static struct mt_fabric_send work_of(enum mt_fabric_opcode opcode, uint64_t id,
                                     const struct mt_fabric_piece *p,
                                     struct remote r, size_t offset)
{
    return (struct mt_fabric_send){.id = id,
                                   .opcode = opcode,
                                   .flags = SIGNALED,
                                   .piece_count = 1,
                                   .pieces = p,
                                   .remote_address = r.address + offset,
                                   .rkey = r.rkey};
}

static const size_t all[] = {0, 1, 8, 100, 4096, 8192, 8193, 70000, 1 << 20};
enum { COUNT = sizeof(all) / sizeof(all[0]), ROOM = (1 << 20) + 64 };

/* Into memory of the application and of the provider; nothing beside it. */
static void writes(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *out = registered(s, ROOM);
    for (int kind = 0; kind < 2; kind++) {
        struct mt_fabric_mr *in = kind == 0 ? registered(s, ROOM)
                                            : allocated(s, ROOM);
        struct remote there = remote_of(s, in);
        for (size_t i = 0; i < COUNT; i++) {
            memset(in->address, 0xee, ROOM);
            fill(out->address, all[i], i + 10);
            meet(s);
            if (s->rank == 0) {
                struct mt_fabric_piece p = piece(out, 0, all[i]);
                struct mt_fabric_send w =
                    work_of(MT_FABRIC_WRITE, i, &p, there, 16);
                post(s, s->qp, &w);
                struct mt_fabric_completion c = next_ok(s, s->send_cq);
                EQ(c.id, i);
                EQ(c.opcode, MT_FABRIC_WRITE);
                /* what a READ behind it finds is there */
                struct mt_fabric_piece back = piece(out, 0, all[i]);
                memset(out->address, 0, ROOM);
                w = work_of(MT_FABRIC_READ, 7, &back, there, 16);
                post(s, s->qp, &w);
                next_ok(s, s->send_cq);
                CHECK(filled(out->address, all[i], i + 10));
            }
            meet(s);
            if (s->rank == 1) {
                const uint8_t *at = in->address;
                CHECK(filled(at + 16, all[i], i + 10));
                EQ(at[15], 0xee);
                EQ(at[16 + all[i]], 0xee);
            }
            meet(s);
        }
        if (kind == 0) {
            release(in);
        } else {
            OK(mt_fabric_mr_destroy(in));
        }
    }
    release(out);
    side_close(s);
}

static const char *needs_read(const struct mt_fabric_caps *caps)
{
    return (caps->rc_operations & MT_FABRIC_READ) != 0 ? "" : "READ";
}

static const char *needs_flag(const struct mt_fabric_caps *caps)
{
    return (caps->notify & MT_FABRIC_NOTIFY_FLAG_WRITE) != 0 ? ""
                                                             : "flag writes";
}

/* Data, then a flag of eight bytes behind it: who sees the flag sees the data. */
static void flags(struct side *s)
{
    enum { N = 500, SIZE = 6000 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *ring = allocated(s, SIZE + 8);
    struct mt_fabric_mr *out = registered(s, SIZE + 8);
    struct remote there = remote_of(s, ring);
    volatile uint64_t *flag =
        (volatile uint64_t *)(void *)((char *)ring->address + SIZE);
    uint64_t *word = (uint64_t *)(void *)((char *)out->address + SIZE);
    for (uint64_t i = 1; i <= N; i++) {
        size_t n = (i * 7919) % SIZE;
        if ((i + (uint64_t)s->rank) % 2 == 0) {
            fill(out->address, n, i);
            *word = i;
            struct mt_fabric_piece p[2] = {piece(out, 0, n), piece(out, SIZE, 8)};
            struct mt_fabric_send data =
                work_of(MT_FABRIC_WRITE, i, &p[0], there, 0);
            struct mt_fabric_send tell =
                work_of(MT_FABRIC_WRITE, i, &p[1], there, SIZE);
            data.flags = i % 3 == 0 ? MT_FABRIC_MORE : 0;
            post(s, s->qp, &data);
            post(s, s->qp, &tell);
            next_ok(s, s->send_cq);
        } else {
            struct mt_fabric_completion none;
            while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != i) {
                mt_fabric_poll(s->send_cq, &none, 0);
                waiting(s);
            }
            CHECK(filled(ring->address, n, i));
        }
    }
    meet(s);
    OK(mt_fabric_mr_destroy(ring));
    release(out);
    side_close(s);
}

static const char *needs_shared_memory(const struct mt_fabric_caps *caps)
{
    return caps->shares_memory ? "" : "memory that peers map";
}

/* Looks without a pause, to see the word as soon as it is there. */
static bool soon(const char *word, uint64_t value)
{
    for (unsigned n = 0; n < 10000; n++) {
        if (__atomic_load_n((const uint64_t *)(const void *)word,
                            __ATOMIC_ACQUIRE) == value) {
            return true;
        }
    }
    return false;
}

/* Where it is; the peer may not have heard of the connection yet. */
static char *pointer_to(struct side *s, struct remote there, uint64_t bytes)
{
    void *to;
    while ((to = mt_fabric_remote_pointer(s->qp, there.address, there.rkey,
                                          bytes)) == NULL) {
        struct mt_fabric_completion none;
        mt_fabric_poll(s->send_cq, &none, 0);
        waiting(s);
    }
    return to;
}

/* By turns each side stores into memory of the other one, and last of all a word. Who
 * sees the word sees all of it. */
static void stores(struct side *s)
{
    enum { N = 2000, MOST = 1 << 14, WORD = sizeof(uint64_t) };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *in = allocated(s, MOST + 3 * 64);
    char *to = pointer_to(s, remote_of(s, in), in->bytes);
    for (uint64_t i = 1; i <= N; i++) {
        size_t at = 64 * (i % 3), n = WORD + (i * 7919) % (MOST - WORD);
        if ((i + (uint64_t)s->rank) % 2 == 0) {
            fill(to + at + WORD, n - WORD, i);
            __atomic_store_n((uint64_t *)(void *)(to + at), i,
                             __ATOMIC_RELEASE);
        } else {
            const char *word = (char *)in->address + at;
            while (!soon(word, i)) {
                waiting(s);
            }
            CHECK(filled(word + WORD, n - WORD, i));
        }
    }
    meet(s);
    OK(mt_fabric_mr_destroy(in));
    side_close(s);
}

/* What is posted later is not seen before what was stored. */
static void store_and_send(struct side *s)
{
    enum { N = 2000, MOST = 4096 };
    side_open(s, false);
    struct mt_fabric_mr *in = allocated(s, MOST), *word = registered(s, 8);
    side_connect(s);
    post_receive(s, s->qp, 0, piece(word, 0, 8));
    char *to = pointer_to(s, remote_of(s, in), MOST);
    meet(s);
    for (uint64_t i = 1; i <= N; i++) {
        size_t n = 1 + (i * 7919) % MOST;
        if ((i + (uint64_t)s->rank) % 2 == 0) {
            fill(to, n, i);
            struct mt_fabric_piece none = piece(word, 0, 0);
            struct mt_fabric_send send = {.id = i,
                                          .opcode = MT_FABRIC_SEND,
                                          .flags = SIGNALED,
                                          .piece_count = 1,
                                          .pieces = &none};
            post(s, s->qp, &send);
            next_ok(s, s->send_cq);
        } else {
            next_ok(s, s->receive_cq);
            CHECK(filled(in->address, n, i));
            post_receive(s, s->qp, i, piece(word, 0, 8));
        }
    }
    meet(s);
    OK(mt_fabric_mr_destroy(in));
    release(word);
    side_close(s);
}

/* Only what the peer has registered for it, and has itself from the fabric. */
static void no_pointer(struct side *s)
{
    enum { BYTES = 4096 };
    side_open(s, false);
    struct mt_fabric_mr *own = registered(s, BYTES), *none, *in;
    OK(mt_fabric_mr_allocate(s->pd, BYTES, MT_FABRIC_LOCAL_WRITE, &none));
    in = allocated(s, BYTES);
    struct remote there[] = {remote_of(s, own), remote_of(s, none),
                             remote_of(s, in)};
    struct mt_fabric_qp_options options = rc_options(s);
    struct mt_fabric_qp *alone;
    OK(mt_fabric_qp_create(s->pd, &options, &alone));
    CHECK(mt_fabric_remote_pointer(alone, there[2].address, there[2].rkey,
                                   BYTES) == NULL);
    OK(mt_fabric_qp_destroy(alone));
    side_connect(s);
    char *to = pointer_to(s, there[2], BYTES);
    for (int i = 0; i < 2; i++) {
        CHECK(mt_fabric_remote_pointer(s->qp, there[i].address, there[i].rkey,
                                       8) == NULL);
    }
    struct remote r = there[2];
    CHECK(mt_fabric_remote_pointer(s->qp, r.address + 8, r.rkey, BYTES - 8) ==
          to + 8);
    CHECK(mt_fabric_remote_pointer(s->qp, r.address + 8, r.rkey, BYTES) ==
          NULL);
    CHECK(mt_fabric_remote_pointer(s->qp, r.address - 8, r.rkey, 8) == NULL);
    CHECK(mt_fabric_remote_pointer(s->qp, r.address, r.rkey + 1, 8) == NULL);
    CHECK(mt_fabric_remote_pointer(s->qp, r.address, 0, 8) == NULL);
    meet(s);
    OK(mt_fabric_mr_destroy(in));
    meet(s);
    CHECK(mt_fabric_remote_pointer(s->qp, r.address, r.rkey, 8) == NULL);
    OK(mt_fabric_qp_fail(s->qp));
    CHECK(mt_fabric_remote_pointer(s->qp, r.address, r.rkey, 8) == NULL);
    meet(s);
    OK(mt_fabric_mr_destroy(none));
    release(own);
    side_close(s);
}

/* A hint may be followed by nothing: polling is enough, also of one queue pair among
 * many that was not busy lately. */
static void more(struct side *s)
{
    enum { OTHERS = 5, ROUNDS = 100 };
    struct mt_fabric_completion none;
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_qp_options options = rc_options(s);
    struct mt_fabric_qp *others[OTHERS];
    for (int i = 0; i < OTHERS; i++) {
        others[i] = connect_with(s, &options);
    }
    struct mt_fabric_mr *in = allocated(s, 8), *out = registered(s, 8);
    struct remote there = remote_of(s, in);
    uint64_t *came = in->address;
    *(uint64_t *)out->address = 7;
    struct mt_fabric_piece p = piece(out, 0, 8);
    struct mt_fabric_send work = work_of(MT_FABRIC_WRITE, 1, &p, there, 0);
    work.flags |= MT_FABRIC_MORE;
    for (int i = 0; i < ROUNDS; i++) {
        mt_fabric_poll(s->send_cq, &none, 0);
    }
    post(s, s->qp, &work);
    next_ok(s, s->send_cq);
    while (__atomic_load_n(came, __ATOMIC_ACQUIRE) != 7) {
        mt_fabric_poll(s->send_cq, &none, 0);
        waiting(s);
    }
    meet(s);
    for (int i = 0; i < OTHERS; i++) {
        OK(mt_fabric_qp_destroy(others[i]));
    }
    OK(mt_fabric_mr_destroy(in));
    release(out);
    side_close(s);
}

static const char *needs_imm(const struct mt_fabric_caps *caps)
{
    return (caps->rc_operations & MT_FABRIC_WRITE_WITH_IMM) != 0
               ? ""
               : "WRITE_WITH_IMM";
}

static void immediates(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *in = registered(s, ROOM);
    struct mt_fabric_mr *out = registered(s, ROOM);
    struct remote there = remote_of(s, in);
    for (size_t i = 0; i < COUNT; i++) {
        if (s->rank == 1) {
            /* the receive's own buffer stays as it is */
            post_receive(s, s->qp, 50 + i, piece(out, 0, 8));
            memset(out->address, 0xee, 8);
            meet(s);
            struct mt_fabric_completion c = next_ok(s, s->receive_cq);
            EQ(c.id, 50 + i);
            CHECK(c.has_immediate);
            EQ(c.immediate, 0xabc00000u + i);
            EQ(c.bytes, all[i]);
            EQ(c.opcode, MT_FABRIC_RECEIVE);
            CHECK(filled(in->address, all[i], i));
            EQ(((uint8_t *)out->address)[0], 0xee);
        } else {
            fill(out->address, all[i], i);
            meet(s);
            struct mt_fabric_piece p = piece(out, 0, all[i]);
            struct mt_fabric_send w =
                work_of(MT_FABRIC_WRITE_WITH_IMM, i, &p, there, 0);
            w.immediate = (uint32_t)(0xabc00000u + i);
            post(s, s->qp, &w);
            next_ok(s, s->send_cq);
        }
        meet(s);
    }
    release(in);
    release(out);
    side_close(s);
}

/* More READs than may be outstanding, of both kinds of memory. */
static void reads(struct side *s)
{
    enum { N = 20, SIZE = 50000 };
    side_open(s, false);
    side_connect(s);
    for (int kind = 0; kind < 2; kind++) {
        struct mt_fabric_mr *from = kind == 0 ? registered(s, N * SIZE)
                                              : allocated(s, N * SIZE);
        struct mt_fabric_mr *to = registered(s, N * SIZE);
        fill(from->address, N * SIZE, 77);
        struct remote there = remote_of(s, from);
        for (size_t i = 0; i < N; i++) {
            struct mt_fabric_piece p = piece(to, i * SIZE, SIZE - i);
            struct mt_fabric_send w =
                work_of(MT_FABRIC_READ, i, &p, there, i * SIZE);
            post(s, s->qp, &w);
        }
        for (size_t i = 0; i < N; i++) {
            struct mt_fabric_completion c = next_ok(s, s->send_cq);
            EQ(c.id, i);
            EQ(c.opcode, MT_FABRIC_READ);
            EQ(c.bytes, SIZE - i);
            CHECK(memcmp((char *)to->address + i * SIZE,
                         (char *)from->address + i * SIZE, SIZE - i) == 0);
        }
        meet(s);
        release(to);
        if (kind == 0) {
            release(from);
        } else {
            OK(mt_fabric_mr_destroy(from));
        }
    }
    side_close(s);
}

/* A fenced SEND leaves after the READ before it: it carries what was read. */
static void fence(struct side *s)
{
    enum { N = 50, SIZE = 30000 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 2 * SIZE);
    struct remote there = remote_of(s, mr);
    for (uint64_t i = 0; i < N; i++) {
        if (s->rank == 1) {
            fill(mr->address, SIZE, i);
            post_receive(s, s->qp, i, piece(mr, SIZE, SIZE));
            meet(s);
            EQ(next_ok(s, s->receive_cq).bytes, SIZE);
            CHECK(filled((char *)mr->address + SIZE, SIZE, i));
        } else {
            struct mt_fabric_piece p = piece(mr, 0, SIZE);
            struct mt_fabric_send read = work_of(MT_FABRIC_READ, i, &p, there, 0);
            struct mt_fabric_send echo = {.id = i,
                                          .opcode = MT_FABRIC_SEND,
                                          .flags = SIGNALED | MT_FABRIC_FENCE,
                                          .piece_count = 1,
                                          .pieces = &p};
            meet(s);
            read.flags = 0;
            post(s, s->qp, &read);
            post(s, s->qp, &echo);
            next_ok(s, s->send_cq);
        }
        meet(s);
    }
    release(mr);
    side_close(s);
}

/* A READ does not wait for the receive that a SEND of the other side waits for:
 * who needs what it reads before it can receive would wait for ever. */
static void read_past_send(struct side *s)
{
    enum { SENDS = 20, SIZE = 4000, READ = 50000 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, READ);
    struct mt_fabric_mr *to = registered(s, READ);
    struct remote there = remote_of(s, mr);
    fill(mr->address, READ, 3 + (uint64_t)s->rank);
    meet(s);
    struct mt_fabric_piece p = piece(mr, 0, SIZE);
    if (s->rank == 1) {
        struct mt_fabric_send work =
            work_of(MT_FABRIC_SEND, 1, &p, there, 0);
        for (int i = 0; i < SENDS; i++) {
            post(s, s->qp, &work);
        }
    }
    meet(s);
    if (s->rank == 0) {
        struct mt_fabric_piece back = piece(to, 0, READ);
        struct mt_fabric_send work =
            work_of(MT_FABRIC_READ, 2, &back, there, 0);
        post(s, s->qp, &work);
        EQ(next_ok(s, s->send_cq).id, 2);
        CHECK(filled(to->address, READ, 4));
        for (uint64_t i = 0; i < SENDS; i++) {
            post_receive(s, s->qp, i, piece(to, 0, SIZE));
        }
        for (uint64_t i = 0; i < SENDS; i++) {
            EQ(next_ok(s, s->receive_cq).id, i);
        }
        CHECK(filled(to->address, SIZE, 4));
    }
    meet(s);
    release(mr);
    release(to);
    side_close(s);
}

/* READs with FENCE that have to be repeated, since the SEND before them was: those
 * that Soft-RoCE has sent once are among what it would have them wait for. */
static void fenced_again(struct side *s)
{
    enum { TURNS = 20, READS = 3, SIZE = 4000 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, SIZE);
    struct mt_fabric_mr *to = registered(s, READS * SIZE);
    struct remote there = remote_of(s, mr);
    fill(mr->address, SIZE, 3 + (uint64_t)s->rank);
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        memset(to->address, 0, READS * SIZE);
        meet(s);
        if (s->rank == 0) {
            struct mt_fabric_piece p = piece(mr, 0, SIZE);
            struct mt_fabric_send work =
                work_of(MT_FABRIC_SEND, READS, &p, there, 0);
            post(s, s->qp, &work);
            for (uint64_t i = 0; i < READS; i++) {
                p = piece(to, i * SIZE, SIZE);
                work = work_of(MT_FABRIC_READ, i, &p, there, 0);
                work.flags |= MT_FABRIC_FENCE;
                post(s, s->qp, &work);
            }
        }
        meet(s);
        if (s->rank == 0) {
            EQ(next_ok(s, s->send_cq).id, READS);
            for (uint64_t i = 0; i < READS; i++) {
                EQ(next_ok(s, s->send_cq).id, i);
                CHECK(filled((char *)to->address + i * SIZE, SIZE, 4));
            }
        } else {
            post_receive(s, s->qp, turn, piece(to, 0, SIZE));
            EQ(next_ok(s, s->receive_cq).id, turn);
            CHECK(filled(to->address, SIZE, 3));
        }
    }
    meet(s); /* all was read */
    release(mr);
    release(to);
    side_close(s);
}

static const char *needs_read_and_waiting(const struct mt_fabric_caps *caps)
{
    return caps->waits_for_receive ? needs_read(caps)
                                   : "waiting for a receive";
}

const struct test tests_onesided[] = {
    {"write sizes", writes, needs_read},
    {"write and flag", flags, needs_flag},
    {"stores", stores, needs_shared_memory},
    {"stores and a send", store_and_send, needs_shared_memory},
    {"no pointer", no_pointer, needs_shared_memory},
    {"write with more to come", more, needs_flag},
    {"write with immediate", immediates, needs_imm},
    {"read", reads, needs_read},
    {"fence", fence, needs_read},
    {"read past a waiting send", read_past_send, needs_read_and_waiting},
    {"fenced reads repeated", fenced_again, needs_read_and_waiting},
    {NULL, NULL, NULL},
};
