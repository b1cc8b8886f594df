/* qp.c: queue pairs from RESET to RTS, their addresses, and address handles. */
#define _GNU_SOURCE 1
#include "verbs.h"

#if MT_VERBS

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- accounts ---- */

enum mt_status mt_verbs_queue_make(struct mt_verbs_queue *queue, uint32_t depth,
                                   bool sends)
{
    queue->depth = depth;
    queue->mask = 0;
    while (queue->mask + 1 < depth) {
        queue->mask = 2 * queue->mask + 1;
    }
    queue->slots = calloc(queue->mask + 1, sizeof(*queue->slots));
    queue->unused = sends ? NULL : calloc(depth, sizeof(*queue->unused));
    if (queue->slots == NULL || (!sends && queue->unused == NULL)) {
        return MT_ENOMEM;
    }
    mt_verbs_queue_clear(queue);
    return MT_OK;
}

void mt_verbs_queue_clear(struct mt_verbs_queue *queue)
{
    queue->head = queue->tail = queue->used = 0;
    for (uint32_t i = 0; queue->unused != NULL && i < queue->depth; i++) {
        queue->unused[i] = (uint16_t)i;
    }
}

void mt_verbs_queue_free(struct mt_verbs_queue *queue)
{
    free(queue->slots);
    free(queue->unused);
}

/* ---- making ---- */

/* 24 bits that the connection before on the same numbers did not have. */
static uint32_t mt_packet_number(void)
{
    uint32_t number = 0;
    ssize_t n = getrandom(&number, sizeof(number), GRND_NONBLOCK);
    return n == sizeof(number) ? number & 0xffffff : 0x2a;
}

static int mt_modify(const struct mt_verbs_qp *qp, struct ibv_qp_attr *attributes,
                     int mask)
{
    return mt_verbs_library()->modify_qp(qp->qp, attributes,
                                         mask | IBV_QP_STATE);
}

/* From RESET: receives may be posted. */
static enum mt_status mt_to_init(struct mt_verbs_qp *qp,
                                 const struct mt_fabric_qp_options *options)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = (uint8_t)options->port,
                            .qkey = MT_VERBS_QKEY,
                            .qp_access_flags = IBV_ACCESS_LOCAL_WRITE |
                                               IBV_ACCESS_REMOTE_WRITE |
                                               IBV_ACCESS_REMOTE_READ};
    bool connected = options->transport == MT_FABRIC_RC;
    int error = mt_modify(qp, &a,
                          IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                              (connected ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY));
    qp->packet = mt_packet_number();
    return error == 0 ? MT_OK : mt_verbs_status(error);
}

static enum mt_status mt_queues_make(struct mt_verbs_qp *qp,
                                     const struct mt_fabric_qp_options *options)
{
    enum mt_status status =
        mt_verbs_queue_make(&qp->sends, options->send_depth, true);
    if (status == MT_OK && options->srq == NULL) {
        status = mt_verbs_queue_make(&qp->own, options->receive_depth, false);
    }
    if (options->transport == MT_FABRIC_UD) {
        struct mt_verbs_srq *srq = (struct mt_verbs_srq *)options->srq;
        *(srq != NULL ? &srq->receives.datagrams : &qp->own.datagrams) = true;
    }
    return status;
}

static enum mt_status mt_qp_make(struct mt_verbs_qp *qp, struct mt_verbs_pd *pd,
                                 const struct mt_fabric_qp_options *options)
{
    struct mt_verbs_srq *srq = (struct mt_verbs_srq *)options->srq;
    struct ibv_qp_init_attr a = {
        .qp_context = qp,
        .send_cq = ((struct mt_verbs_cq *)options->send_cq)->cq,
        .recv_cq = ((struct mt_verbs_cq *)options->receive_cq)->cq,
        .srq = srq != NULL ? srq->srq : NULL,
        .qp_type =
            options->transport == MT_FABRIC_RC ? IBV_QPT_RC : IBV_QPT_UD,
        .cap = {.max_send_wr = options->send_depth,
                .max_recv_wr = srq != NULL ? 0 : options->receive_depth,
                .max_send_sge = options->pieces,
                .max_recv_sge = srq != NULL ? 0 : options->pieces,
                .max_inline_data = options->inline_bytes}};
    qp->qp = mt_verbs_library()->create_qp(pd->pd, &a);
    if (qp->qp == NULL) {
        return mt_verbs_status(errno);
    }
    qp->base.number = qp->qp->qp_num;
    return mt_to_init(qp, options);
}

