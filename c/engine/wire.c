/* wire.c: see wire.h. */
#include "wire.h"

#include <string.h>

static bool mt_flags_right(const struct mt_wire *h)
{
    switch (h->kind) {
    case MT_WIRE_EAGER:
        return (h->flags & ~MT_WIRE_SYNCHRONOUS) == 0;
    case MT_WIRE_RTS: /* one of them */
        return h->flags == 0 || h->flags == MT_WIRE_NO_READ ||
               h->flags == MT_WIRE_PUT;
    default:
        return h->flags == 0;
    }
}

/* Whether it tells where memory is. */
static bool mt_has_memory(const struct mt_wire *h)
{
    return (h->kind == MT_WIRE_RTS && h->flags == 0) ||
           h->kind == MT_WIRE_CTS || h->kind == MT_WIRE_RTR ||
           h->kind == MT_WIRE_RING || h->kind == MT_WIRE_WORD;
}

static bool mt_head_right(const struct mt_wire *h)
{
    bool message = h->kind == MT_WIRE_EAGER || h->kind == MT_WIRE_RTS;
    bool names = message || h->kind == MT_WIRE_RTR;
    return h->kind > 0 && h->kind < MT_WIRE_KINDS && h->entry == 0 &&
           mt_flags_right(h) &&
           (names ? h->tag >= 0 : h->tag == 0 && h->context == 0) &&
           (message || h->source == 0) &&
           (mt_has_memory(h) || h->rkey == 0);
}

static bool mt_rest_right(const struct mt_wire_message *m)
{
    const struct mt_wire_rest *r = &m->rest;
    unsigned kind = m->head.kind;
    bool asks = kind == MT_WIRE_PULL || kind == MT_WIRE_CTS ||
                kind == MT_WIRE_RTR;
    bool fills = kind == MT_WIRE_FILLED;
    bool counts = asks || fills || kind == MT_WIRE_RTS || kind == MT_WIRE_RING;
    bool numbers = kind != MT_WIRE_RING && kind != MT_WIRE_WORD;
    bool carries = kind == MT_WIRE_EAGER || kind == MT_WIRE_FRAGMENT ||
                   kind == MT_WIRE_CONNECT;
    return (asks || kind == MT_WIRE_WRONG || r->answer == 0) &&
           (r->bytes > 0 || !(asks || fills)) && (numbers || r->number == 0) &&
           (kind != MT_WIRE_CHECK || r->number < MT_WIRE_CHECKED) &&
           (counts ? r->bytes <= INT64_MAX : r->bytes == 0) &&
           (mt_has_memory(&m->head) ? r->address <= UINT64_MAX - r->bytes
                                    : r->address == 0) &&
           (carries || m->payload_bytes == 0) &&
           (kind != MT_WIRE_FRAGMENT || m->payload_bytes > 0);
}

enum mt_status mt_wire_parse(const void *bytes, uint32_t count,
                             struct mt_wire_message *m)
{
    uint32_t header = sizeof(m->head);
    if (count < header) {
        return MT_EPEER;
    }
    memcpy(&m->head, bytes, sizeof(m->head));
    memset(&m->rest, 0, sizeof(m->rest));
    if (!mt_head_right(&m->head)) {
        return MT_EPEER;
    }
    bool is_long = mt_wire_long(m->head.kind, m->head.flags);
    if (is_long) {
        header += (uint32_t)sizeof(m->rest);
        if (count < header) {
            return MT_EPEER;
        }
        memcpy(&m->rest, (const char *)bytes + sizeof(m->head),
               sizeof(m->rest));
    }
    m->payload = (const char *)bytes + header;
    m->payload_bytes = count - header;
    if (is_long && !mt_rest_right(m)) {
        return MT_EPEER;
    }
    if (m->head.kind == MT_WIRE_EAGER) {
        m->rest.bytes = m->payload_bytes;
    }
    return MT_OK;
}

/* ---- in a ring ---- */

static bool mt_same(const struct mt_wire *a, const struct mt_wire *b)
{
    return a->kind == b->kind && a->context == b->context &&
           a->source == b->source && a->tag == b->tag;
}

_Static_assert(MT_WIRE_ENTRIES == 16, "the upper 4 bits of a hash");

uint32_t mt_wire_shorten(const struct mt_wire_cache *cache,
                         struct mt_wire *head, void *place)
{
    uint64_t names = (uint64_t)head->context << 32 | (uint32_t)head->tag;
    head->entry = (uint16_t)(mt_hash(names) >> 60);
    if (mt_likely(mt_same(&cache->entries[head->entry], head))) {
        struct mt_wire_token token = {.kind = MT_WIRE_TOKEN,
                                      .entry = (uint8_t)head->entry,
                                      .sequence = head->sequence};
        memcpy(place, &token, sizeof(token));
        return sizeof(token);
    }
    memcpy(place, head, sizeof(*head));
    return sizeof(*head);
}

static bool mt_cached_right(struct mt_wire *h, struct mt_wire_cache *cache)
{
    uint16_t entry = h->entry;
    h->entry = 0;
    if (entry >= MT_WIRE_ENTRIES || h->kind != MT_WIRE_EAGER ||
        h->flags != 0 || !mt_head_right(h)) {
        return false;
    }
    cache->entries[entry] = *h;
    return true;
}

enum mt_status mt_wire_parse_ring(const void *bytes, uint32_t count,
                                  struct mt_wire_cache *cache,
                                  struct mt_wire_message *m)
{
    struct mt_wire_token token;
    uint32_t header = sizeof(token);
    if (count < sizeof(token)) {
        return MT_EPEER;
    }
    memcpy(&token, bytes, sizeof(token));
    if (mt_likely(token.kind == MT_WIRE_TOKEN)) {
        if (token.entry >= MT_WIRE_ENTRIES || token.reserved != 0 ||
            cache->entries[token.entry].kind == 0) {
            return MT_EPEER;
        }
        m->head = cache->entries[token.entry];
        m->head.sequence = token.sequence;
    } else {
        header = sizeof(m->head);
        if (count < header) {
            return MT_EPEER;
        }
        memcpy(&m->head, bytes, sizeof(m->head));
        if (!mt_cached_right(&m->head, cache)) {
            return MT_EPEER;
        }
    }
    m->payload = (const char *)bytes + header;
    m->payload_bytes = count - header;
    m->rest = (struct mt_wire_rest){.bytes = m->payload_bytes};
    return MT_OK;
}
