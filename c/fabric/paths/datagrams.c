/* datagrams.c: see datagrams.h. Nothing that arrives is believed before it was
 * looked at. */
#include "datagrams.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MT_NONE UINT32_MAX

enum {
    MT_ACK_EVERY = 8,
    MT_ACK_US = 500,
    MT_RETRY_MS = 10,
    MT_DOUBLED = 6, /* times, at most */
    MT_TRIES = 100,
    MT_ACK_SLOTS = 8,   /* that no message takes */
    MT_OVERHEAD = 768,  /* of a packet, in the buffer of a socket */
    MT_AGAIN_NS = 1000000, /* between two that the peer says are missing */
};

enum mt_packet_kind { MT_PACKET_DATA = 1, MT_PACKET_ACK };

enum mt_packet_flag {
    MT_PACKET_FIRST = 1, /* of a message */
    MT_PACKET_LAST = 2,
    MT_PACKET_ASKS = 4, /* to be acknowledged at once */
    MT_PACKET_GAP = 8,  /* of ACK: later ones have come */
};

/* In front of the payload, in the byte order of the hosts. */
struct mt_packet {
    uint8_t kind, flags;
    uint16_t zero;
    uint32_t from;
    uint32_t sequence; /* of DATA: from 1; of ACK: 0 */
    uint32_t acknowledged; /* last one that came in order */
    uint64_t key;          /* of the receiver */
};
_Static_assert(sizeof(struct mt_packet) == MT_DATAGRAMS_HEAD,
               "the payload is behind the header, and aligned");

/* A packet that is kept, or an acknowledgement on its way. */
struct mt_datagrams_slot {
    uint32_t next;
    uint32_t rank;
    uint32_t bytes; /* with the header */
    uint32_t work;  /* flags of its posting */
    bool kept;      /* the peer does not have it */
    bool posted;    /* the device may read it */
};

/* Where a packet was received that came early. */
struct mt_datagrams_early {
    uint32_t next;
    uint32_t bytes; /* with the header */
};

/* A buffer that nobody needs now. */
struct mt_whole {
    struct mt_whole *next;
};

/* Whether sequence a comes after b. */
static bool mt_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

static struct mt_packet *mt_packet_of(const struct mt_datagrams *d,
                                      uint32_t slot)
{
    return (struct mt_packet *)((char *)d->sends->address +
                                (size_t)slot * d->slot_bytes);
}

static uint32_t mt_cost(const struct mt_datagrams_slot *s)
{
    return s->bytes + MT_OVERHEAD;
}

/* ---- sends ---- */

static uint32_t mt_slot_take(struct mt_datagrams *d, uint32_t rank)
{
    uint32_t slot = d->free;
    if (slot != MT_NONE) {
        d->free = d->slots[slot].next;
        d->free_count--;
        d->slots[slot] =
            (struct mt_datagrams_slot){.next = MT_NONE, .rank = rank};
        d->peers[rank].slots++;
    }
    return slot;
}

/* If nobody needs it. */
static void mt_slot_give(struct mt_datagrams *d, uint32_t slot)
{
    struct mt_datagrams_slot *s = &d->slots[slot];
    if (!s->kept && !s->posted) {
        d->peers[s->rank].slots--;
        s->next = d->free;
        d->free = slot;
        d->free_count++;
    }
}

/* MT_EAGAIN: not now. */
static enum mt_status mt_slot_post(struct mt_datagrams *d, uint32_t slot,
                                   uint8_t flags)
{
    struct mt_datagrams_slot *s = &d->slots[slot];
    struct mt_datagrams_peer *p = &d->peers[s->rank];
    struct mt_packet *packet = mt_packet_of(d, slot);
    if (d->broken) {
        return MT_EPEER;
    }
    if (s->posted) {
        return MT_EAGAIN;
    }
    packet->flags = (uint8_t)((packet->flags & ~MT_PACKET_ASKS) | flags);
    packet->acknowledged = p->arrived;
    struct mt_fabric_piece piece = {
        .address = packet, .bytes = s->bytes, .lkey = d->sends->lkey};
    struct mt_fabric_send work = {
        .id = mt_path_id(MT_PATH_PACKET, slot),
        .opcode = MT_FABRIC_SEND,
        /* who is asked may sleep */
        .flags = MT_FABRIC_SIGNALED | s->work |
                 ((flags & MT_PACKET_ASKS) != 0 ? MT_FABRIC_SOLICITED : 0),
        .piece_count = 1,
        .pieces = &piece,
        .ah = p->ah};
    enum mt_status status = mt_fabric_post_send(d->qp, &work);
    if (status == MT_OK) {
        s->posted = true;
        p->owed = 0;
        p->ack_due_ns = 0;
    } else if (status == MT_EINVAL) { /* of this peer alone: no path */
        if (!p->unreachable) {
            mt_path_say(d->o.say, d->o.say_user,
                        "rank %u cannot be sent datagrams from here", s->rank);
        }
        p->unreachable = true;
    } else if (status != MT_EAGAIN) {
        d->broken = true;
    }
    return status;
}

