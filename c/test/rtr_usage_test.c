/* sources: c/engine/usage.c */
/* Whether asking first pays, by envelope: neighbours do not spoil each other's
 * verdict, and the verdict comes also when there are more envelopes than places.
 * How one is judged is told in testdata/rtr. */
#include <string.h>

#include "../engine/rtr.h"
#include "check.h"

enum { LEAST = 80, SAMPLE = 20, SAME = MT_RTR_NEAR + 1 };

static struct mt_rtr_usage usages[MT_RTR_USAGES];

/* Tags of context 3 whose places begin at the same one. */
static void collide(int32_t *tags)
{
    uint32_t home = mt_rtr_home(3, 1) % MT_RTR_USAGES;
    int n = 0;
    for (int32_t tag = 1; n < SAME; tag++) {
        if (mt_rtr_home(3, tag) % MT_RTR_USAGES == home) {
            tags[n++] = tag;
        }
    }
}

static enum mt_rtr_verdict judge(uint32_t context, int32_t tag,
                                 enum mt_rtr_fate fate)
{
    return mt_rtr_judge(mt_rtr_usage_of(usages, context, tag), fate, LEAST,
                        SAMPLE);
}

static void test_apart(void)
{
    int32_t tags[SAME];
    memset(usages, 0, sizeof(usages));
    collide(tags);
    for (int i = 0; i < MT_RTR_WRONG - 1; i++) {
        for (int t = 0; t < MT_RTR_NEAR; t++) {
            CHECK_EQ(judge(3, tags[t], t == 1 ? MT_RTR_USED : MT_RTR_MISPREDICTED),
                     MT_RTR_GOES_ON);
        }
    }
    CHECK_EQ(judge(3, tags[0], MT_RTR_MISPREDICTED), MT_RTR_SUSPENDS);
    CHECK_EQ(judge(3, tags[1], MT_RTR_MISPREDICTED), MT_RTR_GOES_ON);
    CHECK_EQ(judge(3, tags[2], MT_RTR_MISPREDICTED), MT_RTR_SUSPENDS);
    CHECK(mt_rtr_usage_of(usages, 3, tags[0])->silent);
    CHECK(!mt_rtr_usage_of(usages, 3, tags[1])->silent);
    /* no place is left: it is judged with the first of them */
    CHECK(mt_rtr_usage_of(usages, 3, tags[SAME - 1]) ==
          mt_rtr_usage_of(usages, 3, tags[0]));
    CHECK(mt_rtr_usage_of(usages, 3, tags[0])->silent);
}

/* Each message has a tag of its own, and none is as was asked for. */
static void test_many(void)
{
    int suspended = 0, asked = 0;
    memset(usages, 0, sizeof(usages));
    for (int32_t tag = 0; tag < 10000; tag++) {
        asked += !mt_rtr_usage_of(usages, 5, tag)->silent;
        suspended += judge(5, tag, MT_RTR_MISPREDICTED) == MT_RTR_SUSPENDS;
    }
    CHECK_EQ(suspended, MT_RTR_USAGES);
    CHECK_EQ(asked, MT_RTR_USAGES * MT_RTR_WRONG);
}

/* How many are asked for before it is silent. */
static int asked_of(enum mt_rtr_fate (*fate)(int))
{
    memset(usages, 0, sizeof(usages));
    for (int n = 1; n <= SAMPLE; n++) {
        if (judge(5, 1, fate(n)) == MT_RTR_SUSPENDS) {
            return n;
        }
    }
    return 0;
}

static enum mt_rtr_fate all_cross(int n)
{
    (void)n;
    return MT_RTR_CROSSED;
}

static enum mt_rtr_fate every_second(int n)
{
    return n % 2 == 0 ? MT_RTR_CROSSED : MT_RTR_USED;
}

static enum mt_rtr_fate last_fifth(int n)
{
    return n > SAMPLE * LEAST / 100 ? MT_RTR_CROSSED : MT_RTR_USED;
}

static enum mt_rtr_fate first_fifth(int n)
{
    return n <= SAMPLE - SAMPLE * LEAST / 100 ? MT_RTR_CROSSED : MT_RTR_USED;
}

/* A sample whose verdict is certain is not taken to its end. */
static void test_soon(void)
{
    CHECK_EQ(asked_of(all_cross), SAMPLE / 5 + 1);
    CHECK_EQ(asked_of(every_second), 2 * (SAMPLE / 5 + 1));
    CHECK_EQ(asked_of(first_fifth), 0);
    CHECK_EQ(asked_of(last_fifth), 0);
}

int main(void)
{
    test_apart();
    test_many();
    test_soon();
    return check_failures != 0;
}
