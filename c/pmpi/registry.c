/* registry.c: what is known of communicators and datatypes, by handle.
 *
 * Handles are 64-bit numbers here; handles.c asks the MPI library on our
 * behalf. Look-ups are cached in the shards (probe/tally.h) and valid until an
 * epoch changes, so everything here is cold and under the cold lock. A
 * communicator's record outlives MPI_Comm_free: requests may still name it.
 *
 * A call is counted when the library has returned. Another thread may have freed
 * by then what the call named, as MPI allows, and nobody may ask the library about
 * it: when a handle was freed is remembered until it is used again, and a call that
 * began before that counts under "other". */
#include <string.h>

#include "../probe/clock.h"
#include "state.h"

enum {
    MT_COMM_ROWS = 128,
    MT_TYPE_ROWS = 128,
    MT_COMM_SLOTS = 1024, /* live communicators followed */
    MT_TYPE_SLOTS = 4096, /* live datatypes followed */
    MT_ID_SLOTS = 512,
    MT_WIN_SLOTS = 128,
    MT_FREED = 1024, /* freed communicators whose records wait for reuse */
    MT_MAPS = 256,
    MT_MAP_BUDGET = 512 * 1024, /* bytes of rank maps of all communicators */
};

enum { MT_TYPE_UNUSED = -1, MT_TYPE_FREED = -2 }; /* sizes */

struct mt_type_slot {
    uint64_t handle; /* 0: never used */
    int64_t size;
    uint32_t index;
    uint32_t created_by;
    uint64_t freed_at; /* ticks */
};

struct mt_map {
    uint64_t group;
    const int32_t *ranks;
    int32_t size;
};

struct mt_registry {
    uint64_t comm_handles[MT_COMM_SLOTS]; /* 0: never used */
    struct mt_comm *comms[MT_COMM_SLOTS]; /* NULL: it was freed, .. */
    uint64_t comm_freed_at[MT_COMM_SLOTS]; /* .. when, ticks */
    struct mt_type_slot types[MT_TYPE_SLOTS];
    uint32_t type_used;
    uint64_t id_base[MT_ID_SLOTS];
    uint32_t id_count[MT_ID_SLOTS];
    uint32_t id_used;
    struct mt_map maps[MT_MAPS];
    uint32_t map_count;
    size_t map_bytes;
    uint64_t wins[MT_WIN_SLOTS], win_comms[MT_WIN_SLOTS];
    struct mt_comm other; /* stands for what could not be recorded */
    struct mt_seg_section *comm_section, *type_section;
    struct mt_seg_comm *comm_rows;
    struct mt_seg_datatype *type_rows;
    struct mt_comm *pool;
    uint32_t pool_left;
    struct mt_comm *freed[MT_FREED]; /* a ring */
    uint32_t freed_count;
};

struct mt_registry_ops mt_registry_ops;
static struct mt_registry *mt_reg;

bool mt_registry_init(void)
{
    mt_cold_lock();
    mt_reg = mt_private_bytes(sizeof(*mt_reg));
    if (mt_reg != NULL) {
        mt_reg->comm_section = mt_segment_section(
            MPITRACE_SECTION_KIND_COMMS, 0, sizeof(struct mt_seg_comm),
            MT_COMM_ROWS, (void **)&mt_reg->comm_rows);
        mt_reg->type_section = mt_segment_section(
            MPITRACE_SECTION_KIND_TYPES, 0, sizeof(struct mt_seg_datatype),
            MT_TYPE_ROWS, (void **)&mt_reg->type_rows);
    }
    bool made = mt_reg != NULL && mt_reg->comm_section != NULL &&
                mt_reg->type_section != NULL;
    if (made) {
        memcpy(mt_reg->comm_rows[0].name, "other", 6);
        mt_reg->comm_rows[0].parent = -1;
        memcpy(mt_reg->type_rows[0].name, "other", 6);
        mt_reg->comm_section->used = 1;
        mt_reg->type_section->used = 1;
        mt_reg->other.neighbours = 0; /* MPI cannot be asked: it has no handle */
    }
    mt_cold_unlock();
    return made;
}

