/* fault.c: wraps the objects of a provider, and opens it. What a caller posts
 * goes through a queue of ours (work.c), where it may be held back, changed or
 * lost; everything else is passed on. Faults are drawn from the seed of the
 * script and the order of calls alone, so that a failing run is a file; only rate
 * goes by the clock.
 *
 * For tests: it allocates while posting, and is not meant to be quick. One
 * thread at a time. */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "layer.h"

/* ---- objects ---- */

static uint32_t mt_fault_devices(struct mt_fabric_device *devices,
                                 uint32_t limit)
{
    (void)devices;
    (void)limit;
    return 0;
}

static void mt_context_free(struct mt_fault_context *context)
{
    const int fds[] = {context->timer, context->events, context->loss};
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    free(context);
}

static void mt_fault_close(struct mt_fabric_context *base)
{
    mt_fabric_close(mt_fault_of(base)->inner);
    mt_context_free(mt_fault_of(base));
}

/* ---- events ---- */

static int mt_fault_event_fd(struct mt_fabric_context *base)
{
    struct mt_fault_context *context = mt_fault_of(base);
    int inner = mt_fabric_event_fd(context->inner);
    if (context->loss < 0 || inner < 0) {
        return inner;
    }
    if (context->events < 0) {
        context->events = mt_fault_epoll_over(inner, context->loss);
    }
    return context->events;
}

/* The last event there is. What the device told before, and nobody took, is lost
 * with it. */
static enum mt_status mt_loss_take(struct mt_fault_context *context,
                                   struct mt_fabric_event *event_p)
{
    uint64_t count;
    while (mt_fabric_event_take(context->inner, event_p) == MT_OK) {
    }
    ssize_t n = read(context->loss, &count, sizeof(count));
    (void)n;
    *event_p =
        (struct mt_fabric_event){.kind = MT_FABRIC_EVENT_DEVICE_FATAL};
    bool told = context->told;
    context->told = true;
    return told ? MT_EAGAIN : MT_OK;
}

static enum mt_status mt_fault_event_take(struct mt_fabric_context *base,
                                          struct mt_fabric_event *event_p)
{
    struct mt_fabric_context *inner = mt_fault_of(base)->inner;
    if (mt_fault_of(base)->gone) {
        return mt_loss_take(mt_fault_of(base), event_p);
    }
    enum mt_status status = mt_fabric_event_take(inner, event_p);
    memcpy(base->device.ports, mt_fabric_query(inner)->ports,
           sizeof(base->device.ports));
    if (status == MT_OK && event_p->cq != NULL) {
        event_p->cq = mt_fault_cq_of(mt_fault_of(base), event_p->cq);
    }
    return status;
}

