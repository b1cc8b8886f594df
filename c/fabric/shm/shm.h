/* shm.h: the provider inside one node. Processes share an arena each (arena.h);
 * a connected queue pair has a ring in the arena of either side (ring.h), into
 * which the other side writes.
 *
 * Who moves the bytes:
 *   up to MT_SHM_COPY    the sender, into the ring
 *   larger SENDs         the receiver, straight from the sender's memory with
 *                        process_vm_readv, once a receive is posted
 *   WRITE, READ          the poster, by plain stores where the target memory is
 *                        in the arena, else with process_vm_writev and readv;
 *                        with engine=peer the target, when it polls
 * and through the ring in parts, two copies, where the kernel does not allow
 * one process to read another's memory.
 *
 * UD: all senders write into one inbox of the receiving queue pair (inbox.h), so
 * that neither memory nor the cost of polling grow with the peers. A full inbox
 * drops the datagram. */
#ifndef MPITRACE_FABRIC_SHM_H
#define MPITRACE_FABRIC_SHM_H

#include "../soft/soft.h"
#include "arena.h"
#include "inbox.h"
#include "ring.h"

enum {
    MT_SHM_VERSION = 6,
    MT_SHM_COPY = 8 << 10, /* payload of a record */
    MT_SHM_READS = 16,
    MT_SHM_AT_ONCE = 4 << 20, /* bytes copied between two looks at who is gone */
    MT_SHM_QPS = 4096,
    MT_SHM_CHANNELS = 16,
    MT_SHM_RECENT = 4,
    MT_SHM_TURNS = 64,  /* queue pairs looked at in one round, besides */
    MT_SHM_OTHERS = 2,  /* of them, however much the recent ones move */
    MT_SHM_IDLE = 63,   /* rounds that one counts for in which nothing moved */
};

enum mt_shm_kind {
    MT_SHM_REST = 0,     /* of the ring: go to its start */
    MT_SHM_SEND,         /* payload, or a part of it */
    MT_SHM_SEND_PULL,    /* the payload is the list of pieces to fetch */
    MT_SHM_IMM,          /* a WRITE_WITH_IMM whose data is there */
    MT_SHM_WRITE,        /* payload for an address, or a part of it */
    MT_SHM_WRITE_PULL,   /* for an address, to be fetched from the pieces */
    MT_SHM_READ,         /* asks for DATA */
    MT_SHM_READ_PUSH,    /* asks to be written into the pieces */
    MT_SHM_DATA,         /* answer to READ, or a part of it */
};

enum mt_shm_record_flag {
    MT_SHM_FIRST = 1,
    MT_SHM_LAST = 2,
    MT_SHM_SOLICIT = 4,
    MT_SHM_HAS_IMM = 8,
};

/* What an address holds; the rest of struct mt_fabric_address is zero. */
struct mt_shm_address {
    char provider[4]; /* "shm" */
    uint32_t version;
    struct mt_shm_identity identity;
    uint64_t offset; /* RC: of the ring; UD: of the inbox, in the arena */
    uint64_t life;   /* of it */
    uint32_t transport;
    uint32_t reserved;
};

/* In every life, and in no pid. */
#define MT_SHM_LIFE (UINT64_C(1) << 63)

_Static_assert(sizeof(struct mt_shm_address) <= MT_FABRIC_ADDRESS_BYTES,
               "an address is carried whole");

struct mt_shm_mr {
    struct mt_fabric_mr base;
    uint32_t index;
    bool shared; /* peers may touch it */
    void *arena; /* what was allocated, NULL if registered */
};

struct mt_shm_ah {
    struct mt_fabric_ah base;
    struct mt_shm_peer *peer;
    uint64_t offset; /* of the inbox */
    uint32_t life;   /* of it */
};

/* A READ of the peer that is being answered in parts. */
struct mt_shm_answer {
    uint64_t work, address, bytes, moved;
    uint32_t rkey;
};

struct mt_shm_qp {
    struct mt_soft_qp soft;
    uint32_t place;     /* in context->live, if is_live */
    bool is_live;
    bool is_recent;     /* in context->recent */
    bool parted;        /* the peer was told that this side is gone */
    bool joined;        /* the peer is connected, as far as was seen */
    struct mt_shm_peer *peer;
    struct mt_ring *ring; /* ours, that the peer writes */
    uint64_t life;        /* of it, or of the inbox */
    struct mt_ring_reader in;
    struct mt_ring_writer out;
    struct mt_ring *lane; /* ours, for answers to our READs; NULL: none needed */
    struct mt_ring_reader lane_in;
    struct mt_ring_writer lane_out; /* to that of the peer; ring NULL: not yet */
    uint64_t orders;    /* given to the peer: each is done in turn */
    uint64_t received;  /* bytes of the message that is coming in parts ... */
    bool receiving;     /* ... into this receive */
    struct mt_soft_receive current;
    struct mt_shm_answer answers[MT_SHM_READS];
    uint32_t answer_head, answer_tail;
    /* UD */
    struct mt_inbox *inbox; /* in the arena */
    uint32_t inbox_count;   /* its cells: the number there is anybody's to write */
    uint64_t inbox_head;    /* the cell that is read next */
    uint64_t inbox_stuck;   /* word of a cell that was claimed at the last look */
};

