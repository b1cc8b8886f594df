/* eager.c: short messages straight from the program's memory: one work request
 * whose list has the header, copied as ever, and the payload where it lies, by
 * SEND or into the ring of the peer (Rashti and Afsahi, 2009; Rashti, 2010,
 * 5.3.2). The receiver cannot tell. Its request is done when that work request
 * is: until then the device may read the memory.
 *
 * Whether it pays is said by reuse.c, for whom the costs are measured here, where
 * they arise: now and then the clock is read. Where the policy leaves it open, what
 * that says is tried against copying (choice.h). Where whoever posts carries the
 * work out, nobody else could read the memory meanwhile, and all is copied. */
#include "inside.h"

#include <stdlib.h>

enum {
    MT_EAGER_CLOCKS = 33,
    MT_EAGER_LOOKS = 64, /* one look-up in so many is timed, */
    MT_EAGER_GAP_NS = 5000, /* of more between two looks somebody computes */
};

/* ---- time ---- */

/* Since then. */
static uint64_t mt_took(const struct mt_eager *e, uint64_t begin_ns)
{
    uint64_t ns = mt_engine_now_ns() - begin_ns;
    return ns > e->clock_ns ? ns - e->clock_ns : 0;
}

/* Now, if this look-up is to be timed; else 0. */
static uint64_t mt_due(uint32_t *looks, bool wanted)
{
    uint32_t n = (*looks)++;
    return wanted || n < MT_REUSE_LOOK || n % MT_EAGER_LOOKS == 0
               ? mt_engine_now_ns()
               : 0;
}

static uint64_t mt_clock_ns(void)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < MT_EAGER_CLOCKS; i++) {
        uint64_t begin = mt_engine_now_ns(), ns = mt_engine_now_ns() - begin;
        least = ns < least ? ns : least;
    }
    return least;
}

/* ---- a wait ----
 *
 * Who waits for local completion, and then for something else that comes, has
 * waited less for that: a ping-pong loses nothing. So a wait counts by what the
 * next one does not make up for. The looks of one that waits follow each other
 * closely. */

static void mt_wait_counts(struct mt_eager *e, uint64_t idle_ns)
{
    uint64_t ns = e->waited_ns > idle_ns ? e->waited_ns - idle_ns : 0;
    mt_reuse_exposed(&e->reuse, e->waited_bytes, e->waited_site, ns);
    __atomic_store_n(&e->waited_ns, 0, __ATOMIC_RELAXED);
}

void mt_eager_idles(struct mt_engine *engine)
{
    struct mt_eager *e = engine->eager;
    uint64_t now = mt_engine_now_ns(), ns = now - e->looked_ns;
    if (e->looked_ns != 0) {
        e->idle_ns += ns < MT_EAGER_GAP_NS ? ns : MT_EAGER_GAP_NS;
    }
    e->looked_ns = now;
}

void mt_eager_moved(struct mt_engine *engine)
{
    struct mt_eager *e = engine->eager;
    if (e->looked_ns != 0) { /* else it is what was just waited for */
        mt_wait_counts(e, e->idle_ns);
    }
}

/* ---- a message ---- */

/* A transfer for it with registered memory. */
static bool mt_eager_borrow(struct mt_engine_request *r)
{
    const struct mt_eager *e = r->context->engine->eager;
    struct mt_engine_transfer *t = mt_transfer_new(r);
    if (t == NULL) {
        return false;
    }
    if (e->implicit != NULL) {
        t->kept_mr = (struct mt_fabric_mr){.lkey = e->implicit->lkey};
        t->mr = &t->kept_mr;
    } else if (!mt_transfer_borrow(t, r->buffer.bytes)) {
        mt_transfer_free(t);
        return false;
    }
    return true;
}

/* What the model says of it, and where the policy leaves it open, what was shown.
 * *looks_p: its look-up of a registration is to be timed. */
static bool mt_eager_pays(struct mt_engine_request *r, bool *looks_p)
{
    struct mt_eager *e = r->context->engine->eager;
    uint64_t begin = mt_due(&e->looked, false);
    struct mt_reuse_sent sent =
        mt_reuse_send(&e->reuse, (uintptr_t)r->buffer.address, r->buffer.bytes,
                      r->buffer.site);
    if (begin != 0) {
        mt_reuse_sample(&e->reuse.usage, mt_took(e, begin));
    }
    bool tries = mt_terms(r->context->engine, &r->buffer)->reuse ==
                 MT_ENGINE_TRIES_REUSE;
    if (sent.straight && tries &&
        !mt_request_choose(r, MT_ENGINE_TRIED_REUSE)) {
        mt_reuse_declined(&e->reuse, r->buffer.bytes, r->buffer.site);
        sent = (struct mt_reuse_sent){.straight = false};
    }
    if (mt_unlikely(sent.halts) && tries) {
        mt_request_halt(r, MT_ENGINE_TRIED_REUSE);
    }
    __atomic_store_n(&r->timed, sent.timed, __ATOMIC_RELAXED);
    *looks_p = sent.looks;
    return sent.straight;
}

