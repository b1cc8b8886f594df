/* sources: c/probe/enter.c c/probe/site.c c/probe/request.c c/probe/arrival.c c/probe/reuse.c c/probe/event.c */
/* Requests against a dumb twin, and from several threads whose library gives a
 * handle to another thread the moment it is free. */
#include <pthread.h>

#include "check.h"
#include "fixture.h"

static void begin(struct mt_call *call, uint32_t id)
{
    mt_enter(call, id, 0x400000 + id, 0x7000000);
    mt_go(call);
    mt_stop(call);
}

static void start(uint64_t handle, uint16_t kind, int32_t peer, uint64_t bytes)
{
    struct mt_call call;
    struct mt_started started = {.handle = handle,
                                 .kind = kind,
                                 .message = {.bytes = bytes,
                                             .comm = &fixture_comm,
                                             .type = 1,
                                             .peer = peer}};
    begin(&call, MPITRACE_CALL_Irecv);
    if (kind == MT_REQUEST_SEND) {
        mt_count_sent(&call, &started.message, false);
    }
    mt_request_insert(&call, &started);
    mt_leave(&call, false);
}

static void complete(const struct mt_pending *pending, int32_t source,
                     int64_t bytes)
{
    struct mt_call call;
    struct mt_envelope got = {source, 0, bytes};
    struct mt_completion how = {.got = bytes >= 0 ? &got : NULL,
                                .seen = true};
    begin(&call, MPITRACE_CALL_Wait);
    mt_request_complete(&call, pending, &how);
    mt_leave(&call, false);
}

enum { HANDLES = 3000, ROUNDS = 100000 };

/* Random starts and completions; the twin is an array indexed by handle. */
static void test_twin(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    static uint64_t posted[HANDLES];
    uint64_t received[FIXTURE_RANKS] = {0}, started = 0, completed = 0;
    unsigned long long state = 7;
    fixture_requests();
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t h = check_random(&state) % HANDLES;
        uint64_t handle = 0x1000 + h * 64;
        int32_t source = (int32_t)(check_random(&state) % FIXTURE_RANKS);
        if (posted[h] == 0) {
            posted[h] = 1 + check_random(&state) % 5000;
            started++;
            start(handle, MT_REQUEST_RECV, -1, posted[h]);
        } else {
            struct mt_pending p;
            mt_request_find(handle, &p);
            CHECK(p.slot >= 0);
            CHECK(mt_request_is_receive(&p));
            complete(&p, source, (int64_t)posted[h] / 2);
            received[source] += posted[h] / 2;
            posted[h] = 0;
            completed++;
        }
    }
    CHECK_EQ(f->thread.requests_started, started);
    CHECK_EQ(f->thread.requests_completed, completed);
    CHECK_EQ(f->thread.requests_dropped, 0);
    for (int r = 0; r < FIXTURE_RANKS; r++) {
        CHECK_EQ(f->peer_rows[f->peer_index[r] - 1].received_bytes, received[r]);
    }
    free(f);
}

/* One handle for many completed sends: each counts, none is waited for. */
static void test_shared(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_pending p;
    fixture_requests();
    mt_tls.shard = &f->shard;
    for (int i = 0; i < 4; i++) {
        start(0x9000, MT_REQUEST_SEND, 3, 10);
    }
    for (int i = 0; i < 4; i++) {
        mt_request_find(0x9000, &p);
        CHECK_EQ(p.slot >= 0, i == 0);
        if (p.slot >= 0) {
            complete(&p, -1, -1);
        }
    }
    CHECK_EQ(f->thread.requests_started, 4);
    CHECK_EQ(f->thread.requests_completed, 4);
    CHECK_EQ(f->thread.requests_shared, 3);
    CHECK_EQ(f->peer_rows[0].sent_messages, 4);
    CHECK_EQ(f->peer_rows[0].sent_bytes, 40);
    free(f);
}

/* What a late completion of another thread finds under its handle is somebody else's,
 * unless it is one that sends share: a persistent request, a collective. */
