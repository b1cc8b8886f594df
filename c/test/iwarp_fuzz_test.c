/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* Bytes of a hostile peer: LLVMFuzzerTestOneInput takes any input, main feeds
 * it many that begin as right ones. The first byte chooses, beside whether there is a
 * CRC in frames: frames in a
 * buffer of exactly their size, so that a sanitizer sees any read beyond it;
 * frames through a socket, in parts; datagrams through a socket, and where their
 * answers go; what a connection begins with, from either side. Nothing may crash,
 * and nothing outside the memory that the queue pair was given may change. A
 * connection is made with whom it was meant for, and with nobody else. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "../include/crc32c.h"
#include "../fabric/iwarp/iwarp.h"
#include "check.h"

enum {
    ROOM = 1 << 16,
    GUARD = 4096,
    MOST = 100000,
    LONGEST = 20000, /* a payload: more than half of MT_IWARP_INPUT */
    RECEIVES = 8,
    /* request or reply: RFC 5044, 7.1.1, and private data (stream.c) */
    START = MT_MPA_START + 48,
    PEER = 9, /* number of the peer's queue pair */
};

static struct mt_fabric_context *context;
static struct mt_fabric_pd *pd;
static struct mt_fabric_cq *cq;
static struct mt_fabric_mr *mr;
static uint8_t *memory; /* guard, room, guard */
static struct mt_iwarp_qp *rc, *ud;
/* Waits for a request, for a reply, to be told whom to connect to. */
static struct mt_iwarp_qp *awaited, *asked, *idle;
static const uint8_t peer_key[MT_IWARP_KEY] = "sixteen bytes ..";
static int ends[2] = {-1, -1}; /* of the connection of rc */
static int sender;
static uint16_t sender_port;
static uint8_t sender_key[4]; /* as its last datagram says */
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
                                     .port = 1,
                                     .timeout_ms = 3600000};
    CHECK_EQ(mt_fabric_qp_create(pd, &o, &qp), MT_OK);
    return (struct mt_iwarp_qp *)qp;
}

/* The peer's number and key, at an address below ours: so it connects to us. */
static void await(struct mt_iwarp_qp *qp, uint32_t number, const uint8_t *key)
{
    struct mt_iwarp_address a = ((struct mt_iwarp_context *)context)->self;
    struct mt_fabric_address address;
    memset(a.ip + sizeof(a.ip) - 1, 0, 1);
    a.transport = MT_FABRIC_RC;
    a.number = number;
    memcpy(a.key, key, sizeof(a.key));
    mt_address_write(&a, &address);
    CHECK_EQ(mt_fabric_qp_connect(&qp->soft.base, &address), MT_OK);
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
    awaited = make(MT_FABRIC_RC);
    asked = make(MT_FABRIC_RC);
    idle = make(MT_FABRIC_RC);
    await(awaited, PEER, peer_key);
    ud = make(MT_FABRIC_UD);
    plug();
    CHECK_EQ(mt_fabric_qp_connect(&ud->soft.base, NULL), MT_OK);
    receives(ud);
    struct mt_iwarp_address a = ((struct mt_iwarp_context *)context)->self;
    a.port = ud->port;
    target_bytes = mt_address_socket(&a, 0, &target);
    struct sockaddr_storage name;
    a.port = 0;
    socklen_t bytes = mt_address_socket(&a, 0, &name);
    sender = socket(target.ss_family, SOCK_DGRAM, 0);
    CHECK_EQ(bind(sender, (struct sockaddr *)&name, bytes), 0);
    CHECK_EQ(getsockname(sender, (struct sockaddr *)&name, &bytes), 0);
    CHECK(mt_address_of_socket(&name, &a));
    sender_port = a.port;
}

/* Who sent a datagram gets one, with the key that it gave; not so who gave the port of
 * somebody else. */
static void answer(const struct mt_fabric_source *source)
{
    if ((uint16_t)source->words[2] != sender_port) {
        return;
    }
    struct mt_fabric_piece p = piece_at(0, 8);
    struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                  .piece_count = 1,
                                  .pieces = &p};
    uint8_t came[MT_IWARP_UD_HEAD + 8];
    CHECK_EQ(mt_fabric_ah_create_source(pd, source, &work.ah), MT_OK);
    CHECK_EQ(mt_fabric_post_send(&ud->soft.base, &work), MT_OK);
    CHECK_EQ(recv(sender, came, sizeof(came), MSG_DONTWAIT), sizeof(came));
    CHECK(memcmp(came + 20, sender_key, sizeof(sender_key)) == 0);
    CHECK_EQ(mt_fabric_ah_destroy(work.ah), MT_OK);
}