void mt_eager_choose(struct mt_engine_request *r)
{
    struct mt_engine *engine = r->context->engine;
    struct mt_eager *e = engine->eager;
    const struct mt_engine_terms *terms = mt_terms(engine, &r->buffer);
    bool always = terms->reuse == MT_ENGINE_REUSES_ALWAYS, looks = false;
    if (mt_eager_waited(engine)) {
        mt_wait_counts(e, 0); /* nothing came since, so nobody waited for it */
    }
    if (engine->eager_off != NULL || r->buffer.site == 0 || r->peer->ended ||
        r->peer->datagrams || /* which may be sent again, and then are others */
        terms->reuse == MT_ENGINE_COPIES ||
        r->buffer.bytes < terms->reuse_from ||
        r->buffer.bytes < e->reuse.from || !mt_contiguous(&r->buffer) ||
        !(always || mt_eager_pays(r, &looks))) {
        return;
    }
    uint64_t begin = mt_due(&e->borrowed, looks);
    bool borrowed = mt_eager_borrow(r);
    if (begin != 0) {
        mt_reuse_sample(&e->reuse.cache, mt_took(e, begin));
    }
    if (!borrowed && !always) {
        r->spoilt = true;
        mt_reuse_refused(&e->reuse, (uintptr_t)r->buffer.address,
                         r->buffer.bytes, r->buffer.site);
        __atomic_store_n(&r->timed, 0, __ATOMIC_RELAXED);
    }
}

void mt_eager_copy_timed(struct mt_engine_request *r, void *to)
{
    enum { PAGE = 4096 };
    struct mt_eager *e = r->context->engine->eager;
    volatile char *touched = to; /* the first time is no copy's price */
    for (uint64_t at = 0; at < r->buffer.bytes; at += PAGE) {
        touched[at] = 0;
    }
    touched[r->buffer.bytes - 1] = 0;
    uint64_t begin = mt_engine_now_ns();
    mt_layout_pack(&r->buffer, 0, to, r->buffer.bytes, NULL);
    mt_reuse_copied(&e->reuse, r->buffer.bytes, mt_took(e, begin));
}

struct mt_path_rest mt_eager_rest(const struct mt_engine_request *r)
{
    return (struct mt_path_rest){
        .piece = {.address = r->buffer.address,
                  .bytes = (uint32_t)r->buffer.bytes,
                  .lkey = r->transfer->mr->lkey},
        .value = (uintptr_t)r->transfer};
}

void mt_eager_posted(struct mt_engine_request *r)
{
    r->transfer->writing++;
    r->peer->writing++;
    if (__atomic_load_n(&r->awaited_ns, __ATOMIC_RELAXED) != 0) {
        /* a copy would have waited until now, too */
        __atomic_store_n(&r->awaited_ns, mt_engine_now_ns(), __ATOMIC_RELAXED);
    }
    mt_thread_note(r->peer->engine);
}

