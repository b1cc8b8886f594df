/* in.c: what an RC queue pair makes of the bytes of its peer: frames (RFC
 * 5044), segments (RFC 5041), messages (RFC 5040). Whatever breaks a rule ends
 * the stream with a Terminate message.
 *
 * A frame that is there whole is checked, then placed. The payload of a long
 * one goes to its place as it comes, which is checked before, and its CRC, if there is
 * one, when all of it is there: bytes that fail the check may have been stored, inside
 * the memory that the header named, but nothing completes and the stream ends. The
 * CRC is that of what came and not of that memory, which programs may change. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <sys/socket.h>

#include "../../include/crc32c.h"
#include "iwarp.h"

enum { MT_IN_AT_ONCE = 16, MT_IN_BEHIND = 4096 };

static void mt_broken(struct mt_iwarp_qp *qp, enum mt_iwarp_term term,
                      const struct mt_iwarp_segment *s)
{
    enum mt_status status = mt_term_status((uint32_t)term);
    if (status != MT_EACCESS && status != MT_ETRUNCATED) {
        mt_fabric_throw_away(&mt_iwarp_context_of(qp)->soft.base);
    }
    if (term == MT_TERM_TOO_LONG && qp->has_current) {
        struct mt_fabric_completion c = {.status = MT_ETRUNCATED};
        qp->has_current = false;
        mt_soft_received(&qp->soft, qp->current.id, &c, true);
    }
    mt_iwarp_fail(qp, NULL, status, term, s);
}

/* ---- places ---- */

static bool mt_claim(struct mt_iwarp_qp *qp)
{
    struct mt_soft_receive *r = mt_soft_receive_first(qp->soft.receives);
    if (r == NULL) {
        return false;
    }
    qp->current.id = r->id;
    qp->current.bytes = r->bytes;
    qp->current.piece_count = r->piece_count;
    memcpy(qp->current.pieces, r->pieces,
           r->piece_count * sizeof(r->pieces[0]));
    mt_soft_receive_drop(qp->soft.receives);
    qp->has_current = true;
    qp->received = 0;
    return true;
}

/* RFC 5041, 6: messages of a queue come in order, and so do their segments. */
static enum mt_iwarp_term mt_place_send(struct mt_iwarp_qp *qp,
                                        const struct mt_iwarp_segment *s,
                                        struct mt_iwarp_place *place)
{
    if (s->msn != qp->taken[MT_DDP_SENDS] + 1) {
        return MT_TERM_MSN;
    }
    if (s->mo != (qp->has_current ? (uint32_t)qp->received : 0)) {
        return MT_TERM_OFFSET;
    }
    if (!qp->has_current && !mt_claim(qp)) {
        return MT_TERM_NO_BUFFER;
    }
    if (s->bytes > qp->current.bytes - qp->received) {
        return MT_TERM_TOO_LONG;
    }
    place->pieces = qp->current.pieces;
    place->count = qp->current.piece_count;
    place->skip = qp->received;
    return MT_TERM_NONE;
}

static bool mt_key_known(const struct mt_iwarp_qp *qp, uint32_t key)
{
    return key != 0 &&
           mt_iwarp_context_of(qp)->regions[(key - 1) % MT_IWARP_REGIONS].key ==
               key;
}

static enum mt_iwarp_term mt_place_write(struct mt_iwarp_qp *qp,
                                         const struct mt_iwarp_segment *s,
                                         struct mt_iwarp_place *place)
{
    if (!mt_iwarp_may(mt_iwarp_context_of(qp), s->stag, s->to, s->bytes,
                      MT_FABRIC_REMOTE_WRITE)) {
        return mt_key_known(qp, s->stag) ? MT_TERM_TAGGED_BOUNDS
                                         : MT_TERM_TAGGED_STAG;
    }
    place->one = (struct mt_fabric_piece){.address = (void *)(uintptr_t)s->to,
                                          .bytes = s->bytes};
    place->pieces = &place->one;
    place->count = 1;
    place->skip = 0;
    return MT_TERM_NONE;
}

/* Whether it is the oldest READ under way: answers come in the order of the READs.
 * Work ahead of it may not be complete yet, if its batch has left in part. */
