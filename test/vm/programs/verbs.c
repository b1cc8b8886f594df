/* verbs.c NAME: what only the verbs provider has, on Soft-RoCE: how devices are
 * listed, what is said where a right or a limit is missing, events of ports, two
 * rails at once, a peer with a smaller MTU, a link that goes down under traffic and
 * several threads of one context. Root, in a guest with rxe0 and rxe1. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../../c/include/fabric.h"

enum { NOBODY = 65534, MANY = 16 };

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "line %d: %s (said: %s)\n", __LINE__, #condition,  \
                    said);                                                     \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static char said[1024];
static int sayings;

static void say(void *user, const char *text)
{
    (void)user;
    snprintf(said, sizeof(said), "%s", text);
    sayings++;
}

static struct mt_fabric_options options = {.engine_cpu = -1, .say = say};

static struct mt_fabric_device device(const char *name)
{
    static struct mt_fabric_device all[MANY];
    uint32_t count = 0;
    CHECK(mt_fabric_devices(all, MANY, &count) == MT_OK);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return all[i];
        }
    }
    fprintf(stderr, "no device %s among %u\n", name, count);
    exit(1);
}

static void devices(void)
{
    struct mt_fabric_device d = device("rxe1");
    const struct mt_fabric_caps *caps = &d.caps;
    CHECK(strcmp(d.provider, "verbs") == 0);
    CHECK(d.port_count == 1);
    CHECK(strcmp(d.ports[0].name, "rxe1:1") == 0);
    CHECK(d.ports[0].up && d.ports[0].mtu == 4096);
    CHECK(d.ports[0].bits_per_second > 0);
    printf("inline %u, pieces %u, reads %u, depth %u, qps %u, message %llu\n",
           caps->max_inline, caps->max_pieces, caps->max_reads, caps->max_depth,
           caps->max_qps, (unsigned long long)caps->max_message);
    CHECK(caps->max_inline >= 256 && caps->max_pieces >= 16);
    CHECK(caps->max_reads >= 16 && caps->max_depth >= 4096);
    CHECK(caps->ud_payload == 4096 && caps->ud_headroom == 40);
    CHECK(caps->srq && caps->events && caps->waits_for_receive);
    struct mt_fabric_context *context;
    CHECK(mt_fabric_open("mlx5_0", &options, &context) == MT_ENODEVICE);
    CHECK(strstr(said, "rxe0, rxe1") != NULL);
}

/* The device is listed, and opening it tells which file to open up. */
static void permission(void)
{
    struct mt_fabric_context *context;
    CHECK(chmod("/dev/infiniband/uverbs0", 0600) == 0);
    CHECK(seteuid(NOBODY) == 0);
    CHECK(device("rxe0").caps.transports == 0);
    CHECK(mt_fabric_open("rxe0", &options, &context) == MT_EPERM);
    CHECK(strstr(said, "/dev/infiniband/uverbs0") != NULL);
    CHECK(seteuid(0) == 0);
    CHECK(chmod("/dev/infiniband/uverbs0", 0666) == 0);
    CHECK(seteuid(NOBODY) == 0);
    CHECK(mt_fabric_open("rxe0", &options, &context) == MT_OK);
    CHECK(mt_fabric_close(context) == MT_OK);
}

