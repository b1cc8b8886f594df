/* fabric.h: message transport in the shape of verbs. Names and meanings are
 * those of libibverbs (rdma-core; InfiniBand Architecture Specification 1.5,
 * chapters 9 to 11; iWARP: RFC 5040, 5041), so that a path written against a
 * real device runs unchanged over the software providers of c/fabric/.
 *
 * Nothing here knows MPI. What differs between devices is a capability
 * (struct mt_fabric_caps) and never a surprise: a path asks first.
 *
 * Objects belong to a context (an opened device) and are destroyed in the
 * reverse order of their making; destroying one that is in use gives MT_ESTATE.
 *
 * Threads. Functions may be called from several threads if the context was
 * opened with threads = true, else from one at a time. None of them blocks but
 * those whose name says wait.
 *
 * Memory. Posting and polling neither allocate nor log.
 *
 * Processes. A context belongs to the process that opened it. In a child made by
 * fork(3) every function of it does nothing and says MT_ESTATE, or that there is
 * no completion; the child may open contexts of its own. One that execs is gone
 * for its peers, as one that dies is. (Children made by the bare system call must
 * not use it.)
 *
 * The end. Destroying or failing a queue pair is at once: what was posted and has
 * not completed may have taken effect at the peer or not, and a SEND that
 * completed is lost if the peer had posted no receive for it yet. So who wants to
 * know ends with a message that the peer answers. After mt_fabric_qp_destroy and
 * mt_fabric_qp_fail nothing that was posted is read or written any more, by
 * nobody. (But for a packet that Soft-RoCE copies on another processor at that
 * moment: Linux 6.1 does not wait for it when a queue pair is failed.) After
 * mt_fabric_mr_destroy no peer reaches the region; work that was posted, a receive
 * too, must not name it any more, since a software provider looks at local keys
 * when work is posted, if at all. */
#ifndef MPITRACE_FABRIC_H
#define MPITRACE_FABRIC_H

#include "base.h"
#include "status.h"

struct mt_fabric_context;
struct mt_fabric_pd;
struct mt_fabric_ah;
struct mt_fabric_cq;
struct mt_fabric_srq;
struct mt_fabric_qp;
struct mt_fabric_channel;

/* ---- devices ---- */

enum { MT_FABRIC_NAME_BYTES = 64, MT_FABRIC_ADDRESS_BYTES = 128 };

enum mt_fabric_transport { MT_FABRIC_RC = 1, MT_FABRIC_UD = 2 };

enum mt_fabric_opcode {
    MT_FABRIC_SEND = 1,
    MT_FABRIC_WRITE = 2,
    MT_FABRIC_WRITE_WITH_IMM = 4,
    MT_FABRIC_READ = 8,
    MT_FABRIC_RECEIVE = 16, /* in completions only */
};

/* How the target of a WRITE may learn that it has arrived. */
enum mt_fabric_notify {
    /* by polling memory from mt_fabric_mr_allocate: a later WRITE of 8 aligned
     * bytes on the same queue pair is not seen before what was written ahead of
     * it. Its bytes may be seen one by one, the first one first: Soft-RoCE copies
     * them so on some processors */
    MT_FABRIC_NOTIFY_FLAG_WRITE = 1,
    MT_FABRIC_NOTIFY_IMM = 2,  /* by WRITE_WITH_IMM, which takes a receive */
    MT_FABRIC_NOTIFY_SEND = 4, /* by a SEND behind it on the same queue pair */
};

