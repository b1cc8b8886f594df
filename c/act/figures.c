/* figures.c: see figures.h. Rows of the segment are behind the sequence of struct
 * mt_seg_act: odd while they are written, so a reader knows whether what it has
 * read belongs together (segment/read.go). */
#include "figures.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "cache.h"

#define MT_NAME_OF(name) #name,
const char *const mt_act_count_names[MPITRACE_COUNTS] = {
    MT_ENGINE_COUNTS(MT_NAME_OF) MT_CACHE_COUNTS(MT_NAME_OF)
        MT_LEFT_COUNTS(MT_NAME_OF)};
#undef MT_NAME_OF

enum { MT_ACT_NAMES = 64, MT_ACT_NAME = 18 };

static struct {
    uint32_t lock;
    bool open;
    const struct mt_act_live *live;
    const struct mt_left_counts *left;
    struct mt_act_figures now;
} figures;

/* What the program calls communicators; under figures.lock. */
static struct {
    uint32_t count;
    uint32_t communicator[MT_ACT_NAMES];
    char name[MT_ACT_NAMES][MT_ACT_NAME];
} names;

static bool figures_try(void)
{
    return __atomic_exchange_n(&figures.lock, 1, __ATOMIC_ACQUIRE) == 0;
}

static void figures_lock(void)
{
    while (!figures_try()) {
        sched_yield(); /* held while some rows are copied */
    }
}

static void figures_unlock(void)
{
    __atomic_store_n(&figures.lock, 0, __ATOMIC_RELEASE);
}

/* ---- as of now ---- */

/* Where the name of a communicator is, or would be. */
static uint32_t place_of(uint32_t communicator)
{
    uint32_t i = 0;
    while (i < names.count && names.communicator[i] != communicator) {
        i++;
    }
    return i;
}

void mt_act_figures_name(uint32_t communicator, const char *name)
{
    figures_lock();
    uint32_t i = place_of(communicator);
    if (i < MT_ACT_NAMES) {
        names.count += i == names.count;
        names.communicator[i] = communicator;
        snprintf(names.name[i], sizeof(names.name[i]), "%s", name);
        for (char *c = names.name[i]; *c != '\0'; c++) {
            *c = *c < ' ' || *c > '~' || *c == '"' || *c == '\\' ? '?' : *c;
        }
    }
    figures_unlock();
}

static void name_context(char *name, size_t size, uint32_t id)
{
    switch (id) {
    case 0:
        snprintf(name, size, "MPI_COMM_WORLD");
        break;
    case 1:
        snprintf(name, size, "MPI_COMM_SELF");
        break;
    case UINT32_MAX:
        snprintf(name, size, "others");
        break;
    default: { /* the same on all of its members */
        uint32_t i = place_of(id);
        if (i < names.count && names.name[i][0] != '\0') {
            snprintf(name, size, "%s (%u)", names.name[i], id);
        } else {
            snprintf(name, size, "communicator %u", id);
        }
        break;
    }
    }
}

/* What was known, or the newcomer; name is zeros. */
static void name_way(char *name, size_t size, enum mt_engine_tried tried,
                     bool newcomer)
{
    static const char *const ways[MT_ENGINE_TRIALS][2] = {
        [MT_ENGINE_TRIED_WRITING] = {"read", "write"},
        [MT_ENGINE_TRIED_ASKING] = {"sender", "receiver"},
        [MT_ENGINE_TRIED_REUSE] = {"copy", "reuse"}};
    const char *way = ways[tried][newcomer];
    size_t n = strlen(way);
    memcpy(name, way, n < size ? n : size);
}

