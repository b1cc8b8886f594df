/* receive.c: receives, probes, and the messages that they found. */
#include "inside.h"

#include <stdlib.h>

/* ---- requests ---- */

void mt_request_begin(struct mt_engine_context *context,
                      struct mt_engine_request *request,
                      const struct mt_buffer *buffer)
{
    struct mt_engine *engine = context->engine;
    request->status = MT_OK;
    request->source = 0;
    request->tag = 0;
    request->bytes = 0;
    request->cancelled = false;
    request->wrong = MT_ENGINE_NO_WAY;
    request->done = 0;
    __atomic_store_n(&request->timed, 0, __ATOMIC_RELAXED);
    request->awaited_ns = 0;
    request->context = context;
    request->peer = NULL;
    request->transfer = NULL;
    request->parked = NULL;
    request->choice = NULL;
    request->spoilt = false;
    request->buffer = *buffer;
    request->mark = MT_RTR_NONE;
    request->mode = MT_ENGINE_STANDARD;
    request->state = MT_REQUEST_IDLE;
    request->check = MT_CHECK_NONE;
    context->requests++;
    mt_engine_add(&engine->pending, 1);
}

/* Which step of the program it is in, for choice.h: another one when a request that
 * the program was given has ended, or between its sends it has received, between its
 * receives messages have left. */
static uint32_t mt_request_step(const struct mt_engine *engine,
                                enum mt_engine_tried what)
{
    const struct mt_engine_counts *counts = &engine->counts;
    uint32_t ended = engine->o.ended != NULL
                         ? __atomic_load_n(engine->o.ended, __ATOMIC_RELAXED)
                         : 0;
    return ended + (what == MT_ENGINE_TRIED_ASKING
                        ? (uint32_t)(counts->eager_messages +
                                     counts->rendezvous_messages)
                        : engine->receives);
}

/* See choice.h. */
static uint64_t mt_request_kind(const struct mt_engine_request *request)
{
    uint64_t with = request->peer != NULL ? request->peer->process
                                          : (uint32_t)request->want_source;
    return mt_hash((uintptr_t)request->buffer.address) ^
           (with << 32 | (uint32_t)request->want_tag);
}

bool mt_request_choose(struct mt_engine_request *request,
                       enum mt_engine_tried what)
{
    struct mt_engine *engine = request->context->engine;
    struct mt_choice *c =
        mt_choice_get(&engine->choices[what], request->context->id,
                      request->buffer.bytes);
    if (c == NULL) {
        return false;
    }
    uint64_t kind = mt_request_kind(request);
    if (!request->buffer.blocks) {
        kind = mt_choice_kind(c, kind, mt_request_step(engine, what));
    }
    uint32_t before = c->trial.fall_backs;
    bool newcomer = mt_choice_begin(
        c, kind, request->buffer.bytes,
        mt_choice_due(c, kind) ? mt_engine_now_ns() : 0);
    engine->counts.fall_backs += c->trial.fall_backs - before;
    request->choice = c;
    return newcomer;
}

void mt_request_halt(const struct mt_engine_request *request,
                     enum mt_engine_tried what)
{
    struct mt_choice *c =
        mt_choice_get(&request->context->engine->choices[what],
                      request->context->id, request->buffer.bytes);
    if (c != NULL) {
        c->spoilt = true;
    }
}

void mt_request_forget(struct mt_engine_request *request)
{
    struct mt_engine_context *context = request->context;
    if (request->transfer != NULL) {
        mt_transfer_free(request->transfer);
    }
    if (mt_unlikely(request->choice != NULL)) {
        /* one that was cancelled, or failed, says nothing of its way */
        mt_choice_end(request->choice, request->spoilt || request->cancelled ||
                                           request->status != MT_OK);
    }
    mt_engine_add(&context->engine->pending, -1);
    context->requests--;
    if (mt_unlikely(!context->open)) {
        mt_context_put(context);
    }
}

void mt_request_end(struct mt_engine_request *request, enum mt_status status)
{
    request->status = status;
    mt_request_forget(request);
    request->state = MT_REQUEST_IDLE;
    /* pairs with mt_engine_done */
    __atomic_store_n(&request->done, 1, __ATOMIC_RELEASE);
}

/* ---- a receive and its message ---- */

/* What a receive tells of a message of so many bytes. Returns how many fit. */
static uint64_t mt_receive_name(struct mt_engine_request *r,
                                const struct mt_wire *head, uint64_t bytes)
{
    bool fits = bytes <= r->buffer.bytes;
    r->source = (int32_t)head->source;
    r->tag = head->tag;
    r->status = fits ? MT_OK : MT_ETRUNCATED;
    r->bytes = fits ? bytes : r->buffer.bytes;
    return r->bytes;
}

void mt_receive_self(struct mt_engine_request *receive,
                     const struct mt_wire *head,
                     struct mt_engine_request *send)
{
    struct mt_engine_counts *counts = &receive->context->engine->counts;
    uint64_t n = mt_receive_name(receive, head, send->buffer.bytes);
    mt_layout_copy(&receive->buffer, &send->buffer, n);
    counts->copied_bytes += n;
    mt_request_end(send, MT_OK);
    mt_request_end(receive, receive->status);
}

