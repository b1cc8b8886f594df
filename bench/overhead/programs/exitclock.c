/*
 * exitclock.c - the library that startend.c is linked with; see exitclock.h.
 */
#include "bench.h"
#include "exitclock.h"

struct exit_times exit_times;

static void handlers_begin(void *unused)
{
    (void)unused;
    exit_times.handlers = now_ns();
}

__attribute__((destructor)) static void destructors_end(void)
{
    exit_times.in_destructors = now_ns() - exit_times.destructors;
    __cxa_atexit(handlers_begin, NULL, NULL);
}
