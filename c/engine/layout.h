/* layout.h: moving payload between the memory of a message that is not
 * contiguous and bytes in a row. */
#ifndef MPITRACE_ENGINE_LAYOUT_H
#define MPITRACE_ENGINE_LAYOUT_H

#include <string.h>

#include "../include/engine.h"

MT_INLINE bool mt_contiguous(const struct mt_buffer *buffer)
{
    return buffer->layout == NULL;
}

void mt_layout_gather(const struct mt_buffer *buffer, uint64_t from, void *to,
                      uint64_t bytes);
void mt_layout_scatter(const struct mt_buffer *buffer, uint64_t to,
                       const void *from, uint64_t bytes);

/* Payload from .. from + bytes of the buffer, out of it or into it; the caller
 * keeps within buffer->bytes. */
MT_INLINE void mt_layout_pack(const struct mt_buffer *buffer, uint64_t from,
                              void *to, uint64_t bytes)
{
    if (mt_unlikely(!mt_contiguous(buffer))) {
        mt_layout_gather(buffer, from, to, bytes);
    } else if (bytes > 0) {
        memcpy(to, (const char *)buffer->address + from, bytes);
    }
}

MT_INLINE void mt_layout_unpack(const struct mt_buffer *buffer, uint64_t to,
                                const void *from, uint64_t bytes)
{
    if (mt_unlikely(!mt_contiguous(buffer))) {
        mt_layout_scatter(buffer, to, from, bytes);
    } else if (bytes > 0) {
        memcpy((char *)buffer->address + to, from, bytes);
    }
}

/* The first bytes of one buffer into another, both of which have them. */
void mt_layout_copy(const struct mt_buffer *to, const struct mt_buffer *from,
                    uint64_t bytes);

/* CRC32C of the first bytes, in the order in which they go into a message. */
uint32_t mt_layout_checksum(const struct mt_buffer *buffer, uint64_t bytes);

#endif
