/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* Bytes of a hostile peer: LLVMFuzzerTestOneInput takes any input, main feeds
 * it a million that begin as right ones. The first byte chooses: frames in a
 * buffer of exactly their size, so that a sanitizer sees any read beyond it;
 * frames through a socket, in parts; datagrams through a socket. Nothing may
 * crash, and nothing outside the memory that the queue pair was given may
 * change. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "../include/crc32c.h"
#include "../fabric/iwarp/iwarp.h"
#include "check.h"

enum { ROOM = 1 << 16, GUARD = 4096, MOST = 40000, RECEIVES = 8 };

static struct mt_fabric_context *context;
static struct mt_fabric_pd *pd;
static struct mt_fabric_cq *cq;
static struct mt_fabric_mr *mr;
static uint8_t *memory; /* guard, room, guard */
static struct mt_iwarp_qp *rc, *ud;
static int ends[2] = {-1, -1}; /* of the connection of rc */
static int sender;
static struct sockaddr_storage target;
static socklen_t target_bytes;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mt_fabric_piece piece_at(uint32_t i, uint32_t bytes)
{
    return (struct mt_fabric_piece){(char *)mr->address + i * 4096, bytes,
                                    mr->lkey};
}

static void receives(struct mt_iwarp_qp *qp)
{
    struct mt_soft_receives *r = qp->soft.receives;
    while (r->tail - r->head < RECEIVES) {
        struct mt_fabric_piece p[2] = {piece_at(r->tail % 4, 100),
                                       piece_at(4 + r->tail % 4, 4096)};
        struct mt_fabric_receive work = {.piece_count = 2, .pieces = p};
        CHECK_EQ(mt_fabric_post_receive(&qp->soft.base, &work), MT_OK);
    }
}

static struct mt_iwarp_qp *make(enum mt_fabric_transport transport)
{
    struct mt_fabric_qp *qp = NULL;
    struct mt_fabric_qp_options o = {.transport = transport,
                                     .send_cq = cq,
                                     .receive_cq = cq,
                                     .send_depth = 8,
                                     .receive_depth = RECEIVES,
                                     .pieces = 2,
                                     .reads = transport == MT_FABRIC_RC ? 4 : 0,
                                     .port = 1};
    CHECK_EQ(mt_fabric_qp_create(pd, &o, &qp), MT_OK);
    return (struct mt_iwarp_qp *)qp;
}

/* A connected queue pair without a peer: its socket is ours. One READ waits for
 * its answer. */
static void plug(void)
{
    struct mt_fabric_piece p = piece_at(9, 5000);
    struct mt_fabric_send read = {.opcode = MT_FABRIC_READ,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = 1,
                                  .rkey = 1};
    if (rc->is_live) {
        CHECK_EQ(mt_fabric_qp_reset(&rc->soft.base), MT_OK);
        close(ends[1]);
    }
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                     ends) == 0);
    rc->fd = ends[0];
    rc->link = MT_LINK_OPEN;
    rc->soft.base.state = MT_FABRIC_QP_RTS;
    mt_iwarp_live_add((struct mt_iwarp_context *)context, rc);
    receives(rc);
    CHECK_EQ(mt_fabric_post_send(&rc->soft.base, &read), MT_OK);
}

static void start(void)
{
    memory = malloc(ROOM + 2 * GUARD);
    memset(memory, 0xee, ROOM + 2 * GUARD);
    CHECK_EQ(mt_fabric_open("iwarp:lo", NULL, &context), MT_OK);
    CHECK_EQ(mt_fabric_pd_create(context, &pd), MT_OK);
    CHECK_EQ(mt_fabric_cq_create(context, 256, NULL, &cq), MT_OK);
    CHECK_EQ(mt_fabric_mr_register(pd, memory + GUARD, ROOM,
                                   MT_FABRIC_LOCAL_WRITE |
                                       MT_FABRIC_REMOTE_WRITE |
                                       MT_FABRIC_REMOTE_READ,
                                   &mr),
             MT_OK);
    rc = make(MT_FABRIC_RC);
    ud = make(MT_FABRIC_UD);
    plug();
    CHECK_EQ(mt_fabric_qp_connect(&ud->soft.base, NULL), MT_OK);
    receives(ud);
    struct mt_iwarp_address a = ((struct mt_iwarp_context *)context)->self;
    a.port = ud->port;
    target_bytes = mt_address_socket(&a, 0, &target);
    sender = socket(target.ss_family, SOCK_DGRAM, 0);
}

