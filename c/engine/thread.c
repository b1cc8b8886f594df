/* thread.c: progress while the program is elsewhere: in a call of its MPI
 * library, or computing. The thread
 *
 *   sleeps   while nobody depends on this process, and while receives wait for
 *            their messages, until a request begins or an event tells of what
 *            a peer wants to be noticed;
 *   naps     while somebody else makes progress, and longer the longer; and while
 *            messages are held back, which it sends when that is long (hold.c);
 *   waits    for an event of the device otherwise: of what a peer wants to be
 *            noticed (RTS and what else asks for an answer), or of a READ; then
 *            it polls until nothing comes any more, before it waits again, so
 *            that many messages make one event (Sur and others, PPoPP 2006).
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
#include <time.h>
#include <unistd.h>

enum {
    MT_NAP_NS = 100000,
    MT_NAP_MOST_NS = 1600000,
    MT_SPINS = 16, /* rounds in a nap of somebody who waits in a call, .. */
    MT_SPUN = 2,   /* .. and in so many naps, for long */
    MT_DRAIN_ROUNDS = 64,   /* with the lock, at once */
    MT_WAIT_MOST_MS = 100,  /* should an event be lost, or none exist */
    MT_WATCH_NS = 100000000,
};

static void mt_thread_wake(const struct mt_engine *engine)
{
    const uint64_t one = 1;
    ssize_t n = write(engine->wake_fd, &one, sizeof(one));
    (void)n; /* full: it is readable, which is all that is wanted */
}

