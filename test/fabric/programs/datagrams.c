/* datagrams.c: UD queue pairs. A datagram may be lost; none is changed, cut or
 * credited to another. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

static void send_to(struct side *s, struct mt_fabric_ah *ah, uint64_t id,
                    struct mt_fabric_piece p)
{
    struct mt_fabric_send work = {.id = id,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .ah = ah};
    post(s, s->qp, &work);
    struct mt_fabric_completion c = next_ok(s, s->send_cq);
    EQ(c.id, id);
}

/* Every size, answered to where it came from. */
static void echo(struct side *s)
{
    side_open(s, false);
    struct mt_fabric_ah *ah = ud_connect(s, &s->qp);
    size_t head = s->caps->ud_headroom, most = s->caps->ud_payload;
    struct mt_fabric_mr *in = registered(s, head + most);
    struct mt_fabric_mr *out = registered(s, most);
    size_t sizes[] = {0, 1, 8, 100, 1000, most};
    struct mt_fabric_source first = {{0}};
    for (size_t i = 0; i < 6; i++) {
        size_t n = sizes[i];
        post_receive(s, s->qp, i, piece(in, 0, head + most));
        meet(s);
        if (s->rank == 0) {
            fill(out->address, n, i);
            send_to(s, ah, i, piece(out, 0, n));
        }
        struct mt_fabric_completion c = next_ok(s, s->receive_cq);
        EQ(c.id, i);
        EQ(c.bytes, head + n);
        CHECK(filled((char *)in->address + head, n, i));
        CHECK(i == 0 || memcmp(&first, &c.source, sizeof(first)) == 0);
        first = c.source;
        if (s->rank == 1) {
            struct mt_fabric_ah *back;
            OK(mt_fabric_ah_create_source(s->pd, &c.source, &back));
            memcpy(out->address, (char *)in->address + head, n);
            send_to(s, back, i, piece(out, 0, n));
            OK(mt_fabric_ah_destroy(back));
        }
        meet(s);
    }
    OK(mt_fabric_ah_destroy(ah));
    release(in);
    release(out);
    side_close(s);
}

/* A sender under a limit for files of its own, which shares less memory for it, is
 * answered by who knows it from its datagrams alone. */
