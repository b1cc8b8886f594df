/* cache.h: registrations that outlive their message: the registration cache
 * (c/regservice) and who watches memory for it (c/memhook), put behind an engine.
 * It knows no MPI. */
#ifndef MPITRACE_ACT_CACHE_H
#define MPITRACE_ACT_CACHE_H

#include "../include/act.h"
#include "../include/counts.gen.h"
#include "../regservice/service.h"
#include "policy.h"

/* As the policy wants it; where there is none, the engine registers for each
 * message. local_ranks: of the job on this machine, who share what may be
 * pinned. */
void mt_act_cache_open(const struct mt_act_host *host,
                       const struct mt_act_policy *policy,
                       uint32_t local_ranks, struct mt_engine *engine);
/* With no request of the engine under way, and before the engine is closed. */
void mt_act_cache_close(struct mt_engine *engine);

/* Why there is none; NULL: there is one. */
const char *mt_act_cache_off(void);
/* Who watches memory for it; NULL: there is none. */
const char *mt_act_cache_watch(void);
/* Zeros without one. */
void mt_act_cache_count(struct mt_cache_counts *counts_p);

#endif
