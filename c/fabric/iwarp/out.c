/* out.c: what an RC queue pair sends: works and answers to the peer's READs as
 * DDP segments in MPA frames, several in one system call. Messages do not interleave
 * (RFC 5041, 5.3): an answer goes between two works, not into one.
 *
 * Payload is gathered from where it lies. Only where a CRC goes along, memory that is
 * not the fabric's is copied, and the CRC is that of the copy: it may be changed while
 * it is being sent, by whoever writes where the peer reads, and by programs that should
 * not, in bytes that nobody looks at. An adapter reads memory once; here the peer would
 * end the connection. One such segment is under way at a time. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <sys/socket.h>

#include "../../include/crc32c.h"
#include "iwarp.h"

/* How a step of building a batch went. */
enum mt_out_step {
    MT_OUT_WHOLE,
    MT_OUT_PART,
    MT_OUT_BLOCKED, /* it waits for the peer, and something else may go */
    MT_OUT_FULL,    /* the batch has to leave first */
    MT_OUT_FAILED,
};

/* ---- frames (RFC 5044, 4.1) ---- */

static uint32_t mt_frame_head(uint8_t *at, const struct mt_iwarp_segment *s)
{
    uint32_t head = mt_segment_write(at + MT_MPA_LENGTH, s);
    mt_put16(at, (uint16_t)(head + s->bytes));
    return MT_MPA_LENGTH + head;
}

/* Padding and CRC behind a frame whose first bytes have this CRC. */
static uint32_t mt_frame_end(uint8_t *at, uint32_t crc, uint32_t before,
                             bool no_crc)
{
    uint32_t pad = mt_mpa_pad(before - MT_MPA_LENGTH);
    memset(at, 0, pad);
    mt_put_crc(at + pad, no_crc ? 0 : mt_crc32c(crc, at, pad));
    return pad + MT_MPA_CRC;
}

/* The same of a frame that lies there, of so many bytes. Returns all. */
static uint32_t mt_frame_close(uint8_t *frame, uint32_t n, bool no_crc)
{
    uint32_t crc = no_crc ? 0 : mt_crc32c(0, frame, n);
    return n + mt_frame_end(frame + n, crc, n, no_crc);
}

uint32_t mt_frame_short(uint8_t *at, const struct mt_iwarp_segment *s,
                        const void *payload, bool no_crc)
{
    uint32_t n = mt_frame_head(at, s);
    memcpy(at + n, payload, s->bytes);
    return mt_frame_close(at, n + s->bytes, no_crc);
}

static void mt_iov_add(struct mt_iwarp_out *out, void *at, uint32_t bytes)
{
    out->iov[out->count++] = (struct iovec){.iov_base = at, .iov_len = bytes};
    out->bytes += bytes;
}

/* Whether a payload has to be copied, and cannot yet. */
static bool mt_frame_waits(const struct mt_iwarp_qp *qp, bool still,
                           uint32_t bytes)
{
    return qp->out->staged && !still && bytes > MT_IWARP_COPY;
}

/* A frame with a payload of s->bytes from the pieces, behind skip. still: it stays as
 * it is until it is sent. */
static void mt_frame_add(struct mt_iwarp_qp *qp,
                         const struct mt_iwarp_segment *s,
                         const struct mt_fabric_piece *pieces, uint32_t count,
                         uint64_t skip, bool still)
{
    struct mt_iwarp_out *out = qp->out;
    uint8_t *at = out->store[out->frames];
    uint32_t n = mt_frame_head(at, s);
    out->stags[out->frames] = 0;
    if (s->bytes <= MT_IWARP_COPY) {
        mt_soft_gather(pieces, count, skip, at + n, s->bytes);
        mt_iov_add(out, at, mt_frame_close(at, n + s->bytes, qp->no_crc));
        out->ends[out->frames++] = out->count;
        return;
    }
    uint32_t crc = qp->no_crc ? 0 : mt_crc32c(0, at, n);
    mt_iov_add(out, at, n);
    if (still) {
        struct iovec *payload = &out->iov[out->count];
        uint32_t slices =
            mt_iwarp_slice(pieces, count, skip, s->bytes, payload);
        crc = qp->no_crc ? 0 : mt_iwarp_crc(crc, payload, slices);
        out->count += slices;
        out->bytes += s->bytes;
    } else {
        crc = mt_iwarp_gather(pieces, count, skip, qp->staging, s->bytes, crc);
        mt_iov_add(out, qp->staging, s->bytes);
        out->staged = true;
    }
    mt_iov_add(out, at + 32,
               mt_frame_end(at + 32, crc, n + s->bytes, qp->no_crc));
    out->ends[out->frames++] = out->count;
}

