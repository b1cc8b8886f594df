/* sources: c/regservice/loaded/guard.c */
/* A guarded thread and those that it starts: whatever they ask the kernel for,
 * all signals stay blocked in them, handlers and limits stay what they were, and they
 * are told that it was done. The threads beside them are as ever. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../regservice/loaded/guard.h"

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);  \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

static volatile sig_atomic_t handled;
static bool nested;

static void handler(int number)
{
    (void)number;
    handled++;
}

/* What Go does, by the system calls themselves. */
static void *try(void *unused)
{
    unsigned long none = 0;
    struct {
        void (*handler)(int);
        unsigned long flags, restorer, mask;
    } action = {handler, 0, 0, 0};
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGTERM, &action, NULL, 8) == 0);
    CHECK(syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), SIGUSR1) ==
          0);
    CHECK(handled == 0);
    struct rlimit limit, lower, after;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 64);
    lower = (struct rlimit){.rlim_cur = 64, .rlim_max = limit.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &lower) == 0);
    CHECK(syscall(SYS_setrlimit, RLIMIT_NOFILE, &lower) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &after) == 0);
    CHECK(after.rlim_cur == limit.rlim_cur);
    if (!nested) {
        pthread_t thread;
        nested = true;
        CHECK(pthread_create(&thread, NULL, try, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return unused;
}

static void *guarded(void *unused)
{
    char why[200] = "";
    if (!mt_guard_enter(why, sizeof(why))) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    return try(unused);
}

int main(void)
{
    struct sigaction set = {.sa_handler = handler}, found;
    pthread_t thread;
    char why[200] = "";
    CHECK(sigaction(SIGUSR1, &set, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, guarded, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(sigaction(SIGTERM, NULL, &found) == 0);
    CHECK(found.sa_handler == SIG_DFL);
    CHECK(nested && handled == 0);
    CHECK(raise(SIGUSR1) == 0 && handled == 1); /* here it is as ever */
    CHECK(sigaction(SIGTERM, &set, NULL) == 0);
    CHECK(raise(SIGTERM) == 0 && handled == 2);
    CHECK(mt_guard_room(why, sizeof(why)) || why[0] != '\0');
    return 0;
}
