/* sources: c/probe/enter.c c/probe/site.c c/probe/request.c c/probe/arrival.c c/probe/reuse.c c/probe/event.c */
/* Calls of an application that jumps out of handlers, calls from callbacks and
 * is called back: every call of its own is counted exactly once, none of the
 * library's is. A dumb twin keeps the counts. */
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "fixture.h"

enum { SITES = 40, IDS = 12, ROUNDS = 200000, STACK = 0x7000000 };

static uint64_t want[IDS][SITES];
static uint64_t want_internal;

static uintptr_t site_address(unsigned site)
{
    return 0x400000 + site * 0x11;
}

static void finish(struct mt_call *call)
{
    mt_stop(call);
    mt_leave(call, false);
}

/* One call of the application at a stack depth, and what happens inside it. */
static void application_call(unsigned long long *state, uintptr_t frame,
                             int depth)
{
    unsigned id = 1 + (unsigned)(check_random(state) % (IDS - 1));
    unsigned site = (unsigned)(check_random(state) % SITES);
    struct mt_call call;
    want[id][site] += 1;
    CHECK(mt_enter(&call, id, site_address(site), frame) == MT_COUNT);
    mt_go_peer(&call, 77, 1, 2);
    CHECK_EQ(mt_tls.shard->thread->call, id);
    for (unsigned n = check_random(state) % 3; n > 0; n--) {
        struct mt_call inside;
        want_internal++;
        CHECK(mt_enter(&inside, 3, FIXTURE_LIBRARY + 5, frame - 64) ==
              MT_FORWARD);
    }
    if (depth < 3 && check_random(state) % 4 == 0) {
        application_call(state, frame - 256, depth + 1);
    }
    if (depth == 0 && check_random(state) % 50 == 0) {
        return; /* longjmp: the call never leaves */
    }
    if (depth == 0 || mt_tls.guard != 0) {
        finish(&call);
    }
}

static void test_exact(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    unsigned long long state = 42;
    mt_tls.shard = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        uintptr_t frame = STACK + 4096 - check_random(&state) % 8 * 16;
        /* what a longjmp left behind is below the next caller */
        if (mt_tls.guard != 0 && frame < mt_tls.guard) {
            frame = mt_tls.guard + 16;
        }
        application_call(&state, frame, 0);
    }
    uint64_t got[IDS][SITES] = {{0}};
    for (uint32_t i = 0; i < f->sites.used; i++) {
        const struct mt_seg_site *s = &f->site_rows[i];
        got[s->call][(s->address - 0x400000) / 0x11] += s->calls;
    }
    for (int id = 1; id < IDS; id++) {
        for (int s = 0; s < SITES; s++) {
            CHECK_EQ(got[id][s], want[id][s]);
        }
    }
    CHECK_EQ(f->thread.calls_internal, want_internal);
    CHECK(f->thread.guard_repairs > 0);
    CHECK(f->thread.calls_callback > 0);
    free(f);
}

/* More sites than rows: nothing is lost, the rest is in the rows 'other'. */
static void test_overflow(void)
{
    struct fixture *f = fixture_make(100);
    uint64_t calls = 0, other = 0;
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 500; i++) {
            struct mt_call call;
            mt_enter(&call, 1 + i % 3, 0x500000 + i * 7, STACK);
            mt_go(&call);
            finish(&call);
        }
    }
    for (uint32_t i = 0; i < f->sites.used; i++) {
        calls += f->site_rows[i].calls;
        if ((f->site_rows[i].flags & MPITRACE_SITE_FLAG_OTHER) != 0) {
            other += f->site_rows[i].calls;
        }
    }
    CHECK_EQ(calls, 1500);
    CHECK(other > 0);
    CHECK_EQ(f->thread.sites_dropped > 0, 1);
    CHECK(f->sites.used <= f->sites.capacity);
    free(f);
}