struct mt_fabric_caps {
    uint32_t transports;     /* enum mt_fabric_transport, or-ed */
    uint32_t rc_operations;  /* enum mt_fabric_opcode, or-ed */
    uint32_t ud_operations;
    uint32_t notify;         /* enum mt_fabric_notify, or-ed */
    uint32_t max_pieces;     /* of a gather or scatter list */
    uint32_t max_inline;     /* bytes copied while posting */
    uint32_t max_reads;      /* outstanding READs that a queue pair can have */
    uint32_t max_depth;      /* work requests of a queue */
    uint32_t max_qps;
    uint64_t max_message;    /* bytes of one work request on RC */
    uint32_t ud_payload;     /* bytes of one datagram on UD; a peer whose port
                              * takes fewer is sent no more: MT_EINVAL */
    uint32_t ud_headroom;    /* bytes in front of the payload in a UD receive */
    bool srq;
    bool events;             /* completion channels */
    bool waits_for_receive;  /* RC: a SEND without a receive waits (RNR retry);
                              * false: it breaks the connection, as iWARP does */
    bool writes_need_polls;  /* WRITEs of peers land only while somebody polls
                              * here, or an engine thread does */
    bool writes_end_early; /* SENDs and WRITEs are done before the peer has them: the
                            * system keeps a copy, as of TCP */
    bool offloads; /* somebody else than who posts and polls carries work out: a
                    * device, or an engine thread */
    bool implicit; /* nothing is pinned: mt_fabric_mr_implicit */
    bool shares_memory; /* mt_fabric_remote_pointer */
};

/* An address and how many of its bits are the network's. */
struct mt_fabric_network {
    uint8_t address[16]; /* IPv4: ::ffff:a.b.c.d */
    uint8_t bits; /* 0: not told */
};

/* A port of a device. Each is a rail. */
struct mt_fabric_port {
    char name[MT_FABRIC_NAME_BYTES]; /* "mlx5_0:1", "iwarp:eth0", "shm" */
    uint32_t number;                 /* from 1, as in verbs */
    uint32_t mtu;                    /* bytes */
    uint64_t bits_per_second;        /* 0: not known */
    struct mt_fabric_network network; /* iwarp, of an address that is good beyond
                                       * the link */
    bool up;
};

enum { MT_FABRIC_PORTS = 8 };

struct mt_fabric_device {
    char name[MT_FABRIC_NAME_BYTES];
    char provider[16]; /* "verbs", "iwarp", "shm" */
    struct mt_fabric_caps caps;
    uint32_t port_count;
    struct mt_fabric_port ports[MT_FABRIC_PORTS];
};

/* Who executes posted work in a software provider. */
enum mt_fabric_engine {
    MT_FABRIC_ENGINE_INLINE = 0, /* the poster, while posting or polling */
    MT_FABRIC_ENGINE_PEER,       /* whichever side polls */
    MT_FABRIC_ENGINE_THREAD,     /* a thread of ours that stands for a NIC */
};

struct mt_fabric_options {
    enum mt_fabric_engine engine;
    int engine_cpu; /* where its thread runs, -1: anywhere */
    bool threads;   /* several threads of the caller use the context */
    /* iwarp, RC: without the CRC of MPA where the peer wants none either; what is left
     * is TCP's checksum. Datagrams keep theirs. */
    bool no_crc;
    /* File of a fault script (c/fabric/fault/), NULL: none. */
    const char *faults;
    /* What went wrong, once, by whoever decided it; NULL: not told. */
    void (*say)(void *user, const char *text);
    void *user;
};

/* Lists the devices of all providers, at most limit of them; count_p tells how
 * many there are. A provider that cannot work here (no libibverbs, no shared
 * memory) has none, which is no error. */
enum mt_status mt_fabric_devices(struct mt_fabric_device *devices,
                                 uint32_t limit, uint32_t *count_p);
/* All of them, in memory that the caller frees. MT_ENOMEM. */
enum mt_status mt_fabric_devices_all(struct mt_fabric_device **devices_p,
                                     uint32_t *count_p);

/* What devices are not listed for want of (libibverbs is too old, say), NULL:
 * nothing. */
const char *mt_fabric_missing(void);

/* What the system has counted of a port, for all processes and since it came up:
 * packets, and those that were malformed, lost or sent again. The names are the
 * system's, and its driver's. */
struct mt_fabric_counter {
    char name[MT_FABRIC_NAME_BYTES];
    uint64_t value;
};

/* Of a listed device, at most limit of them; returns how many. 0: nobody counts,
 * as over shared memory. */
