/* layer.h: the objects of the layer, and how faults are drawn. */
#ifndef MPITRACE_FABRIC_FAULT_LAYER_H
#define MPITRACE_FABRIC_FAULT_LAYER_H

#include "fault.h"
#include "script.h"

enum { MT_EARLY = 1024 };

struct mt_fault_context {
    struct mt_fabric_context base;
    struct mt_fabric_context *inner;
    struct mt_fault_script script;
    uint64_t random;
    uint64_t posted;
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

struct mt_fault_channel {
    struct mt_fabric_channel base;
    struct mt_fabric_channel *inner;
};

struct mt_fault_cq {
    struct mt_fabric_cq base;
    struct mt_fabric_cq *inner;
    struct mt_fault_cq *next; /* of the context */
    /* to be polled before those of inner: of datagrams that were lost (more at
     * once are completed by nobody), and what was taken ahead (mt_make_room) */
    struct mt_fabric_completion early[MT_EARLY];
    uint32_t early_head, early_tail;
};

struct mt_fault_srq {
    struct mt_fabric_srq base;
    struct mt_fabric_srq *inner;
};

/* Posted work that waits. */
struct mt_fault_held {
    struct mt_fault_held *next;
    struct mt_fabric_send work;
    uint32_t polls; /* until it is begun */
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

/* ---- work (work.c) ---- */

extern const struct mt_fabric_ops mt_fault_ops;

void mt_fault_held_free(struct mt_fault_held *held);
void mt_fault_append(struct mt_fault_qp *qp, struct mt_fault_held *held);
/* Begins what has waited long enough, in order. */
void mt_fault_release(struct mt_fault_qp *qp);

#endif