static void mt_qp_free(struct mt_verbs_qp *qp)
{
    if (qp->qp != NULL) {
        mt_verbs_library()->destroy_qp(qp->qp);
    }
    mt_verbs_queue_free(&qp->sends);
    mt_verbs_queue_free(&qp->own);
    free(qp);
}

enum mt_status mt_verbs_qp_create(struct mt_fabric_pd *pd,
                                  const struct mt_fabric_qp_options *options,
                                  struct mt_fabric_qp **qp_p)
{
    struct mt_verbs_context *context = (struct mt_verbs_context *)pd->context;
    struct mt_verbs_qp *qp = calloc(1, sizeof(*qp));
    if (qp == NULL) {
        return MT_ENOMEM;
    }
    enum mt_status status = mt_queues_make(qp, options);
    if (status == MT_OK) {
        status = mt_qp_make(qp, (struct mt_verbs_pd *)pd, options);
    }
    if (status == MT_OK) {
        status = mt_verbs_owner_make(context, qp, NULL, &qp->owner);
    }
    if (status != MT_OK) {
        mt_qp_free(qp);
        return status;
    }
    if (options->transport == MT_FABRIC_UD) {
        mt_verbs_lock(context);
        context->datagram_ports |= UINT32_C(1) << options->port;
        mt_verbs_unlock(context);
    }
    qp->base.ops = pd->context->ops;
    *qp_p = &qp->base;
    return MT_OK;
}

/* Of a shared queue: what this queue pair had taken of it and not completed is
 * lost to the device, and so to the account, until the shared queue goes. */
void mt_verbs_qp_destroy(struct mt_fabric_qp *base)
{
    struct mt_verbs_qp *qp = (struct mt_verbs_qp *)base;
    struct mt_verbs_context *context = mt_verbs_context_of(base);
    /* what another thread still polls of it is of nobody: it touches it no more */
    mt_verbs_lock(context);
    mt_verbs_owner_renew(context, qp->owner);
    mt_verbs_unlock(context);
    /* without the lock: it waits for events that are being looked at. No event and no
     * completion of it comes afterwards */
    mt_verbs_library()->destroy_qp(qp->qp);
    qp->qp = NULL;
    mt_verbs_lock(context);
    context->due -= qp->due;
    mt_verbs_owner_free(context, qp->owner);
    mt_verbs_unlock(context);
    mt_qp_free(qp);
}

/* ---- addresses ---- */

enum mt_status mt_verbs_qp_address(const struct mt_fabric_qp *base,
                                   struct mt_fabric_address *address)
{
    const struct mt_verbs_qp *qp = (const struct mt_verbs_qp *)base;
    struct mt_verbs_context *context = mt_verbs_context_of(base);
    mt_verbs_lock(context);
    const struct mt_verbs_port *port = &context->ports[base->options.port];
    struct mt_verbs_address a = {.provider = "ibv",
                                 .version = MT_VERBS_VERSION,
                                 .transport = base->options.transport,
                                 .mtu = port->mtu,
                                 .paths = port->paths,
                                 .reads = (uint8_t)base->options.reads,
                                 .number = base->number,
                                 .packet = qp->packet,
                                 .lid = port->lid,
                                 .route = port->route};
    memcpy(a.gid, port->gid, sizeof(a.gid));
    mt_verbs_unlock(context);
    memset(address, 0, sizeof(*address));
    address->bytes = sizeof(a);
    memcpy(address->data, &a, sizeof(a));
    return MT_OK;
}

/* ---- connecting ---- */

