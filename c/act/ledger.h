/* ledger.h: what this rank has carried itself, written down at the end. It knows
 * no MPI. */
#ifndef MPITRACE_ACT_LEDGER_H
#define MPITRACE_ACT_LEDGER_H

#include "../include/act.h"
#include "../include/engine.h"

/* Before the engine is closed. */
void mt_act_ledger_write(const struct mt_act_host *host,
                         const struct mt_engine *engine);

#endif
