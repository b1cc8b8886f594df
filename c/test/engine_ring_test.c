/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* engine_ring_test.c: short messages that are stored into the ring of their receiver
 * at once count for all the rules that other messages count for. Over shared memory;
 * over TCP, where they are posted, the same holds. */
#include "../engine/inside.h"
#include "engine_fixture.h"

enum { EAGER = 1000, LONG = 5000, TALK = 3, ASKED = 5 };

/* What process 1 has asked for and not got. */
static uint32_t asked(void)
{
    const struct mt_rtr *rtr = fix.engine->peers[1].rtr;
    uint32_t n = 0;
    for (unsigned i = 0; rtr != NULL && i < MT_RTR_ENVELOPES; i++) {
        n += rtr->envelopes[i].last - rtr->envelopes[i].first;
    }
    return n;
}

/* Two receives ask first. The first message that they match is a short one, so that
 * it ends what the first of them asked for, and the second is written where the second
 * wants it. */
static void run_asked(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static char out[LONG], in[2][LONG];
    struct mt_engine_request r[2], s[2];
    struct mt_engine_counts before, after;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    fix_talk(c, 1 - (int)fix.rank, TALK);
    fix_barrier();
    mt_engine_count(fix.engine, &before);
    if (fix.rank == 1) {
        start_receive(c, &r[0], 0, ASKED, in[0], LONG);
        start_receive(c, &r[1], 0, ASKED, in[1], LONG);
        mt_engine_count(fix.engine, &after);
        EQ(after.rtr_sent, 2);
        fix_barrier();
        finish(&r[0]);
        finish(&r[1]);
        EQ(r[0].bytes, 8);
        EQ(r[1].bytes, LONG);
        filled(in[0], 8, 1);
        filled(in[1], LONG, 2);
        mt_engine_count(fix.engine, &after);
        EQ(after.rtr_used, 1);
        EQ(after.rtr_mispredicted, 1);
    } else {
        fix_barrier();
        while (asked() < 2) {
            fix_turn("what the other asks");
        }
        fill(out, 8, 1);
        start_send(c, &s[0], 1, ASKED, out, 8);
        CHECK(mt_engine_done(&s[0]));
        fill(out, LONG, 2);
        start_send(c, &s[1], 1, ASKED, out, LONG);
        finish(&s[1]);
        mt_engine_count(fix.engine, &after);
        EQ(after.ring_messages, before.ring_messages + 1);
        EQ(after.eager_messages, before.eager_messages + 1);
        EQ(after.copied_bytes, before.copied_bytes + 8);
    }
    mt_engine_context_close(c);
    fix_close();
}

/* Without a turn of this process. */
static void still_barrier(void)
{
    struct mt_engine *engine = fix.engine;
    fix.engine = NULL;
    fix_barrier();
    fix.engine = engine;
}

/* A ring that nobody reads is full at some time. What does not fit goes another way,
 * and what is sent when there is room again does not overtake it. */
static void run_full(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    enum { N = 3000, FIRST = 100 };
    static struct mt_engine_request s[N];
    static char out[N][24], in[24];
    struct mt_engine_request r;
    struct mt_engine_counts before, counts;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    fix_talk(c, 1 - (int)fix.rank, TALK);
    fix_barrier();
    mt_engine_count(fix.engine, &before);
    for (unsigned i = 0; i < N; i++) {
        bool there_is_room = i == N - 1;
        if (fix.rank == 0) {
            if (there_is_room) {
                CHECK(!mt_engine_done(&s[i - 1]));
                still_barrier(); /* all that, before anything is read */
                still_barrier();
            }
            fill(out[i], sizeof(out[i]), i);
            start_send(c, &s[i], 1, ASKED, out[i], sizeof(out[i]));
        } else {
            if (i == 0 || i == FIRST) {
                still_barrier();
            }
            start_receive(c, &r, 0, ASKED, in, sizeof(in));
            finish(&r);
            filled(in, sizeof(in), i);
        }
    }
    for (unsigned i = 0; fix.rank == 0 && i < N; i++) {
        finish(&s[i]);
    }
    mt_engine_count(fix.engine, &counts);
    CHECK(fix.rank == 1 || counts.ring_messages < counts.eager_messages);
    /* they went straight to their receives, which were posted before anybody looked: but
     * for those that came another way, and were next as soon as they came. How many these
     * are is up to the scheduler, and few */
    CHECK(fix.rank == 0 ||
          counts.unexpected_messages - before.unexpected_messages < N / 4);
    mt_engine_context_close(c);
    fix_close();
}

