/* ring.c: short messages by WRITE (paths/ring.h). A process that a peer has sent
 * many messages offers it a ring, as long as it has some left to offer; the peer
 * answers where it wants to know how much of it was read, and from then on writes
 * what is eager and not synchronous, if there is room: everything else, and what
 * finds none, goes by SEND.
 *
 * Nobody is woken by a WRITE. So what a process has to answer goes by SEND, and
 * who has filled a ring and goes on by SEND wakes whoever has to empty it. */
#include "rings.h"

#include <stdlib.h>
#include <string.h>

enum { MT_RING_AFTER = 32, MT_RING_AT_ONCE = 64 };

/* That of a peer, made when it is first needed; NULL: no memory. */
static struct mt_engine_ring *mt_ring_of(struct mt_engine_peer *peer)
{
    if (peer->ring == NULL) {
        peer->ring = calloc(1, sizeof(*peer->ring));
        if (peer->ring != NULL) {
            peer->ring->peer = peer;
        }
    }
    return peer->ring;
}

void mt_ring_free(struct mt_engine_peer *peer)
{
    if (peer->ring != NULL) {
        mt_path_ring_writer_close(&peer->ring->out);
        mt_path_ring_reader_close(&peer->ring->in);
        free(peer->ring->early);
        free(peer->ring);
        peer->ring = NULL;
    }
}

/* ---- offering and accepting ---- */

void mt_ring_offer(struct mt_engine_peer *peer)
{
    struct mt_engine *engine = peer->engine;
    if (peer->arrived < MT_RING_AFTER) {
        return;
    }
    peer->offered = true;
    if (engine->ring_bytes == 0 || engine->ring_count == MT_ENGINE_RINGS) {
        return;
    }
    struct mt_engine_ring *ring = mt_ring_of(peer);
    if (ring != NULL && ring->early == NULL) {
        ring->early = calloc(peer->credits.o.window, sizeof(*ring->early));
    }
    if (ring != NULL && ring->early != NULL &&
        mt_path_ring_reader_open(&ring->in, engine->pd, peer->qp,
                                 engine->ring_bytes) == MT_OK) {
        engine->rings[engine->ring_count] = ring;
        __atomic_store_n(&engine->ring_count, engine->ring_count + 1,
                         __ATOMIC_RELEASE);
        ring->offers = true;
        mt_peer_busy(peer);
    }
}

enum mt_status mt_ring_offered(struct mt_engine_peer *peer,
                               const struct mt_wire_message *m)
{
    struct mt_engine *engine = peer->engine;
    struct mt_engine_ring *ring = mt_ring_of(peer);
    if (engine->ring_bytes == 0 || m->rest.bytes != engine->ring_bytes ||
        peer->qp == NULL || (ring != NULL && ring->out.memory != NULL)) {
        return MT_EPEER;
    }
    if (ring != NULL &&
        mt_path_ring_writer_open(&ring->out, engine->pd, peer->qp,
                                 m->rest.address, m->head.rkey, m->rest.bytes,
                                 engine->eager != NULL) == MT_OK) {
        ring->accepts = true;
        mt_peer_busy(peer);
    }
    return MT_OK; /* without memory it goes on by SEND */
}

enum mt_status mt_ring_accepted(struct mt_engine_peer *peer,
                                const struct mt_wire_message *m)
{
    struct mt_engine_ring *ring = peer->ring;
    if (ring == NULL || ring->in.memory == NULL || ring->offers ||
        ring->in.word_address != 0 || m->rest.address == 0) {
        return MT_EPEER;
    }
    mt_path_ring_word(&ring->in, m->rest.address, m->head.rkey);
    return MT_OK;
}

/* Where something of ours lies. */
static enum mt_status mt_ring_tell(struct mt_engine_peer *peer,
                                   enum mt_wire_kind kind,
                                   const struct mt_fabric_mr *mr,
                                   uint64_t bytes)
{
    struct {
        struct mt_wire head;
        struct mt_wire_rest rest;
    } message = {.head = {.kind = (uint8_t)kind,
                          .sequence = (uint32_t)(peer->sent + 1),
                          .rkey = mr->rkey},
                 .rest = {.bytes = bytes, .address = (uintptr_t)mr->address}};
    void *place;
    enum mt_status status = mt_channel_reserve(peer, &place);
    if (status != MT_OK) {
        return status;
    }
    memcpy(place, &message, sizeof(message));
    status = mt_channel_commit(peer, sizeof(message), 0, NULL);
    if (status == MT_OK) {
        peer->sent++;
    }
    return status;
}

