/* arrive.c: what a message from a peer means. Nothing that a peer says is
 * believed before it was looked up. */
#include "rings.h"

#include <string.h>

static enum mt_status mt_arrive_message(struct mt_engine_peer *peer,
                                        struct mt_wire_message *m)
{
    m->rest.answer = peer->check;
    peer->check = 0;
    struct mt_engine_context *context =
        mt_context_get(peer->engine, m->head.context);
    if (context == NULL) {
        return MT_ENOMEM;
    }
    if (mt_likely(context->sources != NULL)) {
        if (!mt_context_has(context, m->head.source, peer->process)) {
            return MT_EPEER;
        }
        struct mt_engine_request *r =
            mt_match_arrival(context, m->head.source, m->head.tag);
        if (r != NULL) {
            mt_receive_begin(r, peer, &m->head, &m->rest, m->payload);
            return MT_OK;
        }
    }
    /* so that its receive can be posted again at once */
    struct mt_engine_message *kept = mt_message_new(
        context, peer, &m->head, &m->rest, m->payload_bytes);
    if (kept == NULL) {
        return MT_ENOMEM;
    }
    if (m->payload_bytes > 0) {
        memcpy(kept->payload, m->payload, m->payload_bytes);
        peer->engine->counts.copied_bytes += m->payload_bytes;
    }
    return MT_OK;
}

/* A send of ours is done. */
static enum mt_status mt_arrive_done(struct mt_engine_transfer *t)
{
    if (t->request->state != MT_REQUEST_ANSWER) {
        return MT_EPEER;
    }
    mt_request_wait(t->request, MT_OK);
    return MT_OK;
}

/* A send of ours is to go in fragments. */
static enum mt_status mt_arrive_pull(struct mt_engine_transfer *t,
                                     const struct mt_wire_rest *rest)
{
    struct mt_engine_request *r = t->request;
    if (r->state != MT_REQUEST_ANSWER || rest->bytes > t->bytes) {
        return MT_EPEER;
    }
    mt_transfer_count(t, -1);
    t->request->spoilt = t->request->spoilt || t->way != MT_WIRE_NO_READ;
    t->way = MT_WIRE_NO_READ;
    mt_transfer_count(t, 1);
    t->bytes = rest->bytes;
    t->remote_number = rest->answer;
    r->state = MT_REQUEST_FRAGMENTS;
    mt_leave(r->peer, r);
    return MT_OK;
}

/* ... or to be written. */
static enum mt_status mt_arrive_cts(struct mt_engine_transfer *t,
                                    const struct mt_wire_message *m)
{
    struct mt_engine_request *r = t->request;
    if (r->state != MT_REQUEST_ANSWER || t->way != MT_WIRE_PUT ||
        m->rest.bytes > t->bytes) {
        return MT_EPEER;
    }
    t->bytes = m->rest.bytes;
    t->remote_number = m->rest.answer;
    t->remote_address = m->rest.address;
    t->remote_key = m->head.rkey;
    r->state = MT_REQUEST_PUT;
    mt_leave(r->peer, r);
    return MT_OK;
}

/* Payload was written. */
static enum mt_status mt_arrive_fin(struct mt_engine_transfer *t)
{
    struct mt_engine_request *r = t->request;
    if (r->state != MT_REQUEST_COLLECT || t->mr == NULL) {
        return MT_EPEER;
    }
    mt_transfer_land(t);
    mt_transfer_whole(t, MT_ENGINE_WRITTEN);
    return MT_OK;
}

static enum mt_status mt_arrive_fragment(struct mt_engine_transfer *t,
                                         const struct mt_wire_message *m)
{
    struct mt_engine_request *r = t->request;
    if (r->state != MT_REQUEST_COLLECT || t->mr != NULL ||
        m->payload_bytes > t->bytes - t->moved) {
        return MT_EPEER;
    }
    mt_layout_unpack(&r->buffer, t->moved, m->payload, m->payload_bytes, &t->place);
    r->context->engine->counts.copied_bytes += m->payload_bytes;
    t->moved += m->payload_bytes;
    if (t->moved == t->bytes) {
        mt_transfer_whole(t, MT_ENGINE_FRAGMENTS);
    }
    return MT_OK;
}

/* The checksum of the next message. */
static enum mt_status mt_arrive_check(struct mt_engine_peer *peer,
                                      const struct mt_wire_rest *rest)
{
    if (peer->check != 0) {
        return MT_EPEER;
    }
    peer->check = MT_WIRE_CHECKED | rest->number;
    return MT_OK;
}

