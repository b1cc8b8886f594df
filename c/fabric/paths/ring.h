/* ring.h: messages by WRITE into a ring in the memory of a peer, which polls
 * it. One side of a queue pair writes, the other reads.
 *
 * A message begins at a line of 64 bytes with a flag of 8 bytes, which says that it is
 * there, in which lap of the ring (one of two that take turns), whether the lap ends behind
 * it, and how long it is. The flag is a WRITE of its own behind the message, so it is seen
 * after it (MT_FABRIC_NOTIFY_FLAG_WRITE); no receive is taken and no completion is made at
 * the reader. In the next lap it is no flag any more, so it can stay, and a message of one
 * line is read without a store there: its line would go from the writer's processor to the
 * reader's twice. Of longer messages the reader zeroes the first word of each line but the
 * first, and where a lap ends before the end of the ring, of each line behind that which the
 * lap before had reached: so what lies ahead of the writer is never taken for a flag. Then
 * it gives the room back: by a WRITE of how much it has read in all into a word of the
 * writer's: for a quarter of the ring where that leaves with a message the other way, or
 * there is nothing else to do, and for half of it in any case. Where it can store that word
 * itself, it does so more often while laps are short.
 *
 * Messages that are expected to be followed by others at once may be held back, to
 * leave together: two WRITEs for all of them, that of the first one's flag the last,
 * before which the reader looks at none (message coalescing).
 *
 * Where the writer can store into the ring itself (mt_fabric_remote_pointer), it does:
 * nothing is posted, nor held back. As long as the reader keeps up, it begins a new lap
 * long before the end of the ring: few lines stay in the caches nearest to both
 * processors. A lap in which room runs out, or which cannot end, makes those to come twice
 * as long, and many without that, half as long.
 *
 * The writer never waits for room: without any its message takes another way. */
#ifndef MPITRACE_FABRIC_PATHS_RING_H
#define MPITRACE_FABRIC_PATHS_RING_H

#include "paths.h"

enum {
    MT_PATH_RING_LINE = 64,
    MT_PATH_RING_FLAG = 8,
    MT_PATH_RING_COMPLETES = 16, /* of so many flags one completes, for all */
    MT_PATH_RING_WORDS = MT_PATH_RING_LINE / 8, /* and of so many words */
    MT_PATH_RING_LEAST = 4096,
    MT_PATH_RING_MOST = 64 << 20,
    MT_PATH_RING_LAP_LEAST = MT_PATH_RING_LEAST, /* of one that ends early, .. */
    MT_PATH_RING_CALM = 16 << 20, /* .. and after so many bytes half may do */
};

/* Of a flag the lower half is the length of the message. Of the upper half, which is seen
 * last where a flag is not seen whole, the two lowest bits are 1 in one lap of the ring
 * and 2 in the next, in turn; the next two say that the lap ends there (ring.c). */
#define MT_PATH_RING_FIRST_LAP (UINT64_C(1) << 32)
#define MT_PATH_RING_LAPS (UINT64_C(3) << 32)

MT_INLINE bool mt_path_ring_right(uint64_t bytes)
{
    return bytes >= MT_PATH_RING_LEAST && bytes <= MT_PATH_RING_MOST &&
           bytes % MT_PATH_RING_LINE == 0;
}

/* What a message of so many bytes takes. */
MT_INLINE uint64_t mt_path_ring_lines(uint64_t bytes)
{
    return (bytes + MT_PATH_RING_FLAG + MT_PATH_RING_LINE - 1) /
           MT_PATH_RING_LINE * MT_PATH_RING_LINE;
}

struct mt_path_ring_writer {
    struct mt_fabric_qp *qp;
    struct mt_fabric_mr *memory; /* a line with the reader's word, and unless
                                  * shared what is to be written, as it lies in
                                  * the ring */
    bool shared;                 /* messages are stored into the ring itself */
    char *place;                 /* where they are put together: there, or in
                                  * memory */
    uint64_t bytes;
    uint64_t remote_address; /* of the ring */
    uint32_t rkey;
    uint32_t silent;            /* flags since the last one that completes */
    uint32_t posted, completed; /* of those that complete */
    uint64_t tail; /* bytes committed so far */
    uint64_t at;   /* the same in the ring */
    uint64_t lap;  /* of MT_PATH_RING_LAPS */
    uint64_t head; /* read so far, as last seen */
    uint64_t span; /* shared: beyond so much of the ring, a lap is to end early */
    uint64_t calm; /* of the laps since that was too little; 0: in this one it was */
    uint32_t held; /* messages that are committed and not posted, or not whole */
    uint64_t first, end; /* of these, in the ring: where the first one begins and
                          * the last one's part in the copy ends */
    struct mt_path_rest rest; /* of the last one; no bytes: there is none */
    bool moved; /* they are posted, but for the first one's flag */
    bool owes;  /* they would be, but for room in the send queue, or an error */
};

/* bytes: of the ring, as the reader made it, which it keeps for longer than this side
 * writes. rests: there will be some, so that messages are to be posted. MT_ENOMEM,
 * MT_EPERM: limits. */
enum mt_status mt_path_ring_writer_open(struct mt_path_ring_writer *w,
                                        struct mt_fabric_pd *pd,
                                        struct mt_fabric_qp *qp,
                                        uint64_t remote_address, uint32_t rkey,
                                        uint64_t bytes, bool rests);
