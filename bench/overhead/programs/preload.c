/*
 * preload.c - what a preloaded library costs processes that do not use MPI:
 *
 *     preload LIBRARY
 *
 * starts each command natively and with LIBRARY preloaded in turn, and prints
 * the medians of both from start to end: "start COMMAND NATIVE_NS
 * PRELOADED_NS". All processes run on one processor.
 */
#include "bench.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIRS 200
#define WARM_UP 10

#define PRELOAD "LD_PRELOAD="

enum { NATIVE, PRELOADED, KINDS };

static char **environments[KINDS];

static void fail(const char *what, int error)
{
    fprintf(stderr, "%s: %s\n", what, strerror(error));
    exit(2);
}

/* This process's environment with one more entry, or none; without what may
 * be preloaded already. */
static char **make_environment(char *more)
{
    size_t n = 0, kept = 0;
    char **copy;

    while (environ[n] != NULL) {
        n++;
    }
    copy = calloc(n + 2, sizeof(copy[0]));
    if (copy == NULL) {
        fail("calloc", errno);
    }
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], PRELOAD, strlen(PRELOAD)) != 0) {
            copy[kept++] = environ[i];
        }
    }
    copy[kept] = more;
    return copy;
}

/* Starts a program and waits for its end; returns the ns in between. */
static double start(char *const *argv, int kind)
{
    double begin = now_ns();
    int status, error;
    pid_t pid;

    error = posix_spawn(&pid, argv[0], NULL, NULL, argv, environments[kind]);
    if (error != 0) {
        fail(argv[0], error);
    }
    if (waitpid(pid, &status, 0) != pid) {
        fail("waitpid", errno);
    }
    begin = now_ns() - begin;
    if (status != 0) {
        fprintf(stderr, "%s ended with wait status %d\n", argv[0], status);
        exit(2);
    }
    return begin;
}

/* The dynamic linker goes on without a library that it cannot load: look. */
static void check_loaded(char *library)
{
    char *const argv[] = {"/bin/sh", "-c", "grep -qF \"$0\" /proc/$$/maps",
                          library, NULL};

    start(argv, PRELOADED);
}

static double middle(double *values, size_t n)
{
    qsort(values, n, sizeof(values[0]), compare_doubles);
    return (values[(n - 1) / 2] + values[n / 2]) / 2.0;
}

static void compare(const char *name, char *const *argv)
{
    static double ns[KINDS][PAIRS];

    for (int i = -WARM_UP; i < PAIRS; i++) {
        for (int k = 0; k < KINDS; k++) {
            int kind = (i & 1) != 0 ? KINDS - 1 - k : k; /* who comes first */
            double took = start(argv, kind);

            if (i >= 0) {
                ns[kind][i] = took;
            }
        }
    }
    printf("start %s %.0f %.0f\n", name, middle(ns[NATIVE], PAIRS),
           middle(ns[PRELOADED], PAIRS));
}

int main(int argc, char **argv)
{
    char *const true_argv[] = {"/bin/true", NULL};
    char *const sh_argv[] = {"/bin/sh", "-c", ":", NULL};
    char *entry;

    if (argc != 2) {
        fprintf(stderr, "usage: preload LIBRARY\n");
        return 2;
    }
    if (asprintf(&entry, PRELOAD "%s", argv[1]) < 0) {
        fail("asprintf", errno);
    }
    environments[NATIVE] = make_environment(NULL);
    environments[PRELOADED] = make_environment(entry);
    pin(0);
    check_loaded(argv[1]);
    compare("true", true_argv);
    compare("sh", sh_argv);
    return 0;
}
