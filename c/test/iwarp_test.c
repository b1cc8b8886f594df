/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* The iwarp provider from inside: its CRC, its headers, what it answers to a
 * peer that breaks the protocol, and what it does with strangers. Two contexts
 * of one process stand for two hosts. */
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iwarp_hosts.h"

/* ---- CRC ---- */

/* Bit by bit, straight from the polynomial. */
static uint32_t crc_dumb(uint32_t crc, const uint8_t *bytes, size_t count)
{
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

#if defined(__x86_64__)

/* The processor's upper halves of vector registers are as nobody had used them (XINUSE,
 * of Intel's manual, volume 1, 13.6); where it does not say, nothing. */
static void clean(void)
{
    enum { AVX = 1 << 2, ZMM = 1 << 6 };
    static unsigned char data[4096];
    unsigned a, b, c, d, low, high;
    uint32_t crc = 0;
    if (!__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || (a & 1 << 2) == 0) {
        return;
    }
    if (mt_crc32c_by(MT_CRC_BY_FOLDING, &crc, data, sizeof(data))) {
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
        CHECK_EQ(low & (AVX | ZMM), 0);
    }
}

#else

static void clean(void)
{
}

#endif

static void test_crc(void)
{
    clean();
    /* RFC 3720, appendix B.4 */
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    for (unsigned i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    CHECK_EQ(mt_crc32c(0, zeros, 32), 0x8a9136aau);
    CHECK_EQ(mt_crc32c(0, ones, 32), 0x62a8ab43u);
    CHECK_EQ(mt_crc32c(0, up, 32), 0x46dd794eu);
    CHECK_EQ(mt_crc32c(0, down, 32), 0x113fdb5cu);
    CHECK_EQ(mt_crc32c(0, "123456789", 9), 0xe3069283u);
    uint8_t bytes[8200], wire[4];
    unsigned long long state = 3;
    for (int round = 0; round < 2000; round++) {
        size_t skip = check_random(&state) % 9,
               count = check_random(&state) % (round % 10 == 0 ? 8190 : 500);
        for (size_t i = 0; i < skip + count; i++) {
            bytes[i] = (uint8_t)check_random(&state);
        }
        uint32_t first = (uint32_t)check_random(&state);
        uint32_t dumb = crc_dumb(first, bytes + skip, count);
        CHECK_EQ(mt_crc32c(first, bytes + skip, count), dumb);
        for (int kind = MT_CRC_BY_TABLE; kind <= MT_CRC_BY_FOLDING; kind++) {
            uint32_t crc = first;
            bool can = mt_crc32c_by((enum mt_crc_kind)kind, &crc, bytes + skip,
                                    count);
            CHECK(can ? crc == dumb : kind != MT_CRC_BY_TABLE);
        }
        mt_put_crc(wire, dumb);
        CHECK_EQ(mt_get_crc(wire), dumb);
    }
    mt_put_crc(wire, 0x8a9136aau); /* "aa 36 91 8a" in RFC 3720 */
    CHECK_EQ(wire[0], 0xaa);
    CHECK_EQ(wire[3], 0x8a);
}

/* ---- headers ---- */

static void test_segments(void)
{
    struct mt_iwarp_segment w = {.tagged = true,
                                 .last = true,
                                 .opcode = MT_RDMAP_WRITE,
                                 .stag = 0x11223344,
                                 .to = 0x0102030405060708,
                                 .bytes = 5};
    struct mt_iwarp_segment got;
    uint8_t at[MT_DDP_UNTAGGED_HEAD];
    static const uint8_t tagged[] = {0xc1, 0x40, 0x11, 0x22, 0x33, 0x44, 1,
                                     2,    3,    4,    5,    6,    7,    8};
    static const uint8_t untagged[] = {0x41, 0x45, 0, 0, 0, 9, 0, 0, 0,
                                       0,    0,    0, 0, 7, 0, 0, 1, 0};
    CHECK_EQ(mt_segment_write(at, &w), sizeof(tagged));
    CHECK(memcmp(at, tagged, sizeof(tagged)) == 0);
    CHECK_EQ(mt_segment_parse(at, sizeof(tagged) + 5, &got), MT_TERM_NONE);
    CHECK(got.tagged && got.last && got.bytes == 5 && got.to == w.to);
    struct mt_iwarp_segment s = {.last = true,
                                 .opcode = MT_RDMAP_SEND_SOLICITED,
                                 .reserved = 9,
                                 .msn = 7,
                                 .mo = 256};
    CHECK_EQ(mt_segment_write(at, &s), sizeof(untagged));
    CHECK(memcmp(at, untagged, sizeof(untagged)) == 0);
    CHECK_EQ(mt_segment_parse(at, sizeof(untagged), &got), MT_TERM_NONE);
    CHECK(!got.tagged && got.msn == 7 && got.mo == 256 && got.bytes == 0);
    CHECK_EQ(mt_segment_parse(at, sizeof(untagged) - 1, &got), MT_TERM_LENGTH);
    at[0] = 0x42;
    CHECK_EQ(mt_segment_parse(at, 40, &got), MT_TERM_UNTAGGED_VERSION);
    at[0] = 0x41;
    at[1] = 0x83;
    CHECK_EQ(mt_segment_parse(at, 40, &got), MT_TERM_RDMAP_VERSION);
    at[1] = 0x44; /* Send with Invalidate: nobody here sends it */
    CHECK_EQ(mt_segment_parse(at, 40, &got), MT_TERM_OPCODE);
    at[1] = 0x43;
    at[9] = 1;
    CHECK_EQ(mt_segment_parse(at, 40, &got), MT_TERM_QUEUE);
    for (uint32_t n = 0; n < 9; n++) {
        CHECK_EQ((MT_MPA_LENGTH + n + mt_mpa_pad(n)) % 4, 0);
        CHECK(mt_mpa_pad(n) < 4);
    }
}

/* ---- errors of a stream, at both ends ---- */

/* b finds the fault and tells a: the oldest send of a, a READ that b does not
 * get to answer, fails with it. */
static void fault(const struct mt_iwarp_segment *s, bool good_crc,
                  enum mt_status status)
{
    struct host a, b;
    struct mt_fabric_completion c;
    uint8_t ulpdu[64] = {0};
    join(&a, &b);
    uint32_t head = mt_segment_write(ulpdu, s);
    inject(&a, ulpdu, head + s->bytes, good_crc);
    struct mt_fabric_piece p = {a.mr->address, 8, a.mr->lkey};
    struct mt_fabric_send read = {.id = 1,
                                  .opcode = MT_FABRIC_READ,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address =
                                      (uint64_t)(uintptr_t)b.mr->address,
                                  .rkey = b.mr->rkey};
    CHECK_EQ(mt_fabric_post_send(a.qp, &read), MT_OK);
    c = take(&a, a.sends, &b);
    CHECK_EQ(c.status, status);
    await_error(&a, &b);
    host_close(&a);
    host_close(&b);
}

static void test_faults(void)
{
    struct mt_iwarp_segment send = {
        .last = true, .opcode = MT_RDMAP_SEND, .msn = 1, .bytes = 8};
    struct mt_iwarp_segment s = send;
    fault(&s, true, MT_EPEER); /* no receive */
    fault(&s, false, MT_EIO);  /* wrong CRC */
    s.msn = 2;
    fault(&s, true, MT_EPEER);
    s = send;
    s.mo = 8;
    fault(&s, true, MT_EPEER);
    s = send;
    s.queue = 3;
    fault(&s, true, MT_EPEER);
    s = send;
    s.opcode = 12;
    fault(&s, true, MT_EPEER);
    struct mt_iwarp_segment write = {.tagged = true,
                                     .last = true,
                                     .opcode = MT_RDMAP_WRITE,
                                     .stag = 77,
                                     .to = 4096,
                                     .bytes = 8};
    fault(&write, true, MT_EACCESS);
    write.opcode = MT_RDMAP_READ_RESPONSE; /* nobody asked */
    fault(&write, true, MT_EACCESS);
}

/* A SEND that is longer than its receive. */
static void test_truncated(void)
{
    struct host a, b;
    join(&a, &b);
    post_receive(&b, 9, 100);
    post(&a, MT_FABRIC_SEND, ROOM, 0, 0, NULL);
    struct mt_fabric_completion c = take(&b, b.receives, &a);
    CHECK_EQ(c.id, 9);
    CHECK_EQ(c.status, MT_ETRUNCATED);
    await_error(&a, &b);
    host_close(&a);
    host_close(&b);
}

/* ---- a READ that is answered early ----
 *
 * Work in one sendmsg completes when the socket has taken all of it. A READ among it
 * may be answered before, while WRITEs ahead of it are still counted as under way. */

static void test_early_answer(void)
{
    enum { WORKS = 3 };
    struct host a, b;
    join(&a, &b);
    const struct mt_soft_qp *soft = &inner(&a)->soft;
    const uint32_t first = soft->head;
    int least = 1;
    CHECK(setsockopt(inner(&a)->fd, SOL_SOCKET, SO_SNDBUF, &least,
                     sizeof(least)) == 0);
    CHECK(setsockopt(inner(&b)->fd, SOL_SOCKET, SO_RCVBUF, &least,
                     sizeof(least)) == 0);
    for (uint64_t i = 0; i < WORKS; i++) {
        bool last = i == WORKS - 1;
        struct mt_fabric_piece p = {a.mr->address, last ? ROOM : 8, a.mr->lkey};
        struct mt_fabric_send work = {
            .id = i,
            .opcode = i == 1 ? MT_FABRIC_READ : MT_FABRIC_WRITE,
            .flags = MT_FABRIC_SIGNALED | (last ? 0 : MT_FABRIC_MORE),
            .piece_count = 1,
            .pieces = &p,
            .remote_address = (uint64_t)(uintptr_t)b.mr->address,
            .rkey = b.mr->rkey};
        CHECK_EQ(mt_fabric_post_send(a.qp, &work), MT_OK);
    }
    bool early = false;
    for (uint64_t done = 0, until = now_ms() + LIMIT_MS;
         done < WORKS && now_ms() < until;) {
        struct mt_fabric_completion c;
        early = early || (soft->head == first &&
                          mt_soft_work_at(soft, first + 1)->done);
        pump(&b, &a);
        if (mt_fabric_poll(a.sends, &c, 1) == 1) {
            CHECK_EQ(c.status, MT_OK);
            CHECK_EQ(c.id, done);
            done++;
        }
    }
    CHECK(early);
    CHECK_EQ(soft->head, first + WORKS);
    host_close(&a);
    host_close(&b);
}

/* ---- who sleeps, and what wakes ---- */

static bool readable(const struct host *h)
{
    struct pollfd fd = {.fd = inner(h)->fd, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

/* Until all that was sent to a is in its socket. */
static void delivered(const struct host *a, int bytes)
{
    int there = 0;
    uint64_t until = now_ms() + LIMIT_MS;
    while (there < bytes && now_ms() < until) {
        CHECK(ioctl(inner(a)->fd, FIONREAD, &there) == 0);
    }
    CHECK_EQ(there, bytes);
}

static void arm(struct host *h)
{
    struct mt_fabric_completion none;
    mt_fabric_poll(h->sends, &none, 0);
    mt_iwarp_armed(&inside(h)->soft);
}

/* In the middle of a long answer a packet wakes nobody, half of the rest does; of a
 * frame that follows, its first byte does. */
static void test_wakes(void)
{
    enum { HEAD = MT_MPA_LENGTH + MT_DDP_TAGGED_HEAD, BYTES = 16 << 10 };
    static uint8_t frame[HEAD + BYTES + MT_MPA_CRC];
    struct host a, b;
    join(&a, &b);
    const int fd = inner(&b)->fd; /* it speaks for b, which does nothing */
    post(&a, MT_FABRIC_READ, 2 * BYTES, (uint64_t)(uintptr_t)b.mr->address,
         b.mr->rkey, NULL);
    for (uint32_t half = 0; half < 2; half++) {
        struct mt_iwarp_segment s = {.tagged = true,
                                     .last = half == 1,
                                     .opcode = MT_RDMAP_READ_RESPONSE,
                                     .stag = inner(&a)->soft.head,
                                     .to = (uint64_t)half * BYTES,
                                     .bytes = BYTES};
        mt_put16(frame, MT_DDP_TAGGED_HEAD + BYTES);
        mt_segment_write(frame + MT_MPA_LENGTH, &s);
        mt_put_crc(frame + HEAD + BYTES, mt_crc32c(0, frame, HEAD + BYTES));
        const int first = HEAD + 100, more = 8000;
        CHECK_EQ(send(fd, frame, (size_t)first, 0), first);
        delivered(&a, first);
        CHECK(readable(&a)); /* nobody knows yet what it is */
        arm(&a);
        const int missing = BYTES - 100 + MT_MPA_CRC;
        CHECK_EQ(inner(&a)->wakes_at,
                 half == 0 ? (missing + BYTES) / 2 : missing);
        CHECK_EQ(send(fd, frame + first, (size_t)more, 0), more);
        delivered(&a, more);
        CHECK(!readable(&a));
        size_t rest = sizeof(frame) - (size_t)(first + more);
        CHECK_EQ(send(fd, frame + first + more, rest, 0), rest);
        delivered(&a, more + (int)rest);
        CHECK_EQ(readable(&a), half == 1); /* half of it all is in the next */
        arm(&a);
        CHECK_EQ(inner(&a)->wakes_at, 1);
    }
    struct mt_fabric_completion c;
    CHECK_EQ(mt_fabric_poll(a.sends, &c, 1), 1);
    CHECK_EQ(c.status, MT_OK);
    CHECK_EQ(send(fd, frame, 1, 0), 1);
    delivered(&a, 1);
    CHECK(readable(&a));
    host_close(&a);
    host_close(&b);
}

/* What fills its socket while others sleep wakes them when there is room. */
static void test_room(void)
{
    struct host a, b;
    struct mt_fabric_channel *channel;
    struct mt_fabric_cq *asleep;
    int least = 1;
    join(&a, &b);
    CHECK_EQ(mt_fabric_channel_create(a.context, &channel), MT_OK);
    CHECK_EQ(mt_fabric_cq_create(a.context, 1, channel, &asleep), MT_OK);
    CHECK(setsockopt(inner(&a)->fd, SOL_SOCKET, SO_SNDBUF, &least,
                     sizeof(least)) == 0);
    CHECK(setsockopt(inner(&b)->fd, SOL_SOCKET, SO_RCVBUF, &least,
                     sizeof(least)) == 0);
    CHECK_EQ(mt_fabric_cq_arm(asleep, true), MT_OK);
    CHECK(!inner(&a)->wants_out);
    post(&a, MT_FABRIC_WRITE, ROOM, (uint64_t)(uintptr_t)b.mr->address,
         b.mr->rkey, NULL);
    CHECK(inner(&a)->waits && inner(&a)->wants_out);
    /* part of what a reader of the channel sleeps on; the rest looks now and then */
    struct pollfd fd = {.fd = inside(&a)->epoll, .events = POLLIN};
    struct mt_fabric_completion none;
    uint64_t until = now_ms() + LIMIT_MS;
    while (poll(&fd, 1, 1) == 0 && now_ms() < until) {
        mt_fabric_poll(b.sends, &none, 0);
    }
    CHECK_EQ(fd.revents, POLLIN);
    CHECK_EQ(take(&a, a.sends, &b).status, MT_OK);
    CHECK(!inner(&a)->waits && !inner(&a)->wants_out);
    CHECK_EQ(mt_fabric_cq_destroy(asleep), MT_OK);
    CHECK_EQ(mt_fabric_channel_destroy(channel), MT_OK);
    host_close(&a);
    host_close(&b);
}

/* ---- strangers ---- */

static int stranger(const struct host *h)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(inside(h)->self.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

/* Sends, and pumps until the other side has counted one more. */
static void refused(struct host *h, const uint8_t *bytes, size_t count,
                    int flags)
{
    uint64_t before = inside(h)->refused, until = now_ms() + LIMIT_MS;
    uint8_t reply[128];
    int fd = stranger(h);
    CHECK_EQ(send(fd, bytes, count, MSG_NOSIGNAL), count);
    while (inside(h)->refused == before && now_ms() < until) {
        mt_fabric_poll(h->sends, NULL, 0);
        /* a queue pair that connects would look at once */
        inside(h)->rounds = UINT32_MAX / 2;
    }
    CHECK_EQ(inside(h)->refused, before + 1);
    ssize_t n = recv(fd, reply, sizeof(reply), 0);
    if (flags >= 0) {
        CHECK(n >= MT_MPA_START && memcmp(reply, MT_MPA_REPLY, 16) == 0);
        CHECK_EQ(reply[MT_MPA_KEY], flags);
    } else {
        CHECK(n <= 0);
    }
    close(fd);
}

static void test_strangers(void)
{
    struct host h;
    struct mt_fabric_address a;
    uint8_t request[68] = {0};
    host_open(&h);
    host_qp(&h, MT_FABRIC_RC, 0);
    CHECK_EQ(mt_fabric_qp_address(h.qp, &a), MT_OK);
    refused(&h,
            (const uint8_t *)"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: "
                             "*/*\r\nConnection: keep-alive\r\n\r\n",
            68, -1);
    memcpy(request, MT_MPA_REQUEST, 16);
    request[16] = MT_MPA_CRCS;
    request[17] = MT_MPA_REVISION;
    request[19] = 48;
    memcpy(request + 20, "iwp", 4);
    request[27] = MT_IWARP_VERSION + 1;
    refused(&h, request, sizeof(request), MT_MPA_CRCS | MT_MPA_REJECT);
    request[27] = MT_IWARP_VERSION;
    mt_put32(request + 32, h.qp->number);
    refused(&h, request, sizeof(request), MT_MPA_CRCS | MT_MPA_REJECT);
    memcpy(request + 52, a.data + 32, MT_IWARP_KEY);
    request[16] = MT_MPA_CRCS | MT_MPA_MARKERS;
    refused(&h, request, sizeof(request), -1);
    request[35] ^= 0x70; /* a queue pair that is not there */
    request[16] = MT_MPA_CRCS;
    refused(&h, request, sizeof(request), MT_MPA_CRCS | MT_MPA_REJECT);
    /* when there are as many as there may be, the next is not heard */
    inside(&h)->guest_count = MT_IWARP_GUESTS;
    refused(&h, request, sizeof(request), -1);
    inside(&h)->guest_count = 0;
    host_close(&h);
}

/* A peer that never comes, and one that is not there. */
static void test_nobody(void)
{
    for (int k = 0; k < 2; k++) {
        struct host h;
        struct mt_fabric_address a;
        host_open(&h);
        host_qp(&h, MT_FABRIC_RC, 0);
        inner(&h)->open_ms = 300;
        CHECK_EQ(mt_fabric_qp_address(h.qp, &a), MT_OK);
        /* the one with the larger port waits for the other to call; the other
         * calls where nobody listens */
        mt_put16(a.data + 10, k == 0 ? 1 : 65535);
        CHECK_EQ(mt_fabric_qp_connect(h.qp, &a), MT_OK);
        post(&h, MT_FABRIC_SEND, 8, 0, 0, NULL);
        struct mt_fabric_completion c = take(&h, h.sends, &h);
        CHECK_EQ(c.status, MT_EPEER);
        CHECK_EQ(mt_fabric_qp_state(h.qp), MT_FABRIC_QP_ERROR);
        host_close(&h);
    }
}

/* A peer whose process is stopped closes its window, and its kernel is asked at ever
 * longer intervals, which become longer than the limit. That is no silence. */
static void test_stopped(void)
{
    enum { WORKS = 16, LIMIT = 600, STOPPED_MS = 7000 };
    struct host a, b;
    int done = 0;
    join(&a, &b);
    inner(&a)->timeout_ms = LIMIT;
    for (int i = 0; i < WORKS; i++) {
        post(&a, MT_FABRIC_WRITE, ROOM, (uint64_t)(uintptr_t)b.mr->address,
             b.mr->rkey, NULL);
    }
    uint32_t most = 0, left = 0;
    struct mt_fabric_completion c;
    for (uint64_t end = now_ms() + STOPPED_MS; now_ms() < end;) {
        struct tcp_info info = {0};
        socklen_t bytes = sizeof(info);
        done += mt_fabric_poll(a.sends, &c, 1) == 1;
        CHECK(getsockopt(inner(&a)->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) ==
              0);
        most = info.tcpi_last_ack_recv > most ? info.tcpi_last_ack_recv : most;
        left = info.tcpi_notsent_bytes;
    }
    CHECK(most > 2 * LIMIT && left > 0); /* else the test shows nothing */
    CHECK_EQ(mt_fabric_qp_state(a.qp), MT_FABRIC_QP_RTS);
    for (; done < WORKS; done++) {
        CHECK_EQ(take(&a, a.sends, &b).status, MT_OK);
    }
    host_close(&a);
    host_close(&b);
}

/* All have called, and wait for the last one, longer than a connection may take. */
static void test_late(void)
{
    struct host a, b;
    struct mt_fabric_address x, y;
    host_open(&a);
    host_open(&b);
    host_qp(&a, MT_FABRIC_RC, 0);
    host_qp(&b, MT_FABRIC_RC, 0);
    inner(&a)->open_ms = inner(&b)->open_ms = 1500;
    CHECK_EQ(mt_fabric_qp_address(a.qp, &x), MT_OK);
    CHECK_EQ(mt_fabric_qp_address(b.qp, &y), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(a.qp, &y), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(b.qp, &x), MT_OK);
    usleep(2500000);
    /* the clock is looked at in the first round, before they are open */
    inside(&a)->ticks = inside(&b)->ticks = UINT16_MAX;
    post(&a, MT_FABRIC_WRITE, 8, (uint64_t)(uintptr_t)b.mr->address, b.mr->rkey,
         NULL);
    CHECK_EQ(take(&a, a.sends, &b).status, MT_OK);
    host_close(&a);
    host_close(&b);
}

/* One has connected, and looks; the other one does later than a peer that is open may
 * be silent, but not later than it may take to open. */
static void test_slow(bool caller_first)
{
    enum { SILENT_MS = 300, LATE_MS = 1000 };
    struct host a, b;
    struct mt_fabric_address address, other;
    host_open(&a);
    host_open(&b);
    bool a_calls = inside(&a)->self.port < inside(&b)->self.port;
    struct host *first = a_calls == caller_first ? &a : &b;
    struct host *late = first == &a ? &b : &a;
    host_qp(&a, MT_FABRIC_RC, SILENT_MS);
    host_qp(&b, MT_FABRIC_RC, SILENT_MS);
    CHECK_EQ(mt_fabric_qp_address(first->qp, &address), MT_OK);
    CHECK_EQ(mt_fabric_qp_address(late->qp, &other), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(first->qp, &other), MT_OK);
    CHECK_EQ(inner(first)->link == MT_LINK_AWAITED, !caller_first);
    for (uint64_t until = now_ms() + LATE_MS; now_ms() < until;) {
        pump(first, late);
        if (inside(late)->guests != NULL && inside(late)->guests->parked) {
            inside(late)->guests->waited_ms = MT_IWARP_GUEST_MS;
        }
    }
    CHECK_EQ(inside(late)->guest_count, caller_first);
    CHECK_EQ(mt_fabric_qp_connect(late->qp, &address), MT_OK);
    post(first, MT_FABRIC_WRITE, 8, (uint64_t)(uintptr_t)late->mr->address,
         late->mr->rkey, NULL);
    CHECK_EQ(take(first, first->sends, late).status, MT_OK);
    host_close(&a);
    host_close(&b);
}

static unsigned shutdowns;

/* In place of that of the C library, which it counts for. */
int shutdown(int fd, int how)
{
    shutdowns++;
    return (int)syscall(SYS_shutdown, fd, how);
}

/* What the end of a connection costs does not grow with those that ended before it,
 * whose peers have not read what was sent last. */
static void test_many_end(void)
{
    enum { PAIRS = 200 };
    static struct mt_fabric_qp *of_a[PAIRS], *of_b[PAIRS];
    struct host a, b;
    host_open(&a);
    host_open(&b);
    for (int i = 0; i < PAIRS; i++) {
        struct mt_fabric_address x, y;
        host_qp(&a, MT_FABRIC_RC, 0);
        host_qp(&b, MT_FABRIC_RC, 0);
        of_a[i] = a.qp;
        of_b[i] = b.qp;
        CHECK_EQ(mt_fabric_qp_address(a.qp, &x), MT_OK);
        CHECK_EQ(mt_fabric_qp_address(b.qp, &y), MT_OK);
        CHECK_EQ(mt_fabric_qp_connect(a.qp, &y), MT_OK);
        CHECK_EQ(mt_fabric_qp_connect(b.qp, &x), MT_OK);
    }
    uint64_t until = now_ms() + LIMIT_MS;
    while (inside(&a)->connecting + inside(&b)->connecting > 0 &&
           now_ms() < until) {
        pump(&a, &b);
    }
    CHECK_EQ(inside(&a)->connecting + inside(&b)->connecting, 0);
    shutdowns = 0;
    for (int i = 0; i < PAIRS; i++) {
        if (i % 2 == 0) {
            CHECK_EQ(mt_fabric_qp_fail(of_a[i]), MT_OK);
        }
        CHECK_EQ(mt_fabric_qp_destroy(of_a[i]), MT_OK);
    }
    CHECK_EQ(shutdowns, PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(mt_fabric_qp_destroy(of_b[i]), MT_OK);
    }
    a.qp = b.qp = NULL;
    host_close(&a);
    host_close(&b);
}

/* What the key does not cover may not be sent from, nor received into. */
static void test_local_keys(void)
{
    struct host a, b;
    join(&a, &b);
    uint64_t word = 0;
    struct mt_fabric_piece p = {&word, 8, a.mr->lkey};
    struct mt_fabric_send send = {
        .opcode = MT_FABRIC_SEND, .piece_count = 1, .pieces = &p};
    struct mt_fabric_receive receive = {.piece_count = 1, .pieces = &p};
    CHECK_EQ(mt_fabric_post_send(a.qp, &send), MT_EINVAL);
    CHECK_EQ(mt_fabric_post_receive(a.qp, &receive), MT_EINVAL);
    p.address = (char *)a.mr->address + ROOM - 7;
    CHECK_EQ(mt_fabric_post_send(a.qp, &send), MT_EINVAL);
    p.address = (char *)a.mr->address + ROOM - 8;
    CHECK_EQ(mt_fabric_post_receive(a.qp, &receive), MT_OK);
    host_close(&a);
    host_close(&b);
}

int main(void)
{
    test_crc();
    test_segments();
    test_local_keys();
    test_faults();
    test_truncated();
    test_early_answer();
    test_wakes();
    test_room();
    test_strangers();
    test_nobody();
    test_stopped();
    test_late();
    test_slow(false);
    test_slow(true);
    test_many_end();
    return check_failures != 0;
}
