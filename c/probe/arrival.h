/* arrival.h: keeps when this rank arrived at collective operations.
 *
 * Every rank must keep the same instances, without a word between them: an
 * instance is kept if the hash of (communicator id, sequence, start) has at
 * least as many trailing zero bits as the level of its class. When the table is
 * full, the class with the most rows raises its level by one and half of its
 * rows go; levels are nested, so what the highest level of any rank keeps, all
 * have kept. Classes are (communicators made alike, function): a rare operation
 * does not drown among a million of another, and a communicator made anew in
 * every iteration does not fill the table.
 *
 * Owns: the rows and classes of one shard. Must not: allocate, lock, ask MPI. */
#ifndef MPITRACE_PROBE_ARRIVAL_H
#define MPITRACE_PROBE_ARRIVAL_H

#include "shard.h"

/* Which operation, and how this rank saw it. */
struct mt_instance {
    uint32_t call;
    uint32_t sequence;
    uint32_t start;  /* of a persistent operation, from 1; else 0 */
    int32_t root;    /* negative: none */
    uint64_t enter;  /* ticks: entry of the call that started it */
    uint64_t wait;   /* ... of the call that completed it */
    uint64_t exit;   /* its return */
    uint64_t bytes;
    uint64_t address;
};

/* Steele, Lea, Flood 2014 (SplittableRandom), the finaliser of SplitMix64: all
 * bits of the result depend on all bits of the argument. arrival/sample.go has
 * the same. */
MT_INLINE uint64_t mt_arrival_hash(uint64_t comm_id, uint32_t sequence,
                                   uint32_t start)
{
    uint64_t x = comm_id ^ mt_hash(((uint64_t)start << 32 | sequence) + 1);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

MT_INLINE bool mt_arrival_reaches(uint64_t hash, uint32_t level)
{
    return level >= 64 ? hash == 0
                       : (hash & ((UINT64_C(1) << level) - 1)) == 0;
}

struct mt_seg_arrival_class *mt_arrival_class_slow(struct mt_shard *shard,
                                                   uint64_t kin,
                                                   uint32_t call);
void mt_arrival_keep(struct mt_shard *shard, struct mt_seg_arrival_class *class,
                     const struct mt_comm *comm, const struct mt_instance *seen);

MT_INLINE unsigned mt_arrival_slot(uint64_t kin, uint32_t call)
{
    return (unsigned)(mt_hash(kin + call) >> 58) % MT_ARRIVAL_CLASSES;
}

/* The rank has left a collective operation on comm. */
MT_INLINE void mt_arrival(struct mt_shard *shard, const struct mt_comm *comm,
                          const struct mt_instance *seen)
{
    if (mt_unlikely(shard->arrival_section == NULL || comm->comparable == 0 ||
                    comm->inter != 0 || comm->size < 2)) {
        return;
    }
    struct mt_seg_arrival_class *class =
        &shard->arrival_classes[mt_arrival_slot(comm->kin, seen->call)];
    if (mt_unlikely(class->kin != comm->kin || class->call != seen->call)) {
        class = mt_arrival_class_slow(shard, comm->kin, seen->call);
    }
    class->instances++;
    uint64_t hash = mt_arrival_hash(comm->id, seen->sequence, seen->start);
    if (mt_unlikely(mt_arrival_reaches(hash, class->level))) {
        mt_arrival_keep(shard, class, comm, seen);
    }
}

#endif
