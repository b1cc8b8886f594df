/* sources: c/fabric/fabric.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/paths/credits.c c/fabric/paths/demand.c c/fabric/paths/mail.c c/fabric/paths/mesh.c c/fabric/paths/paths.c c/fabric/paths/put.c c/fabric/paths/rails.c c/fabric/paths/reads.c c/fabric/paths/socket.c c/fabric/paths/stripe.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/status.c c/fabric/tool/config.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* What peers and users tell the fabric besides its traffic: HOST:PORT, the hellos
 * of wire-up, mesh and connections on demand, addresses of every provider, fault
 * scripts, what mpitrace-fabric is asked to measure, the headers of messages with
 * credits, and the notices of puts.
 * LLVMFuzzerTestOneInput takes any input, main feeds it many that begin as right
 * ones. The first byte chooses. Nothing may crash, and what is accepted keeps to
 * its bounds. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "../fabric/fault/script.h"
#include "../fabric/iwarp/iwarp.h"
#include "../fabric/paths/credits.h"
#include "../fabric/paths/demand.h"
#include "../fabric/paths/mesh.h"
#include "../fabric/paths/put.h"
#include "../fabric/paths/socket.h"
#include "../fabric/shm/shm.h"
#include "../fabric/tool/config.h"
#include "../fabric/verbs/verbs.h"
#include "check.h"

enum { RANKS = 4, MOST = 1024, WINDOW = 4, PEER_WINDOW = 8, LONGEST = 60 };

enum target {
    HOST_PORT,
    SOCKET_HELLO,
    MESH,
    DEMAND,
    ADDRESS_SHM,
    ADDRESS_IWARP,
    ADDRESS_VERBS,
    SOURCE_VERBS,
    FAULT_SCRIPT,
    TOOL_CONFIG,
    TOOL_NUMBER,
    CREDITS,
    NOTICE,
    TARGETS,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A rail of shared memory. */
static struct mt_rails rails;
static struct mt_fabric_qp_options rc;
static struct mt_demand demand;

static void start(void)
{
    const struct mt_rails_options o = {
        .patterns = "shm", .cq_depth = 64, .fabric = {.engine_cpu = -1}};
    CHECK_EQ(mt_rails_open(&o, &rails), MT_OK);
    rc = (struct mt_fabric_qp_options){.transport = MT_FABRIC_RC,
                                       .send_cq = rails.rails[0].send_cq,
                                       .receive_cq = rails.rails[0].receive_cq,
                                       .send_depth = 4,
                                       .receive_depth = 4,
                                       .pieces = 1,
                                       .port = 1};
}

/* ---- targets ---- */

static void host_port(const uint8_t *data, size_t size)
{
    struct mt_host_port a;
    char text[MOST + 1], again[sizeof(a.host) + sizeof(a.port) + 8];
    memcpy(text, data, size);
    text[size] = '\0';
    memset(&a, 0xee, sizeof(a));
    if (!mt_host_port_read(text, &a)) {
        return;
    }
    CHECK(memchr(a.host, '\0', sizeof(a.host)) != NULL);
    CHECK(memchr(a.port, '\0', sizeof(a.port)) != NULL);
    for (const char *c = a.port; *c != '\0'; c++) {
        CHECK(isdigit((unsigned char)*c));
    }
    CHECK(strtoul(a.port, NULL, 10) <= 65535);
    /* what was read says the same, when it is read again */
    struct mt_host_port b;
    snprintf(again, sizeof(again), "[%s]:%s", a.host, a.port);
    if (strchr(a.host, ']') == NULL) {
        CHECK(mt_host_port_read(again, &b));
        CHECK(strcmp(a.host, b.host) == 0 && strcmp(a.port, b.port) == 0);
    }
}

static void socket_hello(const uint8_t *data, size_t size)
{
    static int fds[RANKS] = {-1, -1, 3, -1};
    struct mt_socket s = {.o = {.rank = 0, .size = RANKS}, .fds = fds};
    struct mt_socket_hello hello = {.version = 0};
    memcpy(&hello, data, size < sizeof(hello) ? size : sizeof(hello));
    if (mt_socket_admit(&s, &hello) == MT_OK) {
        CHECK(hello.rank == 1 || hello.rank == 3);
    }
}

