/* stream.c: messages over one or several rails, as fast as they go. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

enum { CONTROL_WINDOW = 16 };

/* What an acknowledgement says. */
struct tool_ack {
    uint64_t seen;             /* messages */
    uint64_t allows[MT_RAILS]; /* mt_put_target_allows by rail */
};

/* Keys of one memory for all rails: a region for each other device. */
static void stream_keys(struct tool *t, struct tool_stream *s)
{
    uint32_t mine[MT_RAILS] = {0}, theirs[MT_RAILS];
    for (uint32_t r = 0; r < s->rails; r++) {
        const struct mt_fabric_mr *mr = s->data.mr;
        if (t->rails.rails[r].pd != t->rails.rails[0].pd) {
            tool_check(mt_fabric_mr_register(
                           t->rails.rails[r].pd, s->data.at, s->data.bytes,
                           MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE,
                           &s->mrs[r]),
                       "registering memory");
            mr = s->mrs[r];
        }
        s->from.lkeys[r] = mr->lkey;
        mine[r] = mr->rkey;
    }
    tool_swap(t, mine, theirs, sizeof(mine));
    memcpy(s->to.rkeys, theirs, sizeof(theirs));
    s->from.address = s->data.at;
    s->to.address = s->data.remote_at + s->data.bytes / 2;
}

static void stream_rail(struct tool *t, struct tool_stream *s, uint32_t r)
{
    const struct mt_rail *rail = &t->rails.rails[r];
    struct mt_fabric_qp_options q = tool_rc_options(rail, 2 * TOOL_WINDOW);
    struct mt_put_options o = {.how = mt_put_choose(rail->caps),
                               .pd = rail->pd,
                               .depth = q.send_depth,
                               .inline_bytes = q.inline_bytes,
                               .window = TOOL_WINDOW};
    tool_memory_open(t, rail, 4096, &s->flags[r]);
    tool_check(mt_fabric_qp_create(rail->pd, &q, &s->qps[r]), "a queue pair");
    o.qp = s->qps[r];
    o.flag_address = s->flags[r].remote_at;
    o.flag_rkey = s->flags[r].remote_rkey;
    tool_check(mt_put_open(&s->out.puts[r], &o), "puts");
    tool_check(
        mt_put_target_open(&s->in.targets[r], &o, (const void *)s->flags[r].at),
        "puts");
    tool_join_qp(t, s->qps[r]);
}

void tool_stream_open(struct tool *t, uint32_t rails, uint64_t bytes,
                      uint64_t threshold, struct tool_stream *s)
{
    const struct mt_rail *first = &t->rails.rails[0];
    struct mt_fabric_qp_options q = tool_rc_options(first, 4 * CONTROL_WINDOW);
    memset(s, 0, sizeof(*s));
    s->rails = s->out.rails = s->in.rails = rails;
    s->out.threshold = s->in.threshold = threshold;
    tool_data_open(t, first, 2 * ((bytes + 4095) / 4096 * 4096), &s->data);
    stream_keys(t, s);
    tool_check(mt_fabric_qp_create(first->pd, &q, &s->control), "a queue pair");
    struct mt_credits_options o = {.pd = first->pd,
                                   .qp = s->control,
                                   .window = CONTROL_WINDOW,
                                   .peer_window = CONTROL_WINDOW,
                                   .bytes = sizeof(struct tool_ack)};
    tool_check(mt_credits_open(&s->credits, &o), "acknowledgements");
    tool_join_qp(t, s->control);
    for (uint32_t r = 0; r < rails; r++) {
        stream_rail(t, s, r);
    }
}

