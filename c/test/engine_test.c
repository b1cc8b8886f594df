/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* What engine.h promises, one rule after the other, between processes over
 * shared memory and over TCP. */
#include "../engine/inside.h"
#include "../fabric/provider.h"
#include "engine_fixture.h"

enum { EAGER = 1000 };

/* Every size around the limits, expected and not, to a peer and to itself. */
static void sizes(struct mt_engine_context *c)
{
    static const uint64_t all[] = {0,    1,     8,     24,     EAGER - 1,
                                   EAGER, EAGER + 1, 5000, 70000, 3000000};
    static char out[3000000], in[3000000];
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (unsigned expected = 0; expected < 2; expected++) {
            for (unsigned self = 0; self < 2; self++) {
                uint32_t to = self ? fix.rank : (fix.rank + 1) % fix.size;
                uint32_t from =
                    self ? fix.rank : (fix.rank + fix.size - 1) % fix.size;
                struct mt_engine_request s, r;
                struct mt_buffer b = flat(out, all[i]);
                fill(out, all[i], fix.rank + i);
                memset(in, 0, all[i]);
                if (expected) {
                    start_receive(c, &r, (int)from, 3, in, all[i]);
                    fix_barrier();
                }
                EQ(mt_engine_send(c, &s, (int)to, 3, MT_ENGINE_STANDARD, &b),
                   MT_OK);
                if (!expected) {
                    fix_barrier();
                    start_receive(c, &r, (int)from, 3, in, all[i]);
                }
                fix_wait(&r);
                fix_wait(&s);
                EQ(r.status, MT_OK);
                EQ(s.status, MT_OK);
                EQ(r.bytes, all[i]);
                EQ(r.source, from);
                EQ(r.tag, 3);
                filled(in, all[i], from + i);
            }
        }
    }
}

/* ---- helpers ---- */

/* Makes progress for a while in which nothing must happen. */
static void linger(void)
{
    for (unsigned i = 0; i < 300; i++) {
        mt_engine_progress(fix.engine);
        if (i % 10 == 0) {
            sched_yield();
        }
    }
}

/* Until such a message is here. */
static void await_probe(struct mt_engine_context *c, int source, int tag,
                        struct mt_engine_envelope *e)
{
    while (mt_engine_probe(c, source, tag, e, NULL) != MT_OK) {
        fix_turn("a message to probe");
    }
}

/* ---- rules ---- */

/* Messages of one process do not overtake each other, whatever way each takes
 * (MPI 4.1, 3.5). */
static void no_overtaking(struct mt_engine_context *c)
{
    enum { N = 60, MOST = 3 * EAGER };
    static char out[N][MOST], in[MOST];
    static struct mt_engine_request sends[N];
    if (fix.rank == 0) {
        for (unsigned i = 0; i < N; i++) {
            uint64_t n = i % 3 == 0 ? MOST : i;
            struct mt_buffer b = flat(out[i], n);
            fill(out[i], n, i);
            EQ(mt_engine_send(c, &sends[i], 1, (int)(i % 4),
                              i % 5 == 0 ? MT_ENGINE_SYNCHRONOUS
                                         : MT_ENGINE_STANDARD,
                              &b),
               MT_OK);
        }
        for (unsigned i = 0; i < N; i++) {
            finish(&sends[i]);
        }
    } else if (fix.rank == 1) {
        for (unsigned i = 0; i < N; i++) {
            struct mt_engine_request r;
            start_receive(c, &r, i % 2 == 0 ? 0 : MT_ENGINE_ANY, MT_ENGINE_ANY,
                          in, MOST);
            finish(&r);
            EQ(r.tag, i % 4);
            EQ(r.bytes, i % 3 == 0 ? MOST : i);
            filled(in, r.bytes, i);
        }
    }
    fix_barrier();
}

/* Of the receives that fit, the one posted first; of the messages, the one that
 * came first. */
