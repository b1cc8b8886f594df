/* memhook.h: "this memory is going away", as numbers that change.
 *
 * The address space is folded into buckets of 2 MiB. Each has a generation that
 * changes before memory of the bucket is unmapped, moved or replaced, in the
 * thread that does it: who read the generation, registered the memory, and finds
 * the generation unchanged, has a registration of the memory that is there now.
 * A large range changes all its buckets. */
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

/* What is watched. generations is NULL without a monitor, and again in a child
 * of fork: read it each time, it is one load. */
struct mt_memhook {
    const volatile uint64_t *generations; /* MT_MEMHOOK_BUCKETS of them */
    enum mt_memhook_monitor monitor;
};

extern struct mt_memhook mt_memhook;

MT_INLINE unsigned mt_memhook_bucket(uintptr_t address)
{
    return (unsigned)(address >> MT_MEMHOOK_SHIFT) % MT_MEMHOOK_BUCKETS;
}

#endif
