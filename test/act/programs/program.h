/* program.h: what the programs share. Each checks itself, prints what it saw, one
 * line at a time with the rank in front, and ends with status 1 after a failed
 * check. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, failures;

static inline void say(const char *format, ...)
{
    char line[512];
    va_list args;
    int n = snprintf(line, sizeof(line), "%d: ", rank);
    va_start(args, format);
    n += vsnprintf(line + n, sizeof(line) - 1 - (size_t)n, format, args);
    va_end(args);
    line[n++] = '\n'; /* in one piece, or launchers mix it with others' */
    if (write(1, line, (size_t)n) != n) {
        abort();
    }
}

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            failures++;                                                      \
            say("line %d: not %s", __LINE__, #condition);                    \
        }                                                                    \
    } while (0)

static inline void begin_threads(int *argc, char ***argv, int level)
{
    int provided = -1;
    MPI_Init_thread(argc, argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided >= level);
}

static inline void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static inline int end(void)
{
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    say("%s", failures == 0 ? "right" : "wrong");
    return all != 0;
}

/* Bytes that depend on a seed, and whether they are those. */
static inline void fill(void *buffer, size_t bytes, unsigned seed)
{
    unsigned char *p = buffer;
    for (size_t i = 0; i < bytes; i++) {
        p[i] = (unsigned char)((i * 131 + seed * 31 + (i >> 8)) & 255);
    }
}

static inline int filled(const void *buffer, size_t bytes, unsigned seed)
{
    const unsigned char *p = buffer;
    for (size_t i = 0; i < bytes; i++) {
        if (p[i] != (unsigned char)((i * 131 + seed * 31 + (i >> 8)) & 255)) {
            return 0;
        }
    }
    return 1;
}

static inline int class_of(int error)
{
    int class = -1;
    MPI_Error_class(error, &class);
    return class;
}

/* Lengths around what separates ways for a message. */
static const int lengths[] = {0,     1,     8,     100,   1023,   4096,  16383,
                              16384, 16385, 65536, 65537, 300000, 1048576};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]), LONGEST = 1048576 };

#endif
