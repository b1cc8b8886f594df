/* sources: c/regcache/front.c */
/* The table in front of the registration cache: step by step, a random stream
 * against a dumb twin, and threads that unmap what they own while one thread
 * serves. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "../regcache/front.h"
#include "check.h"

struct mt_memhook mt_memhook;

enum { PAGE = 1 << MT_REGCACHE_PAGE_SHIFT };

static uint64_t generations[MT_MEMHOOK_BUCKETS];
static struct mt_regcache cache;

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static uint64_t generation_of(uint64_t start, uint64_t end)
{
    return mt_memhook_stamp(generations, start, end - start);
}

/* What the memory's monitor does before an unmapping. */
static void change(uint64_t address)
{
    __atomic_fetch_add(&generations[mt_memhook_bucket(address)], 1,
                       __ATOMIC_RELAXED);
}

static void begin(void)
{
    mt_memhook = (struct mt_memhook){generations, MT_MEMHOOK_EBPF};
    memset(&cache, 0xaa, sizeof(cache));
    mt_regcache_init(&cache);
}

static enum mt_status order(struct mt_regcache_order o)
{
    o.status = MT_STATUSES;
    mt_regcache_serve(&cache, &o, 1);
    return (enum mt_status)o.status;
}

static enum mt_status simple(enum mt_regcache_verb verb, uint32_t slot)
{
    return order((struct mt_regcache_order){.verb = verb, .slot = slot});
}

static enum mt_status publish(uint32_t slot, uint64_t start, uint64_t end)
{
    return order((struct mt_regcache_order){
        .verb = MT_REGCACHE_PUBLISH, .slot = slot, .start = start, .end = end,
        .generation = generation_of(start, end), .handle = 100 + slot,
        .lkey = slot, .rkey = 2 * slot});
}

static enum mt_status point(uint64_t address, uint32_t slot)
{
    return order((struct mt_regcache_order){
        .verb = MT_REGCACHE_POINT, .slot = slot, .start = address});
}

static void test_hit(void)
{
    begin();
    struct mt_regcache_miss miss = {0};
    uint64_t base = UINT64_C(0x7f0000400000);
    CHECK(mt_regcache_region_get(&cache, at(base + 10), 5000) == NULL);
    CHECK_EQ(mt_regcache_misses_take(&cache, &miss, 1), 1);
    CHECK_EQ(miss.address, base + 10);
    CHECK_EQ(miss.bytes, 5000);
    CHECK_EQ(miss.generation, generation_of(base, base + 1));
    CHECK_EQ(publish(7, base, base + 2 * PAGE), MT_OK);
    CHECK_EQ(point(base + 10, 7), MT_OK);

    const struct mt_regcache_region *r =
        mt_regcache_region_get(&cache, at(base + 10), 5000);
    CHECK(r == &cache.regions[7]);
    CHECK_EQ(r->handle, 107);
    CHECK_EQ(r->rkey, 14);
    CHECK(mt_regcache_region_get(&cache, at(base), 2 * PAGE) == r);
    CHECK(mt_regcache_region_get(&cache, at(base), 2 * PAGE + 1) == NULL);
    CHECK(mt_regcache_region_get(&cache, at(base + PAGE), 1) == NULL);

    /* Revoked: not given out, drained with the last of two references. */
    CHECK_EQ(simple(MT_REGCACHE_REVOKE, 7), MT_EAGAIN);
    CHECK(mt_regcache_region_get(&cache, at(base), 1) == NULL);
    mt_regcache_region_put(r);
    CHECK_EQ(simple(MT_REGCACHE_DRAIN, 7), MT_EAGAIN);
    mt_regcache_region_put(r);
    CHECK_EQ(simple(MT_REGCACHE_DRAIN, 7), MT_OK);

    struct mt_regcache_counts counts;
    mt_regcache_count(&cache, &counts);
    CHECK_EQ(counts.hits, 2);
    CHECK_EQ(counts.misses, 4);
    CHECK_EQ(counts.dropped, 0);
}

