/* fault.c: wraps the objects of a provider. What a caller posts goes through a
 * queue of ours, where it may be held back, changed or lost; everything else is
 * passed on. Faults are drawn from the seed of the script and the order of calls
 * alone, so that a failing run is a file.
 *
 * For tests: it allocates while posting, and is not meant to be quick. One
 * thread at a time. */
#include "fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script.h"

enum { MT_EARLY = 1024 };

struct mt_fault_context {
    struct mt_fabric_context base;
    struct mt_fabric_context *inner;
    struct mt_fault_script script;
    uint64_t random;
    uint64_t posted;
    struct mt_fault_qp *qps;
};

struct mt_fault_pd {
    struct mt_fabric_pd base;
    struct mt_fabric_pd *inner;
};

struct mt_fault_mr {
    struct mt_fabric_mr base;
    struct mt_fabric_mr *inner;
};

struct mt_fault_ah {
    struct mt_fabric_ah base;
    struct mt_fabric_ah *inner;
};

struct mt_fault_channel {
    struct mt_fabric_channel base;
    struct mt_fabric_channel *inner;
    struct mt_fault_cq *cqs;
};

struct mt_fault_cq {
    struct mt_fabric_cq base;
    struct mt_fabric_cq *inner;
    struct mt_fault_cq *next; /* of the channel */
    /* to be polled before those of inner: of datagrams that were lost (more at
     * once are completed by nobody), and what was taken ahead (mt_make_room) */
    struct mt_fabric_completion early[MT_EARLY];
    uint32_t early_head, early_tail;
};

struct mt_fault_srq {
    struct mt_fabric_srq base;
    struct mt_fabric_srq *inner;
};

/* Posted work that waits. */
struct mt_fault_held {
    struct mt_fault_held *next;
    struct mt_fabric_send work;
    uint32_t polls; /* until it is begun */
    bool lost;      /* a datagram that only completes */
    uint8_t *copy;  /* of changed or inline bytes */
    struct mt_fabric_piece pieces[];
};

struct mt_fault_qp {
    struct mt_fabric_qp base;
    struct mt_fabric_qp *inner;
    struct mt_fault_qp *next; /* of the context */
    struct mt_fault_held *first, **last;
    struct mt_fault_held *reordered; /* goes after the next one */
    uint32_t held;
};

/* ---- drawing ---- */

static uint64_t mt_random(struct mt_fault_context *context)
{
    uint64_t x = context->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    context->random = x;
    return (x * UINT64_C(2685821657736338717)) >> 16;
}

static bool mt_draw(struct mt_fault_context *context, enum mt_fault_kind kind)
{
    uint32_t of = context->script.rules[kind].of;
    return of > 0 && mt_random(context) % of < context->script.rules[kind].times;
}

static struct mt_fault_context *mt_of(struct mt_fabric_context *context)
{
    return (struct mt_fault_context *)context;
}

/* ---- posting ---- */

static void mt_held_free(struct mt_fault_held *held)
{
    if (held != NULL) {
        free(held->copy);
        free(held);
    }
}

static struct mt_fault_held *mt_held_make(const struct mt_fabric_send *work)
{
    struct mt_fault_held *held =
        calloc(1, sizeof(*held) +
                      work->piece_count * sizeof(struct mt_fabric_piece));
    if (held == NULL) {
        return NULL;
    }
    held->work = *work;
    held->work.pieces = held->pieces;
    if (work->piece_count > 0) {
        memcpy(held->pieces, work->pieces,
               work->piece_count * sizeof(struct mt_fabric_piece));
    }
    if (work->ah != NULL) {
        held->work.ah = ((struct mt_fault_ah *)work->ah)->inner;
    }
    return held;
}

static uint32_t mt_bytes_of(const struct mt_fabric_send *work)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < work->piece_count; i++) {
        bytes += work->pieces[i].bytes;
    }
    return bytes;
}

/* The bytes as they are now, in memory of ours: sent inline from there. */
static bool mt_held_copy(struct mt_fault_held *held)
{
    uint32_t bytes = mt_bytes_of(&held->work), at = 0;
    held->copy = malloc(bytes + 1);
    if (held->copy == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < held->work.piece_count; i++) {
        memcpy(held->copy + at, held->pieces[i].address, held->pieces[i].bytes);
        at += held->pieces[i].bytes;
    }
    held->pieces[0] = (struct mt_fabric_piece){.address = held->copy,
                                               .bytes = bytes};
    held->work.piece_count = 1;
    held->work.flags |= MT_FABRIC_INLINE;
    return true;
}

