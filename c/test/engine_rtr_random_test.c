/* sources: c/engine/arrive.c c/engine/choice.c c/engine/eager.c c/engine/hold.c c/engine/keeper.c c/engine/layout.c c/engine/lock.c c/engine/match.c c/engine/progress.c c/engine/receive.c c/engine/reuse.c c/engine/ring.c c/engine/rtr.c c/engine/send.c c/engine/transfer.c c/engine/trial.c c/engine/usage.c c/engine/verify.c c/engine/wire.c c/fabric/crc32c.c c/fabric/paths/credits.c c/fabric/paths/paths.c c/fabric/paths/reads.c c/fabric/paths/ring.c */
/* Random programs of three simulated processes, with random interleavings of all
 * that they say to each other, against a twin that does everything by the book
 * and the slow way:
 *
 *   matching  of the receives that a message fits it gets the one posted first,
 *             of the messages that came before a receive it gets the first
 *             (MPI 4.1, 3.5);
 *   asking    a receive asks if nothing that may match its message is ahead of it
 *             without an RTR, it names what it wants, and its envelope is not
 *             silent (c/engine/rtr.h); where that is tried, if its epoch does
 *             (c/engine/choice.h);
 *   silence   worked out anew, each time, from all that ever became of the
 *             receives of an envelope.
 *
 * What ended is written over at once, so that a late WRITE is seen. */
#include "engine_world.h"

enum {
    EAGER = 32,
    MOST = 200,
    TAGS = 3,
    REQUESTS = 600, /* of a program, each way */
    HISTORY = 4096,
    LATER = 0x55,
};

struct send {
    struct mt_engine_request request;
    uint32_t from, to;
    int32_t tag;
    uint64_t bytes;
    bool over, came;
    unsigned char memory[MOST];
};

struct receive {
    struct mt_engine_request request;
    uint32_t at;
    int32_t source, tag;
    uint64_t bytes;
    bool over, cancels, asked, silent;
    const struct send *match; /* by the twin */
    unsigned char *memory; /* a buffer */
};

/* What became of a receive that asked, or would have. */
struct fate {
    uint32_t at, from;
    int32_t tag;
    enum mt_rtr_fate fate;
};

static struct send sends[REQUESTS];
static struct receive receives[2 * REQUESTS]; /* with those of finish */
static uint32_t send_count, receive_count;
/* A program receives into the same buffers again and again. */
static unsigned char buffers[2 * REQUESTS][MOST];
static bool lent[2 * REQUESTS];
static struct fate history[HISTORY];
static uint32_t history_count;
static struct world_options options;
static uint32_t tags; /* of the program */
static unsigned long long state;
static uint64_t used, sent, silenced;
static uint64_t tried; /* of those that asked, where that is tried */
static uint64_t aged;  /* envelopes whose number was made large */
static uint64_t asked_now; /* RTRs that were heard since it was set to 0 */

static uint32_t dice(uint32_t below)
{
    return (uint32_t)(check_random(&state) >> 33) % below;
}

/* ---- the twin: silence ---- */

static bool is_envelope(const struct fate *f, uint32_t at, uint32_t from,
                        int32_t tag)
{
    return f->at == at && f->from == from && f->tag == tag;
}