/* ---- communicators ---- */

static uint64_t mt_group_mix(uint64_t h, int32_t rank)
{
    return mt_hash(h ^ (uint32_t)rank) ^ (h >> 31);
}

uint64_t mt_registry_group_hash(const int32_t *ranks, int32_t n)
{
    uint64_t h = (uint64_t)n;
    for (int32_t i = 0; i < n; i++) {
        h = mt_group_mix(h, ranks[i]);
    }
    return mt_hash(h);
}

uint64_t mt_registry_range_hash(int32_t first, int32_t n)
{
    uint64_t h = (uint64_t)n;
    for (int32_t i = 0; i < n; i++) {
        h = mt_group_mix(h, first + i);
    }
    return mt_hash(h);
}

/* How many communicators with the same making came before: on every member
 * the same number, since all make them in the same order. */
static uint32_t mt_id_earlier(uint64_t base, bool *full_p)
{
    uint32_t slot = (uint32_t)(mt_hash(base) >> 55);
    while (mt_reg->id_base[slot] != 0 && mt_reg->id_base[slot] != base) {
        slot = (slot + 1) % MT_ID_SLOTS;
    }
    if (mt_reg->id_base[slot] == 0 && mt_reg->id_used >= MT_ID_SLOTS - 1) {
        *full_p = true;
        return 0;
    }
    mt_reg->id_used += mt_reg->id_base[slot] == 0;
    mt_reg->id_base[slot] = base;
    return mt_reg->id_count[slot]++;
}

/* A record. That of a freed communicator may still be named by its requests, so
 * it is used again only after MT_FREED others have been freed. */
static struct mt_comm *mt_comm_allocate(void)
{
    if (mt_reg->freed_count >= MT_FREED) {
        struct mt_comm **oldest = &mt_reg->freed[mt_reg->freed_count % MT_FREED];
        struct mt_comm *c = *oldest;
        *oldest = NULL;
        if (c != NULL) {
            return c;
        }
    }
    if (mt_reg->pool_left == 0) {
        mt_reg->pool = mt_private_bytes(128 * sizeof(struct mt_comm));
        if (mt_reg->pool == NULL) {
            return NULL;
        }
        mt_reg->pool_left = 128;
    }
    mt_reg->pool_left--;
    return mt_reg->pool++;
}

static uint32_t mt_comm_slot(uint64_t handle)
{
    uint32_t slot = (uint32_t)(mt_hash(handle) >> 54);
    for (uint32_t n = 0; n < MT_COMM_SLOTS; n++) {
        if (mt_reg->comm_handles[slot] == handle ||
            mt_reg->comm_handles[slot] == 0) {
            return slot;
        }
        slot = (slot + 1) % MT_COMM_SLOTS;
    }
    return MT_COMM_SLOTS;
}

/* A slot for a new handle: its own, else one whose communicator was freed. */
static uint32_t mt_comm_slot_new(uint64_t handle)
{
    uint32_t slot = mt_comm_slot(handle);
    if (slot < MT_COMM_SLOTS && mt_reg->comm_handles[slot] == handle) {
        return slot;
    }
    slot = (uint32_t)(mt_hash(handle) >> 54);
    for (uint32_t n = 0; n < MT_COMM_SLOTS; n++) {
        if (mt_reg->comms[slot] == NULL) {
            return slot;
        }
        slot = (slot + 1) % MT_COMM_SLOTS;
    }
    return MT_COMM_SLOTS;
}

static uint32_t mt_comm_row(const struct mt_comm *c, int32_t parent,
                            uint32_t kind, uint32_t created_by,
                            const char *name)
{
    struct mt_seg_section *s = mt_reg->comm_section;
    if (s->used >= s->capacity) {
        s->dropped++;
        return 0;
    }
    struct mt_seg_comm *row = &mt_reg->comm_rows[s->used];
    row->handle = c->handle;
    row->id = c->id;
    row->parent = parent;
    row->kind = kind;
    row->size = c->size;
    row->rank = c->rank;
    row->remote_size = c->inter ? c->peers : 0;
    row->created_by = created_by;
    row->comparable = c->comparable;
    strncpy(row->name, name, sizeof(row->name) - 1);
    __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
    return s->used - 1;
}