void mt_receive_thank(struct mt_engine_request *r, uint64_t number)
{
    r->number = number;
    r->state = r->wrong == MT_ENGINE_NO_WAY ? MT_REQUEST_DONE
                                            : MT_REQUEST_WRONG;
    mt_leave(r->peer, r);
}

void mt_receive_begin(struct mt_engine_request *r, struct mt_engine_peer *peer,
                      const struct mt_wire *head,
                      const struct mt_wire_rest *rest, const void *payload)
{
    struct mt_engine *engine = r->context->engine;
    uint64_t n = mt_receive_name(r, head, rest->bytes);
    r->peer = peer;
    if (mt_unlikely(r->mark != MT_RTR_NONE)) {
        mt_rtr_settle(r, head, rest->bytes);
    }
    if (head->kind == MT_WIRE_EAGER) {
        mt_layout_unpack(&r->buffer, 0, payload, n, NULL);
        engine->counts.copied_bytes += n;
        if (mt_unlikely(rest->answer != 0)) {
            mt_verify_arrived(r, MT_ENGINE_EAGER, rest->answer);
        }
        if ((head->flags & MT_WIRE_SYNCHRONOUS) == 0 &&
            r->wrong == MT_ENGINE_NO_WAY) {
            mt_request_end(r, r->status);
            return;
        }
        mt_receive_thank(r, rest->number);
        return;
    }
    struct mt_engine_transfer *t = peer->ended          ? NULL
                                   : r->transfer != NULL ? r->transfer
                                                         : mt_transfer_new(r);
    if (t == NULL) {
        mt_request_end(r, MT_EPEER);
        mt_peer_end(peer); /* its send would wait for ever */
        return;
    }
    t->bytes = n;
    t->remote_number = rest->number;
    t->remote_address = rest->address;
    t->remote_key = head->rkey;
    t->way = head->flags;
    t->check = rest->answer;
    mt_transfer_fetch(t);
}

/* A receive gets a message that waited, which ends with it. */
static void mt_receive_kept(struct mt_engine_request *r,
                            struct mt_engine_message *m)
{
    struct mt_engine *engine = r->context->engine; /* the context may go */
    if (m->parked != NULL) {
        mt_receive_self(r, &m->head, m->parked);
    } else {
        mt_receive_begin(r, m->peer, &m->head, &m->rest, m->payload);
    }
    mt_message_free(engine, m);
}

/* Nobody is left who could send it. */
static bool mt_source_gone(const struct mt_engine_context *context,
                           int32_t source)
{
    const struct mt_engine *engine = context->engine;
    return source == MT_ENGINE_ANY
               ? engine->device_lost && context->size > 1
               : engine->peers[context->processes[source]].ended;
}

enum mt_status mt_engine_receive(struct mt_engine_context *context,
                                 struct mt_engine_request *request,
                                 int32_t source, int32_t tag,
                                 const struct mt_buffer *buffer)
{
    struct mt_engine *engine = context->engine;
    if (!mt_names_right(context, source, tag) || !mt_buffer_right(buffer)) {
        return MT_EINVAL;
    }
    if (mt_unlikely(engine->forgotten)) {
        return MT_ESTATE;
    }
    mt_engine_lock(engine);
    engine->receives++;
    const bool eager = mt_terms_eager(engine, buffer);
    if (!eager) {
        mt_engine_round(engine); /* its message may be here: it is fetched now,
                                  * and not when somebody waits for it */
    }
    mt_request_begin(context, request, buffer);
    request->want_source = source;
    request->want_tag = tag;
    const bool asks = !eager && mt_rtr_wanted(request);
    struct mt_engine_message *m = mt_match_receive(context, source, tag);
    if (m != NULL) {
        mt_message_remove(m);
        mt_receive_kept(request, m);
    } else if (mt_unlikely(mt_source_gone(context, source))) {
        mt_request_end(request, MT_EPEER);
    } else {
        mt_posted_add(context, request);
        if (mt_unlikely(asks)) {
            mt_rtr_ask(request);
        }
    }
    mt_engine_unlock(engine);
    return MT_OK;
}

/* ---- messages that wait ---- */

/* Short ones come and go with each message that finds no receive, and often one thread
 * makes what another one frees: the first ones are kept for the next. */
enum { MT_MESSAGE_SHORT = 512, MT_MESSAGES_KEPT = 256 };

static struct mt_engine_message *mt_message_room(struct mt_engine *engine,
                                                 uint64_t payload)
{
    struct mt_engine_message *m = engine->messages_free;
    bool keep = payload <= MT_MESSAGE_SHORT;
    if (keep && m != NULL) {
        engine->messages_free = m->next;
        return m;
    }
    keep = keep && engine->messages_kept < MT_MESSAGES_KEPT;
    m = malloc(sizeof(*m) + (keep ? MT_MESSAGE_SHORT : payload));
    if (m != NULL) {
        m->kept = keep;
        engine->messages_kept += keep;
    }
    return m;
}

