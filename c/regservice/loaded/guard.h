/* guard.h: a thread in which Go can be started inside somebody else's process
 * without touching that process's signals. */
#ifndef MPITRACE_REGSERVICE_GUARD_H
#define MPITRACE_REGSERVICE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Whether Go would find the address space and the threads that it needs and dies
 * without: by trial. False: why gets the reason. */
bool mt_guard_room(char *why, size_t bytes);

/* From now on this thread, and all that it and they start, have all signals
 * blocked for good, and their sigprocmask, sigaction and what sets limits do nothing
 * and say that they did. False: it could not be arranged, and why gets the
 * reason. */
bool mt_guard_enter(char *why, size_t bytes);

#endif
