/* rtr.c: asking first; the protocol and its rules are in rtr.h. */
#include "inside.h"

#include <stdlib.h>

/* NULL: no memory, which costs nothing but the RTRs. */
static struct mt_rtr *mt_rtr_of(struct mt_engine_peer *peer)
{
    if (mt_unlikely(peer->rtr == NULL)) {
        peer->rtr = calloc(1, sizeof(*peer->rtr));
    }
    return peer->rtr;
}

/* ---- the receiver asks ---- */

static bool mt_rtr_sends(struct mt_engine_peer *peer,
                         struct mt_engine_transfer *t, uint32_t ahead)
{
    const struct mt_engine_request *r = t->request;
    const struct mt_wire head = {.kind = MT_WIRE_RTR,
                                 .context = r->context->id,
                                 .tag = r->want_tag,
                                 .rkey = t->mr->rkey};
    const struct mt_wire_rest rest = {.number = t->number,
                                      .answer = (uint64_t)peer->arrived << 32 |
                                                ahead,
                                      .bytes = t->bytes,
                                      .address = (uintptr_t)t->mr->address};
    return peer->credits.available > peer->credits.o.peer_window / 2 &&
           mt_leave_note(peer, &head, &rest, NULL, 0) == MT_OK;
}

bool mt_rtr_wanted(struct mt_engine_request *r)
{
    struct mt_engine *engine = r->context->engine;
    const struct mt_engine_terms *terms = mt_terms(engine, &r->buffer);
    bool asks = terms->rendezvous == MT_ENGINE_RTR;
    if ((!asks && !terms->try_asking) || !engine->writes ||
        r->want_source == MT_ENGINE_ANY || r->want_tag == MT_ENGINE_ANY ||
        r->context->processes[r->want_source] == engine->process ||
        !mt_peer_connected(
            &engine->peers[r->context->processes[r->want_source]])) {
        return false;
    }
    return asks || mt_request_choose(r, MT_ENGINE_TRIED_ASKING);
}

void mt_rtr_ask(struct mt_engine_request *r)
{
    struct mt_engine *engine = r->context->engine;
    uint32_t ahead;
    struct mt_engine_peer *peer =
        &engine->peers[r->context->processes[r->want_source]];
    struct mt_rtr *rtr = mt_rtr_of(peer);
    if (rtr == NULL) {
        return;
    }
    bool silent = mt_rtr_usage_of(rtr->usages, r->context->id, r->want_tag)
                      ->silent;
    if (!mt_posted_ahead(r, silent, &ahead)) {
        return;
    }
    if (silent) {
        r->mark = MT_RTR_SILENT;
        return;
    }
    struct mt_engine_transfer *t = mt_transfer_new(r);
    if (t == NULL) {
        return;
    }
    t->bytes = r->buffer.bytes;
    r->peer = peer;
    if (mt_transfer_register(t, MT_FABRIC_LOCAL_WRITE |
                                    MT_FABRIC_REMOTE_WRITE) == MT_OK &&
        mt_rtr_sends(peer, t, ahead)) {
        r->mark = MT_RTR_ASKED;
        engine->counts.rtr_sent++;
    } else if (r->transfer == t) { /* else its peer ended, and the receive */
        mt_transfer_free(t);
    }
}

/* The message of a receive is here that asked, or would have. */
static void mt_rtr_judged(struct mt_engine_request *r, enum mt_rtr_fate fate)
{
    struct mt_engine *engine = r->context->engine;
    struct mt_engine_counts *counts = &engine->counts;
    struct mt_rtr *rtr =
        engine->peers[r->context->processes[r->want_source]].rtr;
    if (r->mark != MT_RTR_SILENT) {
        counts->rtr_used += fate == MT_RTR_USED;
        counts->rtr_crossed += fate == MT_RTR_CROSSED;
        counts->rtr_mispredicted += fate == MT_RTR_MISPREDICTED;
        counts->rtr_extra_bytes += fate != MT_RTR_USED ? MT_WIRE_LONG_BYTES : 0;
    } else if (fate == MT_RTR_CROSSED) {
        fate = MT_RTR_USED; /* it would have been */
    }
    switch (mt_rtr_judge(
        mt_rtr_usage_of(rtr->usages, r->context->id, r->want_tag), fate,
        engine->o.rtr_usage, engine->o.rtr_sample)) {
    case MT_RTR_SUSPENDS:
        counts->rtr_suspended++;
        break;
    case MT_RTR_RESUMES:
        counts->rtr_resumed++;
        break;
    default:
        break;
    }
    r->mark = MT_RTR_NONE;
}

