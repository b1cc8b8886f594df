/* site.c: the cold half of finding where a call is counted: the site table of
 * a shard, the way out of language bindings, and rows of peers and functions
 * met for the first time. Runs once per new site; no allocation, no lock. */
#include "tally.h"

/* Rows of the site table kept for the rows 'other' of single functions. */
enum { MT_SITE_RESERVE = 64, MT_FRAMES_MAX = 64 };

/* stack is the hash of a call stack, 0 if none is kept, 1 for a call from
 * inside a callback. */
static uint64_t mt_site_key(uintptr_t address, uint32_t id, uint32_t phase,
                            uint64_t stack)
{
    uint64_t key = mt_hash(address) ^ mt_hash(((uint64_t)phase << 32) | id) ^
                   mt_hash(stack);
    return key != 0 ? key : 1;
}

static struct mt_seg_site *mt_site_lookup(struct mt_shard *shard, uint64_t key,
                                          uint32_t *slot_p)
{
    uint32_t slot = (uint32_t)(mt_hash(key) >> 53) % MT_SITE_INDEX;
    while (shard->site_index[slot].key != 0) {
        if (shard->site_index[slot].key == key) {
            return shard->site_index[slot].site;
        }
        slot = (slot + 1) % MT_SITE_INDEX;
    }
    *slot_p = slot;
    return NULL;
}

/* A fresh row of the shard's site section; NULL if there is no room left but
 * for reserve rows. */
static struct mt_seg_site *mt_site_row(struct mt_shard *shard, uint32_t reserve)
{
    struct mt_seg_section *s = shard->site_section;
    if (shard->site_count + reserve >= MT_SITE_INDEX * 3 / 4) {
        return NULL;
    }
    if (s->used + reserve >= s->capacity) {
        if (mt_ops.grow(shard, MPITRACE_SECTION_KIND_SITES)) {
            s = shard->site_section;
        } else if (s->used >= s->capacity || reserve != 0) {
            return NULL;
        }
    }
    return &shard->site_rows[s->used];
}

static struct mt_seg_site *mt_site_add(struct mt_shard *shard, uint64_t key,
                                       uint32_t slot,
                                       const struct mt_seg_site *fresh,
                                       uint32_t reserve)
{
    struct mt_seg_site *row = mt_site_row(shard, reserve);
    if (row == NULL) {
        return NULL;
    }
    *row = *fresh;
    __atomic_store_n(&shard->site_section->used, shard->site_section->used + 1,
                     __ATOMIC_RELEASE);
    shard->site_index[slot].key = key;
    shard->site_index[slot].site = row;
    shard->site_count++;
    return row;
}

/* The row 'other' of a function: where calls go when the table is full. */
static struct mt_seg_site *mt_site_other(struct mt_shard *shard, uint32_t id)
{
    shard->thread->sites_dropped++;
    shard->site_section->dropped++;
    uint64_t key = mt_site_key(0, id, 0, 0);
    uint32_t slot = 0;
    struct mt_seg_site *site = mt_site_lookup(shard, key, &slot);
    if (site == NULL) {
        struct mt_seg_site fresh = {.call = id,
                                    .flags = MPITRACE_SITE_FLAG_OTHER};
        site = mt_site_add(shard, key, slot, &fresh, 0);
    }
    return site != NULL ? site : &shard->nowhere;
}

static struct mt_seg_site *mt_site_get(struct mt_shard *shard,
                                       const struct mt_seg_site *wanted,
                                       uint64_t stack)
{
    uint64_t key =
        mt_site_key(wanted->address, wanted->call, wanted->phase, stack);
    uint32_t slot = 0;
    struct mt_seg_site *site = mt_site_lookup(shard, key, &slot);
    if (site != NULL) {
        return site;
    }
    struct mt_seg_site fresh = *wanted;
    fresh.module = mt_ops.module(fresh.address);
    site = mt_site_add(shard, key, slot, &fresh, MT_SITE_RESERVE);
    return site != NULL ? site : mt_site_other(shard, wanted->call);
}

/* The hash of a call stack: never 0 or 1. */
static uint64_t mt_stack_end(uint64_t hash)
{
    return hash | 2;
}

struct mt_seg_site *mt_site_of_other(struct mt_shard *shard,
                                     const struct mt_seg_site *site)
{
    struct mt_seg_site wanted = {.address = site->address,
                                 .call = site->call,
                                 .phase = site->phase,
                                 .flags = site->flags,
                                 .stack = site->stack};
    bool nested = (site->flags & MPITRACE_SITE_FLAG_CALLBACK) != 0;
    /* readers merge rows of one identity, so the row of a stack may differ
     * from the one that a call in this shard would use */
    uint64_t stack = nested             ? 1
                     : site->stack != 0 ? mt_stack_end((uint64_t)site->stack << 2)
                                        : 0;
    return mt_site_get(shard, &wanted, stack);
}

