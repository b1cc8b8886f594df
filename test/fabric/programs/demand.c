/* demand.c: connections that are made when they are used, over letters that get
 * lost, come twice, and cross. */
#include "harness.h"

#include "../../../c/fabric/paths/demand.h"
#include "../../../c/fabric/paths/mail.h"

/* One side's letters, and what befalls them. */
struct post_office {
    struct side *side;
    struct mt_mail mail;
    struct mt_demand demand;
    uint64_t state;
    unsigned lost_of_4; /* this many of four letters are lost */
    struct mt_fabric_mr *mr;
    uint64_t came; /* messages over the connection, and sent */
    bool sent;
};

static enum mt_status by_swap(void *user, const void *mine, size_t bytes,
                              void *all)
{
    struct side *s = user;
    memcpy((char *)all + (size_t)s->rank * bytes, mine, bytes);
    swap(s, mine, (char *)all + (size_t)(1 - s->rank) * bytes, bytes);
    return MT_OK;
}

static enum mt_status carry(void *user, uint32_t peer, const void *bytes,
                            uint32_t count)
{
    struct post_office *o = user;
    uint64_t draw = random_next(&o->state) >> 20;
    if (draw % 4 < o->lost_of_4) {
        return MT_OK; /* lost */
    }
    if (draw / 4 % 3 == 0) {
        mt_mail_send(&o->mail, peer, bytes, count); /* comes twice */
    }
    return mt_mail_send(&o->mail, peer, bytes, count);
}

static enum mt_status prepare(void *user, uint32_t peer,
                              struct mt_fabric_qp *qp)
{
    struct post_office *o = user;
    EQ(peer, 1 - o->side->rank);
    post_receive(o->side, qp, mt_path_id(MT_PATH_USER, 7),
                 piece(o->mr, 64, 64));
    return MT_OK;
}

static void one_letter(struct post_office *o,
                       const struct mt_fabric_completion *c)
{
    uint32_t count;
    const void *bytes;
    switch (mt_path_kind(c->id)) {
    case MT_PATH_LETTER:
        EQ(c->status, MT_OK);
        mt_mail_sent(&o->mail, c);
        break;
    case MT_PATH_LETTER_IN:
        bytes = mt_mail_received(&o->mail, c, &count);
        CHECK(bytes != NULL);
        mt_demand_heard(&o->demand, bytes, count);
        OK(mt_mail_release(&o->mail, c));
        break;
    default:
        EQ(c->status, MT_OK);
        o->came += c->opcode == MT_FABRIC_RECEIVE;
    }
}

static void turn(struct post_office *o)
{
    struct side *s = o->side;
    struct mt_fabric_completion c;
    while (s->taken_head != s->taken_tail) { /* while somebody waited */
        one_letter(o, &s->taken[s->taken_head++ % 1024]);
    }
    if (took(s->send_cq, &c)) {
        one_letter(o, &c);
    }
    if (took(s->receive_cq, &c)) {
        one_letter(o, &c);
    }
    mt_demand_progress(&o->demand);
}

static void office_open(struct post_office *o, struct side *s,
                        struct mt_fabric_wireup *wireup)
{
    memset(o, 0, sizeof(*o));
    side_open(s, false);
    o->side = s;
    o->state = s->setting->seed * 77 + (uint64_t)s->rank + 1;
    o->mr = registered(s, 4096);
    *wireup = (struct mt_fabric_wireup){.rank = (uint32_t)s->rank,
                                        .size = 2,
                                        .exchange = by_swap,
                                        .user = s};
    struct mt_mail_options m = {.pd = s->pd,
                                .send_cq = s->send_cq,
                                .receive_cq = s->receive_cq,
                                .port = 1,
                                .receives = 64,
                                .headroom = s->caps->ud_headroom};
    OK(mt_mail_open(&o->mail, &m, wireup));
}

static void demand_open(struct post_office *o)
{
    struct mt_demand_options d = {.rank = (uint32_t)o->side->rank,
                                  .size = 2,
                                  .pd = o->side->pd,
                                  .rc = rc_options(o->side),
                                  .prepare = prepare,
                                  .carry = carry,
                                  .user = o,
                                  .retry_ms = 2,
                                  .tries = 5000};
    OK(mt_demand_open(&o->demand, &d));
    o->came = 0;
    o->sent = false;
}

/* Sends a message once there is a queue pair. */
static void try_to_send(struct post_office *o, uint64_t number)
{
    struct side *s = o->side;
    struct mt_fabric_qp *qp;
    enum mt_status status =
        mt_demand_qp(&o->demand, (uint32_t)(1 - s->rank), &qp);
    CHECK(status == MT_OK || status == MT_EAGAIN);
    if (status == MT_OK) {
        fill(o->mr->address, 64, number);
        struct mt_fabric_piece p = piece(o->mr, 0, 64);
        struct mt_fabric_send work = {.id = mt_path_id(MT_PATH_USER, 8),
                                      .opcode = MT_FABRIC_SEND,
                                      .flags = MT_FABRIC_SIGNALED,
                                      .piece_count = 1,
                                      .pieces = &p};
        o->sent = mt_fabric_post_send(qp, &work) == MT_OK;
    }
}

