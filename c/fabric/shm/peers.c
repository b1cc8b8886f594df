/* peers.c: the processes that a process knows, and what their death means. Cold;
 * under the lock of the context. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shm.h"

/* How often peers are looked after. */
enum { MT_LOOK_ROUNDS = 4096, MT_LOOK_NS = 5000000 };

/* How long a live peer may be in the middle of touching our memory: it copies
 * MT_SHM_AT_ONCE at most, and may have lost its processor meanwhile. */
enum { MT_TOUCH_SPINS = 1000, MT_TOUCH_NS = 100000, MT_TOUCH_MS = 10000 };

static bool mt_same_process(const struct mt_shm_identity *a,
                            const struct mt_shm_identity *b)
{
    return a->pid == b->pid && a->fd == b->fd &&
           a->pid_start == b->pid_start && a->arena_id == b->arena_id;
}

void mt_shm_say_space(const struct mt_fabric_options *options, uint64_t bytes,
                      int pid)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        mt_fabric_say(options,
                      "shm: there is no address space for the %llu MiB that "
                      "process %d shares; RLIMIT_AS is %llu MiB: raise it "
                      "(ulimit -v), or give all processes the same",
                      (unsigned long long)bytes >> 20, pid,
                      (unsigned long long)limit.rlim_cur >> 20);
    }
}

enum mt_status mt_shm_peer_get(struct mt_shm_context *context,
                               const struct mt_shm_identity *identity,
                               struct mt_shm_peer **peer_p)
{
    for (uint32_t i = 0; i < context->peer_count; i++) {
        if (mt_same_process(&context->peers[i]->identity, identity)) {
            if (mt_shm_peer_died(context->peers[i])) {
                return MT_EPEER;
            }
            context->peers[i]->users++;
            *peer_p = context->peers[i];
            return MT_OK;
        }
    }
    struct mt_shm_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL || context->peer_count == MT_SHM_PEERS) {
        free(peer);
        return MT_ENOMEM;
    }
    enum mt_status status =
        mt_shm_peer_open(&context->arena.root->identity, identity, peer);
    if (status != MT_OK) {
        if (status == MT_ENOMEM) {
            mt_shm_say_space(&context->soft.base.options,
                             identity->arena_bytes, (int)identity->pid);
        }
        free(peer);
        return status;
    }
    peer->light = context->barriers && peer->root->barriers != 0;
    for (unsigned i = 0; i < MT_SHM_CHANNELS && !context->soft.has_engine; i++) {
        if (context->channels[i] != NULL) {
            mt_soft_channel_watch(context->channels[i], peer->pidfd);
        }
    }
    peer->users = 1;
    context->peers[context->peer_count++] = peer;
    *peer_p = peer;
    return MT_OK;
}

/* Also where a child holds a copy of the descriptor: closing it is not enough. */
static void mt_unwatch(struct mt_shm_context *context,
                       const struct mt_shm_peer *peer)
{
    for (unsigned i = 0; i < MT_SHM_CHANNELS; i++) {
        if (context->channels[i] != NULL) {
            mt_soft_channel_ignore(context->channels[i], peer->pidfd);
        }
    }
}

void mt_shm_peer_put(struct mt_shm_context *context, struct mt_shm_peer *peer)
{
    if (--peer->users > 0) {
        return;
    }
    for (uint32_t i = 0; i < context->peer_count; i++) {
        if (context->peers[i] == peer) {
            context->peers[i] = context->peers[--context->peer_count];
            break;
        }
    }
    mt_unwatch(context, peer);
    mt_shm_peer_close(peer);
    free(peer);
}

enum mt_status mt_shm_region_find(const struct mt_shm_root *root, uint32_t rkey,
                                  uint64_t address, uint64_t bytes,
                                  uint32_t access, uint64_t *offset_p)
{
    const struct mt_shm_region *region =
        &root->regions[(rkey - 1) % MT_SHM_REGIONS];
    *offset_p = 0;
    if (bytes == 0) {
        return MT_OK; /* InfiniBand 1.5, 9.7.5.2.4: the key is not looked at */
    }
    if (rkey == 0 || __atomic_load_n(&region->rkey, __ATOMIC_SEQ_CST) != rkey) {
        return MT_EACCESS;
    }
    /* the place may become another region's meanwhile, and then the key is gone */
    uint32_t may = __atomic_load_n(&region->access, __ATOMIC_ACQUIRE);
    uint64_t begin = __atomic_load_n(&region->address, __ATOMIC_ACQUIRE);
    uint64_t room = __atomic_load_n(&region->bytes, __ATOMIC_ACQUIRE);
    uint64_t offset = __atomic_load_n(&region->offset, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&region->rkey, __ATOMIC_RELAXED) != rkey ||
        (may & access) != access || address < begin || bytes > room ||
        address - begin > room - bytes) {
        return MT_EACCESS;
    }
    if (offset != 0) {
        *offset_p = offset + (address - begin);
    }
    return MT_OK;
}

