/* sources: c/engine/?*.c c/fabric/?*.c c/fabric/fault/?*.c c/fabric/iwarp/?*.c c/fabric/paths/?*.c c/fabric/shm/?*.c c/fabric/soft/?*.c c/fabric/verbs/?*.c */
/* Progress by the engine's thread alone: what others need of a process that is
 * elsewhere. */
#include <sys/timerfd.h>
#include <sys/uio.h>

#include "../engine/inside.h"
#include "engine_fixture.h"

enum { EAGER = 1000 };

static uint32_t sleep_of_thread(void)
{
    return __atomic_load_n(&fix.engine->sleep, __ATOMIC_RELAXED);
}

static void until_asleep(void)
{
    while (sleep_of_thread() != MT_ASLEEP) {
        usleep(300);
        if (fix_now_ms() > fix.until_ms) {
            FAIL("a thread that has nothing to do does not sleep");
        }
    }
}

static bool patient(void)
{
    return __atomic_load_n(&fix.engine->patient, __ATOMIC_RELAXED);
}

static bool timer_is_set(void)
{
    struct itimerspec at;
    CHECK(timerfd_gettime(fix.engine->timer_fd, &at) == 0);
    return at.it_value.tv_sec > 0 || at.it_value.tv_nsec > 0;
}

/* Somebody depends on the thread, and does not any more when it is awake. */
static void call_in_vain(struct mt_engine_context *c)
{
    struct mt_engine_request s, r;
    struct mt_buffer nothing = flat(NULL, 0);
    EQ(mt_engine_send(c, &s, (int)fix.rank, 77, MT_ENGINE_SYNCHRONOUS,
                      &nothing),
       MT_OK);
    start_receive(c, &r, (int)fix.rank, 77, NULL, 0);
    finish(&r);
    finish(&s);
}

static void make_patient(struct mt_engine_context *c)
{
    while (!patient()) {
        until_asleep();
        call_in_vain(c);
        if (fix_now_ms() > fix.until_ms) {
            FAIL("a thread that is called in vain does not become patient");
        }
    }
}

/* One process starts its part and then sleeps, without a call of the engine,
 * until the other has finished all that they do with each other. */
static void sleep_through(uint32_t turn)
{
    uint32_t *finished = (uint32_t *)fix.shared->data[0][FIX_PROCESSES - 1];
    while (__atomic_load_n(finished, __ATOMIC_ACQUIRE) <= turn) {
        usleep(300);
        if (fix_now_ms() > fix.until_ms) {
            FAIL("the other makes no progress while this one sleeps");
        }
    }
}

static void elsewhere(const struct mt_engine_options *argument, bool calls)
{
    enum { N = 400 };
    struct mt_engine_options o = *argument;
    static char out[700000], in[700000], small[8 * N];
    static struct mt_engine_request s[N], r[N], others[4];
    uint32_t *finished = (uint32_t *)fix.shared->data[0][FIX_PROCESSES - 1];
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    int other = 1 - (int)fix.rank;
    if (calls) {
        make_patient(c);
    }
    for (uint32_t turn = 0; turn < 12; turn++) {
        bool sleeps = turn % 2 == fix.rank;
        struct mt_buffer b = flat(out, 8);
        /* long ones both ways, one that is answered, more than there are
         * credits for; sometimes the sleeper is late, sometimes the other */
        fill(out, sizeof(out), turn + fix.rank);
        fix_barrier();
        usleep(sleeps == (turn % 4 < 2) ? 2000 : 0);
        start_receive(c, &others[0], other, 0, in, sizeof(in));
        start_send(c, &others[1], other, 0, out, sizeof(out));
        EQ(mt_engine_send(c, &others[2], (int)fix.rank, 1,
                          MT_ENGINE_STANDARD, &b),
           MT_OK);
        EQ(mt_engine_send(c, &s[0], other, 1, MT_ENGINE_SYNCHRONOUS, &b),
           MT_OK);
        start_receive(c, &r[0], other, 1, small, 8);
        for (int i = 1; i < N; i++) {
            if (sleeps) {
                start_receive(c, &r[i], other, 2, &small[8 * i], 8);
            } else {
                start_send(c, &s[i], other, 2, &out[8 * i], 8);
            }
        }
        if (sleeps) {
            sleep_through(turn);
        }
        start_receive(c, &others[3], (int)fix.rank, 1, NULL, 0);
        fix_wait(&others[3]);
        for (int i = 0; i < 3; i++) {
            finish(&others[i]);
        }
        for (int i = 0; i < N; i++) {
            if (i == 0 || !sleeps) {
                finish(&s[i]);
            }
            if (i == 0 || sleeps) {
                finish(&r[i]);
            }
        }
        filled(in, sizeof(in), turn + (unsigned)other);
        if (sleeps) {
            filled(small, 8 * N, turn + (unsigned)other);
        } else {
            __atomic_store_n(finished, turn + 1, __ATOMIC_RELEASE);
        }
    }
    struct mt_engine_counts counts;
    mt_engine_count(fix.engine, &counts);
    CHECK(counts.thread_rounds > 0);
    mt_engine_context_close(c);
    fix_close();
}