/* From the beginning: windows one after the other. */
static bool twin_silent(uint32_t at, uint32_t from, int32_t tag)
{
    bool silent = false;
    uint32_t times = 0, since = 0, begin = 0, n = 0; /* verdict, window */
    static enum mt_rtr_fate all[HISTORY];
    for (uint32_t i = 0; i < history_count; i++) {
        if (is_envelope(&history[i], at, from, tag)) {
            all[n++] = history[i].fate;
        }
    }
    for (uint32_t end = 1; end <= n; end++) {
        uint32_t useful = 0, wrong = 0, window = options.sample;
        for (uint32_t k = 1; silent && k < times && k <= MT_RTR_PAUSES; k++) {
            window *= 2;
        }
        for (uint32_t i = begin; i < end; i++) {
            useful += all[i] == MT_RTR_USED;
        }
        for (uint32_t i = since; i < end; i++) {
            wrong = all[i] == MT_RTR_MISPREDICTED ? wrong + 1 : 0;
        }
        bool whole = end - begin == window;
        uint32_t best = useful + window - (end - begin); /* if all else is */
        bool pays = useful * 100 >= options.usage * (end - begin);
        if (!silent && (wrong == MT_RTR_WRONG ||
                        best * 100 < options.usage * window)) {
            silent = true;
            times++;
            since = begin = end;
        } else if (silent && whole && pays) {
            silent = false;
            since = begin = end;
        } else if (whole) {
            times = pays ? 0 : times;
            begin = end;
        }
    }
    return silent;
}

static void twin_fate(const struct receive *r, enum mt_rtr_fate fate)
{
    if (r->asked || r->silent) {
        CHECK(history_count < HISTORY);
        history[history_count++] =
            (struct fate){r->at, (uint32_t)r->source, r->tag,
                          r->silent && fate == MT_RTR_CROSSED ? MT_RTR_USED
                                                              : fate};
    }
}

/* ---- the twin: matching ---- */

static bool wants(const struct receive *r, const struct send *s)
{
    return r->at == s->to && !r->request.cancelled && r->match == NULL &&
           (r->source == MT_ENGINE_ANY || r->source == (int32_t)s->from) &&
           (r->tag == MT_ENGINE_ANY || r->tag == s->tag);
}

static struct send *came[REQUESTS]; /* and not matched; NULL: it is now */
static uint32_t came_count;

static void twin_came(struct send *s, bool by_rtr)
{
    s->came = true;
    for (uint32_t i = 0; i < receive_count; i++) {
        struct receive *r = &receives[i];
        if (wants(r, s)) {
            r->match = s;
            bool fits = s->bytes > EAGER && s->bytes <= r->bytes;
            twin_fate(r, by_rtr ? MT_RTR_USED
                         : fits ? MT_RTR_CROSSED
                                : MT_RTR_MISPREDICTED);
            CHECK(!by_rtr || (r->asked && fits));
            return;
        }
    }
    CHECK(!by_rtr);
    came[came_count++] = s;
}

static void twin_posted(struct receive *r)
{
    for (uint32_t i = 0; i < came_count; i++) {
        if (came[i] != NULL && wants(r, came[i])) {
            r->match = came[i];
            came[i] = NULL;
            return;
        }
    }
}

/* Whether a receive that was posted now has to ask, but for credits and memory:
 * 1 yes, 0 no, -1 it is silent. */
static int twin_asks(const struct receive *r)
{
    uint32_t ahead = 0;
    bool silent = r->source != MT_ENGINE_ANY && r->tag != MT_ENGINE_ANY &&
                  twin_silent(r->at, (uint32_t)r->source, r->tag);
    if (r->match != NULL || r->bytes <= EAGER || r->source == MT_ENGINE_ANY ||
        r->tag == MT_ENGINE_ANY || r->source == (int32_t)r->at) {
        return 0;
    }
    for (const struct receive *q = receives; q < r; q++) {
        bool before = q->at == r->at && !q->request.cancelled &&
                      q->match == NULL &&
                      (q->source == r->source || q->source == MT_ENGINE_ANY) &&
                      (q->tag == r->tag || q->tag == MT_ENGINE_ANY);
        if (before && (q->cancels || !(q->asked || (silent && q->silent)))) {
            return 0;
        }
        ahead += before;
    }
    return ahead >= MT_RTR_OFFERS ? 0 : silent ? -1 : 1;
}

/* ---- what is said ---- */

static void world_heard(uint32_t from, uint32_t to,
                        const struct mt_fabric_send *work,
                        const struct mt_wire_message *m)
{
    (void)from, (void)to, (void)work;
    asked_now += m != NULL && m->head.kind == MT_WIRE_RTR;
}

