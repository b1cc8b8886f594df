/* pingpong.c: half the time of a message there and back: by SEND and receive,
 * and by a WRITE with a notice behind it. */
#include "tool.h"

#include <string.h>

static const uint64_t sizes[] = {8, 64, 1024, 8192, 65536, 1048576};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), DEPTH = 64 };

struct pingpong {
    struct mt_fabric_qp *qp;
    struct tool_memory data; /* first half: sent from; second: DEPTH receives,
                              * or written to */
    struct tool_memory flag;
    struct mt_put put;
    struct mt_put_target target;
    struct mt_fabric_cq *send_cq, *receive_cq;
    uint64_t bytes;
    uint64_t sends, completed; /* signaled ones count for what was before */
    bool inlines;
};

static uint64_t iterations(const struct tool *t, uint64_t bytes)
{
    uint64_t n = UINT64_C(400000000) / (bytes + 2000);
    return t->config.iterations > 0 ? t->config.iterations : n;
}

/* ---- SEND and receive ---- */

static char *slot(const struct pingpong *p, uint64_t i)
{
    uint64_t half = p->data.bytes / 2;
    uint64_t each = half / DEPTH / 64 * 64;
    return p->data.at + half + (each >= p->bytes ? i % DEPTH * each : 0);
}

static void post_receive(const struct pingpong *p, uint64_t i)
{
    struct mt_fabric_piece piece = {slot(p, i), (uint32_t)p->bytes,
                                    p->data.mr->lkey};
    struct mt_fabric_receive work = {
        .id = i, .piece_count = 1, .pieces = &piece};
    tool_check(mt_fabric_post_receive(p->qp, &work), "posting a receive");
}

static void send(struct tool *t, struct pingpong *p, uint64_t number)
{
    struct mt_fabric_piece piece = {p->data.at, (uint32_t)p->bytes,
                                    p->data.mr->lkey};
    /* large messages are not copied: the buffer is free when it completes */
    bool each = !p->inlines || number % (DEPTH / 4) == 0;
    struct mt_fabric_send work = {
        .id = number,
        .opcode = MT_FABRIC_SEND,
        .flags = (each ? (uint32_t)MT_FABRIC_SIGNALED : 0) |
                 (p->inlines ? (uint32_t)MT_FABRIC_INLINE : 0),
        .piece_count = 1,
        .pieces = &piece};
    tool_stamp(p->data.at, p->bytes, number);
    tool_check(mt_fabric_post_send(p->qp, &work), "sending");
    if (!each) {
        return;
    }
    if (p->inlines) { /* of those before; this one's comes later */
        struct mt_fabric_completion c;
        tool_poll(p->send_cq, &c, 1);
        return;
    }
    tool_next(t, p->send_cq, "a SEND to complete");
}

static void receive(struct tool *t, struct pingpong *p, uint64_t number)
{
    struct mt_fabric_completion c;
    struct tool_wait w = {0};
    while (tool_poll(p->receive_cq, &c, 1) == 0) {
        tool_wait(t, &w, "a message");
    }
    if (c.bytes != p->bytes) {
        tool_fail("WRONG DATA: %u bytes came, %llu were sent", c.bytes,
                  (unsigned long long)p->bytes);
    }
    tool_stamped(slot(p, c.id), p->bytes, number);
    post_receive(p, c.id + DEPTH);
}

/* ---- WRITE and notice ---- */

static void put(struct tool *t, struct pingpong *p, uint64_t number)
{
    struct mt_fabric_piece piece = {p->data.at, (uint32_t)p->bytes,
                                    p->data.mr->lkey};
    bool each = !p->inlines || number % (DEPTH / 4) == 0;
    struct mt_put_work work = {
        .flags = (each ? (uint32_t)MT_FABRIC_SIGNALED : 0) |
                 (p->inlines ? (uint32_t)MT_FABRIC_INLINE : 0),
        .piece_count = 1,
        .pieces = &piece,
        .remote_address = p->data.remote_at + p->data.bytes / 2,
        .rkey = p->data.remote_rkey};
    struct tool_wait w = {0};
    enum mt_status status;
    tool_stamp(p->data.at, p->bytes, number);
    while ((status = mt_put_post(&p->put, &work)) == MT_EAGAIN || p->put.owes) {
        struct mt_fabric_completion c;
        tool_poll(p->send_cq, &c, 1);
        if (status == MT_OK && mt_put_flush(&p->put) == MT_OK) {
            break;
        }
        tool_wait(t, &w, "room for a WRITE");
    }
    tool_check(status, "writing");
    if (each && p->inlines) {
        struct mt_fabric_completion c;
        tool_poll(p->send_cq, &c, 1);
    } else if (each) {
        tool_next(t, p->send_cq, "a WRITE to complete");
    }
}

static void await(struct tool *t, struct pingpong *p, uint64_t number)
{
    struct tool_wait w = {0};
    struct mt_fabric_completion c;
    bool flag = p->target.how == MT_FABRIC_NOTIFY_FLAG_WRITE;
    while (!mt_put_target_test(&p->target, number)) {
        /* a flag is memory: the provider is driven now and then */
        if (!flag || w.turns % 64 == 63) {
            if (tool_poll(p->receive_cq, &c, 1) > 0) {
                tool_check(mt_put_target_noticed(&p->target, &c), "a notice");
            }
        }
        tool_wait(t, &w, "a WRITE");
    }
    mt_put_allow(&p->put, mt_put_target_allows(&p->target));
    tool_stamped(p->data.at + p->data.bytes / 2, p->bytes, number);
}