static void first_come(struct mt_engine_context *c)
{
    static const int want[][2] = {{MT_ENGINE_ANY, 5},
                                  {0, MT_ENGINE_ANY},
                                  {MT_ENGINE_ANY, MT_ENGINE_ANY},
                                  {0, 5},
                                  {0, 6}};
    static const int tags[] = {5, 5, 6, 5, 6}; /* as the receives above */
    struct mt_engine_request r[5], s;
    int in[5], out;
    if (fix.rank == 1) {
        for (int i = 0; i < 5; i++) {
            start_receive(c, &r[i], want[i][0], want[i][1], &in[i], 4);
        }
    }
    fix_barrier();
    for (int i = 0; i < 5 && fix.rank == 0; i++) {
        out = i;
        start_send(c, &s, 1, tags[i], &out, 4);
        finish(&s);
    }
    for (int i = 0; i < 5 && fix.rank == 1; i++) {
        finish(&r[i]);
        EQ(in[i], i);
        EQ(r[i].source, 0);
        EQ(r[i].tag, tags[i]);
    }
    /* one after the other from different sources, then by wildcards */
    for (uint32_t source = 0; source < 3; source++) {
        struct mt_engine_envelope e;
        if (fix.rank == source) {
            out = (int)source;
            start_send(c, &s, 2, 10 + (int)source, &out, 4);
            finish(&s);
        }
        if (fix.rank == 2) {
            await_probe(c, (int)source, 10 + (int)source, &e);
        }
        fix_barrier();
    }
    for (int i = 0; i < 3 && fix.rank == 2; i++) {
        start_receive(c, &r[0], MT_ENGINE_ANY, MT_ENGINE_ANY, in, 4);
        finish(&r[0]);
        EQ(r[0].source, i);
        EQ(in[0], i);
    }
    fix_barrier();
}

static void truncation(struct mt_engine_context *c)
{
    static const uint64_t room[] = {0, 1, 10, EAGER, 2 * EAGER, 3 * EAGER};
    static char out[4 * EAGER], in[4 * EAGER];
    for (unsigned i = 0; i < 6; i++) {
        for (unsigned is_long = 0; is_long < 2; is_long++) {
            uint64_t n = is_long ? sizeof(out) : EAGER;
            uint64_t fits = room[i] < n ? room[i] : n;
            struct mt_engine_request r;
            if (fix.rank == 0) {
                fill(out, n, i);
                start_send(c, &r, 1, 0, out, n);
                finish(&r);
            } else if (fix.rank == 1) {
                memset(in, 77, sizeof(in));
                start_receive(c, &r, 0, 0, in, room[i]);
                fix_wait(&r);
                EQ(r.status, fits < n ? MT_ETRUNCATED : MT_OK);
                EQ(r.bytes, fits);
                filled(in, fits, i);
                for (uint64_t k = fits; k < sizeof(in); k++) {
                    EQ(in[k], 77);
                }
            }
        }
    }
    fix_barrier();
}

/* Done only when a receive has matched; to itself, too. */
static void synchronous(struct mt_engine_context *c)
{
    static char out[2 * EAGER], in[2 * EAGER];
    for (unsigned i = 0; i < 6; i++) {
        uint64_t n = i % 3 == 0 ? 0 : i % 3 == 1 ? 8 : 2 * EAGER;
        int to = i < 3 ? 1 : 0;
        struct mt_engine_request s, r;
        struct mt_buffer b = flat(out, n);
        if (fix.rank == 0) {
            fill(out, n, i);
            EQ(mt_engine_send(c, &s, to, 1, MT_ENGINE_SYNCHRONOUS, &b), MT_OK);
            linger();
        }
        fix_barrier();
        if (fix.rank == 0) {
            CHECK(!mt_engine_done(&s));
            CHECK(mt_engine_obligations(fix.engine) > 0);
        }
        fix_barrier();
        if ((int)fix.rank == to) {
            start_receive(c, &r, 0, 1, in, n);
            finish(&r);
            filled(in, n, i);
        }
        if (fix.rank == 0) {
            finish(&s);
        }
    }
    fix_barrier();
}

