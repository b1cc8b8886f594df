/* clock.h: reads the clock that pmpi/clock.c has chosen. One predictable
 * branch and one instruction where the TSC may be trusted; no system call in
 * either case (the other source is the vDSO). */
#ifndef MPITRACE_PROBE_CLOCK_H
#define MPITRACE_PROBE_CLOCK_H

#include <time.h>

#include "../include/base.h"
#include "../include/segment.gen.h"

/* Set once by mt_clock_choose() before the first call is measured. */
extern uint32_t mt_clock_source;

MT_INLINE uint64_t mt_clock_vdso(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Now, in ticks of the chosen clock. Reads are not serialised: a call may
 * appear a few cycles shorter or longer, and costs half as much to measure. */
MT_INLINE uint64_t mt_clock_now(void)
{
#if defined(__x86_64__)
    if (mt_likely(mt_clock_source == MPITRACE_CLOCK_SOURCE_TSC)) {
        return __builtin_ia32_rdtsc();
    }
#elif defined(__aarch64__)
    if (mt_likely(mt_clock_source == MPITRACE_CLOCK_SOURCE_CNTVCT)) {
        uint64_t v;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
        return v;
    }
#endif
    return mt_clock_vdso();
}

#endif