static void test_paused(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_call call, inside;
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    mt_gate = MT_GATE_PAUSED;
    CHECK(mt_enter(&call, 1, 0x400000, STACK) == MT_WATCH);
    CHECK(mt_enter(&inside, 2, FIXTURE_LIBRARY, STACK - 64) == MT_FORWARD);
    mt_go(&call);
    finish(&call);
    CHECK_EQ(mt_tls.guard, 0);
    CHECK_EQ(f->sites.used, 0);
    mt_gate = MT_GATE_CLOSED;
    CHECK(mt_enter(&call, 1, 0x400000, STACK) == MT_FORWARD);
    free(f);
}

/* A quick call is counted every time and timed once in MT_QUICK_TIMED. */
static void test_quick(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    int timed = 0;
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    for (int i = 0; i < 100 * MT_QUICK_TIMED; i++) {
        struct mt_call call;
        if (!mt_quick(5, 0x400000)) {
            timed++;
            mt_enter(&call, 5, 0x400000, STACK);
            mt_go(&call);
            mt_stop(&call);
            mt_leave_quick(&call, false);
        }
    }
    CHECK_EQ(f->site_rows[0].calls, 100 * MT_QUICK_TIMED);
    CHECK_EQ(timed, 100);
    CHECK(mt_conversion_of_binding(6, FIXTURE_BINDING + 1));
    CHECK(mt_quick(6, FIXTURE_BINDING + 1));
    CHECK(!mt_conversion_of_binding(6, 0x400000));
    CHECK_EQ(f->sites.used, 1);
    mt_tls.shard = NULL; /* the first call of another thread */
    CHECK(mt_conversion_of_binding(6, FIXTURE_BINDING + 1));
    CHECK(!mt_conversion_of_binding(6, 0x400000));
    CHECK(mt_tls.shard == NULL);
    mt_gate = MT_GATE_CLOSED;
    CHECK(!mt_conversion_of_binding(6, FIXTURE_BINDING + 1));
    free(f);
}

/* A signal while this thread holds the lock of the shared shard: what the handler
 * calls is only forwarded. */
static int handled;

static void handler(int signal)
{
    struct mt_call call;
    (void)signal;
    handled++;
    CHECK(!mt_quick(2, 0x400000));
    CHECK(!mt_conversion_of_binding(2, FIXTURE_BINDING + 1));
    CHECK(mt_enter(&call, 2, 0x400020, STACK - 4096) == MT_FORWARD);
}

static void test_signal(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_call call;
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    f->shard.shared = 1;
    signal(SIGUSR1, handler);
    alarm(60); /* it waits for itself */
    CHECK(mt_enter(&call, 1, 0x400000, STACK) == MT_COUNT);
    mt_go(&call);
    mt_stop(&call);
    raise(SIGUSR1);
    mt_leave(&call, false);
    alarm(0);
    CHECK_EQ(handled, 1);
    CHECK_EQ(mt_tls.guard, 0);
    CHECK_EQ(f->shard.lock, 0);
    CHECK_EQ(f->sites.used, 1);
    CHECK_EQ(f->site_rows[0].calls, 1);
    CHECK(mt_enter(&call, 1, 0x400000, STACK) == MT_COUNT);
    mt_go(&call);
    finish(&call);
    CHECK_EQ(f->site_rows[0].calls, 2);
    free(f);
}

static void test_bins(void)
{
    CHECK_EQ(mt_bin(0, 44), 0);
    CHECK_EQ(mt_bin(1, 44), 1);
    CHECK_EQ(mt_bin(2, 44), 2);
    CHECK_EQ(mt_bin(3, 44), 2);
    CHECK_EQ(mt_bin(4, 44), 3);
    CHECK_EQ(mt_bin((1ull << 42) - 1, 44), 42);
    CHECK_EQ(mt_bin(1ull << 50, 44), 43);
}

int main(void)
{
    test_exact();
    test_overflow();
    test_paused();
    test_quick();
    test_signal();
    test_bins();
    return check_failures != 0;
}
