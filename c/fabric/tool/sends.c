/* sends.c: messages by SEND and receive over RC or UD, and what of them came.
 *
 * Messages have numbers; where each has a place of its own the number is its
 * first word. RC brings them in order. A datagram may be lost: later ones go on
 * without it, and if nothing comes any more its sender says that it is not to be
 * waited for. What was seen is told over an RC queue pair beside. */
#include "tool.h"

#include <string.h>

enum {
    WINDOW = 64,          /* messages on their way */
    LONG_BYTES = 8 << 10, /* of RC: longer ones all lie in one place */
    UD_BYTES = 128 << 10, /* of datagrams on their way: a socket's buffer */
    UD_LEAST = 2,
    STALL_MS = 50, /* for a datagram that was not lost */
    CONTROL_WINDOW = 16,
};

/* What a side tells: it has seen the messages before the first number, and
 * those before the second will not come any more. */
struct word {
    uint64_t seen, skipped;
};

static char *place(const struct tool_sends *s, bool in, uint64_t number)
{
    return s->data.at + (in ? s->data.bytes / 2 : 0) +
           number % s->slots * s->slot_bytes;
}

static bool numbered(const struct tool_sends *s)
{
    return s->slots > 1;
}

static void post_receive(struct tool *t, struct tool_sends *s, uint64_t slot)
{
    struct mt_fabric_piece piece = {place(s, true, slot),
                                    (uint32_t)(s->headroom + s->bytes),
                                    s->data.mr->lkey};
    struct mt_fabric_receive work = {
        .id = slot, .piece_count = 1, .pieces = &piece};
    struct tool_wait w = {0};
    enum mt_status status;
    while ((status = mt_fabric_post_receive(s->qp, &work)) == MT_EAGAIN) {
        tool_wait(t, &w, "room for a receive");
    }
    tool_check(status, "posting a receive");
}

/* false: there is no room now. */
static bool post(struct tool_sends *s, uint64_t number)
{
    struct mt_fabric_piece piece = {place(s, false, number), (uint32_t)s->bytes,
                                    s->data.mr->lkey};
    struct mt_fabric_send work = {
        .opcode = MT_FABRIC_SEND,
        .flags = MT_FABRIC_SIGNALED |
                 (s->inlines ? (uint32_t)MT_FABRIC_INLINE : 0),
        .piece_count = 1,
        .pieces = &piece,
        .ah = s->ah};
    if (numbered(s)) {
        memcpy(piece.address, &number, sizeof(number));
    }
    enum mt_status status = mt_fabric_post_send(s->qp, &work);
    s->posted += status == MT_OK;
    tool_check(status == MT_EAGAIN ? MT_OK : status, "sending");
    return status == MT_OK;
}

/* ---- completions ---- */

static void received(struct tool *t, struct tool_sends *s,
                     const struct mt_fabric_completion *c)
{
    uint64_t number = s->seen;
    if (numbered(s)) {
        memcpy(&number, place(s, true, c->id) + s->headroom, sizeof(number));
    }
    if (c->bytes != s->headroom + s->bytes ||
        (s->transport == MT_FABRIC_RC && number != s->seen)) {
        tool_fail("WRONG DATA: %u bytes as message %llu", c->bytes,
                  (unsigned long long)number);
    }
    s->last_slot = c->id;
    post_receive(t, s, c->id);
    if (number >= s->first) { /* not of an earlier run */
        s->came += number >= s->seen;
        s->again = s->again || number < s->seen;
        s->seen = number >= s->seen ? number + 1 : s->seen;
    }
}

static void told(struct tool_sends *s, const struct mt_fabric_completion *c)
{
    struct mt_credits_message m;
    struct word word;
    enum mt_status status = mt_credits_received(&s->credits, c, &m);
    if (status == MT_EAGAIN) {
        return;
    }
    tool_check(status, "an acknowledgement");
    if (m.count != sizeof(word)) {
        tool_fail("an acknowledgement of %u bytes", m.count);
    }
    memcpy(&word, m.bytes, sizeof(word));
    tool_check(mt_credits_release(&s->credits, &m), "an acknowledgement");
    if (word.seen > s->acknowledged) {
        s->acknowledged = word.seen;
    }
    if (word.skipped > s->seen) {
        s->seen = word.skipped;
    }
}

/* Completions of one queue; whether there were any. */
static bool completed(struct tool *t, struct tool_sends *s,
                      struct mt_fabric_cq *cq)
{
    struct mt_fabric_completion c[16];
    uint32_t n = tool_poll(cq, c, 16);
    for (uint32_t i = 0; i < n; i++) {
        switch (mt_path_kind(c[i].id)) {
        case MT_PATH_MESSAGE:
            tool_check(mt_credits_sent(&s->credits, &c[i]),
                       "an acknowledgement");
            break;
        case MT_PATH_MAIL: told(s, &c[i]); break;
        default:
            if (c[i].opcode == MT_FABRIC_RECEIVE) {
                received(t, s, &c[i]);
            } else {
                s->posted--;
            }
        }
    }
    return n > 0;
}

