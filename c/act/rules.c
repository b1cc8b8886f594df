/* rules.c: see rules.h. Which rules match is worked out for each message, from
 * what its communicator and its place have settled before; what these rules say
 * together, once. */
#include "rules.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

static const char *const mt_calls[MT_ACT_CALLS] = {
    [MT_ACT_CALL_SEND] = "send",
    [MT_ACT_CALL_ISEND] = "isend",
    [MT_ACT_CALL_PERSISTENT] = "persistent",
    [MT_ACT_CALL_SENDRECV] = "sendrecv",
    [MT_ACT_CALL_RECV] = "recv",
    [MT_ACT_CALL_IRECV] = "irecv",
};

/* ---- reading ---- */

static const char *rule_value(const char *text, uint32_t i, const char *name,
                              size_t *length_p)
{
    char line[64];
    snprintf(line, sizeof(line), "rule.%u.when.%s", i, name);
    return mt_act_policy_value(text, line, length_p);
}

/* LOW..HIGH or LOW.. */
static void rule_range(const char *text, uint32_t i, const char *name,
                       uint64_t range[2])
{
    size_t length;
    const char *value = rule_value(text, i, name, &length);
    range[0] = 0;
    range[1] = UINT64_MAX;
    if (value != NULL) {
        char *end;
        range[0] = strtoull(value, &end, 10);
        if (strncmp(end, "..", 2) == 0 && end[2] >= '0' && end[2] <= '9') {
            range[1] = strtoull(end + 2, NULL, 10);
        }
    }
}

static void rule_read(const char *text, uint32_t i, struct mt_act_rule *r)
{
    size_t length;
    const char *value = rule_value(text, i, "operation", &length);
    for (unsigned call = MT_ACT_CALL_SEND; call < MT_ACT_CALLS; call++) {
        bool asks = value == NULL ||
                    mt_act_policy_has(value, length, mt_calls[call]);
        r->calls |= asks ? 1U << call : 0;
    }
    r->communicators = rule_value(text, i, "communicator", &length);
    r->sites = rule_value(text, i, "site", &length);
    rule_range(text, i, "communicator_size", r->processes);
    rule_range(text, i, "size", r->bytes);
    value = rule_value(text, i, "peer", &length);
    if (value != NULL) {
        r->peer = mt_act_policy_has(value, length, "same-node")
                      ? MT_ACT_SAME_NODE
                      : MT_ACT_OTHER_NODE;
    }
}

/* What rules of a set say together: of each setting, the first that states it. */
static struct mt_engine_terms combined(const struct mt_act_rules *rules,
                                       uint32_t set)
{
    struct mt_engine_terms terms = rules->base;
    for (uint32_t i = rules->count; i-- > 0;) {
        char prefix[32];
        snprintf(prefix, sizeof(prefix), "rule.%u.use.", i);
        if ((set >> i & 1) != 0) {
            mt_act_policy_terms(rules->text, prefix, &terms);
        }
    }
    if (terms.eager_limit == 0) {
        terms.eager_limit = rules->eager_auto;
    }
    return terms;
}

void mt_act_rules_read(struct mt_act_rules *rules, const char *text,
                       uint64_t eager_auto, struct mt_engine_terms *terms)
{
    size_t length;
    const char *value = mt_act_policy_value(text, "rules", &length);
    uint64_t count = value != NULL ? strtoull(value, NULL, 10) : 0;
    *rules = (struct mt_act_rules){
        .text = text,
        .base = *terms,
        .eager_auto = eager_auto,
        .count = count < MT_ACT_RULES ? (uint32_t)count : MT_ACT_RULES};
    *terms = rules->base = combined(rules, 0);
    for (uint32_t i = 0; i < rules->count; i++) {
        rule_read(text, i, &rules->rule[i]);
        rules->with_sites |= rules->rule[i].sites != NULL ? 1U << i : 0;
        struct mt_engine_terms one = combined(rules, 1U << i);
        if (one.eager_limit > terms->eager_limit) {
            terms->eager_limit = one.eager_limit;
        }
        if (one.reuse_from < terms->reuse_from) {
            terms->reuse_from = one.reuse_from;
        }
        if (one.reuse > terms->reuse) {
            terms->reuse = one.reuse;
        }
    }
}

/* ---- names ---- */