/* ---- both ---- */

static void open_pair(struct tool *t, struct pingpong *p, uint64_t bytes,
                      bool puts)
{
    const struct mt_rail *rail = &t->rails.rails[0];
    struct mt_fabric_qp_options q = tool_rc_options(rail, 2 * DEPTH);
    struct mt_put_options o = {.how = mt_put_choose(rail->caps),
                               .pd = rail->pd,
                               .depth = q.send_depth,
                               .inline_bytes = q.inline_bytes,
                               .window = DEPTH};
    uint64_t half = bytes * (bytes <= 8192 ? DEPTH : 1) + DEPTH * 64;
    memset(p, 0, sizeof(*p));
    p->bytes = bytes;
    p->inlines = bytes <= q.inline_bytes;
    p->send_cq = rail->send_cq;
    p->receive_cq = rail->receive_cq;
    tool_data_open(t, rail, 2 * ((half + 4095) / 4096 * 4096), &p->data);
    tool_memory_open(t, rail, 4096, &p->flag);
    tool_check(mt_fabric_qp_create(rail->pd, &q, &p->qp), "a queue pair");
    o.qp = p->qp;
    o.flag_address = p->flag.remote_at;
    o.flag_rkey = p->flag.remote_rkey;
    if (puts) {
        tool_check(mt_put_open(&p->put, &o), "puts");
        tool_check(mt_put_target_open(&p->target, &o, (const void *)p->flag.at),
                   "puts");
    }
    for (uint64_t i = 0; i < DEPTH && !puts; i++) {
        post_receive(p, i);
    }
    tool_join_qp(t, p->qp);
}

static void close_pair(struct tool *t, struct pingpong *p)
{
    tool_meet(t);
    tool_check(mt_fabric_qp_destroy(p->qp), "ending");
    tool_drain(t);
    mt_put_close(&p->put);
    mt_put_target_close(&p->target);
    tool_memory_close(&p->data);
    tool_memory_close(&p->flag);
}

/* Half round trip in microseconds. */
static double run(struct tool *t, struct pingpong *p, bool puts, uint64_t from,
                  uint64_t count)
{
    tool_meet(t);
    uint64_t began = tool_now_ns();
    for (uint64_t i = from; i < from + count; i++) {
        if (t->rank == 0) {
            puts ? put(t, p, i) : send(t, p, i);
            puts ? await(t, p, i) : receive(t, p, i);
        } else {
            puts ? await(t, p, i) : receive(t, p, i);
            puts ? put(t, p, i) : send(t, p, i);
        }
    }
    return (double)(tool_now_ns() - began) / 2e3 / (double)count;
}

/* All bytes, once. */
static void verify(struct tool *t, struct pingpong *p, bool puts, uint64_t i)
{
    uint64_t number = i;
    tool_fill(p->data.at, p->bytes, p->bytes + t->rank);
    run(t, p, puts, i, 1);
    const char *at = puts ? p->data.at + p->data.bytes / 2 : slot(p, i - 1);
    if (p->bytes > 16) {
        static char copy[1 << 20];
        uint64_t n = p->bytes < sizeof(copy) ? p->bytes : sizeof(copy);
        memcpy(copy, at, n);
        tool_fill(&number, 8, p->bytes + (1 - t->rank));
        memcpy(copy, &number, 8); /* where the stamps are */
        tool_verify(copy, n - 8, p->bytes + (1 - t->rank), "a message");
    }
}

/* The median of batches, and the least: what other load leaves of it. */
void tool_pingpong(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"operation", "operation", -1},
        {"bytes", "bytes", 0},
        {"iterations", "iterations", 0},
        {"half_round_trip_us", "half trip us", 3},
        {"least_us", "least us", 3},
        {NULL, NULL, 0}};
    enum { BATCHES = 51 };
    uint64_t bytes;
    tool_table_begin(t, columns);
    for (uint32_t i = 0; (bytes = tool_size(t, i, sizes, SIZES)) > 0; i++) {
        for (int puts = 0; puts < 2; puts++) {
            struct pingpong p;
            uint64_t n = iterations(t, bytes) / BATCHES + 1, at = 1;
            double us[BATCHES];
            open_pair(t, &p, bytes, puts != 0);
            run(t, &p, puts != 0, at, n); /* warms up */
            at += n;
            for (int b = 0; b < BATCHES; b++, at += n) {
                us[b] = run(t, &p, puts != 0, at, n);
            }
            double median = tool_median(us, BATCHES);
            verify(t, &p, puts != 0, at);
            const struct tool_cell cells[] = {
                {puts ? "WRITE + notice" : "SEND", 0},
                {NULL, (double)bytes},
                {NULL, (double)(BATCHES * n)},
                {NULL, median},
                {NULL, us[0]}};
            tool_row(t, cells);
            close_pair(t, &p);
        }
    }
    tool_table_end(t);
}
