/* reuse.h: which short messages leave straight from their buffers, by the cost
 * model of Rashti and Afsahi (2009; Rashti's thesis, 2010, 5.3.3 and 5.3.4) with
 * the wait for local completion added: a buffer is registered when it was used
 * speculation x n times, n > Rm / (Cm - V - Lm), with costs that were measured in
 * this process. The rule is that of reusetrack.Sender, which explains it, and both
 * replay reusetrack/testdata/sender. It has no clock and sends nothing.
 *
 * All memory is taken at the beginning. Everything is under the engine's lock. */
#ifndef MPITRACE_ENGINE_REUSE_H
#define MPITRACE_ENGINE_REUSE_H

#include "../include/base.h"

enum {
    MT_REUSE_LEAST = 128, /* shorter messages are copied: V exceeds Cm */
    MT_REUSE_LOOK = 8,    /* samples of a cost, and before which it is not known */
    MT_REUSE_COPIES = 16, /* after which one copy in so many is timed, */
    MT_REUSE_SENDS = 8,   /* and one message straight from its buffer; */
    MT_REUSE_AGAIN = 1024, /* one of so many of these is copied, and timed */
    MT_REUSE_SITES = 256, /* places and sizes that are told apart */
    MT_REUSE_HOLD = 2048, /* messages that a place is left alone for; doubled */
    MT_REUSE_HOLD_MOST = 65536, /* .. up to this */
    MT_REUSE_REFUSALS = 10,
    MT_REUSE_SHARE = 5, /* a full table grows while one buffer in so many is worth
                         * registering */
    MT_REUSE_ROOM = 512,  /* buffers that it has room for at first, */
    MT_REUSE_ROWS = 8192, /* and at most */
    MT_REUSE_SIZES = 64,  /* class i: 2^i bytes to less than twice as many */
};

/* The latest times of something, in ns. */
struct mt_reuse_samples {
    uint64_t ns[MT_REUSE_LOOK];
    uint64_t n;    /* so far */
    double median; /* 0: it is not known */
    double mean;   /* but for the largest; the same */
};

/* A buffer. */
struct mt_reuse_row {
    uint64_t address;
    uint64_t uses, retry; /* retry: not before this use */
    uint32_t refusals;
    bool frequent;
};

/* A place of the program and a size. */
struct mt_reuse_site {
    uint64_t site;
    uint32_t size;
    bool taken, rests;
    bool looks; /* V was more than a copy takes: its look-ups are measured again */
    struct mt_reuse_samples exposed; /* Lm */
    uint64_t asked;  /* messages that left straight since it was forgotten */
    uint64_t rested; /* messages that were copied since */
    uint64_t hold;
};

struct mt_reuse {
    uint64_t from;      /* shorter messages are copied */
    double speculation; /* 0.25, 0.5 or 1 */
    struct mt_reuse_samples copies[MT_REUSE_SIZES]; /* Cm */
    uint64_t seen[MT_REUSE_SIZES];                  /* messages */
    double registering[MT_REUSE_SIZES];             /* Rm, in ns */
    struct mt_reuse_samples usage, cache;           /* V: both look-ups */
    struct mt_reuse_row *rows;
    uint32_t *index; /* row + 1, 0 if free; twice as many as there is room */
    uint32_t count, room, most;
    uint32_t frequent; /* buffers that were found worth registering */
    bool stopped;      /* no buffer is added any more */
    uint64_t untracked; /* messages from buffers that found no place */
    uint64_t retreats;  /* times that a place was found to wait too long */
    struct mt_reuse_site sites[2 * MT_REUSE_SITES]; /* hash */
    struct mt_reuse_site others; /* of those that found no place */
    uint32_t site_count;
};

struct mt_reuse_sent {
    bool straight; /* from its buffer; else through a copy */
    bool timed;    /* what it costs is wanted: mt_reuse_copied, .._exposed, */
    bool looks;    /* and what its look-up of a registration takes */
    bool halts;    /* the first one that does not leave straight, of a place whose
                    * messages did: it waits too long, or how long is not known yet */
};

/* room and most: powers of two. False: no memory. */
bool mt_reuse_open(struct mt_reuse *reuse, uint64_t from, uint32_t speculation,
                   uint32_t room, uint32_t most);
void mt_reuse_close(struct mt_reuse *reuse);

/* A message of so many bytes, at least 1, from a buffer. */
struct mt_reuse_sent mt_reuse_send(struct mt_reuse *reuse, uint64_t address,
                                   uint64_t bytes, uint64_t site);
/* It was to leave straight, and is copied all the same. */
void mt_reuse_declined(struct mt_reuse *reuse, uint64_t bytes, uint64_t site);
/* It was to leave straight, and its buffer is not registered now. */
void mt_reuse_refused(struct mt_reuse *reuse, uint64_t address, uint64_t bytes,
                      uint64_t site);

/* What was measured. */
void mt_reuse_copied(struct mt_reuse *reuse, uint64_t bytes, uint64_t ns);
void mt_reuse_exposed(struct mt_reuse *reuse, uint64_t bytes, uint64_t site,
                      uint64_t ns);
void mt_reuse_sample(struct mt_reuse_samples *samples, uint64_t ns);

MT_INLINE uint32_t mt_reuse_size(uint64_t bytes)
{
    return 63 - (uint32_t)__builtin_clzll(bytes);
}

#endif