/* Every bucket of a region counts, none beside it. */
static void test_generation(void)
{
    begin();
    uint64_t bucket = UINT64_C(1) << MT_MEMHOOK_SHIFT;
    uint64_t start = 5000 * bucket - PAGE, end = 5002 * bucket + PAGE;
    for (int i = -2; i < 5; i++) {
        CHECK_EQ(publish(1, start, end), MT_OK);
        point(start, 1);
        change((uint64_t)(4999 + i) * bucket);
        const struct mt_regcache_region *r =
            mt_regcache_region_get(&cache, at(start), end - start);
        CHECK_EQ(r == NULL, i >= 0 && i <= 3);
        if (r != NULL) {
            mt_regcache_region_put(r);
        }
        CHECK_EQ(simple(MT_REGCACHE_REVOKE, 1), MT_OK);
    }
    /* Larger than all buckets: each counts once. */
    uint64_t sum = 0;
    for (int i = 0; i < MT_MEMHOOK_BUCKETS; i++) {
        sum += generations[i];
    }
    CHECK_EQ(generation_of(start, start + 3000 * bucket), sum);
}

static void test_nothing(void)
{
    begin();
    struct mt_regcache_miss misses[8];
    CHECK_EQ(publish(1, 0x10000, 0x20000), MT_OK);
    point(0x10000, 1);
    mt_memhook.generations = NULL; /* no monitor, or a child of fork */
    CHECK(mt_regcache_region_get(&cache, at(0x10000), 1) == NULL);
    mt_memhook.generations = generations;
    CHECK(mt_regcache_region_get(&cache, at(0x10000), 0) != NULL);
    CHECK(mt_regcache_region_get(&cache, at(0x90000), 0) == NULL);
    CHECK(mt_regcache_region_get(&cache, at(UINT64_MAX - 5), 10) == NULL);
    CHECK_EQ(mt_regcache_misses_take(&cache, misses, 8), 0);
    CHECK(mt_regcache_region_get(&cache, at(0x90000), 5) == NULL);
    mt_regcache_kill(&cache);
    CHECK(mt_regcache_region_get(&cache, at(0x10000), 1) == NULL);
    CHECK_EQ(mt_regcache_misses_take(&cache, misses, 8), 0);
    CHECK_EQ(publish(2, 0x30000, 0x40000), MT_ESTATE);
}

/* A page is asked for once until it is answered; a full queue loses nothing
 * but the miss. */
static void test_misses(void)
{
    begin();
    struct mt_regcache_miss misses[2 * MT_REGCACHE_MISSES];
    for (int i = 0; i < 3; i++) {
        CHECK(mt_regcache_region_get(&cache, at(0x5000), 1) == NULL);
    }
    CHECK_EQ(mt_regcache_misses_take(&cache, misses, 9), 1);
    CHECK(mt_regcache_region_get(&cache, at(0x5000), 1) == NULL);
    CHECK_EQ(mt_regcache_misses_take(&cache, misses, 9), 0);
    order((struct mt_regcache_order){.verb = MT_REGCACHE_FORGET,
                                     .start = 0x5fff});
    CHECK(mt_regcache_region_get(&cache, at(0x5000), 1) == NULL);
    CHECK_EQ(mt_regcache_misses_take(&cache, misses, 9), 1);
    simple(MT_REGCACHE_FORGET_ALL, 0);
    uint64_t queued = 0, taken = 0, page = 0;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < MT_REGCACHE_MISSES + 10; i++, page++) {
            mt_regcache_region_get(&cache, at(0x100000 + page * PAGE), 1);
        }
        uint32_t n = mt_regcache_misses_take(&cache, misses, 400);
        CHECK_EQ(n, MT_REGCACHE_MISSES);
        CHECK_EQ(misses[0].address, 0x100000 + queued * PAGE);
        queued += MT_REGCACHE_MISSES + 10;
        taken += n;
    }
    struct mt_regcache_counts counts;
    mt_regcache_count(&cache, &counts);
    CHECK_EQ(counts.dropped, queued - taken);
    /* A page whose miss was lost is asked for again. */
    uint64_t lost = 0x100000 + (page - 1) * PAGE;
    mt_regcache_region_get(&cache, at(lost), 1);
    CHECK_EQ(mt_regcache_misses_take(&cache, misses, 9), 1);
    CHECK_EQ(misses[0].address, lost);
}