static void drain(void)
{
    struct mt_fabric_completion c;
    uint8_t scrap[4096];
    while (mt_fabric_poll(cq, &c, 1) > 0) {
        if (c.qp == ud->soft.base.number && c.opcode == MT_FABRIC_RECEIVE &&
            c.status == MT_OK) {
            answer(&c.source);
        }
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
        size_t n = 1 + data[at] * 160u; /* up to more than MT_IWARP_INPUT */
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
    uint8_t scrap[MT_IWARP_UD_HEAD];
    while (recv(sender, scrap, sizeof(scrap), MSG_DONTWAIT) >= 0) {
        /* error messages for what was too long before */
    }
    if (size >= MT_IWARP_UD_HEAD) {
        memcpy(sender_key, data + 24, sizeof(sender_key));
    }
    sendto(sender, data, size, 0, (struct sockaddr *)&target, target_bytes);
    mt_iwarp_ud_in(ud);
    drain();
    if (ud->soft.base.state == MT_FABRIC_QP_ERROR) {
        CHECK_EQ(mt_fabric_qp_reset(&ud->soft.base), MT_OK);
        CHECK_EQ(mt_fabric_qp_connect(&ud->soft.base, NULL), MT_OK);
        struct mt_iwarp_address a = ((struct mt_iwarp_context *)context)->self;
        a.port = ud->port;
        target_bytes = mt_address_socket(&a, 0, &target);
    }
    receives(ud);
}

/* A source that no datagram had: a handle for it names what it says. */
static void feed_source(const uint8_t *data, size_t size)
{
    struct mt_fabric_source source = {{0}};
    struct mt_fabric_ah *ah = NULL;
    memcpy(&source, data, size < sizeof(source) ? size : sizeof(source));
    uint16_t port = (uint16_t)source.words[2];
    bool right = port != 0 && (uint8_t)(source.words[3] >> 32) == 4;
    enum mt_status status = mt_fabric_ah_create_source(pd, &source, &ah);
    CHECK_EQ(status, right ? MT_OK : MT_EINVAL);
    if (status == MT_OK) {
        const struct mt_iwarp_ah *made = (const struct mt_iwarp_ah *)ah;
        struct sockaddr_in to;
        memcpy(&to, &made->to, sizeof(to));
        CHECK_EQ(made->to_bytes, sizeof(to));
        CHECK_EQ(to.sin_family, AF_INET);
        CHECK_EQ(ntohs(to.sin_port), port);
        CHECK(memcmp(&to.sin_addr, (uint8_t *)source.words + 12, 4) == 0);
        CHECK_EQ(mt_get32(made->key), (uint32_t)source.words[3]);
        CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);
    }
}

/* ---- what a connection begins with ---- */

/* The peer's request or reply to a queue pair. */
static void write_start(uint8_t *at, const char *key,
                        const struct mt_iwarp_qp *to)
{
    memset(at, 0, START);
    memcpy(at, key, MT_MPA_KEY);
    at[16] = MT_MPA_CRCS;
    at[17] = MT_MPA_REVISION;
    mt_put16(at + 18, START - MT_MPA_START);
    memcpy(at + 20, "iwp", 4);
    mt_put32(at + 24, MT_IWARP_VERSION);
    mt_put32(at + 28, PEER);
    mt_put32(at + 32, to->soft.base.number);
    memcpy(at + 36, peer_key, MT_IWARP_KEY);
    memcpy(at + 52, to->key, MT_IWARP_KEY);
}

/* All of it but flags that nobody has a meaning for. */
static bool is_start(const uint8_t *data, size_t size, const char *key,
                     const struct mt_iwarp_qp *to)
{
    uint8_t right[START];
    write_start(right, key, to);
    return size >= START && memcmp(data, right, 16) == 0 &&
           (data[16] & (MT_MPA_MARKERS | MT_MPA_REJECT)) == 0 &&
           memcmp(data + 17, right + 17, START - 17) == 0;
}

/* In parts, to whoever listens as long as it does. */
static void send_parts(int fd, const uint8_t *data, size_t size,
                       bool (*hear)(void))
{
    for (size_t at = 0, n; at < size; at += n) {
        n = 1 + data[at] % 64u;
        n = n < size - at ? n : size - at;
        if (send(fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) <= 0 ||
            !hear()) {
            return;
        }
    }
}

static void again(struct mt_iwarp_qp *qp)
{
    CHECK_EQ(mt_fabric_qp_reset(&qp->soft.base), MT_OK);
}