void mt_rtr_settle(struct mt_engine_request *r, const struct mt_wire *head,
                   uint64_t bytes)
{
    bool fits = head->kind == MT_WIRE_RTS && bytes <= r->buffer.bytes;
    mt_rtr_judged(r, fits ? MT_RTR_CROSSED : MT_RTR_MISPREDICTED);
    if (!fits && r->transfer != NULL) {
        mt_transfer_free(r->transfer);
    }
}

enum mt_status mt_rtr_filled(struct mt_engine_transfer *t, uint64_t bytes)
{
    struct mt_engine_request *r = t->request;
    if (r->state != MT_REQUEST_POSTED || r->mark < MT_RTR_ASKED ||
        bytes > t->bytes) {
        return MT_EPEER;
    }
    mt_posted_remove(r);
    mt_rtr_judged(r, MT_RTR_USED);
    t->bytes = bytes;
    r->source = r->want_source;
    r->tag = r->want_tag;
    r->bytes = bytes;
    mt_transfer_land(t);
    mt_request_end(r, MT_OK);
    return MT_OK;
}

/* ---- the sender ---- */

static bool mt_rtr_is(const struct mt_rtr_envelope *e, uint32_t context,
                      int32_t tag)
{
    return e->known && e->context == context && e->tag == tag;
}

/* Its place, or one that it may take. */
static struct mt_rtr_envelope *
mt_rtr_envelope_at(struct mt_rtr *rtr, uint32_t context, int32_t tag)
{
    uint32_t home = mt_rtr_home(context, tag);
    for (uint32_t i = 0; i < MT_RTR_NEAR; i++) {
        struct mt_rtr_envelope *e =
            &rtr->envelopes[(home + i) % MT_RTR_ENVELOPES];
        if (!e->known || mt_rtr_is(e, context, tag)) {
            return e;
        }
    }
    return &rtr->envelopes[home % MT_RTR_ENVELOPES];
}

/* Which of the messages to the peer has that sequence, the latest one. */
static uint64_t mt_rtr_seen(const struct mt_engine_peer *peer, uint32_t sequence)
{
    return peer->sent - (uint32_t)((uint32_t)peer->sent - sequence);
}

/* How many messages of an envelope left after that one; UINT32_MAX: it is not
 * known. */
static uint32_t mt_rtr_after(const struct mt_rtr_envelope *e, uint64_t seen)
{
    uint32_t kept = e->overflown ? MT_RTR_LOG : e->left, n = 0;
    while (n < kept && e->log[(e->left - 1 - n) % MT_RTR_LOG] > seen) {
        n++;
    }
    bool all = n < kept || (!e->overflown && e->since <= seen);
    return all ? n : UINT32_MAX;
}

enum mt_status mt_rtr_arrive(struct mt_engine_peer *peer,
                             const struct mt_wire_message *m)
{
    struct mt_rtr *rtr = mt_rtr_of(peer);
    if (rtr == NULL) {
        return MT_OK;
    }
    uint64_t seen = mt_rtr_seen(peer, (uint32_t)(m->rest.answer >> 32));
    uint32_t ahead = (uint32_t)m->rest.answer;
    struct mt_rtr_envelope *e =
        mt_rtr_envelope_at(rtr, m->head.context, m->head.tag);
    if (!mt_rtr_is(e, m->head.context, m->head.tag)) {
        e->known = true;
        e->context = m->head.context;
        e->tag = m->head.tag;
        e->since = peer->sent;
        e->left = e->first = e->last = 0;
        e->overflown = false;
    }
    uint32_t after = mt_rtr_after(e, seen);
    uint32_t turn = e->left + (ahead - after);
    const struct mt_rtr_offer *last =
        &e->offers[(e->last - 1) % MT_RTR_OFFERS];
    if (after > ahead || /* its message is on its way, or may be */
        e->last - e->first == MT_RTR_OFFERS ||
        (e->last != e->first && (int32_t)(turn - last->turn) <= 0)) {
        return MT_OK;
    }
    e->offers[e->last++ % MT_RTR_OFFERS] =
        (struct mt_rtr_offer){.number = m->rest.number,
                              .address = m->rest.address,
                              .bytes = m->rest.bytes,
                              .rkey = m->head.rkey,
                              .turn = turn};
    return MT_OK;
}

