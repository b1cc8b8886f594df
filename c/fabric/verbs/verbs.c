/* verbs.c: memory, completion queues, channels, shared receive queues; and the
 * table of the provider. */
#define _GNU_SOURCE 1
#include "verbs.h"

#if MT_VERBS

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum mt_status mt_verbs_status(int error)
{
    switch (error) {
    case 0:
    case EIO:
        return MT_EIO;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
        return MT_ENOMEM;
    case EPERM:
    case EACCES:
        return MT_EPERM;
    case EINVAL:
    case EFAULT: /* memory that is not there */
        return MT_EINVAL;
    case EOPNOTSUPP:
    case ENOSYS:
        return MT_ENOTSUP;
    case ENODEV:
    case ENOENT:
    case ENXIO:
        return MT_ENODEVICE;
    default:
        return MT_EIO;
    }
}

/* ---- owners ---- */

enum mt_status mt_verbs_owner_make(struct mt_verbs_context *context,
                                   struct mt_verbs_qp *qp,
                                   struct mt_verbs_srq *srq, uint32_t *owner_p)
{
    enum mt_status status = MT_OK;
    uint32_t i = 0;
    mt_verbs_lock(context);
    while (i < context->owner_count &&
           (mt_verbs_owner_at(context, i)->qp != NULL ||
            mt_verbs_owner_at(context, i)->srq != NULL)) {
        i++;
    }
    uint32_t chunk = i / MT_VERBS_CHUNK;
    if (chunk == MT_VERBS_CHUNKS) {
        status = MT_ENOMEM;
    } else if (context->owners[chunk] == NULL) {
        context->owners[chunk] =
            calloc(MT_VERBS_CHUNK, sizeof(struct mt_verbs_owner));
        status = context->owners[chunk] != NULL ? MT_OK : MT_ENOMEM;
    }
    if (status == MT_OK) {
        struct mt_verbs_owner *owner = mt_verbs_owner_at(context, i);
        owner->qp = qp;
        owner->srq = srq;
        context->owner_count += i == context->owner_count;
        *owner_p = i;
    }
    mt_verbs_unlock(context);
    return status;
}

void mt_verbs_owner_renew(struct mt_verbs_context *context, uint32_t owner)
{
    mt_verbs_owner_at(context, owner)->generation++;
}

void mt_verbs_owner_free(struct mt_verbs_context *context, uint32_t owner)
{
    struct mt_verbs_owner *o = mt_verbs_owner_at(context, owner);
    mt_verbs_owner_renew(context, owner);
    o->qp = NULL;
    o->srq = NULL;
}

/* ---- memory ---- */

static enum mt_status mt_verbs_pd_create(struct mt_fabric_context *base,
                                         struct mt_fabric_pd **pd_p)
{
    struct mt_verbs_context *context = (struct mt_verbs_context *)base;
    struct mt_verbs_pd *pd = calloc(1, sizeof(*pd));
    if (pd == NULL) {
        return MT_ENOMEM;
    }
    pd->pd = mt_verbs_library()->alloc_pd(context->device);
    if (pd->pd == NULL) {
        free(pd);
        return mt_verbs_status(errno);
    }
    pd->base.ops = base->ops;
    *pd_p = &pd->base;
    return MT_OK;
}

static void mt_verbs_pd_destroy(struct mt_fabric_pd *base)
{
    struct mt_verbs_pd *pd = (struct mt_verbs_pd *)base;
    mt_verbs_library()->dealloc_pd(pd->pd);
    free(pd);
}

/* The kernel says ENOMEM when the limit on pinned memory is reached. */
static void mt_say_limits(struct mt_verbs_context *context, size_t bytes,
                          int error)
{
    struct rlimit limit = {0, 0};
    bool told =
        __atomic_exchange_n(&context->told_of_limits, true, __ATOMIC_RELAXED);
    if (told || mt_verbs_status(error) == MT_EINVAL) {
        return;
    }
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) {
        mt_fabric_say(&context->base.options,
                      "verbs: %zu bytes could not be registered: %s", bytes,
                      strerror(error));
        return;
    }
    mt_fabric_say(&context->base.options,
                  "verbs: %zu bytes could not be registered: %s; RLIMIT_MEMLOCK "
                  "is %llu bytes: raise it (ulimit -l unlimited, or memlock in "
                  "/etc/security/limits.conf), or grant CAP_IPC_LOCK",
                  bytes, strerror(error), (unsigned long long)limit.rlim_cur);
}

/* Relaxed ordering is an access flag, and not among these. */
static int mt_access(uint32_t access)
{
    return ((access & MT_FABRIC_LOCAL_WRITE) != 0 ? IBV_ACCESS_LOCAL_WRITE : 0) |
           ((access & MT_FABRIC_REMOTE_WRITE) != 0 ? IBV_ACCESS_REMOTE_WRITE
                                                   : 0) |
           ((access & MT_FABRIC_REMOTE_READ) != 0 ? IBV_ACCESS_REMOTE_READ : 0);
}

