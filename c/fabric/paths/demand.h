/* demand.h: connections that are made when they are first used, so that a job of
 * thousands of ranks has queue pairs to those it talks to.
 *
 * Each side has one queue pair for a peer, and tells its address in a hello. Hellos
 * go by whatever the caller has for small messages (mail.h: datagrams); they may
 * be lost, come twice or late. One that nobody has acknowledged is repeated, for a
 * bounded number of times. Since there is one queue pair a side, requests that
 * cross are each other's answer: there is nothing to decide between them.
 *
 * A queue pair is given out once either side is known to be connected: nothing
 * that is posted runs into a peer that is not there yet.
 *
 * The life of a queue pair is a number that grows. A hello of an earlier life is
 * ignored; one of a later life says that the peer gave up the connection. */
#ifndef MPITRACE_FABRIC_PATHS_DEMAND_H
#define MPITRACE_FABRIC_PATHS_DEMAND_H

#include "paths.h"

enum { MT_DEMAND_VERSION = 1 };

struct mt_demand_options {
    uint32_t rank, size;
    struct mt_fabric_pd *pd;
    struct mt_fabric_qp_options rc; /* of each queue pair */
    /* Called for each in INIT, before its address is given away: to post
     * receives. NULL: nothing. */
    enum mt_status (*prepare)(void *user, uint32_t peer,
                              struct mt_fabric_qp *qp);
    /* Sends a message to be given to mt_demand_heard of the peer. MT_EAGAIN: not
     * now; it comes again. */
    enum mt_status (*carry)(void *user, uint32_t peer, const void *bytes,
                            uint32_t count);
    void *user;
    uint32_t retry_ms; /* until a hello is repeated; 0: 20 */
    /* Of those that left: doubles with each up to this; 0: it does not. */
    uint32_t retry_most_ms;
    uint32_t tries;    /* of hellos to a peer; 0: 100 */
    /* What went wrong. */
    void (*say)(void *user, const char *text);
    void *say_user;
};

/* What an application has a right to ask after. */
struct mt_demand_counts {
    uint64_t hellos;    /* sent, the first ones */
    uint64_t repeated;  /* sent again */
    uint64_t crossed;   /* of the peer, while ours was on its way */
    uint64_t stale;     /* of lives that are over */
    uint64_t malformed; /* not a hello, or not for this rank */
    uint64_t failed;    /* peers that did not answer, or could not be reached */
};

struct mt_demand_peer;

struct mt_demand {
    struct mt_demand_options o;
    struct mt_demand_counts counts;
    uint64_t last_life;
    uint32_t wanted; /* peers that hellos are repeated to */
    uint64_t next_ns; /* no hello is due before */
    struct mt_demand_peer *peers;
};

enum mt_status mt_demand_open(struct mt_demand *demand,
                              const struct mt_demand_options *options);
/* Destroys all queue pairs. */
void mt_demand_close(struct mt_demand *demand);

/* The queue pair to a peer. MT_EAGAIN: it is being connected, from now on at the
 * latest; ask again after progress. MT_ETIMEOUT: the peer does not answer;
 * MT_EPEER: it gave up the connection; MT_EVERSION: it speaks another version:
 * until mt_demand_drop. */
enum mt_status mt_demand_qp(struct mt_demand *demand, uint32_t peer,
                            struct mt_fabric_qp **qp_p);

/* A message of a peer came. Takes any bytes. */
void mt_demand_heard(struct mt_demand *demand, const void *bytes,
                     uint32_t count);

/* ... of a peer that is to have no connection now. The life to tell the peer of,
 * for mt_demand_asks there; 0: it was no hello. */
uint64_t mt_demand_life(struct mt_demand *demand, const void *bytes,
                        uint32_t count);
/* That the peer has been told, and not before: what its hello named is over. It may
 * come again, and means nothing then. */
void mt_demand_refused(struct mt_demand *demand, uint32_t peer, uint64_t life);
/* Whether this is the life of the queue pair that waits for the peer. */
bool mt_demand_asks(const struct mt_demand *demand, uint32_t peer,
                    uint64_t life);

/* Repeats what was not answered in time. For the caller's round of progress. */
void mt_demand_progress(struct mt_demand *demand);

/* Forgets a peer and destroys its queue pair: after an error, or to save memory.
 * The next use connects anew, of either side. */
void mt_demand_drop(struct mt_demand *demand, uint32_t peer);

#endif
