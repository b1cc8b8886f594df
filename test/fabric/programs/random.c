/* random.c: a random stream of operations against a model: both sides know from
 * the seed what is posted where, and compare all memory byte by byte. */
#include "harness.h"

enum {
    ROUND = 60,         /* operations until memories are compared */
    MOST = 30000,
};

/* An operation, the same on both sides. */
struct plan {
    enum mt_fabric_opcode opcode;
    int from;         /* the rank that posts it */
    size_t bytes;
    size_t local, remote; /* places */
    uint64_t seed;
    uint32_t flags;
};

static struct plan plan_next(uint64_t *state, const struct mt_fabric_caps *caps,
                             int turn)
{
    static const enum mt_fabric_opcode all[] = {
        MT_FABRIC_SEND, MT_FABRIC_WRITE, MT_FABRIC_WRITE_WITH_IMM,
        MT_FABRIC_READ};
    struct plan p = {0};
    do {
        p.opcode = all[random_next(state) % 4];
    } while ((caps->rc_operations & p.opcode) == 0);
    uint64_t kind = random_next(state) % 8;
    p.from = (int)(random_next(state) % 2);
    p.bytes = random_next(state) % (kind < 5 ? 100 : kind < 7 ? 3000 : MOST);
    /* places of one round do not meet */
    p.local = (size_t)turn * MOST + random_next(state) % 64;
    p.remote = (size_t)turn * MOST + random_next(state) % 64;
    p.bytes = p.bytes < MOST - 64 ? p.bytes : MOST - 64;
    p.seed = random_next(state);
    p.flags = random_next(state) % 4 == 0 ? MT_FABRIC_FENCE : 0;
    return p;
}

struct world {
    struct mt_fabric_mr *out;    /* what is sent and written from, read into */
    struct mt_fabric_mr *window; /* what the other names */
    struct mt_fabric_mr *in;     /* of receives */
    struct remote there;
    uint64_t receives;           /* completions expected this round */
    uint64_t sends;
};

static void prepare(struct side *s, struct world *w, const struct plan *p,
                    uint64_t id)
{
    bool mine = p->from == s->rank;
    bool receives = p->opcode == MT_FABRIC_SEND ||
                    p->opcode == MT_FABRIC_WRITE_WITH_IMM;
    if (!mine && p->opcode == MT_FABRIC_READ) {
        fill((char *)w->window->address + p->remote, p->bytes, p->seed);
    }
    if (!mine && receives) {
        post_receive(s, s->qp, id, piece(w->in, (id % ROUND) * MOST, MOST));
        w->receives++;
    }
    if (mine && p->opcode != MT_FABRIC_READ) {
        fill((char *)w->out->address + p->local, p->bytes, p->seed);
    }
}

static void carry_out(struct side *s, struct world *w, const struct plan *p,
                      uint64_t id)
{
    if (p->from != s->rank) {
        return;
    }
    struct mt_fabric_piece pieces[2] = {
        piece(w->out, p->local, p->bytes / 3),
        piece(w->out, p->local + p->bytes / 3, p->bytes - p->bytes / 3)};
    struct mt_fabric_send work = {.id = id,
                                  .opcode = p->opcode,
                                  .flags = p->flags | MT_FABRIC_SIGNALED,
                                  .immediate = (uint32_t)id,
                                  .piece_count = 2,
                                  .pieces = pieces,
                                  .remote_address = w->there.address + p->remote,
                                  .rkey = w->there.rkey};
    post(s, s->qp, &work);
    w->sends++;
}

/* A READ is answered after the WRITEs before it have taken effect; the
 * completion of a WRITE does not say so. */
static void flush(struct side *s, struct world *w)
{
    struct mt_fabric_piece p = piece(w->out, ROUND * MOST, 1);
    struct mt_fabric_send work = {.id = UINT64_MAX,
                                  .opcode = MT_FABRIC_READ,
                                  .flags = MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = w->there.address,
                                  .rkey = w->there.rkey};
    post(s, s->qp, &work);
    EQ(next_ok(s, s->send_cq).id, UINT64_MAX);
}

static void compare(struct side *s, struct world *w, const struct plan *p,
                    uint64_t id)
{
    bool mine = p->from == s->rank;
    const char *at = NULL;
    if (mine && p->opcode == MT_FABRIC_READ) {
        at = (char *)w->out->address + p->local;
    } else if (!mine && p->opcode == MT_FABRIC_SEND) {
        at = (char *)w->in->address + (id % ROUND) * MOST;
    } else if (!mine && p->opcode != MT_FABRIC_READ) {
        at = (char *)w->window->address + p->remote;
    }
    if (at != NULL && !filled(at, p->bytes, p->seed)) {
        FAIL("operation %llu (opcode %d, %zu bytes, by %d) left other bytes, "
             "seed %llu",
             (unsigned long long)id, (int)p->opcode, p->bytes, p->from,
             (unsigned long long)s->setting->seed);
    }
}

static void random_operations(struct side *s)
{
    struct world w = {0};
    struct plan plans[ROUND];
    uint64_t state = s->setting->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    side_open(s, false);
    struct mt_fabric_qp_options options = rc_options(s);
    options.send_depth = 8;
    s->qp = connect_with(s, &options);
    w.out = registered(s, ROUND * MOST + 128);
    w.in = registered(s, ROUND * MOST);
    w.window = s->setting->seed % 2 == 0 ? allocated(s, ROUND * MOST + 128)
                                         : registered(s, ROUND * MOST + 128);
    w.there = remote_of(s, w.window);
    for (uint64_t id = 0; id < s->setting->operations; id += ROUND) {
        w.receives = w.sends = 0;
        for (int i = 0; i < ROUND; i++) {
            plans[i] = plan_next(&state, s->caps, i);
            prepare(s, &w, &plans[i], id + (uint64_t)i);
        }
        meet(s);
        for (int i = 0; i < ROUND; i++) {
            carry_out(s, &w, &plans[i], id + (uint64_t)i);
        }
        /* what is received comes in the order of posting */
        for (int i = 0; i < ROUND; i++) {
            const struct plan *p = &plans[i];
            if (p->from != s->rank && (p->opcode == MT_FABRIC_SEND ||
                                       p->opcode == MT_FABRIC_WRITE_WITH_IMM)) {
                struct mt_fabric_completion c = next_ok(s, s->receive_cq);
                EQ(c.id, id + (uint64_t)i);
                EQ(c.bytes, p->bytes);
                EQ(c.has_immediate, p->opcode == MT_FABRIC_WRITE_WITH_IMM);
                if (c.has_immediate) {
                    EQ(c.immediate, (uint32_t)(id + (uint64_t)i));
                }
            }
        }
        while (w.sends > 0) {
            next_ok(s, s->send_cq);
            w.sends--;
        }
        flush(s, &w);
        meet(s);
        for (int i = 0; i < ROUND; i++) {
            compare(s, &w, &plans[i], id + (uint64_t)i);
        }
        meet(s);
    }
    release(w.out);
    release(w.in);
    if (s->setting->seed % 2 == 0) {
        OK(mt_fabric_mr_destroy(w.window));
    } else {
        release(w.window);
    }
    side_close(s);
}

const struct test tests_random[] = {
    {"random operations", random_operations, NULL},
    {NULL, NULL, NULL},
};
