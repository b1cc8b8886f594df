/* device.c: which devices there are and what they can do; opening one; what it
 * tells without being asked. */
#define _GNU_SOURCE 1
#include "verbs.h"

#if MT_VERBS

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- capabilities ---- */

/* Bits per second that carry data. Of the codes of speed, the first three are
 * sent on InfiniBand with 10 bits for 8 (InfiniBand 1.5, 14.2.5.6). */
static uint64_t mt_rate(const struct ibv_port_attr *port)
{
    static const struct {
        uint32_t code, mbits, infiniband_mbits;
    } speeds[] = {{1, 2500, 2000},    {2, 5000, 4000},   {4, 10000, 8000},
                  {8, 10000, 10000},  {16, 14000, 13636}, {32, 25000, 25000},
                  {64, 50000, 50000}, {128, 100000, 100000}};
    static const uint32_t widths[][2] = {
        {1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    uint64_t mbits = 0, width = 0;
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
        if (speeds[i].code == port->active_speed) {
            mbits = port->link_layer == IBV_LINK_LAYER_ETHERNET
                        ? speeds[i].mbits
                        : speeds[i].infiniband_mbits;
        }
    }
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        width = widths[i][0] == port->active_width ? widths[i][1] : width;
    }
    return mbits * width * 1000000;
}

static uint32_t mt_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* No query tells how much can be inline: one asks for a queue pair that has it. */
static uint32_t mt_inline_limit(const struct mt_verbs_library *library,
                                struct ibv_context *device)
{
    struct ibv_pd *pd = library->alloc_pd(device);
    struct ibv_cq *cq = library->create_cq(device, 1, NULL, NULL, 0);
    uint32_t limit = 0;
    for (uint32_t bytes = 512; bytes >= 32 && limit == 0; bytes /= 2) {
        struct ibv_qp_init_attr options = {.send_cq = cq,
                                           .recv_cq = cq,
                                           .qp_type = IBV_QPT_RC,
                                           .cap = {.max_send_wr = 1,
                                                   .max_recv_wr = 1,
                                                   .max_send_sge = 1,
                                                   .max_recv_sge = 1,
                                                   .max_inline_data = bytes}};
        struct ibv_qp *qp =
            pd != NULL && cq != NULL ? library->create_qp(pd, &options) : NULL;
        if (qp != NULL) {
            limit = bytes;
            library->destroy_qp(qp);
        }
    }
    if (cq != NULL) {
        library->destroy_cq(cq);
    }
    if (pd != NULL) {
        library->dealloc_pd(pd);
    }
    return limit;
}

/* A port of another link layer than the first (ConnectX-3 can have both) counts
 * as down: which one a datagram came by is told for a device, not for a port. */
static void mt_ports_fill(struct ibv_context *device, const char *name,
                          uint8_t count, struct mt_fabric_device *d)
{
    uint8_t layer = IBV_LINK_LAYER_UNSPECIFIED;
    d->port_count = mt_least(count, MT_FABRIC_PORTS);
    for (uint32_t i = 0; i < d->port_count; i++) {
        struct mt_fabric_port *port = &d->ports[i];
        struct ibv_port_attr a;
        snprintf(port->name, sizeof(port->name), "%.*s:%u",
                 MT_FABRIC_NAME_BYTES - 12, name, i + 1);
        port->number = i + 1;
        if (mt_verbs_query_port(device, (uint8_t)(i + 1), &a) != 0) {
            continue;
        }
        layer = i == 0 ? a.link_layer : layer;
        port->up = a.state == IBV_PORT_ACTIVE && a.link_layer == layer;
        port->mtu = mt_verbs_mtu_bytes((uint8_t)a.active_mtu);
        port->bits_per_second = mt_rate(&a);
        if (d->caps.max_message > a.max_msg_sz) {
            d->caps.max_message = a.max_msg_sz;
        }
        d->caps.ud_payload = mt_least(d->caps.ud_payload, port->mtu);
    }
}

static void mt_caps_fill(const struct mt_verbs_library *library,
                         struct ibv_context *device,
                         const struct ibv_device_attr *a,
                         struct mt_fabric_caps *caps)
{
    uint32_t reads = mt_least((uint32_t)a->max_qp_rd_atom,
                              (uint32_t)a->max_qp_init_rd_atom);
    *caps = (struct mt_fabric_caps){
        .transports = MT_FABRIC_RC | MT_FABRIC_UD,
        .rc_operations = MT_FABRIC_SEND | MT_FABRIC_WRITE |
                         MT_FABRIC_WRITE_WITH_IMM | MT_FABRIC_READ,
        .ud_operations = MT_FABRIC_SEND,
        .notify = MT_FABRIC_NOTIFY_FLAG_WRITE | MT_FABRIC_NOTIFY_IMM |
                  MT_FABRIC_NOTIFY_SEND,
        .max_pieces = mt_least((uint32_t)a->max_sge, MT_VERBS_PIECES),
        .max_inline = mt_inline_limit(library, device),
        .max_reads = mt_least(reads, UINT8_MAX),
        .max_depth = mt_least((uint32_t)a->max_qp_wr, MT_VERBS_DEPTH),
        .max_qps = (uint32_t)a->max_qp,
        .max_message = UINT64_C(1) << 30,
        .ud_payload = 4096,
        .ud_headroom = MT_VERBS_HEADROOM,
        .srq = a->max_srq > 0,
        .events = true,
        .waits_for_receive = true,
        .offloads = true};
    if (caps->srq) { /* one limit for both kinds of queue */
        caps->max_pieces =
            mt_least(caps->max_pieces, (uint32_t)a->max_srq_sge);
        caps->max_depth = mt_least(caps->max_depth, (uint32_t)a->max_srq_wr);
    }
}

