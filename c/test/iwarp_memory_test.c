/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* The iwarp provider and memory that changes, or goes, while messages use it; with a CRC
 * and without. */
#include <pthread.h>
#include <stdlib.h>

#include "iwarp_hosts.h"

/* ---- with and without a CRC ---- */

/* There is none where neither side wants one; then a wrong one is no error. */
static void test_no_crc(void)
{
    for (int k = 0; k < 4; k++) {
        const bool none = k == 3;
        struct mt_iwarp_segment s = {.last = true,
                                     .opcode = MT_RDMAP_SEND,
                                     .msn = 1,
                                     .bytes = 8};
        uint8_t ulpdu[64] = {0};
        struct host a, b;
        join_with(&a, (k & 1) != 0, &b, (k & 2) != 0);
        CHECK_EQ(inner(&a)->no_crc, none);
        CHECK_EQ(inner(&b)->no_crc, none);
        post_receive(&b, 0, 100);
        inject(&a, ulpdu, mt_segment_write(ulpdu, &s) + s.bytes, false);
        struct mt_fabric_completion c = take(&b, b.receives, &a);
        CHECK_EQ(c.status, none ? MT_OK : MT_EFLUSHED);
        CHECK_EQ(c.bytes, none ? 8 : 0);
        if (!none) {
            await_error(&a, &b);
        }
        host_close(&a);
        host_close(&b);
    }
}

/* b writes to a, or a reads from b, by a socket with little room. */
struct slow {
    struct host a, b;
    struct mt_fabric_mr *source, *sink;
    char *from, *to;
    uint32_t bytes;
};

static void slow_open(struct slow *s, uint32_t bytes, bool no_crc)
{
    /* less than what is sent, however fast it is acknowledged */
    int room = 4096, window = 16384;
    join_with(&s->a, no_crc, &s->b, no_crc);
    CHECK(setsockopt(inner(&s->b)->fd, SOL_SOCKET, SO_SNDBUF, &room,
                     sizeof(room)) == 0);
    CHECK(setsockopt(inner(&s->a)->fd, SOL_SOCKET, SO_RCVBUF, &window,
                     sizeof(window)) == 0);
    s->bytes = bytes;
    s->from = malloc(bytes);
    s->to = calloc(bytes, 1);
    for (uint32_t i = 0; i < bytes; i++) {
        s->from[i] = (char)(1 + i % 100);
    }
    CHECK_EQ(mt_fabric_mr_register(s->b.pd, s->from, bytes,
                                   MT_FABRIC_REMOTE_READ, &s->source),
             MT_OK);
    CHECK_EQ(mt_fabric_mr_register(s->a.pd, s->to, bytes,
                                   MT_FABRIC_LOCAL_WRITE |
                                       MT_FABRIC_REMOTE_WRITE,
                                   &s->sink),
             MT_OK);
}

static void slow_close(struct slow *s)
{
    if (s->source != NULL) {
        CHECK_EQ(mt_fabric_mr_destroy(s->source), MT_OK);
    }
    CHECK_EQ(mt_fabric_mr_destroy(s->sink), MT_OK);
    host_close(&s->a);
    host_close(&s->b);
    free(s->from);
    free(s->to);
}

static void slow_post(struct slow *s, bool read, uint32_t bytes)
{
    struct mt_fabric_piece piece = {read ? s->to : s->from, bytes,
                                    read ? s->sink->lkey : s->source->lkey};
    struct mt_fabric_send work = {
        .opcode = read ? MT_FABRIC_READ : MT_FABRIC_WRITE,
        .flags = MT_FABRIC_SIGNALED,
        .piece_count = 1,
        .pieces = &piece,
        .remote_address = (uint64_t)(uintptr_t)(read ? s->from : s->to),
        .rkey = read ? s->source->rkey : s->sink->rkey};
    CHECK_EQ(mt_fabric_post_send(read ? s->a.qp : s->b.qp, &work), MT_OK);
}

enum { TOUCHED = 64 };

#if defined(__SANITIZE_THREAD__)
enum { RACES = 0 }; /* it is one */
#else
enum { RACES = 1 };
#endif

static bool touching;

