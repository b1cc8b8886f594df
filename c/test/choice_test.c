/* sources: c/engine/choice.c c/engine/trial.c */
/* Which way long messages go, with a clock of the test's. */
#include <stdio.h>
#include <stdlib.h>

#include "../engine/choice.h"
#include "check.h"

static struct mt_choices choices;
static uint64_t now;

/* A window of messages, each of which takes so long by known, by newcomer, and
 * then rest of the program's time. How many went by the newcomer. */
static unsigned window(struct mt_choice *c, unsigned messages,
                       uint64_t known_ns, uint64_t newcomer_ns, uint64_t rest)
{
    unsigned newcomers = 0;
    for (unsigned i = 0; i < messages; i++) {
        uint64_t at = mt_choice_due(c) ? now : 0;
        bool newcomer = mt_choice_begin(c, 1 << 20, at);
        newcomers += newcomer;
        now += 10;
    }
    /* they all come to their end together */
    now += newcomers * newcomer_ns + (messages - newcomers) * known_ns + rest;
    for (unsigned i = 0; i < messages; i++) {
        mt_choice_end(c, false);
    }
    return newcomers;
}

/* Windows until something is decided; how many. */
static unsigned decide(struct mt_choice *c, unsigned messages, uint64_t known,
                       uint64_t newcomer)
{
    unsigned n = 0;
    enum mt_trial_state before = c->trial.state;
    for (; n < 100000 && c->trial.state == before; n++) {
        /* every 64th window the program does something else */
        window(c, messages, known, newcomer, n % 64 == 63 ? 1000000 : 500);
    }
    return n;
}

static void faster(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 2, 1 << 20);
    CHECK(mt_choice_get(&choices, 2, (1 << 20) + 5) == c);
    CHECK(mt_choice_get(&choices, 3, 1 << 20) != c);
    CHECK(mt_choice_get(&choices, 2, 1 << 21) != c);
    unsigned n = decide(c, 1, 1000, 700);
    CHECK(c->trial.state == MT_TRIAL_KEPT);
    CHECK(n >= 16 * MT_EPOCH_RESTS);
    CHECK(c->decided_ns > 0 && c->decided_ns <= now);
    CHECK_EQ(c->went[0] + c->went[1], n);
    CHECK_EQ(c->bytes[1], c->went[1] << 20);
    /* now it goes by the newcomer, and no time is wanted */
    for (unsigned i = 0; i < 100; i++) {
        CHECK(!mt_choice_due(c));
        CHECK_EQ(window(c, 1, 1000, 700, 0), 1);
    }
    decide(c, 1, 1000, 700); /* tried again after a while .. */
    CHECK(c->trial.state == MT_TRIAL_TRYING);
    decide(c, 1, 1000, 1500); /* .. when it loses */
    CHECK(c->trial.state == MT_TRIAL_RETREATED);
    CHECK_EQ(c->trial.fall_backs, 1);
}

/* What the program does every 64 windows does not decide, nor that the last
 * message of a window waits for all of them. */
static void equal(void)
{
    unsigned kept = 0;
    for (uint32_t context = 10; context < 30; context++) {
        struct mt_choice *c = mt_choice_get(&choices, context, 1 << 20);
        decide(c, 1 + context % 7 * 10, 1000, 1000);
        kept += c->trial.state == MT_TRIAL_KEPT;
    }
    CHECK(kept <= 2); /* 2 % of them, by chance */
}

/* Messages that never come to rest stay with what is known. */
static void restless(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 40, 1 << 20);
    mt_choice_begin(c, 1, now);
    for (unsigned i = 0; i < 3 * MT_EPOCH_MOST; i++) {
        CHECK(!mt_choice_due(c));
        CHECK(!mt_choice_begin(c, 1, 0));
        mt_choice_end(c, false);
    }
    mt_choice_end(c, false);
    CHECK_EQ(c->trial.pairs, 0);
}

/* What went another way counts for nothing. */
static void spoilt(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 41, 1 << 20);
    for (unsigned i = 0; i < 1000; i++) {
        bool due = mt_choice_due(c);
        now += 100;
        CHECK(!mt_choice_begin(c, 1, due ? now : 0));
        mt_choice_end(c, true);
    }
    CHECK_EQ(c->trial.pairs, 0);
    CHECK(c->trial.half == 0);
}

/* Beyond the table sizes are all that is told apart. */
static void crowd(void)
{
    for (uint32_t context = 1000; context < 1000 + 2 * MT_CHOICES; context++) {
        CHECK(mt_choice_get(&choices, context, 1 << 17) != NULL);
    }
    CHECK_EQ(choices.count, MT_CHOICES);
    struct mt_choice *a = mt_choice_get(&choices, 5000, 1 << 17);
    CHECK(a == mt_choice_get(&choices, 5001, 1 << 17));
    CHECK(a->context == UINT32_MAX);
    CHECK(a != mt_choice_get(&choices, 5000, 1 << 18));
    CHECK(mt_choice_get(&choices, 2, 1 << 20)->context == 2);
    CHECK(mt_choice_get(&choices, 1, 0) != NULL);
    CHECK(mt_choice_get(&choices, 1, UINT64_MAX) != NULL);
}

/* Tables with different salts have epochs of different lengths. */
static void test_salt(void)
{
    struct mt_choices other = {.salt = UINT64_C(0x9e3779b97f4a7c15)};
    struct mt_choices plain = {.salt = 0};
    struct mt_choice *c[2] = {mt_choice_get(&plain, 7, 1 << 20),
                              mt_choice_get(&other, 7, 1 << 20)};
    uint32_t different = 0;
    for (int i = 0; i < 1000; i++) {
        for (int k = 0; k < 2; k++) {
            mt_choice_begin(c[k], 1 << 20, (uint64_t)i + 1);
            mt_choice_end(c[k], false);
        }
        different += c[0]->newcomer != c[1]->newcomer;
    }
    CHECK(different > 100);
    mt_choices_free(&plain);
    mt_choices_free(&other);
}

int main(void)
{
    test_salt();
    faster();
    equal();
    restless();
    spoilt();
    crowd();
    mt_choices_free(&choices);
    return check_failures != 0;
}
