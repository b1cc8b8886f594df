/* memory.c: memory for each added peer, RC against UD, as the kernel counts
 * it (Rashti 2010, 6.4 and 6.6.2 counted pages of the job in /proc).
 *
 * Rank 1 stands for n peers: with RC it has n queue pairs, and rank 0 as many;
 * with UD it has n, and rank 0 has one with n addresses. Each peer exchanges a
 * message with rank 0, so that everything that is made at first use is there.
 * Counted at rank 0: private pages, files in memory and memory of an RDMA device
 * that this process has mapped, and what its sockets hold once nothing is on its
 * way. */
#include "tool.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 1024, MESSAGE = 64 };

struct usage {
    double private_kib, shared_kib, sockets_kib;
};

/* The numbers behind a key, of all lines together. */
static double number_after(const char *path, const char *key)
{
    char line[256];
    double value = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *at = strstr(line, key);
        value += at != NULL ? strtod(at + strlen(key), NULL) : 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

/* Queues that a verbs device shares with this process, in KiB: mapped memory of
 * the kernel, which counts nowhere else. */
static double mapped_of_devices(void)
{
    char line[512];
    double kib = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        unsigned long from, to;
        if (strstr(line, "/dev/infiniband/") != NULL &&
            sscanf(line, "%lx-%lx", &from, &to) == 2) {
            kib += (double)(to - from) / 1024;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

/* What the descriptors of this process hold, in bytes: blocks of files in memory,
 * and data in sockets, as the kernel charges them for it. Pages that a socket
 * keeps for data to come (SK_MEMINFO_FWD_ALLOC) come and go, and are left out. */
struct held {
    double files, sockets;
};

static struct held held_now(void)
{
    struct held held = {0, 0};
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char target[64] = "";
        struct stat info;
        uint32_t of[SK_MEMINFO_VARS];
        socklen_t length = sizeof(of);
        int fd = atoi(entry->d_name);
        ssize_t n =
            readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        if (n > 0 && strncmp(target, "/memfd:", 7) == 0 &&
            fstat(fd, &info) == 0) {
            held.files += 512 * (double)info.st_blocks;
        } else if (n > 0 && strncmp(target, "socket:", 7) == 0 &&
                   getsockopt(fd, SOL_SOCKET, SO_MEMINFO, of, &length) == 0) {
            held.sockets += (double)of[SK_MEMINFO_RMEM_ALLOC] +
                            of[SK_MEMINFO_WMEM_QUEUED] +
                            of[SK_MEMINFO_OPTMEM] + of[SK_MEMINFO_BACKLOG];
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return held;
}

/* The least that was held within a tenth of a second: by then what is on its way
 * has arrived, and is acknowledged (Linux delays that by 40 ms). */
static struct held held_at_rest(void)
{
    struct held least = held_now();
    for (int i = 0; i < 10 && least.sockets > 0; i++) {
        usleep(10000);
        struct held held = held_now();
        least = held.sockets < least.sockets ? held : least;
    }
    return least;
}

static struct usage usage_now(void)
{
    struct usage u;
    struct held held = held_at_rest();
    malloc_trim(0);
    /* each mapping is looked at: the sum in status is some hundred KiB behind */
    u.private_kib = number_after("/proc/self/smaps_rollup", "Anonymous:") +
                    number_after("/proc/self/status", "VmPTE:");
    u.shared_kib = held.files / 1024 + mapped_of_devices();
    u.sockets_kib = held.sockets / 1024;
    return u;
}

/* Everybody talks with rank 0 once, over RC. */
static void talk_rc(struct tool *t, const struct mt_rail *rail,
                    struct mt_fabric_qp **qps, uint32_t from, uint32_t to,
                    const struct tool_memory *m)
{
    struct mt_fabric_piece in = {m->at + MESSAGE, MESSAGE, m->mr->lkey};
    struct mt_fabric_piece out = {m->at, MESSAGE, m->mr->lkey};
    for (uint32_t i = from; i < to; i++) {
        struct mt_fabric_receive r = {.id = i, .piece_count = 1, .pieces = &in};
        tool_check(mt_fabric_post_receive(qps[i], &r), "posting a receive");
    }
    tool_meet(t);
    for (uint32_t i = from; i < to; i++) {
        struct mt_fabric_send w = {.id = i,
                                   .opcode = MT_FABRIC_SEND,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = &out};
        tool_fill(m->at, MESSAGE, i);
        tool_check(mt_fabric_post_send(qps[i], &w), "sending");
        tool_next(t, rail->send_cq, "a SEND to complete");
        struct mt_fabric_completion c =
            tool_next(t, rail->receive_cq, "a message");
        tool_verify(m->at + MESSAGE, MESSAGE, c.id, "a message");
        tool_meet(t);
    }
}

/* Whether this is a datagram of an earlier peer, which was sent twice. */
static bool came_before(const char *at, uint32_t from, uint32_t to)
{
    char earlier[MESSAGE];
    bool equal = false;
    for (uint32_t i = from; i < to && !equal; i++) {
        tool_fill(earlier, MESSAGE, i);
        equal = memcmp(earlier, at, MESSAGE) == 0;
    }
    return equal;
}

/* The same over UD: rank 0 has one queue pair, the other one for each peer. A
 * datagram may get lost: it is sent again. */
static void talk_ud(struct tool *t, const struct mt_rail *rail,
                    struct mt_fabric_qp **qps, struct mt_fabric_ah **ahs,
                    uint32_t from, uint32_t to, const struct tool_memory *m)
{
    uint32_t headroom = rail->caps->ud_headroom;
    struct mt_fabric_piece in = {m->at + MESSAGE, headroom + MESSAGE,
                                 m->mr->lkey};
    struct mt_fabric_piece out = {m->at, MESSAGE, m->mr->lkey};
    for (uint32_t i = from; i < to; i++) {
        struct mt_fabric_qp *qp = qps[t->rank == 0 ? 0 : i];
        struct mt_fabric_receive r = {.id = i, .piece_count = 1, .pieces = &in};
        struct mt_fabric_send w = {.id = i,
                                   .opcode = MT_FABRIC_SEND,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = &out,
                                   .ah = ahs[i]};
        struct mt_fabric_completion c;
        struct tool_wait wait = {0};
        tool_check(mt_fabric_post_receive(qp, &r), "posting a receive");
        tool_meet(t); /* both can receive */
        tool_fill(m->at, MESSAGE, i);
        tool_check(mt_fabric_post_send(qp, &w), "sending");
        tool_next(t, rail->send_cq, "a datagram to leave");
        for (bool here = false; !here;) {
            if (tool_poll(rail->receive_cq, &c, 1) == 1) {
                here = !came_before(m->at + MESSAGE + headroom, from, i);
                if (!here) {
                    tool_check(mt_fabric_post_receive(qp, &r),
                               "posting a receive");
                }
                continue;
            }
            tool_wait(t, &wait, "a datagram");
            if (wait.turns % 1000000 == 0) {
                tool_check(mt_fabric_post_send(qp, &w), "sending again");
                tool_next(t, rail->send_cq, "a datagram to leave");
            }
        }
        tool_verify(m->at + MESSAGE + headroom, MESSAGE, i, "a datagram");
        tool_meet(t);
    }
}

static void measure_rc(struct tool *t, uint32_t from, uint32_t to,
                       struct mt_fabric_qp **qps, const struct tool_memory *m)
{
    const struct mt_rail *rail = &t->rails.rails[0];
    struct mt_fabric_qp_options q = tool_rc_options(rail, 16);
    tool_connect(t, rail, &q, to - from, qps + from);
    talk_rc(t, rail, qps, from, to, m);
}

static void measure_ud(struct tool *t, uint32_t from, uint32_t to,
                       struct mt_fabric_qp **qps, struct mt_fabric_ah **ahs,
                       const struct tool_memory *m)
{
    const struct mt_rail *rail = &t->rails.rails[0];
    struct mt_fabric_qp_options q = tool_rc_options(rail, 16);
    struct mt_fabric_address *mine = calloc(MOST, sizeof(*mine));
    struct mt_fabric_address *theirs = calloc(MOST, sizeof(*theirs));
    q.transport = MT_FABRIC_UD;
    if (mine == NULL || theirs == NULL) {
        tool_fail("out of memory");
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t own = t->rank == 0 ? 0 : i;
        if (qps[own] == NULL) {
            tool_check(mt_fabric_qp_create(rail->pd, &q, &qps[own]),
                       "making a queue pair");
            tool_check(mt_fabric_qp_connect(qps[own], NULL), "starting it");
        }
        tool_check(mt_fabric_qp_address(qps[own], &mine[i]), "its address");
    }
    tool_swap(t, mine, theirs, MOST * sizeof(*mine));
    for (uint32_t i = from; i < to; i++) {
        tool_check(mt_fabric_ah_create(rail->pd, &theirs[i], &ahs[i]),
                   "an address");
    }
    free(mine);
    free(theirs);
    talk_ud(t, rail, qps, ahs, from, to, m);
}

void tool_memory(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"transport", "transport", -1},
        {"peers", "peers", 0},
        {"private_kib", "private KiB", 1},
        {"shared_kib", "shared KiB", 1},
        {"sockets_kib", "sockets KiB", 1},
        {"kib_per_added_peer", "KiB/added peer", 3},
        {NULL, NULL, 0}};
    static struct mt_fabric_qp *qps[2][MOST];
    static struct mt_fabric_ah *ahs[MOST];
    const struct mt_rail *rail = &t->rails.rails[0];
    struct tool_memory m;
    double each[2] = {0, 0};
    uint32_t most = t->config.connections < MOST ? t->config.connections : MOST;
    tool_table_begin(t, columns);
    tool_memory_open(t, rail, 4096, &m);
    for (int ud = 0; ud < 2; ud++) {
        struct usage before = usage_now(), half = before, full = before;
        uint32_t at = 0;
        if (ud != 0 && (rail->caps->transports & MT_FABRIC_UD) == 0) {
            break;
        }
        /* half of the peers are there before the added ones are counted */
        for (int step = 1; step <= 2; step++) {
            uint32_t to = most / 2 * (uint32_t)step;
            if (ud != 0) {
                measure_ud(t, at, to, qps[1], ahs, &m);
            } else {
                measure_rc(t, at, to, qps[0], &m);
            }
            at = to;
            half = full;
            full = usage_now();
        }
        double added = full.private_kib + full.shared_kib + full.sockets_kib -
                       half.private_kib - half.shared_kib - half.sockets_kib;
        each[ud] = added / (most / 2);
        const struct tool_cell cells[] = {
            {ud != 0 ? "UD" : "RC", 0},
            {NULL, at},
            {NULL, full.private_kib - before.private_kib},
            {NULL, full.shared_kib - before.shared_kib},
            {NULL, full.sockets_kib - before.sockets_kib},
            {NULL, each[ud]}};
        tool_row(t, cells);
    }
    tool_meet(t);
    for (uint32_t i = 0; i < MOST; i++) {
        if (ahs[i] != NULL) {
            tool_check(mt_fabric_ah_destroy(ahs[i]), "ending");
        }
        for (int ud = 0; ud < 2; ud++) {
            if (qps[ud][i] != NULL) {
                tool_check(mt_fabric_qp_destroy(qps[ud][i]), "ending");
            }
        }
    }
    tool_memory_close(&m);
    tool_table_end(t);
    if (t->rank == 0 && !t->o.json && each[0] > 0) {
        printf("UD takes %.3f of RC for each added peer\n",
               each[1] / each[0]);
    }
}
