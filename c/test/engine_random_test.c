/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* Random programs against a twin that matches one message after the other. What
 * every process sends follows from the seed, so each receiver can work out alone
 * what must have come: its receives, in the order in which they were posted,
 * each take the first message of the source that it got one of which no earlier
 * one took and which fits (MPI 4.1, 3.5).
 *
 * Every actor (a thread of a process) sends, receives, probes and cancels in
 * several contexts that it opens when it comes to them and closes when all is
 * done, while others are already further or still behind. */
#include "engine_fixture.h"

#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 8 };
#else
enum { SLOWER = 1 };
#endif

enum {
    EAGER = 600,
    MOST = 40 * EAGER, /* longest message */
    CONTEXTS = 3,
    THREADS = 2,
    SENDS = 24, /* of an actor at once */
    RECEIVES = 12,
    PER_EPOCH = 250, /* messages of an actor */
    EPOCHS = 64,
    LOG = 2 * PER_EPOCH * FIX_PROCESSES,
    NOBODY = 99,
};

/* What a run is made with. */
struct job {
    struct mt_engine_options options;
    uint64_t seed;
    uint32_t epochs, threads;
    uint32_t victim; /* kills itself in the second half; NOBODY */
    bool rules;      /* some messages have terms of their own */
};

/* What processes tell each other beside the engine: which sends were taken
 * back, and that an actor has no more to send in an epoch. */
struct told {
    uint8_t cancelled[FIX_PROCESSES][THREADS][EPOCHS][PER_EPOCH];
    uint32_t ready[FIX_PROCESSES][THREADS][EPOCHS]; /* pairs with itself */
};

static struct told *told;

/* ---- what is sent ---- */

static uint64_t mix(uint64_t v)
{
    v ^= v >> 31;
    v *= UINT64_C(0x7fb5d329728ea185);
    v ^= v >> 27;
    v *= UINT64_C(0x81dadef4bc2dd44d);
    return v ^ v >> 33;
}

struct plan {
    uint32_t context, to; /* rank */
    int32_t tag;
    uint64_t bytes, content;
    bool strided, synchronous, cancel;
};

/* The process of a rank in a context. The last one lacks a process. */
static uint32_t process_of(uint32_t context, uint32_t epoch, uint32_t rank)
{
    return context == 0   ? rank
           : context == 1 ? fix.size - 1 - rank
                          : (epoch + 1 + rank) % fix.size;
}

static uint32_t size_of(uint32_t context)
{
    return context == 2 ? fix.size - 1 : fix.size;
}

static uint32_t rank_of(uint32_t context, uint32_t epoch, uint32_t process)
{
    uint32_t rank = 0;
    while (rank < size_of(context) &&
           process_of(context, epoch, rank) != process) {
        rank++;
    }
    return rank; /* size: not in it */
}

static struct plan plan_of(uint64_t seed, uint32_t process, uint32_t thread,
                           uint32_t epoch, uint32_t i)
{
    uint64_t r = mix(seed * 1000003 + process);
    r = mix(r + thread * 7919 + epoch * UINT64_C(104729));
    r = mix(r + i);
    struct plan p = {.content = r};
    p.context = (uint32_t)(r % CONTEXTS);
    if (rank_of(p.context, epoch, process) == size_of(p.context)) {
        p.context = 0;
    }
    r = mix(r);
    p.to = (uint32_t)(r % size_of(p.context));
    p.tag = (int32_t)(r >> 32 & 3);
    p.strided = (r >> 40) % 4 == 0;
    p.synchronous = (r >> 44) % 8 == 0;
    p.cancel = (r >> 48) % 8 == 0;
    r = mix(r);
    switch (r % 16) {
    case 0:
        p.bytes = 0;
        break;
    case 1:
    case 2:
    case 3:
        p.bytes = EAGER - 2 + (r >> 8) % 5;
        break;
    case 4:
        p.bytes = (r >> 8) % MOST;
        break;
    case 5:
        p.bytes = (r >> 8) % (4 * EAGER);
        break;
    default:
        p.bytes = (r >> 8) % 64;
        break;
    }
    p.bytes &= p.strided ? ~UINT64_C(7) : ~UINT64_C(0);
    return p;
}

