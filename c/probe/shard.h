/* shard.h: what one thread writes while it measures.
 *
 * Owns: the thread-local guard, the shard (pointers into the segment plus the
 * private look-up tables that lead there) and its hot look-ups.
 * Threads: a shard has one writer at a time. The last shard (shared) serves
 * all threads that found none of their own; its users take its spin lock
 * around every update.
 * Must not: allocate, lock (but for the shared shard), make a system call,
 * know an MPI handle's type. Slow paths are reached through pmpi/. */
#ifndef MPITRACE_PROBE_SHARD_H
#define MPITRACE_PROBE_SHARD_H

#include "../include/base.h"
#include "../include/calls.gen.h"
#include "../include/segment.gen.h"
#include "clock.h"

enum {
    MT_SITE_CACHE = 512,  /* direct-mapped entries */
    MT_STEPS = 512,       /* open addressing, at most half full */
    MT_SITE_INDEX = 2048, /* open addressing, at most three quarters full */
    MT_TYPE_CACHE = 64,
    MT_COMM_CACHE = 16,
    MT_ARRIVAL_ROWS = 512,
    MT_ARRIVAL_CLASSES = 64, /* one more takes the rest */
    MT_REUSE_CHUNK = 512,    /* rows */
    MT_REUSE_ROWS = 8192,
    MT_REUSE_FREQUENT = 16, /* accesses that make a buffer frequently used */
    MT_REUSE_SHARE = 5,     /* one buffer in five must be, for the table to grow */
    MT_EVENT_ROWS = 512,
};

/* Where a call of one function from one return address is counted. */
struct mt_site_cached {
    uintptr_t address;
    uint32_t call;
    uint32_t phase;
    struct mt_seg_site *site;
};

/* How to leave the frame that a return address belongs to. Its size is constant
 * per address on every binding measured. Frames of the application are kept
 * only for the sake of call stacks. */
struct mt_step {
    uintptr_t address;
    uint32_t slot; /* bytes from the frame address to the next return address */
    uint32_t span; /* bytes to the next frame address; 0: varies, unwind */
    uint32_t application; /* 1: do not step out of it to find the call site */
    uint32_t outermost;   /* 1: there is no frame outside it */
};

/* A call stack as the unwinder sees it, innermost frame first. */
struct mt_stack {
    uint32_t depth;
    uint16_t row; /* entry of STACKS plus 1, 0: the table is full */
    struct mt_step frames[MPITRACE_STACK_FRAMES];
};

struct mt_site_slot {
    uint64_t key; /* mt_site_key() of the site, 0 if free */
    struct mt_seg_site *site;
};

struct mt_type_cached {
    uint64_t handle;
    int64_t size;
    uint32_t index; /* entry of TYPES */
    uint32_t epoch;
};

/* What is known of a communicator; lives until the process ends. */
struct mt_comm {
    uint64_t handle;
    uint32_t index; /* entry of COMMS */
    int32_t size;
    int32_t rank;
    int32_t peers;        /* processes that ranks in calls refer to (remote group if inter) */
    const int32_t *world; /* peers' world ranks, NULL: identity (see identity) */
    uint32_t identity;    /* 1: rank == world rank */
    int32_t neighbours;   /* out-degree of the topology, -1: not asked yet */
    uint64_t absent;      /* bit i: neighbour i is MPI_PROC_NULL (edge of a grid) */
    uint64_t id;
    uint64_t kin;   /* the same for all made alike, see mt_comm_kin */
    uint64_t group; /* hash of the ordered world ranks */
    uint32_t inter;
    uint32_t comparable;
    uint32_t sequence; /* collective operations started on it so far */
    uint32_t reserved;
};

struct mt_comm_cached {
    uint64_t handle;
    struct mt_comm *comm;
    uint32_t epoch;
    uint32_t reserved;
};

