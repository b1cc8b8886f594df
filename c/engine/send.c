/* send.c: sends, and whatever else leaves for a peer. Each peer has a queue of
 * requests that something is to be sent for; it goes in order as far as there
 * are credits, and gives each message its number. */
#include "rings.h"

#include <string.h>

/* ---- one message ---- */

/* The next message of a request, as its state says. */
static void mt_leave_head(const struct mt_engine_request *r,
                          struct mt_wire *head, struct mt_wire_rest *rest)
{
    const struct mt_engine_transfer *t = r->transfer;
    if (r->state == MT_REQUEST_EAGER || r->state == MT_REQUEST_RTS) {
        head->context = r->context->id;
        head->source = r->context->rank;
        head->tag = r->want_tag;
    }
    switch (r->state) {
    case MT_REQUEST_EAGER:
        head->kind = MT_WIRE_EAGER;
        if (r->mode == MT_ENGINE_SYNCHRONOUS) {
            head->flags = MT_WIRE_SYNCHRONOUS;
            rest->number = t->number;
        }
        break;
    case MT_REQUEST_RTS:
        head->kind = MT_WIRE_RTS;
        head->flags = t->way;
        head->rkey = t->way == 0 ? t->mr->rkey : 0;
        rest->number = t->number;
        rest->bytes = t->bytes;
        rest->address = t->way == 0 ? (uintptr_t)t->mr->address : 0;
        break;
    case MT_REQUEST_DONE:
        head->kind = MT_WIRE_DONE;
        rest->number = r->number;
        break;
    case MT_REQUEST_WRONG:
        head->kind = MT_WIRE_WRONG;
        rest->number = r->number;
        rest->answer = r->wrong;
        break;
    case MT_REQUEST_PULL:
        head->kind = MT_WIRE_PULL;
        rest->number = t->remote_number;
        rest->answer = t->number;
        rest->bytes = t->bytes;
        break;
    case MT_REQUEST_CTS:
        head->kind = MT_WIRE_CTS;
        head->rkey = t->mr->rkey;
        rest->number = t->remote_number;
        rest->answer = t->number;
        rest->bytes = t->bytes;
        rest->address = (uintptr_t)t->mr->address;
        break;
    case MT_REQUEST_FIN:
        head->kind = MT_WIRE_FIN;
        rest->number = t->remote_number;
        break;
    case MT_REQUEST_FILLED:
        head->kind = MT_WIRE_FILLED;
        rest->number = t->remote_number;
        rest->bytes = t->bytes;
        break;
    default:
        head->kind = MT_WIRE_FRAGMENT;
        rest->number = t->remote_number;
        break;
    }
}

/* How much payload goes with it, and from where in the buffer. */
static uint64_t mt_leave_payload(const struct mt_engine_peer *peer,
                                 const struct mt_engine_request *r,
                                 uint64_t *from_p)
{
    *from_p = 0;
    if (r->state == MT_REQUEST_EAGER) {
        return r->buffer.bytes;
    }
    if (r->state != MT_REQUEST_FRAGMENTS) {
        return 0;
    }
    const struct mt_engine_transfer *t = r->transfer;
    uint64_t left = t->bytes - t->moved;
    uint64_t most = peer->engine->message_bytes - sizeof(struct mt_wire) -
                    sizeof(struct mt_wire_rest);
    *from_p = t->moved;
    return left < most ? left : most;
}

/* The peer has to give credits back before there are none. */
static bool mt_leave_credits_low(const struct mt_engine_peer *peer)
{
    return !peer->datagrams &&
           peer->credits.available <= peer->credits.o.peer_window / 2;
}

