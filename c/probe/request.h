/* request.h: follows requests from the call that starts them to the call that
 * completes them.
 *
 * Owns: one table of fixed size for the process. Threads: any may insert and
 * remove; a slot is claimed and released by compare-and-swap on its key, and
 * an entry is removed by slot and generation, because another thread may be
 * given the same handle before the completing call's wrapper runs. Must not:
 * allocate, lock, know an MPI type.
 *
 * A handle is not unique. Both MPI libraries hand out one shared handle for
 * many sends that were complete at once. An insert that finds its handle
 * present therefore counts the request that had it as complete. */
#ifndef MPITRACE_PROBE_REQUEST_H
#define MPITRACE_PROBE_REQUEST_H

#include "tally.h"

enum { MT_REQUEST_SLOTS = 8192, MT_REQUEST_WAYS = 8 };

enum mt_request_kind {
    MT_REQUEST_SEND = 1,
    MT_REQUEST_RECV = 2,
    MT_REQUEST_OTHER = 4, /* collective, one-sided, file, generalised */
    MT_REQUEST_PERSISTENT = 8,
    MT_REQUEST_ACTIVE = 16,
    MT_REQUEST_PEERLESS = 32, /* with MPI_PROC_NULL */
    MT_REQUEST_COLLECTIVE = 64,
};

enum {
    MT_GENERATION_RECEIVE = 1,
    MT_GENERATION_PERSISTENT = 2,
    MT_GENERATION_LIVE = 4, /* set in all of them: none is 0, however many */
    MT_GENERATION_PEERLESS = 8,
    MT_GENERATION_SHARES = 16, /* its handle, perhaps, with others */
    MT_GENERATION_STEP = 32,
};

struct mt_request {
    uint64_t start;      /* ticks at the start call's return */
    const struct mt_seg_site *site; /* call site of the start call ... */
    uint64_t bytes;      /* posted payload */
    struct mt_comm *comm;
    union {
        const void *buffer; /* of a persistent message */
        struct {            /* of a persistent collective */
            uint32_t starts;   /* so far */
            uint32_t datatype; /* entry of TYPES, or MT_TYPE_NONE */
        };
    };
    int32_t peer;      /* rank in comm, negative if any; root of a collective */
    int32_t tag;
    uint16_t call;     /* function that started it */
    uint16_t type;     /* entry of TYPES; of a collective its function */
    uint16_t kind;     /* enum mt_request_kind */
    uint16_t shard;    /* ... in this shard */
    uint32_t took;     /* ticks in the start call */
    uint32_t sequence; /* of a collective; of a traced receive its number */
};

/* Of a collective whose share is of no datatype, or of several. */
enum { MT_TYPE_NONE = -1 };

/* What a new request is. */
struct mt_started {
    uint64_t handle;
    uint16_t kind;
    struct mt_message message; /* bytes: as posted */
    uint32_t sequence;
};

/* A request as it was when a completing call was entered. slot is -1 when it
 * is not followed. */
struct mt_pending {
    uint64_t handle;
    int32_t slot;
    uint32_t generation;
};

/* Slot i of the table. A generation is unique, with one bit each for a receive,
 * a persistent request, one with MPI_PROC_NULL and one whose handle the library may give
 * to several (no other but sends, and what is with MPI_PROC_NULL), and 0 while there is
 * nothing to complete. A record belongs to whoever claimed the slot (its key was 0)
 * until the generation is published, after that to whoever sets the generation
 * to 0. */
extern struct mt_request *mt_requests;
extern uint64_t *mt_request_keys;
extern uint32_t *mt_request_generations;
/* By slot: 1 once a handle that belongs there found it taken. */
extern uint8_t *mt_request_displaced;
/* By slot: the last count of requests (mt_request_count_begin) that it was in. */
extern uint32_t *mt_request_stamps;
/* 1 under MPI_THREAD_MULTIPLE: a handle may come back in another thread before
 * its completion is counted. */
extern uint32_t mt_request_threads;

/* Follows a request just started by call. */
void mt_request_insert(struct mt_call *call, const struct mt_started *started);

/* A persistent request was made while measurement is paused: it may be started when
 * it is not. Where and when is set by then; call has a shard, lent to it. */
void mt_request_insert_paused(struct mt_call *call,
                              const struct mt_started *started);

/* A message to or from MPI_PROC_NULL was started: it is over already. The
 * library may give one handle to many of them, so it is not followed. */
void mt_request_peerless(struct mt_call *call);

/* A persistent request was started: it is active, at this call site. */
void mt_request_activate(struct mt_call *call, uint64_t handle);

/* The slot where a handle belongs. Handles made one after the other lie side by
 * side, so that the requests of a window share cache lines and pages: in MPICH
 * numbers in blocks of 1,024 (12 bits; the next 14 count blocks, the upper two
 * tell the first eight handles from the others), in Open MPI objects of more
 * than 512 bytes. Other handles only spread less well. */
MT_INLINE unsigned mt_request_home(uint64_t handle)
{
    uint64_t slot = handle >> 32 != 0
                        ? handle >> 9
                        : (handle & 0xfff) + (handle >> 12 & 0x3fff) * 1024 +
                              (handle >> 30) * 8;
    return (unsigned)(slot % MT_REQUEST_SLOTS);
}

/* Where it goes when that slot is taken: buckets that lie far apart, since the
 * slots around a taken one are taken, too. */
enum { MT_REQUEST_TRIES = 8 };

