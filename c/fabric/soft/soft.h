/* soft.h: what the providers without hardware have in common: work queues,
 * completion queues, channels, the lock of a context, and the engine thread that
 * stands for a NIC.
 *
 * A provider embeds these structs, and moves data in one function (progress),
 * which posting, polling or the engine thread calls, as struct mt_fabric_options
 * says. All of it runs under the lock of the context.
 *
 * Must not: allocate, log or enter the kernel on behalf of posting and polling;
 * waking a sleeping reader of a channel is the exception. */
#ifndef MPITRACE_FABRIC_SOFT_H
#define MPITRACE_FABRIC_SOFT_H

#include <pthread.h>

#include "../provider.h"

enum {
    MT_SOFT_PIECES = 16,
    MT_SOFT_INLINE = 256,
    MT_SOFT_EVENTS = 256,
    MT_SOFT_TICK_MS = 250, /* how often a sleeper looks at its peers */
};

struct mt_soft_qp;

/* One context of a software provider. */
struct mt_soft_context {
    struct mt_fabric_context base;
    uint32_t lock;    /* 0 free; pairs: mt_soft_lock / mt_soft_unlock */
    bool locked;      /* several threads come here: the lock is taken */
    bool closing;     /* the engine thread shall end */
    bool has_engine;
    bool yields;      /* the engine, between two rounds: time passes */
    bool holds_more;  /* what is posted with MT_FABRIC_MORE waits for the next */
    uint32_t armed_count[3]; /* queues by enum mt_soft_armed; not the first */
    pthread_t engine;
    /* Moves data of all queue pairs; true if anything moved. */
    bool (*progress)(struct mt_soft_context *context);
    /* Begins what was posted to a queue pair, as far as it goes now. */
    void (*push)(struct mt_soft_qp *qp);
    /* A reader of a channel may go to sleep now; NULL: nothing to do. */
    void (*armed)(struct mt_soft_context *context);
    struct mt_soft_qp **qps; /* by number - 1; NULL: free */
    uint32_t qp_limit;
    struct mt_fabric_event events[MT_SOFT_EVENTS];
    uint32_t event_head, event_tail;
    uint32_t events_lost; /* since the last that had room */
    int event_fd;         /* -1: nobody asked for it */
    int timer;            /* of all channels, -1: there are none */
    uint64_t timer_at;    /* ns: it wakes then, 0: not */
};

/* A posted send. What was inline lies in data. */
struct mt_soft_work {
    uint64_t id;
    uint64_t remote_address;
    uint64_t bytes;
    struct mt_fabric_ah *ah;
    uint64_t moved;     /* for the provider: bytes done so far */
    uint64_t token;     /* for the provider: what tells that it is done */
    uint32_t rkey;
    uint32_t immediate;
    uint32_t flags;
    uint16_t opcode;
    uint16_t piece_count;
    uint8_t stage;      /* for the provider; 0 when posted */
    bool done;          /* may be completed once it is the oldest */
    enum mt_status status;
    struct mt_fabric_piece pieces[MT_SOFT_PIECES];
    uint8_t data[MT_SOFT_INLINE];
};

/* A posted receive. */
struct mt_soft_receive {
    uint64_t id;
    uint64_t bytes; /* room in all pieces */
    uint32_t piece_count;
    struct mt_fabric_piece pieces[MT_SOFT_PIECES];
};

struct mt_soft_receives {
    uint32_t head, tail, mask;
    uint32_t depth;
    struct mt_soft_receive *slots;
};

struct mt_soft_cq {
    struct mt_fabric_cq base;
    uint32_t head, tail, mask;
    uint8_t armed; /* enum mt_soft_armed */
    bool overrun;  /* a completion was lost, which was told */
    bool fired;    /* stands in its channel */
    struct mt_soft_cq *next_fired;
    struct mt_fabric_completion *slots;
};

enum mt_soft_armed { MT_SOFT_DISARMED, MT_SOFT_ARMED, MT_SOFT_ARMED_SOLICITED };

