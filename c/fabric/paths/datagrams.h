/* datagrams.h: messages to ranks over one UD queue pair, each once and in order,
 * for jobs that have no connection to everybody: a peer costs an address handle
 * and struct mt_datagrams_peer, and send and receive buffers are of the process.
 * Reliability as in Rashti 2010, 6.4.2 and 6.6.1 (sequence numbers, delayed
 * acknowledgements, time limits), and as TCP does it where that says nothing.
 *
 * A message is cut into packets, which have one sequence for each direction of a
 * pair of ranks. A packet is kept until it is acknowledged, and sent again when it
 * is overdue, or when the peer says that it has seen later ones; so what is sent
 * must be a copy. After options.tries times in a row the peer is given up.
 * Acknowledgements are cumulative. They travel in every packet; alone when a few
 * packets have come, a little later than the last one, or when a packet asks.
 * Packets that come early are held, where they were received, within a bound.
 *
 * All peers share this rank's receives and the transport's buffer behind them
 * (over iwarp: of the socket). Nobody counts what of it is free: each sender has a
 * window in bytes for each peer, small against that buffer, halves it when
 * something was lost and lets it grow again.
 *
 * The packets that are kept are of one pool. No peer holds more of it than is free
 * (Choudhury and Hahne 1998, dynamic thresholds): each who is silent leaves half of
 * what it found to the others. When several have brought that below a message, all
 * wait until one of them is heard or given up.
 *
 * That a datagram arrives as it was sent is the provider's business, which has a
 * checksum. What arrives is not trusted otherwise. It may be a stranger's: of another
 * job, to a queue pair that had the same number before. So a packet has a key, which
 * its receiver has drawn and told its peers; without it, it is thrown away. */
#ifndef MPITRACE_FABRIC_PATHS_DATAGRAMS_H
#define MPITRACE_FABRIC_PATHS_DATAGRAMS_H

#include "paths.h"

enum { MT_DATAGRAMS_HEAD = 24 }; /* of a packet, in front of its payload */

struct mt_datagrams_options {
    struct mt_fabric_pd *pd;
    struct mt_fabric_cq *send_cq, *receive_cq; /* with room for all that follows */
    uint32_t port;
    uint32_t headroom;     /* of the device: ud_headroom */
    uint32_t packet_bytes; /* at most ud_payload; the least of all ranks is taken */
    uint32_t message_bytes; /* longest message, the same on all ranks */
    uint32_t sends; /* packets that are kept or on their way, to all peers */
    uint32_t receives;
    uint32_t window_bytes; /* to a peer that are not acknowledged */
    uint32_t ack_every;    /* packets that are acknowledged together; 0: 8 */
    uint32_t ack_us;       /* how long one waits for more; 0: 500 */
    uint32_t retry_ms;     /* until a packet is sent again; doubles with each time
                            * up to 64 times this; 0: 10 */
    uint32_t tries;        /* until a peer is given up; 0: 100, which takes about a
                            * minute */
    /* A message came; not MT_OK: the peer is not to be trusted any more. Valid
     * until this returns. It may send. */
    enum mt_status (*came)(void *user, uint32_t rank, const void *bytes,
                           uint32_t count);
    void *user;
    /* What went wrong. */
    void (*say)(void *user, const char *text);
    void *say_user;
};

struct mt_datagrams_counts {
    uint64_t messages, packets; /* sent, once each */
    uint64_t repeated;          /* packets, again */
    uint64_t acknowledgements;  /* sent alone */
    uint64_t duplicates;        /* came again */
    uint64_t early;             /* came before one that was sent earlier */
    uint64_t malformed;         /* not ours, or of a stranger */
};

