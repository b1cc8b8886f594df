/* connections.c: many connections between two processes (Rashti 2010, 3.4.1:
 * B5, B6; Qian 2010, 5.4).
 *
 * Latency: a message goes out over every connection, in turn, and comes back;
 * a round is over when all have. Normalised: half the time of a round, divided
 * by the connections. Throughput: both ways at once, WRITEs over all
 * connections in turn, for a fixed time. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t sizes[] = {8, 1024, 8192};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), MOST = 256, DEPTH = 4 };

enum part { OUT, RECEIVED, WRITTEN, PARTS };

struct group {
    uint32_t count;
    uint64_t bytes;
    struct mt_fabric_qp *qps[MOST];
    uint32_t inflight[MOST]; /* WRITEs */
    uint64_t written[MOST];
    struct tool_memory
        data; /* per connection: sent from, received or written */
    struct mt_fabric_cq *send_cq, *receive_cq;
    bool inlines;
};

static char *place(const struct group *g, uint32_t i, enum part part)
{
    return g->data.at + (PARTS * (uint64_t)i + part) * g->bytes;
}

static void post_receive(const struct group *g, uint32_t i)
{
    struct mt_fabric_piece piece = {place(g, i, RECEIVED), (uint32_t)g->bytes,
                                    g->data.mr->lkey};
    struct mt_fabric_receive work = {
        .id = i, .piece_count = 1, .pieces = &piece};
    tool_check(mt_fabric_post_receive(g->qps[i], &work), "posting a receive");
}

static struct mt_fabric_send work_of(const struct group *g, uint32_t i,
                                     struct mt_fabric_piece *piece)
{
    *piece = (struct mt_fabric_piece){place(g, i, OUT), (uint32_t)g->bytes,
                                      g->data.mr->lkey};
    return (struct mt_fabric_send){
        .id = i,
        .flags =
            MT_FABRIC_SIGNALED | (g->inlines ? (uint32_t)MT_FABRIC_INLINE : 0),
        .piece_count = 1,
        .pieces = piece};
}

/* Words that say which message of which connection it is. */
static void stamp(const struct group *g, uint32_t i, uint64_t round)
{
    uint64_t word = round << 16 | i;
    char *at = place(g, i, OUT);
    memcpy(at, &word, 8);
    memcpy(at + g->bytes - 8, &word, 8);
}

static void stamped(const struct group *g, uint32_t i, enum part part,
                    uint64_t round)
{
    uint64_t word = round << 16 | i;
    const char *at = place(g, i, part);
    if (memcmp(at, &word, 8) != 0 || memcmp(at + g->bytes - 8, &word, 8) != 0) {
        tool_fail("WRONG DATA: connection %u, round %llu", i,
                  (unsigned long long)round);
    }
}

static void send(const struct group *g, uint32_t i, uint64_t round)
{
    struct mt_fabric_piece piece;
    struct mt_fabric_send work = work_of(g, i, &piece);
    work.opcode = MT_FABRIC_SEND;
    stamp(g, i, round);
    tool_check(mt_fabric_post_send(g->qps[i], &work), "sending");
}

/* One message over each connection, there and back. */
static void round_trip(struct tool *t, const struct group *g, uint64_t round)
{
    struct tool_wait w = {0};
    struct mt_fabric_completion c[32];
    uint32_t came = 0, left = g->count;
    for (uint32_t i = 0; i < g->count && t->rank == 0; i++) {
        send(g, i, round);
    }
    while (came < g->count || left > 0) {
        /* no more: the other side may have begun the next round */
        uint32_t open = g->count - came < 32 ? g->count - came : 32;
        uint32_t n = tool_poll(g->receive_cq, c, open);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t i = (uint32_t)c[k].id;
            stamped(g, i, RECEIVED, round);
            post_receive(g, i);
            if (t->rank == 1) {
                send(g, i, round);
            }
        }
        came += n;
        left -= tool_poll(g->send_cq, c, 32);
        if (n == 0) {
            tool_wait(t, &w, "a message");
        }
    }
}

static double latency(struct tool *t, struct group *g, uint64_t rounds)
{
    for (uint32_t i = 0; i < g->count; i++) {
        post_receive(g, i);
    }
    tool_meet(t);
    for (uint64_t r = 1; r <= rounds / 10 + 1; r++) {
        round_trip(t, g, r);
    }
    tool_meet(t);
    uint64_t began = tool_now_ns();
    for (uint64_t r = 1; r <= rounds; r++) {
        round_trip(t, g, r);
    }
    return (double)(tool_now_ns() - began) / 2e3 / (double)rounds / g->count;
}