/* Its descriptor is an epoll instance over an eventfd, the timer of the context
 * and what the provider watches: whatever may have work for progress. */
struct mt_soft_channel {
    struct mt_fabric_channel base;
    struct mt_soft_cq *first, **last; /* fired queues */
    int event_fd;
};

struct mt_soft_srq {
    struct mt_fabric_srq base;
    struct mt_soft_receives receives;
};

struct mt_soft_qp {
    struct mt_fabric_qp base;
    /* Sends: head..next were begun, next..tail wait; completed in order. */
    uint32_t head, next, tail, mask;
    uint32_t reads; /* begun and not done */
    uint32_t unpolled; /* completions of sends that nobody has polled yet */
    struct mt_soft_work *works;
    struct mt_soft_receives own;
    struct mt_soft_receives *receives; /* own, or those of the SRQ */
};

MT_INLINE struct mt_soft_context *mt_soft_context_of(const struct mt_soft_qp *qp)
{
    return (struct mt_soft_context *)qp->base.pd->context;
}

/* Somebody may sleep on a channel, and nobody else does the work. */
MT_INLINE bool mt_soft_sleeps(const struct mt_soft_context *context)
{
    return mt_unlikely(context->armed_count[MT_SOFT_ARMED] +
                           context->armed_count[MT_SOFT_ARMED_SOLICITED] >
                       0) &&
           !context->has_engine;
}

/* The least power of two that is not below n, which is at most 2^31. */
MT_INLINE uint32_t mt_soft_slots(uint32_t n)
{
    uint32_t slots = 1;
    while (slots < n) {
        slots *= 2;
    }
    return slots;
}

/* The key of a region in a table, at index, which had turns before: it differs
 * from all of these, until 2^32 / regions of them. Never 0. */
MT_INLINE uint32_t mt_soft_key(uint32_t index, uint32_t turns, uint32_t regions)
{
    uint32_t key = index + 1 + turns * regions;
    return key != 0 ? key : index + 1;
}

/* What all of them can; the rest is the provider's to fill in. */
struct mt_fabric_caps mt_soft_caps(void);

/* ---- the lock and the engine ---- */

void mt_soft_lock_slow(struct mt_soft_context *context);

MT_INLINE void mt_soft_lock(struct mt_soft_context *context)
{
    uint32_t free_lock = 0;
    if (context->locked &&
        mt_unlikely(!__atomic_compare_exchange_n(&context->lock, &free_lock, 1,
                                                 false, __ATOMIC_ACQUIRE,
                                                 __ATOMIC_RELAXED))) {
        mt_soft_lock_slow(context);
    }
}

MT_INLINE void mt_soft_unlock(struct mt_soft_context *context)
{
    if (context->locked) {
        __atomic_store_n(&context->lock, 0, __ATOMIC_RELEASE);
    }
}

/* Begins a context whose functions (progress, push, armed) are set: they are
 * called under its lock. Ends it: waits for the engine thread. */
enum mt_status mt_soft_start(struct mt_soft_context *context,
                             const struct mt_fabric_options *options,
                             uint32_t qp_limit);
void mt_soft_stop(struct mt_soft_context *context);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t mt_soft_now(void);

/* Somebody may sleep from now on: the timer wakes it now and then. Under the
 * lock. */
void mt_soft_doze(struct mt_soft_context *context);

void mt_soft_event(struct mt_soft_context *context,
                   const struct mt_fabric_event *event);
int mt_soft_event_fd(struct mt_fabric_context *context);
enum mt_status mt_soft_event_take(struct mt_fabric_context *context,
                                  struct mt_fabric_event *event_p);

/* A protection domain without anything of a provider. */
enum mt_status mt_soft_pd_create(struct mt_fabric_context *context,
                                 struct mt_fabric_pd **pd_p);
void mt_soft_pd_destroy(struct mt_fabric_pd *pd);

/* ---- completion queues and channels ---- */

enum mt_status mt_soft_cq_create(struct mt_fabric_context *context,
                                 uint32_t depth,
                                 struct mt_fabric_channel *channel,
                                 struct mt_fabric_cq **cq_p);
