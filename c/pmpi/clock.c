/* clock.c: chooses the clock, measures its rate and resolution, and the cost
 * of our own hot path. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "../probe/tally.h"
#include "state.h"

/* The processor says that the TSC runs at one rate in every state (CPUID
 * 0x80000007 EDX bit 8), and the kernel has not found otherwise. */
#if defined(__x86_64__)
static bool mt_clock_tsc_trusted(void)
{
    unsigned a, b, c, d;
    char source[16] = "";
    if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & 1u << 8) == 0) {
        return false;
    }
    int fd = open("/sys/devices/system/clocksource/clocksource0/"
                  "current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, source, sizeof(source) - 1);
    close(fd);
    return n >= 3 && strncmp(source, "tsc", 3) == 0;
}
#endif

static uint64_t mt_raw_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Ticks per nanosecond over about 0.2 ms; the pairs at Init and at the end
 * give readers a better figure once the program has run for a while. */
static double mt_clock_rate(void)
{
#if defined(__aarch64__)
    if (mt_clock_source == MPITRACE_CLOCK_SOURCE_CNTVCT) {
        uint64_t hz;
        __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
        return (double)hz / 1e9;
    }
#endif
    uint64_t ns = mt_raw_ns(), ticks = mt_clock_now();
    while (mt_raw_ns() - ns < 200000) {
    }
    uint64_t end_ns = mt_raw_ns(), end_ticks = mt_clock_now();
    return (double)(end_ticks - ticks) / (double)(end_ns - ns);
}

static uint64_t mt_clock_step(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 64; i++) {
        uint64_t a = mt_clock_now(), b = mt_clock_now();
        if (b > a && b - a < least) {
            least = b - a;
        }
    }
    return least != UINT64_MAX ? least : 1;
}

void mt_clock_choose(const char *wanted)
{
    bool vdso = strcmp(wanted, "vdso") == 0;
    mt_clock_source = MPITRACE_CLOCK_SOURCE_VDSO;
#if defined(__aarch64__)
    if (!vdso) {
        mt_clock_source = MPITRACE_CLOCK_SOURCE_CNTVCT;
    }
#else
    bool trusted = !vdso && mt_clock_tsc_trusted();
    if (trusted || strcmp(wanted, "tsc") == 0) {
        mt_clock_source = MPITRACE_CLOCK_SOURCE_TSC;
        if (!trusted) {
            mt_say_once("MPITRACE_CLOCK=tsc although the processor or the "
                        "kernel does not trust the TSC: times may be wrong");
        }
    } else if (!vdso && strcmp(wanted, "auto") != 0) {
        mt_say_once("MPITRACE_CLOCK=%s is not auto, tsc or vdso; auto is used",
                    wanted);
    }
#endif
}

void mt_clock_measure(struct mt_seg_header *h)
{
    h->clock_source = mt_clock_source;
    h->ticks_per_ns = mt_clock_source == MPITRACE_CLOCK_SOURCE_VDSO
                          ? 1.0
                          : mt_clock_rate();
    h->clock_resolution_ticks = mt_clock_step();
}

enum { MT_CALIBRATE_LOOPS = 64, MT_CALIBRATE_BATCHES = 9 };

static __attribute__((noinline)) void mt_calibrate_call(uint32_t id)
{
    struct mt_call call;
    if (mt_enter(&call, id, MT_HERE) == MT_COUNT) {
        mt_go(&call);
        __asm__ volatile("" ::: "memory");
        mt_stop(&call);
        mt_leave(&call, false);
    }
}

static __attribute__((noinline)) void mt_calibrate_message(uint32_t id,
                                                           uint64_t comm,
                                                           uint64_t type)
{
    struct mt_call call;
    if (mt_enter(&call, id, MT_HERE) == MT_COUNT) {
        mt_go_peer(&call, comm, 0, 0);
        __asm__ volatile("" ::: "memory");
        mt_stop(&call);
        struct mt_message m =
            mt_message_of(call.shard, &call, 1, type, comm, 0, 0);
        mt_count_sent(&call, &m, true);
        mt_leave(&call, false);
    }
}

/* Ticks of the fastest batch, per call: what the hot path costs when it is
 * warm. Runs on a shard of its own that no reader sees. */
void mt_clock_calibrate(struct mt_seg_header *h, struct mt_shard *scratch,
                        uint64_t comm, uint64_t type)
{
    struct mt_shard *mine = mt_tls.shard;
    uintptr_t guard = mt_tls.guard;
    uint64_t call = UINT64_MAX, message = UINT64_MAX;
    mt_tls.shard = scratch;
    mt_tls.guard = 0;
    for (int b = 0; b < MT_CALIBRATE_BATCHES; b++) {
        uint64_t t0 = mt_clock_now();
        for (int i = 0; i < MT_CALIBRATE_LOOPS; i++) {
            mt_calibrate_call(MPITRACE_CALL_Comm_rank);
        }
        uint64_t t1 = mt_clock_now();
        for (int i = 0; i < MT_CALIBRATE_LOOPS; i++) {
            mt_calibrate_message(MPITRACE_CALL_Send, comm, type);
        }
        uint64_t t2 = mt_clock_now();
        call = t1 - t0 < call ? t1 - t0 : call;
        message = t2 - t1 < message ? t2 - t1 : message;
    }
    mt_tls.shard = mine;
    mt_tls.guard = guard;
    h->own_call_ns = (double)call / MT_CALIBRATE_LOOPS / h->ticks_per_ns;
    h->own_message_ns = (double)message / MT_CALIBRATE_LOOPS / h->ticks_per_ns;
}
