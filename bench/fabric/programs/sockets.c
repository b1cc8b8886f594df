/* sockets.c DEVICE RANK OWN_IP OTHER_IP TURNS: half a round trip of small
 * messages between two hosts, the fabric beside a bare socket that does the
 * same work: polled, one system call to send, one to receive. DEVICE is the
 * interface
 * ("iwarp:eth0"). The four ways (UDP, TCP, UD, RC) take turns in
 * one run, so that the machine's other load meets all of them; rank 0
 * prints medians, quartiles and ratios.
 *
 * Measures nothing else; its figures are those of one run on one machine. */
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../../c/include/fabric.h"

enum {
    BYTES = 24,
    SENT = 1024, /* where in the region what is sent lies, behind what comes */
    TURNS = 1001,
    ROUNDS = 400,
    WIRE_PORT = 7711,
    UDP_PORT = 7712
};

enum way { UDP, TCP, UD, RC, WAYS };

static const char *const names[WAYS] = {"bare UDP", "bare TCP", "iwarp UD",
                                        "iwarp RC"};

static int rank;
static struct in_addr own, other;
static int wire, udp, tcp;

static struct mt_fabric_context *context;
static struct mt_fabric_pd *pd;
static struct mt_fabric_cq *send_cq, *receive_cq;
static struct mt_fabric_qp *ud, *rc;
static struct mt_fabric_ah *ah;
static struct mt_fabric_mr *mr;
static uint32_t headroom;

static void die(const char *what)
{
    fprintf(stderr, "pingpong: rank %d: %s (%s)\n", rank, what,
            strerror(errno));
    exit(1);
}

static void need(enum mt_status status, const char *what)
{
    if (status != MT_OK) {
        fprintf(stderr, "pingpong: rank %d: %s: %s\n", rank, what,
                mt_status_text(status));
        exit(1);
    }
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- bare sockets ---- */

static struct sockaddr_in name_of(struct in_addr ip, int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = ip};
}

/* A TCP connection: rank 0 listens. */
static int joined(int port)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = name_of(rank == 0 ? own : other, port);
    if (rank == 0) {
        int listener = fd;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, (struct sockaddr *)&name, sizeof(name)) != 0 ||
            listen(fd, 1) != 0) {
            die("listen");
        }
        fd = accept(listener, NULL, NULL);
        close(listener);
    } else {
        for (int i = 0; connect(fd, (struct sockaddr *)&name, sizeof(name));
             i++) {
            if (i > 500) {
                die("connect");
            }
            close(fd);
            usleep(20000);
            fd = socket(AF_INET, SOCK_STREAM, 0);
        }
    }
    if (fd < 0) {
        die("connection");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void exchange(const void *mine, void *theirs, size_t bytes)
{
    if (write(wire, mine, bytes) != (ssize_t)bytes ||
        recv(wire, theirs, bytes, MSG_WAITALL) != (ssize_t)bytes) {
        die("wire");
    }
}

static void bare_open(void)
{
    struct sockaddr_in mine = name_of(own, UDP_PORT);
    wire = joined(WIRE_PORT);
    tcp = joined(WIRE_PORT + 10);
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(udp, (struct sockaddr *)&mine, sizeof(mine)) != 0) {
        die("bind");
    }
}

static void bare_send(enum way way)
{
    static const char message[BYTES] = "24 bytes of nothing";
    static struct sockaddr_in to;
    to = name_of(other, UDP_PORT);
    ssize_t n = way == TCP ? send(tcp, message, BYTES, MSG_DONTWAIT)
                           : sendto(udp, message, BYTES, MSG_DONTWAIT,
                                    (struct sockaddr *)&to, sizeof(to));
    if (n != BYTES) {
        die("send");
    }
}

static void bare_receive(enum way way)
{
    char message[BYTES];
    struct sockaddr_in from;
    socklen_t bytes = sizeof(from);
    uint64_t until = now_ns() + 10000000000u;
    ssize_t n;
    do {
        n = way == TCP ? recv(tcp, message, BYTES, MSG_DONTWAIT)
                       : recvfrom(udp, message, BYTES, MSG_DONTWAIT,
                                  (struct sockaddr *)&from, &bytes);
    } while (n < 0 && errno == EAGAIN && now_ns() < until);
    if (n != BYTES) {
        die("receive");
    }
}

/* ---- the fabric ---- */

/* Of datagrams the payload stands behind the headroom. */
static void post_receive(struct mt_fabric_qp *qp)
{
    struct mt_fabric_piece piece = {mr->address, headroom + BYTES, mr->lkey};
    struct mt_fabric_receive work = {.piece_count = 1, .pieces = &piece};
    need(mt_fabric_post_receive(qp, &work), "post_receive");
}

static struct mt_fabric_qp *qp_open(enum mt_fabric_transport transport)
{
    struct mt_fabric_qp *qp;
    struct mt_fabric_address mine, theirs;
    struct mt_fabric_qp_options options = {.transport = transport,
                                           .send_cq = send_cq,
                                           .receive_cq = receive_cq,
                                           .send_depth = 16,
                                           .receive_depth = 16,
                                           .pieces = 1,
                                           .inline_bytes = BYTES,
                                           .port = 1};
    need(mt_fabric_qp_create(pd, &options, &qp), "qp_create");
    for (int i = 0; i < 4; i++) {
        post_receive(qp);
    }
    need(mt_fabric_qp_address(qp, &mine), "qp_address");
    exchange(&mine, &theirs, sizeof(mine));
    if (transport == MT_FABRIC_UD) {
        need(mt_fabric_qp_connect(qp, NULL), "qp_connect");
        need(mt_fabric_ah_create(pd, &theirs, &ah), "ah_create");
    } else {
        need(mt_fabric_qp_connect(qp, &theirs), "qp_connect");
    }
    return qp;
}