static uint8_t byte_of(uint64_t content, uint64_t j)
{
    return (uint8_t)(content >> (j & 7) * 8) + (uint8_t)(j >> 3) * 5;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_of_plan(const struct plan *p, uint64_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (uint64_t j = 0; j < bytes; j++) {
        h = (h ^ byte_of(p->content, j)) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* ---- memory of a message: contiguous, or 8 of every 20 bytes ---- */

static const struct mt_block two_parts[] = {{4, 5}, {0, 3}};
static const struct mt_layout strided = {two_parts, 2, 20, 8};

static char *byte_at(char *memory, bool is_strided, uint64_t j)
{
    if (!is_strided) {
        return memory + j;
    }
    uint64_t in = j % 8;
    return memory + j / 8 * 20 + (in < 5 ? 4 + in : in - 5);
}

static uint64_t hash_of_memory(char *memory, bool is_strided, uint64_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (uint64_t j = 0; j < bytes; j++) {
        h = (h ^ (uint8_t)*byte_at(memory, is_strided, j)) *
            UINT64_C(0x100000001b3);
    }
    return h;
}

/* ---- an actor ---- */

struct entry { /* of a receive, as posted */
    uint32_t context;
    int32_t want_source, want_tag, source, tag;
    uint64_t room, bytes, hash;
    enum mt_status status;
    bool cancelled;
};

struct send {
    struct mt_engine_request request;
    bool used;
    uint32_t number;
    char memory[3 * MOST];
};

struct receive {
    struct mt_engine_request request;
    struct mt_engine_message *message; /* of a probe, not received yet */
    bool used, is_strided;
    struct entry *entry;
    char memory[3 * MOST];
};

struct actor {
    const struct job *job;
    uint32_t thread, epoch;
    uint64_t random;
    struct mt_engine_context *contexts[CONTEXTS];
    uint32_t next; /* message to be sent */
    uint32_t sending;
    uint32_t got[FIX_PROCESSES]; /* messages of this epoch by process */
    uint32_t entries;
    struct entry log[LOG];
    struct send sends[SENDS];
    struct receive receives[RECEIVES];
};

static uint32_t dice(struct actor *a, uint32_t below)
{
    a->random ^= a->random >> 12;
    a->random ^= a->random << 25;
    a->random ^= a->random >> 27;
    return (uint32_t)((a->random * UINT64_C(2685821657736338717)) >> 33) %
           below;
}

/* What a rule may say of one message, within what all engines are opened with;
 * NULL: nothing. */
static const struct mt_engine_terms *draw_terms(struct actor *a)
{
    static const struct mt_engine_terms some[] = {
        {.eager_limit = 0, .rendezvous = MT_ENGINE_RPUT},
        {.eager_limit = EAGER / 2, .try_written = true, .try_asking = true},
        {.eager_limit = 10 * EAGER, .rendezvous = MT_ENGINE_RTR},
        {.eager_limit = EAGER, .reuse = MT_ENGINE_REUSES_ALWAYS},
    };
    enum { SOME = sizeof(some) / sizeof(*some) };
    uint32_t i = a->job->rules ? dice(a, 2 * SOME) : SOME;
    return i < SOME ? &some[i] : NULL;
}

static bool member(const struct actor *a, uint32_t context)
{
    return rank_of(context, a->epoch, fix.rank) < size_of(context);
}

static struct mt_engine_context *context_of(struct actor *a, uint32_t context)
{
    uint32_t processes[FIX_PROCESSES];
    if (a->contexts[context] == NULL) {
        for (uint32_t i = 0; i < size_of(context); i++) {
            processes[i] = process_of(context, a->epoch, i);
        }
        uint32_t id =
            (a->epoch * THREADS + a->thread) * CONTEXTS + context + 1;
        EQ(mt_engine_context_open(fix.engine, id * 77,
                                  rank_of(context, a->epoch, fix.rank),
                                  size_of(context), processes,
                                  &a->contexts[context]),
           MT_OK);
    }
    return a->contexts[context];
}

static void send_next(struct actor *a)
{
    uint32_t place = 0;
    while (place < SENDS && a->sends[place].used) {
        place++;
    }
    if (place == SENDS || a->next == PER_EPOCH) {
        return;
    }
    struct send *s = &a->sends[place];
    struct plan p =
        plan_of(a->job->seed, fix.rank, a->thread, a->epoch, a->next);
    struct mt_buffer b = {.address = s->memory,
                          .layout = p.strided ? &strided : NULL,
                          .bytes = p.bytes,
                          .site = 1 + (uint32_t)p.tag,
                          .terms = draw_terms(a)};
    for (uint64_t j = 0; j < p.bytes; j++) {
        *byte_at(s->memory, p.strided, j) = (char)byte_of(p.content, j);
    }
    s->used = true;
    s->number = a->next++;
    a->sending++;
    EQ(mt_engine_send(context_of(a, p.context), &s->request, (int32_t)p.to,
                      p.tag,
                      p.synchronous ? MT_ENGINE_SYNCHRONOUS
                                    : MT_ENGINE_STANDARD,
                      &b),
       MT_OK);
    if (p.cancel) {
        mt_engine_cancel(&s->request);
    }
}

static struct receive *free_receive(struct actor *a)
{
    uint32_t place = 0;
    while (place < RECEIVES && a->receives[place].used) {
        place++;
    }
    return place < RECEIVES ? &a->receives[place] : NULL;
}

/* The log without the receives that were taken back. */
static void forget_cancelled(struct actor *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->entries; i++) {
        if (a->log[i].cancelled) {
            continue;
        }
        for (uint32_t k = 0; k < RECEIVES; k++) {
            if (a->receives[k].used && a->receives[k].entry == &a->log[i]) {
                a->receives[k].entry = &a->log[kept];
            }
        }
        a->log[kept++] = a->log[i];
    }
    a->entries = kept;
}

/* A new receive in the log: what it wants is random. */
static struct mt_buffer draw_receive(struct actor *a, struct receive *r,
                                     uint32_t context)
{
    if (a->entries == LOG) {
        forget_cancelled(a);
    }
    CHECK(a->entries < LOG);
    struct entry *e = &a->log[a->entries++];
    bool any = dice(a, 2) == 0;
    *e = (struct entry){
        .context = context,
        .want_source =
            any ? MT_ENGINE_ANY : (int32_t)dice(a, size_of(context)),
        .want_tag = dice(a, 2) == 0 ? MT_ENGINE_ANY : (int32_t)dice(a, 4),
        .room = dice(a, 4) > 0 ? MOST : dice(a, 2 * EAGER)};
    r->is_strided = dice(a, 4) == 0;
    e->room &= r->is_strided ? ~UINT64_C(7) : ~UINT64_C(0);
    r->used = true;
    r->entry = e;
    r->message = NULL;
    return (struct mt_buffer){.address = r->memory,
                              .layout = r->is_strided ? &strided : NULL,
                              .bytes = e->room,
                              .terms = draw_terms(a)};
}

static uint32_t any_context(struct actor *a)
{
    uint32_t context = dice(a, CONTEXTS);
    return member(a, context) ? context : 0;
}

static void receive_next(struct actor *a)
{
    struct receive *r = free_receive(a);
    if (r == NULL) {
        return;
    }
    uint32_t context = any_context(a);
    struct mt_buffer b = draw_receive(a, r, context);
    EQ(mt_engine_receive(context_of(a, context), &r->request,
                         r->entry->want_source, r->entry->want_tag, &b),
       MT_OK);
}

/* Finds a message, and receives what it found. */
static void probe(struct actor *a)
{
    struct receive *r = free_receive(a);
    struct mt_engine_envelope e, again;
    if (r == NULL) {
        return;
    }
    uint32_t context = any_context(a);
    struct mt_engine_context *c = context_of(a, context);
    struct mt_buffer b = draw_receive(a, r, context);
    struct entry *entry = r->entry;
    bool takes = dice(a, 2) == 0;
    if (mt_engine_probe(c, entry->want_source, entry->want_tag, &e,
                        takes ? &r->message : NULL) != MT_OK) {
        r->used = false;
        a->entries--;
        return;
    }
    entry->source = e.source;
    entry->tag = e.tag;
    entry->bytes = e.bytes;
    if (takes) {
        return; /* received later: another actor's turn of this one's comes */
    }
    EQ(mt_engine_probe(c, e.source, e.tag, &again, NULL), MT_OK);
    EQ(again.bytes, e.bytes);
    entry->want_source = e.source;
    entry->want_tag = e.tag;
    EQ(mt_engine_receive(c, &r->request, e.source, e.tag, &b), MT_OK);
}

static void receive_found(struct actor *a, struct receive *r)
{
    struct mt_buffer b = {.address = r->memory,
                          .layout = r->is_strided ? &strided : NULL,
                          .bytes = r->entry->room};
    EQ(mt_engine_receive_message(a->contexts[r->entry->context], &r->request,
                                 r->message, &b),
       MT_OK);
    r->message = NULL;
}

/* ---- what is done ---- */

static bool may_end(const struct actor *a, uint32_t process)
{
    return a->job->victim == process && a->epoch >= a->job->epochs / 2;
}

static void end_send(struct actor *a, struct send *s)
{
    struct plan p =
        plan_of(a->job->seed, fix.rank, a->thread, a->epoch, s->number);
    uint32_t to = process_of(p.context, a->epoch, p.to);
    CHECK(s->request.status == MT_OK ||
          (s->request.status == MT_EPEER && may_end(a, to)));
    if (s->request.cancelled) {
        told->cancelled[fix.rank][a->thread][a->epoch][s->number] = 1;
    }
    s->used = false;
    a->sending--;
}

static void end_receive(struct actor *a, struct receive *r)
{
    const struct mt_engine_request *q = &r->request;
    struct entry *e = r->entry;
    r->used = false;
    e->cancelled = q->cancelled;
    e->status = q->status;
    if (q->cancelled) {
        return;
    }
    if (q->status == MT_EPEER) {
        CHECK(a->job->victim != NOBODY);
        return;
    }
    e->source = q->source;
    e->tag = q->tag;
    e->bytes = q->bytes;
    e->hash = hash_of_memory(r->memory, r->is_strided, q->bytes);
    a->got[process_of(e->context, a->epoch, (uint32_t)e->source)]++;
}

static void look(struct actor *a)
{
    for (uint32_t i = 0; i < SENDS; i++) {
        if (a->sends[i].used && mt_engine_done(&a->sends[i].request)) {
            end_send(a, &a->sends[i]);
        }
    }
    for (uint32_t i = 0; i < RECEIVES; i++) {
        struct receive *r = &a->receives[i];
        if (r->used && r->message != NULL && dice(a, 4) == 0) {
            receive_found(a, r);
        }
        if (r->used && r->message == NULL && mt_engine_done(&r->request)) {
            end_receive(a, r);
        }
    }
    if (a->next == PER_EPOCH && a->sending == 0) {
        __atomic_store_n(&told->ready[fix.rank][a->thread][a->epoch], 1,
                         __ATOMIC_RELEASE);
    }
}

/* ---- the twin ---- */

/* The first message of a source for this actor that fits and is not taken. */
static uint32_t twin_take(const struct actor *a, const struct entry *e,
                          uint8_t *taken, uint32_t process, bool lenient)
{
    for (uint32_t i = 0; i < PER_EPOCH; i++) {
        struct plan p =
            plan_of(a->job->seed, process, a->thread, a->epoch, i);
        uint64_t fits = p.bytes < e->room ? p.bytes : e->room;
        if (taken[i] != 0 || p.context != e->context ||
            process_of(p.context, a->epoch, p.to) != fix.rank ||
            (e->want_tag != MT_ENGINE_ANY && e->want_tag != p.tag) ||
            /* of one that died a message may be lost with its receive */
            (lenient && (fits != e->bytes || p.tag != e->tag ||
                         e->hash != hash_of_plan(&p, fits)))) {
            continue;
        }
        taken[i] = 1;
        EQ(e->tag, p.tag);
        EQ(e->bytes, fits);
        EQ(e->status, fits < p.bytes ? MT_ETRUNCATED : MT_OK);
        CHECK(e->hash == hash_of_plan(&p, fits));
        CHECK(e->want_source == MT_ENGINE_ANY || e->want_source == e->source);
        return i;
    }
    return PER_EPOCH;
}

static void twin(const struct actor *a)
{
    static __thread uint8_t taken[FIX_PROCESSES][PER_EPOCH];
    for (uint32_t s = 0; s < fix.size; s++) {
        memcpy(taken[s], told->cancelled[s][a->thread][a->epoch], PER_EPOCH);
    }
    for (uint32_t i = 0; i < a->entries; i++) {
        const struct entry *e = &a->log[i];
        if (e->cancelled || e->status == MT_EPEER) {
            continue;
        }
        uint32_t process =
            process_of(e->context, a->epoch, (uint32_t)e->source);
        if (twin_take(a, e, taken[process], process, may_end(a, process)) ==
            PER_EPOCH) {
            FAIL("seed %llu, epoch %u, receive %u got what nobody sent",
                 (unsigned long long)a->job->seed, a->epoch, i);
        }
    }
}

/* Messages that this actor has still to get. */
static bool all_came(const struct actor *a)
{
    for (uint32_t s = 0; s < fix.size; s++) {
        uint32_t count = 0;
        if (may_end(a, s)) {
            continue;
        }
        if (__atomic_load_n(&told->ready[s][a->thread][a->epoch],
                            __ATOMIC_ACQUIRE) == 0) {
            return false;
        }
        for (uint32_t i = 0; i < PER_EPOCH; i++) {
            struct plan p = plan_of(a->job->seed, s, a->thread, a->epoch, i);
            count += process_of(p.context, a->epoch, p.to) == fix.rank &&
                     told->cancelled[s][a->thread][a->epoch][i] == 0;
        }
        if (a->got[s] < count) {
            return false;
        }
        EQ(a->got[s], count);
    }
    return true;
}

/* ---- the program ---- */

static void step(struct actor *a)
{
    uint32_t what = dice(a, 16);
    if (what < 5) {
        send_next(a);
    } else if (what < 10) {
        receive_next(a);
    } else if (what < 12) {
        probe(a);
    } else if (what == 12) {
        struct receive *r = &a->receives[dice(a, RECEIVES)];
        if (r->used && r->message == NULL) {
            mt_engine_cancel(&r->request);
        }
    } else {
        fix_turn("the random program");
    }
    look(a);
}

static bool idle(const struct actor *a)
{
    for (uint32_t i = 0; i < RECEIVES; i++) {
        if (a->receives[i].used) {
            return false;
        }
    }
    return a->next == PER_EPOCH && a->sending == 0;
}

static void epoch(struct actor *a)
{
    uint32_t rounds = 0;
    a->next = a->entries = 0;
    memset(a->got, 0, sizeof(a->got));
    memset(a->contexts, 0, sizeof(a->contexts));
    while (a->next < PER_EPOCH || a->sending > 0 || rounds++ % 64 != 0 ||
           !all_came(a)) {
        if (may_end(a, fix.rank) && dice(a, PER_EPOCH) == 0) {
            raise(SIGKILL);
        }
        step(a);
    }
    while (!idle(a)) { /* receives that nothing came for */
        for (uint32_t i = 0; i < RECEIVES; i++) {
            if (a->receives[i].used && a->receives[i].message == NULL) {
                mt_engine_cancel(&a->receives[i].request);
            }
        }
        look(a);
        fix_turn("the last receives");
    }
    twin(a);
    for (uint32_t k = 0; k < CONTEXTS; k++) {
        if (a->contexts[k] != NULL) {
            mt_engine_context_close(a->contexts[k]);
        }
    }
}

static void *act(void *argument)
{
    struct actor *a = argument;
    for (a->epoch = 0; a->epoch < a->job->epochs; a->epoch++) {
        epoch(a);
    }
    return NULL;
}

static void run(void *argument)
{
    const struct job *job = argument;
    struct mt_engine_options o = job->options;
    static struct actor actors[THREADS];
    pthread_t threads[THREADS];
    fix_open(&o);
    for (uint32_t t = 0; t < job->threads; t++) {
        actors[t].job = job;
        actors[t].thread = t;
        actors[t].random = mix(job->seed + fix.rank * 31 + t * 17) | 1;
        if (t > 0) {
            CHECK(pthread_create(&threads[t], NULL, act, &actors[t]) == 0);
        }
    }
    act(&actors[0]);
    for (uint32_t t = 1; t < job->threads; t++) {
        pthread_join(threads[t], NULL);
    }
    struct mt_engine_counts counts;
    mt_engine_count(fix.engine, &counts);
    EQ(counts.wrong_messages, 0);
    CHECK(o.verify_every == 0 || counts.verified_messages > 0);
    struct mt_engine_peers peers;
    mt_engine_count_peers(fix.engine, &peers);
    EQ(peers.connected + peers.datagrams + peers.idle, fix.size - 1);
    if (job->victim == NOBODY) {
        if (o.datagrams.first) {
            CHECK(counts.datagram_messages > 0);
            CHECK(peers.connected <= o.datagrams.connections);
            CHECK(peers.connected == fix.size - 1 ||
                  o.datagrams.connections < fix.size - 1);
        }
        if (o.ring_bytes > 0 && o.fabric.faults == NULL &&
            strcmp(o.device, "shm") == 0) {
            CHECK(counts.ring_messages > 0); /* and it is full now and then */
            CHECK(counts.ring_messages < counts.eager_messages);
        }
        CHECK(o.datagrams.first || (counts.registrations_refused > 0) ==
                                       (o.fabric.faults != NULL));
        if (o.terms.reuse != MT_ENGINE_REUSES_ALWAYS || peers.connected == 0) {
            EQ(counts.zero_copy_messages, 0); /* what is kept is a copy */
        } else if (!o.datagrams.first) {
            CHECK(counts.zero_copy_messages > 0);
        }
        fix_close();
    }
}

/* Turns of try take one rendezvous after the other, or try them, verify more or
 * less, copy short messages or not, for all messages or with rules for some; and
 * differ between seeds. */
static uint64_t turn;

static bool try(const char *what, uint32_t processes, struct job job)
{
    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    job.options.terms.eager_limit = EAGER;
    job.options.fabric.engine_cpu = -1;
    job.options.ring_bytes = turn % 4 == 3 ? 0 : UINT64_C(4096) << turn % 4;
    job.options.terms.rendezvous = (enum mt_engine_rendezvous)(turn % 3);
    job.options.rtr_usage = 20; /* so that there are many */
    job.options.rtr_sample = 10;
    job.options.terms.try_written = turn / 3 % 2 == 0;
    job.options.terms.try_asking = turn / 3 % 2 == 1;
    job.options.verify_every = (uint32_t)(turn / 2 % 3);
    job.options.terms.reuse =
        turn % 3 == 0 ? MT_ENGINE_COPIES : MT_ENGINE_REUSES_ALWAYS;
    job.rules = turn % 2 == 1;
    turn++;
    job.epochs = (job.epochs + SLOWER - 1) / SLOWER;
    job.epochs = job.epochs < 2 ? 2 : job.epochs;
    bool right = fix_run(what, processes, run, &job);
    munmap(told, sizeof(*told));
    return right;
}

/* A script of faults. */
static const char *script(const char *text)
{
    static char path[64];
    snprintf(path, sizeof(path), "/tmp/engine-random-%d.fault", (int)getpid());
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    uint32_t times = argc > 2 ? (uint32_t)atoi(argv[2]) : 1; /* at most 4 */
    struct job job = {.seed = seed, .threads = 1, .victim = NOBODY};
    struct mt_engine_options *o = &job.options;
    bool right = true;
    turn = seed;
    job.epochs = 16 * times;
    o->device = "shm";
    for (unsigned engine = 0; engine < 3; engine++) {
        o->fabric.engine = (enum mt_fabric_engine)engine;
        o->thread = engine == 2;
        char what[40];
        snprintf(what, sizeof(what), "shm, engine %u", engine);
        right = try(what, engine == 0 ? 5 : 4, job) && right;
    }
    o->fabric.engine = MT_FABRIC_ENGINE_INLINE;
    o->thread = true;
    job.threads = 2;
    right = try("shm, two threads and ours", 3, job) && right;
    job.epochs = 8 * times;
    o->device = "iwarp:lo";
    right = try("iwarp:lo, two threads and ours", 3, job) && right;
    o->thread = false;
    job.threads = 1;
    right = try("iwarp:lo", 4, job) && right;
    static const char *const devices[] = {"shm", "iwarp:lo"};
    job.epochs = 4 * times;
    o->datagrams.first = true;
    o->datagrams.after = 30;
    for (uint32_t i = 0; i < 4; i++) { /* of 3 peers */
        o->device = devices[i % 2];
        o->datagrams.connections = i;
        o->thread = i % 2 != 0;
        o->fabric.faults = script(i < 2 ? "seed 5\n"
                                        : "seed 5\ndrop 1/50 ud\n"
                                          "duplicate 1/50 ud\n"
                                          "reorder 1/50 ud\nfull 1/50\n"
                                          "delay 1/10 3\nregister 1/9\n");
        char what[40];
        snprintf(what, sizeof(what), "datagrams first, %u connections", i);
        right = try(what, 4, job) && right;
        remove(o->fabric.faults);
        o->fabric.faults = NULL;
    }
    o->datagrams.tries = 8;
    job.victim = 2;
    right = try("datagrams first, one dies", 4, job) && right;
    o->datagrams.first = false;
    o->thread = false;
    job.victim = NOBODY;
    job.epochs = 8 * times;
    for (unsigned d = 0; d < 2; d++) {
        o->device = devices[d];
        o->fabric.faults = script("seed 5\nregister 1/3\nfull 1/20\n"
                                  "delay 1/10 3\n");
        right = try("with faults", 3, job) && right;
        remove(o->fabric.faults);
        o->fabric.faults = NULL;
        job.victim = 2;
        right = try("one dies", 4, job) && right;
        job.victim = NOBODY;
    }
    return !right;
}
