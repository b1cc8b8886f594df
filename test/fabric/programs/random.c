/* random.c: a random stream of operations against a model. Both sides know from
 * the seed what is posted where: over a connection with receives of its own, over
 * some that share receives, and as datagrams; inline or not, with a completion or
 * without. After each round all memory is compared byte by byte with an image of
 * what it must be. */
#include "harness.h"

enum {
    ROUND = 60,       /* operations until memories are compared */
    ROOM = 5 << 16,   /* bytes that the operations of a round share */
    SHORT = 3000,     /* longest message for a shared receive */
    LONG = 70000,     /* longest of all: more than a segment of iWARP */
    SLACK = 64,       /* between places */
    SLOT = 4096,      /* at least for each operation of a round */
    /* the first has receives of its own; more than iwarp looks at in each round */
    CONNECTIONS = 7,
    QPS = CONNECTIONS + 1,
    UD = CONNECTIONS, /* the queue pair for datagrams, the last */
    UD_SLOTS = 64,    /* receives that are always posted, more than a round sends */
    UD_MOST = 1000,
    QUIET = 3,        /* sends in a row without a completion, below send_depth */
    DEPTH = 8,
};

/* An operation, the same on both sides. */
struct plan {
    enum mt_fabric_opcode opcode;
    int from; /* the rank that posts it */
    int qp;
    int window; /* of the target: WRITE, READ */
    uint32_t pieces;
    uint32_t flags;
    size_t bytes;
    size_t at; /* in every memory it uses; set when the round is laid out */
    uint64_t seed;
};

/* Memory, and what it must be. */
struct area {
    struct mt_fabric_mr *mr;
    uint8_t *image;
    const char *name;
};

struct world {
    struct mt_fabric_qp *qps[QPS];
    struct mt_fabric_srq *srq;
    struct mt_fabric_ah *ah;
    uint32_t qp_count;
    struct area out;       /* what is sent and written from, read into */
    struct area windows[2]; /* what the other names: registered, allocated */
    struct area in;        /* of receives */
    struct area datagrams; /* of those of UD */
    struct remote there[2];
    struct plan plans[ROUND];
    uint64_t first; /* number of the first of them */
    /* numbers that are to complete, in order, by queue pair */
    uint64_t sends[QPS][ROUND + 1], receives[QPS][ROUND];
    uint32_t send_head[QPS], send_tail[QPS];
    uint32_t receive_head[QPS], receive_tail[QPS];
    uint32_t quiet[QPS]; /* sends without a completion since the last with one */
    uint64_t datagrams_from[2], datagrams_came;
};

static uint32_t ud_bytes(const struct side *s)
{
    return s->caps->ud_payload < UD_MOST ? s->caps->ud_payload : UD_MOST;
}

/* The operation of a number: a datagram tells its number, and so all of this. */
static struct plan plan_of(const struct side *s, const struct world *w,
                           uint64_t id)
{
    static const enum mt_fabric_opcode all[] = {
        MT_FABRIC_SEND, MT_FABRIC_WRITE, MT_FABRIC_WRITE_WITH_IMM,
        MT_FABRIC_READ};
    uint64_t state = mt_hash(s->setting->seed + mt_hash(id)) | 1;
    struct plan p = {0};
    p.from = (int)(random_next(&state) % 2);
    p.qp = (int)(random_next(&state) % w->qp_count);
    do {
        p.opcode = all[random_next(&state) % 4];
    } while ((s->caps->rc_operations & p.opcode) == 0);
    uint64_t kind = random_next(&state) % 32;
    bool shares = p.qp != 0 && (p.opcode == MT_FABRIC_SEND ||
                                p.opcode == MT_FABRIC_WRITE_WITH_IMM);
    p.bytes = random_next(&state) % (kind < 22             ? 100
                                     : kind < 31 || shares ? SHORT
                                                           : LONG);
    if (p.qp == UD) {
        p.opcode = MT_FABRIC_SEND;
        p.bytes = 8 + p.bytes % (ud_bytes(s) - 8);
    }
    p.window = (int)(random_next(&state) % 2);
    p.pieces = 1 + (uint32_t)(random_next(&state) % 4);
    p.pieces = p.pieces < s->caps->max_pieces ? p.pieces : s->caps->max_pieces;
    p.seed = random_next(&state);
    uint64_t flags = random_next(&state);
    p.flags |= flags % 4 == 0 && p.qp != UD ? MT_FABRIC_FENCE : 0;
    p.flags |= flags / 4 % 4 == 0 ? MT_FABRIC_MORE : 0;
    p.flags |= flags / 16 % 2 == 0 ? MT_FABRIC_SIGNALED : 0;
    uint32_t least = s->caps->max_inline < 64 ? s->caps->max_inline : 64;
    if (p.bytes <= least && p.opcode != MT_FABRIC_READ &&
        flags / 32 % 2 == 0) {
        p.flags |= MT_FABRIC_INLINE;
    } else if (p.qp == UD) {
        p.flags |= MT_FABRIC_SIGNALED; /* it tells when the memory is free */
    }
    return p;
}

