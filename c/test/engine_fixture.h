/* engine_fixture.h: processes of one machine with an engine each, joined by
 * memory that they share. Every wait has a bound. */
#ifndef MPITRACE_TEST_ENGINE_FIXTURE_H
#define MPITRACE_TEST_ENGINE_FIXTURE_H

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../include/engine.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ALL_WAYS = 0 };
#else
enum { ALL_WAYS = 1 };
#endif

enum { FIX_PROCESSES = 8, FIX_BYTES = 1 << 16, FIX_LIMIT_MS = 300000 };

/* What all processes of a job share. */
struct fix_shared {
    uint32_t arrived[2]; /* at exchanges, by turns; pairs with itself */
    uint32_t left[2];
    char data[2][FIX_PROCESSES][FIX_BYTES];
};

struct fix {
    struct fix_shared *shared;
    uint32_t rank, size, turn;
    uint64_t until_ms;
    struct mt_engine *engine; /* NULL: closed */
    const char *what;         /* is being tested */
};

static struct fix fix;

#define FAIL(...)                                                              \
    do {                                                                       \
        fprintf(stderr, "%s:%d: process %u, %s: ", __FILE__, __LINE__,         \
                fix.rank, fix.what);                                           \
        fprintf(stderr, __VA_ARGS__);                                          \
        fputc('\n', stderr);                                                   \
        _exit(1);                                                              \
    } while (0)
#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            FAIL("%s", #condition);                                            \
        }                                                                      \
    } while (0)
#define EQ(got, want)                                                          \
    do {                                                                       \
        long long got_ = (long long)(got), want_ = (long long)(want);          \
        if (got_ != want_) {                                                   \
            FAIL("%s is %lld, not %s = %lld", #got, got_, #want, want_);       \
        }                                                                      \
    } while (0)

static inline uint64_t fix_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Once round a loop that waits for something. */
static inline void fix_turn(const char *for_what)
{
    bool moved = fix.engine != NULL && mt_engine_progress(fix.engine);
    if (!moved) {
        sched_yield();
        if (fix_now_ms() > fix.until_ms) {
            FAIL("waited too long for %s", for_what);
        }
    }
}

/* The exchange of struct mt_fabric_wireup. A place is used again two exchanges
 * later, when everybody has left it. */
static inline enum mt_status fix_exchange(void *user, const void *mine,
                                          size_t bytes, void *all)
{
    struct fix_shared *s = fix.shared;
    uint32_t turn = fix.turn++ % 2;
    (void)user;
    CHECK(bytes <= FIX_BYTES);
    memcpy(s->data[turn][fix.rank], mine, bytes);
    __atomic_add_fetch(&s->arrived[turn], 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&s->arrived[turn], __ATOMIC_ACQUIRE) < fix.size) {
        fix_turn("the others to exchange");
    }
    for (uint32_t i = 0; i < fix.size; i++) {
        memcpy((char *)all + i * bytes, s->data[turn][i], bytes);
    }
    if (__atomic_add_fetch(&s->left[turn], 1, __ATOMIC_ACQ_REL) == fix.size) {
        __atomic_store_n(&s->left[turn], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&s->arrived[turn], 0, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&s->arrived[turn], __ATOMIC_ACQUIRE) == fix.size) {
        fix_turn("the others to leave an exchange");
    }
    return MT_OK;
}

static inline void fix_barrier(void)
{
    char one = 1, all[FIX_PROCESSES];
    fix_exchange(NULL, &one, 1, all);
}

static inline void fix_say(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "  engine: %s\n", text);
}

static inline void fix_open(struct mt_engine_options *o)
{
    o->wireup = (struct mt_fabric_wireup){.rank = fix.rank,
                                          .size = fix.size,
                                          .exchange = fix_exchange};
    o->say = fix_say;
    struct mt_engine *engine = NULL;
    EQ(mt_engine_open(o, &engine), MT_OK);
    fix.engine = engine;
}

