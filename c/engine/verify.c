/* verify.c: whether messages arrive as they were sent. One in so many sends has a
 * checksum of its payload, taken where it lies in the sender's memory; it leaves
 * right before the message (CHECK). The receiver takes that of its own memory when
 * all has come there, and tells the sender if they differ (WRONG), which then
 * takes that way to this peer no more, unless it was fragments, the way of what has
 * no other. Messages to the process itself, empty ones, and those that were cut off
 * have no checksum. */
#include "inside.h"

void mt_verify_sample(struct mt_engine_request *r)
{
    struct mt_engine *engine = r->context->engine;
    if (r->buffer.bytes > 0 && ++engine->unchecked >= engine->o.verify_every) {
        engine->unchecked = 0;
        r->check = MT_CHECK_DUE;
    }
}

enum mt_status mt_verify_announce(struct mt_engine_request *r)
{
    if (r->check == MT_CHECK_DUE) {
        r->checksum = mt_layout_checksum(&r->buffer, r->buffer.bytes);
        r->check = MT_CHECK_SUMMED;
    }
    struct mt_wire head = {.kind = MT_WIRE_CHECK};
    struct mt_wire_rest rest = {.number = r->checksum};
    enum mt_status status = mt_leave_note(r->peer, &head, &rest, NULL, 0);
    if (status == MT_OK) {
        r->check = MT_CHECK_SENT;
    }
    return status;
}

void mt_verify_arrived(struct mt_engine_request *r, enum mt_engine_way way,
                       uint64_t check)
{
    struct mt_engine_counts *counts = &r->context->engine->counts;
    if (r->status != MT_OK) {
        return; /* there was more of it */
    }
    counts->verified_messages++;
    counts->verified_bytes += r->bytes;
    if (mt_layout_checksum(&r->buffer, r->bytes) != (uint32_t)check) {
        counts->wrong_messages++;
        r->wrong = way;
    }
}

bool mt_verify_shun(struct mt_engine_peer *peer, uint64_t way)
{
    if (way == MT_ENGINE_NO_WAY || way >= MT_ENGINE_WAYS) {
        return false;
    }
    if (way != MT_ENGINE_FRAGMENTS) { /* which is what remains */
        peer->engine->counts.quarantined_paths +=
            !mt_verify_shuns(peer, (enum mt_engine_way)way);
        peer->shunned |= 1U << way;
    }
    return true;
}