static void test_taken_meanwhile(void)
{
    static const uint16_t kinds[] = {MT_REQUEST_SEND | MT_REQUEST_PERSISTENT,
                                     MT_REQUEST_OTHER, MT_REQUEST_RECV};
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct fixture *f = fixture_make(FIXTURE_SITES);
        struct mt_pending late, p;
        fixture_requests();
        mt_tls.guard = 0;
        mt_tls.shard = &f->shard;
        start(0x9300, MT_REQUEST_SEND, 3, 10);
        mt_request_find(0x9300, &late);
        start(0x9300, kinds[i], 3, 10); /* which counts the first one */
        CHECK_EQ(f->thread.requests_completed, 1);
        complete(&late, -1, -1);
        CHECK_EQ(f->thread.requests_completed, 1);
        mt_request_find(0x9300, &p);
        CHECK(p.slot >= 0);
        free(f);
    }
}

/* A handle that comes back again and again is the one for complete sends: they
 * are counted as before, and no longer followed. */
static void test_always_shared(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_pending p;
    fixture_requests();
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    for (int i = 0; i < 100; i++) {
        start(0x9100, MT_REQUEST_SEND, 3, 10);
        start(0x9200 + 64 * (uint64_t)i, MT_REQUEST_SEND, 3, 10);
    }
    for (mt_request_find(0x9100, &p); p.slot >= 0;
         mt_request_find(0x9100, &p)) {
        complete(&p, -1, -1);
    }
    for (uint64_t i = 0; i < 100; i++) {
        mt_request_find(0x9200 + 64 * i, &p);
        CHECK(p.slot >= 0);
        complete(&p, -1, -1);
    }
    CHECK_EQ(f->thread.requests_started, 200);
    CHECK_EQ(f->thread.requests_completed, 200);
    CHECK_EQ(f->peer_rows[0].sent_messages, 200);
    free(f);
}

/* A full table drops and says so; nothing is overwritten. */
static void test_full(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    fixture_requests();
    mt_tls.shard = &f->shard;
    uint64_t n = 3 * MT_REQUEST_SLOTS, found = 0;
    for (uint64_t i = 0; i < n; i++) {
        start(0x100 + i, MT_REQUEST_RECV, 0, 1);
    }
    for (uint64_t i = 0; i < n; i++) {
        struct mt_pending p;
        mt_request_find(0x100 + i, &p);
        found += p.slot >= 0;
    }
    CHECK_EQ(found + f->thread.requests_dropped, n);
    CHECK(found > MT_REQUEST_SLOTS / 2);
    free(f);
}

/* Handles as the libraries number them, as many as half the table holds: all
 * are followed, and those of MPICH each in a slot of its own. */
static void test_numbering(void)
{
    enum { MANY = MT_REQUEST_SLOTS / 2 };
    for (int library = 0; library < 2; library++) {
        struct fixture *f = fixture_make(FIXTURE_SITES);
        uint64_t displaced = 0, found = 0;
        fixture_requests();
        mt_tls.shard = &f->shard;
        for (uint64_t i = 0; i < 2 * MANY; i++) {
            uint64_t handle =
                library == 1 ? 0x561496db2580 + i * 768
                : i < 8      ? 0xac000000 + i
                             : 0xec000000 + (i - 8) / 1024 * 4096 + (i - 8) % 1024;
            struct mt_pending p;
            if (i < MANY) {
                start(handle, MT_REQUEST_RECV, 0, 1);
            } else {
                i += 7; /* of the rest, one in eight */
                start(handle, MT_REQUEST_RECV, 0, 1);
            }
            mt_request_find(handle, &p);
            found += p.slot >= 0;
        }
        for (int i = 0; i < MT_REQUEST_SLOTS; i++) {
            displaced += mt_request_displaced[i];
        }
        CHECK_EQ(f->thread.requests_dropped, 0);
        CHECK_EQ(found, MANY + MANY / 8);
        CHECK(library == 1 || displaced == 0);
        free(f);
    }
}