void mt_message_free(struct mt_engine *engine, struct mt_engine_message *m)
{
    if (m->kept) {
        m->next = engine->messages_free;
        engine->messages_free = m;
    } else {
        free(m);
    }
}

void mt_messages_free(struct mt_engine *engine)
{
    while (engine->messages_free != NULL) {
        struct mt_engine_message *m = engine->messages_free;
        engine->messages_free = m->next;
        free(m);
    }
}

struct mt_engine_message *
mt_message_new(struct mt_engine_context *context, struct mt_engine_peer *peer,
               const struct mt_wire *head, const struct mt_wire_rest *rest,
               uint64_t payload)
{
    struct mt_engine_counts *counts = &context->engine->counts;
    struct mt_engine_message *m = mt_message_room(context->engine, payload);
    if (m == NULL) {
        return NULL;
    }
    m->context = context;
    m->peer = peer;
    m->parked = NULL;
    m->taken = false;
    m->head = *head;
    m->rest = *rest;
    mt_message_add(context, m);
    counts->unexpected_messages++;
    counts->unexpected_bytes += rest->bytes;
    return m;
}

bool mt_message_cancel(struct mt_engine_message *m)
{
    if (m->taken) {
        return false; /* a probe matched it */
    }
    mt_message_remove(m);
    mt_message_free(m->context->engine, m);
    return true;
}

enum mt_status mt_engine_probe(struct mt_engine_context *context,
                               int32_t source, int32_t tag,
                               struct mt_engine_envelope *envelope_p,
                               struct mt_engine_message **message_p)
{
    struct mt_engine *engine = context->engine;
    if (!mt_names_right(context, source, tag)) {
        return MT_EINVAL;
    }
    if (mt_unlikely(engine->forgotten)) {
        return MT_ESTATE;
    }
    mt_engine_lock(engine);
    struct mt_engine_message *m = mt_match_receive(context, source, tag);
    if (m != NULL) {
        *envelope_p =
            (struct mt_engine_envelope){.source = (int32_t)m->head.source,
                                        .tag = m->head.tag,
                                        .bytes = m->rest.bytes};
        if (message_p != NULL) {
            mt_message_remove(m);
            m->taken = true;
            context->requests++; /* it needs the context */
            *message_p = m;
        }
    }
    enum mt_status status = m != NULL                         ? MT_OK
                            : mt_source_gone(context, source) ? MT_EPEER
                                                              : MT_EAGAIN;
    mt_engine_unlock(engine);
    return status;
}

enum mt_status mt_engine_receive_message(struct mt_engine_context *context,
                                         struct mt_engine_request *request,
                                         struct mt_engine_message *message,
                                         const struct mt_buffer *buffer)
{
    struct mt_engine *engine = context->engine;
    if (!mt_buffer_right(buffer)) {
        return MT_EINVAL;
    }
    if (mt_unlikely(engine->forgotten)) {
        return MT_ESTATE;
    }
    mt_engine_lock(engine);
    mt_request_begin(context, request, buffer);
    context->requests--; /* the message's */
    mt_receive_kept(request, message);
    mt_engine_unlock(engine);
    return MT_OK;
}

/* ---- messages that nobody receives ---- */

/* A receive without room, of the engine's own. */
struct mt_engine_discard {
    struct mt_engine_discard *next;
    struct mt_engine_request request;
};

static struct mt_engine_message *mt_message_any(const struct mt_engine *engine)
{
    for (unsigned i = 0; i < MT_ENGINE_BUCKETS; i++) {
        const struct mt_engine_context *c = engine->contexts[i];
        for (; c != NULL; c = c->next) {
            if (c->any.messages != NULL) {
                return c->any.messages;
            }
        }
    }
    return NULL;
}

void mt_discards_free(struct mt_engine *engine)
{
    struct mt_engine_discard **place = &engine->discards;
    while (*place != NULL) {
        struct mt_engine_discard *d = *place;
        if (mt_engine_done(&d->request)) {
            *place = d->next;
            free(d);
        } else {
            place = &d->next;
        }
    }
}

bool mt_message_discard(struct mt_engine_message *m)
{
    static const struct mt_buffer none;
    struct mt_engine *engine = m->context->engine;
    struct mt_engine_discard *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return false;
    }
    d->next = engine->discards;
    engine->discards = d;
    engine->nowhere.engine = engine;
    engine->nowhere.open = true;
    engine->discarded += m->head.kind == MT_WIRE_RTS || m->parked != NULL ||
                         (m->head.flags & MT_WIRE_SYNCHRONOUS) != 0;
    /* of no context of the caller's, which could go with its last request */
    mt_request_begin(&engine->nowhere, &d->request, &none);
    mt_message_remove(m);
    mt_receive_kept(&d->request, m);
    return true;
}

uint32_t mt_engine_discard(struct mt_engine *engine)
{
    struct mt_engine_message *m;
    mt_engine_lock(engine);
    mt_discards_free(engine);
    while ((m = mt_message_any(engine)) != NULL && mt_message_discard(m)) {
    }
    uint32_t waited = engine->discarded;
    engine->discarded = 0;
    mt_engine_unlock(engine);
    return waited;
}
