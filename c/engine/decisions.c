/* decisions.c: what choice.c has decided, for the ledger. Cold. */
#include "inside.h"

static const char *const mt_trial_states[] = {"trying", "kept", "retreated"};
static const char *const mt_trial_reasons[] = {"open", "faster", "slower",
                                               "no-loss", "no-gain"};

static struct mt_engine_decision
mt_decision_of(const struct mt_engine *engine, const struct mt_choice *c,
               enum mt_engine_tried what)
{
    const struct mt_trial *t = &c->trial;
    struct mt_engine_decision d = {
        .context = c->context,
        .from = UINT64_C(1) << c->size,
        .to = c->size < 63 ? UINT64_C(2) << c->size : 0,
        .tried = what,
        .newcomer = mt_trial_chosen(t),
        .state = mt_trial_states[t->state],
        .reason = mt_trial_reasons[t->reason],
        .change = t->change,
        .judged = t->judged,
        .pairs = t->all,
        .fall_backs = t->fall_backs,
        .known_ns = mt_trial_mean(t, 0),
        .newcomer_ns = mt_trial_mean(t, 1),
        .decided_ns = c->decided_ns > 0 ? c->decided_ns - engine->opened_ns : 0,
    };
    for (unsigned i = 0; i < 2; i++) {
        d.messages[i] = c->went[i];
        d.bytes[i] = c->bytes[i];
    }
    return d;
}

static uint32_t mt_decisions_of(const struct mt_engine *engine,
                                enum mt_engine_tried what,
                                struct mt_engine_decision *out, uint32_t n,
                                uint32_t room)
{
    const struct mt_choices *all = &engine->choices[what];
    for (uint32_t i = 0; i < 2 * MT_CHOICES + MT_CHOICE_SIZES; i++) {
        const struct mt_choice *c = i < 2 * MT_CHOICES
                                        ? all->rows[i]
                                        : all->others[i - 2 * MT_CHOICES];
        if (c != NULL && n < room) {
            out[n] = mt_decision_of(engine, c, what);
        }
        n += c != NULL;
    }
    return n;
}

uint32_t mt_engine_decisions(const struct mt_engine *engine,
                             struct mt_engine_decision *out, uint32_t room)
{
    struct mt_engine *e = (struct mt_engine *)engine;
    uint32_t n = 0;
    mt_engine_lock_aside(e);
    for (unsigned what = 0; what < MT_ENGINE_TRIALS; what++) {
        n = mt_decisions_of(e, what, out, n, room);
    }
    mt_engine_unlock_aside(e);
    return n;
}
