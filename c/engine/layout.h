/* layout.h: moving payload between the memory of a message that is not
 * contiguous and bytes in a row. */
#ifndef MPITRACE_ENGINE_LAYOUT_H
#define MPITRACE_ENGINE_LAYOUT_H

#include "../include/engine.h"

MT_INLINE bool mt_contiguous(const struct mt_buffer *buffer)
{
    return buffer->layout == NULL;
}

/* Payload from .. from + bytes of the buffer, out of it or into it; the caller
 * keeps within buffer->bytes. */
void mt_layout_pack(const struct mt_buffer *buffer, uint64_t from, void *to,
                    uint64_t bytes);
void mt_layout_unpack(const struct mt_buffer *buffer, uint64_t to,
                      const void *from, uint64_t bytes);

/* The first bytes of one buffer into another, both of which have them. */
void mt_layout_copy(const struct mt_buffer *to, const struct mt_buffer *from,
                    uint64_t bytes);

/* CRC32C of the first bytes, in the order in which they go into a message. */
uint32_t mt_layout_checksum(const struct mt_buffer *buffer, uint64_t bytes);

#endif
