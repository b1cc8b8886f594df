/* stale: loses memory in the way named, again and again, and looks whether a
 * registration of it would be found that is not of the memory that is there.
 *
 *   stale WAY,... CYCLES [THREADS] a line for each: cycles, reused, hits, stale,
 *                                  who watched; before it, now and then, how
 *                                  far it is
 *   stale --list                   the ways that this machine has
 *
 * A registration is an address, the generations read before, and marks written
 * into the memory: found while the marks are gone, it is stale. MONITOR says who
 * watches: ebpf, ucm, or blind, which has generations that never change and must
 * find stale ones wherever addresses come back: the check of the check. Where
 * libucm refuses nobody watches ("none"), and no registration is kept.
 *
 * With EXEC set it begins to be watched, executes itself, and does the rest then.
 * With WAIT set it says "ready" when it is watched, and waits for a line.
 *
 * Compiled with STALE_MPI the memory is used in messages too. */
#include <pthread.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stale.h"

#if STALE_MPI
#include <mpi.h>
#endif

enum { PAGE = 4096, MAX_THREADS = 16 };

/* Where the places are: below 4 GiB, for 32-bit calls, and far from all other
 * mappings; as many bytes for each thread. */
enum { PLACES = 0x60000000, PLACE_BYTES = 0x2000000 };

/* What a cache of registrations would keep. */
struct registration {
    char *address;
    uint64_t stamp, mark;
};

struct counts {
    unsigned long cycles, reused, hits, stale;
};

/* of the monitor, or blind; NULL: nobody watches */
static const volatile uint64_t *generations;
static const char *monitor;

/* Away from the ends, where malloc has its own notes: the second and the last
 * page but one. */
static volatile uint64_t *mark_of(const struct place *place, char *a, int which)
{
    size_t at = which == 0 ? PAGE : (place->bytes - 2 * PAGE) / 8 * 8;
    return (volatile uint64_t *)(void *)(a + at);
}

static struct registration enroll(const struct place *place, char *a)
{
    static uint64_t marks;
    struct registration r = {.address = a};
    if (generations != NULL) { /* before the marks: see memhook.h */
        r.stamp = mt_memhook_stamp(generations, (uintptr_t)a, place->bytes);
    }
    r.mark = __atomic_add_fetch(&marks, 1, __ATOMIC_RELAXED);
    *mark_of(place, a, 0) = r.mark;
    *mark_of(place, a, 1) = r.mark;
    return r;
}

static bool found(const struct place *place, const struct registration *r,
                  const char *a)
{
    return generations != NULL && a == r->address &&
           r->stamp == mt_memhook_stamp(generations, (uintptr_t)a, place->bytes);
}

static bool right(const struct place *place, const struct registration *r)
{
    return *mark_of(place, r->address, 0) == r->mark &&
           *mark_of(place, r->address, 1) == r->mark;
}

