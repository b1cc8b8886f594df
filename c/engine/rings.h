/* rings.h: what the engine's files call of ring.c. It is a part of inside.h. */
#ifndef MPITRACE_ENGINE_RINGS_H
#define MPITRACE_ENGINE_RINGS_H

#include "inside.h"

/* Whether messages are stored into the ring of a peer, and not posted. */
MT_INLINE bool mt_ring_stores(const struct mt_engine_peer *peer)
{
    const struct mt_engine_ring *ring = peer->ring;
    return ring != NULL && ring->out.shared && !ring->accepts &&
           !peer->datagrams;
}
/* An EAGER message that is not synchronous, there. False: there is no room. */
bool mt_ring_store(struct mt_engine_peer *peer,
                   const struct mt_engine_context *context, int32_t tag,
                   const struct mt_buffer *buffer);
/* The same, by whichever way it goes into a ring. MT_EAGAIN: not by it. */
enum mt_status mt_ring_send(struct mt_engine_peer *peer,
                            struct mt_engine_request *request);
/* What a peer is to be told of rings, and what of a message waits for room.
 * False: not now, and no other message may leave before it. */
bool mt_ring_flush(struct mt_engine_peer *peer);
/* True: the device still has something of it. */
bool mt_ring_busy(struct mt_engine_peer *peer);
/* The peer has sent much: it may write, if it likes. */
void mt_ring_offer(struct mt_engine_peer *peer);
/* Its RING or WORD came. */
enum mt_status mt_ring_offered(struct mt_engine_peer *peer,
                               const struct mt_wire_message *message);
enum mt_status mt_ring_accepted(struct mt_engine_peer *peer,
                                const struct mt_wire_message *message);
/* Messages that lie in the ring, or came early, and are in their turn. awaited: one, and
 * more while receives wait; what comes behind stays where it is until a receive is posted
 * that it goes to straight from there, and its sender has no more room than there is.
 * Else somebody may look for a message by a probe, or wait for what is behind them: many
 * are taken. True: there were some. */
bool mt_ring_take(struct mt_engine_ring *ring, bool awaited);
/* One that mt_arrive_early said may wait. */
void mt_ring_early(struct mt_engine_ring *ring,
                   const struct mt_credits_message *message);
void mt_ring_free(struct mt_engine_peer *peer);

/* Whether it may have a message: may be asked without the lock. */
MT_INLINE bool mt_ring_waits(const struct mt_engine_ring *ring)
{
    return mt_path_ring_waits(&ring->in) ||
           __atomic_load_n(&ring->early_count, __ATOMIC_RELAXED) > 0;
}

/* There are rings, and nothing in them: may be asked without the lock. */
MT_INLINE bool mt_rings_empty(const struct mt_engine *engine)
{
    /* pairs with mt_ring_offer */
    uint32_t count = __atomic_load_n(&engine->ring_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++) {
        if (mt_ring_waits(engine->rings[i])) {
            return false;
        }
    }
    return count > 0;
}

/* The messages of all rings. awaited: receives waited when the turn began, and it ends with
 * the last of these; the next one begins with the next ring, so that none is passed over
 * for ever. */
MT_INLINE bool mt_rings_poll(struct mt_engine *engine, bool awaited)
{
    uint32_t count = engine->ring_count, at = engine->ring_first;
    bool moved = false, ends = false;
    for (uint32_t n = 0; n < count && !ends; n++) {
        struct mt_engine_ring *ring = engine->rings[at];
        at = at + 1 < count ? at + 1 : 0;
        if (mt_ring_waits(ring)) {
            moved = mt_ring_take(ring, awaited) || moved;
            ends = awaited && engine->posted == 0;
        }
    }
    engine->ring_first = at;
    return moved;
}

/* Tells the writers of rings that room was made, behind a turn that moved nothing. */
void mt_rings_tell(struct mt_engine *engine);

#endif
