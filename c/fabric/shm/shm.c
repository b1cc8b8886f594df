/* shm.c: the objects of the provider, and its round of progress. */
#define _GNU_SOURCE 1
#include "shm.h"

#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static const struct mt_fabric_ops mt_shm_ops = {
    .post_send = mt_shm_post_send,
    .post_receive = mt_soft_post_receive,
    .post_srq_receive = mt_soft_post_srq_receive,
    .poll = mt_soft_poll,
};

/* ---- the device ---- */

static bool mt_can_barrier(void)
{
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;
}

static uint32_t mt_shm_devices(struct mt_fabric_device *devices, uint32_t limit)
{
    struct mt_shm_identity self;
    if (mt_shm_identity(&self) != MT_OK) {
        return 0;
    }
    if (limit > 0) {
        struct mt_fabric_caps *caps = &devices[0].caps;
        devices[0] = (struct mt_fabric_device){
            .name = "shm",
            .provider = "shm",
            .caps = mt_soft_caps(),
            .port_count = 1,
            .ports = {{.name = "shm", .number = 1, .mtu = MT_SHM_COPY,
                       .up = true}},
        };
        caps->max_reads = MT_SHM_READS;
        caps->max_qps = MT_SHM_QPS;
        caps->ud_payload = MT_INBOX_PAYLOAD;
        caps->events = mt_can_barrier();
        caps->waits_for_receive = true;
        caps->shares_memory = true;
    }
    return 1;
}

/* A datagram socket with a name that the kernel chooses. */
static enum mt_status mt_wake_open(struct mt_shm_context *context)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct mt_shm_root *root = context->arena.root;
    socklen_t bytes = sizeof(address);
    context->wake_fd =
        socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (context->wake_fd < 0 ||
        bind(context->wake_fd, (struct sockaddr *)&address,
             sizeof(sa_family_t)) != 0 ||
        getsockname(context->wake_fd, (struct sockaddr *)&address, &bytes) !=
            0 ||
        bytes - offsetof(struct sockaddr_un, sun_path) > sizeof(root->wake)) {
        return MT_ENOMEM;
    }
    root->wake_bytes =
        (uint32_t)(bytes - offsetof(struct sockaddr_un, sun_path));
    memcpy(root->wake, address.sun_path, root->wake_bytes);
    return MT_OK;
}

/* What comes from here on wakes the reader of a channel. The barrier stands for
 * the one that senders leave out: who published before it did not see the flag,
 * and progress, which follows, finds the record. */
static void mt_shm_armed(struct mt_soft_context *soft)
{
    struct mt_shm_context *context = (struct mt_shm_context *)soft;
    char drain[64];
    if (soft->has_engine) {
        return; /* it never sleeps */
    }
    while (recv(context->wake_fd, drain, sizeof(drain), MSG_DONTWAIT) > 0) {
    }
    enum mt_shm_sleep sleep =
        soft->armed_count[MT_SOFT_ARMED] > 0             ? MT_SHM_ASLEEP
        : soft->armed_count[MT_SOFT_ARMED_SOLICITED] > 0 ? MT_SHM_ASLEEP_SOLICITED
                                                         : MT_SHM_AWAKE;
    __atomic_store_n(&context->arena.root->sleeping, sleep, __ATOMIC_SEQ_CST);
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    context->rounds = UINT32_MAX / 2; /* look after the peers now */
    context->unseen = context->live_count;
}

static void mt_shm_close(struct mt_fabric_context *base)
{
    struct mt_shm_context *context = (struct mt_shm_context *)base;
    mt_soft_stop(&context->soft);
    while (context->graves != NULL) {
        struct mt_shm_grave *grave = context->graves;
        context->graves = grave->next;
        if (grave->peer != NULL) {
            mt_shm_peer_put(context, grave->peer);
        }
        free(grave);
    }
    if (context->wake_fd >= 0) {
        close(context->wake_fd);
    }
    uint64_t malformed = mt_fabric_malformed(base);
    if (malformed > 0) {
        mt_fabric_say(&context->soft.base.options,
                      "%s: malformed messages %llu",
                      context->soft.base.device.name,
                      (unsigned long long)malformed);
    }
    mt_shm_arena_destroy(&context->arena);
    free(context);
}