MT_INLINE unsigned mt_request_bucket(uint64_t handle, unsigned which)
{
    uint64_t bucket = mt_hash(handle + which) >> 54;
    return (unsigned)(bucket * MT_REQUEST_WAYS);
}

/* Looks at n slots; false: it is not there. */
MT_INLINE bool mt_request_look(uint64_t handle, unsigned first, unsigned n,
                               struct mt_pending *found_p)
{
    for (unsigned i = first; i < first + n; i++) {
        if (__atomic_load_n(&mt_request_keys[i], __ATOMIC_ACQUIRE) != handle) {
            continue;
        }
        /* the slot may go to another handle between the two loads: its
         * generation is published after its key, so look again */
        uint32_t generation =
            __atomic_load_n(&mt_request_generations[i], __ATOMIC_ACQUIRE);
        if (generation != 0 &&
            __atomic_load_n(&mt_request_keys[i], __ATOMIC_RELAXED) == handle) {
            found_p->slot = (int32_t)i;
            found_p->generation = generation;
            return true;
        }
    }
    return false;
}

/* True if a handle that belongs into the slot was put elsewhere. */
MT_INLINE bool mt_request_is_displaced(unsigned home)
{
    return __atomic_load_n(&mt_request_displaced[home], __ATOMIC_ACQUIRE) != 0;
}

/* A persistent request was started while measurement was paused: it is not
 * active, but the starts of a collective go on in step with other ranks. */
void mt_request_unmeasured(uint64_t handle);

/* Finds the entry of a handle before the MPI library may complete it. */
MT_INLINE void mt_request_find(uint64_t handle, struct mt_pending *found_p)
{
    found_p->handle = handle;
    found_p->slot = -1;
    if (mt_unlikely(mt_request_keys == NULL || handle == 0)) {
        return;
    }
    unsigned home = mt_request_home(handle);
    if (mt_likely(mt_request_look(handle, home, 1, found_p)) ||
        mt_likely(!mt_request_is_displaced(home))) {
        return;
    }
    for (unsigned which = 0; which < MT_REQUEST_TRIES && found_p->slot < 0;
         which++) {
        mt_request_look(handle, mt_request_bucket(handle, which),
                        MT_REQUEST_WAYS, found_p);
    }
}

/* How a request completed. */
struct mt_completion {
    const struct mt_envelope *got; /* of a receive; NULL: the posted one is taken */
    uint64_t blocked; /* ticks of the completing call, its share of them */
    bool cancelled;
    bool seen; /* by a completing call of its own: its times are known */
};

void mt_request_complete(struct mt_call *call, const struct mt_pending *pending,
                         const struct mt_completion *how);

/* The completing call failed and took the request: nothing arrived. */
void mt_request_fail(struct mt_call *call, const struct mt_pending *pending);

/* It completed while measurement was paused: forgotten without a figure. */
void mt_request_drop(const struct mt_pending *pending);

/* MPI_Request_free while measurement was paused: forgotten without a figure. */
void mt_request_abandon(const struct mt_pending *pending);

/* MPI_Request_free: an active request goes on without a handle. */
void mt_request_forget(struct mt_call *call, const struct mt_pending *pending);

/* Publishes a completing call with what the request waits for. */
MT_INLINE void mt_go_request(struct mt_call *call,
                             const struct mt_pending *pending)
{
    if (pending != NULL && pending->slot >= 0) {
        /* another thread may be given the slot: what is shown may be stale */
        const struct mt_request *r = &mt_requests[pending->slot];
        const struct mt_comm *comm = __atomic_load_n(&r->comm, __ATOMIC_RELAXED);
        mt_go_peer(call, comm != NULL ? comm->handle : 0, r->peer, r->tag);
    } else {
        mt_go(call);
    }
}

/* True if a completing call may have to wait for it. */
MT_INLINE bool mt_request_is_awaited(const struct mt_pending *pending)
{
    return pending->slot >= 0 &&
           (pending->generation & MT_GENERATION_PEERLESS) == 0;
}

/* Begins to count the requests among which the time of a completing call is to be
 * shared; returns what mt_request_has_share needs. */
uint32_t mt_request_count_begin(void);

/* True if the completing call credits this entry of its array with time, once for
 * each slot: entries with one shared handle are one request of the table, and a
 * persistent one may not be started. */
MT_INLINE bool mt_request_has_share(const struct mt_pending *pending,
                                    uint32_t stamp)
{
    if (!mt_request_is_awaited(pending)) {
        return false;
    }
    uint32_t generation = pending->generation;
    if (mt_unlikely((generation & MT_GENERATION_PERSISTENT) != 0)) {
        return (__atomic_load_n(&mt_requests[pending->slot].kind,
                                __ATOMIC_RELAXED) &
                MT_REQUEST_ACTIVE) != 0;
    }
    if ((generation & MT_GENERATION_RECEIVE) != 0) {
        return true; /* its handle is its own */
    }
    uint32_t *place = &mt_request_stamps[pending->slot];
    bool first = __atomic_load_n(place, __ATOMIC_RELAXED) != stamp;
    __atomic_store_n(place, stamp, __ATOMIC_RELAXED);
    return first;
}

MT_INLINE bool mt_request_is_persistent(const struct mt_pending *pending)
{
    return pending->slot >= 0 &&
           (pending->generation & MT_GENERATION_PERSISTENT) != 0;
}

/* True if the completing call must ask for a status: a receive is followed. */
MT_INLINE bool mt_request_is_receive(const struct mt_pending *pending)
{
    return pending->slot >= 0 &&
           (pending->generation & MT_GENERATION_RECEIVE) != 0;
}

#endif
