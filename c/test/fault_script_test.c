/* sources: c/fabric/fault/script.c */
/* What a fault script says is what is read of it, and a mistake is named with its
 * line. */
#include <string.h>

#include "../fabric/fault/script.h"
#include "check.h"

static const char *parse(const char *text, struct mt_fault_script *script,
                         unsigned *line)
{
    return mt_fault_parse(text, strlen(text), script, line);
}

static void right(void)
{
    struct mt_fault_script s;
    unsigned line;
    const char *text = "# a comment\n"
                       "seed 42\n"
                       "\tdrop 1/100 ud # another\r\n"
                       "\n"
                       "delay 1/10 1000\n"
                       "starve 3/4 1\n"
                       "rate 100 Mbit/s\n"
                       "lose 70\n"
                       "die 5000";
    CHECK(parse(text, &s, &line) == NULL);
    CHECK_EQ(s.seed, 42);
    CHECK_EQ(s.rules[MT_FAULT_DROP].times, 1);
    CHECK_EQ(s.rules[MT_FAULT_DROP].of, 100);
    CHECK_EQ(s.rules[MT_FAULT_CORRUPT].of, 0);
    CHECK_EQ(s.delay_polls, 1000);
    CHECK_EQ(s.rules[MT_FAULT_STARVE].times, 3);
    CHECK_EQ(s.rules[MT_FAULT_STARVE].of, 4);
    CHECK_EQ(s.starve_polls, 1);
    CHECK_EQ(s.bits_per_second, 100000000);
    CHECK_EQ(s.lose_at, 70);
    CHECK_EQ(s.die_at, 5000);
}

static void rates(void)
{
    static const struct {
        const char *text;
        uint64_t bits;
    } all[] = {{"rate 1000 bit/s", 1000},
               {"rate 1 kbit/s", 1000},
               {"rate 2 Mbit/s", 2000000},
               {"rate 1 Gbit/s", 1000000000},
               {"rate 1000000 Gbit/s", MT_FAULT_RATE_MOST},
               {"rate 125 B/s", 1000},
               {"rate 3 kB/s", 24000},
               {"rate 10 MB/s", 80000000},
               {"rate 12 GB/s", UINT64_C(96000000000)}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct mt_fault_script s;
        unsigned line;
        CHECK(parse(all[i].text, &s, &line) == NULL);
        CHECK_EQ(s.bits_per_second, all[i].bits);
    }
}

static void wrong(void)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *says; /* a part of it */
    } all[] = {
        {"seed 1\nflood 1/2\n", 2, "no fault"},
        {"drop", 1, "probability is missing"},
        {"drop 2/1 ud", 1, "no probability"},
        {"drop 1/0 ud", 1, "no probability"},
        {"drop 1/2", 1, "write ud"},
        {"drop 1/2 ud ud", 1, "too many"},
        {"\n\ndelay 1/2", 3, "number of polls"},
        {"delay 1/2 0", 1, "number of polls"},
        {"starve 1/2 1001", 1, "number of polls"},
        {"starve 1/2 3 ud", 1, "too many"},
        {"rate 5", 1, "a unit"},
        {"rate 5Mbit/s", 1, "a unit"},
        {"rate 1.5 Mbit/s", 1, "a whole number"},
        {"rate 5 mbit/s", 1, "no unit of"},
        {"rate 5 Mbit/s now", 1, "a unit"},
        {"rate 0 Gbit/s", 1, "from 1 kbit/s"},
        {"rate 999 bit/s", 1, "from 1 kbit/s"},
        {"rate 1000001 Gbit/s", 1, "from 1 kbit/s"},
        {"rate 18446744073709551615 GB/s", 1, ""},
        {"die", 1, "one number"},
        {"lose 1/2", 1, "one number"},
        {"break 1/2 3", 1, "too many"},
        {"a b c d e", 1, "too many words"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct mt_fault_script s;
        unsigned line = 0;
        const char *says = parse(all[i].text, &s, &line);
        CHECK(says != NULL && strstr(says, all[i].says) != NULL);
        CHECK_EQ(line, all[i].line);
    }
}

int main(void)
{
    right();
    rates();
    wrong();
    return check_failures != 0;
}