static enum mt_status mt_shm_open(const struct mt_fabric_device *device,
                                  const struct mt_fabric_options *options,
                                  struct mt_fabric_context **context_p)
{
    struct mt_shm_context *context = calloc(1, sizeof(*context));
    (void)device;
    if (context == NULL) {
        return MT_ENOMEM;
    }
    context->wake_fd = -1;
    context->soft.base.ops = &mt_shm_ops;
    context->soft.progress = mt_shm_progress;
    context->soft.push = mt_shm_push;
    context->soft.armed = mt_shm_armed;
    enum mt_status status = mt_shm_arena_create(&context->arena);
    if (status == MT_ENOMEM) {
        mt_shm_say_space(options, mt_shm_arena_bytes(), (int)getpid());
    }
    if (status == MT_OK) {
        status = mt_wake_open(context);
    }
    if (status == MT_OK && mt_can_barrier()) {
        context->barriers =
            syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0,
                    0) == 0;
        context->arena.root->barriers = context->barriers;
    }
    if (status == MT_OK) {
        status = mt_soft_start(&context->soft, options, MT_SHM_QPS);
    }
    if (status != MT_OK) {
        mt_fabric_say(options, "shm: %s", mt_status_text(status));
        mt_shm_close(&context->soft.base);
        return status;
    }
    *context_p = &context->soft.base;
    return MT_OK;
}

/* ---- memory ---- */

/* An entry that is free, MT_SHM_REGIONS if none is. */
static uint32_t mt_region_free(struct mt_shm_context *context)
{
    for (uint32_t n = 0; n < MT_SHM_REGIONS; n++) {
        uint32_t i = (context->next_region + n) % MT_SHM_REGIONS;
        if (context->arena.root->regions[i].bytes == 0) {
            context->next_region = i + 1;
            return i;
        }
    }
    return MT_SHM_REGIONS;
}

/* Publishes a region. Processes that register alike have different keys: one that
 * copies says which by the key alone (mt_shm_name). */
static uint32_t mt_region_publish(struct mt_shm_context *context,
                                  uint32_t index, const struct mt_shm_mr *mr,
                                  uint32_t access)
{
    struct mt_shm_region *region = &context->arena.root->regions[index];
    uint32_t key = mt_soft_key(index,
                               context->arena.root->identity.arena_id +
                                   context->region_turns[index]++,
                               MT_SHM_REGIONS);
    uint64_t offset = mr->arena != NULL
                          ? mt_shm_offset(&context->arena, mr->arena)
                          : 0;
    /* who still looks at the one before sees that its key is gone */
    __atomic_store_n(&region->access, access, __ATOMIC_RELEASE);
    __atomic_store_n(&region->address, (uint64_t)(uintptr_t)mr->base.address,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&region->bytes, mr->base.bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&region->offset, offset, __ATOMIC_RELEASE);
    __atomic_store_n(&region->rkey, key, __ATOMIC_RELEASE);
    return key;
}

static enum mt_status mt_shm_mr_create(struct mt_fabric_pd *pd, void *address,
                                       size_t bytes, uint32_t access,
                                       struct mt_fabric_mr **mr_p)
{
    struct mt_shm_context *context = (struct mt_shm_context *)pd->context;
    struct mt_shm_mr *mr = calloc(1, sizeof(*mr));
    enum mt_status status = MT_ENOMEM;
    if (mr == NULL) {
        return MT_ENOMEM;
    }
    mt_soft_lock(&context->soft);
    mr->shared =
        (access & (MT_FABRIC_REMOTE_WRITE | MT_FABRIC_REMOTE_READ)) != 0;
    mr->index = mt_region_free(context);
    mr->arena = address == NULL ? mt_shm_arena_take(&context->arena, bytes)
                                : NULL;
    if (mr->index < MT_SHM_REGIONS && (address != NULL || mr->arena != NULL)) {
        mr->base.address = address != NULL ? address : mr->arena;
        mr->base.bytes = bytes;
        mr->base.rkey = mt_region_publish(context, mr->index, mr, access);
        mr->base.lkey = mr->base.rkey;
        status = MT_OK;
    } else if (mr->arena != NULL) {
        mt_shm_arena_give(&context->arena, mr->arena);
    }
    mt_soft_unlock(&context->soft);
    if (status != MT_OK) {
        free(mr);
        return status;
    }
    *mr_p = &mr->base;
    return MT_OK;
}