/* Nobody receives these, of a context that is open and of one that never is on the
 * receiver; of the four the sender waits for three. */
static void send_unreceived(struct mt_engine_context *open,
                            struct mt_engine_context *early,
                            struct mt_engine_request s[4])
{
    static char payload[3 * EAGER];
    struct mt_buffer brief = flat(payload, 8), full = flat(payload, 3 * EAGER);
    EQ(mt_engine_send(open, &s[0], 1, 9, MT_ENGINE_STANDARD, &brief), MT_OK);
    EQ(mt_engine_send(open, &s[1], 1, 9, MT_ENGINE_SYNCHRONOUS, &brief), MT_OK);
    EQ(mt_engine_send(early, &s[2], 1, 9, MT_ENGINE_STANDARD, &full), MT_OK);
    EQ(mt_engine_send(open, &s[3], 1, 9, MT_ENGINE_SYNCHRONOUS, &full), MT_OK);
}

/* Senders of what is discarded go on, and what is sent afterwards arrives. */
static void discarding(struct mt_engine_context *c)
{
    enum { TIMES = 4 };
    static char out[3 * EAGER], in[3 * EAGER];
    struct mt_engine_request s[4 * TIMES], r;
    struct mt_engine_envelope e;
    struct mt_engine_context *early = fix.rank == 0 ? fix_context(98) : NULL;
    struct mt_engine_context *gone = fix_context(97);
    struct mt_buffer brief = flat(out, 8);
    uint32_t waited = 0;
    if (fix.rank == 0) {
        EQ(mt_engine_send(gone, &r, 1, 9, MT_ENGINE_SYNCHRONOUS, &brief), MT_OK);
    } else if (fix.rank == 1) {
        await_probe(gone, 0, 9, &e);
    }
    mt_engine_context_close(gone);
    if (fix.rank == 0) {
        finish(&r);
    }
    for (int i = 0; i < TIMES && fix.rank == 0; i++) {
        send_unreceived(c, early, &s[4 * i]);
    }
    while (waited < 3 * TIMES + 1 && fix.rank == 1) {
        fix_turn("messages to discard");
        waited += mt_engine_discard(fix.engine);
    }
    EQ(waited, fix.rank == 1 ? 3 * TIMES + 1 : 0);
    for (int i = 0; i < 4 * TIMES && fix.rank == 0; i++) {
        finish(&s[i]);
    }
    fix_barrier();
    if (fix.rank == 0) {
        mt_engine_context_close(early);
        EQ(mt_engine_send(c, &s[0], 0, 9, MT_ENGINE_SYNCHRONOUS, &brief), MT_OK);
        EQ(mt_engine_discard(fix.engine), 1); /* its own */
        finish(&s[0]);
        fill(out, sizeof(out), 77);
        start_send(c, &s[0], 1, 9, out, sizeof(out));
        finish(&s[0]);
    } else if (fix.rank == 1) {
        start_receive(c, &r, 0, 9, in, sizeof(in));
        finish(&r);
        filled(in, sizeof(in), 77);
    }
    fix_barrier();
}

