/* idle.c: what happens between two rounds of our engine's progress: the MPI
 * library's own, since it may owe something to somebody (docs/design/0009-act-mode.md), and giving the processor away.
 *
 * Driving it is to test a receive that nothing matches: both libraries then move
 * whatever they have. That costs as much as a round of ours, or very much more, so
 * it is done rarely while an answer may be near, often in a long wait, and never
 * for more than a share of the time. */
#define _GNU_SOURCE
#include <time.h>

#include "act.h"

enum {
    MT_ACT_SOON = 512,    /* idle turns in which the answer may be near */
    MT_ACT_STRIDE = 64,   /* turns between two drives then */
    MT_ACT_OFTEN = 16,    /* and after that */
    MT_ACT_SPIN = 64,     /* idle turns before the processor is given away */
    MT_ACT_YIELDS = 96,   /* idle turns before it is given away for longer */
    MT_ACT_LONG = 4096,   /* idle turns after which nothing is near */
    MT_ACT_CLOCK = 32,    /* turns between two looks at the clock, until .. */
    MT_ACT_ATTENDS_NS = 20000, /* .. the engine's thread is told of the wait */
    MT_ACT_NAP_NS = 20000,
    MT_ACT_POLLS = 4,      /* looks of the application between two drives */
    MT_ACT_LOOKS = 256,    /* idle looks in a row before the processor goes */
    /* Between two drives, as a multiple of what the last one took: */
    MT_ACT_PAUSE_SOON = 8,
    MT_ACT_PAUSE_LATER = 1,
};

_Static_assert(MT_ACT_CLOCK % MT_ACT_MOVED == 0 &&
                   MT_ACT_STRIDE % MT_ACT_MOVED == 0,
               "what is due in a wait is not missed by turns that move something");

static uint64_t mt_driven_at, mt_driven_ns; /* by who has never_taken */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void drive(uint64_t pause)
{
    int flag;
    if (__atomic_exchange_n(&mt_act.never_taken, 1, __ATOMIC_ACQUIRE) != 0) {
        return; /* another thread does it */
    }
    uint64_t begin = now_ns();
    if (begin - mt_driven_at >= pause * mt_driven_ns) {
        MT_PMPI(Test)(&mt_act.never, &flag, MT_STATUS_IGNORE);
        mt_driven_at = now_ns();
        mt_driven_ns = mt_driven_at - begin;
    }
    __atomic_store_n(&mt_act.never_taken, 0, __ATOMIC_RELEASE);
}

/* With more ranks than processors the one that we wait for may need ours.
 * Yielding is not enough: the scheduler comes back to us at once until our slice
 * is used up. */
static void give_way(uint32_t idle)
{
    if (idle < MT_ACT_YIELDS) {
        sched_yield();
        return;
    }
    struct timespec nap = {.tv_nsec = MT_ACT_NAP_NS};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
}

/* To tell costs up to two system calls, which a short wait shall not take. */
static void attend(struct mt_act_wait *wait)
{
    uint64_t now = now_ns();
    wait->since_ns = wait->since_ns == 0 ? now : wait->since_ns;
    wait->attends = now - wait->since_ns >= MT_ACT_ATTENDS_NS;
    if (wait->attends) {
        mt_engine_attend(mt_act.engine);
    }
}

void mt_act_idle(struct mt_act_wait *wait)
{
    if (mt_unlikely(wait->turns % MT_ACT_CLOCK == 0) && !wait->attends &&
        !wait->untold) {
        attend(wait);
    }
    /* behind a nap, too: a step of the library's each would be too few */
    uint32_t stride = wait->away || wait->idle >= MT_ACT_LONG ? 1
                      : wait->idle < MT_ACT_SOON ? MT_ACT_STRIDE
                                                 : MT_ACT_OFTEN;
    if (mt_unlikely(wait->turns % stride == 0)) {
        drive(wait->idle < MT_ACT_SOON ? MT_ACT_PAUSE_SOON
                                       : MT_ACT_PAUSE_LATER);
    }
    wait->away = mt_act.crowded && wait->idle >= MT_ACT_SPIN;
    if (wait->away) {
        give_way(wait->idle);
    }
}

void mt_act_drive(void)
{
    drive(MT_ACT_PAUSE_SOON);
}

void mt_act_poll(void)
{
    static _Thread_local uint32_t polls, idle;
    idle = mt_engine_progress(mt_act.engine) ? 0 : idle + 1;
    if (++polls % MT_ACT_POLLS == 0) {
        drive(MT_ACT_PAUSE_LATER);
    }
    if (mt_act.crowded && idle >= MT_ACT_LOOKS) {
        idle = 0;
        give_way(MT_ACT_YIELDS);
    }
}
