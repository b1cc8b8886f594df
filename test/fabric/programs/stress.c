/* stress.c: many, full, and dead: an error with a name in time, no hang, and
 * nothing left behind. */
#define _GNU_SOURCE
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 1000 };

/* Fewer where everything is slow: under ThreadSanitizer, in an emulated guest. */
static int many_of(const struct side *s)
{
    return s->setting->queue_pairs < MANY ? (int)s->setting->queue_pairs : MANY;
}

/* What a process holds: descriptors, and mappings of memory files. */
struct holding {
    int fds, maps;
};

static struct holding holding(void)
{
    struct holding h = {0, 0};
    char line[512];
    DIR *dir = opendir("/proc/self/fd");
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(dir != NULL && maps != NULL);
    while (readdir(dir) != NULL) {
        h.fds++;
    }
    while (fgets(line, sizeof(line), maps) != NULL) {
        h.maps += strstr(line, "memfd:") != NULL;
    }
    closedir(dir);
    fclose(maps);
    return h;
}

static void same_holding(struct holding before)
{
    struct holding now = holding();
    EQ(now.fds, before.fds);
    EQ(now.maps, before.maps);
}

static const char *needs_many(const struct mt_fabric_caps *caps)
{
    return caps->max_qps >= MANY && (caps->transports & MT_FABRIC_RC) != 0
               ? ""
               : "1,000 queue pairs";
}

static struct mt_fabric_qp_options small_options(const struct side *s)
{
    struct mt_fabric_qp_options o = rc_options(s);
    o.send_depth = o.receive_depth = 4;
    o.pieces = 1;
    o.timeout_ms = 10000; /* a thousand handshakes take a while */
    return o;
}

static void many_connect(struct side *s, struct mt_fabric_qp **qps)
{
    static struct mt_fabric_address mine[MANY], theirs[MANY];
    struct mt_fabric_qp_options o = small_options(s);
    for (int i = 0; i < many_of(s); i++) {
        OK(mt_fabric_qp_create(s->pd, &o, &qps[i]));
        OK(mt_fabric_qp_address(qps[i], &mine[i]));
    }
    swap(s, mine, theirs, sizeof(mine));
    for (int i = 0; i < many_of(s); i++) {
        OK(mt_fabric_qp_connect(qps[i], &theirs[i]));
    }
    meet(s);
}

/* So many queue pairs, a message on each both ways; twice, so that what the first
 * round did not give back is missing in the second. */
static void many(struct side *s)
{
    static struct mt_fabric_qp *qps[MANY];
    struct holding before = holding();
    for (int round = 0; round < 2; round++) {
        side_open(s, false);
        struct mt_fabric_mr *in = registered(s, MANY * 64);
        struct mt_fabric_mr *out = registered(s, MANY * 64);
        many_connect(s, qps);
        for (int i = 0; i < many_of(s); i++) {
            post_receive(s, qps[i], (uint64_t)i, piece(in, (size_t)i * 64, 64));
            fill((char *)out->address + i * 64, 64,
                 (uint64_t)(2 * i + s->rank));
        }
        meet(s);
        for (int i = 0; i < many_of(s); i++) {
            struct mt_fabric_piece p = piece(out, (size_t)i * 64, 64);
            struct mt_fabric_send work = {.id = (uint64_t)i,
                                          .opcode = MT_FABRIC_SEND,
                                          .flags = MT_FABRIC_SIGNALED,
                                          .piece_count = 1,
                                          .pieces = &p};
            post(s, qps[i], &work);
            next_ok(s, s->send_cq);
        }
        for (int n = 0; n < many_of(s); n++) {
            struct mt_fabric_completion c = next_ok(s, s->receive_cq);
            CHECK(filled((char *)in->address + c.id * 64, 64,
                         2 * c.id + 1 - (uint64_t)s->rank));
        }
        meet(s);
        for (int i = 0; i < many_of(s); i++) {
            OK(mt_fabric_qp_destroy(qps[i]));
        }
        release(in);
        release(out);
        side_close(s);
    }
    same_holding(before);
}