/* What nobody waits for stays in the ring, but a probe finds what is behind it. */
static void run_probed(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    enum { AHEAD = 200, WANTED = ASKED + 1 };
    static struct mt_engine_request s[AHEAD + 1];
    static char out[AHEAD + 1][8], in[8];
    struct mt_engine_request r;
    struct mt_engine_envelope e;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    fix_talk(c, 1 - (int)fix.rank, TALK);
    fix_barrier();
    for (unsigned i = 0; fix.rank == 0 && i <= AHEAD; i++) {
        fill(out[i], sizeof(out[i]), i);
        start_send(c, &s[i], 1, i < AHEAD ? ASKED : WANTED, out[i], sizeof(out[i]));
    }
    for (unsigned i = 0; fix.rank == 1 && i <= AHEAD; i++) {
        unsigned which = i == 0 ? AHEAD : i - 1;
        while (i == 0 && mt_engine_probe(c, 0, WANTED, &e, NULL) != MT_OK) {
            fix_turn("what a probe looks for");
        }
        start_receive(c, &r, 0, which < AHEAD ? ASKED : WANTED, in, sizeof(in));
        finish(&r);
        filled(in, sizeof(in), which);
    }
    for (unsigned i = 0; fix.rank == 0 && i <= AHEAD; i++) {
        finish(&s[i]);
    }
    mt_engine_context_close(c);
    fix_close();
}

/* A probe for what lies in a ring finds it, whatever else comes for receives meanwhile:
 * each time that it looks the last receive posted has its message, by another way. */
static void run_passed_by(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    enum { TIMES = 20, PATIENCE = 10, STREAM = ASKED, WANTED = ASKED + 1 };
    char b[8] = {0}, in[8];
    struct mt_buffer flat_b = flat(b, sizeof(b));
    struct mt_engine_request r, s;
    struct mt_engine_envelope e;
    int found = -1;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    if (fix.rank < 2) {
        fix_talk(c, 1 - (int)fix.rank, TALK);
    }
    fix_barrier();
    if (fix.rank == 1) {
        start_send(c, &s, 0, WANTED, b, sizeof(b));
        finish(&s);
    }
    for (int i = 0; i < TIMES; i++) {
        if (fix.rank == 0) {
            start_receive(c, &r, 2, STREAM, in, sizeof(in));
        }
        if (fix.rank == 2) {
            EQ(mt_engine_send(c, &s, 0, STREAM, MT_ENGINE_SYNCHRONOUS, &flat_b), MT_OK);
        }
        still_barrier();
        if (fix.rank == 0) {
            mt_engine_progress(fix.engine);
            if (found < 0 && mt_engine_probe(c, 1, WANTED, &e, NULL) == MT_OK) {
                found = i;
            }
            finish(&r);
        }
        if (fix.rank == 2) {
            finish(&s);
        }
    }
    if (fix.rank == 0) {
        CHECK(found >= 0 && found < PATIENCE);
        start_receive(c, &r, 1, WANTED, in, sizeof(in));
        finish(&r);
    }
    mt_engine_context_close(c);
    fix_close();
}

/* Of many rings, too, only the one is read whose message is waited for, and if all
 * receives have theirs, none. */
static void run_many(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    enum { N = 100 };
    static struct mt_engine_request s[N];
    char b[8] = {0}, in[8];
    struct mt_engine_request r;
    struct mt_engine_counts before, counts;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    for (unsigned p = 1; p < fix.size; p++) {
        if (fix.rank == 0 || fix.rank == p) {
            fix_talk(c, fix.rank == 0 ? (int)p : 0, TALK);
        }
    }
    for (int round = 0; round < 2; round++) { /* the first one finds rings that are short */
        fix_barrier();
        still_barrier();
        for (int i = 0; fix.rank > 0 && i < N; i++) {
            start_send(c, &s[i], 0, ASKED, b, sizeof(b));
        }
        still_barrier();
        mt_engine_count(fix.engine, &before);
        for (int i = 0; fix.rank == 0 && i < N; i++) {
            for (unsigned p = 1; p < fix.size; p++) {
                bool any = i >= N / 2;
                start_receive(c, &r, any ? MT_ENGINE_ANY : (int)p, ASKED, in, sizeof(in));
                while (!mt_engine_done(&r)) {
                    mt_engine_spin(fix.engine);
                }
            }
        }
        for (int i = 0; fix.rank > 0 && i < N; i++) {
            finish(&s[i]);
        }
        mt_engine_count(fix.engine, &counts);
    }
    CHECK(fix.rank > 0 ||
          counts.unexpected_messages - before.unexpected_messages < N / 4);
    mt_engine_context_close(c);
    fix_close();
}

int main(void)
{
    static const char *const devices[] = {"shm", "iwarp:lo"};
    bool right = true;
    for (unsigned d = 0; d < 2; d++) {
        struct mt_engine_options o = {.device = devices[d],
                                      .fabric.engine_cpu = -1,
                                      .terms.eager_limit = EAGER,
                                      .terms.rendezvous = MT_ENGINE_RTR,
                                      .rtr_usage = 1,
                                      .rtr_sample = 1000,
                                      .ring_bytes = 8192};
        right = fix_run("asked for", 2, run_asked, &o) && right;
        right = fix_run("a ring that is full", 2, run_full, &o) && right;
        right = fix_run("a probe", 2, run_probed, &o) && right;
        right = fix_run("passed by", 3, run_passed_by, &o) && right;
        o.ring_bytes = 65536;
        right = fix_run("many rings", 4, run_many, &o) && right;
    }
    return !right;
}