/* The usage table of buffers, see reuse.h. */
struct mt_reuse {
    struct mt_seg_reuse *paths;     /* by enum path; NULL: not followed */
    uint32_t *index;
    uint32_t mask, shift;           /* of the index: slots - 1, 64 - log2(slots) */
    uint32_t now;                   /* accesses so far */
    uint32_t rows, room;            /* buffers, and for how many there is room */
    uint32_t frequent;              /* of them, frequently used */
    uint32_t stopped;               /* 1: no more are added */
    struct mt_seg_section *section; /* the one being filled */
    struct mt_seg_buffer *chunks[MT_REUSE_ROWS / MT_REUSE_CHUNK];
    uint32_t first_index[2 * MT_REUSE_CHUNK];
};

struct mt_shard {
    struct mt_seg_thread *thread;
    uint32_t number;
    uint32_t shared;      /* 1: used by several threads, take lock */
    uint32_t traced;      /* 1: calls and messages are events, too */
    uint32_t lock;        /* pairs: mt_shard_lock / mt_shard_unlock */
    uint32_t held;        /* 1 while a thread holds it */
    uint32_t peer_limit;  /* world ranks that peer_index covers */
    uint32_t site_count;  /* used slots of site_index */
    struct mt_seg_total *comm_totals;
    struct mt_seg_total *type_totals;
    struct mt_seg_section *site_section; /* the one being filled, with its rows */
    struct mt_seg_site *site_rows;
    struct mt_seg_section *function_section;
    struct mt_seg_function *function_rows;
    struct mt_seg_section *peer_section;
    struct mt_seg_peer *peers;
    struct mt_seg_section *arrival_section; /* NULL: not sampled */
    struct mt_seg_arrival *arrival_rows;
    struct mt_seg_section *arrival_class_section;
    struct mt_seg_arrival_class *arrival_classes;
    struct mt_seg_section *event_section;
    struct mt_seg_event *event_rows;
    uint16_t *peer_index;    /* by world rank: row + 1 */
    uint16_t peer_special[3]; /* PEER_OTHER, _FOREIGN, _UNKNOWN: row + 1 */
    struct mt_seg_site nowhere;         /* private: takes what found no row at all */
    struct mt_seg_function no_function; /* likewise */
    struct mt_seg_function *functions[MPITRACE_CALL_LIMIT];
    struct mt_site_cached sites[MT_SITE_CACHE];
    struct mt_step steps[MT_STEPS];
    uint32_t step_count;
    struct mt_type_cached types[MT_TYPE_CACHE];
    struct mt_comm_cached comms[MT_COMM_CACHE];
    struct mt_site_slot site_index[MT_SITE_INDEX];
    struct mt_reuse reuse;
};

/* Marks in the low bits of the guard, which a stack address leaves free.
 * MT_GUARD_PMPI: the call came in by a PMPI_ name although a tool behind us
 * defines the MPI_ one (entries.gen.S sets it). The others: this thread holds the
 * cold lock, or that of the shared shard; what a signal handler calls then must not
 * come here and wait for it. */
#define MT_GUARD_PMPI ((uintptr_t)1)
#define MT_GUARD_COLD ((uintptr_t)2)
#define MT_GUARD_SHARD ((uintptr_t)4)
#define MT_GUARD_LOCKED (MT_GUARD_COLD | MT_GUARD_SHARD)
#define MT_GUARD_MARKS (MT_GUARD_PMPI | MT_GUARD_LOCKED)

/* Per thread. guard is the stack address of the outermost frame inside MPI,
 * 0 outside, and marks. It must stay the first member: assembly uses its place. */
struct mt_tls {
    uintptr_t guard;
    struct mt_shard *shard;
    void *scratch;       /* for calls on arrays of requests, see request.h */
    size_t scratch_bytes;
    int64_t scratch_out; /* bytes of calls that have not ended, or were jumped out of */
    uintptr_t stack_end; /* above all frames of the thread's own stack */
    uint32_t ended;      /* its shard was taken back: only destructors still run */
    uint64_t started;    /* ticks: its last call that was counted in the shared shard */
};