/* What the other ranks brought into an exchange: ours, with the input over it. */
struct exchange {
    const uint8_t *data;
    size_t size;
};

static enum mt_status exchange(void *user, const void *mine, size_t bytes,
                               void *all)
{
    struct exchange *e = user;
    for (uint32_t i = 0; i < RANKS; i++) {
        memcpy((uint8_t *)all + i * bytes, mine, bytes);
    }
    /* pairs of a place and a byte */
    for (; e->size >= 4 && e->data[0] != 0xff; e->data += 4, e->size -= 4) {
        size_t at = (e->data[0] | (size_t)e->data[1] << 8) % (RANKS * bytes);
        ((uint8_t *)all)[at] ^= e->data[2];
    }
    if (e->size >= 1) { /* the next exchange */
        e->data++;
        e->size--;
    }
    return MT_OK;
}

static void mesh(const uint8_t *data, size_t size)
{
    struct exchange e = {data, size};
    struct mt_fabric_wireup w = {
        .rank = 1, .size = RANKS, .exchange = exchange, .user = &e};
    struct mt_mesh_options o = {.rc = rc};
    struct mt_mesh m;
    if (mt_mesh_create(&rails, &w, &o, &m) == MT_OK) {
        mt_mesh_destroy(&m);
    }
}

static enum mt_status carry(void *user, uint32_t peer, const void *bytes,
                            uint32_t count)
{
    (void)user;
    (void)bytes;
    CHECK(peer < RANKS && peer != 1);
    CHECK(count > 0);
    return MT_OK;
}

/* One message after another to the same ranks. */
static void heard(const uint8_t *data, size_t size)
{
    struct mt_fabric_qp *qp;
    if (demand.peers == NULL || (size > 0 && data[0] == 0xfe)) {
        const struct mt_demand_options o = {.rank = 1,
                                            .size = RANKS,
                                            .pd = rails.rails[0].pd,
                                            .rc = rc,
                                            .carry = carry};
        mt_demand_close(&demand);
        CHECK_EQ(mt_demand_open(&demand, &o), MT_OK);
    }
    mt_demand_heard(&demand, data, (uint32_t)size);
    if (size > 16 && data[size - 1] % 8 == 0) {
        mt_demand_qp(&demand, data[size - 2] % (RANKS + 1), &qp);
    }
    if (size > 16 && data[size - 1] % 64 == 1) {
        mt_demand_drop(&demand, data[size - 2] % RANKS);
    }
}

static void address_of(const uint8_t *data, size_t size,
                       struct mt_fabric_address *a)
{
    memset(a, 0, sizeof(*a));
    a->bytes = size < MT_FABRIC_ADDRESS_BYTES ? (uint32_t)size
                                              : MT_FABRIC_ADDRESS_BYTES;
    memcpy(a->data, data, a->bytes);
}

static void address_shm(const uint8_t *data, size_t size)
{
    struct mt_fabric_address a;
    struct mt_fabric_qp *qp = NULL;
    address_of(data, size, &a);
    CHECK_EQ(mt_fabric_qp_create(rails.rails[0].pd, &rc, &qp), MT_OK);
    mt_fabric_qp_connect(qp, &a);
    mt_fabric_qp_destroy(qp);
}

static void address_iwarp(const uint8_t *data, size_t size)
{
    struct mt_fabric_address a, again;
    struct mt_iwarp_address read;
    struct sockaddr_storage name;
    address_of(data, size, &a);
    for (int t = MT_FABRIC_RC; t <= MT_FABRIC_UD; t++) {
        if (mt_address_read(&a, (enum mt_fabric_transport)t, &read) == MT_OK) {
            CHECK(read.family == 4 || read.family == 6);
            CHECK(mt_address_socket(&read, 0, &name) <= sizeof(name));
            mt_address_write(&read, &again);
            CHECK(again.bytes == a.bytes);
        }
    }
}