/* What is not from mt_fabric_mr_allocate has no offset. */
static void *mt_shm_remote_pointer(const struct mt_fabric_qp *base,
                                   uint64_t address, uint32_t rkey,
                                   uint64_t bytes)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)base;
    uint64_t offset;
    return qp->peer != NULL && mt_shm_joined(qp) &&
                   mt_shm_region_find(qp->peer->root, rkey, address, bytes,
                                      MT_FABRIC_REMOTE_WRITE, &offset) ==
                       MT_OK &&
                   offset != 0
               ? mt_shm_at(qp->peer, offset, bytes)
               : NULL;
}

static void mt_shm_mr_destroy(struct mt_fabric_mr *base)
{
    struct mt_shm_mr *mr = (struct mt_shm_mr *)base;
    struct mt_shm_context *context =
        (struct mt_shm_context *)base->pd->context;
    struct mt_shm_region *region = &context->arena.root->regions[mr->index];
    mt_soft_lock(&context->soft);
    __atomic_store_n(&region->rkey, 0, __ATOMIC_SEQ_CST);
    bool quiet = !mr->shared || (mr->arena != NULL
                                     ? mt_shm_untouched(context, NULL)
                                     : mt_shm_unnamed(context, base->rkey));
    if (quiet) { /* else it goes back with the context */
        __atomic_store_n(&region->bytes, 0, __ATOMIC_RELEASE);
    }
    if (quiet && mr->arena != NULL) {
        mt_shm_arena_give(&context->arena, mr->arena);
    }
    mt_soft_unlock(&context->soft);
    free(mr);
}

/* ---- channels ---- */

static enum mt_status mt_shm_channel_create(struct mt_fabric_context *base,
                                            struct mt_fabric_channel **channel_p)
{
    struct mt_shm_context *context = (struct mt_shm_context *)base;
    enum mt_status status = mt_soft_channel_create(base, channel_p);
    if (status != MT_OK) {
        return status;
    }
    struct mt_soft_channel *channel = (struct mt_soft_channel *)*channel_p;
    unsigned place = 0;
    mt_soft_lock(&context->soft);
    while (place < MT_SHM_CHANNELS && context->channels[place] != NULL) {
        place++;
    }
    bool sleeps = !context->soft.has_engine;
    status = place == MT_SHM_CHANNELS ? MT_ENOMEM
             : sleeps ? mt_soft_channel_watch(channel, context->wake_fd)
                      : MT_OK;
    for (uint32_t i = 0; sleeps && i < context->peer_count && status == MT_OK;
         i++) {
        if (!context->peers[i]->dead && context->peers[i]->pidfd >= 0) {
            status = mt_soft_channel_watch(channel, context->peers[i]->pidfd);
        }
    }
    if (status == MT_OK) {
        context->channels[place] = channel;
    }
    mt_soft_unlock(&context->soft);
    if (status != MT_OK) {
        mt_soft_channel_destroy(&channel->base);
    }
    return status;
}

static void mt_shm_channel_destroy(struct mt_fabric_channel *channel)
{
    struct mt_shm_context *context = (struct mt_shm_context *)channel->context;
    mt_soft_lock(&context->soft);
    for (unsigned i = 0; i < MT_SHM_CHANNELS; i++) {
        if (context->channels[i] == (struct mt_soft_channel *)channel) {
            context->channels[i] = NULL;
        }
    }
    mt_soft_unlock(&context->soft);
    mt_soft_channel_destroy(channel);
}

/* ---- queue pairs ---- */

static enum mt_status mt_qp_open(struct mt_shm_context *context,
                                 struct mt_shm_qp *qp,
                                 const struct mt_fabric_qp_options *options)
{
    qp->life = MT_SHM_LIFE | ++context->lives;
    if (options->transport == MT_FABRIC_UD) {
        return mt_shm_inbox_open(context, qp, qp->soft.receives->depth);
    }
    qp->ring = mt_shm_arena_take(&context->arena, sizeof(*qp->ring));
    qp->in = (struct mt_ring_reader){.ring = qp->ring};
    if (qp->ring == NULL) {
        return MT_ENOMEM;
    }
    qp->ring->claim = qp->life;
    return MT_OK;
}