static void drain(void)
{
    struct mt_fabric_completion c[16];
    uint8_t scrap[4096];
    while (mt_fabric_poll(cq, c, 16) > 0) {
    }
    while (recv(ends[1], scrap, sizeof(scrap), MSG_DONTWAIT) > 0) {
    }
    if (rc->soft.base.state == MT_FABRIC_QP_ERROR) {
        plug();
    } else {
        receives(rc);
    }
}

/* The buffer ends where the input ends. */
static void feed_buffer(const uint8_t *data, size_t size)
{
    struct mt_iwarp_in *in = &rc->in;
    uint8_t *own = in->data;
    size = size < MT_IWARP_INPUT ? size : MT_IWARP_INPUT;
    in->data = malloc(size > 0 ? size : 1);
    memcpy(in->data, data, size);
    in->head = 0;
    in->tail = (uint32_t)size;
    mt_iwarp_parse(rc);
    CHECK(in->head == 0 && in->tail <= size);
    free(in->data);
    in->data = own;
    in->tail = 0;
    if (in->direct) {
        plug(); /* the rest would have to come through the socket */
    }
}

static void feed_stream(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        size_t n = 1 + data[at] * 64u;
        n = n < size - at ? n : size - at;
        if (send(ends[1], data + at, n, MSG_NOSIGNAL) <= 0) {
            break;
        }
        at += n;
        if (rc->link == MT_LINK_OPEN) {
            mt_iwarp_in(rc);
        }
    }
    plug();
}

static void feed_datagram(const uint8_t *data, size_t size)
{
    sendto(sender, data, size, 0, (struct sockaddr *)&target, target_bytes);
    mt_iwarp_ud_in(ud);
    if (ud->soft.base.state == MT_FABRIC_QP_ERROR) {
        CHECK_EQ(mt_fabric_qp_reset(&ud->soft.base), MT_OK);
        CHECK_EQ(mt_fabric_qp_connect(&ud->soft.base, NULL), MT_OK);
        struct mt_iwarp_address a = ((struct mt_iwarp_context *)context)->self;
        a.port = ud->port;
        target_bytes = mt_address_socket(&a, 0, &target);
    }
    receives(ud);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (memory == NULL) {
        start();
    }
    if (size < 1) {
        return 0;
    }
    switch (data[0] % 16) {
    case 0:
        feed_stream(data + 1, size - 1);
        break;
    case 1:
        feed_datagram(data + 1, size - 1);
        break;
    default:
        feed_buffer(data + 1, size - 1);
    }
    drain();
    return 0;
}

/* ---- inputs that begin as right ones ---- */

static unsigned long long state = 1;

static uint32_t draw(uint32_t limit)
{
    return (uint32_t)(check_random(&state) % limit);
}

static uint32_t draw_bytes(void)
{
    uint32_t kind = draw(16);
    return kind == 0 ? draw(9000) : draw(kind < 4 ? 600 : 40);
}

static struct mt_iwarp_segment draw_segment(void)
{
    struct mt_iwarp_segment s = {.last = draw(4) > 0, .bytes = draw_bytes()};
    s.opcode = (uint8_t)draw(10);
    s.tagged = s.opcode == MT_RDMAP_WRITE || s.opcode == MT_RDMAP_READ_RESPONSE;
    s.stag = s.opcode == MT_RDMAP_WRITE ? mr->rkey : rc->soft.head;
    s.to = s.opcode == MT_RDMAP_WRITE
               ? (uint64_t)(uintptr_t)mr->address + draw(ROOM)
               : 0;
    if (s.opcode == MT_RDMAP_READ_RESPONSE && draw(3) == 0) {
        s.bytes = 5000; /* all of it */
        s.last = true;
    } else if (s.opcode == MT_RDMAP_READ_REQUEST) {
        s.queue = MT_DDP_READS;
        s.bytes = MT_RDMAP_READ_BYTES;
        s.last = true;
    } else if (s.opcode == MT_RDMAP_TERMINATE) {
        s.queue = MT_DDP_TERMINATES;
    } else if (s.opcode >= MT_RDMAP_IMMEDIATE) {
        s.bytes = MT_RDMAP_IMMEDIATE_BYTES;
        s.last = true;
    }
    s.msn = (s.queue < MT_DDP_QUEUES ? rc->taken[s.queue] : 0) + 1;
    s.mo = draw(3) == 0 ? (uint32_t)rc->received : 0;
    return s;
}

