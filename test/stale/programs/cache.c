/* cache: sends from registrations that are kept, while the memory goes away in
 * the way named and other memory comes to the same address, again and again.
 *
 *   cache DEVICE WAY CYCLES         one line
 *   cache --list                    the ways
 *
 * Two processes: rank 0 has the cache (c/regservice) and loses memory, rank 1 is
 * the other end of a queue pair. In turn rank 0 WRITEs from the buffer, and rank
 * 1 READs it; rank 1 checks every byte. A second thread of rank 0 maps, asks for
 * and unmaps other memory all the time.
 *
 * The software devices pin nothing: they find whatever is at an address when
 * they move data, so data is right there even from a stale registration. What a
 * device that pins would have seen is noted when memory is registered (the
 * linker leads mt_fabric_mr_register here): the mark that each page begins with.
 * The owner gives each incarnation of the buffer another mark, and compares.
 *
 * MONITOR: ebpf (SOCKET: of the helper), ucm, or blind: generations that never
 * change, which must find stale registrations: the check of the check; or none.
 * MEMLOCK: RLIMIT_MEMLOCK in bytes; RANKS: the ranks of the node, who share it.
 * PATIENCE: milliseconds that a region is waited for, if not as for all else.
 *
 * Compiled with STALE_MPI, what is rank 0 here is a rank of an MPI job, and the
 * memory is used in messages of the MPI library too. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../c/fabric/paths/socket.h"
#include "../../../c/regservice/service.h"
#include "stale.h"

#if STALE_MPI
#include <mpi.h>
#endif

enum {
    PAGE = 4096,
    WORDS = PAGE / 8,
    LIMIT_MS = 180000,       /* for any wait, on a loaded machine */
    WINDOW = 2 << 20,        /* of rank 1 */
    NOISE_BYTES = 16 * PAGE,
    PINNED = 4096,           /* registrations at once */
    PINNED_PAGES = 640,
};

static char *const place_base = (char *)0x60000000;
static char *const noise_base = (char *)0x70000000;

static void check(enum mt_status status, const char *what)
{
    if (status != MT_OK) {
        fprintf(stderr, "cache: %s: %s\n", what, mt_status_text(status));
        exit(2);
    }
}

static void say(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "cache: %s\n", text);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* ---- what a device that pins would have ---- */

static struct pinned {
    const struct mt_fabric_mr *mr; /* NULL: free */
    uintptr_t start;
    size_t pages;
    uint64_t marks[PINNED_PAGES];
} pinned[PINNED];
static pthread_mutex_t pinned_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pinned_bytes, pinned_most;

enum mt_status __real_mt_fabric_mr_register(struct mt_fabric_pd *pd,
                                            void *address, size_t bytes,
                                            uint32_t access,
                                            struct mt_fabric_mr **mr_p);
enum mt_status __wrap_mt_fabric_mr_register(struct mt_fabric_pd *pd,
                                            void *address, size_t bytes,
                                            uint32_t access,
                                            struct mt_fabric_mr **mr_p);
enum mt_status __real_mt_fabric_mr_destroy(struct mt_fabric_mr *mr);
enum mt_status __wrap_mt_fabric_mr_destroy(struct mt_fabric_mr *mr);

/* The first word of each page, by the kernel, for it may be gone. */
static bool marks_of(uintptr_t start, size_t pages, uint64_t *marks)
{
    struct iovec from[64], to = {marks, 0};
    for (size_t done = 0; done < pages;) {
        size_t n = pages - done < 64 ? pages - done : 64;
        for (size_t i = 0; i < n; i++) {
            from[i] = (struct iovec){(void *)(start + (done + i) * PAGE), 8};
        }
        to = (struct iovec){&marks[done], n * 8};
        if (process_vm_readv(getpid(), &to, 1, from, n, 0) != (ssize_t)n * 8) {
            return false;
        }
        done += n;
    }
    return true;
}