static void answer(struct side *s)
{
    enum { N = 20, BYTES = 8, LIMIT = 64 << 20 };
    if (s->rank == 1) {
        struct rlimit limit = {LIMIT, LIMIT};
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    side_open(s, false);
    struct mt_fabric_qp_options options = ud_options(s);
    struct mt_fabric_address mine = {0}, theirs;
    struct mt_fabric_ah *ah;
    OK(mt_fabric_qp_create(s->pd, &options, &s->qp));
    OK(mt_fabric_qp_connect(s->qp, NULL));
    OK(mt_fabric_qp_address(s->qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    size_t room = s->caps->ud_headroom + BYTES;
    struct mt_fabric_mr *in = registered(s, N * room);
    struct mt_fabric_mr *out = registered(s, BYTES);
    for (uint64_t i = 0; i < N; i++) {
        post_receive(s, s->qp, i, piece(in, i * room, room));
    }
    meet(s);
    if (s->rank == 1) {
        OK(mt_fabric_ah_create(s->pd, &theirs, &ah));
    } else {
        struct mt_fabric_completion c = next_ok(s, s->receive_cq);
        OK(mt_fabric_ah_create_source(s->pd, &c.source, &ah));
    }
    for (uint64_t i = 0; i < N; i++) { /* some may be lost */
        send_to(s, ah, i, piece(out, 0, BYTES));
    }
    if (s->rank == 1) {
        next_ok(s, s->receive_cq);
    }
    meet(s);
    OK(mt_fabric_ah_destroy(ah));
    side_qp_destroy(s);
    release(in);
    release(out);
    side_close(s);
}

/* Beyond the limit nothing is sent; without a handle neither. */
static void refused(struct side *s)
{
    side_open(s, false);
    struct mt_fabric_ah *ah = ud_connect(s, &s->qp);
    struct mt_fabric_mr *mr = registered(s, s->caps->ud_payload + 1);
    struct mt_fabric_piece p = piece(mr, 0, s->caps->ud_payload + 1);
    struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .ah = ah};
    EQ(mt_fabric_post_send(s->qp, &work), MT_EINVAL);
    p.bytes = 8;
    work.ah = NULL;
    EQ(mt_fabric_post_send(s->qp, &work), MT_EINVAL);
    work.ah = ah;
    if ((s->caps->ud_operations & MT_FABRIC_WRITE) == 0) {
        work.opcode = MT_FABRIC_WRITE;
        EQ(mt_fabric_post_send(s->qp, &work), MT_ENOTSUP);
    }
    meet(s);
    OK(mt_fabric_ah_destroy(ah));
    release(mr);
    side_close(s);
}

/* Sends it again where it does not complete: a queue pair of Soft-RoCE may stop in a
 * flood, until something is posted behind (docs/design/0008-verbs.md). */
static void send_reminding(struct side *s, struct mt_fabric_ah *ah, uint64_t id,
                           struct mt_fabric_piece p)
{
    struct mt_fabric_send work = {.id = id,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .ah = ah};
    unsigned posted = 1, done = 0;
    uint64_t until = now_ms() + 1000;
    post(s, s->qp, &work);
    while (done < posted) {
        struct mt_fabric_completion c;
        if (took(s->send_cq, &c)) {
            EQ(c.status, MT_OK);
            EQ(c.id, id);
            done++;
        } else if (done == 0 && now_ms() > until) {
            CHECK(strcmp(mt_fabric_query(s->context)->provider, "verbs") == 0);
            post(s, s->qp, &work);
            posted++;
            until = now_ms() + 1000;
        } else {
            waiting(s);
        }
    }
}

/* More than the receiver takes: some are lost, the others are whole, and the
 * sender completes all. Then it works again. */
static void overrun(struct side *s)
{
    enum { N = 5000, SLOTS = 64 };
    side_open(s, false);
    struct mt_fabric_ah *ah = ud_connect(s, &s->qp);
    size_t head = s->caps->ud_headroom, n = 500;
    struct mt_fabric_mr *mr = registered(s, SLOTS * (head + n));
    if (s->rank == 1) {
        for (uint64_t i = 0; i < SLOTS; i++) {
            post_receive(s, s->qp, i, piece(mr, i * (head + n), head + n));
        }
    }
    meet(s);
    if (s->rank == 0) {
        for (uint64_t i = 0; i < N; i++) {
            fill(mr->address, n, i);
            memcpy(mr->address, &i, sizeof(i));
            send_reminding(s, ah, i, piece(mr, 0, n));
        }
        meet(s);
        uint64_t last = UINT64_MAX;
        fill(mr->address, n, last);
        memcpy(mr->address, &last, sizeof(last));
        /* a lost one is sent again, until the other says that it has it */
        char got = 0;
        for (int tries = 0; got == 0; tries++) {
            CHECK(tries < 1000);
            send_to(s, ah, 1, piece(mr, 0, n));
            char mine = 0;
            swap(s, &mine, &got, 1);
        }
    } else {
        uint64_t came = 0, until = 0;
        char met = 0, done = 0;
        while (!done) {
            struct mt_fabric_completion c;
            if (took(s->receive_cq, &c)) {
                uint64_t number;
                char *at = (char *)mr->address + c.id * (head + n) + head;
                EQ(c.status, MT_OK);
                EQ(c.bytes, head + n);
                memcpy(&number, at, sizeof(number));
                fill(at, sizeof(number), number);
                CHECK(filled(at, n, number));
                came++;
                done = number == UINT64_MAX;
                post_receive(s, s->qp, c.id,
                             piece(mr, c.id * (head + n), head + n));
                until = now_ms() + 50;
            } else if (!met) {
                meet(s);
                met = 1;
                until = now_ms() + 50;
            } else if (now_ms() > until) {
                char theirs;
                swap(s, &done, &theirs, 1);
                until = now_ms() + 50;
            }
        }
        CHECK(came > 0 && came <= N + 100);
        char theirs;
        swap(s, &done, &theirs, 1);
    }
    meet(s);
    OK(mt_fabric_ah_destroy(ah));
    side_qp_destroy(s);
    release(mr);
    side_close(s);
}

/* ---- fairness ---- */

enum {
    FAIR_BYTES = 64,
    FAIR_SLOTS = 64, /* receives of each queue pair */
    FAIR_CHUNK = 32, /* datagrams that are asked for at once */
    /* ... for the busy one before there is one for the quiet one: it is known to
     * be busy by then */
    FAIR_BEFORE = 8 * FAIR_CHUNK,
    FAIR_QPS = 12,
};

/* A chunk for the busy queue pair; each datagram has a number. */
static void fair_chunk(struct side *s, struct mt_fabric_ah *ah,
                       const struct mt_fabric_mr *mr, uint64_t *number)
{
    for (int i = 0; i < FAIR_CHUNK; i++) {
        memcpy(mr->address, number, sizeof(*number));
        send_to(s, ah, (*number)++, piece(mr, 0, FAIR_BYTES));
    }
}

/* More is sent whenever it is asked for, until all is over. */
static void fair_send(struct side *s, struct mt_fabric_ah *busy,
                      struct mt_fabric_ah *quiet, const struct mt_fabric_mr *mr)
{
    uint64_t number = 0;
    char word = 'm';
    fair_chunk(s, busy, mr, &number);
    while (word == 'm') {
        if (number == FAIR_BEFORE) {
            send_to(s, quiet, 0, piece(mr, 0, FAIR_BYTES));
        }
        fair_chunk(s, busy, mr, &number);
        CHECK(write(s->wire, &word, 1) == 1);
        CHECK(read(s->wire, &word, 1) == 1);
    }
}

/* Without a poll: what is asked for is all there before anything is taken. */
static void fair_ask(struct side *s)
{
    char word = 'm';
    CHECK(write(s->wire, &word, 1) == 1);
    CHECK(read(s->wire, &word, 1) == 1);
}

/* Takes what has completed, and posts the receives of the busy queue pair again.
 * False: the datagram for the quiet one was among it. Counted are those that were
 * sent after that and came before it. */
static bool fair_round(struct side *s, struct mt_fabric_qp *busy,
                       const struct mt_fabric_mr *mr, uint64_t *taken,
                       uint64_t *before)
{
    struct mt_fabric_completion c[FAIR_SLOTS];
    size_t head = s->caps->ud_headroom, room = head + FAIR_BYTES;
    uint32_t n = mt_fabric_poll(s->receive_cq, c, FAIR_SLOTS);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t number;
        EQ(c[i].status, MT_OK);
        if (c[i].qp != mt_fabric_qp_number(busy)) {
            return false;
        }
        memcpy(&number, (char *)mr->address + c[i].id * room + head,
               sizeof(number));
        *before += number >= FAIR_BEFORE;
        post_receive(s, busy, c[i].id, piece(mr, c[i].id * room, room));
        moved();
    }
    *taken += n;
    waiting(s);
    return true;
}

/* The busy queue pair is never without a datagram that it could take. Returns how
 * many of those sent after the one for the quiet queue pair came before it. */
static uint64_t fair_take(struct side *s, struct mt_fabric_qp *busy,
                          const struct mt_fabric_mr *mr, uint64_t most)
{
    uint64_t taken = 0, asked = 0, before = 0;
    char word;
    CHECK(read(s->wire, &word, 1) == 1);
    while (before <= most && fair_round(s, busy, mr, &taken, &before)) {
        for (; taken >= asked + FAIR_CHUNK; asked += FAIR_CHUNK) {
            fair_ask(s);
        }
    }
    word = 'o';
    CHECK(write(s->wire, &word, 1) == 1);
    return before;
}

/* Of so many queue pairs the first is busy and the last quiet, or the other way
 * round. */
static void fair_among(struct side *s, unsigned count, bool first,
                       uint64_t most)
{
    struct mt_fabric_qp *qps[FAIR_QPS];
    struct mt_fabric_ah *ahs[FAIR_QPS];
    unsigned busy = first ? 0 : count - 1, quiet = count - 1 - busy;
    struct mt_fabric_completion none;
    side_open(s, false);
    size_t room = s->caps->ud_headroom + FAIR_BYTES;
    struct mt_fabric_mr *mr = registered(s, (FAIR_SLOTS + 1) * room);
    for (unsigned i = 0; i < count; i++) {
        ahs[i] = ud_connect(s, &qps[i]);
    }
    for (uint64_t i = 0; i < FAIR_SLOTS; i++) {
        post_receive(s, qps[busy], i, piece(mr, i * room, room));
    }
    post_receive(s, qps[quiet], 0, piece(mr, FAIR_SLOTS * room, room));
    meet(s);
    s->qp = qps[0];
    if (s->rank == 0) {
        fair_send(s, ahs[busy], ahs[quiet], mr);
    } else {
        uint64_t before = fair_take(s, qps[busy], mr, most);
        if (before > most) {
            FAIL("a datagram waits behind %llu later ones of another of %u "
                 "queue pairs", (unsigned long long)before, count);
        }
    }
    meet(s);
    for (unsigned i = 0; i < count; i++) {
        OK(mt_fabric_ah_destroy(ahs[i]));
        OK(mt_fabric_qp_destroy(qps[i]));
    }
    s->qp = NULL;
    while (mt_fabric_poll(s->receive_cq, &none, 1) == 1) {
    }
    release(mr);
    side_close(s);
}

/* What one queue pair is sent comes, however much another one is sent, of which at
 * most 16 datagrams are taken in a round. A round looks at who was busy lately and
 * at two others (shm), or at all of up to 4, and of more at those that have
 * something once in 64 rounds (sockets). */
static void fair(struct side *s)
{
    static const unsigned counts[] = {2, 4, 6, FAIR_QPS};
    bool sockets = strncmp(s->setting->device, "iwarp:", 6) == 0;
    for (int n = 0; n < 4; n++) {
        unsigned rounds = !sockets          ? (counts[n] + 1) / 2
                          : counts[n] <= 4 ? 1
                                           : 64;
        fair_among(s, counts[n], false, 16 * rounds);
        fair_among(s, counts[n], true, 16 * rounds);
    }
}

/* ---- a socket that takes nothing, and a link that is down ---- */

enum {
    SLOW_COUNT = 2000,
    SLOW_MOST = 100000,
    SLOW_BYTES = 4000,
    SLOW_SLOTS = 64,
    DOWN_COUNT = 40
};

/* Posts until all have completed, well. Returns how often nothing could be posted
 * and nothing had completed: then it sleeps. */
static uint64_t slow_send(struct side *s, struct mt_fabric_ah *ah,
                          const struct mt_fabric_mr *mr, uint64_t count)
{
    struct mt_fabric_piece p = piece(mr, 0, SLOW_BYTES);
    struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .ah = ah};
    struct mt_fabric_completion c;
    uint64_t posted = 0, done = 0, full = 0;
    while (done < count) {
        enum mt_status status =
            posted < count ? mt_fabric_post_send(s->qp, &work) : MT_EAGAIN;
        CHECK(status == MT_OK || status == MT_EAGAIN);
        posted += status == MT_OK;
        /* armed before it looks */
        OK(mt_fabric_cq_arm(s->send_cq, false));
        if (took(s->send_cq, &c)) {
            EQ(c.status, MT_OK);
            done++;
        } else if (status == MT_EAGAIN) {
            full++;
            CHECK(sleep_on(s, (int)s->setting->limit_ms) != NULL);
        }
    }
    EQ(posted, count);
    return full;
}

