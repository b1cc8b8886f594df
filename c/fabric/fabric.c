/* fabric.c: the list of providers, and the checks that all of them share: a
 * provider sees only arguments that are in range, objects of one context and
 * transitions that exist. Counts what depends on an object, so that nothing is
 * destroyed under its users.
 *
 * Cold. Threads: the counts are atomic; what a provider does at once for two
 * threads is its own matter. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault/fault.h"
#include "provider.h"

static const struct mt_fabric_provider *const mt_providers[] = {
    &mt_fabric_verbs,
    &mt_fabric_iwarp,
    &mt_fabric_shm,
};

enum { MT_PROVIDERS = sizeof(mt_providers) / sizeof(mt_providers[0]) };

void mt_fabric_say(const struct mt_fabric_options *options, const char *format,
                   ...)
{
    char text[1024];
    va_list arguments;
    if (options == NULL || options->say == NULL) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    options->say(options->user, text);
}

static void mt_hold(uint32_t *objects)
{
    __atomic_add_fetch(objects, 1, __ATOMIC_RELAXED);
}

static void mt_drop(uint32_t *objects)
{
    __atomic_sub_fetch(objects, 1, __ATOMIC_RELAXED);
}

static bool mt_in_use(const uint32_t *objects)
{
    return __atomic_load_n(objects, __ATOMIC_RELAXED) != 0;
}

/* ---- children ---- */

/* The contexts of the process. */
static pthread_mutex_t mt_contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mt_fabric_context *mt_contexts;

static enum mt_status mt_lost_send(struct mt_fabric_qp *qp,
                                   const struct mt_fabric_send *work)
{
    (void)qp;
    (void)work;
    return MT_ESTATE;
}

static enum mt_status mt_lost_receive(struct mt_fabric_qp *qp,
                                      const struct mt_fabric_receive *work)
{
    (void)qp;
    (void)work;
    return MT_ESTATE;
}

static enum mt_status mt_lost_srq_receive(struct mt_fabric_srq *srq,
                                          const struct mt_fabric_receive *work)
{
    (void)srq;
    (void)work;
    return MT_ESTATE;
}

static uint32_t mt_lost_poll(struct mt_fabric_cq *cq,
                             struct mt_fabric_completion *completions,
                             uint32_t limit)
{
    (void)cq;
    (void)completions;
    (void)limit;
    return 0;
}

static void mt_before_fork(void)
{
    pthread_mutex_lock(&mt_contexts_lock);
}

static void mt_after_fork(void)
{
    pthread_mutex_unlock(&mt_contexts_lock);
}

/* Memory that is shared with peers is not there, and descriptors are the
 * parent's: nothing of a context may be used. */
static void mt_in_child(void)
{
    for (struct mt_fabric_context *c = mt_contexts; c != NULL; c = c->next) {
        c->lost = true;
        c->table = (struct mt_fabric_ops){.post_send = mt_lost_send,
                                          .post_receive = mt_lost_receive,
                                          .post_srq_receive =
                                              mt_lost_srq_receive,
                                          .poll = mt_lost_poll};
    }
    mt_contexts = NULL;
    pthread_mutex_unlock(&mt_contexts_lock);
}

static pthread_once_t mt_fork_once = PTHREAD_ONCE_INIT;
static int mt_fork_error;

static void mt_fork_watch(void)
{
    mt_fork_error = pthread_atfork(mt_before_fork, mt_after_fork, mt_in_child);
}

static void mt_context_add(struct mt_fabric_context *context)
{
    context->table = *context->ops;
    context->ops = &context->table;
    pthread_mutex_lock(&mt_contexts_lock);
    context->next = mt_contexts;
    mt_contexts = context;
    pthread_mutex_unlock(&mt_contexts_lock);
}

static void mt_context_remove(const struct mt_fabric_context *context)
{
    pthread_mutex_lock(&mt_contexts_lock);
    struct mt_fabric_context **place = &mt_contexts;
    while (*place != context) {
        place = &(*place)->next;
    }
    *place = context->next;
    pthread_mutex_unlock(&mt_contexts_lock);
}

/* ---- devices ---- */