static void tell(struct tool_sends *s)
{
    struct word word = {s->seen, s->skipped};
    enum mt_status status = mt_credits_send(&s->credits, &word, sizeof(word));
    tool_check(status == MT_EAGAIN ? MT_OK : status, "an acknowledgement");
    if (status == MT_OK) {
        s->told = word.seen;
        s->told_skipped = word.skipped;
    }
}

static bool progress(struct tool *t, struct tool_sends *s)
{
    bool moved = completed(t, s, s->rail->send_cq);
    moved = completed(t, s, s->rail->receive_cq) || moved;
    mt_credits_flush(&s->credits);
    return moved;
}

/* ---- runs ---- */

/* Whether nothing has moved for so long that a datagram must be lost. idle_ns:
 * since when, 0: it has just moved. */
static bool stalled(const struct tool_sends *s, struct tool_wait *w,
                    uint64_t *idle_ns)
{
    if (s->transport == MT_FABRIC_RC || w->turns % 1024 != 0) {
        return false;
    }
    uint64_t now = tool_now_ns();
    *idle_ns = *idle_ns > 0 ? *idle_ns : now;
    if (now - *idle_ns < STALL_MS * UINT64_C(1000000)) {
        return false;
    }
    *idle_ns = now;
    return true;
}

/* Sends messages up to last, in a window, and sees those up to until. */
static void go(struct tool *t, struct tool_sends *s, uint64_t last,
               uint64_t until)
{
    struct tool_wait w = {0};
    uint64_t idle_ns = 0;
    while (s->acknowledged < last || s->told < until || s->posted > 0) {
        bool moved = false;
        while (s->sent < last && s->sent - s->acknowledged < s->window &&
               s->posted < s->window && post(s, s->sent)) {
            s->sent++;
            moved = true;
        }
        if (s->seen - s->told >= s->window / 2 ||
            (s->seen == until && s->told < until) ||
            s->skipped > s->told_skipped) {
            tell(s);
        }
        moved = progress(t, s) || moved;
        if (moved) {
            w = (struct tool_wait){0};
            idle_ns = 0;
        } else {
            tool_wait(t, &w, "messages");
            if (stalled(s, &w, &idle_ns)) {
                s->skipped = s->sent;
            }
        }
    }
}

static void post_surely(struct tool *t, struct tool_sends *s, uint64_t number)
{
    struct tool_wait w = {0};
    while (s->posted >= s->slots || !post(s, number)) {
        completed(t, s, s->rail->send_cq);
        tool_wait(t, &w, "room for a message");
    }
}

/* Until message number has come, while rank 0 asks again, and rank 1 answers
 * again. */
static void await(struct tool *t, struct tool_sends *s, uint64_t number)
{
    struct tool_wait w = {0};
    uint64_t idle_ns = 0;
    while (s->seen <= number) {
        if (!completed(t, s, s->rail->receive_cq)) {
            tool_wait(t, &w, "a message");
            if (stalled(s, &w, &idle_ns) && t->rank == 0) {
                post_surely(t, s, number);
            }
        }
        if (s->again && t->rank == 1) {
            post_surely(t, s, s->seen - 1);
        }
        s->again = false;
    }
}

/* Rank 0 begins, rank 1 answers. */
static void there_and_back(struct tool *t, struct tool_sends *s, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++, s->sent++) {
        if (t->rank == 0) {
            post_surely(t, s, s->sent);
            await(t, s, s->sent);
        } else {
            await(t, s, s->sent);
            post_surely(t, s, s->sent);
        }
        completed(t, s, s->rail->send_cq);
    }
}

/* Until both know that the last answer came. */
static void settle(struct tool *t, struct tool_sends *s)
{
    struct tool_wait w = {0};
    while (s->acknowledged < s->sent || s->told < s->seen || s->posted > 0) {
        if (s->told < s->seen) {
            tell(s);
        }
        if (s->again && t->rank == 1) {
            post_surely(t, s, s->seen - 1);
        }
        s->again = false;
        progress(t, s);
        tool_wait(t, &w, "the last acknowledgement");
    }
}

