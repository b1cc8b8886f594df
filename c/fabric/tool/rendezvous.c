/* rendezvous.c: the end of a rendezvous by READ (Sur and others, PPoPP 2006,
 * RGET). Rank 0 announces a message (RTS); rank 1 READs it and tells rank 0
 * that it has it (FIN), in one of two ways: it posts the FIN when it has polled
 * the completion of the READ; or right behind the READ with the FENCE flag, and
 * the provider sends it when the READ is done, whatever rank 1 does. */
#include "tool.h"

#include <sched.h>
#include <string.h>

static const uint64_t sizes[] = {16384, 131072, 1048576};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

enum way { AFTER, FENCED, WAYS };

enum {
    BATCHES = 31, /* of each way, in turn */
    RECEIVES = 8, /* of the words that the two exchange; 2 come at most */
    SLOT = 64,
};

/* What the two tell each other, with the number of a message. */
enum word { READY = 1, RTS, FIN };

struct rendezvous {
    const struct mt_rail *rail;
    struct mt_fabric_qp *qp;
    struct tool_memory data;  /* the message: of rank 0, or READ by rank 1 */
    struct tool_memory words; /* RECEIVES slots, and one to send from */
    uint64_t bytes;
    uint64_t next; /* number of a message */
    uint32_t inlines; /* MT_FABRIC_INLINE if words are short enough for it */
};

static uint64_t iterations(const struct tool *t, uint64_t bytes)
{
    uint64_t n = (UINT64_C(1) << 27) / (bytes + (64 << 10));
    return t->config.iterations > 0 ? t->config.iterations : n;
}

/* ---- words ---- */

static void post(struct tool *t, const struct rendezvous *r,
                 const struct mt_fabric_send *work)
{
    struct tool_wait w = {0};
    enum mt_status status;
    while ((status = mt_fabric_post_send(r->qp, work)) == MT_EAGAIN) {
        mt_fabric_poll(r->rail->send_cq, NULL, 0);
        tool_wait(t, &w, "room for a message");
    }
    tool_check(status, "posting");
}

static void post_receive(struct tool *t, const struct rendezvous *r,
                         uint64_t slot)
{
    struct mt_fabric_piece piece = {r->words.at + slot * SLOT, sizeof(uint64_t),
                                    r->words.mr->lkey};
    struct mt_fabric_receive work = {
        .id = slot, .piece_count = 1, .pieces = &piece};
    struct tool_wait w = {0};
    enum mt_status status;
    while ((status = mt_fabric_post_receive(r->qp, &work)) == MT_EAGAIN) {
        tool_wait(t, &w, "room for a receive");
    }
    tool_check(status, "posting a receive");
}

static uint64_t word_of(enum word word, uint64_t number)
{
    return number << 2 | (uint64_t)word;
}

/* The caller waits for its completion: there is one slot to send from. */
static void tell(struct tool *t, const struct rendezvous *r, enum word word,
                 uint64_t number, uint32_t flags)
{
    uint64_t value = word_of(word, number);
    struct mt_fabric_piece piece = {r->words.at + RECEIVES * SLOT,
                                    sizeof(value), r->words.mr->lkey};
    struct mt_fabric_send work = {.id = number,
                                  .opcode = MT_FABRIC_SEND,
                                  .flags =
                                      MT_FABRIC_SIGNALED | r->inlines | flags,
                                  .piece_count = 1,
                                  .pieces = &piece};
    memcpy(piece.address, &value, sizeof(value));
    post(t, r, &work);
}

static void hear(struct tool *t, const struct rendezvous *r, enum word word,
                 uint64_t number, const char *what)
{
    struct mt_fabric_completion c;
    struct tool_wait w = {0};
    uint64_t value;
    while (tool_poll(r->rail->receive_cq, &c, 1) == 0) {
        /* where processors are few, this one is the engine threads' as well */
        if (t->rank == 0 && t->o.engine == MT_FABRIC_ENGINE_THREAD) {
            sched_yield();
        }
        tool_wait(t, &w, what);
    }
    memcpy(&value, r->words.at + c.id * SLOT, sizeof(value));
    if (c.bytes != sizeof(value) || value != word_of(word, number)) {
        tool_fail("WRONG DATA: not %s of message %llu", what,
                  (unsigned long long)number);
    }
    post_receive(t, r, c.id);
}

/* ---- a message ---- */

/* From RTS to FIN, ns. Then the memory is rank 0's again: it changes at once,
 * so that rank 1 sees it if a FIN came too early. */
static uint64_t announce(struct tool *t, const struct rendezvous *r)
{
    hear(t, r, READY, r->next, "word that the receiver is ready");
    uint64_t began = tool_now_ns();
    tell(t, r, RTS, r->next, 0);
    hear(t, r, FIN, r->next, "a FIN");
    uint64_t ended = tool_now_ns();
    tool_stamp(r->data.at, r->bytes, r->next + 1);
    tool_next(t, r->rail->send_cq, "an RTS to complete");
    return ended - began;
}

static void compute(uint64_t ns)
{
    uint64_t until = tool_now_ns() + ns;
    while (tool_now_ns() < until) {
    }
}

static void fetch(struct tool *t, const struct rendezvous *r, enum way way,
                  uint64_t compute_ns)
{
    struct mt_fabric_piece piece = {r->data.at, (uint32_t)r->bytes,
                                    r->data.mr->lkey};
    struct mt_fabric_send read = {.id = r->next,
                                  .opcode = MT_FABRIC_READ,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &piece,
                                  .remote_address = r->data.remote_at,
                                  .rkey = r->data.remote_rkey};
    tell(t, r, READY, r->next, 0);
    tool_next(t, r->rail->send_cq, "a word to complete");
    hear(t, r, RTS, r->next, "an RTS");
    post(t, r, &read);
    if (way == FENCED) {
        tell(t, r, FIN, r->next, MT_FABRIC_FENCE);
    }
    if (compute_ns > 0) {
        compute(compute_ns);
    }
    tool_next(t, r->rail->send_cq, "a READ to complete");
    if (way == AFTER) {
        tell(t, r, FIN, r->next, 0);
    }
    tool_stamped(r->data.at, r->bytes, r->next);
    tool_next(t, r->rail->send_cq, "a FIN to complete");
}