/* What the window has room for. */
static void mt_pump(struct mt_datagrams *d, struct mt_datagrams_peer *p,
                    uint64_t now)
{
    while (p->unsent != MT_NONE) {
        const struct mt_datagrams_slot *s = &d->slots[p->unsent];
        uint32_t flying = p->flying + mt_cost(s);
        if (p->flying > 0 && flying > p->window) {
            return;
        }
        bool full = flying + d->o.packet_bytes + MT_OVERHEAD > p->window;
        if (mt_slot_post(d, p->unsent, full ? MT_PACKET_ASKS : 0) != MT_OK) {
            return;
        }
        p->due_ns = p->flying == 0
                        ? now + d->o.retry_ms * UINT64_C(1000000)
                        : p->due_ns;
        p->flying = flying;
        p->sent++;
        p->unsent = s->next;
        d->counts.packets++;
    }
}

/* The oldest one again. */
static void mt_repeat(struct mt_datagrams *d, struct mt_datagrams_peer *p)
{
    if (mt_slot_post(d, p->kept, MT_PACKET_ASKS) == MT_OK) {
        d->counts.repeated++;
    }
}

/* Something of what was sent so far is lost. */
static void mt_lost(const struct mt_datagrams *d, struct mt_datagrams_peer *p)
{
    const uint32_t least = d->o.packet_bytes + MT_OVERHEAD;
    p->recover = p->sent;
    p->window = p->window / 2 > least ? p->window / 2 : least;
}

/* The peer has everything up to this one. */
static void mt_acknowledged(struct mt_datagrams *d,
                            struct mt_datagrams_peer *p, uint32_t sequence,
                            uint64_t now)
{
    uint32_t bytes = 0;
    if (!mt_after(sequence, p->acknowledged) || mt_after(sequence, p->sent)) {
        return; /* known, or nonsense */
    }
    for (; p->acknowledged != sequence; p->acknowledged++) {
        uint32_t slot = p->kept;
        struct mt_datagrams_slot *s = &d->slots[slot];
        p->kept = s->next;
        bytes += mt_cost(s);
        s->kept = false;
        mt_slot_give(d, slot);
    }
    p->queued -= bytes;
    p->flying -= bytes;
    p->tries = 0;
    p->window = p->window + bytes / 2 < d->o.window_bytes
                    ? p->window + bytes / 2
                    : d->o.window_bytes;
    p->due_ns =
        p->flying > 0 ? now + d->o.retry_ms * UINT64_C(1000000) : 0;
    if (!mt_after(p->recover, sequence)) {
        p->recover = sequence; /* it never falls far behind */
    } else if (p->flying > 0) {
        mt_repeat(d, p); /* what was lost with the other one */
    }
    mt_pump(d, p, now);
}

enum mt_status mt_datagrams_reserve(const struct mt_datagrams *d,
                                    uint32_t rank, void **place_p)
{
    const struct mt_datagrams_peer *p = &d->peers[rank];
    if (d->broken || p->ended || p->unreachable) {
        return MT_EPEER;
    }
    /* no more for one peer than are left for the others */
    if (p->queued >= d->o.window_bytes || p->slots > d->free_count ||
        d->free_count < d->most + MT_ACK_SLOTS) {
        return MT_EAGAIN;
    }
    *place_p = d->stage;
    return MT_OK;
}