/* A message of ours arrived wrong; the peer may be done with it. */
static enum mt_status mt_arrive_wrong(struct mt_engine_peer *peer,
                                      const struct mt_wire_rest *rest)
{
    if (!mt_verify_shun(peer, rest->answer)) {
        return MT_EPEER;
    }
    if (rest->number == 0) {
        return MT_OK;
    }
    struct mt_engine_transfer *t = mt_transfer_find(peer, rest->number);
    return t != NULL ? mt_arrive_done(t) : MT_EPEER;
}

/* What is for a request of ours that the peer knows by number. */
static enum mt_status mt_arrive_answer(struct mt_engine_peer *peer,
                                       const struct mt_wire_message *m)
{
    struct mt_engine_transfer *t = mt_transfer_find(peer, m->rest.number);
    if (t == NULL) {
        return MT_EPEER;
    }
    switch (m->head.kind) {
    case MT_WIRE_DONE:
        return mt_arrive_done(t);
    case MT_WIRE_PULL:
        return mt_arrive_pull(t, &m->rest);
    case MT_WIRE_FRAGMENT:
        return mt_arrive_fragment(t, m);
    case MT_WIRE_CTS:
        return mt_arrive_cts(t, m);
    case MT_WIRE_FILLED:
        return mt_rtr_filled(t, m->rest.bytes);
    default:
        return mt_arrive_fin(t);
    }
}

/* One sequence counts the messages of a peer, by whichever way they come. What is
 * in a ring may be seen before a SEND that is ahead of it, and then stays there;
 * and a SEND before what is in the ring, but not before it was written there, for
 * both are of one queue pair. So the ring is all the room that is needed to put
 * messages in order. */
enum mt_status mt_arrive_ring(struct mt_engine_peer *peer, const void *bytes,
                              uint32_t count)
{
    struct mt_wire_token token;
    struct mt_wire_message m;
    if (count < sizeof(token)) {
        return MT_EPEER;
    }
    memcpy(&token, bytes, sizeof(token));
    if (token.sequence != peer->arrived + 1) {
        return MT_EAGAIN;
    }
    if (mt_wire_parse_ring(bytes, count, &peer->ring->came, &m) != MT_OK) {
        return MT_EPEER;
    }
    peer->arrived = token.sequence;
    return mt_arrive_message(peer, &m);
}

bool mt_arrive_early(struct mt_engine_peer *peer, const void *bytes,
                     uint32_t count)
{
    struct mt_engine_ring *ring = peer->ring;
    const uint32_t *posted = &peer->engine->posted;
    struct mt_wire head;
    if (ring == NULL || ring->in.memory == NULL || count < sizeof(head)) {
        return false;
    }
    memcpy(&head, bytes, sizeof(head));
    if (head.kind != MT_WIRE_EAGER || head.flags != 0) {
        return false;
    }
    while (head.sequence != peer->arrived + 1 && *posted > 0 &&
           mt_ring_take(ring, true)) {
    }
    return (int32_t)(head.sequence - peer->arrived) > 1 && *posted == 0 &&
           !peer->ended && mt_ring_waits(ring);
}

static enum mt_status mt_arrive_in_turn(struct mt_engine_peer *peer,
                                        struct mt_wire_message *m)
{
    switch (m->head.kind) {
    case MT_WIRE_EAGER:
    case MT_WIRE_RTS:
        return mt_arrive_message(peer, m);
    case MT_WIRE_CHECK:
        return mt_arrive_check(peer, &m->rest);
    case MT_WIRE_WRONG:
        return mt_arrive_wrong(peer, &m->rest);
    case MT_WIRE_RING:
        return mt_ring_offered(peer, m);
    case MT_WIRE_WORD:
        return mt_ring_accepted(peer, m);
    case MT_WIRE_CONNECT:
        return mt_datagrams_first(peer->engine) ? mt_connect_heard(peer, m)
                                                : MT_EPEER;
    case MT_WIRE_RTR:
        return mt_rtr_arrive(peer, m);
    case MT_WIRE_REVOKE:
        return mt_rtr_revoke(peer, m->rest.number);
    case MT_WIRE_REVOKED:
        return mt_rtr_revoked(peer, m->rest.number);
    default:
        return mt_arrive_answer(peer, m);
    }
}

enum mt_status mt_arrive(struct mt_engine_peer *peer, const void *bytes,
                         uint32_t count)
{
    struct mt_wire_message m;
    if (mt_wire_parse(bytes, count, &m) != MT_OK) {
        return MT_EPEER;
    }
    while (m.head.sequence != peer->arrived + 1) {
        if (peer->ring == NULL || peer->ring->in.memory == NULL ||
            !mt_ring_take(peer->ring, peer->engine->posted > 0)) {
            return MT_EPEER;
        }
    }
    peer->arrived++;
    return mt_arrive_in_turn(peer, &m);
}
