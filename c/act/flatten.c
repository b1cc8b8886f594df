/* flatten.c: what a datatype is made of, asked of the library by envelope and
 * contents (MPI 4.1, 5.1.13), into blocks in the order in which a message
 * carries them. What it does not know, or what has too many blocks, stays with
 * the library (MT_ACT_NATIVE); so does a result that has not the size that the
 * library gives. More blocks are taken of what is too long for the library's
 * MPI_Pack. Open MPI no longer knows what a type was made of when its attributes'
 * callbacks are called. A handle that the library gives out with the contents of a
 * type says nothing of whether the same type was met before: Open MPI makes a copy,
 * and the next one may have its address. Cold: once for each datatype. */
#include <stdlib.h>
#include <string.h>

#include "act.h"

enum {
    MT_ACT_BLOCKS_MAX = 65536,
    MT_ACT_BLOCKS_LONG = 1 << 24,
    MT_ACT_TYPES_MAX = 65536, /* that are not predefined, inside one */
};

struct mt_act_pieces {
    struct mt_block *blocks;
    uint32_t count, room, most;
    uint32_t *types; /* met so far inside the outermost one */
    int64_t extent;
    bool unknown; /* or no memory */
};

/* What the library says of how a type was made; of one made by a large-count
 * function in the form of the other, whose integers these are, too. */
struct mt_act_contents {
    int combiner;
    int64_t *integers;
    MT_Aint *addresses;
    MT_Datatype *types;
    MT_Count integer_count, address_count, large_count, type_count;
};

static void describe(MT_Datatype handle, struct mt_act_pieces *out);

static void add(struct mt_act_pieces *out, int64_t offset, uint64_t bytes)
{
    if (bytes == 0 || out->unknown) {
        return;
    }
    struct mt_block *last = out->blocks + out->count - 1;
    if (out->count > 0 && last->offset + (int64_t)last->bytes == offset) {
        last->bytes += bytes;
        return;
    }
    if (out->count == out->room) {
        uint32_t room = out->room == 0 ? 16 : 2 * out->room;
        struct mt_block *blocks =
            room <= out->most
                ? realloc(out->blocks, room * sizeof(*blocks))
                : NULL;
        if (blocks == NULL) {
            out->unknown = true;
            return;
        }
        out->blocks = blocks;
        out->room = room;
    }
    out->blocks[out->count++] = (struct mt_block){offset, bytes};
}

/* What is in part n times, each a step behind the one before, from at on. Of no type
 * that takes long: of several blocks, which lie apart, each time keeps another one, and
 * a single one that the next joins is n times as long. */
static void repeat(struct mt_act_pieces *out, const struct mt_act_pieces *part,
                   int64_t n, int64_t at, int64_t step)
{
    out->unknown = out->unknown || part->unknown;
    if (part->count == 1 && (int64_t)part->blocks[0].bytes == step && n > 0) {
        add(out, at + part->blocks[0].offset,
            (uint64_t)n * part->blocks[0].bytes);
        return;
    }
    for (int64_t i = 0; i < n && !out->unknown && part->count > 0; i++) {
        for (uint32_t b = 0; b < part->count; b++) {
            add(out, at + i * step + part->blocks[b].offset,
                part->blocks[b].bytes);
        }
    }
}

/* n elements of child behind each other. */
static void append(struct mt_act_pieces *out, const struct mt_act_pieces *child,
                   int64_t n, int64_t at)
{
    repeat(out, child, n, at, child->extent);
}

/* Of predefined types only one has a hole inside: short and int. */
static void describe_named(MT_Datatype handle, struct mt_act_pieces *out)
{
    int size = 0;
    MT_Aint lb = 0, extent = 0;
    if (MT_PMPI(Type_size)(handle, &size) != MT_SUCCESS ||
        MT_PMPI(Type_get_true_extent)(handle, &lb, &extent) != MT_SUCCESS) {
        out->unknown = true;
    } else if (size == extent) {
        add(out, lb, (uint64_t)size);
    } else if (size == 6 && extent == 8 && lb == 0) {
        add(out, 0, 2);
        add(out, 4, 4);
    } else {
        out->unknown = true;
    }
}