/* The next message between the two, in the order of the calls. */
static void world_came(uint32_t from, uint32_t to,
                       const struct mt_wire_message *m)
{
    bool filled = m->head.kind == MT_WIRE_FILLED;
    if (!filled && m->head.kind != MT_WIRE_EAGER &&
        m->head.kind != MT_WIRE_RTS) {
        return;
    }
    uint32_t i = 0;
    while (i < send_count &&
           (sends[i].from != from || sends[i].to != to || sends[i].came ||
            sends[i].request.cancelled)) {
        i++;
    }
    CHECK(i < send_count);
    CHECK_EQ(m->rest.bytes, sends[i].bytes);
    CHECK(filled || m->head.tag == sends[i].tag);
    twin_came(&sends[i], filled);
}

/* ---- the program ---- */

static void fill(struct send *s)
{
    for (uint64_t i = 0; i < s->bytes; i++) {
        s->memory[i] = (unsigned char)((s - sends) * 13 + (int)i * 7);
    }
}

static void send_next(void)
{
    struct send *s = &sends[send_count];
    if (send_count == REQUESTS) {
        return;
    }
    *s = (struct send){.from = dice(WORLD), .tag = (int32_t)dice(tags)};
    s->to = (s->from + 1 + dice(WORLD - 1)) % WORLD;
    s->bytes = dice(5) == 0 ? dice(EAGER + 1) : EAGER + 1 + dice(MOST - EAGER);
    send_count++;
    fill(s);
    struct mt_buffer b = {.address = s->memory, .bytes = s->bytes};
    CHECK_EQ(mt_engine_send(world.contexts[s->from], &s->request,
                            (int32_t)s->to, s->tag,
                            dice(4) == 0 ? MT_ENGINE_SYNCHRONOUS
                                         : MT_ENGINE_STANDARD,
                            &b),
             MT_OK);
    if (dice(10) == 0) {
        mt_engine_cancel(&s->request);
    }
}

static unsigned char *buffer_take(void)
{
    uint32_t i = 0;
    while (lent[i]) {
        i++;
    }
    lent[i] = true;
    return memset(buffers[i], 0, MOST);
}

static void buffer_give(unsigned char *memory)
{
    memset(memory, LATER, MOST);
    lent[(memory - buffers[0]) / MOST] = false;
}

static void receive_next(uint32_t wild)
{
    struct receive *r = &receives[receive_count];
    if (receive_count == REQUESTS) {
        return;
    }
    *r = (struct receive){.at = dice(WORLD), .tag = (int32_t)dice(tags)};
    r->source = (int32_t)((r->at + 1 + dice(WORLD - 1)) % WORLD);
    r->source = dice(100) < wild ? MT_ENGINE_ANY : r->source;
    r->tag = dice(100) < wild ? MT_ENGINE_ANY : r->tag;
    r->bytes = dice(8) == 0 ? dice(MOST) : MOST;
    receive_count++;
    r->memory = buffer_take();
    struct mt_buffer b = {.address = r->memory, .bytes = r->bytes};
    mt_engine_progress(&world.engines[r->at]); /* which may take credits */
    twin_posted(r);
    int asks = twin_asks(r);
    asked_now = 0;
    bool poor =
        world.pds[r->at].refuses ||
        (asks == 1 &&
         world.peers[r->at][r->source].credits.available <= options.window / 2);
    CHECK_EQ(mt_engine_receive(world.contexts[r->at], &r->request, r->source,
                               r->tag, &b),
             MT_OK);
    if (options.try_asking &&
        (r->request.choice == NULL || !r->request.choice->newcomer)) {
        asks = 0;
    }
    CHECK_EQ(asked_now, asks == 1 && !poor);
    tried += options.try_asking ? asked_now : 0;
    r->asked = asked_now > 0;
    r->silent = asks == -1;
}