/* What an operation leaves at its target. */
static void written(const struct plan *p, uint64_t id, uint8_t *to)
{
    fill(to, p->bytes, p->seed);
    if (p->qp == UD) {
        memcpy(to, &id, sizeof(id));
    }
}

static bool takes_receive(const struct plan *p)
{
    return p->opcode == MT_FABRIC_SEND || p->opcode == MT_FABRIC_WRITE_WITH_IMM;
}

/* ---- memory ---- */

static struct area area_of(struct mt_fabric_mr *mr, const char *name)
{
    struct area a = {.mr = mr, .image = calloc(1, mr->bytes), .name = name};
    CHECK(a.image != NULL);
    return a;
}

static void area_close(struct area *a, bool is_allocated)
{
    if (is_allocated) {
        OK(mt_fabric_mr_destroy(a->mr));
    } else {
        release(a->mr);
    }
    free(a->image);
}

/* Bytes at a place of it, and of its image. */
static void area_write(struct area *a, size_t at, const struct plan *p,
                       uint64_t id)
{
    written(p, id, (uint8_t *)a->mr->address + at);
    written(p, id, a->image + at);
}

static void area_compare(const struct side *s, const struct world *w,
                         const struct area *a, size_t from, size_t bytes)
{
    const uint8_t *memory = a->mr->address;
    if (memcmp(memory + from, a->image + from, bytes) == 0) {
        return;
    }
    while (memory[from] == a->image[from]) {
        from++;
    }
    for (uint64_t i = 0; i < ROUND; i++) {
        const struct plan *p = &w->plans[i];
        if (from - p->at < p->bytes + SLACK) {
            fprintf(stderr,
                    "  operation %llu: opcode %d, %zu bytes at %zu, by %d, queue "
                    "pair %d, flags %u\n",
                    (unsigned long long)(w->first + i), (int)p->opcode, p->bytes,
                    p->at, p->from, p->qp, p->flags);
        }
    }
    FAIL("%s: byte %zu is %u, not %u (operations from %llu, seed %llu)", a->name,
         from, memory[from], a->image[from], (unsigned long long)w->first,
         (unsigned long long)s->setting->seed);
}

/* ---- a round ---- */

static void ud_listen(struct side *s, struct world *w, uint64_t slot)
{
    post_receive(s, w->qps[UD], slot,
                 piece(w->datagrams.mr, slot * SLOT,
                       s->caps->ud_headroom + ud_bytes(s)));
}

static void listen_for(struct world *w, const struct plan *p, uint64_t turn)
{
    struct mt_fabric_piece room =
        piece(w->in.mr, p->at, p->bytes + p->seed % SLACK);
    struct mt_fabric_receive work = {
        .id = turn, .piece_count = 1, .pieces = &room};
    if (p->qp == 0 || w->srq == NULL) {
        OK(mt_fabric_post_receive(w->qps[p->qp], &work));
    } else { /* whichever comes takes it */
        room = piece(w->in.mr, ROOM + turn * SLOT, SHORT);
        OK(mt_fabric_post_srq_receive(w->srq, &work));
    }
    w->receives[p->qp][w->receive_tail[p->qp]++] = turn;
}