void tool_stream_close(struct tool *t, struct tool_stream *s)
{
    tool_meet(t);
    for (uint32_t r = 0; r < s->rails; r++) {
        tool_check(mt_fabric_qp_destroy(s->qps[r]), "ending a stream");
        mt_put_close(&s->out.puts[r]);
        mt_put_target_close(&s->in.targets[r]);
        tool_memory_close(&s->flags[r]);
        if (s->mrs[r] != NULL) {
            tool_check(mt_fabric_mr_destroy(s->mrs[r]), "ending a stream");
        }
    }
    tool_check(mt_fabric_qp_destroy(s->control), "ending a stream");
    tool_drain(t);
    mt_credits_close(&s->credits);
    tool_memory_close(&s->data);
}

static void stream_mail(struct tool_stream *s,
                        const struct mt_fabric_completion *c)
{
    struct mt_credits_message m;
    struct tool_ack ack;
    enum mt_status status = mt_credits_received(&s->credits, c, &m);
    if (status == MT_EAGAIN) {
        return;
    }
    tool_check(status, "an acknowledgement");
    if (m.count != sizeof(ack)) {
        tool_fail("an acknowledgement of %u bytes", m.count);
    }
    memcpy(&ack, m.bytes, sizeof(ack));
    s->acknowledged = ack.seen;
    for (uint32_t r = 0; r < s->rails; r++) {
        mt_put_allow(&s->out.puts[r], ack.allows[r]);
    }
    tool_check(mt_credits_release(&s->credits, &m), "an acknowledgement");
}

static void stream_completed(struct tool_stream *s,
                             const struct mt_fabric_completion *c)
{
    uint32_t r = 0;
    switch (mt_path_kind(c->id)) {
    case MT_PATH_PUT:
    case MT_PATH_PUT_DATA: mt_stripe_done(c); break;
    case MT_PATH_NOTICE:
        while (r + 1 < s->rails && mt_fabric_qp_number(s->qps[r]) != c->qp) {
            r++;
        }
        tool_check(mt_put_target_noticed(&s->in.targets[r], c), "a notice");
        break;
    case MT_PATH_MESSAGE:
        tool_check(mt_credits_sent(&s->credits, c), "an acknowledgement");
        break;
    default: stream_mail(s, c);
    }
}

static void stream_progress(struct tool *t, struct tool_stream *s)
{
    struct mt_fabric_completion c[16];
    for (uint32_t r = 0; r < s->rails; r++) {
        struct mt_fabric_cq *cqs[2] = {t->rails.rails[r].send_cq,
                                       t->rails.rails[r].receive_cq};
        for (int q = 0; q < 2; q++) {
            uint32_t n = tool_poll(cqs[q], c, 16);
            for (uint32_t i = 0; i < n; i++) {
                stream_completed(s, &c[i]);
            }
        }
    }
    enum mt_status status = mt_stripe_flush(&s->out);
    tool_check(status == MT_EAGAIN ? MT_OK : status, "a notice");
    mt_credits_flush(&s->credits);
}

/* Tells how far this side has come; what finds no credit is told later. */
static void stream_acknowledge(struct tool_stream *s)
{
    struct tool_ack ack = {.seen = s->seen};
    for (uint32_t r = 0; r < s->rails; r++) {
        ack.allows[r] = mt_put_target_allows(&s->in.targets[r]);
    }
    enum mt_status status = mt_credits_send(&s->credits, &ack, sizeof(ack));
    tool_check(status == MT_EAGAIN ? MT_OK : status, "an acknowledgement");
    s->told = status == MT_OK ? s->seen : s->told;
}

/* One direction of a run, as far as it has come. */
struct stream_run {
    uint64_t bytes, first, last; /* messages to send: first..last-1 */
    uint64_t sent;
    bool half;      /* message sent was begun and not posted whole */
    uint64_t until; /* messages to come */
    bool expecting;
    struct mt_stripe_arrival arrival;
};

static void stream_send(struct tool_stream *s, struct stream_run *run)
{
    struct mt_stripe_message *m = &s->messages[run->sent % TOOL_WINDOW];
    if (!run->half &&
        (m->pending > 0 || run->sent - s->acknowledged >= TOOL_WINDOW)) {
        return;
    }
    enum mt_status status =
        run->half ? mt_stripe_continue(&s->out, m, &s->from, &s->to)
                  : mt_stripe_put(&s->out, m, &s->from, &s->to, run->bytes);
    run->half = status == MT_EAGAIN;
    run->sent += status == MT_OK;
    tool_check(run->half ? MT_OK : status, "a message");
}