static struct mt_step *mt_step_find(struct mt_shard *shard, uintptr_t address)
{
    unsigned slot = (unsigned)(mt_hash(address) >> 55) % MT_STEPS;
    while (shard->steps[slot].address != address &&
           shard->steps[slot].address != 0) {
        slot = (slot + 1) % MT_STEPS;
    }
    return &shard->steps[slot];
}

/* True if the next return address can be read where the step says: a frame
 * that turns out smaller than remembered may end beyond the stack. */
static bool mt_step_inside(const struct mt_step *s, uintptr_t frame)
{
    uintptr_t end = mt_tls.stack_end;
    return frame > end || frame + s->slot + sizeof(uintptr_t) <= end;
}

/* Unwinds one frame and keeps its size; two sizes at one address: it varies.
 * Returns the return address outside, 0 if it cannot be told. */
static uintptr_t mt_step_learn(struct mt_shard *shard, uintptr_t address,
                               uintptr_t *frame_p)
{
    struct mt_step seen = {.address = address};
    uintptr_t outer =
        mt_ops.step(address, *frame_p, &seen.slot, &seen.span);
    if (outer == 0) {
        return 0;
    }
    struct mt_step *known = mt_step_find(shard, address);
    if (known->address == address) {
        if (known->slot != seen.slot || known->span != seen.span) {
            known->span = 0;
        }
    } else if (shard->step_count < MT_STEPS / 2) {
        *known = seen;
        shard->step_count++;
    }
    *frame_p += seen.span;
    return outer;
}

/* Leaves the bindings by the sizes already known; the address may be wrong
 * if a frame turns out to vary, and then leads to no known site. */
static uintptr_t mt_step_follow(struct mt_shard *shard, uintptr_t address,
                                uintptr_t *frame_p)
{
    for (int i = 0; i < MT_FRAMES_MAX; i++) {
        const struct mt_step *s = mt_step_find(shard, address);
        if (s->address != address || s->span == 0 || s->application != 0 ||
            !mt_step_inside(s, *frame_p)) {
            break;
        }
        address = *(const uintptr_t *)(*frame_p + s->slot);
        *frame_p += s->span;
    }
    return address;
}

static uint64_t mt_stack_mix(uint64_t hash, uintptr_t address)
{
    return mt_hash(hash ^ address) ^ (hash >> 29);
}

/* Hashes the call stack by the frame sizes already known; 0 where one is not.
 * As above, a frame that turns out to vary leads to a stack never seen. */
static uint64_t mt_stack_follow(struct mt_shard *shard, uintptr_t address,
                                uintptr_t frame)
{
    uint64_t hash = mt_stack_mix(0, address);
    for (uint32_t i = 1; i < mt_stack_depth; i++) {
        const struct mt_step *s = mt_step_find(shard, address);
        if (s->address == address && s->outermost != 0) {
            break;
        }
        if (s->address != address || s->span == 0 ||
            !mt_step_inside(s, frame)) {
            return 0;
        }
        address = *(const uintptr_t *)(frame + s->slot);
        frame += s->span;
        hash = mt_stack_mix(hash, address);
    }
    return mt_stack_end(hash);
}

/* Keeps the frame sizes of an unwound stack and returns its hash. */
static uint64_t mt_stack_learn(struct mt_shard *shard,
                               const struct mt_stack *stack)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < stack->depth; i++) {
        const struct mt_step *seen = &stack->frames[i];
        hash = mt_stack_mix(hash, seen->address);
        struct mt_step *known = mt_step_find(shard, seen->address);
        if (known->address != seen->address) {
            if (shard->step_count < MT_STEPS / 2) {
                *known = *seen;
                shard->step_count++;
            }
        } else if (known->span != seen->span || known->slot != seen->slot) {
            known->span = 0;
        }
    }
    return mt_stack_end(hash);
}

static void mt_site_remember(struct mt_shard *shard, uint32_t id,
                             uintptr_t address, struct mt_seg_site *site)
{
    shard->sites[mt_site_cache_slot(address, id)] = (struct mt_site_cached){
        .address = address, .call = id, .phase = mt_phase, .site = site};
}