/* ---- works ---- */

static void mt_add_immediate(struct mt_iwarp_qp *qp,
                             const struct mt_soft_work *w)
{
    uint8_t payload[MT_RDMAP_IMMEDIATE_BYTES] = {0};
    struct mt_fabric_piece piece = {.address = payload,
                                    .bytes = sizeof(payload)};
    struct mt_iwarp_segment s = {.last = true,
                                 .opcode = (w->flags & MT_FABRIC_SOLICITED) != 0
                                               ? MT_RDMAP_IMMEDIATE_SOLICITED
                                               : MT_RDMAP_IMMEDIATE,
                                 .queue = MT_DDP_SENDS,
                                 .msn = ++qp->sent[MT_DDP_SENDS],
                                 .bytes = sizeof(payload)};
    mt_put32(payload, w->immediate);
    mt_frame_add(qp, &s, &piece, 1, 0, true);
}

/* RFC 5040, 4.4. The sink is a name for the work, good on this stream alone:
 * bytes of the pieces, from 0. */
static void mt_add_read(struct mt_iwarp_qp *qp, const struct mt_soft_work *w)
{
    uint8_t payload[MT_RDMAP_READ_BYTES];
    struct mt_fabric_piece piece = {.address = payload,
                                    .bytes = sizeof(payload)};
    struct mt_iwarp_segment s = {.last = true,
                                 .opcode = MT_RDMAP_READ_REQUEST,
                                 .queue = MT_DDP_READS,
                                 .msn = ++qp->sent[MT_DDP_READS],
                                 .bytes = sizeof(payload)};
    mt_put32(payload, qp->soft.next);
    mt_put64(payload + 4, 0);
    mt_put32(payload + 12, (uint32_t)w->bytes);
    mt_put32(payload + 16, w->rkey);
    mt_put64(payload + 20, w->remote_address);
    mt_frame_add(qp, &s, &piece, 1, 0, true);
    qp->soft.reads++;
}

/* One segment of a SEND or WRITE. */
static enum mt_out_step mt_add_data(struct mt_iwarp_qp *qp,
                                    struct mt_soft_work *w)
{
    uint64_t left = w->bytes - w->moved;
    uint32_t n = (uint32_t)(left < MT_IWARP_SEGMENT ? left : MT_IWARP_SEGMENT);
    bool still = qp->no_crc ||
                 mt_iwarp_keeps_still(mt_iwarp_context_of(qp), w->pieces,
                                      w->piece_count);
    struct mt_iwarp_segment s = {.last = n == left, .bytes = n};
    if (mt_frame_waits(qp, still, n)) {
        return MT_OUT_FULL;
    }
    if (w->opcode == MT_FABRIC_SEND) {
        if (w->moved == 0) {
            w->token = ++qp->sent[MT_DDP_SENDS];
        }
        s.opcode = (w->flags & MT_FABRIC_SOLICITED) != 0
                       ? MT_RDMAP_SEND_SOLICITED
                       : MT_RDMAP_SEND;
        s.msn = (uint32_t)w->token;
        s.mo = (uint32_t)w->moved;
    } else {
        s.tagged = true;
        s.opcode = MT_RDMAP_WRITE;
        s.stag = w->rkey;
        s.to = w->remote_address + w->moved;
    }
    mt_frame_add(qp, &s, w->pieces, w->piece_count, w->moved, still);
    w->moved += n;
    return s.last ? MT_OUT_WHOLE : MT_OUT_PART;
}

