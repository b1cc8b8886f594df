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

enum { RATES = 3 };

/* Bytes a second by traffic: by WRITEs with a notice, over all rails ... */
static void rates_of_writes(struct tool *t, struct tool_stream *s,
                            uint64_t bytes, uint64_t n, double rates[RATES])
{
    for (int k = 0; k < RATES; k++) {
        enum tool_traffic traffic = (enum tool_traffic)k;
        tool_stream_run(t, s, traffic, bytes, n / 10 + 1);
        rates[k] = tool_stream_run(t, s, traffic, bytes, n);
    }
}

/* ... and by SENDs, over the first rail. */
static void rates_of_sends(struct tool *t, uint64_t bytes, uint64_t n,
                           double rates[RATES])
{
    struct tool_sends s;
    tool_sends_open(t, MT_FABRIC_RC, bytes, &s);
    for (int k = 0; k < RATES; k++) {
        enum tool_traffic traffic = (enum tool_traffic)k;
        tool_sends_run(t, &s, traffic, n / 10 + 1);
        struct tool_sent sent = tool_sends_run(t, &s, traffic, n);
        rates[k] = (double)(sent.came * bytes) / sent.seconds;
    }
    tool_sends_close(t, &s);
}

void tool_bandwidth(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"operation", "operation", -1},
        {"bytes", "bytes", 0},
        {"messages", "messages", 0},
        {"one_way_mb_per_s", "one way MB/s", 1},
        {"ping_pong_mb_per_s", "ping-pong MB/s", 1},
        {"both_ways_mb_per_s", "both ways MB/s", 1},
        {NULL, NULL, 0}};
    struct tool_stream s;
    uint64_t bytes;
    bool sends = t->config.operation == TOOL_SEND;
    tool_table_begin(t, columns);
    if (!sends) {
        tool_stream_open(t, t->rails.count, largest(t), t->config.threshold,
                         &s);
    }
    for (uint32_t i = 0; (bytes = tool_size(t, i, sizes, SIZES)) > 0; i++) {
        uint64_t n = messages(t, bytes);
        double rates[RATES];
        if (sends) {
            rates_of_sends(t, bytes, n, rates);
        } else {
            rates_of_writes(t, &s, bytes, n, rates);
        }
        const struct tool_cell cells[] = {
            {sends ? "SEND" : "WRITE + notice", 0},
            {NULL, (double)bytes},
            {NULL, (double)n},
            {NULL, rates[TOOL_UNI] / 1e6},
            /* one direction at a time */
            {NULL, rates[TOOL_BI] / 1e6},
            {NULL, rates[TOOL_BOTH] / 1e6}};
        tool_row(t, cells);
    }
    if (!sends) {
        tool_stream_close(t, &s);
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
