/* paths.c: the helpers of c/fabric/paths over a real provider: what they do
 * over a toy device that is strict is in c/test/fabric_paths_test.c. */
#include "harness.h"

#include "../../../c/fabric/paths/credits.h"
#include "../../../c/fabric/paths/mesh.h"
#include "../../../c/fabric/paths/put.h"
#include "../../../c/fabric/paths/reads.h"
#include "../../../c/fabric/paths/socket.h"
#include "../../../c/fabric/paths/stripe.h"

/* ---- puts ---- */

enum { PUT_BYTES = 1500, PUT_WINDOW = 16 };

static void poll_put(struct side *s, struct mt_put *put,
                     struct mt_put_target *target, uint64_t *done)
{
    struct mt_fabric_completion c;
    if (took(s->send_cq, &c)) {
        EQ(c.status, MT_OK);
        EQ(mt_path_kind(c.id), MT_PATH_PUT);
        EQ(mt_path_value(c.id), *done);
        (*done)++;
    }
    if (took(s->receive_cq, &c)) {
        EQ(mt_path_kind(c.id), MT_PATH_NOTICE);
        OK(mt_put_target_noticed(target, &c));
    }
    enum mt_status status = mt_put_flush(put);
    CHECK(status == MT_OK || status == MT_EAGAIN);
}

