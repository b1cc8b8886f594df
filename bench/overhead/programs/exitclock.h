/*
 * exitclock.h - times what a preloaded library does while the process exits:
 * startend.c reads the clock before its work, exitclock.c after it, or the
 * other way round.
 *
 * Destructors run in the order of the libraries: the program's own, those of
 * preloaded libraries, then this one's. A handler that a destructor registers
 * for the exit runs after all destructors, and the last one registered first.
 * So the work that a preloaded library does in its destructor lies between the
 * destructors of program and exitclock, and that of a handler which it
 * registers there lies between their handlers, exitclock's first.
 */
#ifndef EXITCLOCK_H
#define EXITCLOCK_H

/* What atexit registers with, without an object: atexit would tie the handler
 * to the object, whose handlers run with its own destructors. */
extern int __cxa_atexit(void (*handler)(void *), void *argument, void *object);

struct exit_times {
    double destructors, handlers; /* when the part began */
    double in_destructors;        /* ns of the first part */
};

extern struct exit_times exit_times;

#endif