/* stage: 1 begun, 2 only the immediate data is missing. */
static enum mt_out_step mt_out_work(struct mt_iwarp_qp *qp)
{
    struct mt_soft_qp *soft = &qp->soft;
    struct mt_soft_work *w = mt_soft_work_at(soft, soft->next);
    bool read = w->opcode == MT_FABRIC_READ;
    enum mt_out_step step = MT_OUT_WHOLE;
    if (w->stage == 0) {
        bool waits = ((w->flags & MT_FABRIC_FENCE) != 0 && soft->reads > 0) ||
                     (read && soft->reads >= soft->base.options.reads);
        if (waits) {
            return MT_OUT_BLOCKED;
        }
        w->stage = 1;
    }
    if (read) {
        mt_add_read(qp, w);
    } else if (w->stage == 2) {
        mt_add_immediate(qp, w);
    } else {
        step = mt_add_data(qp, w);
    }
    if (step == MT_OUT_WHOLE && w->stage == 1 &&
        w->opcode == MT_FABRIC_WRITE_WITH_IMM) {
        w->stage = 2;
        step = MT_OUT_PART;
    }
    soft->next += step == MT_OUT_WHOLE;
    return step;
}

/* ---- answers ---- */

/* A segment of the answer to a READ. */
static enum mt_out_step mt_out_answer(struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_answer *a = &qp->answers[qp->answer_head % MT_IWARP_READS];
    uint32_t left = a->bytes - a->moved;
    uint32_t n = left < MT_IWARP_SEGMENT ? left : MT_IWARP_SEGMENT;
    uint64_t from = a->to + a->moved;
    struct mt_fabric_piece piece = {.address = (void *)(uintptr_t)from,
                                    .bytes = n};
    struct mt_iwarp_segment s = {.tagged = true,
                                 .last = n == left,
                                 .opcode = MT_RDMAP_READ_RESPONSE,
                                 .stag = a->sink_stag,
                                 .to = a->sink_to + a->moved,
                                 .bytes = n};
    if (!mt_iwarp_may(mt_iwarp_context_of(qp), a->stag, from, n,
                      MT_FABRIC_REMOTE_READ)) {
        return MT_OUT_FAILED;
    }
    if (mt_frame_waits(qp, qp->no_crc, n)) {
        return MT_OUT_FULL;
    }
    mt_frame_add(qp, &s, &piece, 1, 0, qp->no_crc);
    if (qp->no_crc && n > MT_IWARP_COPY) {
        qp->out->stags[qp->out->frames - 1] = a->stag;
    }
    a->moved += n;
    if (!s.last) {
        return MT_OUT_PART;
    }
    qp->answer_head++;
    return MT_OUT_WHOLE;
}

/* ---- what lies in memory of others ---- */

bool mt_iwarp_answers(const struct mt_iwarp_qp *qp, uint32_t stag)
{
    const struct mt_iwarp_out *out = qp->out;
    for (uint32_t f = 0; out != NULL && f < out->frames; f++) {
        if (out->stags[f] == stag && out->first < out->ends[f]) {
            return true;
        }
    }
    return false;
}

/* ---- batches ---- */

void mt_iwarp_out_reset(struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_out *out = qp->out;
    out->first = out->count = out->frames = out->bytes = 0;
    out->cut = out->staged = false;
    out->from = out->upto = qp->soft.next;
}

/* Which goes next at the boundary of a message: they take turns. */
static bool mt_answer_is_next(const struct mt_iwarp_qp *qp)
{
    const struct mt_soft_qp *soft = &qp->soft;
    if (qp->answer_head == qp->answer_tail) {
        return false;
    }
    const struct mt_iwarp_answer *a =
        &qp->answers[qp->answer_head % MT_IWARP_READS];
    if (a->moved > 0 || soft->next == soft->tail) {
        return true;
    }
    const struct mt_soft_work *w = mt_soft_work_at(soft, soft->next);
    return w->stage == 0 && qp->answer_next;
}

