/* usage.c: whether it pays that a receiver asks first; see rtr.h. Nothing here
 * knows more than what became of the receives of an envelope. */
#include "rtr.h"

struct mt_rtr_usage *mt_rtr_usage_of(struct mt_rtr_usage *usages,
                                     uint32_t context, int32_t tag)
{
    uint32_t home = mt_rtr_home(context, tag);
    for (uint32_t i = 0; i < MT_RTR_NEAR; i++) {
        struct mt_rtr_usage *u = &usages[(home + i) % MT_RTR_USAGES];
        if (!u->known) {
            *u = (struct mt_rtr_usage){
                .context = context, .tag = tag, .known = true};
        }
        if (u->context == context && u->tag == tag) {
            return u;
        }
    }
    return &usages[home % MT_RTR_USAGES]; /* shared, for want of a place */
}

static enum mt_rtr_verdict mt_rtr_turn(struct mt_rtr_usage *u, bool silent)
{
    u->silent = silent;
    u->useful = u->total = u->wrong = 0;
    if (silent) {
        u->pauses++;
    }
    return silent ? MT_RTR_SUSPENDS : MT_RTR_RESUMES;
}

/* How many are counted before the next verdict. */
static uint64_t mt_rtr_window(const struct mt_rtr_usage *u, uint32_t sample)
{
    uint32_t doubled = u->pauses > 0 ? u->pauses - 1 : 0;
    doubled = doubled < MT_RTR_PAUSES ? doubled : MT_RTR_PAUSES;
    return u->silent ? (uint64_t)sample << doubled : sample;
}

enum mt_rtr_verdict mt_rtr_judge(struct mt_rtr_usage *u, enum mt_rtr_fate fate,
                                 uint32_t least, uint32_t sample)
{
    u->total++;
    u->useful += fate == MT_RTR_USED;
    u->wrong = fate == MT_RTR_MISPREDICTED ? u->wrong + 1 : 0;
    if (!u->silent && u->wrong == MT_RTR_WRONG) {
        return mt_rtr_turn(u, true);
    }
    bool lost = (uint64_t)(u->total - u->useful) * 100 >
                (uint64_t)(100 - least) * sample; /* whatever else comes */
    if (u->total < mt_rtr_window(u, sample) && (u->silent || !lost)) {
        return MT_RTR_GOES_ON;
    }
    bool pays = (uint64_t)u->useful * 100 >= (uint64_t)least * u->total;
    if (pays == u->silent) {
        return mt_rtr_turn(u, !pays);
    }
    u->useful = u->total = 0;
    u->pauses = pays ? 0 : u->pauses;
    return MT_RTR_GOES_ON;
}