/* Lays out the round, and makes what it needs: bytes and receives. */
static void prepare(struct side *s, struct world *w)
{
    size_t at = 0;
    memset(w->send_head, 0, sizeof(w->send_head));
    memset(w->send_tail, 0, sizeof(w->send_tail));
    memset(w->receive_head, 0, sizeof(w->receive_head));
    memset(w->receive_tail, 0, sizeof(w->receive_tail));
    for (uint64_t i = 0; i < ROUND; i++) {
        struct plan *p = &w->plans[i];
        *p = plan_of(s, w, w->first + i);
        size_t most = ROOM - at - (ROUND - i - 1) * SLOT - 2 * SLACK;
        p->bytes = p->bytes < most ? p->bytes : most;
        p->at = at + p->seed / SLACK % SLACK;
        at = p->at + p->bytes + SLACK;
        bool mine = p->from == s->rank;
        w->datagrams_from[p->from] += p->qp == UD;
        if (!mine && p->qp != UD && takes_receive(p)) {
            listen_for(w, p, i);
        }
        if (p->opcode == MT_FABRIC_READ && !mine) {
            area_write(&w->windows[p->window], p->at, p, w->first + i);
        } else if (p->opcode != MT_FABRIC_READ && mine &&
                   (p->flags & MT_FABRIC_INLINE) == 0) {
            area_write(&w->out, p->at, p, w->first + i);
        }
    }
}

static void carry_out(struct side *s, struct world *w, struct plan *p,
                      uint64_t id)
{
    uint8_t scratch[64]; /* nobody registered it */
    struct mt_fabric_piece pieces[4];
    bool is_inline = (p->flags & MT_FABRIC_INLINE) != 0;
    uint8_t *from = is_inline ? scratch
                              : (uint8_t *)w->out.mr->address + p->at;
    for (uint32_t i = 0; i < p->pieces; i++) {
        size_t begin = p->bytes * i / p->pieces;
        pieces[i] = (struct mt_fabric_piece){
            from + begin, (uint32_t)(p->bytes * (i + 1) / p->pieces - begin),
            is_inline ? 0 : w->out.mr->lkey};
    }
    if (is_inline) {
        written(p, id, scratch);
    }
    if (w->quiet[p->qp] == QUIET) {
        p->flags |= MT_FABRIC_SIGNALED;
    }
    bool tells = (p->flags & MT_FABRIC_SIGNALED) != 0;
    w->quiet[p->qp] = tells ? 0 : w->quiet[p->qp] + 1;
    if (tells) {
        w->sends[p->qp][w->send_tail[p->qp]++] = id;
    }
    struct mt_fabric_send work = {
        .id = id,
        .opcode = p->opcode,
        .flags = p->flags,
        .immediate = (uint32_t)id,
        .piece_count = p->pieces,
        .pieces = pieces,
        .remote_address = w->there[p->window].address + p->at,
        .rkey = w->there[p->window].rkey,
        .ah = p->qp == UD ? w->ah : NULL};
    post(s, w->qps[p->qp], &work);
    memset(scratch, 0xdd, sizeof(scratch));
}

static int qp_of(const struct world *w, uint32_t number)
{
    for (uint32_t q = 0; q < w->qp_count; q++) {
        if (mt_fabric_qp_number(w->qps[q]) == number) {
            return (int)q;
        }
    }
    FAIL("a completion of queue pair %u", number);
}

