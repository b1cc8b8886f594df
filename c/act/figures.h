/* figures.h: what this rank has carried itself, as of one moment; while the job
 * runs in its segment. It knows no MPI.
 *
 * Threads. The engine's thread calls mt_act_figures_watch, that of MPI_Init and
 * MPI_Finalize the others; who writes holds a lock that the thread does not wait
 * for. */
#ifndef MPITRACE_ACT_FIGURES_H
#define MPITRACE_ACT_FIGURES_H

#include "../include/act.h"
#include "../include/counts.gen.h"
#include "../include/engine.h"

struct mt_act_counts {
    struct mt_engine_counts engine;
    struct mt_cache_counts cache;
    struct mt_left_counts left;
};
_Static_assert(sizeof(struct mt_act_counts) ==
                   MPITRACE_COUNTS * sizeof(uint64_t),
               "counts without gaps");

struct mt_act_figures {
    struct mt_act_counts counts;
    uint32_t decisions;
    struct mt_seg_act_decision decision[MPITRACE_ACT_DECISIONS];
};

/* The names of struct mt_act_counts, in order. */
extern const char *const mt_act_count_names[MPITRACE_COUNTS];

/* From now on mt_act_figures_watch shows them. left: read with atomic loads. */
void mt_act_figures_open(const struct mt_act_live *live,
                         const struct mt_left_counts *left);
/* For struct mt_engine_options. */
void mt_act_figures_watch(void *user, const struct mt_engine *engine);
/* The last ones, which the segment has too; nothing changes them any more. */
/* The program's name for a communicator, which stands beside its number. Of more
 * than 64 communicators the later ones keep the number only. */
void mt_act_figures_name(uint32_t communicator, const char *name);
const struct mt_act_figures *
mt_act_figures_close(const struct mt_engine *engine);

#endif
