/* reuse.h: follows how often message buffers are used again: the usage table of
 * Rashti and Afsahi (Cluster Computing 2011), key address and path.
 *
 * A shard has one table: dense rows in its segment, found by an index of open
 * addressing in private memory. When the rows are used up the table doubles,
 * unless fewer than a fifth of its buffers are in frequent use: then no more
 * are added (the paper's two conditions; a full table stands for its chains).
 *
 * A buffer is never looked into: it may be memory of a device. Must not:
 * allocate, lock, ask MPI; more room comes through mt_ops. */
#ifndef MPITRACE_PROBE_REUSE_H
#define MPITRACE_PROBE_REUSE_H

#include "shard.h"

void mt_reuse_new(struct mt_shard *shard, uint64_t address, uint64_t bytes,
                  uint32_t path);

MT_INLINE uint64_t mt_reuse_hash(uint64_t address, uint32_t path)
{
    return mt_hash(address + path);
}

/* An entry of the index: a part of the hash, so that a row is rarely looked at
 * in vain, and the row plus 1; 0 if free. */
MT_INLINE uint32_t mt_reuse_entry(uint64_t hash, uint32_t row)
{
    return ((uint32_t)(hash >> 16) << 16) | (row + 1);
}

MT_INLINE struct mt_seg_buffer *mt_reuse_row(const struct mt_reuse *t,
                                             uint32_t row)
{
    return &t->chunks[row / MT_REUSE_CHUNK][row % MT_REUSE_CHUNK];
}

/* Takes an index of so many slots, a power of two, and enters all rows. */
void mt_reuse_index(struct mt_reuse *t, uint32_t *index, uint32_t slots);

/* The buffer at address was handed to MPI. */
MT_INLINE void mt_reuse(struct mt_shard *shard, const void *buffer,
                        uint64_t bytes, uint32_t path)
{
    struct mt_reuse *t = &shard->reuse;
    if (mt_unlikely(t->paths == NULL)) {
        return;
    }
    struct mt_seg_reuse *p = &t->paths[path];
    uint64_t address = (uint64_t)(uintptr_t)buffer;
    unsigned bin = mt_bin(bytes, MPITRACE_SIZE_BINS);
    uint64_t hash = mt_reuse_hash(address, path);
    uint32_t now = ++t->now;
    p->accesses[bin]++;
    for (uint32_t slot = (uint32_t)(hash >> t->shift);;
         slot = (slot + 1) & t->mask) {
        uint32_t entry = t->index[slot];
        if (mt_unlikely(entry == 0)) {
            mt_reuse_new(shard, address, bytes, path);
            return;
        }
        if ((entry ^ (uint32_t)(hash >> 16) << 16) >> 16 != 0) {
            continue;
        }
        struct mt_seg_buffer *b = mt_reuse_row(t, (entry & 0xffff) - 1);
        if (mt_likely(b->address == address && b->path == path)) {
            b->accesses++;
            t->frequent += b->accesses == MT_REUSE_FREQUENT;
            p->reused[bin]++;
            p->distances[mt_bin(now - b->last, MPITRACE_DISTANCE_BINS)]++;
            b->last = now;
            if (mt_unlikely(b->bytes != bytes)) {
                b->bytes = bytes;
                b->resized += b->resized != UINT16_MAX;
            }
            return;
        }
    }
}

#endif