extern _Thread_local struct mt_tls mt_tls
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Nonzero while no call may be measured: before MPI_Init, in a forked child,
 * after an internal error (MT_GATE_CLOSED) or between MPI_Pcontrol(0) and (1)
 * (MT_GATE_PAUSED). */
enum { MT_GATE_CLOSED = 1, MT_GATE_PAUSED = 2 };
extern uint32_t mt_gate;

/* Nonzero while mt_real_mpi holds functions that stand in for the library's. */
extern uint32_t mt_acting;

/* Current phase (entry of PHASES) and the epochs that empty the caches. */
extern uint32_t mt_phase;
extern uint32_t mt_type_epoch;
extern uint32_t mt_comm_epoch;

/* Whose code a return address lies in. */
enum mt_caller {
    MT_CALLER_APPLICATION = 0,
    MT_CALLER_BINDING = 1, /* language binding, or a library to step out of */
    MT_CALLER_LIBRARY = 2, /* the MPI library itself, its plug-ins, a tool */
};

/* What the measurement needs of the layer above, and only on cold paths. Set
 * before the gate opens. */
struct mt_ops {
    struct mt_shard *(*shard_attach)(void); /* for this thread, NULL: none */
    enum mt_caller (*caller)(uintptr_t address);
    void *(*forward)(uint32_t id, uintptr_t address, bool by_pmpi_name);
    uint32_t (*module)(uintptr_t address); /* entry of MODULES + 1, 0: unknown */
    /* The frame outside the one that address returns into and whose frame
     * address is frame: its return address, 0 if it cannot be told. */
    uintptr_t (*step)(uintptr_t address, uintptr_t frame, uint32_t *slot_p,
                      uint32_t *span_p);
    /* False if the call stack shows no MPI library between the two frame
     * addresses: the guard is left from a call that was jumped out of. */
    bool (*inside)(uintptr_t frame, uintptr_t guard);
    void (*stack)(uintptr_t address, uintptr_t frame, struct mt_stack *stack_p);
    /* More room for a section of the shard; false: none to be had. */
    bool (*grow)(struct mt_shard *shard, uint32_t kind);
    bool (*reuse_grow)(struct mt_shard *shard);
    bool (*spill)(struct mt_shard *shard); /* empties the event section */
    void (*pair)(void); /* notes what the clock is in nanoseconds */
    void (*type_find)(uint64_t handle, struct mt_type_cached *found_p);
    struct mt_comm *(*comm_find)(uint64_t handle);
};
extern struct mt_ops mt_ops;

/* Frames of the call stack that make a call site of their own; 0: none. */
extern uint32_t mt_stack_depth;

/* Before the lock is taken, and after it is given back. */
MT_INLINE void mt_guard_mark(uintptr_t mark)
{
    mt_tls.guard |= mark;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

MT_INLINE void mt_guard_unmark(uintptr_t mark)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    mt_tls.guard &= ~mark;
}

MT_INLINE void mt_shard_lock(struct mt_shard *shard)
{
    if (mt_unlikely(shard->shared != 0)) {
        mt_guard_mark(MT_GUARD_SHARD);
        while (__atomic_exchange_n(&shard->lock, 1, __ATOMIC_ACQUIRE) != 0) {
            while (__atomic_load_n(&shard->lock, __ATOMIC_RELAXED) != 0) {
#if defined(__x86_64__)
                __builtin_ia32_pause();
#endif
            }
        }
    }
}

MT_INLINE void mt_shard_unlock(struct mt_shard *shard)
{
    if (mt_unlikely(shard->shared != 0)) {
        __atomic_store_n(&shard->lock, 0, __ATOMIC_RELEASE);
        mt_guard_unmark(MT_GUARD_SHARD);
    }
}

MT_INLINE unsigned mt_site_cache_slot(uintptr_t address, uint32_t call)
{
    return (unsigned)(mt_hash(address ^ ((uint64_t)call << 40)) >> 55);
}

_Static_assert(MT_SITE_CACHE == 1 << 9, "mt_site_cache_slot takes 9 bits");

#endif
