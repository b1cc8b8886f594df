/* base.h: attributes and small helpers that every C file may use. It knows
 * nothing of MPI and nothing of the folders above it. */
#ifndef MPITRACE_BASE_H
#define MPITRACE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define mt_likely(x) __builtin_expect(!!(x), 1)
#define mt_unlikely(x) __builtin_expect(!!(x), 0)

/* slow paths: kept out of the callers' prologues and instruction cache */
#define MT_COLD __attribute__((noinline, cold))
#define MT_HOT __attribute__((hot))
#define MT_INLINE static inline __attribute__((always_inline))

/* Index of the highest set bit plus one, 0 for 0: the histogram bin of v. */
MT_INLINE unsigned mt_bin(uint64_t v, unsigned bins)
{
    unsigned b = 63 - (unsigned)__builtin_clzll(2 * v + 1); /* v < 2^63 */
    return b < bins ? b : bins - 1;
}

/* A multiplicative hash of 64 bits (Knuth, TAOCP 3, 6.4): the upper bits mix
 * best, so callers shift the result right. */
MT_INLINE uint64_t mt_hash(uint64_t v)
{
    return v * UINT64_C(0x9e3779b97f4a7c15);
}

/* Asks for a cache line that is about to be written: this processor has it alone then.
 * Does nothing else, whatever the address. */
MT_INLINE void mt_prefetch_to_write(const void *address)
{
#if defined(__x86_64__)
    /* the compiler would only read it ahead: not all processors know this one by
     * name, but all take it */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
    __builtin_prefetch(address, 1);
#endif
}

#endif
