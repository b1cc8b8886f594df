/* ud.c: datagram-iWARP (Rashti 2010, 6.3): one DDP message is one datagram,
 * without MPA; one socket is one queue pair; receives match messages in the
 * order of arrival; a work is complete when the socket has taken it.
 *
 * In front of the payload stand the DDP header with the sender's number in the
 * field that RDMAP reserves, its port, the keys of receiver and sender, and the
 * CRC, which covers all the rest. All this is the headroom of a receive, so that a
 * datagram goes to one place. The CRC is there and not behind the payload because the
 * length is not known before a datagram is received: behind it nothing is stored.
 *
 * Where there is no receive, data stays in the socket's buffer, and what does
 * not fit there is lost. What is malformed, or for another life of the queue
 * pair, is dropped and counted. A message longer than its receive is an error:
 * the queue pair fails, and the sender gets an error message with the number
 * (MSN) of what it sent, on the queue that is Terminate's on a stream. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include "../../include/crc32c.h"
#include "iwarp.h"

enum {
    MT_UD_PORT = 18, /* of the sender's queue pair */
    MT_UD_TO = 20,   /* key of the receiver */
    MT_UD_FROM = 24, /* key of the sender */
    MT_UD_CRC = 28,
    MT_UD_KEY = 4,
    MT_UD_PIECES = MT_SOFT_PIECES + 1, /* of a send */
    MT_UD_SOCKET_BYTES = 1 << 20,
};

