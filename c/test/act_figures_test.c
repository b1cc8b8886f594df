/* sources: c/act/figures.c */
/* The rows in which a segment shows what a rank carries: what is in them and when.
 * Engine and cache are made up here. */
#include "../act/cache.h"
#include "../act/figures.h"
#include "check.h"

#include <string.h>

static struct mt_engine_counts engine_counts;
static uint32_t decisions, asked;

void mt_engine_count(const struct mt_engine *engine,
                     struct mt_engine_counts *counts_p)
{
    (void)engine;
    *counts_p = engine_counts;
}

/* More than there is room for, if decisions says so. */
uint32_t mt_engine_decisions(const struct mt_engine *engine,
                             struct mt_engine_decision *out, uint32_t room)
{
    (void)engine;
    asked++;
    for (uint32_t i = 0; i < decisions && i < room; i++) {
        out[i] = (struct mt_engine_decision){
            .context = i == 3 ? UINT32_MAX : i,
            .from = 65536,
            .to = 131072,
            .tried = i == 3   ? MT_ENGINE_TRIED_REUSE
                     : i == 2 ? MT_ENGINE_TRIED_ASKING
                              : MT_ENGINE_TRIED_WRITING,
            .newcomer = i % 2 == 0,
            .state = i == 0 ? "kept" : "retreated",
            .reason = i == 0 ? "faster" : "no-gain",
            .change = -0.25,
            .judged = 8,
            .pairs = 16,
            .fall_backs = 1,
            .known_ns = 4000,
            .newcomer_ns = 3000,
            .decided_ns = 77,
            .messages = {30, 12},
            .bytes = {300, 120}};
    }
    return decisions;
}

void mt_act_cache_count(struct mt_cache_counts *counts_p)
{
    *counts_p = (struct mt_cache_counts){.cache_hits = 5};
}

/* ---- what the shim gives ---- */

static struct mt_seg_act act;
static struct mt_seg_act_count counts[MPITRACE_COUNTS];
static struct mt_seg_act_decision rows[MPITRACE_ACT_DECISIONS];
static struct mt_seg_section counts_section, decisions_section;
static const struct mt_act_live live = {&act, counts, rows, &counts_section,
                                        &decisions_section};
static struct mt_left_counts left;

static uint64_t shown(const char *name)
{
    for (uint32_t i = 0; i < counts_section.used; i++) {
        if (strcmp(counts[i].name, name) == 0) {
            return counts[i].value;
        }
    }
    return UINT64_MAX;
}

/* What the program calls a communicator, as far as there is room, and harmless. */
static void test_names(void)
{
    decisions = 5;
    mt_act_figures_open(&live, &left);
    mt_act_figures_name(2, "a \"halo\"\\ of 30 letters, too many");
    mt_act_figures_name(4, "first");
    mt_act_figures_name(4, "");
    for (uint32_t i = 0; i < 100; i++) {
        mt_act_figures_name(100 + i, "more");
    }
    mt_act_figures_watch(NULL, NULL);
    CHECK(strcmp(rows[0].communicator, "MPI_COMM_WORLD") == 0);
    CHECK(strcmp(rows[2].communicator, "a ?halo?? of 30 l (2)") == 0);
    CHECK(strcmp(rows[3].communicator, "others") == 0);
    CHECK(strcmp(rows[4].communicator, "communicator 4") == 0);
    mt_act_figures_name(4, "last");
    mt_act_figures_watch(NULL, NULL);
    CHECK(strcmp(rows[4].communicator, "last (4)") == 0);
    mt_act_figures_close(NULL);
}

static void test_shown(void)
{
    engine_counts.eager_messages = 10;
    engine_counts.wrong_messages = 1;
    left.messages_by_arguments = 7;
    mt_act_figures_watch(NULL, NULL); /* nothing is open */
    CHECK_EQ(asked, 0);
    CHECK_EQ(counts_section.used, 0);
    mt_act_figures_open(&live, &left);
    CHECK_EQ(counts_section.used, MPITRACE_COUNTS);
    CHECK_EQ(shown("eager_messages"), 0);
    mt_act_figures_watch(NULL, NULL);
    CHECK_EQ(act.sequence, 2);
    CHECK_EQ(shown("eager_messages"), 10);
    CHECK_EQ(shown("wrong_messages"), 1);
    CHECK_EQ(shown("cache_hits"), 5);
    CHECK_EQ(shown("messages_by_arguments"), 7);
    CHECK_EQ(shown("no such count"), UINT64_MAX);
    CHECK_EQ(decisions_section.used, 0);
}

