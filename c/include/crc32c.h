/* crc32c.h: the CRC of MPA (RFC 5044, 6; the polynomial of iSCSI, RFC 3720,
 * 12.1) by the processor's instructions if it has them, else by tables. Knows
 * nothing of packets. */
#ifndef MPITRACE_CRC32C_H
#define MPITRACE_CRC32C_H

#include "base.h"

/* Continues over bytes; 0 at the beginning. The value of "123456789" is
 * 0xe3069283; on the wire its lowest byte comes first. */
uint32_t mt_crc32c(uint32_t crc, const void *bytes, size_t count);

enum mt_crc_kind { MT_CRC_BY_TABLE, MT_CRC_BY_INSTRUCTION, MT_CRC_BY_FOLDING };

/* One way, for tests. False: the processor cannot. */
bool mt_crc32c_by(enum mt_crc_kind kind, uint32_t *crc, const void *bytes,
                  size_t count);

#endif