/* By SEND, for a credit, or by datagrams. */
static enum mt_status mt_leave_mail(struct mt_engine_peer *peer,
                                    struct mt_engine_request *r,
                                    uint64_t *payload_p)
{
    void *place;
    uint64_t from;
    enum mt_status status = mt_channel_reserve(peer, &place);
    if (status != MT_OK) {
        return status;
    }
    struct mt_wire *head = place;
    struct mt_wire_rest rest = {0};
    *head = (struct mt_wire){.sequence = (uint32_t)(peer->sent + 1)};
    mt_leave_head(r, head, &rest);
    char *at = (char *)place + sizeof(*head);
    if (mt_wire_long(head->kind, head->flags)) {
        memcpy(at, &rest, sizeof(rest));
        at += sizeof(rest);
    }
    uint64_t payload = mt_leave_payload(peer, r, &from);
    bool straight = mt_eager_straight(r);
    struct mt_path_rest more;
    if (mt_unlikely(straight)) {
        more = mt_eager_rest(r);
    } else if (r->state == MT_REQUEST_EAGER) {
        mt_eager_copy(r, at);
        at += payload;
    } else {
        mt_layout_pack(&r->buffer, from, at, payload,
                       r->transfer != NULL ? &r->transfer->place : NULL);
        at += payload;
    }
    /* whose thread waits has to do something for it */
    bool asks = head->kind == MT_WIRE_RTS || head->kind == MT_WIRE_PULL ||
                head->kind == MT_WIRE_CTS ||
                (head->flags & MT_WIRE_SYNCHRONOUS) != 0 ||
                mt_leave_credits_low(peer);
    uint32_t flags = asks ? MT_FABRIC_SOLICITED : 0;
    status = mt_channel_commit(peer, (uint32_t)(at - (char *)place), flags,
                               straight ? &more : NULL);
    if (status == MT_OK && mt_unlikely(straight)) {
        mt_eager_posted(r);
    }
    if (status == MT_OK) {
        peer->sent++;
        mt_peer_busy(peer); /* until it has completed */
    }
    *payload_p = payload;
    return status;
}

enum mt_status mt_leave_note(struct mt_engine_peer *peer,
                             const struct mt_wire *head,
                             const struct mt_wire_rest *rest,
                             const void *payload, uint32_t payload_bytes)
{
    void *place;
    if (!mt_ring_flush(peer) || peer->ended) {
        return MT_EAGAIN;
    }
    enum mt_status status = mt_channel_reserve(peer, &place);
    if (status != MT_OK) {
        return status;
    }
    struct mt_wire *to = place;
    *to = *head;
    to->sequence = (uint32_t)(peer->sent + 1);
    memcpy(to + 1, rest, sizeof(*rest));
    if (payload_bytes > 0) {
        memcpy((char *)place + MT_WIRE_LONG_BYTES, payload, payload_bytes);
    }
    bool asks = head->kind == MT_WIRE_REVOKE ||
                head->kind == MT_WIRE_CONNECT || mt_leave_credits_low(peer);
    status = mt_channel_commit(peer, MT_WIRE_LONG_BYTES + payload_bytes,
                               asks ? MT_FABRIC_SOLICITED : 0, NULL);
    if (status == MT_OK) {
        peer->sent++;
        mt_peer_busy(peer);
    }
    return status;
}

static enum mt_status mt_leave_post(struct mt_engine_peer *peer,
                                    struct mt_engine_request *r,
                                    uint64_t *payload_p)
{
    enum mt_status status = MT_EAGAIN;
    if (peer->ring != NULL && !peer->datagrams &&
        r->state == MT_REQUEST_EAGER && r->mode == MT_ENGINE_STANDARD) {
        *payload_p = r->buffer.bytes;
        status = mt_ring_send(peer, r);
    }
    return status == MT_EAGAIN ? mt_leave_mail(peer, r, payload_p) : status;
}

/* Not before its WRITEs have completed. */
void mt_request_wait(struct mt_engine_request *r, enum mt_status status)
{
    struct mt_engine_transfer *t = r->transfer;
    if (t == NULL || t->writing == 0) {
        mt_request_end(r, status);
        return;
    }
    r->state = MT_REQUEST_WRITE;
    t->failed = t->failed || status != MT_OK;
}

