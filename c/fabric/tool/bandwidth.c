/* bandwidth.c: one way, there and back, and both ways at once (Qian 2010, 3.3):
 * by WRITEs over all rails that were named, or over 1, 2, 3 ... of them; or by
 * SENDs over the first. */
#include "tool.h"

static const uint64_t sizes[] = {64,    1024,   4096,    16384,
                                 65536, 262144, 1048576, 4194304};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static uint64_t largest(const struct tool *t)
{
    uint64_t most = 0, bytes;
    for (uint32_t i = 0; (bytes = tool_size(t, i, sizes, SIZES)) > 0; i++) {
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* So that each size takes about as long. */
static uint64_t messages(const struct tool *t, uint64_t bytes)
{
    uint64_t n = (UINT64_C(1) << 30) / (bytes + 4096);
    n = n < 16 ? 16 : n > 100000 ? 100000 : n;
    return t->config.iterations > 0 ? t->config.iterations : n;
}

enum { BATCHES = 20 };

struct rates {
    double of[TOOL_BOTH + 1]; /* bytes a second, by traffic */
    double best;              /* one way, of the best batch */
};

/* Either is open: messages are WRITEs with a notice over all rails, or SENDs over
 * the first. */
struct carrier {
    struct tool_stream *writes;
    struct tool_sends *sends;
};

/* Seconds for n messages. */
static double carry(struct tool *t, const struct carrier *c,
                    enum tool_traffic traffic, uint64_t bytes, uint64_t n)
{
    if (c->sends != NULL) {
        return tool_sends_run(t, c->sends, traffic, n).seconds;
    }
    uint64_t all = bytes * n * (traffic == TOOL_UNI ? 1 : 2);
    return (double)all / tool_stream_run(t, c->writes, traffic, bytes, n);
}

/* One way in batches, of which the best is what other load leaves of it. */
static struct rates measure(struct tool *t, const struct carrier *c,
                            uint64_t bytes, uint64_t n)
{
    struct rates r = {0};
    for (int k = TOOL_UNI; k <= TOOL_BOTH; k++) {
        enum tool_traffic traffic = (enum tool_traffic)k;
        uint64_t batches = traffic != TOOL_UNI ? 1 : n < BATCHES ? n : BATCHES;
        uint64_t each = n / batches;
        double all = (double)(bytes * each * (traffic == TOOL_UNI ? 1 : 2));
        double spent = 0;
        carry(t, c, traffic, bytes, n / 10 + 1); /* warms up */
        for (uint64_t i = 0; i < batches; i++) {
            double seconds = carry(t, c, traffic, bytes, each);
            double rate = all / seconds;
            spent += seconds;
            r.best = traffic == TOOL_UNI && rate > r.best ? rate : r.best;
        }
        r.of[traffic] = all * (double)batches / spent;
    }
    return r;
}

void tool_bandwidth(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"operation", "operation", -1},
        {"bytes", "bytes", 0},
        {"messages", "messages", 0},
        {"one_way_mb_per_s", "one way MB/s", 1},
        {"best_one_way_mb_per_s", "best MB/s", 1},
        {"ping_pong_mb_per_s", "ping-pong MB/s", 1},
        {"both_ways_mb_per_s", "both ways MB/s", 1},
        {NULL, NULL, 0}};
    struct tool_stream writes;
    struct tool_sends sends;
    uint64_t bytes;
    bool by_send = t->config.operation == TOOL_SEND;
    struct carrier c = {.writes = by_send ? NULL : &writes,
                        .sends = by_send ? &sends : NULL};
    tool_table_begin(t, columns);
    if (!by_send) {
        tool_stream_open(t, t->rails.count, largest(t), t->config.threshold,
                         &writes);
    }
    for (uint32_t i = 0; (bytes = tool_size(t, i, sizes, SIZES)) > 0; i++) {
        uint64_t n = messages(t, bytes);
        if (by_send) {
            tool_sends_open(t, MT_FABRIC_RC, bytes, &sends);
        }
        struct rates r = measure(t, &c, bytes, n);
        if (by_send) {
            tool_sends_close(t, &sends);
        }
        const struct tool_cell cells[] = {
            {by_send ? "SEND" : "WRITE + notice", 0},
            {NULL, (double)bytes},
            {NULL, (double)n},
            {NULL, r.of[TOOL_UNI] / 1e6},
            {NULL, r.best / 1e6},
            {NULL, r.of[TOOL_BI] / 1e6}, /* one direction at a time */
            {NULL, r.of[TOOL_BOTH] / 1e6}};
        tool_row(t, cells);
    }
    if (!by_send) {
        tool_stream_close(t, &writes);
    }
    tool_table_end(t);
}

void tool_rails(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"rails", "rails", 0},
        {"bytes", "bytes", 0},
        {"one_way_mb_per_s", "one way MB/s", 1},
        {"against_one_rail", "against 1", 2},
        {"both_ways_mb_per_s", "both ways MB/s", 1},
        {"both_ways_against_one_rail", "against 1", 2},
        {NULL, NULL, 0}};
    double one[TOOL_SIZES][2];
    if (t->rails.count < 2) {
        tool_fail("one rail (%s) is nothing to compare: name several, as in "
                  "--device 'rxe*', or take --per-port 2",
                  t->rails.rails[0].name);
    }
    tool_table_begin(t, columns);
    for (uint32_t k = 1; k <= t->rails.count; k++) {
        struct tool_stream s;
        uint64_t bytes;
        tool_stream_open(t, k, largest(t), t->config.threshold, &s);
        for (uint32_t i = 0;
             i < TOOL_SIZES && (bytes = tool_size(t, i, sizes, SIZES)) > 0;
             i++) {
            static const enum tool_traffic traffic[] = {TOOL_UNI, TOOL_BOTH};
            uint64_t n = messages(t, bytes);
            double rates[2];
            for (int w = 0; w < 2; w++) {
                tool_stream_run(t, &s, traffic[w], bytes, n / 10 + 1);
                rates[w] = tool_stream_run(t, &s, traffic[w], bytes, n) / 1e6;
                one[i][w] = k == 1 ? rates[w] : one[i][w];
            }
            const struct tool_cell cells[] = {
                {NULL, (double)k}, {NULL, (double)bytes},
                {NULL, rates[0]},  {NULL, rates[0] / one[i][0]},
                {NULL, rates[1]},  {NULL, rates[1] / one[i][1]}};
            tool_row(t, cells);
        }
        tool_stream_close(t, &s);
    }
    tool_table_end(t);
}