static enum mt_status mt_ring_flush_slow(struct mt_engine_ring *ring)
{
    enum mt_status status = mt_path_ring_flush(&ring->out);
    if (ring->offers && status == MT_OK) {
        status = mt_ring_tell(ring->peer, MT_WIRE_RING, ring->in.memory,
                              ring->in.bytes);
        ring->offers = status != MT_OK;
    }
    if (ring->accepts && status == MT_OK) {
        status = mt_ring_tell(ring->peer, MT_WIRE_WORD, ring->out.memory, 0);
        ring->accepts = status != MT_OK;
    }
    return status;
}

bool mt_ring_flush(struct mt_engine_peer *peer)
{
    struct mt_engine_ring *ring = peer->ring;
    if (mt_likely(ring == NULL ||
                  (!ring->out.owes && !ring->offers && !ring->accepts)) ||
        peer->ended) {
        return true;
    }
    enum mt_status status = mt_ring_flush_slow(ring);
    if (status != MT_OK && status != MT_EAGAIN) {
        mt_peer_end(peer);
    }
    return status != MT_EAGAIN;
}

bool mt_ring_busy(struct mt_engine_peer *peer)
{
    struct mt_engine_ring *ring = peer->ring;
    if (ring == NULL) {
        return false;
    }
    if (!peer->ended && ring->in.memory != NULL &&
        mt_path_ring_owing(&ring->in)) {
        mt_path_ring_tell(&ring->in, 0);
    }
    return mt_path_ring_writing(&ring->out) || ring->in.telling;
}

bool mt_ring_release(struct mt_engine_peer *peer)
{
    struct mt_engine_ring *ring = peer->ring;
    if (ring == NULL || ring->out.held == 0) {
        return true;
    }
    enum mt_status status =
        peer->ended ? MT_EPEER : mt_path_ring_flush(&ring->out);
    if (status != MT_OK && status != MT_EAGAIN) {
        mt_peer_end(peer);
    } else if (mt_path_ring_writing(&ring->out)) {
        mt_peer_busy(peer);
    }
    return status == MT_OK;
}

/* Tells the peer how much of its messages was read, in its own time or, with
 * MT_FABRIC_MORE, together with a message that follows at once. */
static void mt_ring_tell_room(struct mt_engine_ring *ring, uint32_t flags)
{
    if (mt_path_ring_tell(&ring->in, flags) != MT_OK || ring->in.telling) {
        mt_peer_busy(ring->peer); /* until it could be told, or it has completed */
    }
}

void mt_rings_tell(struct mt_engine *engine)
{
    engine->rings_owe = false;
    for (uint32_t i = 0; i < engine->ring_count; i++) {
        struct mt_engine_ring *ring = engine->rings[i];
        if (!ring->peer->ended && mt_path_ring_owing(&ring->in)) {
            mt_ring_tell_room(ring, 0);
        }
    }
}

/* ---- messages ---- */

/* Its header. Returns how many bytes that takes. */
static uint32_t mt_ring_head(struct mt_engine_ring *ring,
                             const struct mt_engine_context *context,
                             int32_t tag, void *at, struct mt_wire *head_p)
{
    *head_p = (struct mt_wire){.kind = MT_WIRE_EAGER,
                               .sequence = (uint32_t)(ring->peer->sent + 1),
                               .context = context->id,
                               .source = context->rank,
                               .tag = tag};
    return mt_wire_shorten(&ring->sent, head_p, at);
}

static void mt_ring_sent(struct mt_engine_ring *ring, const struct mt_wire *head,
                         uint32_t header)
{
    if (header == sizeof(*head)) {
        mt_wire_keep(&ring->sent, head);
    }
    ring->peer->sent++;
    ring->peer->engine->counts.ring_messages++;
}

bool mt_ring_store(struct mt_engine_peer *peer,
                   const struct mt_engine_context *context, int32_t tag,
                   const struct mt_buffer *buffer)
{
    struct mt_engine_ring *ring = peer->ring;
    struct mt_wire head;
    char *at = mt_path_ring_reserve(&ring->out,
                                    sizeof(head) + buffer->bytes);
    if (at == NULL) {
        return false;
    }
    uint32_t header = mt_ring_head(ring, context, tag, at, &head);
    mt_layout_pack(buffer, 0, at + header, buffer->bytes, NULL);
    /* there is nothing that could fail */
    mt_path_ring_commit(&ring->out, header + buffer->bytes, NULL, false);
    mt_ring_sent(ring, &head, header);
    return true;
}