static void fabric_open(const char *device)
{
    need(mt_fabric_open(device, NULL, &context), device);
    headroom = mt_fabric_query(context)->caps.ud_headroom;
    need(mt_fabric_pd_create(context, &pd), "pd_create");
    need(mt_fabric_cq_create(context, 64, NULL, &send_cq), "cq_create");
    need(mt_fabric_cq_create(context, 64, NULL, &receive_cq), "cq_create");
    need(mt_fabric_mr_allocate(pd, 4096, MT_FABRIC_LOCAL_WRITE, &mr),
         "mr_allocate");
}

static void fabric_send(struct mt_fabric_qp *qp)
{
    struct mt_fabric_piece piece = {(char *)mr->address + SENT, BYTES, mr->lkey};
    struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                  .piece_count = 1,
                                  .pieces = &piece,
                                  .ah = qp == ud ? ah : NULL};
    enum mt_status status;
    while ((status = mt_fabric_post_send(qp, &work)) == MT_EAGAIN) {
        mt_fabric_poll(send_cq, NULL, 0);
    }
    need(status, "post_send");
}

static void fabric_receive(struct mt_fabric_qp *qp)
{
    struct mt_fabric_completion completion;
    uint64_t until = now_ns() + 10000000000u;
    uint32_t n;
    do {
        n = mt_fabric_poll(receive_cq, &completion, 1);
    } while (n == 0 && now_ns() < until);
    need(n == 1 ? completion.status : MT_ETIMEOUT, "receive");
    post_receive(qp);
}

/* ---- measuring ---- */

static void one(enum way way, bool sends)
{
    struct mt_fabric_qp *qp = way == UD ? ud : rc;
    if (way == UDP || way == TCP) {
        sends ? bare_send(way) : bare_receive(way);
    } else {
        sends ? fabric_send(qp) : fabric_receive(qp);
    }
}

/* Nanoseconds of half a round trip, the mean of a turn. */
static double turn(enum way way, int rounds)
{
    char mine = 0, theirs;
    exchange(&mine, &theirs, 1);
    uint64_t began = now_ns();
    for (int i = 0; i < rounds; i++) {
        one(way, rank == 0);
        one(way, rank != 0);
    }
    return (double)(now_ns() - began) / rounds / 2;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double times[WAYS][TURNS], ratios[2][TURNS];
    int turns = argc == 6 ? atoi(argv[5]) : 0;
    if (turns < 1 || turns > TURNS) {
        fprintf(stderr, "usage: pingpong DEVICE RANK OWN_IP OTHER_IP TURNS\n"
                        "TURNS: 1 to 1001");
        return 2;
    }
    rank = atoi(argv[2]);
    if (inet_pton(AF_INET, argv[3], &own) != 1 ||
        inet_pton(AF_INET, argv[4], &other) != 1) {
        die("address");
    }
    bare_open();
    fabric_open(argv[1]);
    ud = qp_open(MT_FABRIC_UD);
    for (int i = 0; i < turns + 1; i++) {
        /* a device with nothing but what is measured, as the bare sockets are
         */
        for (int way = 0; way < WAYS; way++) {
            if (way == RC) {
                need(mt_fabric_ah_destroy(ah), "ah_destroy");
                need(mt_fabric_qp_destroy(ud), "qp_destroy");
                ud = NULL;
                rc = qp_open(MT_FABRIC_RC);
                turn(RC, 100);
            }
            double t = turn((enum way)way, ROUNDS);
            if (i > 0) {
                times[way][i - 1] = t;
            }
            if (way == RC) {
                need(mt_fabric_qp_destroy(rc), "qp_destroy");
                ud = qp_open(MT_FABRIC_UD);
            }
        }
    }
    for (int i = 0; i < turns; i++) {
        ratios[0][i] = times[UD][i] / times[UDP][i];
        ratios[1][i] = times[RC][i] / times[TCP][i];
    }
    for (int way = 0; way < WAYS && rank == 0; way++) {
        qsort(times[way], (size_t)turns, sizeof(double), by_size);
        printf("%s: median %.0f ns, lower quartile %.0f, least %.0f\n",
               names[way], times[way][turns / 2], times[way][turns / 4],
               times[way][0]);
    }
    for (int k = 0; k < 2 && rank == 0; k++) {
        enum way way = k == 0 ? UD : RC, bare = k == 0 ? UDP : TCP;
        qsort(ratios[k], (size_t)turns, sizeof(double), by_size);
        printf("%s / %s: %.3f of the lower quartiles, %.3f of the least, "
               "%.3f median of the turns\n",
               names[way], names[bare],
               times[way][turns / 4] / times[bare][turns / 4],
               times[way][0] / times[bare][0], ratios[k][turns / 2]);
    }
    return 0;
}
