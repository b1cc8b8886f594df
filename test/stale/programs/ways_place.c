/* ways_place.c: what all ways need: memory at a place, and an end with a message. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "stale.h"

void die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
            strerror(errno));
    exit(2);
}

void unsupported(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
            strerror(errno));
    exit(77);
}

char *create_anonymous(struct place *place)
{
    void *p = mmap(place->base, place->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)place->base) {
        die("mmap");
    }
    return p;
}