void mt_engine_awaited(const struct mt_engine_request *request)
{
    struct mt_engine_request *r = (struct mt_engine_request *)request;
    if (__atomic_load_n(&r->awaited_ns, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(&r->awaited_ns, mt_engine_now_ns(), __ATOMIC_RELAXED);
    }
}

/* How long somebody has waited for it. A synchronous one waits for more. */
static void mt_eager_exposed(struct mt_engine_request *r)
{
    struct mt_eager *e = r->context->engine->eager;
    uint64_t since = __atomic_load_n(&r->awaited_ns, __ATOMIC_RELAXED);
    bool waits = since != 0 && r->mode == MT_ENGINE_STANDARD;
    if (e->waited_ns != 0) {
        mt_wait_counts(e, 0);
    }
    e->waited_site = r->buffer.site;
    e->waited_bytes = r->buffer.bytes;
    e->idle_ns = e->looked_ns = 0;
    __atomic_store_n(&e->waited_ns, waits ? mt_took(e, since) : 0,
                     __ATOMIC_RELAXED);
    if (e->waited_ns == 0) {
        mt_wait_counts(e, 0);
    }
}

void mt_eager_left(uint64_t value, enum mt_status status)
{
    struct mt_engine_transfer *t =
        (struct mt_engine_transfer *)(uintptr_t)value;
    if (mt_likely(t == NULL)) {
        return;
    }
    if (mt_unlikely(t->request->timed != 0) && status == MT_OK) {
        mt_eager_exposed(t->request);
    }
    mt_transfer_written(t, status);
}

/* ---- registrations ---- */

/* What registering so many bytes takes, in ns. False: it is refused. */
static bool mt_register_ns(struct mt_engine *engine, void *memory,
                           uint64_t bytes, double *ns_p)
{
    struct mt_reuse_samples samples = {.n = 0};
    for (unsigned i = 0; i < MT_REUSE_LOOK; i++) {
        struct mt_fabric_mr *mr;
        uint64_t begin = mt_engine_now_ns();
        if (mt_fabric_mr_register(engine->pd, memory, bytes, 0, &mr) != MT_OK) {
            return false;
        }
        mt_reuse_sample(&samples, mt_took(engine->eager, begin));
        mt_fabric_mr_destroy(mr);
    }
    *ns_p = samples.median;
    return true;
}

/* Rm of all sizes that there are. */
static bool mt_register_all(struct mt_engine *engine)
{
    struct mt_reuse *reuse = &engine->eager->reuse;
    uint32_t last = mt_reuse_size(engine->o.terms.eager_limit);
    uint64_t most = UINT64_C(2) << last;
    char *memory = malloc(most);
    bool can = memory != NULL;
    for (uint64_t i = 0; can && i < most; i += 4096) {
        memory[i] = 1; /* so that its pages are there */
    }
    for (uint32_t size = mt_reuse_size(MT_REUSE_LEAST); can && size <= last;
         size++) {
        can = mt_register_ns(engine, memory, UINT64_C(2) << size,
                             &reuse->registering[size]);
    }
    free(memory);
    return can;
}

void mt_eager_keeper(struct mt_engine *engine)
{
    if (engine->eager->implicit != NULL) {
        return;
    }
    engine->eager_off = "no registration is kept";
    if (engine->keeper.get != NULL) {
        engine->eager_off = mt_register_all(engine)
                                ? NULL
                                : "memory cannot be registered";
    }
}

/* ---- beginning and end ---- */

/* Why not; NULL: nothing is in the way. */
static const char *mt_eager_why(const struct mt_engine *engine)
{
    const struct mt_fabric_caps *caps = engine->rails.rails[0].caps;
    const struct mt_engine_terms *terms = &engine->o.terms;
    bool always = terms->reuse == MT_ENGINE_REUSES_ALWAYS;
    return terms->reuse == MT_ENGINE_COPIES ? "it was not asked for"
           : terms->eager_limit < MT_REUSE_LEAST
               ? "all messages up to the eager limit are too short"
           : caps->max_pieces < 2 ? "the device has no gather lists"
           : !caps->offloads && !always
               ? "whoever sends carries the work of this device out, which a "
                 "copy does not delay; it takes engine=thread or an RDMA device"
               : NULL;
}

void mt_eager_open(struct mt_engine *engine)
{
    const struct mt_engine_options *o = &engine->o;
    engine->eager_off = mt_eager_why(engine);
    if (engine->eager_off != NULL) {
        return;
    }
    engine->eager_off = "there is no memory for it";
    struct mt_eager *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        return;
    }
    if (!mt_reuse_open(&e->reuse, o->terms.reuse_from, o->speculation,
                       MT_REUSE_ROOM, MT_REUSE_ROWS)) {
        free(e);
        return;
    }
    e->clock_ns = mt_clock_ns();
    engine->eager = e;
    engine->eager_off = "no registration is kept";
    if (mt_fabric_mr_implicit(engine->pd, &e->implicit) == MT_OK) {
        engine->eager_off = NULL;
    } else {
        e->implicit = NULL;
    }
}

void mt_eager_close(struct mt_engine *engine)
{
    struct mt_eager *e = engine->eager;
    if (e == NULL) {
        return;
    }
    if (e->implicit != NULL) {
        mt_fabric_mr_destroy(e->implicit);
    }
    mt_reuse_close(&e->reuse);
    free(e);
    engine->eager = NULL;
}

/* ---- what is known ---- */

const char *mt_engine_reuse_off(const struct mt_engine *engine)
{
    return engine->eager_off;
}

static struct mt_engine_reuse_cost mt_cost_of(const struct mt_reuse *r,
                                              uint32_t size)
{
    struct mt_engine_reuse_cost c = {.from = UINT64_C(1) << size,
                                     .messages = r->seen[size],
                                     .copy_ns = r->copies[size].median,
                                     .register_ns = r->registering[size]};
    double gain = c.copy_ns - r->usage.median - r->cache.median;
    for (uint32_t i = 0; i < 2 * MT_REUSE_SITES; i++) {
        const struct mt_reuse_site *s = &r->sites[i];
        if (s->taken && s->size == size && s->exposed.n >= MT_REUSE_LOOK) {
            c.places++;
            c.waiting += gain > 0 && s->exposed.mean >= gain;
            c.exposed_ns += s->exposed.mean;
        }
    }
    c.exposed_ns /= c.places > 0 ? c.places : 1;
    return c;
}

uint32_t mt_engine_reuse_costs(const struct mt_engine *engine,
                               struct mt_engine_reuse_cost *out, uint32_t room,
                               double *look_p)
{
    struct mt_engine *e = (struct mt_engine *)engine;
    uint32_t n = 0;
    *look_p = 0;
    mt_engine_lock_aside(e);
    if (e->eager != NULL) {
        const struct mt_reuse *r = &e->eager->reuse;
        *look_p = r->usage.median + r->cache.median;
        for (uint32_t i = 0; i < MT_REUSE_SIZES && n < room; i++) {
            if (r->seen[i] > 0) {
                out[n++] = mt_cost_of(r, i);
            }
        }
    }
    mt_engine_unlock_aside(e);
    return n;
}
