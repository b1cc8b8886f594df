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
    return (h->kind == MT_WIRE_RTS && h->flags == 0) || h->kind == MT_WIRE_CTS;
}

static bool mt_head_right(const struct mt_wire *h)
{
    bool names = h->kind == MT_WIRE_EAGER || h->kind == MT_WIRE_RTS;
    return h->kind > 0 && h->kind < MT_WIRE_KINDS && h->reserved == 0 &&
           mt_flags_right(h) &&
           (names ? h->tag >= 0
                  : h->tag == 0 && h->context == 0 && h->source == 0) &&
           (mt_has_memory(h) || h->rkey == 0);
}

static bool mt_rest_right(const struct mt_wire_message *m)
{
    const struct mt_wire_rest *r = &m->rest;
    unsigned kind = m->head.kind;
    bool asks = kind == MT_WIRE_PULL || kind == MT_WIRE_CTS;
    bool counts = asks || kind == MT_WIRE_RTS;
    bool carries = kind == MT_WIRE_EAGER || kind == MT_WIRE_FRAGMENT;
    return (asks ? r->bytes > 0 : kind == MT_WIRE_WRONG || r->answer == 0) &&
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
