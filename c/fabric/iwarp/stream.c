/* stream.c: how an RC connection begins and ends. Both sides know the address
 * of the other: the one with the smaller address (IP, port, number) connects to
 * the other's listening socket and sends an MPA request (RFC 5044, 7.1); its
 * private data holds the keys of both queue pairs, so that a stranger's
 * connection, or one from an earlier life of a queue pair, is refused.
 *
 * Cold. Under the lock of the context. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "iwarp.h"

/* Private data: provider, version, number and key of the sender, of the other.
 */
enum { MT_PRIVATE = 48, MT_REQUEST = MT_MPA_START + MT_PRIVATE };

enum mt_status mt_iwarp_key_make(uint8_t *key, size_t bytes)
{
    return getrandom(key, bytes, 0) == (ssize_t)bytes ? MT_OK : MT_EIO;
}

/* ---- epoll ---- */

enum mt_status mt_iwarp_watch(struct mt_iwarp_context *context, int fd,
                              struct mt_iwarp_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    return epoll_ctl(context->epoll, EPOLL_CTL_ADD, fd, &event) == 0
               ? MT_OK
               : MT_ENOMEM;
}

static void mt_watch_for(struct mt_iwarp_context *context, int fd,
                         struct mt_iwarp_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    epoll_ctl(context->epoll, EPOLL_CTL_MOD, fd, &event);
}

