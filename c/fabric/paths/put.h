/* put.h: data into the memory of a peer, and a notice behind it: a sequence
 * number, one higher with each put.
 *
 * The notice is a work request of its own on the same queue pair, in the way
 * that the device can (enum mt_fabric_notify): 8 aligned bytes written into a
 * flag that the target polls; the immediate of the WRITE; or a SEND of 8 bytes.
 * The last two take a receive at the target, which posts a window of them: what
 * the target allows (mt_put_target_allows) must come back to the source by some
 * message (mt_put_allow) before it may put more. */
#ifndef MPITRACE_FABRIC_PATHS_PUT_H
#define MPITRACE_FABRIC_PATHS_PUT_H

#include "paths.h"

/* The best way that a device has. 0: it has none. */
enum mt_fabric_notify mt_put_choose(const struct mt_fabric_caps *caps);

struct mt_put_options {
    enum mt_fabric_notify how;
    struct mt_fabric_pd *pd;
    struct mt_fabric_qp *qp; /* RC */
    uint32_t depth;          /* of its send queue */
    uint32_t inline_bytes;   /* that it was made with */
    uint64_t flag_address;   /* FLAG_WRITE: of 8 bytes at the peer, zero now */
    uint32_t flag_rkey;
    uint32_t window; /* else: receives of the target */
};

/* The side that puts. */
struct mt_put {
    struct mt_put_options o;
    uint64_t sequence; /* of the last put; the first is 1 */
    uint64_t allowed;  /* highest sequence that there is a receive for */
    bool owes;         /* the data of the last put is posted, its notice not */
    uint64_t owed_id;
    uint32_t owed_flags;
    struct mt_fabric_mr
        *words; /* notices, where the device cannot inline them */
};

enum mt_status mt_put_open(struct mt_put *put,
                           const struct mt_put_options *options);
/* When nothing of it is posted any more. */
void mt_put_close(struct mt_put *put);

struct mt_put_work {
    uint64_t value; /* comes back in the completion: mt_path_value */
    uint32_t flags; /* SIGNALED, INLINE, FENCE, SOLICITED */
    uint32_t piece_count;
    const struct mt_fabric_piece *pieces;
    uint64_t remote_address;
    uint32_t rkey;
};

/* Takes a put, whose number is put->sequence then. MT_EAGAIN: the queue is
 * full, or the window; nothing was taken. Its notice may have to wait for room
 * (put->owes): mt_put_flush, or the next put, posts it. Signaled, it completes
 * once, as MT_PATH_PUT, when data and notice have. */
enum mt_status mt_put_post(struct mt_put *put, const struct mt_put_work *work);

/* MT_OK: no notice is owed. */
enum mt_status mt_put_flush(struct mt_put *put);

MT_INLINE void mt_put_allow(struct mt_put *put, uint64_t sequence)
{
    put->allowed = sequence > put->allowed ? sequence : put->allowed;
}

/* The side that is put to. */
struct mt_put_target {
    enum mt_fabric_notify how;
    uint32_t window;
    const uint64_t *flag; /* FLAG_WRITE: the word that the source was told */
    uint64_t seen;        /* else: highest sequence that a notice brought */
    struct mt_fabric_qp *qp;
    struct mt_fabric_mr *words; /* SEND */
};

/* Posts the receives of the window. flag: allocated or registered memory that
 * the source may write, or NULL where how has none. */
enum mt_status mt_put_target_open(struct mt_put_target *target,
                                  const struct mt_put_options *options,
                                  const uint64_t *flag);
void mt_put_target_close(struct mt_put_target *target);

/* A completion of kind MT_PATH_NOTICE: takes the notice, and posts its receive
 * again. MT_EPEER: nonsense. */
enum mt_status mt_put_target_noticed(struct mt_put_target *target,
                                     const struct mt_fabric_completion *c);

/* The highest sequence that the source may put now. */
MT_INLINE uint64_t mt_put_target_allows(const struct mt_put_target *target)
{
    return target->how == MT_FABRIC_NOTIFY_FLAG_WRITE
               ? UINT64_MAX
               : target->seen + target->window;
}

/* Whether all puts up to this one are here. Pairs with the flag's WRITE: a number
 * of which only the first bytes are seen yet is less than all of it. */
MT_INLINE bool mt_put_target_test(const struct mt_put_target *target,
                                  uint64_t sequence)
{
    uint64_t seen = target->how == MT_FABRIC_NOTIFY_FLAG_WRITE
                        ? __atomic_load_n(target->flag, __ATOMIC_ACQUIRE)
                        : target->seen;
    return seen >= sequence;
}

#endif
