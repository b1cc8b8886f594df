/* messages.c: what a message costs that needs its buffer registered, between two
 * processes over a device of the fabric: registered for each message, or taken
 * from the registration cache (c/regservice) with all, half or none of the
 * buffers used before. A buffer that the cache does not have is copied into one
 * that is registered. A message is a WRITE and its completion; the last of a
 * round is followed by a READ, so that all have arrived.
 *
 *     messages DEVICE REPETITIONS PROCESSOR PROCESSOR
 *
 * prints "BYTES, VARIANT: nanoseconds a message", a figure a repetition, and for
 * each variant of the cache its hits. The variants take turns. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../c/fabric/paths/mesh.h"
#include "../../../c/fabric/paths/socket.h"
#include "../../../c/regservice/service.h"

struct mt_memhook mt_memhook;

enum {
    MESSAGES = 64, /* of a round */
    LEAST = 8 << 10,
    MOST = 1 << 20,
    LIMIT_MS = 30000,
};

enum variant { OFF, REUSE_100, REUSE_50, REUSE_0, VARIANTS };
static const char *const names[] = {"off", "100", "50", "0"};

static struct {
    uint32_t rank;
    struct mt_socket socket;
    struct mt_rails rails;
    struct mt_mesh mesh;
    struct mt_fabric_mr *own; /* rank 0: copied into; rank 1: written to */
    uint64_t remote_address;
    uint32_t remote_rkey;
} end;

/* Memory is lost where this program says so. */
static uint64_t generations[MT_MEMHOOK_BUCKETS];
static struct mt_regcache *table;
static char *warm, *fresh; /* buffers used before, and not */

static void check(enum mt_status status, const char *what)
{
    if (status != MT_OK) {
        fprintf(stderr, "messages: %s: %s\n", what, mt_status_text(status));
        exit(1);
    }
}

static void say(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "messages: %s\n", text);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    check(p == MAP_FAILED ? MT_ENOMEM : MT_OK, "mmap");
    memset(p, 1, bytes);
    return p;
}

static void connect_both(const char *device, int fd)
{
    struct mt_socket_options sockets = {.rank = end.rank,
                                        .size = 2,
                                        .timeout_ms = LIMIT_MS,
                                        .say = say};
    struct mt_rails_options rails = {
        .patterns = device,
        .cq_depth = 64,
        .fabric = {.engine_cpu = -1, .threads = true, .say = say}};
    struct mt_fabric_wireup wireup = {.rank = end.rank,
                                      .size = 2,
                                      .exchange = mt_socket_exchange,
                                      .user = &end.socket};
    struct mt_mesh_options mesh = {
        .rc = {.send_depth = 8, .receive_depth = 1, .pieces = 1, .reads = 1},
        .say = say};
    uint64_t mine[2], all[2][2];
    check(mt_socket_pair(&sockets, fd, &end.socket), "socket");
    check(mt_rails_open(&rails, &end.rails), "rails");
    check(mt_mesh_create(&end.rails, &wireup, &mesh, &end.mesh), "mesh");
    check(mt_fabric_mr_allocate(end.rails.rails[0].pd, MOST,
                                MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE |
                                    MT_FABRIC_REMOTE_READ,
                                &end.own),
          "memory");
    struct mt_fabric_piece p = {end.own->address, 1, end.own->lkey};
    struct mt_fabric_receive last = {.piece_count = 1, .pieces = &p};
    check(mt_fabric_post_receive(mt_mesh_qp(&end.mesh, 1 - end.rank, 0), &last),
          "post_receive");
    mine[0] = (uintptr_t)end.own->address;
    mine[1] = end.own->rkey;
    check(mt_socket_exchange(&end.socket, mine, sizeof(mine), all), "exchange");
    end.remote_address = all[1 - end.rank][0];
    end.remote_rkey = (uint32_t)all[1 - end.rank][1];
}

static void disconnect(void)
{
    char mine = 0, all[2];
    check(mt_socket_exchange(&end.socket, &mine, 1, all), "exchange");
    mt_mesh_destroy(&end.mesh);
    check(mt_fabric_mr_destroy(end.own), "memory");
    check(mt_rails_close(&end.rails), "rails");
    mt_socket_close(&end.socket);
}

static void transfer(enum mt_fabric_opcode opcode, void *local, uint32_t lkey,
                     size_t bytes)
{
    struct mt_fabric_piece p = {local, (uint32_t)bytes, lkey};
    struct mt_fabric_send work = {.opcode = opcode,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = end.remote_address,
                                  .rkey = end.remote_rkey};
    struct mt_fabric_completion c;
    double until = 0;
    check(mt_fabric_post_send(mt_mesh_qp(&end.mesh, 1, 0), &work), "post_send");
    for (uint64_t n = 1;
         mt_fabric_poll(end.rails.rails[0].send_cq, &c, 1) == 0; n++) {
        if (n % 65536 == 0) {
            until = until == 0 ? now_ns() + LIMIT_MS * 1e6 : until;
            check(now_ns() > until ? MT_ETIMEOUT : MT_OK, "completion");
        }
    }
    check(c.status, "completion");
}

