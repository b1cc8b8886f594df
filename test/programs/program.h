/*
 * What the test programs share: a line on stdout, flags between ranks that do
 * not use MPI, and a note of calls whose number only the program can know.
 *
 * The test gives each rank its own stdout, so the order of ranks is no matter,
 * and hands down in PASSTABLE_DIR a directory that is new for each run.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Prints one line at once: what is said is said, also if the process dies. */
static inline void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static inline void run_path(char *path, size_t bytes, const char *name, int n)
{
    const char *dir = getenv("PASSTABLE_DIR");

    snprintf(path, bytes, "%s/%s.%d", dir != NULL ? dir : "/tmp", name, n);
}

/* Tells flag_wait(name, n) in another process to go on. */
static inline void flag_set(const char *name, int n)
{
    char path[512];

    run_path(path, sizeof path, name, n);
    close(open(path, O_CREAT | O_WRONLY, 0600));
}

static inline void flag_wait(const char *name, int n)
{
    char path[512];
    struct stat st;

    run_path(path, sizeof path, name, n);
    while (stat(path, &st) != 0)
        usleep(1000);
}

/* Notes that this rank called `function` that often. */
static inline void note_calls(int rank, const char *function, long calls)
{
    char path[512];
    FILE *file;

    run_path(path, sizeof path, "calls", rank);
    file = fopen(path, "a");
    if (file == NULL)
        exit(99);
    fprintf(file, "%s %ld\n", function, calls);
    fclose(file);
}

#endif