/* One that cannot be opened is there, and can do nothing: opening it tells why. */
static void mt_device_fill(const struct mt_verbs_library *library,
                           struct ibv_device *device,
                           struct mt_fabric_device *d)
{
    struct ibv_device_attr attributes;
    memset(d, 0, sizeof(*d));
    snprintf(d->name, sizeof(d->name), "%s", library->get_device_name(device));
    snprintf(d->provider, sizeof(d->provider), "verbs");
    struct ibv_context *context = library->open_device(device);
    if (context == NULL) {
        return;
    }
    if (library->query_device(context, &attributes) == 0) {
        mt_caps_fill(library, context, &attributes, &d->caps);
        mt_ports_fill(context, library->get_device_name(device),
                      attributes.phys_port_cnt, d);
    }
    library->close_device(context);
}

/* iWARP connects by the connection manager of the kernel, which is not used. */
static bool mt_is_usable(const struct ibv_device *device)
{
    return device->transport_type == IBV_TRANSPORT_IB;
}

uint32_t mt_verbs_devices(struct mt_fabric_device *devices, uint32_t limit)
{
    const struct mt_verbs_library *library = mt_verbs_library();
    uint32_t count = 0;
    struct ibv_device **list =
        library != NULL ? library->get_device_list(NULL) : NULL;
    for (int i = 0; list != NULL && list[i] != NULL; i++) {
        if (mt_is_usable(list[i])) {
            if (count < limit) {
                mt_device_fill(library, list[i], &devices[count]);
            }
            count++;
        }
    }
    if (list != NULL) {
        library->free_device_list(list);
    }
    return count;
}

/* ---- opening ---- */

static void mt_ports_read(struct mt_verbs_context *context, uint32_t count)
{
    for (uint32_t i = 1; i <= count; i++) {
        mt_verbs_port_read(context->device, (uint8_t)i, &context->ports[i]);
    }
}

static struct ibv_context *mt_device_open(const struct mt_verbs_library *library,
                                          const char *name, char *node,
                                          size_t node_bytes)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list = library->get_device_list(NULL);
    int error = ENODEV;
    for (int i = 0; list != NULL && list[i] != NULL; i++) {
        if (strcmp(library->get_device_name(list[i]), name) == 0) {
            snprintf(node, node_bytes, "/dev/infiniband/%s", list[i]->dev_name);
            errno = 0;
            context = library->open_device(list[i]);
            error = errno;
        }
    }
    /* having failed, the library looks for the file elsewhere, and says ENOENT */
    int fd = context == NULL && node[0] != '\0' ? open(node, O_RDWR | O_CLOEXEC)
                                                : -1;
    if (fd >= 0) {
        close(fd);
    } else if (context == NULL && node[0] != '\0') {
        error = errno;
    }
    if (list != NULL) {
        library->free_device_list(list);
    }
    errno = error;
    return context;
}

static bool mt_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

enum mt_status mt_verbs_open(const struct mt_fabric_device *device,
                             const struct mt_fabric_options *options,
                             struct mt_fabric_context **context_p)
{
    const struct mt_verbs_library *library = mt_verbs_library();
    struct mt_verbs_context *context = calloc(1, sizeof(*context));
    char node[128] = "";
    if (context == NULL) {
        return MT_ENOMEM;
    }
    context->device = mt_device_open(library, device->name, node, sizeof(node));
    if (context->device == NULL || !mt_nonblocking(context->device->async_fd)) {
        enum mt_status status = mt_verbs_status(errno);
        mt_fabric_say(options,
                      "verbs: %s cannot be opened: %s%s%s", device->name,
                      strerror(errno),
                      status == MT_EPERM ? "; grant read and write access to "
                                         : "",
                      status == MT_EPERM ? node : "");
        if (context->device != NULL) {
            library->close_device(context->device);
        }
        free(context);
        return status;
    }
    struct ibv_port_attr first;
    context->ethernet =
        mt_verbs_query_port(context->device, 1, &first) == 0 &&
        first.link_layer == IBV_LINK_LAYER_ETHERNET;
    mt_ports_read(context, device->port_count);
    context->locked = options->threads;
    pthread_mutex_init(&context->lock, NULL);
    context->due_fd = context->events_fd = -1;
    context->base.ops = &mt_verbs_ops;
    *context_p = &context->base;
    return MT_OK;
}