/* A ring or an inbox of a queue pair that is gone: a peer may still write to
 * it. */
struct mt_shm_grave {
    struct mt_shm_grave *next;
    struct mt_ring *ring, *lane;
    struct mt_shm_peer *peer; /* NULL: this side was never connected */
    struct mt_inbox *inbox; /* then there is no ring */
    uint32_t inbox_count;
};

struct mt_shm_context {
    struct mt_soft_context soft;
    struct mt_shm_arena arena;
    struct mt_shm_peer *peers[MT_SHM_PEERS];
    uint32_t peer_count;
    uint64_t lives;       /* of rings and inboxes so far */
    uint32_t next_region; /* where to look for a free one */
    uint32_t next_peer; /* to be asked what it runs */
    bool barriers;      /* it can make every processor pass one */
    uint32_t barrier;   /* where there is none: a word to be exchanged */
    int wake_fd;
    struct mt_shm_qp *live[MT_SHM_QPS]; /* connected queue pairs */
    uint32_t live_count, turn;
    uint32_t unseen; /* of them, by progress since the latest arming */
    struct mt_shm_qp *recent[MT_SHM_RECENT];
    uint32_t recent_turn;
    struct mt_shm_grave *graves;
    uint32_t rounds; /* since the peers were looked after */
    uint64_t looked_ns;
    struct mt_soft_channel *channels[MT_SHM_CHANNELS]; /* watch new peers, too */
    uint32_t region_turns[MT_SHM_REGIONS]; /* uses of each entry so far */
};

MT_INLINE struct mt_shm_context *mt_shm_context_of(const struct mt_shm_qp *qp)
{
    return (struct mt_shm_context *)mt_soft_context_of(&qp->soft);
}

/* ---- peers (peers.c) ---- */

/* The peer of this identity, known or opened now; give it back. */
enum mt_status mt_shm_peer_get(struct mt_shm_context *context,
                               const struct mt_shm_identity *identity,
                               struct mt_shm_peer **peer_p);
void mt_shm_peer_put(struct mt_shm_context *context, struct mt_shm_peer *peer);

/* The memory behind an rkey of the peer. offset_p: in its arena, 0: elsewhere.
 * MT_EACCESS: there is none, or not with this access. */
enum mt_status mt_shm_region_find(const struct mt_shm_root *root, uint32_t rkey,
                                  uint64_t address, uint64_t bytes,
                                  uint32_t access, uint64_t *offset_p);

void mt_shm_wake_slow(struct mt_shm_context *context, struct mt_shm_peer *peer);

/* ---- memory of others ----
 *
 * A process that reads or writes memory of a peer (by an rkey, or by an order of
 * it) says so in its own arena first, and then looks whether it still may: the
 * region's key, whether the other side gave up or is gone. Who takes one of these
 * away makes every processor pass a barrier and then waits for whoever it finds
 * in the middle. So the copying side pays two stores into a line of its own.
 *
 * Regions of the process's own memory come and go with each message, and a copy
 * from or to one is a system call: who makes it names the region, has a barrier
 * itself, and looks once more; their owner has none and waits for those alone who
 * name what it takes away. */

/* Of the word: odd, the region that is named or 0, and how often. */
enum { MT_TOUCH_NAME = 1, MT_TOUCH_TURN = 33 };

MT_INLINE uint64_t mt_touch_turn(uint64_t word)
{
    return word >> MT_TOUCH_TURN;
}

MT_INLINE uint32_t mt_touch_name(uint64_t word)
{
    return word % 2 != 0 ? (uint32_t)(word >> MT_TOUCH_NAME) : 0;
}

