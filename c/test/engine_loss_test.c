/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* What is gone, between processes over shared memory and over TCP: a process, or
 * the device of one. */
#include "engine_fixture.h"

enum { EAGER = 1000 };

/* ---- a process ---- */

/* Process 1 dies. What names it ends, what does not goes on. */
static void run_death(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static char out[4 * EAGER], in[8];
    struct mt_engine_request named, any, s[3], r;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    for (int other = 0; other < 3; other++) {
        if (other != (int)fix.rank && (other == 1 || fix.rank == 1)) {
            fix_talk(c, other, 3);
        }
    }
    fix_barrier();
    if (fix.rank == 1) {
        raise(SIGKILL);
    }
    start_receive(c, &named, 1, 0, in, 8);
    start_receive(c, &any, MT_ENGINE_ANY, 1, in, 8);
    struct mt_buffer b = flat(out, sizeof(out));
    EQ(mt_engine_send(c, &s[0], 1, 0, MT_ENGINE_STANDARD, &b), MT_OK);
    b.bytes = 8;
    EQ(mt_engine_send(c, &s[1], 1, 0, MT_ENGINE_SYNCHRONOUS, &b), MT_OK);
    fix_wait(&named);
    fix_wait(&s[0]);
    fix_wait(&s[1]);
    EQ(named.status, MT_EPEER);
    EQ(s[0].status, MT_EPEER);
    EQ(s[1].status, MT_EPEER);
    /* from now on at once */
    EQ(mt_engine_send(c, &s[2], 1, 0, MT_ENGINE_STANDARD, &b), MT_OK);
    CHECK(mt_engine_done(&s[2]));
    EQ(s[2].status, MT_EPEER);
    start_receive(c, &r, 1, 0, in, 8);
    CHECK(mt_engine_done(&r));
    EQ(r.status, MT_EPEER);
    start_send(c, &s[2], (int)(2 - fix.rank), 1, out, 8);
    finish(&any);
    EQ(any.source, 2 - fix.rank);
    finish(&s[2]);
    mt_engine_context_close(c);
    while (mt_engine_obligations(fix.engine) > 0) {
        fix_turn("obligations to be met");
    }
}

/* ---- a device ---- */

/* Until it ends; a thread of the engine's needs no help. */
static void wait_for_end(struct mt_engine_request *r, bool thread)
{
    while (thread && !mt_engine_done(r)) {
        usleep(1000);
        if (fix_now_ms() > fix.until_ms) {
            FAIL("waited too long for the thread");
        }
    }
    fix_wait(r);
}

/* The device of this process is lost while it sends. */
static void loses(struct mt_engine_context *c, bool thread)
{
    enum { N = 400 };
    static struct mt_engine_request sends[N], receives[3], more;
    static char out[4 * EAGER], in[4 * EAGER];
    struct mt_engine_envelope e;
    uint32_t gone = 0;
    start_receive(c, &receives[0], 0, 0, in, sizeof(in));
    start_receive(c, &receives[1], MT_ENGINE_ANY, 1, in, 8);
    start_receive(c, &receives[2], 2, 2, in, 8);
    for (int i = 0; i < N; i++) {
        struct mt_buffer b = flat(out, i % 8 == 0 ? sizeof(out) : 8);
        EQ(mt_engine_send(c, &sends[i], i % 2 * 2, 5,
                          i % 3 == 0 ? MT_ENGINE_SYNCHRONOUS
                                     : MT_ENGINE_STANDARD,
                          &b),
           MT_OK);
    }
    for (int i = 0; i < N; i++) {
        wait_for_end(&sends[i], thread);
        CHECK(sends[i].status == MT_OK || sends[i].status == MT_EPEER);
        gone += sends[i].status == MT_EPEER;
    }
    CHECK(gone > 0);
    for (int i = 0; i < 3; i++) {
        wait_for_end(&receives[i], thread);
        EQ(receives[i].status, MT_EPEER);
    }
    /* from now on at once, but for what this process sends itself */
    for (int to = 0; to < 3; to++) {
        start_send(c, &more, to, 6, out, 8);
        CHECK(mt_engine_done(&more));
        EQ(more.status, to == 1 ? MT_OK : MT_EPEER);
    }
    for (int i = 0; i < 2; i++) { /* and then there is no message */
        start_receive(c, &more, MT_ENGINE_ANY, 6, in, 8);
        CHECK(mt_engine_done(&more));
        EQ(more.status, i == 0 ? MT_OK : MT_EPEER);
    }
    EQ(mt_engine_probe(c, 0, 6, &e, NULL), MT_EPEER);
    EQ(mt_engine_probe(c, 1, 6, &e, NULL), MT_EAGAIN);
    EQ(mt_engine_probe(c, MT_ENGINE_ANY, 6, &e, NULL), MT_EPEER);
}

/* Process 1 loses its device: it has no peers any more, and the others not this
 * one. Nobody waits for ever, and all can close. */
static void run_loss(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static char out[4 * EAGER], in[8];
    struct mt_engine_request named, sent, late, r, s;
    o.fabric.faults = fix.rank == 1 ? o.fabric.faults : NULL;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    fix_barrier();
    if (fix.rank == 1) {
        loses(c, o.thread);
    } else {
        start_receive(c, &named, 1, 9, in, 8);
        start_send(c, &sent, 1, 10, out, sizeof(out));
    }
    fix_barrier();
    if (fix.rank != 1) {
        int other = 2 - (int)fix.rank;
        /* without a connection only who sends finds out */
        start_send(c, &late, 1, 10, out, sizeof(out));
        fix_wait(&named);
        fix_wait(&sent);
        fix_wait(&late);
        EQ(named.status, MT_EPEER);
        EQ(sent.status, MT_EPEER);
        EQ(late.status, MT_EPEER);
        start_receive(c, &r, other, 1, in, 8);
        start_send(c, &s, other, 1, out, 8);
        finish(&r);
        finish(&s);
    }
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
                                      .ring_bytes = 8192,
                                      .datagrams.after = 50,
                                      .datagrams.tries = 10};
        right = fix_run("a peer dies", 3, run_death, &o) && right;
        o.datagrams.first = true;
        right = fix_run("a peer of datagrams dies", 3, run_death, &o) && right;
        o.fabric.faults = fix_script("lose 150\n");
        o.datagrams.connections = 1;
        right = fix_run("a device of datagrams is lost", 3, run_loss, &o) &&
                right;
        o.datagrams.first = false;
        for (unsigned way = 0; way < 3; way++) {
            o.terms.rendezvous = (enum mt_engine_rendezvous)way;
            o.thread = way == 1;
            right = fix_run("a device is lost", 3, run_loss, &o) && right;
        }
        remove(o.fabric.faults);
    }
    return !right;
}
