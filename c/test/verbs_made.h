/* verbs_made.h: a device that is made up, in place of libibverbs and of library.c.
 *
 * It carries out a send while it is posted, with the status of made_status. It has
 * no lock of its own for queues, so that the thread sanitizer sees whether the
 * provider keeps two threads apart; its events come by a pipe, as the kernel's do.
 * There are no other devices but made_others, of another provider, and one behind
 * them, of a third, which nobody may open. */
#ifndef MPITRACE_TEST_VERBS_MADE_H
#define MPITRACE_TEST_VERBS_MADE_H

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fabric/verbs/verbs.h"

#if !MT_VERBS
#error "infiniband/verbs.h is missing: apt-get install libibverbs-dev"
#endif

enum { DEPTH = 60, COMPLETIONS = 1024, PORTS = 2 };

struct made_cq {
    struct ibv_cq cq;
    struct ibv_wc entries[COMPLETIONS];
    unsigned head, tail;
};

static struct ibv_device made_device = {.transport_type = IBV_TRANSPORT_IB,
                                        .name = "made0",
                                        .dev_name = "made0"};
static struct verbs_context made_context;
static int made_events[2]; /* a pipe of struct ibv_async_event */
static unsigned made_acknowledged;
static bool made_up = true;              /* the ports */
static uint8_t made_ports = 1;
static bool made_route; /* they want route headers */
static enum ibv_wc_status made_status;   /* of the next completions */
static int made_error;                   /* of posting */
static int made_receive_error, made_send_error; /* of connecting, by its step */
static int made_handle_errors[PORTS + 1];       /* of address handles, by port */
static uint32_t made_timeout, made_global;      /* of the last connection */
static uint32_t made_others;
static uint32_t made_numbers;
static void (*made_destroying)(void); /* what others do meanwhile */

static struct ibv_device **get_device_list(int *count)
{
    static struct ibv_device *list[2] = {&made_device, NULL};
    if (count != NULL) {
        *count = 1;
    }
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    (void)list;
}

static const char *get_device_name(struct ibv_device *device)
{
    return device->name;
}

static int poll_cq(struct ibv_cq *cq, int limit, struct ibv_wc *wcs)
{
    struct made_cq *made = (struct made_cq *)cq;
    int n = 0;
    for (; n < limit && made->head != made->tail; n++) {
        wcs[n] = made->entries[made->head++ % COMPLETIONS];
    }
    return n;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                     struct ibv_send_wr **bad)
{
    struct made_cq *made = (struct made_cq *)qp->send_cq;
    (void)bad;
    if (made_error != 0) {
        return made_error;
    }
    if ((wr->send_flags & IBV_SEND_SIGNALED) == 0 &&
        made_status == IBV_WC_SUCCESS) {
        return 0;
    }
    made->entries[made->tail++ % COMPLETIONS] =
        (struct ibv_wc){.wr_id = wr->wr_id,
                        .status = made_status,
                        .opcode = IBV_WC_SEND,
                        .qp_num = qp->qp_num};
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                     struct ibv_recv_wr **bad)
{
    struct made_cq *made = (struct made_cq *)qp->recv_cq;
    (void)bad;
    made->entries[made->tail++ % COMPLETIONS] =
        (struct ibv_wc){.wr_id = wr->wr_id,
                        .status = made_status,
                        .opcode = IBV_WC_RECV,
                        .qp_num = qp->qp_num};
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port,
                      struct ibv_port_attr *attributes, size_t bytes)
{
    (void)context;
    (void)bytes;
    if (port < 1 || port > made_ports) {
        return EINVAL;
    }
    attributes->state = made_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attributes->active_mtu = IBV_MTU_2048;
    attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
    attributes->max_msg_sz = 1 << 30;
    attributes->gid_tbl_len = 1;
    attributes->lid = 7;
    attributes->flags = made_route ? IBV_QPF_GRH_REQUIRED : 0;
    return 0;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    made_context.sz = sizeof(made_context);
    made_context.query_port = query_port;
    made_context.context.device = device;
    made_context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    made_context.context.async_fd = made_events[0];
    made_context.context.ops.poll_cq = poll_cq;
    made_context.context.ops.post_send = post_send;
    made_context.context.ops.post_recv = post_recv;
    return &made_context.context;
}

static int close_device(struct ibv_context *context)
{
    (void)context;
    return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
    (void)context;
    *a = (struct ibv_device_attr){.max_qp = 1 << 16,
                                  .max_qp_wr = 1 << 13,
                                  .max_sge = 8,
                                  .max_qp_rd_atom = 8,
                                  .max_qp_init_rd_atom = 8,
                                  .phys_port_cnt = made_ports};
    return 0;
}

