/* iwarp.c: the objects of the provider. Cold but for the two functions that
 * post receives and sends. */
#define _GNU_SOURCE 1
#include "iwarp.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- work ---- */

/* What is posted lies in registered memory, as on a device. */
static bool mt_may_post(struct mt_iwarp_context *context,
                        const struct mt_fabric_piece *pieces, uint32_t count,
                        uint32_t access)
{
    mt_soft_lock(&context->soft);
    bool may = mt_iwarp_may_pieces(context, pieces, count, access);
    mt_soft_unlock(&context->soft);
    return may;
}

/* Who sends it, the engine or the next poll, shall find it among any number of queue
 * pairs. */
static void mt_left_waiting(struct mt_iwarp_qp *qp)
{
    struct mt_soft_context *context = mt_soft_context_of(&qp->soft);
    mt_soft_lock(context);
    if (qp->soft.base.state == MT_FABRIC_QP_RTS &&
        qp->soft.next != qp->soft.tail) {
        mt_iwarp_waits(qp, true);
    }
    mt_soft_unlock(context);
}

static enum mt_status mt_iwarp_post_send(struct mt_fabric_qp *qp,
                                         const struct mt_fabric_send *work)
{
    struct mt_iwarp_context *context =
        (struct mt_iwarp_context *)qp->pd->context;
    bool sends = mt_fabric_qp_state(qp) >= MT_FABRIC_QP_RTS;
    if (sends && (work->flags & MT_FABRIC_INLINE) == 0 &&
        !mt_may_post(context, work->pieces, work->piece_count,
                     work->opcode == MT_FABRIC_READ ? MT_FABRIC_LOCAL_WRITE
                                                    : 0)) {
        return MT_EINVAL;
    }
    enum mt_status status = mt_soft_post_send(qp, work);
    if (status == MT_OK && (context->soft.has_engine ||
                            (work->flags & MT_FABRIC_MORE) != 0)) {
        mt_left_waiting((struct mt_iwarp_qp *)qp);
    }
    return status;
}

static void mt_posted(struct mt_iwarp_context *context,
                      const struct mt_soft_receives *receives)
{
    mt_soft_lock(&context->soft);
    if (mt_unlikely(context->muted > 0)) {
        mt_iwarp_unmute(context, receives);
    }
    mt_soft_unlock(&context->soft);
}

static enum mt_status
mt_iwarp_post_receive(struct mt_fabric_qp *qp,
                      const struct mt_fabric_receive *work)
{
    struct mt_iwarp_context *context =
        (struct mt_iwarp_context *)qp->pd->context;
    if (!mt_may_post(context, work->pieces, work->piece_count,
                     MT_FABRIC_LOCAL_WRITE)) {
        return MT_EINVAL;
    }
    enum mt_status status = mt_soft_post_receive(qp, work);
    mt_posted(context, ((struct mt_soft_qp *)qp)->receives);
    return status;
}

static enum mt_status
mt_iwarp_post_srq_receive(struct mt_fabric_srq *srq,
                          const struct mt_fabric_receive *work)
{
    struct mt_iwarp_context *context =
        (struct mt_iwarp_context *)srq->pd->context;
    if (!mt_may_post(context, work->pieces, work->piece_count,
                     MT_FABRIC_LOCAL_WRITE)) {
        return MT_EINVAL;
    }
    enum mt_status status = mt_soft_post_srq_receive(srq, work);
    mt_posted(context, &((struct mt_soft_srq *)srq)->receives);
    return status;
}

static const struct mt_fabric_ops mt_iwarp_ops = {
    .post_send = mt_iwarp_post_send,
    .post_receive = mt_iwarp_post_receive,
    .post_srq_receive = mt_iwarp_post_srq_receive,
    .poll = mt_soft_poll,
};

/* ---- devices ---- */

static const char mt_prefix[] = "iwarp:";

