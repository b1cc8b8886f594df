/* reuse.c: the cold half of the usage table: new buffers, and growth. */
#include "reuse.h"

#include <string.h>

_Static_assert(MT_REUSE_ROWS < 1 << 16, "an index entry holds row + 1");

static void mt_reuse_insert(struct mt_reuse *t, uint32_t row)
{
    const struct mt_seg_buffer *b = mt_reuse_row(t, row);
    uint64_t hash = mt_reuse_hash(b->address, b->path);
    uint32_t slot = (uint32_t)(hash >> t->shift);
    while (t->index[slot] != 0) {
        slot = (slot + 1) & t->mask;
    }
    t->index[slot] = mt_reuse_entry(hash, row);
}

void mt_reuse_index(struct mt_reuse *t, uint32_t *index, uint32_t slots)
{
    t->index = index;
    t->mask = slots - 1;
    t->shift = (uint32_t)__builtin_clzll(t->mask);
    memset(index, 0, slots * sizeof(*index));
    for (uint32_t row = 0; row < t->rows; row++) {
        mt_reuse_insert(t, row);
    }
}

/* Makes room for one more buffer, if the table is to grow. */
static bool mt_reuse_room(struct mt_shard *shard)
{
    struct mt_reuse *t = &shard->reuse;
    if (t->rows < t->room) {
        return true;
    }
    bool worth = t->rows == 0 ||
                 (uint64_t)t->frequent * MT_REUSE_SHARE >= t->rows;
    if (!t->stopped && worth && mt_ops.reuse_grow(shard) &&
        t->rows < t->room) {
        return true;
    }
    t->stopped = 1;
    for (uint32_t path = 0; path < MPITRACE_PATH_PATHS; path++) {
        t->paths[path].stopped = 1;
    }
    return false;
}

MT_COLD void mt_reuse_new(struct mt_shard *shard, uint64_t address,
                          uint64_t bytes, uint32_t path)
{
    struct mt_reuse *t = &shard->reuse;
    if (address == 0 || !mt_reuse_room(shard)) {
        t->paths[path].untracked++;
        return;
    }
    uint32_t row = t->rows++;
    *mt_reuse_row(t, row) = (struct mt_seg_buffer){.address = address,
                                                   .bytes = bytes,
                                                   .accesses = 1,
                                                   .last = t->now,
                                                   .path = (uint16_t)path};
    mt_reuse_insert(t, row);
    __atomic_store_n(&t->section->used, t->section->used + 1, __ATOMIC_RELEASE);
}