enum mt_status mt_datagrams_commit(struct mt_datagrams *d, uint32_t rank,
                                   uint32_t count, uint32_t flags)
{
    struct mt_datagrams_peer *p = &d->peers[rank];
    uint8_t part = MT_PACKET_FIRST;
    if (count > d->o.message_bytes) {
        return MT_EINVAL;
    }
    for (uint32_t at = 0; at < count || part != 0;) {
        uint32_t n = count - at < d->room ? count - at : d->room;
        uint32_t slot = mt_slot_take(d, rank); /* as reserved */
        struct mt_datagrams_slot *s = &d->slots[slot];
        struct mt_packet *packet = mt_packet_of(d, slot);
        bool last = at + n == count;
        *packet = (struct mt_packet){
            .kind = MT_PACKET_DATA,
            .flags = (uint8_t)(part | (last ? MT_PACKET_LAST : 0)),
            .from = d->rank,
            .sequence = ++p->last,
            .key = p->key};
        memcpy(packet + 1, d->stage + at, n);
        s->bytes = (uint32_t)sizeof(*packet) + n;
        s->work = last ? flags : 0;
        s->kept = true;
        *(p->kept == MT_NONE ? &p->kept : &d->slots[p->kept_last].next) = slot;
        p->kept_last = slot;
        p->unsent = p->unsent == MT_NONE ? slot : p->unsent;
        p->queued += mt_cost(s);
        at += n;
        part = 0;
    }
    d->counts.messages++;
    mt_pump(d, p, mt_path_now_ns());
    return d->broken || p->unreachable ? MT_EPEER : MT_OK;
}

enum mt_status mt_datagrams_done(struct mt_datagrams *d,
                                 const struct mt_fabric_completion *c)
{
    uint32_t slot = (uint32_t)mt_path_value(c->id);
    d->slots[slot].posted = false;
    mt_slot_give(d, slot);
    d->broken = d->broken || c->status != MT_OK;
    return d->broken ? MT_EPEER : MT_OK;
}

/* ---- receives ---- */

static char *mt_datagram_at(const struct mt_datagrams *d, uint32_t receive)
{
    return (char *)d->receives->address +
           (size_t)receive * (d->o.headroom + d->slot_bytes);
}

static const struct mt_packet *mt_packet_in(const struct mt_datagrams *d,
                                            uint32_t receive)
{
    return (const struct mt_packet *)(mt_datagram_at(d, receive) +
                                      d->o.headroom);
}

static void mt_listen(struct mt_datagrams *d, uint32_t receive)
{
    struct mt_fabric_piece piece = {.address = mt_datagram_at(d, receive),
                                    .bytes = d->o.headroom + d->slot_bytes,
                                    .lkey = d->receives->lkey};
    struct mt_fabric_receive work = {
        .id = mt_path_id(MT_PATH_PACKET_IN, receive),
        .piece_count = 1,
        .pieces = &piece};
    if (mt_fabric_post_receive(d->qp, &work) != MT_OK) {
        d->broken = true;
    }
}

/* What the peer has sent so far is here, in an acknowledgement of its own.
 * Without a slot, or room to post it, later. */
static void mt_acknowledge(struct mt_datagrams *d, uint32_t rank)
{
    struct mt_datagrams_peer *p = &d->peers[rank];
    uint32_t slot = mt_slot_take(d, rank);
    if (slot == MT_NONE) {
        return;
    }
    *mt_packet_of(d, slot) = (struct mt_packet){
        .kind = MT_PACKET_ACK,
        .flags = p->gap ? MT_PACKET_GAP : 0,
        .from = d->rank,
        .key = p->key};
    d->slots[slot].bytes = sizeof(struct mt_packet);
    d->slots[slot].work = MT_FABRIC_SOLICITED; /* its receiver may wait for
                                                * nothing else */
    if (mt_slot_post(d, slot, 0) == MT_OK) {
        d->counts.acknowledgements++;
        p->gap = false;
    } else {
        mt_slot_give(d, slot);
    }
}

/* It is overdue. */
static enum mt_status mt_overdue(struct mt_datagrams *d, uint32_t rank,
                                 uint64_t now)
{
    struct mt_datagrams_peer *p = &d->peers[rank];
    if (p->tries == d->o.tries) {
        mt_path_say(d->o.say, d->o.say_user,
                    "rank %u has not acknowledged a datagram that was sent %u "
                    "times: it is gone, or the network between is",
                    rank, p->tries + 1);
        return MT_EPEER;
    }
    p->tries++;
    mt_lost(d, p);
    uint32_t doubled = p->tries < MT_DOUBLED ? p->tries : MT_DOUBLED;
    p->due_ns = now + ((d->o.retry_ms * UINT64_C(1000000)) << doubled);
    if (d->slots[p->kept].posted) {
        /* it has not even left: Soft-RoCE may need another post to go on */
        mt_acknowledge(d, rank);
    } else {
        mt_repeat(d, p);
    }
    return MT_OK;
}