/* Whether its message is one that receives match. */
static bool mt_leave_names(const struct mt_engine_request *r)
{
    return r->state == MT_REQUEST_EAGER || r->state == MT_REQUEST_RTS ||
           r->state == MT_REQUEST_FILLED;
}

/* What becomes of a request when its message has left. */
static void mt_leave_went(struct mt_engine_request *r, uint64_t payload)
{
    struct mt_engine_counts *counts = &r->context->engine->counts;
    struct mt_engine_transfer *t = r->transfer;
    if (mt_unlikely(mt_eager_straight(r))) {
        counts->zero_copy_messages++;
        counts->zero_copy_bytes += payload;
    } else {
        counts->copied_bytes += payload;
    }
    if (mt_unlikely(r->peer->rtr != NULL) && mt_leave_names(r)) {
        mt_rtr_left(r->peer, r->context->id, r->want_tag);
    }
    switch (r->state) {
    case MT_REQUEST_EAGER:
        counts->eager_messages++;
        counts->eager_bytes += payload;
        if (r->mode == MT_ENGINE_SYNCHRONOUS) {
            r->state = MT_REQUEST_ANSWER;
        } else {
            mt_request_wait(r, MT_OK);
        }
        break;
    case MT_REQUEST_RTS:
        counts->rendezvous_messages++;
        counts->rendezvous_bytes += t->bytes;
        mt_transfer_count(t, 1);
        r->state = MT_REQUEST_ANSWER;
        break;
    case MT_REQUEST_DONE:
    case MT_REQUEST_WRONG:
        mt_request_end(r, r->status);
        break;
    case MT_REQUEST_PULL:
    case MT_REQUEST_CTS:
        r->state = MT_REQUEST_COLLECT;
        break;
    case MT_REQUEST_FILLED:
        counts->rendezvous_messages++;
        counts->rendezvous_bytes += t->bytes;
        mt_transfer_count(t, 1);
        mt_request_wait(r, MT_OK);
        break;
    case MT_REQUEST_FIN:
        mt_request_wait(r, MT_OK);
        break;
    default:
        t->moved += payload;
        if (t->moved == t->bytes) {
            mt_request_end(r, MT_OK);
        }
        break;
    }
}

/* ---- the queue ---- */

static void mt_leave_add(struct mt_engine_peer *peer,
                         struct mt_engine_request *r)
{
    r->next = NULL;
    r->link = peer->leaving_tail;
    *peer->leaving_tail = r;
    peer->leaving_tail = &r->next;
    mt_peer_busy(peer);
}

void mt_leave_remove(struct mt_engine_request *r)
{
    *r->link = r->next;
    if (r->next != NULL) {
        r->next->link = r->link;
    } else {
        r->peer->leaving_tail = r->link;
    }
}

/* The first of the queue. False: not now. */
static bool mt_leave_one(struct mt_engine_peer *peer)
{
    struct mt_engine_request *r = peer->leaving;
    uint64_t payload = 0;
    if (mt_unlikely(peer->rtr != NULL) && r->state == MT_REQUEST_RTS &&
        r->check == MT_CHECK_NONE && mt_peer_connected(peer) &&
        !mt_verify_shuns(peer, MT_ENGINE_WRITTEN)) {
        mt_rtr_take(r);
    }
    bool writes = r->state == MT_REQUEST_PUT;
    bool checks = mt_unlikely(r->check == MT_CHECK_DUE ||
                              r->check == MT_CHECK_SUMMED);
    enum mt_status status = checks   ? mt_verify_announce(r)
                            : writes ? mt_transfer_put(r->transfer)
                                     : mt_leave_post(peer, r, &payload);
    if (status == MT_EAGAIN) {
        return false;
    }
    if (status != MT_OK) {
        mt_peer_end(peer); /* and with it all that wants to leave */
        return true;
    }
    if (checks) {
        return true; /* and then the message */
    }
    if (writes) { /* on a queue pair what comes behind does not overtake it */
        if (r->transfer->moved == r->transfer->bytes) {
            r->state = r->transfer->offered ? MT_REQUEST_FILLED
                                            : MT_REQUEST_FIN;
        }
        return true;
    }
    mt_leave_remove(r);
    bool fragments = r->state == MT_REQUEST_FRAGMENTS;
    bool last = fragments && r->transfer->moved + payload == r->transfer->bytes;
    mt_leave_went(r, payload);
    if (fragments && !last) {
        mt_leave_add(peer, r); /* others have their turn */
    }
    return true;
}