static enum mt_status mt_shm_qp_create(struct mt_fabric_pd *pd,
                                       const struct mt_fabric_qp_options *options,
                                       struct mt_fabric_qp **qp_p)
{
    struct mt_shm_context *context = (struct mt_shm_context *)pd->context;
    struct mt_shm_qp *qp = calloc(1, sizeof(*qp));
    if (qp == NULL) {
        return MT_ENOMEM;
    }
    enum mt_status status =
        mt_soft_qp_start(&context->soft, &qp->soft, options);
    if (status != MT_OK) {
        free(qp);
        return status;
    }
    mt_soft_lock(&context->soft);
    status = mt_qp_open(context, qp, options);
    mt_soft_unlock(&context->soft);
    if (status != MT_OK) {
        mt_soft_qp_stop(&context->soft, &qp->soft);
        free(qp);
        return status;
    }
    *qp_p = &qp->soft.base;
    return MT_OK;
}

static void mt_live_add(struct mt_shm_context *context, struct mt_shm_qp *qp)
{
    qp->place = context->live_count;
    context->live[context->live_count++] = qp;
    qp->is_live = true;
}

static void mt_live_remove(struct mt_shm_context *context, struct mt_shm_qp *qp)
{
    if (!qp->is_live) {
        return;
    }
    struct mt_shm_qp *last = context->live[--context->live_count];
    context->live[qp->place] = last;
    last->place = qp->place;
    qp->is_live = qp->is_recent = false;
    for (unsigned i = 0; i < MT_SHM_RECENT; i++) {
        if (context->recent[i] == qp) {
            context->recent[i] = NULL;
        }
    }
}

/* A peer may still write into the ring or the inbox: it goes back once that is
 * over. A ring that nobody has connected to goes at once. */
static void mt_memory_retire(struct mt_shm_context *context, struct mt_shm_qp *qp)
{
    uint64_t life = qp->life;
    if (qp->ring != NULL &&
        __atomic_compare_exchange_n(&qp->ring->claim, &life, 0, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        mt_shm_arena_give(&context->arena, qp->ring);
        if (qp->lane != NULL) {
            mt_shm_arena_give(&context->arena, qp->lane);
        }
        return;
    }
    struct mt_shm_grave *grave = calloc(1, sizeof(*grave));
    if (grave == NULL) {
        return; /* it goes back with the arena */
    }
    grave->ring = qp->ring;
    grave->lane = qp->lane;
    grave->inbox = qp->inbox;
    grave->inbox_count = qp->inbox_count;
    grave->peer = qp->peer;
    if (grave->peer != NULL) {
        grave->peer->users++;
    }
    grave->next = context->graves;
    context->graves = grave;
}

static void mt_qp_close(struct mt_shm_context *context, struct mt_shm_qp *qp)
{
    mt_live_remove(context, qp);
    if (qp->inbox != NULL) {
        mt_memory_retire(context, qp);
    }
    if (qp->ring != NULL) {
        mt_shm_part(qp, MT_EPEER);
        mt_memory_retire(context, qp);
    }
    if (qp->peer != NULL) {
        mt_shm_peer_put(context, qp->peer);
    }
    qp->peer = NULL;
    qp->ring = qp->lane = NULL;
    qp->inbox = NULL;
    qp->out = qp->lane_out = (struct mt_ring_writer){0};
    qp->parted = qp->joined = qp->receiving = false;
    qp->orders = 0;
    qp->received = 0;
    qp->answer_head = qp->answer_tail = 0;
    qp->inbox_head = qp->inbox_stuck = 0;
}

static void mt_shm_qp_destroy(struct mt_fabric_qp *base)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)base;
    struct mt_shm_context *context = mt_shm_context_of(qp);
    mt_soft_lock(&context->soft);
    mt_qp_close(context, qp);
    mt_soft_unlock(&context->soft);
    mt_soft_qp_stop(&context->soft, &qp->soft);
    free(qp);
}