/* A buffer for a message of several packets; NULL: no memory. */
static char *mt_whole_take(struct mt_datagrams *d)
{
    struct mt_whole *w = d->wholes;
    if (w == NULL) {
        return malloc(d->o.message_bytes);
    }
    d->wholes = w->next;
    return (char *)w;
}

static void mt_whole_give(struct mt_datagrams *d, char *whole)
{
    struct mt_whole *w = (struct mt_whole *)whole;
    if (w != NULL) {
        w->next = d->wholes;
        d->wholes = w;
    }
}

/* The next packet of a peer. MT_EAGAIN: there is no memory; it comes again. */
static enum mt_status mt_take(struct mt_datagrams *d, uint32_t rank,
                              const struct mt_packet *packet, uint32_t bytes)
{
    struct mt_datagrams_peer *p = &d->peers[rank];
    bool first = (packet->flags & MT_PACKET_FIRST) != 0;
    bool last = (packet->flags & MT_PACKET_LAST) != 0;
    if (first != (p->whole == NULL) ||
        bytes > d->o.message_bytes - p->whole_bytes) {
        return MT_EPEER;
    }
    if (first && last) {
        p->arrived++;
        return d->o.came(d->o.user, rank, packet + 1, bytes);
    }
    if (first && (p->whole = mt_whole_take(d)) == NULL) {
        return MT_EAGAIN;
    }
    memcpy(p->whole + p->whole_bytes, packet + 1, bytes);
    p->whole_bytes += bytes;
    p->arrived++;
    if (!last) {
        return MT_OK;
    }
    char *whole = p->whole; /* the caller may end the peer */
    bytes = p->whole_bytes;
    p->whole = NULL;
    p->whole_bytes = 0;
    enum mt_status status = d->o.came(d->o.user, rank, whole, bytes);
    mt_whole_give(d, whole);
    return status;
}

/* One that came early stays where it is, among others by sequence. False: there
 * is no room, or it is here already. */
static bool mt_hold(struct mt_datagrams *d, struct mt_datagrams_peer *p,
                    uint32_t receive, uint32_t bytes)
{
    uint32_t sequence = mt_packet_in(d, receive)->sequence;
    uint32_t *place = &p->held;
    while (*place != MT_NONE &&
           mt_after(sequence, mt_packet_in(d, *place)->sequence)) {
        place = &d->early[*place].next;
    }
    if (d->held_count >= d->o.receives / 2 ||
        (*place != MT_NONE && mt_packet_in(d, *place)->sequence == sequence)) {
        return false;
    }
    d->early[receive] =
        (struct mt_datagrams_early){.next = *place, .bytes = bytes};
    *place = receive;
    d->held_count++;
    return true;
}

/* The first of what is held. */
static uint32_t mt_unhold(struct mt_datagrams *d, struct mt_datagrams_peer *p)
{
    uint32_t receive = p->held;
    p->held = d->early[receive].next;
    d->held_count--;
    return receive;
}

/* What is held and in its turn now. */
static enum mt_status mt_take_held(struct mt_datagrams *d, uint32_t rank)
{
    struct mt_datagrams_peer *p = &d->peers[rank];
    enum mt_status status = MT_OK;
    while (status == MT_OK && !p->ended && p->held != MT_NONE &&
           mt_packet_in(d, p->held)->sequence == p->arrived + 1) {
        uint32_t receive = mt_unhold(d, p);
        const struct mt_packet *packet = mt_packet_in(d, receive);
        status = mt_take(d, rank, packet,
                         d->early[receive].bytes - (uint32_t)sizeof(*packet));
        p->owed++;
        mt_listen(d, receive);
    }
    return status;
}