static void mt_append(struct mt_fault_qp *qp, struct mt_fault_held *held)
{
    held->next = NULL;
    *qp->last = held;
    qp->last = &held->next;
    qp->held++;
}

/* What befalls a datagram. Those that would have to be copied to be changed
 * stay as they are if they are too long to be sent inline. */
static void mt_befall_datagram(struct mt_fault_context *context,
                               struct mt_fault_qp *qp,
                               struct mt_fault_held *held)
{
    uint32_t bytes = mt_bytes_of(&held->work);
    bool copyable = held->work.piece_count > 0 && bytes > 0 &&
                    bytes <= qp->base.options.inline_bytes;
    held->lost = mt_draw(context, MT_FAULT_DROP);
    if (mt_draw(context, MT_FAULT_CORRUPT) && copyable && mt_held_copy(held)) {
        held->copy[mt_random(context) % bytes] ^= 0x40;
    }
    if (mt_draw(context, MT_FAULT_DUPLICATE) && !held->lost) {
        struct mt_fault_held *second = mt_held_make(&held->work);
        if (second != NULL) {
            second->work.ah = held->work.ah;
            second->work.flags &= (uint32_t)~MT_FABRIC_SIGNALED;
            bool sound = held->copy == NULL || mt_held_copy(second);
            if (sound) {
                mt_append(qp, second);
            } else {
                mt_held_free(second);
            }
        }
    }
}

/* It completes as one that was sent. */
static void mt_lose(struct mt_fault_qp *qp, const struct mt_fabric_send *work)
{
    struct mt_fault_cq *cq = (struct mt_fault_cq *)qp->base.options.send_cq;
    if ((work->flags & MT_FABRIC_SIGNALED) != 0 &&
        cq->early_tail - cq->early_head < MT_EARLY) {
        cq->early[cq->early_tail++ % MT_EARLY] = (struct mt_fabric_completion){
            .id = work->id,
            .opcode = work->opcode,
            .qp = qp->base.number,
            .bytes = mt_bytes_of(work)};
    }
}

/* What was accepted may find the queue of a device full, which has room only when
 * completions are polled, and its caller need not poll any more. */
static bool mt_make_room(struct mt_fault_qp *qp)
{
    struct mt_fault_cq *cq = (struct mt_fault_cq *)qp->base.options.send_cq;
    if (cq->early_tail - cq->early_head == MT_EARLY ||
        mt_fabric_poll(cq->inner, &cq->early[cq->early_tail % MT_EARLY], 1) ==
            0) {
        return false;
    }
    cq->early_tail++;
    return true;
}

/* Begins what has waited long enough, in order. */
static void mt_release(struct mt_fault_qp *qp)
{
    while (qp->first != NULL && qp->first->polls == 0) {
        struct mt_fault_held *held = qp->first;
        if (held->lost) {
            mt_lose(qp, &held->work);
        } else if (mt_fabric_post_send(qp->inner, &held->work) == MT_EAGAIN) {
            if (mt_make_room(qp)) {
                continue;
            }
            return;
        }
        qp->first = held->next;
        qp->last = qp->first == NULL ? &qp->first : qp->last;
        qp->held--;
        mt_held_free(held);
    }
    if (qp->first != NULL) {
        qp->first->polls--;
    }
}

static enum mt_status mt_fault_post_send(struct mt_fabric_qp *base,
                                         const struct mt_fabric_send *work)
{
    struct mt_fault_qp *qp = (struct mt_fault_qp *)base;
    struct mt_fault_context *context = mt_of(base->pd->context);
    bool datagram = base->options.transport == MT_FABRIC_UD;
    uint64_t bytes;
    enum mt_status status = mt_fabric_send_check(base, work, &bytes);
    if (status != MT_OK) {
        return status;
    }
    if (context->script.die_at > 0 &&
        ++context->posted >= context->script.die_at) {
        kill(getpid(), SIGKILL);
    }
    if (mt_draw(context, MT_FAULT_BREAK)) {
        mt_fabric_qp_fail(qp->inner);
    }
    if (mt_draw(context, MT_FAULT_FULL) ||
        qp->held >= base->options.send_depth) {
        return MT_EAGAIN;
    }
    bool delayed = mt_draw(context, MT_FAULT_DELAY);
    if (!delayed && !datagram && qp->first == NULL) {
        return mt_fabric_post_send(qp->inner, work);
    }
    struct mt_fault_held *held = mt_held_make(work);
    if (held == NULL) {
        return MT_ENOMEM;
    }
    if ((work->flags & MT_FABRIC_INLINE) != 0 && work->piece_count > 0 &&
        !mt_held_copy(held)) {
        mt_held_free(held);
        return MT_ENOMEM;
    }
    held->polls = delayed ? context->script.delay_polls : 0;
    if (datagram) {
        mt_befall_datagram(context, qp, held);
    }
    if (datagram && qp->reordered == NULL &&
        mt_draw(context, MT_FAULT_REORDER)) {
        qp->reordered = held;
        return MT_OK;
    }
    mt_append(qp, held);
    if (qp->reordered != NULL) {
        mt_append(qp, qp->reordered);
        qp->reordered = NULL;
    }
    mt_release(qp);
    return MT_OK;
}

