/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* What a process does not do to another one that has the number of its peer, or the
 * program that its peer went on with, or to a queue pair that has the place of an
 * earlier one; that a peer which was left wakes nobody; and that a peer is not taken
 * for gone where descriptors are short. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../include/fabric.h"
#include "check.h"

enum { BYTES = 64 << 10, FOREVER_MS = 60000 };

/* The same in every program, and in no library's way. */
static char *const place = (char *)0x10000000;

struct end {
    struct mt_fabric_context *context;
    struct mt_fabric_pd *pd;
    struct mt_fabric_channel *channel;
    struct mt_fabric_cq *cq;
    struct mt_fabric_mr *mr;
    struct mt_fabric_qp *qp;
    uint32_t rkey; /* of the other side's memory */
};

struct told {
    struct mt_fabric_address address;
    uint32_t rkey;
};

static bool put(int wire, const void *what, size_t bytes)
{
    return write(wire, what, bytes) == (ssize_t)bytes;
}

static bool get(int wire, void *what, size_t bytes)
{
    struct pollfd fd = {.fd = wire, .events = POLLIN};
    return poll(&fd, 1, FOREVER_MS) == 1 &&
           read(wire, what, bytes) == (ssize_t)bytes;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static struct mt_fabric_qp *make_qp(const struct end *e,
                                    enum mt_fabric_transport transport)
{
    struct mt_fabric_qp *qp;
    const struct mt_fabric_qp_options o = {.transport = transport,
                                           .send_cq = e->cq,
                                           .receive_cq = e->cq,
                                           .send_depth = 8,
                                           .receive_depth = 8,
                                           .pieces = 1,
                                           .port = 1};
    CHECK_EQ(mt_fabric_qp_create(e->pd, &o, &qp), MT_OK);
    return qp;
}

/* All but the other side. */
static void open_qp(struct end *e)
{
    CHECK(mmap(place, BYTES, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == place);
    CHECK_EQ(mt_fabric_open("shm", NULL, &e->context), MT_OK);
    CHECK_EQ(mt_fabric_pd_create(e->context, &e->pd), MT_OK);
    CHECK_EQ(mt_fabric_channel_create(e->context, &e->channel), MT_OK);
    CHECK_EQ(mt_fabric_cq_create(e->context, 64, e->channel, &e->cq), MT_OK);
    CHECK_EQ(mt_fabric_mr_register(e->pd, place, BYTES,
                                   MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE,
                                   &e->mr),
             MT_OK);
    e->qp = make_qp(e, MT_FABRIC_RC);
}

static void open_end(struct end *e, int wire)
{
    struct told mine, other;
    open_qp(e);
    memset(&mine, 0, sizeof(mine));
    CHECK_EQ(mt_fabric_qp_address(e->qp, &mine.address), MT_OK);
    mine.rkey = e->mr->rkey;
    CHECK(put(wire, &mine, sizeof(mine)) && get(wire, &other, sizeof(other)));
    CHECK_EQ(mt_fabric_qp_connect(e->qp, &other.address), MT_OK);
    e->rkey = other.rkey;
}

/* How that ends; MT_EAGAIN: not within a minute. */
static enum mt_status write_there(struct end *e)
{
    struct mt_fabric_piece piece = {place, BYTES, e->mr->lkey};
    const struct mt_fabric_send work = {.opcode = MT_FABRIC_WRITE,
                                        .flags = MT_FABRIC_SIGNALED,
                                        .pieces = &piece,
                                        .piece_count = 1,
                                        .remote_address = (uintptr_t)place,
                                        .rkey = e->rkey};
    struct mt_fabric_completion c;
    CHECK_EQ(mt_fabric_post_send(e->qp, &work), MT_OK);
    for (int i = 0; i < FOREVER_MS; i++) {
        if (mt_fabric_poll(e->cq, &c, 1) == 1) {
            return c.status;
        }
        pause_ms(1);
    }
    return MT_EAGAIN;
}

static void close_end(struct end *e)
{
    CHECK(e->qp == NULL || mt_fabric_qp_destroy(e->qp) == MT_OK);
    CHECK_EQ(mt_fabric_mr_destroy(e->mr), MT_OK);
    CHECK_EQ(mt_fabric_cq_destroy(e->cq), MT_OK);
    CHECK_EQ(mt_fabric_channel_destroy(e->channel), MT_OK);
    CHECK_EQ(mt_fabric_pd_destroy(e->pd), MT_OK);
    CHECK_EQ(mt_fabric_close(e->context), MT_OK);
    CHECK(munmap(place, BYTES) == 0);
}

/* Often enough that peers are looked at. */
static void polls(struct end *e)
{
    struct mt_fabric_completion c;
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(mt_fabric_poll(e->cq, &c, 1), 0);
    }
}

/* The peer's next program, which has other things in the same place. */
static int stranger(int wire)
{
    char word;
    bool there = mmap(place, BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                      0) == place;
    bool told = put(wire, there ? "y" : "n", 1) && get(wire, &word, 1);
    for (int i = 0; there && i < BYTES; i++) {
        there = place[i] == 0;
    }
    return there && told ? 0 : 1;
}

static void peer(int wire)
{
    struct end e;
    char word, number[16];
    snprintf(number, sizeof(number), "%d", wire);
    open_end(&e, wire);
    struct pollfd fd = {.fd = wire, .events = POLLIN};
    for (int i = 0; i < FOREVER_MS && poll(&fd, 1, 1) == 0; i++) {
        polls(&e); /* a queue pair that was left is buried */
    }
    if (check_failures == 0 && get(wire, &word, 1) && word == 'x') {
        execl("/proc/self/exe", "stranger", number, (char *)NULL);
    }
    _exit(check_failures != 0);
}

static pid_t begin(struct end *e, int *wire_p)
{
    int wires[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, wires) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(wires[0]);
        peer(wires[1]);
    }
    close(wires[1]);
    *wire_p = wires[0];
    open_end(e, wires[0]);
    return pid;
}