static bool mt_is_answered_next(const struct mt_soft_qp *soft, uint32_t index)
{
    if (index - soft->head >= soft->next - soft->head) {
        return false;
    }
    for (uint32_t i = soft->head; i != index; i++) {
        const struct mt_soft_work *w = mt_soft_work_at(soft, i);
        if (w->opcode == MT_FABRIC_READ && !w->done) {
            return false;
        }
    }
    const struct mt_soft_work *w = mt_soft_work_at(soft, index);
    return w->opcode == MT_FABRIC_READ && !w->done;
}

static enum mt_iwarp_term mt_place_response(struct mt_iwarp_qp *qp,
                                            const struct mt_iwarp_segment *s,
                                            struct mt_iwarp_place *place)
{
    const struct mt_soft_qp *soft = &qp->soft;
    if (!mt_is_answered_next(soft, s->stag)) {
        return MT_TERM_TAGGED_STAG;
    }
    const struct mt_soft_work *w = mt_soft_work_at(soft, s->stag);
    if (s->to != w->moved || s->bytes > w->bytes - w->moved ||
        s->last != (s->bytes == w->bytes - w->moved)) {
        return MT_TERM_TAGGED_BOUNDS;
    }
    place->pieces = w->pieces;
    place->count = w->piece_count;
    place->skip = w->moved;
    return MT_TERM_NONE;
}

static bool mt_has_place(const struct mt_iwarp_segment *s)
{
    return s->tagged || s->opcode == MT_RDMAP_SEND ||
           s->opcode == MT_RDMAP_SEND_SOLICITED;
}

static enum mt_iwarp_term mt_place(struct mt_iwarp_qp *qp,
                                   const struct mt_iwarp_segment *s,
                                   struct mt_iwarp_place *place)
{
    return !s->tagged                    ? mt_place_send(qp, s, place)
           : s->opcode == MT_RDMAP_WRITE ? mt_place_write(qp, s, place)
                                         : mt_place_response(qp, s, place);
}

/* ---- what a segment means once it is in its place ---- */

static void mt_placed_send(struct mt_iwarp_qp *qp,
                           const struct mt_iwarp_segment *s)
{
    qp->received += s->bytes;
    if (!s->last) {
        return;
    }
    struct mt_fabric_completion c = {.opcode = MT_FABRIC_RECEIVE,
                                     .bytes = (uint32_t)qp->received};
    qp->has_current = false;
    qp->taken[MT_DDP_SENDS]++;
    mt_soft_received(&qp->soft, qp->current.id, &c,
                     s->opcode == MT_RDMAP_SEND_SOLICITED);
}

static void mt_placed_response(struct mt_iwarp_qp *qp,
                               const struct mt_iwarp_segment *s)
{
    struct mt_soft_qp *soft = &qp->soft;
    struct mt_soft_work *w = mt_soft_work_at(soft, s->stag);
    w->moved += s->bytes;
    if (s->last) {
        w->done = true;
        soft->reads--;
        mt_soft_retire(soft);
    }
}

static void mt_placed(struct mt_iwarp_qp *qp, const struct mt_iwarp_segment *s)
{
    if (!s->tagged) {
        mt_placed_send(qp, s);
    } else if (s->opcode == MT_RDMAP_READ_RESPONSE) {
        mt_placed_response(qp, s);
    } else {
        qp->written = s->bytes + (qp->write_ended ? 0 : qp->written);
        qp->write_ended = s->last;
    }
}

/* Eight aligned bytes are one store, behind all that came before: who polls
 * them sees all or nothing. */
static void mt_store(const struct mt_iwarp_place *place, const uint8_t *from,
                     const struct mt_iwarp_segment *s)
{
    uint64_t word;
    if (s->tagged && s->bytes == sizeof(word) && s->to % sizeof(word) == 0 &&
        s->opcode == MT_RDMAP_WRITE) {
        memcpy(&word, from, sizeof(word));
        __atomic_store_n((uint64_t *)place->one.address, word,
                         __ATOMIC_RELEASE);
        return;
    }
    mt_soft_scatter(place->pieces, place->count, place->skip, from, s->bytes);
}

/* ---- messages without a place ---- */

