/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* Verification: what is changed behind its checksum is found, named by the way
 * that it came, and that way is not taken any more. The sender changes its buffer
 * while the message is under way, which no device of ours can be made to do. */
#include "engine_fixture.h"

enum { EAGER = 1000, LONG = 70000, WINDOW = 64 };

static struct mt_engine_counts counts(void)
{
    struct mt_engine_counts c;
    mt_engine_count(fix.engine, &c);
    return c;
}

/* What this message came by, and whether it is right. */
static enum mt_engine_way receive(struct mt_engine_context *c, char *in,
                                  uint64_t n)
{
    struct mt_engine_request r;
    start_receive(c, &r, 0, 1, in, n);
    finish(&r);
    EQ(r.bytes, n);
    return r.wrong;
}

/* A long message whose first byte changes before its receive is posted. */
static void changed(struct mt_engine_context *c, bool change,
                    enum mt_engine_way want)
{
    static char out[LONG], in[LONG];
    uint64_t shunned = counts().quarantined_paths;
    if (fix.rank == 0) {
        struct mt_engine_request s;
        fill(out, LONG, 3);
        start_send(c, &s, 1, 1, out, LONG);
        out[0] = (char)(out[0] + change);
        fix_barrier();
        finish(&s);
        while (change && want != MT_ENGINE_FRAGMENTS &&
               counts().quarantined_paths == shunned) {
            fix_turn("the receiver's word");
        }
    } else {
        fix_barrier();
        EQ(receive(c, in, LONG), change ? want : MT_ENGINE_NO_WAY);
        in[0] = (char)(in[0] - change);
        filled(in, LONG, 3);
    }
    fix_barrier();
}

/* How many messages rank 0 has sent each way. */
static void sent(uint64_t read, uint64_t written, uint64_t fragments)
{
    struct mt_engine_counts c = counts();
    if (fix.rank == 0) {
        EQ(c.read_messages, read);
        EQ(c.written_messages, written);
        EQ(c.fragment_messages, fragments);
    }
}

/* Each way in turn is found wrong, and left, but for the last. */
static void long_ones(struct mt_engine_context *c)
{
    changed(c, false, MT_ENGINE_NO_WAY);
    sent(1, 0, 0);
    changed(c, true, MT_ENGINE_READ);
    changed(c, false, MT_ENGINE_NO_WAY);
    sent(2, 1, 0);
    changed(c, true, MT_ENGINE_WRITTEN);
    changed(c, false, MT_ENGINE_NO_WAY);
    sent(2, 2, 1);
    changed(c, true, MT_ENGINE_FRAGMENTS);
    changed(c, false, MT_ENGINE_NO_WAY); /* there is no other way left */
    sent(2, 2, 3);
    struct mt_engine_counts n = counts();
    EQ(n.quarantined_paths, fix.rank == 0 ? 2 : 0);
    EQ(n.wrong_messages, fix.rank == 1 ? 3 : 0);
    EQ(n.verified_messages, fix.rank == 1 ? 7 : 0);
}

/* Short ones wait for credits while the other end does nothing: one whose
 * checksum got the last one is changed. */
static void short_ones(struct mt_engine_context *c)
{
    enum { N = 4 * WINDOW + 1 };
    static struct mt_engine_request s[N];
    static char out[N][EAGER], in[EAGER];
    unsigned wrong = 0;
    if (fix.rank == 0) {
        for (unsigned i = 0; i < N; i++) {
            fill(out[i], EAGER, i);
            start_send(c, &s[i], 1, 1, out[i], EAGER);
        }
        for (unsigned i = 0; i < N; i++) {
            if (!mt_engine_done(&s[i])) {
                out[i][0]++; /* of the first of these the checksum has left */
                break;
            }
        }
        fix_barrier();
        for (unsigned i = 0; i < N; i++) {
            finish(&s[i]);
        }
    } else {
        fix_barrier();
        for (unsigned i = 0; i < N; i++) {
            enum mt_engine_way way = receive(c, in, EAGER);
            CHECK(way == MT_ENGINE_NO_WAY || way == MT_ENGINE_EAGER);
            wrong += way != MT_ENGINE_NO_WAY;
            in[0] = (char)(in[0] - (way != MT_ENGINE_NO_WAY));
            filled(in, EAGER, i);
        }
    }
    fix_barrier();
    struct mt_engine_counts before = counts();
    EQ(before.wrong_messages, wrong);
    if (fix.rank == 0) {
        struct mt_engine_request last;
        start_send(c, &last, 1, 1, out[0], EAGER);
        fix_barrier();
        finish(&last);
        struct mt_engine_counts after = counts();
        EQ(after.eager_messages - before.eager_messages, before.quarantined_paths == 0);
        EQ(before.quarantined_paths, 1); /* it was the case that this is about */
    } else {
        EQ(receive(c, in, EAGER), MT_ENGINE_NO_WAY);
        fix_barrier();
    }
    fix_barrier();
}

static void verify(void *argument)
{
    struct mt_engine_options o = *(const struct mt_engine_options *)argument;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(2);
    bool is_short = o.terms.eager_limit == EAGER;
    if (is_short) {
        short_ones(c);
    } else {
        long_ones(c);
    }
    mt_engine_context_close(c);
    fix_close();
}

/* One in three is checked, by a ring, too; what is not has no checksum. */
static void sampled(void *argument)
{
    struct mt_engine_options o = *(const struct mt_engine_options *)argument;
    enum { N = 300 };
    char data[EAGER];
    o.verify_every = 3;
    o.ring_bytes = 65536;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(2);
    for (unsigned i = 0; i < N; i++) {
        struct mt_engine_request r;
        if (fix.rank == 0) {
            fill(data, EAGER, i);
            start_send(c, &r, 1, 1, data, EAGER);
        } else {
            start_receive(c, &r, 0, 1, data, EAGER);
        }
        finish(&r);
        if (i % 10 == 9) { /* none is checked that has no bytes */
            if (fix.rank == 0) {
                start_receive(c, &r, 1, 2, data, 0);
            } else {
                start_send(c, &r, 0, 2, data, 0);
            }
            finish(&r);
        }
    }
    CHECK(counts().ring_messages > 0 || fix.rank == 1);
    EQ(counts().verified_messages, fix.rank == 1 ? N / 3 : 0);
    EQ(counts().verified_bytes, fix.rank == 1 ? N / 3 * EAGER : 0);
    mt_engine_context_close(c);
    fix_close();
}

int main(void)
{
    static const char *const devices[] = {"shm", "iwarp:lo"};
    bool right = true;
    for (unsigned d = 0; d < 2; d++) {
        struct mt_engine_options o = {.device = devices[d],
                                      .verify_every = 1,
                                      .terms.eager_limit = EAGER - 1};
        o.fabric.engine_cpu = -1;
        right = fix_run("long ones", 2, verify, &o) && right;
        o.terms.eager_limit = EAGER;
        right = fix_run("short ones", 2, verify, &o) && right;
        right = fix_run("one in three", 2, sampled, &o) && right;
    }
    return !right;
}