/* The library of the threads test: a pool of handles behind a lock. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pool[64];
static int pool_free;

static uint64_t pool_take(void)
{
    uint64_t h = 0;
    pthread_mutex_lock(&pool_lock);
    if (pool_free > 0) {
        h = pool[--pool_free];
    }
    pthread_mutex_unlock(&pool_lock);
    return h;
}

static void pool_give(uint64_t h)
{
    pthread_mutex_lock(&pool_lock);
    pool[pool_free++] = h;
    pthread_mutex_unlock(&pool_lock);
}

enum { THREADS = 4, MESSAGES = 20000 };

/* Sends that are complete at once and all have one handle. */
static void *sender(void *arg)
{
    struct fixture *f = arg;
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    for (int i = 0; i < MESSAGES; i++) {
        struct mt_pending p;
        start(0x9000, MT_REQUEST_SEND, 3, 8);
        mt_request_find(0x9000, &p);
        if (p.slot >= 0) {
            complete(&p, -1, -1);
        }
    }
    return NULL;
}

static void *receiver(void *arg)
{
    struct fixture *f = arg;
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    for (int i = 0; i < MESSAGES; i++) {
        uint64_t h = pool_take();
        if (h == 0) {
            i--;
            continue;
        }
        start(h, MT_REQUEST_RECV, -1, 100);
        struct mt_pending p;
        mt_request_find(h, &p);
        pool_give(h); /* MPI_Wait returns: another thread may have it now */
        complete(&p, 1, 8);
    }
    return NULL;
}

