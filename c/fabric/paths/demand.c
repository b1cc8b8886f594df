/* demand.c: see demand.h. Nothing that was heard is trusted. */
#include "demand.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MT_RETRY_MS = 20, MT_TRIES = 100 };

/* What travels, in the byte order of the hosts. */
struct mt_hello {
    char magic[8];
    uint32_t version;
    uint32_t from, to;
    uint32_t asks; /* 1: the sender waits for an acknowledgement */
    uint64_t life; /* of the sender's queue pair */
    uint64_t heard; /* life of the receiver's that it is connected to, 0: none */
    struct mt_fabric_address address;
};

static const char mt_magic[8] = "mtdemand";

struct mt_demand_peer {
    struct mt_fabric_qp *qp; /* NULL: none */
    uint64_t life;           /* of it */
    uint64_t theirs;         /* life that it is connected to, 0: not yet */
    uint64_t over;           /* lives up to this one of the peer are over */
    bool acknowledged;       /* the peer is connected to this life */
    bool wanted;             /* hellos are repeated until it is */
    uint32_t tries;
    uint64_t due_ns;   /* of the next hello, */
    uint32_t pause_ms; /* and of the one behind it */
    enum mt_status failed;
};

enum mt_status mt_demand_open(struct mt_demand *d,
                              const struct mt_demand_options *options)
{
    *d = (struct mt_demand){.o = *options};
    if (options->rank >= options->size || options->carry == NULL) {
        return MT_EINVAL;
    }
    d->o.rc.transport = MT_FABRIC_RC;
    d->o.retry_ms = options->retry_ms > 0 ? options->retry_ms : MT_RETRY_MS;
    d->o.tries = options->tries > 0 ? options->tries : MT_TRIES;
    d->last_life = mt_path_now_ns(); /* beyond those of a process before */
    d->peers = calloc(options->size, sizeof(*d->peers));
    return d->peers != NULL ? MT_OK : MT_ENOMEM;
}

static void mt_unwant(struct mt_demand *d, struct mt_demand_peer *p)
{
    d->wanted -= p->wanted;
    p->wanted = false;
}

static enum mt_status mt_give_up(struct mt_demand *d, struct mt_demand_peer *p,
                                 enum mt_status status)
{
    mt_unwant(d, p);
    d->counts.failed++;
    p->failed = status;
    return status;
}

/* Our queue pair for a peer, in INIT. */
static enum mt_status mt_make(struct mt_demand *d, uint32_t peer)
{
    struct mt_demand_peer *p = &d->peers[peer];
    enum mt_status status = MT_OK;
    if (p->qp != NULL) {
        return MT_OK;
    }
    status = mt_fabric_qp_create(d->o.pd, &d->o.rc, &p->qp);
    if (status != MT_OK) {
        p->qp = NULL;
        return status;
    }
    if (d->o.prepare != NULL) {
        status = d->o.prepare(d->o.user, peer, p->qp);
    }
    if (status != MT_OK) {
        mt_fabric_qp_destroy(p->qp);
        p->qp = NULL;
        return status;
    }
    p->life = ++d->last_life;
    return MT_OK;
}

static enum mt_status mt_tell(struct mt_demand *d, uint32_t peer)
{
    const struct mt_demand_peer *p = &d->peers[peer];
    struct mt_hello hello;
    memset(&hello, 0, sizeof(hello));
    memcpy(hello.magic, mt_magic, sizeof(mt_magic));
    hello.version = MT_DEMAND_VERSION;
    hello.from = d->o.rank;
    hello.to = peer;
    hello.asks = !p->acknowledged;
    hello.life = p->life;
    hello.heard = p->theirs;
    enum mt_status status = mt_fabric_qp_address(p->qp, &hello.address);
    return status == MT_OK
               ? d->o.carry(d->o.user, peer, &hello, sizeof(hello))
               : status;
}

/* A hello is due: the first one, or again. */
static enum mt_status mt_ask(struct mt_demand *d, uint32_t peer, uint64_t now)
{
    struct mt_demand_peer *p = &d->peers[peer];
    enum mt_status status = MT_EAGAIN;
    if (p->tries == d->o.tries) {
        mt_path_say(d->o.say, d->o.say_user,
                    "rank %u did not answer %u requests for a connection", peer,
                    p->tries);
        return mt_give_up(d, p, MT_ETIMEOUT);
    }
    status = mt_tell(d, peer);
    if (status != MT_OK && status != MT_EAGAIN) {
        return mt_give_up(d, p, status);
    }
    p->due_ns = now + d->o.retry_ms * UINT64_C(1000000);
    if (status == MT_OK) {
        *(p->tries == 0 ? &d->counts.hellos : &d->counts.repeated) += 1;
        p->due_ns = now + p->pause_ms * UINT64_C(1000000);
        p->pause_ms = 2 * p->pause_ms <= d->o.retry_most_ms ? 2 * p->pause_ms
                                                            : p->pause_ms;
    }
    p->tries++;
    return MT_EAGAIN;
}

enum mt_status mt_demand_qp(struct mt_demand *d, uint32_t peer,
                            struct mt_fabric_qp **qp_p)
{
    if (peer >= d->o.size || peer == d->o.rank) {
        return MT_EINVAL;
    }
    struct mt_demand_peer *p = &d->peers[peer];
    if (p->failed != MT_OK) {
        return p->failed;
    }
    if (mt_likely(p->acknowledged && p->theirs != 0)) {
        *qp_p = p->qp;
        return MT_OK;
    }
    if (p->wanted) {
        return MT_EAGAIN;
    }
    enum mt_status status = mt_make(d, peer);
    if (status != MT_OK) {
        return status;
    }
    p->wanted = true;
    p->tries = 0;
    p->pause_ms = d->o.retry_ms;
    d->wanted++;
    d->next_ns = 0;
    return mt_ask(d, peer, mt_path_now_ns());
}