static enum mt_status mt_shm_qp_address(const struct mt_fabric_qp *base,
                                        struct mt_fabric_address *address)
{
    const struct mt_shm_qp *qp = (const struct mt_shm_qp *)base;
    const struct mt_shm_context *context = mt_shm_context_of(qp);
    struct mt_shm_address a = {.provider = "shm",
                               .version = MT_SHM_VERSION,
                               .identity = context->arena.root->identity,
                               .life = qp->life,
                               .transport = base->options.transport};
    a.offset = qp->ring != NULL ? mt_shm_offset(&context->arena, qp->ring)
                                : mt_shm_offset(&context->arena, qp->inbox);
    memset(address, 0, sizeof(*address));
    address->bytes = sizeof(a);
    memcpy(address->data, &a, sizeof(a));
    return MT_OK;
}

/* Takes an address apart. */
static enum mt_status mt_address_parse(const struct mt_fabric_address *address,
                                       enum mt_fabric_transport transport,
                                       struct mt_shm_address *a)
{
    memset(a, 0, sizeof(*a));
    if (address->bytes < 8) {
        return MT_EINVAL;
    }
    memcpy(a, address->data,
           address->bytes < sizeof(*a) ? address->bytes : sizeof(*a));
    if (memcmp(a->provider, "shm", 4) != 0) {
        return MT_EINVAL;
    }
    if (a->version != MT_SHM_VERSION) {
        return MT_EVERSION;
    }
    bool sound = address->bytes == sizeof(*a) && a->transport == transport &&
                 a->offset % MT_RING_LINE == 0;
    return sound ? MT_OK : MT_EINVAL;
}

/* Where the peer's memory cannot be read, its answers to READs need a ring. */
static enum mt_status mt_lane_open(struct mt_shm_context *context,
                                   struct mt_shm_qp *qp)
{
    if (qp->peer->reads || qp->soft.base.options.reads == 0) {
        return MT_OK;
    }
    qp->lane = mt_shm_arena_take(&context->arena, sizeof(*qp->lane));
    qp->lane_in = (struct mt_ring_reader){.ring = qp->lane};
    return qp->lane != NULL ? MT_OK : MT_ENOMEM;
}

/* The ring of the peer, which is told that this side is there. */
static enum mt_status mt_join(struct mt_shm_context *context,
                              struct mt_shm_qp *qp,
                              const struct mt_shm_address *a)
{
    enum mt_status status =
        mt_shm_peer_get(context, &a->identity, &qp->peer);
    if (status != MT_OK) {
        return status;
    }
    struct mt_ring *ring = mt_shm_at(qp->peer, a->offset, sizeof(*ring));
    status = ring != NULL ? mt_lane_open(context, qp) : MT_EINVAL;
    uint64_t life = a->life;
    if (status == MT_OK &&
        ((life & MT_SHM_LIFE) == 0 ||
         !__atomic_compare_exchange_n(
             &ring->claim, &life,
             (uint64_t)context->arena.root->identity.pid, false,
             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))) {
        status = MT_EPEER; /* it is gone, or has another peer */
    }
    if (status != MT_OK) {
        if (qp->lane != NULL) {
            mt_shm_arena_give(&context->arena, qp->lane);
            qp->lane = NULL;
        }
        mt_shm_peer_put(context, qp->peer);
        qp->peer = NULL;
        return status;
    }
    qp->out.ring = ring;
    if (qp->lane != NULL) {
        __atomic_store_n(&ring->lane, mt_shm_offset(&context->arena, qp->lane),
                         __ATOMIC_RELAXED);
    }
    /* pairs with mt_shm_joined and mt_shm_pulls */
    __atomic_store_n(&ring->joined,
                     qp->peer->reads ? MT_RING_PULLS : MT_RING_JOINED,
                     __ATOMIC_RELEASE);
    mt_shm_wake(context, qp->peer, true);
    return MT_OK;
}

static enum mt_status mt_shm_qp_connect(struct mt_fabric_qp *base,
                                        const struct mt_fabric_address *remote)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)base;
    struct mt_shm_context *context = mt_shm_context_of(qp);
    struct mt_shm_address a;
    enum mt_status status =
        remote != NULL ? mt_address_parse(remote, MT_FABRIC_RC, &a) : MT_OK;
    if (status != MT_OK) {
        return status;
    }
    mt_soft_lock(&context->soft);
    if (remote != NULL) {
        status = mt_join(context, qp, &a);
    }
    if (status == MT_OK) {
        mt_live_add(context, qp);
    }
    mt_soft_unlock(&context->soft);
    return status;
}