/* Rank 0 alone, rank 1 alone, and both at once; a quarter, or half of all
 * letters are lost. */
static void on_demand(struct side *s)
{
    const uint64_t rounds = s->setting->operations < 1000 ? 18 : 90;
    struct mt_fabric_wireup wireup;
    struct post_office o;
    office_open(&o, s, &wireup);
    demand_open(&o);
    for (uint64_t round = 0; round < rounds; round++) {
        bool mine = round % 3 != (uint64_t)(1 - s->rank);
        bool theirs = round % 3 != (uint64_t)s->rank;
        o.lost_of_4 = (unsigned)(round / 3 % 3);
        o.came = 0;
        o.sent = false;
        if (mine && theirs) { /* both ask before either hears */
            try_to_send(&o, round);
            meet(s);
        }
        while ((mine && !o.sent) || (theirs && o.came == 0)) {
            waiting(s);
            turn(&o);
            if (mine && !o.sent) {
                try_to_send(&o, round);
            }
        }
        CHECK(!theirs || filled((char *)o.mr->address + 64, 64, round));
        EQ(o.came, theirs);
        meet(s);
        /* late letters of this round mean nothing in the next */
        mt_demand_drop(&o.demand, (uint32_t)(1 - s->rank));
        meet(s);
    }
    EQ(o.demand.counts.malformed, 0);
    EQ(o.demand.counts.failed, 0);
    struct mt_demand_counts mine = o.demand.counts, theirs;
    swap(s, &mine, &theirs, sizeof(mine));
    CHECK(mine.crossed + theirs.crossed > 0); /* else nothing was put to the test */
    CHECK(mine.repeated + theirs.repeated > 0);
    mt_demand_close(&o.demand);
    mt_mail_close(&o.mail);
    release(o.mr);
    side_close(s);
}

/* Nobody answers: a bounded number of requests, then an error that stays until
 * the peer is dropped. Afterwards the same peer can be reached. Who has given up a
 * connection tells the other by its next one. */
static void on_demand_ends(struct side *s)
{
    enum { TRIES = 5 };
    struct mt_fabric_wireup wireup;
    struct post_office o;
    struct mt_fabric_qp *qp;
    uint32_t peer = (uint32_t)(1 - s->rank);
    enum mt_status status = MT_EAGAIN;
    office_open(&o, s, &wireup);
    demand_open(&o);
    o.lost_of_4 = 4;
    o.demand.o.tries = TRIES;
    while (status == MT_EAGAIN) {
        waiting(s);
        status = mt_demand_qp(&o.demand, peer, &qp);
        turn(&o);
    }
    EQ(status, MT_ETIMEOUT);
    EQ(o.demand.counts.hellos + o.demand.counts.repeated, TRIES);
    EQ(o.demand.counts.failed, 1);
    EQ(mt_demand_qp(&o.demand, peer, &qp), MT_ETIMEOUT);
    EQ(mt_demand_qp(&o.demand, 5, &qp), MT_EINVAL);
    mt_demand_drop(&o.demand, peer);
    o.demand.o.tries = 5000;
    o.lost_of_4 = 1;
    meet(s);
    while (o.came == 0 || !o.sent) {
        waiting(s);
        turn(&o);
        if (!o.sent) {
            try_to_send(&o, 1);
        }
    }
    meet(s);
    if (s->rank == 1) { /* a new connection, of which rank 0 does not know */
        mt_demand_drop(&o.demand, peer);
    }
    o.came = 0;
    o.sent = false;
    while (s->rank == 0 ? o.came == 0 : !o.sent) {
        waiting(s);
        turn(&o);
        if (s->rank == 1) {
            try_to_send(&o, 2);
        } else {
            status = mt_demand_qp(&o.demand, peer, &qp);
            if (status == MT_EPEER) {
                mt_demand_drop(&o.demand, peer);
            }
        }
    }
    CHECK(s->rank == 1 || filled((char *)o.mr->address + 64, 64, 2));
    meet(s);
    mt_demand_close(&o.demand);
    mt_mail_close(&o.mail);
    release(o.mr);
    side_close(s);
}

static const char *needs_both(const struct mt_fabric_caps *caps)
{
    const uint32_t both = MT_FABRIC_RC | MT_FABRIC_UD;
    return (caps->transports & both) == both ? "" : "RC and UD";
}

const struct test tests_demand[] = {
    {"connections on demand", on_demand, needs_both},
    {"connections on demand that end", on_demand_ends, needs_both},
    {NULL, NULL, NULL},
};
