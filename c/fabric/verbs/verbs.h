/* verbs.h: the provider of real devices, over libibverbs: InfiniBand, RoCE and
 * Soft-RoCE.
 *
 * What a device does is left to it; here are the choice of paths between two
 * queue pairs (ports.c, qp.c), accounts of what is posted, which the contract
 * wants and devices do not keep (work.c), and errors with names.
 *
 * The library is loaded at run time. Its header is needed to build, since posting
 * and polling are inline functions in it; where it is missing (MT_VERBS is 0) the
 * provider has no devices.
 *
 * Threads: one lock for a context, taken only if it was opened with threads.
 *
 * Must not: allocate, or enter the kernel where the device does not have to,
 * while posting and polling; ask for relaxed ordering. */
#ifndef MPITRACE_FABRIC_VERBS_H
#define MPITRACE_FABRIC_VERBS_H

#if __has_include(<infiniband/verbs.h>)
#define MT_VERBS 1
#else
#define MT_VERBS 0
#endif

#if MT_VERBS

#include <infiniband/verbs.h>
#include <pthread.h>

#include "../provider.h"

enum {
    MT_VERBS_VERSION = 1,       /* of addresses */
    MT_VERBS_PIECES = 32,       /* of a list, at most */
    MT_VERBS_DEPTH = 1 << 15,   /* of a queue: the bits of a slot in an id */
    MT_VERBS_HEADROOM = 40,     /* the global route header before a datagram */
    MT_VERBS_QKEY = 0x4d545241, /* of all UD queue pairs; not a privileged one */
};

/* ---- the library (library.c) ---- */

#define MT_VERBS_FUNCTIONS(X)                                                  \
    X(get_device_list)                                                         \
    X(free_device_list)                                                        \
    X(get_device_name)                                                         \
    X(open_device)                                                             \
    X(close_device)                                                            \
    X(query_device)                                                            \
    X(get_async_event)                                                         \
    X(ack_async_event)                                                         \
    X(alloc_pd)                                                                \
    X(dealloc_pd)                                                              \
    X(reg_mr)                                                                  \
    X(dereg_mr)                                                                \
    X(create_comp_channel)                                                     \
    X(destroy_comp_channel)                                                    \
    X(get_cq_event)                                                            \
    X(ack_cq_events)                                                           \
    X(create_cq)                                                               \
    X(destroy_cq)                                                              \
    X(create_srq)                                                              \
    X(destroy_srq)                                                             \
    X(create_qp)                                                               \
    X(modify_qp)                                                               \
    X(query_qp)                                                                \
    X(destroy_qp)                                                              \
    X(create_ah)                                                               \
    X(destroy_ah)

/* Named without ibv_, since some of the names are macros. */
struct mt_verbs_library {
#define MT_VERBS_MEMBER(name) __typeof__(ibv_##name) *name;
    MT_VERBS_FUNCTIONS(MT_VERBS_MEMBER)
#undef MT_VERBS_MEMBER
    __typeof__(_ibv_query_gid_table) *query_gid_table;
};

/* NULL: there is none, or no device could be there. */
const struct mt_verbs_library *mt_verbs_library(void);
/* What is wrong with the library where devices could be there, NULL: nothing. */
const char *mt_verbs_missing(void);

/* ---- ports (ports.c) ---- */

/* How a port is reached, best first: what both ends have is what they use. */
enum mt_verbs_path {
    MT_VERBS_LID,         /* InfiniBand; its GID where the subnets differ */
    MT_VERBS_ROCE2_IPV4,  /* RoCE v2, a GID that is an IPv4 address */
    MT_VERBS_ROCE2_IPV6,  /* RoCE v2, an IPv6 address beyond the link */
    MT_VERBS_ROCE2_LOCAL, /* RoCE v2, an IPv6 address of the link */
    MT_VERBS_ROCE1,       /* RoCE v1: the MAC address */
    MT_VERBS_PATHS,
};

struct mt_verbs_port {
    bool up;
    bool route;     /* InfiniBand: it wants a route header in each packet */
    uint8_t mtu;    /* enum ibv_mtu, the active one */
    uint8_t paths;  /* 1 << enum mt_verbs_path, or-ed */
    uint16_t lid;
    uint8_t index[MT_VERBS_PATHS]; /* in the table of GIDs */
    union ibv_gid gid[MT_VERBS_PATHS];
};

