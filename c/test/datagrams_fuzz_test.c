/* sources: c/fabric/paths/datagrams.c */
/* Packets of a hostile rank, and what it says of itself when queue pairs are made
 * (paths/datagrams.h): LLVMFuzzerTestOneInput takes any input, main feeds it many
 * that are nearly right. The first byte chooses. Nothing may crash; what is no
 * packet of ours is counted and changes nothing; a message that comes of the others
 * is one that they make in the order of their sequence, each packet once; and the
 * streams between the ranks that are not hostile go on. */
#include "datagrams_world.h"

enum {
    US, /* what is sent here is looked at */
    FRIEND,
    FOE,
    MOST = 1 << 15, /* bytes of an input */
    PACKETS = 256,  /* of the foe in an input, at most */
    RECORD = 3,     /* in front of a packet: what happens, length */
    CHANGE = 3,     /* of a hello: place, what is put there */
};

/* Of the first byte. */
enum {
    IS_PACKETS = 7, /* or hellos */
    IS_LATE = 8,    /* sequences begin again at 0 soon */
    HAS_FEW = 16,   /* receives */
};

/* What happens between two packets of the foe. */
enum {
    FOE_GETS = 1, /* a message of ours */
    FRIEND_SENDS = 2,
    TIME_PASSES = 4, /* and what is due is done */
    SENDS_COMPLETE = 8,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void toy_heard(uint32_t from, uint32_t to, const unsigned char *packet,
                      uint32_t bytes)
{
    (void)from, (void)to, (void)packet, (void)bytes;
}

static void toy_given_up(uint32_t rank, uint32_t peer)
{
    (void)rank, (void)peer;
    toy_must(false, "a rank that answers is given up");
}

/* ---- the twin of the foe's stream ---- */

/* Packets that came of it and may be ours. */
static struct foe_packet {
    uint32_t sequence, bytes;
    bool first, last;
    char payload[ROOM];
} foe_packets[PACKETS];
static uint32_t foe_count;
static uint32_t foe_boundary; /* sequence of the last packet of a message */
static uint64_t foe_messages, foe_ends, foe_held, foe_malformed; /* of all inputs */

/* Whether packets of this sequence and later ones make these bytes. */
static bool foe_makes(uint32_t sequence, uint32_t last, const char *bytes,
                      uint32_t count)
{
    for (uint32_t i = 0; i < foe_count; i++) {
        const struct foe_packet *p = &foe_packets[i];
        if (p->sequence == sequence && p->bytes <= count &&
            p->first == (sequence == foe_boundary + 1) &&
            p->last == (sequence == last) &&
            memcmp(p->payload, bytes, p->bytes) == 0 &&
            (sequence == last
                 ? p->bytes == count
                 : foe_makes(sequence + 1, last, bytes + p->bytes,
                             count - p->bytes))) {
            return true;
        }
    }
    return false;
}

static enum mt_status came(void *user, uint32_t from, const void *bytes,
                           uint32_t count)
{
    uint32_t to = (uint32_t)((struct mt_datagrams *)user - datagrams);
    if (from != FOE) {
        twin_came(from, to, bytes, count);
        return MT_OK;
    }
    uint32_t last = datagrams[US].peers[FOE].arrived;
    toy_must(to == US && count <= MESSAGE &&
                 foe_makes(foe_boundary + 1, last, bytes, count),
             "a message that nobody sent");
    foe_boundary = last;
    foe_messages++;
    /* now and then what uses it finds that it makes no sense */
    return count > 0 && *(const unsigned char *)bytes == 255 ? MT_EPEER
                                                              : MT_OK;
}

/* ---- packets ---- */

/* As datagrams.c lays it out. */
struct header {
    uint8_t kind, flags;
    uint16_t zero;
    uint32_t from, sequence, acknowledged;
    uint64_t key;
};

enum { DATA = 1, ACK = 2, FIRST = 1, LAST = 2, ASKS = 4, GAP = 8 };

static bool may_be_ours(const struct toy_datagram *t)
{
    struct header h;
    memcpy(&h, t->data, sizeof(h));
    if (t->bytes < sizeof(h) || h.zero != 0 || h.key != datagrams[US].key ||
        (h.from != FRIEND && h.from != FOE)) {
        return false;
    }
    return h.kind == DATA ? h.flags <= (FIRST | LAST | ASKS)
                          : h.kind == ACK && (h.flags == 0 || h.flags == GAP) &&
                                h.sequence == 0 && t->bytes == sizeof(h);
}

/* Its numbers and its key are distances from those that are right, and it does not
 * speak for the friend, whose packets nothing would tell from these. */
static void aim(struct toy_datagram *t)
{
    const struct mt_datagrams_peer *p = &datagrams[US].peers[FOE];
    struct header h;
    memcpy(&h, t->data, sizeof(h));
    h.sequence += h.kind == DATA ? p->arrived + 1 : 0;
    h.acknowledged += p->acknowledged;
    h.key += datagrams[US].key;
    memcpy(t->data, &h, sizeof(h));
    if (may_be_ours(t)) {
        h.from = FOE;
        memcpy(t->data, &h, sizeof(h));
    }
}

static void note(const struct toy_datagram *t)
{
    struct foe_packet *p = &foe_packets[foe_count++];
    struct header h;
    memcpy(&h, t->data, sizeof(h));
    *p = (struct foe_packet){.sequence = h.sequence,
                             .bytes = t->bytes - HEAD,
                             .first = (h.flags & FIRST) != 0,
                             .last = (h.flags & LAST) != 0};
    memcpy(p->payload, t->data + HEAD, p->bytes);
}

/* How many sequences of them are still to come in their turn. */
static uint32_t foe_early(void)
{
    uint32_t arrived = datagrams[US].peers[FOE].arrived, early = 0;
    for (uint32_t i = 0; i < foe_count; i++) {
        uint32_t k = 0;
        while (foe_packets[k].sequence != foe_packets[i].sequence) {
            k++;
        }
        early += k == i && (int32_t)(foe_packets[i].sequence - arrived) > 0;
    }
    return early;
}

/* What holds between any two packets. */
static void consistent(void)
{
    const struct mt_datagrams *d = &datagrams[US];
    const struct mt_datagrams_peer *foe = &d->peers[FOE];
    uint32_t slots = d->free_count;
    for (uint32_t i = 0; i < RANKS; i++) {
        slots += d->peers[i].slots;
    }
    CHECK_EQ(slots, d->o.sends);
    CHECK_EQ(toy_qps[US].last - toy_qps[US].first + d->held_count,
             d->o.receives);
    CHECK(d->held_count <= d->o.receives / 2);
    CHECK(d->held_count <= foe_early());
    CHECK(foe->flying <= foe->queued);
    CHECK(foe->whole_bytes <= MESSAGE);
    CHECK(foe->ended || (foe->whole != NULL) == (foe->arrived != foe_boundary));
}

static void packet(struct toy_datagram *t)
{
    struct mt_datagrams *d = &datagrams[US];
    struct mt_datagrams_peer before[RANKS];
    const struct mt_datagrams_counts counts = d->counts;
    uint64_t messages = foe_messages;
    uint32_t rank;
    aim(t);
    bool ours = may_be_ours(t), ended = d->peers[FOE].ended;
    if (ours && t->data[0] == DATA) {
        note(t);
    }
    memcpy(before, d->peers, sizeof(before));
    enum mt_status status = take_in(t, &rank);
    CHECK_EQ(d->counts.malformed, counts.malformed + !ours);
    CHECK_EQ(rank, ours && !ended ? FOE : UINT32_MAX);
    if (!ours || ended) {
        CHECK_EQ(status, MT_OK);
        CHECK_EQ(foe_messages, messages);
        CHECK(memcmp(before, d->peers, sizeof(before)) == 0);
    } else {
        CHECK(memcmp(&before[FRIEND], &d->peers[FRIEND], sizeof(before[0])) ==
              0);
    }
    foe_malformed += !ours;
    foe_held += d->held_count;
    if (status != MT_OK) {
        mt_datagrams_end(d, FOE);
        foe_ends++;
    }
    consistent();
}

/* Between two packets of the foe. */
static void others(uint8_t what)
{
    void *place;
    if ((what & FOE_GETS) != 0 &&
        mt_datagrams_reserve(&datagrams[US], FOE, &place) == MT_OK) {
        memset(place, 0, 1500);
        CHECK_EQ(mt_datagrams_commit(&datagrams[US], FOE, 1500, 0), MT_OK);
    }
    if ((what & FRIEND_SENDS) != 0) {
        send_one(FRIEND, US, 10u * what);
    }
    while (toy_flying > 0) {
        struct toy_datagram t;
        take_out(0, &t);
        arrives(&t);
    }
    if ((what & SENDS_COMPLETE) != 0) {
        complete_all(US);
    }
    if ((what & TIME_PASSES) != 0) {
        toy_now += 1000000;
        mt_datagrams_serve(&datagrams[US], FRIEND);
        if (mt_datagrams_serve(&datagrams[US], FOE) == MT_EPEER) {
            mt_datagrams_end(&datagrams[US], FOE);
        }
        complete_all(FRIEND);
    }
}

static void goes_on(void)
{
    static const uint32_t sizes[] = {0, 1, ROOM, MESSAGE};
    settle();
    for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint32_t from = i % 2 == 0 ? US : FRIEND;
        CHECK(send_one(from, from == US ? FRIEND : US, sizes[i / 2]));
        settle();
    }
    CHECK_EQ(twins[US][FRIEND].came, twins[US][FRIEND].sent);
    CHECK_EQ(twins[FRIEND][US].came, twins[FRIEND][US].sent);
}

