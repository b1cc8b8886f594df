/* sources: c/engine/arrive.c c/engine/choice.c c/engine/decisions.c c/engine/eager.c c/engine/hold.c c/engine/keeper.c c/engine/layout.c c/engine/lock.c c/engine/match.c c/engine/progress.c c/engine/receive.c c/engine/reuse.c c/engine/ring.c c/engine/rtr.c c/engine/send.c c/engine/transfer.c c/engine/trial.c c/engine/usage.c c/engine/verify.c c/engine/wire.c c/fabric/crc32c.c c/fabric/paths/credits.c c/fabric/paths/paths.c c/fabric/paths/reads.c c/fabric/paths/ring.c */
/* What is measured of messages straight from memory, and that the model is asked:
 * two simulated processes, and costs that the test sets. Of times that are really
 * taken it only says whether they are 0. */
#include "engine_world.h"

enum { BYTES = 4096, SITE = 77, SIZE = 12, ENOUGH = 1000000 };

static unsigned char memory[BYTES], received[BYTES];

static void world_heard(uint32_t from, uint32_t to,
                        const struct mt_fabric_send *work,
                        const struct mt_wire_message *m)
{
    (void)from, (void)to, (void)work, (void)m;
}

static void world_came(uint32_t from, uint32_t to,
                       const struct mt_wire_message *m)
{
    (void)from, (void)to, (void)m;
}

/* A copy takes so long, looking up and registering nothing, and no look is timed. */
static struct mt_eager *begin(uint64_t copy_ns)
{
    const struct world_options o = {.processes = 2,
                                    .window = 32,
                                    .eager_limit = BYTES,
                                    .max_work = BYTES,
                                    .straight = true};
    world_begin(&o);
    struct mt_eager *e = world.engines[0].eager;
    CHECK(e != NULL && world.engines[0].eager_off == NULL);
    CHECK(e->reuse.registering[SIZE] > 0); /* measured */
    world.engines[0].o.terms.reuse = MT_ENGINE_REUSES;
    memset(e->reuse.registering, 0, sizeof(e->reuse.registering));
    for (unsigned i = 0; i < MT_REUSE_LOOK; i++) {
        mt_reuse_copied(&e->reuse, BYTES, copy_ns);
    }
    e->reuse.seen[SIZE] = 1;
    e->looked = e->borrowed = MT_REUSE_LOOK;
    return e;
}

static void start(struct mt_engine_request *r, enum mt_engine_mode mode,
                  uint64_t site)
{
    struct mt_buffer b = {.address = memory, .bytes = BYTES, .site = site};
    CHECK_EQ(mt_engine_send(world.contexts[0], r, 1, 0, mode, &b), MT_OK);
}

static void take(struct mt_engine_request *r)
{
    struct mt_buffer b = {.address = received, .bytes = BYTES};
    CHECK_EQ(mt_engine_receive(world.contexts[1], r, 0, 0, &b), MT_OK);
}

static const struct mt_reuse_samples *exposed(const struct mt_eager *e)
{
    for (unsigned i = 0; i < 2 * MT_REUSE_SITES; i++) {
        const struct mt_reuse_site *s = &e->reuse.sites[i];
        if (s->taken && s->site == SITE && s->size == SIZE) {
            return &s->exposed;
        }
    }
    printf("the place is not known\n");
    exit(1);
}

/* One message there, received first. waits: somebody asks before it is done. */
static void message(enum mt_engine_mode mode, bool waits)
{
    struct mt_engine_request s, r;
    take(&r);
    start(&s, mode, SITE);
    if (waits) {
        mt_engine_done(&s);
    }
    world_settle();
    CHECK(mt_engine_done(&s) && mt_engine_done(&r));
}

/* What counts as a wait. */
static void waits(void)
{
    struct mt_eager *e = begin(UINT64_C(1) << 40);
    struct mt_engine_request s, r;
    message(MT_ENGINE_STANDARD, false);
    CHECK_EQ(exposed(e)->n, 1);
    CHECK_EQ(exposed(e)->ns[0], 0);
    message(MT_ENGINE_SYNCHRONOUS, true); /* it waits for its receive */
    CHECK_EQ(exposed(e)->n, 2);
    CHECK_EQ(exposed(e)->ns[1], 0);
    message(MT_ENGINE_STANDARD, true);
    CHECK_EQ(exposed(e)->n, 2); /* the next wait may make up for it: */
    CHECK(e->waited_ns > 0);
    message(MT_ENGINE_STANDARD, false); /* there is none */
    CHECK_EQ(exposed(e)->n, 4);
    CHECK(exposed(e)->ns[2] > 0 && exposed(e)->ns[3] == 0);
    message(MT_ENGINE_STANDARD, true);
    uint64_t waited = e->waited_ns;
    for (unsigned i = 0; e->idle_ns < waited && i < ENOUGH; i++) {
        world_progress(0); /* .. but now there is one, */
    }
    CHECK_EQ(exposed(e)->n, 4);
    struct mt_buffer b = {.address = received, .bytes = BYTES};
    CHECK_EQ(mt_engine_send(world.contexts[1], &s, 0, 0, MT_ENGINE_STANDARD,
                            &b),
             MT_OK);
    b.address = memory;
    CHECK_EQ(mt_engine_receive(world.contexts[0], &r, 1, 0, &b), MT_OK);
    world_settle(); /* until something comes */
    CHECK(mt_engine_done(&r));
    CHECK_EQ(exposed(e)->n, 5);
    CHECK_EQ(exposed(e)->ns[4], 0);
    world_end();
}