/* A number that the kernel tells of an interface; 0: it does not. */
static uint64_t mt_interface_number(const char *interface, const char *what)
{
    char path[64 + IF_NAMESIZE];
    long long value = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/%s", interface, what);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%lld", &value) != 1 || value < 0 || value >= UINT32_MAX) {
        value = 0; /* "-1", as unsigned too, and EINVAL: not known */
    }
    fclose(file);
    return (uint64_t)value;
}

static bool mt_interface_usable(const struct ifaddrs *i)
{
    return i->ifa_addr != NULL && (i->ifa_flags & IFF_UP) != 0 &&
           (i->ifa_addr->sa_family == AF_INET ||
            i->ifa_addr->sa_family == AF_INET6);
}

/* The address that stands for an interface: IPv4 if it has one, else IPv6, best
 * one that is good beyond the link. */
static const struct ifaddrs *mt_interface_best(const struct ifaddrs *list,
                                               const char *interface)
{
    const struct ifaddrs *best = NULL;
    int best_rank = 0;
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        if (!mt_interface_usable(i) || strcmp(i->ifa_name, interface) != 0) {
            continue;
        }
        int rank = 3;
        if (i->ifa_addr->sa_family == AF_INET6) {
            const struct sockaddr_in6 *in6 =
                (const struct sockaddr_in6 *)(const void *)i->ifa_addr;
            rank = IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? 1 : 2;
        }
        if (rank > best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

static struct sockaddr_storage mt_interface_socket(const struct sockaddr *from)
{
    struct sockaddr_storage to = {0};
    memcpy(&to, from,
           from->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                      : sizeof(struct sockaddr_in6));
    return to;
}

static struct mt_fabric_network mt_interface_network(const struct ifaddrs *i)
{
    struct mt_fabric_network network = {.bits = 0};
    struct mt_iwarp_address address, mask;
    struct sockaddr_storage self = mt_interface_socket(i->ifa_addr);
    if (i->ifa_netmask == NULL || !mt_address_of_socket(&self, &address)) {
        return network;
    }
    struct sockaddr_storage netmask = mt_interface_socket(i->ifa_netmask);
    struct in6_addr in6;
    memcpy(&in6, address.ip, sizeof(in6));
    if (!mt_address_of_socket(&netmask, &mask) || mask.family != address.family ||
        IN6_IS_ADDR_LINKLOCAL(&in6)) {
        return network;
    }
    memcpy(network.address, address.ip, sizeof(network.address));
    network.bits = mask.family == 4 ? 96 : 0;
    for (int b = network.bits / 8; b < 16; b++) {
        network.bits += (uint8_t)__builtin_popcount(mask.ip[b]);
    }
    return network;
}

static void mt_device_fill(struct mt_fabric_device *d, const struct ifaddrs *i)
{
    const char *interface = i->ifa_name;
    *d = (struct mt_fabric_device){
        .provider = "iwarp",
        .caps = mt_soft_caps(),
        .port_count = 1,
    };
    d->caps.max_reads = MT_IWARP_READS;
    d->caps.max_qps = MT_IWARP_QPS;
    d->caps.ud_payload = MT_IWARP_UD_PAYLOAD;
    d->caps.ud_headroom = MT_IWARP_UD_HEAD;
    d->caps.events = true;
    d->caps.writes_need_polls = true;
    d->caps.writes_end_early = true;
    snprintf(d->name, sizeof(d->name), "%s%s", mt_prefix, interface);
    memcpy(d->ports[0].name, d->name, sizeof(d->name));
    d->ports[0].number = 1;
    d->ports[0].up = mt_iwarp_flags_up(i->ifa_flags);
    d->ports[0].network = mt_interface_network(i);
    d->ports[0].mtu = (uint32_t)mt_interface_number(interface, "mtu");
    d->ports[0].bits_per_second =
        mt_interface_number(interface, "speed") * UINT64_C(1000000);
}

static uint32_t mt_iwarp_devices(struct mt_fabric_device *devices,
                                 uint32_t limit)
{
    struct ifaddrs *list = NULL;
    uint32_t count = 0;
    if (getifaddrs(&list) != 0) {
        return 0;
    }
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        if (!mt_interface_usable(i) ||
            mt_interface_best(list, i->ifa_name) != i) {
            continue;
        }
        if (count < limit) {
            mt_device_fill(&devices[count], i);
        }
        count++;
    }
    freeifaddrs(list);
    return count;
}

static bool mt_iwarp_counters(const struct mt_fabric_device *device,
                              uint32_t port, uint32_t n, char *path,
                              size_t bytes)
{
    (void)port;
    snprintf(path, bytes, "/sys/class/net/%s/statistics",
             device->name + sizeof(mt_prefix) - 1);
    return n == 0;
}

/* ---- the context ---- */

static void mt_iwarp_close(struct mt_fabric_context *base)
{
    struct mt_iwarp_context *context = (struct mt_iwarp_context *)base;
    mt_soft_stop(&context->soft);
    while (context->guests != NULL) {
        mt_iwarp_guest_drop(context, context->guests);
    }
    mt_iwarp_linger(context, true);
    const int fds[] = {context->listener, context->notices, context->epoll};
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    uint64_t malformed = mt_fabric_malformed(base);
    uint64_t counted =
        context->refused + malformed + context->strange + context->lost;
    if (counted > 0) {
        mt_fabric_say(&context->soft.base.options,
                      "%s: refused connections %llu, malformed messages %llu, "
                      "datagrams for others %llu, not sent %llu",
                      context->soft.base.device.name,
                      (unsigned long long)context->refused,
                      (unsigned long long)malformed,
                      (unsigned long long)context->strange,
                      (unsigned long long)context->lost);
    }
    free(context->regions);
    free(context->arrived);
    free(context);
}

/* Address and index of the interface. */
static enum mt_status mt_find_self(struct mt_iwarp_context *context,
                                   const char *device)
{
    const char *interface = device + sizeof(mt_prefix) - 1;
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) {
        return MT_EIO;
    }
    const struct ifaddrs *best = mt_interface_best(list, interface);
    struct sockaddr_storage name = {0};
    if (best != NULL) {
        name = mt_interface_socket(best->ifa_addr);
    }
    freeifaddrs(list);
    context->self.version = MT_IWARP_VERSION;
    context->scope = if_nametoindex(interface);
    return mt_address_of_socket(&name, &context->self) ? MT_OK : MT_ENODEVICE;
}