static void cancelling(struct mt_engine_context *c)
{
    struct mt_engine_request r[3], s;
    int in[3] = {0}, out = 9;
    if (fix.rank == 1) {
        start_receive(c, &r[0], 0, 4, &in[0], 4);
        start_receive(c, &r[1], MT_ENGINE_ANY, 4, &in[1], 4);
        start_receive(c, &r[2], 0, 4, &in[2], 4);
        for (int i = 0; i < 2; i++) {
            mt_engine_cancel(&r[i]);
            CHECK(mt_engine_done(&r[i]) && r[i].cancelled);
        }
    }
    fix_barrier();
    if (fix.rank == 0) {
        start_send(c, &s, 1, 4, &out, 4);
        finish(&s);
        mt_engine_cancel(&s); /* too late, which is no error */
        CHECK(!s.cancelled);
    } else if (fix.rank == 1) {
        finish(&r[2]);
        EQ(in[2], 9);
        EQ(in[0] + in[1], 0);
    }
    /* a send to itself that nothing matched */
    struct mt_buffer b = flat(&out, 4);
    EQ(mt_engine_send(c, &s, (int)fix.rank, 4, MT_ENGINE_SYNCHRONOUS, &b),
       MT_OK);
    CHECK(!mt_engine_done(&s));
    mt_engine_cancel(&s);
    CHECK(mt_engine_done(&s) && s.cancelled);
    struct mt_engine_envelope e;
    EQ(mt_engine_probe(c, (int)fix.rank, 4, &e, NULL), MT_EAGAIN);
    fix_barrier();
}

/* Sends that wait for credits can be taken back; the others arrive. */
static void cancelling_stalled(struct mt_engine_context *c, bool thread)
{
    enum { N = 2000 };
    static struct mt_engine_request sends[N];
    static int out[N];
    uint32_t *gone = (uint32_t *)fix.shared->data[0][FIX_PROCESSES - 1];
    fix_barrier();
    if (fix.rank == 0) {
        uint32_t taken = 0;
        for (int i = 0; i < N; i++) {
            out[i] = i;
            start_send(c, &sends[i], 1, 2, &out[i], 4);
        }
        for (int i = 0; i < N; i += 2) {
            mt_engine_cancel(&sends[i]);
            fix_wait(&sends[i]);
            taken += sends[i].cancelled;
        }
        CHECK(taken > 0 || thread); /* rank 1's may have taken all */
        for (int i = 0; i < N; i++) {
            fix_wait(&sends[i]);
        }
        gone[0] = taken;
        start_send(c, &sends[0], 1, 3, out, 0);
        finish(&sends[0]);
    }
    if (fix.rank != 0) {
        usleep(50000); /* lets them pile up; nothing depends on it */
    }
    if (fix.rank == 1) {
        struct mt_engine_envelope e;
        struct mt_engine_request r;
        int last = -1, in, count = 0;
        await_probe(c, 0, 3, &e); /* behind all the others */
        while (mt_engine_probe(c, 0, 2, &e, NULL) == MT_OK) {
            start_receive(c, &r, 0, 2, &in, 4);
            finish(&r);
            CHECK(in > last && in < N);
            last = in;
            count++;
        }
        EQ(count, N - (int)gone[0]);
        start_receive(c, &r, 0, 3, NULL, 0);
        finish(&r);
    }
    fix_barrier();
}

static void probing(struct mt_engine_context *c)
{
    static char out[2 * EAGER], in[2 * EAGER];
    for (unsigned i = 0; i < 4; i++) {
        uint64_t n = i % 2 == 0 ? 100 : sizeof(out);
        int to = i < 2 ? 1 : 0;
        struct mt_engine_request s[2], r;
        for (int k = 0; k < 2 && fix.rank == 0; k++) {
            struct mt_buffer b = flat(out, n - (unsigned)k);
            fill(out, n, 3);
            EQ(mt_engine_send(c, &s[k], to, 8, MT_ENGINE_SYNCHRONOUS, &b),
               MT_OK);
        }
        if ((int)fix.rank == to) {
            struct mt_engine_envelope e;
            struct mt_engine_message *m;
            await_probe(c, 0, 8, &e);
            EQ(e.bytes, n);
            EQ(mt_engine_probe(c, MT_ENGINE_ANY, MT_ENGINE_ANY, &e, &m), MT_OK);
            EQ(e.bytes, n);
            EQ(e.source, 0);
            EQ(e.tag, 8);
            /* nobody else gets it: the second one is for this receive */
            await_probe(c, 0, 8, &e);
            EQ(e.bytes, n - 1);
            start_receive(c, &r, 0, 8, in, n);
            finish(&r);
            EQ(r.bytes, n - 1);
            struct mt_buffer b = flat(in, n);
            EQ(mt_engine_receive_message(c, &r, m, &b), MT_OK);
            finish(&r);
            EQ(r.bytes, n);
            EQ(r.source, 0);
            EQ(r.tag, 8);
            filled(in, n, 3);
            EQ(mt_engine_probe(c, 0, 8, &e, &m), MT_EAGAIN);
        }
        for (int k = 0; k < 2 && fix.rank == 0; k++) {
            finish(&s[k]);
        }
        fix_barrier();
    }
}