enum mt_status mt_fabric_devices(struct mt_fabric_device *devices,
                                 uint32_t limit, uint32_t *count_p)
{
    uint32_t count = 0;
    if (count_p == NULL || (devices == NULL && limit > 0)) {
        return MT_EINVAL;
    }
    for (unsigned i = 0; i < MT_PROVIDERS; i++) {
        uint32_t room = count < limit ? limit - count : 0;
        count += mt_providers[i]->devices(room > 0 ? devices + count : NULL,
                                          room);
    }
    *count_p = count;
    return MT_OK;
}

enum mt_status mt_fabric_devices_all(struct mt_fabric_device **devices_p,
                                     uint32_t *count_p)
{
    enum { MT_USUAL = 64, MT_MORE = 8 }; /* that may come meanwhile */
    struct mt_fabric_device *devices = NULL;
    uint32_t count = MT_USUAL - MT_MORE, room;
    do {
        free(devices);
        room = count + MT_MORE;
        devices = calloc(room, sizeof(*devices));
        if (devices == NULL) {
            return MT_ENOMEM;
        }
        mt_fabric_devices(devices, room, &count);
    } while (count > room);
    *devices_p = devices;
    *count_p = count;
    return MT_OK;
}

const char *mt_fabric_missing(void)
{
    const char *missing = NULL;
    for (unsigned i = 0; i < MT_PROVIDERS && missing == NULL; i++) {
        missing = mt_providers[i]->missing != NULL ? mt_providers[i]->missing()
                                                   : NULL;
    }
    return missing;
}

const struct mt_fabric_provider *mt_fabric_provider_named(const char *name)
{
    for (unsigned i = 0; i < MT_PROVIDERS; i++) {
        if (strcmp(mt_providers[i]->name, name) == 0) {
            return mt_providers[i];
        }
    }
    return NULL;
}

