/* front.c: the cold half of the table: misses, and the service side.
 *
 * Threads: mt_regcache_miss is called by any thread, the rest by one.
 * Must not: allocate, enter the kernel. */
#include "front.h"

#include <string.h>

_Static_assert(MT_REGCACHE_REGIONS == 1 << 12, "a hint has 12 bits of region");
_Static_assert(MT_REGCACHE_SETS == 1 << MT_REGCACHE_SET_BITS, "a power of 2");
_Static_assert(sizeof(struct mt_regcache_region) == 64, "a line a region");

/* The queue is the bounded one of D. Vyukov for several producers. A cell has a
 * turn: position p may be written when it is p, read when it is p + 1, written
 * again when it is p + MT_REGCACHE_MISSES. */
static bool mt_regcache_push(struct mt_regcache *cache,
                             const struct mt_regcache_miss *miss)
{
    uint64_t at = __atomic_load_n(&cache->tail, __ATOMIC_RELAXED);
    for (;;) {
        struct mt_regcache_cell *cell = &cache->cells[at % MT_REGCACHE_MISSES];
        /* Acquire: pairs with the release of mt_regcache_misses_take, so the
         * old miss has been read. */
        uint64_t turn = __atomic_load_n(&cell->turn, __ATOMIC_ACQUIRE);
        if (turn == at) {
            /* Relaxed: the tail gives the cell to one producer, the turn
             * publishes it. */
            if (__atomic_compare_exchange_n(&cache->tail, &at, at + 1, true,
                                            __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED)) {
                cell->miss = *miss;
                /* Release: pairs with the acquire of _misses_take. */
                __atomic_store_n(&cell->turn, at + 1, __ATOMIC_RELEASE);
                return true;
            }
        } else if ((int64_t)(turn - at) < 0) {
            return false; /* full */
        } else {
            at = __atomic_load_n(&cache->tail, __ATOMIC_RELAXED);
        }
    }
}

/* Asks for the bytes, unless their page has been asked for and not answered.
 * The mark is set before the miss is queued, so that the answer, which takes it
 * away, comes after it. It is no more than a filter: a mark that is overwritten
 * by another page of its set costs a second miss. */
MT_COLD void mt_regcache_miss(struct mt_regcache *cache,
                              const volatile uint64_t *generations,
                              uintptr_t address, uint64_t bytes)
{
    __atomic_fetch_add(&cache->misses, 1, __ATOMIC_RELAXED);
    if (bytes == 0 || bytes > UINTPTR_MAX - address) {
        return;
    }
    uint64_t hash = mt_regcache_hash(address);
    uint32_t *mark = &cache->waiting[mt_regcache_set(hash)];
    uint32_t tag = mt_regcache_tag(hash) + 1;
    if (__atomic_load_n(mark, __ATOMIC_RELAXED) == tag) {
        return;
    }
    __atomic_store_n(mark, tag, __ATOMIC_RELAXED);
    struct mt_regcache_miss miss = {
        .address = address,
        .bytes = bytes,
        .generation =
            mt_memhook_stamp(generations, address, bytes)};
    if (!mt_regcache_push(cache, &miss)) {
        __atomic_store_n(mark, 0, __ATOMIC_RELAXED);
        __atomic_fetch_add(&cache->dropped, 1, __ATOMIC_RELAXED);
    }
}

void mt_regcache_init(struct mt_regcache *cache)
{
    memset(cache, 0, sizeof(*cache));
    for (uint32_t i = 0; i < MT_REGCACHE_REGIONS; i++) {
        cache->regions[i].state = MT_REGCACHE_REVOKED;
    }
    for (uint32_t i = 0; i < MT_REGCACHE_MISSES; i++) {
        cache->cells[i].turn = i;
    }
}

void mt_regcache_kill(struct mt_regcache *cache)
{
    __atomic_store_n(&cache->dead, 1, __ATOMIC_RELAXED);
}