static struct pinned *pinned_find(const struct mt_fabric_mr *mr)
{
    for (int i = 0; i < PINNED; i++) {
        if (pinned[i].mr == mr) {
            return &pinned[i];
        }
    }
    return NULL;
}

enum mt_status __wrap_mt_fabric_mr_register(struct mt_fabric_pd *pd,
                                            void *address, size_t bytes,
                                            uint32_t access,
                                            struct mt_fabric_mr **mr_p)
{
    enum mt_status status =
        __real_mt_fabric_mr_register(pd, address, bytes, access, mr_p);
    if (status != MT_OK) {
        return status;
    }
    pthread_mutex_lock(&pinned_lock);
    struct pinned *p = pinned_find(NULL);
    if (p == NULL || bytes / PAGE > PINNED_PAGES) {
        status = MT_ENOMEM;
    } else if (!marks_of((uintptr_t)address, bytes / PAGE, p->marks)) {
        status = MT_EINVAL;
    } else {
        p->mr = *mr_p;
        p->start = (uintptr_t)address;
        p->pages = bytes / PAGE;
        pinned_bytes += bytes;
        pinned_most = pinned_bytes > pinned_most ? pinned_bytes : pinned_most;
    }
    pthread_mutex_unlock(&pinned_lock);
    if (status != MT_OK) {
        __real_mt_fabric_mr_destroy(*mr_p);
    }
    return status;
}

enum mt_status __wrap_mt_fabric_mr_destroy(struct mt_fabric_mr *mr)
{
    pthread_mutex_lock(&pinned_lock);
    struct pinned *p = pinned_find(mr);
    if (p != NULL) { /* others were allocated */
        p->mr = NULL;
        pinned_bytes -= p->pages * PAGE;
    }
    pthread_mutex_unlock(&pinned_lock);
    return __real_mt_fabric_mr_destroy(mr);
}

/* Is what was pinned what the caller has there? It holds the region, so that
 * the note stays. */
static bool stale(const struct mt_regcache_region *region, const char *from,
                  size_t bytes, uint64_t mark)
{
    const struct pinned *p =
        pinned_find((const struct mt_fabric_mr *)(uintptr_t)region->handle);
    if (p == NULL) {
        return true; /* deregistered while it is held */
    }
    uintptr_t page = (uintptr_t)from / PAGE * PAGE;
    for (; page < (uintptr_t)from + bytes; page += PAGE) {
        size_t i = (page - p->start) / PAGE;
        if (page < p->start || i >= p->pages || p->marks[i] != mark) {
            return true;
        }
    }
    return false;
}

/* ---- the two ends ---- */

static uint64_t word(uint64_t mark, uint64_t index)
{
    return index % WORDS == 0 ? mark : mt_hash(mark * 7919 + index);
}

enum op { OP_WRITTEN = 1, OP_READ_ME, OP_ANSWER, OP_END };

struct note {
    uint64_t op, address, bytes, mark, first; /* first: index of the word */
    uint64_t rkey, right;
};

struct end {
    int rank;
    struct mt_socket socket;
    struct mt_fabric_context *context;
    struct mt_fabric_pd *pd;
    struct mt_fabric_cq *cq;
    struct mt_fabric_qp *qp;
    struct mt_fabric_mr *notes;  /* [0] in, [1] out */
    struct mt_fabric_mr *window; /* of rank 1 */
    uint64_t window_address;     /* at rank 0: the other's */
    uint32_t window_rkey;
    unsigned came[2]; /* completions before they are awaited; [1] of receives */
};

static struct note *note_of(const struct end *e, int which)
{
    return (struct note *)e->notes->address + which;
}

static void post_note_receive(struct end *e)
{
    struct mt_fabric_piece p = {note_of(e, 0), sizeof(struct note),
                                e->notes->lkey};
    struct mt_fabric_receive work = {.id = 1, .piece_count = 1, .pieces = &p};
    check(mt_fabric_post_receive(e->qp, &work), "post_receive");
}