/* Whole, from the other side, whenever it was sent, perhaps twice. */
static void take_datagram(struct side *s, struct world *w,
                          const struct mt_fabric_completion *c)
{
    size_t head = s->caps->ud_headroom, at = c->id * SLOT;
    uint64_t id;
    memcpy(&id, (char *)w->datagrams.mr->address + at + head, sizeof(id));
    CHECK(id < w->first + ROUND);
    struct plan p = plan_of(s, w, id);
    EQ(p.qp, UD);
    EQ(p.from, 1 - s->rank);
    EQ(c->bytes, head + p.bytes);
    /* in front of the payload is what the device likes */
    memcpy(w->datagrams.image + at, (char *)w->datagrams.mr->address + at, head);
    written(&p, id, w->datagrams.image + at + head);
    area_compare(s, w, &w->datagrams, at, SLOT);
    w->datagrams_came++;
    ud_listen(s, w, c->id);
}

/* A completion of a receive: those of a queue pair come in the order of what the
 * other side posted. */
static void take_receive(struct side *s, struct world *w,
                         const struct mt_fabric_completion *c)
{
    int q = qp_of(w, c->qp);
    EQ(c->status, MT_OK);
    if (q == UD) {
        take_datagram(s, w, c);
        return;
    }
    CHECK(w->receive_head[q] != w->receive_tail[q]);
    uint64_t turn = w->receives[q][w->receive_head[q]++];
    const struct plan *p = &w->plans[turn];
    bool shares = q != 0 && w->srq != NULL;
    CHECK(shares ? c->id < ROUND : c->id == turn);
    EQ(c->bytes, p->bytes);
    EQ(c->has_immediate, p->opcode == MT_FABRIC_WRITE_WITH_IMM);
    if (c->has_immediate) {
        EQ(c->immediate, (uint32_t)(w->first + turn));
    } else {
        written(p, w->first + turn,
                w->in.image + (shares ? ROOM + c->id * SLOT : p->at));
    }
}

static void take_send(struct side *s, struct world *w)
{
    struct mt_fabric_completion c = next_ok(s, s->send_cq);
    int q = qp_of(w, c.qp);
    uint32_t i = w->send_head[q];
    while (q == UD && i < w->send_tail[q] && w->sends[q][i] != c.id) {
        i++; /* a datagram that was lost may have completed sooner */
    }
    CHECK(i < w->send_tail[q]);
    EQ(c.id, w->sends[q][i]);
    w->sends[q][i] = w->sends[q][w->send_head[q]];
    w->send_head[q]++;
}

static bool all_taken(const uint32_t *heads, const uint32_t *tails)
{
    return memcmp(heads, tails, QPS * sizeof(*heads)) == 0;
}

/* A READ is answered after the WRITEs before it have taken effect; the
 * completion of a WRITE does not say so. And it completes what does not tell. */
static void flush(struct side *s, struct world *w, int q)
{
    struct mt_fabric_piece p = piece(w->out.mr, ROOM, 1); /* it stays 0 */
    struct mt_fabric_send work = {.id = UINT64_MAX,
                                  .opcode = MT_FABRIC_READ,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = w->there[0].address + ROOM,
                                  .rkey = w->there[0].rkey};
    post(s, w->qps[q], &work);
    w->sends[q][w->send_tail[q]++] = UINT64_MAX;
    while (!all_taken(w->send_head, w->send_tail)) {
        take_send(s, w);
    }
    w->quiet[q] = 0;
}

/* What took effect since the images were made. */
static void apply(const struct side *s, struct world *w)
{
    for (uint64_t i = 0; i < ROUND; i++) {
        const struct plan *p = &w->plans[i];
        bool mine = p->from == s->rank;
        if (p->opcode == MT_FABRIC_READ && mine) {
            written(p, w->first + i, w->out.image + p->at);
        } else if (!mine && (p->opcode == MT_FABRIC_WRITE ||
                             p->opcode == MT_FABRIC_WRITE_WITH_IMM)) {
            written(p, w->first + i, w->windows[p->window].image + p->at);
        }
    }
}