MT_COLD static struct mt_seg_site *mt_site_new(struct mt_shard *shard,
                                               uint32_t id, uintptr_t address,
                                               uintptr_t frame,
                                               uintptr_t *found_p)
{
    uint16_t flags = 0;
    for (int i = 0; i < MT_FRAMES_MAX; i++) {
        if (mt_ops.caller(address) == MT_CALLER_APPLICATION) {
            break;
        }
        uintptr_t outer = mt_step_learn(shard, address, &frame);
        if (outer == 0) {
            flags = MPITRACE_SITE_FLAG_BINDING;
            break;
        }
        address = outer;
    }
    struct mt_seg_site wanted = {.address = address, .call = id,
                                 .phase = mt_phase, .flags = flags};
    struct mt_stack stack = {0};
    uint64_t hash = 0;
    if (mt_stack_depth > 0) {
        mt_ops.stack(address, frame, &stack);
        hash = mt_stack_learn(shard, &stack);
        wanted.stack = stack.row;
    }
    struct mt_seg_site *site = mt_site_get(shard, &wanted, hash);
    if (mt_stack_depth == 0) {
        mt_site_remember(shard, id, address, site);
    }
    *found_p = address;
    return site;
}

/* The site of a call by its whole stack, as far as memory leads. */
static struct mt_seg_site *mt_site_stacked(struct mt_shard *shard, uint32_t id,
                                           uintptr_t address, uintptr_t frame)
{
    uint32_t slot = 0;
    uint64_t stack = mt_stack_follow(shard, address, frame);
    return stack != 0 ? mt_site_lookup(
                            shard, mt_site_key(address, id, mt_phase, stack),
                            &slot)
                      : NULL;
}

struct mt_seg_site *mt_site_slow(struct mt_shard *shard, uint32_t id,
                                 uintptr_t address, uintptr_t frame,
                                 uintptr_t *found_p)
{
    uintptr_t outer = frame;
    uintptr_t at = mt_step_follow(shard, address, &outer);
    struct mt_seg_site *site = NULL;
    if (mt_stack_depth > 0) {
        site = mt_site_stacked(shard, id, at, outer);
    } else {
        const struct mt_site_cached *c =
            &shard->sites[mt_site_cache_slot(at, id)];
        if (mt_likely(c->address == at && c->call == id &&
                      c->phase == mt_phase)) {
            *found_p = at;
            return c->site;
        }
        uint32_t slot = 0;
        site = mt_site_lookup(shard, mt_site_key(at, id, mt_phase, 0), &slot);
        if (site != NULL) {
            mt_site_remember(shard, id, at, site);
        }
    }
    if (site != NULL) {
        *found_p = at;
        return site;
    }
    return mt_site_new(shard, id, address, frame, found_p);
}

/* A call from inside a callback is a site of its own, flagged. */
struct mt_seg_site *mt_site_nested(struct mt_shard *shard, uint32_t id,
                                   uintptr_t address, uintptr_t frame,
                                   uintptr_t *found_p)
{
    mt_site_find(shard, id, address, frame, found_p);
    struct mt_seg_site wanted = {.address = *found_p, .call = id,
                                 .phase = mt_phase,
                                 .flags = MPITRACE_SITE_FLAG_CALLBACK};
    return mt_site_get(shard, &wanted, 1);
}

struct mt_seg_function *mt_function_slow(struct mt_shard *shard, uint32_t id)
{
    struct mt_seg_section *s = shard->function_section;
    if (s->used >= s->capacity &&
        mt_ops.grow(shard, MPITRACE_SECTION_KIND_FUNCTIONS)) {
        s = shard->function_section;
    }
    if (s->used >= s->capacity) {
        s->dropped++;
        shard->functions[id] = &shard->no_function;
        return shard->functions[id];
    }
    struct mt_seg_function *f = &shard->function_rows[s->used];
    f->call = id;
    shard->functions[id] = f;
    __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
    return f;
}

/* The row of a world rank met for the first time: a new one, or that of a
 * special row where the table is full or the rank is none. */
uint16_t mt_peer_slow(struct mt_shard *shard, int32_t world_rank)
{
    struct mt_seg_section *s = shard->peer_section;
    if (s == NULL) { /* MPI_Init has not returned: peers are nobody's rows */
        return 1;
    }
    bool special = (uint32_t)world_rank >= shard->peer_limit;
    if (special && world_rank >= 0) {
        world_rank = MPITRACE_PEER_OTHER;
    }
    if (!special && s->used + 3 >= s->capacity) {
        s->dropped++;
        special = true;
        world_rank = MPITRACE_PEER_OTHER;
    }
    uint16_t *place = special ? &shard->peer_special[-1 - world_rank]
                              : &shard->peer_index[world_rank];
    if (*place == 0) {
        shard->peers[s->used].rank = world_rank;
        __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
        *place = (uint16_t)s->used;
    }
    return *place;
}