static void another_program(void)
{
    struct end e;
    int wire, status = -1;
    char word = 0;
    pid_t pid = begin(&e, &wire);
    memset(place, 7, BYTES);
    CHECK_EQ(write_there(&e), MT_OK);
    CHECK(put(wire, "x", 1) && get(wire, &word, 1));
    CHECK_EQ(word, 'y');
    pause_ms(30); /* without a poll, which would find out */
    CHECK_EQ(write_there(&e), MT_EPEER);
    CHECK(put(wire, "d", 1));
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    close(wire);
    close_end(&e);
}

/* A child of this process holds what its channel sleeps on. */
static void left_peer(void)
{
    struct end e;
    int wire, status;
    pid_t pid = begin(&e, &wire);
    CHECK_EQ(write_there(&e), MT_OK);
    pid_t child = fork();
    if (child == 0) {
        pause_ms(FOREVER_MS);
        _exit(0);
    }
    CHECK_EQ(mt_fabric_qp_destroy(e.qp), MT_OK);
    e.qp = NULL;
    for (int i = 0; i < 50; i++) { /* it is buried in a poll */
        polls(&e);
        pause_ms(1);
    }
    CHECK_EQ(mt_fabric_cq_arm(e.cq, false), MT_OK);
    CHECK(put(wire, "e", 1) && waitpid(pid, &status, 0) == pid);
    close(wire);
    int wakes = 0;
    for (int i = 0; i < 100; i++) {
        struct pollfd fd = {.fd = mt_fabric_channel_fd(e.channel), .events = POLLIN};
        struct mt_fabric_cq *cq;
        wakes += poll(&fd, 1, 5) == 1;
        mt_fabric_channel_take(e.channel, &cq);
    }
    CHECK(wakes < 50); /* a few are those of the timer */
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    close_end(&e);
}

static struct mt_fabric_qp *open_datagrams(const struct end *e)
{
    struct mt_fabric_qp *qp = make_qp(e, MT_FABRIC_UD);
    struct mt_fabric_piece piece = {place, BYTES, e->mr->lkey};
    const struct mt_fabric_receive work = {.pieces = &piece, .piece_count = 1};
    CHECK_EQ(mt_fabric_qp_connect(qp, NULL), MT_OK);
    CHECK_EQ(mt_fabric_post_receive(qp, &work), MT_OK);
    return qp;
}

