/* sources: c/fabric/paths/datagrams.c */
/* Messages by datagrams (paths/datagrams.h) of three ranks in one process, over a
 * toy network with a clock of its own: nothing moves, and no time passes, but when
 * the test says so. First stories (story.h, testdata/datagrams), then random ones,
 * in which datagrams are lost, doubled, late and out of order, and garbage comes,
 * beside a twin that is a list of what was sent.
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
 *
 * Lines of output: a packet as it is posted, with what it acknowledges; and a
 * message as it comes, by its number among those of its sender. */
#include "../fabric/paths/datagrams.h"
#include "story.h"

enum {
    RANKS = 3,
    ROOM = 1000, /* payload of a packet */
    HEAD = 16,
    PACKET = HEAD + ROOM,
    MESSAGE = 5000,
    FLIGHT = 4096,
    RECEIVES = 256,
    HEADROOM = 8,
    STEPS = 4000000,
};

struct toy_datagram {
    uint32_t from, to, bytes;
    char data[PACKET];
};

struct mt_fabric_qp {
    const struct mt_fabric_ops *ops;
    struct mt_fabric_receive receives[RECEIVES];
    struct mt_fabric_piece pieces[RECEIVES];
    uint32_t first, last;
    uint64_t posted[RECEIVES]; /* sends that have not completed */
    uint32_t posted_count;
};

struct mt_fabric_ah {
    uint32_t to;
};

static struct mt_fabric_qp toy_qps[RANKS];
static struct mt_fabric_ah toy_ahs[RANKS];
static struct toy_datagram toy_flight[FLIGHT];
static uint32_t toy_flying, toy_opening;
static uint64_t toy_now = 1000000000;
static bool toy_deaf[RANKS], toy_loud;
static unsigned long long toy_seed, toy_state;
static uint32_t toy_full; /* one in so many posts finds the queue full */
static struct mt_datagrams datagrams[RANKS];

static uint32_t toy_random(uint32_t below)
{
    return (uint32_t)(check_random(&toy_state) >> 33) % below;
}

static void toy_must(bool right, const char *what)
{
    if (!right) {
        printf("seed %llu: %s\n", toy_seed, what);
        exit(1);
    }
}

/* ---- the device ---- */

static void toy_put(uint32_t from, uint32_t to, const void *data,
                    uint32_t bytes)
{
    toy_must(toy_flying < FLIGHT, "too many datagrams");
    struct toy_datagram *t = &toy_flight[toy_flying++];
    *t = (struct toy_datagram){.from = from, .to = to, .bytes = bytes};
    memcpy(t->data, data, bytes);
}