uint32_t mt_fabric_counters(const struct mt_fabric_device *device,
                            uint32_t port, struct mt_fabric_counter *counters,
                            uint32_t limit);

/* Opens a device by name. MT_ENODEVICE: say() gets the names that exist. */
enum mt_status mt_fabric_open(const char *device,
                              const struct mt_fabric_options *options,
                              struct mt_fabric_context **context_p);
enum mt_status mt_fabric_close(struct mt_fabric_context *context);
const struct mt_fabric_device *
mt_fabric_query(const struct mt_fabric_context *context);

/* Messages that came since it was opened and were thrown away because nobody may
 * send them so: a checksum that is wrong, a field out of its range. Of an RDMA
 * device 0: its own counters tell (mt_fabric_counters). */
uint64_t mt_fabric_malformed(const struct mt_fabric_context *context);

/* ---- events that no work request asked for ---- */

enum mt_fabric_event_kind {
    MT_FABRIC_EVENT_PORT_DOWN = 1,
    MT_FABRIC_EVENT_PORT_UP,
    MT_FABRIC_EVENT_QP_FATAL,    /* a queue pair went into its error state */
    MT_FABRIC_EVENT_QP_REMOTE,   /* UD over datagrams: a peer reports an error in
                                  * the message with this number (MSN) */
    MT_FABRIC_EVENT_DEVICE_FATAL,
    MT_FABRIC_EVENT_CQ_OVERRUN, /* completions of it were lost: it held more than
                                 * its depth. Destroy it and its queue pairs */
    MT_FABRIC_EVENT_LOST, /* so many events found no room: ask every object */
};

struct mt_fabric_event {
    enum mt_fabric_event_kind kind;
    uint32_t qp;   /* its number, of a QP event */
    uint32_t port; /* of a port event */
    uint32_t msn;  /* of MT_FABRIC_EVENT_QP_REMOTE */
    uint32_t count; /* of MT_FABRIC_EVENT_LOST */
    struct mt_fabric_cq *cq; /* of MT_FABRIC_EVENT_CQ_OVERRUN */
};

/* Not offered are the events of verbs for the last request of a queue pair on a
 * shared receive queue, and for such a queue running low: a software provider
 * would have to count on every message for what its owner can count itself.
 *
 * Readable while an event waits; for poll(2), not for read(2); -1: the system has
 * none left. A software provider finds out what happened when somebody polls, or
 * takes from a channel, or its engine thread does. */
int mt_fabric_event_fd(struct mt_fabric_context *context);
/* MT_EAGAIN: there is none. */
enum mt_status mt_fabric_event_take(struct mt_fabric_context *context,
                                    struct mt_fabric_event *event_p);

/* ---- memory ---- */

enum mt_fabric_access {
    MT_FABRIC_LOCAL_WRITE = 1, /* receives and READs may write it */
    MT_FABRIC_REMOTE_WRITE = 2,
    MT_FABRIC_REMOTE_READ = 4,
};

struct mt_fabric_mr {
    void *address;
    size_t bytes;
    uint32_t lkey;
    uint32_t rkey;
    struct mt_fabric_pd *pd;
};

enum mt_status mt_fabric_pd_create(struct mt_fabric_context *context,
                                   struct mt_fabric_pd **pd_p);
enum mt_status mt_fabric_pd_destroy(struct mt_fabric_pd *pd);

/* Makes memory of the caller usable. Relaxed ordering is never asked for, since
 * any region may be polled. MT_ENOMEM, MT_EPERM: limits (RLIMIT_MEMLOCK). */
enum mt_status mt_fabric_mr_register(struct mt_fabric_pd *pd, void *address,
                                     size_t bytes, uint32_t access,
                                     struct mt_fabric_mr **mr_p);
/* All memory that the process has, or will have, to be sent from: nobody else
 * reaches it (in verbs: an implicit region, for on-demand paging). MT_ENOTSUP:
 * the device pins what is registered. */
enum mt_status mt_fabric_mr_implicit(struct mt_fabric_pd *pd,
                                     struct mt_fabric_mr **mr_p);
