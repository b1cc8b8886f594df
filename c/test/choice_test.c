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
        uint64_t at = mt_choice_due(c, i) ? now : 0;
        bool newcomer = mt_choice_begin(c, i, 1 << 20, at);
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
        CHECK(!mt_choice_due(c, 0));
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
    mt_choice_begin(c, 0, 1, now);
    for (unsigned i = 0; i < 3 * MT_EPOCH_MOST; i++) {
        CHECK(!mt_choice_due(c, 0));
        CHECK(!mt_choice_begin(c, 0, 1, 0));
        mt_choice_end(c, false);
    }
    mt_choice_end(c, false);
    CHECK_EQ(c->trial.pairs, 0);
}

/* Nor do those of which none is like another. */
static void strangers(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 42, 1 << 20);
    for (unsigned i = 0; i < 3 * MT_EPOCH_MOST; i++) {
        now += 100;
        CHECK(!mt_choice_begin(c, i, 1, mt_choice_due(c, i) ? now : 0));
        mt_choice_end(c, false);
    }
    CHECK_EQ(c->trial.pairs, 0);
}

/* What was decided for stays where messages rest no more. */
static void restless_later(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 43, 1 << 20);
    decide(c, 1, 1000, 500);
    CHECK(c->trial.state == MT_TRIAL_KEPT);
    window(c, 1, 1000, 500, 0);
    mt_choice_begin(c, 0, 1, now);
    for (unsigned i = 0; i < 3 * MT_EPOCH_MOST; i++) {
        CHECK(mt_choice_begin(c, 0, 1, now));
        mt_choice_end(c, false);
    }
    mt_choice_end(c, false);
}

/* A program begins so many messages, a little of its time apart, and computes. By one of
 * the ways each is done before the next one begins, by the other only at the end. What
 * the newcomer takes more of the whole time. one: all from one buffer. The newcomers that
 * are kept, of 200. */
static unsigned bursts(unsigned messages, bool one, bool newcomer_rests,
                       double more)
{
    const double whole = 100000;
    unsigned kept = 0;
    for (uint64_t salt = 1; salt <= 200; salt++) {
        struct mt_choices own = {.salt = salt * UINT64_C(0x9e3779b97f4a7c15)};
        struct mt_choice *c = mt_choice_get(&own, 7, 1 << 17);
        uint64_t random = salt;
        double at = 1e6;
        for (uint32_t i = 0; i < 100000 && c->trial.state == MT_TRIAL_TRYING; i++) {
            random = random * UINT64_C(6364136223846793005) + 1;
            double lasts = whole * (0.99 + 0.02 * (double)(random >> 40) / (1 << 24));
            unsigned newcomers = 0, left = 0;
            for (unsigned k = 0; k < messages; k++) {
                uint64_t kind = one ? mt_choice_kind(c, 5, i) : k;
                uint64_t begins = (uint64_t)(at + 0.2 / messages * whole * k);
                bool newcomer = mt_choice_begin(c, kind, 1 << 17, begins);
                newcomers += newcomer;
                if (newcomer == newcomer_rests) {
                    mt_choice_end(c, false);
                } else {
                    left++;
                }
            }
            while (left-- > 0) {
                mt_choice_end(c, false);
            }
            at += lasts + more * whole * newcomers / messages;
        }
        kept += c->trial.state == MT_TRIAL_KEPT;
        mt_choices_free(&own);
    }
    return kept;
}

/* Where messages come to rest does not decide. */
static void where_they_rest(void)
{
    for (unsigned messages = 2; messages <= 4; messages++) {
        for (int rests = 0; rests < 2; rests++) {
            CHECK(bursts(messages, false, rests, 0) <= 12); /* 2 %, by chance */
            CHECK_EQ(bursts(messages, false, rests, 0.05), 0);
            CHECK(bursts(messages, false, rests, -0.05) >= 190);
        }
    }
}

static void bursts_from_one_buffer(void)
{
    for (unsigned messages = 2; messages <= 256; messages *= 2) {
        for (int rests = 0; rests < 2; rests++) {
            CHECK(bursts(messages, true, rests, 0) <= 12); /* 2 %, by chance */
            CHECK_EQ(bursts(messages, true, rests, 0.3), 0);
            CHECK_EQ(bursts(messages, true, rests, -0.3), 200);
        }
    }
}