static void toy_heard(uint32_t from, uint32_t to, const unsigned char *head,
                      uint32_t bytes)
{
    uint32_t sequence, acknowledged;
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

static enum mt_status toy_post_send(struct mt_fabric_qp *qp,
                                    const struct mt_fabric_send *work)
{
    uint32_t from = (uint32_t)(qp - toy_qps), bytes = work->pieces[0].bytes;
    if (toy_full > 0 && toy_random(toy_full) == 0) {
        return MT_EAGAIN;
    }
    toy_must(bytes <= PACKET && qp->posted_count < RECEIVES, "a send too much");
    qp->posted[qp->posted_count++] = work->id;
    if (toy_loud) {
        toy_heard(from, work->ah->to, work->pieces[0].address, bytes);
    }
    if (!toy_deaf[work->ah->to]) {
        toy_put(from, work->ah->to, work->pieces[0].address, bytes);
    }
    return MT_OK;
}

static enum mt_status toy_post_receive(struct mt_fabric_qp *qp,
                                       const struct mt_fabric_receive *work)
{
    toy_must(qp->last - qp->first < RECEIVES, "a receive too much");
    uint32_t at = qp->last++ % RECEIVES;
    qp->receives[at] = *work;
    qp->pieces[at] = work->pieces[0];
    return MT_OK;
}

static const struct mt_fabric_ops toy_ops = {
    .post_send = toy_post_send,
    .post_receive = toy_post_receive,
};

enum mt_status mt_fabric_qp_create(struct mt_fabric_pd *pd,
                                   const struct mt_fabric_qp_options *options,
                                   struct mt_fabric_qp **qp_p)
{
    (void)pd, (void)options;
    toy_qps[toy_opening] = (struct mt_fabric_qp){.ops = &toy_ops};
    *qp_p = &toy_qps[toy_opening];
    return MT_OK;
}

enum mt_status mt_fabric_qp_destroy(struct mt_fabric_qp *qp)
{
    qp->ops = NULL;
    return MT_OK;
}

enum mt_status mt_fabric_qp_connect(struct mt_fabric_qp *qp,
                                    const struct mt_fabric_address *remote)
{
    (void)qp, (void)remote;
    return MT_OK;
}

enum mt_status mt_fabric_qp_address(const struct mt_fabric_qp *qp,
                                    struct mt_fabric_address *address_p)
{
    *address_p = (struct mt_fabric_address){.bytes = 1};
    address_p->data[0] = (uint8_t)(qp - toy_qps);
    return MT_OK;
}

enum mt_status mt_fabric_ah_create(struct mt_fabric_pd *pd,
                                   const struct mt_fabric_address *address,
                                   struct mt_fabric_ah **ah_p)
{
    (void)pd;
    toy_ahs[address->data[0]].to = address->data[0];
    *ah_p = &toy_ahs[address->data[0]];
    return MT_OK;
}

enum mt_status mt_fabric_ah_destroy(struct mt_fabric_ah *ah)
{
    (void)ah;
    return MT_OK;
}

enum mt_status mt_fabric_mr_allocate(struct mt_fabric_pd *pd, size_t bytes,
                                     uint32_t access,
                                     struct mt_fabric_mr **mr_p)
{
    (void)pd, (void)access;
    *mr_p = calloc(1, sizeof(**mr_p));
    (*mr_p)->address = calloc(1, bytes);
    return MT_OK;
}

enum mt_status mt_fabric_mr_destroy(struct mt_fabric_mr *mr)
{
    free(mr->address);
    free(mr);
    return MT_OK;
}

uint64_t mt_path_now_ns(void)
{
    return toy_now;
}

void mt_path_say(void (*tell)(void *user, const char *text), void *user,
                 const char *format, ...)
{
    (void)tell, (void)user, (void)format;
}

/* ---- messages, and the twin ---- */

struct twin {
    uint32_t sent, came;
    uint32_t bytes[1 << 16];
};

static struct twin twins[RANKS][RANKS]; /* from, to */
static uint64_t came_count;

static char content(uint32_t from, uint32_t to, uint32_t number, uint32_t i)
{
    return (char)(from * 101 + to * 31 + number * 7 + i + (i >> 8));
}

static enum mt_status came(void *user, uint32_t from, const void *bytes,
                           uint32_t count)
{
    uint32_t to = (uint32_t)((struct mt_datagrams *)user - datagrams);
    struct twin *t = &twins[from][to];
    toy_must(t->came < t->sent, "a message that nobody sent");
    uint32_t number = t->came++;
    toy_must(count == t->bytes[number], "a message of another length");
    for (uint32_t i = 0; i < count; i++) {
        toy_must(((const char *)bytes)[i] == content(from, to, number, i),
                 "another message than the next one");
    }
    came_count++;
    if (toy_loud) {
        say("%u: message %u of %u, %u bytes\n", to, number + 1, from, count);
    }
    return MT_OK;
}

/* False: not now. */
static bool send_one(uint32_t from, uint32_t to, uint32_t bytes)
{
    struct twin *t = &twins[from][to];
    void *place;
    enum mt_status status = mt_datagrams_reserve(&datagrams[from], to, &place);
    if (status != MT_OK) {
        return false;
    }
    t->bytes[t->sent] = bytes;
    for (uint32_t i = 0; i < bytes; i++) {
        ((char *)place)[i] = content(from, to, t->sent, i);
    }
    t->sent++;
    CHECK_EQ(mt_datagrams_commit(&datagrams[from], to, bytes, 0), MT_OK);
    return true;
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

static void take_out(uint32_t at, struct toy_datagram *t)
{
    *t = toy_flight[at];
    memmove(&toy_flight[at], &toy_flight[at + 1],
            (--toy_flying - at) * sizeof(*t));
}

static void complete(uint32_t rank, uint32_t at)
{
    struct mt_fabric_qp *qp = &toy_qps[rank];
    struct mt_fabric_completion c = {.id = qp->posted[at]};
    qp->posted[at] = qp->posted[--qp->posted_count];
    CHECK_EQ(mt_path_kind(c.id), MT_PATH_PACKET);
    CHECK_EQ(mt_datagrams_done(&datagrams[rank], &c), MT_OK);
}

static void arrives(const struct toy_datagram *t)
{
    struct mt_fabric_qp *qp = &toy_qps[t->to];
    uint32_t rank;
    if (qp->first == qp->last) {
        return; /* lost, as where a socket is full */
    }
    uint32_t at = qp->first++ % RECEIVES;
    memcpy((char *)qp->pieces[at].address + HEADROOM, t->data, t->bytes);
    struct mt_fabric_completion c = {.id = qp->receives[at].id,
                                     .bytes = HEADROOM + t->bytes};
    CHECK_EQ(mt_datagrams_received(&datagrams[t->to], &c, &rank), MT_OK);
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

/* Everybody does what is due. True: something is under way. */
static bool serve_all(void)
{
    bool busy = false;
    for (uint32_t p = 0; p < RANKS; p++) {
        while (toy_qps[p].posted_count > 0) {
            complete(p, 0);
        }
        for (uint32_t q = 0; q < RANKS; q++) {
            if (q == p) {
                continue;
            }
            enum mt_status status = mt_datagrams_serve(&datagrams[p], q);
            busy = busy || status == MT_EAGAIN;
            if (status == MT_EPEER) {
                mt_datagrams_end(&datagrams[p], q);
                if (toy_loud) {
                    say("%u: %u is given up\n", p, q);
                }
            }
        }
    }
    return busy;
}

static void settle(void)
{
    for (uint32_t n = 0; toy_flying > 0 || serve_all(); n++) {
        toy_must(n < STEPS, "it does not settle");
        if (toy_flying > 0) {
            struct toy_datagram t;
            take_out(0, &t);
            arrives(&t);
        } else {
            toy_now += 100000;
        }
    }
}

/* ---- beginning and end ---- */

static enum mt_status exchange(void *user, const void *mine, size_t bytes,
                               void *all)
{
    (void)user;
    for (uint32_t i = 0; i < RANKS; i++) {
        char *place = (char *)all + i * bytes;
        memcpy(place, mine, bytes);
        ((struct mt_fabric_address *)place)->data[0] = (uint8_t)i;
    }
    return MT_OK;
}

static void begin(const struct mt_datagrams_options *options)
{
    memset(twins, 0, sizeof(twins));
    memset(toy_deaf, 0, sizeof(toy_deaf));
    toy_flying = 0;
    for (uint32_t p = 0; p < RANKS; p++) {
        struct mt_datagrams_options o = *options;
        const struct mt_fabric_wireup wireup = {
            .rank = p, .size = RANKS, .exchange = exchange};
        o.user = &datagrams[p];
        toy_opening = p;
        CHECK_EQ(mt_datagrams_open(&datagrams[p], &o, &wireup), MT_OK);
    }
}

static void end(void)
{
    for (uint32_t p = 0; p < RANKS; p++) {
        const struct mt_datagrams *d = &datagrams[p];
        while (toy_qps[p].posted_count > 0) {
            complete(p, 0);
        }
        /* nothing has got lost here */
        CHECK_EQ(d->free_count, d->o.sends);
        CHECK_EQ(toy_qps[p].last - toy_qps[p].first, d->o.receives);
        CHECK_EQ(d->held_count, 0);
        mt_datagrams_close(&datagrams[p]);
    }
}

static const struct mt_datagrams_options usual = {.headroom = HEADROOM,
                                                  .packet_bytes = PACKET + 4,
                                                  .message_bytes = MESSAGE,
                                                  .sends = 64,
                                                  .receives = 64,
                                                  .window_bytes = 8192,
                                                  .came = came};

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
        while (toy_qps[r].posted_count > 0) {
            complete(r, 0);
        }
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

static void random_one(unsigned long long seed)
{
    struct mt_datagrams_options o = usual;
    toy_seed = seed;
    toy_state = seed * 2 + 1;
    o.window_bytes = toy_random(4) == 0 ? 1 : 2000 + toy_random(20000);
    o.sends = 32 + toy_random(64);
    o.receives = 2 + toy_random(64);
    o.ack_every = 1 + toy_random(20);
    toy_full = toy_random(2) == 0 ? 0 : 3 + toy_random(20);
    uint32_t loss = toy_random(2) == 0 ? 0 : toy_random(20);
    uint32_t wanted = 300 + toy_random(300), done = 0;
    bool first = toy_random(2) == 0;
    begin(&o);
    for (uint32_t p = 0; p < RANKS && first; p++) { /* across the wrap */
        for (uint32_t q = 0; q < RANKS; q++) {
            struct mt_datagrams_peer *out = &datagrams[p].peers[q];
            out->last = out->sent = out->acknowledged = out->recover =
                UINT32_MAX - 20;
            datagrams[q].peers[p].arrived = UINT32_MAX - 20;
        }
    }
    for (uint32_t n = 0; done < wanted; n++) {
        uint32_t p = toy_random(RANKS), q = toy_random(RANKS);
        toy_must(n < STEPS, "no end");
        switch (toy_random(8)) {
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
            garbage();
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

/* Bytes of a peer that lies, in every field: no memory is touched that is not
 * ours, and nothing hangs. */
static enum mt_status anything(void *user, uint32_t from, const void *bytes,
                               uint32_t count)
{
    uint32_t sum = 0;
    (void)user, (void)from;
    for (uint32_t i = 0; i < count; i++) {
        sum += ((const unsigned char *)bytes)[i];
    }
    return sum % 64 == 1 ? MT_EPEER : MT_OK;
}

static void lies(unsigned long long seed)
{
    struct mt_datagrams_options o = usual;
    struct mt_datagrams *d = &datagrams[0];
    toy_seed = seed;
    toy_state = seed * 2 + 1;
    o.came = anything;
    begin(&o);
    for (uint32_t n = 0; n < 2000; n++) {
        struct toy_datagram t = {.bytes = HEAD + toy_random(ROOM)};
        uint32_t sequence = d->peers[1].arrived + toy_random(6),
                 acknowledged = toy_random(d->peers[1].sent + 3), rank;
        uint32_t from = 1;
        t.data[0] = (char)(1 + toy_random(2));
        t.data[1] = (char)toy_random(16);
        memcpy(t.data + 4, &from, 4);
        memcpy(t.data + 8, &sequence, 4);
        memcpy(t.data + 12, &acknowledged, 4);
        struct mt_fabric_qp *qp = &toy_qps[0];
        toy_must(qp->first != qp->last, "no receive is left");
        uint32_t at = qp->first++ % RECEIVES;
        memcpy((char *)qp->pieces[at].address + HEADROOM, t.data, t.bytes);
        struct mt_fabric_completion c = {.id = qp->receives[at].id,
                                         .bytes = HEADROOM + t.bytes};
        enum mt_status status = mt_datagrams_received(d, &c, &rank);
        CHECK(status == MT_OK || rank == 1);
        if (toy_random(4) == 0) {
            void *place;
            if (mt_datagrams_reserve(d, 1, &place) == MT_OK) {
                memset(place, 0, 3);
                mt_datagrams_commit(d, 1, toy_random(3), 0);
            }
        }
        while (qp->posted_count > 0) {
            complete(0, 0);
        }
    }
    mt_datagrams_end(d, 1);
    CHECK_EQ(mt_datagrams_serve(d, 1), MT_OK);
    toy_flying = 0;
    end();
}

int main(int argc, char **argv)
{
    int failures = story_main("c/test/testdata/datagrams", command, story_end,
                              argc, argv);
    unsigned long long seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    for (unsigned long long i = 1; i <= (seeds > 0 ? seeds : 100); i++) {
        random_one(i);
        lies(i);
    }
    toy_must(came_count > 0, "nothing came");
    return failures != 0 || check_failures != 0;
}