/* What comes before a context is open waits for it; what is under way when it
 * is closed still ends. */
static void contexts(struct mt_engine_context *c)
{
    static char out[3][4 * EAGER], in[3][4 * EAGER];
    static const uint64_t n[3] = {10, 4 * EAGER, 0};
    struct mt_engine_request s[3], r[3], told;
    struct mt_engine_envelope e;
    struct mt_engine_context *late = NULL;
    if (fix.rank == 0) {
        late = fix_context(99);
        for (int i = 0; i < 3; i++) {
            fill(out[i], n[i], (unsigned)i);
            start_send(late, &s[i], 1, i, out[i], n[i]);
        }
        start_send(c, &told, 1, 50, NULL, 0);
        finish(&told);
    } else if (fix.rank == 1) {
        await_probe(c, 0, 50, &e); /* so they have come */
        start_receive(c, &r[0], 0, 50, NULL, 0);
        finish(&r[0]);
        late = fix_context(99);
        for (int i = 2; i >= 0; i--) {
            start_receive(late, &r[i], i == 1 ? MT_ENGINE_ANY : 0, i, in[i],
                          n[i]);
        }
    }
    if (late != NULL) {
        mt_engine_context_close(late);
        for (int i = 0; i < 3; i++) {
            finish(fix.rank == 0 ? &s[i] : &r[i]);
            filled(in[i], fix.rank == 1 ? n[i] : 0, (unsigned)i);
        }
    }
    fix_barrier();
    /* its number is free again; ranks are those of the context */
    if (fix.rank > 0) {
        const uint32_t processes[] = {2, 1};
        EQ(mt_engine_context_open(fix.engine, 99, 2 - fix.rank, 2, processes,
                                  &late),
           MT_OK);
        int one = (int)fix.rank, other = 0, to = (int)fix.rank - 1;
        start_receive(late, &r[0], to, 0, &other, 4);
        start_send(late, &s[0], to, 0, &one, 4);
        finish(&s[0]);
        finish(&r[0]);
        EQ(other, 3 - one);
        EQ(r[0].source, to);
        mt_engine_context_close(late);
    }
    fix_barrier();
    /* callers' mistakes */
    struct mt_buffer b = flat(NULL, 0);
    EQ(mt_engine_send(c, s, 3, 0, MT_ENGINE_STANDARD, &b), MT_EINVAL);
    EQ(mt_engine_send(c, s, -1, 0, MT_ENGINE_STANDARD, &b), MT_EINVAL);
    EQ(mt_engine_send(c, s, 0, -1, MT_ENGINE_STANDARD, &b), MT_EINVAL);
    EQ(mt_engine_receive(c, r, 3, 0, &b), MT_EINVAL);
    EQ(mt_engine_receive(c, r, 0, -2, &b), MT_EINVAL);
    EQ(mt_engine_probe(c, -2, 0, &e, NULL), MT_EINVAL);
    const uint32_t wrong[] = {0, 1, 3};
    EQ(mt_engine_context_open(fix.engine, 5, fix.rank, 3, wrong, &late),
       MT_EINVAL);
    EQ(mt_engine_context_open(fix.engine, 7, fix.rank, 2, wrong, &late),
       fix.rank < 2 ? MT_ESTATE : MT_EINVAL);
}