/* What a queue pair tells its peer, in the byte order of its host. */
struct mt_verbs_address {
    char provider[4]; /* "ibv" */
    uint32_t version;
    uint8_t transport;
    uint8_t mtu;
    uint8_t paths;
    uint8_t reads; /* that it answers at a time */
    uint32_t number;
    uint32_t packet; /* number of the first packet that it sends */
    uint16_t lid;
    uint16_t route; /* not 0: its port wants route headers */
    uint16_t reserved[2];
    union ibv_gid gid[MT_VERBS_PATHS];
};
_Static_assert(sizeof(struct mt_verbs_address) <= MT_FABRIC_ADDRESS_BYTES,
               "an address is carried in a fixed number of bytes");

MT_INLINE uint32_t mt_verbs_mtu_bytes(uint8_t mtu)
{
    return UINT32_C(128) << mtu; /* IBV_MTU_256 is 1 */
}

/* As ibv_query_port, which is an inline function that needs the library. */
int mt_verbs_query_port(struct ibv_context *device, uint8_t number,
                        struct ibv_port_attr *attributes);

/* Reads what can change of a port. */
void mt_verbs_port_read(struct ibv_context *device, uint8_t number,
                        struct mt_verbs_port *port);

/* The path that both have, MT_VERBS_PATHS: none. */
enum mt_verbs_path mt_verbs_path_choose(uint8_t mine, uint8_t theirs);

/* Where a path leads. */
struct mt_verbs_end {
    const union ibv_gid *gid;
    uint16_t lid; /* on InfiniBand */
    bool route;   /* it wants a route header */
};

/* From a port, by a path, to its end. */
void mt_verbs_path_fill(const struct mt_verbs_port *port, uint8_t number,
                        enum mt_verbs_path path, const struct mt_verbs_end *end,
                        struct ibv_ah_attr *attributes);

/* ---- devices (device.c) ---- */

uint32_t mt_verbs_devices(struct mt_fabric_device *devices, uint32_t limit);
enum mt_status mt_verbs_open(const struct mt_fabric_device *device,
                             const struct mt_fabric_options *options,
                             struct mt_fabric_context **context_p);
void mt_verbs_close(struct mt_fabric_context *context);
int mt_verbs_event_fd(struct mt_fabric_context *context);
enum mt_status mt_verbs_event_take(struct mt_fabric_context *context,
                                   struct mt_fabric_event *event_p);

/* ---- objects ---- */

/* What was posted to a queue and has not completed. Sends complete in the order
 * of posting: a slot is the number of the request, of a power of two of them, since
 * numbers wrap. Receives of a shared queue need not: their slots are given out from a
 * list of free ones. */
struct mt_verbs_slot {
    uint64_t id;
    const uint8_t *grh; /* UD receive: where the route header will be */
};

struct mt_verbs_queue {
    struct mt_verbs_slot *slots;
    uint16_t *unused;   /* receives: slots that are free, the next is the last */
    uint32_t depth;
    uint32_t mask;       /* of slots, depth of them or more */
    uint32_t head, tail; /* sends: numbers of the oldest and the next request */
    uint32_t used;       /* receives */
    bool datagrams;
};

enum mt_status mt_verbs_queue_make(struct mt_verbs_queue *queue, uint32_t depth,
                                   bool sends);
void mt_verbs_queue_clear(struct mt_verbs_queue *queue);
void mt_verbs_queue_free(struct mt_verbs_queue *queue);

/* Whose a completion is. The library's id of a request holds the owner's index
 * and generation, for completions may outlive their queue pair. */
struct mt_verbs_owner {
    struct mt_verbs_qp *qp; /* NULL: of srq, or free */
    struct mt_verbs_srq *srq;
    uint32_t generation;
};

enum { MT_VERBS_CHUNK = 1024, MT_VERBS_CHUNKS = 1024 };

struct mt_verbs_context {
    struct mt_fabric_context base;
    struct ibv_context *device;
    bool ethernet;
    bool locked;          /* several threads come here */
    bool told_of_limits;  /* about registration, once */
    bool told_of_mtu;     /* about a datagram that is too long, once */
    pthread_mutex_t lock; /* of owners, queues and what is due */
    struct mt_verbs_port ports[MT_FABRIC_PORTS + 1]; /* by number */
    uint32_t datagram_ports; /* 1 << number, or-ed: of UD queue pairs so far */
    struct mt_verbs_owner *owners[MT_VERBS_CHUNKS];  /* chunks never move */
    uint32_t owner_count;
    uint32_t due; /* queue pairs in error whose event was not taken */
    int due_fd;    /* readable while there are; -1: nobody asked for it */
    int events_fd; /* an epoll instance over that and the device's own */
};

struct mt_verbs_pd {
    struct mt_fabric_pd base;
    struct ibv_pd *pd;
};

struct mt_verbs_mr {
    struct mt_fabric_mr base;
    struct ibv_mr *mr;
    bool allocated;
};

struct mt_verbs_channel {
    struct mt_fabric_channel base;
    struct ibv_comp_channel *channel;
};

