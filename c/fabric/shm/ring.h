/* ring.h: a queue of records from one process to another, in memory that both
 * map. One writes, one reads; no lock, no system call, and a message of a cache
 * line moves one cache line.
 *
 * A record begins at a multiple of 64 bytes with a header that is not zero; its
 * first word is written last (release) and says that all of it is there. Who
 * reads a record zeroes the first word of each of its lines, so that what lies
 * ahead of the writer is never mistaken for a header, and gives the room back.
 * Killed anywhere, the writer leaves a record that is whole or not there, the
 * reader one that is read or not. */
#ifndef MPITRACE_FABRIC_SHM_RING_H
#define MPITRACE_FABRIC_SHM_RING_H

#include <string.h>

#include "../../include/base.h"

enum { MT_RING_LINE = 64, MT_RING_BYTES = 64 << 10 };

/* ready holds the record's bytes with this header, plus 1 in the upper half to
 * be never zero. */
struct mt_ring_record {
    uint64_t ready;
    uint8_t kind;  /* enum mt_shm_kind; 0: nothing until the end of the ring */
    uint8_t flags; /* enum mt_shm_record_flag, or-ed */
    uint16_t pieces;
    uint32_t immediate;
    uint64_t address; /* of the target, or the work that asked (READ, DATA) */
    uint64_t total;   /* payload of the message that this is a part of */
    uint32_t rkey;
    uint32_t bytes; /* payload behind the header */
    /* payload */
};

_Static_assert(sizeof(struct mt_ring_record) == 40,
               "24 bytes of payload fit into the first line");

enum mt_ring_gone {
    MT_RING_HERE = 0,
    MT_RING_LEAVING = 1, /* nothing more will come, and orders are void */
    MT_RING_GONE = 2,    /* ... and it does not look at the ring any more */
};

enum mt_ring_joined {
    MT_RING_ALONE = 0,  /* the writer is not connected */
    MT_RING_JOINED = 1, /* it is: from now on it waits for whoever touches its
                         * memory before it gives it back */
    MT_RING_PULLS = 2,  /* ... and can read and write the reader's memory, so that
                         * the reader may give it orders */
};

struct mt_ring {
    /* by the reader */
    uint64_t head; /* bytes read so far: room for the writer */
    uint64_t done; /* orders of the writer that were carried out */
    uint32_t failed; /* enum mt_status: the reader gave up */
    /* by the writer */
    uint32_t gone __attribute__((aligned(64))); /* enum mt_ring_gone */
    uint32_t joined;     /* enum mt_ring_joined */
    uint32_t wants_room; /* 1: it may sleep until head moves */
    /* life of the ring, until one peer connects to it and leaves its pid; its
     * reader takes it away the same way, so that nobody comes afterwards */
    uint64_t claim;
    uint64_t lane; /* where it wants answers to READs, in its arena; 0: here */
    char data[MT_RING_BYTES] __attribute__((aligned(64)));
};

/* One side's view. */
struct mt_ring_writer {
    struct mt_ring *ring;
    uint64_t tail;
    uint64_t head; /* as last seen */
};

struct mt_ring_reader {
    struct mt_ring *ring;
    uint64_t head;
    uint64_t told; /* head that the writer knows */
};

MT_INLINE uint64_t mt_ring_size(uint64_t payload)
{
    return (sizeof(struct mt_ring_record) + payload + MT_RING_LINE - 1) /
           MT_RING_LINE * MT_RING_LINE;
}

MT_INLINE struct mt_ring_record *mt_ring_at(struct mt_ring *ring, uint64_t at)
{
    return (struct mt_ring_record *)&ring->data[at % MT_RING_BYTES];
}

/* Room for a record of this size in one piece, NULL: not now. A record that
 * would not fit before the end of the ring begins at its start. */
MT_INLINE struct mt_ring_record *mt_ring_reserve(struct mt_ring_writer *w,
                                                 uint64_t size)
{
    uint64_t to_end = MT_RING_BYTES - w->tail % MT_RING_BYTES;
    uint64_t need = size <= to_end ? size : to_end + size;
    if (mt_unlikely(w->tail + need - w->head > MT_RING_BYTES)) {
        w->head = __atomic_load_n(&w->ring->head, __ATOMIC_ACQUIRE);
        if (w->tail + need - w->head > MT_RING_BYTES) {
            return NULL;
        }
    }
    if (mt_unlikely(size > to_end)) {
        struct mt_ring_record *rest = mt_ring_at(w->ring, w->tail);
        rest->kind = 0;
        __atomic_store_n(&rest->ready, UINT64_C(1) << 32 | to_end,
                         __ATOMIC_RELEASE);
        w->tail += to_end;
    }
    return mt_ring_at(w->ring, w->tail);
}

/* The writer found no room: it is woken once there is some. True: there is now.
 * Pairs with mt_ring_wanted. */
MT_INLINE bool mt_ring_want(struct mt_ring_writer *w)
{
    uint64_t before = w->head;
    __atomic_store_n(&w->ring->wants_room, 1, __ATOMIC_SEQ_CST);
    w->head = __atomic_load_n(&w->ring->head, __ATOMIC_SEQ_CST);
    return w->head != before;
}

/* True once after the writer wanted room and there is some. */
MT_INLINE bool mt_ring_wanted(struct mt_ring *ring)
{
    return __atomic_load_n(&ring->wants_room, __ATOMIC_SEQ_CST) != 0 &&
           __atomic_exchange_n(&ring->wants_room, 0, __ATOMIC_ACQ_REL) != 0;
}

/* Pairs with mt_ring_peek. */
MT_INLINE void mt_ring_publish(struct mt_ring_writer *w,
                               struct mt_ring_record *record, uint64_t size)
{
    __atomic_store_n(&record->ready, UINT64_C(1) << 32 | size,
                     __ATOMIC_RELEASE);
    w->tail += size;
}

/* The oldest record, NULL: none. Its size is what ready says; a size that cannot
 * be is the peer's fault: *size_p is 0 then. */
MT_INLINE struct mt_ring_record *mt_ring_peek(struct mt_ring_reader *r,
                                              uint64_t *size_p)
{
    struct mt_ring_record *record = mt_ring_at(r->ring, r->head);
    uint64_t ready = __atomic_load_n(&record->ready, __ATOMIC_ACQUIRE);
    if (ready == 0) {
        return NULL;
    }
    uint64_t size = (uint32_t)ready;
    uint64_t to_end = MT_RING_BYTES - r->head % MT_RING_BYTES;
    bool sound = size >= MT_RING_LINE && size % MT_RING_LINE == 0 &&
                 size <= to_end;
    *size_p = sound ? size : 0;
    return record;
}

/* Gives a record back. The writer is told when a quarter of the ring is free. */
MT_INLINE void mt_ring_drop(struct mt_ring_reader *r,
                            struct mt_ring_record *record, uint64_t size)
{
    char *line = (char *)record;
    for (uint64_t at = 0; at < size; at += MT_RING_LINE) {
        __atomic_store_n((uint64_t *)(line + at), 0, __ATOMIC_RELAXED);
    }
    r->head += size;
    if (mt_unlikely(r->head - r->told >= MT_RING_BYTES / 4)) {
        r->told = r->head;
        __atomic_store_n(&r->ring->head, r->head, __ATOMIC_SEQ_CST);
    }
}

#endif