/* Places whose waits exceed a copy are left alone. */
static void retreat(void)
{
    struct mt_eager *e = begin(1);
    for (unsigned i = 0; i < 100; i++) {
        message(MT_ENGINE_STANDARD, true);
        e->reuse.seen[SIZE] = 1; /* no copy is timed */
    }
    CHECK_EQ(world.engines[0].counts.zero_copy_messages, MT_REUSE_LOOK);
    CHECK_EQ(e->reuse.retreats, 1);
    world_end();
}

/* Copies are timed where nothing is known, and a place without a number is that
 * of a copy. */
static void copies(void)
{
    struct mt_eager *e = begin(1000);
    struct mt_engine_request s, r;
    e->reuse.copies[SIZE] = (struct mt_reuse_samples){.n = 0};
    e->reuse.usage.median = 1e9; /* nothing pays */
    for (unsigned i = 0; i < MT_REUSE_LOOK; i++) {
        message(MT_ENGINE_STANDARD, false);
    }
    CHECK_EQ(e->reuse.copies[SIZE].n, MT_REUSE_LOOK);
    CHECK_EQ(world.engines[0].counts.zero_copy_messages, 0);
    uint32_t looked = e->looked;
    take(&r);
    start(&s, MT_ENGINE_STANDARD, 0);
    CHECK(mt_engine_done(&s));
    CHECK_EQ(e->looked, looked);
    world_settle();
    CHECK(mt_engine_done(&r));
    world_end();
}

/* Without a keeper nothing leaves straight, nor where registering fails. */
static void keepers(void)
{
    const struct mt_engine_keeper keeper = {world_lend, world_back,
                                            &world.pds[0]};
    begin(UINT64_C(1) << 40);
    mt_engine_keep(&world.engines[0], NULL);
    CHECK(mt_engine_reuse_off(&world.engines[0]) != NULL);
    message(MT_ENGINE_STANDARD, false);
    world.pds[0].refuses = true;
    mt_engine_keep(&world.engines[0], &keeper);
    CHECK(mt_engine_reuse_off(&world.engines[0]) != NULL);
    message(MT_ENGINE_STANDARD, false);
    CHECK_EQ(world.engines[0].counts.zero_copy_messages, 0);
    world.pds[0].refuses = false;
    mt_engine_keep(&world.engines[0], &keeper);
    CHECK(mt_engine_reuse_off(&world.engines[0]) == NULL);
    message(MT_ENGINE_STANDARD, false);
    CHECK_EQ(world.engines[0].counts.zero_copy_messages, 1);
    world_end();
}

/* Left open, what the model would have leave straight does so in some epochs only,
 * and a copy there is no use of the place that was asked for. */
static void tried(void)
{
    struct mt_eager *e = begin(UINT64_C(1) << 40);
    struct mt_engine *engine = &world.engines[0];
    struct mt_engine_decision d[2];
    const uint32_t all = 200;
    engine->o.terms.reuse = MT_ENGINE_TRIES_REUSE;
    for (uint32_t i = 0; i < all; i++) {
        message(MT_ENGINE_STANDARD, false);
    }
    CHECK_EQ(mt_engine_decisions(engine, d, 2), 1);
    CHECK_EQ(d[0].tried, MT_ENGINE_TRIED_REUSE);
    CHECK_EQ(d[0].from, BYTES);
    CHECK_EQ(d[0].messages[0] + d[0].messages[1], all);
    /* nothing is decided before 8 epochs of each, whose messages rest 4 times */
    CHECK(d[0].messages[0] >= 24 && d[0].messages[1] >= 24);
    CHECK_EQ(engine->counts.zero_copy_messages, d[0].messages[1]);
    CHECK_EQ(engine->counts.copied_bytes, d[0].messages[0] * BYTES);
    e->reuse.usage.median = 1e18; /* the model is against it: nothing is tried */
    message(MT_ENGINE_STANDARD, false);
    mt_engine_decisions(engine, d, 2);
    CHECK_EQ(d[0].messages[0] + d[0].messages[1], all);
    world_end();
}

/* The epoch in which a place begins to rest is no measure: its messages that follow are
 * not counted, and take their time all the same. */
static void halted(void)
{
    struct mt_eager *e = begin(1);
    struct mt_engine *engine = &world.engines[0];
    engine->o.terms.reuse = MT_ENGINE_TRIES_REUSE;
    for (uint32_t i = 0; i < 200 && e->reuse.retreats == 0; i++) {
        message(MT_ENGINE_STANDARD, true);
        e->reuse.seen[SIZE] = 1; /* no copy is timed */
    }
    CHECK_EQ(e->reuse.retreats, 1);
    const struct mt_choice *c =
        mt_choice_get(&engine->choices[MT_ENGINE_TRIED_REUSE],
                      world.contexts[0]->id, BYTES);
    CHECK(c != NULL && c->spoilt && c->messages > 0);
    world_end();
}

int main(void)
{
    waits();
    tried();
    retreat();
    halted();
    copies();
    keepers();
    return check_failures != 0;
}