static enum mt_status mt_verbs_mr_create(struct mt_fabric_pd *pd, void *address,
                                         size_t bytes, uint32_t access,
                                         struct mt_fabric_mr **mr_p)
{
    struct mt_verbs_mr *mr = calloc(1, sizeof(*mr));
    void *memory = address;
    if (mr != NULL && address == NULL) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (mr == NULL || memory == MAP_FAILED) {
        free(mr);
        return MT_ENOMEM;
    }
    /* Nothing of a context is used in a child. With a kernel before 5.12 the pages that
     * the device knows might become the child's, at the first store of the parent. */
    if (address == NULL) {
        madvise(memory, bytes, MADV_DONTFORK);
    }
    mr->mr = mt_verbs_library()->reg_mr(((struct mt_verbs_pd *)pd)->pd, memory,
                                        bytes, mt_access(access));
    if (mr->mr == NULL) {
        int error = errno;
        if (address == NULL) {
            munmap(memory, bytes);
        }
        free(mr);
        mt_say_limits((struct mt_verbs_context *)pd->context, bytes, error);
        return mt_verbs_status(error);
    }
    mr->allocated = address == NULL;
    mr->base.address = memory;
    mr->base.bytes = bytes;
    mr->base.lkey = mr->mr->lkey;
    mr->base.rkey = mr->mr->rkey;
    *mr_p = &mr->base;
    return MT_OK;
}

static void mt_verbs_mr_destroy(struct mt_fabric_mr *base)
{
    struct mt_verbs_mr *mr = (struct mt_verbs_mr *)base;
    mt_verbs_library()->dereg_mr(mr->mr);
    if (mr->allocated) {
        munmap(base->address, base->bytes);
    }
    free(mr);
}

/* ---- completion ---- */

