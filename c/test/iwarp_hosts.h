/* iwarp_hosts.h: two contexts of one process that stand for two hosts, for tests of the
 * iwarp provider from inside. Every wait has a bound. */
#ifndef MPITRACE_TEST_IWARP_HOSTS_H
#define MPITRACE_TEST_IWARP_HOSTS_H

#include <string.h>
#include <sys/socket.h>

#include "../include/crc32c.h"
#include "../fabric/iwarp/iwarp.h"
#include "check.h"

enum { ROOM = 1 << 17, LIMIT_MS = 120000 };

static inline uint64_t now_ms(void)
{
    return mt_soft_now() / 1000000;
}

struct host {
    struct mt_fabric_context *context;
    struct mt_fabric_pd *pd;
    struct mt_fabric_cq *sends, *receives;
    struct mt_fabric_mr *mr;
    struct mt_fabric_qp *qp;
};

static inline void host_open_with(struct host *h,
                                  const struct mt_fabric_options *options)
{
    memset(h, 0, sizeof(*h));
    CHECK_EQ(mt_fabric_open("iwarp:lo", options, &h->context), MT_OK);
    CHECK_EQ(mt_fabric_pd_create(h->context, &h->pd), MT_OK);
    CHECK_EQ(mt_fabric_cq_create(h->context, 64, NULL, &h->sends), MT_OK);
    CHECK_EQ(mt_fabric_cq_create(h->context, 64, NULL, &h->receives), MT_OK);
    CHECK_EQ(mt_fabric_mr_allocate(h->pd, ROOM,
                                   MT_FABRIC_LOCAL_WRITE |
                                       MT_FABRIC_REMOTE_WRITE |
                                       MT_FABRIC_REMOTE_READ,
                                   &h->mr),
             MT_OK);
}

static inline void host_open(struct host *h) { host_open_with(h, NULL); }

static inline void host_qp(struct host *h, enum mt_fabric_transport transport,
                           uint32_t timeout_ms)
{
    struct mt_fabric_qp_options o = {.transport = transport,
                                     .send_cq = h->sends,
                                     .receive_cq = h->receives,
                                     .send_depth = 16,
                                     .receive_depth = 16,
                                     .pieces = 4,
                                     .reads = transport == MT_FABRIC_RC ? 4 : 0,
                                     .port = 1,
                                     .timeout_ms = timeout_ms,
                                     .open_ms = 60000};
    CHECK_EQ(mt_fabric_qp_create(h->pd, &o, &h->qp), MT_OK);
}

static inline void host_close(struct host *h)
{
    if (h->qp != NULL) {
        CHECK_EQ(mt_fabric_qp_destroy(h->qp), MT_OK);
    }
    CHECK_EQ(mt_fabric_mr_destroy(h->mr), MT_OK);
    CHECK_EQ(mt_fabric_cq_destroy(h->sends), MT_OK);
    CHECK_EQ(mt_fabric_cq_destroy(h->receives), MT_OK);
    CHECK_EQ(mt_fabric_pd_destroy(h->pd), MT_OK);
    CHECK_EQ(mt_fabric_close(h->context), MT_OK);
}

static inline struct mt_iwarp_context *inside(const struct host *h)
{
    return (struct mt_iwarp_context *)h->context;
}

static inline struct mt_iwarp_qp *inner(const struct host *h)
{
    return (struct mt_iwarp_qp *)h->qp;
}

static inline void pump(struct host *a, struct host *b)
{
    struct mt_fabric_completion none;
    mt_fabric_poll(a->sends, &none, 0);
    mt_fabric_poll(b->sends, &none, 0);
}