/* Also where a child holds a copy of the socket. */
static void mt_unwatch(struct mt_iwarp_context *context, int fd)
{
    epoll_ctl(context->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void mt_iwarp_say_files(struct mt_iwarp_context *context)
{
    if ((errno == EMFILE || errno == ENFILE) && !context->said_files) {
        context->said_files = true;
        mt_fabric_say(&context->soft.base.options,
                      "%s: no file descriptors left for connections: raise "
                      "the limit (ulimit -n)",
                      context->soft.base.device.name);
    }
}

static int mt_tcp_socket(const struct mt_iwarp_address *a)
{
    return socket(a->family == 4 ? AF_INET : AF_INET6,
                  SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
}

enum mt_status mt_iwarp_listen(struct mt_iwarp_context *context)
{
    struct sockaddr_storage name;
    socklen_t bytes = mt_address_socket(&context->self, context->scope, &name);
    context->listener = mt_tcp_socket(&context->self);
    if (context->listener < 0 ||
        bind(context->listener, (struct sockaddr *)&name, bytes) != 0 ||
        listen(context->listener, MT_IWARP_QPS) != 0 ||
        getsockname(context->listener, (struct sockaddr *)&name, &bytes) != 0 ||
        !mt_address_of_socket(&name, &context->self)) {
        return errno == EMFILE || errno == ENFILE ? MT_ENOMEM : MT_EIO;
    }
    return mt_iwarp_watch(context, context->listener, &context->listener_watch);
}

/* ---- the beginning ---- */

static void mt_link_set(struct mt_iwarp_qp *qp, enum mt_iwarp_link link)
{
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    bool was = qp->link != MT_LINK_NONE && qp->link != MT_LINK_OPEN;
    bool is = link != MT_LINK_NONE && link != MT_LINK_OPEN;
    context->connecting += (uint32_t)is - (uint32_t)was;
    qp->link = link;
}

/* Small messages at once; and a peer whose machine vanished is found out by
 * probes where nothing is under way, by mt_iwarp_stream_silent where something
 * is. (TCP_USER_TIMEOUT would also end a connection whose peer lives, but is
 * too busy to read.) */
static void mt_tcp_options(const struct mt_iwarp_qp *qp)
{
    int on = 1, probes = 3;
    int seconds = (int)((qp->timeout_ms + 3999) / 4000);
    setsockopt(qp->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(qp->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(qp->fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    setsockopt(qp->fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    setsockopt(qp->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* Request or reply, from a queue pair to its peer. */
static void mt_start_write(uint8_t *at, const char *key, uint8_t flags,
                           const struct mt_iwarp_qp *qp)
{
    memset(at, 0, MT_REQUEST);
    memcpy(at, key, MT_MPA_KEY);
    at[MT_MPA_KEY] = flags;
    at[MT_MPA_KEY + 1] = MT_MPA_REVISION;
    mt_put16(at + MT_MPA_KEY + 2, MT_PRIVATE);
    uint8_t *data = at + MT_MPA_START;
    memcpy(data, "iwp", 4);
    mt_put32(data + 4, MT_IWARP_VERSION);
    if (qp != NULL) {
        mt_put32(data + 8, qp->soft.base.number);
        mt_put32(data + 12, qp->remote.number);
        memcpy(data + 16, qp->key, MT_IWARP_KEY);
        memcpy(data + 32, qp->remote.key, MT_IWARP_KEY);
    }
}

/* What a peer's request or reply is worth to a queue pair. */
static enum mt_status mt_start_check(const uint8_t *at, const char *key)
{
    uint8_t flags = at[MT_MPA_KEY];
    if (memcmp(at, key, MT_MPA_KEY) != 0 ||
        mt_get16(at + MT_MPA_KEY + 2) != MT_PRIVATE ||
        memcmp(at + MT_MPA_START, "iwp", 4) != 0) {
        return MT_EPEER;
    }
    if (at[MT_MPA_KEY + 1] != MT_MPA_REVISION ||
        mt_get32(at + MT_MPA_START + 4) != MT_IWARP_VERSION) {
        return MT_EVERSION;
    }
    return (flags & (MT_MPA_MARKERS | MT_MPA_REJECT)) == 0 ? MT_OK : MT_EPEER;
}

/* What this side wants, or has to do as the peer wants it (RFC 5044, 7.1.1: there is a
 * CRC if either side asks for it). */
static uint8_t mt_start_crc(const struct mt_iwarp_qp *qp)
{
    return qp->no_crc ? 0 : MT_MPA_CRCS;
}

static void mt_start_heard(struct mt_iwarp_qp *qp, const uint8_t *at)
{
    qp->no_crc = qp->no_crc && (at[MT_MPA_KEY] & MT_MPA_CRCS) == 0;
}

/* It comes from the queue pair that this one was told to connect to. */
static bool mt_start_from(const uint8_t *at, const struct mt_iwarp_qp *qp)
{
    const uint8_t *data = at + MT_MPA_START;
    return mt_get32(data + 8) == qp->remote.number &&
           mt_get32(data + 12) == qp->soft.base.number &&
           memcmp(data + 16, qp->remote.key, MT_IWARP_KEY) == 0 &&
           memcmp(data + 32, qp->key, MT_IWARP_KEY) == 0;
}

/* A fresh socket takes so few bytes at once, or it is broken. */
static bool mt_start_send(int fd, const uint8_t *at)
{
    return send(fd, at, MT_REQUEST, MSG_NOSIGNAL | MSG_DONTWAIT) == MT_REQUEST;
}

static void mt_opened(struct mt_iwarp_qp *qp)
{
    qp->in.head = qp->in.tail = 0;
    qp->wakes_at = 1;
    mt_link_set(qp, MT_LINK_OPEN);
    qp->stalled_ms = 0;
    mt_iwarp_push(&qp->soft);
}

/* The order that decides who connects: any that both sides see alike. */
static int mt_address_order(const struct mt_iwarp_address *a,
                            const struct mt_iwarp_address *b)
{
    int order = memcmp(a->ip, b->ip, sizeof(a->ip));
    order = order != 0 ? order : (int)a->port - (int)b->port;
    return order != 0               ? order
           : a->number == b->number ? 0
           : a->number < b->number  ? -1
                                    : 1;
}

/* The port is chosen when it is known where to: bind would take one that no other
 * connection of this host has, of which there are 28,000, and look for it longer the
 * fewer are left. */
static bool mt_bind_address(int fd, const struct sockaddr_storage *from,
                            socklen_t bytes)
{
    int on = 1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    return bind(fd, (const struct sockaddr *)from, bytes) == 0;
}

static enum mt_status mt_stream_call(struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    struct mt_iwarp_address mine = context->self;
    struct sockaddr_storage from, to;
    mine.port = 0;
    socklen_t from_bytes = mt_address_socket(&mine, context->scope, &from);
    socklen_t to_bytes = mt_address_socket(&qp->remote, context->scope, &to);
    qp->fd = mt_tcp_socket(&mine);
    if (qp->fd < 0) {
        mt_iwarp_say_files(context);
        return MT_ENOMEM;
    }
    bool begun = mt_bind_address(qp->fd, &from, from_bytes) &&
                 (connect(qp->fd, (struct sockaddr *)&to, to_bytes) == 0 ||
                  errno == EINPROGRESS);
    enum mt_status status =
        begun ? mt_iwarp_watch(context, qp->fd, &qp->watch) : MT_EPEER;
    if (status != MT_OK) {
        close(qp->fd);
        qp->fd = -1;
        return status;
    }
    mt_watch_for(context, qp->fd, &qp->watch, EPOLLIN | EPOLLOUT);
    mt_tcp_options(qp);
    mt_link_set(qp, MT_LINK_CONNECTING);
    return MT_OK;
}

/* The guest is who this queue pair waits for: takes its socket. */
static void mt_attach(struct mt_iwarp_qp *qp, struct mt_iwarp_guest *guest)
{
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    uint8_t reply[MT_REQUEST];
    mt_start_heard(qp, guest->request);
    qp->fd = guest->fd;
    guest->fd = -1;
    mt_iwarp_guest_drop(context, guest);
    mt_watch_for(context, qp->fd, &qp->watch, EPOLLIN);
    mt_tcp_options(qp);
    mt_start_write(reply, MT_MPA_REPLY, mt_start_crc(qp), qp);
    if (!mt_start_send(qp->fd, reply)) {
        mt_iwarp_fail_oldest(qp, MT_EPEER);
        return;
    }
    mt_opened(qp);
}

enum mt_status mt_iwarp_stream_connect(struct mt_iwarp_qp *qp,
                                       const struct mt_iwarp_address *remote)
{
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    struct mt_iwarp_address mine = context->self;
    mine.number = qp->soft.base.number;
    int order = mt_address_order(&mine, remote);
    if (remote->family != mine.family) {
        return MT_EINVAL;
    }
    if (order == 0) {
        return MT_ENOTSUP; /* to itself */
    }
    qp->remote = *remote;
    qp->no_crc = context->no_crc;
    qp->stalled_ms = 0;
    if (order < 0) {
        return mt_stream_call(qp);
    }
    mt_link_set(qp, MT_LINK_AWAITED);
    for (struct mt_iwarp_guest *g = context->guests; g != NULL; g = g->next) {
        if (g->parked && g->number == mine.number &&
            mt_start_from(g->request, qp)) {
            mt_attach(qp, g);
            break;
        }
    }
    return MT_OK;
}

static void mt_step_connecting(struct mt_iwarp_qp *qp)
{
    struct pollfd fd = {.fd = qp->fd, .events = POLLOUT};
    uint8_t request[MT_REQUEST];
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (poll(&fd, 1, 0) != 1) {
        return;
    }
    getsockopt(qp->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    mt_start_write(request, MT_MPA_REQUEST, mt_start_crc(qp), qp);
    if (error != 0 || !mt_start_send(qp->fd, request)) {
        mt_iwarp_fail_oldest(qp, MT_EPEER);
        return;
    }
    mt_watch_for(mt_iwarp_context_of(qp), qp->fd, &qp->watch, EPOLLIN);
    mt_link_set(qp, MT_LINK_ASKED);
    qp->in.tail = 0;
}

static void mt_step_asked(struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_in *in = &qp->in;
    ssize_t n =
        recv(qp->fd, in->data + in->tail, MT_REQUEST - in->tail, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    in->tail += n > 0 ? (uint32_t)n : 0;
    if (n > 0 && in->tail < MT_REQUEST) {
        return;
    }
    enum mt_status status =
        n > 0 ? mt_start_check(in->data, MT_MPA_REPLY) : MT_EPEER;
    if (status == MT_OK && !mt_start_from(in->data, qp)) {
        status = MT_EPEER;
    }
    if (status != MT_OK) {
        mt_iwarp_fail_oldest(qp, status);
        return;
    }
    mt_start_heard(qp, in->data);
    mt_opened(qp);
}

void mt_iwarp_stream_step(struct mt_iwarp_qp *qp)
{
    if (qp->link == MT_LINK_CONNECTING) {
        mt_step_connecting(qp);
    }
    if (qp->link == MT_LINK_ASKED) {
        mt_step_asked(qp);
    }
}

/* ---- guests ---- */

void mt_iwarp_hear(struct mt_iwarp_context *context, bool hear)
{
    if (context->deaf == hear) {
        context->deaf = !hear;
        mt_watch_for(context, context->listener, &context->listener_watch,
                     hear ? EPOLLIN : 0);
    }
}

/* The connection that the system has nothing left for stays where it is. */
static bool mt_none_left(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS ||
           error == ENOMEM;
}

void mt_iwarp_accept(struct mt_iwarp_context *context)
{
    int fd;
    while ((fd = accept4(context->listener, NULL, NULL,
                         SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct mt_iwarp_guest *guest = context->guest_count < MT_IWARP_GUESTS
                                           ? calloc(1, sizeof(*guest))
                                           : NULL;
        if (guest == NULL) {
            context->refused++;
            close(fd);
            continue;
        }
        guest->watch.kind = MT_WATCH_GUEST;
        guest->fd = fd;
        guest->next = context->guests;
        context->guests = guest;
        context->guest_count++;
        if (mt_iwarp_watch(context, fd, &guest->watch) != MT_OK) {
            mt_iwarp_guest_drop(context, guest);
            continue;
        }
        mt_iwarp_guest_hear(context, guest);
    }
    /* it stays readable: who sleeps would be woken again and again */
    mt_iwarp_hear(context, !mt_none_left(errno));
    mt_iwarp_say_files(context);
}

void mt_iwarp_guest_drop(struct mt_iwarp_context *context,
                         struct mt_iwarp_guest *guest)
{
    struct mt_iwarp_guest **place = &context->guests;
    while (*place != guest) {
        place = &(*place)->next;
    }
    *place = guest->next;
    context->guest_count--;
    if (guest->fd >= 0) {
        mt_unwatch(context, guest->fd);
        close(guest->fd);
    }
    free(guest);
}

static void mt_guest_refuse(struct mt_iwarp_context *context,
                            struct mt_iwarp_guest *guest, bool answer)
{
    uint8_t reply[MT_REQUEST];
    context->refused++;
    if (answer) {
        mt_start_write(reply, MT_MPA_REPLY, MT_MPA_CRCS | MT_MPA_REJECT, NULL);
        mt_start_send(guest->fd, reply);
    }
    mt_iwarp_guest_drop(context, guest);
}

/* A whole request: whose is it? One for a queue pair that is not connected yet
 * stays until it is. */
static void mt_guest_place(struct mt_iwarp_context *context,
                           struct mt_iwarp_guest *guest)
{
    enum mt_status status = mt_start_check(guest->request, MT_MPA_REQUEST);
    if (status != MT_OK) {
        mt_guest_refuse(context, guest, status == MT_EVERSION);
        return;
    }
    uint32_t number = mt_get32(guest->request + MT_MPA_START + 12);
    struct mt_iwarp_qp *qp =
        number >= 1 && number <= context->soft.qp_limit
            ? (struct mt_iwarp_qp *)context->soft.qps[number - 1]
            : NULL;
    if (qp == NULL || qp->out == NULL ||
        memcmp(guest->request + MT_MPA_START + 32, qp->key, MT_IWARP_KEY) !=
            0) {
        mt_guest_refuse(context, guest, true);
        return;
    }
    if (qp->link == MT_LINK_AWAITED && mt_start_from(guest->request, qp)) {
        mt_attach(qp, guest);
        return;
    }
    if (qp->is_live) {
        mt_guest_refuse(context, guest, true);
        return;
    }
    guest->parked = true;
    guest->number = number;
}

void mt_iwarp_guest_hear(struct mt_iwarp_context *context,
                         struct mt_iwarp_guest *guest)
{
    /* a parked one has nothing to say before it is answered */
    uint32_t left = guest->parked ? 1 : MT_REQUEST - guest->got;
    uint8_t scrap;
    ssize_t n =
        recv(guest->fd, guest->parked ? &scrap : guest->request + guest->got,
             left, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || guest->parked) {
        context->refused++;
        mt_iwarp_guest_drop(context, guest);
        return;
    }
    guest->got += (uint32_t)n;
    if (guest->got == MT_REQUEST) {
        mt_guest_place(context, guest);
    }
}

/* ---- the end ---- */

/* What is left of the frame that is sent in part: nothing may stand between. False: it
 * lies in memory that may be gone. */
static bool mt_cut_frame(const struct mt_iwarp_out *out, uint32_t *end,
                         uint32_t *bytes)
{
    uint32_t start = 0;
    *end = out->first;
    *bytes = 0;
    for (uint32_t f = 0; f < out->frames; f++) {
        if (out->first < out->ends[f]) {
            bool cut = out->cut || out->first > start;
            *end = cut ? out->ends[f] : out->first;
            if (cut && out->stags[f] != 0) {
                return false;
            }
            break;
        }
        start = out->ends[f];
    }
    for (uint32_t i = out->first; i < *end; i++) {
        *bytes += (uint32_t)out->iov[i].iov_len;
    }
    return true;
}

/* RFC 5040, 4.8: control field, then length and header of what is at fault. */
static uint32_t mt_terminate_write(uint8_t *at, enum mt_iwarp_term term,
                                   const struct mt_iwarp_segment *segment,
                                   bool no_crc)
{
    uint8_t payload[MT_RDMAP_TERMINATE_BYTES + 2 + MT_DDP_UNTAGGED_HEAD] = {
        (uint8_t)((uint32_t)term >> 8), (uint8_t)term};
    struct mt_iwarp_segment s = {.last = true,
                                 .opcode = MT_RDMAP_TERMINATE,
                                 .queue = MT_DDP_TERMINATES,
                                 .msn = 1,
                                 .bytes = MT_RDMAP_TERMINATE_BYTES};
    if (segment != NULL) {
        payload[2] = 0xc0; /* M and D: length and DDP header follow */
        mt_put16(payload + 4, (uint16_t)(segment->head + segment->bytes));
        s.bytes += 2 + mt_segment_write(payload + 6, segment);
    }
    return mt_frame_short(at, &s, payload, no_crc);
}

/* False: it is over. A socket that is closed with something unread in it takes
 * back what it has sent: so everything is read until the peer closes. */
static bool mt_linger_step(struct mt_iwarp_linger *linger)
{
    uint8_t scrap[4096];
    ssize_t n;
    while (linger->at < linger->count) {
        n = send(linger->fd, linger->bytes + linger->at,
                 linger->count - linger->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) {
            break;
        }
        linger->at += (uint32_t)n;
    }
    if (linger->at == linger->count) {
        shutdown(linger->fd, SHUT_WR);
    }
    for (int i = 0; i < 64; i++) {
        n = recv(linger->fd, scrap, sizeof(scrap), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        if (n < 0) {
            break;
        }
    }
    return mt_soft_now() < linger->deadline_ns;
}

static void mt_linger_end(struct mt_iwarp_linger *linger)
{
    close(linger->fd);
    free(linger);
}

static void mt_linger_begin(struct mt_iwarp_qp *qp, enum mt_iwarp_term term,
                            const struct mt_iwarp_segment *segment)
{
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    uint32_t end, cut;
    if (!mt_cut_frame(qp->out, &end, &cut)) {
        term = MT_TERM_NONE; /* it would be taken for a part of that frame */
    }
    struct mt_iwarp_linger *linger =
        malloc(sizeof(*linger) + cut + 64 + MT_IWARP_COPY);
    if (linger == NULL) {
        close(qp->fd);
        return;
    }
    *linger = (struct mt_iwarp_linger){
        .fd = qp->fd,
        .deadline_ns = mt_soft_now() + MT_IWARP_LINGER_MS * UINT64_C(1000000)};
    if (term != MT_TERM_NONE) {
        for (uint32_t i = qp->out->first; i < end; i++) {
            memcpy(linger->bytes + linger->count, qp->out->iov[i].iov_base,
                   qp->out->iov[i].iov_len);
            linger->count += (uint32_t)qp->out->iov[i].iov_len;
        }
        linger->count +=
            mt_terminate_write(linger->bytes + linger->count, term, segment,
                               qp->no_crc);
    }
    /* the others are looked at by the clock: many may end at once */
    if (!mt_linger_step(linger)) {
        mt_linger_end(linger);
        return;
    }
    linger->next = context->lingers;
    context->lingers = linger;
}

void mt_iwarp_stream_end(struct mt_iwarp_qp *qp, enum mt_iwarp_term term,
                         const struct mt_iwarp_segment *segment)
{
    if (qp->fd >= 0) {
        mt_unwatch(mt_iwarp_context_of(qp), qp->fd);
        if (qp->link == MT_LINK_OPEN) {
            mt_linger_begin(qp, term, segment);
        } else {
            close(qp->fd);
        }
        qp->fd = -1;
    }
    mt_iwarp_waits(qp, false);
    mt_link_set(qp, MT_LINK_NONE);
    mt_iwarp_out_reset(qp);
}

void mt_iwarp_linger(struct mt_iwarp_context *context, bool over)
{
    struct mt_iwarp_linger **place = &context->lingers;
    while (*place != NULL) {
        struct mt_iwarp_linger *linger = *place;
        if (mt_linger_step(linger) && !over) {
            place = &linger->next;
            continue;
        }
        *place = linger->next;
        mt_linger_end(linger);
    }
}

/* Whether the peer's kernel owes an answer that has not come for too long. One
 * whose process does not read, for it was stopped, lets nothing be sent, and is
 * asked now and then, each time after twice as long, whether that is still so: it
 * owes nothing as long as it answers. */
static bool mt_stream_owed(const struct mt_iwarp_qp *qp)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof(info);
    if (getsockopt(qp->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        info.tcpi_last_ack_recv < qp->timeout_ms) {
        return false;
    }
    return info.tcpi_unacked > 0 ||
           (info.tcpi_notsent_bytes > 0 && info.tcpi_probes > 1);
}

/* Time counts only while somebody looks, a tick at a time: one who comes back
 * after a long computation finds old acknowledgements, which mean nothing. */
bool mt_iwarp_stream_silent(struct mt_iwarp_qp *qp)
{
    if (!mt_stream_owed(qp)) {
        qp->stalled_ms = 0;
        return false;
    }
    qp->stalled_ms += MT_SOFT_TICK_MS;
    return qp->stalled_ms >= 4 * MT_SOFT_TICK_MS;
}

/* ---- failing ---- */

void mt_iwarp_fail(struct mt_iwarp_qp *qp, struct mt_soft_work *failed,
                   enum mt_status status, enum mt_iwarp_term term,
                   const struct mt_iwarp_segment *segment)
{
    if (qp->soft.base.state == MT_FABRIC_QP_ERROR) {
        return;
    }
    if (qp->out != NULL) {
        mt_iwarp_stream_end(qp, term, segment);
    } else if (qp->fd >= 0) {
        mt_unwatch(mt_iwarp_context_of(qp), qp->fd);
        mt_iwarp_waits(qp, false);
    }
    if (qp->has_current) {
        struct mt_fabric_completion c = {.status = MT_EFLUSHED};
        qp->has_current = false;
        mt_soft_received(&qp->soft, qp->current.id, &c, true);
    }
    qp->answer_head = qp->answer_tail;
    mt_soft_qp_fail(&qp->soft, failed, status);
}

void mt_iwarp_fail_oldest(struct mt_iwarp_qp *qp, enum mt_status status)
{
    struct mt_soft_qp *soft = &qp->soft;
    mt_iwarp_fail(
        qp, soft->head != soft->tail ? mt_soft_work_at(soft, soft->head) : NULL,
        status, MT_TERM_NONE, NULL);
}