static enum mt_status mt_context_start(struct mt_iwarp_context *context,
                                       const char *device,
                                       const struct mt_fabric_options *options)
{
    context->regions = calloc(MT_IWARP_REGIONS, sizeof(*context->regions));
    context->arrived = malloc(MT_IWARP_ARRIVED);
    context->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (context->regions == NULL || context->arrived == NULL ||
        context->epoll < 0) {
        return MT_ENOMEM;
    }
    enum mt_status status = mt_find_self(context, device);
    if (status == MT_OK) {
        status = mt_iwarp_listen(context);
    }
    if (status == MT_OK) {
        status = mt_iwarp_port_open(context, options);
    }
    return status == MT_OK
               ? mt_soft_start(&context->soft, options, MT_IWARP_QPS)
               : status;
}

static enum mt_status mt_iwarp_open(const struct mt_fabric_device *device,
                                    const struct mt_fabric_options *options,
                                    struct mt_fabric_context **context_p)
{
    struct mt_iwarp_context *context = calloc(1, sizeof(*context));
    if (context == NULL) {
        return MT_ENOMEM;
    }
    context->listener = context->notices = context->epoll = -1;
    context->notices_watch.kind = MT_WATCH_NOTICES;
    context->listener_watch.kind = MT_WATCH_LISTENER;
    context->no_crc = options->no_crc;
    context->soft.base.ops = &mt_iwarp_ops;
    context->soft.progress = mt_iwarp_progress;
    context->soft.push = mt_iwarp_push;
    context->soft.holds_more = true; /* for one system call */
    context->soft.armed = mt_iwarp_armed;
    enum mt_status status = mt_context_start(context, device->name, options);
    if (status != MT_OK) {
        mt_fabric_say(options, "%s: %s", device->name, mt_status_text(status));
        mt_iwarp_close(&context->soft.base);
        return status;
    }
    *context_p = &context->soft.base;
    return MT_OK;
}

