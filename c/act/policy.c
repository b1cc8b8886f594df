/* policy.c: finds the few values of a policy that the stand-ins need in its
 * lines (docs/policy.md). Whoever made them has checked them; what is not there,
 * or is left open, has its default. */
#include "policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MT_ACT_EAGER_SHM = 32 << 10,
    MT_ACT_EAGER_TCP = 64 << 10,
    MT_ACT_EAGER_OTHERS = 16 << 10,
    MT_ACT_RING = 256 << 10,
    MT_ACT_REUSE_FROM = 128,
    MT_ACT_SPECULATION = 25,
    MT_ACT_CONNECTIONS = 16,
    MT_ACT_CONNECT_AFTER = 32,
    MT_ACT_RTR_USAGE = 80,
    MT_ACT_RTR_SAMPLE = 20,
};

const char *mt_act_policy_value(const char *text, const char *name,
                                size_t *length_p)
{
    size_t length = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, name, length) == 0 && line[length] == '=') {
            *length_p = strcspn(line + length + 1, "\n");
            return line + length + 1;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return NULL;
}

static uint64_t number_of(const char *text, const char *name,
                          uint64_t otherwise)
{
    size_t length;
    const char *value = mt_act_policy_value(text, name, &length);
    return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

bool mt_act_policy_has(const char *value, size_t length, const char *word)
{
    size_t n = strlen(word);
    for (const char *end = value + length; value < end;) {
        size_t m = strcspn(value, "+\n");
        if (m == n && memcmp(value, word, n) == 0) {
            return true;
        }
        value += m + 1;
    }
    return false;
}

static void rendezvous_read(const char *value, size_t length, bool proof,
                            struct mt_engine_terms *terms)
{
    bool reads = mt_act_policy_has(value, length, "read") ||
                 mt_act_policy_has(value, length, "read-event");
    bool writes = mt_act_policy_has(value, length, "write");
    bool asks = mt_act_policy_has(value, length, "receiver");
    terms->rendezvous = reads    ? MT_ENGINE_RGET
                        : writes ? MT_ENGINE_RPUT
                        : asks   ? MT_ENGINE_RTR
                                 : MT_ENGINE_RGET;
    terms->try_written = reads && writes && proof;
    terms->try_asking = asks && (reads || writes) && proof;
}

static const char *under(const char *text, const char *prefix,
                         const char *name, size_t *length_p)
{
    char line[64];
    snprintf(line, sizeof(line), "%s%s", prefix, name);
    return mt_act_policy_value(text, line, length_p);
}

void mt_act_policy_terms(const char *text, const char *prefix,
                         struct mt_engine_terms *terms)
{
    size_t length;
    const char *value = mt_act_policy_value(text, "proof", &length);
    bool proof = value != NULL && mt_act_policy_has(value, length, "on");
    value = under(text, prefix, "eager", &length);
    if (value != NULL) {
        bool copies = mt_act_policy_has(value, length, "copy");
        bool reuses = mt_act_policy_has(value, length, "reuse");
        terms->reuse = !copies           ? MT_ENGINE_REUSES
                       : reuses && proof ? MT_ENGINE_TRIES_REUSE
                                         : MT_ENGINE_COPIES;
    }
    value = under(text, prefix, "rendezvous", &length);
    if (value != NULL) {
        rendezvous_read(value, length, proof, terms);
    }
    value = under(text, prefix, "eager_limit", &length);
    if (value != NULL) {
        terms->eager_limit = strtoull(value, NULL, 10); /* auto: 0 */
    }
    value = under(text, prefix, "reuse_from", &length);
    if (value != NULL) {
        terms->reuse_from = strtoull(value, NULL, 10);
    }
}

static void verify_read(const char *text, struct mt_act_policy *policy_p)
{
    size_t length = 0;
    const char *value = mt_act_policy_value(text, "verify_every", &length);
    if (value != NULL) {
        policy_p->verify_every = (uint32_t)strtoul(value, NULL, 10);
    }
    value = mt_act_policy_value(text, "verify_action", &length);
    policy_p->verify_stops =
        value == NULL || !mt_act_policy_has(value, length, "quarantine");
}

uint64_t mt_act_policy_eager(const struct mt_act_policy *policy,
                             const char *device)
{
    bool tcp = strncmp(device, "iwarp", 5) == 0 && !policy->datagrams_first;
    uint64_t limit = strcmp(device, "shm") == 0 ? MT_ACT_EAGER_SHM
                     : tcp                      ? MT_ACT_EAGER_TCP
                                                : MT_ACT_EAGER_OTHERS;
    uint64_t most = policy->ring_bytes / 2;
    return limit < most ? limit : most;
}

void mt_act_policy_read(const char *text, struct mt_act_policy *policy_p)
{
    size_t length = 0;
    const char *value = mt_act_policy_value(text, "device", &length);
    *policy_p = (struct mt_act_policy){
        .terms = {.reuse_from = MT_ACT_REUSE_FROM},
        .ring_bytes = number_of(text, "ring", MT_ACT_RING),
        .pinned = number_of(text, "pinned", 0), /* auto: 0 */
        .speculation =
            (uint32_t)number_of(text, "speculation", MT_ACT_SPECULATION),
        .connections =
            (uint32_t)number_of(text, "rc_peers", MT_ACT_CONNECTIONS),
        .connect_after =
            (uint32_t)number_of(text, "rc_after", MT_ACT_CONNECT_AFTER),
        .rtr_usage =
            (uint32_t)number_of(text, "rtr_usage", MT_ACT_RTR_USAGE),
        .rtr_sample =
            (uint32_t)number_of(text, "rtr_sample", MT_ACT_RTR_SAMPLE)};
    if (value != NULL && strncmp(value, "auto\n", 5) != 0) {
        policy_p->devices = value;
        policy_p->devices_bytes = length;
    }
    value = mt_act_policy_value(text, "transport", &length);
    policy_p->datagrams_first =
        value != NULL && mt_act_policy_has(value, length, "ud-first");
    value = mt_act_policy_value(text, "cache", &length);
    if (value != NULL) {
        policy_p->cache = strncmp(value, "on\n", 3) == 0    ? MT_ACT_CACHE_ON
                          : strncmp(value, "off\n", 4) == 0 ? MT_ACT_CACHE_OFF
                                                            : MT_ACT_CACHE_AUTO;
    }
    value = mt_act_policy_value(text, "engine", &length);
    policy_p->engine =
        value != NULL && mt_act_policy_has(value, length, "thread")
            ? MT_FABRIC_ENGINE_THREAD
            : MT_FABRIC_ENGINE_INLINE;
    mt_act_policy_terms(text, "", &policy_p->terms);
    verify_read(text, policy_p);
}