void mt_engine_wake(struct mt_engine *engine)
{
    if (__atomic_exchange_n(&engine->asleep, 0, __ATOMIC_RELAXED) != 0) {
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

/* Until fd or wake_fd is readable. */
static void mt_thread_poll(struct mt_engine *engine, int fd, int timeout_ms)
{
    struct pollfd fds[2] = {{.fd = engine->wake_fd, .events = POLLIN},
                            {.fd = fd, .events = POLLIN}};
    if (poll(fds, fd >= 0 ? 2 : 1, timeout_ms) > 0 && fds[0].revents != 0) {
        uint64_t count;
        ssize_t n = read(engine->wake_fd, &count, sizeof(count));
        (void)n;
    }
}

/* Polls until nothing comes any more; under the lock, which others may want in
 * between. */
static void mt_thread_drain(struct mt_engine *engine)
{
    for (uint32_t n = 1; mt_engine_round(engine); n++) {
        engine->counts.thread_rounds++;
        if (n % MT_DRAIN_ROUNDS == 0) {
            mt_engine_unlock(engine);
            sched_yield();
            mt_engine_lock(engine);
        }
    }
}

void mt_thread_arm(struct mt_engine *engine, bool solicited)
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

/* Behind an event, or where none came for a while. */
static void mt_thread_woken(struct mt_engine *engine)
{
    mt_engine_lock(engine);
    engine->waiting = MT_WAITING_NOT;
    engine->polls = false;
    engine->counts.thread_events += mt_thread_take(engine);
    mt_thread_drain(engine);
    mt_device_look(engine);
    mt_engine_unlock(engine);
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
    mt_engine_lock(engine);
    /* what has to leave waits for credits, which any message may bring */
    bool moved = mt_thread_begin(engine, engine->busy == NULL);
    engine->counts.thread_rounds += moved;
    int wait_ms = mt_thread_may_wait(engine);
    engine->polls = !moved && engine->holding == NULL;
    bool polls = engine->polls;
    mt_engine_unlock(engine);
    if (polls) {
        mt_thread_poll(engine, mt_fabric_channel_fd(engine->channel), wait_ms);
    }
    mt_thread_woken(engine);
}

/* Until somebody depends on this process: a request began here, or a peer has
 * run out of credits, and its last message says so by an event. Who begins a
 * request took the engine's lock after this function did, and sees asleep, or
 * before, and is seen here. True: it was a request of this process. */
static bool mt_thread_sleep(struct mt_engine *engine)
{
    bool moved = false;
    int fd = -1;
    __atomic_store_n(&engine->asleep, 1, __ATOMIC_RELAXED);
    mt_engine_lock(engine);
    bool idle = mt_engine_works(engine) == 0;
    if (idle && mt_engine_channel(engine) != NULL) {
        moved = mt_thread_begin(engine, true);
        fd = mt_fabric_channel_fd(engine->channel);
    }
    __atomic_store_n(&engine->lock, 0, __ATOMIC_RELEASE);
    if (idle && !moved &&
        __atomic_load_n(&engine->closing, __ATOMIC_ACQUIRE) == 0) {
        mt_thread_poll(engine, fd, MT_WAIT_MOST_MS);
    }
    bool woken =
        __atomic_exchange_n(&engine->asleep, 0, __ATOMIC_RELAXED) == 0;
    mt_thread_woken(engine);
    return woken || !idle;
}

/* A look at what there is to do. */
static void mt_thread_serve(struct mt_engine *engine)
{
    if (mt_engine_channel(engine) != NULL) {
        mt_thread_wait(engine);
        return;
    }
    mt_engine_lock(engine);
    mt_thread_drain(engine);
    mt_device_look(engine);
    mt_engine_unlock(engine);
}

static void mt_thread_watched(struct mt_engine *engine, uint64_t *last_ns)
{
    uint64_t now = engine->o.watch != NULL ? mt_engine_now_ns() : 0;
    if (now - *last_ns >= MT_WATCH_NS) {
        *last_ns = now;
        engine->o.watch(engine->o.user, engine);
    }
}

/* Sends what has been held back for long. True: something else is held. */
static bool mt_thread_release(struct mt_engine *engine)
{
    bool held = __atomic_load_n(&engine->holding, __ATOMIC_RELAXED) != NULL;
    if (held) {
        mt_engine_lock(engine);
        held = mt_hold_late(engine, mt_engine_now_ns());
        mt_engine_unlock(engine);
    }
    return held;
}

static void *mt_thread_main(void *argument)
{
    struct mt_engine *engine = argument;
    uint64_t watched_ns = 0;
    struct timespec nap = {.tv_nsec = MT_NAP_NS};
    uint32_t rounds = 0, spun = 0;
    bool naps = true;
    while (__atomic_load_n(&engine->closing, __ATOMIC_ACQUIRE) == 0) {
        mt_thread_watched(engine, &watched_ns);
        if (naps) {
            nanosleep(&nap, NULL);
        }
        uint32_t now = __atomic_load_n(&engine->rounds, __ATOMIC_RELAXED);
        bool others = now != rounds;
        bool holding = mt_thread_release(engine);
        bool works = mt_engine_works(engine) > 0;
        spun = now - rounds >= MT_SPINS ? spun + 1 : 0;
        rounds = now;
        naps = others || !works || holding || mt_engine_channel(engine) == NULL;
        nap.tv_nsec = !others || holding ? MT_NAP_NS
                      : spun >= MT_SPUN || nap.tv_nsec > MT_NAP_MOST_NS / 2
                          ? MT_NAP_MOST_NS
                          : 2 * nap.tv_nsec;
        if (!works && !others) {
            bool began = mt_thread_sleep(engine);
            naps = began || mt_engine_owes(engine) == 0 ||
                   mt_engine_channel(engine) == NULL;
            if (began) { /* and what began it has gone on with */
                rounds = __atomic_load_n(&engine->rounds, __ATOMIC_RELAXED);
            }
        } else if (works && !others && !holding) {
            mt_thread_serve(engine);
        }
    }
    return NULL;
}

enum mt_status mt_thread_start(struct mt_engine *engine)
{
    sigset_t all, before;
    engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->wake_fd < 0) {
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
        close(engine->wake_fd);
    }
    return engine->has_thread ? MT_OK : MT_ENOMEM;
}

void mt_thread_stop(struct mt_engine *engine)
{
    if (!engine->has_thread) {
        return;
    }
    __atomic_store_n(&engine->closing, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&engine->asleep, 1, __ATOMIC_RELAXED);
    mt_engine_wake(engine);
    pthread_join(engine->thread, NULL);
    close(engine->wake_fd);
    engine->has_thread = false;
}
