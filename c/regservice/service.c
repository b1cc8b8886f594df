/* service.c: the thread between the table and the cache.
 *
 * Threads: the service thread is the only one that enters Go and the only one
 * that registers. It polls the queue of misses, for waking it would cost an
 * application thread more than the copy that a miss costs; the longer nothing
 * was missed, the longer it sleeps in between. While memory is lost it wakes
 * often enough that what is gone does not stay pinned for long; a process that
 * loses none is not woken for that. Signals are the application's: all are
 * blocked in it. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "core.h"

enum {
    BATCH = 64,               /* misses that are answered in one call */
    NAP_LEAST_NS = 50000,     /* right after a miss */
    NAP_MOST_NS = 64000000,   /* when nothing was missed for long */
    MAINTAIN_NS = 100000000,
    SWEEP_NS = 5000000, /* between two looks whether memory is lost, at least */
    LOADER_SECONDS = 1,       /* for others to load what they load */
    OPEN_SECONDS = 10,        /* for Go to begin */
    CLOSE_TRIES = 1000,       /* each a millisecond */
};

struct mt_regservice {
    struct mt_regservice_options options;
    struct mt_regcache *table;
    struct mt_regservice_calls calls;
    char library[PATH_MAX];
    pthread_t thread;
    sem_t loads; /* libraries can be loaded */
    sem_t opened;
    uintptr_t core; /* 0: it could not be made */
    char text[200]; /* why */
    uint32_t stop;
    uint32_t held; /* regions, at the end */
    struct mt_regservice_figures figures; /* written by the service thread */
};