/* False: its receive is not to be posted again yet. */
static bool mt_data(struct mt_datagrams *d, uint32_t rank, uint32_t receive,
                    uint32_t bytes, enum mt_status *status_p)
{
    struct mt_datagrams_peer *p = &d->peers[rank];
    const struct mt_packet *packet = mt_packet_in(d, receive);
    bool asks = (packet->flags & MT_PACKET_ASKS) != 0;
    p->owed++;
    if (packet->sequence != p->arrived + 1) {
        bool early = mt_after(packet->sequence, p->arrived);
        *(early ? &d->counts.early : &d->counts.duplicates) += 1;
        p->gap = p->gap || early;
        p->owed += d->o.ack_every; /* the peer has to know */
        return !early || !mt_hold(d, p, receive, bytes);
    }
    *status_p =
        mt_take(d, rank, packet, bytes - (uint32_t)sizeof(*packet));
    if (*status_p == MT_OK) {
        *status_p = mt_take_held(d, rank);
        p->gap = p->held != MT_NONE;
    }
    if (*status_p == MT_EAGAIN) {
        *status_p = MT_OK;
    } else if (asks) {
        p->owed += d->o.ack_every;
    }
    return true;
}

/* A packet that may be one of ours, and not of a stranger. */
static bool mt_packet_right(const struct mt_datagrams *d,
                            const struct mt_packet *packet, uint32_t bytes)
{
    bool data = packet->kind == MT_PACKET_DATA;
    uint8_t flags = data ? MT_PACKET_FIRST | MT_PACKET_LAST | MT_PACKET_ASKS
                         : MT_PACKET_GAP;
    return packet->key == d->key &&
           (data || packet->kind == MT_PACKET_ACK) &&
           (packet->flags & ~flags) == 0 && packet->zero == 0 &&
           packet->from < d->size && packet->from != d->rank &&
           (data || (packet->sequence == 0 && bytes == sizeof(*packet)));
}

static bool mt_packet_came(struct mt_datagrams *d, uint32_t receive,
                           uint32_t bytes, uint32_t *rank_p,
                           enum mt_status *status_p)
{
    const struct mt_packet *packet = mt_packet_in(d, receive);
    if (bytes < sizeof(*packet) || !mt_packet_right(d, packet, bytes)) {
        d->counts.malformed++;
        return true;
    }
    uint32_t rank = packet->from;
    struct mt_datagrams_peer *p = &d->peers[rank];
    if (p->ended) {
        return true;
    }
    *rank_p = rank;
    uint64_t now = mt_path_now_ns();
    mt_acknowledged(d, p, packet->acknowledged, now);
    bool post = true;
    if (packet->kind == MT_PACKET_DATA) {
        post = mt_data(d, rank, receive, bytes, status_p);
    } else if ((packet->flags & MT_PACKET_GAP) != 0 && p->flying > 0 &&
               now >= p->again_ns) {
        p->again_ns = now + MT_AGAIN_NS;
        if (!mt_after(p->recover, p->acknowledged)) {
            mt_lost(d, p); /* and not known yet */
        }
        mt_repeat(d, p);
    }
    if (p->owed >= d->o.ack_every && !p->ended) {
        mt_acknowledge(d, rank);
    }
    if (p->owed > 0 && p->ack_due_ns == 0) {
        p->ack_due_ns = now + d->o.ack_us * UINT64_C(1000);
    }
    return post;
}

enum mt_status mt_datagrams_received(struct mt_datagrams *d,
                                     const struct mt_fabric_completion *c,
                                     uint32_t *rank_p)
{
    enum mt_status status = MT_OK;
    uint32_t receive = (uint32_t)mt_path_value(c->id);
    *rank_p = UINT32_MAX;
    if (c->status != MT_OK || d->broken) {
        d->broken = true;
        return MT_EPEER;
    }
    uint32_t bytes =
        c->bytes > d->o.headroom ? c->bytes - d->o.headroom : 0;
    if (mt_packet_came(d, receive, bytes, rank_p, &status)) {
        mt_listen(d, receive);
    }
    return status;
}

/* ---- peers ---- */

enum mt_status mt_datagrams_serve(struct mt_datagrams *d, uint32_t rank)
{
    struct mt_datagrams_peer *p = &d->peers[rank];
    if (p->ended) {
        return p->slots > 0 ? MT_EAGAIN : MT_OK;
    }
    if (p->slots == 0 && p->owed == 0) {
        return MT_OK;
    }
    uint64_t now = mt_path_now_ns();
    enum mt_status status = MT_OK;
    if (p->due_ns != 0 && now >= p->due_ns) {
        status = mt_overdue(d, rank, now);
    }
    mt_pump(d, p, now);
    if (p->owed >= d->o.ack_every ||
        (p->ack_due_ns != 0 && now >= p->ack_due_ns)) {
        mt_acknowledge(d, rank);
    }
    bool over = status != MT_OK || d->broken || p->unreachable;
    return over ? MT_EPEER : MT_EAGAIN;
}

