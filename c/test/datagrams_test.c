/* sources: c/fabric/paths/datagrams.c */
/* Messages by datagrams (paths/datagrams.h) of three ranks (datagrams_world.h).
 * First stories (story.h, testdata/datagrams), then random ones, in which datagrams
 * are lost, doubled, late and out of order, and garbage comes.
 *
 *   world [window=8192] [sends=64] [receives=64] [tries=4]
 *   send P>Q BYTES       a packet carries 1000
 *   move P>Q [COUNT]     what was sent there first
 *   drop P>Q [COUNT]     the same, and it is lost
 *   double P>Q           the first one once more
 *   swap P>Q             the first two
 *   wait MICROSECONDS    time passes, then everybody does what is due
 *   settle               everything, until nothing is under way
 *   deaf P               whatever is sent there is lost from now on
 *   stops P              its device stops at the next packet, until another is posted
 *
 * Lines of output: a packet as it is posted, with what it acknowledges; and a
 * message as it comes, by its number among those of its sender. */
#include "datagrams_world.h"
#include "story.h"

static bool toy_loud;
static uint64_t came_count;

static void toy_heard(uint32_t from, uint32_t to, const unsigned char *head,
                      uint32_t bytes)
{
    uint32_t sequence, acknowledged;
    if (!toy_loud) {
        return;
    }
    memcpy(&sequence, head + 8, 4);
    memcpy(&acknowledged, head + 12, 4);
    say("%u>%u: ", from, to);
    if (head[0] == 1) {
        say("packet %u, %u bytes%s%s", sequence, bytes - HEAD,
            (head[1] & 3) == 3 ? "" : (head[1] & 1) != 0 ? ", first"
                                  : (head[1] & 2) != 0   ? ", last"
                                                         : ", more",
            (head[1] & 4) != 0 ? ", asks" : "");
    } else {
        say("acknowledgement%s", (head[1] & 8) != 0 ? " with a gap" : "");
    }
    say(", has %u\n", acknowledged);
}

static void toy_given_up(uint32_t rank, uint32_t peer)
{
    if (toy_loud) {
        say("%u: %u is given up\n", rank, peer);
    }
}

static enum mt_status came(void *user, uint32_t from, const void *bytes,
                           uint32_t count)
{
    uint32_t to = (uint32_t)((struct mt_datagrams *)user - datagrams);
    twin_came(from, to, bytes, count);
    came_count++;
    if (toy_loud) {
        say("%u: message %u of %u, %u bytes\n", to, twins[from][to].came, from,
            count);
    }
    return MT_OK;
}

/* ---- what moves ---- */

/* The first datagram of this way; toy_flying: there is none. */
static uint32_t first_of(uint32_t from, uint32_t to)
{
    uint32_t i = 0;
    while (i < toy_flying &&
           (toy_flight[i].from != from || toy_flight[i].to != to)) {
        i++;
    }
    return i;
}

static void move(uint32_t from, uint32_t to, bool lost)
{
    struct toy_datagram t;
    uint32_t at = first_of(from, to);
    toy_must(at < toy_flying, "nothing to move");
    take_out(at, &t);
    if (!lost) {
        arrives(&t);
    }
}

/* ---- stories ---- */

static bool story_open;

static uint32_t option(const char *line, const char *name, uint32_t otherwise)
{
    const char *at = strstr(line, name);
    return at != NULL ? (uint32_t)strtoul(at + strlen(name), NULL, 10)
                      : otherwise;
}

static void story_end(void)
{
    if (story_open) {
        toy_loud = false;
        memset(toy_deaf, 0, sizeof(toy_deaf));
        settle();
        end();
    }
    story_open = false;
}

static bool command(const char *line)
{
    char verb[16] = "";
    uint32_t p = RANKS, q = RANKS, n = 1;
    int words = sscanf(line, "%15s %u>%u %u", verb, &p, &q, &n);
    if (strcmp(verb, "world") == 0) {
        struct mt_datagrams_options o = usual;
        o.came = came;
        o.window_bytes = option(line, "window=", o.window_bytes);
        o.sends = option(line, "sends=", o.sends);
        o.receives = option(line, "receives=", o.receives);
        o.tries = option(line, "tries=", 4);
        story_end();
        begin(&o);
        story_open = toy_loud = true;
        return true;
    }
    if (!story_open || words < 1) {
        return false;
    }
    if (strcmp(verb, "settle") == 0) {
        settle();
    } else if (strcmp(verb, "wait") == 0 && words == 2) {
        toy_now += (uint64_t)p * 1000;
        serve_all();
    } else if (strcmp(verb, "deaf") == 0 && p < RANKS) {
        toy_deaf[p] = true;
    } else if (strcmp(verb, "stops") == 0 && p < RANKS) {
        toy_stops[p] = true;
    } else if (words < 3 || p >= RANKS || q >= RANKS || p == q) {
        return false;
    } else if (strcmp(verb, "send") == 0) {
        if (!send_one(p, q, n)) {
            say("%u: no room\n", p);
        }
    } else if (strcmp(verb, "move") == 0 || strcmp(verb, "drop") == 0) {
        for (uint32_t i = 0; i < n; i++) {
            move(p, q, verb[0] == 'd');
        }
    } else if (strcmp(verb, "double") == 0) {
        struct toy_datagram t = toy_flight[first_of(p, q)];
        arrives(&t);
    } else if (strcmp(verb, "swap") == 0) {
        uint32_t at = first_of(p, q);
        struct toy_datagram t;
        take_out(at, &t);
        move(p, q, false);
        arrives(&t);
    } else {
        return false;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        complete_all(r);
    }
    return true;
}

/* ---- random ---- */

