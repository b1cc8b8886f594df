/* policy.h: what the stand-ins take from the job's policy (struct mt_act_host).
 * It knows no MPI. */
#ifndef MPITRACE_ACT_POLICY_H
#define MPITRACE_ACT_POLICY_H

#include "../include/engine.h"

/* Whether registrations are kept. */
enum mt_act_cache {
    MT_ACT_CACHE_AUTO = 0, /* where the device makes it worth while */
    MT_ACT_CACHE_ON,
    MT_ACT_CACHE_OFF,
};

struct mt_act_policy {
    const char *devices; /* in the text; NULL: whichever reaches all ranks */
    size_t devices_bytes;
    /* Of messages that no rule is for. An eager limit of 0: that of the device. */
    struct mt_engine_terms terms;
    uint64_t ring_bytes;
    enum mt_fabric_engine engine; /* of a device in software */
    uint32_t speculation; /* per cent */
    bool datagrams_first;
    uint32_t connections, connect_after;
    uint32_t rtr_usage, rtr_sample;
    enum mt_act_cache cache;
    uint64_t pinned; /* bytes that the cache may register; 0: its share */
    uint32_t verify_every;
    bool verify_stops; /* the job, after a message that arrived wrong */
};

/* What the text does not name has its default. */
void mt_act_policy_read(const char *text, struct mt_act_policy *policy_p);

/* The longest message in bytes that is sent without asking the receiver where the
 * policy leaves it to the device. Over shared memory two copies are cheaper than a
 * system call for longer ones. */
uint64_t mt_act_policy_eager(const struct mt_act_policy *policy,
                             const char *device);

/* The value of the line that begins with name and =; NULL: there is none. */
const char *mt_act_policy_value(const char *text, const char *name,
                                size_t *length_p);
/* Whether a word stands among those of a value, with + between them. */
bool mt_act_policy_has(const char *value, size_t length, const char *word);
/* What the lines whose names begin with a prefix say of how messages travel; what
 * they do not name stays. */
void mt_act_policy_terms(const char *text, const char *prefix,
                         struct mt_engine_terms *terms);

#endif