static enum mt_status mt_verbs_channel_create(struct mt_fabric_context *base,
                                              struct mt_fabric_channel **channel_p)
{
    struct mt_verbs_context *context = (struct mt_verbs_context *)base;
    struct mt_verbs_channel *channel = calloc(1, sizeof(*channel));
    if (channel == NULL) {
        return MT_ENOMEM;
    }
    channel->channel = mt_verbs_library()->create_comp_channel(context->device);
    int flags = channel->channel != NULL ? fcntl(channel->channel->fd, F_GETFL)
                                         : -1;
    if (flags < 0 ||
        fcntl(channel->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        enum mt_status status = mt_verbs_status(errno);
        if (channel->channel != NULL) {
            mt_verbs_library()->destroy_comp_channel(channel->channel);
        }
        free(channel);
        return status;
    }
    channel->base.ops = base->ops;
    channel->base.fd = channel->channel->fd;
    *channel_p = &channel->base;
    return MT_OK;
}

static void mt_verbs_channel_destroy(struct mt_fabric_channel *base)
{
    struct mt_verbs_channel *channel = (struct mt_verbs_channel *)base;
    mt_verbs_library()->destroy_comp_channel(channel->channel);
    free(channel);
}

static enum mt_status mt_verbs_channel_take(struct mt_fabric_channel *base,
                                            struct mt_fabric_cq **cq_p)
{
    enum { BATCH = 64 };
    struct mt_verbs_channel *channel = (struct mt_verbs_channel *)base;
    struct ibv_cq *fired;
    void *user;
    if (mt_verbs_library()->get_cq_event(channel->channel, &fired, &user) != 0) {
        return errno == EAGAIN ? MT_EAGAIN : mt_verbs_status(errno);
    }
    struct mt_verbs_cq *cq = user;
    if (__atomic_add_fetch(&cq->unacknowledged, 1, __ATOMIC_RELAXED) >= BATCH) {
        uint32_t count =
            __atomic_exchange_n(&cq->unacknowledged, 0, __ATOMIC_RELAXED);
        mt_verbs_library()->ack_cq_events(fired, count);
    }
    *cq_p = &cq->base;
    return MT_OK;
}

static enum mt_status mt_verbs_cq_create(struct mt_fabric_context *base,
                                         uint32_t depth,
                                         struct mt_fabric_channel *channel,
                                         struct mt_fabric_cq **cq_p)
{
    struct mt_verbs_context *context = (struct mt_verbs_context *)base;
    struct mt_verbs_cq *cq =
        depth <= INT32_MAX ? calloc(1, sizeof(*cq)) : NULL;
    if (cq == NULL) {
        return depth <= INT32_MAX ? MT_ENOMEM : MT_EINVAL;
    }
    cq->cq = mt_verbs_library()->create_cq(
        context->device, (int)depth, cq,
        channel != NULL ? ((struct mt_verbs_channel *)channel)->channel : NULL,
        0);
    if (cq->cq == NULL) {
        free(cq);
        return mt_verbs_status(errno);
    }
    cq->base.ops = base->ops;
    *cq_p = &cq->base;
    return MT_OK;
}

static void mt_verbs_cq_destroy(struct mt_fabric_cq *base)
{
    struct mt_verbs_cq *cq = (struct mt_verbs_cq *)base;
    /* it would wait for them for ever */
    if (cq->unacknowledged > 0) {
        mt_verbs_library()->ack_cq_events(cq->cq, cq->unacknowledged);
    }
    mt_verbs_library()->destroy_cq(cq->cq);
    free(cq);
}

static enum mt_status mt_verbs_cq_arm(struct mt_fabric_cq *base, bool solicited)
{
    struct mt_verbs_cq *cq = (struct mt_verbs_cq *)base;
    int error = ibv_req_notify_cq(cq->cq, solicited);
    return error == 0 ? MT_OK : mt_verbs_status(error);
}

/* ---- shared receive queues ---- */

static enum mt_status mt_srq_start(struct mt_verbs_srq *srq,
                                   struct mt_verbs_pd *pd,
                                   const struct mt_fabric_srq_options *options)
{
    struct ibv_srq_init_attr attributes = {
        .srq_context = srq,
        .attr = {.max_wr = options->depth, .max_sge = options->pieces}};
    struct mt_verbs_context *context =
        (struct mt_verbs_context *)pd->base.context;
    enum mt_status status =
        mt_verbs_queue_make(&srq->receives, options->depth, false);
    if (status == MT_OK) {
        srq->srq = mt_verbs_library()->create_srq(pd->pd, &attributes);
        status = srq->srq != NULL ? MT_OK : mt_verbs_status(errno);
    }
    if (status == MT_OK) {
        status = mt_verbs_owner_make(context, NULL, srq, &srq->owner);
    }
    return status;
}

static enum mt_status
mt_verbs_srq_create(struct mt_fabric_pd *pd,
                    const struct mt_fabric_srq_options *options,
                    struct mt_fabric_srq **srq_p)
{
    struct mt_verbs_srq *srq = calloc(1, sizeof(*srq));
    if (srq == NULL) {
        return MT_ENOMEM;
    }
    enum mt_status status =
        mt_srq_start(srq, (struct mt_verbs_pd *)pd, options);
    if (status != MT_OK) {
        if (srq->srq != NULL) {
            mt_verbs_library()->destroy_srq(srq->srq);
        }
        mt_verbs_queue_free(&srq->receives);
        free(srq);
        return status;
    }
    srq->base.ops = pd->context->ops;
    *srq_p = &srq->base;
    return MT_OK;
}

static void mt_verbs_srq_destroy(struct mt_fabric_srq *base)
{
    struct mt_verbs_srq *srq = (struct mt_verbs_srq *)base;
    struct mt_verbs_context *context =
        (struct mt_verbs_context *)base->pd->context;
    mt_verbs_library()->destroy_srq(srq->srq);
    mt_verbs_lock(context);
    mt_verbs_owner_free(context, srq->owner);
    mt_verbs_unlock(context);
    mt_verbs_queue_free(&srq->receives);
    free(srq);
}

static bool mt_verbs_counters(const struct mt_fabric_device *device,
                              uint32_t port, uint32_t n, char *path,
                              size_t bytes)
{
    static const char *const kinds[] = {"counters", "hw_counters"};
    if (n >= sizeof(kinds) / sizeof(kinds[0])) {
        return false;
    }
    snprintf(path, bytes, "/sys/class/infiniband/%s/ports/%u/%s", device->name,
             port, kinds[n]);
    return true;
}

const struct mt_fabric_provider mt_fabric_verbs = {
    .name = "verbs",
    .devices = mt_verbs_devices,
    .missing = mt_verbs_missing,
    .counters = mt_verbs_counters,
    .open = mt_verbs_open,
    .close = mt_verbs_close,
    .event_fd = mt_verbs_event_fd,
    .event_take = mt_verbs_event_take,
    .pd_create = mt_verbs_pd_create,
    .pd_destroy = mt_verbs_pd_destroy,
    .mr_create = mt_verbs_mr_create,
    .mr_destroy = mt_verbs_mr_destroy,
    .channel_create = mt_verbs_channel_create,
    .channel_destroy = mt_verbs_channel_destroy,
    .channel_take = mt_verbs_channel_take,
    .cq_create = mt_verbs_cq_create,
    .cq_destroy = mt_verbs_cq_destroy,
    .cq_arm = mt_verbs_cq_arm,
    .srq_create = mt_verbs_srq_create,
    .srq_destroy = mt_verbs_srq_destroy,
    .qp_create = mt_verbs_qp_create,
    .qp_destroy = mt_verbs_qp_destroy,
    .qp_address = mt_verbs_qp_address,
    .qp_connect = mt_verbs_qp_connect,
    .qp_fail = mt_verbs_qp_fail,
    .qp_reset = mt_verbs_qp_reset,
    .ah_create = mt_verbs_ah_create,
    .ah_destroy = mt_verbs_ah_destroy,
};

#else

#include "../provider.h"

static uint32_t mt_no_devices(struct mt_fabric_device *devices, uint32_t limit)
{
    (void)devices;
    (void)limit;
    return 0;
}

/* Built without the library's header: no device can be opened, so nothing else
 * is ever called. */
const struct mt_fabric_provider mt_fabric_verbs = {.name = "verbs",
                                                   .devices = mt_no_devices};

#endif
