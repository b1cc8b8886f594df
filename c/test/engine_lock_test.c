/* sources: c/engine/lock.c */
/* A lock that one takes often and others rarely: what each adds is never lost, whoever
 * comes when, and nobody waits for ever. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>

#include "../engine/lock.h"
#include "check.h"

enum { OFTEN = 2000000, RARELY = 3000, ASIDE = 2 };

static struct mt_lock lock;
static uint64_t counter[2]; /* the same, always */
static int rarely = RARELY;
static uint32_t allowed = UINT32_MAX; /* commands of membarrier */
static uint32_t refused;              /* times */

/* In place of that of libc, for all in here. */
long syscall(long number, ...)
{
    static long (*next)(long, ...);
    va_list list;
    va_start(list, number);
    int command = va_arg(list, int);
    va_end(list);
    if (number != SYS_membarrier || (allowed & (uint32_t)command) == 0) {
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        errno = EPERM;
        return -1;
    }
    if (next == NULL) {
        void *symbol = dlsym(RTLD_NEXT, "syscall");
        memcpy(&next, &symbol, sizeof(next));
    }
    return next(number, command, 0, 0);
}

static void both(void)
{
    CHECK_EQ(counter[0], counter[1]);
    counter[0]++;
    for (volatile int i = 0; i < 3; i++) {
    }
    counter[1]++;
}

static void *aside(void *arg)
{
    (void)arg;
    for (int i = 0; i < rarely; i++) {
        mt_lock_take_aside(&lock);
        both();
        mt_lock_give_aside(&lock);
        if (i % 16 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void *often(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        mt_lock_take(&lock);
        both();
        mt_lock_give(&lock);
    }
    return NULL;
}

/* program: threads of the program. */
static void turns(int program, int times)
{
    pthread_t threads[ASIDE + 4];
    int n = 0;
    counter[0] = counter[1] = 0;
    for (int i = 0; i < ASIDE; i++) {
        CHECK_EQ(pthread_create(&threads[n++], NULL, aside, NULL), 0);
    }
    for (int i = 0; i < program; i++) {
        CHECK_EQ(pthread_create(&threads[n++], NULL, often, &times), 0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(counter[0], (uint64_t)ASIDE * (uint64_t)rarely + (uint64_t)program * (uint64_t)times);
    CHECK_EQ(counter[0], counter[1]);
}

static void several(bool alone, int program, int times)
{
    mt_lock_open(&lock, alone);
    turns(program, times);
}

int main(void)
{
    several(true, 1, OFTEN);
    CHECK(lock.biased);
    several(false, 2, OFTEN / 20);
    CHECK(!lock.biased && refused == 0);

    /* from some time on the command is refused: first of those that take its place,
     * then these, too */
    rarely = 50;
    uint32_t before = 0;
    for (int way = 0; way < 2; way++) {
        allowed = UINT32_MAX;
        mt_lock_open(&lock, true);
        allowed = way == 0 ? MEMBARRIER_CMD_GLOBAL : 0;
        turns(1, OFTEN / 20);
        CHECK(lock.biased && refused >= before + (uint32_t)rarely * ASIDE);
        before = refused;
    }
    allowed = 0;
    mt_lock_open(&lock, true);
    CHECK(!lock.biased);
    mt_lock_take(&lock);
    mt_lock_forget(&lock);
    mt_lock_take_aside(&lock);
    mt_lock_give_aside(&lock);
    return check_failures != 0;
}