static void run_elsewhere(void *argument)
{
    elsewhere(argument, false);
}

static void run_elsewhere_patient(void *argument)
{
    elsewhere(argument, true);
}

/* One process has begun nothing, and its thread sleeps; the other has more to
 * send than there are credits for. */
static void unexpected(const struct mt_engine_options *argument, bool calls)
{
    enum { N = 400, ASLEEP_US = 20000 };
    struct mt_engine_options o = *argument;
    static char out[8 * N], in[8 * N];
    static struct mt_engine_request requests[N];
    uint32_t *finished = (uint32_t *)fix.shared->data[0][FIX_PROCESSES - 1];
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    if (calls) {
        make_patient(c);
    }
    fill(out, sizeof(out), 1);
    fix_barrier();
    if (fix.rank == 0) {
        usleep(ASLEEP_US);
        for (int i = 0; i < N; i++) {
            start_send(c, &requests[i], 1, 0, &out[8 * i], 8);
        }
    } else {
        sleep_through(0);
        for (int i = 0; i < N; i++) {
            start_receive(c, &requests[i], 0, 0, &in[8 * i], 8);
        }
    }
    for (int i = 0; i < N; i++) {
        finish(&requests[i]);
    }
    if (fix.rank == 0) {
        __atomic_store_n(finished, 1, __ATOMIC_RELEASE);
    } else {
        filled(in, sizeof(in), 1);
    }
    mt_engine_context_close(c);
    fix_close();
}

static void run_unexpected(void *argument)
{
    unexpected(argument, false);
}

static void run_unexpected_patient(void *argument)
{
    unexpected(argument, true);
}

/* A call that waits sees to all that there is: the thread sleeps on, and is called when
 * the wait ends and a request is left. */
static void run_attended(void *argument)
{
    enum { N = 20 };
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    struct mt_engine_request r, s;
    struct mt_buffer nothing = flat(NULL, 0);
    int slept = 0, called = 0, timers = 0, stopped = 0;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    for (int i = 0; i < N; i++) {
        if (i == N / 2) {
            make_patient(c);
        }
        mt_engine_attend(fix.engine);
        mt_engine_attend(fix.engine); /* another thread of the program */
        until_asleep();
        EQ(mt_engine_send(c, &s, (int)fix.rank, 0, MT_ENGINE_SYNCHRONOUS,
                          &nothing),
           MT_OK);
        mt_engine_leave(fix.engine);
        slept += sleep_of_thread() == MT_ASLEEP;
        until_asleep();
        mt_engine_leave(fix.engine);
        called += sleep_of_thread() != MT_ASLEEP;
        if (i >= N / 2 && timer_is_set()) {
            timers++;
            mt_engine_attend(fix.engine);
            stopped += !timer_is_set();
            mt_engine_leave(fix.engine);
        }
        start_receive(c, &r, (int)fix.rank, 0, NULL, 0);
        finish(&r);
        finish(&s);
    }
    CHECK(slept > N / 2 && called > N / 2); /* now and then it is awake by itself */
    CHECK(timers > 0 && stopped > 0);
    mt_engine_context_close(c);
    fix_close();
}