/* ---- batches ---- */

/* Between the two stamps. */
static char *body(const struct rendezvous *r)
{
    return r->data.at + sizeof(uint64_t);
}

static uint64_t body_bytes(const struct rendezvous *r)
{
    uint64_t stamps = 2 * sizeof(uint64_t);
    return r->bytes > stamps ? r->bytes - stamps : 0;
}

/* From RTS to FIN in us, as rank 0 sees it. */
static double run(struct tool *t, struct rendezvous *r, enum way way,
                  uint64_t compute_ns, uint64_t count)
{
    uint64_t spent = 0;
    if (t->rank == 1) {
        memset(r->data.at, 0, r->bytes);
    }
    tool_meet(t);
    for (uint64_t i = 0; i < count; i++, r->next++) {
        if (t->rank == 0) {
            spent += announce(t, r);
        } else {
            fetch(t, r, way, compute_ns);
        }
    }
    if (t->rank == 1) {
        tool_verify(body(r), body_bytes(r), r->bytes, "a message");
    }
    return (double)spent / 1e3 / (double)count;
}

/* A row, and what the FIN that was posted after the READ took, in us. */
static double measure(struct tool *t, struct rendezvous *r, double compute_us,
                      uint64_t count)
{
    uint64_t compute_ns = (uint64_t)(compute_us * 1e3);
    double us[WAYS][BATCHES], median[WAYS];
    uint64_t each = count / BATCHES + 1;
    for (int way = 0; way < WAYS; way++) { /* warms up */
        run(t, r, (enum way)way, compute_ns, each);
    }
    for (int b = 0; b < BATCHES; b++) {
        for (int way = 0; way < WAYS; way++) {
            us[way][b] = run(t, r, (enum way)way, compute_ns, each);
        }
    }
    for (int way = 0; way < WAYS; way++) {
        median[way] = tool_median(us[way], BATCHES);
    }
    const struct tool_cell cells[] = {
        {compute_ns > 0 ? "computes" : "polls", 0},
        {NULL, (double)r->bytes},
        {NULL, (double)(BATCHES * each)},
        {NULL, compute_us},
        {NULL, median[AFTER]},
        {NULL, us[AFTER][0]},
        {NULL, median[FENCED]},
        {NULL, us[FENCED][0]},
        {NULL, median[FENCED] / median[AFTER]}};
    tool_row(t, cells);
    return median[AFTER];
}

/* ---- beginning and end ---- */

static void open_rendezvous(struct tool *t, struct rendezvous *r,
                            uint64_t bytes)
{
    const struct mt_rail *rail = &t->rails.rails[0];
    struct mt_fabric_qp_options q = tool_rc_options(rail, 2 * RECEIVES);
    bool short_enough = sizeof(uint64_t) <= q.inline_bytes;
    *r = (struct rendezvous){
        .rail = rail,
        .bytes = bytes,
        .next = 1,
        .inlines = short_enough ? (uint32_t)MT_FABRIC_INLINE : 0};
    q.reads = 1;
    tool_data_open(t, rail, (bytes + 4095) / 4096 * 4096, &r->data);
    tool_memory_open(t, rail, 4096, &r->words);
    tool_check(mt_fabric_qp_create(rail->pd, &q, &r->qp), "a queue pair");
    for (uint64_t i = 0; i < RECEIVES; i++) {
        post_receive(t, r, i);
    }
    if (t->rank == 0) {
        tool_fill(body(r), body_bytes(r), bytes);
        tool_stamp(r->data.at, bytes, r->next);
    }
    tool_join_qp(t, r->qp);
}

static void close_rendezvous(struct tool *t, struct rendezvous *r)
{
    tool_meet(t);
    tool_check(mt_fabric_qp_destroy(r->qp), "ending");
    tool_drain(t);
    tool_memory_close(&r->data);
    tool_memory_close(&r->words);
}

/* Rank 1 polls all the time; then it computes for twice what a message took,
 * and looks at the transport only after that. */
void tool_rendezvous(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"receiver", "receiver", -1},
        {"bytes", "bytes", 0},
        {"iterations", "iterations", 0},
        {"compute_us", "compute us", 3},
        {"after_us", "FIN after us", 3},
        {"after_least_us", "least us", 3},
        {"fenced_us", "fenced us", 3},
        {"fenced_least_us", "least us", 3},
        {"fenced_to_after", "fenced/after", 3},
        {NULL, NULL, 0}};
    const struct mt_rail *rail = &t->rails.rails[0];
    uint64_t bytes;
    if ((rail->caps->rc_operations & MT_FABRIC_READ) == 0) {
        tool_fail("%s has no READ", rail->name);
    }
    tool_table_begin(t, columns);
    for (uint32_t i = 0; (bytes = tool_size(t, i, sizes, SIZES)) > 0; i++) {
        struct rendezvous r;
        uint64_t n = iterations(t, bytes);
        double us[2]; /* of this rank, of the other */
        open_rendezvous(t, &r, bytes);
        us[0] = measure(t, &r, 0, n);
        tool_swap(t, &us[0], &us[1], sizeof(us[0]));
        measure(t, &r, 2 * us[t->rank], n);
        close_rendezvous(t, &r);
    }
    tool_table_end(t);
}
