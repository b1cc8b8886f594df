/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* Datagrams of the iwarp provider from inside: strangers, errors, and the sockets by
 * which they leave. Two contexts of one process stand for two hosts. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include "iwarp_hosts.h"

/* Receives of 128 bytes hold the header and so much. */
enum { RECEIVE = 128, FITS = RECEIVE - MT_IWARP_UD_HEAD };

static struct mt_fabric_ah *ud_join(struct host *a, struct host *b)
{
    struct mt_fabric_address y;
    struct mt_fabric_ah *ah;
    host_open(a);
    host_open(b);
    host_qp(a, MT_FABRIC_UD, 0);
    host_qp(b, MT_FABRIC_UD, 0);
    CHECK_EQ(mt_fabric_qp_connect(a->qp, NULL), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(b->qp, NULL), MT_OK);
    CHECK_EQ(mt_fabric_qp_address(b->qp, &y), MT_OK);
    CHECK_EQ(mt_fabric_ah_create(a->pd, &y, &ah), MT_OK);
    return ah;
}

/* a is told that b failed because of its message of that number. */
static void await_report(struct host *a, struct host *b, uint32_t msn)
{
    struct mt_fabric_event event = {.kind = 0};
    uint64_t until = now_ms() + LIMIT_MS;
    while (mt_fabric_event_take(a->context, &event) != MT_OK &&
           now_ms() < until) {
        pump(a, b);
    }
    CHECK_EQ(event.kind, MT_FABRIC_EVENT_QP_REMOTE);
    CHECK_EQ(event.msn, msn);
}

/* The third message is too long: the receiver fails, the sender is told which.
 */
static void test_ud_error(void)
{
    struct host a, b;
    struct mt_fabric_ah *ah = ud_join(&a, &b);
    for (uint64_t i = 0; i < 4; i++) {
        post_receive(&b, i, RECEIVE);
    }
    for (uint32_t i = 0; i < 3; i++) {
        post(&a, MT_FABRIC_SEND, i < 2 ? FITS : FITS + 1, 0, 0, ah);
        CHECK_EQ(take(&a, a.sends, &b).status, MT_OK);
        struct mt_fabric_completion c = take(&b, b.receives, &a);
        CHECK_EQ(c.id, i);
        CHECK_EQ(c.status, i < 2 ? MT_OK : MT_ETRUNCATED);
    }
    CHECK_EQ(take(&b, b.receives, &a).status, MT_EFLUSHED);
    CHECK_EQ(mt_fabric_qp_state(b.qp), MT_FABRIC_QP_ERROR);
    struct mt_fabric_event event = {.kind = 0};
    CHECK_EQ(mt_fabric_event_take(b.context, &event), MT_OK);
    CHECK_EQ(event.kind, MT_FABRIC_EVENT_QP_FATAL);
    await_report(&a, &b, 3);
    CHECK_EQ(mt_fabric_qp_state(a.qp), MT_FABRIC_QP_RTS);
    /* reset, b has another address, and the old handle reaches nobody */
    CHECK_EQ(mt_fabric_qp_reset(b.qp), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(b.qp, NULL), MT_OK);
    CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);
    host_close(&a);
    host_close(&b);
}