/* A receive that is posted lets the thread sleep on: an event will tell of its
 * message. Now and then it is awake by itself. */
static void run_posted(void *argument)
{
    enum { N = 20 };
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static char in[8];
    static struct mt_engine_request r;
    int slept = 0;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    for (int i = 0; i < N && fix.engine->channel != NULL; i++) {
        until_asleep();
        start_receive(c, &r, 1 - (int)fix.rank, 0, in, sizeof(in));
        slept += sleep_of_thread() == MT_ASLEEP;
        EQ(fix.engine->posted, 1);
        mt_engine_cancel(&r);
        CHECK(mt_engine_done(&r) && r.cancelled);
        EQ(fix.engine->posted, 0);
    }
    CHECK(fix.engine->channel == NULL || slept > N / 2);
    fix_barrier();
    mt_engine_context_close(c);
    fix_close();
}

static struct mt_engine_counts counted(void)
{
    struct mt_engine_counts counts;
    mt_engine_count(fix.engine, &counts);
    return counts;
}

/* The thread sleeps until the other, for whom turn is, has sent n messages that nobody
 * waits for. Returns how many events it took. */
static uint64_t events_of(uint32_t *turn, uint64_t n)
{
    until_asleep();
    struct mt_engine_counts before = counted();
    __atomic_add_fetch(turn, 1, __ATOMIC_RELEASE);
    while (counted().unexpected_messages < before.unexpected_messages + n) {
        usleep(300);
        if (fix_now_ms() > fix.until_ms) {
            FAIL("a thread that listens does not find messages");
        }
    }
    return counted().thread_events - before.thread_events;
}

/* A message that asks for an answer makes an event for the thread of the other, and one
 * that asks for none does not. */
static void run_solicited(void *argument)
{
    enum { N = 3, SILENT = 3 };
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    struct mt_engine_request r;
    struct mt_buffer nothing = flat(NULL, 0);
    uint32_t *turn = (uint32_t *)fix.shared->data[0][FIX_PROCESSES - 1];
    int silent = 0, asked = 0;
    fix_open(&o);
    bool events = fix.engine->channel != NULL;
    struct mt_engine_context *c = fix_context(7);
    fix_barrier();
    for (uint32_t i = 0; i < 2 * N && events; i++) {
        bool asks = i >= N; /* an answer leaves the thread armed for all */
        uint32_t n = asks ? 1 : SILENT;
        if (fix.rank == 1) {
            uint64_t took = events_of(turn, n);
            silent += !asks && took == 0;
            asked += asks && took > 0;
        }
        while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) <= i) {
            fix_turn("the thread of the other to sleep");
        }
        for (uint32_t j = 0; j < n; j++) {
            if (fix.rank == 1) {
                start_receive(c, &r, 0, 0, NULL, 0);
            } else {
                EQ(mt_engine_send(c, &r, 1, 0,
                                  asks ? MT_ENGINE_SYNCHRONOUS
                                       : MT_ENGINE_STANDARD,
                                  &nothing),
                   MT_OK);
            }
            finish(&r);
        }
    }
    /* it may look by itself just when the message comes */
    CHECK(fix.rank == 0 || !events || (silent == N && asked > N / 2));
    fix_barrier();
    mt_engine_context_close(c);
    fix_close();
}

/* Many messages that each ask for an answer, one straight behind the other, make few
 * events: behind the first the thread looks for more before it waits again. */
