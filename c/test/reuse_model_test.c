/* sources: c/engine/reuse.c */
/* The model of reuse.h against reusetrack.Sender: replays the scenarios whose
 * expected output the Go version writes (reusetrack/sender_test.go has the
 * commands). */
#include <inttypes.h>

#include "../engine/reuse.h"
#include "story.h"

static uint64_t argument(const char *line, const char *name, uint64_t otherwise)
{
    char key[32];
    snprintf(key, sizeof(key), " %s=", name);
    const char *at = strstr(line, key);
    return at != NULL ? strtoull(at + strlen(key), NULL, 0) : otherwise;
}

/* Messages that left the same way, one behind the other. */
struct runs {
    const char *way;
    unsigned count, all;
};

static void runs_end(struct runs *r)
{
    if (r->count > 0 && r->all++ < 12) {
        say("%u %s\n", r->count, r->way);
    }
    r->count = 0;
}

static void runs_add(struct runs *r, const char *way)
{
    if (r->way != way) {
        runs_end(r);
    }
    r->way = way;
    r->count++;
}

static void send_many(struct mt_reuse *m, const char *line)
{
    static const char straight[] = "straight", copied[] = "copied",
                      refused[] = "refused";
    struct runs runs = {.way = NULL};
    uint64_t n = strtoull(line + 5, NULL, 10);
    uint64_t address = argument(line, "address", 0);
    uint64_t bytes = argument(line, "bytes", 0), site = argument(line, "site", 0);
    uint64_t apart = argument(line, "apart", 0);
    bool refuse = strstr(line, " refuse") != NULL;
    for (uint64_t i = 0; i < n; i++, address += apart) {
        struct mt_reuse_sent sent = mt_reuse_send(m, address, bytes, site);
        if (sent.straight && refuse) {
            mt_reuse_refused(m, address, bytes, site);
            runs_add(&runs, refused);
        } else if (sent.straight) {
            if (sent.timed) {
                mt_reuse_exposed(m, bytes, site,
                                 argument(line, "exposed", 0));
            }
            if (sent.looks) {
                mt_reuse_sample(&m->cache, argument(line, "cache", 0));
            }
            runs_add(&runs, straight);
        } else {
            runs_add(&runs, copied);
        }
    }
    runs_end(&runs);
    if (runs.all > 12) {
        say(".. %u runs\n", runs.all);
    }
}

static uint64_t next(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) +
             UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

static void send_random(struct mt_reuse *m, const char *line)
{
    uint64_t n = strtoull(line + 7, NULL, 10), seed = argument(line, "seed", 0);
    uint64_t buffers = argument(line, "buffers", 1);
    uint64_t straight = 0, timed = 0, refused = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t b = next(&seed, buffers);
        b = next(&seed, b + 1);
        uint64_t address = UINT64_C(0x7f0000000000) + b * 832;
        uint64_t bytes = 64 + next(&seed, 1 + next(&seed, 16384));
        uint64_t site = 1 + next(&seed, 1 + next(&seed, 400));
        struct mt_reuse_sent sent = mt_reuse_send(m, address, bytes, site);
        if (sent.straight && next(&seed, 20) == 0) {
            mt_reuse_refused(m, address, bytes, site);
            refused++;
        } else if (sent.straight) {
            straight++;
            if (sent.timed) {
                timed++;
                mt_reuse_exposed(m, bytes, site, next(&seed, 1 + site * 8));
            }
        } else if (sent.timed) {
            timed++;
            mt_reuse_copied(m, bytes, 20 + bytes / 8 + next(&seed, 50));
        }
        if (next(&seed, 64) == 0) {
            mt_reuse_sample(&m->usage, 20 + next(&seed, 20));
            mt_reuse_sample(&m->cache, 30 + next(&seed, 20));
        }
    }
    say("%" PRIu64 " straight, %" PRIu64 " timed, %" PRIu64 " refused\n",
        straight, timed, refused);
}

static void costs(struct mt_reuse *m, const char *line)
{
    uint64_t bytes = argument(line, "bytes", 1);
    for (unsigned i = 0; i < MT_REUSE_LOOK; i++) {
        mt_reuse_copied(m, bytes, argument(line, "copy", 0));
    }
    m->registering[mt_reuse_size(bytes)] =
        (double)argument(line, "register", 0);
}

static void looks(struct mt_reuse *m, const char *line)
{
    uint64_t times = argument(line, "times", MT_REUSE_LOOK);
    for (uint64_t i = 0; i < times; i++) {
        mt_reuse_sample(&m->usage, argument(line, "table", 0));
        mt_reuse_sample(&m->cache, argument(line, "cache", 0));
    }
}

static struct mt_reuse model;

static bool command(const char *line)
{
    struct mt_reuse *m = &model;
    if (strncmp(line, "new", 3) == 0) {
        mt_reuse_close(m);
        return mt_reuse_open(m, argument(line, "from", 0),
                             (uint32_t)argument(line, "speculation", 25),
                             (uint32_t)argument(line, "room", MT_REUSE_ROOM),
                             (uint32_t)argument(line, "most", MT_REUSE_ROWS));
    }
    if (strncmp(line, "costs", 5) == 0) {
        costs(m, line);
    } else if (strncmp(line, "looks", 5) == 0) {
        looks(m, line);
    } else if (strncmp(line, "send", 4) == 0) {
        send_many(m, line);
    } else if (strncmp(line, "random", 6) == 0) {
        send_random(m, line);
    } else if (strncmp(line, "state", 5) == 0) {
        say("%u buffers, %u frequent, stopped %s, %" PRIu64
            " messages untracked, %u places, %" PRIu64 " retreats\n",
            m->count, m->frequent, m->stopped ? "true" : "false", m->untracked,
            m->site_count, m->retreats);
    } else {
        return false;
    }
    return true;
}

static void end(void)
{
    mt_reuse_close(&model);
}

int main(int argc, char **argv)
{
    return story_main("reusetrack/testdata/sender", command, end, argc, argv);
}
