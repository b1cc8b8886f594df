/* layout.c: see layout.h. */
#include "layout.h"

#include <string.h>

#include "../include/crc32c.h"

/* The longest row from here; address_p is where. */
static uint64_t mt_place_row(const struct mt_place *p, char **address_p)
{
    const struct mt_layout *l = p->buffer->layout;
    if (l == NULL) {
        *address_p = p->element + p->inside;
        return UINT64_MAX;
    }
    const struct mt_block *b = &l->blocks[p->block];
    *address_p = p->element + b->offset + p->inside;
    return b->bytes - p->inside;
}

/* bytes: at most the row, so there are some, and the loop ends at them; or 0. */
static void mt_place_move(struct mt_place *p, uint64_t bytes)
{
    const struct mt_layout *l = p->buffer->layout;
    p->at += bytes;
    p->inside += bytes;
    while (l != NULL && p->inside == l->blocks[p->block].bytes) {
        p->inside = 0;
        if (++p->block == l->block_count) {
            p->block = 0;
            p->element += l->extent;
        }
    }
}

/* Of a buffer with payload; from a place before it, if there is one. */
static struct mt_place mt_place_at(const struct mt_buffer *buffer, uint64_t at,
                                   const struct mt_place *before)
{
    const struct mt_layout *l = buffer->layout;
    struct mt_place p = {.buffer = buffer, .element = buffer->address};
    if (before != NULL && before->buffer == buffer && before->at <= at) {
        p = *before;
    }
    if (l != NULL && l->size > 0) {
        uint64_t whole = (at - p.at) / l->size;
        p.element += (int64_t)whole * l->extent;
        p.at += whole * l->size;
    }
    mt_place_move(&p, 0); /* over blocks of no bytes */
    while (p.at < at) {
        char *address;
        uint64_t n = mt_place_row(&p, &address);
        mt_place_move(&p, n < at - p.at ? n : at - p.at);
    }
    return p;
}

void mt_layout_copy(const struct mt_buffer *to, const struct mt_buffer *from,
                    uint64_t bytes)
{
    if (bytes == 0) {
        return;
    }
    struct mt_place t = mt_place_at(to, 0, NULL);
    struct mt_place f = mt_place_at(from, 0, NULL);
    while (bytes > 0) {
        char *target, *source;
        uint64_t n = mt_place_row(&t, &target);
        uint64_t m = mt_place_row(&f, &source);
        n = n < m ? n : m;
        n = n < bytes ? n : bytes;
        memmove(target, source, n); /* a process may send to itself in place */
        mt_place_move(&t, n);
        mt_place_move(&f, n);
        bytes -= n;
    }
}

void mt_layout_gather(const struct mt_buffer *buffer, uint64_t from, void *to,
                      uint64_t bytes, struct mt_place *place)
{
    if (bytes == 0) {
        return;
    }
    struct mt_place p = mt_place_at(buffer, from, place);
    if (place != NULL) {
        *place = p; /* not its end: this step may be made again */
    }
    for (char *target = to; bytes > 0;) {
        char *source;
        uint64_t n = mt_place_row(&p, &source);
        n = n < bytes ? n : bytes;
        memcpy(target, source, n);
        mt_place_move(&p, n);
        target += n;
        bytes -= n;
    }
}

void mt_layout_scatter(const struct mt_buffer *buffer, uint64_t to,
                       const void *from, uint64_t bytes,
                       struct mt_place *place)
{
    if (bytes == 0) {
        return;
    }
    struct mt_place p = mt_place_at(buffer, to, place);
    if (place != NULL) {
        *place = p;
    }
    for (const char *source = from; bytes > 0;) {
        char *target;
        uint64_t n = mt_place_row(&p, &target);
        n = n < bytes ? n : bytes;
        memcpy(target, source, n);
        mt_place_move(&p, n);
        source += n;
        bytes -= n;
    }
}

uint32_t mt_layout_checksum(const struct mt_buffer *buffer, uint64_t bytes)
{
    uint32_t sum = 0;
    if (bytes == 0) {
        return 0;
    }
    struct mt_place p = mt_place_at(buffer, 0, NULL);
    while (bytes > 0) {
        char *source;
        uint64_t n = mt_place_row(&p, &source);
        n = n < bytes ? n : bytes;
        sum = mt_crc32c(sum, source, n);
        mt_place_move(&p, n);
        bytes -= n;
    }
    return sum;
}
