/* hold.c: short messages to one peer that follow each other at once leave its ring
 * together (message coalescing): a WRITE costs a system call over sockets, and a
 * good part of a short message everywhere.
 *
 * A run is what is sent to a peer by its ring while the program neither waits nor
 * looks. A message is held back when the last two runs were longer than this one
 * is yet, so that the last one of a run of the usual length takes along all that
 * are held. What is held because a run ends early leaves when the program next
 * waits, looks or has another thing sent to the peer, or with the thread, which
 * looks for it between its naps; then the peer is left alone for a while, and for
 * longer each time: such a program computes between its messages. */
#include "inside.h"

enum {
    MT_HOLD_MESSAGES = 16, /* that leave together, at most, and their bytes: */
    MT_HOLD_BYTES = 4096,
    MT_HOLD_PAUSE = 256, /* runs without it behind a late one, at first, */
    MT_HOLD_PAUSE_MOST = 65536,
};

/* Changes with each wait and look of the program. */
static uint32_t mt_looks(const struct mt_engine *engine)
{
    return __atomic_load_n(&engine->looks, __ATOMIC_RELAXED) +
           __atomic_load_n(&engine->spins, __ATOMIC_RELAXED) +
           __atomic_load_n(&engine->rounds, __ATOMIC_RELAXED);
}

static void mt_run_begin(struct mt_run *run, uint32_t looks)
{
    run->expected = run->length < run->before ? run->length : run->before;
    run->before = run->length;
    run->length = 0;
    run->looks = looks;
    if (mt_unlikely(run->pause > 0)) {
        run->pause--;
        run->expected = 0;
    }
}

bool mt_hold_wants(struct mt_engine_ring *ring, uint64_t bytes)
{
    struct mt_run *run = &ring->run;
    uint32_t looks = mt_looks(ring->peer->engine);
    if (run->looks != looks) {
        mt_run_begin(run, looks);
    }
    run->length++;
    return run->length < run->expected &&
           ring->out.held < MT_HOLD_MESSAGES - 1 &&
           mt_path_ring_holds(&ring->out) + mt_path_ring_lines(bytes) <=
               MT_HOLD_BYTES;
}

void mt_hold_add(struct mt_engine_ring *ring)
{
    struct mt_engine *engine = ring->peer->engine;
    engine->counts.coalesced_messages++;
    mt_engine_add(&engine->holds, 1);
    if (!ring->holds) {
        ring->holds = true;
        ring->holds_next = engine->holding;
        __atomic_store_n(&engine->holding, ring, __ATOMIC_RELAXED);
    }
}

void mt_hold_end(struct mt_engine *engine)
{
    struct mt_engine_ring *ring;
    while ((ring = engine->holding) != NULL) {
        __atomic_store_n(&engine->holding, ring->holds_next, __ATOMIC_RELAXED);
        ring->holds = false;
        mt_ring_release(ring->peer);
    }
}

void mt_hold_late(struct mt_engine *engine)
{
    for (struct mt_engine_ring *ring = engine->holding; ring != NULL;
         ring = ring->holds_next) {
        struct mt_run *run = &ring->run;
        if (ring->out.held > 0) {
            run->longer = run->longer == 0 ? MT_HOLD_PAUSE
                          : run->longer < MT_HOLD_PAUSE_MOST
                              ? 2 * run->longer
                              : run->longer;
            run->pause = run->longer;
        }
    }
    mt_hold_end(engine);
}

void mt_engine_looked(struct mt_engine *engine)
{
    __atomic_store_n(&engine->looks,
                     __atomic_load_n(&engine->looks, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
    if (mt_unlikely(__atomic_load_n(&engine->holding, __ATOMIC_RELAXED) !=
                    NULL) &&
        !engine->forgotten) {
        mt_engine_lock(engine);
        mt_hold_end(engine);
        mt_engine_unlock(engine);
    }
}