/* Of a stream that never ends the messages are all of one kind before long. */
static void stream(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 45, 1 << 20);
    uint64_t first = mt_choice_kind(c, 5, 0);
    CHECK_EQ(mt_choice_kind(c, 5, 1), first); /* either is the first of its row */
    CHECK(mt_choice_kind(c, 5, 1) != first);
    for (unsigned i = 0; i < 2 * MT_EPOCH_MOST && c->trial.state == MT_TRIAL_TRYING;
         i++) {
        uint64_t kind = mt_choice_kind(c, 5, 1);
        bool newcomer = mt_choice_begin(c, kind, 1 << 20, now);
        now += newcomer ? 700 : 1000;
        mt_choice_end(c, false);
    }
    CHECK(c->trial.state == MT_TRIAL_KEPT);
}

/* A decision that stands is tried again although the messages are others by then. */
static void later_others(void)
{
    for (uint32_t faster = 0; faster < 2; faster++) {
        struct mt_choice *c = mt_choice_get(&choices, 46 + faster, 1 << 20);
        decide(c, 1, 1000, faster != 0 ? 700 : 1500);
        CHECK(c->trial.state != MT_TRIAL_TRYING);
        uint32_t all = c->trial.all;
        for (unsigned i = 0; i < 5 * MT_TRIAL_HOLD * MT_EPOCH_RESTS * 2; i++) {
            uint64_t at = mt_choice_due(c, 77) ? now : 0;
            bool newcomer = mt_choice_begin(c, 77, 1 << 20, at);
            now += newcomer == (faster != 0) ? 1000 : 700;
            mt_choice_end(c, false);
        }
        CHECK(c->trial.all > all);
        CHECK_EQ(mt_trial_chosen(&c->trial), faster == 0);
    }
}

/* Where they rest no more while it is tried again, they go as was decided. */
static void restless_again(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 48, 1 << 20);
    decide(c, 1, 1000, 500);
    CHECK(c->trial.state == MT_TRIAL_KEPT);
    decide(c, 1, 1000, 500);
    CHECK(c->trial.state == MT_TRIAL_TRYING);
    mt_choice_begin(c, 0, 1, now);
    for (unsigned i = 0; i < 3 * MT_EPOCH_MOST; i++) {
        bool newcomer = mt_choice_begin(c, 0, 1, now);
        CHECK(newcomer || i <= MT_EPOCH_MOST);
        mt_choice_end(c, false);
    }
    mt_choice_end(c, false);
}

/* What went another way counts for nothing. */
static void spoilt(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 41, 1 << 20);
    for (unsigned i = 0; i < 1000; i++) {
        bool due = mt_choice_due(c, 0);
        now += 100;
        CHECK(!mt_choice_begin(c, 0, 1, due ? now : 0));
        mt_choice_end(c, true);
    }
    CHECK_EQ(c->trial.pairs, 0);
    CHECK(c->trial.half == 0);
}

/* A newcomer that does so again and again is given up. */
static void spoils(void)
{
    struct mt_choice *c = mt_choice_get(&choices, 44, 1 << 20);
    unsigned newcomers = 0;
    for (unsigned i = 0; i < 1000; i++) {
        bool due = mt_choice_due(c, 0);
        now += 100;
        bool newcomer = mt_choice_begin(c, 0, 1, due ? now : 0);
        newcomers += newcomer;
        mt_choice_end(c, newcomer && i % 3 == 0);
    }
    CHECK(c->trial.state == MT_TRIAL_RETREATED && c->trial.all == 0);
    CHECK(newcomers < 2 * MT_EPOCH_SPOILS * (MT_EPOCH_RESTS + MT_EPOCH_VARIES));
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
            mt_choice_begin(c[k], 0, 1 << 20, (uint64_t)i + 1);
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
    strangers();
    restless_later();
    where_they_rest();
    bursts_from_one_buffer();
    stream();
    later_others();
    restless_again();
    spoilt();
    spoils();
    crowd();
    mt_choices_free(&choices);
    return check_failures != 0;
}
