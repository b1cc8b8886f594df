/* hold.c: short messages to one peer that follow each other at once leave its ring
 * together (message coalescing), where each WRITE is a system call of who posts it.
 * Elsewhere a WRITE costs so little that the first one would wait for longer than all
 * of them save.
 *
 * A run is what is sent to a peer by its ring while the program neither waits nor
 * looks. A message is held back when the last two runs were longer than this one is
 * yet (those of a program that does much between its sends count as none), so that the
 * last one of a run of the usual length takes along all that are held; and for no
 * longer than twice a system call takes, as far as the program sends. What is held
 * because a run ends early leaves when the program next waits, looks or sends the peer
 * another message, or with the thread, which looks for it between its naps; then the
 * peer is left alone for a while, and for longer each time. */
#include "rings.h"

enum {
    MT_HOLD_MESSAGES = 16, /* that leave together, at most, and their bytes: */
    MT_HOLD_BYTES = 4096,
    MT_HOLD_PAUSE = 256, /* runs without it behind a late one, at first, */
    MT_HOLD_PAUSE_MOST = 65536,
    MT_HOLD_BUSY = 4, /* one message in so many after a gap is many */
    MT_HOLD_GAP_NS = 10000, /* twice a send over TCP */
    MT_HOLD_LATE_NS = 100000,
};

void mt_hold_open(struct mt_engine *engine)
{
    const struct mt_fabric_caps *caps = engine->rails.rails[0].caps;
    engine->hold_gap_ns =
        caps->writes_need_polls && !caps->offloads ? MT_HOLD_GAP_NS : 0;
}

/* Changes with each wait and look of the program. */
static uint32_t mt_looks(const struct mt_engine *engine)
{
    return __atomic_load_n(&engine->looks, __ATOMIC_RELAXED) +
           __atomic_load_n(&engine->spins, __ATOMIC_RELAXED) +
           __atomic_load_n(&engine->rounds, __ATOMIC_RELAXED);
}

static void mt_run_begin(struct mt_run *run, uint32_t looks)
{
    uint32_t length = MT_HOLD_BUSY * run->busy < run->length ? run->length : 0;
    run->expected = length < run->before ? length : run->before;
    run->before = length;
    run->length = run->busy = 0;
    run->looks = looks;
    if (mt_unlikely(run->pause > 0)) {
        run->pause--;
        run->expected = 0;
    }
}

bool mt_hold_wants(struct mt_engine_ring *ring, uint64_t bytes)
{
    const struct mt_engine *engine = ring->peer->engine;
    struct mt_run *run = &ring->run;
    if (engine->hold_gap_ns == 0) {
        return false;
    }
    uint64_t now = mt_engine_now_ns();
    uint32_t looks = mt_looks(engine);
    bool busy = now - run->sent_ns > engine->hold_gap_ns;
    if (run->looks != looks) {
        mt_run_begin(run, looks);
    } else {
        run->busy += busy;
    }
    run->sent_ns = now;
    run->length++;
    bool waits = ring->out.held > 0;
    run->held_ns = waits ? run->held_ns : now;
    return run->length < run->expected &&
           now - run->held_ns <= engine->hold_gap_ns &&
           ring->out.held < MT_HOLD_MESSAGES - 1 &&
           mt_path_ring_holds(&ring->out) + mt_path_ring_lines(bytes) <=
               MT_HOLD_BYTES;
}

void mt_hold_sent(struct mt_engine_ring *ring, bool held)
{
    struct mt_engine *engine = ring->peer->engine;
    if (engine->hold_gap_ns == 0) {
        return;
    }
    if (!held) {
        ring->run.sent_ns = mt_engine_now_ns(); /* behind the system call */
        return;
    }
    engine->counts.coalesced_messages++;
    if (!ring->holds) {
        ring->holds = true;
        ring->holds_next = engine->holding;
        __atomic_store_n(&engine->holding, ring, __ATOMIC_RELAXED);
        mt_thread_watches(engine);
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

bool mt_hold_late(struct mt_engine *engine, uint64_t now_ns)
{
    struct mt_engine_ring *kept = NULL, *ring = engine->holding, *next;
    for (; ring != NULL; ring = next) {
        struct mt_run *run = &ring->run;
        next = ring->holds_next;
        if (ring->out.held > 0 && now_ns - run->held_ns < MT_HOLD_LATE_NS) {
            ring->holds_next = kept;
            kept = ring;
            continue;
        }
        if (ring->out.held > 0) {
            run->longer = run->longer == 0 ? MT_HOLD_PAUSE
                          : run->longer < MT_HOLD_PAUSE_MOST
                              ? 2 * run->longer
                              : run->longer;
            run->pause = run->longer;
        }
        ring->holds = false;
        mt_ring_release(ring->peer);
    }
    __atomic_store_n(&engine->holding, kept, __ATOMIC_RELAXED);
    return kept != NULL;
}

uint32_t mt_engine_look(struct mt_engine *engine)
{
    uint32_t looks = __atomic_load_n(&engine->looks, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&engine->looks, looks, __ATOMIC_RELAXED);
    if (mt_unlikely(__atomic_load_n(&engine->holding, __ATOMIC_RELAXED) !=
                    NULL)) {
        mt_engine_lock(engine);
        mt_hold_end(engine);
        mt_engine_unlock(engine);
    }
    return looks;
}