static uint64_t mt_regservice_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void mt_regservice_nap(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- what Go calls ---- */

static enum mt_status mt_regservice_enlist(void *user, uint64_t address,
                                           uint64_t bytes,
                                           struct mt_regservice_keys *keys_p)
{
    struct mt_regservice *s = user;
    struct mt_fabric_mr *mr;
    enum mt_status status =
        mt_fabric_mr_register(s->options.pd, (void *)(uintptr_t)address, bytes,
                              s->options.access, &mr);
    if (status == MT_OK) {
        *keys_p = (struct mt_regservice_keys){
            .handle = (uintptr_t)mr, .lkey = mr->lkey, .rkey = mr->rkey};
    }
    return status;
}

static void mt_regservice_discharge(void *user, uint64_t handle)
{
    (void)user;
    mt_fabric_mr_destroy((struct mt_fabric_mr *)(uintptr_t)handle);
}

static void mt_regservice_serve(void *user, struct mt_regcache_order *orders,
                                uint32_t n)
{
    struct mt_regservice *s = user;
    mt_regcache_serve(s->table, orders, n);
}

/* ---- the thread ---- */

/* Word by word, as others read them meanwhile. */
static void mt_regservice_copy(struct mt_regservice_figures *to,
                               const struct mt_regservice_figures *from)
{
    uint64_t *t = (uint64_t *)to;
    const uint64_t *f = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof(*to) / sizeof(*t); i++) {
        __atomic_store_n(&t[i], __atomic_load_n(&f[i], __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
    }
}

/* Of the whole address space; 0 if nobody watches. */
static uint64_t mt_regservice_losses(const struct mt_regservice *s)
{
    const volatile uint64_t *generations =
        __atomic_load_n(&s->calls.watched->generations, __ATOMIC_ACQUIRE);
    return generations == NULL
               ? 0
               : mt_memhook_stamp(generations, 0, (size_t)MT_MEMHOOK_BUCKETS
                                                      << MT_MEMHOOK_SHIFT);
}

static void mt_regservice_loop(struct mt_regservice *s)
{
    struct mt_regcache_miss misses[BATCH];
    struct mt_regservice_figures figures = {0};
    uint64_t maintained = 0, looked = 0, losses = 0;
    long nap = NAP_LEAST_NS;
    while (__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE) == 0) {
        uint32_t n = mt_regcache_misses_take(s->table, misses, BATCH);
        uint64_t now = mt_regservice_now_ns();
        bool maintain = now - maintained >= MAINTAIN_NS, sweep = false;
        if (n == 0 && figures.regions > 0 && now - looked >= SWEEP_NS) {
            uint64_t before = losses;
            losses = mt_regservice_losses(s);
            sweep = losses != before;
            looked = now;
        }
        if (n > 0 || maintain || sweep) {
            mt_regservice_core_step(s->core, misses, n, maintain, &figures);
            mt_regservice_copy(&s->figures, &figures);
            maintained = maintain ? now : maintained;
        }
        if (n > 0) {
            nap = NAP_LEAST_NS;
            continue;
        }
        nap = sweep && nap > SWEEP_NS ? SWEEP_NS : nap;
        mt_regservice_nap(nap);
        nap = 2 * nap < NAP_MOST_NS ? 2 * nap : NAP_MOST_NS;
    }
}

static void mt_regservice_end(struct mt_regservice *s)
{
    struct mt_regservice_figures figures;
    mt_regcache_kill(s->table);
    for (int i = 0; i < CLOSE_TRIES; i++) {
        bool last = i == CLOSE_TRIES - 1;
        s->held = mt_regservice_core_close(s->core, last, &figures);
        mt_regservice_copy(&s->figures, &figures);
        if (s->held == 0) {
            return;
        }
        mt_regservice_nap(1000000);
    }
}

/* The core is in a library. Whoever loads one has the loader's lock until its
 * constructors are through, and the thread that opens may be in one of them: it would
 * wait for this thread, and this thread for that lock. False: it has given up. */
static bool mt_regservice_await_loader(struct mt_regservice *s)
{
    void *program = dlopen(NULL, RTLD_LAZY); /* loads nothing, but takes the lock */
    if (program != NULL) {
        dlclose(program);
    }
    sem_post(&s->loads);
    return __atomic_load_n(&s->stop, __ATOMIC_ACQUIRE) == 0;
}

static void *mt_regservice_run(void *argument)
{
    struct mt_regservice *s = argument;
    if (!mt_regservice_await_loader(s)) {
        return NULL;
    }
    s->core = mt_regservice_core_open(&s->calls, s->text, sizeof(s->text));
    sem_post(&s->opened);
    if (s->core != 0) {
        mt_regservice_loop(s);
        mt_regservice_end(s);
    }
    return NULL;
}

/* ---- the owner's side ---- */

static void mt_regservice_say(const struct mt_regservice_options *options,
                              const char *what, const char *why)
{
    char line[300];
    if (options->say != NULL) {
        snprintf(line, sizeof(line), "registration cache: %s: %s", what, why);
        options->say(options->user, line);
    }
}

/* The table in pages that a child of fork finds empty: an empty table has
 * nothing to hand out. */
static struct mt_regcache *
mt_regservice_map(const struct mt_regservice_options *options)
{
    void *table = mmap(NULL, sizeof(struct mt_regcache), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) {
        mt_regservice_say(options, "mmap", mt_status_text(MT_ENOMEM));
        return NULL;
    }
    if (madvise(table, sizeof(struct mt_regcache), MADV_WIPEONFORK) != 0) {
        mt_regservice_say(options, "madvise(MADV_WIPEONFORK)",
                          mt_status_text(MT_ENOTSUP));
        munmap(table, sizeof(struct mt_regcache));
        return NULL;
    }
    mt_regcache_init(table);
    return table;
}

static int mt_regservice_start_thread(struct mt_regservice *s)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&s->thread, NULL, mt_regservice_run, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

static bool mt_regservice_wait(sem_t *sem, uint64_t seconds)
{
    uint64_t begin = mt_regservice_now_ns(); /* sem_timedwait has a clock that is set */
    while (sem_trywait(sem) != 0) {
        if (mt_regservice_now_ns() - begin > seconds * UINT64_C(1000000000)) {
            return false;
        }
        mt_regservice_nap(NAP_LEAST_NS);
    }
    return true;
}

/* The thread has s, and ends as soon as it gets so far. */
static enum mt_status mt_regservice_leave(struct mt_regservice *s,
                                          const char *what, const char *why)
{
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
    pthread_detach(s->thread);
    mt_regservice_say(&s->options, what, why);
    return MT_ETIMEOUT;
}

static void mt_regservice_free(struct mt_regservice *s)
{
    munmap(s->table, sizeof(struct mt_regcache));
    sem_destroy(&s->loads);
    sem_destroy(&s->opened);
    free(s);
}

static struct mt_regservice *
mt_regservice_new(const struct mt_regservice_options *options)
{
    struct mt_regservice *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    sem_init(&s->loads, 0, 0);
    sem_init(&s->opened, 0, 0);
    s->options = *options;
    if (options->library != NULL) {
        snprintf(s->library, sizeof(s->library), "%s", options->library);
    }
    if (s->options.access == 0) {
        s->options.access =
            MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE | MT_FABRIC_REMOTE_READ;
    }
    s->calls = (struct mt_regservice_calls){
        .user = s,
        .max_bytes = options->max_bytes,
        .local_ranks = options->local_ranks != 0 ? options->local_ranks : 1,
        .library = s->library,
        .watched = &mt_memhook,
        .enlist = mt_regservice_enlist,
        .discharge = mt_regservice_discharge,
        .serve = mt_regservice_serve,
    };
    s->table = mt_regservice_map(options);
    if (s->table == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

enum mt_status mt_regservice_open(const struct mt_regservice_options *options,
                                  struct mt_regservice **service_p)
{
    struct mt_regservice *s = mt_regservice_new(options);
    if (s == NULL) {
        return MT_ENOMEM;
    }
    int error = mt_regservice_start_thread(s);
    if (error != 0) {
        mt_regservice_say(options, "its thread", mt_status_text(MT_ENOMEM));
        mt_regservice_free(s);
        return MT_ENOMEM;
    }
    if (!mt_regservice_wait(&s->loads, LOADER_SECONDS)) {
        return mt_regservice_leave(s, "no library can be loaded",
                                   "one is being loaded (MPI_Init in its "
                                   "constructor?)");
    }
    if (!mt_regservice_wait(&s->opened, OPEN_SECONDS)) {
        return mt_regservice_leave(s, "Go did not begin", "in 10 seconds");
    }
    if (s->core == 0) {
        pthread_join(s->thread, NULL);
        mt_regservice_say(options, "not opened", s->text);
        mt_regservice_free(s);
        return MT_EINVAL;
    }
    *service_p = s;
    return MT_OK;
}

struct mt_regcache *mt_regservice_table(const struct mt_regservice *service)
{
    return service->table;
}

void mt_regservice_count(const struct mt_regservice *service,
                         struct mt_regservice_figures *figures_p)
{
    struct mt_regcache_counts counts;
    struct mt_regservice_figures figures;
    mt_regservice_copy(&figures, &service->figures);
    mt_regcache_count(service->table, &counts);
    figures.hits = counts.hits;
    figures.misses = counts.misses;
    figures.dropped = counts.dropped;
    *figures_p = figures;
}

enum mt_status mt_regservice_close(struct mt_regservice *service)
{
    __atomic_store_n(&service->stop, 1, __ATOMIC_RELEASE);
    pthread_join(service->thread, NULL);
    if (service->held != 0) {
        mt_regservice_say(&service->options, "close",
                          "regions are still in use");
        return MT_ESTATE;
    }
    mt_regservice_free(service);
    return MT_OK;
}