/* New memory, zeroed, page-aligned, that the provider reaches best: over shm the
 * peers map it. For rings and flags. A child of fork may not have it. */
enum mt_status mt_fabric_mr_allocate(struct mt_fabric_pd *pd, size_t bytes,
                                     uint32_t access,
                                     struct mt_fabric_mr **mr_p);
/* Of allocated memory: also frees it. */
enum mt_status mt_fabric_mr_destroy(struct mt_fabric_mr *mr);

/* ---- completion ---- */

/* Where a datagram came from. Equal bytes are equal senders. */
struct mt_fabric_source {
    uint64_t words[4];
};

struct mt_fabric_completion {
    uint64_t id;           /* of the work request */
    enum mt_status status; /* unless MT_OK only id, qp and whether opcode is
                            * MT_FABRIC_RECEIVE mean anything */
    enum mt_fabric_opcode opcode;
    uint32_t qp;           /* its number */
    uint32_t bytes;        /* of a receive; UD: with the headroom */
    uint32_t immediate;    /* of WRITE_WITH_IMM at its target */
    bool has_immediate;
    struct mt_fabric_source source; /* of a UD receive */
};

/* Waits for completion events of several queues at one file descriptor. */
enum mt_status mt_fabric_channel_create(struct mt_fabric_context *context,
                                        struct mt_fabric_channel **channel_p);
enum mt_status mt_fabric_channel_destroy(struct mt_fabric_channel *channel);
/* Readable while an event waits, and now and then without one; for poll(2), not
 * for read(2). Waiting there moves no data in a software provider: take, again
 * after each time that it was readable, does. */
int mt_fabric_channel_fd(const struct mt_fabric_channel *channel);
/* The queue whose event it is, disarmed now. MT_EAGAIN: there is none. */
enum mt_status mt_fabric_channel_take(struct mt_fabric_channel *channel,
                                      struct mt_fabric_cq **cq_p);

/* channel may be NULL. */
enum mt_status mt_fabric_cq_create(struct mt_fabric_context *context,
                                   uint32_t depth,
                                   struct mt_fabric_channel *channel,
                                   struct mt_fabric_cq **cq_p);
enum mt_status mt_fabric_cq_destroy(struct mt_fabric_cq *cq);
/* One event for the next completion; solicited: only for one of a receive whose
 * sender set MT_FABRIC_SOLICITED, or of an error. The completion of a READ is
 * never solicited. Poll after arming: what came before it makes no event. */
enum mt_status mt_fabric_cq_arm(struct mt_fabric_cq *cq, bool solicited);

/* ---- queue pairs ---- */

enum mt_fabric_qp_state {
    MT_FABRIC_QP_RESET = 0,
    MT_FABRIC_QP_INIT, /* receives may be posted */
    MT_FABRIC_QP_RTS,  /* sends may be posted; RC: perhaps still connecting */
    MT_FABRIC_QP_ERROR, /* everything posted is flushed with MT_EFLUSHED */
};

struct mt_fabric_qp_options {
    enum mt_fabric_transport transport;
    struct mt_fabric_cq *send_cq;
    struct mt_fabric_cq *receive_cq;
    struct mt_fabric_srq *srq; /* NULL: a receive queue of its own */
    uint32_t send_depth;
    uint32_t receive_depth; /* without srq */
    uint32_t pieces;        /* longest gather and scatter list */
    uint32_t inline_bytes;
    uint32_t reads;         /* outstanding READs, either way */
    uint32_t port;          /* rail, from 1 */
    uint32_t timeout_ms;    /* a peer that does not answer for so long is gone:
                             * MT_EPEER; 0: the provider's default */
    uint32_t open_ms;       /* iwarp: nor does one that has not connected for so
                             * long come any more: MT_EPEER; 0: timeout_ms */
};

struct mt_fabric_srq_options {
    uint32_t depth;
    uint32_t pieces;
};

enum mt_status mt_fabric_srq_create(struct mt_fabric_pd *pd,
                                    const struct mt_fabric_srq_options *options,
                                    struct mt_fabric_srq **srq_p);
