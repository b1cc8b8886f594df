/* sources: c/regservice/service.c c/regcache/front.c c/fabric/status.c */
/* The service of the registration cache with a Go half made for the test, which
 * registers every miss alone, and a device that counts. What the real one decides
 * is tested in regcache/ and test/stale. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../regservice/core.h"

struct mt_memhook mt_memhook;

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

enum { PAGE = 4096, PAGES = 8 };

static uint64_t generations[MT_MEMHOOK_BUCKETS];
static char memory[PAGES * PAGE] __attribute__((aligned(4096)));

/* ---- the device ---- */

static int registered;

enum mt_status mt_fabric_mr_register(struct mt_fabric_pd *pd, void *address,
                                     size_t bytes, uint32_t access,
                                     struct mt_fabric_mr **mr_p)
{
    CHECK(pd == (struct mt_fabric_pd *)memory);
    CHECK(access == (MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE |
                     MT_FABRIC_REMOTE_READ));
    struct mt_fabric_mr *mr = calloc(1, sizeof(*mr));
    CHECK(mr != NULL);
    *mr = (struct mt_fabric_mr){address, bytes, 11, 22, pd};
    *mr_p = mr;
    __atomic_fetch_add(&registered, 1, __ATOMIC_RELAXED);
    return MT_OK;
}

enum mt_status mt_fabric_mr_destroy(struct mt_fabric_mr *mr)
{
    free(mr);
    __atomic_fetch_sub(&registered, 1, __ATOMIC_RELAXED);
    return MT_OK;
}

/* ---- the other half ---- */

static struct {
    struct mt_regservice_calls *calls;
    bool refuses;
    pthread_t thread;
    uint64_t handles[MT_REGCACHE_REGIONS];
    uint32_t slots, maintained, swept;
} core;

uintptr_t mt_regservice_core_open(struct mt_regservice_calls *calls, char *text,
                                  size_t bytes)
{
    sigset_t blocked;
    if (core.refuses) {
        snprintf(text, bytes, "not today");
        return 0;
    }
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    CHECK(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1));
    CHECK(calls->local_ranks == 2 && calls->max_bytes == 4 * PAGE);
    CHECK(calls->watched == &mt_memhook);
    core.calls = calls;
    core.thread = pthread_self();
    core.slots = core.maintained = core.swept = 0;
    return 1;
}

static enum mt_status order(struct mt_regcache_order o)
{
    core.calls->serve(core.calls->user, &o, 1);
    return (enum mt_status)o.status;
}

static void promote(const struct mt_regcache_miss *m)
{
    struct mt_regservice_keys keys;
    uint64_t start = m->address / PAGE * PAGE;
    uint64_t end = (m->address + m->bytes + PAGE - 1) / PAGE * PAGE;
    CHECK(core.calls->enlist(core.calls->user, start, end - start, &keys) ==
          MT_OK);
    core.handles[core.slots] = keys.handle;
    CHECK(order((struct mt_regcache_order){.verb = MT_REGCACHE_PUBLISH,
                                           .slot = core.slots,
                                           .start = start,
                                           .end = end,
                                           .generation = m->generation,
                                           .handle = keys.handle,
                                           .lkey = keys.lkey,
                                           .rkey = keys.rkey}) == MT_OK);
    order((struct mt_regcache_order){
        .verb = MT_REGCACHE_POINT, .slot = core.slots, .start = m->address});
    core.slots++;
}

void mt_regservice_core_step(uintptr_t c, struct mt_regcache_miss *misses,
                             uint32_t n, bool maintain,
                             struct mt_regservice_figures *figures_p)
{
    CHECK(c == 1 && pthread_equal(core.thread, pthread_self()));
    for (uint32_t i = 0; i < n; i++) {
        promote(&misses[i]);
    }
    __atomic_fetch_add(&core.maintained, maintain, __ATOMIC_RELAXED);
    __atomic_fetch_add(&core.swept, n == 0 && !maintain, __ATOMIC_RELAXED);
    *figures_p = (struct mt_regservice_figures){
        .regions = core.slots, .registrations = core.slots};
}

uint32_t mt_regservice_core_close(uintptr_t c, bool abandon,
                                  struct mt_regservice_figures *figures_p)
{
    CHECK(c == 1 && pthread_equal(core.thread, pthread_self()));
    uint32_t held = 0;
    (void)abandon;
    for (uint32_t i = 0; i < core.slots; i++) {
        if (core.handles[i] != 0) {
            order((struct mt_regcache_order){.verb = MT_REGCACHE_REVOKE,
                                             .slot = i});
            if (order((struct mt_regcache_order){.verb = MT_REGCACHE_DRAIN,
                                                 .slot = i}) == MT_OK) {
                core.calls->discharge(core.calls->user, core.handles[i]);
                core.handles[i] = 0;
            } else {
                held++;
            }
        }
    }
    *figures_p = (struct mt_regservice_figures){.regions = held};
    return held;
}

/* ---- tests ---- */

static char said[300];

static void say(void *user, const char *text)
{
    CHECK(user == said);
    snprintf(said, sizeof(said), "%s", text);
}

static const struct mt_regservice_options options = {
    .pd = (struct mt_fabric_pd *)memory,
    .local_ranks = 2,
    .max_bytes = 4 * PAGE,
    .say = say,
    .user = said,
};

