/* say.c: the only place that writes to stderr, but for attach.c where it ends the
 * program, and the lock of the cold paths. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compat.h"
#include "state.h"

static uint32_t mt_cold_held;
static int mt_cold_cancel; /* what whoever holds it has to set again */

/* Files are opened and written under it: a thread that is cancelled there would take the
 * lock with it. */
void mt_cold_lock(void)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    mt_guard_mark(MT_GUARD_COLD);
    while (__atomic_exchange_n(&mt_cold_held, 1, __ATOMIC_ACQUIRE) != 0) {
        sched_yield();
    }
    mt_cold_cancel = cancel;
}

void mt_cold_unlock(void)
{
    int cancel = mt_cold_cancel;
    __atomic_store_n(&mt_cold_held, 0, __ATOMIC_RELEASE);
    mt_guard_unmark(MT_GUARD_COLD);
    pthread_setcancelstate(cancel, NULL);
}

/* Writes to stderr. Where nobody reads it any more (2>&1 | head) the SIGPIPE of
 * our own line must not end the program: it is held back and taken away. */
static struct statx mt_stderr; /* as it was at MPI_Init */

void mt_say_begin(void)
{
    if (!mt_stat(STDERR_FILENO, "", AT_EMPTY_PATH, &mt_stderr)) {
        mt_stderr.stx_mask = 0;
    }
}

/* A program may close descriptor 2 and open a file of its own there. */
static bool mt_say_stderr(void)
{
    struct statx now;
    if (!mt_process.started) {
        return true;
    }
    return mt_stderr.stx_mask != 0 &&
           mt_stat(STDERR_FILENO, "", AT_EMPTY_PATH, &now) &&
           now.stx_ino == mt_stderr.stx_ino &&
           now.stx_dev_major == mt_stderr.stx_dev_major &&
           now.stx_dev_minor == mt_stderr.stx_dev_minor;
}

static bool mt_say_quiet(void)
{
    const char *quiet = getenv("MPITRACE_QUIET");
    return mt_process.started ? mt_process.quiet
                              : quiet != NULL && strcmp(quiet, "1") == 0;
}

static void mt_say_write(const char *line, size_t n)
{
    sigset_t pipe, before, pending;
    static const struct timespec now = {0, 0};
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, &pipe, &before); /* of this thread */
    if (write(STDERR_FILENO, line, n) < 0 && errno == EPIPE &&
        sigismember(&pending, SIGPIPE) == 0) {
        sigtimedwait(&pipe, NULL, &now);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void mt_say_list(const char *format, va_list list)
{
    char line[512] = "mpitrace: ";
    int n = vsnprintf(line + 10, sizeof(line) - 11, format, list);
    if (n < 0 || !mt_say_stderr()) {
        return;
    }
    size_t used = 10 + (size_t)n;
    if (used > sizeof(line) - 2) {
        used = sizeof(line) - 2;
    }
    line[used] = '\n';
    mt_say_write(line, used + 1);
}

void mt_say(const char *format, ...)
{
    va_list list;
    if (mt_say_quiet()) {
        return;
    }
    va_start(list, format);
    mt_say_list(format, list);
    va_end(list);
}

void mt_say_last(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    mt_say_list(format, list);
    va_end(list);
}

/* The rank, or before MPI_Init returns what the launcher calls it; 0 if
 * neither says. */
static bool mt_say_first(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK", "SLURM_PROCID"};
    if (mt_process.world_rank >= 0) {
        return mt_process.world_rank == 0;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *rank = getenv(names[i]);
        if (rank != NULL) {
            return strcmp(rank, "0") == 0;
        }
    }
    return true;
}

void mt_say_once(const char *format, ...)
{
    va_list list;
    if (!mt_say_first() || mt_say_quiet()) {
        return;
    }
    va_start(list, format);
    mt_say_list(format, list);
    va_end(list);
}
