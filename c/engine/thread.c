/* thread.c: progress while the program is elsewhere: in a call of its MPI
 * library, or computing. The thread
 *
 *   sleeps   while nobody depends on this process, or a call waits that goes on with
 *            everything; until a request begins, or such a wait ends and requests
 *            are left;
 *   naps     while somebody else makes progress, and longer the longer; and while
 *            messages are held back, which it sends when that is long (hold.c);
 *   waits    for an event of the device otherwise: of what a peer wants to be
 *            noticed (RTS and what else asks for an answer), or of a READ; then
 *            it polls until nothing comes any more, before it waits again, so
 *            that many messages make one event (Sur and others, PPoPP 2006).
 *
 * While it sleeps it listens, that is events of the device wake it, and whoever begins a
 * request wakes it at once, as long as that is of use: the program stays away. It is
 * patient where the program comes back at once, time after time, since a wake takes as
 * long as a message: then whoever begins a request sets a timer, and messages that
 * nobody waits for are left where they are, but for a look now and then. If that finds
 * many, their sender may have no credits left, and it listens.
 *
 * Where a device has no events it naps instead of waiting. It says nothing but that
 * the device is lost, never spins, and touches the engine only, but for whoever
 * watches. */
#include "inside.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    MT_NAP_NS = 100000,
    MT_NAP_MOST_NS = 1600000,
    MT_SPINS = 16, /* rounds in a nap of somebody who waits in a call, .. */
    MT_SPUN = 2,   /* .. and in so many naps, for long */
    MT_DRAIN_ROUNDS = 16,   /* with the lock, at once */
    MT_WAIT_MOST_MS = 100,  /* should an event be lost, or none exist */
    MT_LOOK_MS = 10,        /* between two looks of who does not listen */
    MT_PATIENCE_NS = 1600000, /* until it answers a call, .. */
    MT_VAIN = 4,              /* .. after so many answers in vain */
    MT_FLOOD = 4, /* messages that a look finds, and their sender may have no credits */
    MT_WATCH_NS = 100000000,
};

static void mt_thread_wake(const struct mt_engine *engine)
{
    const uint64_t one = 1;
    ssize_t n = write(engine->wake_fd, &one, sizeof(one));
    (void)n; /* full: it is readable, which is all that is wanted */
}

/* ns 0: never. */
static void mt_thread_timer(const struct mt_engine *engine, long ns)
{
    const struct itimerspec at = {.it_value.tv_nsec = ns};
    timerfd_settime(engine->timer_fd, 0, &at, NULL);
}

static bool mt_thread_patient(const struct mt_engine *engine)
{
    return __atomic_load_n(&engine->patient, __ATOMIC_RELAXED);
}