/* Beyond RLIMIT_MEMLOCK: an error with a name, and what to raise, once. */
static void limit(void)
{
    struct mt_fabric_context *context;
    struct mt_fabric_pd *pd;
    struct mt_fabric_mr *mr;
    struct rlimit few = {1 << 20, 1 << 20};
    CHECK(chmod("/dev/infiniband/uverbs0", 0666) == 0);
    CHECK(setrlimit(RLIMIT_MEMLOCK, &few) == 0);
    CHECK(setuid(NOBODY) == 0);
    CHECK(mt_fabric_open("rxe0", &options, &context) == MT_OK);
    CHECK(mt_fabric_pd_create(context, &pd) == MT_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(mt_fabric_mr_allocate(pd, 2 << 20, MT_FABRIC_LOCAL_WRITE, &mr) ==
              MT_ENOMEM);
    }
    CHECK(sayings == 1);
    CHECK(strstr(said, "RLIMIT_MEMLOCK is 1048576 bytes") != NULL);
    /* what failed is not counted */
    CHECK(mt_fabric_mr_allocate(pd, 64 << 10, MT_FABRIC_LOCAL_WRITE, &mr) ==
          MT_OK);
    CHECK(mt_fabric_mr_destroy(mr) == MT_OK);
    /* memory that is not there is a mistake, and no matter of limits */
    CHECK(mt_fabric_mr_register(pd, (void *)4096, 4096, MT_FABRIC_LOCAL_WRITE,
                                &mr) == MT_EINVAL);
    CHECK(mt_fabric_pd_destroy(pd) == MT_OK);
    CHECK(mt_fabric_close(context) == MT_OK);
}