uint64_t mt_datagrams_due(const struct mt_datagrams *d, uint32_t rank)
{
    const struct mt_datagrams_peer *p = &d->peers[rank];
    if (p->ended) {
        return UINT64_MAX;
    }
    if (p->unreachable || (p->unsent != MT_NONE && p->flying == 0)) {
        return 0; /* or there was no room to post it */
    }
    uint64_t due = p->due_ns != 0 ? p->due_ns : UINT64_MAX;
    return p->ack_due_ns != 0 && p->ack_due_ns < due ? p->ack_due_ns : due;
}

uint64_t mt_datagrams_bytes(const struct mt_datagrams *d)
{
    return (uint64_t)d->o.sends * d->slot_bytes +
           (uint64_t)d->o.receives * (d->o.headroom + d->slot_bytes);
}

void mt_datagrams_end(struct mt_datagrams *d, uint32_t rank)
{
    struct mt_datagrams_peer *p = &d->peers[rank];
    p->ended = true;
    while (p->kept != MT_NONE) {
        uint32_t slot = p->kept;
        p->kept = d->slots[slot].next;
        d->slots[slot].kept = false;
        mt_slot_give(d, slot);
    }
    while (p->held != MT_NONE) {
        mt_listen(d, mt_unhold(d, p));
    }
    mt_whole_give(d, p->whole);
    p->whole = NULL;
    p->unsent = MT_NONE;
    p->owed = p->queued = p->flying = 0;
    p->due_ns = p->ack_due_ns = 0;
}

/* ---- beginning and end ---- */

/* What ranks tell each other. */
struct mt_datagrams_hello {
    struct mt_fabric_address address; /* 0 bytes: it could not make its part */
    uint32_t packet_bytes;
    uint64_t key;
};

static enum mt_status mt_datagrams_fit(struct mt_datagrams *d)
{
    const struct mt_datagrams_options *o = &d->o;
    if (o->packet_bytes <= MT_DATAGRAMS_HEAD) {
        return MT_EINVAL;
    }
    d->room = o->packet_bytes - MT_DATAGRAMS_HEAD;
    d->most = (o->message_bytes + d->room - 1) / d->room;
    d->most = d->most > 0 ? d->most : 1;
    return o->message_bytes >= sizeof(struct mt_whole) &&
                   d->most + MT_ACK_SLOTS <= o->sends / 2 &&
                   o->receives >= 2 && o->came != NULL
               ? MT_OK
               : MT_EINVAL;
}

static enum mt_status mt_datagrams_make(struct mt_datagrams *d)
{
    const struct mt_datagrams_options *o = &d->o;
    const struct mt_fabric_qp_options q = {.transport = MT_FABRIC_UD,
                                           .send_cq = o->send_cq,
                                           .receive_cq = o->receive_cq,
                                           .send_depth = o->sends,
                                           .receive_depth = o->receives,
                                           .pieces = 1,
                                           .port = o->port};
    d->slots = calloc(o->sends, sizeof(*d->slots));
    d->early = calloc(o->receives, sizeof(*d->early));
    d->stage = malloc(o->message_bytes);
    if (d->slots == NULL || d->early == NULL || d->stage == NULL) {
        return MT_ENOMEM;
    }
    enum mt_status status = mt_fabric_qp_create(o->pd, &q, &d->qp);
    if (status == MT_OK) {
        status = mt_fabric_mr_allocate(
            o->pd, (size_t)o->sends * d->slot_bytes, 0, &d->sends);
    }
    if (status == MT_OK) {
        status = mt_fabric_mr_allocate(
            o->pd, (size_t)o->receives * (o->headroom + d->slot_bytes),
            MT_FABRIC_LOCAL_WRITE, &d->receives);
    }
    for (uint32_t i = 0; i < o->receives && status == MT_OK; i++) {
        mt_listen(d, i);
        status = d->broken ? MT_EIO : MT_OK;
    }
    for (uint32_t i = 0; i < o->sends; i++) {
        d->slots[i].next = i + 1 < o->sends ? i + 1 : MT_NONE;
    }
    d->free_count = o->sends;
    if (getrandom(&d->key, sizeof(d->key), 0) != (ssize_t)sizeof(d->key)) {
        return MT_EIO;
    }
    return status == MT_OK ? mt_fabric_qp_connect(d->qp, NULL) : status;
}