static enum mt_status mt_ring_post(struct mt_engine_peer *peer,
                                   struct mt_engine_request *r)
{
    struct mt_engine_ring *ring = peer->ring;
    uint64_t payload = r->buffer.bytes;
    struct mt_wire head;
    char *at = ring->out.memory != NULL && !ring->accepts
                   ? mt_path_ring_reserve(&ring->out, sizeof(head) + payload)
                   : NULL;
    if (at == NULL) {
        return MT_EAGAIN;
    }
    uint32_t header = mt_ring_head(ring, r->context, r->want_tag, at, &head);
    enum mt_status status;
    bool straight = mt_eager_straight(r), holds = false;
    if (mt_unlikely(straight)) {
        struct mt_path_rest rest = mt_eager_rest(r);
        status = mt_path_ring_commit(&ring->out, header, &rest, false);
    } else {
        mt_eager_copy(r, at + header);
        holds = mt_hold_wants(ring, header + payload);
        if (!holds && ring->in.memory != NULL &&
            mt_unlikely(mt_path_ring_owing(&ring->in))) {
            mt_ring_tell_room(ring, MT_FABRIC_MORE);
        }
        status = mt_path_ring_commit(&ring->out, header + payload, NULL, holds);
    }
    if (status == MT_OK && mt_unlikely(straight)) {
        mt_eager_posted(r);
    }
    if (status == MT_OK) {
        mt_ring_sent(ring, &head, header);
        mt_hold_sent(ring, holds && ring->out.held > 0);
        if (mt_unlikely(mt_path_ring_writing(&ring->out))) {
            mt_peer_busy(peer); /* until it has completed */
        }
    }
    return status;
}

enum mt_status mt_ring_send(struct mt_engine_peer *peer,
                            struct mt_engine_request *r)
{
    if (!mt_ring_stores(peer)) {
        return mt_ring_post(peer, r);
    }
    bool stored = mt_ring_store(peer, r->context, r->want_tag, &r->buffer);
    return stored ? MT_OK : MT_EAGAIN;
}

static enum mt_status mt_take_written(struct mt_engine_ring *ring)
{
    const void *at;
    uint32_t bytes;
    enum mt_status status = mt_path_ring_peek(&ring->in, &at, &bytes);
    if (status == MT_OK) {
        status = mt_arrive_ring(ring->peer, at, bytes);
    }
    if (status == MT_OK) {
        mt_path_ring_drop(&ring->in, bytes);
    }
    return status;
}

void mt_ring_early(struct mt_engine_ring *ring,
                   const struct mt_credits_message *message)
{
    uint32_t room = ring->peer->credits.o.window;
    ring->early[(ring->early_first + ring->early_count) % room] = *message;
    mt_engine_add(&ring->early_count, 1);
}

static enum mt_status mt_take_early(struct mt_engine_ring *ring)
{
    struct mt_engine_peer *peer = ring->peer;
    struct mt_credits_message m = ring->early[ring->early_first];
    struct mt_wire head;
    memcpy(&head, m.bytes, sizeof(head));
    if (head.sequence != peer->arrived + 1) {
        return MT_EAGAIN;
    }
    ring->early_first = (ring->early_first + 1) % peer->credits.o.window;
    mt_engine_add(&ring->early_count, -1);
    return mt_mail_arrive(peer, &m);
}

bool mt_ring_take(struct mt_engine_ring *ring, bool awaited)
{
    struct mt_engine_peer *peer = ring->peer;
    struct mt_engine *engine = peer->engine;
    bool moved = false;
    for (unsigned n = 0; n < MT_RING_AT_ONCE && !peer->ended; n++) {
        enum mt_status status = mt_take_written(ring);
        if (status == MT_EAGAIN && mt_unlikely(ring->early_count > 0)) {
            status = mt_take_early(ring);
        }
        if (status == MT_EAGAIN) {
            break;
        }
        if (status != MT_OK) {
            mt_peer_end(peer);
            break;
        }
        moved = true;
        if (awaited && engine->posted == 0) {
            break;
        }
    }
    if (mt_unlikely(mt_path_ring_owing(&ring->in)) && !peer->ended) {
        if (ring->in.word != NULL || mt_path_ring_late(&ring->in)) {
            mt_ring_tell_room(ring, 0);
        } else {
            engine->rings_owe = true; /* until the next message, or idle turn */
        }
    }
    return moved;
}
