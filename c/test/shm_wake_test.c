/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* That a process which sleeps until its device has an event is woken by what its
 * peers send, many of them too, and where records are too many for a ring. Both ends
 * are in this process. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../fabric/shm/shm.h"
#include "check.h"

enum { PAIRS = 200, LONG = 32 << 10, MESSAGES = 12 };

struct end {
    struct mt_fabric_context *context;
    struct mt_fabric_pd *pd;
    struct mt_fabric_channel *channel;
    struct mt_fabric_cq *cq;
    struct mt_fabric_mr *mr;
    struct mt_fabric_qp *qps[PAIRS];
};

static struct end ours, theirs;
static char memory[2][LONG];
static bool refused; /* the kernel lets nobody read memory of others */

static ssize_t reach(const struct iovec *to, const struct iovec *from)
{
    if (refused) {
        errno = EPERM;
        return -1;
    }
    memcpy(to->iov_base, from->iov_base, from->iov_len);
    return (ssize_t)from->iov_len;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local,
                         unsigned long local_count, const struct iovec *remote,
                         unsigned long remote_count, unsigned long flags)
{
    (void)pid, (void)local_count, (void)remote_count, (void)flags;
    return reach(local, remote);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local,
                          unsigned long local_count, const struct iovec *remote,
                          unsigned long remote_count, unsigned long flags)
{
    (void)pid, (void)local_count, (void)remote_count, (void)flags;
    return reach(remote, local);
}

static void open_end(struct end *e, char *place, int pairs)
{
    CHECK_EQ(mt_fabric_open("shm", NULL, &e->context), MT_OK);
    CHECK_EQ(mt_fabric_pd_create(e->context, &e->pd), MT_OK);
    CHECK_EQ(mt_fabric_channel_create(e->context, &e->channel), MT_OK);
    CHECK_EQ(mt_fabric_cq_create(e->context, 1024, e->channel, &e->cq), MT_OK);
    CHECK_EQ(mt_fabric_mr_register(e->pd, place, LONG,
                                   MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE,
                                   &e->mr),
             MT_OK);
    for (int i = 0; i < pairs; i++) {
        const struct mt_fabric_qp_options o = {.transport = MT_FABRIC_RC,
                                               .send_cq = e->cq,
                                               .receive_cq = e->cq,
                                               .send_depth = 2 * MESSAGES,
                                               .receive_depth = 2 * MESSAGES,
                                               .pieces = 1,
                                               .port = 1};
        CHECK_EQ(mt_fabric_qp_create(e->pd, &o, &e->qps[i]), MT_OK);
    }
}

static void join(struct mt_fabric_qp *one, struct mt_fabric_qp *other)
{
    struct mt_fabric_address a, b;
    CHECK_EQ(mt_fabric_qp_address(one, &a), MT_OK);
    CHECK_EQ(mt_fabric_qp_address(other, &b), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(one, &b), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(other, &a), MT_OK);
}

static void open_both(int pairs)
{
    open_end(&ours, memory[0], pairs);
    open_end(&theirs, memory[1], pairs);
    /* what registers alike has other keys, but once in 262,144 times */
    CHECK(ours.mr->rkey != theirs.mr->rkey);
    for (int i = 0; i < pairs; i++) {
        join(ours.qps[i], theirs.qps[i]);
    }
}

static void close_end(struct end *e, int pairs)
{
    for (int i = 0; i < pairs; i++) {
        CHECK_EQ(mt_fabric_qp_destroy(e->qps[i]), MT_OK);
    }
    CHECK_EQ(mt_fabric_mr_destroy(e->mr), MT_OK);
    CHECK_EQ(mt_fabric_cq_destroy(e->cq), MT_OK);
    CHECK_EQ(mt_fabric_channel_destroy(e->channel), MT_OK);
    CHECK_EQ(mt_fabric_pd_destroy(e->pd), MT_OK);
    CHECK_EQ(mt_fabric_close(e->context), MT_OK);
}

static void close_both(int pairs)
{
    close_end(&ours, pairs);
    close_end(&theirs, pairs);
}

static void receive(const struct end *e, int pair, uint32_t bytes)
{
    struct mt_fabric_piece p = {e->mr->address, bytes, e->mr->lkey};
    const struct mt_fabric_receive work = {.piece_count = 1, .pieces = &p};
    CHECK_EQ(mt_fabric_post_receive(e->qps[pair], &work), MT_OK);
}

static void transmit(const struct end *e, int pair, uint32_t bytes,
                     uint32_t flags)
{
    struct mt_fabric_piece p = {e->mr->address, bytes, e->mr->lkey};
    const struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                        .flags = flags,
                                        .piece_count = 1,
                                        .pieces = &p};
    CHECK_EQ(mt_fabric_post_send(e->qps[pair], &work), MT_OK);
}

static void take_events(const struct end *e)
{
    struct mt_fabric_cq *cq;
    while (mt_fabric_channel_take(e->channel, &cq) == MT_OK) {
    }
}

static uint32_t received(const struct end *e)
{
    struct mt_fabric_completion c[16];
    uint32_t n = mt_fabric_poll(e->cq, c, 16), found = 0;
    for (uint32_t i = 0; i < n; i++) {
        CHECK_EQ(c[i].status, MT_OK);
        found += c[i].opcode == MT_FABRIC_RECEIVE;
    }
    return found;
}