void mt_rtr_take(struct mt_engine_request *r)
{
    struct mt_engine_transfer *t = r->transfer;
    uint32_t context = r->context->id;
    struct mt_rtr_envelope *e =
        mt_rtr_envelope_at(r->peer->rtr, context, r->want_tag);
    if (!mt_rtr_is(e, context, r->want_tag) || e->first == e->last) {
        return;
    }
    const struct mt_rtr_offer *o = &e->offers[e->first % MT_RTR_OFFERS];
    if (o->turn != e->left || o->bytes < t->bytes || t->mr == NULL) {
        return;
    }
    t->remote_number = o->number;
    t->remote_address = o->address;
    t->remote_key = o->rkey;
    t->offered = r->spoilt = true;
    t->way = MT_WIRE_PUT;
    r->state = MT_REQUEST_PUT;
}

void mt_rtr_left(struct mt_engine_peer *peer, uint32_t context, int32_t tag)
{
    struct mt_rtr_envelope *e = mt_rtr_envelope_at(peer->rtr, context, tag);
    if (!mt_rtr_is(e, context, tag)) {
        return;
    }
    if (e->first != e->last &&
        e->offers[e->first % MT_RTR_OFFERS].turn == e->left) {
        e->first++;
    }
    e->overflown = e->overflown || e->left == MT_RTR_LOG;
    e->log[e->left++ % MT_RTR_LOG] = peer->sent;
}

/* ---- taking back ---- */

void mt_rtr_cancel(struct mt_engine_request *r)
{
    struct mt_engine_peer *peer = r->peer;
    if (r->mark == MT_RTR_ASKED) {
        r->mark = MT_RTR_REVOKED;
        r->transfer->remote_number = ++peer->rtr->revokes;
        mt_peer_busy(peer);
        if (!mt_rtr_flush(peer)) {
            mt_thread_note(peer->engine);
        }
    }
}

enum mt_status mt_rtr_revoke(struct mt_engine_peer *peer, uint64_t number)
{
    struct mt_rtr *rtr = mt_rtr_of(peer);
    if (rtr == NULL) {
        return MT_ENOMEM; /* somebody waits for the answer */
    }
    for (uint32_t i = 0; i < MT_RTR_ENVELOPES; i++) {
        rtr->envelopes[i].first = rtr->envelopes[i].last;
    }
    rtr->revoked = (uint32_t)number;
    mt_peer_busy(peer); /* it is answered behind what is leaving */
    mt_thread_note(peer->engine);
    return MT_OK;
}

enum mt_status mt_rtr_revoked(struct mt_engine_peer *peer, uint64_t number)
{
    struct mt_engine *engine = peer->engine;
    if (peer->rtr == NULL || number > peer->rtr->revokes_sent) {
        return MT_EPEER;
    }
    for (uint32_t i = 0; i < engine->transfer_count; i++) {
        struct mt_engine_transfer *t = engine->transfers[i];
        struct mt_engine_request *r = t->request;
        if (r != NULL && r->peer == peer && r->mark == MT_RTR_REVOKED &&
            t->remote_number <= number) {
            mt_posted_remove(r);
            engine->counts.rtr_revoked++;
            engine->counts.rtr_extra_bytes += MT_WIRE_LONG_BYTES;
            r->cancelled = true;
            mt_request_end(r, MT_OK);
        }
    }
    return MT_OK;
}

static bool mt_rtr_note(struct mt_engine_peer *peer, enum mt_wire_kind kind,
                        uint32_t number, uint32_t *done)
{
    const struct mt_wire head = {.kind = (uint8_t)kind};
    const struct mt_wire_rest rest = {.number = number};
    if (number == *done) {
        return true;
    }
    if (peer->leaving != NULL || mt_leave_note(peer, &head, &rest, NULL, 0) != MT_OK) {
        return false;
    }
    peer->engine->counts.rtr_extra_bytes += MT_WIRE_LONG_BYTES;
    *done = number;
    return true;
}

bool mt_rtr_flush(struct mt_engine_peer *peer)
{
    struct mt_rtr *rtr = peer->rtr;
    return mt_rtr_note(peer, MT_WIRE_REVOKE, rtr->revokes,
                       &rtr->revokes_sent) &&
           mt_rtr_note(peer, MT_WIRE_REVOKED, rtr->revoked,
                       &rtr->revoked_answered);
}