/* Each packet behind what else happens, and its length. */
static void feed_packets(uint8_t flags, const uint8_t *data, size_t size)
{
    struct mt_datagrams_options o = usual;
    o.came = came;
    o.receives = (flags & HAS_FEW) != 0 ? 6 : o.receives;
    begin(&o);
    toy_deaf[FOE] = true; /* what it would hear it knows from nowhere else */
    if ((flags & IS_LATE) != 0) {
        begin_before_wrap();
    }
    foe_boundary = datagrams[US].peers[FOE].arrived;
    foe_count = 0;
    while (size >= RECORD && foe_count < PACKETS) {
        struct toy_datagram t = {.from = FOE, .to = US};
        uint32_t bytes = data[1] + 256u * data[2];
        size_t left = size - RECORD;
        t.bytes = bytes % (PACKET + 1);
        t.bytes = t.bytes < left ? t.bytes : (uint32_t)left;
        memcpy(t.data, data + RECORD, t.bytes);
        others(data[0]);
        packet(&t);
        data += RECORD + t.bytes;
        size -= RECORD + t.bytes;
    }
    mt_datagrams_end(&datagrams[US], FOE);
    goes_on();
    end();
}

/* ---- hellos ---- */

/* As datagrams.c lays it out. */
struct hello {
    struct mt_fabric_address address;
    uint32_t packet_bytes;
    uint64_t key;
};