static enum mt_status mt_fault_post_receive(struct mt_fabric_qp *base,
                                            const struct mt_fabric_receive *work)
{
    return mt_fabric_post_receive(((struct mt_fault_qp *)base)->inner, work);
}

static enum mt_status
mt_fault_post_srq_receive(struct mt_fabric_srq *base,
                          const struct mt_fabric_receive *work)
{
    return mt_fabric_post_srq_receive(((struct mt_fault_srq *)base)->inner,
                                      work);
}

static uint32_t mt_fault_poll(struct mt_fabric_cq *base,
                              struct mt_fabric_completion *completions,
                              uint32_t limit)
{
    struct mt_fault_context *context = mt_of(base->context);
    struct mt_fault_cq *cq = (struct mt_fault_cq *)base;
    uint32_t n = 0;
    while (n < limit && cq->early_head != cq->early_tail) {
        completions[n++] = cq->early[cq->early_head++ % MT_EARLY];
    }
    n += mt_fabric_poll(cq->inner, completions + n, limit - n);
    for (struct mt_fault_qp *qp = context->qps; qp != NULL; qp = qp->next) {
        if (n == 0 && qp->reordered != NULL) {
            mt_append(qp, qp->reordered); /* nothing followed it */
            qp->reordered = NULL;
        }
        mt_release(qp);
        qp->base.state = mt_fabric_qp_state(qp->inner);
    }
    return n;
}

static const struct mt_fabric_ops mt_fault_ops = {
    .post_send = mt_fault_post_send,
    .post_receive = mt_fault_post_receive,
    .post_srq_receive = mt_fault_post_srq_receive,
    .poll = mt_fault_poll,
};

/* ---- objects ---- */

static uint32_t mt_fault_devices(struct mt_fabric_device *devices,
                                 uint32_t limit)
{
    (void)devices;
    (void)limit;
    return 0;
}

static void mt_fault_close(struct mt_fabric_context *base)
{
    mt_fabric_close(mt_of(base)->inner);
    free(base);
}

static enum mt_status mt_fault_event_take(struct mt_fabric_context *base,
                                          struct mt_fabric_event *event_p)
{
    return mt_fabric_event_take(mt_of(base)->inner, event_p);
}

/* Makes the struct of an object of ours; on failure the inner one goes again. */
#define MT_WRAP(kind, base_, inner_, object_p)                                 \
    struct mt_fault_##kind *object = calloc(1, sizeof(*object));               \
    if (object == NULL) {                                                      \
        mt_fabric_##kind##_destroy(inner_);                                    \
        return MT_ENOMEM;                                                      \
    }                                                                          \
    object->inner = (inner_);                                                  \
    object->base_.ops = &mt_fault_ops;                                         \
    *(object_p) = &object->base_