enum mt_status mt_fabric_srq_destroy(struct mt_fabric_srq *srq);

/* In state INIT. */
enum mt_status mt_fabric_qp_create(struct mt_fabric_pd *pd,
                                   const struct mt_fabric_qp_options *options,
                                   struct mt_fabric_qp **qp_p);
enum mt_status mt_fabric_qp_destroy(struct mt_fabric_qp *qp);
uint32_t mt_fabric_qp_number(const struct mt_fabric_qp *qp);
enum mt_fabric_qp_state mt_fabric_qp_state(const struct mt_fabric_qp *qp);

/* What a peer needs to reach a queue pair: bytes to be carried to it by other
 * means (struct mt_fabric_wireup). It names provider and version; another one
 * is refused by connect with MT_EVERSION. */
struct mt_fabric_address {
    uint32_t bytes;
    uint8_t data[MT_FABRIC_ADDRESS_BYTES];
};

enum mt_status mt_fabric_qp_address(const struct mt_fabric_qp *qp,
                                    struct mt_fabric_address *address_p);
/* RC: INIT to RTS, both sides with the address of the other, in any order and
 * without waiting for each other: sends may be posted at once. UD: remote is
 * NULL. */
enum mt_status mt_fabric_qp_connect(struct mt_fabric_qp *qp,
                                    const struct mt_fabric_address *remote);
/* Whether the other side of an RC queue pair in RTS has answered: MT_EAGAIN: not
 * yet, polling goes on with it; MT_EPEER: it will not. A device that connects
 * without asking the other side, and UD, say MT_OK at once. */
enum mt_status mt_fabric_qp_established(struct mt_fabric_qp *qp);
/* To ERROR: flushes. To RESET, then INIT: forgets the connection. */
enum mt_status mt_fabric_qp_fail(struct mt_fabric_qp *qp);
enum mt_status mt_fabric_qp_reset(struct mt_fabric_qp *qp);

/* Where this process itself loads and stores what the peer of an RC queue pair has at
 * an address in memory from mt_fabric_mr_allocate, registered for REMOTE_WRITE (as
 * ucp_rkey_ptr of UCX, and shmem_ptr of OpenSHMEM 1.5). NULL: it cannot. Who sees
 * what is posted later sees what was stored before; what was posted earlier may be
 * seen after what is stored. It stays mapped until the queue pair is reset or
 * destroyed, if the peer is gone too, but not in a child of fork; that the peer does
 * not give the region back while somebody stores to it is for those who use it. */
void *mt_fabric_remote_pointer(const struct mt_fabric_qp *qp, uint64_t address,
                               uint32_t rkey, uint64_t bytes);

/* A peer's UD queue pair, from its address or from a datagram of it. A handle
 * outlives what it names: datagrams to a queue pair or process that is gone, or
 * was reset since, are lost and complete as others do. It may be destroyed when
 * what was posted with it has completed. */
enum mt_status mt_fabric_ah_create(struct mt_fabric_pd *pd,
                                   const struct mt_fabric_address *address,
                                   struct mt_fabric_ah **ah_p);
enum mt_status mt_fabric_ah_create_source(struct mt_fabric_pd *pd,
                                          const struct mt_fabric_source *source,
                                          struct mt_fabric_ah **ah_p);
enum mt_status mt_fabric_ah_destroy(struct mt_fabric_ah *ah);

/* ---- work ---- */

struct mt_fabric_piece {
    void *address;
    uint32_t bytes;
    uint32_t lkey; /* not looked at if inline */
};

enum mt_fabric_flag {
    MT_FABRIC_SIGNALED = 1,  /* completes on its own; others when a later one of
                              * the queue does, or fails */
    MT_FABRIC_INLINE = 2,    /* the pieces may change when post returns */
    MT_FABRIC_FENCE = 4,     /* not before the READs posted earlier are done; for
                              * a READ it may only be answered after those */
    MT_FABRIC_SOLICITED = 8, /* SEND, WRITE_WITH_IMM */
    MT_FABRIC_MORE = 16,     /* a hint: another follows at once on the queue pair,
                              * and a device that pays for each time that it is
                              * told may wait for that, or for the next poll */
};