/* What the network does next. */
static void network(uint32_t loss)
{
    struct toy_datagram t;
    uint32_t near = toy_flying < 8 ? toy_flying : 8;
    uint32_t what = toy_random(100);
    take_out(toy_random(2) == 0 ? 0 : toy_random(near), &t);
    if (what < loss) {
        return;
    }
    if (what < 2 * loss && toy_flying < FLIGHT) {
        toy_put(t.from, t.to, t.data, t.bytes);
    }
    arrives(&t);
}

static void garbage(void)
{
    struct toy_datagram t = {.to = toy_random(RANKS),
                             .bytes = toy_random(40)};
    for (uint32_t i = 0; i < t.bytes; i++) {
        t.data[i] = (char)toy_random(256);
    }
    t.data[2] = 1; /* never right */
    arrives(&t);
}

/* A packet on its way, but for another receiver that had this queue pair's number. */
static void stranger(void)
{
    if (toy_flying > 0) {
        struct toy_datagram t = toy_flight[toy_random(toy_flying)];
        uint64_t before = datagrams[t.to].counts.malformed;
        t.data[KEY + toy_random(8)] ^= (char)(1 << toy_random(8));
        for (uint32_t i = HEAD; i < t.bytes; i++) {
            t.data[i] = (char)~t.data[i];
        }
        bool taken = toy_qps[t.to].first != toy_qps[t.to].last;
        arrives(&t);
        CHECK_EQ(datagrams[t.to].counts.malformed, before + taken);
    }
}

static void random_one(unsigned long long seed)
{
    struct mt_datagrams_options o = usual;
    toy_seed = seed;
    toy_state = seed * 2 + 1;
    o.came = came;
    o.window_bytes = toy_random(4) == 0 ? 1 : 2000 + toy_random(20000);
    o.sends = 32 + toy_random(64);
    o.receives = 2 + toy_random(64);
    o.ack_every = 1 + toy_random(20);
    toy_full = toy_random(2) == 0 ? 0 : 3 + toy_random(20);
    uint32_t loss = toy_random(2) == 0 ? 0 : toy_random(20);
    uint32_t wanted = 300 + toy_random(300), done = 0;
    bool wraps = toy_random(2) == 0;
    begin(&o);
    if (wraps) {
        begin_before_wrap();
    }
    for (uint32_t n = 0; done < wanted; n++) {
        uint32_t p = toy_random(RANKS), q = toy_random(RANKS);
        toy_must(n < STEPS, "no end");
        switch (toy_random(9)) {
        case 0:
        case 1:
            if (p != q &&
                send_one(p, q, toy_random(toy_random(2) == 0 ? 40
                                                             : MESSAGE + 1))) {
                done++;
            }
            break;
        case 2:
            toy_now += toy_random(3000000);
            break;
        case 3:
            if (toy_qps[p].posted_count > 0) {
                complete(p, toy_random(toy_qps[p].posted_count));
            }
            break;
        case 4:
            if (p != q) {
                CHECK(mt_datagrams_serve(&datagrams[p], q) != MT_EPEER);
            }
            break;
        case 5:
            toy_random(2) == 0 ? garbage() : stranger();
            break;
        case 6:
            toy_stops[p] = toy_random(50) == 0;
            break;
        default:
            if (toy_flying > 0) {
                network(loss);
            }
        }
    }
    settle();
    for (uint32_t p = 0; p < RANKS; p++) {
        for (uint32_t q = 0; q < RANKS; q++) {
            CHECK_EQ(twins[p][q].came, twins[p][q].sent);
            CHECK(p == q || mt_datagrams_flushed(&datagrams[p], q));
        }
    }
    end();
}

/* ---- a peer that no path leads to ---- */

/* It is lost to who has something to send there, a message or an acknowledgement, and
 * nobody else is. */
static void barred(void)
{
    enum { US, FRIEND, BARRED };
    struct mt_datagrams_options o = usual;
    void *place;
    o.came = came;
    toy_full = 0;
    for (int acknowledges = 0; acknowledges < 2; acknowledges++) {
        begin(&o);
        toy_sayings = 0;
        CHECK(send_one(US, FRIEND, ROOM));
        if (acknowledges == 0) {
            toy_barred[BARRED] = true;
            CHECK_EQ(mt_datagrams_reserve(&datagrams[US], BARRED, &place),
                     MT_OK);
            CHECK_EQ(mt_datagrams_commit(&datagrams[US], BARRED, 1, 0),
                     MT_EPEER);
        } else {
            CHECK(send_one(BARRED, US, 1));
            move(BARRED, US, false);
            toy_barred[BARRED] = true;
            toy_now += 1000000;
        }
        CHECK_EQ(mt_datagrams_serve(&datagrams[US], BARRED), MT_EPEER);
        CHECK_EQ(mt_datagrams_reserve(&datagrams[US], BARRED, &place),
                 MT_EPEER);
        CHECK_EQ(mt_datagrams_due(&datagrams[US], BARRED), 0);
        CHECK_EQ(toy_sayings, 1);
        mt_datagrams_end(&datagrams[US], BARRED);
        mt_datagrams_end(&datagrams[BARRED], US);
        CHECK(send_one(US, FRIEND, 1));
        CHECK(send_one(FRIEND, US, MESSAGE));
        settle();
        CHECK_EQ(twins[US][FRIEND].came, 2);
        CHECK_EQ(twins[FRIEND][US].came, 1);
        end();
    }
}

int main(int argc, char **argv)
{
    int failures = story_main("c/test/testdata/datagrams", command, story_end,
                              argc, argv);
    unsigned long long seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    for (unsigned long long i = 1; i <= (seeds > 0 ? seeds : 100); i++) {
        random_one(i);
    }
    barred();
    toy_must(came_count > 0, "nothing came");
    return failures != 0 || check_failures != 0;
}
