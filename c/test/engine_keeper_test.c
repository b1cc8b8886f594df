/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* engine_keeper_test.c: long messages from registrations that somebody else
 * keeps. The keeper here has one of all memory of the process, and says "not now"
 * in turn with it; it counts what is lent. */
#include "engine_fixture.h"

enum { EAGER = 1000, MOST = 40000, MESSAGES = 60, TAG = 3 };

static char memory[2][MOST];

static struct {
    struct mt_fabric_mr *mr;
    uint32_t lent, asked, given;
} keeper;

static bool keeper_get(void *user, void *address, uint64_t bytes,
                       struct mt_engine_kept *kept_p)
{
    CHECK(user == &keeper);
    CHECK((char *)address >= memory[0] &&
          (char *)address + bytes <= memory[0] + sizeof(memory));
    CHECK(bytes > EAGER);
    if (keeper.asked++ % 3 == 2) {
        return false;
    }
    keeper.lent++;
    keeper.given++;
    *kept_p = (struct mt_engine_kept){.reference = &memory,
                                      .lkey = keeper.mr->lkey,
                                      .rkey = keeper.mr->rkey};
    return true;
}

static void keeper_put(void *user, const void *reference)
{
    CHECK(user == &keeper && reference == &memory && keeper.lent > 0);
    keeper.lent--;
}

static void keeper_open(struct mt_engine_options *o)
{
    const struct mt_engine_keeper mine = {keeper_get, keeper_put, &keeper};
    fix_open(o);
    EQ(mt_fabric_mr_register(mt_engine_pd(fix.engine), memory, sizeof(memory),
                             MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE |
                                 MT_FABRIC_REMOTE_READ,
                             &keeper.mr),
       MT_OK);
    mt_engine_keep(fix.engine, &mine);
}

static void keeper_close(void)
{
    while (mt_engine_obligations(fix.engine) > 0) {
        fix_turn("obligations to be met");
    }
    EQ(keeper.lent, 0);
    fix_barrier();
    mt_engine_keep(fix.engine, NULL);
    EQ(mt_fabric_mr_destroy(keeper.mr), MT_OK);
}

/* Both ways at once round the ring; every fifth receive is too short, every
 * seventh message has gaps and is nobody's to keep. */
static void run_ring(void *argument)
{
    static const struct mt_block gaps[] = {{0, 5}, {9, 3}};
    static const struct mt_layout layout = {gaps, 2, 12, 8};
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    int to = (int)((fix.rank + 1) % fix.size);
    int from = (int)((fix.rank + fix.size - 1) % fix.size);
    uint32_t contiguous = 0;
    struct mt_engine_counts counts;
    keeper_open(&o);
    struct mt_engine_context *c = fix_context(7);
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct mt_engine_request s, r;
        uint64_t bytes = EAGER + 8 + (i * 7919u % 3500) * 8;
        bool strange = i % 7 == 6, cut = i % 5 == 4;
        uint64_t room = cut ? bytes - 8 : bytes;
        struct mt_buffer b = flat(memory[0], bytes);
        fill(memory[0], MOST, i);
        memset(memory[1], 0, MOST);
        b.layout = strange ? &layout : NULL;
        contiguous += strange ? 1 : 2;
        start_receive(c, &r, from, TAG, memory[1], room);
        if (strange) {
            b.bytes = bytes * 2 / 3 / 8 * 8;
        }
        EQ(mt_engine_send(c, &s, to, TAG, MT_ENGINE_STANDARD, &b), MT_OK);
        finish(&s);
        fix_wait(&r);
        EQ(r.status, b.bytes > room ? MT_ETRUNCATED : MT_OK);
        for (uint64_t at = 0; at < r.bytes && !strange; at++) {
            EQ(memory[1][at], memory[0][at]);
        }
        for (uint64_t at = 0; at < r.bytes && strange; at++) {
            uint64_t in = at % 8 < 5 ? at % 8 : at % 8 + 4;
            EQ(memory[1][at], memory[0][at / 8 * 12 + in]);
        }
    }
    mt_engine_context_close(c);
    keeper_close();
    mt_engine_count(fix.engine, &counts);
    EQ(keeper.asked, contiguous);
    EQ(counts.registrations, 2 * MESSAGES - keeper.given);
    fix_close();
}

/* Process 1 dies with registrations lent for it. */
static void run_death(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    struct mt_engine_request s, r;
    keeper_open(&o);
    struct mt_engine_context *c = fix_context(7);
    start_receive(c, &r, 1, TAG, memory[1], MOST);
    start_send(c, &s, 1, TAG, memory[0], MOST);
    if (fix.rank != 1) {
        EQ(keeper.lent, 1); /* exposed to it */
    }
    fix_barrier();
    if (fix.rank == 1) {
        raise(SIGKILL);
    }
    fix_wait(&s);
    fix_wait(&r);
    EQ(s.status, MT_EPEER);
    EQ(r.status, MT_EPEER);
    EQ(keeper.lent, 0);
    mt_engine_context_close(c);
    while (mt_engine_obligations(fix.engine) > 0) {
        fix_turn("obligations to be met");
    }
}

int main(void)
{
    static const char *const devices[] = {"shm", "iwarp:lo"};
    bool right = true;
    for (unsigned i = 0; i < 8; i++) {
        struct mt_engine_options o = {
            .device = devices[i % 2],
            .fabric = {.engine_cpu = -1, .threads = true},
            .terms.rendezvous = (enum mt_engine_rendezvous)(i / 2 % 2),
            .thread = i / 4 != 0,
            .terms.eager_limit = EAGER};
        char what[60];
        snprintf(what, sizeof(what), "%s, rendezvous %u, thread %d", o.device,
                 o.terms.rendezvous, o.thread);
        right = fix_run(what, 3, run_ring, &o) && right;
        if (!o.thread) {
            right = fix_run("a peer dies", 3, run_death, &o) && right;
        }
    }
    return !right;
}