static void test_orders(void)
{
    begin();
    uint32_t beyond = MT_REGCACHE_REGIONS;
    CHECK_EQ(publish(beyond, 0x1000, 0x2000), MT_EINVAL);
    CHECK_EQ(publish(3, 0x2000, 0x2000), MT_EINVAL);
    CHECK_EQ(simple((enum mt_regcache_verb)99, 3), MT_EINVAL);
    CHECK_EQ(simple(MT_REGCACHE_RETIRE, 3), MT_ESTATE);
    CHECK_EQ(publish(3, 0x1000, 0x2000), MT_OK);
    CHECK_EQ(publish(3, 0x1000, 0x2000), MT_ESTATE);
    CHECK_EQ(simple(MT_REGCACHE_DRAIN, 3), MT_ESTATE);
    point(0x1000, 3);
    const struct mt_regcache_region *r =
        mt_regcache_region_get(&cache, at(0x1000), 1);
    CHECK_EQ(simple(MT_REGCACHE_RETIRE, 3), MT_EAGAIN); /* held */
    mt_regcache_region_put(r);
    CHECK_EQ(simple(MT_REGCACHE_RETIRE, 3), MT_OK);
    CHECK_EQ(publish(3, 0x1000, 0x2000), MT_OK);
    mt_regcache_region_put(mt_regcache_region_get(&cache, at(0x1000), 1));
    CHECK_EQ(simple(MT_REGCACHE_RETIRE, 3), MT_EAGAIN); /* taken since */
    CHECK_EQ(simple(MT_REGCACHE_RETIRE, 3), MT_OK);
}

/* More references than there is room to count: not now, and nothing breaks. */
static void test_crowded(void)
{
    begin();
    publish(4, 0x1000, 0x2000);
    point(0x1000, 4);
    uint32_t n = 0;
    while (mt_regcache_region_get(&cache, at(0x1000), 1) != NULL) {
        n++;
    }
    CHECK_EQ(n, MT_REGCACHE_CROWDED);
    for (; n > 0; n--) {
        mt_regcache_region_put(&cache.regions[4]);
    }
    CHECK(mt_regcache_region_get(&cache, at(0x1000), 1) != NULL);
}

/* ---- a random stream against a dumb twin ---- */

enum { TWIN_SLOTS = 24, TWIN_PAGES = 96, TWIN_ROUNDS = 300000 };

struct twin {
    bool live, used;
    uint64_t start, end, generation;
    uint32_t references;
};

static struct twin twins[TWIN_SLOTS];
static uint32_t held[64], n_held;

/* Pages over the boundary of two buckets. */
static uint64_t twin_page(uint64_t i)
{
    return 9 * (UINT64_C(1) << MT_MEMHOOK_SHIFT) + i * PAGE -
           TWIN_PAGES / 2 * PAGE;
}

static void twin_get(uint64_t address, uint64_t bytes)
{
    const struct mt_regcache_region *r =
        mt_regcache_region_get(&cache, at(address), bytes);
    if (r == NULL) {
        return;
    }
    uint32_t slot = (uint32_t)(r - cache.regions);
    struct twin *t = &twins[slot];
    CHECK(slot < TWIN_SLOTS && t->live);
    CHECK(t->start <= address && address + bytes <= t->end);
    CHECK_EQ(generation_of(t->start, t->end), t->generation);
    CHECK(r->start == t->start && r->end == t->end && r->handle == 100 + slot);
    t->references++;
    t->used = true;
    if (n_held < 64) {
        held[n_held++] = slot;
    } else {
        mt_regcache_region_put(r);
        t->references--;
    }
}

static void twin_serve(unsigned long long random, uint64_t start, uint64_t end)
{
    uint32_t slot = (uint32_t)(random >> 8) % TWIN_SLOTS;
    struct twin *t = &twins[slot];
    switch (random % 4) {
    case 0:
        if (!t->live && t->references == 0) {
            CHECK_EQ(publish(slot, start, end), MT_OK);
            *t = (struct twin){.live = true, .start = start, .end = end,
                               .generation = generation_of(start, end)};
        }
        if (t->live) {
            point(t->start, slot);
            twin_get(t->start, t->end - t->start);
        }
        break;
    case 1:
        CHECK_EQ(simple(MT_REGCACHE_RETIRE, slot),
                 !t->live                       ? MT_ESTATE
                 : t->references > 0 || t->used ? MT_EAGAIN
                                                : MT_OK);
        t->live = t->live && (t->references > 0 || t->used);
        t->used = false;
        break;
    case 2:
        CHECK_EQ(simple(MT_REGCACHE_REVOKE, slot),
                 t->references > 0 ? MT_EAGAIN : MT_OK);
        t->live = false;
        break;
    default:
        CHECK_EQ(simple(MT_REGCACHE_DRAIN, slot),
                 t->live             ? MT_ESTATE
                 : t->references > 0 ? MT_EAGAIN
                                     : MT_OK);
    }
}