static void look(void)
{
    for (uint32_t i = 0; i < send_count; i++) {
        struct send *s = &sends[i];
        if (!s->over && mt_engine_done(&s->request)) {
            s->over = true;
            world.ended++;
            CHECK_EQ(s->request.status, MT_OK);
        }
    }
    for (uint32_t i = 0; i < receive_count; i++) {
        struct receive *r = &receives[i];
        const struct send *s = r->match;
        if (r->over || !mt_engine_done(&r->request)) {
            continue;
        }
        r->over = true;
        world.ended++;
        if (r->request.cancelled) {
            CHECK(s == NULL && r->cancels);
        } else if (s == NULL) {
            CHECK(s != NULL);
        } else {
            uint64_t n = s->bytes < r->bytes ? s->bytes : r->bytes;
            CHECK_EQ(r->request.source, s->from);
            CHECK_EQ(r->request.tag, s->tag);
            CHECK_EQ(r->request.bytes, n);
            CHECK_EQ(r->request.status,
                     n < s->bytes ? MT_ETRUNCATED : MT_OK);
            for (uint64_t k = 0; k < MOST; k++) {
                unsigned char want =
                    k < n ? (unsigned char)((s - sends) * 13 + (int)k * 7) : 0;
                CHECK(r->memory[k] == want);
            }
        }
        buffer_give(r->memory);
    }
}

static void cancel_any(void)
{
    struct receive *r =
        receive_count > 0 ? &receives[dice(receive_count)] : NULL;
    if (r != NULL && !r->over) {
        r->cancels = true;
        mt_engine_cancel(&r->request);
    }
}

static bool all_over(void)
{
    bool over = true;
    for (uint32_t i = 0; i < send_count; i++) {
        over = over && sends[i].over;
    }
    for (uint32_t i = 0; i < receive_count; i++) {
        over = over && receives[i].over;
    }
    return over;
}

/* Whatever is left is received, or taken back. */
static void finish(void)
{
    for (uint32_t p = 0; p < WORLD; p++) {
        world.pds[p].full = false;
        mt_engine_progress(&world.engines[p]);
    }
    for (uint32_t n = 0; n < 8 && !all_over(); n++) {
        world_settle();
        look();
        for (uint32_t i = 0; i < came_count; i++) {
            struct receive *r = &receives[receive_count];
            if (came[i] == NULL || receive_count == 2 * REQUESTS) {
                continue;
            }
            *r = (struct receive){.at = came[i]->to,
                                  .source = (int32_t)came[i]->from,
                                  .tag = came[i]->tag,
                                  .bytes = MOST};
            receive_count++;
            r->memory = buffer_take();
            struct mt_buffer b = {.address = r->memory, .bytes = r->bytes};
            twin_posted(r);
            CHECK_EQ(mt_engine_receive(world.contexts[r->at], &r->request,
                                       r->source, r->tag, &b),
                     MT_OK);
        }
        world_settle();
        look();
        for (uint32_t i = 0; i < receive_count; i++) {
            if (!receives[i].over) {
                receives[i].cancels = true;
                mt_engine_cancel(&receives[i].request);
            }
        }
    }
    CHECK(all_over());
}

static void take_over(struct mt_engine_request *r, unsigned char *memory,
                      bool *over)
{
    if (!*over && mt_engine_done(r)) {
        *over = true;
        CHECK(r->status == MT_OK || r->status == MT_ETRUNCATED ||
              r->status == MT_EPEER);
        if (memory != NULL) {
            buffer_give(memory);
        }
    }
}

/* One device after the other is lost, wherever the requests are: all of them end,
 * and nobody writes where they were. */
