/* datagrams_world.h: ranks of paths/datagrams.h in one process, and a toy network
 * between them with a clock of its own: nothing moves, and no time passes, but when
 * the test says so. Beside each stream of messages is a twin, which is a list of
 * what was sent. A received packet ends where its memory ends, as far as a
 * sanitizer sees.
 *
 * toy_heard is told of each packet as it is posted, toy_given_up of each peer that
 * does not answer. */
#ifndef MPITRACE_TEST_DATAGRAMS_WORLD_H
#define MPITRACE_TEST_DATAGRAMS_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "../fabric/paths/datagrams.h"
#include "check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address))
#endif

enum {
    RANKS = 3,
    ROOM = 1000, /* payload of a packet */
    HEAD = MT_DATAGRAMS_HEAD,
    KEY = HEAD - 8, /* where it lies in a packet */
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
    struct toy_datagram late; /* where the device has stopped */
    uint64_t late_id;
    bool stopped;
};

struct mt_fabric_ah {
    uint32_t to;
};

static struct mt_fabric_qp toy_qps[RANKS];
static struct mt_fabric_ah toy_ahs[RANKS];
static struct toy_datagram toy_flight[FLIGHT];
static uint32_t toy_flying, toy_opening;
static uint64_t toy_now = 1000000000;
static bool toy_deaf[RANKS]; /* whatever is sent there is lost */
static bool toy_barred[RANKS]; /* nothing can be posted that goes there */
static uint32_t toy_sayings;
static bool toy_stops[RANKS]; /* its device stops at the next packet of data, until
                               * something is posted behind that */
static unsigned long long toy_seed, toy_state;
static uint32_t toy_full; /* one in so many posts finds the queue full */
static struct mt_datagrams datagrams[RANKS];

static void toy_heard(uint32_t from, uint32_t to, const unsigned char *packet,
                      uint32_t bytes);
static void toy_given_up(uint32_t rank, uint32_t peer);

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

static void toy_sent(struct mt_fabric_qp *qp, uint64_t id,
                     const struct toy_datagram *t)
{
    qp->posted[qp->posted_count++] = id;
    toy_heard(t->from, t->to, (const unsigned char *)t->data, t->bytes);
    if (!toy_deaf[t->to]) {
        toy_put(t->from, t->to, t->data, t->bytes);
    }
}

static enum mt_status toy_post_send(struct mt_fabric_qp *qp,
                                    const struct mt_fabric_send *work)
{
    uint32_t from = (uint32_t)(qp - toy_qps), bytes = work->pieces[0].bytes;
    if (toy_full > 0 && toy_random(toy_full) == 0) {
        return MT_EAGAIN;
    }
    if (toy_barred[work->ah->to]) {
        return MT_EINVAL;
    }
    toy_must(bytes <= PACKET && qp->posted_count + 1 < RECEIVES,
             "a send too much");
    struct toy_datagram t = {.from = from, .to = work->ah->to, .bytes = bytes};
    memcpy(t.data, work->pieces[0].address, bytes);
    if (qp->stopped) {
        qp->stopped = false;
        toy_sent(qp, qp->late_id, &qp->late);
    } else if (toy_stops[from] && t.data[0] == 1) {
        toy_stops[from] = false;
        qp->stopped = true;
        qp->late = t;
        qp->late_id = work->id;
        return MT_OK;
    }
    toy_sent(qp, work->id, &t);
    return MT_OK;
}

static enum mt_status toy_post_receive(struct mt_fabric_qp *qp,
                                       const struct mt_fabric_receive *work)
{
    toy_must(qp->last - qp->first < RECEIVES, "a receive too much");
    uint32_t at = qp->last++ % RECEIVES;
    qp->receives[at] = *work;
    qp->pieces[at] = work->pieces[0];
    ASAN_UNPOISON_MEMORY_REGION(qp->pieces[at].address, qp->pieces[at].bytes);
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

/* One byte: the rank. */
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
    if (address->bytes != 1 || address->data[0] >= RANKS) {
        return MT_EINVAL;
    }
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
    toy_sayings++;
}

/* ---- messages, and the twin ---- */

struct twin {
    uint32_t sent, came;
    uint32_t bytes[1 << 16];
};

static struct twin twins[RANKS][RANKS]; /* from, to */

static char content(uint32_t from, uint32_t to, uint32_t number, uint32_t i)
{
    return (char)(from * 101 + to * 31 + number * 7 + i + (i >> 8));
}

