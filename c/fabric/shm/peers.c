/* peers.c: the processes that a process knows, and what their death means. Cold;
 * under the lock of the context. */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "shm.h"

/* How often peers are looked after. */
enum { MT_LOOK_ROUNDS = 4096, MT_LOOK_NS = 5000000 };

static bool mt_same_process(const struct mt_shm_identity *a,
                            const struct mt_shm_identity *b)
{
    return a->pid == b->pid && a->fd == b->fd &&
           a->pid_start == b->pid_start && a->arena_id == b->arena_id;
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
    enum mt_status status = mt_shm_peer_open(identity, peer);
    if (status != MT_OK) {
        free(peer);
        return status;
    }
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
    if (rkey == 0 || __atomic_load_n(&region->rkey, __ATOMIC_ACQUIRE) != rkey ||
        (region->access & access) != access || address < region->address ||
        bytes > region->bytes ||
        address - region->address > region->bytes - bytes) {
        return MT_EACCESS;
    }
    if (region->offset != 0) {
        *offset_p = region->offset + (address - region->address);
    }
    return MT_OK;
}

void mt_shm_wake_slow(struct mt_shm_context *context, struct mt_shm_peer *peer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct mt_shm_root *root = peer->root;
    uint32_t bytes = root->wake_bytes;
    /* one of those who find it asleep wakes it */
    if (__atomic_exchange_n(&root->sleeping, MT_SHM_AWAKE, __ATOMIC_ACQ_REL) ==
            MT_SHM_AWAKE ||
        bytes > sizeof(root->wake)) {
        return;
    }
    memcpy(address.sun_path, root->wake, bytes);
    /* full: it is readable, which is all that is wanted */
    sendto(context->wake_fd, "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
           (struct sockaddr *)&address,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes));
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
                : grave->peer == NULL
                    ? !grave->addressed /* else anybody may write there */
                    : grave->peer->dead ||
                          __atomic_load_n(&grave->ring->gone,
                                          __ATOMIC_ACQUIRE) != 0;
        if (!quiet) {
            place = &grave->next;
            continue;
        }
        *place = grave->next;
        mt_shm_arena_give(&context->arena, grave->inbox != NULL
                                               ? (void *)grave->inbox
                                               : grave->ring);
        if (grave->peer != NULL) {
            mt_shm_peer_put(context, grave->peer);
        }
        free(grave);
    }
}

static void mt_mourn(struct mt_shm_context *context, struct mt_shm_peer *peer)
{
    for (unsigned i = 0; i < MT_SHM_CHANNELS; i++) {
        if (context->channels[i] != NULL) {
            mt_soft_channel_ignore(context->channels[i], peer->pidfd);
        }
    }
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
    if (mt_likely(++context->rounds < MT_LOOK_ROUNDS)) {
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
        if (!peer->dead && mt_shm_peer_died(peer)) {
            mt_mourn(context, peer);
        }
    }
    for (uint32_t i = 0; i < context->live_count; i++) {
        if (context->live[i]->inbox != NULL) {
            mt_shm_inbox_look(context->live[i]);
        }
    }
    if (context->graves != NULL) {
        mt_bury(context);
    }
}
