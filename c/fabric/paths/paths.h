/* paths.h: what the helpers of this folder have in common: how the completion
 * of a work request finds the helper that posted it.
 *
 * The helpers are what every path of messages needs on top of the verbs of
 * fabric.h, whatever the provider:
 *   put.h      data with a sequence flag behind it
 *   reads.h    READs that wait for a token
 *   credits.h  messages that never exceed the receives posted for them
 *   ring.h     messages by WRITE into a ring that the peer polls
 *   rails.h    ports chosen by name
 *   stripe.h   one message over several rails
 *   mesh.h     a queue pair to every rank
 *   mail.h     small messages to ranks, which may be lost
 *   datagrams.h  messages to ranks, which are not
 *   demand.h   a queue pair to a rank when it is first used
 *   socket.h   wire-up over sockets, for tools and tests
 *
 * None of them polls, but where its name says wait: the owner of a completion
 * queue polls and hands each completion to the helper that its kind names.
 * One thread at a time uses an object.
 *
 * Must not: know a provider, MPI, or what the bytes mean. */
#ifndef MPITRACE_FABRIC_PATHS_H
#define MPITRACE_FABRIC_PATHS_H

#include "../../include/fabric.h"

/* In the upper 8 bits of the id of a work request. */
enum mt_path_kind {
    MT_PATH_USER = 0, /* not of a helper */
    MT_PATH_PUT,      /* the notice of a put: the put is done */
    MT_PATH_PUT_DATA, /* its data: seen only when it failed; the notice follows
                       */
    MT_PATH_NOTICE,   /* a receive that a notice took */
    MT_PATH_READ,
    MT_PATH_MESSAGE, /* a SEND of credits.h */
    MT_PATH_MAIL,    /* a receive of credits.h */
    MT_PATH_LETTER,  /* a datagram of mail.h */
    MT_PATH_LETTER_IN,
    MT_PATH_RING, /* the flag of a message of ring.h: so far all are done */
    MT_PATH_RING_DATA, /* the message: seen only when it failed; the flag follows
                        */
    MT_PATH_RING_TOLD, /* room in a ring was given back */
    MT_PATH_PACKET,    /* a datagram of datagrams.h */
    MT_PATH_PACKET_IN,
};

/* The value has 56 bits: a counter, or a pointer of user space. */
MT_INLINE uint64_t mt_path_id(enum mt_path_kind kind, uint64_t value)
{
    return (uint64_t)kind << 56 | (value & ((UINT64_C(1) << 56) - 1));
}

MT_INLINE enum mt_path_kind mt_path_kind(uint64_t id)
{
    return (enum mt_path_kind)(id >> 56);
}

MT_INLINE uint64_t mt_path_value(uint64_t id)
{
    return id & ((UINT64_C(1) << 56) - 1);
}

/* What follows the copied bytes of a message, straight from where it lies: it
 * must not change before the message has completed, with this value in its id. */
struct mt_path_rest {
    struct mt_fabric_piece piece;
    uint64_t value;
};

/* A line for the user through a callback like say of struct mt_fabric_options;
 * NULL: to nobody. */
void mt_path_say(void (*say)(void *user, const char *text), void *user,
                 const char *format, ...) __attribute__((format(printf, 3, 4)));

/* CLOCK_MONOTONIC. */
uint64_t mt_path_now_ns(void);

#endif