struct mt_verbs_cq {
    struct mt_fabric_cq base;
    struct ibv_cq *cq;
    uint32_t unacknowledged; /* events; each acknowledgement takes a lock */
};

struct mt_verbs_srq {
    struct mt_fabric_srq base;
    struct ibv_srq *srq;
    struct mt_verbs_queue receives;
    uint32_t owner;
};

struct mt_verbs_qp {
    struct mt_fabric_qp base;
    struct ibv_qp *qp;
    struct mt_verbs_queue sends;
    struct mt_verbs_queue own; /* receives without a shared queue */
    uint32_t owner;
    uint32_t packet; /* number of the first */
    bool due;        /* its error was not told */
};

/* A handle of the library belongs to a port: one for each that has a path. */
struct mt_verbs_ah {
    struct mt_fabric_ah base;
    struct ibv_ah *handles[MT_FABRIC_PORTS + 1]; /* by port, NULL: none */
    uint32_t number;
    uint32_t mtu; /* bytes, of its port; made from a datagram: the most there is */
};

MT_INLINE struct mt_verbs_context *
mt_verbs_context_of(const struct mt_fabric_qp *qp)
{
    return (struct mt_verbs_context *)qp->pd->context;
}

MT_INLINE void mt_verbs_lock(struct mt_verbs_context *context)
{
    if (context->locked) {
        pthread_mutex_lock(&context->lock);
    }
}

MT_INLINE void mt_verbs_unlock(struct mt_verbs_context *context)
{
    if (context->locked) {
        pthread_mutex_unlock(&context->lock);
    }
}

/* errno of the library as a status. */
enum mt_status mt_verbs_status(int error);

/* An entry for a queue pair or a shared queue. */
enum mt_status mt_verbs_owner_make(struct mt_verbs_context *context,
                                   struct mt_verbs_qp *qp,
                                   struct mt_verbs_srq *srq, uint32_t *owner_p);
/* What was posted under the entry is nobody's any more. */
void mt_verbs_owner_renew(struct mt_verbs_context *context, uint32_t owner);
void mt_verbs_owner_free(struct mt_verbs_context *context, uint32_t owner);

MT_INLINE struct mt_verbs_owner *
mt_verbs_owner_at(const struct mt_verbs_context *context, uint32_t owner)
{
    return &context->owners[owner / MT_VERBS_CHUNK][owner % MT_VERBS_CHUNK];
}

/* Makes the descriptor of events readable, if somebody has it. */
void mt_verbs_due_signal(const struct mt_verbs_context *context);

/* The queue pair is in error, and there is an event of it; under the lock. */
void mt_verbs_qp_failed(struct mt_verbs_qp *qp);

/* ---- queue pairs (qp.c) ---- */

enum mt_status mt_verbs_qp_create(struct mt_fabric_pd *pd,
                                  const struct mt_fabric_qp_options *options,
                                  struct mt_fabric_qp **qp_p);
void mt_verbs_qp_destroy(struct mt_fabric_qp *qp);
enum mt_status mt_verbs_qp_address(const struct mt_fabric_qp *qp,
                                   struct mt_fabric_address *address);
enum mt_status mt_verbs_qp_connect(struct mt_fabric_qp *qp,
                                   const struct mt_fabric_address *remote);
enum mt_status mt_verbs_qp_fail(struct mt_fabric_qp *qp);
enum mt_status mt_verbs_qp_reset(struct mt_fabric_qp *qp);
enum mt_status mt_verbs_ah_create(struct mt_fabric_pd *pd,
                                  const struct mt_fabric_address *address,
                                  const struct mt_fabric_source *source,
                                  struct mt_fabric_ah **ah_p);
void mt_verbs_ah_destroy(struct mt_fabric_ah *ah);

/* ---- work (work.c) ---- */

extern const struct mt_fabric_ops mt_verbs_ops;

/* ---- addresses of peers (source.c) ---- */

/* Takes an address apart. MT_EINVAL: not of this provider and transport;
 * MT_EVERSION. */
enum mt_status mt_verbs_address_parse(const struct mt_fabric_address *address,
                                      enum mt_fabric_transport transport,
                                      struct mt_verbs_address *a);

/* ---- where a datagram came from (source.c) ---- */

/* From what the device tells, and the route header before the payload. */
void mt_verbs_source_read(bool ethernet, const struct ibv_wc *completion,
                          const uint8_t *grh, struct mt_fabric_source *source);
/* The path back. false: not a source of this provider. */
bool mt_verbs_source_parse(const struct mt_fabric_source *source,
                           uint32_t *number, enum mt_verbs_path *path,
                           union ibv_gid *gid, uint16_t *lid);

#endif
#endif