static bool mt_wake_by(int fd, const struct sockaddr_un *to, socklen_t bytes)
{
    return sendto(fd, "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)to, bytes) == 1;
}

/* What peers have not read counts against the socket that sent it, and a few hundred of
 * them fill it. A fresh one is empty; if that cannot send either, the peer's is
 * readable, which is all that is wanted. */
static bool mt_wake_afresh(const struct sockaddr_un *to, socklen_t bytes)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    mt_wake_by(fd, to, bytes);
    close(fd);
    return true;
}

void mt_shm_wake_slow(struct mt_shm_context *context, struct mt_shm_peer *peer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct mt_shm_root *root = peer->root;
    /* once: its owner may write it */
    uint32_t path = __atomic_load_n(&root->wake_bytes, __ATOMIC_RELAXED);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path);
    /* one of those who find it asleep wakes it */
    uint32_t was =
        __atomic_exchange_n(&root->sleeping, MT_SHM_AWAKE, __ATOMIC_ACQ_REL);
    if (was == MT_SHM_AWAKE || path > sizeof(root->wake)) {
        return;
    }
    memcpy(address.sun_path, root->wake, path);
    if (mt_wake_by(context->wake_fd, &address, bytes) || errno != EAGAIN ||
        mt_wake_afresh(&address, bytes)) {
        return;
    }
    uint32_t awake = MT_SHM_AWAKE; /* whoever comes next tries again */
    __atomic_compare_exchange_n(&root->sleeping, &awake, was, false,
                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Until it is out of what it was in when the word was seen, or dead. */
static bool mt_await_touched(struct mt_shm_context *context,
                             struct mt_shm_peer *peer, uint64_t seen)
{
    const uint64_t *place = &peer->root->touching;
    uint64_t until = 0;
    for (unsigned n = 0;
         seen % 2 != 0 && !peer->dead &&
         mt_touch_turn(__atomic_load_n(place, __ATOMIC_ACQUIRE)) ==
             mt_touch_turn(seen);
         n++) {
        if (n < MT_TOUCH_SPINS) {
            continue;
        }
        uint64_t now = mt_soft_now();
        until = until != 0 ? until : now + MT_TOUCH_MS * UINT64_C(1000000);
        if (now > until) {
            mt_fabric_say(&context->soft.base.options,
                          "shm: process %d has stood still for %d s in the "
                          "middle of a copy, which it may finish later",
                          (int)peer->identity.pid, MT_TOUCH_MS / 1000);
            return false;
        }
        mt_shm_peer_left(peer);
        nanosleep(&(struct timespec){.tv_nsec = MT_TOUCH_NS}, NULL);
    }
    return true;
}

bool mt_shm_untouched(struct mt_shm_context *context, struct mt_shm_peer *peer)
{
    bool quiet = true;
    if (peer != NULL ? peer->dead : context->peer_count == 0) {
        return true;
    }
    /* pairs with mt_shm_touch: who is in it is seen here, who comes into it
     * sees what was written before */
    if (context->barriers) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    }
    __atomic_add_fetch(&context->barrier, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < context->peer_count; i++) {
        struct mt_shm_peer *p = context->peers[i];
        uint64_t seen = __atomic_load_n(&p->root->touching, __ATOMIC_ACQUIRE);
        if (peer == NULL || peer == p) {
            quiet = mt_await_touched(context, p, seen) && quiet;
        }
    }
    return quiet;
}

bool mt_shm_unnamed(struct mt_shm_context *context, uint32_t rkey)
{
    bool quiet = true;
    /* pairs with mt_shm_name: who has named it is seen here, who names it sees
     * that it is gone */
    __atomic_add_fetch(&context->barrier, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < context->peer_count; i++) {
        struct mt_shm_peer *p = context->peers[i];
        uint64_t seen = __atomic_load_n(&p->root->touching, __ATOMIC_SEQ_CST);
        if (mt_touch_name(seen) == rkey) {
            quiet = mt_await_touched(context, p, seen) && quiet;
        }
    }
    return quiet;
}