uint32_t mt_regcache_misses_take(struct mt_regcache *cache,
                                 struct mt_regcache_miss *misses, uint32_t max)
{
    uint32_t n = 0;
    if (__atomic_load_n(&cache->dead, __ATOMIC_RELAXED) != 0) {
        return 0;
    }
    while (n < max) {
        struct mt_regcache_cell *cell =
            &cache->cells[cache->head % MT_REGCACHE_MISSES];
        /* Acquire: pairs with the release of mt_regcache_push. */
        if (__atomic_load_n(&cell->turn, __ATOMIC_ACQUIRE) != cache->head + 1) {
            break; /* empty, or its producer is still writing */
        }
        misses[n++] = cell->miss;
        /* Release: pairs with the acquire of mt_regcache_push. */
        __atomic_store_n(&cell->turn, cache->head + MT_REGCACHE_MISSES,
                         __ATOMIC_RELEASE);
        cache->head++;
    }
    return n;
}

void mt_regcache_count(const struct mt_regcache *cache,
                       struct mt_regcache_counts *counts_p)
{
    struct mt_regcache_counts counts = {
        .misses = __atomic_load_n(&cache->misses, __ATOMIC_RELAXED),
        .dropped = __atomic_load_n(&cache->dropped, __ATOMIC_RELAXED)};
    for (uint32_t i = 0; i < MT_REGCACHE_REGIONS; i++) {
        counts.hits += __atomic_load_n(&cache->regions[i].state,
                                       __ATOMIC_RELAXED) / MT_REGCACHE_TAKEN;
    }
    *counts_p = counts;
}

/* The slot is revoked and drained: its contents are the service's. A thread
 * that was led here by an old hint may have added itself for a moment; it saw
 * the revocation, reads nothing and goes, so the word is changed, not set. */
static enum mt_status mt_regcache_publish(struct mt_regcache *cache,
                                          const struct mt_regcache_order *order)
{
    struct mt_regcache_region *r = &cache->regions[order->slot];
    uint64_t state = __atomic_load_n(&r->state, __ATOMIC_RELAXED);
    if (order->start >= order->end) {
        return MT_EINVAL;
    }
    if ((state & MT_REGCACHE_REVOKED) == 0 ||
        __atomic_load_n(&cache->dead, __ATOMIC_RELAXED) != 0) {
        return MT_ESTATE;
    }
    r->start = (uintptr_t)order->start;
    r->end = (uintptr_t)order->end;
    r->generation = order->generation;
    r->handle = order->handle;
    r->lkey = order->lkey;
    r->rkey = order->rkey;
    r->seen = state / MT_REGCACHE_TAKEN;
    /* Release: pairs with the acquire of mt_regcache_region_take. */
    __atomic_fetch_and(&r->state, ~MT_REGCACHE_REVOKED, __ATOMIC_RELEASE);
    return MT_OK;
}

static enum mt_status mt_regcache_forget(struct mt_regcache *cache,
                                         const struct mt_regcache_order *order)
{
    uint64_t hash = mt_regcache_hash((uintptr_t)order->start);
    uint32_t *mark = &cache->waiting[mt_regcache_set(hash)];
    if (__atomic_load_n(mark, __ATOMIC_RELAXED) == mt_regcache_tag(hash) + 1) {
        __atomic_store_n(mark, 0, __ATOMIC_RELAXED);
    }
    return MT_OK;
}

/* The new hint first, the one that was first second: of three pages that share
 * a set, the one that was asked for longest ago loses. */