static enum mt_iwarp_term mt_take_request(struct mt_iwarp_qp *qp,
                                          const struct mt_iwarp_segment *s,
                                          const uint8_t *payload)
{
    struct mt_iwarp_answer a = {.sink_stag = mt_get32(payload),
                                .sink_to = mt_get64(payload + 4),
                                .bytes = mt_get32(payload + 12),
                                .stag = mt_get32(payload + 16),
                                .to = mt_get64(payload + 20)};
    if (s->msn != qp->taken[MT_DDP_READS] + 1) {
        return MT_TERM_MSN;
    }
    if (qp->answer_tail - qp->answer_head >= MT_IWARP_READS) {
        return MT_TERM_NO_BUFFER;
    }
    if (!mt_iwarp_may(mt_iwarp_context_of(qp), a.stag, a.to, a.bytes,
                      MT_FABRIC_REMOTE_READ)) {
        return mt_key_known(qp, a.stag) ? MT_TERM_ACCESS_BOUNDS
                                        : MT_TERM_ACCESS_STAG;
    }
    qp->taken[MT_DDP_READS]++;
    qp->answers[qp->answer_tail++ % MT_IWARP_READS] = a;
    return MT_TERM_NONE;
}

/* RFC 7306, 6: it takes a receive, and tells of the WRITE before it. */
static enum mt_iwarp_term mt_take_immediate(struct mt_iwarp_qp *qp,
                                            const struct mt_iwarp_segment *s,
                                            const uint8_t *payload)
{
    if (s->msn != qp->taken[MT_DDP_SENDS] + 1 || qp->has_current) {
        return MT_TERM_MSN;
    }
    if (!mt_claim(qp)) {
        return MT_TERM_NO_BUFFER;
    }
    struct mt_fabric_completion c = {.opcode = MT_FABRIC_RECEIVE,
                                     .bytes = (uint32_t)qp->written,
                                     .immediate = mt_get32(payload),
                                     .has_immediate = true};
    qp->has_current = false;
    qp->taken[MT_DDP_SENDS]++;
    mt_soft_received(&qp->soft, qp->current.id, &c,
                     s->opcode == MT_RDMAP_IMMEDIATE_SOLICITED);
    return MT_TERM_NONE;
}

static enum mt_iwarp_term mt_take_message(struct mt_iwarp_qp *qp,
                                          const struct mt_iwarp_segment *s,
                                          const uint8_t *payload)
{
    if (s->opcode == MT_RDMAP_READ_REQUEST) {
        return mt_take_request(qp, s, payload);
    }
    if (s->opcode != MT_RDMAP_TERMINATE) {
        return mt_take_immediate(qp, s, payload);
    }
    mt_iwarp_fail_oldest(qp, s->bytes >= MT_RDMAP_TERMINATE_BYTES
                                 ? mt_term_status(mt_get16(payload))
                                 : MT_EPEER);
    return MT_TERM_NONE;
}

/* ---- frames ---- */

/* A frame that is there whole. */
static void mt_take_frame(struct mt_iwarp_qp *qp, const uint8_t *at,
                          uint32_t ulpdu)
{
    struct mt_iwarp_segment s;
    struct mt_iwarp_place place;
    uint32_t checked = MT_MPA_LENGTH + ulpdu + mt_mpa_pad(ulpdu);
    if (!qp->no_crc && mt_crc32c(0, at, checked) != mt_get_crc(at + checked)) {
        mt_broken(qp, MT_TERM_CRC, NULL);
        return;
    }
    enum mt_iwarp_term term = mt_segment_parse(at + MT_MPA_LENGTH, ulpdu, &s);
    if (term != MT_TERM_NONE) {
        mt_broken(qp, term, NULL);
        return;
    }
    const uint8_t *payload = at + MT_MPA_LENGTH + s.head;
    if (!mt_has_place(&s)) {
        term = mt_take_message(qp, &s, payload);
    } else {
        term = mt_place(qp, &s, &place);
        if (term == MT_TERM_NONE) {
            mt_store(&place, payload, &s);
            mt_placed(qp, &s);
        }
    }
    if (term != MT_TERM_NONE) {
        mt_broken(qp, term, &s);
    }
}

/* Of the frame that goes straight to its place count bytes came. Returns how many of
 * them are its. */