bool mt_leave_flush(struct mt_engine_peer *peer)
{
    do {
        if (!mt_ring_flush(peer)) {
            return false;
        }
        if (peer->leaving == NULL) {
            return true;
        }
    } while (mt_leave_one(peer));
    return false;
}

/* The only one that leaves, and at once. */
static bool mt_leave_now(struct mt_engine_peer *peer,
                         struct mt_engine_request *r)
{
    uint64_t payload;
    if (peer->leaving != NULL || r->state != MT_REQUEST_EAGER ||
        mt_unlikely(r->check != MT_CHECK_NONE) ||
        !mt_ring_flush(peer) || peer->ended ||
        mt_leave_post(peer, r, &payload) != MT_OK) {
        return false;
    }
    mt_leave_went(r, payload);
    return true;
}

void mt_leave(struct mt_engine_peer *peer, struct mt_engine_request *r)
{
    if (mt_likely(mt_leave_now(peer, r))) {
        return;
    }
    bool first = peer->leaving == NULL;
    if (mt_unlikely(peer->ended)) {
        mt_request_end(r, mt_leave_thanks(r) ? r->status : MT_EPEER);
        return;
    }
    mt_leave_add(peer, r);
    if (!first || !mt_leave_flush(peer)) {
        peer->engine->counts.credit_stalls++;
        mt_thread_note(peer->engine);
    }
}

/* ---- sends ---- */

/* To this process: into the buffer of a receive, or kept. */
static enum mt_status mt_send_self(struct mt_engine_request *r, bool eager)
{
    struct mt_engine_context *context = r->context;
    struct mt_engine *engine = context->engine;
    struct mt_wire head = {.kind = eager ? MT_WIRE_EAGER : MT_WIRE_RTS,
                           .source = context->rank,
                           .tag = r->want_tag};
    struct mt_wire_rest rest = {.bytes = r->buffer.bytes};
    uint64_t *messages = eager ? &engine->counts.eager_messages
                               : &engine->counts.rendezvous_messages;
    uint64_t *bytes = eager ? &engine->counts.eager_bytes
                            : &engine->counts.rendezvous_bytes;
    struct mt_engine_request *receive =
        mt_match_arrival(context, context->rank, r->want_tag);
    if (receive != NULL) {
        mt_receive_self(receive, &head, r);
    } else {
        /* a synchronous one, or a long one, waits where it is */
        bool copied = eager && r->mode != MT_ENGINE_SYNCHRONOUS;
        struct mt_engine_message *m = mt_message_new(
            context, NULL, &head, &rest, copied ? r->buffer.bytes : 0);
        if (m == NULL) {
            return MT_ENOMEM;
        }
        if (copied) {
            mt_layout_pack(&r->buffer, 0, m->payload, r->buffer.bytes, NULL);
            engine->counts.copied_bytes += r->buffer.bytes;
            mt_request_end(r, MT_OK);
        } else {
            m->parked = r;
            r->parked = m;
            r->state = MT_REQUEST_PARKED;
        }
    }
    (*messages)++;
    *bytes += rest.bytes;
    return MT_OK;
}