/* A socket of the interface, at a port that the system chooses; -1: there is none. */
static int mt_ud_open(const struct mt_iwarp_context *context)
{
    struct mt_iwarp_address a = context->self;
    struct sockaddr_storage name;
    int room = MT_UD_SOCKET_BYTES;
    a.port = 0;
    socklen_t bytes = mt_address_socket(&a, context->scope, &name);
    int fd =
        socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (bind(fd, (struct sockaddr *)&name, bytes) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

enum mt_status mt_iwarp_ud_open(struct mt_iwarp_context *context,
                                struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_address a;
    struct sockaddr_storage name;
    socklen_t bytes = sizeof(name);
    int room = MT_UD_SOCKET_BYTES;
    qp->fd = mt_ud_open(context);
    if (qp->fd < 0) {
        mt_iwarp_say_files(context);
        return MT_ENOMEM;
    }
    setsockopt(qp->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    if (getsockname(qp->fd, (struct sockaddr *)&name, &bytes) != 0 ||
        !mt_address_of_socket(&name, &a)) {
        close(qp->fd);
        qp->fd = -1;
        return MT_ENOMEM;
    }
    qp->port = a.port;
    qp->batch = 1;
    qp->full = 0;
    return MT_OK;
}

/* ---- sockets of destinations ---- */

/* For each datagram of a socket that is not connected the system looks up the route,
 * which makes a ping-pong take an eighth longer. So a few destinations that many go to
 * have a socket each. Nothing is received from it: answers go to the port of the queue
 * pair. */
static void mt_ud_connect(struct mt_iwarp_context *context,
                          struct mt_iwarp_ah *ah)
{
    if (context->ud_sockets >= MT_IWARP_UD_SOCKETS) {
        return;
    }
    int fd = mt_ud_open(context);
    if (fd >= 0 &&
        connect(fd, (struct sockaddr *)&ah->to, ah->to_bytes) != 0) {
        close(fd);
        fd = -1;
    }
    ah->fd = fd;
    context->ud_sockets += fd >= 0;
}

void mt_iwarp_ud_disconnect(struct mt_iwarp_context *context,
                            struct mt_iwarp_ah *ah)
{
    if (ah->fd >= 0) {
        close(ah->fd);
        ah->fd = -1;
        context->ud_sockets--;
    }
}

/* By which socket a work goes. */
static int mt_ud_socket(const struct mt_iwarp_qp *qp,
                        const struct mt_soft_work *w)
{
    struct mt_iwarp_ah *ah = (struct mt_iwarp_ah *)w->ah;
    if (mt_unlikely(ah->fd < 0 && ++ah->works % MT_IWARP_UD_OFTEN == 0)) {
        mt_ud_connect(mt_iwarp_context_of(qp), ah);
    }
    return ah->fd >= 0 ? ah->fd : qp->fd;
}

/* ---- sending ---- */

struct mt_ud_out {
    uint8_t head[MT_IWARP_UD_HEAD + MT_IWARP_COPY];
    struct iovec iov[MT_UD_PIECES];
};

static void mt_ud_head(const struct mt_iwarp_qp *qp, uint8_t *at,
                       const struct mt_iwarp_segment *s, const uint8_t *key)
{
    mt_segment_write(at, s);
    mt_put16(at + MT_UD_PORT, qp->port);
    memcpy(at + MT_UD_TO, key, MT_UD_KEY);
    memcpy(at + MT_UD_FROM, qp->key, MT_UD_KEY);
}

/* named: by a socket that is not connected. */
static void mt_ud_fill(const struct mt_iwarp_qp *qp,
                       const struct mt_soft_work *w, uint32_t msn, bool named,
                       struct mt_ud_out *out, struct msghdr *message)
{
    struct mt_iwarp_ah *ah = (struct mt_iwarp_ah *)w->ah;
    bool solicited = (w->flags & MT_FABRIC_SOLICITED) != 0;
    struct mt_iwarp_segment s = {.last = true,
                                 .opcode = solicited ? MT_RDMAP_SEND_SOLICITED
                                                     : MT_RDMAP_SEND,
                                 .reserved = qp->soft.base.number,
                                 .queue = MT_DDP_SENDS,
                                 .msn = msn};
    uint32_t slices = 0, bytes = (uint32_t)w->bytes;
    mt_ud_head(qp, out->head, &s, ah->key);
    uint32_t crc = mt_crc32c(0, out->head, MT_UD_CRC);
    out->iov[0] = (struct iovec){out->head, MT_IWARP_UD_HEAD};
    if (bytes <= MT_IWARP_COPY) {
        uint8_t *payload = out->head + MT_IWARP_UD_HEAD;
        mt_soft_gather(w->pieces, w->piece_count, 0, payload, bytes);
        crc = mt_crc32c(crc, payload, bytes);
        out->iov[0].iov_len += bytes;
    } else {
        slices =
            mt_iwarp_slice(w->pieces, w->piece_count, 0, bytes, out->iov + 1);
        crc = mt_iwarp_crc(crc, out->iov + 1, slices);
    }
    mt_put_crc(out->head + MT_UD_CRC, crc);
    *message = (struct msghdr){.msg_name = named ? &ah->to : NULL,
                               .msg_namelen = named ? ah->to_bytes : 0,
                               .msg_iov = out->iov,
                               .msg_iovlen = 1 + slices};
}

/* How many of the works that wait go next, and by which socket. */
static uint32_t mt_ud_ready(const struct mt_iwarp_qp *qp, int *fd_p)
{
    uint32_t waiting = qp->soft.tail - qp->soft.next, n = 0;
    uint32_t most = waiting < MT_IWARP_UD_BATCH ? waiting : MT_IWARP_UD_BATCH;
    while (n < most) {
        int fd = mt_ud_socket(qp, mt_soft_work_at(&qp->soft, qp->soft.next + n));
        if (n > 0 && fd != *fd_p) {
            break;
        }
        *fd_p = fd;
        n++;
    }
    return n;
}

/* How many the socket took; 0: look at errno. */
static uint32_t mt_ud_write(struct mt_iwarp_qp *qp, int fd, uint32_t count)
{
    struct mt_ud_out out[MT_IWARP_UD_BATCH];
    struct mmsghdr messages[MT_IWARP_UD_BATCH];
    for (uint32_t i = 0; i < count; i++) {
        mt_ud_fill(qp, mt_soft_work_at(&qp->soft, qp->soft.next + i),
                   qp->sent[MT_DDP_SENDS] + 1 + i, fd == qp->fd, &out[i],
                   &messages[i].msg_hdr);
    }
    if (count > 1) {
        int n = sendmmsg(fd, messages, count, MSG_DONTWAIT);
        return n > 0 ? (uint32_t)n : 0;
    }
    const struct msghdr *m = &messages[0].msg_hdr;
    ssize_t n = m->msg_iovlen > 1 ? sendmsg(fd, m, MSG_DONTWAIT)
                                  : sendto(fd, out[0].iov[0].iov_base,
                                           out[0].iov[0].iov_len, MSG_DONTWAIT,
                                           m->msg_name, m->msg_namelen);
    return n >= 0 ? 1 : 0;
}

static void mt_ud_taken(struct mt_iwarp_qp *qp, uint32_t count)
{
    struct mt_soft_qp *soft = &qp->soft;
    for (uint32_t i = 0; i < count; i++) {
        mt_soft_work_at(soft, soft->next + i)->done = true;
    }
    soft->next += count;
    qp->sent[MT_DDP_SENDS] += count;
    mt_soft_retire(soft);
}

/* What a datagram meets on its way out is a loss like any other. */
static bool mt_is_loss(int error)
{
    return error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN ||
           error == EHOSTDOWN || error == EPERM || error == ECONNREFUSED;
}

bool mt_iwarp_ud_out(struct mt_iwarp_qp *qp)
{
    bool moved = false;
    uint32_t ready;
    int fd = qp->fd;
    while ((ready = mt_ud_ready(qp, &fd)) > 0) {
        uint32_t n = mt_ud_write(qp, fd, ready);
        if (n == 0 && fd != qp->fd) { /* whatever it has: that of all has it not */
            n = mt_ud_write(qp, qp->fd, ready);
        }
        int error = n == 0 ? errno : 0;
        if (error == EAGAIN || error == ENOBUFS) {
            break;
        }
        if (mt_is_loss(error)) {
            mt_iwarp_context_of(qp)->lost++;
            n = 1;
        }
        if (n == 0 && error != EINTR) {
            struct mt_soft_work *w = mt_soft_work_at(&qp->soft, qp->soft.next);
            mt_iwarp_fail(qp, w, MT_EIO, MT_TERM_NONE, NULL);
            return true;
        }
        mt_ud_taken(qp, n);
        moved = moved || n > 0;
    }
    mt_iwarp_waits(qp, qp->soft.next != qp->soft.tail);
    return moved;
}

/* ---- receiving ---- */

/* A datagram as it came. */
struct mt_ud_in {
    uint8_t head[MT_IWARP_UD_HEAD];
    struct sockaddr_storage from;
    struct iovec iov[MT_SOFT_PIECES];
    struct mt_iwarp_segment segment;
};

enum mt_ud_kind { MT_UD_DATA, MT_UD_ERROR, MT_UD_DROPPED, MT_UD_TOO_LONG };

/* Whether a datagram may be stored into a receive, where the header goes first. */
static bool mt_ud_holds(const struct mt_soft_receive *to)
{
    return to != NULL && to->bytes >= MT_IWARP_UD_HEAD;
}

static void mt_ud_prepare(struct mt_ud_in *in, const struct mt_soft_receive *to,
                          struct msghdr *message)
{
    uint32_t pieces = mt_ud_holds(to) ? to->piece_count : 1;
    in->iov[0] = (struct iovec){in->head, MT_IWARP_UD_HEAD};
    for (uint32_t i = 0; i < pieces && mt_ud_holds(to); i++) {
        in->iov[i] = (struct iovec){to->pieces[i].address, to->pieces[i].bytes};
    }
    *message = (struct msghdr){.msg_name = &in->from,
                               .msg_namelen = sizeof(in->from),
                               .msg_iov = in->iov,
                               .msg_iovlen = pieces};
}

static enum mt_ud_kind mt_ud_look(struct mt_iwarp_qp *qp, struct mt_ud_in *in,
                                  uint32_t bytes,
                                  const struct mt_soft_receive *to, int flags)
{
    struct mt_iwarp_context *context = mt_iwarp_context_of(qp);
    struct mt_iwarp_segment *s = &in->segment;
    uint32_t payload = bytes - MT_IWARP_UD_HEAD;
    if (bytes >= MT_IWARP_UD_HEAD && mt_ud_holds(to)) {
        mt_soft_gather(to->pieces, to->piece_count, 0, in->head,
                       MT_IWARP_UD_HEAD);
    }
    if (bytes < MT_IWARP_UD_HEAD ||
        mt_segment_parse(in->head, MT_DDP_UNTAGGED_HEAD + payload, s) !=
            MT_TERM_NONE ||
        s->tagged || !s->last) {
        mt_fabric_throw_away(&context->soft.base);
        return MT_UD_DROPPED;
    }
    if (memcmp(in->head + MT_UD_TO, qp->key, MT_UD_KEY) != 0) {
        context->strange++;
        return MT_UD_DROPPED;
    }
    bool error = s->opcode == MT_RDMAP_TERMINATE;
    uint16_t port = mt_get16(in->head + MT_UD_PORT);
    bool data =
        s->opcode == MT_RDMAP_SEND || s->opcode == MT_RDMAP_SEND_SOLICITED;
    if (((flags & MSG_TRUNC) != 0 || !mt_ud_holds(to)) && data) {
        return MT_UD_TOO_LONG; /* the CRC needs what is lost; the key is right
                                */
    }
    uint32_t crc = mt_crc32c(0, in->head, MT_UD_CRC);
    if (mt_ud_holds(to)) {
        struct iovec iov[MT_SOFT_PIECES];
        crc = mt_iwarp_crc(crc, iov,
                           mt_iwarp_slice(to->pieces, to->piece_count,
                                          MT_IWARP_UD_HEAD, payload, iov));
    }
    if (crc != mt_get_crc(in->head + MT_UD_CRC) || port == 0 ||
        !(data ? s->mo == 0 : error && payload == 0)) {
        mt_fabric_throw_away(&context->soft.base);
        return MT_UD_DROPPED;
    }
    return error ? MT_UD_ERROR : MT_UD_DATA;
}

/* Family, IP address and port of the queue pair that sent it. */
static struct mt_iwarp_address mt_ud_sender(const struct mt_ud_in *in)
{
    struct mt_iwarp_address a = {0};
    mt_address_of_socket(&in->from, &a);
    a.port = mt_get16(in->head + MT_UD_PORT);
    return a;
}

/* IP address; port and number; key and family. */
static struct mt_fabric_source mt_ud_source(const struct mt_ud_in *in)
{
    struct mt_fabric_source source = {{0}};
    struct mt_iwarp_address a = mt_ud_sender(in);
    memcpy(source.words, a.ip, sizeof(a.ip));
    source.words[2] = (uint64_t)in->segment.reserved << 32 | a.port;
    source.words[3] =
        (uint64_t)a.family << 32 | mt_get32(in->head + MT_UD_FROM);
    return source;
}

static void mt_ud_complete(struct mt_iwarp_qp *qp, const struct mt_ud_in *in,
                           uint64_t id, enum mt_status status)
{
    struct mt_fabric_completion c = {.status = status,
                                     .opcode = MT_FABRIC_RECEIVE,
                                     .bytes =
                                         MT_IWARP_UD_HEAD + in->segment.bytes,
                                     .source = mt_ud_source(in)};
    mt_soft_received(&qp->soft, id, &c,
                     status != MT_OK ||
                         in->segment.opcode == MT_RDMAP_SEND_SOLICITED);
}

/* Rashti 2010, 6.3.3: the number of the message goes back to its sender. */
static void mt_ud_report(struct mt_iwarp_qp *qp, const struct mt_ud_in *in,
                         enum mt_iwarp_term term)
{
    struct mt_iwarp_segment s = {.last = true,
                                 .opcode = MT_RDMAP_TERMINATE,
                                 .reserved = qp->soft.base.number,
                                 .queue = MT_DDP_TERMINATES,
                                 .msn = in->segment.msn,
                                 .mo = (uint32_t)term};
    uint8_t head[MT_IWARP_UD_HEAD];
    struct sockaddr_storage to;
    struct mt_iwarp_address a = mt_ud_sender(in);
    socklen_t bytes =
        mt_address_socket(&a, mt_iwarp_context_of(qp)->scope, &to);
    mt_ud_head(qp, head, &s, in->head + MT_UD_FROM);
    mt_put_crc(head + MT_UD_CRC, mt_crc32c(0, head, MT_UD_CRC));
    /* lost, it is lost: the sender's own time limits hold */
    sendto(qp->fd, head, sizeof(head), MSG_DONTWAIT | MSG_NOSIGNAL,
           (const struct sockaddr *)&to, bytes);
}

static void mt_ud_reported(struct mt_iwarp_qp *qp,
                           const struct mt_iwarp_segment *s)
{
    mt_soft_event(mt_soft_context_of(&qp->soft),
                  &(struct mt_fabric_event){.kind = MT_FABRIC_EVENT_QP_REMOTE,
                                            .qp = qp->soft.base.number,
                                            .msn = s->msn});
}

/* Without a receive only error messages are taken. */
static bool mt_ud_errors(struct mt_iwarp_qp *qp)
{
    struct mt_ud_in in;
    struct msghdr message;
    ssize_t n = recv(qp->fd, in.head, sizeof(in.head), MSG_PEEK | MSG_DONTWAIT);
    if (n < 2 || (in.head[1] & MT_RDMAP_OPCODE_MASK) != MT_RDMAP_TERMINATE) {
        return false;
    }
    mt_ud_prepare(&in, NULL, &message);
    n = recvmsg(qp->fd, &message, MSG_DONTWAIT);
    if (n >= 0 && mt_ud_look(qp, &in, (uint32_t)n, NULL, message.msg_flags) ==
                      MT_UD_ERROR) {
        mt_ud_reported(qp, &in.segment);
    }
    return n >= 0;
}

/* Of the first count receives those that are marked go; the others stay, as the
 * oldest. */
static void mt_ud_drop_used(struct mt_soft_receives *r, uint32_t count,
                            const bool *used)
{
    uint32_t kept = count;
    for (uint32_t i = count; i-- > 0;) {
        if (!used[i] && --kept != i) {
            r->slots[(r->head + kept) & r->mask] =
                r->slots[(r->head + i) & r->mask];
        }
    }
    r->head += kept;
}

/* What count datagrams are, each in the receive of its place. */
static void mt_ud_take(struct mt_iwarp_qp *qp, struct mt_ud_in *in,
                       const struct mmsghdr *messages, uint32_t count)
{
    struct mt_soft_receives *r = qp->soft.receives;
    bool used[MT_IWARP_UD_BATCH] = {false};
    const struct mt_ud_in *fault = NULL;
    for (uint32_t i = 0; i < count && fault == NULL; i++) {
        const struct mt_soft_receive *to = &r->slots[(r->head + i) & r->mask];
        switch (mt_ud_look(qp, &in[i], messages[i].msg_len, to,
                           messages[i].msg_hdr.msg_flags)) {
        case MT_UD_DATA:
            used[i] = true;
            mt_ud_complete(qp, &in[i], to->id, MT_OK);
            break;
        case MT_UD_TOO_LONG:
            used[i] = true;
            mt_ud_complete(qp, &in[i], to->id, MT_ETRUNCATED);
            fault = &in[i];
            break;
        case MT_UD_ERROR:
            mt_ud_reported(qp, &in[i].segment);
            break;
        case MT_UD_DROPPED:
            break;
        }
    }
    mt_ud_drop_used(r, count, used);
    if (fault != NULL) {
        mt_ud_report(qp, fault, MT_TERM_TOO_LONG);
        mt_iwarp_fail(qp, NULL, MT_ETRUNCATED, MT_TERM_NONE, NULL);
    }
}

/* One datagram. Of one piece the kernel need not be told in a list, which takes
 * longer. */
static bool mt_ud_one(const struct mt_iwarp_qp *qp, struct mt_ud_in *in,
                      const struct mt_soft_receive *to,
                      struct mmsghdr *message)
{
    ssize_t n;
    if (to->piece_count != 1 || !mt_ud_holds(to)) {
        mt_ud_prepare(in, to, &message->msg_hdr);
        n = recvmsg(qp->fd, &message->msg_hdr, MSG_DONTWAIT);
    } else {
        socklen_t from = sizeof(in->from);
        ssize_t room = to->pieces[0].bytes;
        n = recvfrom(qp->fd, to->pieces[0].address, (size_t)room,
                     MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&in->from,
                     &from);
        message->msg_hdr.msg_flags = n > room ? MSG_TRUNC : 0;
        n = n > room ? room : n;
    }
    message->msg_len = (uint32_t)n;
    return n >= 0;
}

/* One call: as many datagrams as the last ones suggest. A socket that gave all
 * it was asked for twice is asked for more. */
bool mt_iwarp_ud_in(struct mt_iwarp_qp *qp)
{
    struct mt_ud_in in[MT_IWARP_UD_BATCH];
    struct mmsghdr messages[MT_IWARP_UD_BATCH];
    const struct mt_soft_receives *r = qp->soft.receives;
    uint32_t posted = r->tail - r->head;
    uint32_t batch = qp->batch < posted ? qp->batch : posted;
    if (mt_unlikely(posted == 0)) {
        return mt_ud_errors(qp);
    }
    int n;
    if (batch == 1) {
        n = mt_ud_one(qp, &in[0], &r->slots[r->head & r->mask], &messages[0]);
    } else {
        for (uint32_t i = 0; i < batch; i++) {
            mt_ud_prepare(&in[i], &r->slots[(r->head + i) & r->mask],
                          &messages[i].msg_hdr);
        }
        n = recvmmsg(qp->fd, messages, batch, MSG_DONTWAIT, NULL);
    }
    uint32_t count = n > 0 ? (uint32_t)n : 0;
    qp->full = count == qp->batch ? qp->full + 1 : 0;
    if (qp->full >= 2) {
        qp->batch = 2 * qp->batch < MT_IWARP_UD_BATCH ? 2 * qp->batch
                                                      : MT_IWARP_UD_BATCH;
        qp->full = 0;
    } else if (count < qp->batch) {
        qp->batch = count > 1 ? count : 1;
    }
    if (count > 0) {
        mt_ud_take(qp, in, messages, count);
    }
    return count > 0;
}