static void message_registered(char *from, size_t bytes)
{
    struct mt_fabric_mr *mr;
    check(mt_fabric_mr_register(end.rails.rails[0].pd, from, bytes,
                                MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE |
                                    MT_FABRIC_REMOTE_READ,
                                &mr),
          "register");
    transfer(MT_FABRIC_WRITE, from, mr->lkey, bytes);
    check(mt_fabric_mr_destroy(mr), "deregister");
}

/* True: the cache had it. */
static bool message_cached(char *from, size_t bytes)
{
    const struct mt_regcache_region *r =
        mt_regcache_region_get(table, from, bytes);
    if (r == NULL) {
        memcpy(end.own->address, from, bytes);
        transfer(MT_FABRIC_WRITE, end.own->address, end.own->lkey, bytes);
        return false;
    }
    transfer(MT_FABRIC_WRITE, from, r->lkey, bytes);
    mt_regcache_region_put(r);
    return true;
}

static void warm_up(size_t bytes)
{
    double until = now_ns() + LIMIT_MS * 1e6;
    for (int i = 0; i < MESSAGES;) {
        char *at = warm + (size_t)i * MOST;
        const struct mt_regcache_region *r =
            mt_regcache_region_get(table, at, bytes);
        if (r != NULL) {
            mt_regcache_region_put(r);
            i++;
        } else {
            check(now_ns() > until ? MT_ETIMEOUT : MT_OK, "warming up");
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
    }
}

/* What was used is new again, and its registrations are worth nothing. */
static void renew(void)
{
    const size_t bytes = (size_t)MESSAGES * MOST;
    for (uintptr_t at = (uintptr_t)fresh; at < (uintptr_t)fresh + bytes + MOST;
         at += (uintptr_t)1 << MT_MEMHOOK_SHIFT) {
        __atomic_fetch_add(&generations[mt_memhook_bucket(at)], 1,
                           __ATOMIC_RELEASE);
    }
}

static void measure(enum variant v, size_t bytes)
{
    int hits = 0;
    renew();
    warm_up(bytes);
    double begin = now_ns();
    for (int i = 0; i < MESSAGES; i++) {
        bool used = v == REUSE_100 || (v == REUSE_50 && i % 2 == 0);
        char *at = (used || v == OFF ? warm : fresh) + (size_t)i * MOST;
        if (v == OFF) {
            message_registered(at, bytes);
        } else {
            hits += message_cached(at, bytes);
        }
    }
    transfer(MT_FABRIC_READ, end.own->address, end.own->lkey, 1);
    printf("%zu, %s: %.1f\n", bytes, names[v], (now_ns() - begin) / MESSAGES);
    if (v != OFF) {
        printf("%zu, hits %s: %d\n", bytes, names[v], hits);
    }
}

static void measure_all(int repetitions)
{
    const size_t bytes = (size_t)MESSAGES * MOST;
    const size_t bucket = (size_t)1 << MT_MEMHOOK_SHIFT;
    struct mt_regservice *service;
    struct mt_regservice_options options = {.pd = end.rails.rails[0].pd,
                                            .max_bytes = 4 * bytes,
                                            .say = say};
    mt_memhook = (struct mt_memhook){generations, MT_MEMHOOK_EBPF};
    check(mt_regservice_open(&options, &service), "cache");
    table = mt_regservice_table(service);
    /* no bucket of generations with both */
    char *both = map(2 * bytes + 4 * bucket);
    warm = (char *)(((uintptr_t)both / bucket + 1) * bucket);
    fresh = warm + bytes + bucket;
    for (int r = 0; r < repetitions; r++) {
        for (size_t size = LEAST; size <= MOST; size *= 2) {
            for (int v = 0; v < VARIANTS; v++) {
                measure((enum variant)((v + r) % VARIANTS), size);
            }
        }
    }
    check(mt_regservice_close(service), "cache");
}

/* Rank 1 moves data, where its device wants that, until a message comes. */
static void take_part(void)
{
    struct mt_fabric_completion c;
    while (mt_fabric_poll(end.rails.rails[0].receive_cq, &c, 1) == 0) {
    }
    check(c.status, "the end"); /* also when rank 0 is gone */
}

static void bind_to(const char *processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(processor), &set);
    check(sched_setaffinity(0, sizeof(set), &set) == 0 ? MT_OK : MT_EINVAL,
          "processor");
}

int main(int argc, char **argv)
{
    const char *fd = getenv("END");
    int pair[2], status, repetitions = argc == 5 ? atoi(argv[2]) : 0;
    if (repetitions < 1) {
        fprintf(stderr,
                "usage: messages DEVICE REPETITIONS PROCESSOR PROCESSOR\n");
        return 2;
    }
    if (fd != NULL) {
        end.rank = 1;
        bind_to(argv[4]);
        connect_both(argv[1], atoi(fd));
        take_part();
        disconnect();
        return 0;
    }
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 ? MT_OK : MT_EIO,
          "socketpair");
    pid_t other = fork(); /* and a program of its own, for Go has begun */
    if (other == 0) {
        char text[16];
        close(pair[0]);
        snprintf(text, sizeof(text), "%d", pair[1]);
        setenv("END", text, 1);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(pair[1]);
    bind_to(argv[3]);
    connect_both(argv[1], pair[0]);
    measure_all(repetitions);
    transfer(MT_FABRIC_SEND, end.own->address, end.own->lkey, 1);
    disconnect();
    return waitpid(other, &status, 0) == other && status == 0 ? 0 : 1;
}