static enum mt_status mt_shm_qp_fail(struct mt_fabric_qp *base)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)base;
    struct mt_shm_context *context = mt_shm_context_of(qp);
    mt_soft_lock(&context->soft);
    mt_shm_fail(qp, NULL, MT_EPEER);
    mt_soft_unlock(&context->soft);
    return MT_OK;
}

static enum mt_status mt_shm_qp_reset(struct mt_fabric_qp *base)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)base;
    struct mt_shm_context *context = mt_shm_context_of(qp);
    mt_soft_lock(&context->soft);
    mt_qp_close(context, qp);
    mt_soft_qp_clear(&qp->soft);
    enum mt_status status = mt_qp_open(context, qp, &base->options);
    if (status != MT_OK) {
        __atomic_store_n(&base->state, MT_FABRIC_QP_ERROR, __ATOMIC_RELEASE);
    }
    mt_soft_unlock(&context->soft);
    return status;
}

/* The identity that a datagram's source stands for: of this machine. How much it shares
 * has no room there. */
static void mt_source_identity(const struct mt_shm_context *context,
                               const struct mt_fabric_source *source,
                               struct mt_shm_identity *identity)
{
    *identity = context->arena.root->identity;
    identity->pid = (int32_t)(uint32_t)source->words[0];
    identity->fd = (int32_t)(uint32_t)(source->words[0] >> 32);
    identity->pid_start = source->words[1];
    identity->arena_id = (uint32_t)(source->words[3] >> 32);
    identity->arena_bytes = mt_shm_peer_bytes(identity);
}

static enum mt_status mt_shm_ah_create(struct mt_fabric_pd *pd,
                                       const struct mt_fabric_address *address,
                                       const struct mt_fabric_source *source,
                                       struct mt_fabric_ah **ah_p)
{
    struct mt_shm_context *context = (struct mt_shm_context *)pd->context;
    struct mt_shm_address a = {0};
    enum mt_status status = MT_OK;
    if (source != NULL) {
        mt_source_identity(context, source, &a.identity);
        a.offset = source->words[2];
        a.life = source->words[3];
        status = a.offset % MT_RING_LINE == 0 ? MT_OK : MT_EINVAL;
    } else {
        status = mt_address_parse(address, MT_FABRIC_UD, &a);
    }
    struct mt_shm_ah *ah = status == MT_OK ? calloc(1, sizeof(*ah)) : NULL;
    if (ah == NULL) {
        return status != MT_OK ? status : MT_ENOMEM;
    }
    mt_soft_lock(&context->soft);
    status = mt_shm_peer_get(context, &a.identity, &ah->peer);
    mt_soft_unlock(&context->soft);
    if (status != MT_OK) {
        free(ah);
        return status;
    }
    ah->base.ops = context->soft.base.ops;
    ah->offset = a.offset;
    ah->life = (uint32_t)a.life;
    *ah_p = &ah->base;
    return MT_OK;
}

static void mt_shm_ah_destroy(struct mt_fabric_ah *base)
{
    struct mt_shm_ah *ah = (struct mt_shm_ah *)base;
    struct mt_shm_context *context =
        (struct mt_shm_context *)base->pd->context;
    mt_soft_lock(&context->soft);
    mt_shm_peer_put(context, ah->peer);
    mt_soft_unlock(&context->soft);
    free(ah);
}

/* ---- progress ---- */

/* The other side is gone, or gave up. What it sent before is taken first. */
static void mt_check_peer(struct mt_shm_qp *qp)
{
    struct mt_soft_qp *soft = &qp->soft;
    /* in this order: who fails says why before it says that it is gone */
    uint32_t gone = __atomic_load_n(&qp->ring->gone, __ATOMIC_ACQUIRE);
    uint32_t failed = __atomic_load_n(&qp->out.ring->failed, __ATOMIC_ACQUIRE);
    if (mt_likely(failed == MT_OK && gone == 0)) {
        return;
    }
    while (mt_shm_take(qp)) {
    }
    mt_shm_settle(qp);
    enum mt_status status = failed == MT_EACCESS      ? MT_EACCESS
                            : failed == MT_ETRUNCATED ? MT_ETRUNCATED
                                                      : MT_EPEER;
    mt_shm_fail(
        qp, soft->head != soft->tail ? mt_soft_work_at(soft, soft->head) : NULL,
        status);
}

