/* front.h: the table in front of the registration cache, from which any thread
 * takes a reference to a registered region in a few nanoseconds.
 *
 * Owns: the regions that are published, hints that lead from a page to one, and
 * the queue of what was asked for in vain.
 * Threads: any number call mt_regcache_region_get and _put, also in signal
 * handlers; one service thread calls everything below "the service side" and
 * decides what is registered. No locks.
 * Must not: allocate, enter the kernel, know what registering is, know Go.
 *
 * A hit is right because of two rules.
 *
 * 1. A region is changed only while it is revoked and no reference is left, and
 *    it is read only by who took a reference that was not revoked. Taking and
 *    revoking are read-modify-writes of one word, so one of the two is first:
 *    either the taker sees the revocation and gives up, or the service sees the
 *    reference and waits for its end.
 *
 * 2. A region carries the generation (memhook.h; the sum over its buckets) that
 *    was read by the thread that owned the buffer, in the call it passed the
 *    buffer to: the buffer was there, and nobody may unmap it during the call.
 *    Memory that was unmapped at any time after that changed the generation
 *    first, so a hit that finds it unchanged has the memory that is there now,
 *    whenever it was registered in between. A generation that the service
 *    thread reads itself is too late: an unmap may be between its change of the
 *    generation and the unmapping, and the pages about to go would be
 *    registered under the new generation.
 *
 * Generations only grow, so their sum is unchanged only if each of them is.
 *
 * Hints are never more than hints: what they lead to is checked after the
 * reference is taken, so nothing has to be undone when a region goes. The page
 * that a request starts in is all the key there is: of two requests that start
 * in one page, a region that covers the longer one covers both. */
#ifndef MPITRACE_REGCACHE_FRONT_H
#define MPITRACE_REGCACHE_FRONT_H

#include "../include/base.h"
#include "../include/memhook.h"
#include "../include/status.h"

enum {
    MT_REGCACHE_REGIONS = 4096, /* 12 bits of a hint */
    MT_REGCACHE_SETS = 2048,    /* of two hints each */
    MT_REGCACHE_SET_BITS = 11,
    MT_REGCACHE_MISSES = 256, /* a power of two */
    MT_REGCACHE_PAGE_SHIFT = 12,
};

/* The word that says who has a region: references in the lowest 19 bits, one
 * guard bit above them, the revocation, and how often it was taken so far,
 * which may run over the end. */
#define MT_REGCACHE_REFERENCES (UINT64_C(0xfffff)) /* with the guard */
#define MT_REGCACHE_CROWDED (UINT64_C(1) << 19)
#define MT_REGCACHE_REVOKED (UINT64_C(1) << 20)
#define MT_REGCACHE_CLOSED (MT_REGCACHE_REVOKED | MT_REGCACHE_CROWDED)
#define MT_REGCACHE_TAKEN (UINT64_C(1) << 21)

/* A registered range of memory. Who holds a reference may read all but state
 * and seen. */
struct mt_regcache_region {
    uint64_t state;
    uintptr_t start, end; /* whole pages */
    uint64_t generation;  /* the sum over the buckets of [start, end) */
    uint64_t handle;      /* the registrar's */
    uint32_t lkey, rkey;
    uint64_t seen; /* times taken at the last try to retire; service only */
} __attribute__((aligned(64)));

/* What was asked for and not there. */
struct mt_regcache_miss {
    uint64_t address, bytes;
    uint64_t generation; /* the sum over its buckets, read in the call */
};

struct mt_regcache_cell {
    uint64_t turn;
    struct mt_regcache_miss miss;
};

struct mt_regcache {
    uint64_t hints[MT_REGCACHE_SETS]; /* two of 20 bits tag, 12 bits region */
    struct mt_regcache_region regions[MT_REGCACHE_REGIONS];
    uint32_t dead; /* 1: a child of fork, or the end; nothing hits any more */

    uint32_t waiting[MT_REGCACHE_SETS]; /* tag plus 1 of a page asked for */
    struct mt_regcache_cell cells[MT_REGCACHE_MISSES];
    uint64_t tail __attribute__((aligned(64))); /* next miss to be written */
    uint64_t misses, dropped;
    uint64_t head __attribute__((aligned(64))); /* next one to be read */
};

MT_INLINE uint64_t mt_regcache_hash(uintptr_t address)
{
    return mt_hash(address >> MT_REGCACHE_PAGE_SHIFT);
}

MT_INLINE uint32_t mt_regcache_set(uint64_t hash)
{
    return (uint32_t)(hash >> (64 - MT_REGCACHE_SET_BITS));
}

MT_INLINE uint32_t mt_regcache_tag(uint64_t hash)
{
    return (uint32_t)(hash >> (64 - MT_REGCACHE_SET_BITS - 20)) & 0xfffff;
}

/* Gives a reference back. Release: what was done with the region is over before
 * mt_regcache_serve sees it gone (acquire there). */