static void one_round(struct side *s, struct world *w)
{
    struct mt_fabric_completion c;
    prepare(s, w);
    meet(s);
    for (uint64_t i = 0; i < ROUND; i++) {
        if (w->plans[i].from == s->rank) {
            carry_out(s, w, &w->plans[i], w->first + i);
        }
    }
    while (!all_taken(w->receive_head, w->receive_tail)) {
        c = next_ok(s, s->receive_cq);
        take_receive(s, w, &c);
    }
    for (int q = 0; q < CONNECTIONS; q++) {
        flush(s, w, q);
    }
    meet(s);
    while (took(s->receive_cq, &c)) {
        take_receive(s, w, &c);
    }
    apply(s, w);
    const struct area *areas[] = {&w->out, &w->in, &w->windows[0],
                                  &w->windows[1]};
    for (int i = 0; i < 4; i++) {
        area_compare(s, w, areas[i], 0, areas[i]->mr->bytes);
    }
    meet(s);
}

/* ---- the test ---- */

static void ud_open(struct side *s, struct world *w)
{
    struct mt_fabric_qp_options options = ud_options(s);
    struct mt_fabric_address mine = {0}, theirs;
    options.send_depth = DEPTH;
    OK(mt_fabric_qp_create(s->pd, &options, &w->qps[UD]));
    OK(mt_fabric_qp_connect(w->qps[UD], NULL));
    OK(mt_fabric_qp_address(w->qps[UD], &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_ah_create(s->pd, &theirs, &w->ah));
    w->datagrams = area_of(registered(s, UD_SLOTS * SLOT), "a datagram");
    for (uint64_t slot = 0; slot < UD_SLOTS; slot++) {
        ud_listen(s, w, slot);
    }
    w->qp_count = QPS;
}

static void world_open(struct side *s, struct world *w)
{
    struct mt_fabric_qp_options options = rc_options(s);
    options.send_depth = DEPTH;
    w->qp_count = CONNECTIONS;
    w->qps[0] = connect_with(s, &options);
    if (s->caps->srq) {
        const struct mt_fabric_srq_options o = {.depth = ROUND, .pieces = 1};
        OK(mt_fabric_srq_create(s->pd, &o, &w->srq));
        options.srq = w->srq;
    }
    for (int q = 1; q < CONNECTIONS; q++) {
        w->qps[q] = connect_with(s, &options);
    }
    w->out = area_of(registered(s, ROOM + SLACK), "what was read into");
    w->in = area_of(registered(s, ROOM + ROUND * SLOT), "receives");
    w->windows[0] = area_of(registered(s, ROOM + SLACK), "registered memory");
    w->windows[1] = area_of(allocated(s, ROOM + SLACK), "allocated memory");
    for (int i = 0; i < 2; i++) {
        w->there[i] = remote_of(s, w->windows[i].mr);
    }
    if ((s->caps->transports & MT_FABRIC_UD) != 0) {
        ud_open(s, w);
    }
}

static void world_close(struct side *s, struct world *w)
{
    meet(s);
    for (uint32_t q = 0; q < w->qp_count; q++) {
        OK(mt_fabric_qp_destroy(w->qps[q]));
    }
    if (w->srq != NULL) {
        OK(mt_fabric_srq_destroy(w->srq));
    }
    if (w->qp_count > UD) {
        OK(mt_fabric_ah_destroy(w->ah));
        area_close(&w->datagrams, false);
    }
    area_close(&w->out, false);
    area_close(&w->in, false);
    area_close(&w->windows[0], false);
    area_close(&w->windows[1], true);
}

static void random_operations(struct side *s)
{
    struct world *w = calloc(1, sizeof(*w));
    CHECK(w != NULL);
    side_open(s, false);
    world_open(s, w);
    for (; w->first < s->setting->operations; w->first += ROUND) {
        one_round(s, w);
    }
    /* they may be lost, but not most of them */
    CHECK(2 * w->datagrams_came >= w->datagrams_from[1 - s->rank]);
    world_close(s, w);
    free(w);
    side_close(s);
}

const struct test tests_random[] = {
    {"random operations", random_operations, NULL},
    {NULL, NULL, NULL},
};