static struct mt_comm *mt_comm_known(uint64_t handle)
{
    uint32_t slot = mt_comm_slot(handle);
    return slot < MT_COMM_SLOTS && mt_reg->comm_handles[slot] == handle
               ? mt_reg->comms[slot]
               : NULL;
}

/* Whether the call that is being counted began before that; or may have, which is not
 * known of a thread that has not been counted yet. */
static bool mt_freed_since(uint64_t freed_at)
{
    const struct mt_shard *shard = mt_tls.shard;
    return shard == NULL ||
           (shard->shared != 0 ? mt_tls.started
                               : shard->thread->enter_ticks) <= freed_at;
}

/* Freed by another thread, while a call on it was under way. The answer is not to
 * be kept. */
static bool mt_comm_gone(uint64_t handle)
{
    uint32_t slot = mt_comm_slot(handle);
    bool gone = slot < MT_COMM_SLOTS && mt_reg->comm_handles[slot] == handle &&
                mt_reg->comms[slot] == NULL &&
                mt_freed_since(mt_reg->comm_freed_at[slot]);
    if (gone) {
        __atomic_add_fetch(&mt_comm_epoch, 1, __ATOMIC_RELEASE);
    }
    return gone;
}

/* What communicators have in common that were made alike: processes, way of
 * making, and the same of their parent. One made anew in every iteration has
 * the same each time, and the same on all members. An intercommunicator's two
 * sides have different parents, so theirs is left out, as of the id. */
static uint64_t mt_comm_kin(const struct mt_comm *c, uint32_t kind,
                            uint32_t created_by, uint64_t salt, uint64_t parent)
{
    uint64_t base = mt_hash(c->group ^ mt_hash(salt)) ^
                    mt_hash(((uint64_t)created_by << 32) | kind) ^
                    (parent != 0 && c->inter == 0 ? mt_hash(parent + 1) : 0);
    return base | (base == 0);
}

/* Records a communicator. salt tells apart what made it (a tag, a string). */
static struct mt_comm *mt_comm_record(const struct mt_comm *fresh,
                                      uint64_t parent, uint32_t kind,
                                      uint32_t created_by, uint64_t salt,
                                      const char *name)
{
    uint32_t slot = mt_comm_slot_new(fresh->handle);
    struct mt_comm *c = slot < MT_COMM_SLOTS ? mt_comm_allocate() : NULL;
    if (c == NULL) {
        return &mt_reg->other;
    }
    const struct mt_comm *p = parent != 0 ? mt_comm_known(parent) : NULL;
    bool full = false;
    *c = *fresh;
    uint64_t base = mt_comm_kin(c, kind, created_by, salt, p != NULL ? p->id : 0);
    c->kin = mt_comm_kin(c, kind, created_by, salt, p != NULL ? p->kin : 0);
    c->id = mt_hash(base + mt_id_earlier(base, &full));
    c->comparable = fresh->comparable != 0 && !full &&
                    (p == NULL || p->comparable != 0);
    c->neighbours = -1;
    c->index = mt_comm_row(c, p != NULL ? (int32_t)p->index : -1, kind,
                           created_by, name);
    mt_reg->comm_handles[slot] = c->handle;
    mt_reg->comms[slot] = c;
    __atomic_add_fetch(&mt_comm_epoch, 1, __ATOMIC_RELEASE);
    return c;
}

struct mt_comm *mt_registry_comm_add(const struct mt_comm *comm, uint64_t parent,
                                     uint32_t kind, uint32_t created_by,
                                     uint64_t salt, const char *name)
{
    mt_cold_lock();
    struct mt_comm *c =
        mt_comm_record(comm, parent, kind, created_by, salt, name);
    mt_cold_unlock();
    return c;
}

/* The record of a handle; one whose making was not seen is described by the
 * MPI library now. Never NULL. */