#if MT_VERBS
static void address_verbs(const uint8_t *data, size_t size)
{
    struct mt_fabric_address a;
    struct mt_verbs_address read;
    const struct mt_verbs_port port = {.up = true, .mtu = IBV_MTU_1024};
    address_of(data, size, &a);
    for (int t = MT_FABRIC_RC; t <= MT_FABRIC_UD; t++) {
        if (mt_verbs_address_parse(&a, (enum mt_fabric_transport)t, &read) !=
            MT_OK) {
            continue;
        }
        CHECK(read.number <= 0xffffff && read.packet <= 0xffffff);
        CHECK(mt_verbs_mtu_bytes(read.mtu) <= 4096);
        enum mt_verbs_path path = mt_verbs_path_choose(0x1f, read.paths);
        CHECK(path <= MT_VERBS_PATHS);
        if (path < MT_VERBS_PATHS) {
            struct ibv_ah_attr attributes;
            const struct mt_verbs_end end = {&read.gid[path], read.lid,
                                             read.route != 0};
            mt_verbs_path_fill(&port, 1, path, &end, &attributes);
        }
    }
}

static void source_verbs(const uint8_t *data, size_t size)
{
    struct mt_fabric_source source = {{0}};
    enum mt_verbs_path path;
    union ibv_gid gid;
    uint32_t number;
    uint16_t lid;
    memcpy(&source, data, size < sizeof(source) ? size : sizeof(source));
    if (mt_verbs_source_parse(&source, &number, &path, &gid, &lid)) {
        CHECK(path < MT_VERBS_PATHS);
        CHECK_EQ(number, (uint32_t)source.words[2]);
    }
}
#else
#error "infiniband/verbs.h is missing: apt-get install libibverbs-dev"
#endif

static void fault_script(const uint8_t *data, size_t size)
{
    struct mt_fault_script script;
    unsigned line;
    const char *wrong = mt_fault_parse((const char *)data, size, &script, &line);
    CHECK(line <= size && (wrong == NULL || line >= 1));
    for (int i = 0; i < MT_FAULT_KINDS && wrong == NULL; i++) {
        CHECK(script.rules[i].times <= script.rules[i].of);
    }
    if (wrong == NULL) {
        CHECK(script.delay_polls <= MT_FAULT_POLLS_MOST);
        CHECK(script.starve_polls <= MT_FAULT_POLLS_MOST);
        CHECK(script.rules[MT_FAULT_STARVE].of == 0 || script.starve_polls > 0);
        CHECK(script.bits_per_second == 0 ||
              (script.bits_per_second >= MT_FAULT_RATE_LEAST &&
               script.bits_per_second <= MT_FAULT_RATE_MOST));
    }
}

static void tool_config(const uint8_t *data, size_t size)
{
    struct tool_config c = {.mode = 0};
    memcpy(&c, data, size < sizeof(c) ? size : sizeof(c));
    if (tool_config_wrong(&c) != NULL) {
        return;
    }
    CHECK(c.mode < TOOL_MODES && c.size_count <= TOOL_SIZES);
    for (uint32_t i = 0; i < c.size_count; i++) {
        CHECK(c.sizes[i] >= 1 && c.sizes[i] <= 1 << 28);
    }
    CHECK(c.iterations <= 1 << 30 && c.threshold <= 1 << 30);
    CHECK(c.connections >= 2 && c.connections <= 1024);
    CHECK(c.duration_ms >= 1 && c.duration_ms <= 60000);
    CHECK(c.operation <= TOOL_SEND && c.registered <= 1);
}

static void tool_text(const uint8_t *data, size_t size)
{
    static const struct tool_range range = {3, UINT64_C(1) << 28};
    char text[MOST + 1];
    uint64_t value = 0;
    memcpy(text, data, size);
    text[size] = '\0';
    const char *end = tool_number(text, range, &value);
    if (end != NULL) {
        CHECK(value >= range.least && value <= range.most);
        CHECK(end > text && end <= text + strlen(text));
        CHECK(*end == '\0' || *end == ',');
    }
}

/* What came into a receive: its slot, its bytes, and the first eight of them. */
struct arrival {
    uint32_t slot, bytes;
    uint64_t head;
};

static struct mt_fabric_qp *fresh_qp(void)
{
    struct mt_fabric_qp_options o = rc;
    struct mt_fabric_qp *qp = NULL;
    o.receive_depth = 4 * MOST / sizeof(struct arrival);
    CHECK_EQ(mt_fabric_qp_create(rails.rails[0].pd, &o, &qp), MT_OK);
    return qp;
}