static void take_decision(struct mt_seg_act_decision *row,
                          const struct mt_engine_decision *d)
{
    const bool newcomer = d->newcomer;
    *row = (struct mt_seg_act_decision){
        .from = d->from,
        .to = d->to,
        .change = d->change,
        .measured_ns = newcomer ? d->newcomer_ns : d->known_ns,
        .runner_up_ns = newcomer ? d->known_ns : d->newcomer_ns,
        .judged_pairs = d->judged,
        .pairs = d->pairs,
        .fall_backs = d->fall_backs,
        .decided_ns = d->decided_ns,
        .messages = d->messages[0] + d->messages[1],
        .newcomer_messages = d->messages[1],
        .bytes = d->bytes[0] + d->bytes[1],
    };
    name_context(row->communicator, sizeof(row->communicator), d->context);
    name_way(row->chosen, sizeof(row->chosen), d->tried, newcomer);
    name_way(row->runner_up, sizeof(row->runner_up), d->tried, !newcomer);
    name_way(row->newcomer, sizeof(row->newcomer), d->tried, true);
    snprintf(row->state, sizeof(row->state), "%s", d->state);
    snprintf(row->reason, sizeof(row->reason), "%s", d->reason);
}

static void take(const struct mt_engine *engine)
{
    struct mt_act_figures *f = &figures.now;
    static struct mt_engine_decision d[MPITRACE_ACT_DECISIONS];
    uint64_t *left = (uint64_t *)&f->counts.left;
    mt_engine_count(engine, &f->counts.engine);
    mt_act_cache_count(&f->counts.cache);
    for (size_t i = 0; i < sizeof(f->counts.left) / sizeof(*left); i++) {
        left[i] = __atomic_load_n((const uint64_t *)figures.left + i,
                                  __ATOMIC_RELAXED);
    }
    uint32_t n = mt_engine_decisions(engine, d, MPITRACE_ACT_DECISIONS);
    f->decisions = n < MPITRACE_ACT_DECISIONS ? n : MPITRACE_ACT_DECISIONS;
    for (uint32_t i = 0; i < f->decisions; i++) {
        take_decision(&f->decision[i], &d[i]);
    }
}

/* ---- in the segment ---- */

/* Not before the sequence became odd. */
static void store(uint64_t *place, uint64_t value)
{
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
}

static void show(void)
{
    const size_t words = sizeof(struct mt_seg_act_decision) / sizeof(uint64_t);
    const struct mt_act_figures *f = &figures.now;
    const struct mt_act_live *live = figures.live;
    if (live->decisions == NULL) {
        return;
    }
    uint32_t sequence = live->act->sequence;
    __atomic_store_n(&live->act->sequence, sequence + 1, __ATOMIC_RELAXED);
    const uint64_t *counts = (const uint64_t *)&f->counts;
    for (uint32_t i = 0; i < MPITRACE_COUNTS; i++) {
        store(&live->counts[i].value, counts[i]);
    }
    const uint64_t *rows = (const uint64_t *)f->decision;
    for (size_t i = 0; i < f->decisions * words; i++) {
        store((uint64_t *)live->decisions + i, rows[i]);
    }
    __atomic_store_n(&live->decisions_section->used, f->decisions,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&live->act->sequence, sequence + 2, __ATOMIC_RELEASE);
}

void mt_act_figures_open(const struct mt_act_live *live,
                         const struct mt_left_counts *left)
{
    figures_lock();
    figures.live = live;
    figures.left = left;
    if (live->decisions != NULL) {
        for (uint32_t i = 0; i < MPITRACE_COUNTS; i++) {
            snprintf(live->counts[i].name, sizeof(live->counts[i].name), "%s",
                     mt_act_count_names[i]);
        }
        __atomic_store_n(&live->counts_section->used, MPITRACE_COUNTS,
                         __ATOMIC_RELEASE);
    }
    figures.open = true;
    figures_unlock();
}

void mt_act_figures_watch(void *user, const struct mt_engine *engine)
{
    (void)user;
    if (!figures_try()) {
        return;
    }
    if (figures.open) {
        take(engine);
        show();
    }
    figures_unlock();
}

const struct mt_act_figures *
mt_act_figures_close(const struct mt_engine *engine)
{
    figures_lock();
    take(engine);
    show();
    figures.open = false;
    figures_unlock();
    return &figures.now;
}
