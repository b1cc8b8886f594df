/* layer.h: the objects of the layer, and how faults are drawn. */
#ifndef MPITRACE_FABRIC_FAULT_LAYER_H
#define MPITRACE_FABRIC_FAULT_LAYER_H

#include <stdlib.h>

#include "fault.h"
#include "script.h"

enum { MT_EARLY = 1024 };

/* Makes the struct of an object of ours; on failure the inner one goes again. */
#define MT_WRAP(kind, base_, ops_, inner_, object_p)                                 \
    struct mt_fault_##kind *object = calloc(1, sizeof(*object));               \
    if (object == NULL) {                                                      \
        mt_fabric_##kind##_destroy(inner_);                                    \
        return MT_ENOMEM;                                                      \
    }                                                                          \
    object->inner = (inner_);                                                  \
    object->base_.ops = (ops_);                                                \
    *(object_p) = &object->base_

struct mt_fault_context {
    struct mt_fabric_context base;
    struct mt_fabric_context *inner;
    struct mt_fault_script script;
    uint64_t random;
    uint64_t posted;
    bool gone;       /* the device is lost, */
    bool told;       /* and its event was taken */
    int loss;        /* readable then; -1: it was not asked for */
    int events;      /* an epoll instance over it and inner's events; -1: none yet */
    /* When the link of each port has carried what was posted so far. */
    uint64_t free_ns[MT_FABRIC_PORTS];
    int timer; /* wakes who sleeps until a link is free; -1: no rate was asked */
    struct mt_fault_qp *qps;
    struct mt_fault_cq *cqs;
};

struct mt_fault_pd {
    struct mt_fabric_pd base;
    struct mt_fabric_pd *inner;
};

struct mt_fault_mr {
    struct mt_fabric_mr base;
    struct mt_fabric_mr *inner;
};

struct mt_fault_ah {
    struct mt_fabric_ah base;
    struct mt_fabric_ah *inner;
};

/* Its descriptor is that of inner, or an epoll instance over it and the timer. */
struct mt_fault_channel {
    struct mt_fabric_channel base;
    struct mt_fabric_channel *inner;
};

/* Completions that wait to be polled. */
struct mt_fault_ring {
    uint32_t head, tail, size;
    struct mt_fabric_completion *slots;
};

struct mt_fault_cq {
    struct mt_fabric_cq base;
    struct mt_fabric_cq *inner;
    struct mt_fault_cq *next; /* of the context */
    /* to be polled before those of inner: of datagrams that were lost (more at
     * once are completed by nobody), and what was taken ahead (mt_make_room) */
    struct mt_fault_ring early;
    struct mt_fault_ring kept; /* of receives, before anything else, .. */
    uint32_t starved;          /* .. after so many polls */
    bool armed; /* its event was not taken: who polls now may sleep next */
};

struct mt_fault_srq {
    struct mt_fabric_srq base;
    struct mt_fabric_srq *inner;
};

/* Posted work that waits. */
struct mt_fault_held {
    struct mt_fault_held *next;
    struct mt_fabric_send work;
    uint32_t polls;  /* until it is begun, .. */
    uint64_t due_ns; /* .. and not before */
    bool lost;      /* a datagram that only completes */
    uint8_t *copy;  /* of changed or inline bytes */
    struct mt_fabric_piece pieces[];
};

/* Accepted work that is not over: the device gets its number as its id. */
struct mt_fault_slot {
    uint64_t id; /* of the caller */
    uint64_t number;
    bool used, signaled;
};

struct mt_fault_qp {
    struct mt_fabric_qp base;
    struct mt_fabric_qp *inner;
    struct mt_fault_qp *next; /* of the context */
    struct mt_fault_held *first, **last;
    struct mt_fault_held *reordered; /* goes after the next one */
    struct mt_fault_slot *slots;     /* by number, as many as the queue is deep */
    uint64_t oldest, tail;           /* numbers: of the oldest used, of the next */
};

/* The number of a datagram that was not posted by the caller. */
#define MT_FAULT_SECOND UINT64_MAX

/* ---- completions that wait ---- */

MT_INLINE bool mt_fault_ring_is_empty(const struct mt_fault_ring *ring)
{
    return ring->head == ring->tail;
}

MT_INLINE bool mt_fault_ring_is_full(const struct mt_fault_ring *ring)
{
    return ring->tail - ring->head == ring->size;
}

/* The next free slot of a ring that is not full. */
MT_INLINE struct mt_fabric_completion *
mt_fault_ring_next(const struct mt_fault_ring *ring)
{
    return &ring->slots[ring->tail % ring->size];
}

/* Takes at most limit; returns how many. */
MT_INLINE uint32_t mt_fault_ring_take(struct mt_fault_ring *ring,
                                      struct mt_fabric_completion *completions,
                                      uint32_t limit)
{
    uint32_t n = 0;
    while (n < limit && !mt_fault_ring_is_empty(ring)) {
        completions[n++] = ring->slots[ring->head++ % ring->size];
    }
    return n;
}

/* ---- drawing ---- */

MT_INLINE uint64_t mt_fault_random(struct mt_fault_context *context)
{
    uint64_t x = context->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    context->random = x;
    return (x * UINT64_C(2685821657736338717)) >> 16;
}

MT_INLINE bool mt_fault_draw(struct mt_fault_context *context, enum mt_fault_kind kind)
{
    uint32_t of = context->script.rules[kind].of;
    return of > 0 && mt_fault_random(context) % of < context->script.rules[kind].times;
}

MT_INLINE struct mt_fault_context *mt_fault_of(struct mt_fabric_context *context)
{
    return (struct mt_fault_context *)context;
}

/* ---- completion queues and channels (completion.c) ---- */

/* Readable when either is; -1: there are no descriptors left. */
int mt_fault_epoll_over(int first, int second);

enum mt_status mt_fault_channel_create(struct mt_fabric_context *context,
                                       struct mt_fabric_channel **channel_p);
void mt_fault_channel_destroy(struct mt_fabric_channel *channel);
enum mt_status mt_fault_channel_take(struct mt_fabric_channel *channel,
                                     struct mt_fabric_cq **cq_p);
enum mt_status mt_fault_cq_create(struct mt_fabric_context *context,
                                  uint32_t depth,
                                  struct mt_fabric_channel *channel,
                                  struct mt_fabric_cq **cq_p);
void mt_fault_cq_destroy(struct mt_fabric_cq *cq);
enum mt_status mt_fault_cq_arm(struct mt_fabric_cq *cq, bool solicited);
/* Ours of the device's, NULL: it is gone. */
struct mt_fabric_cq *mt_fault_cq_of(const struct mt_fault_context *context,
                                    const struct mt_fabric_cq *inner);
/* Completions that wait are of the queue pair as it was: drops them. */
void mt_fault_completions_forget(struct mt_fabric_cq *cq, uint32_t number);

/* ---- work (work.c) ---- */

extern const struct mt_fabric_ops mt_fault_ops;

void mt_fault_held_free(struct mt_fault_held *held);
void mt_fault_append(struct mt_fault_qp *qp, struct mt_fault_held *held);
/* Begins what has waited long enough, in order. */
void mt_fault_release(struct mt_fault_qp *qp);
/* The timer goes off when the next work is due. */
void mt_fault_doze(const struct mt_fault_context *context);

#endif
