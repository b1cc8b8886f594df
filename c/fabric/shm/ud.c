/* ud.c: datagrams. A sender's ring for a receiver lies in the sender's arena;
 * the receiver finds it in a lane of its own and reads it when it polls. */
#include "shm.h"

#include <stdlib.h>

/* ---- sending ---- */

static bool mt_claim_lane(struct mt_shm_lanes *lanes, struct mt_shm_qp *qp,
                          uint64_t ring)
{
    struct mt_shm_context *context = mt_shm_context_of(qp);
    for (uint32_t i = 0; i < MT_SHM_LANES; i++) {
        struct mt_shm_lane *lane = &lanes->lanes[i];
        uint32_t free_lane = MT_SHM_LANE_FREE;
        if (!__atomic_compare_exchange_n(&lane->state, &free_lane,
                                         MT_SHM_LANE_CLAIMED, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            continue;
        }
        lane->identity = context->arena.root->identity;
        lane->number = qp->soft.base.number;
        lane->ring = ring;
        lane->lanes = mt_shm_offset(&context->arena, qp->lanes);
        __atomic_store_n(&lane->state, MT_SHM_LANE_READY, __ATOMIC_RELEASE);
        uint32_t seen = __atomic_load_n(&lanes->count, __ATOMIC_RELAXED);
        while (seen < i + 1 &&
               !__atomic_compare_exchange_n(&lanes->count, &seen, i + 1, false,
                                            __ATOMIC_RELEASE,
                                            __ATOMIC_RELAXED)) {
        }
        return true;
    }
    return false;
}

static struct mt_shm_out *mt_open_out(struct mt_shm_qp *qp,
                                      const struct mt_shm_ah *ah)
{
    struct mt_shm_context *context = mt_shm_context_of(qp);
    struct mt_shm_lanes *lanes =
        mt_shm_at(ah->peer, ah->offset, sizeof(struct mt_shm_lanes));
    struct mt_shm_out *out = calloc(1, sizeof(*out));
    struct mt_ring *ring =
        mt_shm_arena_take(&context->arena, sizeof(struct mt_ring));
    if (lanes == NULL || out == NULL || ring == NULL ||
        __atomic_load_n(&lanes->closed, __ATOMIC_ACQUIRE) != 0 ||
        !mt_claim_lane(lanes, qp, mt_shm_offset(&context->arena, ring))) {
        if (ring != NULL) {
            mt_shm_arena_give(&context->arena, ring);
        }
        free(out);
        return NULL;
    }
    out->writer.ring = ring;
    out->peer = ah->peer;
    out->peer->users++;
    out->offset = ah->offset;
    out->next = qp->outs;
    qp->outs = out;
    return out;
}

/* The ring to a receiver, made at the first datagram. */
static struct mt_shm_out *mt_out_of(struct mt_shm_qp *qp, struct mt_shm_ah *ah)
{
    struct mt_shm_out *out = qp->outs;
    if (mt_likely(ah->lane_qp == qp->soft.base.number)) {
        return ah->lane;
    }
    while (out != NULL &&
           (out->peer != ah->peer || out->offset != ah->offset)) {
        out = out->next;
    }
    out = out != NULL ? out : mt_open_out(qp, ah);
    if (out != NULL) {
        ah->lane = out;
        ah->lane_qp = qp->soft.base.number;
    }
    return out;
}

/* Complete once the transport has taken it: what finds no room, or nobody
 * there, is lost. */
enum mt_status mt_shm_datagram(struct mt_shm_qp *qp, struct mt_soft_work *w)
{
    struct mt_shm_out *out = mt_out_of(qp, (struct mt_shm_ah *)w->ah);
    struct mt_ring_record *r =
        out != NULL ? mt_ring_reserve(&out->writer, mt_ring_size(w->bytes))
                    : NULL;
    if (r == NULL) {
        return MT_OK;
    }
    bool solicited = (w->flags & MT_FABRIC_SOLICITED) != 0;
    r->kind = MT_SHM_DATAGRAM_KIND;
    r->flags = solicited ? MT_SHM_SOLICIT : 0;
    r->total = w->bytes;
    r->bytes = (uint32_t)w->bytes;
    mt_soft_gather(w->pieces, w->piece_count, 0, r + 1, w->bytes);
    mt_ring_publish(&out->writer, r, mt_ring_size(w->bytes));
    mt_shm_wake(mt_shm_context_of(qp), out->peer, solicited);
    return MT_OK;
}

/* ---- receiving ---- */

enum mt_status mt_shm_lanes_open(struct mt_shm_context *context,
                                 struct mt_shm_qp *qp)
{
    qp->lanes = mt_shm_arena_take(&context->arena, sizeof(*qp->lanes));
    qp->lane_open = calloc(MT_SHM_LANES, sizeof(*qp->lane_open));
    return qp->lanes != NULL && qp->lane_open != NULL ? MT_OK : MT_ENOMEM;
}

void mt_shm_lanes_close(struct mt_shm_context *context, struct mt_shm_qp *qp)
{
    __atomic_store_n(&qp->lanes->closed, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < qp->in_count; i++) {
        mt_shm_peer_put(context, qp->ins[i].peer);
    }
    free(qp->ins);
    free(qp->lane_open);
    while (qp->outs != NULL) {
        struct mt_shm_out *out = qp->outs;
        qp->outs = out->next;
        /* its reader sees that nothing more comes, and keeps off; the memory
         * goes back with the arena */
        __atomic_store_n(&out->writer.ring->gone, 1, __ATOMIC_RELEASE);
        mt_shm_peer_put(context, out->peer);
        free(out);
    }
    qp->ins = NULL;
    qp->in_count = 0;
}

static void mt_open_in(struct mt_shm_qp *qp, uint32_t index)
{
    struct mt_shm_lane lane = qp->lanes->lanes[index];
    struct mt_shm_peer *peer;
    if (qp->in_count == qp->in_limit) {
        uint32_t limit = qp->in_limit > 0 ? 2 * qp->in_limit : 16;
        struct mt_shm_in *more = realloc(qp->ins, limit * sizeof(*more));
        if (more == NULL) {
            return;
        }
        qp->ins = more;
        qp->in_limit = limit;
    }
    if (mt_shm_peer_get(mt_shm_context_of(qp), &lane.identity, &peer) != MT_OK) {
        return;
    }
    struct mt_shm_in *in = &qp->ins[qp->in_count];
    memset(in, 0, sizeof(*in));
    in->reader.ring = mt_shm_at(peer, lane.ring, sizeof(struct mt_ring));
    if (in->reader.ring == NULL || lane.ring % MT_RING_LINE != 0) {
        mt_shm_peer_put(mt_shm_context_of(qp), peer);
        return;
    }
    in->peer = peer;
    in->source.words[0] = (uint64_t)(uint32_t)lane.identity.pid |
                          (uint64_t)(uint32_t)lane.identity.fd << 32;
    in->source.words[1] = lane.identity.pid_start;
    in->source.words[2] = lane.lanes;
    in->source.words[3] = lane.number;
    qp->in_count++;
}

/* Lanes announced since the last look. */
static void mt_look_at_lanes(struct mt_shm_qp *qp)
{
    uint32_t count = __atomic_load_n(&qp->lanes->count, __ATOMIC_ACQUIRE);
    count = count < MT_SHM_LANES ? count : MT_SHM_LANES;
    for (uint32_t i = qp->lanes_seen; i < count; i++) {
        uint32_t state =
            __atomic_load_n(&qp->lanes->lanes[i].state, __ATOMIC_ACQUIRE);
        if (state == MT_SHM_LANE_READY && !qp->lane_open[i]) {
            qp->lane_open[i] = true;
            mt_open_in(qp, i);
        }
    }
    /* one that is claimed and not ready is being filled, or its claimer died */
    while (qp->lanes_seen < count && qp->lane_open[qp->lanes_seen]) {
        qp->lanes_seen++;
    }
}

static bool mt_take_datagram(struct mt_shm_qp *qp, struct mt_shm_in *in)
{
    uint64_t size;
    struct mt_ring_record *r = mt_ring_peek(&in->reader, &size);
    if (r == NULL) {
        return false;
    }
    if (size == 0 || (r->kind != MT_SHM_REST &&
                      (r->kind != MT_SHM_DATAGRAM_KIND ||
                       mt_ring_size(r->bytes) != size))) {
        in->muted = true; /* nonsense: it is not heard any more */
        return false;
    }
    struct mt_soft_receives *receives = qp->soft.receives;
    const struct mt_soft_receive *to = mt_soft_receive_first(receives);
    /* without a receive, or with one too short, a datagram is lost */
    if (r->kind == MT_SHM_DATAGRAM_KIND && to != NULL && r->bytes <= to->bytes) {
        struct mt_fabric_completion c = {.opcode = MT_FABRIC_RECEIVE,
                                         .bytes = r->bytes,
                                         .source = in->source};
        uint64_t id = to->id;
        mt_soft_scatter(to->pieces, to->piece_count, 0, r + 1, r->bytes);
        mt_soft_receive_drop(receives);
        mt_soft_received(&qp->soft, id, &c, (r->flags & MT_SHM_SOLICIT) != 0);
    }
    mt_ring_drop(&in->reader, r, size);
    return true;
}

bool mt_shm_take_datagrams(struct mt_shm_qp *qp)
{
    bool moved = false;
    mt_look_at_lanes(qp);
    for (uint32_t i = 0; i < qp->in_count; i++) {
        struct mt_shm_in *in = &qp->ins[i];
        if (!in->muted) {
            moved = mt_take_datagram(qp, in) || moved;
        }
    }
    return moved;
}