/* Within two minutes. */
static const struct mt_regcache_region *get(struct mt_regcache *table,
                                            const char *at, uint64_t bytes)
{
    const struct mt_regcache_region *r = NULL;
    for (int i = 0; i < 120000 && r == NULL; i++) {
        r = mt_regcache_region_get(table, at, bytes);
        if (r == NULL) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    CHECK(r != NULL);
    return r;
}

static struct mt_regservice *open_one(void)
{
    struct mt_regservice *s;
    CHECK(mt_regservice_open(&options, &s) == MT_OK);
    return s;
}

static void test_get(void)
{
    struct mt_regservice *s = open_one();
    struct mt_regcache *table = mt_regservice_table(s);
    CHECK(mt_regcache_region_get(table, memory + 100, 5000) == NULL);
    const struct mt_regcache_region *r = get(table, memory + 100, 5000);
    CHECK(r->lkey == 11 && r->rkey == 22 && r->start == (uintptr_t)memory &&
          r->end == (uintptr_t)memory + 2 * PAGE);
    __atomic_fetch_add(&generations[mt_memhook_bucket((uintptr_t)memory)], 1,
                       __ATOMIC_RELEASE);
    CHECK(mt_regcache_region_get(table, memory + 100, 5000) == NULL);
    mt_regcache_region_put(r);
    struct mt_regservice_figures f = {0};
    for (int i = 0; i < 120000 && f.registrations < 2; i++) {
        mt_regservice_count(s, &f);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    CHECK(f.hits == 1 && f.misses >= 2);
    CHECK(f.registrations >= 2 && f.registrations <= f.misses);
    for (int i = 0; i < 120000; i++) {
        if (__atomic_load_n(&core.maintained, __ATOMIC_RELAXED) >= 2) {
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    CHECK(__atomic_load_n(&core.maintained, __ATOMIC_RELAXED) >= 2);
    CHECK(mt_regservice_close(s) == MT_OK);
    CHECK(__atomic_load_n(&registered, __ATOMIC_RELAXED) == 0);
}

static uint32_t counted(const uint32_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

/* Between two maintenances, while memory is lost all the time, or not. */
static uint32_t sweeps(bool lost)
{
    uint32_t maintained = counted(&core.maintained);
    while (counted(&core.maintained) == maintained) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    uint32_t swept = counted(&core.swept);
    maintained = counted(&core.maintained);
    while (counted(&core.maintained) == maintained) {
        if (lost) {
            __atomic_fetch_add(&generations[7], 1, __ATOMIC_RELEASE);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return counted(&core.swept) - swept;
}

/* Where there are regions, memory that is lost is seen soon; while none is
 * lost, nothing is done about it. */
static void test_swept(void)
{
    struct mt_regservice *s = open_one();
    CHECK(sweeps(true) == 0);
    mt_regcache_region_put(get(mt_regservice_table(s), memory, PAGE));
    bool often = false;
    for (int i = 0; i < 600 && !often; i++) { /* in a crowd some are slow */
        often = sweeps(true) >= 8;
    }
    CHECK(often);
    sweeps(false); /* what was lost last */
    CHECK(sweeps(false) == 0);
    CHECK(mt_regservice_close(s) == MT_OK);
}

static void test_refused(void)
{
    struct mt_regservice *s;
    core.refuses = true;
    CHECK(mt_regservice_open(&options, &s) == MT_EINVAL);
    CHECK(strstr(said, "not today") != NULL);
    core.refuses = false;
}

/* What is held at the end stays, and can be put. */
static void test_held(void)
{
    static struct mt_regservice *s; /* for the leak detector: they stay */
    static volatile uint64_t handle;
    s = open_one();
    struct mt_regcache *table = mt_regservice_table(s);
    const struct mt_regcache_region *r = get(table, memory, PAGE);
    handle = r->handle;
    CHECK(handle != 0);
    CHECK(mt_regservice_close(s) == MT_ESTATE);
    CHECK(strstr(said, "in use") != NULL);
    CHECK(mt_regcache_region_get(table, memory, PAGE) == NULL);
    CHECK(__atomic_load_n(&registered, __ATOMIC_RELAXED) == 1);
    mt_regcache_region_put(r);
}

/* A child that was made by the system call itself, so that no handler of fork
 * ran, and that believes that it is watched. */
static void test_child(void)
{
    struct mt_regservice *s = open_one();
    struct mt_regcache *table = mt_regservice_table(s);
    const struct mt_regcache_region *r = get(table, memory, PAGE);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        mt_regcache_region_put(r);
        bool hit = false;
        for (int i = 0; i < 1000; i++) {
            hit = hit || mt_regcache_region_get(table, memory, PAGE) != NULL ||
                  mt_regcache_region_get(table, NULL, 1) != NULL;
        }
        _exit(hit);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(mt_regcache_region_get(table, memory, PAGE) == r);
    mt_regcache_region_put(r);
    mt_regcache_region_put(r);
    CHECK(mt_regservice_close(s) == MT_OK);
}

/* Nobody watches: nothing is asked for. */
static void test_unwatched(void)
{
    struct mt_regservice *s = open_one();
    mt_memhook.generations = NULL;
    for (int i = 0; i < 50; i++) {
        CHECK(mt_regcache_region_get(mt_regservice_table(s), memory, 1) == NULL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    struct mt_regservice_figures f;
    mt_regservice_count(s, &f);
    CHECK(f.hits == 0 && f.registrations == 0);
    CHECK(mt_regservice_close(s) == MT_OK);
    mt_memhook.generations = generations;
}

int main(void)
{
    mt_memhook.generations = generations;
    test_get();
    test_swept();
    test_refused();
    test_held();
    registered = 0; /* test_held left one */
    test_child();
    test_unwatched();
    return 0;
}