/* Over all processes, in the order of ranks. */
static inline struct mt_engine_context *fix_context(uint32_t id)
{
    uint32_t processes[FIX_PROCESSES];
    struct mt_engine_context *context;
    for (uint32_t i = 0; i < fix.size; i++) {
        processes[i] = i;
    }
    EQ(mt_engine_context_open(fix.engine, id, fix.rank, fix.size, processes,
                              &context),
       MT_OK);
    return context;
}

static inline void fix_wait(struct mt_engine_request *r)
{
    while (!mt_engine_done(r)) {
        fix_turn("a request");
    }
}

static inline struct mt_buffer flat(void *address, uint64_t bytes)
{
    return (struct mt_buffer){.address = address, .bytes = bytes};
}

static inline void fill(void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        ((unsigned char *)memory)[i] = (unsigned char)(i * 7 + (i >> 8) + seed);
    }
}

static inline void filled(const void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        EQ(((const unsigned char *)memory)[i],
           (unsigned char)(i * 7 + (i >> 8) + seed));
    }
}

static inline void start_receive(struct mt_engine_context *c,
                                 struct mt_engine_request *r, int from, int tag,
                                 void *p, uint64_t n)
{
    struct mt_buffer b = flat(p, n);
    EQ(mt_engine_receive(c, r, from, tag, &b), MT_OK);
}

static inline void start_send(struct mt_engine_context *c,
                              struct mt_engine_request *r, int to, int tag,
                              void *p, uint64_t n)
{
    struct mt_buffer b = flat(p, n);
    EQ(mt_engine_send(c, r, to, tag, MT_ENGINE_STANDARD, &b), MT_OK);
}

static inline void finish(struct mt_engine_request *r)
{
    fix_wait(r);
    EQ(r->status, MT_OK);
    CHECK(!r->cancelled);
}

/* Until short messages go by a ring, both ways, where there is one. */
static inline void fix_talk(struct mt_engine_context *c, int other, int tag)
{
    struct mt_engine_request s, r;
    char out[8] = {0}, in[8];
    for (int i = 0; i < 100; i++) {
        start_receive(c, &r, other, tag, in, sizeof(in));
        start_send(c, &s, other, tag, out, sizeof(out));
        finish(&r);
        finish(&s);
    }
}

static inline void fix_close(void)
{
    struct mt_engine *engine = fix.engine;
    while (mt_engine_obligations(engine) > 0) {
        fix_turn("obligations to be met");
    }
    fix_barrier();
    fix.engine = NULL;
    EQ(mt_engine_close(engine), MT_OK);
}

/* A file with a fault script, until it is removed. */
static inline const char *fix_script(const char *text)
{
    static char path[64];
    snprintf(path, sizeof(path), "/tmp/engine-test-%d.fault", (int)getpid());
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

/* Runs main in so many processes; true: all ended with 0. */
static inline bool fix_run(const char *what, uint32_t size, void (*run)(void *),
                    void *argument)
{
    pid_t pids[FIX_PROCESSES];
    bool right = true;
    fix.shared = mmap(NULL, sizeof(*fix.shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fix.size = size;
    fix.turn = 0;
    fix.what = what;
    fix.until_ms = fix_now_ms() + FIX_LIMIT_MS;
    for (uint32_t i = 0; i < size; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            fix.rank = i;
            alarm(FIX_LIMIT_MS / 1000 + 20);
            run(argument);
            exit(0);
        }
    }
    for (uint32_t n = 0; n < size; n++) {
        int status = 0;
        pid_t pid = wait(&status);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            uint32_t i = 0;
            while (i < size - 1 && pids[i] != pid) {
                i++;
            }
            bool meant = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            if (!meant) {
                fprintf(stderr, "%s: process %u ended with %#x\n", what, i,
                        (unsigned)status);
                right = false;
                for (uint32_t p = 0; p < size; p++) {
                    if (pids[p] != pid) {
                        kill(pids[p], SIGTERM);
                    }
                }
            }
        }
    }
    munmap(fix.shared, sizeof(*fix.shared));
    fprintf(stderr, "%s %s (%llu ms)\n", right ? "ok  " : "FAIL", what,
            (unsigned long long)(fix_now_ms() + FIX_LIMIT_MS - fix.until_ms));
    return right;
}

#endif