/* How many come to a queue pair of this process. */
static uint32_t datagrams(const struct end *e, struct mt_fabric_qp *from,
                          struct mt_fabric_ah *to)
{
    struct mt_fabric_piece piece = {place, 8, e->mr->lkey};
    const struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                        .pieces = &piece,
                                        .piece_count = 1,
                                        .ah = to};
    struct mt_fabric_completion c;
    uint32_t n = 0;
    CHECK_EQ(mt_fabric_post_send(from, &work), MT_OK);
    for (int i = 0; i < 1000; i++) {
        n += mt_fabric_poll(e->cq, &c, 1);
    }
    return n;
}

/* The next queue pair has the memory of the one before, and its number. */
static void earlier_queue_pair(void)
{
    struct end e;
    struct mt_fabric_address address;
    struct mt_fabric_ah *before, *now;
    int wire, status;
    pid_t pid = begin(&e, &wire);
    struct mt_fabric_qp *from = open_datagrams(&e), *to = open_datagrams(&e);
    CHECK_EQ(mt_fabric_qp_address(to, &address), MT_OK);
    CHECK_EQ(mt_fabric_ah_create(e.pd, &address, &before), MT_OK);
    CHECK_EQ(datagrams(&e, from, before), 1);
    uint32_t number = mt_fabric_qp_number(to);
    CHECK_EQ(mt_fabric_qp_destroy(to), MT_OK);
    for (int i = 0; i < 50; i++) { /* it is buried in a poll */
        polls(&e);
        pause_ms(1);
    }
    to = open_datagrams(&e);
    CHECK_EQ(mt_fabric_qp_number(to), number);
    CHECK_EQ(mt_fabric_qp_address(to, &address), MT_OK);
    CHECK_EQ(mt_fabric_ah_create(e.pd, &address, &now), MT_OK);
    CHECK_EQ(datagrams(&e, from, before), 0);
    CHECK_EQ(datagrams(&e, from, now), 1);
    CHECK_EQ(mt_fabric_ah_destroy(before), MT_OK);
    CHECK_EQ(mt_fabric_ah_destroy(now), MT_OK);
    CHECK_EQ(mt_fabric_qp_destroy(to), MT_OK);
    CHECK_EQ(mt_fabric_qp_destroy(from), MT_OK);
    CHECK(put(wire, "e", 1) && waitpid(pid, &status, 0) == pid);
    close(wire);
    close_end(&e);
}

/* The child, to begin with: a process that nobody has met yet. */
static void met_later(int wire)
{
    struct end e;
    char word;
    open_end(&e, wire);
    _exit(get(wire, &word, 1) && check_failures == 0 ? 0 : 1);
}

/* Connecting with that many descriptors left, of four that it takes at most. */
static void few_descriptors(void)
{
    enum { MOST = 4, LIMIT = 256 };
    struct end e = {0};
    int wires[2], status = -1, taken[LIMIT], count = 0;
    struct rlimit before, least;
    struct told mine = {0}, other;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, wires) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(wires[0]);
        met_later(wires[1]);
    }
    close(wires[1]);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    least = (struct rlimit){.rlim_cur = LIMIT, .rlim_max = before.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &least) == 0);
    open_qp(&e);
    CHECK_EQ(mt_fabric_qp_address(e.qp, &mine.address), MT_OK);
    CHECK(get(wires[0], &other, sizeof(other)));
    while (count < LIMIT && (taken[count] = open("/dev/null", O_RDONLY)) >= 0) {
        count++;
    }
    CHECK(errno == EMFILE && count > MOST);
    enum mt_status connected = MT_ENOMEM;
    for (int left = 0; left <= MOST && connected != MT_OK; left++) {
        connected = mt_fabric_qp_connect(e.qp, &other.address);
        CHECK_EQ(connected, left == 0 || connected == MT_ENOMEM ? MT_ENOMEM
                                                                : MT_OK);
        close(taken[--count]);
    }
    CHECK_EQ(connected, MT_OK);
    while (count > 0) {
        close(taken[--count]);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(put(wires[0], &mine, sizeof(mine)) && put(wires[0], "e", 1));
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    close(wires[0]);
    close_end(&e);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return stranger(atoi(argv[1]));
    }
    signal(SIGPIPE, SIG_IGN); /* of the other side that failed */
    another_program();
    left_peer();
    earlier_queue_pair();
    few_descriptors();
    return check_failures != 0;
}
