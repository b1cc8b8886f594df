/* wire.h: the bytes of MPA (RFC 5044), DDP (RFC 5041) and RDMAP (RFC 5040,
 * 7306) that this provider speaks. No state, no sockets. */
#ifndef MPITRACE_FABRIC_IWARP_WIRE_H
#define MPITRACE_FABRIC_IWARP_WIRE_H

#include <string.h>

#include "../../include/base.h"
#include "../../include/status.h"

/* ---- big-endian fields ---- */

MT_INLINE void mt_put16(uint8_t *at, uint16_t v)
{
    at[0] = (uint8_t)(v >> 8);
    at[1] = (uint8_t)v;
}

MT_INLINE void mt_put32(uint8_t *at, uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    memcpy(at, &v, sizeof(v));
}

MT_INLINE void mt_put64(uint8_t *at, uint64_t v)
{
    mt_put32(at, (uint32_t)(v >> 32));
    mt_put32(at + 4, (uint32_t)v);
}

MT_INLINE uint16_t mt_get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

MT_INLINE uint32_t mt_get32(const uint8_t *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    return v;
}

MT_INLINE uint64_t mt_get64(const uint8_t *at)
{
    return (uint64_t)mt_get32(at) << 32 | mt_get32(at + 4);
}

/* A CRC goes lowest byte first (RFC 5044, 6.1, as RFC 3720 draws it). */
MT_INLINE void mt_put_crc(uint8_t *at, uint32_t crc)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(crc >> 8 * i);
    }
}

MT_INLINE uint32_t mt_get_crc(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

/* ---- MPA (RFC 5044) ---- */

enum {
    MT_MPA_LENGTH = 2, /* in front of a ULPDU (4.1) */
    MT_MPA_CRC = 4,
    /* request and reply (7.1.1): key, flags, revision, length of private data
     */
    MT_MPA_KEY = 16,
    MT_MPA_START = 20,
    MT_MPA_MARKERS = 0x80,
    MT_MPA_CRCS = 0x40,
    MT_MPA_REJECT = 0x20,
    MT_MPA_REVISION = 1,
};

#define MT_MPA_REQUEST "MPA ID Req Frame"
#define MT_MPA_REPLY "MPA ID Rep Frame"

/* Zeroes behind a ULPDU until length and ULPDU fill words of 4 bytes (4.1). */
MT_INLINE uint32_t mt_mpa_pad(uint32_t ulpdu)
{
    return (0u - (MT_MPA_LENGTH + ulpdu)) & 3;
}

/* ---- DDP (RFC 5041, 4) and RDMAP (RFC 5040, 4) ---- */

enum {
    MT_DDP_TAGGED = 0x80, /* of the first byte */
    MT_DDP_LAST = 0x40,
    MT_DDP_VERSION_MASK = 0x03,
    MT_DDP_VERSION = 1,
    MT_RDMAP_VERSION_MASK = 0xc0, /* of the second */
    MT_RDMAP_VERSION = 0x40,
    MT_RDMAP_OPCODE_MASK = 0x0f,
    MT_DDP_TAGGED_HEAD = 14,
    MT_DDP_UNTAGGED_HEAD = 18,
    MT_RDMAP_READ_BYTES = 28,
    MT_RDMAP_IMMEDIATE_BYTES = 8,
    MT_RDMAP_TERMINATE_BYTES = 4, /* its control field */
};

enum mt_ddp_queue {
    MT_DDP_SENDS,
    MT_DDP_READS,
    MT_DDP_TERMINATES,
    MT_DDP_QUEUES
};

enum mt_rdmap_opcode {
    MT_RDMAP_WRITE = 0,
    MT_RDMAP_READ_REQUEST = 1,
    MT_RDMAP_READ_RESPONSE = 2,
    MT_RDMAP_SEND = 3,
    MT_RDMAP_SEND_SOLICITED = 5,
    MT_RDMAP_TERMINATE = 7,
    MT_RDMAP_IMMEDIATE = 8, /* RFC 7306, 6 */
    MT_RDMAP_IMMEDIATE_SOLICITED = 9,
};

/* Why a stream is terminated: layer, type and code (RFC 5040, 4.8), four, four
 * and eight bits. */
enum mt_iwarp_term {
    MT_TERM_NONE = -1,
    MT_TERM_CATASTROPHE = 0x0000,
    MT_TERM_ACCESS_STAG = 0x0100, /* of a READ's source */
    MT_TERM_ACCESS_BOUNDS = 0x0101,
    MT_TERM_RDMAP_VERSION = 0x0205,
    MT_TERM_OPCODE = 0x0206,
    MT_TERM_TAGGED_STAG = 0x1100,
    MT_TERM_TAGGED_BOUNDS = 0x1101,
    MT_TERM_TAGGED_VERSION = 0x1104,
    MT_TERM_QUEUE = 0x1201,
    MT_TERM_NO_BUFFER = 0x1202,
    MT_TERM_MSN = 0x1203,
    MT_TERM_OFFSET = 0x1204,
    MT_TERM_TOO_LONG = 0x1205,
    MT_TERM_UNTAGGED_VERSION = 0x1206,
    MT_TERM_CRC = 0x2002,
    MT_TERM_LENGTH = 0x2003,
};

/* What both ends make of it. */
enum mt_status mt_term_status(uint32_t term);

/* The header of a DDP segment. */
struct mt_iwarp_segment {
    bool tagged;
    bool last;
    uint8_t opcode; /* enum mt_rdmap_opcode */
    uint8_t head;   /* bytes of it */
    uint32_t stag;  /* tagged */
    uint64_t to;
    uint32_t reserved; /* untagged: what RDMAP keeps for itself */
    uint32_t queue;
    uint32_t msn;
    uint32_t mo;
    uint32_t bytes; /* payload */
};

/* Takes the header of a segment of ulpdu bytes apart; at must hold as many of
 * them as there are, 18 at most. MT_TERM_NONE: it is sound as far as one can
 * tell without the state of a stream. */
enum mt_iwarp_term mt_segment_parse(const uint8_t *at, uint32_t ulpdu,
                                    struct mt_iwarp_segment *s);
/* Writes it; returns its bytes. */
uint32_t mt_segment_write(uint8_t *at, const struct mt_iwarp_segment *s);

#endif
