/* layout.h: moving payload between the memory of a message that is not
 * contiguous and bytes in a row. */
#ifndef MPITRACE_ENGINE_LAYOUT_H
#define MPITRACE_ENGINE_LAYOUT_H

#include <string.h>

#include "../include/engine.h"

/* A place in a buffer: block and element, and how many bytes of payload lie before
 * it. Whoever goes through a message in several steps keeps one: to find a place
 * from the beginning takes a look at each block. Zeroed: not known. */
struct mt_place {
    const struct mt_buffer *buffer;
    char *element;
    uint64_t at, inside; /* the payload, the block */
    uint32_t block;
};

MT_INLINE bool mt_contiguous(const struct mt_buffer *buffer)
{
    return buffer->layout == NULL;
}

void mt_layout_gather(const struct mt_buffer *buffer, uint64_t from, void *to,
                      uint64_t bytes, struct mt_place *place);
void mt_layout_scatter(const struct mt_buffer *buffer, uint64_t to,
                       const void *from, uint64_t bytes,
                       struct mt_place *place);

/* Payload from .. from + bytes of the buffer, out of it or into it; the caller
 * keeps within buffer->bytes. place: of a step before this one, for the next one;
 * NULL: there is one step. */
MT_INLINE void mt_layout_pack(const struct mt_buffer *buffer, uint64_t from,
                              void *to, uint64_t bytes,
                              struct mt_place *place)
{
    if (mt_unlikely(!mt_contiguous(buffer))) {
        mt_layout_gather(buffer, from, to, bytes, place);
    } else if (bytes > 0) {
        memcpy(to, (const char *)buffer->address + from, bytes);
    }
}

MT_INLINE void mt_layout_unpack(const struct mt_buffer *buffer, uint64_t to,
                                const void *from, uint64_t bytes,
                                struct mt_place *place)
{
    if (mt_unlikely(!mt_contiguous(buffer))) {
        mt_layout_scatter(buffer, to, from, bytes, place);
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
