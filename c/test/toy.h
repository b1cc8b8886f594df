/* toy.h: a device that is two queues in memory, for tests of paths: what is posted is
 * carried out when the test says so, and a queue is full when the test says so. */
#ifndef MPITRACE_TEST_TOY_H
#define MPITRACE_TEST_TOY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/fabric.h"

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s (seed %llu)\n", __FILE__, __LINE__,     \
                    #condition, (unsigned long long)toy_seed);                 \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static uint64_t toy_seed, toy_state;

static uint32_t toy_random(uint32_t below)
{
    toy_state ^= toy_state >> 12;
    toy_state ^= toy_state << 25;
    toy_state ^= toy_state >> 27;
    return (uint32_t)((toy_state * UINT64_C(2685821657736338717)) >> 33) %
           below;
}

/* ---- the device ---- */

enum { TOY_QUEUE = 64, TOY_PIECES = 2, TOY_INLINE = 64 };

struct toy_work {
    struct mt_fabric_send work;
    struct mt_fabric_piece pieces[TOY_PIECES];
    char copy[TOY_INLINE];
};

struct toy_receive {
    uint64_t id;
    void *address;
    uint32_t bytes;
};

struct mt_fabric_qp {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_qp *peer;
    uint32_t depth, read_limit, reads;
    uint32_t full; /* one in so many posts finds the queue full */
    bool broken;
    struct toy_work works[TOY_QUEUE];
    uint32_t head, tail;
    struct toy_receive receives[TOY_QUEUE];
    uint32_t receive_head, receive_tail;
    struct mt_fabric_completion done[4 * TOY_QUEUE];
    uint32_t done_head, done_tail;
};

static void toy_complete(struct mt_fabric_qp *qp, struct mt_fabric_completion c)
{
    CHECK(qp->done_tail - qp->done_head < 4 * TOY_QUEUE);
    qp->done[qp->done_tail++ % (4 * TOY_QUEUE)] = c;
}

static enum mt_status toy_post_send(struct mt_fabric_qp *qp,
                                    const struct mt_fabric_send *work)
{
    if (qp->tail - qp->head >= qp->depth ||
        (qp->full > 0 && toy_random(qp->full) == 0)) {
        return MT_EAGAIN;
    }
    struct toy_work *w = &qp->works[qp->tail++ % TOY_QUEUE];
    w->work = *work;
    CHECK(work->piece_count <= TOY_PIECES);
    for (uint32_t i = 0; i < work->piece_count; i++) {
        w->pieces[i] = work->pieces[i];
    }
    w->work.pieces = w->pieces;
    if ((work->flags & MT_FABRIC_INLINE) != 0) {
        CHECK(work->piece_count == 1 && w->pieces[0].bytes <= TOY_INLINE);
        memcpy(w->copy, w->pieces[0].address, w->pieces[0].bytes);
        w->pieces[0].address = w->copy;
    }
    qp->reads += work->opcode == MT_FABRIC_READ;
    CHECK(qp->reads <= qp->read_limit);
    return MT_OK;
}

static enum mt_status toy_post_receive(struct mt_fabric_qp *qp,
                                       const struct mt_fabric_receive *work)
{
    CHECK(qp->receive_tail - qp->receive_head < TOY_QUEUE);
    struct toy_receive *r = &qp->receives[qp->receive_tail++ % TOY_QUEUE];
    *r = (struct toy_receive){.id = work->id};
    if (work->piece_count > 0) {
        r->address = work->pieces[0].address;
        r->bytes = work->pieces[0].bytes;
    }
    return MT_OK;
}

/* A writer that has no rests stores into the ring. */
void *mt_fabric_remote_pointer(const struct mt_fabric_qp *qp, uint64_t address,
                               uint32_t rkey, uint64_t bytes)
{
    (void)qp;
    (void)rkey;
    (void)bytes;
    return (void *)(uintptr_t)address;
}

static const struct mt_fabric_ops toy_ops = {
    .post_send = toy_post_send,
    .post_receive = toy_post_receive,
};

/* The pieces one behind the other, to there. Returns how many bytes. */
static uint32_t toy_gather(const struct toy_work *w, void *to)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < w->work.piece_count; i++) {
        if (to != NULL && w->pieces[i].bytes > 0) {
            memcpy((char *)to + bytes, w->pieces[i].address,
                   w->pieces[i].bytes);
        }
        bytes += w->pieces[i].bytes;
    }
    return bytes;
}

/* Carries out the oldest work, if there is one. */
static void toy_step(struct mt_fabric_qp *qp)
{
    if (qp->head == qp->tail) {
        return;
    }
    struct toy_work *w = &qp->works[qp->head++ % TOY_QUEUE];
    uint32_t bytes = toy_gather(w, NULL);
    void *remote = (void *)(uintptr_t)w->work.remote_address;
    struct mt_fabric_completion c = {.id = w->work.id, .status = MT_OK};
    bool takes = w->work.opcode == MT_FABRIC_SEND ||
                 w->work.opcode == MT_FABRIC_WRITE_WITH_IMM;
    if (qp->broken) {
        c.status = MT_EFLUSHED;
    } else if (w->work.opcode == MT_FABRIC_READ) {
        memcpy(w->pieces[0].address, remote, bytes);
    } else if (w->work.opcode != MT_FABRIC_SEND && bytes > 0) {
        toy_gather(w, remote);
    }
    qp->reads -= w->work.opcode == MT_FABRIC_READ;
    if (takes && !qp->broken) {
        struct mt_fabric_qp *peer = qp->peer;
        bool imm = w->work.opcode == MT_FABRIC_WRITE_WITH_IMM;
        CHECK(peer->receive_head !=
              peer->receive_tail); /* never overcommitted */
        struct toy_receive *r =
            &peer->receives[peer->receive_head++ % TOY_QUEUE];
        CHECK(imm || bytes <= r->bytes);
        if (!imm && bytes > 0) {
            toy_gather(w, r->address);
        }
        toy_complete(
            peer, (struct mt_fabric_completion){.id = r->id,
                                                .bytes = bytes,
                                                .immediate = w->work.immediate,
                                                .has_immediate = imm});
    }
    if ((w->work.flags & MT_FABRIC_SIGNALED) != 0 || c.status != MT_OK) {
        toy_complete(qp, c);
    }
}

static bool toy_poll(struct mt_fabric_qp *qp, struct mt_fabric_completion *c)
{
    if (qp->done_head == qp->done_tail) {
        return false;
    }
    *c = qp->done[qp->done_head++ % (4 * TOY_QUEUE)];
    return true;
}

static void toy_pair(struct mt_fabric_qp pair[2])
{
    memset(pair, 0, 2 * sizeof(pair[0]));
    for (int i = 0; i < 2; i++) {
        pair[i].ops = &toy_ops;
        pair[i].peer = &pair[1 - i];
        pair[i].depth = 2 + toy_random(8);
        pair[i].full = 5;
    }
}

enum mt_status mt_fabric_mr_allocate(struct mt_fabric_pd *pd, size_t bytes,
                                     uint32_t access,
                                     struct mt_fabric_mr **mr_p)
{
    struct mt_fabric_mr *mr = calloc(1, sizeof(*mr));
    (void)access;
    mr->address = calloc(1, bytes);
    mr->bytes = bytes;
    mr->pd = pd;
    *mr_p = mr;
    return MT_OK;
}

enum mt_status mt_fabric_mr_destroy(struct mt_fabric_mr *mr)
{
    free(mr->address);
    free(mr);
    return MT_OK;
}

#endif
