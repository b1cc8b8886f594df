/* ledger.h: what this rank has carried itself, written down at the end. It knows
 * no MPI. */
#ifndef MPITRACE_ACT_LEDGER_H
#define MPITRACE_ACT_LEDGER_H

#include "figures.h"

void mt_act_ledger_write(const struct mt_act_host *host,
                         const struct mt_act_figures *figures,
                         const struct mt_engine *engine);

#endif