/* Two hosts with a connection, of which one wants a CRC, or both, or none. */
static inline void join_with(struct host *a, bool a_no_crc, struct host *b,
                             bool b_no_crc)
{
    struct mt_fabric_options o = {.engine_cpu = -1, .no_crc = a_no_crc};
    struct mt_fabric_address x, y;
    host_open_with(a, &o);
    o.no_crc = b_no_crc;
    host_open_with(b, &o);
    host_qp(a, MT_FABRIC_RC, 0);
    host_qp(b, MT_FABRIC_RC, 0);
    CHECK_EQ(mt_fabric_qp_address(a->qp, &x), MT_OK);
    CHECK_EQ(mt_fabric_qp_address(b->qp, &y), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(a->qp, &y), MT_OK);
    for (int i = 0; i < 20; i++) {
        pump(a, b); /* a request may come before its queue pair is connected */
    }
    CHECK_EQ(mt_fabric_qp_connect(b->qp, &x), MT_OK);
    uint64_t until = now_ms() + LIMIT_MS;
    while ((inner(a)->link != MT_LINK_OPEN || inner(b)->link != MT_LINK_OPEN) &&
           now_ms() < until) {
        pump(a, b);
    }
    CHECK_EQ(inner(a)->link, MT_LINK_OPEN);
    CHECK_EQ(inner(b)->link, MT_LINK_OPEN);
}

static inline void join(struct host *a, struct host *b)
{
    join_with(a, false, b, false);
}

static inline struct mt_fabric_completion
take(struct host *of, struct mt_fabric_cq *cq, struct host *other)
{
    struct mt_fabric_completion c = {.status = MT_ETIMEOUT};
    uint64_t until = now_ms() + LIMIT_MS;
    while (mt_fabric_poll(cq, &c, 1) == 0 && now_ms() < until) {
        pump(of, other);
    }
    return c;
}

static inline void post(struct host *h, enum mt_fabric_opcode opcode, uint32_t bytes,
                        uint64_t address, uint32_t rkey, struct mt_fabric_ah *ah)
{
    struct mt_fabric_piece p = {h->mr->address, bytes, h->mr->lkey};
    struct mt_fabric_send work = {.id = 1,
                                  .opcode = opcode,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = address,
                                  .rkey = rkey,
                                  .ah = ah};
    CHECK_EQ(mt_fabric_post_send(h->qp, &work), MT_OK);
}

static inline void post_receive(struct host *h, uint64_t id, uint32_t bytes)
{
    struct mt_fabric_piece p = {(char *)h->mr->address + id * 128, bytes,
                                h->mr->lkey};
    struct mt_fabric_receive work = {.id = id, .piece_count = 1, .pieces = &p};
    CHECK_EQ(mt_fabric_post_receive(h->qp, &work), MT_OK);
}

static inline void await_error(struct host *a, struct host *b)
{
    uint64_t until = now_ms() + LIMIT_MS;
    while ((mt_fabric_qp_state(a->qp) != MT_FABRIC_QP_ERROR ||
            mt_fabric_qp_state(b->qp) != MT_FABRIC_QP_ERROR) &&
           now_ms() < until) {
        pump(a, b);
    }
    CHECK_EQ(mt_fabric_qp_state(a->qp), MT_FABRIC_QP_ERROR);
    CHECK_EQ(mt_fabric_qp_state(b->qp), MT_FABRIC_QP_ERROR);
}

/* A frame of any bytes with a right CRC, straight into the socket of a. */
static inline void inject(struct host *a, const uint8_t *ulpdu, uint32_t bytes,
                          bool good_crc)
{
    uint8_t frame[128] = {0};
    uint32_t n = MT_MPA_LENGTH + bytes + mt_mpa_pad(bytes);
    mt_put16(frame, (uint16_t)bytes);
    memcpy(frame + MT_MPA_LENGTH, ulpdu, bytes);
    mt_put_crc(frame + n, mt_crc32c(0, frame, n) ^ (good_crc ? 0u : 1u));
    CHECK_EQ(send(inner(a)->fd, frame, n + MT_MPA_CRC, MSG_NOSIGNAL),
             n + MT_MPA_CRC);
}

#endif
