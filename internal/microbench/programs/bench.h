/*
 * bench.h - what the micro-benchmarks share: arguments, clock, busy
 * computation, patterns of data and their check, result lines.
 *
 * A program gets "--name value" pairs and prints on rank 0
 *
 *   result NAME key=value ...   one measured point
 *   note TEXT                   what a reader of the results must know
 *   done verified=N             the last line: N messages were checked
 *
 * Times are in microseconds, of CLOCK_MONOTONIC. A program that finds wrong
 * data prints one line on stderr and aborts the job with status 1; a wrong
 * command line is status 2.
 */
#ifndef BENCH_H
#define BENCH_H

#define _GNU_SOURCE
#include <inttypes.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BENCH_PAGE 4096
#define BENCH_LIST_MAX 32
#define BENCH_TAG 11
#define BENCH_TAG_ACK 12

/* Least number of untimed rounds whose data is checked in full. */
#define BENCH_CHECK_ROUNDS 8

/* A measured point is timed in about so many blocks. */
#define BENCH_BLOCKS 50

/* Messages up to this size are repeated as often as asked; longer ones less
 * often, in proportion. */
#define BENCH_FULL_SIZE 16384

struct bench_list {
    int n;
    double at[BENCH_LIST_MAX];
};

static const char *bench_name;
static int bench_rank, bench_ranks;
static int bench_argc;
static char **bench_argv;
static uint64_t bench_verified;
static long bench_chunk;     /* turns of the spin loop that take 0.1 us */
static MPI_Comm bench_pair; /* ranks 0 and 1; MPI_COMM_NULL on the others */

/* ---- ending ---- */

__attribute__((noreturn, format(printf, 2, 3))) static inline void
bench_end(int status, const char *format, ...)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    va_list list;
    char text[512];

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "bench %s: rank %d: %s\n", bench_name, bench_rank, text);
    fflush(NULL);
    nanosleep(&pause, NULL); /* Hydra drops what it has not read by the abort */
    MPI_Abort(MPI_COMM_WORLD, status);
    _exit(status); /* MPI_Abort is not declared noreturn */
}

#define bench_fail(...) bench_end(1, __VA_ARGS__)
#define bench_usage(...) bench_end(2, __VA_ARGS__)

/* ---- arguments ---- */

/* The value of --name, or otherwise. */
static inline const char *bench_text(const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < bench_argc; i += 2) {
        if (strncmp(bench_argv[i], "--", 2) == 0 &&
            strcmp(bench_argv[i] + 2, name) == 0) {
            return bench_argv[i + 1];
        }
    }
    return otherwise;
}

static inline double bench_parse(const char *name, const char *text, char **end)
{
    double value = strtod(text, end);

    if (*end == text || !(value >= 0.0 && value <= 1e15)) {
        bench_usage("--%s %s: not a number of 0 or more", name, text);
    }
    return value;
}

static inline long bench_number(const char *name, long otherwise)
{
    const char *text = bench_text(name, NULL);
    char *end;
    double value;

    if (text == NULL) {
        return otherwise;
    }
    value = bench_parse(name, text, &end);
    if (*end != '\0') {
        bench_usage("--%s %s: not a number", name, text);
    }
    return (long)value;
}

/* Numbers separated by commas. */
static inline struct bench_list bench_numbers(const char *name,
                                              const char *otherwise)
{
    const char *text = bench_text(name, otherwise);
    struct bench_list list = {.n = 0};
    char *end;

    for (;;) {
        if (list.n == BENCH_LIST_MAX) {
            bench_usage("--%s: more than %d values", name, BENCH_LIST_MAX);
        }
        list.at[list.n++] = bench_parse(name, text, &end);
        if (*end == '\0') {
            return list;
        }
        if (*end != ',') {
            bench_usage("--%s %s: not numbers separated by commas", name, text);
        }
        text = end + 1;
    }
}

/* Message sizes in bytes. */
static inline struct bench_list bench_sizes(const char *otherwise)
{
    struct bench_list list = bench_numbers("sizes", otherwise);

    for (int i = 0; i < list.n; i++) {
        if (list.at[i] < 1.0 || list.at[i] > 1073741824.0) {
            bench_usage("--sizes: a size is 1 to 1073741824 bytes");
        }
    }
    return list;
}

/* Whether a comma-separated list holds a word. */
static inline int bench_has(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 &&
            (at[length] == ',' || at[length] == '\0')) {
            return 1;
        }
    }
    return 0;
}

/* Repetitions of a message of so many bytes, when small ones have base. */
static inline long bench_iterations(long base, size_t size)
{
    long n = base;

    if (size > BENCH_FULL_SIZE) {
        n = (long)((double)base * BENCH_FULL_SIZE / (double)size);
    }
    return n < 4 ? 4 : n;
}

