/* transfer.c: payload that is not copied at once: exposed by the sender to be
 * read (Sur and others, PPoPP 2006: RGET), or asked for in fragments where it
 * cannot be; and the numbers by which peers call requests of this process. */
#include "inside.h"

#include <stdlib.h>

/* ---- numbers: a place in the table, and how often one was given out ---- */

static bool mt_transfers_grow(struct mt_engine *engine)
{
    uint32_t room = engine->transfer_room > 0 ? 2 * engine->transfer_room : 64;
    struct mt_engine_transfer **table =
        realloc(engine->transfers, room * sizeof(struct mt_engine_transfer *));
    if (table == NULL || room > UINT32_MAX / 2) {
        return false;
    }
    engine->transfers = table;
    engine->transfer_room = room;
    return true;
}

struct mt_engine_transfer *mt_transfer_new(struct mt_engine_request *request)
{
    struct mt_engine *engine = request->context->engine;
    struct mt_engine_transfer *t = engine->transfers_free;
    if (t == NULL) {
        if (engine->transfer_count == engine->transfer_room &&
            !mt_transfers_grow(engine)) {
            return NULL;
        }
        t = calloc(1, sizeof(*t));
        if (t == NULL) {
            return NULL;
        }
        t->number = engine->transfer_count;
        engine->transfers[engine->transfer_count++] = t;
    } else {
        engine->transfers_free = t->next;
    }
    /* its place stays, and the number is a new one */
    *t = (struct mt_engine_transfer){
        .request = request,
        .number = (uint32_t)t->number |
                  (uint64_t)++engine->transfer_turn << 32};
    request->transfer = t;
    return t;
}

/* Gives back what mt_transfer_register took. */
static void mt_transfer_release(struct mt_engine_transfer *t)
{
    mt_transfer_unregister(t);
    free(t->packed);
    t->packed = NULL;
}

void mt_transfer_free(struct mt_engine_transfer *t)
{
    struct mt_engine *engine = t->request->context->engine;
    mt_transfer_release(t);
    t->request->transfer = NULL;
    t->request = NULL;
    t->next = engine->transfers_free;
    engine->transfers_free = t;
}

struct mt_engine_transfer *mt_transfer_find(struct mt_engine_peer *peer,
                                            uint64_t number)
{
    const struct mt_engine *engine = peer->engine;
    uint32_t place = (uint32_t)number;
    if (place >= engine->transfer_count) {
        return NULL;
    }
    struct mt_engine_transfer *t = engine->transfers[place];
    return t->request != NULL && t->number == number &&
                   t->request->peer == peer
               ? t
               : NULL;
}

void mt_transfers_free(struct mt_engine *engine)
{
    for (uint32_t i = 0; i < engine->transfer_count; i++) {
        free(engine->transfers[i]);
    }
    free(engine->transfers);
}

/* ---- payload ---- */

enum mt_status mt_transfer_register(struct mt_engine_transfer *t,
                                    uint32_t access)
{
    const struct mt_buffer *b = &t->request->buffer;
    struct mt_engine *engine = t->request->context->engine;
    void *address = b->address;
    if (mt_contiguous(b) && mt_transfer_borrow(t, t->bytes)) {
        return MT_OK;
    }
    if (!mt_contiguous(b)) {
        t->packed = malloc(t->bytes);
        if (t->packed == NULL) {
            return MT_ENOMEM;
        }
        address = t->packed;
    }
    enum mt_status status = mt_fabric_mr_register(engine->pd, address, t->bytes,
                                                  access, &t->mr);
    engine->counts.registrations++;
    if (status != MT_OK) {
        engine->counts.registrations_refused++;
        t->mr = NULL;
        free(t->packed);
        t->packed = NULL;
    }
    return status;
}

/* Whether the policy, or what was found out, has it written rather than read. Where
 * a WRITE is done before the peer has the data, and a READ never is, there is nothing to
 * find out of a sender that waits. */
static bool mt_transfer_choose(struct mt_engine_transfer *t)
{
    struct mt_engine *engine = t->request->context->engine;
    const struct mt_engine_terms *terms = mt_terms(engine, &t->request->buffer);
    if (!terms->try_written || !engine->reads || !engine->writes) {
        return terms->rendezvous == MT_ENGINE_RPUT;
    }
    if (t->request->buffer.blocks &&
        engine->rails.rails[0].caps->writes_end_early) {
        return true;
    }
    return mt_request_choose(t->request, MT_ENGINE_TRIED_WRITING);
}

void mt_transfer_expose(struct mt_engine_transfer *t)
{
    struct mt_engine *engine = t->request->context->engine;
    struct mt_engine_peer *peer = t->request->peer;
    t->bytes = t->request->buffer.bytes;
    t->way = MT_WIRE_NO_READ;
    bool direct = mt_peer_connected(peer);
    bool reads =
        direct && engine->reads && !mt_verify_shuns(peer, MT_ENGINE_READ);
    bool writes =
        direct && engine->writes && !mt_verify_shuns(peer, MT_ENGINE_WRITTEN);
    bool puts = writes && (!reads || mt_transfer_choose(t));
    if ((!puts && !reads) ||
        mt_transfer_register(t, puts ? 0 : MT_FABRIC_REMOTE_READ) != MT_OK) {
        t->request->spoilt = true;
        return;
    }
    t->way = puts ? MT_WIRE_PUT : 0;
    if (t->packed != NULL) {
        mt_layout_pack(&t->request->buffer, 0, t->packed, t->bytes, NULL);
        engine->counts.copied_bytes += t->bytes;
        engine->counts.packed_bytes += t->bytes;
    }
}

/* Nothing more is needed of the sender. */
static void mt_transfer_got(struct mt_engine_transfer *t)
{
    struct mt_engine_request *request = t->request;
    uint64_t number = t->remote_number;
    mt_transfer_free(t);
    mt_receive_thank(request, number);
}