static enum mt_status mt_fault_pd_create(struct mt_fabric_context *context,
                                         struct mt_fabric_pd **pd_p)
{
    struct mt_fabric_pd *inner;
    enum mt_status status = mt_fabric_pd_create(mt_of(context)->inner, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(pd, base, inner, pd_p);
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
    if (mt_draw(mt_of(pd->context), MT_FAULT_REGISTER)) {
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
mt_fault_channel_create(struct mt_fabric_context *context,
                        struct mt_fabric_channel **channel_p)
{
    struct mt_fabric_channel *inner;
    enum mt_status status =
        mt_fabric_channel_create(mt_of(context)->inner, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(channel, base, inner, channel_p);
    object->base.fd = mt_fabric_channel_fd(inner);
    return MT_OK;
}

static void mt_fault_channel_destroy(struct mt_fabric_channel *channel)
{
    mt_fabric_channel_destroy(((struct mt_fault_channel *)channel)->inner);
    free(channel);
}

static enum mt_status mt_fault_channel_take(struct mt_fabric_channel *base,
                                            struct mt_fabric_cq **cq_p)
{
    struct mt_fault_channel *channel = (struct mt_fault_channel *)base;
    struct mt_fabric_cq *inner;
    enum mt_status status = mt_fabric_channel_take(channel->inner, &inner);
    if (status != MT_OK) {
        return status;
    }
    if (mt_draw(mt_of(base->context), MT_FAULT_EVENT)) {
        return MT_EAGAIN; /* lost: it is disarmed, and nobody is told */
    }
    for (struct mt_fault_cq *cq = channel->cqs; cq != NULL; cq = cq->next) {
        if (cq->inner == inner) {
            *cq_p = &cq->base;
            return MT_OK;
        }
    }
    return MT_EAGAIN;
}

static enum mt_status mt_fault_cq_create(struct mt_fabric_context *context,
                                         uint32_t depth,
                                         struct mt_fabric_channel *base,
                                         struct mt_fabric_cq **cq_p)
{
    struct mt_fault_channel *channel = (struct mt_fault_channel *)base;
    struct mt_fabric_cq *inner;
    enum mt_status status = mt_fabric_cq_create(
        mt_of(context)->inner, depth,
        channel != NULL ? channel->inner : NULL, &inner);
    if (status != MT_OK) {
        return status;
    }
    MT_WRAP(cq, base, inner, cq_p);
    if (channel != NULL) {
        object->next = channel->cqs;
        channel->cqs = object;
    }
    return MT_OK;
}

static void mt_fault_cq_destroy(struct mt_fabric_cq *base)
{
    struct mt_fault_cq *cq = (struct mt_fault_cq *)base;
    struct mt_fault_channel *channel = (struct mt_fault_channel *)base->channel;
    struct mt_fault_cq **place = channel != NULL ? &channel->cqs : NULL;
    while (place != NULL && *place != cq) {
        place = &(*place)->next;
    }
    if (place != NULL) {
        *place = cq->next;
    }
    mt_fabric_cq_destroy(cq->inner);
    free(cq);
}

static enum mt_status mt_fault_cq_arm(struct mt_fabric_cq *cq, bool solicited)
{
    return mt_fabric_cq_arm(((struct mt_fault_cq *)cq)->inner, solicited);
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
    MT_WRAP(srq, base, inner, srq_p);
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
    struct mt_fault_context *context = mt_of(pd->context);
    struct mt_fabric_qp_options options = *wanted;
    struct mt_fabric_qp *inner;
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
    MT_WRAP(qp, base, inner, qp_p);
    object->base.number = mt_fabric_qp_number(inner);
    object->last = &object->first;
    object->next = context->qps;
    context->qps = object;
    return MT_OK;
}

static void mt_held_drop(struct mt_fault_qp *qp)
{
    while (qp->first != NULL) {
        struct mt_fault_held *held = qp->first;
        qp->first = held->next;
        mt_held_free(held);
    }
    mt_held_free(qp->reordered);
    qp->reordered = NULL;
    qp->last = &qp->first;
    qp->held = 0;
}

static void mt_fault_qp_destroy(struct mt_fabric_qp *base)
{
    struct mt_fault_qp *qp = (struct mt_fault_qp *)base;
    struct mt_fault_qp **place = &mt_of(base->pd->context)->qps;
    while (*place != qp) {
        place = &(*place)->next;
    }
    *place = qp->next;
    mt_held_drop(qp);
    mt_fabric_qp_destroy(qp->inner);
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

static enum mt_status mt_fault_qp_fail(struct mt_fabric_qp *base)
{
    struct mt_fault_qp *qp = (struct mt_fault_qp *)base;
    enum mt_status status = mt_fabric_qp_fail(qp->inner);
    if (status == MT_OK) {
        base->state = MT_FABRIC_QP_ERROR;
    }
    return status;
}

static enum mt_status mt_fault_qp_reset(struct mt_fabric_qp *base)
{
    struct mt_fault_qp *qp = (struct mt_fault_qp *)base;
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
    MT_WRAP(ah, base, inner, ah_p);
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
    unsigned line;
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
    enum mt_status status = mt_script_read(options, &context->script);
    if (status == MT_OK) {
        status = mt_fabric_open(device->name, &inner, &context->inner);
    }
    if (status != MT_OK) {
        free(context);
        return status;
    }
    context->base.ops = &mt_fault_ops;
    context->base.provider = &mt_fault_provider;
    context->random = context->script.seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    *context_p = &context->base;
    return MT_OK;
}
