/* sources: c/act/rules.c c/act/policy.c c/act/place.c c/act/table.c */
/* Rules of a policy: what a few say of messages, random ones against a dumb twin,
 * the names of a place, and threads that find out the same at once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../act/place.h"
#include "../act/rules.h"
#include "check.h"

static const struct mt_engine_terms base = {
    .eager_limit = 16384, .reuse_from = 128, .try_written = true};

enum { EAGER_AUTO = 500 };

static struct mt_act_rules *read_rules(const char *text,
                                       struct mt_engine_terms *most_p)
{
    struct mt_act_rules *rules = malloc(sizeof(*rules));
    *most_p = base;
    mt_act_rules_read(rules, text, EAGER_AUTO, most_p);
    return rules;
}

static void *free_terms_in(struct mt_act_table *table)
{
    for (uint64_t set = 0; set <= UINT32_MAX >> 24; set++) {
        free(mt_act_table_get(table, set));
    }
    mt_act_table_free(table);
    return NULL;
}

static void free_rules(struct mt_act_rules *rules)
{
    free_terms_in(&rules->terms);
    mt_act_table_free(&rules->places);
    free(rules);
}

/* ---- a few ---- */

static const char few[] = "policy=1\n"
                          "eager=copy\n"
                          "proof=on\n"
                          "rules=4\n"
                          "rule.0.name=halo\n"
                          "rule.0.when.operation=isend+persistent\n"
                          "rule.0.when.communicator=grid*+MPI_COMM_WORLD\n"
                          "rule.0.use.eager=reuse\n"
                          "rule.0.use.reuse_from=4096\n"
                          "rule.1.when.size=1000000..\n"
                          "rule.1.when.communicator_size=2..8\n"
                          "rule.1.use.rendezvous=write\n"
                          "rule.2.when.size=2000..4000\n"
                          "rule.2.when.peer=other-node\n"
                          "rule.2.use.eager_limit=1000\n"
                          "rule.2.use.rendezvous=receiver\n"
                          "rule.3.when.site=here_?+*.so?0x10\n"
                          "rule.3.use.eager_limit=65536\n"
                          "rule.3.use.rendezvous=read+write\n";

__attribute__((noinline)) static uint64_t here_1(void)
{
    return (uintptr_t)__builtin_extract_return_addr(
        __builtin_return_address(0));
}

/* An address in a function of that name. */
__attribute__((noinline)) static uint64_t here_a(void)
{
    uint64_t address = here_1();
    __asm__ volatile("");
    return address;
}

static void say_few(void)
{
    struct mt_engine_terms most;
    struct mt_act_rules *rules = read_rules(few, &most);
    CHECK_EQ(rules->count, 4);
    CHECK_EQ(most.eager_limit, 65536);
    CHECK_EQ(most.reuse_from, 128); /* a rule asks for longer ones only */
    CHECK_EQ(most.reuse, MT_ENGINE_REUSES);
    CHECK_EQ(mt_act_rules_of(rules, "MPI_COMM_WORLD", 2), 0xf);
    CHECK_EQ(mt_act_rules_of(rules, "grid", 9), 0xd);
    CHECK_EQ(mt_act_rules_of(rules, "", 8), 0xe);
    CHECK_EQ(mt_act_rules_of(rules, "a grid", 1), 0xc);

    struct mt_act_asked asked = {.rules = 0xf, .call = MT_ACT_CALL_ISEND};
    const struct mt_engine_terms *t = mt_act_rules_terms(rules, &asked);
    CHECK_EQ(t->reuse, MT_ENGINE_REUSES);
    CHECK_EQ(t->reuse_from, 4096);
    CHECK_EQ(t->eager_limit, 16384);
    CHECK(t->try_written);
    CHECK(t == mt_act_rules_terms(rules, &asked)); /* and stays */

    asked.call = MT_ACT_CALL_SEND;
    t = mt_act_rules_terms(rules, &asked);
    CHECK_EQ(t->reuse, MT_ENGINE_COPIES);
    CHECK_EQ(t->reuse_from, 128);

    asked.bytes = 1000000;
    t = mt_act_rules_terms(rules, &asked);
    CHECK_EQ(t->rendezvous, MT_ENGINE_RPUT);
    CHECK(!t->try_written);

    asked.bytes = 4000;
    CHECK_EQ(mt_act_rules_terms(rules, &asked)->eager_limit, 16384);
    asked.peer = MT_ACT_SAME_NODE;
    CHECK_EQ(mt_act_rules_terms(rules, &asked)->eager_limit, 16384);
    asked.peer = MT_ACT_OTHER_NODE;
    t = mt_act_rules_terms(rules, &asked);
    CHECK_EQ(t->eager_limit, 1000);
    CHECK_EQ(t->rendezvous, MT_ENGINE_RTR);

    asked.site = here_a();
    CHECK_EQ(mt_act_rules_terms(rules, &asked)->eager_limit, 1000); /* first */
    asked.bytes = 4001;
    t = mt_act_rules_terms(rules, &asked);
    CHECK_EQ(t->eager_limit, 65536);
    CHECK_EQ(t->rendezvous, MT_ENGINE_RGET);
    CHECK(t->try_written);
    asked.site = 1; /* nowhere */
    CHECK_EQ(mt_act_rules_terms(rules, &asked)->eager_limit, 16384);
    free_rules(rules);
}