/* Takes datagrams until the other has sent all, and says how many came. */
static uint64_t slow_take(struct side *s, const struct mt_fabric_mr *mr)
{
    size_t head = s->caps->ud_headroom, room = head + SLOW_BYTES;
    uint64_t came = 0, quiet_since = 0;
    char word = 0;
    while (word == 0 || now_ms() - quiet_since < 200) {
        struct mt_fabric_completion c;
        if (took(s->receive_cq, &c)) {
            EQ(c.status, MT_OK);
            EQ(c.bytes, room);
            CHECK(filled((char *)mr->address + c.id * room + head, SLOW_BYTES,
                         3));
            post_receive(s, s->qp, c.id, piece(mr, c.id * room, room));
            quiet_since = now_ms();
            came++;
        } else if (word == 0 && recv(s->wire, &word, 1, MSG_DONTWAIT) == 1) {
            quiet_since = now_ms();
        }
        waiting(s);
    }
    return came;
}

/* Between two hosts whose link is slower than the sender, with a long queue: the
 * socket is full, and all that was posted goes when it has room again. Then the
 * link of rank 0 is down: what it sends is lost, as anything else may be. */
static void slow_link(struct side *s)
{
    const char *interface = strchr(s->setting->device, ':') + 1;
    char down[64], up[64], all[32];
    side_open(s, true);
    size_t room = s->caps->ud_headroom + SLOW_BYTES;
    struct mt_fabric_mr *mr = registered(s, SLOW_SLOTS * room);
    struct mt_fabric_ah *ah = ud_connect(s, &s->qp);
    uint64_t came = 0, sent = 0;
    for (uint64_t i = 0; i < SLOW_SLOTS && s->rank == 1; i++) {
        post_receive(s, s->qp, i, piece(mr, i * room, room));
    }
    meet(s);
    if (s->rank == 0) {
        fill(mr->address, SLOW_BYTES, 3);
        do { /* on a busy machine the link may keep up for a while */
            CHECK(sent < SLOW_MOST);
            sent += SLOW_COUNT;
        } while (slow_send(s, ah, mr, SLOW_COUNT) == 0); /* it was full */
        CHECK(write(s->wire, "d", 1) == 1);
        snprintf(down, sizeof(down), "ip link set %s down", interface);
        snprintf(up, sizeof(up), "ip link set %s up", interface);
        CHECK(read(s->wire, &came, sizeof(came)) == sizeof(came));
        CHECK(came <= sent && came > 0);
        CHECK(system(down) == 0);
        slow_send(s, ah, mr, DOWN_COUNT);
        CHECK(system(up) == 0);
        for (int i = 0; i < 20; i++) { /* till the addresses are known again */
            slow_send(s, ah, mr, 1);
            usleep(50000);
        }
        slow_send(s, ah, mr, SLOW_COUNT);
        CHECK(write(s->wire, "d", 1) == 1);
    } else {
        came = slow_take(s, mr);
        CHECK(write(s->wire, &came, sizeof(came)) == sizeof(came));
        came = slow_take(s, mr);
        CHECK(came <= SLOW_COUNT + 20 && came > 0);
    }
    OK(mt_fabric_ah_destroy(ah));
    side_qp_destroy(s);
    release(mr);
    side_close(s);
    snprintf(all, sizeof(all), "not sent %d", DOWN_COUNT);
    CHECK(s->rank == 1 || times_said(all) == 1);
}

const struct test tests_slow[] = {
    {"datagrams over a slow link", slow_link, needs_ud},
    {NULL, NULL, NULL},
};

const struct test tests_datagrams[] = {
    {"datagram echo", echo, needs_ud},
    {"datagram answered", answer, needs_ud},
    {"datagram refused", refused, needs_ud},
    {"datagram overrun", overrun, needs_ud},
    {NULL, NULL, NULL},
};

const struct test tests_fair[] = {
    {"datagrams of a quiet queue pair", fair, needs_ud},
    {NULL, NULL, NULL},
};