static enum mt_out_step mt_out_step(struct mt_iwarp_qp *qp)
{
    struct mt_soft_qp *soft = &qp->soft;
    enum mt_out_step step = MT_OUT_BLOCKED;
    bool answer = mt_answer_is_next(qp);
    if (!answer && soft->next != soft->tail) {
        step = mt_out_work(qp);
        qp->answer_next = true;
        answer = step == MT_OUT_BLOCKED && qp->answer_head != qp->answer_tail;
    }
    if (answer) {
        step = mt_out_answer(qp);
        qp->answer_next = step == MT_OUT_FULL;
    }
    return step;
}

/* Frames for one sendmsg; false: there are none now. */
static bool mt_out_build(struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_out *out = qp->out;
    mt_iwarp_out_reset(qp);
    while (out->frames < MT_IWARP_FRAMES && out->bytes < MT_IWARP_BATCH) {
        enum mt_out_step step = mt_out_step(qp);
        if (step == MT_OUT_FAILED) {
            mt_iwarp_out_reset(qp);
            mt_iwarp_fail(qp, NULL, MT_EACCESS, MT_TERM_ACCESS_STAG, NULL);
            return false;
        }
        if (step == MT_OUT_BLOCKED || step == MT_OUT_FULL) {
            break;
        }
    }
    out->upto = qp->soft.next;
    return out->count > 0;
}

/* The socket has all of the batch: SENDs and WRITEs of it are complete. */
static void mt_out_complete(struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_out *out = qp->out;
    for (uint32_t i = out->from; i != out->upto; i++) {
        struct mt_soft_work *w = mt_soft_work_at(&qp->soft, i);
        /* a READ that was answered too early may be gone */
        if (i - qp->soft.head >= qp->soft.next - qp->soft.head) {
            continue;
        }
        w->done = w->done || w->opcode != MT_FABRIC_READ;
    }
    mt_iwarp_out_reset(qp);
    mt_soft_retire(&qp->soft);
}

static void mt_out_advance(struct mt_iwarp_out *out, size_t sent)
{
    while (out->first < out->count && sent >= out->iov[out->first].iov_len) {
        sent -= out->iov[out->first++].iov_len;
        out->cut = false;
    }
    if (sent > 0) {
        struct iovec *iov = &out->iov[out->first];
        iov->iov_base = (char *)iov->iov_base + sent;
        iov->iov_len -= sent;
        out->cut = true;
    }
}

static ssize_t mt_out_write(const struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_out *out = qp->out;
    struct iovec *iov = &out->iov[out->first];
    if (out->count - out->first == 1) {
        return send(qp->fd, iov->iov_base, iov->iov_len,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    struct msghdr message = {.msg_iov = iov,
                             .msg_iovlen = out->count - out->first};
    return sendmsg(qp->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The peer may have said why before it went. */
static void mt_out_broken(struct mt_iwarp_qp *qp)
{
    while (qp->link == MT_LINK_OPEN && mt_iwarp_in(qp)) {
    }
    mt_iwarp_fail_oldest(qp, MT_EPEER);
}

bool mt_iwarp_out(struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_out *out = qp->out;
    struct mt_soft_qp *soft = &qp->soft;
    bool moved = false;
    while (out->first != out->count || mt_out_build(qp)) {
        ssize_t sent = mt_out_write(qp);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
            mt_iwarp_waits(qp, true);
            return moved;
        }
        if (sent < 0) {
            mt_out_broken(qp);
            return true;
        }
        moved = true;
        mt_out_advance(out, (size_t)sent);
        if (out->first == out->count) {
            mt_out_complete(qp);
        }
    }
    mt_iwarp_waits(qp, qp->link == MT_LINK_OPEN &&
                           (soft->next != soft->tail ||
                            qp->answer_head != qp->answer_tail));
    return moved;
}