/* The next of the input; false: there is none. */
static bool arrival_next(const uint8_t **data, size_t *size, struct arrival *a)
{
    if (*size < sizeof(*a)) {
        return false;
    }
    memcpy(a, *data, sizeof(*a));
    *data += sizeof(*a);
    *size -= sizeof(*a);
    return true;
}

static void credits(const uint8_t *data, size_t size)
{
    const struct mt_credits_options o = {.pd = rails.rails[0].pd,
                                         .qp = fresh_qp(),
                                         .window = WINDOW,
                                         .peer_window = PEER_WINDOW,
                                         .bytes = LONGEST};
    struct mt_credits c;
    struct arrival a;
    enum mt_status status = MT_OK;
    CHECK_EQ(mt_credits_open(&c, &o), MT_OK);
    c.available = PEER_WINDOW / 2; /* the rest is on its way */
    while ((status == MT_OK || status == MT_EAGAIN) &&
           arrival_next(&data, &size, &a)) {
        struct mt_fabric_completion completion = {
            .id = mt_path_id(MT_PATH_MAIL, a.slot),
            .bytes = a.bytes % (c.slot_bytes + 1)};
        struct mt_credits_message m = {.count = 0};
        uint32_t before = c.available;
        char *at = (char *)c.receives->address + a.slot * c.slot_bytes;
        if (a.slot < WINDOW) {
            memcpy(at, &a.head, sizeof(a.head));
        }
        status = mt_credits_received(&c, &completion, &m);
        CHECK(c.available <= PEER_WINDOW);
        CHECK(status != MT_EPEER || c.available == before);
        if (status == MT_OK) {
            CHECK(a.slot < WINDOW && m.slot == a.slot);
            CHECK((const char *)m.bytes == at + sizeof(a.head));
            CHECK_EQ(m.count + sizeof(a.head), completion.bytes);
            status = mt_credits_release(&c, &m);
        }
        /* credits that are due cannot go: nobody is connected */
        CHECK(status == MT_OK || status == MT_EAGAIN || status == MT_EPEER ||
              status == MT_ESTATE);
    }
    mt_fabric_qp_destroy(o.qp);
    mt_credits_close(&c);
}

static void notice(const uint8_t *data, size_t size)
{
    bool words = size > 0 && data[0] % 2 == 0;
    const struct mt_put_options o = {.pd = rails.rails[0].pd,
                                     .qp = fresh_qp(),
                                     .how = words ? MT_FABRIC_NOTIFY_SEND
                                                  : MT_FABRIC_NOTIFY_IMM,
                                     .window = WINDOW};
    struct mt_put_target t;
    struct arrival a;
    enum mt_status status = MT_OK;
    CHECK_EQ(mt_put_target_open(&t, &o, NULL), MT_OK);
    while (status == MT_OK && arrival_next(&data, &size, &a)) {
        struct mt_fabric_completion completion = {
            .id = mt_path_id(MT_PATH_NOTICE, a.slot),
            .has_immediate = (a.bytes & 16) != 0,
            .immediate = (uint32_t)a.head,
            .bytes = a.bytes % 16};
        uint64_t before = t.seen;
        if (words && a.slot < WINDOW) {
            memcpy((uint64_t *)t.words->address + a.slot, &a.head,
                   sizeof(a.head));
        }
        status = mt_put_target_noticed(&t, &completion);
        CHECK(status == MT_OK || status == MT_EPEER);
        CHECK_EQ(t.seen, before + (status == MT_OK));
        if (status == MT_OK) {
            CHECK(a.slot < WINDOW);
            CHECK(completion.has_immediate != words);
            CHECK(words ? a.head == t.seen && completion.bytes == 8
                        : completion.immediate == (uint32_t)t.seen);
        }
    }
    mt_fabric_qp_destroy(o.qp);
    mt_put_target_close(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const targets[TARGETS])(const uint8_t *, size_t) = {
        host_port, socket_hello,  mesh,          heard,
        address_shm, address_iwarp, address_verbs, source_verbs,
        fault_script, tool_config, tool_text, credits, notice};
    if (rails.count == 0) {
        start();
    }
    if (size >= 1 && size <= MOST) {
        /* the end of the input is the end of its memory */
        uint8_t *copy = malloc(size);
        memcpy(copy, data, size);
        targets[copy[0] % TARGETS](copy + 1, size - 1);
        free(copy);
    }
    return 0;
}

