/* soft.c: lock, engine thread, pacing and events of a software context. */
#define _GNU_SOURCE 1
#include "soft.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

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

bool mt_soft_pace(struct mt_soft_context *context, uint64_t bytes)
{
    uint64_t rate = context->base.options.bits_per_second;
    if (mt_likely(rate == 0)) {
        return true;
    }
    uint64_t now = mt_soft_now();
    if (now < context->paced_until) {
        return false;
    }
    context->paced_until =
        now + (uint64_t)((double)bytes * 8e9 / (double)rate);
    return true;
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
        mt_soft_unlock(context);
        idle = moved ? 0 : idle + 1;
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
    free(context->qps);
    context->qps = NULL;
}

void mt_soft_event(struct mt_soft_context *context,
                   const struct mt_fabric_event *event)
{
    if (context->event_tail - context->event_head < MT_SOFT_EVENTS) {
        context->events[context->event_tail++ % MT_SOFT_EVENTS] = *event;
    }
}

enum mt_status mt_soft_event_take(struct mt_fabric_context *base,
                                  struct mt_fabric_event *event_p)
{
    struct mt_soft_context *context = (struct mt_soft_context *)base;
    mt_soft_lock(context);
    bool any = context->event_head != context->event_tail;
    if (any) {
        *event_p = context->events[context->event_head++ % MT_SOFT_EVENTS];
    }
    mt_soft_unlock(context);
    return any ? MT_OK : MT_EAGAIN;
}