void mt_thread_call(struct mt_engine *engine)
{
    uint32_t asleep = MT_ASLEEP;
    uint32_t rounds = __atomic_load_n(&engine->rounds, __ATOMIC_RELAXED);
    __atomic_store_n(&engine->rounds_called, rounds, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n(&engine->sleep, &asleep, MT_CALLED, false,
                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        return; /* another thread has called */
    }
    if (mt_thread_patient(engine)) {
        mt_thread_timer(engine, MT_PATIENCE_NS);
    } else {
        mt_thread_wake(engine);
    }
}

void mt_thread_watches(struct mt_engine *engine)
{
    if (mt_unlikely(engine->polls)) {
        engine->polls = false;
        mt_thread_wake(engine);
    }
}

void mt_engine_attend(struct mt_engine *engine)
{
    uint32_t called = MT_CALLED;
    __atomic_fetch_add(&engine->attended, 1, __ATOMIC_RELAXED);
    if (mt_thread_patient(engine) &&
        __atomic_compare_exchange_n(&engine->sleep, &called, MT_ASLEEP, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        mt_thread_timer(engine, 0);
    }
}

void mt_engine_leave(struct mt_engine *engine)
{
    __atomic_fetch_sub(&engine->attended, 1, __ATOMIC_RELAXED);
    mt_engine_lock(engine); /* see there: the thread sleeps, or saw that we left */
    mt_engine_unlock(engine);
}

static bool mt_thread_attended(const struct mt_engine *engine)
{
    return __atomic_load_n(&engine->attended, __ATOMIC_RELAXED) > 0;
}

static void mt_thread_clear(const struct pollfd *fd)
{
    uint64_t count;
    ssize_t n = fd->revents != 0 ? read(fd->fd, &count, sizeof(count)) : 0;
    (void)n;
}

/* Until somebody wakes the thread, the timer expires or fd is readable, which
 * it returns. */
static bool mt_thread_poll(struct mt_engine *engine, int fd, int timeout_ms)
{
    struct pollfd fds[3] = {{.fd = engine->wake_fd, .events = POLLIN},
                            {.fd = engine->timer_fd, .events = POLLIN},
                            {.fd = fd, .events = POLLIN}};
    if (poll(fds, fd >= 0 ? 3 : 2, timeout_ms) <= 0) {
        return false;
    }
    mt_thread_clear(&fds[0]);
    mt_thread_clear(&fds[1]);
    return fds[2].revents != 0;
}

/* Polls until nothing comes any more, or the program does so itself: what comes
 * meanwhile may be for receives that it is just about to post. Under the lock, which
 * others may want in between. */
static void mt_thread_drain(struct mt_engine *engine)
{
    uint32_t rounds = engine->rounds;
    for (uint32_t n = 1; mt_engine_round(engine) && engine->rounds == rounds; n++) {
        engine->counts.thread_rounds++;
        if (n % MT_DRAIN_ROUNDS == 0 || engine->moved_much) {
            engine->moved_much = false;
            mt_engine_unlock_aside(engine);
            sched_yield();
            mt_engine_lock_aside(engine);
        }
    }
}

static void mt_thread_arm(struct mt_engine *engine, bool solicited)
{
    const struct mt_rail *rail = &engine->rails.rails[0];
    engine->waiting = solicited ? MT_WAITING_SOLICITED : MT_WAITING_ALL;
    mt_fabric_cq_arm(rail->receive_cq, solicited);
    if (!solicited) {
        mt_fabric_cq_arm(rail->send_cq, false);
    }
}

/* All events that have come. Returns how many. */
static uint32_t mt_thread_take(const struct mt_engine *engine)
{
    struct mt_fabric_cq *cq;
    uint32_t n = 0;
    while (mt_engine_channel(engine) != NULL &&
           mt_fabric_channel_take(engine->channel, &cq) == MT_OK) {
        n++;
    }
    return n;
}

/* Under the lock: what comes from now on makes an event. What came before is found
 * by a round; the events of what others have polled meanwhile are of no use, and
 * would end the wait at once. */
static bool mt_thread_begin(struct mt_engine *engine, bool solicited)
{
    mt_thread_take(engine);
    mt_thread_arm(engine, solicited);
    return mt_engine_round(engine);
}

/* Under the lock of who noted something, for the thread that waits: what came before
 * makes no event, so it is looked for, as the thread would. The thread does the rest
 * where that is much: who calls is kept no longer than it has to be. */
void mt_thread_noted(struct mt_engine *engine)
{
    engine->noted = engine->moved_much = false;
    mt_thread_arm(engine, false);
    for (int n = 1; mt_engine_round(engine); n++) {
        if (n == MT_DRAIN_ROUNDS || engine->moved_much) {
            mt_thread_watches(engine);
            break;
        }
    }
}

/* Behind an event, or where none came for a while. Returns how many messages came
 * that nobody waited for. */
static uint64_t mt_thread_woken(struct mt_engine *engine)
{
    mt_engine_lock_aside(engine);
    uint64_t before = engine->counts.unexpected_messages;
    if (engine->waiting != MT_WAITING_NOT) { /* to take costs system calls */
        engine->counts.thread_events += mt_thread_take(engine);
    }
    engine->waiting = MT_WAITING_NOT;
    engine->polls = false;
    mt_thread_drain(engine);
    mt_device_look(engine);
    uint64_t found = engine->counts.unexpected_messages - before;
    mt_engine_unlock_aside(engine);
    return found;
}

/* Datagrams have to be acknowledged, or repeated, when it is time. What is due and
 * could not be done has to wait, too. */
static int mt_thread_may_wait(const struct mt_engine *engine)
{
    uint64_t due =
        mt_datagrams_first(engine) ? mt_connect_due(engine) : UINT64_MAX;
    uint64_t now = due != UINT64_MAX ? mt_path_now_ns() : 0;
    uint64_t ms = due > now ? (due - now) / 1000000 + 1 : 1;
    return ms < MT_WAIT_MOST_MS ? (int)ms : MT_WAIT_MOST_MS;
}

/* One event, or nothing for a while. */
static void mt_thread_wait(struct mt_engine *engine)
{
    mt_engine_lock_aside(engine);
    /* what has to leave waits for credits, which any message may bring */
    bool moved = mt_thread_begin(engine, engine->busy == NULL);
    engine->counts.thread_rounds += moved;
    int wait_ms = mt_thread_may_wait(engine);
    engine->polls = !moved && engine->holding == NULL;
    bool polls = engine->polls;
    mt_engine_unlock_aside(engine);
    if (polls) {
        mt_thread_poll(engine, mt_fabric_channel_fd(engine->channel), wait_ms);
    }
    mt_thread_woken(engine);
}

/* What the thread remembers from one look to the next. */
struct mt_thread {
    uint64_t watched_ns;
    uint32_t rounds; /* at the last look */
    uint32_t spun;   /* naps with many rounds */
    uint32_t vain;   /* wakes, one behind the other */
    bool naps;
    bool woken; /* the next look says whether that was of use */
    bool flood;
};

/* Under the lock: what somebody depends on the thread for, or what wakes it. Returns
 * whether it may sleep. */
static bool mt_thread_lies_down(struct mt_engine *engine, bool listens)
{
    __atomic_store_n(&engine->listens, listens, __ATOMIC_RELAXED);
    return !mt_engine_calls(engine) &&
           !(listens && mt_thread_begin(engine, true)) &&
           __atomic_load_n(&engine->closing, __ATOMIC_ACQUIRE) == 0;
}

/* Until somebody depends on this process. Who begins a request, or leaves a wait, took
 * the engine's lock after this function did, and sees that the thread sleeps, or
 * before, and is seen here. */
static void mt_thread_sleep(struct mt_engine *engine, struct mt_thread *t)
{
    bool event = false, patient = mt_thread_patient(engine);
    uint32_t rounds = __atomic_load_n(&engine->rounds, __ATOMIC_RELAXED);
    __atomic_store_n(&engine->sleep, MT_ASLEEP, __ATOMIC_RELAXED);
    mt_engine_lock_aside(engine);
    uint64_t before = engine->counts.unexpected_messages;
    bool listens = !mt_thread_attended(engine) &&
                   mt_engine_channel(engine) != NULL &&
                   (!patient || t->flood || mt_datagrams_first(engine));
    bool sleeps = mt_thread_lies_down(engine, listens);
    uint64_t found = engine->counts.unexpected_messages - before;
    mt_lock_give_aside(&engine->lock);
    if (sleeps) {
        event = mt_thread_poll(
            engine, listens ? mt_fabric_channel_fd(engine->channel) : -1,
            listens ? MT_WAIT_MOST_MS : MT_LOOK_MS);
    }
    bool called = __atomic_exchange_n(&engine->sleep, MT_AWAKE,
                                      __ATOMIC_RELAXED) == MT_CALLED;
    bool alone = !called && !mt_thread_attended(engine) &&
                 rounds == __atomic_load_n(&engine->rounds, __ATOMIC_RELAXED);
    if (listens || alone) {
        found += mt_thread_woken(engine);
    }
    t->flood = found >= MT_FLOOD || (t->flood && found > 0);
    t->woken = called || event || !sleeps;
    t->naps = t->woken && !(called && patient);
    t->rounds = __atomic_load_n(called && patient ? &engine->rounds_called
                                                  : &engine->rounds,
                                __ATOMIC_RELAXED);
}

/* At the first look behind a sleep. */
static void mt_thread_judge(struct mt_engine *engine, struct mt_thread *t,
                            bool away)
{
    t->vain = away ? 0 : t->vain + t->woken;
    if (t->woken) {
        __atomic_store_n(&engine->patient, t->vain >= MT_VAIN,
                         __ATOMIC_RELAXED);
        t->woken = false;
    }
}

/* A look at what there is to do. */
static void mt_thread_serve(struct mt_engine *engine)
{
    if (mt_engine_channel(engine) != NULL) {
        mt_thread_wait(engine);
        return;
    }
    mt_engine_lock_aside(engine);
    mt_thread_drain(engine);
    mt_device_look(engine);
    mt_engine_unlock_aside(engine);
}

static void mt_thread_watched(struct mt_engine *engine, struct mt_thread *t)
{
    uint64_t now = engine->o.watch != NULL ? mt_engine_now_ns() : 0;
    if (now - t->watched_ns >= MT_WATCH_NS) {
        t->watched_ns = now;
        engine->o.watch(engine->o.user, engine);
    }
}

/* Sends what has been held back for long. True: something else is held. */
static bool mt_thread_release(struct mt_engine *engine)
{
    bool held = __atomic_load_n(&engine->holding, __ATOMIC_RELAXED) != NULL;
    if (held) {
        mt_engine_lock_aside(engine);
        held = mt_hold_late(engine, mt_engine_now_ns());
        mt_engine_unlock_aside(engine);
    }
    return held;
}

static void *mt_thread_main(void *argument)
{
    struct mt_engine *engine = argument;
    struct mt_thread t = {.naps = true};
    struct timespec nap = {.tv_nsec = MT_NAP_NS};
    while (__atomic_load_n(&engine->closing, __ATOMIC_ACQUIRE) == 0) {
        mt_thread_watched(engine, &t);
        if (t.naps) {
            nanosleep(&nap, NULL);
        }
        uint32_t now = __atomic_load_n(&engine->rounds, __ATOMIC_RELAXED);
        bool others = now != t.rounds;
        bool holding = mt_thread_release(engine);
        bool attended = mt_thread_attended(engine);
        bool owes = mt_engine_owes(engine) > 0;
        t.spun = now - t.rounds >= MT_SPINS ? t.spun + 1 : 0;
        t.rounds = now;
        t.naps = others || holding || mt_engine_channel(engine) == NULL;
        nap.tv_nsec = !others || holding || attended ? MT_NAP_NS
                      : t.spun >= MT_SPUN || nap.tv_nsec > MT_NAP_MOST_NS / 2
                          ? MT_NAP_MOST_NS
                          : 2 * nap.tv_nsec;
        mt_thread_judge(engine, &t, owes && !others && !attended);
        if (attended || (!owes && (!others || mt_thread_patient(engine)))) {
            mt_thread_sleep(engine, &t);
        } else if (!others && !holding) {
            mt_thread_serve(engine);
        }
    }
    return NULL;
}

static void mt_thread_close(const struct mt_engine *engine)
{
    const int fds[] = {engine->wake_fd, engine->timer_fd};
    for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

enum mt_status mt_thread_start(struct mt_engine *engine)
{
    sigset_t all, before;
    engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->timer_fd =
        timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (engine->wake_fd < 0 || engine->timer_fd < 0) {
        mt_thread_close(engine);
        mt_path_say(engine->o.say, engine->o.user,
                    "no descriptor for the engine's thread: raise ulimit -n");
        return MT_ENOMEM;
    }
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    engine->has_thread =
        pthread_create(&engine->thread, NULL, mt_thread_main, engine) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!engine->has_thread) {
        mt_path_say(engine->o.say, engine->o.user,
                    "the engine's thread could not be started: raise ulimit -u "
                    "or -v");
        mt_thread_close(engine);
    }
    return engine->has_thread ? MT_OK : MT_ENOMEM;
}

void mt_thread_stop(struct mt_engine *engine)
{
    if (!engine->has_thread) {
        return;
    }
    __atomic_store_n(&engine->closing, 1, __ATOMIC_RELEASE);
    mt_thread_wake(engine);
    pthread_join(engine->thread, NULL);
    mt_thread_close(engine);
    engine->has_thread = false;
}