static bool is_named(int combiner)
{
    return combiner == MT_COMBINER_NAMED || combiner == MT_COMBINER_F90_REAL ||
           combiner == MT_COMBINER_F90_COMPLEX ||
           combiner == MT_COMBINER_F90_INTEGER;
}

static void describe_vector(const struct mt_act_pieces *child, int64_t n,
                            int64_t length, int64_t step,
                            struct mt_act_pieces *out)
{
    struct mt_act_pieces block = {.most = out->most};
    append(&block, child, length, 0);
    repeat(out, &block, n, 0, step);
    free(block.blocks);
}

/* A part of an array, dimension by dimension: the one whose elements lie behind each
 * other is the last one in C, the first in Fortran. */
static void describe_subarray(const int64_t *integers,
                              const struct mt_act_pieces *child,
                              struct mt_act_pieces *out)
{
    int64_t n = integers[0], stride = child->extent;
    if (n < 1) {
        out->unknown = true;
        return;
    }
    const int64_t *sizes = integers + 1, *part = sizes + n, *start = part + n;
    bool c = start[n] == MT_ORDER_C;
    struct mt_act_pieces inner = {.most = out->most};
    append(&inner, child, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t d = c ? n - 1 - i : i;
        struct mt_act_pieces outer = {.most = out->most};
        repeat(&outer, &inner, part[d], start[d] * stride, stride);
        free(inner.blocks);
        inner = outer;
        stride *= sizes[d];
    }
    append(out, &inner, 1, 0);
    free(inner.blocks);
}

static void describe_struct(const struct mt_act_contents *c,
                            struct mt_act_pieces *out)
{
    for (int64_t i = 0; i < c->integers[0] && !out->unknown; i++) {
        struct mt_act_pieces child = {.most = out->most, .types = out->types};
        describe(c->types[i], &child);
        append(out, &child, c->integers[1 + i], c->addresses[i]);
        free(child.blocks);
    }
}

/* Where block i of a type with one element type lies, and how long it is. */
static bool block_of(const struct mt_act_contents *c, int64_t i,
                     int64_t extent, int64_t *length_p, int64_t *at_p)
{
    const int64_t *integers = c->integers;
    switch (c->combiner) {
    case MT_COMBINER_INDEXED:
        *length_p = integers[1 + i];
        *at_p = extent * integers[1 + integers[0] + i];
        return true;
    case MT_COMBINER_HINDEXED:
        *length_p = integers[1 + i];
        *at_p = c->addresses[i];
        return true;
    case MT_COMBINER_INDEXED_BLOCK:
        *length_p = integers[1];
        *at_p = extent * integers[2 + i];
        return true;
    case MT_COMBINER_HINDEXED_BLOCK:
        *length_p = integers[1];
        *at_p = c->addresses[i];
        return true;
    default:
        return false;
    }
}

static void describe_made(const struct mt_act_contents *c,
                          struct mt_act_pieces *out)
{
    struct mt_act_pieces child = {.most = out->most, .types = out->types};
    if (c->combiner == MT_COMBINER_STRUCT) {
        describe_struct(c, out);
        return;
    }
    if (c->type_count != 1) {
        out->unknown = true;
        return;
    }
    describe(c->types[0], &child);
    out->unknown = out->unknown || child.unknown;
    if (c->combiner == MT_COMBINER_DUP || c->combiner == MT_COMBINER_RESIZED) {
        append(out, &child, 1, 0);
    } else if (c->combiner == MT_COMBINER_CONTIGUOUS) {
        append(out, &child, c->integers[0], 0);
    } else if (c->combiner == MT_COMBINER_VECTOR) {
        describe_vector(&child, c->integers[0], c->integers[1],
                        child.extent * c->integers[2], out);
    } else if (c->combiner == MT_COMBINER_HVECTOR) {
        describe_vector(&child, c->integers[0], c->integers[1], c->addresses[0],
                        out);
    } else if (c->combiner == MT_COMBINER_SUBARRAY) {
        describe_subarray(c->integers, &child, out);
    } else {
        int64_t length = 0, at = 0;
        out->unknown = out->unknown || !block_of(c, 0, 0, &length, &at);
        for (int64_t i = 0; i < c->integers[0] && !out->unknown; i++) {
            block_of(c, i, child.extent, &length, &at);
            append(out, &child, length, at);
        }
    }
    free(child.blocks);
}

