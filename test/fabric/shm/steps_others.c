/* steps_others.c: the processes beside the survivor of steps.c: the one that dies
 * in the middle of its operation, and the third, which must not notice. */
#define _GNU_SOURCE 1
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

struct areas areas_make(struct side *s, const struct operation *o)
{
    size_t bytes = slot_of(o, SLOTS);
    struct areas a = {registered(s, bytes), registered(s, bytes),
                      o->registered ? registered(s, bytes + 64)
                                    : allocated(s, bytes + 64),
                      NULL};
    a.memory = a.shared->address;
    for (uint64_t i = 0; i < SENDS; i++) {
        fill((char *)a.out->address + slot_of(o, i), o->bytes,
             seed_of(s->rank, i));
    }
    if (o->kind == READ && s->rank == 0) {
        for (uint64_t i = 0; i < SENDS; i++) {
            fill(a.memory + slot_of(o, i), o->bytes,
                 seed_of(0, i));
        }
    }
    return a;
}

void receives_post(struct side *s, const struct operation *o,
                   const struct areas *a)
{
    for (uint64_t i = 0; i < SLOTS; i++) {
        post_receive(s, s->qp, i, piece(a->in, slot_of(o, i), o->bytes));
    }
}

struct mt_fabric_send send_of(uint64_t id, const struct mt_fabric_piece *p)
{
    return (struct mt_fabric_send){.id = id,
                                   .opcode = MT_FABRIC_SEND,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = p};
}

/* ---- the one that dies ---- */

/* What it is told before it begins. */
struct order {
    struct mt_fabric_address address; /* of the survivor's queue pair */
    struct remote there;              /* and of its shared memory */
};

/* Polls until so much has completed. */
static void complete(struct mt_fabric_cq *cq, uint64_t count)
{
    struct mt_fabric_completion c;
    while (count > 0) {
        if (mt_fabric_poll(cq, &c, 1) == 1) {
            EQ(c.status, MT_OK);
            count--;
        }
    }
}

static void post_numbered(struct side *s, const struct operation *o,
                          const struct areas *a, const struct order *order,
                          uint64_t i)
{
    static uint64_t flags[SENDS];
    struct mt_fabric_piece p = piece(o->kind == READ ? a->in : a->out,
                                     slot_of(o, i), o->bytes);
    struct mt_fabric_piece flag = {&flags[i], sizeof(flags[i]), 0};
    struct mt_fabric_send work = send_of(i, &p);
    work.remote_address = order->there.address + slot_of(o, i);
    work.rkey = order->there.rkey;
    work.immediate = (uint32_t)i;
    work.opcode = o->kind == WRITE_FLAG  ? MT_FABRIC_WRITE
                  : o->kind == WRITE_IMM ? MT_FABRIC_WRITE_WITH_IMM
                  : o->kind == READ      ? MT_FABRIC_READ
                                         : MT_FABRIC_SEND;
    OK(mt_fabric_post_send(s->qp, &work));
    if (o->kind == WRITE_FLAG) {
        flags[i] = i + 1;
        work.flags = MT_FABRIC_INLINE;
        work.pieces = &flag;
        work.remote_address =
            order->there.address + slot_of(o, SLOTS) + i * sizeof(flags[i]);
        OK(mt_fabric_post_send(s->qp, &work));
    }
}

static void operate(struct side *s, const struct operation *o,
                    const struct areas *a, const struct order *order)
{
    if (o->kind == CONNECT) {
        OK(mt_fabric_qp_connect(s->qp, &order->address));
    }
    if (o->kind != RECEIVE) {
        for (uint64_t i = 0; i < SENDS; i++) {
            post_numbered(s, o, a, order, i);
        }
        complete(s->send_cq, SENDS);
    }
    if (o->kind == DESTROY || o->kind == CLOSE) {
        OK(mt_fabric_qp_destroy(s->qp));
    } else {
        complete(s->receive_cq, REPLIES);
    }
    if (o->kind == CLOSE) {
        OK(mt_fabric_mr_destroy(a->out));
        OK(mt_fabric_mr_destroy(a->in));
        OK(mt_fabric_mr_destroy(a->shared));
        OK(mt_fabric_cq_destroy(s->send_cq));
        OK(mt_fabric_cq_destroy(s->receive_cq));
        OK(mt_fabric_pd_destroy(s->pd));
        OK(mt_fabric_close(s->context));
    }
}

