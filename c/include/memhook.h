/* memhook.h: "this memory is going away", as numbers that change.
 *
 * The address space is folded into buckets of 2 MiB. Each has a generation that
 * changes before memory of the bucket is unmapped, moved or replaced, in the
 * thread that does it: who read the generation, registered the memory, and finds
 * the generation unchanged, has a registration of the memory that is there now.
 * A large range changes all its buckets.
 *
 * In this order, then: the generations are read, the memory is registered, and
 * what was read is kept with the registration. A look-up compares it with what
 * is there then. Only memory that the caller may use throughout is registered:
 * libucm tells of an unmapping before it only, so a registration made meanwhile
 * by another thread, of memory around what it was asked for, could outlive it.
 * (The kernel's tracepoints tell of it before and after.) */
#ifndef MPITRACE_MEMHOOK_H
#define MPITRACE_MEMHOOK_H

#include "base.h"
#include "status.h"

enum {
    MT_MEMHOOK_BUCKETS = 1024, /* a power of two */
    MT_MEMHOOK_SHIFT = 21,     /* of an address: bucket = address >> 21 % 1024 */
};

enum mt_memhook_monitor {
    MT_MEMHOOK_NONE = 0, /* nobody watches: nothing may be cached */
    MT_MEMHOOK_EBPF,     /* tracepoints in the kernel: sees every system call */
    MT_MEMHOOK_UCM,      /* libucm of UCX: does not see raw system calls */
};

/* The kernel empties whole pages in a child of fork: these hold nothing else. */
#if defined(__aarch64__)
#define MT_MEMHOOK_PAGE __attribute__((aligned(65536)))
#else
#define MT_MEMHOOK_PAGE __attribute__((aligned(4096)))
#endif

/* What is watched. generations is NULL without a monitor, and again in a child
 * of fork: read it each time, it is one load. */
struct mt_memhook {
    const volatile uint64_t *generations; /* MT_MEMHOOK_BUCKETS of them */
    enum mt_memhook_monitor monitor;
} MT_MEMHOOK_PAGE;

extern struct mt_memhook mt_memhook;

MT_INLINE unsigned mt_memhook_bucket(uintptr_t address)
{
    return (unsigned)(address >> MT_MEMHOOK_SHIFT) % MT_MEMHOOK_BUCKETS;
}

/* The generations of [address, address + bytes) as one number, bytes > 0: a sum,
 * which changes when any of them does, as they only grow. The loads acquire, so
 * that nothing of a registration moves in front of them. */
MT_INLINE uint64_t mt_memhook_stamp(const volatile uint64_t *generations,
                                    uintptr_t address, size_t bytes)
{
    uintptr_t first = address >> MT_MEMHOOK_SHIFT;
    uintptr_t last = (address + bytes - 1) >> MT_MEMHOOK_SHIFT;
    if (mt_unlikely(last - first >= MT_MEMHOOK_BUCKETS)) {
        last = first + MT_MEMHOOK_BUCKETS - 1;
    }
    uint64_t sum = 0;
    for (uintptr_t b = first; b <= last; b++) {
        sum += __atomic_load_n(&generations[b % MT_MEMHOOK_BUCKETS],
                               __ATOMIC_ACQUIRE);
    }
    return sum;
}

struct mt_memhook_options {
    const char *socket;  /* of a helper; NULL, or nobody there: the node's,
                          * MT_MEMMON_SOCKET (memmon.h) */
    unsigned timeout_ms; /* for all of the start; 0: 2000 */
    bool without_ebpf;   /* do not ask the helper */
    bool without_ucm;    /* do not ask libucm */

    /* Told at most once a start, in a line without its end: why memory is not
     * watched, or not completely. May be NULL. */
    void (*say)(void *argument, const char *line);
    void *argument;
};

/* Finds a monitor: the helper's tracepoints, else libucm if it is loaded, each
 * tried by unmapping a page. MT_OK with a monitor, also when there was one
 * already; MT_ENOTSUP if nobody watches: mt_memhook is then as it was at first.
 * options may be NULL. May be called from any thread, and again in a child of
 * fork, which has none at first. */
enum mt_status mt_memhook_start(const struct mt_memhook_options *options);

/* Watching ends. No other thread may use generations any more. */
void mt_memhook_stop(void);

#endif