/* The library refuses to say this of a type that was made by a large-count
 * function, unless by another one. */
static bool envelope(MT_Datatype handle, struct mt_act_contents *c)
{
    if (MT_PMPI_c(Type_get_envelope) != NULL) {
        return MT_PMPI_c(Type_get_envelope)(
                   handle, &c->integer_count, &c->address_count,
                   &c->large_count, &c->type_count,
                   &c->combiner) == MT_SUCCESS;
    }
    int integers, addresses, types;
    bool known = MT_PMPI(Type_get_envelope)(handle, &integers, &addresses,
                                            &types, &c->combiner) == MT_SUCCESS;
    c->integer_count = known ? integers : 0;
    c->address_count = known ? addresses : 0;
    c->type_count = known ? types : 0;
    return known;
}

/* The handles that the library gave out with the contents are ours to free. */
static void give_back(struct mt_act_contents *c)
{
    for (MT_Count i = 0; i < c->type_count; i++) {
        struct mt_act_contents of = {0};
        if (envelope(c->types[i], &of) && !is_named(of.combiner)) {
            MT_PMPI(Type_free)(&c->types[i]);
        }
    }
}

/* Large counts to where the other function has them: among the integers, but the
 * last ones, displacements in bytes, among the addresses (MPI 4.0, 5.1.13). */
static bool place_large(struct mt_act_contents *c, const MT_Count *large)
{
    MT_Count first = c->large_count;
    switch (c->combiner) {
    case MT_COMBINER_HVECTOR:
    case MT_COMBINER_HINDEXED_BLOCK:
        first = 2;
        break;
    case MT_COMBINER_HINDEXED:
    case MT_COMBINER_STRUCT:
        first = 1 + large[0];
        break;
    case MT_COMBINER_SUBARRAY: /* between the dimensions and the order */
        c->integers[1 + first] = c->integers[1];
        memcpy(c->integers + 1, large, (size_t)first * sizeof(*large));
        return true;
    case MT_COMBINER_CONTIGUOUS:
    case MT_COMBINER_VECTOR:
    case MT_COMBINER_INDEXED:
    case MT_COMBINER_INDEXED_BLOCK:
    case MT_COMBINER_RESIZED:
        break;
    default:
        return false;
    }
    memcpy(c->integers, large, (size_t)first * sizeof(*large));
    memcpy(c->addresses, large + first,
           (size_t)(c->large_count - first) * sizeof(*large));
    return true;
}

/* The library's answer, in memory that has room for it. */
static bool ask(MT_Datatype handle, struct mt_act_contents *c, int *integers,
                MT_Count *large)
{
    int rc = MT_PMPI_c(Type_get_contents) != NULL
                 ? MT_PMPI_c(Type_get_contents)(
                       handle, c->integer_count, c->address_count,
                       c->large_count, c->type_count, integers, c->addresses,
                       large, c->types)
                 : MT_PMPI(Type_get_contents)(
                       handle, (int)c->integer_count, (int)c->address_count,
                       (int)c->type_count, integers, c->addresses, c->types);
    for (MT_Count i = 0; i < c->integer_count; i++) {
        c->integers[i] = integers[i];
    }
    return rc == MT_SUCCESS;
}

_Static_assert(sizeof(MT_Count) == sizeof(int64_t) &&
                   sizeof(MT_Aint) == sizeof(int64_t),
               "large counts are copied to either");