struct changes {
    const uint8_t *data;
    size_t size;
    bool absent; /* somebody has no address: it could not make its part */
};

/* What the others say, with the input over it. */
static enum mt_status exchange_changed(void *user, const void *mine,
                                       size_t bytes, void *all)
{
    struct changes *c = user;
    CHECK_EQ(bytes, sizeof(struct hello));
    exchange(NULL, mine, bytes, all);
    for (size_t i = 0; i + CHANGE <= c->size; i += CHANGE) {
        size_t at = (c->data[i] | (size_t)c->data[i + 1] << 8) %
                    ((RANKS - 1) * bytes);
        ((uint8_t *)all)[bytes + at] = c->data[i + 2];
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct hello *h = all;
        c->absent = c->absent || h[i].address.bytes == 0;
    }
    return MT_OK;
}

static void feed_hellos(const uint8_t *data, size_t size)
{
    struct mt_datagrams_options o = usual;
    struct changes c = {data, size, false};
    void *place;
    toy_flying = 0;
    toy_deaf[FOE] = false;
    o.came = came;
    enum mt_status status = open_rank(US, &o, exchange_changed, &c);
    CHECK((status == MT_EPEER) == c.absent);
    if (status != MT_OK) {
        CHECK(datagrams[US].peers == NULL);
        return;
    }
    /* the least of all is taken, and what it allows fits */
    struct mt_datagrams *d = &datagrams[US];
    CHECK(d->o.packet_bytes > HEAD && d->o.packet_bytes <= PACKET);
    CHECK_EQ(mt_datagrams_reserve(d, FRIEND, &place), MT_OK);
    memset(place, 1, MESSAGE);
    CHECK_EQ(mt_datagrams_commit(d, FRIEND, MESSAGE, 0), MT_OK);
    CHECK(toy_flying > 0);
    while (toy_flying > 0) {
        struct toy_datagram t;
        take_out(0, &t);
        CHECK(t.bytes > HEAD && t.bytes <= d->o.packet_bytes);
    }
    mt_datagrams_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 1 && (data[0] & IS_PACKETS) != 0) {
        feed_packets(data[0], data + 1, size - 1);
    } else if (size >= 1) {
        feed_hellos(data + 1, size - 1);
    }
    return 0;
}