static void check_received(const struct operation *o, const struct areas *a)
{
    bool reads = o->kind == READ;
    for (uint64_t i = 0; i < (reads ? SENDS : REPLIES); i++) {
        CHECK(filled((char *)a->in->address + slot_of(o, i), o->bytes,
                     seed_of(0, i)));
    }
}

static void operate_datagrams(struct side *s, const struct operation *o,
                              const struct areas *a, struct mt_fabric_ah *ah)
{
    if (o->kind == DATAGRAM_RECEIVE) {
        complete(s->receive_cq, REPLIES);
        return;
    }
    for (uint64_t i = 0; i < SENDS; i++) {
        struct mt_fabric_piece p = piece(a->out, slot_of(o, i), o->bytes);
        struct mt_fabric_send work = send_of(i, &p);
        work.ah = ah;
        OK(mt_fabric_post_send(s->qp, &work));
    }
    complete(s->send_cq, SENDS);
}

/* Between two stops of its own is what is stepped through. */
void die(struct side *s, const struct operation *o)
{
    struct mt_fabric_ah *ah = NULL;
    struct mt_fabric_address mine;
    struct order order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    side_open(s, false);
    struct mt_fabric_qp_options options = is_datagram(o) ? ud_options(s)
                                                         : rc_options(s);
    struct areas a = areas_make(s, o);
    OK(mt_fabric_qp_create(s->pd, &options, &s->qp));
    OK(mt_fabric_qp_address(s->qp, &mine));
    swap(s, &mine, &order.address, sizeof(mine));
    order.there = remote_of(s, a.shared);
    receives_post(s, o, &a);
    if (is_datagram(o)) {
        OK(mt_fabric_qp_connect(s->qp, NULL));
        OK(mt_fabric_ah_create(s->pd, &order.address, &ah));
    } else if (o->kind != CONNECT) {
        OK(mt_fabric_qp_connect(s->qp, &order.address));
    }
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(DENIED);
    }
    raise(SIGSTOP);
    if (is_datagram(o)) {
        operate_datagrams(s, o, &a, ah);
    } else {
        operate(s, o, &a, &order);
    }
    raise(SIGSTOP);
    if (o->kind != DATAGRAM && o->kind != DESTROY && o->kind != CLOSE) {
        check_received(o, &a);
    }
    _exit(0);
}

/* ---- the third ---- */

void echo(struct side *s)
{
    struct mt_fabric_address mine, theirs;
    struct mt_fabric_qp *ud;
    struct mt_fabric_ah *ah;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_qp_options o = ud_options(s);
    OK(mt_fabric_qp_create(s->pd, &o, &ud));
    OK(mt_fabric_qp_address(ud, &mine));
    OK(mt_fabric_qp_connect(ud, NULL));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_ah_create(s->pd, &theirs, &ah));
    struct mt_fabric_mr *mr = registered(s, 2 * SHORT);
    post_receive(s, s->qp, 0, piece(mr, 0, SHORT));
    post_receive(s, ud, 1, piece(mr, SHORT, SHORT));
    for (uint64_t idle = 0;; idle++) {
        struct mt_fabric_completion c;
        if (mt_fabric_poll(s->receive_cq, &c, 1) == 1) {
            struct mt_fabric_piece p = piece(mr, c.id * SHORT, SHORT);
            struct mt_fabric_send work = send_of(0, &p);
            work.ah = c.id == 1 ? ah : NULL;
            EQ(c.status, MT_OK);
            post(s, c.id == 1 ? ud : s->qp, &work);
            next_ok(s, s->send_cq);
            post_receive(s, c.id == 1 ? ud : s->qp, c.id, p);
            idle = 0;
        } else if (idle > 256) {
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
    }
}
