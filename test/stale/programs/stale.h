/* stale.h: what the ways to lose memory share. */
#ifndef STALE_H
#define STALE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../../c/include/memhook.h"

/* Where one thread keeps the buffer that it loses again and again. */
struct place {
    char *base; /* an address that nobody else uses, for ways that choose it */
    size_t bytes;
    int file, other; /* descriptors that a way keeps, -1 */
    void *own;       /* whatever else it keeps */
};

/* A way to lose memory: create returns the buffer, destroy takes it away so that
 * the next create may bring another one at the same address. */
struct way {
    const char *name;
    char *(*create)(struct place *);
    void (*destroy)(struct place *, char *);

    /* Contents survive, or may do so, although other pages take the place: any
     * registration that is found afterwards counts as stale. */
    bool keeps_contents;

    bool (*possible)(void); /* on this machine; NULL: on every one */
};

extern const struct way libc_ways[], raw_ways[], file_ways[], process_ways[];

/* Ends the program with a message and status 2: the test cannot be made. */
void die(const char *what) __attribute__((noreturn));

/* Ends it with status 77: this kernel does not have the call. */
void unsupported(const char *what) __attribute__((noreturn));

/* Anonymous memory at place->base. */
char *create_anonymous(struct place *place);

#endif