static void run_burst(void *argument)
{
    enum { N = 3, BURST = 16, FEW = BURST / 4 };
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static struct mt_engine_request requests[BURST];
    struct mt_buffer nothing = flat(NULL, 0);
    uint32_t *turn = (uint32_t *)fix.shared->data[0][FIX_PROCESSES - 1];
    uint64_t took = 0;
    fix_open(&o);
    bool events = fix.engine->channel != NULL;
    struct mt_engine_context *c = fix_context(7);
    fix_barrier();
    for (uint32_t i = 0; i < N && events; i++) {
        if (fix.rank == 1) {
            took += events_of(turn, BURST);
        }
        while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) <= i) {
            fix_turn("the thread of the other to sleep");
        }
        for (uint32_t j = 0; j < BURST; j++) {
            if (fix.rank == 1) {
                start_receive(c, &requests[j], 0, 0, NULL, 0);
            } else {
                EQ(mt_engine_send(c, &requests[j], 1, 0, MT_ENGINE_SYNCHRONOUS,
                                  &nothing),
                   MT_OK);
            }
        }
        for (uint32_t j = 0; j < BURST; j++) {
            finish(&requests[j]);
        }
    }
    CHECK(fix.rank == 0 || !events || (took > 0 && took <= N * FEW));
    fix_barrier();
    mt_engine_context_close(c);
    fix_close();
}

/* One process sends less than usual, and is elsewhere: what it held back for the rest
 * leaves all the same. */
static void run_held(void *argument)
{
    enum { RUNS = 2, RUN = 4, MORE = 0, LAST = 1 };
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static char out[8], in[8];
    static struct mt_engine_request requests[RUN], r;
    uint32_t *finished = (uint32_t *)fix.shared->data[0][FIX_PROCESSES - 1];
    struct mt_engine_counts counts = {.ring_messages = 0};
    o.ring_bytes = 65536;
    fix_open(&o);
    fix.engine->hold_gap_ns = UINT64_MAX; /* whatever takes long here */
    struct mt_engine_context *c = fix_context(7);
    fix_barrier();
    while (fix.rank == 0 && counts.ring_messages == 0) {
        start_send(c, &r, 1, MORE, out, sizeof(out));
        finish(&r);
        fix_turn("a ring of the other");
        mt_engine_count(fix.engine, &counts);
    }
    if (fix.rank == 0) {
        for (int i = 0; i < RUNS * RUN; i++) {
            if (i % RUN == 0) {
                mt_engine_look(fix.engine);
            }
            start_send(c, &requests[i % RUN], 1, MORE, out, sizeof(out));
            CHECK(mt_engine_done(&requests[i % RUN])); /* else it is no run */
        }
        mt_engine_look(fix.engine);
        start_send(c, &requests[0], 1, MORE, out, sizeof(out));
        start_send(c, &requests[1], 1, LAST, out, sizeof(out));
        mt_engine_count(fix.engine, &counts);
        EQ(counts.coalesced_messages, 2);
        sleep_through(0);
    } else {
        do {
            start_receive(c, &r, 0, MT_ENGINE_ANY, in, sizeof(in));
            finish(&r);
        } while (r.tag == MORE);
        __atomic_store_n(finished, 1, __ATOMIC_RELEASE);
    }
    mt_engine_context_close(c);
    fix_close();
}

/* The other has sent many messages by a ring. Returns how much of it their receiver has
 * not told. */
static uint64_t take_many(struct mt_engine_context *c, uint32_t turn, int n)
{
    static char in[EAGER];
    struct mt_engine_request r;
    sleep_through(turn);
    for (int i = 0; i < n; i++) {
        start_receive(c, &r, 0, 0, in, sizeof(in));
        finish(&r);
    }
    const struct mt_path_ring_reader *ring = &fix.engine->peers[0].ring->in;
    return ring->head - ring->told;
}

/* Who reads a ring tells its writer of a quarter with the next message the other way,
 * or in a turn that finds nothing; also where no thread looks after it. */
