/* choice.h: which way messages of a communicator and size go where the policy
 * leaves that open: by trial (trial.h). Senders try writing against being read, and
 * sending short ones straight from their buffers against copying them, receivers
 * asking first against waiting. An epoch is the messages between
 * two moments at which none of them is under way, and costs the time from its
 * first message to the first of the next, by the message: what a way costs at
 * either end, and what it hides behind the program's own work, is in it as far as
 * the program notices. Both of these are of one kind: the same buffer, peer and
 * tag. For where messages come to rest depends on their way, and an epoch that ends
 * anywhere has more of the program's own work in it, or less, than one by the other
 * way has. Messages of one kind that follow each other without another step of the
 * program (a burst from one buffer) are told apart by their place in that row, so
 * that the next epoch begins where a later burst does. The number of such moments in
 * an epoch varies, so that what the program does at regular intervals does not always
 * fall on one side. A program that never lets its messages come to rest, or never
 * sends the same again, stays with what was last decided, at first with what is known.
 *
 * Everything is under the engine's lock. */
#ifndef MPITRACE_ENGINE_CHOICE_H
#define MPITRACE_ENGINE_CHOICE_H

#include "trial.h"

enum {
    MT_CHOICES = 64,       /* of communicators and sizes; then all are one */
    MT_CHOICE_SIZES = 64,  /* class i: 2^i bytes and more */
    MT_EPOCH_RESTS = 4,    /* of an epoch, at least, */
    MT_EPOCH_VARIES = 4,   /* .. and up to so many more */
    MT_EPOCH_MOST = 4096,  /* messages; then it counts for nothing, or as one of
                            * those that a decision stands for */
    MT_CHOICE_ROW = 1024,  /* messages without another step are told apart up to that */
    MT_EPOCH_SPOILS = 8,   /* by the newcomer in a row, and it is given up */
};

struct mt_choice {
    uint32_t context; /* id; UINT32_MAX: of those that found no place */
    uint32_t size;    /* class */
    struct mt_trial trial;
    uint32_t under_way;
    /* of the epoch */
    uint32_t messages, rests, want;
    uint64_t kind; /* of its first message */
    uint32_t step, row; /* of the last message; those before it in that step */
    bool newcomer, spoilt;
    uint32_t spoils; /* epochs of the newcomer in a row that count for nothing */
    uint64_t began_ns;
    uint64_t random;
    uint64_t decided_ns; /* when; 0: not yet */
    uint64_t went[2], bytes[2]; /* known, newcomer */
};

struct mt_choices {
    struct mt_choice *rows[2 * MT_CHOICES]; /* hash */
    uint32_t count;
    uint64_t salt; /* so that two of them have no epochs in common */
    struct mt_choice *others[MT_CHOICE_SIZES];
};

/* NULL: no memory. */
struct mt_choice *mt_choice_get(struct mt_choices *choices, uint32_t context,
                                uint64_t bytes);
void mt_choices_free(struct mt_choices *choices);

/* The kind of a message: a number that the same message has again, in the same place
 * of its row. of: its buffer, peer and tag. step: a number that changes with what
 * else the program does between messages. */
uint64_t mt_choice_kind(struct mt_choice *choice, uint64_t of, uint32_t step);

/* Whether the time is wanted by mt_choice_begin: reading it costs more than the
 * rest. */
bool mt_choice_due(const struct mt_choice *choice, uint64_t kind);
/* A message begins; now_ns matters only if it is due. True: by the newcomer. */
bool mt_choice_begin(struct mt_choice *choice, uint64_t kind, uint64_t bytes,
                     uint64_t now_ns);
/* ... and is done. spoilt: it went another way than it should have. */
void mt_choice_end(struct mt_choice *choice, bool spoilt);

#endif