/* The same, and the peer dies: each queue pair tells. */
static void many_killed(struct side *s)
{
    static struct mt_fabric_qp *qps[MANY];
    struct holding before = holding();
    side_open(s, false);
    struct mt_fabric_mr *mr = registered(s, 64);
    many_connect(s, qps);
    if (s->rank == 1) {
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < many_of(s); i++) {
        post_receive(s, qps[i], (uint64_t)i, piece(mr, 0, 64));
        /* on a real device only a send finds out */
        struct mt_fabric_piece p = piece(mr, 0, 64);
        struct mt_fabric_send work = {.id = MANY + (uint64_t)i,
                                      .opcode = MT_FABRIC_SEND,
                                      .flags = MT_FABRIC_SIGNALED,
                                      .piece_count = 1,
                                      .pieces = &p};
        struct mt_fabric_completion c;
        enum mt_status status;
        while ((status = mt_fabric_post_send(qps[i], &work)) == MT_EAGAIN) {
            waiting(s);
        }
        CHECK(status == MT_OK || status == MT_ESTATE);
        while (took(s->send_cq, &c)) {
            CHECK(c.status == MT_OK || c.status == MT_EPEER ||
                  c.status == MT_EFLUSHED);
        }
    }
    for (int n = 0; n < many_of(s); n++) {
        struct mt_fabric_completion c = next(s, s->receive_cq);
        CHECK(c.status == MT_EPEER || c.status == MT_EFLUSHED);
    }
    for (int i = 0; i < many_of(s); i++) {
        EQ(mt_fabric_qp_state(qps[i]), MT_FABRIC_QP_ERROR);
        OK(mt_fabric_qp_destroy(qps[i]));
    }
    waiting(s);
    release(mr);
    side_close_alone(s);
    same_holding(before);
}

/* Rank 1 looks at nothing while rank 0 posts until its queue is full; then it
 * takes all of it (kind 0), or dies (kind 1): every send comes back. */
static void fill_up(struct side *s, bool dies)
{
    enum { BYTES = 4000 };
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, BYTES);
    uint64_t posted = 0, done = 0;
    if (s->rank == 0) {
        struct mt_fabric_piece p = piece(mr, 0, BYTES);
        struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                      .flags = MT_FABRIC_SIGNALED,
                                      .piece_count = 1,
                                      .pieces = &p};
        /* until nothing moves any more; time alone passes without us too */
        uint64_t quiet_since = now_ms(), turns = 0;
        while (now_ms() - quiet_since < 100 || turns++ < 100) {
            struct mt_fabric_completion c;
            waiting(s);
            enum mt_status status = mt_fabric_post_send(s->qp, &work);
            CHECK(status == MT_OK || status == MT_EAGAIN);
            if (status == MT_OK) {
                posted++;
                quiet_since = now_ms();
                turns = 0;
            }
            if (took(s->send_cq, &c)) {
                EQ(c.status, MT_OK);
                done++;
                quiet_since = now_ms();
                turns = 0;
            }
        }
        CHECK(posted > done); /* it was full */
    }
    char byte = 1;
    uint64_t total = posted, theirs = 0;
    if (s->rank == 0) { /* the harness polls while it waits: a raw write */
        CHECK(write(s->wire, &total, sizeof(total)) == sizeof(total));
    } else {
        CHECK(read(s->wire, &theirs, sizeof(theirs)) == sizeof(theirs));
        if (dies) {
            kill(getpid(), SIGKILL);
        }
        for (uint64_t i = 0; i < theirs; i++) {
            post_receive(s, s->qp, i, piece(mr, 0, BYTES));
            EQ(next_ok(s, s->receive_cq).bytes, BYTES);
        }
    }
    while (s->rank == 0 && done < posted) {
        struct mt_fabric_completion c = next(s, s->send_cq);
        CHECK(dies ? c.status == MT_OK || c.status == MT_EPEER ||
                         c.status == MT_EFLUSHED
                   : c.status == MT_OK);
        byte = (char)c.status;
        done++;
    }
    if (dies) {
        CHECK(byte != MT_OK);
        release(mr);
        side_close_alone(s);
        return;
    }
    release(mr);
    side_close(s);
}

