/* choice.c: see choice.h. */
#include "choice.h"

#include <stdlib.h>

/* ---- rows ---- */

static struct mt_choice *mt_choice_new(uint32_t context, uint32_t size,
                                       uint64_t salt)
{
    struct mt_choice *c = calloc(1, sizeof(*c));
    if (c != NULL) {
        c->context = context;
        c->size = size;
        c->row = UINT32_MAX; /* none before the first */
        c->random = ((uint64_t)context << 8 | size) ^ salt;
        mt_trial_begin(&c->trial, MT_TRIAL_HOLD, MT_TRIAL_HOLD_MOST);
    }
    return c;
}

struct mt_choice *mt_choice_get(struct mt_choices *choices, uint32_t context,
                                uint64_t bytes)
{
    uint32_t size = bytes > 0 ? 63 - (uint32_t)__builtin_clzll(bytes) : 0;
    uint64_t at = mt_hash((uint64_t)context << 8 | size) >> 32;
    struct mt_choice **row;
    for (;; at++) {
        row = &choices->rows[at % (2 * MT_CHOICES)];
        if (*row == NULL || ((*row)->context == context &&
                             (*row)->size == size)) {
            break;
        }
    }
    if (*row == NULL && choices->count == MT_CHOICES) {
        row = &choices->others[size];
        context = UINT32_MAX;
    }
    if (*row == NULL) {
        *row = mt_choice_new(context, size, choices->salt);
        choices->count += *row != NULL && context != UINT32_MAX;
    }
    return *row;
}

void mt_choices_free(struct mt_choices *choices)
{
    for (uint32_t i = 0; i < 2 * MT_CHOICES; i++) {
        free(choices->rows[i]);
    }
    for (uint32_t i = 0; i < MT_CHOICE_SIZES; i++) {
        free(choices->others[i]);
    }
}

/* ---- epochs ---- */

uint64_t mt_choice_kind(struct mt_choice *c, uint64_t of, uint32_t step)
{
    c->row = step != c->step ? 0 : c->row != MT_CHOICE_ROW ? c->row + 1 : c->row;
    c->step = step;
    return of ^ mt_hash(c->row);
}

/* Whether the next message begins an epoch. */
static bool mt_choice_turns(const struct mt_choice *c, uint64_t kind)
{
    return c->under_way == 0 &&
           (c->messages == 0 ||
            (c->rests + 1 >= c->want && (kind == c->kind || c->spoilt ||
                                         c->messages > MT_EPOCH_MOST)));
}

bool mt_choice_due(const struct mt_choice *c, uint64_t kind)
{
    /* one that is held may be tried again from here on */
    return mt_choice_turns(c, kind) &&
           (c->trial.state == MT_TRIAL_TRYING ||
            c->trial.held + 1 >= c->trial.hold);
}

/* The epoch that ends. */
static void mt_choice_judge(struct mt_choice *c, uint64_t now_ns)
{
    bool tries = c->trial.state == MT_TRIAL_TRYING;
    if (!c->spoilt) {
        /* of one that is held only the number matters */
        mt_trial_epoch(&c->trial,
                       tries ? (double)(now_ns - c->began_ns) / c->messages : 1);
    }
    if (tries && c->newcomer) {
        c->spoils = c->spoilt ? c->spoils + 1 : 0;
        if (c->spoils == MT_EPOCH_SPOILS) {
            c->spoils = 0;
            mt_trial_give_up(&c->trial);
        }
    }
    if (tries && c->trial.state != MT_TRIAL_TRYING) {
        c->decided_ns = now_ns;
    }
}

static void mt_choice_turn(struct mt_choice *c, uint64_t kind, uint64_t now_ns)
{
    if (c->messages > 0) {
        mt_choice_judge(c, now_ns);
    }
    c->messages = c->rests = 0;
    c->kind = kind;
    c->spoilt = false;
    c->newcomer = mt_trial_newcomer(&c->trial);
    c->began_ns = now_ns;
    c->random = c->random * UINT64_C(6364136223846793005) +
                UINT64_C(1442695040888963407);
    c->want = MT_EPOCH_RESTS + (uint32_t)(c->random >> 33) % MT_EPOCH_VARIES;
}

bool mt_choice_begin(struct mt_choice *c, uint64_t kind, uint64_t bytes,
                     uint64_t now_ns)
{
    if (mt_choice_turns(c, kind)) {
        mt_choice_turn(c, kind, now_ns);
    } else if (c->under_way == 0) {
        c->rests++;
    }
    c->under_way++;
    bool newcomer = c->newcomer;
    if (++c->messages > MT_EPOCH_MOST &&
        c->trial.state == MT_TRIAL_TRYING) {
        c->spoilt = true;
        newcomer = mt_trial_chosen(&c->trial);
    }
    c->went[newcomer]++;
    c->bytes[newcomer] += bytes;
    return newcomer;
}

void mt_choice_end(struct mt_choice *c, bool spoilt)
{
    c->under_way--;
    c->spoilt = c->spoilt || spoilt;
}