/* The next message of that twin, or the test ends. */
static void twin_came(uint32_t from, uint32_t to, const void *bytes,
                      uint32_t count)
{
    struct twin *t = &twins[from][to];
    toy_must(t->came < t->sent, "a message that nobody sent");
    uint32_t number = t->came++;
    toy_must(count == t->bytes[number], "a message of another length");
    for (uint32_t i = 0; i < count; i++) {
        toy_must(((const char *)bytes)[i] == content(from, to, number, i),
                 "another message than the next one");
    }
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

static void complete_all(uint32_t rank)
{
    while (toy_qps[rank].posted_count > 0) {
        complete(rank, 0);
    }
}

/* MT_OK, too, if no receive is posted: then it is lost, as where a socket is
 * full. */
static enum mt_status take_in(const struct toy_datagram *t, uint32_t *rank_p)
{
    struct mt_fabric_qp *qp = &toy_qps[t->to];
    *rank_p = UINT32_MAX;
    if (qp->first == qp->last) {
        return MT_OK;
    }
    uint32_t at = qp->first++ % RECEIVES;
    char *place = (char *)qp->pieces[at].address + HEADROOM;
    memcpy(place, t->data, t->bytes);
    ASAN_POISON_MEMORY_REGION(place + t->bytes,
                              qp->pieces[at].bytes - HEADROOM - t->bytes);
    struct mt_fabric_completion c = {.id = qp->receives[at].id,
                                     .bytes = HEADROOM + t->bytes};
    return mt_datagrams_received(&datagrams[t->to], &c, rank_p);
}

static void arrives(const struct toy_datagram *t)
{
    uint32_t rank;
    CHECK_EQ(take_in(t, &rank), MT_OK);
}

/* Everybody does what is due. True: something is under way. */
static bool serve_all(void)
{
    bool busy = false;
    for (uint32_t p = 0; p < RANKS; p++) {
        complete_all(p);
        for (uint32_t q = 0; q < RANKS; q++) {
            if (q == p) {
                continue;
            }
            enum mt_status status = mt_datagrams_serve(&datagrams[p], q);
            busy = busy || status == MT_EAGAIN;
            if (status == MT_EPEER) {
                mt_datagrams_end(&datagrams[p], q);
                toy_given_up(p, q);
            }
        }
    }
    return busy;
}

/* Everything, until nothing is under way. */
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

static enum mt_status
open_rank(uint32_t rank, const struct mt_datagrams_options *options,
          enum mt_status (*with)(void *, const void *, size_t, void *),
          void *user)
{
    struct mt_datagrams_options o = *options;
    const struct mt_fabric_wireup wireup = {
        .rank = rank, .size = RANKS, .exchange = with, .user = user};
    o.user = &datagrams[rank];
    toy_opening = rank;
    return mt_datagrams_open(&datagrams[rank], &o, &wireup);
}

static void begin(const struct mt_datagrams_options *options)
{
    for (uint32_t i = 0; i < RANKS * RANKS; i++) {
        twins[i / RANKS][i % RANKS].sent = twins[i / RANKS][i % RANKS].came = 0;
    }
    memset(toy_deaf, 0, sizeof(toy_deaf));
    memset(toy_stops, 0, sizeof(toy_stops));
    toy_flying = 0;
    memset(toy_barred, 0, sizeof(toy_barred));
    for (uint32_t p = 0; p < RANKS; p++) {
        CHECK_EQ(open_rank(p, options, exchange, NULL), MT_OK);
    }
    /* in the exchange each heard only itself */
    for (uint32_t i = 0; i < RANKS * RANKS; i++) {
        datagrams[i / RANKS].peers[i % RANKS].key = datagrams[i % RANKS].key;
    }
}

/* Everybody has sent so much already that sequences begin again at 0 soon. */
static inline void begin_before_wrap(void)
{
    for (uint32_t i = 0; i < RANKS * RANKS; i++) {
        struct mt_datagrams_peer *out =
            &datagrams[i / RANKS].peers[i % RANKS];
        out->last = out->sent = out->acknowledged = out->recover =
            out->arrived = UINT32_MAX - 20;
    }
}

static void end(void)
{
    for (uint32_t p = 0; p < RANKS; p++) {
        const struct mt_datagrams *d = &datagrams[p];
        complete_all(p);
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
                                                  .window_bytes = 8192};

#endif
