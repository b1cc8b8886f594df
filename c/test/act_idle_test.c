/* sources: c/act/table.c */
/* Waits of act mode: when the MPI library is driven, when the processor is given away,
 * and when the engine is told; with a clock that goes on by a step each time that
 * somebody reads it. */
#define MT_ABI_MPICH 1
#include <sched.h>
#include <time.h>

#include "check.h"

static int fake_clock(clockid_t clock, struct timespec *now_p);
static int fake_nap(clockid_t clock, int flags, const struct timespec *nap, void *left);
static int fake_yield(void);
#undef _GNU_SOURCE /* it defines it itself */
#define clock_gettime fake_clock
#define clock_nanosleep fake_nap
#define sched_yield fake_yield
#include "../act/idle.c"
#undef clock_gettime
#undef clock_nanosleep
#undef sched_yield

enum { STEP_NS = 50, DRIVE_NS = 200, FEW = 20000 };

struct mt_act mt_act;

static uint64_t now, drives, naps, yields, attends, leaves;
static bool moves; /* the engine finds something in each round */

static int fake_clock(clockid_t clock, struct timespec *now_p)
{
    (void)clock;
    now += STEP_NS;
    *now_p = (struct timespec){.tv_sec = (time_t)(now / 1000000000),
                               .tv_nsec = (long)(now % 1000000000)};
    return 0;
}

static int fake_nap(clockid_t clock, int flags, const struct timespec *nap, void *left)
{
    (void)clock, (void)flags, (void)left;
    now += (uint64_t)nap->tv_nsec;
    naps++;
    return 0;
}

static int fake_yield(void)
{
    yields++;
    return 0;
}

/* The library's, which takes its time. */
static int fake_test(MT_Request *request, int *flag, MT_Status *status)
{
    CHECK(request == &mt_act.never);
    (void)status;
    *flag = 0;
    now += DRIVE_NS;
    drives++;
    return MT_SUCCESS;
}

bool mt_engine_progress(struct mt_engine *engine)
{
    (void)engine;
    now += STEP_NS;
    return moves;
}

bool mt_engine_spin(struct mt_engine *engine) { return mt_engine_progress(engine); }

void mt_engine_attend(struct mt_engine *engine)
{
    (void)engine;
    attends++;
}

void mt_engine_leave(struct mt_engine *engine)
{
    (void)engine;
    leaves++;
}

static void begin(bool crowded)
{
    static void *native[MPITRACE_CALL_Test + 1];
    native[MPITRACE_CALL_Test] = (void *)fake_test;
    mt_act = (struct mt_act){.native = native, .crowded = crowded};
    drives = naps = yields = attends = leaves = 0;
    moves = false;
    now += 1000000000; /* what was driven before is long ago */
}

static void test_spins(void)
{
    struct mt_act_wait wait = {0};
    begin(false);
    mt_act_turn(&wait);
    for (uint32_t i = 1; i < FEW; i++) {
        mt_act_turn(&wait);
        CHECK(drives >= i / MT_ACT_STRIDE);
        CHECK(i >= MT_ACT_SOON || drives <= 1 + i / MT_ACT_STRIDE);
    }
    CHECK_EQ(yields + naps, 0);
    CHECK_EQ(attends > 0, true);
    mt_act_waited(&wait);
    CHECK_EQ(leaves, 1);
}

/* Ranks outnumber processors. */
static void test_gives_way(void)
{
    struct mt_act_wait wait = {0};
    begin(true);
    for (uint32_t i = 1; i <= FEW; i++) {
        uint64_t before = drives;
        bool away = wait.away;
        mt_act_turn(&wait);
        CHECK_EQ(yields, i < MT_ACT_SPIN ? 0 : i < MT_ACT_YIELDS ? i - MT_ACT_SPIN + 1 : MT_ACT_YIELDS - MT_ACT_SPIN);
        CHECK_EQ(naps, i < MT_ACT_YIELDS ? 0 : i - MT_ACT_YIELDS + 1);
        /* each nap costs the library a step, if nobody asks it */
        CHECK(!away || i <= MT_ACT_YIELDS || drives == before + 1);
    }
    moves = true;
    mt_act_turn(&wait);
    CHECK(!wait.away);
    moves = false;
    uint64_t before = naps + yields;
    mt_act_turn(&wait);
    CHECK_EQ(naps + yields, before); /* it is near again */
}

/* What moves in each turn is no reason to forget the library. */
static void test_moves(void)
{
    struct mt_act_wait wait = {0};
    begin(true);
    moves = true;
    for (uint32_t i = 0; i < FEW; i++) {
        mt_act_turn(&wait);
    }
    CHECK(drives >= FEW / MT_ACT_STRIDE / 2);
    CHECK_EQ(naps + yields, 0);
}

/* The engine is told neither of a short wait nor of one for a mixed array, whose error
 * handlers may not come back. */
static void test_untold(struct mt_act_wait wait, uint32_t turns)
{
    begin(false);
    for (uint32_t i = 0; i < turns; i++) {
        mt_act_turn(&wait);
    }
    mt_act_waited(&wait);
    CHECK_EQ(attends + leaves, 0);
}

static void test_polls(void)
{
    begin(true);
    for (uint32_t i = 1; i <= 10 * MT_ACT_LOOKS; i++) {
        mt_act_poll();
        CHECK_EQ(drives, i / MT_ACT_POLLS);
        CHECK_EQ(naps, i / MT_ACT_LOOKS);
    }
    begin(false);
    for (uint32_t i = 1; i <= 10 * MT_ACT_LOOKS; i++) {
        mt_act_poll();
    }
    CHECK_EQ(naps, 0);
}

/* The library is never driven for more than a share of the time, nor by two. */
static void test_share(void)
{
    struct mt_act_wait wait = {0};
    begin(false);
    mt_act.never_taken = 1;
    for (uint32_t i = 0; i < FEW; i++) {
        mt_act_turn(&wait);
    }
    CHECK_EQ(drives, 0);
    mt_act.never_taken = 0;
    uint64_t since = now;
    for (uint32_t i = 0; i < FEW; i++) {
        mt_act_turn(&wait);
    }
    CHECK(drives > 0);
    CHECK(drives * DRIVE_NS <= (now - since) / 2 + DRIVE_NS);
}

int main(void)
{
    test_spins();
    test_gives_way();
    test_moves();
    test_untold((struct mt_act_wait){0}, MT_ACT_CLOCK);
    test_untold((struct mt_act_wait){.untold = true}, FEW);
    test_polls();
    test_share();
    return check_failures != 0;
}
