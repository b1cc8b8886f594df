/* trial.h: whether one way of messages takes less time than another, found out in
 * the job itself: epochs of messages by the one and by the other alternate, and
 * neighbouring epochs are compared. The rule is that of policy/proof, and both
 * replay policy/proof/testdata. It has no clock and sends nothing. */
#ifndef MPITRACE_ENGINE_TRIAL_H
#define MPITRACE_ENGINE_TRIAL_H

#include "../include/base.h"

enum {
    MT_TRIAL_PAIRS = 64,      /* after which it ends */
    MT_TRIAL_LOOK = 8,        /* the evidence is judged after so many pairs, */
                              /* and twice as many, .. */
    MT_TRIAL_HOLD = 256,      /* epochs that a decision stands for; doubled */
    MT_TRIAL_HOLD_MOST = 16384, /* .. each time it is confirmed, up to this */
};

enum mt_trial_state {
    MT_TRIAL_TRYING = 0,
    MT_TRIAL_KEPT,      /* the newcomer is faster */
    MT_TRIAL_RETREATED, /* it is not */
};

/* What the latest decision rests on. */
enum mt_trial_reason {
    MT_TRIAL_OPEN = 0, /* not decided yet */
    MT_TRIAL_FASTER,
    MT_TRIAL_SLOWER,
    MT_TRIAL_NO_LOSS, /* gained before, and no loss shown */
    MT_TRIAL_NO_GAIN,
};

struct mt_trial {
    enum mt_trial_state state, before; /* before: of the last decision */
    enum mt_trial_reason reason;
    uint32_t pairs; /* of this trial */
    uint32_t all;   /* pairs of all trials */
    uint32_t held;  /* epochs since the decision */
    uint32_t hold, hold_first, hold_most;
    uint32_t judged;     /* pairs that the decision rests on */
    uint32_t fall_backs; /* from a newcomer that had been kept */
    double change;       /* median of newcomer's time over known's, less 1 */
    double half;         /* the first epoch of the pair under way; 0: none */
    double sums[2];      /* of this trial: known, newcomer */
    uint32_t counts[2];
    double ratio[MT_TRIAL_PAIRS]; /* newcomer's time over known's */
};

void mt_trial_begin(struct mt_trial *trial, uint32_t hold, uint32_t hold_most);

/* Whether the next epoch goes by the newcomer. */
bool mt_trial_newcomer(const struct mt_trial *trial);

/* What the epoch cost that mt_trial_newcomer was asked about, in ns a message.
 * What is no cost is passed over. */
void mt_trial_epoch(struct mt_trial *trial, double ns);

/* The newcomer cannot be measured: no gain of it is shown. */
void mt_trial_give_up(struct mt_trial *trial);

/* Whether the newcomer is what was decided for. */
MT_INLINE bool mt_trial_chosen(const struct mt_trial *t)
{
    return t->state == MT_TRIAL_KEPT ||
           (t->state == MT_TRIAL_TRYING && t->before == MT_TRIAL_KEPT);
}

/* Mean of the latest trial, 0: none. */
MT_INLINE double mt_trial_mean(const struct mt_trial *t, unsigned who)
{
    return t->counts[who] > 0 ? t->sums[who] / t->counts[who] : 0;
}

#endif