static void run_told(void *argument)
{
    enum { N = 20, RING = 65536, TURNS = 40, QUARTER = RING / 4 };
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    static char out[EAGER], in[EAGER];
    struct mt_engine_request r, s;
    uint32_t *sent = (uint32_t *)fix.shared->data[0][FIX_PROCESSES - 1];
    int owed[2] = {0, 0}, other = 1 - (int)fix.rank;
    o.thread = false;
    o.ring_bytes = RING;
    fix_open(&o);
    fix.engine->hold_gap_ns = 0; /* a message leaves when it is sent */
    struct mt_engine_context *c = fix_context(7);
    for (int i = 0; i < 100; i++) { /* until there are rings */
        start_receive(c, &r, other, 0, in, sizeof(in));
        start_send(c, &s, other, 0, out, sizeof(out));
        finish(&s);
        finish(&r);
    }
    struct mt_engine_ring *ring = fix.engine->peers[other].ring;
    CHECK(ring != NULL && ring->in.memory != NULL && ring->out.memory != NULL);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        const bool idle = turn % 2 == 1;
        fix_barrier();
        for (int i = 0; i < N && fix.rank == 0; i++) {
            start_send(c, &s, 1, 0, out, sizeof(out));
            finish(&s);
        }
        if (fix.rank == 1) {
            bool owes = take_many(c, turn, N) >= QUARTER;
            if (!idle) {
                start_send(c, &s, 0, 0, NULL, 0);
            }
            while (idle && mt_engine_progress(fix.engine)) {
            }
            owed[idle] += owes && ring->in.told == ring->in.head;
            CHECK(ring->in.head - ring->in.told < QUARTER || ring->in.telling);
            if (idle) {
                start_send(c, &s, 0, 0, NULL, 0);
            }
            finish(&s);
        } else {
            __atomic_store_n(sent, turn + 1, __ATOMIC_RELEASE);
            start_receive(c, &r, 1, 0, NULL, 0);
            finish(&r);
            while (ring->out.tail - *(uint64_t *)ring->out.memory->address >=
                   QUARTER) {
                fix_turn("the other to tell what it has read");
            }
        }
    }
    CHECK(fix.rank == 0 || ring->in.word != NULL || (owed[0] > 0 && owed[1] > 0));
    fix_barrier();
    mt_engine_context_close(c);
    fix_close();
}

static bool waits_solicited(void)
{
    mt_engine_lock(fix.engine);
    bool waits = fix.engine->polls &&
                 fix.engine->waiting == MT_WAITING_SOLICITED;
    mt_engine_unlock(fix.engine);
    return waits;
}

/* Whether processes may read memory of others that are no children of theirs. */
static bool others_are_read(void)
{
    static int word;
    int copy;
    struct iovec to = {&copy, sizeof(copy)}, from = {&word, sizeof(word)};
    return process_vm_readv(getppid(), &to, 1, &from, 1, 0) == sizeof(word);
}

/* The thread waits for what a peer wants to be noticed while a receive begins to read:
 * over shared memory that is done at once, and so is told, although nobody calls. */
static void run_noted(void *argument)
{
    enum { N = 10, LONG = 100000 };
    static char out[LONG], in[LONG];
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    struct mt_engine_request unmatched, r, s;
    struct mt_buffer nothing = flat(NULL, 0);
    int at_once = 0;
    fix_open(&o);
    struct mt_engine_context *c = fix_context(7);
    fill(out, sizeof(out), 1);
    for (int i = 0; i < N; i++) {
        if (fix.rank == 0) {
            start_send(c, &s, 1, 1, out, sizeof(out));
            finish(&s); /* rank 1 makes no call meanwhile */
            start_receive(c, &r, 1, 0, NULL, 0);
            finish(&r);
        } else {
            EQ(mt_engine_send(c, &unmatched, 0, 0, MT_ENGINE_SYNCHRONOUS,
                              &nothing),
               MT_OK);
            while (counted().unexpected_messages <= (uint64_t)i ||
                   !waits_solicited()) {
                usleep(300);
                if (fix_now_ms() > fix.until_ms) {
                    FAIL("the thread does not wait for events");
                }
            }
            start_receive(c, &r, 0, 1, in, sizeof(in));
            at_once += mt_engine_done(&r);
            while (!mt_engine_done(&r)) {
                usleep(300);
                if (fix_now_ms() > fix.until_ms) {
                    FAIL("a message that is being read does not arrive");
                }
            }
            filled(in, sizeof(in), 1);
            finish(&r);
            finish(&unmatched);
        }
        fix_barrier();
    }
    /* now and then it is awake by itself */
    CHECK(fix.rank == 0 || at_once > N / 2 || !others_are_read());
    mt_engine_context_close(c);
    fix_close();
}