/* As on a device, who asks for events need not poll. */
static enum mt_status mt_iwarp_event_take(struct mt_fabric_context *base,
                                          struct mt_fabric_event *event_p)
{
    struct mt_iwarp_context *context = (struct mt_iwarp_context *)base;
    mt_soft_lock(&context->soft);
    mt_iwarp_port_look(context);
    base->device.ports[0].up = context->link_up;
    mt_soft_unlock(&context->soft);
    return mt_soft_event_take(base, event_p);
}

/* ---- channels ---- */

static enum mt_status
mt_iwarp_channel_create(struct mt_fabric_context *base,
                        struct mt_fabric_channel **channel_p)
{
    struct mt_iwarp_context *context = (struct mt_iwarp_context *)base;
    enum mt_status status = mt_soft_channel_create(base, channel_p);
    if (status != MT_OK || context->soft.has_engine) {
        return status; /* the engine thread does not sleep */
    }
    mt_soft_lock(&context->soft);
    status = mt_soft_channel_watch((struct mt_soft_channel *)*channel_p,
                                   context->epoll);
    mt_soft_unlock(&context->soft);
    if (status != MT_OK) {
        mt_soft_channel_destroy(*channel_p);
    }
    return status;
}

/* ---- queue pairs ---- */

/* What a new life of a queue pair begins with. */
static enum mt_status mt_qp_begin(struct mt_iwarp_context *context,
                                  struct mt_iwarp_qp *qp)
{
    memset(qp->sent, 0, sizeof(qp->sent));
    memset(qp->taken, 0, sizeof(qp->taken));
    qp->has_current = false;
    qp->received = qp->written = 0;
    qp->write_ended = true;
    qp->answer_head = qp->answer_tail = 0;
    qp->answer_next = false;
    qp->stalled_ms = 0;
    qp->in.head = qp->in.tail = 0;
    qp->in.direct = false;
    enum mt_status status = mt_iwarp_key_make(qp->key, sizeof(qp->key));
    return status == MT_OK && qp->out == NULL ? mt_iwarp_ud_open(context, qp)
                                              : status;
}

static void mt_qp_free(struct mt_iwarp_qp *qp)
{
    free(qp->out);
    free(qp->in.data);
    free(qp->staging);
    free(qp);
}

/* The memory of an RC queue pair; what is not used is not touched. */
static enum mt_status mt_qp_room(struct mt_iwarp_qp *qp)
{
    qp->out = calloc(1, sizeof(*qp->out));
    qp->in.data = malloc(MT_IWARP_INPUT);
    qp->staging = malloc(MT_IWARP_SEGMENT);
    return qp->out != NULL && qp->in.data != NULL && qp->staging != NULL
               ? MT_OK
               : MT_ENOMEM;
}

static enum mt_status
mt_iwarp_qp_create(struct mt_fabric_pd *pd,
                   const struct mt_fabric_qp_options *options,
                   struct mt_fabric_qp **qp_p)
{
    struct mt_iwarp_context *context = (struct mt_iwarp_context *)pd->context;
    struct mt_iwarp_qp *qp = calloc(1, sizeof(*qp));
    if (qp == NULL) {
        return MT_ENOMEM;
    }
    qp->fd = -1;
    qp->watch.kind = MT_WATCH_QP;
    qp->timeout_ms =
        options->timeout_ms > 0 ? options->timeout_ms : MT_IWARP_TIMEOUT_MS;
    qp->open_ms = options->open_ms > 0 ? options->open_ms : qp->timeout_ms;
    enum mt_status status =
        options->transport == MT_FABRIC_RC ? mt_qp_room(qp) : MT_OK;
    if (status == MT_OK) {
        status = mt_qp_begin(context, qp);
    }
    /* last: from then on a guest may ask for it */
    if (status == MT_OK) {
        status = mt_soft_qp_start(&context->soft, &qp->soft, options);
    }
    if (status != MT_OK) {
        if (qp->fd >= 0) {
            close(qp->fd);
        }
        mt_qp_free(qp);
        return status;
    }
    *qp_p = &qp->soft.base;
    return MT_OK;
}