static enum mt_status mt_fault_pd_create(struct mt_fabric_context *context,
                                         struct mt_fabric_pd **pd_p)
{
    struct mt_fabric_pd *inner;
    enum mt_status status = mt_fabric_pd_create(mt_fault_of(context)->inner, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(pd, base, context->ops, inner, pd_p);
    return MT_OK;
}

static void mt_fault_pd_destroy(struct mt_fabric_pd *pd)
{
    mt_fabric_pd_destroy(((struct mt_fault_pd *)pd)->inner);
    free(pd);
}

static enum mt_status mt_fault_mr_create(struct mt_fabric_pd *pd, void *address,
                                         size_t bytes, uint32_t access,
                                         struct mt_fabric_mr **mr_p)
{
    struct mt_fabric_pd *inner_pd = ((struct mt_fault_pd *)pd)->inner;
    struct mt_fabric_mr *inner;
    if (mt_fault_of(pd->context)->gone) {
        return MT_EIO;
    }
    if (mt_fault_draw(mt_fault_of(pd->context), MT_FAULT_REGISTER)) {
        return MT_ENOMEM;
    }
    enum mt_status status =
        address != NULL
            ? mt_fabric_mr_register(inner_pd, address, bytes, access, &inner)
            : mt_fabric_mr_allocate(inner_pd, bytes, access, &inner);
    if (status != MT_OK) {
        return status;
    }
    struct mt_fault_mr *mr = calloc(1, sizeof(*mr));
    if (mr == NULL) {
        mt_fabric_mr_destroy(inner);
        return MT_ENOMEM;
    }
    mr->base = *inner;
    mr->inner = inner;
    *mr_p = &mr->base;
    return MT_OK;
}

static void mt_fault_mr_destroy(struct mt_fabric_mr *mr)
{
    mt_fabric_mr_destroy(((struct mt_fault_mr *)mr)->inner);
    free(mr);
}

static enum mt_status
mt_fault_srq_create(struct mt_fabric_pd *pd,
                    const struct mt_fabric_srq_options *options,
                    struct mt_fabric_srq **srq_p)
{
    struct mt_fabric_srq *inner;
    enum mt_status status =
        mt_fabric_srq_create(((struct mt_fault_pd *)pd)->inner, options, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(srq, base, pd->ops, inner, srq_p);
    return MT_OK;
}

static void mt_fault_srq_destroy(struct mt_fabric_srq *srq)
{
    mt_fabric_srq_destroy(((struct mt_fault_srq *)srq)->inner);
    free(srq);
}

static enum mt_status mt_fault_qp_create(struct mt_fabric_pd *pd,
                                         const struct mt_fabric_qp_options *wanted,
                                         struct mt_fabric_qp **qp_p)
{
    struct mt_fault_context *context = mt_fault_of(pd->context);
    struct mt_fabric_qp_options options = *wanted;
    struct mt_fabric_qp *inner;
    if (context->gone) {
        return MT_EIO;
    }
    options.send_cq = ((struct mt_fault_cq *)wanted->send_cq)->inner;
    options.receive_cq = ((struct mt_fault_cq *)wanted->receive_cq)->inner;
    if (wanted->srq != NULL) {
        options.srq = ((struct mt_fault_srq *)wanted->srq)->inner;
    }
    enum mt_status status = mt_fabric_qp_create(
        ((struct mt_fault_pd *)pd)->inner, &options, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(qp, base, pd->ops, inner, qp_p);
    object->slots = calloc(wanted->send_depth, sizeof(*object->slots));
    if (object->slots == NULL) {
        mt_fabric_qp_destroy(inner);
        free(object);
        return MT_ENOMEM;
    }
    object->base.number = mt_fabric_qp_number(inner);
    object->last = &object->first;
    object->next = context->qps;
    context->qps = object;
    return MT_OK;
}

static void mt_held_drop(struct mt_fault_qp *qp)
{
    mt_fault_completions_forget(qp->base.options.send_cq, qp->base.number);
    mt_fault_completions_forget(qp->base.options.receive_cq, qp->base.number);
    memset(qp->slots, 0, qp->base.options.send_depth * sizeof(*qp->slots));
    qp->oldest = qp->tail = 0;
    while (qp->first != NULL) {
        struct mt_fault_held *held = qp->first;
        qp->first = held->next;
        mt_fault_held_free(held);
    }
    mt_fault_held_free(qp->reordered);
    qp->reordered = NULL;
    qp->last = &qp->first;
}

static void mt_fault_qp_destroy(struct mt_fabric_qp *base)
{
    struct mt_fault_qp *qp = (struct mt_fault_qp *)base;
    struct mt_fault_qp **place = &mt_fault_of(base->pd->context)->qps;
    while (*place != qp) {
        place = &(*place)->next;
    }
    *place = qp->next;
    mt_held_drop(qp);
    mt_fabric_qp_destroy(qp->inner);
    free(qp->slots);
    free(qp);
}

static enum mt_status mt_fault_qp_address(const struct mt_fabric_qp *qp,
                                          struct mt_fabric_address *address_p)
{
    return mt_fabric_qp_address(((const struct mt_fault_qp *)qp)->inner,
                                address_p);
}

static enum mt_status mt_fault_qp_connect(struct mt_fabric_qp *qp,
                                          const struct mt_fabric_address *remote)
{
    return mt_fabric_qp_connect(((struct mt_fault_qp *)qp)->inner, remote);
}

static enum mt_status mt_fault_qp_established(struct mt_fabric_qp *qp)
{
    return mt_fabric_qp_established(((struct mt_fault_qp *)qp)->inner);
}

static enum mt_status mt_fault_qp_fail(struct mt_fabric_qp *base)
{
    struct mt_fault_qp *qp = (struct mt_fault_qp *)base;
    if (mt_fault_of(base->pd->context)->gone) {
        return MT_EIO;
    }
    enum mt_status status = mt_fabric_qp_fail(qp->inner);
    if (status == MT_OK) {
        base->state = MT_FABRIC_QP_ERROR;
    }
    return status;
}

static enum mt_status mt_fault_qp_reset(struct mt_fabric_qp *base)
{
    struct mt_fault_qp *qp = (struct mt_fault_qp *)base;
    if (mt_fault_of(base->pd->context)->gone) {
        return MT_EIO;
    }
    mt_held_drop(qp);
    return mt_fabric_qp_reset(qp->inner);
}

static enum mt_status mt_fault_ah_create(struct mt_fabric_pd *pd,
                                         const struct mt_fabric_address *address,
                                         const struct mt_fabric_source *source,
                                         struct mt_fabric_ah **ah_p)
{
    struct mt_fabric_pd *inner_pd = ((struct mt_fault_pd *)pd)->inner;
    struct mt_fabric_ah *inner;
    enum mt_status status =
        source != NULL ? mt_fabric_ah_create_source(inner_pd, source, &inner)
                       : mt_fabric_ah_create(inner_pd, address, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(ah, base, pd->ops, inner, ah_p);
    return MT_OK;
}

static void mt_fault_ah_destroy(struct mt_fabric_ah *ah)
{
    mt_fabric_ah_destroy(((struct mt_fault_ah *)ah)->inner);
    free(ah);
}

static const struct mt_fabric_provider mt_fault_provider = {
    .name = "fault",
    .devices = mt_fault_devices,
    .close = mt_fault_close,
    .event_fd = mt_fault_event_fd,
    .event_take = mt_fault_event_take,
    .pd_create = mt_fault_pd_create,
    .pd_destroy = mt_fault_pd_destroy,
    .mr_create = mt_fault_mr_create,
    .mr_destroy = mt_fault_mr_destroy,
    .channel_create = mt_fault_channel_create,
    .channel_destroy = mt_fault_channel_destroy,
    .channel_take = mt_fault_channel_take,
    .cq_create = mt_fault_cq_create,
    .cq_destroy = mt_fault_cq_destroy,
    .cq_arm = mt_fault_cq_arm,
    .srq_create = mt_fault_srq_create,
    .srq_destroy = mt_fault_srq_destroy,
    .qp_create = mt_fault_qp_create,
    .qp_destroy = mt_fault_qp_destroy,
    .qp_address = mt_fault_qp_address,
    .qp_connect = mt_fault_qp_connect,
    .qp_established = mt_fault_qp_established,
    .qp_fail = mt_fault_qp_fail,
    .qp_reset = mt_fault_qp_reset,
    .ah_create = mt_fault_ah_create,
    .ah_destroy = mt_fault_ah_destroy,
};

/* ---- opening ---- */

enum { MT_SCRIPT_BYTES = 1 << 16 };

static enum mt_status mt_script_read(const struct mt_fabric_options *options,
                                     struct mt_fault_script *script)
{
    unsigned line = 0;
    char *text = malloc(MT_SCRIPT_BYTES);
    FILE *file = text != NULL ? fopen(options->faults, "re") : NULL;
    if (file == NULL) {
        mt_fabric_say(options, "fault script %s cannot be read",
                      options->faults);
        free(text);
        return MT_EINVAL;
    }
    size_t bytes = fread(text, 1, MT_SCRIPT_BYTES, file);
    fclose(file);
    const char *wrong = bytes < MT_SCRIPT_BYTES
                            ? mt_fault_parse(text, bytes, script, &line)
                            : "the file is longer than a script may be";
    if (wrong != NULL) {
        mt_fabric_say(options, "fault script %s, line %u: %s", options->faults,
                      line, wrong);
    }
    free(text);
    return wrong == NULL ? MT_OK : MT_EINVAL;
}

enum mt_status mt_fault_open(const struct mt_fabric_device *device,
                             const struct mt_fabric_options *options,
                             struct mt_fabric_context **context_p)
{
    struct mt_fabric_options inner = *options;
    struct mt_fault_context *context = calloc(1, sizeof(*context));
    if (context == NULL) {
        return MT_ENOMEM;
    }
    inner.faults = NULL;
    context->timer = context->loss = context->events = -1;
    enum mt_status status = mt_script_read(options, &context->script);
    if (status == MT_OK && context->script.bits_per_second > 0) {
        context->timer =
            timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        status = context->timer >= 0 ? MT_OK : MT_ENOMEM;
    }
    if (status == MT_OK && context->script.lose_at > 0) {
        context->loss = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        status = context->loss >= 0 ? MT_OK : MT_ENOMEM;
    }
    if (status == MT_OK) {
        status = mt_fabric_open(device->name, &inner, &context->inner);
    }
    if (status != MT_OK) {
        mt_context_free(context);
        return status;
    }
    context->base.ops = &mt_fault_ops;
    context->base.provider = &mt_fault_provider;
    context->random = context->script.seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    *context_p = &context->base;
    return MT_OK;
}