struct mt_comm *mt_registry_comm(uint64_t handle)
{
    mt_cold_lock();
    struct mt_comm *c = handle != 0 ? mt_comm_known(handle) : &mt_reg->other;
    if (c == NULL && mt_comm_gone(handle)) {
        c = &mt_reg->other;
    }
    mt_cold_unlock();
    if (c != NULL) {
        return c;
    }
    struct mt_comm fresh = {.handle = handle};
    if (mt_registry_ops.comm_describe == NULL || /* MPI_Init has not returned */
        !mt_registry_ops.comm_describe(handle, &fresh)) {
        return &mt_reg->other;
    }
    fresh.comparable = 0;
    return mt_registry_comm_add(&fresh, 0, MPITRACE_COMM_KIND_FOUND, 0, 0, "");
}

/* A collective failed here. It may have succeeded elsewhere, so the numbers of
 * operations on this communicator are no longer the same on all ranks. */
void mt_registry_comm_distrust(uint64_t handle)
{
    mt_cold_lock();
    struct mt_comm *c = mt_reg != NULL ? mt_comm_known(handle) : NULL;
    if (c != NULL) {
        c->comparable = 0;
    }
    mt_cold_unlock();
}

void mt_registry_comm_name(uint64_t handle, const char *name)
{
    mt_cold_lock();
    const struct mt_comm *c = mt_comm_known(handle);
    if (c != NULL && c->index != 0) {
        struct mt_seg_comm *row = &mt_reg->comm_rows[c->index];
        strncpy(row->name, name, sizeof(row->name) - 1);
    }
    mt_cold_unlock();
}

void mt_registry_comm_free(uint64_t handle)
{
    mt_cold_lock();
    struct mt_comm *c = mt_comm_known(handle);
    if (c != NULL) {
        if (c->index != 0) {
            mt_reg->comm_rows[c->index].freed = 1;
        }
        uint32_t slot = mt_comm_slot(handle);
        mt_reg->comms[slot] = NULL;
        mt_reg->comm_freed_at[slot] = mt_clock_now();
        mt_reg->freed[mt_reg->freed_count++ % MT_FREED] = c;
        __atomic_add_fetch(&mt_comm_epoch, 1, __ATOMIC_RELEASE);
    }
    mt_cold_unlock();
}

/* A lasting copy of a rank map; communicators with the same processes share
 * one. NULL when the budget is used up: their peers are then 'unknown'. */
const int32_t *mt_registry_map(uint64_t group, int32_t size,
                               const int32_t *ranks)
{
    const int32_t *found = NULL;
    size_t bytes = (size_t)size * sizeof(int32_t);
    mt_cold_lock();
    for (uint32_t i = 0; i < mt_reg->map_count && found == NULL; i++) {
        if (mt_reg->maps[i].group == group && mt_reg->maps[i].size == size) {
            found = mt_reg->maps[i].ranks;
        }
    }
    if (found == NULL && mt_reg->map_count < MT_MAPS &&
        mt_reg->map_bytes + bytes <= MT_MAP_BUDGET) {
        int32_t *copy = mt_private_bytes(bytes);
        if (copy != NULL) {
            memcpy(copy, ranks, bytes);
            mt_reg->maps[mt_reg->map_count++] =
                (struct mt_map){group, copy, size};
            mt_reg->map_bytes += bytes;
            found = copy;
        }
    }
    mt_cold_unlock();
    return found;
}

/* ---- datatypes ---- */

static struct mt_type_slot *mt_type_slot(uint64_t handle, bool make)
{
    uint32_t slot = (uint32_t)(mt_hash(handle) >> 52);
    struct mt_type_slot *deleted = NULL;
    for (uint32_t n = 0; n < MT_TYPE_SLOTS; n++) {
        struct mt_type_slot *t = &mt_reg->types[slot];
        if (t->handle == handle) {
            return t;
        }
        if (t->size == MT_TYPE_FREED && deleted == NULL) {
            deleted = t;
        }
        if (t->handle == 0) {
            if (!make || (deleted == NULL &&
                          mt_reg->type_used >= MT_TYPE_SLOTS * 3 / 4)) {
                return make ? deleted : NULL;
            }
            mt_reg->type_used += deleted == NULL;
            t = deleted != NULL ? deleted : t;
            *t = (struct mt_type_slot){.handle = handle,
                                       .size = MT_TYPE_UNUSED};
            return t;
        }
        slot = (slot + 1) % MT_TYPE_SLOTS;
    }
    return NULL;
}