/* Runs the threads and adds up what their shards counted. */
static void run_threads(void *(*body)(void *), uint64_t *completed_p,
                        uint64_t *received_p)
{
    pthread_t threads[THREADS];
    struct fixture *shards[THREADS];
    struct mt_pending left;
    fixture_requests();
    mt_request_threads = 1;
    *completed_p = *received_p = 0;
    for (int i = 0; i < THREADS; i++) {
        shards[i] = fixture_make(FIXTURE_SITES);
        shards[i]->shard.number = (uint32_t)i;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, body, shards[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    mt_tls.shard = &shards[0]->shard;
    for (mt_request_find(0x9000, &left); left.slot >= 0;
         mt_request_find(0x9000, &left)) {
        complete(&left, -1, -1);
    }
    for (int i = 0; i < THREADS; i++) {
        *completed_p += shards[i]->thread.requests_completed;
        *received_p += shards[i]->peer_rows[0].received_bytes;
        free(shards[i]);
    }
}

static void test_threads(void)
{
    uint64_t received, completed;
    for (int i = 0; i < 6; i++) {
        pool_give(0x5000 + (uint64_t)i * 64);
    }
    run_threads(receiver, &completed, &received);
    CHECK_EQ(completed, THREADS * MESSAGES);
    CHECK_EQ(received, 8ull * THREADS * MESSAGES);
    run_threads(sender, &completed, &received);
    CHECK_EQ(completed, THREADS * MESSAGES);
}

/* A request has its share of the completing call, and all the time before it;
 * one whose end nobody saw was never waited for. */
static void test_blocked(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_call call;
    struct mt_pending p;
    struct mt_completion how = {.blocked = 250, .seen = true};
    fixture_requests();
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    start(0x9000, MT_REQUEST_SEND, 3, 10);
    mt_request_find(0x9000, &p);
    begin(&call, MPITRACE_CALL_Waitall);
    uint64_t whole = call.stop - mt_requests[p.slot].start;
    uint64_t before = call.start - mt_requests[p.slot].start;
    mt_request_complete(&call, &p, &how);
    mt_leave(&call, false);
    start(0x9000, MT_REQUEST_SEND, 3, 10);
    start(0x9000, MT_REQUEST_SEND, 3, 10);
    const struct mt_seg_function *started = f->shard.functions[MPITRACE_CALL_Irecv];
    CHECK_EQ(started->completed, 2);
    CHECK_EQ(started->blocked_ticks, 250);
    CHECK_EQ(started->before_ticks, before + started->completed_ticks - whole);
    CHECK(started->completed_ticks >= whole);
    CHECK_EQ(f->site_rows[0].blocked_ticks, 250);
    CHECK_EQ(f->site_rows[0].before_ticks, started->before_ticks);
    free(f);
}

/* Those of an array among which a completing call shares its time are those that
 * it credits: one of many with a shared handle, none that is not started. */
static void test_share(void)
{
    enum { SENDS = 4, RECEIVE = SENDS, PEERLESS, ACTIVE, INACTIVE, UNKNOWN, N };
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_call call;
    struct mt_pending p[N];
    uint64_t handles[N] = {0x9000, 0x9000, 0x9000, 0x9000, 0xa000,
                           0xb000, 0xc000, 0xd000, 0xe000};
    fixture_requests();
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    for (int i = 0; i < SENDS; i++) {
        start(handles[i], MT_REQUEST_SEND, 3, 10);
    }
    start(handles[RECEIVE], MT_REQUEST_RECV, 3, 10);
    start(handles[PEERLESS],
          MT_REQUEST_RECV | MT_REQUEST_PERSISTENT | MT_REQUEST_PEERLESS, -1, 10);
    for (int i = ACTIVE; i <= INACTIVE; i++) {
        start(handles[i], MT_REQUEST_RECV | MT_REQUEST_PERSISTENT, 3, 10);
    }
    begin(&call, MPITRACE_CALL_Startall);
    mt_request_activate(&call, handles[PEERLESS]);
    mt_request_activate(&call, handles[ACTIVE]);
    mt_leave(&call, false);
    for (int round = 0; round < 3; round++) { /* none is left from the last */
        uint32_t stamp = mt_request_count_begin(), shares = 0;
        for (int i = 0; i < N; i++) {
            mt_request_find(handles[i], &p[i]);
            bool has = mt_request_has_share(&p[i], stamp);
            CHECK_EQ(has, i == 0 || i == RECEIVE || i == ACTIVE);
            shares += has;
        }
        CHECK_EQ(shares, 3);
    }
    uint64_t before = f->shard.functions[MPITRACE_CALL_Irecv]->blocked_ticks;
    begin(&call, MPITRACE_CALL_Waitall);
    for (int i = 0; i < N; i++) {
        struct mt_envelope got = {3, 0, 10};
        struct mt_completion how = {.blocked = mt_request_is_awaited(&p[i]) ? 100
                                                                            : 0,
                                    .got = &got,
                                    .seen = true};
        if (p[i].slot >= 0) {
            mt_request_complete(&call, &p[i], &how);
        }
    }
    mt_leave(&call, false);
    CHECK_EQ(f->shard.functions[MPITRACE_CALL_Irecv]->blocked_ticks - before +
                 f->shard.functions[MPITRACE_CALL_Startall]->blocked_ticks,
             300);
    free(f);
}

/* A nonblocking and a persistent collective give an arrival each time. */
static void test_collective(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_call call;
    struct mt_pending p;
    struct mt_completion how = {.seen = true};
    struct mt_started started = {
        .handle = 0x9000,
        .kind = MT_REQUEST_OTHER | MT_REQUEST_COLLECTIVE,
        .message = {.bytes = 80, .comm = &fixture_comm, .peer = 5},
        .sequence = 9};
    fixture_extras(f);
    fixture_requests();
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    begin(&call, MPITRACE_CALL_Ibcast);
    mt_request_insert(&call, &started);
    mt_leave(&call, false);
    mt_request_find(0x9000, &p);
    uint64_t entered = call.start;
    begin(&call, MPITRACE_CALL_Wait);
    mt_request_complete(&call, &p, &how);
    mt_leave(&call, false);
    CHECK_EQ(f->arrivals.used, 1);
    CHECK_EQ(f->arrival_rows[0].enter_ticks, entered);
    CHECK_EQ(f->arrival_rows[0].wait_ticks, call.start);
    CHECK_EQ(f->arrival_rows[0].exit_ticks, call.stop);
    CHECK_EQ(f->arrival_rows[0].call, MPITRACE_CALL_Ibcast);
    CHECK_EQ(f->arrival_rows[0].sequence, 9);
    CHECK_EQ(f->arrival_rows[0].start, 0);
    CHECK_EQ(f->arrival_rows[0].root, 5);
    CHECK_EQ(f->arrival_rows[0].bytes, 80);

    started.kind |= MT_REQUEST_PERSISTENT;
    started.message.type = 3;
    begin(&call, MPITRACE_CALL_Bcast_init);
    mt_request_insert(&call, &started);
    mt_leave(&call, false);
    for (uint32_t n = 1; n <= 3; n++) {
        begin(&call, MPITRACE_CALL_Start);
        mt_request_activate(&call, 0x9000);
        mt_leave(&call, false);
        mt_request_find(0x9000, &p);
        begin(&call, MPITRACE_CALL_Wait);
        mt_request_complete(&call, &p, &how);
        mt_leave(&call, false);
        CHECK_EQ(f->arrivals.used, 1 + n);
        CHECK_EQ(f->arrival_rows[n].start, n);
        CHECK_EQ(f->arrival_rows[n].call, MPITRACE_CALL_Bcast_init);
        CHECK_EQ(f->comm_totals[1].collectives, n);
        CHECK_EQ(f->comm_totals[1].sent_bytes, 80 * n);
        CHECK_EQ(f->type_totals[3].collectives, n);
        CHECK_EQ(f->type_totals[3].sent_bytes, 80 * n);
        CHECK_EQ(f->shard.functions[MPITRACE_CALL_Start]->messages, n);
        CHECK_EQ(f->shard.functions[MPITRACE_CALL_Start]
                     ->size_bins[mt_bin(80, MPITRACE_SIZE_BINS)],
                 n);
    }
    started.handle = 0xa000; /* of several datatypes */
    started.message.type = (uint32_t)MT_TYPE_NONE;
    begin(&call, MPITRACE_CALL_Bcast_init);
    mt_request_insert(&call, &started);
    mt_request_activate(&call, 0xa000);
    mt_leave(&call, false);
    CHECK_EQ(f->comm_totals[1].sent_bytes, 80 * 4);
    CHECK_EQ(f->type_totals[3].sent_bytes, 80 * 3);
    free(f);
}

/* Persistent requests made while measurement is paused count from their start on,
 * and a request whose handle they got is forgotten without a figure. */
static void test_paused(void)
{
    struct fixture *f = fixture_make(FIXTURE_SITES);
    struct mt_call call, lent = {.shard = &f->shard,
                                 .id = MPITRACE_CALL_Bcast_init};
    struct mt_pending p;
    struct mt_completion how = {.seen = true};
    struct mt_started started = {.handle = 0x9000,
                                 .kind = MT_REQUEST_OTHER |
                                         MT_REQUEST_COLLECTIVE |
                                         MT_REQUEST_PERSISTENT,
                                 .message = {.bytes = 80,
                                             .comm = &fixture_comm,
                                             .peer = 5},
                                 .sequence = 9};
    fixture_extras(f);
    fixture_requests();
    mt_tls.guard = 0;
    mt_tls.shard = &f->shard;
    start(0x9000, MT_REQUEST_SEND, 3, 10);
    mt_request_insert_paused(&lent, &started);
    CHECK_EQ(f->thread.requests_started, 1);
    CHECK_EQ(f->thread.requests_completed, 0);
    mt_request_unmeasured(0x9000);
    for (uint32_t n = 0; n < 2; n++) {
        begin(&call, MPITRACE_CALL_Start);
        mt_request_activate(&call, 0x9000);
        mt_leave(&call, false);
        mt_request_find(0x9000, &p);
        CHECK(mt_request_is_persistent(&p));
        begin(&call, MPITRACE_CALL_Wait);
        mt_request_complete(&call, &p, &how);
        mt_leave(&call, false);
        CHECK_EQ(f->arrivals.used, 1 + n);
        CHECK_EQ(f->arrival_rows[n].call, MPITRACE_CALL_Bcast_init);
        CHECK_EQ(f->arrival_rows[n].sequence, 9);
        CHECK_EQ(f->arrival_rows[n].start, 2 + n);
    }
    CHECK_EQ(f->thread.requests_started, 3);
    CHECK_EQ(f->thread.requests_completed, 2);
    free(f);
}

int main(void)
{
    test_blocked();
    test_share();
    test_collective();
    test_paused();
    test_twin();
    test_shared();
    test_taken_meanwhile();
    test_always_shared();
    test_full();
    test_numbering();
    test_threads();
    return check_failures != 0;
}