static struct mt_fabric_event event_of(struct mt_fabric_context *context)
{
    struct mt_fabric_event event;
    for (int i = 0; i < 120000; i++) {
        if (mt_fabric_event_take(context, &event) == MT_OK) {
            return event;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fprintf(stderr, "no event within 2 minutes\n");
    exit(1);
}

static void port(void)
{
    struct mt_fabric_context *context;
    struct mt_fabric_event event;
    CHECK(mt_fabric_open("rxe1", &options, &context) == MT_OK);
    CHECK(mt_fabric_event_take(context, &event) == MT_EAGAIN);
    CHECK(system("ip link set rail1 down") == 0);
    event = event_of(context);
    CHECK(event.kind == MT_FABRIC_EVENT_PORT_DOWN && event.port == 1);
    CHECK(!mt_fabric_query(context)->ports[0].up);
    CHECK(!device("rxe1").ports[0].up);
    CHECK(system("ip link set rail1 up") == 0);
    event = event_of(context);
    CHECK(event.kind == MT_FABRIC_EVENT_PORT_UP && event.port == 1);
    CHECK(mt_fabric_query(context)->ports[0].up);
    CHECK(mt_fabric_close(context) == MT_OK);
}

/* ---- both rails, one process ---- */

struct end {
    struct mt_fabric_context *context;
    struct mt_fabric_pd *pd;
    struct mt_fabric_cq *cq;
    struct mt_fabric_qp *qp;
};

static struct end end_opened(const char *name)
{
    struct end e = {0};
    CHECK(mt_fabric_open(name, &options, &e.context) == MT_OK);
    CHECK(mt_fabric_pd_create(e.context, &e.pd) == MT_OK);
    CHECK(mt_fabric_cq_create(e.context, 64, NULL, &e.cq) == MT_OK);
    return e;
}

static struct end end_of(const char *name)
{
    struct end e = end_opened(name);
    struct mt_fabric_qp_options o = {.transport = MT_FABRIC_UD,
                                     .send_cq = e.cq,
                                     .receive_cq = e.cq,
                                     .send_depth = 8,
                                     .receive_depth = 8,
                                     .pieces = 1,
                                     .inline_bytes = 64,
                                     .port = 1};
    CHECK(mt_fabric_qp_create(e.pd, &o, &e.qp) == MT_OK);
    CHECK(mt_fabric_qp_connect(e.qp, NULL) == MT_OK);
    return e;
}

static void end_close(struct end *e)
{
    CHECK(mt_fabric_qp_destroy(e->qp) == MT_OK);
    CHECK(mt_fabric_cq_destroy(e->cq) == MT_OK);
    CHECK(mt_fabric_pd_destroy(e->pd) == MT_OK);
    CHECK(mt_fabric_close(e->context) == MT_OK);
}

static struct mt_fabric_completion completion_of(struct mt_fabric_cq *cq)
{
    struct mt_fabric_completion c;
    time_t until = time(NULL) + 120;
    while (mt_fabric_poll(cq, &c, 1) == 0) {
        CHECK(time(NULL) < until);
    }
    CHECK(c.status == MT_OK);
    return c;
}

/* A datagram of each rail to itself; their sources differ, and lead back. */
static void rails(void)
{
    struct end ends[2] = {end_of("rxe0"), end_of("rxe1")};
    struct mt_fabric_source sources[2];
    for (int i = 0; i < 2; i++) {
        struct end *e = &ends[i];
        struct mt_fabric_address address;
        struct mt_fabric_mr *mr;
        struct mt_fabric_ah *ah;
        uint64_t word = 40 + (uint64_t)i;
        CHECK(mt_fabric_mr_allocate(e->pd, 4096, MT_FABRIC_LOCAL_WRITE, &mr) ==
              MT_OK);
        struct mt_fabric_piece in = {mr->address, 48, mr->lkey}, out = {&word, 8, 0};
        struct mt_fabric_receive receive = {.id = 1, .piece_count = 1, .pieces = &in};
        in.bytes = 39; /* no place for the route header */
        CHECK(mt_fabric_post_receive(e->qp, &receive) == MT_EINVAL);
        in.bytes = 48;
        CHECK(mt_fabric_qp_address(e->qp, &address) == MT_OK);
        CHECK(mt_fabric_ah_create(e->pd, &address, &ah) == MT_OK);
        for (int turn = 0; turn < 2; turn++) {
            struct mt_fabric_send send = {.id = 2,
                                          .opcode = MT_FABRIC_SEND,
                                          .flags = MT_FABRIC_INLINE,
                                          .piece_count = 1,
                                          .pieces = &out,
                                          .ah = ah};
            CHECK(mt_fabric_post_receive(e->qp, &receive) == MT_OK);
            CHECK(mt_fabric_post_send(e->qp, &send) == MT_OK);
            struct mt_fabric_completion c = completion_of(e->cq);
            CHECK(c.id == 1 && c.bytes == 48);
            CHECK(memcmp((char *)mr->address + 40, &word, 8) == 0);
            /* the second goes where the first came from */
            CHECK(turn == 0 ||
                  memcmp(&sources[i], &c.source, sizeof(c.source)) == 0);
            sources[i] = c.source;
            CHECK(mt_fabric_ah_destroy(ah) == MT_OK);
            CHECK(mt_fabric_ah_create_source(e->pd, &c.source, &ah) == MT_OK);
        }
        CHECK(mt_fabric_ah_destroy(ah) == MT_OK);
        CHECK(mt_fabric_mr_destroy(mr) == MT_OK);
    }
    CHECK(memcmp(&sources[0], &sources[1], sizeof(sources[0])) != 0);
    end_close(&ends[0]);
    end_close(&ends[1]);
}

/* ---- a peer with a smaller MTU ---- */

static void mtu(void)
{
    enum { LEAST = 1024 };
    CHECK(system("ip link set rail0 mtu 1500") == 0);
    struct end there = end_of("rxe0");
    CHECK(device("rxe0").caps.ud_payload == LEAST);
    CHECK(system("ip link set rail0 mtu 4200") == 0);
    struct end here = end_of("rxe0");
    CHECK(device("rxe0").caps.ud_payload == 4096);
    struct mt_fabric_address address;
    struct mt_fabric_mr *mr;
    struct mt_fabric_ah *ah;
    CHECK(mt_fabric_mr_allocate(here.pd, 4096, 0, &mr) == MT_OK);
    CHECK(mt_fabric_qp_address(there.qp, &address) == MT_OK);
    CHECK(mt_fabric_ah_create(here.pd, &address, &ah) == MT_OK);
    struct mt_fabric_piece p = {mr->address, LEAST + 1, mr->lkey};
    struct mt_fabric_send send = {.id = 3,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .ah = ah};
    sayings = 0;
    CHECK(mt_fabric_post_send(here.qp, &send) == MT_EINVAL);
    CHECK(mt_fabric_post_send(here.qp, &send) == MT_EINVAL);
    CHECK(sayings == 1 && strstr(said, "1024 bytes") != NULL);
    p.bytes = LEAST;
    CHECK(mt_fabric_post_send(here.qp, &send) == MT_OK);
    CHECK(completion_of(here.cq).id == 3);
    CHECK(mt_fabric_ah_destroy(ah) == MT_OK);
    /* where there is no such limit all of it goes */
    CHECK(mt_fabric_qp_address(here.qp, &address) == MT_OK);
    CHECK(mt_fabric_ah_create(here.pd, &address, &send.ah) == MT_OK);
    p.bytes = 4096;
    CHECK(mt_fabric_post_send(here.qp, &send) == MT_OK);
    CHECK(completion_of(here.cq).id == 3);
    CHECK(mt_fabric_ah_destroy(send.ah) == MT_OK);
    CHECK(mt_fabric_mr_destroy(mr) == MT_OK);
    end_close(&here);
    end_close(&there);
}

/* ---- a link that goes down under traffic ---- */

/* Joins two queue pairs of one port. */
static void join(struct end *e, struct mt_fabric_qp *qps[2])
{
    struct mt_fabric_address addresses[2];
    const struct mt_fabric_qp_options o = {.transport = MT_FABRIC_RC,
                                           .send_cq = e->cq,
                                           .receive_cq = e->cq,
                                           .send_depth = 8,
                                           .receive_depth = 8,
                                           .pieces = 1,
                                           .port = 1,
                                           .timeout_ms = 500};
    for (int i = 0; i < 2; i++) {
        if (qps[i] == NULL) {
            CHECK(mt_fabric_qp_create(e->pd, &o, &qps[i]) == MT_OK);
        } else {
            CHECK(mt_fabric_qp_reset(qps[i]) == MT_OK);
        }
        CHECK(mt_fabric_qp_address(qps[i], &addresses[i]) == MT_OK);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(mt_fabric_qp_connect(qps[i], &addresses[1 - i]) == MT_OK);
    }
}

/* WRITEs one behind the other: so many that succeed, or until one fails. */
static enum mt_status traffic(struct end *e, struct mt_fabric_qp *qp,
                              const struct mt_fabric_mr *mr, unsigned count)
{
    struct mt_fabric_piece p = {mr->address, 4096, mr->lkey};
    struct mt_fabric_send write = {.opcode = MT_FABRIC_WRITE,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = &p,
                                   .remote_address =
                                       (uintptr_t)mr->address + 4096,
                                   .rkey = mr->rkey};
    time_t until = time(NULL) + 600;
    for (unsigned done = 0; done < count;) {
        struct mt_fabric_completion c;
        CHECK(time(NULL) < until);
        enum mt_status status = mt_fabric_post_send(qp, &write);
        CHECK(status == MT_OK || status == MT_EAGAIN);
        if (mt_fabric_poll(e->cq, &c, 1) == 1) {
            if (c.status != MT_OK) {
                return c.status;
            }
            done++;
        }
    }
    return MT_OK;
}

static void cut(void)
{
    struct end e = end_opened("rxe0");
    struct mt_fabric_qp *qps[2] = {NULL, NULL};
    struct mt_fabric_mr *mr;
    CHECK(mt_fabric_mr_allocate(e.pd, 8192,
                                MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE,
                                &mr) == MT_OK);
    for (int turn = 0; turn < 2; turn++) {
        join(&e, qps);
        CHECK(traffic(&e, qps[0], mr, 50) == MT_OK);
        CHECK(system("ip link set rail0 down") == 0);
        enum mt_status status = traffic(&e, qps[0], mr, UINT32_MAX);
        printf("the first that failed: %s\n", mt_status_text(status));
        CHECK(status == MT_EPEER);
        CHECK(mt_fabric_qp_state(qps[0]) == MT_FABRIC_QP_ERROR);
        CHECK(system("ip link set rail0 up") == 0);
    }
    join(&e, qps); /* and all is well again */
    CHECK(traffic(&e, qps[1], mr, 50) == MT_OK);
    CHECK(mt_fabric_qp_destroy(qps[0]) == MT_OK);
    e.qp = qps[1];
    CHECK(mt_fabric_mr_destroy(mr) == MT_OK);
    end_close(&e);
}

/* ---- threads ---- */

enum { THREADS = 3, EACH = 300 };

static struct end shared;
static struct mt_fabric_qp *shared_qps[2];
static struct mt_fabric_mr *shared_mr;
static unsigned completed;

/* A WRITE over the queue pair of all; false: its queue is full. */
static bool write_word(void)
{
    struct mt_fabric_piece p = {shared_mr->address, 8, shared_mr->lkey};
    const struct mt_fabric_send write = {
        .opcode = MT_FABRIC_WRITE,
        .flags = MT_FABRIC_SIGNALED,
        .piece_count = 1,
        .pieces = &p,
        .remote_address = (uintptr_t)shared_mr->address + 8,
        .rkey = shared_mr->rkey};
    enum mt_status status = mt_fabric_post_send(shared_qps[0], &write);
    CHECK(status == MT_OK || status == MT_EAGAIN);
    return status == MT_OK;
}

static void take_all(void)
{
    struct mt_fabric_completion c[4];
    uint32_t n = mt_fabric_poll(shared.cq, c, 4);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(c[i].status == MT_OK);
    }
    __atomic_add_fetch(&completed, n, __ATOMIC_RELAXED);
}

/* Posts and polls what all threads do, beside memory and queue pairs of its own. */
static void *post_all(void *nothing)
{
    for (unsigned done = 0; done < EACH;) {
        if (!write_word()) {
            take_all();
            sched_yield();
            continue;
        }
        if (++done % 50 == 0) {
            struct end own = shared;
            struct mt_fabric_qp *qps[2] = {NULL, NULL};
            struct mt_fabric_mr *mr;
            CHECK(mt_fabric_mr_allocate(own.pd, 4096, 0, &mr) == MT_OK);
            join(&own, qps);
            CHECK(mt_fabric_qp_destroy(qps[0]) == MT_OK);
            CHECK(mt_fabric_qp_destroy(qps[1]) == MT_OK);
            CHECK(mt_fabric_mr_destroy(mr) == MT_OK);
        }
    }
    return nothing;
}

static void threads(void)
{
    pthread_t posters[THREADS];
    time_t until = time(NULL) + 300;
    options.threads = true;
    shared = end_opened("rxe0");
    join(&shared, shared_qps);
    CHECK(mt_fabric_mr_allocate(shared.pd, 4096,
                                MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE,
                                &shared_mr) == MT_OK);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&posters[i], NULL, post_all, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(posters[i], NULL) == 0);
    }
    while (completed < THREADS * EACH) {
        take_all();
        CHECK(time(NULL) < until);
    }
    CHECK(completed == THREADS * EACH);
    CHECK(mt_fabric_mr_destroy(shared_mr) == MT_OK);
    CHECK(mt_fabric_qp_destroy(shared_qps[1]) == MT_OK);
    shared.qp = shared_qps[0];
    end_close(&shared);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"devices", devices}, {"permission", permission},
                 {"limit", limit},     {"port", port},
                 {"rails", rails},     {"mtu", mtu},
                 {"cut", cut},         {"threads", threads}};
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (argc == 2 && strcmp(argv[1], tests[i].name) == 0) {
            tests[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: verbs devices|permission|limit|port|rails|mtu|cut|"
                    "threads\n");
    return 2;
}