static uint32_t mt_direct_came(struct mt_iwarp_qp *qp,
                               const struct mt_iwarp_place *place,
                               const uint8_t *from, uint32_t count)
{
    struct mt_iwarp_in *in = &qp->in;
    uint32_t pad = mt_mpa_pad(in->segment.head + in->segment.bytes);
    uint64_t skip = place->skip + in->placed;
    uint32_t n = in->segment.bytes - in->placed;
    n = n < count ? n : count;
    if (qp->no_crc) {
        mt_soft_scatter(place->pieces, place->count, skip, from, n);
    } else {
        in->crc = mt_iwarp_scatter(place->pieces, place->count, skip, from, n,
                                   in->crc);
    }
    in->placed += n;
    uint32_t t = pad + MT_MPA_CRC - in->trailed;
    t = t < count - n ? t : count - n;
    memcpy(in->trailer + in->trailed, from + n, t);
    in->trailed += t;
    if (in->trailed == pad + MT_MPA_CRC) {
        in->direct = false;
        if (!qp->no_crc && mt_crc32c(in->crc, in->trailer, pad) !=
                               mt_get_crc(in->trailer + pad)) {
            mt_broken(qp, MT_TERM_CRC, NULL);
        } else {
            mt_placed(qp, &in->segment);
        }
    }
    return n + t;
}

/* From here on this frame goes straight to its place. What is there of it moves
 * now. */
static void mt_direct_begin(struct mt_iwarp_qp *qp, const uint8_t *at,
                            uint32_t there, uint32_t ulpdu)
{
    struct mt_iwarp_in *in = &qp->in;
    struct mt_iwarp_place place;
    enum mt_iwarp_term term =
        mt_segment_parse(at + MT_MPA_LENGTH, ulpdu, &in->segment);
    if (term == MT_TERM_NONE && !mt_has_place(&in->segment)) {
        term = MT_TERM_LENGTH;
    }
    if (term == MT_TERM_NONE) {
        term = mt_place(qp, &in->segment, &place);
    }
    if (term != MT_TERM_NONE) {
        mt_broken(qp, term, NULL);
        return;
    }
    uint32_t head = MT_MPA_LENGTH + in->segment.head;
    in->crc = mt_crc32c(0, at, head);
    in->placed = in->trailed = 0;
    in->direct = true;
    mt_direct_came(qp, &place, at + head, there - head);
}

/* All frames of the buffer. */
void mt_iwarp_parse(struct mt_iwarp_qp *qp)
{
    struct mt_iwarp_in *in = &qp->in;
    while (qp->link == MT_LINK_OPEN && !in->direct) {
        const uint8_t *at = in->data + in->head;
        uint32_t there = in->tail - in->head;
        uint32_t ulpdu = there >= MT_MPA_LENGTH ? mt_get16(at) : 0;
        uint32_t head =
            ulpdu < MT_DDP_UNTAGGED_HEAD ? ulpdu : MT_DDP_UNTAGGED_HEAD;
        if (there < MT_MPA_LENGTH || there < MT_MPA_LENGTH + head) {
            break;
        }
        if (ulpdu < MT_DDP_TAGGED_HEAD) {
            mt_broken(qp, MT_TERM_LENGTH, NULL);
            break;
        }
        uint32_t size = MT_MPA_LENGTH + ulpdu + mt_mpa_pad(ulpdu) + MT_MPA_CRC;
        if (there < size &&
            (size - there >= MT_IWARP_DIRECT || size > MT_IWARP_INPUT / 2)) {
            in->head = in->tail;
            mt_direct_begin(qp, at, there, ulpdu);
            break;
        }
        if (there < size) {
            break;
        }
        in->head += size;
        mt_take_frame(qp, at, ulpdu);
    }
    uint32_t rest = in->tail - in->head;
    if (in->head > 0 && rest > 0) {
        memmove(in->data, in->data + in->head, rest);
    }
    in->head = 0;
    in->tail = rest;
}

/* ---- the socket ---- */

/* What is missing of a frame that goes to its place; 0: there is none. */
static uint32_t mt_frame_rest(const struct mt_iwarp_qp *qp)
{
    const struct mt_iwarp_in *in = &qp->in;
    const struct mt_iwarp_segment *s = &in->segment;
    return qp->link == MT_LINK_OPEN && in->direct
               ? s->bytes - in->placed + mt_mpa_pad(s->head + s->bytes) +
                     MT_MPA_CRC - in->trailed
               : 0;
}