static void full(struct side *s)
{
    fill_up(s, false);
}

static void full_killed(struct side *s)
{
    fill_up(s, true);
}

static const char *needs_waiting_receives(const struct mt_fabric_caps *caps)
{
    return caps->waits_for_receive ? "" : "waiting for a receive";
}

/* Without the privilege to pin more than the limit. */
static void drop_privilege(void)
{
    struct rlimit limit = {64 << 10, 64 << 10};
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHECK(syscall(SYS_capget, &header, data) == 0);
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    CHECK(syscall(SYS_capset, &header, data) == 0);
}

/* RLIMIT_MEMLOCK of 64 KiB: what is too much is refused by name, again and
 * again, and what is little works. */
static void memlock(struct side *s)
{
    drop_privilege();
    struct holding before = holding();
    side_open(s, false);
    for (int i = 0; i < 200; i++) {
        struct mt_fabric_mr *mr;
        static char memory[1 << 20];
        enum mt_status status = mt_fabric_mr_register(
            s->pd, memory, sizeof(memory), MT_FABRIC_LOCAL_WRITE, &mr);
        CHECK(status == MT_OK || status == MT_ENOMEM || status == MT_EPERM);
        if (status == MT_OK) {
            OK(mt_fabric_mr_destroy(mr));
        }
    }
    struct mt_fabric_qp_options o = small_options(s);
    s->qp = connect_with(s, &o);
    struct mt_fabric_mr *mr = registered(s, 4096);
    post_receive(s, s->qp, 1, piece(mr, 0, 64));
    meet(s);
    struct mt_fabric_piece p = piece(mr, 2048, 64);
    struct mt_fabric_send work = {.id = 2,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p};
    post(s, s->qp, &work);
    next_ok(s, s->send_cq);
    next_ok(s, s->receive_cq);
    release(mr);
    side_close(s);
    s->qp = NULL;
    same_holding(before);
}

/* The system has no memory for a queue pair: it is not made, and leaves nothing
 * behind. */
static void no_room(struct side *s)
{
    struct holding before = holding();
    side_open(s, false);
    refuse_calls(SYS_fallocate, SYS_fallocate, ENOSPC);
    for (int i = 0; i < 100; i++) {
        struct mt_fabric_qp_options o = i % 2 == 0 ? rc_options(s)
                                                   : ud_options(s);
        struct mt_fabric_qp *qp;
        enum mt_status status = mt_fabric_qp_create(s->pd, &o, &qp);
        CHECK(status == MT_OK || status == MT_ENOMEM);
        if (status == MT_OK) { /* memory that fallocate has no part in */
            OK(mt_fabric_qp_destroy(qp));
        }
    }
    side_close(s);
    same_holding(before);
}

/* ---- no more file descriptors ---- */

enum { FEW = 32, SPARE = 20, SHORT_MS = 300 };

/* The process may open so many more; the limit is for their numbers, of which some
 * below those in use may be free. */
static struct rlimit limit_files(void)
{
    struct rlimit before, now;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    now = before;
    now.rlim_cur = 0;
    for (int spare = 0; spare < SPARE; now.rlim_cur++) {
        spare += fcntl((int)now.rlim_cur, F_GETFD) < 0;
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &now) == 0);
    return before;
}

/* Queue pairs of one transport, with a receive each; those that cannot be made or
 * connected are NULL or not connected. Returns how many are not. */
