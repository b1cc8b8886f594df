/* lock.c: see lock.h. */
#include "lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MT_LOCK_SPINS = 100 };

static bool mt_lock_asks(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

void mt_lock_open(struct mt_lock *lock, bool alone)
{
    *lock = (struct mt_lock){
        .biased =
            alone && mt_lock_asks(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)};
}

void mt_lock_forget(struct mt_lock *lock)
{
    lock->taken = lock->wanted = 0;
}

/* Until it is 0; who holds it may not be running. */
static void mt_lock_await(const uint32_t *word)
{
    for (uint32_t spins = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0;) {
        if (++spins > MT_LOCK_SPINS) {
            sched_yield();
        }
    }
}

/* Takes a word that all take by the same instruction. */
static void mt_lock_exchange(uint32_t *word)
{
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE) != 0) {
        mt_lock_await(word);
    }
}

void mt_lock_take_slow(struct mt_lock *lock)
{
    if (!lock->biased) {
        mt_lock_exchange(&lock->taken);
        return;
    }
    do {
        __atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
        mt_lock_await(&lock->wanted);
        __atomic_store_n(&lock->taken, 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } while (__atomic_load_n(&lock->wanted, __ATOMIC_ACQUIRE) != 0);
}

/* Where the system call is refused, as it may be from some time on: by a filter that the
 * program sets, to a process that was restored, or for want of memory. What a processor
 * has stored its others see by themselves in less than a microsecond. */
static void mt_lock_barrier(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    if (!mt_lock_asks(MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
        !(mt_lock_asks(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
          mt_lock_asks(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) &&
        !mt_lock_asks(MEMBARRIER_CMD_GLOBAL)) {
        nanosleep(&pause, NULL);
    }
}

void mt_lock_take_aside(struct mt_lock *lock)
{
    if (!lock->biased) {
        mt_lock_exchange(&lock->taken);
        return;
    }
    mt_lock_exchange(&lock->wanted);
    /* the program's thread has stored taken before this, or loads wanted after it */
    mt_lock_barrier();
    mt_lock_await(&lock->taken);
}
