//go:build ignore

/*
 * ucxnap.c - lets MPICH over UCX run with more ranks than processors.
 *
 * Debian's MPICH polls without ever giving the processor away: 4 ranks on
 * 2 processors need 28 s for a collective test that takes 0.5 s otherwise.
 * Preloaded behind the shim, this library interposes the progress function
 * that the wait loops call and naps after a run of calls that found nothing
 * to do. It changes no data and no order. Each thread counts for itself.
 *
 * Build (the first line keeps the Go tool away from this file):
 *   cc -O2 -fPIC -shared -o libucxnap.so ucxnap.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

/* Calls without progress before a nap, and the length of the nap. */
#define IDLE_CALLS 64
#define NAP_NS 5000

typedef unsigned (*progress_fn)(void *worker);

static progress_fn real_progress;
static __thread unsigned idle_calls;

__attribute__((constructor)) static void ucxnap_init(void)
{
    real_progress = (progress_fn)dlsym(RTLD_NEXT, "ucp_worker_progress");
}

static __attribute__((noinline, cold)) void ucxnap_nap(void)
{
    /* with the default timer slack this is a nap of about 55 us, so that an
     * idle rank takes a twentieth of a processor */
    struct timespec nap = {.tv_sec = 0, .tv_nsec = NAP_NS};

    nanosleep(&nap, NULL);
}

unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
    unsigned events;

    if (real_progress == NULL) {
        /* libucp came later than this library, with dlopen */
        ucxnap_init();
        if (real_progress == NULL) {
            return 0;
        }
    }
    events = real_progress(worker);
    if (events != 0) {
        idle_calls = 0;
    } else if (++idle_calls >= IDLE_CALLS) {
        idle_calls = 0;
        ucxnap_nap();
    }
    return events;
}