void mt_soft_cq_destroy(struct mt_fabric_cq *cq);
enum mt_status mt_soft_cq_arm(struct mt_fabric_cq *cq, bool solicited);
uint32_t mt_soft_poll(struct mt_fabric_cq *cq,
                      struct mt_fabric_completion *completions, uint32_t limit);
void mt_soft_complete(struct mt_soft_cq *cq,
                      const struct mt_fabric_completion *completion,
                      bool solicited);

enum mt_status mt_soft_channel_create(struct mt_fabric_context *context,
                                      struct mt_fabric_channel **channel_p);
void mt_soft_channel_destroy(struct mt_fabric_channel *channel);
enum mt_status mt_soft_channel_take(struct mt_fabric_channel *channel,
                                    struct mt_fabric_cq **cq_p);
/* The channel is readable while fd is. */
enum mt_status mt_soft_channel_watch(struct mt_soft_channel *channel, int fd);
void mt_soft_channel_ignore(struct mt_soft_channel *channel, int fd);

/* ---- work queues ---- */

enum mt_status mt_soft_srq_create(struct mt_fabric_pd *pd,
                                  const struct mt_fabric_srq_options *options,
                                  struct mt_fabric_srq **srq_p);
void mt_soft_srq_destroy(struct mt_fabric_srq *srq);
enum mt_status mt_soft_post_srq_receive(struct mt_fabric_srq *srq,
                                        const struct mt_fabric_receive *work);
enum mt_status mt_soft_post_receive(struct mt_fabric_qp *qp,
                                    const struct mt_fabric_receive *work);
/* Appends to the send queue, and pushes unless an engine thread does. */
enum mt_status mt_soft_post_send(struct mt_fabric_qp *qp,
                                 const struct mt_fabric_send *work);

/* Makes the queues of a queue pair (the struct is the provider's, zeroed), and
 * gives it a number. */
enum mt_status mt_soft_qp_start(struct mt_soft_context *context,
                                struct mt_soft_qp *qp,
                                const struct mt_fabric_qp_options *options);
void mt_soft_qp_stop(struct mt_soft_context *context, struct mt_soft_qp *qp);
/* Forgets what is posted, without a completion: the queue pair is reset. */
void mt_soft_qp_clear(struct mt_soft_qp *qp);

/* The oldest receive, NULL if there is none; drop takes it out. */
MT_INLINE struct mt_soft_receive *
mt_soft_receive_first(const struct mt_soft_receives *r)
{
    return r->head != r->tail ? &r->slots[r->head & r->mask] : NULL;
}

MT_INLINE void mt_soft_receive_drop(struct mt_soft_receives *r)
{
    r->head++;
}

/* A slot of the send queue is free once its completion was polled. */
MT_INLINE bool mt_soft_is_full(const struct mt_soft_qp *qp)
{
    return qp->tail - qp->head + qp->unpolled >= qp->base.options.send_depth;
}

MT_INLINE struct mt_soft_work *mt_soft_work_at(const struct mt_soft_qp *qp,
                                               uint32_t index)
{
    return &qp->works[index & qp->mask];
}

/* Completes the sends that are done, in order. */
void mt_soft_retire(struct mt_soft_qp *qp);

/* Into the error state: the send that failed (NULL: none) completes with status,
 * everything else posted is flushed, and there is an event. */
void mt_soft_qp_fail(struct mt_soft_qp *qp, struct mt_soft_work *failed,
                     enum mt_status status);

/* Completes a receive. */
void mt_soft_received(struct mt_soft_qp *qp, uint64_t id,
                      const struct mt_fabric_completion *how, bool solicited);

/* Copies between bytes and a list of pieces, from skip on. */
void mt_soft_scatter(const struct mt_fabric_piece *pieces, uint32_t count,
                     uint64_t skip, const void *from, uint64_t bytes);
void mt_soft_gather(const struct mt_fabric_piece *pieces, uint32_t count,
                    uint64_t skip, void *to, uint64_t bytes);

#endif