static void lose_all(void)
{
    for (uint32_t p = 0; p < WORLD; p++) {
        world_lose(p);
        for (uint32_t i = 0; i < send_count; i++) {
            take_over(&sends[i].request, NULL, &sends[i].over);
        }
        for (uint32_t i = 0; i < receive_count; i++) {
            take_over(&receives[i].request, receives[i].memory,
                      &receives[i].over);
        }
        for (uint32_t k = dice(20); k > 0; k--) {
            uint32_t from = dice(WORLD);
            world_move(from, (from + 1 + dice(WORLD - 1)) % WORLD);
        }
    }
    CHECK(all_over());
}

/* As after four billion messages of an envelope, of which the log has the latest:
 * their number wraps soon. */
static void age(struct mt_engine_peer *peer)
{
    for (uint32_t i = 0; peer->rtr != NULL && i < MT_RTR_ENVELOPES; i++) {
        struct mt_rtr_envelope *e = &peer->rtr->envelopes[i];
        if (!e->overflown || e->left > UINT32_MAX / 2) {
            continue;
        }
        uint32_t more = (UINT32_MAX - e->left - dice(20)) / MT_RTR_LOG * MT_RTR_LOG;
        e->left += more;
        for (uint32_t k = e->first; k != e->last; k++) {
            e->offers[k % MT_RTR_OFFERS].turn += more;
        }
        aged++;
    }
}

static void program(unsigned long long seed)
{
    state = seed * 0x9e3779b97f4a7c15ULL + 1;
    options = (struct world_options){.processes = WORLD,
                                     .window = 6 + dice(30),
                                     .eager_limit = EAGER,
                                     .usage = dice(101),
                                     .sample = 1 + dice(dice(2) == 0 ? 3 : 12),
                                     .max_work = 16 + dice(MOST),
                                     .rendezvous = MT_ENGINE_RTR};
    if (dice(3) == 0) {
        options.rendezvous = MT_ENGINE_RGET;
        options.try_asking = true;
    }
    send_count = receive_count = history_count = came_count = 0;
    memset(lent, 0, sizeof(lent));
    tags = 1 + dice(TAGS);
    world_begin(&options);
    uint32_t moves = 1 + dice(8), wild = dice(2) * dice(40);
    uint32_t cancels = dice(3), refuses = dice(3) == 0, early = dice(3);
    for (uint32_t n = 0; n < 600 && check_failures == 0; n++) {
        uint32_t what = dice(16);
        if (what < 3) {
            send_next();
        } else if (what < 6 + early) {
            receive_next(wild);
        } else if (what < 6 + early + cancels && dice(4) == 0) {
            cancel_any();
        } else if (what == 14 && refuses) {
            struct mt_fabric_pd *pd = &world.pds[dice(WORLD)];
            pd->full = !pd->full;
        } else if (what == 15 && refuses) {
            struct mt_fabric_pd *pd = &world.pds[dice(WORLD)];
            pd->refuses = !pd->refuses;
        }
        for (uint32_t k = dice(moves); k > 0; k--) {
            uint32_t from = dice(WORLD);
            world_move(from, (from + 1 + dice(WORLD - 1)) % WORLD);
        }
        age(&world.engines[dice(WORLD)].peers[dice(WORLD)]);
        look();
    }
    bool loses = dice(4) == 0;
    (loses ? lose_all : finish)();
    for (uint32_t i = 0; i < receive_count; i++) {
        for (uint32_t k = 0; k < MOST; k++) {
            CHECK(receives[i].memory[k] == LATER);
        }
    }
    for (uint32_t p = 0; p < WORLD; p++) {
        const struct mt_engine_counts *c = &world.engines[p].counts;
        CHECK(loses ||
              c->rtr_sent == c->rtr_used + c->rtr_crossed +
                                 c->rtr_mispredicted + c->rtr_revoked);
        sent += c->rtr_sent;
        used += c->rtr_used;
        silenced += c->rtr_suspended;
    }
    world_end();
    if (check_failures > 0) {
        printf("seed %llu\n", seed);
    }
}