static void describe(MT_Datatype handle, struct mt_act_pieces *out)
{
    struct mt_act_contents c = {0};
    MT_Aint lb = 0, extent = 0;
    if (!envelope(handle, &c) ||
        MT_PMPI(Type_get_extent)(handle, &lb, &extent) != MT_SUCCESS) {
        out->unknown = true;
        return;
    }
    out->extent = extent;
    if (is_named(c.combiner)) {
        describe_named(handle, out);
        return;
    }
    if (++*out->types > MT_ACT_TYPES_MAX) {
        out->unknown = true;
        return;
    }
    size_t counts = (size_t)(c.integer_count + c.large_count) + 1;
    int *integers = calloc((size_t)c.integer_count + 1, sizeof(*integers));
    MT_Count *large = calloc((size_t)c.large_count + 1, sizeof(*large));
    c.integers = calloc(counts, sizeof(*c.integers));
    c.addresses = calloc((size_t)(c.address_count + c.large_count) + 1,
                         sizeof(*c.addresses));
    c.types = calloc((size_t)c.type_count + 1, sizeof(*c.types));
    if (integers == NULL || large == NULL || c.integers == NULL ||
        c.addresses == NULL || c.types == NULL ||
        !ask(handle, &c, integers, large)) {
        out->unknown = true;
    } else {
        if (c.large_count == 0 || place_large(&c, large)) {
            describe_made(&c, out);
        } else {
            out->unknown = true;
        }
        give_back(&c);
    }
    free(integers);
    free(large);
    free(c.integers);
    free(c.addresses);
    free(c.types);
}

static bool size_of(MT_Datatype handle, uint64_t *size_p)
{
    MT_Count size = 0;
    bool known =
        MT_PMPI(Type_size_x)(handle, &size) == MT_SUCCESS && size >= 0;
    *size_p = (uint64_t)size;
    return known;
}

bool mt_act_type_is_named(MT_Datatype handle)
{
    struct mt_act_contents made = {0};
    return envelope(handle, &made) && made.combiner == MT_COMBINER_NAMED;
}

/* Whether the library has the same ends: Open MPI 4.1 begins a vector of single bytes that
 * goes backwards where it should end. */
static bool same_ends(const struct mt_act_pieces *pieces, MT_Aint first,
                      MT_Aint extent)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (uint32_t i = 0; i < pieces->count; i++) {
        const struct mt_block *block = &pieces->blocks[i];
        least = block->offset < least ? block->offset : least;
        most = block->offset + (int64_t)block->bytes > most
                   ? block->offset + (int64_t)block->bytes
                   : most;
    }
    return pieces->count == 0 || (least == first && most - least == extent);
}

void mt_act_flatten(MT_Datatype handle, bool ends, struct mt_act_type *type)
{
    uint32_t types = 0;
    uint64_t sum = 0, size = 0;
    MT_Aint lb = 0, extent = 0, first = 0, between = 0;
    bool sized = size_of(handle, &size);
    struct mt_act_pieces pieces = {
        .most = size > INT32_MAX ? MT_ACT_BLOCKS_LONG : MT_ACT_BLOCKS_MAX,
        .types = &types};
    if (ends) {
        pieces.unknown = true;
    } else {
        describe(handle, &pieces);
    }
    for (uint32_t i = 0; i < pieces.count; i++) {
        sum += pieces.blocks[i].bytes;
    }
    type->layout.extent = pieces.extent;
    type->layout.size = size;
    MT_PMPI(Type_get_true_extent)(handle, &first, &between);
    if (pieces.unknown || !sized || sum != size ||
        !same_ends(&pieces, first, between)) {
        free(pieces.blocks);
        type->shape = MT_ACT_NATIVE;
        MT_PMPI(Type_get_extent)(handle, &lb, &extent);
        type->layout.extent = extent;
        type->offset = first;
    } else if (pieces.count == 0 ||
               (pieces.count == 1 && (int64_t)sum == pieces.extent)) {
        type->shape = MT_ACT_PLAIN;
        type->offset = pieces.count == 0 ? 0 : pieces.blocks[0].offset;
        free(pieces.blocks);
    } else {
        type->shape = MT_ACT_BLOCKS;
        type->blocks = pieces.blocks;
        type->layout.blocks = pieces.blocks;
        type->layout.block_count = pieces.count;
    }
}