static uint32_t watched;

static void watch(void *user, const struct mt_engine *engine)
{
    struct mt_engine_counts counts;
    (void)user;
    mt_engine_count(engine, &counts);
    __atomic_fetch_add(&watched, 1, __ATOMIC_RELAXED);
}

/* Nothing happens, and the thread sleeps: whoever watches is called all the same,
 * and not after the end. */
static void run_watched(void *argument)
{
    struct mt_engine_options o = *(struct mt_engine_options *)argument;
    o.watch = watch;
    fix_open(&o);
    while (__atomic_load_n(&watched, __ATOMIC_RELAXED) < 3) {
        usleep(1000);
        if (fix_now_ms() > fix.until_ms) {
            FAIL("the thread calls nobody while it sleeps");
        }
    }
    fix_close();
    uint32_t before = __atomic_load_n(&watched, __ATOMIC_RELAXED);
    usleep(2000);
    EQ(__atomic_load_n(&watched, __ATOMIC_RELAXED), before);
}

int main(void)
{
    static const char *const devices[] = {"shm", "iwarp:lo"};
    bool right = true;
    for (unsigned i = 0; i < 2 * 3 * 3; i++) {
        struct mt_engine_options o = {
            .device = devices[i / 9],
            .fabric = {.engine = (enum mt_fabric_engine)(i / 3 % 3),
                       .engine_cpu = -1},
            .terms.eager_limit = EAGER,
            .terms.rendezvous = (enum mt_engine_rendezvous)(i % 3),
            .thread = true};
        char what[60];
        if (ALL_WAYS == 0 && (i / 9 + i / 3 + i) % 3 != 0) {
            continue;
        }
        snprintf(what, sizeof(what), "%s, engine %u, rendezvous %u", o.device,
                 i / 3 % 3, i % 3);
        right = fix_run(what, 2, run_elsewhere, &o) && right;
        right = fix_run(what, 2, run_unexpected, &o) && right;
        right = fix_run(what, 2, run_elsewhere_patient, &o) && right;
        right = fix_run(what, 2, run_unexpected_patient, &o) && right;
        right = fix_run(what, 2, run_attended, &o) && right;
        bool stores = i / 9 == 0 && o.fabric.engine == MT_FABRIC_ENGINE_INLINE;
        if (!stores) { /* into the ring, where nothing is held back */
            right = fix_run(what, 2, run_held, &o) && right;
        }
        right = fix_run(what, 2, run_told, &o) && right;
        right = fix_run(what, 2, run_watched, &o) && right;
        right = fix_run(what, 2, run_posted, &o) && right;
        right = fix_run(what, 2, run_solicited, &o) && right;
        right = fix_run(what, 2, run_burst, &o) && right;
        if (stores && o.terms.rendezvous == MT_ENGINE_RGET) {
            right = fix_run(what, 2, run_noted, &o) && right;
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct mt_engine_options o = {.device = devices[i % 2],
                                      .fabric.engine_cpu = -1,
                                      .terms.eager_limit = EAGER,
                                      .datagrams = {.first = true,
                                                    .connections = i / 2,
                                                    .after = 100},
                                      .thread = true};
        right = fix_run("datagrams first", 2, run_elsewhere, &o) && right;
        right = fix_run("datagrams first", 2, run_unexpected, &o) && right;
        right = fix_run("datagrams first", 2, run_elsewhere_patient, &o) && right;
        right = fix_run("datagrams first", 2, run_unexpected_patient, &o) && right;
    }
    return !right;
}