MT_INLINE void mt_regcache_region_put(const struct mt_regcache_region *region)
{
    __atomic_fetch_sub(&((struct mt_regcache_region *)region)->state, 1,
                       __ATOMIC_RELEASE);
}

/* Takes a reference if region is published, covers the bytes and is not stale.
 * The addition acquires what mt_regcache_publish released; until it has
 * shown that the region is not revoked, nothing else of it is read. */
MT_INLINE bool mt_regcache_region_take(struct mt_regcache_region *region,
                                       const volatile uint64_t *generations,
                                       uintptr_t address, uint64_t bytes)
{
    uint64_t before = __atomic_fetch_add(
        &region->state, MT_REGCACHE_TAKEN + 1, __ATOMIC_ACQUIRE);
    if (mt_likely((before & MT_REGCACHE_CLOSED) == 0) &&
        mt_likely(address >= region->start && address < region->end &&
                  bytes <= region->end - address) &&
        mt_likely(mt_memhook_stamp(generations, region->start,
                                   region->end - region->start) ==
                  region->generation)) {
        return true;
    }
    __atomic_fetch_sub(&region->state, MT_REGCACHE_TAKEN + 1,
                       __ATOMIC_RELEASE); /* as in mt_regcache_region_put */
    return false;
}

void mt_regcache_miss(struct mt_regcache *cache,
                      const volatile uint64_t *generations, uintptr_t address,
                      uint64_t bytes);

/* A reference to a registered region that covers the bytes, or NULL: not now.
 * Then the bytes were asked for, and may be there at a later call; the caller
 * copies meanwhile. The buffer must be the caller's for the time of the call,
 * and as long as the reference is used: it says that the memory is pinned, not
 * that it is still mapped. */
MT_INLINE const struct mt_regcache_region *
mt_regcache_region_get(struct mt_regcache *cache, const void *buffer,
                       uint64_t bytes)
{
    uintptr_t address = (uintptr_t)buffer;
    const volatile uint64_t *generations =
        __atomic_load_n(&mt_memhook.generations, __ATOMIC_ACQUIRE);
    if (mt_unlikely(generations == NULL ||
                    __atomic_load_n(&cache->dead, __ATOMIC_RELAXED) != 0)) {
        return NULL;
    }
    uint64_t hash = mt_regcache_hash(address);
    uint32_t tag = mt_regcache_tag(hash);
    /* Relaxed: a hint is not trusted, see mt_regcache_region_take. */
    uint64_t hints = __atomic_load_n(&cache->hints[mt_regcache_set(hash)],
                                     __ATOMIC_RELAXED);
    for (int way = 0; way < 2; way++, hints >>= 32) {
        if (((uint32_t)hints >> 12) == tag) {
            struct mt_regcache_region *region =
                &cache->regions[hints % MT_REGCACHE_REGIONS];
            if (mt_likely(mt_regcache_region_take(region, generations, address,
                                                  bytes))) {
                return region;
            }
        }
    }
    mt_regcache_miss(cache, generations, address, bytes);
    return NULL;
}

/* ---- the service side: one thread ---- */

/* Makes an empty table; cache may hold anything. */
void mt_regcache_init(struct mt_regcache *cache);

/* From now on nothing hits and nothing is asked for. For a child of fork, whose
 * registrations are its parent's, and for the end. */
void mt_regcache_kill(struct mt_regcache *cache);

/* Takes up to max misses, oldest first; returns how many. */
uint32_t mt_regcache_misses_take(struct mt_regcache *cache,
                                 struct mt_regcache_miss *misses, uint32_t max);

struct mt_regcache_counts {
    uint64_t hits, misses;
    uint64_t dropped; /* misses that found the queue full */
};

void mt_regcache_count(const struct mt_regcache *cache,
                       struct mt_regcache_counts *counts_p);

/* Slots are the caller's to give out: each is published, revoked or retired,
 * drained, and then free to be published again. */
enum mt_regcache_verb {
    MT_REGCACHE_PUBLISH, /* slot with start .. rkey; done: it was free */
    MT_REGCACHE_POINT,   /* lead requests that start in the page of start to
                            slot; the page may be asked for again */
    MT_REGCACHE_RETIRE,  /* revoke unless held, or taken since the last
                            RETIRE; done: revoked and drained */
    MT_REGCACHE_REVOKE,  /* no new references; done: drained */
    MT_REGCACHE_DRAIN,   /* done: the references of a revoked slot are gone */
    MT_REGCACHE_FORGET,  /* the page of start may be asked for again */
    MT_REGCACHE_FORGET_ALL,
};

struct mt_regcache_order {
    uint32_t verb; /* enum mt_regcache_verb */
    uint32_t slot;
    uint64_t start, end, generation, handle;
    uint32_t lkey, rkey;
    uint32_t status; /* out: MT_OK done, MT_EAGAIN not now, MT_ESTATE,
                        MT_EINVAL */
    uint32_t spare;
};

/* Carries out orders one after the other: one call from Go for many. */
void mt_regcache_serve(struct mt_regcache *cache,
                       struct mt_regcache_order *orders, uint32_t n);

#endif