/* Messages of the buffer, so that the MPI library registers it as well. */
static void use(const struct place *place, char *a, unsigned long cycle)
{
#if STALE_MPI
    if (cycle % 512 == 0) {
        int rank, size;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        int half = (int)(place->bytes / 4); /* between the marks */
        MPI_Sendrecv(a + 4 * PAGE, half, MPI_BYTE, (rank + 1) % size, 0,
                     a + 4 * PAGE + half, half, MPI_BYTE,
                     (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
#else
    (void)place, (void)a, (void)cycle;
#endif
}

/* Who waits for the end sees that it comes nearer. */
static void tell(const struct way *way, unsigned long cycle)
{
    if (cycle % 1000 == 0) {
        printf("%s: at %lu\n", way->name, cycle);
        fflush(stdout);
    }
}

struct worker {
    pthread_t thread;
    const struct way *way;
    struct place place;
    struct counts counts;
    unsigned long cycles;
};

static void *work(void *argument)
{
    struct worker *w = argument;
    struct place *p = &w->place;
    struct counts *c = &w->counts;
    char *a = w->way->create(p);
    for (; c->cycles < w->cycles; c->cycles++) {
        struct registration r = enroll(p, a);
        use(p, a, c->cycles);
        tell(w->way, c->cycles);
        c->hits += found(p, &r, a);
        w->way->destroy(p, a);
        a = w->way->create(p);
        c->reused += a == r.address;
        if (found(p, &r, a) && (w->way->keeps_contents || !right(p, &r))) {
            c->stale++;
        }
    }
    return NULL;
}

static const struct way *const groups[] = {libc_ways, raw_ways, file_ways,
                                           process_ways};

static const struct way *way_named(const char *name)
{
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct way *w = groups[g]; w->name != NULL; w++) {
            if (name == NULL) {
                if (w->possible == NULL || w->possible()) {
                    puts(w->name);
                }
            } else if (strcmp(w->name, name) == 0) {
                return w;
            }
        }
    }
    return NULL;
}

static void say(void *argument, const char *line)
{
    (void)argument;
    fprintf(stderr, "stale: %s\n", line);
}

/* The two that the environment asks for, between the choice and the run. */
static void interrupt(char **argv)
{
    if (getenv("EXEC") != NULL) {
        unsetenv("EXEC");
        execv("/proc/self/exe", argv);
        die("exec");
    }
    if (getenv("WAIT") != NULL) {
        puts("ready");
        fflush(stdout);
        (void)getchar();
    }
}

static void choose_monitor(void)
{
    static const uint64_t never[MT_MEMHOOK_BUCKETS];
    static const char *const names[] = {[MT_MEMHOOK_NONE] = "none",
                                        [MT_MEMHOOK_EBPF] = "ebpf",
                                        [MT_MEMHOOK_UCM] = "ucm"};
    const char *name = getenv("MONITOR");
    if (name != NULL && strcmp(name, "blind") == 0) {
        generations = never;
        monitor = name;
        return;
    }
    bool ucm = name != NULL && strcmp(name, "ucm") == 0;
    if (ucm && dlopen("libucs.so.0", RTLD_LAZY) == NULL) {
        fprintf(stderr, "stale: %s\n", dlerror());
        exit(2);
    }
    struct mt_memhook_options options = {
        .socket = getenv("SOCKET"),
        .timeout_ms = 120000,
        .without_ebpf = ucm,
        .without_ucm = !ucm,
        .say = say,
    };
    if (mt_memhook_start(&options) != MT_OK && !ucm) {
        exit(2);
    }
    generations = mt_memhook.generations;
    monitor = names[mt_memhook.monitor];
}

static void run(const struct way *way, unsigned long cycles, unsigned threads)
{
    static struct worker workers[MAX_THREADS];
    struct counts sum = {0};
    for (unsigned i = 0; i < threads; i++) {
        struct worker *w = &workers[i];
        w->way = way;
        w->cycles = cycles / threads;
        w->counts = (struct counts){0};
        w->place = (struct place){
            .base = (char *)(uintptr_t)PLACES + i * (size_t)PLACE_BYTES,
            .bytes = 1 << 20,
            .file = -1,
            .other = -1,
        };
        if (i > 0 && pthread_create(&w->thread, NULL, work, w) != 0) {
            die("pthread_create");
        }
    }
    work(&workers[0]); /* here: only the first thread's heap is that of brk */
    for (unsigned i = 0; i < threads; i++) {
        if (i > 0) {
            pthread_join(workers[i].thread, NULL);
        }
        sum.cycles += workers[i].counts.cycles;
        sum.reused += workers[i].counts.reused;
        sum.hits += workers[i].counts.hits;
        sum.stale += workers[i].counts.stale;
    }
    printf("%s: cycles %lu reused %lu hits %lu stale %lu monitor %s\n",
           way->name, sum.cycles, sum.reused, sum.hits, sum.stale, monitor);
    munmap((void *)PLACES, (size_t)MAX_THREADS * PLACE_BYTES);
}

/* The ways of a list, one after the other; with zero cycles it is only read. */
static bool run_all(const char *list, unsigned long cycles, unsigned threads)
{
    char names[1024];
    if (strlen(list) >= sizeof names) {
        return false;
    }
    strcpy(names, list);
    char *rest = names;
    for (char *name; (name = strsep(&rest, ",")) != NULL;) {
        const struct way *way = way_named(name);
        if (way == NULL) {
            return false;
        }
        if (cycles > 0) {
            run(way, cycles, threads);
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static char line[BUFSIZ]; /* none of malloc's: a way takes its heap away */
    setvbuf(stdout, line, _IOLBF, sizeof(line));
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        way_named(NULL);
        return 0;
    }
    unsigned long cycles = argc >= 3 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long threads = argc >= 4 ? strtoul(argv[3], NULL, 10) : 1;
    if (cycles == 0 || threads == 0 || threads > MAX_THREADS ||
        !run_all(argv[1], 0, 0)) {
        fprintf(stderr,
                "usage: stale WAY,... CYCLES [THREADS], or stale --list\n");
        return 2;
    }
#if STALE_MPI
    MPI_Init(&argc, &argv);
#endif
    choose_monitor();
    interrupt(argv);
    run_all(argv[1], cycles, (unsigned)threads);
#if STALE_MPI
    MPI_Finalize();
#endif
    return 0;
}