struct tool_sent tool_sends_run(struct tool *t, struct tool_sends *s,
                                enum tool_traffic traffic, uint64_t count)
{
    bool sends = traffic != TOOL_UNI || t->rank == 0;
    bool receives = traffic != TOOL_UNI || t->rank == 1;
    uint64_t stamp = numbered(s) ? sizeof(uint64_t) : 0, theirs;
    struct tool_sent sent = {.expected = count};
    sent.expected *= traffic == TOOL_UNI ? 1 : 2;
    /* numbers that no earlier run had */
    s->first += UINT64_C(1) << 32;
    s->sent = s->acknowledged = s->seen = s->told = s->first;
    s->skipped = s->told_skipped = s->first;
    s->came = 0;
    s->again = false;
    for (uint32_t i = 0; i < s->slots; i++) {
        tool_fill(place(s, false, i) + stamp, s->bytes - stamp,
                  s->bytes + t->rank);
        memset(place(s, true, i), 0, s->slot_bytes);
    }
    tool_meet(t);
    uint64_t began = tool_now_ns();
    if (traffic == TOOL_BI) {
        there_and_back(t, s, count);
        sent.seconds = (double)(tool_now_ns() - began) / 1e9;
        settle(t, s);
    } else {
        go(t, s, s->first + (sends ? count : 0),
           s->first + (receives ? count : 0));
        sent.seconds = (double)(tool_now_ns() - began) / 1e9;
    }
    if (s->came > 0) {
        tool_verify(place(s, true, s->last_slot) + s->headroom + stamp,
                    s->bytes - stamp, s->bytes + 1 - t->rank, "a message");
    }
    tool_swap(t, &s->came, &theirs, sizeof(theirs));
    sent.came = s->came + theirs;
    return sent;
}

/* ---- beginning and end ---- */

static void join_datagrams(struct tool *t, struct tool_sends *s)
{
    struct mt_fabric_address mine, theirs;
    tool_check(mt_fabric_qp_address(s->qp, &mine), "an address");
    tool_swap(t, &mine, &theirs, sizeof(mine));
    tool_check(mt_fabric_qp_connect(s->qp, NULL), "beginning with datagrams");
    tool_check(mt_fabric_ah_create(s->rail->pd, &theirs, &s->ah), "an address");
    tool_meet(t);
}

static void open_control(struct tool *t, struct tool_sends *s)
{
    struct mt_fabric_qp_options q =
        tool_rc_options(s->rail, 4 * CONTROL_WINDOW);
    tool_check(mt_fabric_qp_create(s->rail->pd, &q, &s->control),
               "a queue pair");
    struct mt_credits_options o = {.pd = s->rail->pd,
                                   .qp = s->control,
                                   .window = CONTROL_WINDOW,
                                   .peer_window = CONTROL_WINDOW,
                                   .bytes = sizeof(struct word)};
    tool_check(mt_credits_open(&s->credits, &o), "acknowledgements");
    tool_join_qp(t, s->control);
}

void tool_sends_open(struct tool *t, enum mt_fabric_transport transport,
                     uint64_t bytes, struct tool_sends *s)
{
    const struct mt_rail *rail = &t->rails.rails[0];
    struct mt_fabric_qp_options q = tool_rc_options(rail, WINDOW);
    bool ud = transport == MT_FABRIC_UD;
    uint64_t window = ud ? UD_BYTES / bytes : WINDOW;
    window = window < UD_LEAST ? UD_LEAST : window;
    *s = (struct tool_sends){.transport = transport,
                             .rail = rail,
                             .bytes = bytes,
                             .headroom = ud ? rail->caps->ud_headroom : 0,
                             .inlines = bytes <= q.inline_bytes};
    q.transport = transport;
    s->window = window < q.receive_depth ? (uint32_t)window : q.receive_depth;
    bool numbers = ud || (bytes >= sizeof(uint64_t) && bytes <= LONG_BYTES);
    s->slots = numbers ? s->window : 1;
    s->slot_bytes = (s->headroom + bytes + 63) / 64 * 64;
    tool_data_open(t, rail,
                   2 * ((s->slots * s->slot_bytes + 4095) / 4096 * 4096),
                   &s->data);
    open_control(t, s);
    tool_check(mt_fabric_qp_create(rail->pd, &q, &s->qp), "a queue pair");
    for (uint32_t i = 0; i < s->window; i++) {
        post_receive(t, s, i);
    }
    if (ud) {
        join_datagrams(t, s);
    } else {
        tool_join_qp(t, s->qp);
    }
}

void tool_sends_close(struct tool *t, struct tool_sends *s)
{
    tool_meet(t);
    tool_check(mt_fabric_qp_destroy(s->qp), "ending");
    tool_check(mt_fabric_qp_destroy(s->control), "ending");
    if (s->ah != NULL) {
        tool_check(mt_fabric_ah_destroy(s->ah), "ending");
    }
    tool_drain(t);
    mt_credits_close(&s->credits);
    tool_memory_close(&s->data);
}