static bool hear_guest(void)
{
    struct mt_iwarp_context *c = (struct mt_iwarp_context *)context;
    if (c->guests != NULL) {
        mt_iwarp_guest_hear(c, c->guests);
    }
    return c->guests != NULL;
}

/* As mt_iwarp_accept. */
static void invite(int fd)
{
    struct mt_iwarp_context *c = (struct mt_iwarp_context *)context;
    struct mt_iwarp_guest *guest = calloc(1, sizeof(*guest));
    *guest = (struct mt_iwarp_guest){.watch = {MT_WATCH_GUEST},
                                     .fd = fd};
    c->guests = guest;
    c->guest_count++;
    CHECK_EQ(mt_iwarp_watch(c, fd, &guest->watch), MT_OK);
}

/* One that a queue pair without a peer may want: when it is told so, it does. */
static void park(const struct mt_iwarp_guest *guest)
{
    uint8_t request[START];
    memcpy(request, guest->request, START);
    CHECK_EQ(guest->number, idle->soft.base.number);
    CHECK_EQ(mt_get32(request + 32), idle->soft.base.number);
    CHECK(memcmp(request + 52, idle->key, MT_IWARP_KEY) == 0);
    await(idle, mt_get32(request + 28), request + 36);
    CHECK_EQ(idle->link, MT_LINK_OPEN);
    again(idle);
}

static bool feed_request(const uint8_t *data, size_t size)
{
    struct mt_iwarp_context *c = (struct mt_iwarp_context *)context;
    bool right = is_start(data, size, MT_MPA_REQUEST, awaited), parked = false;
    uint64_t refused = c->refused;
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                     s) == 0);
    invite(s[0]);
    send_parts(s[1], data, size, hear_guest);
    CHECK_EQ(awaited->link, right ? MT_LINK_OPEN : MT_LINK_AWAITED);
    if (c->guests != NULL && c->guests->parked) {
        parked = true;
        park(c->guests);
    }
    shutdown(s[1], SHUT_WR);
    hear_guest(); /* it says no more */
    CHECK(c->guests == NULL);
    CHECK_EQ(c->refused, refused + (!right && !parked));
    if (right) {
        uint8_t reply[START];
        CHECK_EQ(recv(s[1], reply, START, MSG_DONTWAIT), START);
        CHECK(memcmp(reply, MT_MPA_REPLY, MT_MPA_KEY) == 0);
        CHECK_EQ(reply[16], MT_MPA_CRCS);
        CHECK(memcmp(reply + 36, awaited->key, MT_IWARP_KEY) == 0);
        again(awaited);
        await(awaited, PEER, peer_key);
    }
    close(s[1]);
    return right;
}

static bool hear_reply(void)
{
    mt_iwarp_stream_step(asked);
    return asked->link == MT_LINK_ASKED;
}

static bool feed_reply(const uint8_t *data, size_t size)
{
    struct mt_iwarp_context *c = (struct mt_iwarp_context *)context;
    bool right = is_start(data, size, MT_MPA_REPLY, asked);
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                     s) == 0);
    asked->fd = s[0];
    asked->link = MT_LINK_ASKED; /* as if it had connected, and asked */
    c->connecting++;
    asked->stalled_ms = 0;
    asked->remote.number = PEER;
    memcpy(asked->remote.key, peer_key, MT_IWARP_KEY);
    asked->soft.base.state = MT_FABRIC_QP_RTS;
    mt_iwarp_live_add(c, asked);
    send_parts(s[1], data, size, hear_reply);
    shutdown(s[1], SHUT_WR);
    hear_reply(); /* there comes no more */
    CHECK_EQ(asked->link, right ? MT_LINK_OPEN : MT_LINK_NONE);
    CHECK_EQ(asked->soft.base.state,
             right ? MT_FABRIC_QP_RTS : MT_FABRIC_QP_ERROR);
    again(asked);
    close(s[1]);
    return right;
}

/* Behind one that was wrong, the right one is heard as ever. */
static void feed_start(const uint8_t *data, size_t size, bool request)
{
    uint8_t start[START];
    bool right =
        request ? feed_request(data, size) : feed_reply(data, size);
    if (!right && request) {
        write_start(start, MT_MPA_REQUEST, awaited);
        CHECK(feed_request(start, START));
    } else if (!right) {
        write_start(start, MT_MPA_REPLY, asked);
        CHECK(feed_reply(start, START));
    }
}

enum target { BUFFER, STREAM, DATAGRAM, SOURCE, REQUEST, REPLY };