/* The next completion of a receive, or of what was posted last. On a device the
 * answer may be here before it is known that the question was delivered. */
static void await(struct end *e, enum mt_fabric_opcode opcode)
{
    struct mt_fabric_completion c;
    uint64_t until = now_ms() + LIMIT_MS;
    unsigned *came = &e->came[opcode == MT_FABRIC_RECEIVE];
    while (*came == 0) {
        if (mt_fabric_poll(e->cq, &c, 1) == 1) {
            check(c.status, "completion");
            e->came[c.opcode == MT_FABRIC_RECEIVE]++;
        } else if (now_ms() > until) {
            fprintf(stderr, "cache: rank %d: no completion of opcode %d\n",
                    e->rank, (int)opcode);
            exit(2);
        } else {
            sched_yield();
        }
    }
    (*came)--;
}

static void send_note(struct end *e, const struct note *note)
{
    *note_of(e, 1) = *note;
    struct mt_fabric_piece p = {note_of(e, 1), sizeof(*note), e->notes->lkey};
    struct mt_fabric_send work = {.id = 2,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p};
    check(mt_fabric_post_send(e->qp, &work), "post_send");
    await(e, MT_FABRIC_SEND);
}

static void move(struct end *e, enum mt_fabric_opcode opcode, void *local,
                 uint32_t lkey, uint64_t bytes, uint64_t remote, uint32_t rkey)
{
    struct mt_fabric_piece p = {local, (uint32_t)bytes, lkey};
    struct mt_fabric_send work = {.id = 3,
                                  .opcode = opcode,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = remote,
                                  .rkey = rkey};
    check(mt_fabric_post_send(e->qp, &work), "post_send");
    await(e, opcode);
}

static void end_open(struct end *e, const char *device, int fd)
{
    struct mt_socket_options sockets = {.rank = (uint32_t)e->rank,
                                        .size = 2,
                                        .timeout_ms = LIMIT_MS,
                                        .say = say};
    struct mt_fabric_options options = {
        .engine_cpu = -1, .threads = true, .say = say};
    struct mt_fabric_address mine, all[2];
    uint64_t window[2] = {0}, windows[2][2];
    check(mt_socket_pair(&sockets, fd, &e->socket), "socket");
    check(mt_fabric_open(device, &options, &e->context), "open");
    check(mt_fabric_pd_create(e->context, &e->pd), "pd");
    check(mt_fabric_cq_create(e->context, 256, NULL, &e->cq), "cq");
    struct mt_fabric_qp_options qp = {.transport = MT_FABRIC_RC,
                                      .send_cq = e->cq,
                                      .receive_cq = e->cq,
                                      .send_depth = 16,
                                      .receive_depth = 16,
                                      .pieces = 1,
                                      .reads = 1,
                                      .port = 1,
                                      .timeout_ms = LIMIT_MS};
    check(mt_fabric_qp_create(e->pd, &qp, &e->qp), "qp");
    uint32_t access =
        MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE | MT_FABRIC_REMOTE_READ;
    check(mt_fabric_mr_allocate(e->pd, PAGE, access, &e->notes), "notes");
    check(mt_fabric_mr_allocate(e->pd, WINDOW, access, &e->window), "window");
    post_note_receive(e);
    check(mt_fabric_qp_address(e->qp, &mine), "address");
    check(mt_socket_exchange(&e->socket, &mine, sizeof(mine), all), "exchange");
    check(mt_fabric_qp_connect(e->qp, &all[1 - e->rank]), "connect");
    window[0] = (uintptr_t)e->window->address;
    window[1] = e->window->rkey;
    check(mt_socket_exchange(&e->socket, window, sizeof(window), windows),
          "exchange");
    e->window_address = windows[1 - e->rank][0];
    e->window_rkey = (uint32_t)windows[1 - e->rank][1];
}