void mt_verbs_close(struct mt_fabric_context *base)
{
    struct mt_verbs_context *context = (struct mt_verbs_context *)base;
    mt_verbs_library()->close_device(context->device);
    if (context->events_fd >= 0) {
        close(context->events_fd);
        close(context->due_fd);
    }
    for (unsigned i = 0; i < MT_VERBS_CHUNKS; i++) {
        free(context->owners[i]);
    }
    pthread_mutex_destroy(&context->lock);
    free(context);
}

/* ---- events ---- */

void mt_verbs_due_signal(const struct mt_verbs_context *context)
{
    const uint64_t one = 1;
    if (context->due_fd >= 0) {
        ssize_t n = write(context->due_fd, &one, sizeof(one));
        (void)n; /* full: it is readable, which is all that is wanted */
    }
}

static bool mt_events_watch(const struct mt_verbs_context *context, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd >= 0 &&
           epoll_ctl(context->events_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

int mt_verbs_event_fd(struct mt_fabric_context *base)
{
    struct mt_verbs_context *context = (struct mt_verbs_context *)base;
    mt_verbs_lock(context);
    if (context->events_fd < 0) {
        context->events_fd = epoll_create1(EPOLL_CLOEXEC);
        context->due_fd = eventfd(context->due, EFD_CLOEXEC | EFD_NONBLOCK);
        if (context->events_fd >= 0 &&
            (!mt_events_watch(context, context->due_fd) ||
             !mt_events_watch(context, context->device->async_fd))) {
            close(context->events_fd);
            context->events_fd = -1;
        }
        if (context->events_fd < 0 && context->due_fd >= 0) {
            close(context->due_fd);
            context->due_fd = -1;
        }
    }
    int fd = context->events_fd;
    mt_verbs_unlock(context);
    return fd;
}

/* One of the queue pairs whose error was not told yet. */
static bool mt_due_take(struct mt_verbs_context *context,
                        struct mt_fabric_event *event)
{
    mt_verbs_lock(context);
    for (uint32_t i = 0; i < context->owner_count && context->due > 0; i++) {
        struct mt_verbs_qp *qp = mt_verbs_owner_at(context, i)->qp;
        if (qp != NULL && qp->due) {
            qp->due = false;
            context->due--;
            *event = (struct mt_fabric_event){.kind = MT_FABRIC_EVENT_QP_FATAL,
                                              .qp = qp->base.number};
            mt_verbs_unlock(context);
            return true;
        }
    }
    if (context->due_fd >= 0) {
        uint64_t count;
        ssize_t n = read(context->due_fd, &count, sizeof(count));
        (void)n;
    }
    mt_verbs_unlock(context);
    return false;
}

static void mt_port_changed(struct mt_verbs_context *context, uint32_t port)
{
    if (port >= 1 && port <= context->base.device.port_count) {
        mt_verbs_lock(context);
        mt_verbs_port_read(context->device, (uint8_t)port,
                           &context->ports[port]);
        context->base.device.ports[port - 1].up = context->ports[port].up;
        mt_verbs_unlock(context);
    }
}

/* What is told of it; 0: nothing. */
static uint32_t mt_event_kind(struct mt_verbs_context *context,
                              const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        /* told as due, if it is news */
        mt_verbs_lock(context);
        mt_verbs_qp_failed(event->element.qp->qp_context);
        mt_verbs_unlock(context);
        return 0;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
        mt_port_changed(context, (uint32_t)event->element.port_num);
        return event->event_type == IBV_EVENT_PORT_ACTIVE
                   ? MT_FABRIC_EVENT_PORT_UP
                   : MT_FABRIC_EVENT_PORT_DOWN;
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
        mt_port_changed(context, (uint32_t)event->element.port_num);
        return 0;
    case IBV_EVENT_CQ_ERR:
        return MT_FABRIC_EVENT_CQ_OVERRUN;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_SRQ_ERR:
        return MT_FABRIC_EVENT_DEVICE_FATAL;
    default:
        return 0;
    }
}

enum mt_status mt_verbs_event_take(struct mt_fabric_context *base,
                                   struct mt_fabric_event *event_p)
{
    struct mt_verbs_context *context = (struct mt_verbs_context *)base;
    const struct mt_verbs_library *library = mt_verbs_library();
    struct ibv_async_event event;
    while (!mt_due_take(context, event_p)) {
        if (library->get_async_event(context->device, &event) != 0) {
            return MT_EAGAIN;
        }
        uint32_t kind = mt_event_kind(context, &event);
        uint32_t port = kind == MT_FABRIC_EVENT_PORT_UP ||
                                kind == MT_FABRIC_EVENT_PORT_DOWN
                            ? (uint32_t)event.element.port_num
                            : 0;
        struct mt_fabric_cq *cq = kind == MT_FABRIC_EVENT_CQ_OVERRUN
                                      ? event.element.cq->cq_context
                                      : NULL;
        library->ack_async_event(&event);
        if (kind != 0) {
            *event_p = (struct mt_fabric_event){
                .kind = (enum mt_fabric_event_kind)kind,
                .port = port,
                .cq = cq};
            return MT_OK;
        }
    }
    return MT_OK;
}

#endif
