/* sources: c/fabric/paths/put.c c/fabric/paths/reads.c c/fabric/paths/credits.c c/fabric/paths/stripe.c */
/* The helpers of c/fabric/paths over a toy device: one process, strict rules (a
 * SEND without a receive, or a READ too many, ends the test), work carried out
 * whenever the seed says so, queues that are full whenever it says so. Each
 * helper beside a twin that only counts. */
#include "../fabric/paths/credits.h"
#include "../fabric/paths/reads.h"
#include "../fabric/paths/stripe.h"
#include "toy.h"

/* ---- put ---- */

static void put_test(enum mt_fabric_notify how, bool inlines)
{
    enum { PUTS = 400, WINDOW = 5 };
    static struct mt_fabric_qp pair[2];
    static uint32_t from[PUTS], to[PUTS];
    struct mt_put put;
    struct mt_put_target target;
    uint64_t flag = 0, completed = 0, seen = 0;
    toy_pair(pair);
    memset(to, 0, sizeof(to));
    struct mt_put_options o = {.how = how,
                               .qp = &pair[0],
                               .depth = pair[0].depth,
                               .inline_bytes = inlines ? 8 : 0,
                               .flag_address = (uintptr_t)&flag,
                               .window = WINDOW};
    CHECK(mt_put_open(&put, &o) == MT_OK);
    o.qp = &pair[1];
    CHECK(mt_put_target_open(&target, &o, &flag) == MT_OK);
    while (completed < PUTS || seen < PUTS) {
        struct mt_fabric_completion c;
        uint64_t n = put.sequence;
        if (n < PUTS && toy_random(2) == 0) {
            from[n] = (uint32_t)(n * 2654435761u + toy_seed);
            struct mt_fabric_piece piece = {.address = &from[n], .bytes = 4};
            struct mt_put_work work = {.value = n,
                                       .flags = MT_FABRIC_SIGNALED,
                                       .piece_count = 1,
                                       .pieces = &piece,
                                       .remote_address = (uintptr_t)&to[n]};
            enum mt_status status = mt_put_post(&put, &work);
            CHECK(status == MT_OK || status == MT_EAGAIN);
            CHECK(put.sequence == n + (status == MT_OK));
        }
        if (toy_random(3) == 0) {
            mt_put_flush(&put);
        }
        if (toy_random(2) == 0) {
            toy_step(&pair[0]);
        }
        while (toy_poll(&pair[0], &c)) { /* each put once, in order */
            CHECK(c.status == MT_OK && mt_path_kind(c.id) == MT_PATH_PUT);
            CHECK(mt_path_value(c.id) == completed++);
        }
        while (toy_poll(&pair[1], &c)) {
            CHECK(mt_path_kind(c.id) == MT_PATH_NOTICE);
            CHECK(mt_put_target_noticed(&target, &c) == MT_OK);
        }
        while (seen < PUTS && mt_put_target_test(&target, seen + 1)) {
            CHECK(to[seen] == from[seen] && to[seen] != 0);
            seen++;
        }
        CHECK(!mt_put_target_test(&target, put.sequence + 1));
        if (toy_random(4) == 0) {
            mt_put_allow(&put, mt_put_target_allows(&target));
        }
    }
    mt_put_close(&put);
    mt_put_target_close(&target);
}