/* When nothing of it is posted any more. */
void mt_path_ring_writer_close(struct mt_path_ring_writer *w);

/* Room for a message of so many bytes (aligned to 8); NULL: not now. Room that
 * is not committed is given again, and must not have been written to. */
void *mt_path_ring_reserve(struct mt_path_ring_writer *w, uint64_t bytes);
/* Sends the first bytes of what was reserved, and the rest (NULL: none), for which
 * there must be room as well. Unless it says MT_OK it was not taken. It may have to
 * wait for room in the send queue (w->owes): what must not overtake the message waits
 * for mt_path_ring_flush. hold: it waits for that, or for the next message that is not
 * to be held, or for the end of the ring; without a rest. */
enum mt_status mt_path_ring_commit(struct mt_path_ring_writer *w,
                                   uint64_t bytes,
                                   const struct mt_path_rest *rest, bool hold);
/* Sends what is held. MT_OK: nothing is, any more. */
enum mt_status mt_path_ring_flush(struct mt_path_ring_writer *w);

/* Bytes of the ring that what is held takes. */
MT_INLINE uint64_t mt_path_ring_holds(const struct mt_path_ring_writer *w)
{
    return w->held > 0 ? w->end - w->first : 0;
}

/* A completion of kind MT_PATH_RING: of one message in so many, or of one that
 * failed, and after that nothing is awaited. */
MT_INLINE enum mt_status
mt_path_ring_written(struct mt_path_ring_writer *w,
                     const struct mt_fabric_completion *c)
{
    w->completed = c->status == MT_OK ? w->completed + 1 : w->posted;
    return c->status;
}

MT_INLINE bool mt_path_ring_writing(const struct mt_path_ring_writer *w)
{
    return w->owes || w->posted != w->completed;
}

struct mt_path_ring_reader {
    struct mt_fabric_qp *qp;
    struct mt_fabric_mr *memory; /* the ring, and a line behind it of words to be
                                  * written back: one is used again when the last
                                  * of the line has completed */
    uint64_t bytes;
    uint64_t word_address; /* at the writer; 0: it has not said yet */
    uint32_t word_rkey;
    uint64_t *word; /* the same, to be stored to; NULL: it is written to */
    char *ring;
    uint64_t head;  /* bytes read so far */
    uint64_t at;    /* the same in the ring */
    uint64_t lap;   /* of MT_PATH_RING_LAPS */
    uint64_t reached; /* from there on no line begins with a flag of a lap before, or of
                       * what was read */
    bool last;      /* the message that was looked at ends its lap */
    uint64_t told;  /* that the writer knows of, or will */
    uint64_t part;  /* of so many more bytes it is told */
    uint32_t words; /* since the last one that completes */
    bool telling;   /* that one's WRITE has not completed */
};

enum mt_status mt_path_ring_reader_open(struct mt_path_ring_reader *r,
                                        struct mt_fabric_pd *pd,
                                        struct mt_fabric_qp *qp,
                                        uint64_t bytes);
void mt_path_ring_reader_close(struct mt_path_ring_reader *r);

/* Whether something is there, or was until another thread took it, who may be about to
 * begin the next lap. Pairs with the WRITE of its flag. */
MT_INLINE bool mt_path_ring_waits(const struct mt_path_ring_reader *r)
{
    uint64_t at = __atomic_load_n(&r->at, __ATOMIC_RELAXED);
    uint64_t flag = __atomic_load_n((const uint64_t *)(r->ring + at),
                                    __ATOMIC_ACQUIRE);
    return (flag & MT_PATH_RING_LAPS) ==
           __atomic_load_n(&r->lap, __ATOMIC_RELAXED);
}

/* The oldest message. MT_EAGAIN: there is none; MT_EPEER: what is there cannot
 * be. The writer may change it at any time. */
enum mt_status mt_path_ring_peek(struct mt_path_ring_reader *r,
                                 const void **message_p, uint32_t *bytes_p);

/* Gives the oldest message back, of so many bytes. */
void mt_path_ring_drop(struct mt_path_ring_reader *r, uint32_t bytes);

/* Where the writer has said that it wants to be told, in memory from
 * mt_fabric_mr_allocate. */
void mt_path_ring_word(struct mt_path_ring_reader *r, uint64_t address,
                       uint32_t rkey);

/* Whether so many parts were read that the writer does not know of, and can be told. */
MT_INLINE bool mt_path_ring_owes(const struct mt_path_ring_reader *r,
                                 uint64_t parts)
{
    return r->head - r->told >= parts * r->part && r->word_address != 0 &&
           !r->telling;
}
/* Whether it is time to tell it where that leaves with something else, .. */
MT_INLINE bool mt_path_ring_owing(const struct mt_path_ring_reader *r)
{
    return mt_path_ring_owes(r, 1);
}
/* .. and whether to do so at once, for it may run out of room. */
MT_INLINE bool mt_path_ring_late(const struct mt_path_ring_reader *r)
{
    return mt_path_ring_owes(r, 2);
}
/* Tells it. flags: MT_FABRIC_MORE or 0. MT_EAGAIN: not now. */
enum mt_status mt_path_ring_tell(struct mt_path_ring_reader *r, uint32_t flags);
/* A completion of kind MT_PATH_RING_TOLD. */
MT_INLINE enum mt_status mt_path_ring_told(struct mt_path_ring_reader *r,
                                           const struct mt_fabric_completion *c)
{
    r->telling = false;
    return c->status;
}

#endif