static void mt_qp_close(struct mt_iwarp_context *context,
                        struct mt_iwarp_qp *qp)
{
    mt_iwarp_live_remove(context, qp);
    if (qp->out != NULL) {
        mt_iwarp_stream_end(qp, MT_TERM_NONE, NULL);
    } else if (qp->fd >= 0) {
        epoll_ctl(context->epoll, EPOLL_CTL_DEL, qp->fd, NULL);
        close(qp->fd);
        qp->fd = -1;
    }
}

static void mt_iwarp_qp_destroy(struct mt_fabric_qp *base)
{
    struct mt_iwarp_qp *qp = (struct mt_iwarp_qp *)base;
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    mt_soft_lock(&context->soft);
    mt_qp_close(context, qp);
    mt_soft_unlock(&context->soft);
    mt_soft_qp_stop(&context->soft, &qp->soft);
    mt_qp_free(qp);
}

static enum mt_status mt_iwarp_qp_address(const struct mt_fabric_qp *base,
                                          struct mt_fabric_address *address_p)
{
    const struct mt_iwarp_qp *qp = (const struct mt_iwarp_qp *)base;
    struct mt_iwarp_address a = mt_iwarp_context_of(qp)->self;
    a.transport = (uint8_t)base->options.transport;
    a.number = base->number;
    a.port = qp->out != NULL ? a.port : qp->port;
    memcpy(a.key, qp->key, sizeof(a.key));
    mt_address_write(&a, address_p);
    return MT_OK;
}

static enum mt_status
mt_iwarp_qp_connect(struct mt_fabric_qp *base,
                    const struct mt_fabric_address *remote)
{
    struct mt_iwarp_qp *qp = (struct mt_iwarp_qp *)base;
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    struct mt_iwarp_address a;
    enum mt_status status =
        remote != NULL ? mt_address_read(remote, MT_FABRIC_RC, &a) : MT_OK;
    if (status != MT_OK) {
        return status;
    }
    mt_soft_lock(&context->soft);
    mt_iwarp_live_add(context, qp);
    status = remote != NULL ? mt_iwarp_stream_connect(qp, &a)
                            : mt_iwarp_watch(context, qp->fd, &qp->watch);
    if (status != MT_OK) {
        mt_iwarp_live_remove(context, qp);
    }
    mt_soft_unlock(&context->soft);
    return status;
}

static enum mt_status mt_iwarp_qp_established(struct mt_fabric_qp *base)
{
    const struct mt_iwarp_qp *qp = (const struct mt_iwarp_qp *)base;
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    mt_soft_lock(&context->soft);
    bool open = qp->out == NULL || qp->link == MT_LINK_OPEN;
    bool failed = base->state == MT_FABRIC_QP_ERROR;
    mt_soft_unlock(&context->soft);
    return failed ? MT_EPEER : open ? MT_OK : MT_EAGAIN;
}

static enum mt_status mt_iwarp_qp_fail(struct mt_fabric_qp *base)
{
    struct mt_iwarp_qp *qp = (struct mt_iwarp_qp *)base;
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    mt_soft_lock(&context->soft);
    mt_iwarp_fail(qp, NULL, MT_EPEER, MT_TERM_CATASTROPHE, NULL);
    mt_soft_unlock(&context->soft);
    return MT_OK;
}