static enum mt_status mt_send_peer(struct mt_engine_request *r, bool eager)
{
    if (mt_unlikely(r->context->engine->o.verify_every > 0)) {
        mt_verify_sample(r);
        eager = eager && (r->buffer.bytes == 0 ||
                          !mt_verify_shuns(r->peer, MT_ENGINE_EAGER));
    }
    if (eager && mt_unlikely(r->context->engine->eager != NULL)) {
        mt_eager_choose(r);
    }
    if (!eager || (r->mode == MT_ENGINE_SYNCHRONOUS && r->transfer == NULL)) {
        struct mt_engine_transfer *t = mt_transfer_new(r);
        if (t == NULL) {
            return MT_ENOMEM;
        }
        if (!eager && !r->peer->ended) {
            mt_transfer_expose(t);
        }
    }
    r->state = eager ? MT_REQUEST_EAGER : MT_REQUEST_RTS;
    mt_leave(r->peer, r);
    return MT_OK;
}

/* The usual short message, stored at once where its receiver reads it: no step of a
 * request is needed for it. False: all of them are. */
static bool mt_send_stored(const struct mt_engine_context *context,
                           struct mt_engine_peer *peer, int32_t tag,
                           enum mt_engine_mode mode,
                           const struct mt_buffer *buffer)
{
    struct mt_engine *engine = context->engine;
    if (mode != MT_ENGINE_STANDARD || !mt_ring_stores(peer) ||
        peer->leaving != NULL || peer->ended || engine->o.verify_every > 0 || !mt_terms_eager(engine, buffer) ||
        !mt_ring_store(peer, context, tag, buffer)) {
        return false;
    }
    if (mt_unlikely(peer->rtr != NULL)) {
        mt_rtr_left(peer, context->id, tag);
    }
    engine->counts.copied_bytes += buffer->bytes;
    engine->counts.eager_messages++;
    engine->counts.eager_bytes += buffer->bytes;
    return true;
}

enum mt_status mt_engine_send(struct mt_engine_context *context,
                              struct mt_engine_request *request, int32_t rank,
                              int32_t tag, enum mt_engine_mode mode,
                              const struct mt_buffer *buffer)
{
    struct mt_engine *engine = context->engine;
    if (rank < 0 || (uint32_t)rank >= context->size || tag < 0 ||
        !mt_buffer_right(buffer)) {
        return MT_EINVAL;
    }
    if (mt_unlikely(engine->forgotten)) {
        return MT_ESTATE;
    }
    bool eager = mt_terms_eager(engine, buffer);
    uint32_t process = context->processes[rank];
    mt_engine_lock(engine);
    if (mt_likely(mt_send_stored(context, &engine->peers[process], tag, mode,
                                 buffer))) {
        mt_engine_unlock(engine);
        request->status = MT_OK;
        request->cancelled = false;
        request->done = 1;
        return MT_OK;
    }
    if (!eager) {
        mt_engine_round(engine); /* before it says how it travels */
    }
    mt_request_begin(context, request, buffer);
    request->want_tag = tag;
    request->mode = mode;
    enum mt_status status;
    if (process == engine->process) {
        status = mt_send_self(request, eager);
    } else {
        request->peer = &engine->peers[process];
        status = mt_send_peer(request, eager);
    }
    if (status != MT_OK) {
        mt_request_forget(request);
    }
    mt_engine_unlock(engine);
    return status;
}

void mt_engine_cancel(struct mt_engine_request *request)
{
    if (mt_engine_done(request)) {
        return; /* its context may be gone */
    }
    struct mt_engine *engine = request->context->engine;
    if (mt_unlikely(engine->forgotten)) {
        return;
    }
    mt_engine_lock(engine);
    bool taken = true;
    switch (request->state) {
    case MT_REQUEST_POSTED:
        taken = request->mark < MT_RTR_ASKED;
        if (taken) {
            mt_posted_remove(request);
        } else {
            mt_rtr_cancel(request);
        }
        break;
    case MT_REQUEST_EAGER:
    case MT_REQUEST_RTS:
        taken = request->check != MT_CHECK_SENT;
        if (taken) {
            mt_leave_remove(request);
        }
        break;
    case MT_REQUEST_PARKED:
        taken = mt_message_cancel(request->parked);
        break;
    default:
        taken = false;
    }
    if (taken) {
        request->cancelled = true;
        mt_request_end(request, MT_OK);
    }
    mt_engine_unlock(engine);
}