/* Every way to lay out 24 bytes against every other, on both paths. */
static void layouts(struct mt_engine_context *c)
{
    static const struct mt_block whole[] = {{0, 24}};
    static const struct mt_block spread[] = {
        {8, 8}, {0, 0}, {0, 4}, {40, 11}, {-6, 1}};
    static const struct mt_block backward[] = {{20, 20}, {0, 4}};
    static const struct mt_layout all[] = {{whole, 1, 24, 24},
                                           {spread, 5, 64, 24},
                                           {backward, 2, -48, 24}};
    enum { MOST = 400, ROOM = 64 * (MOST + 2) };
    static char out[ROOM], in[ROOM];
    for (unsigned i = 0; i < 2 * 4 * 4; i++) {
        const uint64_t count = i % 2 == 0 ? 5 : MOST;
        unsigned from = i / 2 % 4, to = i / 8;
        const struct mt_layout *lf = from < 3 ? &all[from] : NULL;
        const struct mt_layout *lt = to < 3 ? &all[to] : NULL;
        /* a layout that goes backward begins at the end */
        char *of = out + (from == 2 ? 48 * (count + 1) : 64);
        char *at = in + (to == 2 ? 48 * (count + 1) : 64);
        struct mt_buffer bf = {of, lf, count * 24, 0, NULL, false};
        struct mt_buffer bt = {at, lt, count * 24, 0, NULL, false};
        struct mt_engine_request r;
        if (fix.rank == 0) {
            fill(out, ROOM, i);
            EQ(mt_engine_send(c, &r, 1, 0, MT_ENGINE_STANDARD, &bf), MT_OK);
            finish(&r);
        } else if (fix.rank == 1) {
            fill(out, ROOM, i);
            memset(in, 0, ROOM);
            EQ(mt_engine_receive(c, &r, 0, 0, &bt), MT_OK);
            finish(&r);
            EQ(r.bytes, count * 24);
            static char expected[ROOM], row[24 * MOST];
            uint64_t k = 0;
            memset(expected, 0, ROOM);
            for (uint64_t e = 0; e < count; e++) { /* byte by byte */
                const struct mt_layout *l = lf != NULL ? lf : &all[0];
                for (uint32_t b = 0; b < l->block_count; b++) {
                    for (uint64_t j = 0; j < l->blocks[b].bytes; j++) {
                        row[k++] = of[(int64_t)e * l->extent +
                                      l->blocks[b].offset + (int64_t)j];
                    }
                }
            }
            k = 0;
            for (uint64_t e = 0; e < count; e++) {
                const struct mt_layout *l = lt != NULL ? lt : &all[0];
                for (uint32_t b = 0; b < l->block_count; b++) {
                    for (uint64_t j = 0; j < l->blocks[b].bytes; j++) {
                        expected[(at - in) + (int64_t)e * l->extent +
                                 l->blocks[b].offset + (int64_t)j] = row[k++];
                    }
                }
            }
            CHECK(memcmp(in, expected, ROOM) == 0);
        }
    }
    fix_barrier();
}

/* Many more than there are credits for, to everybody at once, before anybody
 * receives. */