/* A put on a broken queue pair comes back once, after its data did. */
static void put_broken_test(void)
{
    static struct mt_fabric_qp pair[2];
    struct mt_put put;
    struct mt_fabric_completion c;
    uint64_t flag = 0, word = 7;
    toy_pair(pair);
    pair[0].full = 0;
    struct mt_put_options o = {.how = MT_FABRIC_NOTIFY_FLAG_WRITE,
                               .qp = &pair[0],
                               .depth = 8,
                               .inline_bytes = 8,
                               .flag_address = (uintptr_t)&flag};
    pair[0].depth = 8;
    CHECK(mt_put_open(&put, &o) == MT_OK);
    struct mt_fabric_piece piece = {.address = &word, .bytes = 8};
    struct mt_put_work work = {.value = 3,
                               .flags = MT_FABRIC_SIGNALED,
                               .piece_count = 1,
                               .pieces = &piece,
                               .remote_address = (uintptr_t)&word};
    CHECK(mt_put_post(&put, &work) == MT_OK);
    pair[0].broken = true;
    toy_step(&pair[0]);
    toy_step(&pair[0]);
    CHECK(toy_poll(&pair[0], &c) && mt_path_kind(c.id) == MT_PATH_PUT_DATA);
    CHECK(toy_poll(&pair[0], &c) && mt_path_kind(c.id) == MT_PATH_PUT);
    CHECK(c.status != MT_OK && mt_path_value(c.id) == 3 && flag == 0);
    mt_put_close(&put);
}

/* ---- reads ---- */

static void reads_test(void)
{
    enum { READS = 500 };
    static struct mt_fabric_qp pair[2];
    static uint32_t local[READS], remote[READS];
    static struct mt_read reads[READS];
    struct mt_reads bucket;
    uint32_t posted = 0, done = 0;
    uint32_t breaks = toy_random(3) == 0 ? toy_random(READS) : READS + 1;
    toy_pair(pair);
    pair[0].read_limit = 1 + toy_random(4);
    CHECK(mt_reads_open(&bucket, &pair[0], 0) == MT_EINVAL);
    CHECK(mt_reads_open(&bucket, &pair[0], pair[0].read_limit) == MT_OK);
    while (done < READS) {
        struct mt_fabric_completion c;
        if (posted < READS && toy_random(2) == 0) {
            remote[posted] = posted + 1;
            reads[posted] = (struct mt_read){
                .piece = {.address = &local[posted], .bytes = 4},
                .remote_address = (uintptr_t)&remote[posted],
                .flags = toy_random(8) == 0 ? MT_FABRIC_FENCE : 0};
            local[posted] = 0;
            CHECK(mt_reads_post(&bucket, &reads[posted]) == MT_OK);
            posted++;
        }
        if (toy_random(3) == 0) {
            toy_step(&pair[0]);
        }
        if (toy_random(4) == 0) {
            mt_reads_flush(&bucket);
        }
        pair[0].broken = pair[0].broken || done >= breaks;
        while (toy_poll(&pair[0], &c)) { /* the twin: a counter */
            CHECK(mt_reads_done(&bucket, &c) == &reads[done]);
            CHECK(c.status != MT_OK || local[done] == done + 1);
            CHECK(c.status == MT_OK || pair[0].broken);
            done++;
        }
        CHECK(bucket.tokens + pair[0].reads + pair[0].done_tail -
                  pair[0].done_head ==
              bucket.limit);
        CHECK(posted - done == pair[0].reads + bucket.waiting);
    }
    CHECK(bucket.waiting == 0 && bucket.first == NULL);
}

/* ---- credits ---- */

struct talker {
    struct mt_credits credits;
    uint32_t sent, got, held_count;
    struct mt_credits_message held[TOY_QUEUE];
    uint32_t rests[TOY_QUEUE]; /* sent straight from here; 0: may be changed */
};

/* Of a message that has one, which lies elsewhere. */
static uint32_t talker_rest(uint32_t number)
{
    return number * 5 + 3;
}

static enum mt_status talker_send(struct talker *t)
{
    uint32_t message[5] = {t->sent}, *rest = &t->rests[t->sent % TOY_QUEUE];
    if (t->sent % 3 > 0) {
        return mt_credits_send(&t->credits, message, 4 + toy_random(17));
    }
    void *place;
    enum mt_status status = mt_credits_reserve(&t->credits, &place);
    if (status != MT_OK) {
        return status;
    }
    struct mt_path_rest r = {.piece = {.address = rest, .bytes = 4},
                             .value = t->sent % TOY_QUEUE + 1};
    CHECK(*rest == 0); /* it was told that the one before has gone */
    *rest = talker_rest(t->sent);
    memcpy(place, message, 4);
    CHECK(mt_credits_commit(&t->credits, 17, 0, &r) == MT_EINVAL);
    status = mt_credits_commit(&t->credits, 4, 0, &r);
    if (status != MT_OK) {
        *rest = 0;
    }
    return status;
}