static int connect_few(struct side *s, struct mt_fabric_qp **qps,
                       const struct mt_fabric_qp_options *o, bool *connected,
                       struct mt_fabric_piece p)
{
    struct mt_fabric_address mine[FEW], theirs[FEW];
    bool stream = o->transport == MT_FABRIC_RC;
    int refused = 0;
    memset(mine, 0, sizeof(mine));
    for (int i = 0; i < FEW; i++) {
        enum mt_status status = mt_fabric_qp_create(s->pd, o, &qps[i]);
        CHECK(status == MT_OK || status == MT_ENOMEM);
        if (status != MT_OK) {
            qps[i] = NULL;
        } else {
            OK(mt_fabric_qp_address(qps[i], &mine[i]));
        }
    }
    swap(s, mine, theirs, sizeof(mine));
    for (int i = 0; i < FEW; i++) {
        connected[i] = false;
        if (qps[i] != NULL && theirs[i].bytes > 0) {
            enum mt_status status =
                mt_fabric_qp_connect(qps[i], stream ? &theirs[i] : NULL);
            CHECK(status == MT_OK || status == MT_ENOMEM ||
                  status == MT_EPEER);
            connected[i] = status == MT_OK;
        }
        if (connected[i]) {
            post_receive(s, qps[i], (uint64_t)i, p);
        }
        refused += !connected[i];
    }
    return refused;
}

/* A SEND over each, and every completion, good or bad; returns the bad ones. */
static int use_few(struct side *s, struct mt_fabric_qp **qps,
                   const bool *connected, struct mt_fabric_piece p)
{
    struct mt_fabric_completion c;
    int open = 0, bad = 0, sends = 0;
    for (int i = 0; i < FEW; i++) {
        struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                      .flags = MT_FABRIC_SIGNALED,
                                      .piece_count = 1,
                                      .pieces = &p};
        if (connected[i]) {
            enum mt_status status;
            while ((status = mt_fabric_post_send(qps[i], &work)) ==
                   MT_EAGAIN) {
                waiting(s);
                mt_fabric_poll(s->send_cq, &c, 0);
            }
            CHECK(status == MT_OK || status == MT_ESTATE);
            sends += status == MT_OK;
            open++;
        }
    }
    while (sends + open > 0) {
        if (took(s->send_cq, &c)) {
            sends--;
        } else if (took(s->receive_cq, &c)) {
            open--;
            bad += c.status != MT_OK;
        } else {
            waiting(s);
            continue;
        }
        CHECK(c.status == MT_OK || c.status == MT_EPEER ||
              c.status == MT_EFLUSHED);
    }
    return bad;
}

static void destroy_few(struct mt_fabric_qp **qps)
{
    for (int i = 0; i < FEW; i++) {
        if (qps[i] != NULL) {
            OK(mt_fabric_qp_destroy(qps[i]));
        }
    }
}

/* Who sleeps while connections wait that cannot be taken is not woken all the
 * time: in so long a few times, and not some 10,000 times. */
static void sleeps_well(struct side *s)
{
    uint64_t now = now_ms(), until = now + SHORT_MS;
    unsigned wakings = 0;
    OK(mt_fabric_cq_arm(s->receive_cq, false));
    for (; now < until; now = now_ms()) {
        struct pollfd fd = {.fd = mt_fabric_channel_fd(s->channel),
                            .events = POLLIN};
        struct mt_fabric_cq *cq;
        mt_fabric_channel_take(s->channel, &cq);
        wakings += poll(&fd, 1, (int)(until - now)) == 1;
    }
    if (wakings > 200) {
        FAIL("woken %u times in %d ms", wakings, SHORT_MS);
    }
}

/* Connections that the other side ended later are open a little longer: until no
 * more files are open than before. */
static void await_closed(struct side *s, int before)
{
    struct mt_fabric_completion none;
    while (holding().fds > before) {
        mt_fabric_poll(s->receive_cq, &none, 1);
        waiting(s);
    }
}

/* One of the two can open few files more: queue pairs that need one are refused
 * by name, or fail in time; when it can again, all works. */
