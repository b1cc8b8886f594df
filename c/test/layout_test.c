/* sources: c/engine/layout.c c/fabric/crc32c.c */
/* Payload of types with gaps in several steps of any length, with a place that is
 * kept between them, or not; against its bytes one by one. */
#include "../engine/layout.h"

#include <stdlib.h>

#include "check.h"

enum { BLOCKS = 12, ELEMENTS = 7, MEMORY = 1 << 12 };

static char memory[MEMORY], wanted[MEMORY];
static unsigned long long state = 1;

static uint32_t any(uint32_t below)
{
    return (uint32_t)(check_random(&state) % below);
}

/* The twin: byte number at of the payload. */
static char *byte_at(const struct mt_buffer *buffer, uint64_t at)
{
    const struct mt_layout *l = buffer->layout;
    char *element = (char *)buffer->address + (int64_t)(at / l->size) * l->extent;
    uint64_t inside = at % l->size;
    uint32_t b = 0;
    while (inside >= l->blocks[b].bytes) {
        inside -= l->blocks[b++].bytes;
    }
    return element + l->blocks[b].offset + inside;
}

static void any_layout(struct mt_layout *l, struct mt_block *blocks)
{
    int64_t at = 0;
    *l = (struct mt_layout){.blocks = blocks,
                            .block_count = 1 + any(BLOCKS)};
    for (uint32_t i = 0; i < l->block_count; i++) {
        at += any(5);
        blocks[i] = (struct mt_block){
            .offset = at,
            .bytes = any(4) == 0 && i + 1 < l->block_count ? 0 : 1 + any(40)};
        at += (int64_t)blocks[i].bytes;
        l->size += blocks[i].bytes;
    }
    l->extent = at + any(9);
}

/* Some steps are made twice, as one is that finds no room to leave. */
static void steps(const struct mt_buffer *buffer, bool keeps, bool out)
{
    struct mt_place place = {0};
    for (uint64_t at = 0; at < buffer->bytes;) {
        uint64_t n = 1 + any(100);
        char part[100];
        n = n < buffer->bytes - at ? n : buffer->bytes - at;
        for (uint32_t again = any(2) + 1; again > 0; again--) {
            if (out) {
                mt_layout_pack(buffer, at, part, n, keeps ? &place : NULL);
            } else {
                for (uint64_t i = 0; i < n; i++) {
                    part[i] = (char)(at + i);
                }
                mt_layout_unpack(buffer, at, part, n, keeps ? &place : NULL);
            }
        }
        for (uint64_t i = 0; i < n; i++) {
            CHECK(part[i] == *byte_at(buffer, at + i));
        }
        at += n;
    }
}

int main(void)
{
    for (uint32_t round = 0; round < 4000; round++) {
        struct mt_block blocks[BLOCKS];
        struct mt_layout layout;
        any_layout(&layout, blocks);
        struct mt_buffer buffer = {.address = memory + 64, .layout = &layout};
        buffer.bytes = layout.size * (1 + any(ELEMENTS));
        for (uint32_t i = 0; i < MEMORY; i++) {
            memory[i] = wanted[i] = (char)any(256);
        }
        steps(&buffer, round % 2 == 0, true);
        CHECK(memcmp(memory, wanted, MEMORY) == 0); /* read only */
        steps(&buffer, round % 2 == 0, false);
        for (uint64_t i = 0; i < buffer.bytes; i++) {
            *(wanted + (byte_at(&buffer, i) - memory)) = (char)i;
        }
        CHECK(memcmp(memory, wanted, MEMORY) == 0); /* and nothing beside */
    }
    return check_failures != 0;
}
