/* sources: c/engine/trial.c */
/* The trial of trial.h against policy/proof: replays the scenarios whose
 * expected output the Go version writes (policy/proof/trial_test.go has the
 * commands). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/trial.h"

static const char *const states[] = {"trying", "kept", "retreated"};

struct text {
    char data[1 << 20];
    size_t n;
};

#define SAY(text, ...)                                                         \
    ((text)->n += (size_t)snprintf((text)->data + (text)->n,                   \
                                   sizeof((text)->data) - (text)->n,           \
                                   __VA_ARGS__))

/* The shortest digits that mean this number. */
static void number(struct text *out, double v)
{
    char digits[40];
    for (int n = 1; n <= 17; n++) {
        snprintf(digits, sizeof(digits), "%.*g", n, v);
        if (strtod(digits, NULL) == v) {
            break;
        }
    }
    SAY(out, "%s", digits);
}

static double argument(const char *line, const char *name, double otherwise)
{
    char key[32];
    snprintf(key, sizeof(key), " %s=", name);
    const char *at = strstr(line, key);
    return at != NULL ? strtod(at + strlen(key), NULL) : otherwise;
}

static void epochs(struct mt_trial *t, const char *line, struct text *out)
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
    SAY(out, "%ld epochs %s%s: %s\n", n, order, n > 32 ? ".." : "",
        states[t->state]);
}

static double next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) +
             UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / (double)(UINT64_C(1) << 53);
}

static void noisy(struct mt_trial *t, const char *line, struct text *out)
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
            SAY(out, "%ld: %s\n", n, states[t->state]);
        }
    }
}

static void reason(const struct mt_trial *t, struct text *out)
{
    switch (t->reason) {
    case MT_TRIAL_OPEN:
        SAY(out, "not decided yet");
        break;
    case MT_TRIAL_FASTER:
        SAY(out, "%.1f %% less time in", -100 * t->change);
        break;
    case MT_TRIAL_SLOWER:
        SAY(out, "%.1f %% more time in", 100 * t->change);
        break;
    case MT_TRIAL_NO_LOSS:
        SAY(out, "gained before, and no loss shown in");
        break;
    case MT_TRIAL_NO_GAIN:
        SAY(out, "no gain shown in");
        break;
    }
    if (t->reason != MT_TRIAL_OPEN) {
        SAY(out, " %u pairs of epochs", t->judged);
    }
}

static void row(const struct mt_trial *t, struct text *out)
{
    unsigned who = mt_trial_chosen(t);
    SAY(out, "{Site:halo.c:91 From:1024 To:2048 Chosen:%s RunnerUp:%s "
             "Predicted:%d Measured:",
        who ? "reuse" : "copy", who ? "copy" : "reuse", who ? 700 : 900);
    number(out, mt_trial_mean(t, who));
    SAY(out, " RunnerUpNS:");
    number(out, mt_trial_mean(t, !who));
    SAY(out, " Reason:");
    reason(t, out);
    SAY(out, " Pairs:%u FallBacks:%u}\n", t->all, t->fall_backs);
}

static void command(struct mt_trial *t, const char *line, struct text *out)
{
    if (strncmp(line, "new", 3) == 0) {
        mt_trial_begin(t,
                       (uint32_t)argument(line, "hold", MT_TRIAL_HOLD),
                       (uint32_t)argument(line, "most", MT_TRIAL_HOLD_MOST));
    } else if (strncmp(line, "row", 3) == 0) {
        row(t, out);
    } else if (strncmp(line, "noise", 5) == 0) {
        noisy(t, line, out);
    } else {
        epochs(t, line, out);
    }
}

/* False: something is not as expected. */
static bool replay(const char *path)
{
    static struct text got, want;
    struct mt_trial t;
    char line[1024], what[1024];
    FILE *file = fopen(path, "r");
    bool right = file != NULL;
    unsigned commands = 0;
    mt_trial_begin(&t, MT_TRIAL_HOLD, MT_TRIAL_HOLD_MOST);
    while (right && fgets(line, sizeof(line), file) != NULL) {
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        snprintf(what, sizeof(what), "%s", line);
        got.n = want.n = 0;
        got.data[0] = want.data[0] = '\0';
        command(&t, what, &got);
        commands++;
        right = fgets(line, sizeof(line), file) != NULL &&
                strcmp(line, "----\n") == 0;
        while (right && fgets(line, sizeof(line), file) != NULL &&
               line[0] != '\n') {
            SAY(&want, "%s", line);
        }
        if (right && strcmp(got.data, want.data) != 0) {
            fprintf(stderr, "%s: %sgives\n%snot\n%s", path, what, got.data,
                    want.data);
            right = false;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    fprintf(stderr, "%s %s, %u commands\n", right ? "ok  " : "FAIL", path,
            commands);
    return right && commands > 0;
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

int main(void)
{
    bool right = bad_epochs();
    right = replay("policy/proof/testdata/trial.txt") && right;
    right = replay("policy/proof/testdata/noise.txt") && right;
    return right ? 0 : 1;
}