static void test_twin(void)
{
    begin();
    unsigned long long state = 5;
    struct mt_regcache_counts counts;
    for (int i = 0; i < TWIN_ROUNDS && check_failures == 0; i++) {
        unsigned long long random = check_random(&state);
        uint64_t first = (random >> 32) % (TWIN_PAGES - 8);
        uint64_t pages = 1 + (random >> 48) % 8;
        uint64_t start = twin_page(first), end = twin_page(first + pages);
        switch (random % 32 / 2) {
        case 0:
            if (random % 64 < 8) {
                change(start);
            }
            break;
        case 1:
        case 2:
        case 3:
        case 4:
        case 5:
            if (n_held > 0) {
                uint32_t slot = held[--n_held];
                mt_regcache_region_put(&cache.regions[slot]);
                twins[slot].references--;
            }
            break;
        case 6:
        case 7:
        case 8:
        case 9:
            twin_serve(random >> 8, start, end);
            break;
        default:
            twin_get(start + (random >> 56), (end - start) / 2);
        }
    }
    mt_regcache_count(&cache, &counts);
    CHECK(counts.hits > TWIN_ROUNDS / 100);
    CHECK(counts.misses > TWIN_ROUNDS / 100);
}

/* ---- threads ---- */

enum {
    THREADS = 3,
    OWN_PAGES = 48, /* of each thread; the buckets are everybody's */
    HITS = 20000,    /* of each thread */
    GETS = 50000000, /* at most */
    SLOTS = 40,
    HOLD = 8,
};

/* What is mapped at a page changes only in the thread that owns the page. */
static uint32_t there[THREADS * OWN_PAGES];
/* Of a slot: what was there when it was registered, and whether it is. Plain:
 * the table must order them, and the thread sanitizer looks. */
static uint32_t pinned[SLOTS][8];
static uint32_t registered[SLOTS];
static uint32_t running;

/* Pages of all threads lie around one boundary of buckets. */
static uint64_t thread_page(uint32_t page)
{
    return 31 * (UINT64_C(1) << MT_MEMHOOK_SHIFT) + (uint64_t)page * PAGE -
           THREADS * OWN_PAGES / 2 * PAGE;
}

struct worker {
    pthread_t thread;
    uint32_t first; /* its first page */
    uint64_t hits, misses;
    const struct mt_regcache_region *held[HOLD];
    uint32_t mapped[HOLD][2]; /* first and last page in use */
    uint32_t n;
};

static void worker_put(struct worker *w)
{
    const struct mt_regcache_region *r = w->held[--w->n];
    CHECK_EQ(registered[r - cache.regions], 1); /* still */
    mt_regcache_region_put(r);
}

static void worker_unmap(struct worker *w, uint32_t page)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (page >= w->mapped[i][0] && page <= w->mapped[i][1]) {
            return; /* a program does not unmap what it is sending */
        }
    }
    change(thread_page(page));
    if (page % 2 == 0) {
        sched_yield(); /* the system call takes its time */
    }
    __atomic_fetch_add(&there[page], 1, __ATOMIC_RELAXED);
}

static bool worker_get(struct worker *w, uint32_t page, uint32_t pages)
{
    const struct mt_regcache_region *r = mt_regcache_region_get(
        &cache, at(thread_page(page) + 8), (uint64_t)(pages - 1) * PAGE + 8);
    if (r == NULL) {
        w->misses++;
        return false;
    }
    w->hits++;
    uint32_t slot = (uint32_t)(r - cache.regions);
    CHECK_EQ(registered[slot], 1);
    CHECK(r->start <= thread_page(page) &&
          r->end >= thread_page(page + pages));
    for (uint32_t p = page; p < page + pages; p++) {
        uint64_t of = (thread_page(p) - r->start) / PAGE;
        CHECK_EQ(pinned[slot][of],
                 __atomic_load_n(&there[p], __ATOMIC_RELAXED));
    }
    w->held[w->n] = r;
    w->mapped[w->n][0] = page;
    w->mapped[w->n++][1] = page + pages - 1;
    return true;
}