static void end_close(struct end *e)
{
    int nothing = 0, both[2];
    check(mt_socket_exchange(&e->socket, &nothing, sizeof(nothing), both),
          "exchange");
    check(mt_fabric_qp_destroy(e->qp), "qp");
    check(mt_fabric_mr_destroy(e->notes), "notes");
    check(mt_fabric_mr_destroy(e->window), "window");
    check(mt_fabric_cq_destroy(e->cq), "cq");
    check(mt_fabric_pd_destroy(e->pd), "pd");
    check(mt_fabric_close(e->context), "close");
    mt_socket_close(&e->socket);
}

/* ---- rank 1 ---- */

static bool window_right(const struct end *e, const struct note *n)
{
    const uint64_t *words = e->window->address;
    for (uint64_t i = 0; i < n->bytes / 8; i++) {
        if (words[i] != word(n->mark, n->first + i)) {
            return false;
        }
    }
    return true;
}

static void other_end(struct end *e)
{
    for (;;) {
        await(e, MT_FABRIC_RECEIVE);
        struct note n = *note_of(e, 0);
        post_note_receive(e);
        if (n.op == OP_END) {
            return;
        }
        if (n.op == OP_READ_ME) {
            memset(e->window->address, 0, n.bytes);
            move(e, MT_FABRIC_READ, e->window->address, e->window->lkey,
                 n.bytes, n.address, (uint32_t)n.rkey);
        }
        struct note answer = {.op = OP_ANSWER, .right = window_right(e, &n)};
        memset(e->window->address, 0, n.bytes);
        send_note(e, &answer);
    }
}

/* ---- rank 0 ---- */

struct counts {
    unsigned long cycles, hits, missed, stale, wrong;
};

static struct mt_regcache *table;
static const char *monitor; /* who watches */
static uint64_t marks = 1;
static unsigned long patience_ms = LIMIT_MS;
static bool noise_stops;
static unsigned long noise_hits, noise_stale;

static uint64_t next_mark(void)
{
    return __atomic_add_fetch(&marks, 1, __ATOMIC_RELAXED);
}

static void mark_pages(char *from, size_t bytes, uint64_t mark)
{
    uint64_t *words = (uint64_t *)(void *)from;
    for (size_t i = 0; i < bytes / 8; i++) {
        words[i] = word(mark, i);
    }
}

static const struct mt_regcache_region *get(const char *from, size_t bytes,
                                            bool patient)
{
    uint64_t until = now_ms() + patience_ms;
    const struct mt_regcache_region *r;
    do {
        r = mt_regcache_region_get(table, from, bytes);
        if (r == NULL && patient) {
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        }
    } while (r == NULL && patient && now_ms() < until);
    return r;
}

static void transfer(struct end *e, const struct mt_regcache_region *r,
                     char *from, const struct note *about, struct counts *c)
{
    struct note n = *about;
    n.op = c->cycles % 2 == 0 ? OP_WRITTEN : OP_READ_ME;
    if (n.op == OP_WRITTEN) {
        move(e, MT_FABRIC_WRITE, from, r->lkey, n.bytes, e->window_address,
             e->window_rkey);
    } else {
        n.address = (uintptr_t)from;
        n.rkey = r->rkey;
    }
    send_note(e, &n);
    await(e, MT_FABRIC_RECEIVE);
    c->wrong += note_of(e, 0)->op != OP_ANSWER || !note_of(e, 0)->right;
    post_note_receive(e);
}

