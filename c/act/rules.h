/* rules.h: which terms a message travels on where the job's policy has rules for
 * some messages (docs/policy.md). It knows no MPI. */
#ifndef MPITRACE_ACT_RULES_H
#define MPITRACE_ACT_RULES_H

#include "policy.h"
#include "table.h"

enum { MT_ACT_RULES = 32 }; /* policy.MostRules */

/* The conditions' operations. None is 0, which is what was not said. */
enum mt_act_call {
    MT_ACT_CALL_SEND = 1,
    MT_ACT_CALL_ISEND,
    MT_ACT_CALL_PERSISTENT,
    MT_ACT_CALL_SENDRECV,
    MT_ACT_CALL_RECV,
    MT_ACT_CALL_IRECV,
    MT_ACT_CALLS,
};

enum mt_act_where { MT_ACT_UNKNOWN, MT_ACT_SAME_NODE, MT_ACT_OTHER_NODE };

/* What a rule asks for. Names lie in the text of the policy: patterns with +
 * between them, to the end of the line; NULL: any. */
struct mt_act_rule {
    uint32_t calls; /* 1 << enum mt_act_call */
    const char *communicators, *sites;
    uint64_t processes[2], bytes[2]; /* from, to */
    enum mt_act_where peer;          /* MT_ACT_UNKNOWN: wherever it is */
};

struct mt_act_rules {
    const char *text;
    uint32_t count;
    uint32_t with_sites; /* a bit for each that asks for a place */
    struct mt_act_rule rule[MT_ACT_RULES];
    struct mt_engine_terms base; /* of messages that no rule is for */
    uint64_t eager_auto; /* eager limit where a rule leaves it to the device */
    /* Found out once, and for all: by the set of rules that match, and by the
     * address of a place. */
    struct mt_act_table terms, places;
    uint32_t lock; /* of both */
};

/* What is known of a message. */
struct mt_act_asked {
    uint32_t rules; /* of its communicator */
    enum mt_act_call call;
    enum mt_act_where peer;
    uint64_t bytes;
    uint64_t site; /* address; 0: not known */
};

/* The rules in a policy's lines, which stay. eager_auto: what the device has for an
 * eager limit. *terms: of messages that no rule is for; then the most that any
 * message may want, which is the engine's. */
void mt_act_rules_read(struct mt_act_rules *rules, const char *text,
                       uint64_t eager_auto, struct mt_engine_terms *terms);
/* A set, one bit for each rule that may be for messages of a communicator. */
uint32_t mt_act_rules_of(const struct mt_act_rules *rules, const char *name,
                         uint64_t processes);
/* Stay until the process ends. From any thread. */
const struct mt_engine_terms *mt_act_rules_terms(struct mt_act_rules *rules,
                                                 const struct mt_act_asked *asked);

#endif