static void *worker_run(void *argument)
{
    struct worker *w = argument;
    unsigned long long state = 77 + w->first;
    for (int i = 0;
         i < GETS && w->hits < HITS && check_failures == 0; i++) {
        unsigned long long random = check_random(&state);
        uint32_t page = w->first + (uint32_t)(random >> 40) % 6 * 7;
        if (w->n == HOLD || random % 4 == 0) {
            while (w->n > 0) {
                worker_put(w);
            }
        }
        bool hit = worker_get(w, page, 1 + (uint32_t)(random >> 16) % 5);
        if (random % 128 == 1 || (!hit && random % 8 == 1)) {
            worker_unmap(w, page + (uint32_t)(random >> 24) % 5);
        }
        if (!hit) {
            sched_yield(); /* let the service answer */
        }
    }
    while (w->n > 0) {
        worker_put(w);
    }
    __atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The service: what is asked for is registered in any free slot. */
static uint32_t slot_state[SLOTS]; /* 0 free, 1 published, 2 revoked */

static void serve_free(uint32_t slot)
{
    registered[slot] = 0;
    memset(pinned[slot], 0xff, sizeof(pinned[slot]));
    slot_state[slot] = 0;
}

static bool serve_miss(const struct mt_regcache_miss *miss)
{
    uint64_t start = miss->address & ~(uint64_t)(PAGE - 1);
    uint64_t end = (miss->address + miss->bytes + PAGE - 1) &
                   ~(uint64_t)(PAGE - 1);
    uint32_t slot = 0;
    while (slot < SLOTS && slot_state[slot] != 0) {
        slot++;
    }
    if (slot == SLOTS) {
        order((struct mt_regcache_order){.verb = MT_REGCACHE_FORGET,
                                         .start = miss->address});
        return false;
    }
    for (uint64_t page = start; page < end; page += PAGE) {
        uint32_t p = (uint32_t)((page - thread_page(0)) / PAGE);
        pinned[slot][(page - start) / PAGE] =
            __atomic_load_n(&there[p], __ATOMIC_RELAXED);
    }
    registered[slot] = 1;
    struct mt_regcache_order orders[2] = {
        {.verb = MT_REGCACHE_PUBLISH, .slot = slot, .start = start,
         .end = end, .generation = miss->generation},
        {.verb = MT_REGCACHE_POINT, .slot = slot, .start = miss->address}};
    mt_regcache_serve(&cache, orders, 2);
    CHECK(orders[0].status == MT_OK && orders[1].status == MT_OK);
    slot_state[slot] = 1;
    return true;
}

static void serve_slot(uint32_t slot, unsigned long long random)
{
    const struct mt_regcache_region *r = &cache.regions[slot];
    bool stale = generation_of(r->start, r->end) != r->generation;
    if (slot_state[slot] == 1 && (stale || random % 32 == 0)) {
        if (simple(MT_REGCACHE_REVOKE, slot) == MT_OK) {
            serve_free(slot);
        } else {
            slot_state[slot] = 2;
        }
    } else if (slot_state[slot] == 1 && random % 4 == 1) {
        if (simple(MT_REGCACHE_RETIRE, slot) == MT_OK) {
            serve_free(slot);
        }
    } else if (slot_state[slot] == 2 &&
               simple(MT_REGCACHE_DRAIN, slot) == MT_OK) {
        serve_free(slot);
    }
}

static uint64_t serve_run(void)
{
    struct mt_regcache_miss misses[16];
    unsigned long long state = 99;
    uint64_t served = 0;
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) > 0) {
        uint32_t n = mt_regcache_misses_take(&cache, misses, 16);
        if (n == 0) {
            sched_yield();
        }
        for (uint32_t i = 0; i < n; i++) {
            served += serve_miss(&misses[i]);
        }
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            if (slot_state[slot] != 0) {
                serve_slot(slot, check_random(&state));
            }
        }
    }
    return served;
}

static void test_threads(void)
{
    static struct worker workers[THREADS];
    struct mt_regcache_counts counts;
    uint64_t hits = 0, misses = 0, served;
    begin();
    running = THREADS;
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i].first = i * OWN_PAGES;
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, worker_run,
                                &workers[i]), 0);
    }
    served = serve_run();
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        hits += workers[i].hits;
        misses += workers[i].misses;
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++) { /* nothing is left held */
        CHECK_EQ(simple(MT_REGCACHE_REVOKE, slot), MT_OK);
    }
    mt_regcache_count(&cache, &counts);
    CHECK_EQ(counts.hits, hits);
    CHECK_EQ(counts.misses, misses);
    CHECK_EQ(hits, THREADS * HITS);
    CHECK(served > 100);
}

int main(void)
{
    test_hit();
    test_generation();
    test_nothing();
    test_misses();
    test_orders();
    test_crowded();
    test_twin();
    test_threads();
    return check_failures != 0;
}
