/* ledger.h: what a program of test/measure does, written down by itself: lines
 * "ledger ..." in the file ledger.RANK of its working directory. Moments are
 * nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. It
 * knows nothing of mpitrace. */
#ifndef MEASURE_LEDGER_H
#define MEASURE_LEDGER_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static FILE *ledger_file;

static inline int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Gives the processor away for so long: ranks may share one. */
static inline void pass(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    if (ns > 0) {
        nanosleep(&t, NULL);
    }
}

__attribute__((format(printf, 1, 2))) static inline void
ledger(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("ledger ", ledger_file);
    vfprintf(ledger_file, format, args);
    fputc('\n', ledger_file);
    va_end(args);
}

/* Opens the ledger; its first line is what a moment costs to take. */
static inline void ledger_open(int rank)
{
    char name[64];
    snprintf(name, sizeof(name), "ledger.%d", rank);
    ledger_file = fopen(name, "w");
    if (ledger_file == NULL) {
        perror(name);
        exit(2);
    }
    int64_t best = INT64_MAX;
    for (int i = 0; i < 1000; i++) {
        int64_t before = now(), cost = now() - before;
        best = cost < best ? cost : best;
    }
    ledger("stamp %" PRId64, best);
}

static inline void ledger_close(void)
{
    if (fclose(ledger_file) != 0) {
        perror("ledger");
        exit(2);
    }
}

#endif