/* The next part, of what a work request can carry. */
static struct mt_fabric_piece
mt_transfer_piece(const struct mt_engine_transfer *t)
{
    uint64_t left = t->bytes - t->moved;
    uint64_t most = t->request->context->engine->max_work;
    return (struct mt_fabric_piece){
        .address = (char *)t->mr->address + t->moved,
        .bytes = (uint32_t)(left < most ? left : most),
        .lkey = t->mr->lkey};
}

/* The next READ of it. */
static void mt_transfer_post(struct mt_engine_transfer *t)
{
    struct mt_engine_request *request = t->request;
    struct mt_engine_peer *peer = request->peer;
    t->read = (struct mt_read){
        .piece = mt_transfer_piece(t),
        .remote_address = t->remote_address + t->moved,
        .rkey = t->remote_key,
        .user = t};
    request->state = MT_REQUEST_READ;
    if (mt_reads_post(&peer->reads, &t->read) == MT_OK) {
        peer->engine->moved_much |= t->read.piece.bytes >= MT_MUCH;
        mt_peer_busy(peer);
        mt_thread_note(peer->engine);
    } else {
        mt_request_end(request, MT_EPEER);
        mt_peer_end(peer);
    }
}

void mt_transfer_fetch(struct mt_engine_transfer *t)
{
    struct mt_engine_request *request = t->request;
    if (t->bytes == 0) {
        mt_transfer_got(t);
        return;
    }
    uint32_t access =
        MT_FABRIC_LOCAL_WRITE |
        (t->way == MT_WIRE_PUT ? (uint32_t)MT_FABRIC_REMOTE_WRITE : 0);
    bool direct = t->way == MT_WIRE_PUT ? request->peer->engine->writes
                  : t->way == 0         ? request->peer->engine->reads
                                        : false;
    /* one that had asked has registered */
    direct = direct && request->peer->qp != NULL &&
             (t->mr != NULL || mt_transfer_register(t, access) == MT_OK);
    if (!direct) {
        mt_transfer_release(t);
        request->state = MT_REQUEST_PULL;
        mt_leave(request->peer, request);
    } else if (t->way == MT_WIRE_PUT) {
        request->state = MT_REQUEST_CTS;
        mt_leave(request->peer, request);
    } else {
        mt_transfer_post(t);
    }
}

void mt_transfer_land(struct mt_engine_transfer *t)
{
    struct mt_engine_counts *counts = &t->request->context->engine->counts;
    if (t->packed != NULL) {
        mt_layout_unpack(&t->request->buffer, 0, t->packed, t->bytes, NULL);
        counts->copied_bytes += t->bytes;
        counts->packed_bytes += t->bytes;
    }
}

static void mt_transfer_verify(struct mt_engine_transfer *t,
                               enum mt_engine_way way)
{
    if (mt_unlikely(t->check != 0)) {
        mt_verify_arrived(t->request, way, t->check);
    }
}

void mt_transfer_whole(struct mt_engine_transfer *t, enum mt_engine_way way)
{
    struct mt_engine_request *r = t->request;
    mt_transfer_verify(t, way);
    if (r->wrong == MT_ENGINE_NO_WAY) {
        mt_request_end(r, r->status);
    } else {
        mt_receive_thank(r, 0);
    }
}

void mt_transfer_count(struct mt_engine_transfer *t, int by)
{
    struct mt_engine_counts *c = &t->request->context->engine->counts;
    uint64_t *messages = t->way == 0             ? &c->read_messages
                         : t->way == MT_WIRE_PUT ? &c->written_messages
                                                 : &c->fragment_messages;
    uint64_t *bytes = t->way == 0             ? &c->read_bytes
                      : t->way == MT_WIRE_PUT ? &c->written_bytes
                                              : &c->fragment_bytes;
    *messages += (uint64_t)by;
    *bytes += (uint64_t)by * t->request->buffer.bytes;
}

void mt_transfer_read(struct mt_engine_transfer *t, enum mt_status status)
{
    if (status != MT_OK) {
        mt_request_end(t->request, MT_EPEER);
        return;
    }
    t->moved += t->read.piece.bytes;
    if (t->moved < t->bytes) {
        mt_transfer_post(t);
        return;
    }
    mt_transfer_land(t);
    mt_transfer_verify(t, MT_ENGINE_READ);
    mt_transfer_got(t);
}

/* ---- written by the sender (RPUT) ---- */

enum mt_status mt_transfer_put(struct mt_engine_transfer *t)
{
    struct mt_engine_peer *peer = t->request->peer;
    struct mt_fabric_piece piece = mt_transfer_piece(t);
    struct mt_fabric_send work = {.id = mt_path_id(MT_PATH_USER, (uintptr_t)t),
                                  .opcode = MT_FABRIC_WRITE,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &piece,
                                  .remote_address =
                                      t->remote_address + t->moved,
                                  .rkey = t->remote_key};
    enum mt_status status = mt_fabric_post_send(peer->qp, &work);
    if (status == MT_OK) {
        t->moved += piece.bytes;
        t->writing++;
        peer->engine->moved_much |= piece.bytes >= MT_MUCH;
        peer->writing++;
        mt_peer_busy(peer);
        mt_thread_note(peer->engine);
    }
    return status;
}

void mt_transfer_written(struct mt_engine_transfer *t, enum mt_status status)
{
    struct mt_engine_request *request = t->request;
    request->peer->writing--;
    t->writing--;
    t->failed = t->failed || status != MT_OK;
    if (t->writing == 0 && request->state == MT_REQUEST_WRITE) {
        mt_request_end(request, t->failed ? MT_EPEER : MT_OK);
    }
}
