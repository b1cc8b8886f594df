/* credits.h: messages that never exceed the receives posted for them. iWARP
 * ends a connection when a message finds no receive, and on other devices it
 * waits at a price; so a sender spends a credit for each message, and gets it
 * back when the receive was posted again.
 *
 * Either side of a queue pair has a window of receives, whose number both know.
 * Credits return in the header of any message, or in one of their own once half
 * a window is owed. The last credit is for such messages alone: each of them
 * brings credits, so that of two sides without one at least one is about to get
 * some, and nobody waits for ever.
 *
 * Messages are copied, or written in place: they are small. */
#ifndef MPITRACE_FABRIC_PATHS_CREDITS_H
#define MPITRACE_FABRIC_PATHS_CREDITS_H

#include "paths.h"

enum { MT_CREDITS_WINDOW_LEAST = 4 };

struct mt_credits_options {
    struct mt_fabric_pd *pd;
    struct mt_fabric_qp *qp;
    uint32_t window;      /* receives that are posted here */
    uint32_t peer_window; /* there */
    uint32_t bytes;       /* longest message, the same on both sides */
};

struct mt_credits {
    struct mt_credits_options o;
    uint32_t available; /* receives at the peer that no message was sent to */
    uint32_t owed; /* receives posted here that the peer does not know of */
    uint32_t slot_bytes;
    uint32_t send_head, send_tail; /* sends that have completed, were posted */
    uint32_t send_slot;            /* that the next one takes */
    struct mt_fabric_mr *receives, *sends;
};

/* A message that came; valid until it is released. */
struct mt_credits_message {
    const void *bytes;
    uint32_t count;
    uint32_t slot;
};

/* Posts the receives: before the peer may send, that is before the address of
 * the queue pair is given away. */
enum mt_status mt_credits_open(struct mt_credits *credits,
                               const struct mt_credits_options *options);
void mt_credits_close(struct mt_credits *credits);

/* MT_EAGAIN: no credit, or no room; MT_EINVAL: too long. */
enum mt_status mt_credits_send(struct mt_credits *credits, const void *bytes,
                               uint32_t count);

/* The same in two steps: room for a message, which the caller fills with up to
 * options.bytes (aligned to 8), and its sending, with a rest of the same message
 * behind it (NULL: none; in the id of its completion is the value of the rest, or
 * 0). Reserved room that is not sent is given again. MT_EAGAIN of either: nothing
 * was sent. flags: MT_FABRIC_SOLICITED or 0. */
enum mt_status mt_credits_reserve(const struct mt_credits *credits,
                                  void **place_p);
enum mt_status mt_credits_commit(struct mt_credits *credits, uint32_t count,
                                 uint32_t flags,
                                 const struct mt_path_rest *rest);

/* Whether there are sends that have not completed. */
MT_INLINE bool mt_credits_sending(const struct mt_credits *credits)
{
    return credits->send_head != credits->send_tail;
}

/* Whether credits are due that mt_credits_flush could not return. */
MT_INLINE bool mt_credits_owing(const struct mt_credits *credits)
{
    /* at least 2, or the two sides would answer each other for ever */
    return credits->owed >= credits->o.window / 2;
}

/* A completion of kind MT_PATH_MESSAGE. */
enum mt_status mt_credits_sent(struct mt_credits *credits,
                               const struct mt_fabric_completion *c);

/* A completion of kind MT_PATH_MAIL. MT_EAGAIN: nothing for the caller;
 * MT_EPEER: the peer broke the rules. */
enum mt_status mt_credits_received(struct mt_credits *credits,
                                   const struct mt_fabric_completion *c,
                                   struct mt_credits_message *message_p);

/* Posts the receive of a message again, and returns credits when they are due.
 */
enum mt_status mt_credits_release(struct mt_credits *credits,
                                  const struct mt_credits_message *message);

/* Returns credits if they are due; MT_EAGAIN: there is no room now. For the
 * caller's round of progress. */
enum mt_status mt_credits_flush(struct mt_credits *credits);

#endif