MT_INLINE void mt_shm_touch(struct mt_shm_context *context,
                            const struct mt_shm_peer *peer)
{
    uint64_t *touching = &context->arena.root->touching;
    if (mt_likely(peer->light)) {
        /* pairs with the barrier of mt_shm_untouched */
        __atomic_store_n(touching, *touching + 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        __atomic_add_fetch(touching, 1, __ATOMIC_SEQ_CST);
    }
}

/* Between mt_shm_touch and a second look at the region. */
MT_INLINE void mt_shm_name(struct mt_shm_context *context, uint32_t rkey)
{
    /* pairs with the barrier of mt_shm_unnamed */
    __atomic_add_fetch(&context->arena.root->touching,
                       (uint64_t)rkey << MT_TOUCH_NAME, __ATOMIC_SEQ_CST);
}

MT_INLINE void mt_shm_touched(struct mt_shm_context *context)
{
    uint64_t *touching = &context->arena.root->touching;
    uint64_t turn = mt_touch_turn(*touching) + 1;
    __atomic_store_n(touching, turn << MT_TOUCH_TURN, __ATOMIC_RELEASE);
}

/* Waits until a peer (NULL: each) has come out of what it was in. false: one
 * did not in time, which is said. */
bool mt_shm_untouched(struct mt_shm_context *context, struct mt_shm_peer *peer);
/* ... until each has come out of a region that is not in the arena, whose key is
 * no longer there. */
bool mt_shm_unnamed(struct mt_shm_context *context, uint32_t rkey);

/* The peer got work: it may sleep. */
MT_INLINE void mt_shm_wake(struct mt_shm_context *context,
                           struct mt_shm_peer *peer, bool solicited)
{
    if (mt_unlikely(!peer->light)) { /* its barrier does not reach here */
        __atomic_add_fetch(&context->barrier, 1, __ATOMIC_SEQ_CST);
    }
    /* sequential for that exchange: a plain load on x86 */
    uint32_t s = __atomic_load_n(&peer->root->sleeping, __ATOMIC_SEQ_CST);
    if (mt_unlikely(s == MT_SHM_ASLEEP ||
                    (s == MT_SHM_ASLEEP_SOLICITED && solicited))) {
        mt_shm_wake_slow(context, peer);
    }
}

/* There was no address space to map what that process shares. */
void mt_shm_say_space(const struct mt_fabric_options *options, uint64_t bytes,
                      int pid);
/* Looks now and then for peers that died, and buries what they used. */
void mt_shm_look_after(struct mt_shm_context *context);

/* ---- data (send.c, receive.c, ud.c) ---- */

void mt_shm_push(struct mt_soft_qp *qp);
enum mt_status mt_shm_post_send(struct mt_fabric_qp *qp,
                                const struct mt_fabric_send *work);
/* Sends parts of answers; true if something moved. */
bool mt_shm_answer(struct mt_shm_qp *qp);
/* Marks the sends whose orders the peer has carried out. */
void mt_shm_settle(struct mt_shm_qp *qp);
/* Takes what came in; true if something did. */
bool mt_shm_take(struct mt_shm_qp *qp);
/* Whether the peer can reach our memory, and so be given orders. */
MT_INLINE bool mt_shm_pulls(const struct mt_shm_qp *qp)
{
    return __atomic_load_n(&qp->ring->joined, __ATOMIC_ACQUIRE) ==
           MT_RING_PULLS;
}

/* Whether the peer is connected, so that its memory may be touched. */
MT_INLINE bool mt_shm_joined(struct mt_shm_qp *qp)
{
    if (mt_unlikely(!qp->joined)) {
        qp->joined = __atomic_load_n(&qp->ring->joined, __ATOMIC_ACQUIRE) !=
                     MT_RING_ALONE;
    }
    return qp->joined;
}

/* This side is over, because of why: tells the peer, and waits until it touches
 * nothing here any more. Then what is posted may be given back. */
void mt_shm_part(struct mt_shm_qp *qp, enum mt_status why);

/* Fails a queue pair, and tells the peer. */
void mt_shm_fail(struct mt_shm_qp *qp, struct mt_soft_work *failed,
                 enum mt_status status);

enum mt_status mt_shm_datagram(struct mt_shm_qp *qp, struct mt_soft_work *w);
bool mt_shm_take_datagrams(struct mt_shm_qp *qp);
enum mt_status mt_shm_inbox_open(struct mt_shm_context *context,
                                 struct mt_shm_qp *qp, uint32_t depth);
/* Nothing can be written there any more; false: not yet. */
bool mt_shm_inbox_sealed(struct mt_inbox *inbox, uint32_t count);
/* Whether a process is no more; a new one may have its number, and then it takes
 * until that is over. */
bool mt_shm_pid_died(int32_t pid);
/* Now and then: passes over the datagram of a sender that died writing it. */
void mt_shm_inbox_look(struct mt_shm_qp *qp);

bool mt_shm_progress(struct mt_soft_context *context);

#endif