/* An eager limit that nobody states is that of the device, and has room twice in the
 * ring. */
static void device_limit(void)
{
    struct mt_act_policy policy;
    mt_act_policy_read("eager_limit=auto\nring=262144\n", &policy);
    CHECK_EQ(policy.terms.eager_limit, 0);
    CHECK_EQ(mt_act_policy_eager(&policy, "shm"), 32768);
    CHECK_EQ(mt_act_policy_eager(&policy, "iwarp:lo"), 65536);
    CHECK_EQ(mt_act_policy_eager(&policy, "mlx5_0"), 16384);
    policy.ring_bytes = 20000;
    CHECK_EQ(mt_act_policy_eager(&policy, "shm"), 10000);
    mt_act_policy_read("transport=ud-first\nring=262144\n", &policy);
    CHECK_EQ(mt_act_policy_eager(&policy, "iwarp:lo"), 16384);
    CHECK_EQ(mt_act_policy_eager(&policy, "shm"), 32768);
    mt_act_policy_read("", &policy);
    CHECK_EQ(policy.terms.eager_limit, 0);

    struct mt_act_rules rules;
    mt_act_rules_read(&rules, "rules=0\n", 16384, &policy.terms);
    CHECK_EQ(policy.terms.eager_limit, 16384);
    CHECK_EQ(rules.base.eager_limit, 16384);
    mt_act_rules_read(&rules, "rules=1\nrule.0.use.eager_limit=65536\n", 16384,
                      &policy.terms);
    CHECK_EQ(policy.terms.eager_limit, 65536);
    CHECK_EQ(rules.base.eager_limit, 16384);
}

static void none(void)
{
    struct mt_engine_terms most;
    struct mt_act_rules *rules = read_rules("policy=1\nrules=0\n", &most);
    struct mt_act_asked asked = {.rules = mt_act_rules_of(rules, "a", 1)};
    CHECK_EQ(asked.rules, 0);
    CHECK_EQ(mt_act_rules_terms(rules, &asked)->eager_limit, 16384);
    CHECK_EQ(most.reuse, MT_ENGINE_COPIES);
    free_rules(rules);
}

/* ---- places ---- */