static void short_of_files(struct side *s, int which,
                           const struct mt_fabric_mr *mr)
{
    struct mt_fabric_qp *streams[FEW], *sockets[FEW];
    bool connected[FEW];
    struct rlimit before = {0, 0};
    struct mt_fabric_piece in = piece(mr, 0, 2048), out = piece(mr, 2048, 64);
    struct mt_fabric_qp_options o = small_options(s), ud = ud_options(s);
    bool has_ud = (s->caps->transports & MT_FABRIC_UD) != 0;
    o.timeout_ms = SHORT_MS;
    if (s->rank == which) {
        before = limit_files();
    }
    int refused = connect_few(s, streams, &o, connected, in);
    meet(s);
    refused += use_few(s, streams, connected, out);
    if (has_ud) {
        refused += connect_few(s, sockets, &ud, connected, in);
    }
    sleeps_well(s);
    unsigned told = times_said("no file descriptors left");
    CHECK(told <= 1);
    if (s->rank == which && strncmp(s->setting->device, "iwarp:", 6) == 0) {
        CHECK(refused > 0);
        EQ(told, 1);
    }
    meet(s);
    CHECK(s->rank != which || setrlimit(RLIMIT_NOFILE, &before) == 0);
    destroy_few(streams);
    if (has_ud) {
        destroy_few(sockets);
    }
    struct mt_fabric_completion none;
    while (mt_fabric_poll(s->receive_cq, &none, 1) == 1) {
    }
    o.timeout_ms = 10000;
    meet(s);
    EQ(connect_few(s, streams, &o, connected, in), 0);
    meet(s);
    EQ(use_few(s, streams, connected, out), 0);
    destroy_few(streams);
}

static void no_files(struct side *s)
{
    struct holding before = holding();
    side_open(s, true);
    struct mt_fabric_mr *mr = registered(s, 4096);
    int open = holding().fds;
    /* one of them calls the other: both ways of being refused come */
    for (int which = 0; which < 2; which++) {
        short_of_files(s, which, mr);
        await_closed(s, open);
    }
    release(mr);
    side_close(s);
    same_holding(before);
}

/* Queue pairs whose address was given away, and that nobody ever reached: what
 * they took goes back with them. */
static void unreached(struct side *s)
{
    const int rounds = s->setting->operations < 1000 ? 300 : 20000;
    side_open(s, false);
    for (int i = 0; i < rounds; i++) {
        struct mt_fabric_qp_options o = small_options(s);
        struct mt_fabric_address address;
        struct mt_fabric_qp *qp;
        OK(mt_fabric_qp_create(s->pd, &o, &qp));
        OK(mt_fabric_qp_address(qp, &address));
        OK(mt_fabric_qp_destroy(qp));
        moved();
    }
    side_close(s);
}

/* A process that floods a queue pair with datagrams until it is killed; it tells
 * at begun when the first is under way. */
static void flood(const struct setting *setting,
                  const struct mt_fabric_address *to, int begun)
{
    struct setting own = *setting;
    struct side s = {.setting = &own};
    struct mt_fabric_ah *ah;
    own.options.engine = MT_FABRIC_ENGINE_INLINE;
    side_open(&s, false);
    struct mt_fabric_qp_options o = ud_options(&s);
    struct mt_fabric_mr *mr = registered(&s, s.caps->ud_payload);
    fill(mr->address, s.caps->ud_payload, 5);
    OK(mt_fabric_qp_create(s.pd, &o, &s.qp));
    OK(mt_fabric_qp_connect(s.qp, NULL));
    OK(mt_fabric_ah_create(s.pd, to, &ah));
    for (uint64_t n = 0;; n++) {
        struct mt_fabric_piece p = piece(mr, 0, s.caps->ud_payload);
        struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                      .flags = MT_FABRIC_SIGNALED,
                                      .piece_count = 1,
                                      .pieces = &p,
                                      .ah = ah};
        post(&s, s.qp, &work);
        next(&s, s.send_cq);
        CHECK(n != 0 || write(begun, "b", 1) == 1);
    }
}

/* Senders of datagrams are killed, many of them while they write one: those of
 * others still come, whole. */
