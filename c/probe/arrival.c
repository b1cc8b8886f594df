/* arrival.c: the cold half of sampling collective operations: new classes, and
 * thinning out when the table is full. */
#include "arrival.h"

_Static_assert(MT_ARRIVAL_CLASSES == 1 << 6, "mt_arrival_slot takes 6 bits");

/* A class is at most so far from its slot: what finds no place there goes to
 * the rest, at every call as quickly as the first time. */
enum { MT_ARRIVAL_TRIES = 8 };

/* The class that takes what found no other: counted, nothing of it is kept. */
static struct mt_seg_arrival_class *mt_arrival_rest(struct mt_shard *shard)
{
    shard->arrival_class_section->dropped++;
    return &shard->arrival_classes[MT_ARRIVAL_CLASSES];
}

struct mt_seg_arrival_class *mt_arrival_class_slow(struct mt_shard *shard,
                                                   uint64_t kin,
                                                   uint32_t call)
{
    unsigned slot = mt_arrival_slot(kin, call);
    for (unsigned n = 0; n < MT_ARRIVAL_TRIES; n++) {
        struct mt_seg_arrival_class *c = &shard->arrival_classes[slot];
        if (c->kin == kin && c->call == call) {
            return c;
        }
        if (c->call == 0) {
            c->kin = kin;
            c->call = (uint16_t)call;
            return c;
        }
        slot = (slot + 1) % MT_ARRIVAL_CLASSES;
    }
    return mt_arrival_rest(shard);
}

static struct mt_seg_arrival_class *mt_arrival_largest(struct mt_shard *shard)
{
    struct mt_seg_arrival_class *largest = &shard->arrival_classes[0];
    for (unsigned i = 1; i < MT_ARRIVAL_CLASSES; i++) {
        struct mt_seg_arrival_class *c = &shard->arrival_classes[i];
        if (c->kept > largest->kept) {
            largest = c;
        }
    }
    return largest;
}

/* Raises the level of the class with the most rows and drops those that do not
 * reach it. A reader that finds reserved0 odd takes none of the rows. */
static void mt_arrival_thin(struct mt_shard *shard)
{
    struct mt_seg_section *s = shard->arrival_section;
    struct mt_seg_arrival *rows = shard->arrival_rows;
    struct mt_seg_arrival_class *class = mt_arrival_largest(shard);
    uint32_t kept = 0;
    __atomic_store_n(&s->reserved0, s->reserved0 + 1, __ATOMIC_SEQ_CST);
    /* no row moves before that is seen: an acquiring load stays behind the
     * store, and all else behind the load (ThreadSanitizer knows no fences) */
    (void)__atomic_load_n(&s->reserved0, __ATOMIC_SEQ_CST);
    class->level++;
    for (uint32_t i = 0; i < s->used; i++) {
        const struct mt_seg_arrival *r = &rows[i];
        if (r->kin == class->kin && r->call == class->call &&
            !mt_arrival_reaches(
                mt_arrival_hash(r->comm_id, r->sequence, r->start),
                class->level)) {
            class->kept--;
            continue;
        }
        if (kept != i) {
            rows[kept] = *r;
        }
        kept++;
    }
    s->used = kept;
    __atomic_store_n(&s->reserved0, s->reserved0 + 1, __ATOMIC_SEQ_CST);
}

void mt_arrival_keep(struct mt_shard *shard, struct mt_seg_arrival_class *class,
                     const struct mt_comm *comm, const struct mt_instance *seen)
{
    struct mt_seg_section *s = shard->arrival_section;
    if (class->call == 0) {
        return; /* the rest */
    }
    uint64_t hash = mt_arrival_hash(comm->id, seen->sequence, seen->start);
    /* every level halves a class, so room is found soon if there is any */
    for (int i = 0; s->used >= s->capacity && i < 64; i++) {
        mt_arrival_thin(shard);
    }
    if (s->used >= s->capacity) {
        class->dropped++;
        return;
    }
    if (!mt_arrival_reaches(hash, class->level)) {
        return;
    }
    shard->arrival_rows[s->used] = (struct mt_seg_arrival){
        .comm_id = comm->id,
        .sequence = seen->sequence,
        .start = seen->start,
        .enter_ticks = seen->enter,
        .wait_ticks = seen->wait,
        .exit_ticks = seen->exit,
        .bytes = seen->bytes,
        .address = seen->address,
        .root = seen->root,
        .rank = comm->rank,
        .size = comm->size,
        .call = (uint16_t)seen->call,
        .kin = comm->kin,
    };
    class->kept++;
    __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
    if ((s->used & (s->used - 1)) == 0) {
        /* of a killed process at least half of its samples lie between two
         * pairs */
        mt_ops.pair();
    }
}