/* Seldom what takes system calls. */
static enum target target_of(uint8_t byte)
{
    uint8_t n = byte % 64;
    return n < 4     ? STREAM
           : n < 8   ? DATAGRAM
           : n == 8  ? SOURCE
           : n == 9  ? REQUEST
           : n == 10 ? REPLY
                     : BUFFER;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (memory == NULL) {
        start();
    }
    if (size < 1) {
        return 0;
    }
    rc->no_crc = (data[0] & 0x40) != 0;
    switch (target_of(data[0])) {
    case STREAM:
        feed_stream(data + 1, size - 1);
        break;
    case DATAGRAM:
        feed_datagram(data + 1, size - 1);
        break;
    case SOURCE:
        feed_source(data + 1, size - 1);
        break;
    case REQUEST:
    case REPLY:
        feed_start(data + 1, size - 1, target_of(data[0]) == REQUEST);
        break;
    case BUFFER:
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
    return kind == 0 ? draw(LONGEST) : draw(kind < 4 ? 600 : 40);
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
    mt_put16(at + 18, sender_port);
    memcpy(at + 20, ud->key, 4);
    mutate(at, n);
    uint32_t crc = mt_crc32c(0, at, 28);
    mt_put_crc(at + 28, mt_crc32c(crc, at + 32, n - 32) ^ (draw(8) == 0));
    return n - (draw(8) == 0 ? draw(n) : 0);
}

/* Words as ud.c fills them. */
static uint32_t draw_source(uint8_t *at)
{
    struct mt_fabric_source source = {{0}};
    uint8_t *ip = (uint8_t *)source.words;
    ip[10] = ip[11] = 0xff;
    ip[12] = 127;
    ip[15] = 1;
    source.words[2] = (uint64_t)draw(99) << 32 | draw(6) * 1000;
    source.words[3] = (uint64_t)4 << 32 | draw(1000);
    memcpy(at, &source, sizeof(source));
    mutate(at, sizeof(source));
    return (uint32_t)(draw(8) == 0 ? draw(sizeof(source)) : sizeof(source));
}

static uint32_t draw_start(uint8_t *at, bool request)
{
    write_start(at, draw(20) == 0 ? MT_MPA_REPLY : MT_MPA_REQUEST,
                draw(4) == 0 ? idle : awaited);
    if (!request) {
        write_start(at, draw(20) == 0 ? MT_MPA_REQUEST : MT_MPA_REPLY,
                    draw(20) == 0 ? idle : asked);
    }
    for (uint32_t n = draw(3); n > 0; n--) {
        at[draw(START)] ^= (uint8_t)(1u << draw(8));
    }
    memset(at + START, 0, 8);
    return draw(6) == 0 ? draw(START) : START + (draw(6) == 0 ? draw(8) : 0);
}

static uint32_t draw_input(uint8_t *at, enum target target)
{
    uint32_t n = 0;
    switch (target) {
    case DATAGRAM:
        return draw_datagram(at);
    case SOURCE:
        return draw_source(at);
    case REQUEST:
    case REPLY:
        return draw_start(at, target == REQUEST);
    default:
        for (uint32_t frames = 1 + draw(4); frames > 0 && n < MOST - LONGEST - 100;
             frames--) {
            n += draw_frame(at + n);
        }
        return n - (draw(8) == 0 ? draw(n) : 0);
    }
}

int main(int argc, char **argv)
{
    static uint8_t input[MOST + 1];
#if defined(__SANITIZE_THREAD__)
    uint64_t inputs = 20000; /* one thread: nothing new to find */
#else
    uint64_t inputs = 250000;
#endif
    inputs = argc > 1 ? strtoull(argv[1], NULL, 10) : inputs;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    start();
    for (uint64_t i = 0; i < inputs; i++) {
        input[0] = (uint8_t)draw(256);
        LLVMFuzzerTestOneInput(
            input, 1 + draw_input(input + 1, target_of(input[0])));
    }
    for (uint32_t i = 0; i < GUARD; i++) {
        CHECK_EQ(memory[i], 0xee);
        CHECK_EQ(memory[GUARD + ROOM + i], 0xee);
    }
    struct mt_iwarp_qp *const all[] = {rc, ud, awaited, asked, idle};
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(mt_fabric_qp_destroy(&all[i]->soft.base), MT_OK);
    }
    CHECK_EQ(mt_fabric_mr_destroy(mr), MT_OK);
    CHECK_EQ(mt_fabric_cq_destroy(cq), MT_OK);
    CHECK_EQ(mt_fabric_pd_destroy(pd), MT_OK);
    CHECK_EQ(mt_fabric_close(context), MT_OK);
    close(ends[1]);
    close(sender);
    free(memory);
    return check_failures != 0;
}
