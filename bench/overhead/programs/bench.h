/*
 * bench.h - what the programs of the overhead benchmark share: the clock,
 * the binding to a processor, and the timing of a loop.
 *
 * A result is one line on stdout: "result NAME NANOSECONDS", per MPI call
 * unless the driver's table says otherwise. Nothing here calls MPI.
 */
#ifndef BENCH_H
#define BENCH_H

#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A loop is timed in BLOCKS blocks of at least BLOCK_NS each: together more
 * than 100 ms. Its result is the lower quartile of the blocks. */
#define BLOCKS 7
#define BLOCK_NS 20000000.0

typedef void (*loop_fn)(long iterations);

static inline double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Binds the calling thread to the n-th processor that OVERHEAD_CORES names
 * ("1,0"); without that variable it stays where it is. */
static inline void pin(int n)
{
    const char *list = getenv("OVERHEAD_CORES");
    cpu_set_t set;

    if (list == NULL) {
        return;
    }
    while (n-- > 0) {
        list = strchr(list, ',');
        if (list == NULL) {
            fprintf(stderr, "OVERHEAD_CORES names too few processors\n");
            exit(2);
        }
        list++;
    }
    CPU_ZERO(&set);
    CPU_SET(atoi(list), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        perror("sched_setaffinity");
        exit(2);
    }
}

static inline int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value below which a quarter of the blocks lie: a block in which the
 * processor did something else does not count. */
static inline double lower_quartile(double *values, size_t n)
{
    qsort(values, n, sizeof(values[0]), compare_doubles);
    return values[n / 4];
}

static inline double time_block(loop_fn loop, long iterations)
{
    double start = now_ns();

    loop(iterations);
    return now_ns() - start;
}

/* The next number of iterations to try, when a block of so many took ns;
 * it grows to a little more than one block's length, at most tenfold. */
static inline long more_iterations(long iterations, double ns)
{
    double factor = 1.2 * BLOCK_NS / (ns > 0.0 ? ns : 1.0);

    return 1 + (long)((double)iterations * (factor < 10.0 ? factor : 10.0));
}

/* The number of iterations that fills one block; also warms everything up. */
static inline long calibrate(loop_fn loop)
{
    long iterations = 100;
    double ns;

    while ((ns = time_block(loop, iterations)) < BLOCK_NS) {
        iterations = more_iterations(iterations, ns);
    }
    return iterations;
}

/* Times a loop; calls is the number of results counted per iteration. */
static inline double time_loop(loop_fn loop, long iterations, double calls)
{
    double ns[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        ns[i] = time_block(loop, iterations) / ((double)iterations * calls);
    }
    return lower_quartile(ns, BLOCKS);
}

static inline void print_result(const char *name, double ns)
{
    printf("result %s %.3f\n", name, ns);
    fflush(stdout);
}

#endif
