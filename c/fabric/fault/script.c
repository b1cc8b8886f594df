/* script.c: reads fault scripts. */
#include "script.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    const char *name;
    bool datagrams; /* "ud" must follow: only there it is allowed to happen */
} mt_rules[MT_FAULT_KINDS] = {
    [MT_FAULT_DROP] = {"drop", true},
    [MT_FAULT_DUPLICATE] = {"duplicate", true},
    [MT_FAULT_REORDER] = {"reorder", true},
    [MT_FAULT_CORRUPT] = {"corrupt", true},
    [MT_FAULT_DELAY] = {"delay", false},
    [MT_FAULT_STARVE] = {"starve", false},
    [MT_FAULT_FULL] = {"full", false},
    [MT_FAULT_REGISTER] = {"register", false},
    [MT_FAULT_EVENT] = {"event", false},
    [MT_FAULT_BREAK] = {"break", false},
};

enum { MT_WORDS = 4, MT_WORD_BYTES = 32 };

struct mt_line {
    char words[MT_WORDS][MT_WORD_BYTES];
    unsigned count;
};

static bool mt_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts a line into words; false: too many, or one too long. */
static bool mt_split(const char *at, const char *end, struct mt_line *line)
{
    memset(line, 0, sizeof(*line));
    for (;;) {
        while (at < end && mt_is_blank(*at)) {
            at++;
        }
        if (at == end || *at == '#') {
            return true;
        }
        size_t n = 0;
        while (at + n < end && !mt_is_blank(at[n]) && at[n] != '#') {
            n++;
        }
        if (line->count == MT_WORDS || n >= MT_WORD_BYTES) {
            return false;
        }
        memcpy(line->words[line->count++], at, n);
        at += n;
    }
}

/* A number up to the character stop; NULL: there is none. */
static const char *mt_number(const char *text, char stop, uint64_t *value_p)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > (UINT64_MAX - 9) / 10) {
            return NULL;
        }
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (at == text || *at != stop) {
        return NULL;
    }
    *value_p = value;
    return at;
}

static const char *mt_probability(const char *text, uint32_t *times_p,
                                  uint32_t *of_p)
{
    uint64_t times, of;
    const char *slash = mt_number(text, '/', &times);
    if (slash == NULL || mt_number(slash + 1, '\0', &of) == NULL || of == 0 ||
        of > UINT32_MAX || times > of) {
        return "is no probability like 1/100";
    }
    *times_p = (uint32_t)times;
    *of_p = (uint32_t)of;
    return NULL;
}

static const char *mt_polls(const struct mt_line *line, uint32_t *polls_p)
{
    uint64_t polls;
    if (line->count < 3 || mt_number(line->words[2], '\0', &polls) == NULL ||
        polls == 0 || polls > MT_FAULT_POLLS_MOST) {
        return "needs a number of polls from 1 to 1000 behind the probability";
    }
    *polls_p = (uint32_t)polls;
    return NULL;
}

static const char *mt_rule(const struct mt_line *line, unsigned kind,
                           struct mt_fault_script *script)
{
    unsigned words = 2;
    if (line->count < 2) {
        return "a probability is missing";
    }
    const char *wrong = mt_probability(line->words[1],
                                       &script->rules[kind].times,
                                       &script->rules[kind].of);
    if (wrong == NULL && kind == MT_FAULT_DELAY) {
        words++;
        wrong = mt_polls(line, &script->delay_polls);
    }
    if (wrong == NULL && kind == MT_FAULT_STARVE) {
        words++;
        wrong = mt_polls(line, &script->starve_polls);
    }
    if (wrong == NULL && mt_rules[kind].datagrams) {
        words++;
        if (line->count < 3 || strcmp(line->words[2], "ud") != 0) {
            wrong = "this happens to datagrams only: write ud behind it";
        }
    }
    return wrong != NULL           ? wrong
           : line->count > words ? "has a word too many"
                                 : NULL;
}

static const char *mt_rate(const struct mt_line *line, uint64_t *rate_p)
{
    static const struct {
        const char *name;
        uint64_t bits;
    } units[] = {{"bit/s", 1},           {"kbit/s", 1000},
                 {"Mbit/s", 1000000},    {"Gbit/s", 1000000000},
                 {"B/s", 8},             {"kB/s", 8000},
                 {"MB/s", 8000000},      {"GB/s", UINT64_C(8000000000)}};
    uint64_t number;
    if (line->count != 3 ||
        mt_number(line->words[1], '\0', &number) == NULL) {
        return "needs a whole number and a unit, like 100 Mbit/s";
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(line->words[2], units[i].name) != 0) {
            continue;
        }
        if (number > MT_FAULT_RATE_MOST / units[i].bits ||
            number * units[i].bits < MT_FAULT_RATE_LEAST) {
            return "is no rate from 1 kbit/s to 1000000 Gbit/s";
        }
        *rate_p = number * units[i].bits;
        return NULL;
    }
    return "has no unit of bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s";
}

static const char *mt_parse_line(const struct mt_line *line,
                                 struct mt_fault_script *script)
{
    if (line->count == 0) {
        return NULL;
    }
    for (unsigned kind = 0; kind < MT_FAULT_KINDS; kind++) {
        if (strcmp(line->words[0], mt_rules[kind].name) == 0) {
            return mt_rule(line, kind, script);
        }
    }
    if (strcmp(line->words[0], "rate") == 0) {
        return mt_rate(line, &script->bits_per_second);
    }
    uint64_t *number = strcmp(line->words[0], "seed") == 0   ? &script->seed
                       : strcmp(line->words[0], "lose") == 0 ? &script->lose_at
                       : strcmp(line->words[0], "die") == 0  ? &script->die_at
                                                             : NULL;
    if (number == NULL) {
        return "is no fault: there are drop, duplicate, reorder, corrupt, "
               "delay, starve, rate, full, register, event, break, lose, die "
               "and seed";
    }
    if (line->count != 2 ||
        mt_number(line->words[1], '\0', number) == NULL) {
        return "needs one number";
    }
    return NULL;
}

const char *mt_fault_parse(const char *text, size_t bytes,
                           struct mt_fault_script *script, unsigned *line_p)
{
    const char *at = text, *end = text + bytes;
    memset(script, 0, sizeof(*script));
    script->seed = 1;
    *line_p = 0;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct mt_line line;
        stop = stop != NULL ? stop : end;
        ++*line_p;
        const char *wrong = mt_split(at, stop, &line)
                                ? mt_parse_line(&line, script)
                                : "has too many words, or one too long";
        if (wrong != NULL) {
            return wrong;
        }
        at = stop < end ? stop + 1 : end;
    }
    return NULL;
}