/* Messages of the MPI library, which registers the buffer as well. */
static void use(char *inner, size_t bytes, unsigned long cycle)
{
#if STALE_MPI
    if (cycle % 4 == 0) {
        int rank, size, half = (int)(bytes / 2);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        MPI_Sendrecv(inner, half, MPI_BYTE, (rank + 1) % size, 0, inner + half,
                     half, MPI_BYTE, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
#else
    (void)inner, (void)bytes, (void)cycle;
#endif
}

/* One life of the buffer: some messages from it, or only a question. */
static void live(struct end *e, const struct place *p, char *a,
                 uint64_t *state, struct counts *c)
{
    /* whole pages, away from the ends, where malloc has its notes */
    char *inner = (char *)(((uintptr_t)a / PAGE + 2) * PAGE);
    size_t most = p->bytes - 4 * PAGE;
    use(inner, most, c->cycles);
    uint64_t mark = next_mark();
    uint64_t kind = random_next(state) % 8;
    size_t bytes = 8 + random_next(state) % (kind < 5 ? PAGE : 64 * PAGE) / 8 * 8;
    size_t at = random_next(state) % (most - bytes) / 8 * 8;
    size_t first = at / PAGE * PAGE, last = (at + bytes + PAGE - 1) / PAGE * PAGE;
    for (size_t i = first; i < last; i += 8) {
        *(uint64_t *)(void *)(inner + i) = word(mark, i / 8);
    }
    bool patient = kind != 0;
    const struct mt_regcache_region *r = get(inner + at, bytes, patient);
    if (r == NULL) {
        c->missed += patient;
        return;
    }
    c->hits++;
    c->stale += stale(r, inner + at, bytes, mark);
    struct note n = {.bytes = bytes, .mark = mark, .first = at / 8};
    transfer(e, r, inner + at, &n, c);
    mt_regcache_region_put(r);
}

/* Other memory comes and goes. */
static void *noise(void *nothing)
{
    while (!__atomic_load_n(&noise_stops, __ATOMIC_RELAXED)) {
        char *a = mmap(noise_base, NOISE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (a != noise_base) {
            die("mmap of other memory");
        }
        uint64_t mark = next_mark();
        mark_pages(a, NOISE_BYTES, mark);
        for (int i = 0; i < 20; i++) {
            const struct mt_regcache_region *r =
                mt_regcache_region_get(table, a + PAGE, 3 * PAGE);
            if (r != NULL) {
                noise_hits++;
                noise_stale += stale(r, a + PAGE, 3 * PAGE, mark);
                mt_regcache_region_put(r);
            }
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        }
        munmap(a, NOISE_BYTES);
    }
    return nothing;
}

static const struct way *const groups[] = {libc_ways, raw_ways, file_ways,
                                           process_ways};

static const struct way *way_named(const char *name)
{
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        for (const struct way *w = groups[g]; w->name != NULL; w++) {
            if (name == NULL) {
                puts(w->name);
            } else if (strcmp(w->name, name) == 0) {
                return w;
            }
        }
    }
    return NULL;
}

static void go(struct end *e, const struct way *way, unsigned long cycles,
               struct counts *counts_p)
{
    struct place p = {
        .base = place_base, .bytes = 1 << 20, .file = -1, .other = -1};
    struct counts c = {0};
    uint64_t state = 88172645463325252u;
    for (; c.cycles < cycles; c.cycles++) {
        char *a = way->create(&p);
        if (c.cycles % 10 == 0) { /* who waits sees that the end comes nearer */
            printf("at %lu\n", c.cycles);
            fflush(stdout);
        }
        live(e, &p, a, &state, &c);
        way->destroy(&p, a);
    }
    *counts_p = c;
    munmap(place_base, 32 << 20);
}

static void choose_monitor(void)
{
    static const uint64_t never[MT_MEMHOOK_BUCKETS];
    const char *name = getenv("MONITOR");
    if (name != NULL && strcmp(name, "blind") == 0) {
        mt_memhook.generations = never;
        monitor = name;
        return;
    }
    if (name != NULL && strcmp(name, "none") == 0) {
        monitor = name;
        return;
    }
    bool ucm = name != NULL && strcmp(name, "ucm") == 0;
    if (ucm && dlopen("libucs.so.0", RTLD_LAZY) == NULL) {
        fprintf(stderr, "cache: %s\n", dlerror());
        exit(2);
    }
    struct mt_memhook_options options = {.socket = getenv("SOCKET"),
                                         .timeout_ms = 120000,
                                         .without_ebpf = ucm,
                                         .without_ucm = !ucm,
                                         .say = say};
    if (mt_memhook_start(&options) != MT_OK) {
        exit(2);
    }
    monitor = mt_memhook.monitor == MT_MEMHOOK_UCM ? "ucm" : "ebpf";
}

static unsigned long number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoul(text, NULL, 10) : 0;
}

static void limit_memlock(void)
{
    if (number("MEMLOCK") > 0) {
        struct rlimit limit = {number("MEMLOCK"), number("MEMLOCK")};
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
            die("setrlimit");
        }
    }
}

