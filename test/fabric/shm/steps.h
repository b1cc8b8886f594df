/* steps.h: what the survivor of steps.c and the processes that it starts agree on. */
#ifndef MPITRACE_TEST_FABRIC_STEPS_H
#define MPITRACE_TEST_FABRIC_STEPS_H

#include "../programs/harness.h"

enum {
    SHORT = 8,
    MIDDLE = 3000,     /* goes through the ring */
    LONG = 9000,       /* is fetched by its receiver */
    SENDS = 3,         /* that an operation posts, one behind the other */
    SLOTS = SENDS + 1, /* receives of either side; one stays */
    REPLIES = 2,       /* of the survivor, meanwhile */
    STEPS = 64,        /* of the dead between two looks of the survivor */
    DATAGRAMS = 32,    /* receives for them */
    DENIED = 77,
};

/* What the one that dies is at. */
enum kind { SEND, WRITE_FLAG, WRITE_IMM, READ, RECEIVE, CONNECT, DESTROY, CLOSE,
            DATAGRAM, DATAGRAM_RECEIVE };

struct operation {
    const char *name;
    enum kind kind;
    size_t bytes;
    bool registered; /* memory that peers do not map */
};

static inline bool is_datagram(const struct operation *o)
{
    return o->kind == DATAGRAM || o->kind == DATAGRAM_RECEIVE;
}

/* Seeds of what a message holds: who sent it, and which it was. */
static inline uint64_t seed_of(int rank, uint64_t number)
{
    return 100 * (uint64_t)(rank + 1) + number;
}

/* Memory of a side of one operation: what it sends, where it receives, and what
 * the other writes and reads, with a flag for each message. */
struct areas {
    struct mt_fabric_mr *out, *in, *shared;
    char *memory; /* of shared, whose region may go before */
};

static inline size_t slot_of(const struct operation *o, uint64_t number)
{
    return number * ((o->bytes + 63) / 64 * 64);
}

struct areas areas_make(struct side *s, const struct operation *o);
void receives_post(struct side *s, const struct operation *o,
                   const struct areas *a);
struct mt_fabric_send send_of(uint64_t id, const struct mt_fabric_piece *p);

/* The one that dies, from its birth; it stops itself before its operation and
 * behind it, and ends by itself when it is let. Status DENIED: it may not be
 * traced. */
void die(struct side *s, const struct operation *o) __attribute__((noreturn));
/* The third: sends back whatever comes, until it is killed. */
void echo(struct side *s) __attribute__((noreturn));

#endif