/* ---- inputs that begin as right ones ---- */

/* A packet that goes on with what the ones before it began. */
static uint32_t draw_packet(uint8_t *at, bool *open, bool is_long)
{
    struct header h = {.kind = toy_random(6) == 0 ? ACK : DATA, .from = FOE};
    bool last = toy_random(is_long ? 30 : 3) > (is_long ? 28 : 0);
    uint32_t bytes = HEAD;
    if (h.kind == ACK) {
        h.flags = toy_random(2) == 0 ? GAP : 0;
        h.acknowledged = toy_random(4);
    } else {
        h.flags = (uint8_t)((*open ? 0 : FIRST) | (last ? LAST : 0) |
                            (toy_random(4) == 0 ? ASKS : 0));
        /* mostly the next one, or one of those soon after and before it */
        h.sequence = toy_random(3) > 0 ? 0 : toy_random(40) - 4;
        bytes += is_long || toy_random(4) == 0 ? ROOM : toy_random(60);
        *open = h.sequence == 0 ? !last : *open;
    }
    memcpy(at, &h, sizeof(h));
    for (uint32_t i = HEAD; i < bytes; i++) {
        at[i] = (uint8_t)toy_random(255);
    }
    if (toy_random(100) == 0 && bytes > HEAD) {
        at[HEAD] = 255;
    }
    if (toy_random(8) == 0) {
        at[toy_random(toy_random(8) == 0 ? bytes : HEAD)] ^=
            (uint8_t)(1 << toy_random(8));
        bytes = toy_random(4) == 0 ? toy_random(bytes) : bytes;
    }
    return bytes;
}

static size_t draw_packets(uint8_t *at)
{
    size_t n = 0;
    bool open = false, is_long = toy_random(4) == 0;
    for (uint32_t k = 1 + toy_random(60); k > 0 && n + RECORD + PACKET < MOST;
         k--) {
        uint32_t bytes = draw_packet(at + n + RECORD, &open, is_long);
        at[n] = (uint8_t)toy_random(16);
        at[n + 1] = (uint8_t)bytes;
        at[n + 2] = (uint8_t)(bytes >> 8);
        n += RECORD + bytes;
    }
    return n;
}

static size_t draw_change(uint8_t *at, size_t place, uint32_t value)
{
    place += toy_random(2) * sizeof(struct hello);
    at[0] = (uint8_t)place;
    at[1] = (uint8_t)(place >> 8);
    at[2] = (uint8_t)value;
    return CHANGE;
}

static size_t draw_hellos(uint8_t *at)
{
    const size_t size = offsetof(struct hello, packet_bytes);
    size_t n = 0;
    for (uint32_t k = toy_random(3); k > 0; k--) { /* small ones, mostly */
        n += draw_change(at + n, size, toy_random(toy_random(2) == 0 ? 256 : 32));
        n += draw_change(at + n, size + 1, toy_random(4));
    }
    if (toy_random(4) == 0) {
        n += draw_change(at + n, /* length of the address, or its first byte */
                         toy_random(2) * offsetof(struct mt_fabric_address, data),
                         toy_random(4));
    }
    return n;
}

static size_t draw_any(uint8_t *at)
{
    size_t n = toy_random(200);
    for (size_t i = 0; i < n; i++) {
        at[i] = (uint8_t)toy_random(toy_random(2) == 0 ? 256 : 4);
    }
    return n;
}

int main(int argc, char **argv)
{
    static uint8_t input[MOST + 1];
#if defined(__SANITIZE_THREAD__)
    uint64_t inputs = 1000; /* one thread: nothing new to find */
#else
    uint64_t inputs = 10000;
#endif
    inputs = argc > 1 ? strtoull(argv[1], NULL, 10) : inputs;
    toy_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    toy_state = toy_seed * 2 + 1;
    for (uint64_t i = 0; i < inputs && check_failures == 0; i++) {
        input[0] = (uint8_t)toy_random(256);
        size_t n = toy_random(8) == 0              ? draw_any(input + 1)
                   : (input[0] & IS_PACKETS) != 0 ? draw_packets(input + 1)
                                                  : draw_hellos(input + 1);
        LLVMFuzzerTestOneInput(input, n + 1);
    }
    CHECK(inputs < 1000 || (foe_messages > 0 && foe_ends > 0 && foe_held > 0 &&
                            foe_malformed > 0));
    return check_failures != 0;
}