static enum mt_status mt_regcache_point(struct mt_regcache *cache,
                                        const struct mt_regcache_order *order)
{
    uint64_t hash = mt_regcache_hash((uintptr_t)order->start);
    uint32_t tag = mt_regcache_tag(hash);
    uint64_t *set = &cache->hints[mt_regcache_set(hash)];
    /* Relaxed: the service is the only writer, readers check. */
    uint64_t old = __atomic_load_n(set, __ATOMIC_RELAXED);
    uint64_t keep = (uint32_t)old >> 12 == tag ? old >> 32 : (uint32_t)old;
    __atomic_store_n(set, keep << 32 | tag << 12 | order->slot,
                     __ATOMIC_RELAXED);
    return mt_regcache_forget(cache, order);
}

static enum mt_status mt_regcache_forget_all(struct mt_regcache *cache)
{
    for (uint32_t i = 0; i < MT_REGCACHE_SETS; i++) {
        __atomic_store_n(&cache->waiting[i], 0, __ATOMIC_RELAXED);
    }
    return MT_OK;
}

/* Only a region with no reference is retired: the exchange fails if one was
 * taken since the word was read. Acquire: pairs with the release of
 * mt_regcache_region_put. */
static enum mt_status mt_regcache_retire(struct mt_regcache *cache,
                                         const struct mt_regcache_order *order)
{
    struct mt_regcache_region *r = &cache->regions[order->slot];
    uint64_t state = __atomic_load_n(&r->state, __ATOMIC_RELAXED);
    uint64_t taken = state / MT_REGCACHE_TAKEN;
    if ((state & MT_REGCACHE_REVOKED) != 0) {
        return MT_ESTATE;
    }
    if ((state & MT_REGCACHE_REFERENCES) != 0 || taken != r->seen) {
        r->seen = taken;
        return MT_EAGAIN;
    }
    bool gone = __atomic_compare_exchange_n(
        &r->state, &state, state | MT_REGCACHE_REVOKED, false,
        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    return gone ? MT_OK : MT_EAGAIN;
}

/* Acquire in both: pairs with the release of mt_regcache_region_put, so that
 * what was done under the last reference is over. */
static enum mt_status mt_regcache_revoke(struct mt_regcache *cache,
                                         const struct mt_regcache_order *order)
{
    uint64_t before =
        __atomic_fetch_or(&cache->regions[order->slot].state,
                          MT_REGCACHE_REVOKED, __ATOMIC_ACQUIRE);
    return (before & MT_REGCACHE_REFERENCES) == 0 ? MT_OK : MT_EAGAIN;
}

static enum mt_status mt_regcache_drain(struct mt_regcache *cache,
                                        const struct mt_regcache_order *order)
{
    uint64_t state =
        __atomic_load_n(&cache->regions[order->slot].state, __ATOMIC_ACQUIRE);
    if ((state & MT_REGCACHE_REVOKED) == 0) {
        return MT_ESTATE;
    }
    return (state & MT_REGCACHE_REFERENCES) == 0 ? MT_OK : MT_EAGAIN;
}

static enum mt_status mt_regcache_obey(struct mt_regcache *cache,
                                       const struct mt_regcache_order *order)
{
    if (order->slot >= MT_REGCACHE_REGIONS) {
        return MT_EINVAL;
    }
    switch ((enum mt_regcache_verb)order->verb) {
    case MT_REGCACHE_PUBLISH:
        return mt_regcache_publish(cache, order);
    case MT_REGCACHE_POINT:
        return mt_regcache_point(cache, order);
    case MT_REGCACHE_RETIRE:
        return mt_regcache_retire(cache, order);
    case MT_REGCACHE_REVOKE:
        return mt_regcache_revoke(cache, order);
    case MT_REGCACHE_DRAIN:
        return mt_regcache_drain(cache, order);
    case MT_REGCACHE_FORGET:
        return mt_regcache_forget(cache, order);
    case MT_REGCACHE_FORGET_ALL:
        return mt_regcache_forget_all(cache);
    }
    return MT_EINVAL;
}

void mt_regcache_serve(struct mt_regcache *cache,
                       struct mt_regcache_order *orders, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        orders[i].status = mt_regcache_obey(cache, &orders[i]);
    }
}