/* One write, for lines of ranks must not meet. */
static void tell(const struct way *way, const struct counts *c,
                 const struct mt_regservice *service)
{
    struct mt_regservice_figures f;
    mt_regservice_count(service, &f);
    printf("%s: cycles %lu hits %lu missed %lu stale %lu wrong %lu most %llu "
           "refused %llu noise %lu noise-stale %lu monitor %s\n",
           way->name, c->cycles, c->hits, c->missed, c->stale, c->wrong,
           (unsigned long long)pinned_most, (unsigned long long)f.refused,
           noise_hits, noise_stale, monitor);
    fflush(stdout);
}

static void lose(struct end *e, const struct way *way, unsigned long cycles)
{
    struct counts counts;
    struct mt_regservice *service;
    struct mt_regservice_options options = {
        .pd = e->pd, .local_ranks = (uint32_t)number("RANKS"), .say = say};
    pthread_t other;
    patience_ms = number("PATIENCE") > 0 ? number("PATIENCE") : LIMIT_MS;
    limit_memlock();
    choose_monitor();
    check(mt_regservice_open(&options, &service), "regservice");
    table = mt_regservice_table(service);
    if (pthread_create(&other, NULL, noise, NULL) != 0) {
        die("pthread_create");
    }
    go(e, way, cycles, &counts);
    __atomic_store_n(&noise_stops, true, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    tell(way, &counts, service);
    check(mt_regservice_close(service), "close of the cache");
    if (pinned_bytes != 0) {
        fprintf(stderr, "cache: %llu bytes are still registered\n",
                (unsigned long long)pinned_bytes);
        exit(2);
    }
    struct note end = {.op = OP_END};
    send_note(e, &end);
}

/* The other rank is a program of its own: after fork there would be no Go. */
static pid_t start_other(char **argv, int fd, int other)
{
    pid_t pid = fork();
    if (pid == 0) {
        char text[16];
        close(other);
        snprintf(text, sizeof(text), "%d", fd);
        setenv("END", text, 1);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(fd);
    return pid;
}

int main(int argc, char **argv)
{
    struct end e = {.rank = getenv("END") != NULL};
    unsigned long cycles = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        way_named(NULL);
        return 0;
    }
    const struct way *way = argc == 4 ? way_named(argv[2]) : NULL;
    if (cycles == 0 || way == NULL) {
        fprintf(stderr, "usage: cache DEVICE WAY CYCLES\n");
        return 2;
    }
    if (e.rank == 1) {
        end_open(&e, argv[1], (int)number("END"));
        other_end(&e);
        end_close(&e);
        return 0;
    }
    int pair[2], status;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        die("socketpair");
    }
    pid_t other = start_other(argv, pair[1], pair[0]);
#if STALE_MPI
    MPI_Init(&argc, &argv);
#endif
    end_open(&e, argv[1], pair[0]);
    lose(&e, way, cycles);
    end_close(&e);
#if STALE_MPI
    MPI_Finalize();
#endif
    if (waitpid(other, &status, 0) != other || status != 0) {
        fprintf(stderr, "cache: rank 1 ended with status %#x\n", status);
        return 2;
    }
    return 0;
}