static void senders_killed(struct side *s)
{
    enum { KILLS = 12, SLOTS = 32 };
    side_open(s, false);
    struct mt_fabric_qp_options o = ud_options(s);
    struct mt_fabric_address mine, theirs;
    size_t head = s->caps->ud_headroom, most = s->caps->ud_payload;
    struct mt_fabric_mr *mr = registered(s, SLOTS * (head + most));
    uint64_t state = s->setting->seed + 99;
    OK(mt_fabric_qp_create(s->pd, &o, &s->qp));
    OK(mt_fabric_qp_connect(s->qp, NULL));
    OK(mt_fabric_qp_address(s->qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    for (uint64_t i = 0; i < SLOTS && s->rank == 0; i++) {
        post_receive(s, s->qp, i, piece(mr, i * (head + most), head + most));
    }
    if (s->rank == 1) {
        for (int k = 0; k < KILLS; k++) {
            int begun[2];
            char byte;
            CHECK(pipe(begun) == 0);
            pid_t pid = fork();
            CHECK(pid >= 0);
            if (pid == 0) {
                flood(s->setting, &theirs, begun[1]);
            }
            close(begun[1]);
            CHECK(read(begun[0], &byte, 1) == 1);
            close(begun[0]);
            usleep((useconds_t)(5000 + random_next(&state) % 10000));
            kill(pid, SIGKILL);
            /* some stay zombies for a while */
            if (k % 2 == 0) {
                waitpid(pid, NULL, 0);
            }
        }
        meet(s);
        /* one of ours must come through, in the end */
        struct mt_fabric_ah *ah;
        OK(mt_fabric_ah_create(s->pd, &theirs, &ah));
        fill(mr->address, 64, 6);
        char done = 0;
        for (int tries = 0; !done; tries++) {
            CHECK(tries < 10000);
            struct mt_fabric_piece p = piece(mr, 0, 64);
            struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                          .flags = MT_FABRIC_SIGNALED,
                                          .piece_count = 1,
                                          .pieces = &p,
                                          .ah = ah};
            char none = 0;
            post(s, s->qp, &work);
            next_ok(s, s->send_cq);
            swap(s, &none, &done, 1);
        }
        OK(mt_fabric_ah_destroy(ah));
    } else {
        uint64_t came = 0;
        char met = 0, done = 0, out = 'm';
        CHECK(write(s->wire, &out, 1) == 1); /* our half of meet */
        while (!done || !met) {
            struct mt_fabric_completion c;
            char in;
            waiting(s);
            if (took(s->receive_cq, &c)) {
                char *at = (char *)mr->address + c.id * (head + most) + head;
                bool ours = c.bytes == head + 64;
                EQ(c.status, MT_OK);
                CHECK(filled(at, c.bytes - head, ours ? 6 : 5));
                CHECK(ours || c.bytes == head + most);
                came++;
                done = done || ours;
                post_receive(s, s->qp, c.id,
                             piece(mr, c.id * (head + most), head + most));
            } else if (recv(s->wire, &in, 1, MSG_DONTWAIT) == 1) {
                if (met) { /* it asks: not yet */
                    CHECK(write(s->wire, &done, 1) == 1);
                }
                met = 1;
            }
        }
        CHECK(came > 1);
        char theirs_done;
        swap(s, &done, &theirs_done, 1);
    }
    side_qp_destroy(s);
    release(mr);
    side_close(s);
}

const struct test tests_stress[] = {
    {"many queue pairs", many, needs_many},
    {"many queue pairs and the peer killed", many_killed, needs_many},
    {"full", full, needs_waiting_receives},
    {"full and the peer killed", full_killed, needs_waiting_receives},
    {"little memory to pin", memlock, NULL},
    {"queue pairs that nobody reached", unreached, needs_many},
    {"no room for a queue pair", no_room, NULL},
    {"no more file descriptors", no_files, needs_events},
    {"senders of datagrams killed", senders_killed, needs_ud},
    {NULL, NULL, NULL},
};