/* Derived types alike in making, size and name share a row, so programs that
 * make a type per step do not fill the table. */
static uint32_t mt_type_row(uint64_t handle, uint32_t created_by,
                            const struct mt_type_facts *facts)
{
    struct mt_seg_section *s = mt_reg->type_section;
    for (uint32_t i = 1; i < s->used; i++) {
        struct mt_seg_datatype *row = &mt_reg->type_rows[i];
        if (row->size == facts->size && row->created_by == created_by &&
            strncmp(row->name, facts->name, sizeof(row->name)) == 0) {
            row->instances++;
            return i;
        }
    }
    if (s->used >= s->capacity) {
        s->dropped++;
        return 0;
    }
    struct mt_seg_datatype *row = &mt_reg->type_rows[s->used];
    row->handle = handle;
    row->size = facts->size;
    row->created_by = created_by;
    row->instances = 1;
    memcpy(row->name, facts->name, sizeof(row->name));
    __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
    return s->used - 1;
}

void mt_registry_type(uint64_t handle, struct mt_type_cached *found_p)
{
    struct mt_type_facts facts = {.size = 0};
    mt_cold_lock();
    struct mt_type_slot *t = mt_type_slot(handle, false);
    bool gone = t != NULL && t->size == MT_TYPE_FREED &&
                mt_freed_since(t->freed_at);
    if (gone) { /* this answer is not to be kept */
        __atomic_add_fetch(&mt_type_epoch, 1, __ATOMIC_RELEASE);
    }
    if (gone || (t != NULL && t->size >= 0)) {
        found_p->size = gone ? 0 : t->size;
        found_p->index = gone ? 0 : t->index;
        mt_cold_unlock();
        return;
    }
    mt_cold_unlock();
    if (mt_registry_ops.type_describe == NULL ||
        !mt_registry_ops.type_describe(handle, &facts)) {
        found_p->size = 0;
        found_p->index = 0;
        return;
    }
    mt_cold_lock();
    t = mt_type_slot(handle, true);
    found_p->size = facts.size;
    found_p->index = mt_type_row(handle, t != NULL ? t->created_by : 0, &facts);
    if (t != NULL) {
        t->size = facts.size;
        t->index = found_p->index;
    }
    mt_cold_unlock();
}

void mt_registry_type_made(uint64_t handle, uint32_t created_by)
{
    mt_cold_lock();
    struct mt_type_slot *t = mt_type_slot(handle, true);
    if (t != NULL) {
        t->size = MT_TYPE_UNUSED;
        t->created_by = created_by;
    }
    mt_cold_unlock();
}

void mt_registry_type_free(uint64_t handle)
{
    mt_cold_lock();
    struct mt_type_slot *t = mt_type_slot(handle, false);
    if (t != NULL) {
        t->size = MT_TYPE_FREED;
        t->created_by = 0;
        t->freed_at = mt_clock_now();
    }
    /* also of one that found no place: threads have its size */
    __atomic_add_fetch(&mt_type_epoch, 1, __ATOMIC_RELEASE);
    mt_cold_unlock();
}

/* ---- windows: the communicator each was made on; of two in one place the
 * later one, it is only shown while a call is in progress ---- */

void mt_registry_win(uint64_t win, uint64_t comm)
{
    uint32_t i = (uint32_t)(mt_hash(win) >> 57);
    mt_cold_lock();
    mt_reg->wins[i] = win;
    mt_reg->win_comms[i] = comm;
    mt_cold_unlock();
}

uint64_t mt_registry_win_comm(uint64_t win)
{
    uint32_t i = (uint32_t)(mt_hash(win) >> 57);
    return mt_reg->wins[i] == win ? mt_reg->win_comms[i] : 0;
}