/* ---- inputs that begin as right ones ---- */

static unsigned long long state = 1;

static uint32_t draw(uint32_t limit)
{
    return (uint32_t)(check_random(&state) % limit);
}

static size_t draw_script(uint8_t *at)
{
    static const char *const parts[] = {
        "seed", "drop", "delay", "starve", "full", "rate",  "die",
        "lose", "event", " ",   "1/20",  "0/1",    "2/1",  "1/",    "ud",
        "3",    "1001", "\n",    "#",      "1/0",  "\t",    "x",
        "4294967296", "18446744073709551615", " Gbit/s", " kB/s", " bit/s"};
    size_t n = 0;
    for (uint32_t i = draw(5); i > 0; i--) { /* right lines */
        n += draw(5) == 0
                 ? (size_t)sprintf((char *)at + n, "rate %u Mbit/s\n",
                                   1 + draw(9))
                 : (size_t)sprintf((char *)at + n, "%s 1/%u%s\n",
                                   parts[1 + draw(4)], 1 + draw(9),
                                   draw(2) == 0 ? " ud" : " 3");
    }
    for (uint32_t i = draw(9); i > 0; i--) {
        const char *p = parts[draw(sizeof(parts) / sizeof(parts[0]))];
        memcpy(at + n, p, strlen(p));
        n += strlen(p);
    }
    return n;
}

static size_t draw_text(uint8_t *at)
{
    static const char *const parts[] = {"host", ":",  "[",     "]", "::1",
                                        "7000", "0",  "65535", ".", "65536",
                                        "-1",   "é", "",      "a"};
    size_t n = 0;
    for (uint32_t i = 1 + draw(6); i > 0; i--) {
        const char *p = parts[draw(sizeof(parts) / sizeof(parts[0]))];
        memcpy(at + n, p, strlen(p));
        n += strlen(p);
    }
    if (draw(50) == 0) { /* as long as a name may be, or longer */
        memset(at, 'h', 250 + draw(12));
        n = n > 250 ? n : 250 + draw(12);
    }
    return n;
}

static size_t draw_socket_hello(uint8_t *at)
{
    struct mt_socket_hello h = {.version = 1, .rank = draw(6), .size = RANKS};
    memcpy(h.magic, "mtwireup", 8);
    memcpy(at, &h, sizeof(h));
    return sizeof(h);
}

static struct mt_fabric_address own_address(void)
{
    struct mt_fabric_address a = {.bytes = 0};
    struct mt_fabric_qp *qp = NULL;
    CHECK_EQ(mt_fabric_qp_create(rails.rails[0].pd, &rc, &qp), MT_OK);
    CHECK_EQ(mt_fabric_qp_address(qp, &a), MT_OK);
    mt_fabric_qp_destroy(qp);
    return a;
}

/* As demand.c lays it out: its first 24 bytes are the same in all versions. */
static size_t draw_hello(uint8_t *at)
{
    const struct mt_fabric_address a = own_address();
    uint32_t words[4] = {MT_DEMAND_VERSION, draw(2) * 2, 1, draw(2)};
    uint64_t lives[2] = {1 + draw(5), draw(3) == 0 ? draw(9) : 0};
    memcpy(at, "mtdemand", 8);
    memcpy(at + 8, words, sizeof(words));
    memcpy(at + 24, lives, sizeof(lives));
    memcpy(at + 40, &a, sizeof(a));
    return 40 + (sizeof(a) + 7) / 8 * 8;
}

static size_t draw_address(enum target target, uint8_t *at)
{
    if (target == ADDRESS_SHM) {
        const struct mt_fabric_address a = own_address();
        memcpy(at, a.data, a.bytes);
        return a.bytes;
    }
    if (target == ADDRESS_IWARP) {
        struct mt_iwarp_address a = {.version = MT_IWARP_VERSION,
                                     .family = draw(2) == 0 ? 4 : 6,
                                     .transport = (uint8_t)(1 + draw(2)),
                                     .port = (uint16_t)(1 + draw(9)),
                                     .number = 1 + draw(9)};
        struct mt_fabric_address to;
        mt_address_write(&a, &to);
        memcpy(at, to.data, to.bytes);
        return to.bytes;
    }
    struct mt_verbs_address a = {.provider = "ibv",
                                 .version = MT_VERBS_VERSION,
                                 .transport = (uint8_t)(1 + draw(2)),
                                 .mtu = (uint8_t)draw(7),
                                 .paths = (uint8_t)draw(256),
                                 .number = draw(1 << 25),
                                 .packet = draw(1 << 25),
                                 .route = (uint16_t)draw(2)};
    memcpy(at, &a, sizeof(a));
    return sizeof(a);
}