static void talker_poll(struct talker *t, struct mt_fabric_qp *qp)
{
    struct mt_fabric_completion c;
    while (toy_poll(qp, &c)) {
        if (mt_path_kind(c.id) == MT_PATH_MESSAGE) {
            uint64_t value = mt_path_value(c.id);
            CHECK(mt_credits_sent(&t->credits, &c) == MT_OK);
            if (value > 0) {
                CHECK(value <= TOY_QUEUE && t->rests[value - 1] != 0);
                t->rests[value - 1] = 0;
            }
            continue;
        }
        struct mt_credits_message m;
        CHECK(mt_path_kind(c.id) == MT_PATH_MAIL);
        enum mt_status status = mt_credits_received(&t->credits, &c, &m);
        if (status == MT_EAGAIN) {
            continue;
        }
        CHECK(status == MT_OK);
        uint32_t number;
        CHECK(m.count >= 4);
        memcpy(&number, m.bytes, 4);
        CHECK(number == t->got++);
        if (number % 3 == 0) {
            uint32_t rest;
            CHECK(m.count == 8);
            memcpy(&rest, (const char *)m.bytes + 4, 4);
            CHECK(rest == talker_rest(number));
        }
        t->held[t->held_count++] = m;
    }
}

static void credits_test(uint32_t talk)
{
    static struct mt_fabric_qp pair[2];
    static struct talker talkers[2];
    uint32_t windows[2] = {4 + toy_random(12), 4 + toy_random(12)};
    uint32_t totals[2] = {talk, toy_random(2) * talk};
    uint64_t rounds = 0;
    toy_pair(pair);
    memset(talkers, 0, sizeof(talkers));
    for (int i = 0; i < 2; i++) {
        struct mt_credits_options o = {.qp = &pair[i],
                                       .window = windows[i],
                                       .peer_window = windows[1 - i],
                                       .bytes = 20};
        CHECK(mt_credits_open(&talkers[i].credits, &o) == MT_OK);
        /* as after four billion messages: the number wraps soon */
        talkers[i].credits.send_head -= toy_random(20);
        talkers[i].credits.send_tail = talkers[i].credits.send_head;
    }
    while (talkers[0].got < totals[1] || talkers[1].got < totals[0]) {
        CHECK(rounds++ < UINT64_C(1000) * (talk + 100)); /* nobody starves */
        for (int i = 0; i < 2; i++) {
            struct talker *t = &talkers[i];
            if (t->sent < totals[i] && toy_random(3) > 0) {
                enum mt_status status = talker_send(t);
                CHECK(status == MT_OK || status == MT_EAGAIN);
                t->sent += status == MT_OK;
            }
            if (toy_random(2) == 0) {
                toy_step(&pair[i]);
            }
            if (toy_random(3) == 0) {
                talker_poll(t, &pair[i]);
            }
            while (t->held_count > 0 && toy_random(3) == 0) {
                t->held_count--; /* the latest first: any order will do */
                CHECK(mt_credits_release(&t->credits,
                                         &t->held[t->held_count]) == MT_OK);
            }
            if (toy_random(4) == 0) {
                mt_credits_flush(&t->credits);
            }
        }
        /* the twin: every receive of i is a credit of the other, owed, held, or
         * filled by a message on its way or not looked at yet */
        for (int i = 0; i < 2; i++) {
            CHECK(talkers[i].credits.available + talkers[1 - i].credits.owed <=
                  windows[1 - i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        mt_credits_close(&talkers[i].credits);
    }
}

/* What a peer that breaks the rules sends is refused. */
static void credits_refuse_test(void)
{
    static struct mt_fabric_qp pair[2];
    struct mt_credits c;
    struct mt_credits_message m;
    toy_pair(pair);
    struct mt_credits_options o = {
        .qp = &pair[0], .window = 4, .peer_window = 4, .bytes = 16};
    CHECK(mt_credits_open(&c, &o) == MT_OK);
    struct mt_fabric_completion mail = {.id = mt_path_id(MT_PATH_MAIL, 0),
                                        .bytes = 8};
    uint32_t header[2] = {1, 0}; /* a credit that nobody spent */
    memcpy(c.receives->address, header, 8);
    CHECK(mt_credits_received(&c, &mail, &m) == MT_EPEER);
    header[0] = 0;
    header[1] = 9; /* more than came */
    memcpy(c.receives->address, header, 8);
    CHECK(mt_credits_received(&c, &mail, &m) == MT_EPEER);
    mail.bytes = 3;
    CHECK(mt_credits_received(&c, &mail, &m) == MT_EPEER);
    mail.id = mt_path_id(MT_PATH_MAIL, 4);
    CHECK(mt_credits_received(&c, &mail, &m) == MT_EPEER);
    CHECK(mt_credits_send(&c, header, 17) == MT_EINVAL);
    mt_credits_close(&c);
    o.window = 3;
    CHECK(mt_credits_open(&c, &o) == MT_EINVAL);
}

/* ---- striping ---- */

/* The twin deals out line after line. */
static void stripe_plan_test(void)
{
    for (int n = 0; n < 3000; n++) {
        struct mt_stripe_part parts[MT_RAILS];
        uint32_t rails = 1 + toy_random(MT_RAILS);
        uint64_t threshold = toy_random(3) * 512;
        uint64_t bytes = toy_random(n % 2 == 0 ? 3000 : 1 << 20);
        uint64_t number = toy_random(1000);
        uint32_t count = mt_stripe_plan(bytes, rails, threshold, number, parts);
        if (bytes <= threshold || rails == 1) {
            CHECK(count == 1 && parts[0].rail == number % rails);
            CHECK(parts[0].offset == 0 && parts[0].bytes == bytes);
            continue;
        }
        uint64_t lines = (bytes + MT_STRIPE_ALIGN - 1) / MT_STRIPE_ALIGN;
        uint64_t each = 0;
        while (each * rails < lines) {
            each++;
        }
        uint64_t dealt[MT_RAILS] = {0};
        for (uint64_t at = 0; at < bytes; at++) {
            dealt[at / MT_STRIPE_ALIGN / each]++;
            if (bytes > 100000) { /* a line at once */
                uint64_t rest =
                    bytes - at < MT_STRIPE_ALIGN ? bytes - at : MT_STRIPE_ALIGN;
                dealt[at / MT_STRIPE_ALIGN / each] += rest - 1;
                at += rest - 1;
            }
        }
        uint64_t offset = 0;
        for (uint32_t i = 0; i < count; i++) {
            CHECK(parts[i].rail == i && parts[i].offset == offset);
            CHECK(parts[i].bytes == dealt[i] && parts[i].bytes > 0);
            offset += parts[i].bytes;
        }
        CHECK(offset == bytes);
    }
}

/* Messages over rails that are carried out in any order among each other. */
static void stripe_test(enum mt_fabric_notify how)
{
    enum { RAILS = 3, MESSAGES = 60, MOST = 5000 };
    static struct mt_fabric_qp pairs[RAILS][2];
    static char from[MESSAGES][MOST], to[MESSAGES][MOST];
    struct mt_stripe stripe = {.rails = RAILS, .threshold = 1024};
    struct mt_stripe_target target = {.rails = RAILS, .threshold = 1024};
    struct mt_stripe_message messages[MESSAGES];
    struct mt_stripe_arrival arrival = {0};
    uint64_t flags[RAILS] = {0};
    uint32_t sizes[MESSAGES], sent = 0, got = 0;
    bool expecting = false, unfinished = false;
    for (int r = 0; r < RAILS; r++) {
        toy_pair(pairs[r]);
        struct mt_put_options o = {.how = how,
                                   .qp = &pairs[r][0],
                                   .depth = pairs[r][0].depth,
                                   .inline_bytes = 8,
                                   .flag_address = (uintptr_t)&flags[r],
                                   .window = 6};
        CHECK(mt_put_open(&stripe.puts[r], &o) == MT_OK);
        o.qp = &pairs[r][1];
        CHECK(mt_put_target_open(&target.targets[r], &o, &flags[r]) == MT_OK);
    }
    memset(to, 0, sizeof(to));
    for (int m = 0; m < MESSAGES; m++) {
        sizes[m] = toy_random(2) == 0 ? toy_random(1200) : toy_random(MOST);
        for (uint32_t i = 0; i < sizes[m]; i++) {
            from[m][i] = (char)(1 + toy_random(100));
        }
    }
    while (got < MESSAGES) {
        struct mt_fabric_completion c;
        if (sent < MESSAGES) {
            struct mt_stripe_memory local = {.address = from[sent]};
            struct mt_stripe_remote remote = {.address = (uintptr_t)to[sent]};
            enum mt_status status =
                unfinished ? mt_stripe_continue(&stripe, &messages[sent],
                                                &local, &remote)
                           : mt_stripe_put(&stripe, &messages[sent], &local,
                                           &remote, sizes[sent]);
            CHECK(status == MT_OK || status == MT_EAGAIN);
            unfinished = status != MT_OK;
            sent += !unfinished;
        }
        mt_stripe_flush(&stripe);
        toy_step(&pairs[toy_random(RAILS)][0]);
        for (int r = 0; r < RAILS; r++) {
            while (toy_poll(&pairs[r][0], &c)) {
                mt_stripe_done(&c);
            }
            while (toy_poll(&pairs[r][1], &c)) {
                CHECK(mt_put_target_noticed(&target.targets[r], &c) == MT_OK);
            }
            mt_put_allow(&stripe.puts[r],
                         mt_put_target_allows(&target.targets[r]));
        }
        if (!expecting) {
            mt_stripe_expect(&target, sizes[got], &arrival);
            expecting = true;
        }
        if (mt_stripe_test(&target, &arrival)) {
            CHECK(memcmp(from[got], to[got], sizes[got]) == 0);
            got++;
            expecting = false;
        }
    }
    for (int r = 0; r < RAILS; r++) {
        struct mt_fabric_completion c;
        while (pairs[r][0].head != pairs[r][0].tail) {
            toy_step(&pairs[r][0]);
        }
        while (toy_poll(&pairs[r][0], &c)) {
            mt_stripe_done(&c);
        }
        mt_put_close(&stripe.puts[r]);
        mt_put_target_close(&target.targets[r]);
    }
    for (int m = 0; m < MESSAGES; m++) {
        CHECK(messages[m].pending == 0 && messages[m].status == MT_OK);
    }
}

int main(void)
{
    static const enum mt_fabric_notify ways[] = {MT_FABRIC_NOTIFY_FLAG_WRITE,
                                                 MT_FABRIC_NOTIFY_IMM,
                                                 MT_FABRIC_NOTIFY_SEND};
    for (toy_seed = 1; toy_seed <= 40; toy_seed++) {
        toy_state = toy_seed * UINT64_C(0x9e3779b97f4a7c15);
        for (int i = 0; i < 3; i++) {
            put_test(ways[i], toy_seed % 2 == 0);
            stripe_test(ways[i]);
        }
        put_broken_test();
        reads_test();
        credits_test(2000);
        credits_refuse_test();
        stripe_plan_test();
    }
    printf("fabric_paths_test: ok\n");
    return 0;
}