/* Garbage and datagrams for somebody else are counted, and take no receive. */
static void test_ud_strangers(void)
{
    struct host a, b;
    struct mt_fabric_ah *ah = ud_join(&a, &b);
    struct mt_iwarp_context *context = inside(&b);
    const struct sockaddr *to =
        (struct sockaddr *)&((struct mt_iwarp_ah *)ah)->to;
    uint8_t bytes[64] = {0};
    for (uint64_t i = 0; i < 3; i++) {
        post_receive(&b, i, RECEIVE);
    }
    for (size_t n = 0; n <= sizeof(bytes); n += 8) {
        sendto(inner(&a)->fd, bytes, n, 0, to, sizeof(struct sockaddr_in));
    }
    uint64_t until = now_ms() + LIMIT_MS;
    while (mt_fabric_malformed(&context->soft.base) < 9 && now_ms() < until) {
        pump(&a, &b);
    }
    CHECK_EQ(mt_fabric_malformed(&context->soft.base), 9);
    uint8_t key = ((struct mt_iwarp_ah *)ah)->key[0]++;
    post(&a, MT_FABRIC_SEND, 8, 0, 0, ah);
    while (context->strange < 1 && now_ms() < until) {
        pump(&a, &b);
    }
    CHECK_EQ(context->strange, 1);
    ((struct mt_iwarp_ah *)ah)->key[0] = key;
    /* a bad one among good ones, taken by one call: the good ones stay whole */
    inner(&b)->batch = 4;
    for (int i = 0; i < 3; i++) {
        *(uint64_t *)a.mr->address = (uint64_t)i + 5;
        if (i == 1) {
            sendto(inner(&a)->fd, bytes, 40, 0, to, sizeof(struct sockaddr_in));
        }
        post(&a, MT_FABRIC_SEND, 8, 0, 0, ah);
    }
    uint64_t seen = 0;
    for (int i = 0; i < 3; i++) {
        struct mt_fabric_completion c = take(&b, b.receives, &a);
        CHECK_EQ(c.status, MT_OK);
        CHECK_EQ(c.bytes, MT_IWARP_UD_HEAD + 8);
        CHECK_EQ(*(uint64_t *)((char *)b.mr->address + c.id * 128 +
                               MT_IWARP_UD_HEAD),
                 i + 5);
        seen |= UINT64_C(1) << c.id;
    }
    CHECK_EQ(seen, 7);
    CHECK_EQ(mt_fabric_malformed(&context->soft.base), 10);
    CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);
    host_close(&a);
    host_close(&b);
}

/* A datagram from a to b, which both see the end of. */
static struct mt_fabric_completion ud_send(struct host *a, struct host *b,
                                           struct mt_fabric_ah *ah)
{
    post_receive(b, 0, RECEIVE);
    post(a, MT_FABRIC_SEND, 8, 0, 0, ah);
    CHECK_EQ(take(a, a->sends, b).status, MT_OK);
    struct mt_fabric_completion c = take(b, b->receives, a);
    CHECK_EQ(c.status, MT_OK);
    return c;
}

static void ud_many(struct host *a, struct host *b, struct mt_fabric_ah *ah)
{
    for (int i = 0; i < MT_IWARP_UD_OFTEN; i++) {
        ud_send(a, b, ah);
    }
}

static bool has_socket(const struct mt_fabric_ah *ah)
{
    return ((const struct mt_iwarp_ah *)ah)->fd >= 0;
}

/* Destinations that get many have sockets of their own, so many and no more; what is
 * given back makes room. */
static void test_ud_sockets(void)
{
    enum { DESTINATIONS = MT_IWARP_UD_SOCKETS + 1 };
    struct host a, b;
    struct mt_fabric_address y;
    struct mt_fabric_ah *ahs[DESTINATIONS] = {ud_join(&a, &b)};
    CHECK_EQ(mt_fabric_qp_address(b.qp, &y), MT_OK);
    for (int i = 1; i < DESTINATIONS; i++) {
        CHECK_EQ(mt_fabric_ah_create(a.pd, &y, &ahs[i]), MT_OK);
    }
    for (int i = 0; i < DESTINATIONS; i++) {
        ud_send(&a, &b, ahs[i]);
        CHECK(!has_socket(ahs[i]));
        ud_many(&a, &b, ahs[i]);
        CHECK_EQ(has_socket(ahs[i]), i < MT_IWARP_UD_SOCKETS);
    }
    CHECK_EQ(inside(&a)->ud_sockets, MT_IWARP_UD_SOCKETS);
    CHECK_EQ(mt_fabric_ah_destroy(ahs[0]), MT_OK);
    ud_many(&a, &b, ahs[DESTINATIONS - 1]);
    CHECK(has_socket(ahs[DESTINATIONS - 1]));
    for (int i = 1; i < DESTINATIONS; i++) {
        CHECK_EQ(mt_fabric_ah_destroy(ahs[i]), MT_OK);
    }
    CHECK_EQ(inside(&a)->ud_sockets, 0);
    host_close(&a);
    host_close(&b);
}