/* Rank 0 puts windows of messages; whatever a notice announces is there. */
static void put_one_way(struct side *s, enum mt_fabric_notify how)
{
    struct mt_fabric_qp_options q = rc_options(s);
    struct mt_fabric_mr *memory = allocated(s, PUT_WINDOW * PUT_BYTES);
    struct mt_fabric_mr *flag = allocated(s, 4096);
    struct remote there = remote_of(s, memory), flag_there = remote_of(s, flag);
    struct mt_put put;
    struct mt_put_target target;
    uint64_t done = 0;
    q.send_depth = 8; /* less than a window */
    OK(mt_fabric_qp_create(s->pd, &q, &s->qp));
    struct mt_put_options o = {.how = how,
                               .pd = s->pd,
                               .qp = s->qp,
                               .depth = q.send_depth,
                               .inline_bytes = q.inline_bytes,
                               .flag_address = flag_there.address,
                               .flag_rkey = flag_there.rkey,
                               .window = PUT_WINDOW};
    OK(mt_put_open(&put, &o));
    OK(mt_put_target_open(&target, &o, flag->address));
    struct mt_fabric_address mine, theirs;
    OK(mt_fabric_qp_address(s->qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_qp_connect(s->qp, &theirs));
    meet(s);
    for (uint64_t first = 0; first < 20 * PUT_WINDOW; first += PUT_WINDOW) {
        uint64_t next = first;
        if (s->rank == 0) {
            for (uint64_t i = first; i < first + PUT_WINDOW; i++) {
                fill((char *)memory->address + i % PUT_WINDOW * PUT_BYTES,
                     PUT_BYTES, i);
            }
        }
        while (s->rank == 0 ? done < first + PUT_WINDOW
                            : next < first + PUT_WINDOW) {
            size_t at = next % PUT_WINDOW * PUT_BYTES;
            size_t n = 1 + next * 37 % PUT_BYTES;
            waiting(s);
            poll_put(s, &put, &target, &done);
            if (s->rank == 1 && mt_put_target_test(&target, next + 1)) {
                CHECK(filled((char *)memory->address + at, n, next));
                next++;
            }
            if (s->rank == 0 && next < first + PUT_WINDOW) {
                struct mt_fabric_piece p = piece(memory, at, n);
                struct mt_put_work work = {.value = next,
                                           .flags = MT_FABRIC_SIGNALED,
                                           .piece_count = 1,
                                           .pieces = &p,
                                           .remote_address = there.address + at,
                                           .rkey = there.rkey};
                enum mt_status status = mt_put_post(&put, &work);
                CHECK(status == MT_OK || status == MT_EAGAIN);
                next += status == MT_OK;
            }
        }
        uint64_t allows = mt_put_target_allows(&target), theirs_allows;
        swap(s, &allows, &theirs_allows, sizeof(allows));
        mt_put_allow(&put, theirs_allows);
    }
    meet(s);
    OK(mt_fabric_qp_destroy(s->qp));
    s->qp = NULL;
    struct mt_fabric_completion c;
    while (took(s->receive_cq, &c)) { /* flushed */
    }
    mt_put_close(&put);
    mt_put_target_close(&target);
    OK(mt_fabric_mr_destroy(memory));
    OK(mt_fabric_mr_destroy(flag));
}

static void puts_all(struct side *s)
{
    static const enum mt_fabric_notify ways[] = {MT_FABRIC_NOTIFY_FLAG_WRITE,
                                                 MT_FABRIC_NOTIFY_IMM,
                                                 MT_FABRIC_NOTIFY_SEND};
    side_open(s, false);
    for (int i = 0; i < 3; i++) {
        if ((s->caps->notify & ways[i]) != 0) {
            put_one_way(s, ways[i]);
        }
    }
    side_close(s);
}

/* ---- reads ---- */

static void reads_in_order(struct side *s)
{
    enum { N = 200, BYTES = 3000 };
    static struct mt_read reads[N];
    struct mt_reads bucket;
    side_open(s, false);
    struct mt_fabric_qp_options q = rc_options(s);
    q.reads = q.reads < 2 ? q.reads : 2;
    s->qp = connect_with(s, &q);
    struct mt_fabric_mr *from = registered(s, BYTES);
    struct mt_fabric_mr *to = registered(s, N * BYTES);
    fill(from->address, BYTES, 50 + (uint64_t)s->rank);
    struct remote there = remote_of(s, from);
    OK(mt_reads_open(&bucket, s->qp, q.reads));
    for (uint32_t i = 0; i < N; i++) { /* all at once: most of them wait */
        reads[i] = (struct mt_read){.piece = piece(to, i * BYTES, BYTES),
                                    .remote_address = there.address,
                                    .rkey = there.rkey};
        OK(mt_reads_post(&bucket, &reads[i]));
    }
    for (uint32_t i = 0; i < N;) {
        struct mt_fabric_completion c;
        waiting(s);
        mt_reads_flush(&bucket); /* the queue may have been full of others */
        if (!took(s->send_cq, &c)) {
            continue;
        }
        EQ(c.status, MT_OK);
        CHECK(mt_reads_done(&bucket, &c) == &reads[i]);
        CHECK(filled(reads[i].piece.address, BYTES, 51 - (uint64_t)s->rank));
        i++;
    }
    EQ(bucket.tokens, q.reads);
    meet(s);
    release(from);
    release(to);
    side_close(s);
}

/* ---- credits ---- */

static void credits_both_ways(struct side *s)
{
    enum { MOST = 200 };
    const uint64_t N = s->setting->operations < 1000 ? 300 : 3000;
    struct mt_fabric_qp_options q;
    struct mt_credits credits;
    uint64_t state = s->setting->seed * 31 + (uint64_t)s->rank + 1;
    uint64_t sent = 0, got = 0;
    char message[MOST];
    side_open(s, false);
    q = rc_options(s);
    OK(mt_fabric_qp_create(s->pd, &q, &s->qp));
    struct mt_credits_options o = {.pd = s->pd,
                                   .qp = s->qp,
                                   .window = s->rank == 0 ? 7 : 16,
                                   .peer_window = s->rank == 0 ? 16 : 7,
                                   .bytes = MOST};
    OK(mt_credits_open(&credits, &o));
    struct mt_fabric_address mine, theirs;
    OK(mt_fabric_qp_address(s->qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_qp_connect(s->qp, &theirs));
    meet(s);
    while (sent < N || got < N) {
        struct mt_fabric_completion c;
        struct mt_credits_message m;
        waiting(s);
        if (sent < N && random_next(&state) % 2 == 0) {
            uint32_t n = (uint32_t)(sent % MOST + 1);
            fill(message, n, sent);
            enum mt_status status = mt_credits_send(&credits, message, n);
            CHECK(status == MT_OK || status == MT_EAGAIN);
            sent += status == MT_OK;
        }
        if (took(s->send_cq, &c)) {
            OK(mt_credits_sent(&credits, &c));
        }
        if (took(s->receive_cq, &c)) {
            enum mt_status status = mt_credits_received(&credits, &c, &m);
            CHECK(status == MT_OK || status == MT_EAGAIN);
            if (status == MT_OK) {
                EQ(m.count, got % MOST + 1);
                CHECK(filled(m.bytes, m.count, got));
                got++;
                OK(mt_credits_release(&credits, &m));
            }
        }
        mt_credits_flush(&credits);
    }
    meet(s);
    OK(mt_fabric_qp_destroy(s->qp));
    s->qp = NULL;
    mt_credits_close(&credits);
    side_close(s);
}

/* ---- rails and mesh ---- */

static char said[1024];

static void hear(void *user, const char *text)
{
    (void)user;
    snprintf(said, sizeof(said), "%s", text);
}

static enum mt_status wire(void *user, const void *mine, size_t bytes,
                           void *all)
{
    struct side *s = user;
    char *place = all;
    memcpy(place + (size_t)s->rank * bytes, mine, bytes);
    swap(s, mine, place + (size_t)(1 - s->rank) * bytes, bytes);
    return MT_OK;
}

/* The other side is of version 77. */
static enum mt_status wire_old(void *user, const void *mine, size_t bytes,
                               void *all)
{
    const struct side *s = user;
    uint32_t version = 77;
    enum mt_status status = wire(user, mine, bytes, all);
    memcpy((char *)all + (size_t)(1 - s->rank) * bytes + 8, &version,
           sizeof(version));
    return status;
}

static void open_rails(struct side *s, struct mt_rails *rails,
                       uint32_t per_port)
{
    struct mt_rails_options o = {.patterns = s->setting->device,
                                 .per_port = per_port,
                                 .cq_depth = 256,
                                 .fabric = s->setting->options};
    o.fabric.say = hear;
    OK(mt_rails_open(&o, rails));
    CHECK(rails->count % per_port == 0 && rails->count >= per_port);
}

static struct mt_mesh_options mesh_options(void)
{
    return (struct mt_mesh_options){.rc = {.send_depth = 16,
                                           .receive_depth = 16,
                                           .pieces = 1,
                                           .inline_bytes = 0,
                                           .timeout_ms = 2000},
                                    .say = hear};
}

static void names_of_rails(struct side *s)
{
    struct mt_rails rails;
    char pattern[80];
    struct mt_rails_options o = {
        .patterns = "nosuch*", .cq_depth = 16, .fabric = s->setting->options};
    o.fabric.say = hear;
    EQ(mt_rails_open(&o, &rails), MT_ENODEVICE);
    CHECK(strstr(said, "nosuch*") != NULL);
    CHECK(strstr(said, s->setting->device) != NULL); /* the known ones */
    o.patterns = "";
    CHECK(mt_rails_open(&o, &rails) != MT_OK);
    /* named twice, it counts once; a pattern of characters fits, too */
    snprintf(pattern, sizeof(pattern), "%s,?%s", s->setting->device,
             s->setting->device + 1);
    o.patterns = pattern;
    OK(mt_rails_open(&o, &rails));
    for (uint32_t i = 1; i < rails.count; i++) {
        CHECK(strcmp(rails.rails[i].name, rails.rails[i - 1].name) != 0);
    }
    OK(mt_rails_close(&rails));
    o.per_port = MT_RAILS + 1;
    EQ(mt_rails_open(&o, &rails), MT_EINVAL);
}

static void mesh_refuses_versions(struct side *s)
{
    struct mt_rails rails;
    struct mt_mesh mesh;
    struct mt_mesh_options o = mesh_options();
    struct mt_fabric_wireup old = {
        .rank = (uint32_t)s->rank, .size = 2, .exchange = wire_old, .user = s};
    open_rails(s, &rails, 1);
    EQ(mt_mesh_create(&rails, &old, &o, &mesh), MT_EVERSION);
    CHECK(strstr(said, "77") != NULL && strstr(said, "version 2") != NULL);
    /* another number of rails, and a rank that cannot make its part */
    struct mt_fabric_wireup wireup = {
        .rank = (uint32_t)s->rank, .size = 2, .exchange = wire, .user = s};
    if (s->rank == 0) {
        o.rc.pieces = 1 << 20;
    }
    CHECK(mt_mesh_create(&rails, &wireup, &o, &mesh) == MT_EINVAL);
    OK(mt_rails_close(&rails));
    open_rails(s, &rails, s->rank == 0 ? 1 : 2);
    o = mesh_options();
    EQ(mt_mesh_create(&rails, &wireup, &o, &mesh), MT_EINVAL);
    OK(mt_rails_close(&rails));
}

static void mesh_of_datagrams(struct side *s)
{
    struct mt_rails rails;
    struct mt_mesh mesh;
    struct mt_mesh_options o = mesh_options();
    struct mt_fabric_wireup wireup = {
        .rank = (uint32_t)s->rank, .size = 2, .exchange = wire, .user = s};
    o.ud = o.rc;
    open_rails(s, &rails, 1);
    if ((rails.rails[0].caps->transports & MT_FABRIC_UD) == 0) {
        OK(mt_rails_close(&rails));
        return;
    }
    OK(mt_mesh_create(&rails, &wireup, &o, &mesh));
    for (uint32_t peer = 0; peer < 2; peer++) {
        CHECK(mt_mesh_ah(&mesh, peer, 0) != NULL); /* this rank, too */
        CHECK((mt_mesh_qp(&mesh, peer, 0) == NULL) == (peer == mesh.rank));
    }
    meet(s);
    mt_mesh_destroy(&mesh);
    OK(mt_rails_close(&rails));
}

/* Messages over two rails: of any size, each seen only when all of it is. */
static void striped(struct side *s)
{
    enum { RAILS = 2, N = 60, MOST = 20000, WINDOW = 8 };
    struct mt_rails rails;
    struct mt_mesh mesh;
    struct mt_mesh_options o = mesh_options();
    struct mt_fabric_wireup wireup = {
        .rank = (uint32_t)s->rank, .size = 2, .exchange = wire, .user = s};
    struct mt_stripe stripe = {.rails = RAILS,
                               .threshold = MT_STRIPE_THRESHOLD};
    struct mt_stripe_target target = {.rails = RAILS,
                                      .threshold = MT_STRIPE_THRESHOLD};
    open_rails(s, &rails, RAILS);
    side_open(s, false); /* for swap, while it polls */
    OK(mt_mesh_create(&rails, &wireup, &o, &mesh));
    struct mt_fabric_mr *data, *flags;
    const uint32_t access = MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE;
    OK(mt_fabric_mr_allocate(rails.rails[0].pd, MOST, access, &data));
    OK(mt_fabric_mr_allocate(rails.rails[0].pd, 4096, access, &flags));
    struct remote there = remote_of(s, data), flags_there = remote_of(s, flags);
    for (uint32_t r = 0; r < RAILS; r++) {
        struct mt_put_options p = {.how = mt_put_choose(rails.rails[r].caps),
                                   .pd = rails.rails[r].pd,
                                   .qp = mt_mesh_qp(&mesh, 1 - mesh.rank, r),
                                   .depth = o.rc.send_depth,
                                   .inline_bytes = o.rc.inline_bytes,
                                   .flag_address = flags_there.address + r * 64,
                                   .flag_rkey = flags_there.rkey,
                                   .window = WINDOW};
        OK(mt_put_open(&stripe.puts[r], &p));
        OK(mt_put_target_open(&target.targets[r], &p,
                              (uint64_t *)flags->address + r * 8));
    }
    meet(s);
    for (uint32_t n = 0; n < N; n++) {
        uint64_t bytes = n % 3 == 0 ? 1 + n * 17 : 1 + n * 331;
        struct mt_stripe_message message = {.part_count = 1};
        struct mt_stripe_arrival arrival;
        struct mt_stripe_memory from = {.address = data->address,
                                        .lkeys = {data->lkey, data->lkey}};
        struct mt_stripe_remote to = {.address = there.address,
                                      .rkeys = {there.rkey, there.rkey}};
        enum mt_status status = MT_EAGAIN;
        bool begun = false, here = s->rank == 0;
        if (s->rank == 0) {
            fill(data->address, bytes, n);
        } else {
            mt_stripe_expect(&target, bytes, &arrival);
        }
        while (!here ||
               (s->rank == 0 && (status != MT_OK || message.pending > 0))) {
            waiting(s);
            if (s->rank == 0 && status != MT_OK) {
                status =
                    begun ? mt_stripe_continue(&stripe, &message, &from, &to)
                          : mt_stripe_put(&stripe, &message, &from, &to, bytes);
                begun = true;
                CHECK(status == MT_OK || status == MT_EAGAIN);
            }
            mt_stripe_flush(&stripe);
            for (uint32_t r = 0; r < RAILS; r++) {
                struct mt_fabric_completion c;
                if (took(rails.rails[r].send_cq, &c)) {
                    EQ(c.status, MT_OK);
                    mt_stripe_done(&c);
                }
                if (took(rails.rails[r].receive_cq, &c)) {
                    OK(mt_put_target_noticed(&target.targets[r], &c));
                }
            }
            here = here || mt_stripe_test(&target, &arrival);
        }
        CHECK(filled(data->address, bytes, n));
        /* what was read here is an engine thread's to write again */
        mt_fabric_poll(rails.rails[0].send_cq, NULL, 0);
        for (uint32_t r = 0; r < RAILS; r++) {
            uint64_t allows = mt_put_target_allows(&target.targets[r]), theirs;
            swap(s, &allows, &theirs, sizeof(allows));
            mt_put_allow(&stripe.puts[r], theirs);
        }
    }
    meet(s);
    mt_mesh_destroy(&mesh);
    for (uint32_t r = 0; r < RAILS; r++) {
        mt_put_close(&stripe.puts[r]);
        mt_put_target_close(&target.targets[r]);
    }
    OK(mt_fabric_mr_destroy(data));
    OK(mt_fabric_mr_destroy(flags));
    OK(mt_rails_close(&rails));
    side_close(s);
}

/* ---- sockets ---- */

/* Both sides meet. */
static void sockets_open(struct side *s, struct mt_socket_options o,
                         struct mt_socket *sockets)
{
    char address[32] = "", theirs[32];
    if (s->rank == 0) {
        OK(mt_socket_listen(&o, sockets));
        snprintf(address, sizeof(address), "127.0.0.1:%u", sockets->port);
    }
    swap(s, address, theirs, sizeof(address));
    if (s->rank == 0) {
        OK(mt_socket_join(sockets));
    } else {
        o.address = theirs;
        OK(mt_socket_connect(&o, sockets));
    }
}

static void sockets(struct side *s)
{
    struct mt_socket sockets;
    struct mt_socket_options o = {.rank = (uint32_t)s->rank,
                                  .size = 2,
                                  .address = "127.0.0.1:0",
                                  .timeout_ms = 60000,
                                  .say = hear};
    static const char *const wrong[] = {"", "host:port", "[::1", "a:70000",
                                        "[::1]x"};
    uint64_t numbers[2], mine = 100 + (uint64_t)s->rank;
    for (int rank = 0; rank < 2; rank++) { /* which has no memory to hear */
        bool hears = s->rank != rank;
        sockets_open(s, o, &sockets);
        EQ(mt_socket_exchange(&sockets, &mine, sizeof(mine),
                              hears ? numbers : NULL),
           hears ? MT_EPEER : MT_ENOMEM);
        mt_socket_close(&sockets);
    }
    sockets_open(s, o, &sockets);
    for (int i = 0; i < 100; i++) {
        OK(mt_socket_exchange(&sockets, &mine, sizeof(mine), numbers));
        EQ(numbers[0], 100 + i);
        EQ(numbers[1], 101 + i);
        mine++;
    }
    meet(s);
    if (s->rank == 1) { /* another number of bytes, and then nobody */
        uint32_t few = 1, all[2];
        CHECK(mt_socket_exchange(&sockets, &few, sizeof(few), all) != MT_OK);
    } else {
        EQ(mt_socket_exchange(&sockets, &mine, sizeof(mine), numbers),
           MT_EPEER);
        CHECK(strstr(said, "rank 1") != NULL);
    }
    mt_socket_close(&sockets);
    /* bounded: nobody comes, nobody listens */
    o.timeout_ms = 100;
    o.address = "127.0.0.1:0";
    o.rank = 0;
    OK(mt_socket_listen(&o, &sockets));
    EQ(mt_socket_join(&sockets), MT_ETIMEOUT);
    mt_socket_close(&sockets);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        o.rank = 1;
        o.address = wrong[i];
        CHECK(mt_socket_connect(&o, &sockets) == MT_EINVAL);
    }
    meet(s);
}

static const char *needs_put(const struct mt_fabric_caps *caps)
{
    return (caps->rc_operations & MT_FABRIC_WRITE) != 0 ? "" : "WRITE";
}

static const char *needs_reads(const struct mt_fabric_caps *caps)
{
    return (caps->rc_operations & MT_FABRIC_READ) != 0 ? "" : "READ";
}

static const char *needs_rc(const struct mt_fabric_caps *caps)
{
    return (caps->transports & MT_FABRIC_RC) != 0 ? "" : "RC";
}

const struct test tests_paths[] = {
    {"puts with a notice", puts_all, needs_put},
    {"reads that wait for a token", reads_in_order, needs_reads},
    {"credits both ways", credits_both_ways, needs_rc},
    {"names of rails", names_of_rails, NULL},
    {"mesh refuses versions", mesh_refuses_versions, needs_rc},
    {"mesh of datagrams", mesh_of_datagrams, needs_rc},
    {"striped messages", striped, needs_put},
    {NULL, NULL, NULL},
};

const struct test tests_meeting[] = {
    {"wire-up by sockets", sockets, NULL},
    {NULL, NULL, NULL},
};