void mt_demand_progress(struct mt_demand *d)
{
    uint64_t now = d->wanted > 0 ? mt_path_now_ns() : 0;
    if (mt_likely(d->wanted == 0) || now < d->next_ns) {
        return;
    }
    d->next_ns = now + d->o.retry_ms * UINT64_C(1000000);
    for (uint32_t i = 0; i < d->o.size; i++) {
        struct mt_demand_peer *p = &d->peers[i];
        if (p->wanted && now >= p->due_ns) {
            mt_ask(d, i, now);
        }
        if (p->wanted && p->due_ns < d->next_ns) {
            d->next_ns = p->due_ns;
        }
    }
}

/* Takes a hello apart. The first fields are the same in all versions. */
static bool mt_hello_read(struct mt_demand *d, const void *bytes,
                          uint32_t count, struct mt_hello *hello)
{
    memset(hello, 0, sizeof(*hello));
    memcpy(hello, bytes, count < sizeof(*hello) ? count : sizeof(*hello));
    bool sound = count >= offsetof(struct mt_hello, asks) &&
                 memcmp(hello->magic, mt_magic, sizeof(mt_magic)) == 0 &&
                 hello->from < d->o.size && hello->from != d->o.rank &&
                 hello->to == d->o.rank;
    if (sound && hello->version != MT_DEMAND_VERSION) {
        struct mt_demand_peer *p = &d->peers[hello->from];
        if (p->failed == MT_OK) {
            mt_path_say(d->o.say, d->o.say_user,
                        "rank %u speaks version %u of connecting, this one %d",
                        hello->from, hello->version, MT_DEMAND_VERSION);
            mt_give_up(d, p, MT_EVERSION);
        }
        return false;
    }
    sound = sound && count == sizeof(*hello) && hello->asks <= 1 &&
            hello->life != 0 && hello->address.bytes <= MT_FABRIC_ADDRESS_BYTES;
    d->counts.malformed += !sound;
    return sound;
}

/* The peer has a queue pair for ours to be connected to. */
static enum mt_status mt_meet(struct mt_demand *d, const struct mt_hello *hello)
{
    struct mt_demand_peer *p = &d->peers[hello->from];
    enum mt_status status = mt_make(d, hello->from);
    if (status == MT_OK) {
        status = mt_fabric_qp_connect(p->qp, &hello->address);
    }
    if (status == MT_OK) {
        p->theirs = hello->life;
    }
    return status;
}

void mt_demand_heard(struct mt_demand *d, const void *bytes, uint32_t count)
{
    struct mt_hello hello;
    if (!mt_hello_read(d, bytes, count, &hello)) {
        return;
    }
    struct mt_demand_peer *p = &d->peers[hello.from];
    if (hello.life <= p->over || hello.life < p->theirs) {
        d->counts.stale++;
        return;
    }
    if (p->failed != MT_OK) {
        return; /* until it is dropped */
    }
    if (p->theirs != 0 && hello.life > p->theirs) {
        mt_give_up(d, p, MT_EPEER); /* that one is over */
        return;
    }
    bool ours = p->qp != NULL && hello.heard == p->life;
    /* one that is connected to an earlier life of ours has to learn of this one */
    if (p->theirs == 0 && (hello.heard == 0 || ours)) {
        d->counts.crossed += p->wanted && hello.heard == 0;
        enum mt_status status = mt_meet(d, &hello);
        if (status == MT_ENOMEM || status == MT_EAGAIN) {
            return; /* it asks again */
        }
        if (status != MT_OK) {
            mt_path_say(d->o.say, d->o.say_user,
                        "connecting to rank %u: %s", hello.from,
                        mt_status_text(status));
            mt_give_up(d, p, status);
            return;
        }
    }
    if (ours && !p->acknowledged) {
        p->acknowledged = true;
        mt_unwant(d, p);
    }
    if (hello.asks != 0 && p->qp != NULL) {
        mt_tell(d, hello.from); /* lost, it is asked for again */
    }
}

uint64_t mt_demand_life(struct mt_demand *d, const void *bytes, uint32_t count)
{
    struct mt_hello hello;
    return mt_hello_read(d, bytes, count, &hello) ? hello.life : 0;
}

void mt_demand_refused(struct mt_demand *d, uint32_t peer, uint64_t life)
{
    struct mt_demand_peer *p = &d->peers[peer];
    p->over = life > p->over ? life : p->over;
}

bool mt_demand_asks(const struct mt_demand *d, uint32_t peer, uint64_t life)
{
    const struct mt_demand_peer *p = &d->peers[peer];
    return p->qp != NULL && p->theirs == 0 && p->life == life;
}

void mt_demand_drop(struct mt_demand *d, uint32_t peer)
{
    struct mt_demand_peer *p = &d->peers[peer];
    uint64_t over = p->theirs > p->over ? p->theirs : p->over;
    mt_unwant(d, p);
    if (p->qp != NULL) {
        mt_fabric_qp_destroy(p->qp);
    }
    *p = (struct mt_demand_peer){.over = over};
}

void mt_demand_close(struct mt_demand *d)
{
    for (uint32_t i = 0; d->peers != NULL && i < d->o.size; i++) {
        mt_demand_drop(d, i);
    }
    free(d->peers);
    d->peers = NULL;
}
