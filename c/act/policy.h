/* policy.h: what the stand-ins take from the job's policy (struct mt_act_host).
 * It knows no MPI. */
#ifndef MPITRACE_ACT_POLICY_H
#define MPITRACE_ACT_POLICY_H

#include "../include/engine.h"

struct mt_act_policy {
    char device[MT_FABRIC_NAME_BYTES]; /* "": whichever reaches all ranks */
    uint64_t eager_limit;
    enum mt_engine_rendezvous rendezvous;
    bool choose; /* between it and the other one */
    uint32_t verify_every;
    bool verify_stops; /* the job, after a message that arrived wrong */
};

/* What the text does not name has its default. */
void mt_act_policy_read(const char *text, struct mt_act_policy *policy_p);

#endif
