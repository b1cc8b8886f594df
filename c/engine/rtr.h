/* rtr.h: the receiver asks first (M. J. Rashti, "Improving Message-Passing
 * Performance and Scalability in High-Performance Clusters", 2010, chapter 4).
 * A receive of more than the eager limit whose message is not here says where it
 * wants it: RTR. A send that has the RTR of its receive writes there, and says
 * so: FILLED. Any other goes as it would without.
 *
 * Which send an RTR is for. It carries the sequence of the last message that the
 * receiver had seen when the receive was posted, and how many receives of the
 * same envelope (context, source, tag) were ahead of it. The sender keeps the
 * sequences of the last messages of an envelope, and so knows the turn of each
 * RTR: the message that will match its receive. A message that goes another way
 * ends the RTR of its turn at the sender when it leaves, and at the receiver when
 * it comes. So no RTR is used for a later message than its own, and a message of
 * the turn is what acknowledges that an RTR was dropped: until then the memory
 * stays registered, and from then on nobody writes there.
 *
 * An RTR is never waited for. It is not sent where that would take one of the
 * last credits, and a sender may drop it for any reason: the message then
 * goes as it would without.
 *
 * Rules of the receiver. No RTR
 *   - from any source, or of any tag;
 *   - behind a receive that may match the same message and has no RTR, for that
 *     one may be taken back at any time, or match something else;
 *   - while the envelope is silent, see below.
 * A receive whose RTR is out is taken back after REVOKE and REVOKED: the sender
 * drops all RTRs of the receiver, and answers behind whatever is leaving.
 *
 * Whether it pays is judged by the receiver, envelope by envelope, since the
 * message of its turn tells it what became of each RTR: used, crossed by an RTS,
 * or mispredicted (the message was eager, or did not fit). usage: the least share
 * that must be of use, per cent, judged every sample RTRs. Once it cannot be
 * reached any more, or after MT_RTR_WRONG mispredictions in a row, the envelope is
 * silent: it counts receives that could have been asked for, and that the RTS
 * found posted. When usage of them are, it asks again. How many it counts begins
 * with sample and doubles with each time that it falls silent, up to
 * sample << MT_RTR_PAUSES; a sample that was of use sets it back. */
#ifndef MPITRACE_ENGINE_RTR_H
#define MPITRACE_ENGINE_RTR_H

#include "../include/base.h"

/* Where the places of an envelope begin. */
MT_INLINE uint32_t mt_rtr_home(uint32_t context, int32_t tag)
{
    return (uint32_t)(mt_hash((uint64_t)context << 32 | (uint32_t)tag) >> 32);
}

enum {
    MT_RTR_ENVELOPES = 16, /* of a peer, whose RTRs are kept */
    MT_RTR_USAGES = 64,    /* of a peer, which are judged */
    MT_RTR_NEAR = 4, /* places that an envelope may have, from its hash on */
    MT_RTR_OFFERS = 16,    /* RTRs that are kept of an envelope */
    MT_RTR_LOG = 16,       /* messages of it that are remembered */
    MT_RTR_LOOKS = 256, /* at receives that are posted, before one asks */
    MT_RTR_WRONG = 4,
    MT_RTR_PAUSES = 6,
};

/* Of a receive. */
enum mt_rtr_mark {
    MT_RTR_NONE = 0,
    MT_RTR_SILENT,  /* it would have asked */
    MT_RTR_ASKED,   /* its RTR is out */
    MT_RTR_REVOKED, /* and is to be taken back */
};

/* ---- the receiver's side: does it pay? (usage.c) ---- */

enum mt_rtr_fate { MT_RTR_USED = 0, MT_RTR_CROSSED, MT_RTR_MISPREDICTED };

enum mt_rtr_verdict { MT_RTR_GOES_ON = 0, MT_RTR_SUSPENDS, MT_RTR_RESUMES };

/* Of an envelope, or of several that found no place of their own. */
struct mt_rtr_usage {
    uint32_t context;
    int32_t tag;
    bool known; /* false: a free place */
    bool silent;
    uint32_t useful, total; /* since the last verdict */
    uint32_t wrong;         /* mispredictions in a row */
    uint32_t pauses;        /* times that it fell silent, and nothing was better */
};

/* One more receive that asked, or that would have. */
enum mt_rtr_verdict mt_rtr_judge(struct mt_rtr_usage *usage,
                                 enum mt_rtr_fate fate, uint32_t least,
                                 uint32_t sample);

/* Of MT_RTR_USAGES, the one of an envelope. */
struct mt_rtr_usage *mt_rtr_usage_of(struct mt_rtr_usage *usages,
                                     uint32_t context, int32_t tag);

/* ---- the sender's side ---- */

/* An RTR that came. */
struct mt_rtr_offer {
    uint64_t number; /* of the receive */
    uint64_t address, bytes;
    uint32_t rkey;
    uint32_t turn; /* it is for the message before which so many have left */
};

/* One that finds no place takes that of another, whose RTRs are dropped. */
struct mt_rtr_envelope {
    uint32_t context;
    int32_t tag;
    bool known; /* false: a free place */
    uint64_t since; /* messages to the peer before any that is counted */
    uint32_t left;  /* messages that have left; may wrap */
    bool overflown; /* the log has not had all of them since */
    /* which of the messages to the peer they were: as an envelope may rest for longer
     * than sequences take to come again, the whole number */
    uint64_t log[MT_RTR_LOG];
    uint32_t first, last;     /* offers[first .. last - 1], each modulo */
    struct mt_rtr_offer offers[MT_RTR_OFFERS];
};

/* Of a peer with which RTRs were exchanged. */
struct mt_rtr {
    struct mt_rtr_envelope envelopes[MT_RTR_ENVELOPES];
    struct mt_rtr_usage usages[MT_RTR_USAGES];
    uint32_t revokes, revokes_sent;     /* of this process */
    uint32_t revoked, revoked_answered; /* of the peer */
};

#endif