/* The seventh retry would be endless on Soft-RoCE (the kernel's rxe_comp.c). */
enum { MT_RETRIES = 6, MT_RNR_FOR_EVER = 7, MT_RNR_640_US = 12 };

/* The code of a time: 4.096 us times a power of two (InfiniBand 1.5, 9.7.6.1.3).
 * A peer is gone after seven of them without an answer, together at least
 * timeout_ms; a device may take up to four times as long. */
static uint8_t mt_timeout_code(uint32_t timeout_ms)
{
    enum { DEFAULT_MS = 7500, TRIES = MT_RETRIES + 1, LONGEST = 31 };
    uint64_t wanted_ns =
        (timeout_ms > 0 ? timeout_ms : DEFAULT_MS) * UINT64_C(1000000);
    uint8_t code = 1;
    while (code < LONGEST && (UINT64_C(4096) << code) * TRIES < wanted_ns) {
        code++;
    }
    return code;
}

static int mt_to_receive(struct mt_verbs_qp *qp, const struct mt_verbs_port *port,
                         enum mt_verbs_path path,
                         const struct mt_verbs_address *a)
{
    const struct mt_fabric_qp_options *o = &qp->base.options;
    struct ibv_qp_attr r = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = (enum ibv_mtu)(a->mtu < port->mtu
                                                           ? a->mtu
                                                           : port->mtu),
                            .dest_qp_num = a->number,
                            .rq_psn = a->packet,
                            .max_dest_rd_atomic = (uint8_t)o->reads,
                            .min_rnr_timer = MT_RNR_640_US};
    const struct mt_verbs_end end = {&a->gid[path], a->lid, a->route != 0};
    mt_verbs_path_fill(port, (uint8_t)o->port, path, &end, &r.ah_attr);
    return mt_modify(qp, &r,
                     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                         IBV_QP_MIN_RNR_TIMER);
}