/* Untimed rounds before a measurement: warm-up and full check in one. */
static inline long bench_rounds(size_t size)
{
    long n = bench_iterations(bench_number("warmup", 100), size);

    return n < BENCH_CHECK_ROUNDS ? BENCH_CHECK_ROUNDS : n;
}

/* Iterations between two looks at the clock of a measured point. */
static inline long bench_block(long iterations)
{
    return (iterations + BENCH_BLOCKS - 1) / BENCH_BLOCKS;
}

/* Whether to go on after so many us, which rank 0 of comm decides for all:
 * a point takes not much longer than --limit-ms, however busy the machine. */
static inline int bench_go_on(double spent_us, MPI_Comm comm)
{
    static double limit_us = -1.0;
    int go;

    if (limit_us < 0.0) {
        limit_us = 1000.0 * (double)bench_number("limit-ms", 250);
    }
    go = spent_us < limit_us;
    MPI_Bcast(&go, 1, MPI_INT, 0, comm);
    if (go != 0 && go != 1) {
        bench_fail("wrong data: Bcast of a 0 or 1 brought %d", go);
    }
    return go;
}

/* ---- begin and end of a program ---- */

static inline void bench_begin(int *argc, char ***argv, const char *name,
                               int least)
{
    bench_name = name;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench_ranks);
    bench_argc = *argc;
    bench_argv = *argv;
    if (*argc % 2 != 1) {
        bench_usage("arguments are pairs: --name value");
    }
    if (bench_number("ranks", bench_ranks) != bench_ranks) {
        bench_usage("%d ranks started, %ld asked for: do compiler and launcher "
                    "belong to one MPI?",
                    bench_ranks, bench_number("ranks", 0));
    }
    if (bench_ranks < least) {
        bench_usage("needs %d ranks", least);
    }
    MPI_Comm_split(MPI_COMM_WORLD, bench_rank < 2 ? 0 : MPI_UNDEFINED,
                   bench_rank, &bench_pair);
}