static void test_decisions(void)
{
    decisions = 4;
    mt_act_figures_watch(NULL, NULL);
    CHECK_EQ(act.sequence, 4);
    CHECK_EQ(decisions_section.used, 4);
    CHECK(strcmp(rows[0].communicator, "MPI_COMM_WORLD") == 0);
    CHECK(strcmp(rows[1].communicator, "MPI_COMM_SELF") == 0);
    CHECK(strcmp(rows[2].communicator, "communicator 2") == 0);
    CHECK(strcmp(rows[3].communicator, "others") == 0);
    CHECK(strcmp(rows[0].chosen, "write") == 0);
    CHECK(strcmp(rows[0].runner_up, "read") == 0);
    CHECK(strcmp(rows[1].chosen, "read") == 0);
    CHECK(strcmp(rows[1].runner_up, "write") == 0);
    CHECK(strcmp(rows[1].newcomer, "write") == 0);
    CHECK(strncmp(rows[2].chosen, "receiver", sizeof(rows[2].chosen)) == 0);
    CHECK(strcmp(rows[2].runner_up, "sender") == 0);
    CHECK(strcmp(rows[3].chosen, "copy") == 0);
    CHECK(strcmp(rows[3].runner_up, "reuse") == 0);
    CHECK(strcmp(rows[3].newcomer, "reuse") == 0);
    CHECK(strcmp(rows[1].state, "retreated") == 0);
    CHECK(strcmp(rows[1].reason, "no-gain") == 0);
    CHECK(rows[0].measured_ns == 3000 && rows[0].runner_up_ns == 4000);
    CHECK(rows[1].measured_ns == 4000 && rows[1].runner_up_ns == 3000);
    CHECK_EQ(rows[0].messages, 42);
    CHECK_EQ(rows[0].newcomer_messages, 12);
    CHECK_EQ(rows[0].bytes, 420);
    CHECK_EQ(rows[0].pairs, 16);
    decisions = MPITRACE_ACT_DECISIONS + 2;
    mt_act_figures_watch(NULL, NULL);
    CHECK_EQ(decisions_section.used, MPITRACE_ACT_DECISIONS);
}

/* What is shown at last is what the ledger is written from, and stays. */
static void test_close(void)
{
    engine_counts.eager_messages = 11;
    const struct mt_act_figures *last = mt_act_figures_close(NULL);
    const uint64_t *values = (const uint64_t *)&last->counts;
    for (uint32_t i = 0; i < MPITRACE_COUNTS; i++) {
        CHECK_EQ(shown(mt_act_count_names[i]), values[i]);
    }
    CHECK_EQ(last->decisions, decisions_section.used);
    CHECK(memcmp(last->decision, rows, sizeof(rows)) == 0);
    uint32_t sequence = act.sequence;
    CHECK_EQ(sequence % 2, 0);
    engine_counts.eager_messages = 12;
    mt_act_figures_watch(NULL, NULL);
    CHECK_EQ(shown("eager_messages"), 11);
    CHECK_EQ(last->counts.engine.eager_messages, 11);
    CHECK_EQ(act.sequence, sequence);
}

/* Without room in the segment there is still a ledger. */
static void test_no_room(void)
{
    static const struct mt_act_live nothing;
    mt_act_figures_open(&nothing, &left);
    mt_act_figures_watch(NULL, NULL);
    CHECK_EQ(mt_act_figures_close(NULL)->counts.engine.eager_messages, 12);
    CHECK_EQ(shown("eager_messages"), 11);
}

int main(void)
{
    test_shown();
    test_decisions();
    test_close();
    test_no_room();
    test_names();
    return check_failures != 0;
}