/* Somebody changes what arrives. */
static void *touches(void *argument)
{
    const struct slow *s = argument;
    while (__atomic_load_n(&touching, __ATOMIC_RELAXED)) {
        for (uint32_t i = 0; i < s->bytes; i += TOUCHED) {
            ((volatile char *)s->to)[i]++;
        }
    }
    return NULL;
}

/* Programs change memory that is being sent or received, which they should not, in bytes
 * that nobody looks at; here what is sent while a part of it waits for room. The
 * others arrive. */
static void test_touched(void)
{
    for (int k = 0; k < 4; k++) {
        const bool read = k % 2 == 1;
        struct slow s;
        pthread_t thread;
        int waited = 0;
        slow_open(&s, 200000, k / 2 == 1);
        touching = true;
        if (RACES) {
            CHECK(pthread_create(&thread, NULL, touches, &s) == 0);
        }
        slow_post(&s, read, s.bytes);
        struct mt_fabric_cq *cq = read ? s.a.sends : s.b.sends;
        struct mt_fabric_completion c = {.status = MT_ETIMEOUT};
        uint64_t until = now_ms() + LIMIT_MS;
        while (mt_fabric_poll(cq, &c, 1) == 0 && now_ms() < until) {
            pump(&s.a, &s.b);
            waited += inner(&s.b)->waits;
            for (uint32_t i = 0; i < s.bytes; i += TOUCHED) {
                s.from[i]++;
            }
        }
        CHECK(waited > 0);
        CHECK_EQ(c.status, MT_OK);
        until = now_ms() + LIMIT_MS; /* a WRITE's last bytes may be on their way */
        while (s.to[s.bytes - 1] == 0 && now_ms() < until) {
            pump(&s.a, &s.b);
        }
        __atomic_store_n(&touching, false, __ATOMIC_RELAXED);
        if (RACES) {
            CHECK(pthread_join(thread, NULL) == 0);
        }
        for (uint32_t i = 0; i < s.bytes; i++) {
            CHECK(i % TOUCHED == 0 || s.to[i] == s.from[i]);
        }
        CHECK_EQ(mt_fabric_qp_state(s.a.qp), MT_FABRIC_QP_RTS);
        slow_close(&s);
    }
}

/* A region goes in the middle of an answer: nothing leaves that its memory holds later. */
static void test_given_up(void)
{
    for (int k = 0; k < 2; k++) {
        struct slow s;
        slow_open(&s, 600000, k == 1);
        slow_post(&s, true, s.bytes);
        uint64_t until = now_ms() + LIMIT_MS;
        while ((!inner(&s.b)->waits || s.to[1000] == 0) && now_ms() < until) {
            pump(&s.a, &s.b);
        }
        CHECK(inner(&s.b)->waits);
        CHECK_EQ(mt_fabric_mr_destroy(s.source), MT_OK);
        s.source = NULL;
        memset(s.from, 0x7f, s.bytes);
        CHECK(take(&s.a, s.a.sends, &s.b).status != MT_OK);
        for (uint32_t i = 0; i < s.bytes; i++) {
            CHECK(s.to[i] != 0x7f);
        }
        slow_close(&s);
    }
}

/* Works that never end keep no answer waiting. */
static void test_turns(void)
{
    for (int k = 0; k < 2; k++) {
        struct slow s;
        struct mt_fabric_completion c;
        int writes = 0, read = 0;
        slow_open(&s, 100000, k == 1);
        slow_post(&s, true, 1000);
        for (int i = 0; i < 8; i++) {
            slow_post(&s, false, s.bytes);
        }
        uint64_t until = now_ms() + LIMIT_MS;
        while (read == 0 && writes < 100 && now_ms() < until) {
            if (mt_fabric_poll(s.b.sends, &c, 1) == 1) {
                CHECK_EQ(c.status, MT_OK);
                writes++;
                slow_post(&s, false, s.bytes);
            }
            read = mt_fabric_poll(s.a.sends, &c, 1) == 1;
        }
        CHECK_EQ(read, 1);
        CHECK_EQ(c.status, MT_OK);
        slow_close(&s);
    }
}

int main(void)
{
    test_no_crc();
    test_touched();
    test_given_up();
    test_turns();
    return check_failures != 0;
}