static inline void bench_done(void)
{
    uint64_t all = 0;

    if (bench_pair != MPI_COMM_NULL) {
        MPI_Comm_free(&bench_pair);
    }
    MPI_Reduce(&bench_verified, &all, 1, MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    if (bench_rank == 0) {
        printf("done verified=%" PRIu64 "\n", all);
        fflush(stdout);
    }
    MPI_Finalize();
}

__attribute__((format(printf, 1, 2))) static inline void
bench_result(const char *format, ...)
{
    va_list list;

    if (bench_rank != 0) {
        return;
    }
    printf("result %s ", bench_name);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    fflush(stdout);
}

__attribute__((format(printf, 1, 2))) static inline void
bench_note(const char *format, ...)
{
    va_list list;

    if (bench_rank != 0) {
        return;
    }
    printf("note ");
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    fflush(stdout);
}

/* ---- clock and computation ---- */

static inline double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static inline void bench_spin(long turns)
{
    for (long i = 0; i < turns; i++) {
        __asm__ volatile("" ::: "memory");
    }
}

/* Sets bench_chunk: the fastest of some runs of a loop of at least 20 us. */
static inline void bench_calibrate(void)
{
    long turns = 1000;
    double best = 0.0;

    while (best < 20.0) {
        turns *= 2;
        best = 1e9;
        for (int i = 0; i < 5; i++) {
            double start = bench_now(), took;

            bench_spin(turns);
            took = bench_now() - start;
            best = took < best ? took : best;
        }
    }
    bench_chunk = (long)(0.1 * (double)turns / best);
    bench_chunk = bench_chunk < 1 ? 1 : bench_chunk;
}

/* Computes for so long without a call into MPI or the kernel. It ends within
 * half a chunk of the time asked for; time that the processor was taken away
 * counts as computed. */
static inline void bench_compute(double us)
{
    double end = bench_now() + us - 0.05;

    while (bench_now() < end) {
        bench_spin(bench_chunk);
    }
}

/* Computes until this thread has had so much time of its processor. */
static inline void bench_compute_cpu(double us)
{
    struct timespec t;
    double now, end = -1.0;

    do {
        bench_spin(bench_chunk);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        now = (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
        end = end < 0.0 ? now + us : end;
    } while (now < end);
}

/* ---- statistics ---- */

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Median of values, which it sorts. */
static inline double bench_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(values[0]), bench_compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2.0;
}

/* ---- data ---- */

/* One step of splitmix64: the n-th word of the pattern with that seed. */
static inline uint64_t bench_word(uint64_t seed, uint64_t n)
{
    uint64_t z = seed * 0xd1342543de82ef95u + (n + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number in [0, 1) that depends on the seed and n only. */
static inline double bench_uniform(uint64_t seed, uint64_t n)
{
    return (double)(bench_word(seed, n) >> 11) * 0x1p-53;
}

static inline void bench_fill(void *buffer, size_t bytes, uint64_t seed)
{
    char *at = buffer;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = bench_word(seed, i / 8);

        memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

/* Ends the job if the buffer does not hold the pattern. */
static inline void bench_check(const void *buffer, size_t bytes, uint64_t seed,
                               const char *what)
{
    const char *at = buffer;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = bench_word(seed, i / 8);

        if (memcmp(at + i, &word, bytes - i < 8 ? bytes - i : 8) != 0) {
            bench_fail("wrong data: %s, %zu bytes, at byte %zu", what, bytes,
                       i);
        }
    }
    bench_verified++;
}

/* Memory on pages of its own, touched. */
static inline char *bench_alloc(size_t bytes)
{
    size_t whole = (bytes + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE;
    void *at = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED) {
        bench_fail("no memory for %zu bytes", whole);
    }
    memset(at, 0x5a, whole);
    return at;
}

static inline void bench_free(char *at, size_t bytes)
{
    munmap(at, (bytes + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE);
}

/* ---- two ranks ---- */

static inline void bench_send(const void *out, size_t bytes, int peer)
{
    MPI_Send(out, (int)bytes, MPI_BYTE, peer, BENCH_TAG, MPI_COMM_WORLD);
}

static inline void bench_recv(void *in, size_t bytes, int peer)
{
    MPI_Recv(in, (int)bytes, MPI_BYTE, peer, BENCH_TAG, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

/* One exchange: the first of two ranks sends, then receives. */
static inline void bench_exchange_on(MPI_Comm comm, const void *out, void *in,
                                     size_t bytes, int first, int peer)
{
    if (first) {
        MPI_Send(out, (int)bytes, MPI_BYTE, peer, BENCH_TAG, comm);
    }
    MPI_Recv(in, (int)bytes, MPI_BYTE, peer, BENCH_TAG, comm,
             MPI_STATUS_IGNORE);
    if (!first) {
        MPI_Send(out, (int)bytes, MPI_BYTE, peer, BENCH_TAG, comm);
    }
}

static inline void bench_exchange(const void *out, void *in, size_t bytes,
                                  int first, int peer)
{
    bench_exchange_on(MPI_COMM_WORLD, out, in, bytes, first, peer);
}

/* Both of two ranks come here before either leaves. */
static inline void bench_meet(int peer)
{
    char byte = 0;

    MPI_Sendrecv(&byte, 1, MPI_BYTE, peer, BENCH_TAG_ACK, &byte, 1, MPI_BYTE,
                 peer, BENCH_TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* One untimed exchange of patterns that belong to the round, checked. */
static inline void bench_check_exchange(char *out, char *in, size_t bytes,
                                        long round, int first, int peer)
{
    uint64_t seed = 2 * (uint64_t)round;

    bench_fill(out, bytes, seed + (first ? 0 : 1));
    memset(in, 0, bytes);
    bench_exchange(out, in, bytes, first, peer);
    bench_check(in, bytes, seed + (first ? 1 : 0), "ping-pong");
}

/* Untimed exchanges of ranks 0 and 1, every message checked. */
static inline void bench_warm_pair(char *out, char *in, size_t bytes)
{
    long rounds = bench_rounds(bytes);
    double start = bench_now();
    int peer = 1 - bench_rank;

    for (long i = 0; i < rounds; i++) {
        bench_check_exchange(out, in, bytes, i, peer, peer);
        if (i % BENCH_CHECK_ROUNDS == BENCH_CHECK_ROUNDS - 1 &&
            !bench_go_on(bench_now() - start, bench_pair)) {
            return;
        }
    }
}

/* us for so many exchanges of ranks 0 and 1. */
static inline double bench_exchanges(const char *out, char *in, size_t bytes,
                                     long n)
{
    int peer = 1 - bench_rank;
    double start = bench_now();

    for (long i = 0; i < n; i++) {
        bench_exchange(out, in, bytes, peer, peer);
    }
    return bench_now() - start;
}

/* Mean half round trip in us of ranks 0 and 1 and that of the fastest block.
 * What arrives last is checked. */
static inline double bench_half_rtt(char *out, char *in, size_t bytes,
                                    long iterations, double *best_p)
{
    long block = bench_block(iterations), done = 0;
    double spent = 0.0, best = 0.0, us;

    bench_fill(out, bytes, 3 + (uint64_t)bench_rank);
    memset(in, 0, bytes);
    do {
        us = bench_exchanges(out, in, bytes, block);
        best = done == 0 || us < best ? us : best;
        spent += us;
        done += block;
    } while (done < iterations && bench_go_on(spent, bench_pair));
    bench_check(in, bytes, 4 - (uint64_t)bench_rank, "last ping-pong");
    *best_p = best / (2.0 * (double)block);
    return spent / (2.0 * (double)done);
}

#endif