static void flood(struct mt_engine_context *c)
{
    enum { N = ALL_WAYS ? 1500 : 300 };
    static struct mt_engine_request s[3][N], r[N];
    static char out[3][N][40], in[N][40], big[3][5 * EAGER], huge[5 * EAGER];
    struct mt_engine_request long_s[3], long_r[3];
    for (int to = 0; to < 3; to++) {
        for (int i = 0; i < N; i++) {
            fill(out[to][i], 40, fix.rank * 100 + (unsigned)(to * 10 + i));
            start_send(c, &s[to][i], to, i, out[to][i], (uint64_t)i % 41);
        }
        fill(big[to], sizeof(big[to]), fix.rank);
        start_send(c, &long_s[to], to, N, big[to], sizeof(big[to]));
    }
    for (int from = 0; from < 3; from++) {
        for (int i = N - 1; i >= 0; i--) {
            start_receive(c, &r[i], from, i, in[i], 40);
        }
        for (int i = 0; i < N; i++) {
            finish(&r[i]);
            EQ(r[i].bytes, i % 41);
            filled(in[i], r[i].bytes,
                   (unsigned)from * 100 + fix.rank * 10 + (unsigned)i);
        }
        start_receive(c, &long_r[from], from, N, huge, sizeof(huge));
        finish(&long_r[from]);
        filled(huge, sizeof(huge), (unsigned)from);
    }
    for (int to = 0; to < 3; to++) {
        for (int i = 0; i < N; i++) {
            finish(&s[to][i]);
        }
        finish(&long_s[to]);
    }
    struct mt_engine_counts counts;
    mt_engine_count(fix.engine, &counts);
    CHECK(counts.eager_messages >= 3 * N && counts.rendezvous_messages >= 3);
    CHECK(counts.unexpected_messages > 0 && counts.credit_stalls > 0);
    CHECK(counts.copied_bytes > counts.eager_bytes);
    EQ(counts.malformed_messages, 0);
    mt_fabric_throw_away(fix.engine->device);
    mt_engine_count(fix.engine, &counts);
    EQ(counts.malformed_messages, 1);
    fix_barrier();
}

/* Whatever way short messages go by then, one that is longer than they may be asks
 * first. */
static void limit(struct mt_engine_context *c)
{
    static char out[EAGER + 1], in[EAGER + 1];
    struct mt_engine_counts before, after;
    struct mt_engine_request s, r;
    mt_engine_count(fix.engine, &before);
    fill(out, sizeof(out), fix.rank);
    start_send(c, &s, (int)(fix.rank + 1) % 3, 3, out, sizeof(out));
    start_receive(c, &r, (int)(fix.rank + 2) % 3, 3, in, sizeof(in));
    finish(&s);
    finish(&r);
    filled(in, sizeof(in), (fix.rank + 2) % 3);
    mt_engine_count(fix.engine, &after);
    EQ(after.eager_messages, before.eager_messages);
    EQ(after.rendezvous_messages, before.rendezvous_messages + 1);
    fix_barrier();
}

static void run_rules(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    sizes(c);
    no_overtaking(c);
    first_come(c);
    truncation(c);
    synchronous(c);
    discarding(c);
    cancelling(c);
    cancelling_stalled(c, o.thread);
    probing(c);
    contexts(c);
    layouts(c);
    flood(c);
    limit(c);
    mt_engine_context_close(c);
    fix_close();
}

/* ---- when it begins, and settings that differ ---- */

static uint32_t *flag; /* of both processes; pairs with itself */

/* A long receive finds its message although nobody called for progress between
 * the message's arrival and the receive, and so begins to fetch it. */
static void run_early(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static char memory[EAGER + 1];
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    struct mt_engine_request r;
    struct mt_engine_counts counts;
    fix_barrier();
    if (fix.rank == 1) {
        fill(memory, sizeof(memory), 3);
        start_send(c, &r, 0, 5, memory, sizeof(memory));
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    } else {
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) {
            sched_yield();
        }
        start_receive(c, &r, 1, 5, memory, sizeof(memory));
        mt_engine_count(fix.engine, &counts);
        EQ(counts.unexpected_messages, 1);
    }
    finish(&r);
    filled(memory, sizeof(memory), 3);
    mt_engine_context_close(c);
    fix_close();
}

/* Processes with other settings are refused by all. */
static void run_refusal(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    struct mt_engine *engine;
    o.wireup = (struct mt_fabric_wireup){
        .rank = fix.rank, .size = fix.size, .exchange = fix_exchange};
    o.terms.eager_limit += fix.rank == 1;
    EQ(mt_engine_open(&o, &engine), MT_EINVAL);
    o.terms.eager_limit = EAGER;
    o.device = fix.rank == 2 ? "none such" : o.device;
    EQ(mt_engine_open(&o, &engine), MT_ENODEVICE);
}

