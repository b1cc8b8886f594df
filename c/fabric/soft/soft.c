/* soft.c: lock, engine thread and events of a software context. */
#define _GNU_SOURCE 1
#include "soft.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct mt_fabric_caps mt_soft_caps(void)
{
    return (struct mt_fabric_caps){
        .transports = MT_FABRIC_RC | MT_FABRIC_UD,
        .rc_operations = MT_FABRIC_SEND | MT_FABRIC_WRITE |
                         MT_FABRIC_WRITE_WITH_IMM | MT_FABRIC_READ,
        .ud_operations = MT_FABRIC_SEND,
        .notify = MT_FABRIC_NOTIFY_FLAG_WRITE | MT_FABRIC_NOTIFY_IMM |
                  MT_FABRIC_NOTIFY_SEND,
        .max_pieces = MT_SOFT_PIECES,
        .max_inline = MT_SOFT_INLINE,
        .max_depth = 1 << 15,
        .max_message = 1 << 30,
        .srq = true,
        .implicit = true};
}

/* The holder may have lost its processor to us: spin briefly, then yield. */
enum { MT_SOFT_SPINS = 100 };

void mt_soft_lock_slow(struct mt_soft_context *context)
{
    uint32_t free_lock = 0;
    for (unsigned n = 1;
         !__atomic_compare_exchange_n(&context->lock, &free_lock, 1, false,
                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
         n++) {
        free_lock = 0;
        if (n % MT_SOFT_SPINS == 0) {
            sched_yield();
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

uint64_t mt_soft_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void mt_soft_doze(struct mt_soft_context *context)
{
    if (mt_likely(!mt_soft_sleeps(context)) || context->timer < 0) {
        return;
    }
    uint64_t now = mt_soft_now();
    uint64_t at = now + MT_SOFT_TICK_MS * UINT64_C(1000000);
    if (context->timer_at > now) {
        return; /* it wakes soon enough */
    }
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(at / UINT64_C(1000000000)),
                     .tv_nsec = (long)(at % UINT64_C(1000000000))}};
    timerfd_settime(context->timer, TFD_TIMER_ABSTIME, &when, NULL);
    context->timer_at = at;
}

/* The thread that stands for a NIC. It never sleeps while there is work, and
 * yields where there is none: the caller asked for a processor of its own. */
static void *mt_soft_engine(void *argument)
{
    struct mt_soft_context *context = argument;
    unsigned idle = 0;
    while (!__atomic_load_n(&context->closing, __ATOMIC_ACQUIRE)) {
        mt_soft_lock(context);
        bool moved = context->progress(context);
        idle = moved ? 0 : idle + 1;
        context->yields = idle > MT_SOFT_SPINS;
        mt_soft_unlock(context);
        if (idle > MT_SOFT_SPINS) {
            sched_yield();
        }
    }
    return NULL;
}

static enum mt_status mt_soft_engine_start(struct mt_soft_context *context,
                                           int cpu)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error == 0 && cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)cpu, &set);
        error = pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
    }
    if (error == 0) {
        sigset_t all, before; /* the application's signals are not for it */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&context->engine, &attributes, mt_soft_engine,
                               context);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    context->has_engine = error == 0;
    return error == 0 ? MT_OK : error == EINVAL ? MT_EINVAL : MT_ENOMEM;
}

enum mt_status mt_soft_start(struct mt_soft_context *context,
                             const struct mt_fabric_options *options,
                             uint32_t qp_limit)
{
    context->base.options = *options;
    context->locked =
        options->threads || options->engine == MT_FABRIC_ENGINE_THREAD;
    context->qp_limit = qp_limit;
    context->event_fd = context->timer = -1;
    context->qps = calloc(qp_limit, sizeof(*context->qps));
    if (context->qps == NULL) {
        return MT_ENOMEM;
    }
    enum mt_status status =
        options->engine == MT_FABRIC_ENGINE_THREAD
            ? mt_soft_engine_start(context, options->engine_cpu)
            : MT_OK;
    if (status != MT_OK) {
        free(context->qps);
        context->qps = NULL;
    }
    return status;
}

void mt_soft_stop(struct mt_soft_context *context)
{
    if (context->has_engine) {
        __atomic_store_n(&context->closing, true, __ATOMIC_RELEASE);
        pthread_join(context->engine, NULL);
        context->has_engine = false;
    }
    if (context->qps == NULL) {
        return; /* it was not begun */
    }
    if (context->event_fd >= 0) {
        close(context->event_fd);
    }
    if (context->timer >= 0) {
        close(context->timer);
    }
    free(context->qps);
    context->qps = NULL;
}

static void mt_event_signal(const struct mt_soft_context *context)
{
    const uint64_t one = 1;
    if (context->event_fd >= 0) {
        ssize_t n = write(context->event_fd, &one, sizeof(one));
        (void)n; /* full: it is readable, which is all that is wanted */
    }
}

void mt_soft_event(struct mt_soft_context *context,
                   const struct mt_fabric_event *event)
{
    if (context->event_tail - context->event_head < MT_SOFT_EVENTS) {
        context->events[context->event_tail++ % MT_SOFT_EVENTS] = *event;
        mt_event_signal(context);
    } else {
        context->events_lost++;
    }
}

int mt_soft_event_fd(struct mt_fabric_context *base)
{
    struct mt_soft_context *context = (struct mt_soft_context *)base;
    mt_soft_lock(context);
    if (context->event_fd < 0) {
        context->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (context->event_head != context->event_tail) {
            mt_event_signal(context);
        }
    }
    int fd = context->event_fd;
    mt_soft_unlock(context);
    return fd;
}

/* What was lost comes behind what was there before it. */
static bool mt_event_next(struct mt_soft_context *context,
                          struct mt_fabric_event *event_p)
{
    if (context->event_head != context->event_tail) {
        *event_p = context->events[context->event_head++ % MT_SOFT_EVENTS];
        return true;
    }
    if (context->events_lost > 0) {
        *event_p = (struct mt_fabric_event){.kind = MT_FABRIC_EVENT_LOST,
                                            .count = context->events_lost};
        context->events_lost = 0;
        return true;
    }
    return false;
}

enum mt_status mt_soft_event_take(struct mt_fabric_context *base,
                                  struct mt_fabric_event *event_p)
{
    struct mt_soft_context *context = (struct mt_soft_context *)base;
    mt_soft_lock(context);
    bool any = mt_event_next(context, event_p);
    if (context->event_fd >= 0 && context->event_head == context->event_tail &&
        context->events_lost == 0) {
        uint64_t count;
        ssize_t n = read(context->event_fd, &count, sizeof(count));
        (void)n;
    }
    mt_soft_unlock(context);
    return any ? MT_OK : MT_EAGAIN;
}

enum mt_status mt_soft_pd_create(struct mt_fabric_context *context,
                                 struct mt_fabric_pd **pd_p)
{
    struct mt_fabric_pd *pd = calloc(1, sizeof(*pd));
    if (pd == NULL) {
        return MT_ENOMEM;
    }
    pd->ops = context->ops;
    *pd_p = pd;
    return MT_OK;
}

void mt_soft_pd_destroy(struct mt_fabric_pd *pd)
{
    free(pd);
}