static void leave(struct mt_engine_peer *peer, int32_t tag, uint32_t n)
{
    for (; n > 0; n--) {
        peer->sent++;
        mt_rtr_left(peer, 7, tag);
    }
}

/* An RTR of who has seen the message of that number, for one that comes behind so many
 * others of the tag. */
static struct mt_wire_message rtr(int32_t tag, uint64_t seen, uint32_t ahead)
{
    return (struct mt_wire_message){
        .head = {.context = 7, .tag = tag},
        .rest = {.answer = seen << 32 | ahead},
    };
}

/* A world of two in which the other one has asked for a message with a tag: who asks
 * makes it known. */
static struct mt_engine_peer *asked_begin(int32_t tag)
{
    options = (struct world_options){.processes = 2, .window = 16,
                                     .eager_limit = EAGER, .usage = 80,
                                     .sample = 20, .max_work = MOST,
                                     .rendezvous = MT_ENGINE_RTR};
    world_begin(&options);
    struct mt_engine_peer *peer = &world.engines[0].peers[1];
    struct mt_wire_message m = rtr(tag, 0, 0);
    CHECK_EQ(mt_rtr_arrive(peer, &m), MT_OK);
    return peer;
}

static struct mt_rtr_envelope *envelope_of(struct mt_engine_peer *peer, int32_t tag)
{
    struct mt_rtr_envelope *e = peer->rtr->envelopes;
    while (e->tag != tag || e->context != 7) {
        e++;
    }
    return e;
}

/* The number of an envelope's messages has just wrapped, and is small again: the log
 * has more than so many, and not all that ever left. */
static void test_wrap(void)
{
    enum { TAG = 5, CROSSED = 4, SINCE = 2 };
    struct mt_engine_peer *peer = asked_begin(TAG);
    leave(peer, TAG, MT_RTR_LOG + 1);
    age(peer);
    struct mt_rtr_envelope *e = envelope_of(peer, TAG);
    leave(peer, TAG, UINT32_MAX - e->left + 1 + SINCE);
    CHECK_EQ(e->left, SINCE);
    struct mt_wire_message m = rtr(TAG, peer->sent - CROSSED, CROSSED);
    CHECK_EQ(mt_rtr_arrive(peer, &m), MT_OK);
    CHECK_EQ(e->offers[(e->last - 1) % MT_RTR_OFFERS].turn, SINCE); /* the next */
    world_end();
}

/* An envelope that rests while others have messages by the billion: those of it that
 * left before are not taken for later ones, however far sequences have come. */
static void test_far(void)
{
    enum { TAG = 5, STEPS = 20 };
    struct mt_engine_peer *peer = asked_begin(TAG);
    struct mt_rtr_envelope *e = envelope_of(peer, TAG);
    for (uint32_t i = 0; i < STEPS; i++) {
        leave(peer, TAG, 1);
        peer->sent += UINT64_C(500000000) * (1 + dice(12));
        e->first = e->last; /* as if it had never asked */
        struct mt_wire_message m = rtr(TAG, peer->sent, 0);
        CHECK_EQ(mt_rtr_arrive(peer, &m), MT_OK);
        CHECK_EQ(e->last - e->first, 1);
        CHECK_EQ(e->offers[e->first % MT_RTR_OFFERS].turn, e->left);
    }
    world_end();
}

int main(int argc, char **argv)
{
    state = 1;
    test_wrap();
    test_far();
    unsigned long long seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    unsigned long long last = argc > 2 ? strtoull(argv[2], NULL, 0) : 200;
    for (; seed <= last && check_failures == 0; seed++) {
        program(seed);
    }
    printf("%llu RTRs, %llu used, %llu times silent\n",
           (unsigned long long)sent, (unsigned long long)used,
           (unsigned long long)silenced);
    CHECK(sent > 100 && used > 10 && silenced > 0 && tried > 10 && aged > 10);
    return check_failures != 0;
}