static int mt_to_send(struct mt_verbs_qp *qp, uint32_t their_reads)
{
    const struct mt_fabric_qp_options *o = &qp->base.options;
    uint32_t reads = o->reads < their_reads ? o->reads : their_reads;
    struct ibv_qp_attr s = {.qp_state = IBV_QPS_RTS,
                            .sq_psn = qp->packet,
                            .timeout = mt_timeout_code(o->timeout_ms),
                            .retry_cnt = MT_RETRIES,
                            .rnr_retry = MT_RNR_FOR_EVER,
                            .max_rd_atomic = (uint8_t)reads};
    return mt_modify(qp, &s,
                     IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void mt_say_strange(struct mt_verbs_context *context, const char *name)
{
    mt_fabric_say(&context->base.options,
                  "verbs: %s has no kind of address in common with its peer "
                  "(InfiniBand, RoCE v1 or v2, IPv4 or IPv6)",
                  name);
}

/* What the peer sent between the two steps may have broken it already. */
static bool mt_is_broken(struct mt_verbs_qp *qp)
{
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr options;
    return mt_verbs_library()->query_qp(qp->qp, &a, IBV_QP_STATE, &options) ==
               0 &&
           a.qp_state == IBV_QPS_ERR;
}

static enum mt_status mt_connect_datagrams(struct mt_verbs_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR};
    int error = mt_modify(qp, &a, 0);
    if (error == 0) {
        a.qp_state = IBV_QPS_RTS;
        a.sq_psn = qp->packet;
        error = mt_modify(qp, &a, IBV_QP_SQ_PSN);
    }
    return error == 0 ? MT_OK : mt_verbs_status(error);
}

enum mt_status mt_verbs_qp_connect(struct mt_fabric_qp *base,
                                   const struct mt_fabric_address *remote)
{
    struct mt_verbs_qp *qp = (struct mt_verbs_qp *)base;
    struct mt_verbs_context *context = mt_verbs_context_of(base);
    struct mt_verbs_address a;
    if (remote == NULL) {
        return mt_connect_datagrams(qp);
    }
    enum mt_status status = mt_verbs_address_parse(remote, MT_FABRIC_RC, &a);
    if (status != MT_OK) {
        return status;
    }
    mt_verbs_lock(context);
    struct mt_verbs_port port = context->ports[base->options.port];
    mt_verbs_unlock(context);
    enum mt_verbs_path path = mt_verbs_path_choose(port.paths, a.paths);
    if (path == MT_VERBS_PATHS) {
        mt_say_strange(context,
                       context->base.device.ports[base->options.port - 1].name);
        return MT_EINVAL;
    }
    int error = mt_to_receive(qp, &port, path, &a);
    bool receives = error == 0;
    if (receives) {
        error = mt_to_send(qp, a.reads);
    }
    if (error == 0) {
        return MT_OK;
    }
    if (receives && mt_is_broken(qp)) {
        mt_verbs_lock(context);
        mt_verbs_qp_failed(qp);
        mt_verbs_unlock(context);
        return MT_OK; /* it was connected */
    }
    mt_fabric_say(&context->base.options, "verbs: connecting: %s",
                  strerror(error));
    if (receives) {
        mt_verbs_qp_reset(base);
        return MT_EIO; /* and not to be tried again: receives are forgotten */
    }
    return mt_verbs_status(error);
}

/* ---- errors ---- */

void mt_verbs_qp_failed(struct mt_verbs_qp *qp)
{
    uint32_t before = __atomic_exchange_n(
        (uint32_t *)&qp->base.state, MT_FABRIC_QP_ERROR, __ATOMIC_ACQ_REL);
    if (before != MT_FABRIC_QP_ERROR) {
        struct mt_verbs_context *context = mt_verbs_context_of(&qp->base);
        qp->due = true;
        context->due++;
        mt_verbs_due_signal(context);
    }
}

enum mt_status mt_verbs_qp_fail(struct mt_fabric_qp *base)
{
    struct mt_verbs_qp *qp = (struct mt_verbs_qp *)base;
    struct mt_verbs_context *context = mt_verbs_context_of(base);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
    int error = mt_modify(qp, &a, 0);
    if (error != 0) {
        return mt_verbs_status(error);
    }
    mt_verbs_lock(context);
    mt_verbs_qp_failed(qp);
    mt_verbs_unlock(context);
    return MT_OK;
}

enum mt_status mt_verbs_qp_reset(struct mt_fabric_qp *base)
{
    struct mt_verbs_qp *qp = (struct mt_verbs_qp *)base;
    struct mt_verbs_context *context = mt_verbs_context_of(base);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
    int error = mt_modify(qp, &a, 0);
    if (error != 0) {
        return mt_verbs_status(error);
    }
    mt_verbs_lock(context);
    mt_verbs_owner_renew(context, qp->owner);
    mt_verbs_queue_clear(&qp->sends);
    mt_verbs_queue_clear(&qp->own);
    mt_verbs_unlock(context);
    return mt_to_init(qp, &base->options);
}

/* ---- address handles ---- */

struct mt_verbs_target {
    uint32_t number;
    uint8_t paths;
    uint8_t mtu; /* enum ibv_mtu */
    uint16_t lid;
    bool route;
    union ibv_gid gid[MT_VERBS_PATHS];
};

static enum mt_status mt_target_of(const struct mt_fabric_address *address,
                                   const struct mt_fabric_source *source,
                                   struct mt_verbs_target *target)
{
    struct mt_verbs_address a;
    memset(target, 0, sizeof(*target));
    if (source != NULL) {
        enum mt_verbs_path path;
        union ibv_gid gid;
        if (!mt_verbs_source_parse(source, &target->number, &path, &gid,
                                   &target->lid)) {
            return MT_EINVAL;
        }
        target->paths = (uint8_t)(1 << path);
        target->mtu = IBV_MTU_4096; /* a datagram does not tell */
        target->route = true;       /* if it came with such a header */
        target->gid[path] = gid;
        return MT_OK;
    }
    enum mt_status status = mt_verbs_address_parse(address, MT_FABRIC_UD, &a);
    if (status == MT_OK) {
        target->number = a.number;
        target->paths = a.paths;
        target->mtu = a.mtu;
        target->lid = a.lid;
        target->route = a.route != 0;
        memcpy(target->gid, a.gid, sizeof(a.gid));
    }
    return status;
}

/* From a port. 0; else errno, or -1: the two have no path. */
static int mt_handle_make(struct mt_verbs_context *context,
                          struct mt_verbs_pd *pd, struct mt_verbs_ah *ah,
                          const struct mt_verbs_target *target, uint32_t number)
{
    struct ibv_ah_attr attributes;
    mt_verbs_lock(context);
    struct mt_verbs_port port = context->ports[number];
    mt_verbs_unlock(context);
    enum mt_verbs_path path = mt_verbs_path_choose(port.paths, target->paths);
    if (!port.up || path == MT_VERBS_PATHS) {
        return port.up ? -1 : ENETDOWN;
    }
    const struct mt_verbs_end end = {&target->gid[path], target->lid,
                                     target->route};
    mt_verbs_path_fill(&port, (uint8_t)number, path, &end, &attributes);
    errno = EIO; /* should it not tell */
    ah->handles[number] = mt_verbs_library()->create_ah(pd->pd, &attributes);
    return ah->handles[number] != NULL ? 0 : errno;
}

static enum mt_status mt_handle_none(struct mt_verbs_context *context, int error)
{
    const char *name = context->base.device.name;
    if (error < 0) {
        mt_say_strange(context, name);
        return MT_EINVAL;
    }
    mt_fabric_say(&context->base.options,
                  "verbs: no datagrams can be sent from %s to a peer: %s", name,
                  strerror(error));
    return mt_verbs_status(error);
}

/* From each port that reaches the target. Of those that datagrams leave by, if there
 * are any yet, one has to. */
static enum mt_status mt_handles_make(struct mt_verbs_context *context,
                                      struct mt_verbs_pd *pd,
                                      struct mt_verbs_ah *ah,
                                      const struct mt_verbs_target *target)
{
    int last = -1;
    bool any = false;
    mt_verbs_lock(context);
    uint32_t ports = context->datagram_ports;
    mt_verbs_unlock(context);
    for (uint32_t i = 1; i <= context->base.device.port_count; i++) {
        int error = mt_handle_make(context, pd, ah, target, i);
        bool counts = ports == 0 || (ports >> i & 1) != 0;
        any = any || (counts && error == 0);
        last = counts && error != 0 ? error : last;
    }
    return any ? MT_OK : mt_handle_none(context, last);
}

enum mt_status mt_verbs_ah_create(struct mt_fabric_pd *pd,
                                  const struct mt_fabric_address *address,
                                  const struct mt_fabric_source *source,
                                  struct mt_fabric_ah **ah_p)
{
    struct mt_verbs_context *context = (struct mt_verbs_context *)pd->context;
    struct mt_verbs_target target;
    enum mt_status status = mt_target_of(address, source, &target);
    struct mt_verbs_ah *ah = status == MT_OK ? calloc(1, sizeof(*ah)) : NULL;
    if (ah == NULL) {
        return status != MT_OK ? status : MT_ENOMEM;
    }
    status = mt_handles_make(context, (struct mt_verbs_pd *)pd, ah, &target);
    if (status != MT_OK) {
        mt_verbs_ah_destroy(&ah->base);
        return status;
    }
    ah->number = target.number;
    ah->mtu = mt_verbs_mtu_bytes(target.mtu);
    ah->base.ops = pd->context->ops;
    *ah_p = &ah->base;
    return MT_OK;
}

void mt_verbs_ah_destroy(struct mt_fabric_ah *base)
{
    struct mt_verbs_ah *ah = (struct mt_verbs_ah *)base;
    for (uint32_t i = 1; i <= MT_FABRIC_PORTS; i++) {
        if (ah->handles[i] != NULL) {
            mt_verbs_library()->destroy_ah(ah->handles[i]);
        }
    }
    free(ah);
}

#endif