/* Tells the names that would have worked, and what others are missing for. */
static void mt_say_devices(const struct mt_fabric_options *options,
                           const char *wanted,
                           const struct mt_fabric_device *devices,
                           uint32_t count)
{
    char names[400] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < count && used + 1 < sizeof(names); i++) {
        int n = snprintf(names + used, sizeof(names) - used, "%s%s",
                         i > 0 ? ", " : "", devices[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
    const char *missing = mt_fabric_missing();
    mt_fabric_say(options, "there is no device %s; there are: %s%s%s", wanted,
                  count > 0 ? names : "none", missing != NULL ? "; " : "",
                  missing != NULL ? missing : "");
}

static enum mt_status mt_device_find(const struct mt_fabric_options *options,
                                     const char *name,
                                     struct mt_fabric_device *device_p)
{
    struct mt_fabric_device *devices;
    uint32_t count, found = 0;
    enum mt_status status = mt_fabric_devices_all(&devices, &count);
    if (status != MT_OK) {
        return status;
    }
    while (found < count && strcmp(devices[found].name, name) != 0) {
        found++;
    }
    if (found < count) {
        *device_p = devices[found];
    } else {
        mt_say_devices(options, name, devices, count);
        status = MT_ENODEVICE;
    }
    free(devices);
    return status;
}

enum mt_status mt_fabric_open(const char *device,
                              const struct mt_fabric_options *options,
                              struct mt_fabric_context **context_p)
{
    static const struct mt_fabric_options defaults = {.engine_cpu = -1};
    struct mt_fabric_device found;
    if (device == NULL || context_p == NULL) {
        return MT_EINVAL;
    }
    pthread_once(&mt_fork_once, mt_fork_watch);
    if (mt_fork_error != 0) {
        return MT_ENOMEM;
    }
    options = options != NULL ? options : &defaults;
    enum mt_status status = mt_device_find(options, device, &found);
    if (status != MT_OK) {
        return status;
    }
    const struct mt_fabric_provider *provider =
        mt_fabric_provider_named(found.provider);
    struct mt_fabric_context *context = NULL;
    status = options->faults == NULL
                 ? provider->open(&found, options, &context)
                 : mt_fault_open(&found, options, &context);
    if (status != MT_OK) {
        return status;
    }
    if (options->faults == NULL) {
        context->provider = provider;
    }
    context->device = found;
    context->device.caps.offloads = found.caps.offloads ||
                                    options->engine == MT_FABRIC_ENGINE_THREAD;
    context->device.caps.shares_memory =
        found.caps.shares_memory && options->faults == NULL &&
        options->engine == MT_FABRIC_ENGINE_INLINE;
    context->options = *options;
    context->objects = 0;
    mt_context_add(context);
    *context_p = context;
    return MT_OK;
}

enum mt_status mt_fabric_close(struct mt_fabric_context *context)
{
    if (context->lost || mt_in_use(&context->objects)) {
        return MT_ESTATE;
    }
    mt_context_remove(context);
    context->provider->close(context);
    return MT_OK;
}

const struct mt_fabric_device *
mt_fabric_query(const struct mt_fabric_context *context)
{
    return &context->device;
}

uint64_t mt_fabric_malformed(const struct mt_fabric_context *context)
{
    return __atomic_load_n(&context->malformed, __ATOMIC_RELAXED);
}

int mt_fabric_event_fd(struct mt_fabric_context *context)
{
    return context->lost ? -1 : context->provider->event_fd(context);
}

enum mt_status mt_fabric_event_take(struct mt_fabric_context *context,
                                    struct mt_fabric_event *event_p)
{
    return context->lost ? MT_ESTATE
                         : context->provider->event_take(context, event_p);
}

/* ---- memory ---- */

enum mt_status mt_fabric_pd_create(struct mt_fabric_context *context,
                                   struct mt_fabric_pd **pd_p)
{
    struct mt_fabric_pd *pd;
    enum mt_status status = context->lost
                                ? MT_ESTATE
                                : context->provider->pd_create(context, &pd);
    if (status != MT_OK) {
        return status;
    }
    pd->context = context;
    pd->objects = 0;
    mt_hold(&context->objects);
    *pd_p = pd;
    return MT_OK;
}

enum mt_status mt_fabric_pd_destroy(struct mt_fabric_pd *pd)
{
    struct mt_fabric_context *context = pd->context;
    if (context->lost || mt_in_use(&pd->objects)) {
        return MT_ESTATE;
    }
    context->provider->pd_destroy(pd);
    mt_drop(&context->objects);
    return MT_OK;
}

static enum mt_status mt_mr_create(struct mt_fabric_pd *pd, void *address,
                                   size_t bytes, uint32_t access,
                                   struct mt_fabric_mr **mr_p)
{
    const uint32_t known =
        MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE | MT_FABRIC_REMOTE_READ;
    /* who may write from afar may write here: InfiniBand 1.5, 10.6.3.1 */
    bool one_sided = (access & MT_FABRIC_REMOTE_WRITE) != 0 &&
                     (access & MT_FABRIC_LOCAL_WRITE) == 0;
    if (bytes == 0 || (access & ~known) != 0 || one_sided ||
        (uintptr_t)address + bytes < (uintptr_t)address) {
        return MT_EINVAL;
    }
    if (pd->context->lost) {
        return MT_ESTATE;
    }
    struct mt_fabric_mr *mr;
    enum mt_status status =
        pd->context->provider->mr_create(pd, address, bytes, access, &mr);
    if (status != MT_OK) {
        return status;
    }
    mr->pd = pd;
    mt_hold(&pd->objects);
    *mr_p = mr;
    return MT_OK;
}

enum mt_status mt_fabric_mr_register(struct mt_fabric_pd *pd, void *address,
                                     size_t bytes, uint32_t access,
                                     struct mt_fabric_mr **mr_p)
{
    return address != NULL ? mt_mr_create(pd, address, bytes, access, mr_p)
                           : MT_EINVAL;
}

enum mt_status mt_fabric_mr_implicit(struct mt_fabric_pd *pd,
                                     struct mt_fabric_mr **mr_p)
{
    const uintptr_t first = 4096; /* nothing is below */
    return pd->context->device.caps.implicit
               ? mt_mr_create(pd, (void *)first, SIZE_MAX - first, 0, mr_p)
               : MT_ENOTSUP;
}

enum mt_status mt_fabric_mr_allocate(struct mt_fabric_pd *pd, size_t bytes,
                                     uint32_t access,
                                     struct mt_fabric_mr **mr_p)
{
    return mt_mr_create(pd, NULL, bytes, access, mr_p);
}

enum mt_status mt_fabric_mr_destroy(struct mt_fabric_mr *mr)
{
    struct mt_fabric_pd *pd = mr->pd;
    if (pd->context->lost) {
        return MT_ESTATE;
    }
    pd->context->provider->mr_destroy(mr);
    mt_drop(&pd->objects);
    return MT_OK;
}

/* ---- completion ---- */

enum mt_status mt_fabric_channel_create(struct mt_fabric_context *context,
                                        struct mt_fabric_channel **channel_p)
{
    struct mt_fabric_channel *channel;
    if (context->lost) {
        return MT_ESTATE;
    }
    if (!context->device.caps.events) {
        return MT_ENOTSUP;
    }
    enum mt_status status = context->provider->channel_create(context, &channel);
    if (status != MT_OK) {
        return status;
    }
    channel->context = context;
    channel->objects = 0;
    mt_hold(&context->objects);
    *channel_p = channel;
    return MT_OK;
}

enum mt_status mt_fabric_channel_destroy(struct mt_fabric_channel *channel)
{
    struct mt_fabric_context *context = channel->context;
    if (context->lost || mt_in_use(&channel->objects)) {
        return MT_ESTATE;
    }
    context->provider->channel_destroy(channel);
    mt_drop(&context->objects);
    return MT_OK;
}

int mt_fabric_channel_fd(const struct mt_fabric_channel *channel)
{
    return channel->fd;
}

enum mt_status mt_fabric_channel_take(struct mt_fabric_channel *channel,
                                      struct mt_fabric_cq **cq_p)
{
    const struct mt_fabric_context *context = channel->context;
    return context->lost ? MT_ESTATE
                         : context->provider->channel_take(channel, cq_p);
}

enum mt_status mt_fabric_cq_create(struct mt_fabric_context *context,
                                   uint32_t depth,
                                   struct mt_fabric_channel *channel,
                                   struct mt_fabric_cq **cq_p)
{
    struct mt_fabric_cq *cq;
    if (depth == 0 || (channel != NULL && channel->context != context)) {
        return MT_EINVAL;
    }
    if (context->lost) {
        return MT_ESTATE;
    }
    enum mt_status status =
        context->provider->cq_create(context, depth, channel, &cq);
    if (status != MT_OK) {
        return status;
    }
    cq->context = context;
    cq->channel = channel;
    cq->depth = depth;
    cq->objects = 0;
    mt_hold(&context->objects);
    if (channel != NULL) {
        mt_hold(&channel->objects);
    }
    *cq_p = cq;
    return MT_OK;
}

enum mt_status mt_fabric_cq_destroy(struct mt_fabric_cq *cq)
{
    struct mt_fabric_context *context = cq->context;
    struct mt_fabric_channel *channel = cq->channel;
    if (context->lost || mt_in_use(&cq->objects)) {
        return MT_ESTATE;
    }
    context->provider->cq_destroy(cq);
    mt_drop(&context->objects);
    if (channel != NULL) {
        mt_drop(&channel->objects);
    }
    return MT_OK;
}

enum mt_status mt_fabric_cq_arm(struct mt_fabric_cq *cq, bool solicited)
{
    return cq->channel != NULL && !cq->context->lost
               ? cq->context->provider->cq_arm(cq, solicited)
               : MT_ESTATE;
}

/* ---- queue pairs ---- */

enum mt_status mt_fabric_srq_create(struct mt_fabric_pd *pd,
                                    const struct mt_fabric_srq_options *options,
                                    struct mt_fabric_srq **srq_p)
{
    const struct mt_fabric_caps *caps = &pd->context->device.caps;
    struct mt_fabric_srq *srq;
    if (pd->context->lost) {
        return MT_ESTATE;
    }
    if (!caps->srq) {
        return MT_ENOTSUP;
    }
    if (options->depth == 0 || options->depth > caps->max_depth ||
        options->pieces == 0 || options->pieces > caps->max_pieces) {
        return MT_EINVAL;
    }
    enum mt_status status = pd->context->provider->srq_create(pd, options, &srq);
    if (status != MT_OK) {
        return status;
    }
    srq->pd = pd;
    srq->options = *options;
    srq->objects = 0;
    mt_hold(&pd->objects);
    *srq_p = srq;
    return MT_OK;
}

enum mt_status mt_fabric_srq_destroy(struct mt_fabric_srq *srq)
{
    struct mt_fabric_pd *pd = srq->pd;
    if (pd->context->lost || mt_in_use(&srq->objects)) {
        return MT_ESTATE;
    }
    pd->context->provider->srq_destroy(srq);
    mt_drop(&pd->objects);
    return MT_OK;
}

/* What a queue pair of these options would ask too much of. */
static enum mt_status mt_qp_check(const struct mt_fabric_pd *pd,
                                  const struct mt_fabric_qp_options *o)
{
    const struct mt_fabric_device *device = &pd->context->device;
    const struct mt_fabric_caps *caps = &device->caps;
    if (o->transport != MT_FABRIC_RC && o->transport != MT_FABRIC_UD) {
        return MT_EINVAL;
    }
    if ((caps->transports & o->transport) == 0 ||
        (o->srq != NULL && !caps->srq)) {
        return MT_ENOTSUP;
    }
    if (o->send_cq == NULL || o->receive_cq == NULL ||
        o->send_cq->context != pd->context ||
        o->receive_cq->context != pd->context ||
        (o->srq != NULL && o->srq->pd != pd)) {
        return MT_EINVAL;
    }
    bool receives = o->srq != NULL || (o->receive_depth > 0 &&
                                       o->receive_depth <= caps->max_depth);
    if (!receives || o->send_depth == 0 || o->send_depth > caps->max_depth ||
        o->pieces == 0 || o->pieces > caps->max_pieces ||
        o->inline_bytes > caps->max_inline || o->reads > caps->max_reads ||
        o->port < 1 || o->port > device->port_count) {
        return MT_EINVAL;
    }
    return MT_OK;
}

static void mt_qp_count(struct mt_fabric_qp *qp, void (*count)(uint32_t *))
{
    count(&qp->pd->objects);
    count(&qp->options.send_cq->objects);
    count(&qp->options.receive_cq->objects);
    if (qp->options.srq != NULL) {
        count(&qp->options.srq->objects);
    }
}

enum mt_status mt_fabric_qp_create(struct mt_fabric_pd *pd,
                                   const struct mt_fabric_qp_options *options,
                                   struct mt_fabric_qp **qp_p)
{
    struct mt_fabric_qp *qp;
    enum mt_status status =
        pd->context->lost ? MT_ESTATE : mt_qp_check(pd, options);
    if (status == MT_OK) {
        status = pd->context->provider->qp_create(pd, options, &qp);
    }
    if (status != MT_OK) {
        return status;
    }
    qp->pd = pd;
    qp->options = *options;
    qp->state = MT_FABRIC_QP_INIT;
    mt_qp_count(qp, mt_hold);
    *qp_p = qp;
    return MT_OK;
}

enum mt_status mt_fabric_qp_destroy(struct mt_fabric_qp *qp)
{
    if (qp->pd->context->lost) {
        return MT_ESTATE;
    }
    mt_qp_count(qp, mt_drop);
    qp->pd->context->provider->qp_destroy(qp);
    return MT_OK;
}

uint32_t mt_fabric_qp_number(const struct mt_fabric_qp *qp)
{
    return qp->number;
}

enum mt_fabric_qp_state mt_fabric_qp_state(const struct mt_fabric_qp *qp)
{
    return __atomic_load_n(&qp->state, __ATOMIC_ACQUIRE);
}

static void mt_qp_enter(struct mt_fabric_qp *qp, enum mt_fabric_qp_state state)
{
    __atomic_store_n(&qp->state, state, __ATOMIC_RELEASE);
}

enum mt_status mt_fabric_qp_address(const struct mt_fabric_qp *qp,
                                    struct mt_fabric_address *address_p)
{
    const struct mt_fabric_context *context = qp->pd->context;
    return context->lost ? MT_ESTATE
                         : context->provider->qp_address(qp, address_p);
}

enum mt_status mt_fabric_qp_connect(struct mt_fabric_qp *qp,
                                    const struct mt_fabric_address *remote)
{
    bool connected = qp->options.transport == MT_FABRIC_RC;
    if (qp->pd->context->lost ||
        mt_fabric_qp_state(qp) != MT_FABRIC_QP_INIT) {
        return MT_ESTATE;
    }
    if (connected != (remote != NULL) ||
        (connected && remote->bytes > MT_FABRIC_ADDRESS_BYTES)) {
        return MT_EINVAL;
    }
    /* the provider may fail it at once, from another thread */
    mt_qp_enter(qp, MT_FABRIC_QP_RTS);
    enum mt_status status = qp->pd->context->provider->qp_connect(qp, remote);
    if (status != MT_OK) {
        mt_qp_enter(qp, MT_FABRIC_QP_INIT);
    }
    return status;
}

enum mt_status mt_fabric_qp_established(struct mt_fabric_qp *qp)
{
    const struct mt_fabric_context *context = qp->pd->context;
    enum mt_fabric_qp_state state = mt_fabric_qp_state(qp);
    if (context->lost || state < MT_FABRIC_QP_RTS) {
        return MT_ESTATE;
    }
    if (state == MT_FABRIC_QP_ERROR) {
        return MT_EPEER;
    }
    return context->provider->qp_established != NULL
               ? context->provider->qp_established(qp)
               : MT_OK;
}

enum mt_status mt_fabric_qp_fail(struct mt_fabric_qp *qp)
{
    const struct mt_fabric_context *context = qp->pd->context;
    return context->lost ? MT_ESTATE : context->provider->qp_fail(qp);
}

enum mt_status mt_fabric_qp_reset(struct mt_fabric_qp *qp)
{
    const struct mt_fabric_context *context = qp->pd->context;
    enum mt_status status =
        context->lost ? MT_ESTATE : context->provider->qp_reset(qp);
    if (status == MT_OK) {
        mt_qp_enter(qp, MT_FABRIC_QP_INIT);
    }
    return status;
}

void *mt_fabric_remote_pointer(const struct mt_fabric_qp *qp, uint64_t address,
                               uint32_t rkey, uint64_t bytes)
{
    const struct mt_fabric_context *context = qp->pd->context;
    return context->device.caps.shares_memory && !context->lost &&
                   qp->state == MT_FABRIC_QP_RTS
               ? context->provider->remote_pointer(qp, address, rkey, bytes)
               : NULL;
}

enum mt_status mt_fabric_send_check(const struct mt_fabric_qp *qp,
                                    const struct mt_fabric_send *work,
                                    uint64_t *bytes_p)
{
    const struct mt_fabric_qp_options *o = &qp->options;
    const struct mt_fabric_caps *caps = &qp->pd->context->device.caps;
    bool rc = o->transport == MT_FABRIC_RC;
    uint32_t can = rc ? caps->rc_operations : caps->ud_operations;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < work->piece_count; i++) {
        bytes += work->pieces[i].bytes;
    }
    *bytes_p = bytes;
    if ((can & work->opcode) == 0) {
        return MT_ENOTSUP;
    }
    if (work->piece_count > o->pieces || rc != (work->ah == NULL) ||
        bytes > (rc ? caps->max_message : caps->ud_payload)) {
        return MT_EINVAL;
    }
    bool too_long =
        (work->flags & MT_FABRIC_INLINE) != 0 &&
        (bytes > o->inline_bytes || work->opcode == MT_FABRIC_READ);
    bool no_reads = work->opcode == MT_FABRIC_READ && o->reads == 0;
    return too_long || no_reads ? MT_EINVAL : MT_OK;
}

enum mt_status mt_fabric_ah_create(struct mt_fabric_pd *pd,
                                   const struct mt_fabric_address *address,
                                   struct mt_fabric_ah **ah_p)
{
    struct mt_fabric_ah *ah;
    if (pd->context->lost) {
        return MT_ESTATE;
    }
    if (address == NULL || address->bytes > MT_FABRIC_ADDRESS_BYTES) {
        return MT_EINVAL;
    }
    enum mt_status status =
        pd->context->provider->ah_create(pd, address, NULL, &ah);
    if (status == MT_OK) {
        ah->pd = pd;
        mt_hold(&pd->objects);
        *ah_p = ah;
    }
    return status;
}

enum mt_status mt_fabric_ah_create_source(struct mt_fabric_pd *pd,
                                          const struct mt_fabric_source *source,
                                          struct mt_fabric_ah **ah_p)
{
    struct mt_fabric_ah *ah;
    if (pd->context->lost) {
        return MT_ESTATE;
    }
    if (source == NULL) {
        return MT_EINVAL;
    }
    enum mt_status status =
        pd->context->provider->ah_create(pd, NULL, source, &ah);
    if (status == MT_OK) {
        ah->pd = pd;
        mt_hold(&pd->objects);
        *ah_p = ah;
    }
    return status;
}

enum mt_status mt_fabric_ah_destroy(struct mt_fabric_ah *ah)
{
    struct mt_fabric_pd *pd = ah->pd;
    if (pd->context->lost) {
        return MT_ESTATE;
    }
    pd->context->provider->ah_destroy(ah);
    mt_drop(&pd->objects);
    return MT_OK;
}