void mt_shm_part(struct mt_shm_qp *qp, enum mt_status why)
{
    struct mt_shm_context *context = mt_shm_context_of(qp);
    if (qp->ring == NULL || qp->parted) {
        return;
    }
    qp->parted = true;
    __atomic_store_n(&qp->ring->failed, (uint32_t)why, __ATOMIC_RELEASE);
    if (qp->out.ring == NULL) {
        return; /* nobody touches what is not connected */
    }
    __atomic_store_n(&qp->out.ring->gone, MT_RING_LEAVING, __ATOMIC_RELEASE);
    bool quiet = __atomic_load_n(&qp->ring->gone, __ATOMIC_ACQUIRE) ==
                     MT_RING_GONE ||
                 mt_shm_untouched(context, qp->peer);
    if (quiet) {
        __atomic_store_n(&qp->out.ring->gone, MT_RING_GONE, __ATOMIC_RELEASE);
    }
    mt_shm_wake(context, qp->peer, true);
}

static bool mt_writer_gone(const struct mt_shm_grave *grave)
{
    struct mt_ring *ring = grave->ring;
    return __atomic_load_n(&ring->gone, __ATOMIC_ACQUIRE) == MT_RING_GONE ||
           (grave->peer != NULL
                ? grave->peer->dead
                : mt_shm_pid_died((int32_t)__atomic_load_n(
                      &ring->claim, __ATOMIC_ACQUIRE)));
}

/* Gives back rings that nobody will write to any more. */
static void mt_bury(struct mt_shm_context *context)
{
    struct mt_shm_grave **place = &context->graves;
    while (*place != NULL) {
        struct mt_shm_grave *grave = *place;
        bool quiet =
            grave->inbox != NULL
                ? mt_shm_inbox_sealed(grave->inbox, grave->inbox_count)
                : mt_writer_gone(grave);
        if (!quiet) {
            place = &grave->next;
            continue;
        }
        *place = grave->next;
        mt_shm_arena_give(&context->arena, grave->inbox != NULL
                                               ? (void *)grave->inbox
                                               : grave->ring);
        if (grave->lane != NULL) {
            mt_shm_arena_give(&context->arena, grave->lane);
        }
        if (grave->peer != NULL) {
            mt_shm_peer_put(context, grave->peer);
        }
        free(grave);
    }
}

static void mt_mourn(struct mt_shm_context *context, struct mt_shm_peer *peer)
{
    peer->mourned = true;
    mt_unwatch(context, peer);
    for (uint32_t i = 0; i < context->live_count; i++) {
        struct mt_shm_qp *qp = context->live[i];
        if (qp->peer == peer && qp->soft.base.state == MT_FABRIC_QP_RTS) {
            while (mt_shm_take(qp)) { /* what it sent before it died */
            }
            struct mt_soft_qp *soft = &qp->soft;
            mt_shm_fail(qp,
                        soft->head != soft->tail
                            ? mt_soft_work_at(soft, soft->head)
                            : NULL,
                        MT_EPEER);
        }
    }
}

void mt_shm_look_after(struct mt_shm_context *context)
{
    if (mt_likely(++context->rounds < MT_LOOK_ROUNDS &&
                  !context->soft.yields)) {
        return;
    }
    context->rounds = 0;
    uint64_t now = mt_soft_now();
    if (now - context->looked_ns < MT_LOOK_NS) {
        return;
    }
    context->looked_ns = now;
    for (uint32_t i = 0; i < context->peer_count; i++) {
        struct mt_shm_peer *peer = context->peers[i];
        bool asked = i == context->next_peer % context->peer_count;
        if (!peer->mourned &&
            (asked ? mt_shm_peer_left(peer) : mt_shm_peer_died(peer))) {
            mt_mourn(context, peer);
        }
    }
    context->next_peer++;
    for (uint32_t i = 0; i < context->live_count; i++) {
        if (context->live[i]->inbox != NULL) {
            mt_shm_inbox_look(context->live[i]);
        }
    }
    if (context->graves != NULL) {
        mt_bury(context);
    }
}
