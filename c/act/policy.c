/* policy.c: finds the few values of a policy that the stand-ins need in its
 * lines (docs/policy.md). Whoever made them has checked them; what is not there,
 * or is left open, has its default. */
#include "policy.h"

#include <stdlib.h>
#include <string.h>

enum {
    MT_ACT_EAGER_LIMIT = 16384,
    MT_ACT_RING = 256 << 10,
    MT_ACT_REUSE_FROM = 128,
    MT_ACT_SPECULATION = 25,
    MT_ACT_CONNECTIONS = 16,
    MT_ACT_CONNECT_AFTER = 32,
    MT_ACT_RTR_USAGE = 80,
    MT_ACT_RTR_SAMPLE = 20,
};

/* The value of the line that begins with name and =; NULL: there is none. */
static const char *value_of(const char *text, const char *name,
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
    const char *value = value_of(text, name, &length);
    return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

/* Whether a word stands among those of a value, with + between them. */
static bool has_word(const char *value, size_t length, const char *word)
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

static void rendezvous_read(const char *text, struct mt_act_policy *policy_p)
{
    size_t length = 0;
    const char *value = value_of(text, "rendezvous", &length);
    if (value == NULL) {
        return;
    }
    bool reads = has_word(value, length, "read") ||
                 has_word(value, length, "read-event");
    bool writes = has_word(value, length, "write");
    if (!reads && !writes && has_word(value, length, "receiver")) {
        policy_p->rendezvous = MT_ENGINE_RTR;
    } else if (writes && !reads) {
        policy_p->rendezvous = MT_ENGINE_RPUT;
    }
    value = value_of(text, "proof", &length);
    policy_p->choose = reads && writes && value != NULL &&
                       has_word(value, length, "on");
}

/* Not where it is one choice of several. */
static void eager_read(const char *text, struct mt_act_policy *policy_p)
{
    size_t length = 0;
    const char *value = value_of(text, "eager", &length);
    if (value != NULL && has_word(value, length, "reuse") &&
        !has_word(value, length, "copy")) {
        policy_p->reuse = MT_ENGINE_REUSES;
    }
    value = value_of(text, "engine", &length);
    policy_p->engine = value != NULL && has_word(value, length, "thread")
                           ? MT_FABRIC_ENGINE_THREAD
                           : MT_FABRIC_ENGINE_INLINE;
}

static void verify_read(const char *text, struct mt_act_policy *policy_p)
{
    size_t length = 0;
    const char *value = value_of(text, "verify_every", &length);
    if (value != NULL) {
        policy_p->verify_every = (uint32_t)strtoul(value, NULL, 10);
    }
    value = value_of(text, "verify_action", &length);
    policy_p->verify_stops =
        value == NULL || !has_word(value, length, "quarantine");
}

void mt_act_policy_read(const char *text, struct mt_act_policy *policy_p)
{
    size_t length = 0;
    const char *value = value_of(text, "device", &length);
    *policy_p = (struct mt_act_policy){
        .eager_limit = number_of(text, "eager_limit", MT_ACT_EAGER_LIMIT),
        .ring_bytes = number_of(text, "ring", MT_ACT_RING),
        .pinned = number_of(text, "pinned", 0), /* auto: 0 */
        .reuse_from = number_of(text, "reuse_from", MT_ACT_REUSE_FROM),
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
    if (value != NULL && length < sizeof(policy_p->device) &&
        strncmp(value, "auto\n", 5) != 0) {
        memcpy(policy_p->device, value, length);
    }
    value = value_of(text, "transport", &length);
    policy_p->datagrams_first =
        value != NULL && has_word(value, length, "ud-first");
    value = value_of(text, "cache", &length);
    if (value != NULL) {
        policy_p->cache = strncmp(value, "on\n", 3) == 0    ? MT_ACT_CACHE_ON
                          : strncmp(value, "off\n", 4) == 0 ? MT_ACT_CACHE_OFF
                                                            : MT_ACT_CACHE_AUTO;
    }
    eager_read(text, policy_p);
    rendezvous_read(text, policy_p);
    verify_read(text, policy_p);
}
