/* reads.h: READs of a queue pair, of which a device carries out only so many at
 * once. A READ takes a token; without one it waits in a queue, which is served
 * before any new READ (Sur and others, PPoPP 2006). Nothing is allocated: the
 * caller lends each READ's struct until it is done. */
#ifndef MPITRACE_FABRIC_PATHS_READS_H
#define MPITRACE_FABRIC_PATHS_READS_H

#include "paths.h"

/* One READ: filled by the caller but for next. */
struct mt_read {
    struct mt_read *next;
    struct mt_fabric_piece piece;
    uint64_t remote_address;
    uint32_t rkey;
    uint32_t flags; /* MT_FABRIC_FENCE; SIGNALED is added */
    void *user;
};

struct mt_reads {
    struct mt_fabric_qp *qp;
    uint32_t tokens; /* left */
    uint32_t limit;
    uint32_t waiting;
    struct mt_read *first, **last;
};

/* limit: that the queue pair was made with (struct mt_fabric_qp_options.reads),
 * at least 1. */
enum mt_status mt_reads_open(struct mt_reads *reads, struct mt_fabric_qp *qp,
                             uint32_t limit);

/* Takes a READ, which begins now or later. Errors (MT_EINVAL, MT_ESTATE): it
 * was not taken. */
enum mt_status mt_reads_post(struct mt_reads *reads, struct mt_read *read);

/* A completion of kind MT_PATH_READ: the READ that is done, whatever its
 * status; gives its token to the next. After an error the others come back,
 * flushed, in the same way. */
struct mt_read *mt_reads_done(struct mt_reads *reads,
                              const struct mt_fabric_completion *c);

/* Begins what waits, as far as tokens and room go: after MT_EAGAIN of others on
 * the queue. */
enum mt_status mt_reads_flush(struct mt_reads *reads);

/* Takes the first of those that wait back, of which there are some: where the queue pair
 * has failed, and its device refuses to flush what is posted to it. */
struct mt_read *mt_reads_take(struct mt_reads *reads);

#endif
