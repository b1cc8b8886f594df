/* wire.c: see wire.h. */
#include "wire.h"

enum mt_status mt_term_status(uint32_t term)
{
    switch (term) {
    case MT_TERM_RDMAP_VERSION:
    case MT_TERM_TAGGED_VERSION:
    case MT_TERM_UNTAGGED_VERSION:
        return MT_EVERSION;
    case MT_TERM_TOO_LONG:
        return MT_ETRUNCATED;
    case MT_TERM_CRC:
        return MT_EIO;
    default:
        /* remote protection (RDMAP) and tagged buffer errors (DDP) */
        return (term & 0xff00) == 0x0100 || (term & 0xff00) == 0x1100
                   ? MT_EACCESS
                   : MT_EPEER;
    }
}

/* Which queue an untagged opcode belongs to, and its payload if that is fixed:
 * RFC 5040, 4.1 to 4.8, and RFC 7306, 6.1. */
static enum mt_iwarp_term mt_check_untagged(const struct mt_iwarp_segment *s)
{
    uint32_t queue = MT_DDP_SENDS;
    uint32_t fixed = 0; /* payload of a message of one segment, 0: any */
    switch (s->opcode) {
    case MT_RDMAP_SEND:
    case MT_RDMAP_SEND_SOLICITED:
        break;
    case MT_RDMAP_IMMEDIATE:
    case MT_RDMAP_IMMEDIATE_SOLICITED:
        fixed = MT_RDMAP_IMMEDIATE_BYTES;
        break;
    case MT_RDMAP_READ_REQUEST:
        queue = MT_DDP_READS;
        fixed = MT_RDMAP_READ_BYTES;
        break;
    case MT_RDMAP_TERMINATE:
        queue = MT_DDP_TERMINATES;
        break;
    default:
        return MT_TERM_OPCODE;
    }
    if (s->queue != queue) {
        return MT_TERM_QUEUE;
    }
    if (fixed == 0) {
        return MT_TERM_NONE;
    }
    if (s->mo != 0) {
        return MT_TERM_OFFSET;
    }
    return s->bytes == fixed && s->last ? MT_TERM_NONE : MT_TERM_LENGTH;
}

enum mt_iwarp_term mt_segment_parse(const uint8_t *at, uint32_t ulpdu,
                                    struct mt_iwarp_segment *s)
{
    if (ulpdu < 2) {
        return MT_TERM_LENGTH;
    }
    s->tagged = (at[0] & MT_DDP_TAGGED) != 0;
    s->last = (at[0] & MT_DDP_LAST) != 0;
    s->opcode = at[1] & MT_RDMAP_OPCODE_MASK;
    s->head = s->tagged ? MT_DDP_TAGGED_HEAD : MT_DDP_UNTAGGED_HEAD;
    if ((at[0] & MT_DDP_VERSION_MASK) != MT_DDP_VERSION) {
        return s->tagged ? MT_TERM_TAGGED_VERSION : MT_TERM_UNTAGGED_VERSION;
    }
    if ((at[1] & MT_RDMAP_VERSION_MASK) != MT_RDMAP_VERSION) {
        return MT_TERM_RDMAP_VERSION;
    }
    if (ulpdu < s->head) {
        return MT_TERM_LENGTH;
    }
    s->bytes = ulpdu - s->head;
    if (s->tagged) {
        s->stag = mt_get32(at + 2);
        s->to = mt_get64(at + 6);
        return s->opcode == MT_RDMAP_WRITE ||
                       s->opcode == MT_RDMAP_READ_RESPONSE
                   ? MT_TERM_NONE
                   : MT_TERM_OPCODE;
    }
    s->reserved = mt_get32(at + 2);
    s->queue = mt_get32(at + 6);
    s->msn = mt_get32(at + 10);
    s->mo = mt_get32(at + 14);
    return mt_check_untagged(s);
}

uint32_t mt_segment_write(uint8_t *at, const struct mt_iwarp_segment *s)
{
    at[0] = (uint8_t)((s->tagged ? MT_DDP_TAGGED : 0) |
                      (s->last ? MT_DDP_LAST : 0) | MT_DDP_VERSION);
    at[1] = (uint8_t)(MT_RDMAP_VERSION | s->opcode);
    if (s->tagged) {
        mt_put32(at + 2, s->stag);
        mt_put64(at + 6, s->to);
        return MT_DDP_TAGGED_HEAD;
    }
    mt_put32(at + 2, s->reserved);
    mt_put32(at + 6, s->queue);
    mt_put32(at + 10, s->msn);
    mt_put32(at + 14, s->mo);
    return MT_DDP_UNTAGGED_HEAD;
}