static int get_async_event(struct ibv_context *context,
                           struct ibv_async_event *event)
{
    return read(context->async_fd, event, sizeof(*event)) == sizeof(*event)
               ? 0
               : -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    __atomic_add_fetch(&made_acknowledged, 1, __ATOMIC_RELAXED);
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    pd->context = context;
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t bytes,
                             int access)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    (void)access;
    *mr = (struct ibv_mr){.pd = pd, .addr = address, .length = bytes};
    return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int depth,
                                void *user, struct ibv_comp_channel *channel,
                                int vector)
{
    struct made_cq *made = calloc(1, sizeof(*made));
    (void)depth;
    (void)vector;
    made->cq.context = context;
    made->cq.channel = channel;
    made->cq.cq_context = user;
    return &made->cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
                                struct ibv_qp_init_attr *options)
{
    struct ibv_qp *qp = calloc(1, sizeof(*qp));
    *qp = (struct ibv_qp){.context = pd->context,
                          .qp_context = options->qp_context,
                          .pd = pd,
                          .send_cq = options->send_cq,
                          .recv_cq = options->recv_cq,
                          .qp_num = __atomic_add_fetch(&made_numbers, 1,
                                                       __ATOMIC_RELAXED),
                          .qp_type = options->qp_type};
    return qp;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
    (void)mask;
    bool connects = qp->qp_type == IBV_QPT_RC;
    if (connects && attributes->qp_state == IBV_QPS_RTR) {
        __atomic_store_n(&made_global, attributes->ah_attr.is_global,
                         __ATOMIC_RELAXED);
        if (made_receive_error != 0) {
            return made_receive_error;
        }
    } else if (connects && attributes->qp_state == IBV_QPS_RTS) {
        __atomic_store_n(&made_timeout, attributes->timeout, __ATOMIC_RELAXED);
        if (made_send_error != 0) {
            return made_send_error;
        }
    }
    qp->state = attributes->qp_state;
    return 0;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask,
                    struct ibv_qp_init_attr *options)
{
    (void)mask;
    (void)options;
    attributes->qp_state = qp->state;
    return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
    if (made_destroying != NULL) {
        made_destroying();
    }
    free(qp);
    return 0;
}

static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attributes)
{
    struct ibv_ah *ah = NULL;
    errno = made_handle_errors[attributes->port_num];
    if (errno == 0) {
        ah = calloc(1, sizeof(*ah));
        ah->pd = pd;
    }
    return ah;
}

static int destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    return 0;
}

static ssize_t query_gid_table(struct ibv_context *context,
                               struct ibv_gid_entry *entries, size_t limit,
                               uint32_t flags, size_t bytes)
{
    (void)context;
    (void)flags;
    (void)bytes;
    assert(limit >= made_ports);
    for (uint8_t i = 0; i < made_ports; i++) {
        entries[i] =
            (struct ibv_gid_entry){.port_num = i + 1u,
                                   .gid_type = IBV_GID_TYPE_IB,
                                   .gid = {.raw = {0xfe, 0x80, [15] = 7}}};
    }
    return made_ports;
}

/* In place of library.c. Channels and shared queues are left out. */
const struct mt_verbs_library *mt_verbs_library(void)
{
    static const struct mt_verbs_library library = {
        get_device_list, free_device_list, get_device_name, open_device,
        close_device,    query_device,     get_async_event, ack_async_event,
        alloc_pd,        dealloc_pd,       reg_mr,          dereg_mr,
        NULL,            NULL,             NULL,            NULL,
        create_cq,       destroy_cq,       NULL,            NULL,
        create_qp,       modify_qp,        query_qp,        destroy_qp,
        create_ah,       destroy_ah,       query_gid_table};
    return &library;
}

const char *mt_verbs_missing(void)
{
    return NULL;
}

/* ---- other providers ---- */

static void other_device(struct mt_fabric_device *device, const char *provider,
                         uint32_t number)
{
    *device = (struct mt_fabric_device){.port_count = 1,
                                        .ports = {{.number = 1, .up = true}}};
    snprintf(device->provider, sizeof(device->provider), "%s", provider);
    snprintf(device->name, sizeof(device->name), "%s%u", provider, number);
    memcpy(device->ports[0].name, device->name, sizeof(device->name));
}

static uint32_t other_devices(struct mt_fabric_device *devices, uint32_t limit)
{
    for (uint32_t i = 0; i < made_others && i < limit; i++) {
        other_device(&devices[i], "iwarp", i);
    }
    return made_others;
}

static uint32_t last_device(struct mt_fabric_device *devices, uint32_t limit)
{
    if (limit > 0) {
        other_device(devices, "shm", 0);
    }
    return 1;
}

static enum mt_status last_open(const struct mt_fabric_device *device,
                                const struct mt_fabric_options *options,
                                struct mt_fabric_context **context_p)
{
    (void)device;
    (void)options;
    (void)context_p;
    return MT_EPERM;
}

const struct mt_fabric_provider mt_fabric_iwarp = {.name = "iwarp",
                                                   .devices = other_devices};
const struct mt_fabric_provider mt_fabric_shm = {
    .name = "shm", .devices = last_device, .open = last_open};

#endif