static enum mt_status mt_iwarp_qp_reset(struct mt_fabric_qp *base)
{
    struct mt_iwarp_qp *qp = (struct mt_iwarp_qp *)base;
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    mt_soft_lock(&context->soft);
    mt_qp_close(context, qp);
    mt_soft_qp_clear(&qp->soft);
    enum mt_status status = mt_qp_begin(context, qp);
    mt_soft_unlock(&context->soft);
    return status;
}

/* ---- address handles ---- */

/* As mt_iwarp_ud_in wrote it. */
static enum mt_status mt_source_read(const struct mt_fabric_source *source,
                                     struct mt_iwarp_address *a)
{
    memcpy(a->ip, source->words, sizeof(a->ip));
    a->port = (uint16_t)source->words[2];
    a->number = (uint32_t)(source->words[2] >> 32);
    a->family = (uint8_t)(source->words[3] >> 32);
    mt_put32(a->key, (uint32_t)source->words[3]);
    return a->port != 0 && (a->family == 4 || a->family == 6) ? MT_OK
                                                              : MT_EINVAL;
}

static enum mt_status mt_iwarp_ah_create(
    struct mt_fabric_pd *pd, const struct mt_fabric_address *address,
    const struct mt_fabric_source *source, struct mt_fabric_ah **ah_p)
{
    const struct mt_iwarp_context *context =
        (struct mt_iwarp_context *)pd->context;
    struct mt_iwarp_address a = {0};
    enum mt_status status = source != NULL
                                ? mt_source_read(source, &a)
                                : mt_address_read(address, MT_FABRIC_UD, &a);
    if (status == MT_OK && a.family != context->self.family) {
        status = MT_EINVAL;
    }
    struct mt_iwarp_ah *ah = status == MT_OK ? calloc(1, sizeof(*ah)) : NULL;
    if (ah == NULL) {
        return status != MT_OK ? status : MT_ENOMEM;
    }
    ah->base.ops = pd->ops;
    ah->fd = -1;
    ah->to_bytes = mt_address_socket(&a, context->scope, &ah->to);
    memcpy(ah->key, a.key, sizeof(ah->key));
    *ah_p = &ah->base;
    return MT_OK;
}

static void mt_iwarp_ah_destroy(struct mt_fabric_ah *ah)
{
    struct mt_iwarp_context *context =
        (struct mt_iwarp_context *)ah->pd->context;
    mt_soft_lock(&context->soft);
    mt_iwarp_ud_disconnect(context, (struct mt_iwarp_ah *)ah);
    mt_soft_unlock(&context->soft);
    free(ah);
}

const struct mt_fabric_provider mt_fabric_iwarp = {
    .name = "iwarp",
    .devices = mt_iwarp_devices,
    .counters = mt_iwarp_counters,
    .open = mt_iwarp_open,
    .close = mt_iwarp_close,
    .event_fd = mt_soft_event_fd,
    .event_take = mt_iwarp_event_take,
    .pd_create = mt_soft_pd_create,
    .pd_destroy = mt_soft_pd_destroy,
    .mr_create = mt_iwarp_mr_create,
    .mr_destroy = mt_iwarp_mr_destroy,
    .channel_create = mt_iwarp_channel_create,
    .channel_destroy = mt_soft_channel_destroy,
    .channel_take = mt_soft_channel_take,
    .cq_create = mt_soft_cq_create,
    .cq_destroy = mt_soft_cq_destroy,
    .cq_arm = mt_soft_cq_arm,
    .srq_create = mt_soft_srq_create,
    .srq_destroy = mt_soft_srq_destroy,
    .qp_create = mt_iwarp_qp_create,
    .qp_destroy = mt_iwarp_qp_destroy,
    .qp_address = mt_iwarp_qp_address,
    .qp_connect = mt_iwarp_qp_connect,
    .qp_established = mt_iwarp_qp_established,
    .qp_fail = mt_iwarp_qp_fail,
    .qp_reset = mt_iwarp_qp_reset,
    .ah_create = mt_iwarp_ah_create,
    .ah_destroy = mt_iwarp_ah_destroy,
};