/* What may be asked for, or nearly. */
static size_t draw_tool_config(uint8_t *at)
{
    struct tool_config c = {.mode = draw(TOOL_MODES + 1),
                            .size_count = draw(TOOL_SIZES + 2),
                            .iterations = draw(9),
                            .connections = 2 + draw(1023),
                            .duration_ms = draw(2) * 60000,
                            .operation = draw(3),
                            .registered = draw(3)};
    for (uint32_t i = 0; i < TOOL_SIZES; i++) {
        c.sizes[i] = draw(100) == 0 ? draw(2) : 1 + draw(1 << 28);
    }
    memcpy(at, &c, sizeof(c));
    return sizeof(c);
}

/* Messages with credits, or notices: those that follow each other. */
static size_t draw_arrivals(enum target target, uint8_t *at)
{
    uint32_t count = 1 + draw(6), first = draw(2);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bytes = 8 + draw(LONGEST), owed = draw(3);
        struct arrival a = {.slot = 2 * draw(WINDOW / 2) + first +
                                    (draw(16) == 0 ? WINDOW : 0),
                            .bytes = bytes,
                            .head = (uint64_t)(bytes - 8) << 32 | owed};
        if (target == NOTICE) {
            a.bytes = first == 0 ? 8 : 16;
            a.head = i + 1;
        } else if (draw(3) == 0) {
            a.bytes = 8;
            a.head = UINT64_C(0xffffffff) << 32 | owed;
        }
        memcpy(at + i * sizeof(a), &a, sizeof(a));
    }
    return count * sizeof(struct arrival);
}

static size_t draw_input(uint8_t *at)
{
    enum target target = (enum target)(at[0] % TARGETS);
    size_t n = target == HOST_PORT        ? draw_text(at + 1)
               : target == SOCKET_HELLO   ? draw_socket_hello(at + 1)
               : target == DEMAND         ? draw_hello(at + 1)
               : target == FAULT_SCRIPT   ? draw_script(at + 1)
               : target == TOOL_CONFIG    ? draw_tool_config(at + 1)
               : target >= CREDITS        ? draw_arrivals(target, at + 1)
               : target == TOOL_NUMBER
                   ? (size_t)sprintf((char *)at + 1, "%u%s", draw(1 << 20),
                                     draw(2) == 0 ? "K" : draw(2) == 0 ? "G,"
                                                                       : "x")
               : target >= ADDRESS_SHM && target <= ADDRESS_VERBS
                   ? draw_address(target, at + 1)
                   : draw(64);
    if (target == MESH || target == SOURCE_VERBS) {
        for (size_t i = 0; i < n; i++) {
            at[1 + i] = (uint8_t)draw(draw(4) == 0 ? 256 : 6);
        }
    }
    for (uint32_t m = draw(3); m > 0 && n > 0; m--) {
        at[1 + draw((uint32_t)n)] = (uint8_t)draw(256);
    }
    n -= n > 0 && draw(8) == 0 ? draw((uint32_t)n) : 0;
    return n + 1;
}

int main(int argc, char **argv)
{
    static uint8_t input[MOST];
#if defined(__SANITIZE_THREAD__)
    uint64_t inputs = 5000; /* one thread: nothing new to find */
#else
    uint64_t inputs = 100000;
#endif
    inputs = argc > 1 ? strtoull(argv[1], NULL, 10) : inputs;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    start();
    for (uint64_t i = 0; i < inputs; i++) {
        input[0] = (uint8_t)draw(256);
        LLVMFuzzerTestOneInput(input, draw_input(input));
    }
    mt_demand_close(&demand);
    CHECK_EQ(mt_rails_close(&rails), MT_OK);
    return check_failures != 0;
}