static ssize_t mt_read_buffer(struct mt_iwarp_qp *qp, bool *all)
{
    struct mt_iwarp_in *in = &qp->in;
    size_t room = MT_IWARP_INPUT - in->tail;
    ssize_t n = recv(qp->fd, in->data + in->tail, room, MSG_DONTWAIT);
    if (n > 0) {
        in->tail += (uint32_t)n;
        *all = (size_t)n == room;
    }
    return n;
}

/* What is missing of a frame that goes straight to its place, and some of what follows.
 * The place is found anew each time: its memory may be gone. What needs a CRC comes by
 * way of memory that nobody else changes. */
static ssize_t mt_read_direct(struct mt_iwarp_qp *qp, bool *all)
{
    struct mt_iwarp_in *in = &qp->in;
    uint8_t *arrived = mt_iwarp_context_of(qp)->arrived;
    struct iovec iov[MT_SOFT_PIECES + 1];
    struct mt_iwarp_place place;
    size_t room = mt_frame_rest(qp) + MT_IN_BEHIND;
    uint32_t straight = qp->no_crc ? in->segment.bytes - in->placed : 0;
    enum mt_iwarp_term term = mt_place(qp, &in->segment, &place);
    if (term != MT_TERM_NONE) {
        mt_broken(qp, term, &in->segment);
        errno = EAGAIN;
        return -1;
    }
    uint32_t count = mt_iwarp_slice(place.pieces, place.count,
                                    place.skip + in->placed, straight, iov);
    iov[count++] = (struct iovec){arrived, room - straight};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t n = recvmsg(qp->fd, &message, MSG_DONTWAIT);
    if (n > 0) {
        uint32_t came = (uint32_t)n;
        *all = came == room;
        straight = straight < came ? straight : came;
        in->placed += straight;
        came -= straight;
        uint32_t its = mt_direct_came(qp, &place, arrived, came);
        in->head = 0;
        in->tail = came - its;
        memcpy(in->data, arrived + its, in->tail);
    }
    return n;
}

/* Bytes that come for certain, and ask for nothing before the last of them: of the
 * frame, and of the answer to a READ that it is a part of. */
static uint64_t mt_certain(const struct mt_iwarp_qp *qp)
{
    const struct mt_iwarp_segment *s = &qp->in.segment;
    uint64_t bytes = mt_frame_rest(qp);
    if (bytes > 0 && s->tagged && s->opcode == MT_RDMAP_READ_RESPONSE) {
        const struct mt_soft_work *w = mt_soft_work_at(&qp->soft, s->stag);
        bytes += w->bytes - w->moved - s->bytes;
    }
    return bytes;
}

static void mt_wake_at(struct mt_iwarp_qp *qp, uint32_t bytes)
{
    int value = (int)bytes;
    setsockopt(qp->fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value));
    qp->wakes_at = bytes;
}

/* The half, so that little is left to be done when the last bytes are there. */
void mt_iwarp_in_armed(struct mt_iwarp_qp *qp)
{
    uint64_t half = mt_certain(qp) / 2;
    uint32_t bytes = mt_frame_rest(qp);
    half = half < MT_IWARP_WAKES_AT ? half : MT_IWARP_WAKES_AT;
    bytes = bytes > half ? bytes : (uint32_t)half;
    bytes = bytes >= MT_IWARP_DIRECT ? bytes : 1;
    if (bytes != qp->wakes_at) {
        mt_wake_at(qp, bytes);
    }
}

static bool mt_take_all(struct mt_iwarp_qp *qp)
{
    bool moved = false, all = true;
    for (int i = 0; i < MT_IN_AT_ONCE && all; i++) {
        all = false;
        ssize_t n =
            qp->in.direct ? mt_read_direct(qp, &all) : mt_read_buffer(qp, &all);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return moved;
        }
        moved = true;
        if (n <= 0) {
            mt_iwarp_fail_oldest(qp, MT_EPEER);
            return true;
        }
        mt_iwarp_parse(qp);
        if (qp->link != MT_LINK_OPEN) {
            return true;
        }
    }
    return moved;
}

bool mt_iwarp_in(struct mt_iwarp_qp *qp)
{
    bool moved = mt_take_all(qp);
    if (mt_unlikely(qp->wakes_at > 1 && qp->wakes_at > mt_certain(qp)) &&
        qp->fd >= 0) {
        mt_wake_at(qp, 1);
    }
    return moved;
}
