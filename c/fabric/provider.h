/* provider.h: what a provider gives the fabric, and what all of them share.
 *
 * A provider fills one struct mt_fabric_provider; fabric.c has the list. Every
 * object of a provider begins with the struct of this file for its kind, whose
 * first member is the table of the hot functions.
 *
 * Must not: know another provider, MPI, or what the bytes mean. */
#ifndef MPITRACE_FABRIC_PROVIDER_H
#define MPITRACE_FABRIC_PROVIDER_H

#include "../include/fabric.h"

struct mt_fabric_provider;

struct mt_fabric_context {
    const struct mt_fabric_ops *ops;
    const struct mt_fabric_provider *provider;
    struct mt_fabric_device device;
    struct mt_fabric_options options;
    uint32_t objects; /* not destroyed yet */
    /* What all its objects point to, in a process that may use it. */
    struct mt_fabric_ops table;
    bool lost; /* a child has it from its parent */
    uint64_t malformed; /* atomic: messages that came and were thrown away */
    struct mt_fabric_context *next; /* that the process opened */
};

struct mt_fabric_pd {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_context *context;
    uint32_t objects;
};

struct mt_fabric_ah {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_pd *pd;
};

struct mt_fabric_channel {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_context *context;
    uint32_t objects;
    int fd;
};

struct mt_fabric_cq {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_context *context;
    struct mt_fabric_channel *channel;
    uint32_t objects;
    uint32_t depth;
};

struct mt_fabric_srq {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_pd *pd;
    uint32_t objects;
    struct mt_fabric_srq_options options;
};

struct mt_fabric_qp {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_pd *pd;
    struct mt_fabric_qp_options options;
    uint32_t number;
    enum mt_fabric_qp_state state;
};

/* The cold functions. Arguments were checked by fabric.c: pointers, ranges
 * against the capabilities, objects of one context, states. The provider makes
 * the object with all its memory and fills its own part, ops as those of the
 * context; fabric.c fills the common struct and counts. */
struct mt_fabric_provider {
    const char *name;
    /* At most limit devices; returns how many there are. */
    uint32_t (*devices)(struct mt_fabric_device *devices, uint32_t limit);
    /* What the provider lacks where there may be devices of its kind; NULL:
     * nothing. NULL itself: it never lacks anything. */
    const char *(*missing)(void);
    /* The nth directory whose files are counters of a port; false: there are no
     * more. NULL: there are none. */
    bool (*counters)(const struct mt_fabric_device *device, uint32_t port,
                     uint32_t n, char *path, size_t bytes);
    enum mt_status (*open)(const struct mt_fabric_device *device,
                           const struct mt_fabric_options *options,
                           struct mt_fabric_context **context_p);
    void (*close)(struct mt_fabric_context *context);
    int (*event_fd)(struct mt_fabric_context *context);
    enum mt_status (*event_take)(struct mt_fabric_context *context,
                                 struct mt_fabric_event *event_p);
    enum mt_status (*pd_create)(struct mt_fabric_context *context,
                                struct mt_fabric_pd **pd_p);
    void (*pd_destroy)(struct mt_fabric_pd *pd);
    /* address NULL: allocate. */
    enum mt_status (*mr_create)(struct mt_fabric_pd *pd, void *address,
                                size_t bytes, uint32_t access,
                                struct mt_fabric_mr **mr_p);
    void (*mr_destroy)(struct mt_fabric_mr *mr);
    enum mt_status (*channel_create)(struct mt_fabric_context *context,
                                     struct mt_fabric_channel **channel_p);
    void (*channel_destroy)(struct mt_fabric_channel *channel);
    enum mt_status (*channel_take)(struct mt_fabric_channel *channel,
                                   struct mt_fabric_cq **cq_p);
    enum mt_status (*cq_create)(struct mt_fabric_context *context,
                                uint32_t depth,
                                struct mt_fabric_channel *channel,
                                struct mt_fabric_cq **cq_p);
    void (*cq_destroy)(struct mt_fabric_cq *cq);
    enum mt_status (*cq_arm)(struct mt_fabric_cq *cq, bool solicited);
    enum mt_status (*srq_create)(struct mt_fabric_pd *pd,
                                 const struct mt_fabric_srq_options *options,
                                 struct mt_fabric_srq **srq_p);
    void (*srq_destroy)(struct mt_fabric_srq *srq);
    enum mt_status (*qp_create)(struct mt_fabric_pd *pd,
                                const struct mt_fabric_qp_options *options,
                                struct mt_fabric_qp **qp_p);
    void (*qp_destroy)(struct mt_fabric_qp *qp);
    enum mt_status (*qp_address)(const struct mt_fabric_qp *qp,
                                 struct mt_fabric_address *address_p);
    /* MT_ENOMEM, MT_EAGAIN: it is as it was, with its receives, and may be tried
     * again. */
    enum mt_status (*qp_connect)(struct mt_fabric_qp *qp,
                                 const struct mt_fabric_address *remote);
    /* NULL: a connection is there once both sides have begun it. */
    enum mt_status (*qp_established)(struct mt_fabric_qp *qp);
    enum mt_status (*qp_fail)(struct mt_fabric_qp *qp);
    enum mt_status (*qp_reset)(struct mt_fabric_qp *qp);
    /* With caps.shares_memory. */
    void *(*remote_pointer)(const struct mt_fabric_qp *qp, uint64_t address,
                            uint32_t rkey, uint64_t bytes);
    /* source NULL: from the address. */
    enum mt_status (*ah_create)(struct mt_fabric_pd *pd,
                                const struct mt_fabric_address *address,
                                const struct mt_fabric_source *source,
                                struct mt_fabric_ah **ah_p);
    void (*ah_destroy)(struct mt_fabric_ah *ah);
};

extern const struct mt_fabric_provider mt_fabric_shm;
extern const struct mt_fabric_provider mt_fabric_iwarp;
extern const struct mt_fabric_provider mt_fabric_verbs;

/* NULL: there is none. */
const struct mt_fabric_provider *mt_fabric_provider_named(const char *name);

static inline void mt_fabric_throw_away(struct mt_fabric_context *context)
{
    __atomic_fetch_add(&context->malformed, 1, __ATOMIC_RELAXED);
}

/* What is wrong with work whatever the provider, MT_OK: nothing; bytes_p is its
 * payload. */
enum mt_status mt_fabric_send_check(const struct mt_fabric_qp *qp,
                                    const struct mt_fabric_send *work,
                                    uint64_t *bytes_p);

/* Tells what went wrong, through the options of the context. */
void mt_fabric_say(const struct mt_fabric_options *options, const char *format,
                   ...) __attribute__((format(printf, 2, 3)));

#endif