static bool mt_visit(struct mt_shm_qp *qp)
{
    struct mt_soft_qp *soft = &qp->soft;
    bool moved;
    if (mt_unlikely(soft->base.state != MT_FABRIC_QP_RTS)) {
        return false;
    }
    if (qp->inbox != NULL) {
        moved = mt_shm_take_datagrams(qp);
    } else {
        moved = mt_shm_take(qp);
        if (mt_unlikely(qp->answer_head != qp->answer_tail)) {
            moved = mt_shm_answer(qp) || moved;
        }
        if (mt_unlikely(soft->head != soft->next)) {
            mt_shm_settle(qp);
        }
        if (!moved) { /* who is gone or gave up says nothing more */
            mt_check_peer(qp);
        }
    }
    if (mt_unlikely(soft->next != soft->tail)) {
        uint32_t before = soft->next;
        mt_shm_push(soft);
        moved = moved || soft->next != before;
    }
    return moved;
}

static void mt_remember(struct mt_shm_context *context, struct mt_shm_qp *qp)
{
    struct mt_shm_qp **place =
        &context->recent[context->recent_turn++ % MT_SHM_RECENT];
    if (*place != NULL) {
        (*place)->is_recent = false;
    }
    *place = qp;
    qp->is_recent = true;
}

/* One round: who was busy lately, then the next few in turn; behind an arming all
 * of them, once: who published before it wakes nobody. */
bool mt_shm_progress(struct mt_soft_context *soft)
{
    struct mt_shm_context *context = (struct mt_shm_context *)soft;
    bool moved = false;
    for (unsigned i = 0; i < MT_SHM_RECENT; i++) {
        if (context->recent[i] != NULL) {
            moved = mt_visit(context->recent[i]) || moved;
        }
    }
    uint32_t unseen = context->unseen;
    uint32_t turns = unseen > MT_SHM_TURNS ? unseen : MT_SHM_TURNS;
    turns = turns < context->live_count ? turns : context->live_count;
    for (uint32_t n = 0;
         n < turns && (!moved || n < MT_SHM_OTHERS || n < unseen); n++) {
        context->turn++;
        context->turn = context->turn < context->live_count ? context->turn : 0;
        struct mt_shm_qp *qp = context->live[context->turn];
        if (!qp->is_recent && mt_visit(qp)) {
            moved = true;
            mt_remember(context, qp);
        }
    }
    context->unseen = 0;
    /* by time where nothing moves: the rounds of a sleeper are few */
    context->rounds += moved ? 0 : MT_SHM_IDLE;
    mt_shm_look_after(context);
    return moved;
}

const struct mt_fabric_provider mt_fabric_shm = {
    .name = "shm",
    .devices = mt_shm_devices,
    .open = mt_shm_open,
    .close = mt_shm_close,
    .event_fd = mt_soft_event_fd,
    .event_take = mt_soft_event_take,
    .pd_create = mt_soft_pd_create,
    .pd_destroy = mt_soft_pd_destroy,
    .mr_create = mt_shm_mr_create,
    .mr_destroy = mt_shm_mr_destroy,
    .channel_create = mt_shm_channel_create,
    .channel_destroy = mt_shm_channel_destroy,
    .channel_take = mt_soft_channel_take,
    .cq_create = mt_soft_cq_create,
    .cq_destroy = mt_soft_cq_destroy,
    .cq_arm = mt_soft_cq_arm,
    .srq_create = mt_soft_srq_create,
    .srq_destroy = mt_soft_srq_destroy,
    .qp_create = mt_shm_qp_create,
    .qp_destroy = mt_shm_qp_destroy,
    .qp_address = mt_shm_qp_address,
    .qp_connect = mt_shm_qp_connect,
    .qp_fail = mt_shm_qp_fail,
    .qp_reset = mt_shm_qp_reset,
    .remote_pointer = mt_shm_remote_pointer,
    .ah_create = mt_shm_ah_create,
    .ah_destroy = mt_shm_ah_destroy,
};