/* RC completes a request when the data is where it belongs (READ) or the local
 * buffer may change and delivery is the transport's matter (SEND, WRITE); UD
 * when the transport has taken the datagram. A READ is answered after the WRITEs
 * posted before it have taken effect, whether they have completed or not. On RC,
 * SENDs and WRITEs take effect in the order of posting, but that inside a host a WRITE
 * does not wait for a SEND of a few KiB before it, which has no receive yet or which
 * the peer has not polled for; a READ may be overtaken by what was posted later. */
struct mt_fabric_send {
    uint64_t id;
    enum mt_fabric_opcode opcode;
    uint32_t flags; /* enum mt_fabric_flag, or-ed */
    uint32_t immediate;
    uint32_t piece_count;
    const struct mt_fabric_piece *pieces;
    uint64_t remote_address; /* WRITE, READ */
    uint32_t rkey;
    struct mt_fabric_ah *ah; /* UD */
};

struct mt_fabric_receive {
    uint64_t id;
    uint32_t piece_count;
    const struct mt_fabric_piece *pieces;
};

/* What every object begins with: the functions of its provider. */
struct mt_fabric_ops {
    /* MT_EAGAIN: the queue is full until something of it has completed and was
     * polled. MT_EINVAL, MT_ENOTSUP, MT_ESTATE: nothing was posted. */
    enum mt_status (*post_send)(struct mt_fabric_qp *qp,
                                const struct mt_fabric_send *work);
    enum mt_status (*post_receive)(struct mt_fabric_qp *qp,
                                   const struct mt_fabric_receive *work);
    enum mt_status (*post_srq_receive)(struct mt_fabric_srq *srq,
                                       const struct mt_fabric_receive *work);
    /* The number of completions, at most limit. In a software provider this is
     * also what moves the data, of all queue pairs of the context; with limit 0
     * it does nothing else. */
    uint32_t (*poll)(struct mt_fabric_cq *cq,
                     struct mt_fabric_completion *completions, uint32_t limit);
};

MT_INLINE const struct mt_fabric_ops *mt_fabric_ops_of(const void *object)
{
    return *(const struct mt_fabric_ops *const *)object;
}

MT_INLINE enum mt_status mt_fabric_post_send(struct mt_fabric_qp *qp,
                                             const struct mt_fabric_send *work)
{
    return mt_fabric_ops_of(qp)->post_send(qp, work);
}

MT_INLINE enum mt_status
mt_fabric_post_receive(struct mt_fabric_qp *qp,
                       const struct mt_fabric_receive *work)
{
    return mt_fabric_ops_of(qp)->post_receive(qp, work);
}

MT_INLINE enum mt_status
mt_fabric_post_srq_receive(struct mt_fabric_srq *srq,
                           const struct mt_fabric_receive *work)
{
    return mt_fabric_ops_of(srq)->post_srq_receive(srq, work);
}

MT_INLINE uint32_t mt_fabric_poll(struct mt_fabric_cq *cq,
                                  struct mt_fabric_completion *completions,
                                  uint32_t limit)
{
    return mt_fabric_ops_of(cq)->poll(cq, completions, limit);
}

/* ---- wire-up ---- */

/* How addresses reach the peers: MPI, a test launcher or a socket. exchange
 * gives all ranks what each of them brought, in the order of ranks; it is
 * called by all, the same number of times, with the same number of bytes. all is
 * NULL at a rank without the memory to hear the others: MT_ENOMEM there, and they
 * do not wait for it. */
struct mt_fabric_wireup {
    uint32_t rank;
    uint32_t size;
    enum mt_status (*exchange)(void *user, const void *mine, size_t bytes,
                               void *all);
    /* The same where each rank brings something for each: mine and all have size
     * pieces of so many bytes. NULL: all exchange everything, which takes memory
     * for the square of the ranks. */
    enum mt_status (*deal)(void *user, const void *mine, size_t bytes, void *all);
    void *user;
};

#endif
