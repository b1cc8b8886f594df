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
    MT_SHM_VERSION = 2,
    MT_SHM_COPY = 8 << 10, /* payload of a record */
    MT_SHM_READS = 16,
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
    uint32_t number;
    uint32_t transport;
};

_Static_assert(sizeof(struct mt_shm_address) <= MT_FABRIC_ADDRESS_BYTES,
               "an address is carried whole");

struct mt_shm_pd {
    struct mt_fabric_pd base;
};

struct mt_shm_mr {
    struct mt_fabric_mr base;
    uint32_t index;
    void *arena; /* what was allocated, NULL if registered */
};

struct mt_shm_ah {
    struct mt_fabric_ah base;
    struct mt_shm_peer *peer;
    uint64_t offset; /* of the inbox */
    uint32_t number; /* of its queue pair */
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
    bool notified;      /* the peer was told that this side is gone */
    bool addressed;     /* its address was asked for: somebody may have it */
    struct mt_shm_peer *peer;
    struct mt_ring *ring; /* ours, that the peer writes */
    struct mt_ring_reader in;
    struct mt_ring_writer out;
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
    struct mt_ring *ring;
    struct mt_shm_peer *peer; /* NULL: never connected */
    bool addressed;
    struct mt_inbox *inbox; /* then there is no ring */
    uint32_t inbox_count;
};

struct mt_shm_context {
    struct mt_soft_context soft;
    struct mt_shm_arena arena;
    struct mt_shm_peer *peers[MT_SHM_PEERS];
    uint32_t peer_count;
    uint32_t next_region; /* where to look for a free one */
    int wake_fd;
    struct mt_shm_qp *live[MT_SHM_QPS]; /* connected queue pairs */
    uint32_t live_count, turn;
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

/* The peer got work: it may sleep. */
MT_INLINE void mt_shm_wake(struct mt_shm_context *context,
                           struct mt_shm_peer *peer, bool solicited)
{
    uint32_t s = __atomic_load_n(&peer->root->sleeping, __ATOMIC_RELAXED);
    if (mt_unlikely(s == MT_SHM_ASLEEP ||
                    (s == MT_SHM_ASLEEP_SOLICITED && solicited))) {
        mt_shm_wake_slow(context, peer);
    }
}

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
    return __atomic_load_n(&qp->ring->pulls, __ATOMIC_ACQUIRE) != 0;
}

/* Fails a queue pair, and tells the peer. */
void mt_shm_fail(struct mt_shm_qp *qp, struct mt_soft_work *failed,
                 enum mt_status status);

enum mt_status mt_shm_datagram(struct mt_shm_qp *qp, struct mt_soft_work *w);
bool mt_shm_take_datagrams(struct mt_shm_qp *qp);
enum mt_status mt_shm_inbox_open(struct mt_shm_context *context,
                                 struct mt_shm_qp *qp, uint32_t depth);
/* Nothing can be written there any more; false: not yet. */
bool mt_shm_inbox_sealed(struct mt_inbox *inbox, uint32_t count);
/* Now and then: passes over the datagram of a sender that died writing it. */
void mt_shm_inbox_look(struct mt_shm_qp *qp);

bool mt_shm_progress(struct mt_soft_context *context);

#endif