/* A list of packets, by number of their slot; UINT32_MAX: none. */
struct mt_datagrams_peer {
    struct mt_fabric_ah *ah;
    uint64_t key;            /* in what is sent to it */
    char *whole;             /* packets of a message that is not complete, */
    uint32_t whole_bytes;    /* so many bytes */
    uint32_t last;           /* sequence of the last packet, sent or not */
    uint32_t sent;           /* ... that was sent */
    uint32_t acknowledged;   /* ... that the peer has */
    uint32_t arrived;        /* ... that came from it, in order */
    uint32_t recover;        /* until this is acknowledged a loss goes on */
    uint32_t kept, kept_last; /* what the peer does not have yet, .. */
    uint32_t unsent;         /* .. the first of these that was never sent */
    uint32_t held;           /* receives: what came early, by sequence */
    uint32_t slots;          /* of sends */
    uint32_t queued, flying, window; /* bytes: kept, of these sent; limit */
    uint32_t owed;           /* packets that are not acknowledged to it */
    uint32_t tries;
    bool gap;                /* the next acknowledgement tells of one */
    bool ended;
    bool unreachable;        /* nothing can be posted to it */
    uint64_t due_ns, ack_due_ns, again_ns; /* 0: not */
};

struct mt_datagrams {
    struct mt_datagrams_options o;
    struct mt_datagrams_counts counts;
    uint32_t rank, size;
    uint64_t key; /* in what comes here */
    uint32_t slot_bytes; /* between packets in memory */
    uint32_t room; /* payload of a packet */
    uint32_t most; /* packets of a message */
    struct mt_fabric_qp *qp;
    struct mt_fabric_mr *sends, *receives;
    struct mt_datagrams_slot *slots; /* of sends */
    struct mt_datagrams_early *early; /* by receive */
    uint32_t free, free_count;       /* slots */
    uint32_t held_count;
    bool broken; /* the queue pair failed */
    char *stage; /* a message before it is cut */
    struct mt_whole *wholes; /* buffers that nobody needs now */
    struct mt_datagrams_peer *peers;
};

/* Exchanges addresses: all ranks call it, and each knows only how it went here.
 * MT_EINVAL: the numbers do not fit each other (a message must fit into half of
 * sends); MT_EPEER: another rank could not make its part. */
enum mt_status mt_datagrams_open(struct mt_datagrams *datagrams,
                                 const struct mt_datagrams_options *options,
                                 const struct mt_fabric_wireup *wireup);
void mt_datagrams_close(struct mt_datagrams *datagrams);

/* Room for a message, which the caller fills with up to options.message_bytes
 * (aligned to 8), and its sending, before anything else is reserved. MT_EAGAIN: no
 * room now; MT_EPEER. flags: MT_FABRIC_SOLICITED or 0. */
enum mt_status mt_datagrams_reserve(const struct mt_datagrams *datagrams,
                                    uint32_t rank, void **place_p);
enum mt_status mt_datagrams_commit(struct mt_datagrams *datagrams,
                                   uint32_t rank, uint32_t count,
                                   uint32_t flags);

/* Whether the peer has got, and its owner has been handed, all that was sent. */
MT_INLINE bool mt_datagrams_flushed(const struct mt_datagrams *datagrams,
                                    uint32_t rank)
{
    return datagrams->peers[rank].kept == UINT32_MAX;
}

/* A completion of kind MT_PATH_PACKET. MT_EPEER: the queue pair is broken, and
 * with it what is under way to and from all peers. */
enum mt_status mt_datagrams_done(struct mt_datagrams *datagrams,
                                 const struct mt_fabric_completion *c);
/* A completion of kind MT_PATH_PACKET_IN. *rank_p: of whom; UINT32_MAX: of
 * nobody, or as above. Not MT_OK: that peer broke the rules, or there is no memory
 * (of came). */
enum mt_status mt_datagrams_received(struct mt_datagrams *datagrams,
                                     const struct mt_fabric_completion *c,
                                     uint32_t *rank_p);

/* What is due to a peer. For the caller's round of progress as long as it says
 * MT_EAGAIN; MT_OK: nothing is under way either way; MT_EPEER: it was given up. */
enum mt_status mt_datagrams_serve(struct mt_datagrams *datagrams,
                                  uint32_t rank);
/* When that has to be called at the latest (mt_path_now_ns); UINT64_MAX: after
 * something has come. */
uint64_t mt_datagrams_due(const struct mt_datagrams *datagrams, uint32_t rank);

/* Buffers for all peers; 0: it is not open. */
uint64_t mt_datagrams_bytes(const struct mt_datagrams *datagrams);

/* Forgets what is under way; nothing of this peer is taken any more. */
void mt_datagrams_end(struct mt_datagrams *datagrams, uint32_t rank);

#endif