/* Whether the first length bytes of a pattern match text: * stands for any bytes,
 * ? for one. It takes the product of both lengths at most. */
static bool pattern_matches(const char *pattern, size_t length,
                            const char *text)
{
    size_t p = 0, star = SIZE_MAX;
    const char *back = text;
    while (*text != '\0') {
        if (p < length && pattern[p] == '*') {
            star = p++;
            back = text;
        } else if (p < length && (pattern[p] == '?' || pattern[p] == *text)) {
            p++;
            text++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            text = ++back;
        } else {
            return false;
        }
    }
    while (p < length && pattern[p] == '*') {
        p++;
    }
    return p == length;
}

/* One of the patterns of a line. What has no name matches none. */
static bool names_match(const char *patterns, const char *text)
{
    while (text[0] != '\0') {
        size_t length = strcspn(patterns, "+\n");
        if (pattern_matches(patterns, length, text)) {
            return true;
        }
        if (patterns[length] != '+') {
            break;
        }
        patterns += length + 1;
    }
    return false;
}

uint32_t mt_act_rules_of(const struct mt_act_rules *rules, const char *name,
                         uint64_t processes)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < rules->count; i++) {
        const struct mt_act_rule *r = &rules->rule[i];
        bool may = processes >= r->processes[0] &&
                   processes <= r->processes[1] &&
                   (r->communicators == NULL ||
                    names_match(r->communicators, name));
        set |= may ? 1U << i : 0;
    }
    return set;
}

/* ---- what was found out before ---- */

static void lock(struct mt_act_rules *rules)
{
    while (__atomic_exchange_n(&rules->lock, 1, __ATOMIC_ACQUIRE) != 0) {
        sched_yield(); /* somebody puts something, once */
    }
}

static void unlock(struct mt_act_rules *rules)
{
    __atomic_store_n(&rules->lock, 0, __ATOMIC_RELEASE);
}

/* The rules that a place does not exclude. Kept with a bit above them, since 0
 * is no value; without memory it is found out each time. */
static uint32_t of_place(struct mt_act_rules *rules, uint64_t site)
{
    uintptr_t kept = (uintptr_t)mt_act_table_get(&rules->places, site);
    if (kept == 0) {
        struct mt_place place;
        uint32_t set = ~rules->with_sites;
        mt_place_find(site, &place);
        for (uint32_t i = 0; i < rules->count; i++) {
            const char *sites = rules->rule[i].sites;
            bool is = sites != NULL && (names_match(sites, place.offset) ||
                                        names_match(sites, place.function));
            set |= is ? 1U << i : 0;
        }
        kept = (uintptr_t)(UINT64_C(1) << 32 | set);
        lock(rules);
        mt_act_table_put(&rules->places, site, (void *)kept);
        unlock(rules);
    }
    return (uint32_t)kept;
}

static MT_COLD const struct mt_engine_terms *keep(struct mt_act_rules *rules,
                                                  uint32_t set)
{
    lock(rules);
    struct mt_engine_terms *terms = mt_act_table_get(&rules->terms, set);
    if (terms == NULL) {
        terms = malloc(sizeof(*terms));
        if (terms != NULL) {
            *terms = combined(rules, set);
        }
        if (terms != NULL && !mt_act_table_put(&rules->terms, set, terms)) {
            free(terms);
            terms = NULL;
        }
    }
    unlock(rules);
    return terms != NULL ? terms : &rules->base; /* right, if not wanted */
}

const struct mt_engine_terms *mt_act_rules_terms(struct mt_act_rules *rules,
                                                 const struct mt_act_asked *asked)
{
    uint32_t set = asked->rules;
    for (uint32_t left = set; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        const struct mt_act_rule *r = &rules->rule[i];
        if ((r->calls >> asked->call & 1) == 0 ||
            asked->bytes < r->bytes[0] || asked->bytes > r->bytes[1] ||
            (r->peer != MT_ACT_UNKNOWN && r->peer != asked->peer)) {
            set &= ~(1U << i);
        }
    }
    if ((set & rules->with_sites) != 0) {
        set &= asked->site != 0 ? of_place(rules, asked->site)
                                : ~rules->with_sites;
    }
    const struct mt_engine_terms *terms =
        mt_act_table_get(&rules->terms, set);
    return mt_likely(terms != NULL) ? terms : keep(rules, set);
}