static void mutate(uint8_t *at, uint32_t bytes)
{
    for (uint32_t n = draw(4); n > 0 && bytes > 0; n--) {
        uint32_t i = draw(4) > 0 ? draw(bytes < 48 ? bytes : 48) : draw(bytes);
        at[i] = draw(2) == 0 ? (uint8_t)(at[i] ^ 1u << draw(8))
                             : (uint8_t)draw(256);
    }
}

/* A frame, sometimes changed, with a right CRC more often than not. */
static uint32_t draw_frame(uint8_t *at)
{
    struct mt_iwarp_segment s = draw_segment();
    uint32_t head = mt_segment_write(at + MT_MPA_LENGTH, &s);
    uint32_t n = MT_MPA_LENGTH + head + s.bytes, pad;
    mt_put16(at, (uint16_t)(head + s.bytes));
    for (uint32_t i = 0; i < s.bytes; i++) {
        at[MT_MPA_LENGTH + head + i] = (uint8_t)i;
    }
    if (s.opcode == MT_RDMAP_READ_REQUEST) {
        uint8_t *payload = at + MT_MPA_LENGTH + head;
        mt_put32(payload + 12, draw(ROOM));
        mt_put32(payload + 16, mr->rkey);
        mt_put64(payload + 20, (uint64_t)(uintptr_t)mr->address + draw(99));
    }
    pad = mt_mpa_pad(head + s.bytes);
    memset(at + n, 0, pad);
    mutate(at, n);
    mt_put_crc(at + n + pad, mt_crc32c(0, at, n + pad) ^ (draw(8) == 0));
    return n + pad + MT_MPA_CRC;
}

static uint32_t draw_datagram(uint8_t *at)
{
    struct mt_iwarp_segment s = {.last = true,
                                 .opcode = draw(4) > 0 ? MT_RDMAP_SEND
                                                       : MT_RDMAP_TERMINATE,
                                 .msn = draw(9)};
    uint32_t n = MT_IWARP_UD_HEAD + (draw(9) == 0 ? draw(6000) : draw(200));
    s.queue = s.opcode == MT_RDMAP_TERMINATE ? MT_DDP_TERMINATES : 0;
    memset(at, 0, n);
    mt_segment_write(at, &s);
    memcpy(at + 20, ud->key, 4);
    mutate(at, n);
    uint32_t crc = mt_crc32c(0, at, 28);
    mt_put_crc(at + 28, mt_crc32c(crc, at + 32, n - 32) ^ (draw(8) == 0));
    return n - (draw(8) == 0 ? draw(n) : 0);
}

int main(int argc, char **argv)
{
    static uint8_t input[MOST + 1];
#if defined(__SANITIZE_THREAD__)
    uint64_t inputs = 20000; /* one thread: nothing new to find */
#else
    uint64_t inputs = 1000000;
#endif
    inputs = argc > 1 ? strtoull(argv[1], NULL, 10) : inputs;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    start();
    for (uint64_t i = 0; i < inputs; i++) {
        uint32_t n = 1;
        input[0] = (uint8_t)draw(256);
        if (input[0] % 16 == 1) {
            n += draw_datagram(input + 1);
        } else {
            for (uint32_t frames = 1 + draw(4); frames > 0 && n < MOST - 10000;
                 frames--) {
                n += draw_frame(input + n);
            }
            n -= draw(8) == 0 ? draw(n) : 0;
        }
        n = n > 0 ? n : 1;
        LLVMFuzzerTestOneInput(input, n);
    }
    for (uint32_t i = 0; i < GUARD; i++) {
        CHECK_EQ(memory[i], 0xee);
        CHECK_EQ(memory[GUARD + ROOM + i], 0xee);
    }
    CHECK_EQ(mt_fabric_qp_destroy(&rc->soft.base), MT_OK);
    CHECK_EQ(mt_fabric_qp_destroy(&ud->soft.base), MT_OK);
    CHECK_EQ(mt_fabric_mr_destroy(mr), MT_OK);
    CHECK_EQ(mt_fabric_cq_destroy(cq), MT_OK);
    CHECK_EQ(mt_fabric_pd_destroy(pd), MT_OK);
    CHECK_EQ(mt_fabric_close(context), MT_OK);
    close(ends[1]);
    close(sender);
    free(memory);
    return check_failures != 0;
}