static void write_one(struct group *g, uint32_t i)
{
    struct mt_fabric_piece piece;
    struct mt_fabric_send work = work_of(g, i, &piece);
    work.opcode = MT_FABRIC_WRITE;
    work.remote_address =
        g->data.remote_at + (PARTS * (uint64_t)i + WRITTEN) * g->bytes;
    work.rkey = g->data.remote_rkey;
    if (g->inflight[i] == 0) {
        stamp(g, i, g->written[i] + 1); /* nothing reads the buffer now */
    }
    enum mt_status status = mt_fabric_post_send(g->qps[i], &work);
    if (status == MT_OK) {
        g->inflight[i]++;
        g->written[i]++;
    } else {
        tool_check(status == MT_EAGAIN ? MT_OK : status, "writing");
    }
}

static uint32_t written(struct group *g)
{
    struct mt_fabric_completion c[32];
    uint32_t n = tool_poll(g->send_cq, c, 32);
    for (uint32_t k = 0; k < n; k++) {
        g->inflight[c[k].id]--;
    }
    return n;
}

/* Bytes a second that this side wrote, to which the other's are added. */
static double throughput(struct tool *t, struct group *g)
{
    uint64_t bytes = 0, left = 0, until, began;
    tool_meet(t);
    began = tool_now_ns();
    until = began + t->config.duration_ms * UINT64_C(1000000);
    while (tool_now_ns() < until) {
        for (uint32_t i = 0; i < g->count; i++) {
            if (g->inflight[i] < DEPTH) {
                uint64_t before = g->written[i];
                write_one(g, i);
                left += g->written[i] - before;
            }
        }
        uint32_t n = written(g);
        left -= n;
        bytes += n * g->bytes;
    }
    struct tool_wait w = {0};
    while (left > 0) {
        uint32_t n = written(g);
        left -= n;
        bytes += n * g->bytes;
        tool_wait(t, &w, "WRITEs to complete");
    }
    double mine = (double)bytes / ((double)(tool_now_ns() - began) / 1e9),
           theirs;
    /* each connection ends with a message that must be behind all WRITEs */
    for (uint32_t i = 0; i < g->count; i++) {
        g->written[i] = g->inflight[i] = 0;
        write_one(g, i); /* stamped 1 */
    }
    for (left = g->count; left > 0; left -= written(g)) {
        tool_wait(t, &w, "WRITEs to complete");
    }
    round_trip(t, g, 1); /* SENDs follow the WRITEs of their queue pair */
    for (uint32_t i = 0; i < g->count; i++) {
        stamped(g, i, WRITTEN, 1);
    }
    tool_swap(t, &mine, &theirs, sizeof(mine));
    return mine + theirs;
}

static void open_group(struct tool *t, struct group *g, uint32_t count,
                       uint64_t bytes)
{
    const struct mt_rail *rail = &t->rails.rails[0];
    struct mt_fabric_qp_options q = tool_rc_options(rail, 2 * DEPTH);
    memset(g, 0, sizeof(*g));
    g->count = count;
    g->bytes = bytes;
    g->inlines = bytes <= q.inline_bytes;
    g->send_cq = rail->send_cq;
    g->receive_cq = rail->receive_cq;
    tool_data_open(t, rail, (PARTS * count * bytes + 4095) / 4096 * 4096,
                   &g->data);
    tool_connect(t, rail, &q, count, g->qps);
}

static void close_group(struct tool *t, struct group *g)
{
    tool_meet(t);
    for (uint32_t i = 0; i < g->count; i++) {
        tool_check(mt_fabric_qp_destroy(g->qps[i]), "ending a connection");
    }
    tool_drain(t);
    tool_memory_close(&g->data);
}

void tool_connections(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"connections", "connections", 0},
        {"bytes", "bytes", 0},
        {"rounds", "rounds", 0},
        {"normalised_latency_us", "normalised us", 4},
        {"against_one", "against 1", 2},
        {"both_ways_mb_per_s", "both ways MB/s", 1},
        {NULL, NULL, 0}};
    static struct group g;
    uint32_t most = t->config.connections < MOST ? t->config.connections : MOST;
    uint64_t bytes;
    tool_table_begin(t, columns);
    for (uint32_t i = 0; (bytes = tool_size(t, i, sizes, SIZES)) > 0; i++) {
        double one = 0;
        bytes = bytes < 8 ? 8 : bytes;
        for (uint32_t n = 1; n <= most; n *= 2) {
            uint64_t rounds = t->config.iterations > 0 ? t->config.iterations
                                                       : 40000 / n + 10;
            open_group(t, &g, n, bytes);
            double us = latency(t, &g, rounds);
            double rate = throughput(t, &g);
            one = n == 1 ? us : one;
            const struct tool_cell cells[] = {
                {NULL, (double)n},      {NULL, (double)bytes},
                {NULL, (double)rounds}, {NULL, us},
                {NULL, us / one},       {NULL, rate / 1e6}};
            tool_row(t, cells);
            close_group(t, &g);
        }
    }
    tool_table_end(t);
}