static void stream_look(struct tool_stream *s, struct stream_run *run)
{
    if (!run->expecting) {
        mt_stripe_expect(&s->in, run->bytes, &run->arrival);
        run->expecting = true;
    }
    if (mt_stripe_test(&s->in, &run->arrival)) {
        run->expecting = false;
        s->seen++;
    }
}

/* Sends up to message last, and waits for those up to until. */
static void stream_go(struct tool *t, struct tool_stream *s,
                      struct stream_run *run)
{
    struct tool_wait w = {0};
    uint32_t turn = 0;
    while (run->sent < run->last || s->seen < run->until) {
        uint64_t before = run->sent + s->seen;
        if (run->sent < run->last) {
            stream_send(s, run);
        }
        if (s->seen < run->until) {
            stream_look(s, run);
        }
        if (s->seen - s->told >= TOOL_BATCH) {
            stream_acknowledge(s);
        }
        bool moved = run->sent + s->seen != before;
        if (!moved || ++turn % 8 == 0) {
            stream_progress(t, s);
        }
        if (moved) {
            w = (struct tool_wait){0};
        } else {
            tool_wait(t, &w, "messages");
        }
    }
}

/* Until both know that everything came. */
static void stream_settle(struct tool *t, struct tool_stream *s,
                          const struct stream_run *run)
{
    struct tool_wait w = {0};
    while (s->acknowledged < run->last || s->told < s->seen) {
        if (s->told < s->seen) {
            stream_acknowledge(s);
        }
        stream_progress(t, s);
        tool_wait(t, &w, "the last acknowledgement");
    }
    for (uint32_t i = 0; i < TOOL_WINDOW; i++) {
        while (s->messages[i].pending > 0) {
            stream_progress(t, s);
            tool_wait(t, &w, "the last completion");
        }
        tool_check(s->messages[i].status, "a message");
    }
}

double tool_stream_run(struct tool *t, struct tool_stream *s,
                       enum tool_traffic traffic, uint64_t bytes,
                       uint64_t count)
{
    bool sends = traffic != TOOL_UNI || t->rank == 0;
    bool receives = traffic != TOOL_UNI || t->rank == 1;
    struct stream_run run = {.bytes = bytes,
                             .first = s->out.messages,
                             .last = s->out.messages,
                             .sent = s->out.messages,
                             .until = s->seen};
    tool_fill(s->data.at, bytes, bytes + t->rank);
    memset(s->data.at + s->data.bytes / 2, 0, bytes);
    tool_meet(t);
    uint64_t began = tool_now_ns();
    if (traffic == TOOL_BI) {
        for (uint64_t i = 0; i < count; i++) {
            run.last += t->rank == 0; /* rank 0 begins, rank 1 answers */
            run.until += t->rank == 1;
            stream_go(t, s, &run);
            run.last += t->rank == 1;
            run.until += t->rank == 0;
            stream_go(t, s, &run);
        }
    } else {
        run.last += sends ? count : 0;
        run.until += receives ? count : 0;
        stream_go(t, s, &run);
    }
    if (traffic == TOOL_BI) {
        uint64_t ended = tool_now_ns();
        stream_settle(t, s, &run);
        began += tool_now_ns() - ended;
    } else {
        stream_settle(t, s, &run);
    }
    double seconds = (double)(tool_now_ns() - began) / 1e9;
    if (receives) {
        tool_verify(s->data.at + s->data.bytes / 2, bytes,
                    bytes + (1 - t->rank), "a message");
    }
    return (double)bytes * (double)count * (traffic == TOOL_UNI ? 1 : 2) /
           seconds;
}
