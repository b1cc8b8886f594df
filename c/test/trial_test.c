/* sources: c/engine/trial.c */
/* The trial of trial.h against policy/proof: replays the scenarios whose
 * expected output the Go version writes (policy/proof/trial_test.go has the
 * commands). */
#include <inttypes.h>

#include "../engine/trial.h"
#include "story.h"

static const char *const states[] = {"trying", "kept", "retreated"};

/* The shortest digits that mean this number. */
static void number(double v)
{
    char digits[40];
    for (int n = 1; n <= 17; n++) {
        snprintf(digits, sizeof(digits), "%.*g", n, v);
        if (strtod(digits, NULL) == v) {
            break;
        }
    }
    say("%s", digits);
}

static double argument(const char *line, const char *name, double otherwise)
{
    char key[32];
    snprintf(key, sizeof(key), " %s=", name);
    const char *at = strstr(line, key);
    return at != NULL ? strtod(at + strlen(key), NULL) : otherwise;
}

static void epochs(struct mt_trial *t, const char *line)
{
    double cost[2] = {argument(line, "known", 0),
                      argument(line, "newcomer", 0)};
    bool until = strncmp(line, "until", 5) == 0;
    long limit = until ? 100000 : strtol(line + 7, NULL, 10), n = 0;
    enum mt_trial_state before = t->state;
    char order[33] = "";
    for (; n < limit && (!until || t->state == before); n++) {
        unsigned who = mt_trial_newcomer(t);
        if (n < 32) {
            order[n] = "kn"[who];
        }
        mt_trial_epoch(t, cost[who] * (1 + 1e-6 * (double)(n % 7)));
    }
    say("%ld epochs %s%s: %s\n", n, order, n > 32 ? ".." : "",
        states[t->state]);
}

static double next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) +
             UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / (double)(UINT64_C(1) << 53);
}

static void noisy(struct mt_trial *t, const char *line)
{
    double share = argument(line, "share", 1);
    uint64_t random = (uint64_t)argument(line, "seed", 1);
    long limit = strtol(line + 6, NULL, 10);
    for (long n = 0; n < limit; n++) {
        enum mt_trial_state before = t->state;
        double ns = mt_trial_newcomer(t) ? 1000 * share : 1000;
        volatile double wide = 0.4 * next(&random); /* rounded, as in Go */
        ns *= 0.8 + wide;
        ns *= next(&random) < 0.05 ? 5 : 1;
        mt_trial_epoch(t, ns);
        if (t->state != before) {
            say("%ld: %s\n", n, states[t->state]);
        }
    }
}

static void reason(const struct mt_trial *t)
{
    switch (t->reason) {
    case MT_TRIAL_OPEN:
        say("not decided yet");
        break;
    case MT_TRIAL_FASTER:
        say("%.1f %% less time in", -100 * t->change);
        break;
    case MT_TRIAL_SLOWER:
        say("%.1f %% more time in", 100 * t->change);
        break;
    case MT_TRIAL_NO_LOSS:
        say("gained before, and no loss shown in");
        break;
    case MT_TRIAL_NO_GAIN:
        say("no gain shown in");
        break;
    }
    if (t->reason != MT_TRIAL_OPEN) {
        say(" %u pairs of epochs", t->judged);
    }
}

static void row(const struct mt_trial *t)
{
    unsigned who = mt_trial_chosen(t);
    say("{Site:halo.c:91 From:1024 To:2048 Chosen:%s RunnerUp:%s "
        "Predicted:%d Measured:",
        who ? "reuse" : "copy", who ? "copy" : "reuse", who ? 700 : 900);
    number(mt_trial_mean(t, who));
    say(" RunnerUpNS:");
    number(mt_trial_mean(t, !who));
    say(" Reason:");
    reason(t);
    say(" Pairs:%u FallBacks:%u}\n", t->all, t->fall_backs);
}

static struct mt_trial trial;

static bool command(const char *line)
{
    struct mt_trial *t = &trial;
    if (strncmp(line, "new", 3) == 0) {
        mt_trial_begin(t,
                       (uint32_t)argument(line, "hold", MT_TRIAL_HOLD),
                       (uint32_t)argument(line, "most", MT_TRIAL_HOLD_MOST));
    } else if (strncmp(line, "give-up", 7) == 0) {
        mt_trial_give_up(t);
        say("%s\n", states[t->state]);
    } else if (strncmp(line, "row", 3) == 0) {
        row(t);
    } else if (strncmp(line, "noise", 5) == 0) {
        noisy(t, line);
    } else if (strncmp(line, "until", 5) == 0 ||
               strncmp(line, "epochs", 6) == 0) {
        epochs(t, line);
    } else {
        return false;
    }
    return true;
}

/* Of a file: the next one begins anew. */
static void end(void)
{
    mt_trial_begin(&trial, MT_TRIAL_HOLD, MT_TRIAL_HOLD_MOST);
}

/* What is no time changes nothing. */
static bool bad_epochs(void)
{
    static const double none[] = {0, -1, 0.0 / 0.0, 1 / 0.0};
    struct mt_trial t;
    mt_trial_begin(&t, MT_TRIAL_HOLD, MT_TRIAL_HOLD_MOST);
    for (unsigned i = 0; i < 4; i++) {
        mt_trial_epoch(&t, none[i]);
    }
    return t.half == 0 && t.pairs == 0 && !mt_trial_newcomer(&t);
}

int main(int argc, char **argv)
{
    CHECK(bad_epochs());
    end();
    return story_main("policy/proof/testdata", command, end, argc, argv);
}
