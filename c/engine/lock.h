/* lock.h: the engine's lock. The program takes it for each message, and whoever else does
 * takes it rarely. A locked instruction waits until all earlier stores can be seen by all
 * processors, and the last one of those may be a message in the memory of another process:
 * the program would send one message in the time that a cache line travels. So where the
 * program has one thread at a time in MPI, it takes the lock by plain stores and loads, and
 * those that come from aside pay for both, by membarrier(2): a biased lock, by asymmetric
 * Dekker synchronization (Dice, Huang, Yang, "Asymmetric Dekker Synchronization", 2001). */
#ifndef MPITRACE_ENGINE_LOCK_H
#define MPITRACE_ENGINE_LOCK_H

#include "../include/base.h"

struct mt_lock {
    uint32_t taken;  /* by the program; unless biased, by anybody */
    uint32_t wanted; /* biased: by one from aside, who has it once taken is 0 */
    bool biased;
};

/* alone: the program never has two threads in here at once. */
void mt_lock_open(struct mt_lock *lock, bool alone);
/* In a child of fork, where nobody has it. */
void mt_lock_forget(struct mt_lock *lock);

void mt_lock_take_slow(struct mt_lock *lock);
/* By the program. */
MT_INLINE void mt_lock_take(struct mt_lock *lock)
{
    if (mt_likely(lock->biased)) {
        __atomic_store_n(&lock->taken, 1, __ATOMIC_RELAXED);
        /* pairs with membarrier of mt_lock_take_aside */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (mt_unlikely(__atomic_load_n(&lock->wanted, __ATOMIC_ACQUIRE) != 0)) {
            mt_lock_take_slow(lock);
        }
    } else if (mt_unlikely(
                   __atomic_exchange_n(&lock->taken, 1, __ATOMIC_ACQUIRE) != 0)) {
        mt_lock_take_slow(lock);
    }
}

MT_INLINE void mt_lock_give(struct mt_lock *lock)
{
    __atomic_store_n(&lock->taken, 0, __ATOMIC_RELEASE);
}

/* By anybody. */
void mt_lock_take_aside(struct mt_lock *lock);
MT_INLINE void mt_lock_give_aside(struct mt_lock *lock)
{
    __atomic_store_n(lock->biased ? &lock->wanted : &lock->taken, 0,
                     __ATOMIC_RELEASE);
}

#endif
