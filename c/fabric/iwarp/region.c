/* region.c: registered memory: which keys (STags) name which bytes. Under the
 * lock of the context. */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <sys/mman.h>

#include "iwarp.h"

/* An entry that is free, MT_IWARP_REGIONS if none is. */
static uint32_t mt_region_free(struct mt_iwarp_context *context)
{
    for (uint32_t n = 0; n < MT_IWARP_REGIONS; n++) {
        uint32_t i = (context->next_region + n) % MT_IWARP_REGIONS;
        if (context->regions[i].key == 0) {
            context->next_region = i + 1;
            return i;
        }
    }
    return MT_IWARP_REGIONS;
}

static enum mt_status mt_region_add(struct mt_iwarp_context *context,
                                    struct mt_iwarp_mr *mr, uint32_t access)
{
    mr->index = mt_region_free(context);
    if (mr->index == MT_IWARP_REGIONS) {
        return MT_ENOMEM;
    }
    struct mt_iwarp_region *region = &context->regions[mr->index];
    region->address = (uint64_t)(uintptr_t)mr->base.address;
    region->bytes = mr->base.bytes;
    region->access = access;
    region->allocated = mr->allocated;
    region->key = mt_soft_key(mr->index, region->turns++, MT_IWARP_REGIONS);
    mr->base.lkey = mr->base.rkey = region->key;
    return MT_OK;
}

enum mt_status mt_iwarp_mr_create(struct mt_fabric_pd *pd, void *address,
                                  size_t bytes, uint32_t access,
                                  struct mt_fabric_mr **mr_p)
{
    struct mt_iwarp_context *context = (struct mt_iwarp_context *)pd->context;
    struct mt_iwarp_mr *mr = calloc(1, sizeof(*mr));
    if (mr == NULL) {
        return MT_ENOMEM;
    }
    mr->allocated = address == NULL;
    if (mr->allocated) {
        address = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (address == MAP_FAILED) {
            free(mr);
            return MT_ENOMEM;
        }
    }
    mr->base.address = address;
    mr->base.bytes = bytes;
    mt_soft_lock(&context->soft);
    enum mt_status status = mt_region_add(context, mr, access);
    mt_soft_unlock(&context->soft);
    if (status != MT_OK) {
        if (mr->allocated) {
            munmap(address, bytes);
        }
        free(mr);
        return status;
    }
    *mr_p = &mr->base;
    return MT_OK;
}

/* Answers that have not left lie in the memory of the region, which goes: those of queue
 * pairs that wait for room in their sockets. */
static void mt_answers_end(struct mt_iwarp_context *context, uint32_t stag)
{
    for (uint32_t i = 0; context->waiting > 0 && i < context->live_count; i++) {
        struct mt_iwarp_qp *qp = context->live[i];
        if (qp->waits && mt_iwarp_answers(qp, stag)) {
            mt_iwarp_fail(qp, NULL, MT_EACCESS, MT_TERM_ACCESS_STAG, NULL);
        }
    }
}

void mt_iwarp_mr_destroy(struct mt_fabric_mr *base)
{
    struct mt_iwarp_mr *mr = (struct mt_iwarp_mr *)base;
    struct mt_iwarp_context *context =
        (struct mt_iwarp_context *)base->pd->context;
    mt_soft_lock(&context->soft);
    mt_answers_end(context, base->rkey);
    context->regions[mr->index].key = 0;
    mt_soft_unlock(&context->soft);
    if (mr->allocated) {
        munmap(mr->base.address, mr->base.bytes);
    }
    free(mr);
}

bool mt_iwarp_may(const struct mt_iwarp_context *context, uint32_t key,
                  uint64_t address, uint64_t bytes, uint32_t access)
{
    const struct mt_iwarp_region *region =
        &context->regions[(key - 1) % MT_IWARP_REGIONS];
    if (bytes == 0) {
        return true; /* RFC 5040, 5.1: the STag is not looked at */
    }
    return key != 0 && region->key == key &&
           (region->access & access) == access && address >= region->address &&
           bytes <= region->bytes &&
           address - region->address <= region->bytes - bytes;
}

bool mt_iwarp_may_pieces(const struct mt_iwarp_context *context,
                         const struct mt_fabric_piece *pieces, uint32_t count,
                         uint32_t access)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!mt_iwarp_may(context, pieces[i].lkey,
                          (uint64_t)(uintptr_t)pieces[i].address,
                          pieces[i].bytes, access)) {
            return false;
        }
    }
    return true;
}

bool mt_iwarp_keeps_still(const struct mt_iwarp_context *context,
                          const struct mt_fabric_piece *pieces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t key = pieces[i].lkey;
        if (key == 0 ||
            !context->regions[(key - 1) % MT_IWARP_REGIONS].allocated) {
            return false;
        }
    }
    return true;
}
