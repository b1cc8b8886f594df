/* hit.c: nanoseconds of the table in front of the registration cache. Bound to
 * one processor; the loops take turns, and each prints one figure a repetition:
 * the median of its rounds, which are shorter than a time slice.
 *
 *     hit PROCESSOR REPETITIONS  */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../../c/regcache/front.h"

struct mt_memhook mt_memhook;

enum { ROUND = 2000, ROUNDS = 500, BUFFERS = 64, PAGE = 4096 };

static uint64_t generations[MT_MEMHOOK_BUCKETS];
static struct mt_regcache cache;
static const struct mt_regcache_region *taken[ROUND];

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static const uintptr_t base = (uintptr_t)0x7f1234400000;

/* Regions: one page each, not on a boundary of buckets; one of two buckets; one
 * of 16 MiB. */
static uintptr_t buffer_of(int i)
{
    return base + 3 * PAGE + (uintptr_t)i * 3 * PAGE;
}
static const uintptr_t wide = (uintptr_t)0x7f1235600000 - 8 * PAGE;
static const uintptr_t large = (uintptr_t)0x7f1240000000;

static double rounds[ROUNDS];

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the rounds, by look-up. */
static double middle(int n)
{
    qsort(rounds, ROUNDS, sizeof(rounds[0]), compare);
    return rounds[ROUNDS / 2] / n;
}

static void publish(uint32_t slot, uintptr_t start, uintptr_t bytes)
{
    struct mt_regcache_order orders[2] = {
        {.verb = MT_REGCACHE_PUBLISH, .slot = slot, .start = start,
         .end = start + bytes,
         .generation = mt_memhook_stamp(generations, start,
                                        bytes)},
        {.verb = MT_REGCACHE_POINT, .slot = slot, .start = start}};
    mt_regcache_serve(&cache, orders, 2);
}

static void need(bool condition)
{
    if (!condition) {
        fprintf(stderr, "hit: a look-up did not do what is measured\n");
        exit(1);
    }
}

/* Look-ups of ROUND buffers: without a put in between, or with. */
static double loop(uintptr_t first, uintptr_t step, int buffers,
                   uint64_t bytes, bool apart)
{
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_ns();
        for (int i = 0; i < ROUND; i++) {
            uintptr_t at = first + (uintptr_t)(i % buffers) * step;
            taken[i] = mt_regcache_region_get(&cache, (void *)at, bytes);
            if (!apart) {
                mt_regcache_region_put(taken[i]);
            }
        }
        rounds[round] = now_ns() - begin;
        for (int i = 0; i < ROUND; i++) {
            need(taken[i] != NULL);
            if (apart) {
                mt_regcache_region_put(taken[i]);
            }
        }
    }
    return middle(ROUND);
}

/* A page that was asked for and not answered, and one of a device that is asked
 * for ever anew, with the queue emptied. */
static double loop_miss(bool queued)
{
    static struct mt_regcache_miss misses[MT_REGCACHE_MISSES];
    struct mt_regcache_order forget = {.verb = MT_REGCACHE_FORGET_ALL};
    int n = queued ? MT_REGCACHE_MISSES : ROUND;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_ns();
        for (int i = 0; i < n; i++) {
            uintptr_t at = (uintptr_t)0x10000000 + (queued ? i * 8 * PAGE : 0);
            taken[i] = mt_regcache_region_get(&cache, (void *)at, 64);
        }
        rounds[round] = now_ns() - begin;
        for (int i = 0; i < n; i++) {
            need(taken[i] == NULL);
        }
        uint32_t had =
            mt_regcache_misses_take(&cache, misses, MT_REGCACHE_MISSES);
        need(!queued || had > MT_REGCACHE_MISSES / 2);
        if (queued) {
            mt_regcache_serve(&cache, &forget, 1);
        }
    }
    return middle(n);
}

static double loop_nothing(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_ns();
        for (int i = 0; i < ROUND; i++) {
            uintptr_t at = base + (uintptr_t)(i % BUFFERS) * 3 * PAGE;
            taken[i] = &cache.regions[at % MT_REGCACHE_REGIONS];
            __asm__ volatile("" : : "r"(taken[i]) : "memory");
        }
        rounds[round] = now_ns() - begin;
    }
    return middle(ROUND);
}

static double figure(int variant)
{
    switch (variant) {
    case 0:
        return loop_nothing();
    case 1:
        return loop(buffer_of(0), 0, 1, 4000, true);
    case 2:
        return loop(buffer_of(0), 3 * PAGE, BUFFERS, 4000, true);
    case 3:
        return loop(wide, 0, 1, 16 * PAGE, true);
    case 4:
        return loop(large, 0, 1, 1000000, true);
    case 5:
        return loop(buffer_of(0), 0, 1, 4000, false);
    case 6:
        return loop(buffer_of(0), 3 * PAGE, BUFFERS, 4000, false);
    case 7:
        return loop_miss(false);
    default:
        return loop_miss(true);
    }
}

static const char *const names[] = {
    "nothing (the loop)", "hit, one buffer", "hit, 64 buffers",
    "hit, two buckets", "hit, in 16 MiB (9 buckets)",
    "hit and put, one buffer", "hit and put, 64 buffers",
    "miss, asked for before", "miss, queued"};

enum { VARIANTS = sizeof(names) / sizeof(names[0]) };

int main(int argc, char **argv)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(argc == 3 ? atoi(argv[1]) : 0, &set);
    int repetitions = argc == 3 ? atoi(argv[2]) : 0;
    if (repetitions < 1 || sched_setaffinity(0, sizeof(set), &set) != 0) {
        fprintf(stderr, "usage: hit PROCESSOR REPETITIONS\n");
        return 2;
    }
    mt_memhook = (struct mt_memhook){generations, MT_MEMHOOK_EBPF};
    mt_regcache_init(&cache);
    for (int i = 0; i < BUFFERS; i++) {
        publish((uint32_t)i, buffer_of(i), PAGE);
    }
    publish(BUFFERS, wide, 16 * PAGE);
    publish(BUFFERS + 1, large, (uintptr_t)16 << 20);
    for (int v = 0; v < VARIANTS; v++) {
        figure(v); /* warm */
    }
    for (int r = 0; r < repetitions; r++) {
        for (int i = 0; i < VARIANTS; i++) {
            int v = (i + r) % VARIANTS;
            printf("%s: %.3f\n", names[v], figure(v));
        }
    }
    return 0;
}