static bool woken(const struct end *e)
{
    struct pollfd fd = {.fd = mt_fabric_channel_fd(e->channel),
                        .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

/* A message that came before the arming makes no event, and one poll behind it
 * finds it, whichever of the peers sent it. */
static void finds_what_came_before(void)
{
    open_both(PAIRS);
    for (int i = 0; i < 3 * PAIRS; i++) {
        int pair = i * 7 % PAIRS;
        receive(&ours, pair, 8);
        take_events(&ours);
        received(&ours);
        transmit(&theirs, pair, 8, MT_FABRIC_SOLICITED);
        CHECK_EQ(mt_fabric_cq_arm(ours.cq, i % 2 != 0), MT_OK);
        CHECK_EQ(received(&ours), 1);
        received(&theirs);
    }
    close_both(PAIRS);
}

/* One that comes behind it does make one, and whoever takes the event finds it. */
static void wakes_for_any(void)
{
    open_both(PAIRS);
    for (int i = 0; i < 3 * PAIRS; i++) {
        int pair = i * 7 % PAIRS;
        receive(&ours, pair, 8);
        take_events(&ours);
        CHECK_EQ(mt_fabric_cq_arm(ours.cq, true), MT_OK);
        CHECK_EQ(received(&ours), 0);
        transmit(&theirs, pair, 8, MT_FABRIC_SOLICITED);
        CHECK(woken(&ours));
        take_events(&ours);
        CHECK_EQ(received(&ours), 1);
        received(&theirs);
    }
    close_both(PAIRS);
}

/* Peers that were woken and have not looked fill the socket that woke them. */
static void wakes_beside_others(void)
{
    enum { OTHERS = 12 };
    static struct end others[OTHERS];
    int least = 1;
    open_end(&ours, memory[0], OTHERS);
    CHECK(setsockopt(((struct mt_shm_context *)ours.context)->wake_fd,
                     SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)) == 0);
    for (int i = 0; i < OTHERS; i++) {
        open_end(&others[i], memory[1], 1);
        join(ours.qps[i], others[i].qps[0]);
        receive(&others[i], 0, 8);
        take_events(&others[i]);
        CHECK_EQ(mt_fabric_cq_arm(others[i].cq, true), MT_OK);
        CHECK_EQ(received(&others[i]), 0);
    }
    for (int i = 0; i < OTHERS; i++) {
        transmit(&ours, i, 8, MT_FABRIC_SOLICITED);
        CHECK(woken(&others[i]));
    }
    for (int i = 0; i < OTHERS; i++) {
        CHECK_EQ(received(&others[i]), 1);
    }
    received(&ours);
    for (int i = 0; i < OTHERS; i++) {
        close_end(&others[i], 1);
    }
    close_end(&ours, OTHERS);
}

/* Nobody reads the other's memory, so that long messages go in parts. Only the last
 * one wants to be noticed, and the ring is full long before it. */
static void wakes_where_a_ring_is_full(void)
{
    uint32_t found = 0;
    refused = true;
    open_both(1);
    for (int i = 0; i <= MESSAGES; i++) {
        receive(&ours, 0, LONG);
    }
    take_events(&ours);
    CHECK_EQ(mt_fabric_cq_arm(ours.cq, true), MT_OK);
    CHECK_EQ(received(&ours), 0);
    for (int i = 0; i < MESSAGES; i++) {
        transmit(&theirs, 0, LONG, 0);
    }
    transmit(&theirs, 0, 8, MT_FABRIC_SOLICITED);
    for (int round = 0; found <= MESSAGES && round < 1000; round++) {
        CHECK(woken(&ours));
        take_events(&ours);
        found += received(&ours);
        received(&theirs);
        CHECK_EQ(mt_fabric_cq_arm(ours.cq, true), MT_OK);
        found += received(&ours);
        received(&theirs);
    }
    CHECK_EQ(found, MESSAGES + 1);
    close_both(1);
    refused = false;
}

/* A WRITE waits until the peer has fetched the message before it, of which nothing
 * is noticed here. */
static void goes_on_behind_a_message(void)
{
    open_both(1);
    memcpy(memory[0], "and this", 8);
    memset(memory[1], 0, LONG);
    struct mt_fabric_piece p = {ours.mr->address, 8, ours.mr->lkey};
    const struct mt_fabric_send write = {
        .opcode = MT_FABRIC_WRITE,
        .piece_count = 1,
        .pieces = &p,
        .remote_address = (uintptr_t)memory[1] + LONG - 8,
        .rkey = theirs.mr->rkey};
    received(&ours);
    received(&theirs);
    receive(&theirs, 0, LONG - 8);
    transmit(&ours, 0, LONG - 8, 0);
    CHECK_EQ(mt_fabric_post_send(ours.qps[0], &write), MT_OK);
    take_events(&ours);
    CHECK_EQ(mt_fabric_cq_arm(ours.cq, true), MT_OK);
    CHECK_EQ(received(&ours), 0);
    CHECK(memory[1][LONG - 8] == 0);
    CHECK_EQ(received(&theirs), 1);
    CHECK(woken(&ours));
    take_events(&ours);
    received(&ours);
    CHECK(memcmp(memory[1] + LONG - 8, "and this", 8) == 0);
    close_both(1);
}

int main(void)
{
    finds_what_came_before();
    wakes_for_any();
    wakes_beside_others();
    wakes_where_a_ring_is_full();
    goes_on_behind_a_message();
    return check_failures != 0;
}
