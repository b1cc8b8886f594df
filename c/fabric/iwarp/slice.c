/* slice.c: parts of lists of pieces, as the system calls want them. */
#include "../../include/crc32c.h"
#include "iwarp.h"

uint32_t mt_iwarp_slice(const struct mt_fabric_piece *pieces, uint32_t count,
                        uint64_t skip, uint64_t bytes, struct iovec *iov)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count && bytes > 0; i++) {
        if (skip >= pieces[i].bytes) {
            skip -= pieces[i].bytes;
            continue;
        }
        uint64_t part = pieces[i].bytes - skip;
        part = part < bytes ? part : bytes;
        iov[n++] = (struct iovec){(char *)pieces[i].address + skip, part};
        bytes -= part;
        skip = 0;
    }
    return n;
}

uint32_t mt_iwarp_crc(uint32_t crc, const struct iovec *iov, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        crc = mt_crc32c(crc, iov[i].iov_base, iov[i].iov_len);
    }
    return crc;
}

/* In steps for which what was copied is still near. */
enum { MT_SLICE_STEP = 4096 };

uint32_t mt_iwarp_gather(const struct mt_fabric_piece *pieces, uint32_t count,
                         uint64_t skip, uint8_t *to, uint32_t bytes,
                         uint32_t crc)
{
    for (uint32_t n; bytes > 0; bytes -= n, skip += n, to += n) {
        n = bytes < MT_SLICE_STEP ? bytes : MT_SLICE_STEP;
        mt_soft_gather(pieces, count, skip, to, n);
        crc = mt_crc32c(crc, to, n);
    }
    return crc;
}

uint32_t mt_iwarp_scatter(const struct mt_fabric_piece *pieces, uint32_t count,
                          uint64_t skip, const uint8_t *from, uint32_t bytes,
                          uint32_t crc)
{
    for (uint32_t n; bytes > 0; bytes -= n, skip += n, from += n) {
        n = bytes < MT_SLICE_STEP ? bytes : MT_SLICE_STEP;
        crc = mt_crc32c(crc, from, n);
        mt_soft_scatter(pieces, count, skip, from, n);
    }
    return crc;
}
