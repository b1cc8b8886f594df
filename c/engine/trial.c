/* trial.c: see trial.h. It keeps ratios where policy/proof keeps their
 * logarithms, and compares squares where that takes roots, so that a rank needs
 * no mathematical library. */
#include "trial.h"

#include <stdlib.h>

/* The evidence must be 2.4 standard deviations from chance; its square. */
static const double mt_trial_deviate = 2.4 * 2.4;

void mt_trial_begin(struct mt_trial *t, uint32_t hold, uint32_t hold_most)
{
    *t = (struct mt_trial){.hold_first = hold, .hold_most = hold_most};
}

bool mt_trial_newcomer(const struct mt_trial *t)
{
    if (t->state != MT_TRIAL_TRYING) {
        return t->state == MT_TRIAL_KEPT;
    }
    /* known, newcomer, newcomer, known: what drifts favours neither */
    return (t->half == 0) == (t->pairs % 2 == 1);
}

/* ---- Wilcoxon's signed-rank statistic ---- */

/* How far from 1, in either direction. */
static double mt_ratio_far(double ratio)
{
    return ratio < 1 ? 1 / ratio : ratio;
}

static int mt_ratio_nearer(const void *a, const void *b)
{
    double x = mt_ratio_far(*(const double *)a);
    double y = mt_ratio_far(*(const double *)b);
    return (x > y) - (x < y);
}

static int mt_ratio_less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Below 0: the ratios tend to be below 1, by more than chance; 0: neither. */
static int mt_trial_evidence(const struct mt_trial *t)
{
    double r[MT_TRIAL_PAIRS], sum = 0, ties = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->pairs; i++) {
        if (t->ratio[i] != 1) {
            r[n++] = t->ratio[i];
        }
    }
    qsort(r, n, sizeof(r[0]), mt_ratio_nearer);
    for (uint32_t i = 0, j; i < n; i = j) {
        for (j = i; j < n && mt_ratio_far(r[j]) == mt_ratio_far(r[i]); j++) {
        }
        double rank = (i + j + 1) / 2.0, same = j - i;
        for (uint32_t k = i; k < j; k++) {
            sum += r[k] < 1 ? -rank : rank;
        }
        ties += same * same * same - same;
    }
    double variance = n * (n + 1.0) * (2.0 * n + 1) / 6 - ties / 12;
    double size = (sum < 0 ? -sum : sum) - 1; /* continuity */
    if (size <= 0 || size * size < mt_trial_deviate * variance) {
        return 0;
    }
    return sum < 0 ? -1 : 1;
}

static double mt_trial_median(const struct mt_trial *t)
{
    double r[MT_TRIAL_PAIRS];
    uint32_t n = t->pairs;
    if (n == 0) {
        return 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        r[i] = t->ratio[i];
    }
    qsort(r, n, sizeof(r[0]), mt_ratio_less);
    return (r[(n - 1) / 2] + r[n / 2]) / 2;
}

/* ---- decisions ---- */

static void mt_trial_decide(struct mt_trial *t, enum mt_trial_state state,
                            enum mt_trial_reason reason)
{
    t->hold = t->before == state ? 2 * t->hold : t->hold_first;
    if (t->hold > t->hold_most) {
        t->hold = t->hold_most;
    }
    t->fall_backs +=
        t->before == MT_TRIAL_KEPT && state == MT_TRIAL_RETREATED;
    t->state = state;
    t->reason = reason;
    t->change = mt_trial_median(t) - 1;
    t->judged = t->pairs;
    t->held = 0;
}

/* Judges the evidence where it is time to. */
static void mt_trial_look(struct mt_trial *t)
{
    if (t->pairs < MT_TRIAL_LOOK || (t->pairs & (t->pairs - 1)) != 0) {
        return;
    }
    int evidence = mt_trial_evidence(t);
    if (evidence < 0) {
        mt_trial_decide(t, MT_TRIAL_KEPT, MT_TRIAL_FASTER);
    } else if (evidence > 0) {
        mt_trial_decide(t, MT_TRIAL_RETREATED, MT_TRIAL_SLOWER);
    } else if (t->pairs == MT_TRIAL_PAIRS && t->before == MT_TRIAL_KEPT) {
        mt_trial_decide(t, MT_TRIAL_KEPT, MT_TRIAL_NO_LOSS);
    } else if (t->pairs == MT_TRIAL_PAIRS) {
        mt_trial_decide(t, MT_TRIAL_RETREATED, MT_TRIAL_NO_GAIN);
    }
}

/* A new trial; what the last one decided stands in the meantime. */
static void mt_trial_again(struct mt_trial *t)
{
    t->before = t->state;
    t->state = MT_TRIAL_TRYING;
    t->pairs = 0;
    t->sums[0] = t->sums[1] = 0;
    t->counts[0] = t->counts[1] = 0;
}

void mt_trial_epoch(struct mt_trial *t, double ns)
{
    if (!(ns > 0) || ns > 1e300) {
        return;
    }
    if (t->state != MT_TRIAL_TRYING) {
        if (++t->held >= t->hold) {
            mt_trial_again(t);
        }
        return;
    }
    unsigned who = mt_trial_newcomer(t);
    t->sums[who] += ns;
    t->counts[who]++;
    if (t->half == 0) {
        t->half = ns;
        return;
    }
    t->ratio[t->pairs++] = who == 1 ? ns / t->half : t->half / ns;
    t->half = 0;
    t->all++;
    mt_trial_look(t);
}

void mt_trial_give_up(struct mt_trial *t)
{
    if (t->state == MT_TRIAL_TRYING) {
        t->half = 0;
        mt_trial_decide(t, MT_TRIAL_RETREATED, MT_TRIAL_NO_GAIN);
    }
}