/* A child of fork has an engine that does nothing. */
static void run_fork(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    int status, one = 1, other = 0;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    struct mt_engine_request r, s;
    start_receive(c, &r, 1 - (int)fix.rank, 0, &other, 4);
    pid_t child = fork();
    if (child == 0) {
        struct mt_buffer b = flat(&one, 4);
        mt_engine_forget(fix.engine);
        CHECK(!mt_engine_progress(fix.engine));
        EQ(mt_engine_obligations(fix.engine), 0);
        EQ(mt_engine_send(c, &s, 0, 0, MT_ENGINE_STANDARD, &b), MT_ESTATE);
        EQ(mt_engine_receive(c, &s, 0, 0, &b), MT_ESTATE);
        EQ(mt_engine_close(fix.engine), MT_ESTATE);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    start_send(c, &s, 1 - (int)fix.rank, 0, &one, 4);
    finish(&r);
    finish(&s);
    EQ(other, 1);
    mt_engine_context_close(c);
    fix_close();
}

int main(void)
{
    static const char *const devices[] = {"shm", "iwarp:lo"};
    bool right = true;
    flag = mmap(NULL, sizeof(*flag), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct mt_engine_options early = {.device = "shm",
                                      .fabric.engine_cpu = -1,
                                      .terms.eager_limit = EAGER};
    right = fix_run("a long receive behind its message", 2, run_early,
                    &early);
    for (unsigned d = 0; d < 2; d++) {
        for (unsigned engine = 0; engine < 3; engine++) {
            struct mt_engine_options o = {
                .device = devices[d],
                .fabric = {.engine = (enum mt_fabric_engine)engine,
                           .engine_cpu = -1},
                .terms.eager_limit = EAGER,
                .rtr_usage = 80,
                .rtr_sample = 20,
                .ring_bytes = engine == 2 ? 0 : 4096};
            char what[60];
            for (unsigned way = 0; way < 3; way++) {
                if (ALL_WAYS == 0 && way != (d + engine) % 3) {
                    continue; /* those take their time */
                }
                o.thread = d == engine;
                o.terms.rendezvous = (enum mt_engine_rendezvous)way;
                snprintf(what, sizeof(what), "%s, engine %u, rendezvous %u",
                         devices[d], engine, way);
                right = fix_run(what, 3, run_rules, &o) && right;
            }
        }
        struct mt_engine_options o = {.device = devices[d],
                                      .fabric.engine_cpu = -1,
                                      .terms.eager_limit = EAGER,
                                      .terms.rendezvous = MT_ENGINE_RTR,
                                      .ring_bytes = 8192};
        right = fix_run("other settings", 3, run_refusal, &o) && right;
        right = fix_run("a child of fork", 2, run_fork, &o) && right;
        o.fabric.faults = fix_script("seed 5\nregister 1/3\nfull 1/20\n");
        for (unsigned way = 0; way < 3; way++) {
            o.terms.rendezvous = (enum mt_engine_rendezvous)way;
            right = fix_run("memory that cannot be registered", 3, run_rules,
                            &o) &&
                    right;
        }
        remove(o.fabric.faults);
        o.fabric.faults = NULL;
        o.datagrams.first = true;
        o.datagrams.after = 50;
        o.fabric.faults = fix_script("seed 5\ndrop 1/50 ud\nduplicate 1/50 ud\n"
                                 "reorder 1/50 ud\n");
        for (uint32_t i = 0; i < 3; i++) { /* of 2 peers */
            o.datagrams.connections = i;
            right = fix_run("datagrams, some of which are lost", 3, run_rules,
                            &o) &&
                    right;
        }
        remove(o.fabric.faults);
    }
    return !right;
}
