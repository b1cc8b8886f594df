/* datagrams.c: messages by SEND over RC and over UD, with the same program: half
 * the time there and back, and what goes in a window, one way and both ways at
 * once. A lost datagram counts for nothing. */
#include "tool.h"

static const uint64_t sizes[] = {8, 64, 256, 1024, 4096, 16384, 65472};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), BATCHES = 51 };

static uint64_t messages(const struct tool *t, uint64_t bytes)
{
    uint64_t n = (UINT64_C(1) << 28) / (bytes + 2000);
    return t->config.iterations > 0 ? t->config.iterations : n;
}

/* Batches of half round trips, in us: the median and the least. */
static void latency(struct tool *t, struct tool_sends *s, uint64_t n,
                    double *median_p, double *least_p)
{
    double us[BATCHES];
    n = n / BATCHES + 1;
    tool_sends_run(t, s, TOOL_BI, n); /* warms up */
    for (int b = 0; b < BATCHES; b++) {
        struct tool_sent sent = tool_sends_run(t, s, TOOL_BI, n);
        us[b] = sent.seconds * 1e6 / 2 / (double)n;
    }
    *median_p = tool_median(us, BATCHES);
    *least_p = us[0];
}

static void measure(struct tool *t, enum mt_fabric_transport transport,
                    uint64_t bytes)
{
    struct tool_sends s;
    uint64_t n = messages(t, bytes);
    double median, least, lost = 0, expected = 0;
    double rates[TOOL_BOTH + 1] = {0};
    tool_sends_open(t, transport, bytes, &s);
    latency(t, &s, n, &median, &least);
    for (int both = 0; both < 2; both++) {
        enum tool_traffic traffic = both != 0 ? TOOL_BOTH : TOOL_UNI;
        tool_sends_run(t, &s, traffic, n / 10 + 1);
        struct tool_sent sent = tool_sends_run(t, &s, traffic, n);
        rates[traffic] = (double)(sent.came * bytes) / sent.seconds / 1e6;
        lost += (double)(sent.expected - sent.came);
        expected += (double)sent.expected;
    }
    tool_sends_close(t, &s);
    const struct tool_cell cells[] = {
        {transport == MT_FABRIC_UD ? "UD" : "RC", 0},
        {NULL, (double)bytes},
        {NULL, (double)n},
        {NULL, median},
        {NULL, least},
        {NULL, rates[TOOL_UNI]},
        {NULL, rates[TOOL_BOTH]},
        {NULL, 100 * lost / expected}};
    tool_row(t, cells);
}

void tool_datagrams(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"transport", "transport", -1},
        {"bytes", "bytes", 0},
        {"messages", "messages", 0},
        {"half_round_trip_us", "half trip us", 3},
        {"least_us", "least us", 3},
        {"one_way_mb_per_s", "one way MB/s", 1},
        {"both_ways_mb_per_s", "both ways MB/s", 1},
        {"lost_percent", "lost %", 3},
        {NULL, NULL, 0}};
    const struct mt_fabric_caps *caps = t->rails.rails[0].caps;
    uint64_t bytes;
    if ((caps->transports & MT_FABRIC_UD) == 0) {
        tool_fail("%s has no UD", t->rails.rails[0].name);
    }
    tool_table_begin(t, columns);
    for (uint32_t i = 0; (bytes = tool_size(t, i, sizes, SIZES)) > 0; i++) {
        bytes = bytes < sizeof(uint64_t) ? sizeof(uint64_t) : bytes;
        measure(t, MT_FABRIC_RC, bytes);
        if (bytes <= caps->ud_payload) { /* longer ones are no datagrams */
            measure(t, MT_FABRIC_UD, bytes);
        }
    }
    tool_table_end(t);
}