/* A sender can be answered, and told of an error, whichever socket it used. */
static void test_ud_answers(void)
{
    struct host a, b;
    struct mt_fabric_ah *ah = ud_join(&a, &b), *back;
    ud_many(&a, &b, ah);
    CHECK(has_socket(ah));
    struct mt_fabric_completion c = ud_send(&a, &b, ah);
    CHECK_EQ(mt_fabric_ah_create_source(b.pd, &c.source, &back), MT_OK);
    ud_send(&b, &a, back);
    CHECK_EQ(mt_fabric_ah_destroy(back), MT_OK);
    post_receive(&b, 0, RECEIVE);
    post(&a, MT_FABRIC_SEND, FITS + 1, 0, 0, ah);
    CHECK_EQ(take(&b, b.receives, &a).status, MT_ETRUNCATED);
    await_report(&a, &b, MT_IWARP_UD_OFTEN + 2);
    CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);
    host_close(&a);
    host_close(&b);
}

/* What such a socket does not take goes by that of the queue pair; a destination that
 * is gone is no error of the sender. */
static void test_ud_broken_sockets(void)
{
    struct host a, b;
    struct mt_fabric_ah *ah = ud_join(&a, &b);
    ud_many(&a, &b, ah);
    CHECK(has_socket(ah));
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(null >= 0 && dup2(null, ((struct mt_iwarp_ah *)ah)->fd) >= 0);
    close(null);
    ud_send(&a, &b, ah);
    CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);

    struct mt_fabric_address y;
    CHECK_EQ(mt_fabric_qp_address(b.qp, &y), MT_OK);
    CHECK_EQ(mt_fabric_ah_create(a.pd, &y, &ah), MT_OK);
    ud_many(&a, &b, ah);
    CHECK(has_socket(ah));
    CHECK_EQ(mt_fabric_qp_reset(b.qp), MT_OK);
    for (int i = 0; i < 3; i++) {
        post(&a, MT_FABRIC_SEND, 8, 0, 0, ah);
        CHECK_EQ(take(&a, a.sends, &b).status, MT_OK);
    }
    CHECK_EQ(mt_fabric_qp_state(a.qp), MT_FABRIC_QP_RTS);
    CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);
    host_close(&a);
    host_close(&b);
}

/* Without descriptors datagrams go on by the socket that there is. */
static void test_ud_no_descriptors(void)
{
    struct host a, b;
    struct rlimit was, few;
    struct mt_fabric_ah *ah = ud_join(&a, &b);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = 1;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    ud_many(&a, &b, ah);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    CHECK(!has_socket(ah));
    ud_many(&a, &b, ah);
    CHECK(has_socket(ah));
    CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);
    host_close(&a);
    host_close(&b);
}

/* A receive in pieces is one; one that has no room for the header holds nothing. */
static void test_ud_pieces(void)
{
    struct host a, b;
    struct mt_fabric_ah *ah = ud_join(&a, &b);
    uint8_t *at = b.mr->address;
    struct mt_fabric_piece pieces[] = {{at, 20, b.mr->lkey},
                                       {at + 100, 15, b.mr->lkey},
                                       {at + 200, 50, b.mr->lkey}};
    struct mt_fabric_receive work = {.id = 7, .piece_count = 3, .pieces = pieces};
    CHECK_EQ(mt_fabric_post_receive(b.qp, &work), MT_OK);
    post_receive(&b, 3, MT_IWARP_UD_HEAD - 1);
    memcpy(a.mr->address, "abcdefgh", 8);
    post(&a, MT_FABRIC_SEND, 8, 0, 0, ah);
    struct mt_fabric_completion c = take(&b, b.receives, &a);
    CHECK_EQ(c.status, MT_OK);
    CHECK_EQ(c.id, 7);
    CHECK_EQ(c.bytes, MT_IWARP_UD_HEAD + 8);
    CHECK(memcmp(at + 112, "abc", 3) == 0 && memcmp(at + 200, "defgh", 5) == 0);
    post(&a, MT_FABRIC_SEND, 0, 0, 0, ah);
    c = take(&b, b.receives, &a);
    CHECK_EQ(c.id, 3);
    CHECK_EQ(c.status, MT_ETRUNCATED);
    CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);
    host_close(&a);
    host_close(&b);
}

int main(void)
{
    test_ud_error();
    test_ud_strangers();
    test_ud_pieces();
    test_ud_sockets();
    test_ud_answers();
    test_ud_broken_sockets();
    test_ud_no_descriptors();
    return check_failures != 0;
}