static enum mt_status mt_peers_make(struct mt_datagrams *d,
                                    const struct mt_datagrams_hello *all)
{
    enum mt_status status = MT_OK;
    for (uint32_t i = 0; i < d->size && status == MT_OK; i++) {
        status = all[i].address.bytes == 0 ? MT_EPEER : MT_OK;
        d->o.packet_bytes = all[i].packet_bytes < d->o.packet_bytes
                                ? all[i].packet_bytes
                                : d->o.packet_bytes;
    }
    if (status == MT_OK && mt_datagrams_fit(d) != MT_OK) {
        mt_path_say(d->o.say, d->o.say_user,
                    "messages of %u bytes need longer datagrams than the %u "
                    "bytes that all ranks take",
                    d->o.message_bytes, d->o.packet_bytes);
        status = MT_EINVAL;
    }
    for (uint32_t i = 0; i < d->size && status == MT_OK; i++) {
        d->peers[i] = (struct mt_datagrams_peer){.key = all[i].key,
                                                 .kept = MT_NONE,
                                                 .unsent = MT_NONE,
                                                 .held = MT_NONE,
                                                 .window = d->o.window_bytes};
        if (i != d->rank) {
            status = mt_fabric_ah_create(d->o.pd, &all[i].address,
                                         &d->peers[i].ah);
        }
    }
    return status;
}

/* A rank that could not make its part takes part all the same: its address is
 * empty, and everybody knows. */
static enum mt_status mt_datagrams_join(struct mt_datagrams *d,
                                        const struct mt_fabric_wireup *w,
                                        enum mt_status status)
{
    struct mt_datagrams_hello mine = {.packet_bytes = d->o.packet_bytes,
                                      .key = d->key};
    struct mt_datagrams_hello *all = calloc(w->size, sizeof(*all));
    d->peers = calloc(w->size, sizeof(*d->peers));
    if (d->peers == NULL) {
        status = MT_ENOMEM;
    }
    if (status == MT_OK) {
        status = mt_fabric_qp_address(d->qp, &mine.address);
    }
    enum mt_status exchanged = w->exchange(w->user, &mine, sizeof(mine), all);
    status = status == MT_OK ? exchanged : status;
    if (status == MT_OK) {
        status = mt_peers_make(d, all);
    }
    free(all);
    return status;
}

enum mt_status mt_datagrams_open(struct mt_datagrams *d,
                                 const struct mt_datagrams_options *options,
                                 const struct mt_fabric_wireup *wireup)
{
    *d = (struct mt_datagrams){
        .o = *options, .rank = wireup->rank, .size = wireup->size};
    d->o.ack_every = options->ack_every > 0 ? options->ack_every : MT_ACK_EVERY;
    d->o.ack_us = options->ack_us > 0 ? options->ack_us : MT_ACK_US;
    d->o.retry_ms = options->retry_ms > 0 ? options->retry_ms : MT_RETRY_MS;
    d->o.tries = options->tries > 0 ? options->tries : MT_TRIES;
    d->o.packet_bytes &= ~(uint32_t)7; /* so that headers are aligned */
    d->slot_bytes = d->o.packet_bytes;
    enum mt_status status = mt_datagrams_fit(d);
    status = status == MT_OK ? mt_datagrams_make(d) : status;
    status = mt_datagrams_join(d, wireup, status);
    if (status != MT_OK) {
        mt_datagrams_close(d);
    }
    return status;
}

void mt_datagrams_close(struct mt_datagrams *d)
{
    if (d->qp != NULL) {
        mt_fabric_qp_destroy(d->qp);
    }
    for (uint32_t i = 0; d->peers != NULL && i < d->size; i++) {
        if (d->peers[i].ah != NULL) {
            mt_fabric_ah_destroy(d->peers[i].ah);
        }
        free(d->peers[i].whole);
    }
    if (d->receives != NULL) {
        mt_fabric_mr_destroy(d->receives);
    }
    if (d->sends != NULL) {
        mt_fabric_mr_destroy(d->sends);
    }
    while (d->wholes != NULL) {
        struct mt_whole *w = d->wholes;
        d->wholes = w->next;
        free(w);
    }
    free(d->stage);
    free(d->early);
    free(d->slots);
    free(d->peers);
    *d = (struct mt_datagrams){.size = 0};
}