static void places(void)
{
    struct mt_place place;
    mt_place_find(here_a(), &place);
    CHECK(strcmp(place.function, "here_a") == 0);
    char self[MT_PLACE_BYTES] = "";
    CHECK(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    const char *name = strrchr(self, '/') + 1;
    CHECK(strncmp(place.offset, name, strlen(name)) == 0);
    CHECK(strncmp(place.offset + strlen(name), "+0x", 3) == 0);
    mt_place_find((uintptr_t)&puts + 1, &place); /* which has no .symtab */
    CHECK(strncmp(place.offset, "libc.so", 7) == 0 ||
          strstr(place.offset, "san") != NULL); /* a sanitizer's own */
    CHECK(strstr(place.function, "puts") != NULL);
    mt_place_find(0, &place);
    CHECK(place.offset[0] == '\0' && place.function[0] == '\0');
    mt_place_find(1, &place);
    CHECK(place.offset[0] == '\0' && place.function[0] == '\0');
}

/* ---- random rules ---- */

enum { RULES = 8, TURNS = 300, ASKED = 300 };

static unsigned long long state = 11;

static unsigned draw(unsigned below)
{
    return (unsigned)(check_random(&state) % below);
}

static bool half(void)
{
    return draw(2) == 0;
}

/* One rule as the twin keeps it: -1, NULL: it says nothing of that. */
struct twin {
    int call, eager, rendezvous;
    const char *communicator;
    long from, to, eager_limit /* 0: auto */, reuse_from;
    int where;
};

static const char *const calls[] = {"",         "send", "isend", "persistent",
                                    "sendrecv", "recv", "irecv"};
/* tries: with proof=on */
static const struct {
    const char *text;
    enum mt_engine_rendezvous rendezvous;
    bool try_written, try_asking;
} ways[] = {{"read", MT_ENGINE_RGET, false, false},
            {"write", MT_ENGINE_RPUT, false, false},
            {"receiver", MT_ENGINE_RTR, false, false},
            {"read+write", MT_ENGINE_RGET, true, false},
            {"read-event+receiver", MT_ENGINE_RGET, false, true},
            {"write+receiver", MT_ENGINE_RPUT, false, true},
            {"read+write+receiver", MT_ENGINE_RGET, true, true}};
enum { WAYS = sizeof(ways) / sizeof(*ways) };
static const char *const eagers[] = {"copy", "reuse", "copy+reuse"};
static const char *const wheres[] = {"", "same-node", "other-node"};

static struct twin draw_rule(unsigned i, char *text, size_t size)
{
    struct twin t = {.call = half() ? -1 : 1 + (int)draw(MT_ACT_CALLS - 1),
                     .eager = half() ? -1 : (int)draw(3),
                     .rendezvous = half() ? -1 : (int)draw(WAYS),
                     .communicator = half() ? NULL : half() ? "a" : "b",
                     .from = half() ? -1 : (long)draw(10),
                     .eager_limit = half() ? -1 : (long)draw(100),
                     .reuse_from = half() ? -1 : 128 + (long)draw(100),
                     .where = (int)draw(3)};
    t.to = t.from < 0 || half() ? -1 : t.from + (long)draw(5);
    size_t n = strlen(text);
    n += (size_t)snprintf(text + n, size - n, "rule.%u.name=r\n", i);
#define LINE(when, ...)                                                      \
    if (when) {                                                              \
        n += (size_t)snprintf(text + n, size - n, "rule.%u." __VA_ARGS__);   \
    }
    LINE(t.call >= 0, "when.operation=%s\n", i, calls[t.call])
    LINE(t.communicator != NULL, "when.communicator=%s\n", i, t.communicator)
    LINE(t.from >= 0 && t.to >= 0, "when.size=%ld..%ld\n", i, t.from, t.to)
    LINE(t.from >= 0 && t.to < 0, "when.size=%ld..\n", i, t.from)
    LINE(t.where > 0, "when.peer=%s\n", i, wheres[t.where])
    LINE(t.eager >= 0, "use.eager=%s\n", i, eagers[t.eager])
    LINE(t.rendezvous >= 0, "use.rendezvous=%s\n", i, ways[t.rendezvous].text)
    LINE(t.eager_limit > 0, "use.eager_limit=%ld\n", i, t.eager_limit)
    LINE(t.eager_limit == 0, "use.eager_limit=auto\n", i)
    LINE(t.reuse_from >= 0, "use.reuse_from=%ld\n", i, t.reuse_from)
#undef LINE
    return t;
}

static bool twin_matches(const struct twin *t, const char *communicator,
                         const struct mt_act_asked *asked)
{
    return (t->call < 0 || t->call == (int)asked->call) &&
           (t->communicator == NULL ||
            strcmp(t->communicator, communicator) == 0) &&
           (t->from < 0 || asked->bytes >= (uint64_t)t->from) &&
           (t->to < 0 || asked->bytes <= (uint64_t)t->to) &&
           (t->where == 0 || t->where == (int)asked->peer);
}

static void random_rules(void)
{
    static char text[RULES * 400];
    struct twin twins[RULES];
    unsigned count = 1 + draw(RULES);
    bool proof = half();
    snprintf(text, sizeof(text), "proof=%s\nrules=%u\n", proof ? "on" : "off",
             count);
    for (unsigned i = 0; i < count; i++) {
        twins[i] = draw_rule(i, text, sizeof(text));
    }
    struct mt_engine_terms most;
    struct mt_act_rules *rules = read_rules(text, &most);
    for (unsigned n = 0; n < ASKED; n++) {
        const char *communicator = half() ? "a" : half() ? "b" : "";
        struct mt_act_asked asked = {
            .rules = mt_act_rules_of(rules, communicator, 2),
            .call = (enum mt_act_call)(1 + draw(MT_ACT_CALLS - 1)),
            .peer = (enum mt_act_where)draw(3),
            .bytes = draw(16)};
        struct mt_engine_terms want = base;
        bool eager = false, rendezvous = false, limit = false, from = false;
        for (unsigned i = 0; i < count; i++) {
            const struct twin *t = &twins[i];
            if (!twin_matches(t, communicator, &asked)) {
                continue;
            }
            if (!eager && t->eager >= 0) {
                eager = true;
                want.reuse = t->eager == 1            ? MT_ENGINE_REUSES
                             : t->eager == 2 && proof ? MT_ENGINE_TRIES_REUSE
                                                      : MT_ENGINE_COPIES;
            }
            if (!rendezvous && t->rendezvous >= 0) {
                rendezvous = true;
                want.rendezvous = ways[t->rendezvous].rendezvous;
                want.try_written = proof && ways[t->rendezvous].try_written;
                want.try_asking = proof && ways[t->rendezvous].try_asking;
            }
            if (!limit && t->eager_limit >= 0) {
                limit = true;
                want.eager_limit = t->eager_limit == 0
                                       ? EAGER_AUTO
                                       : (uint64_t)t->eager_limit;
            }
            if (!from && t->reuse_from >= 0) {
                from = true;
                want.reuse_from = (uint64_t)t->reuse_from;
            }
        }
        const struct mt_engine_terms *got = mt_act_rules_terms(rules, &asked);
        CHECK_EQ(got->reuse, want.reuse);
        CHECK_EQ(got->rendezvous, want.rendezvous);
        CHECK_EQ(got->try_written, want.try_written);
        CHECK_EQ(got->try_asking, want.try_asking);
        CHECK_EQ(got->eager_limit, want.eager_limit);
        CHECK_EQ(got->reuse_from, want.reuse_from);
        CHECK(got->eager_limit <= most.eager_limit);
        CHECK(got->reuse_from >= most.reuse_from);
        CHECK(got->reuse <= most.reuse);
    }
    free_rules(rules);
}

/* ---- threads ---- */

static void *ask_all(void *argument)
{
    struct mt_act_rules *rules = argument;
    uint64_t site = here_a(), limits = 0;
    for (unsigned i = 0; i < 2000; i++) {
        struct mt_act_asked asked = {.rules = i % 16,
                                     .call = (enum mt_act_call)(1 + i % 6),
                                     .peer = (enum mt_act_where)(i % 3),
                                     .bytes = i * 7 % 5000,
                                     .site = i % 2 == 0 ? site : 0};
        limits = 31 * limits +
                 mt_act_rules_terms(rules, &asked)->eager_limit;
    }
    return (void *)(uintptr_t)limits;
}

static void threads(void)
{
    struct mt_engine_terms most;
    struct mt_act_rules *rules = read_rules(few, &most);
    pthread_t thread[4];
    void *result[4];
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(pthread_create(&thread[i], NULL, ask_all, rules), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(thread[i], &result[i]);
        CHECK(result[i] == result[0]);
    }
    CHECK(result[0] == ask_all(rules));
    free_rules(rules);
}

int main(void)
{
    say_few();
    device_limit();
    none();
    places();
    for (unsigned i = 0; i < TURNS; i++) {
        random_rules();
    }
    threads();
    return check_failures != 0;
}
