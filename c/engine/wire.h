/* wire.h: what processes send each other: a header in front of every message,
 * whatever way it takes. Numbers are in the order of this machine's bytes, for
 * the processes of a job run the same binary.
 *
 * What a peer sends is not trusted: mt_wire_parse lets nothing through that the
 * rest of the engine would have to check again but for ranks and numbers of
 * requests, which it looks up. */
#ifndef MPITRACE_ENGINE_WIRE_H
#define MPITRACE_ENGINE_WIRE_H

#include "../include/base.h"
#include "../include/status.h"

enum { MT_WIRE_VERSION = 6 };

enum mt_wire_kind {
    MT_WIRE_EAGER = 1, /* a message with its payload */
    MT_WIRE_RTS,       /* a message whose payload stays where it is */
    MT_WIRE_DONE,      /* the receiver needs nothing more */
    MT_WIRE_PULL,      /* send the payload in fragments */
    MT_WIRE_FRAGMENT,  /* a part of the payload, in order */
    MT_WIRE_CTS,       /* write the payload here */
    MT_WIRE_FIN,       /* it is written */
    MT_WIRE_RTR,       /* a receive asks first, see rtr.h */
    MT_WIRE_FILLED,    /* a message: it is written where an RTR wants it */
    MT_WIRE_REVOKE,    /* RTRs so far are not to be used any more */
    MT_WIRE_REVOKED,   /* they are not */
    MT_WIRE_RING,      /* write short messages here */
    MT_WIRE_WORD,      /* and how much of it was read, here */
    MT_WIRE_CHECK,     /* the checksum of the next EAGER or RTS */
    MT_WIRE_WRONG,     /* a message arrived wrong; else as DONE */
    MT_WIRE_CONNECT,   /* a hello of demand.h, or nothing: no */
    MT_WIRE_KINDS,
    MT_WIRE_TOKEN = MT_WIRE_KINDS, /* in a ring: EAGER, its header is known */
};

enum mt_wire_flag {
    MT_WIRE_SYNCHRONOUS = 1, /* of EAGER: answer with DONE when it matches */
    MT_WIRE_NO_READ = 2,     /* of RTS: it cannot be read, ask for fragments */
    MT_WIRE_PUT = 4,         /* of RTS: it will be written, or in fragments */
};

/* All of them begin with this. It is the whole header of an EAGER message that
 * is not synchronous. */
struct mt_wire {
    uint8_t kind;
    uint8_t flags;
    uint16_t entry;    /* in a ring: of the cache, to keep it in; else 0 */
    uint32_t sequence; /* of all messages to this process, from 1 */
    uint32_t context;
    uint32_t source; /* rank of the sender there */
    int32_t tag;
    uint32_t rkey; /* RTS, CTS, RTR, RING, WORD */
};

/* The others go on with this; what a kind has no use for is 0. */
struct mt_wire_rest {
    uint64_t number;  /* EAGER, RTS, RTR: of the sender's request; REVOKE,
                       * REVOKED: of the former; CHECK: the checksum; WRONG: of
                       * a request that waits for DONE, or 0; CONNECT: of the
                       * hello that is refused, or 0; else of the
                       * receiver's (of this message) */
    uint64_t answer;  /* PULL, CTS: of the request that waits for the payload;
                       * RTR: last sequence that was seen, and in the lower
                       * half how many receives are ahead; WRONG: the way,
                       * enum mt_engine_way. Of an EAGER or RTS that has
                       * arrived: its checksum, and MT_WIRE_CHECKED */
    uint64_t bytes;   /* RTS, FILLED: of payload; PULL, CTS: how much is
                       * wanted; RTR: how much fits; RING: its size */
    uint64_t address; /* RTS, CTS, RTR: where it is, where it goes; RING,
                       * WORD */
};

enum {
    MT_WIRE_LONG_BYTES =
        sizeof(struct mt_wire) + sizeof(struct mt_wire_rest),
};

/* In place of struct mt_wire, sequence at the same place. */
struct mt_wire_token {
    uint8_t kind;
    uint8_t entry;
    uint16_t reserved;
    uint32_t sequence;
};

_Static_assert(offsetof(struct mt_wire, sequence) ==
                   offsetof(struct mt_wire_token, sequence),
               "whoever looks only for the sequence need not know which");

/* Headers of EAGER messages that went through a ring, the same at both ends: a
 * ring keeps their order. A message whose header is there, but for the
 * sequence, has a token in its place. */
enum { MT_WIRE_ENTRIES = 16 };
struct mt_wire_cache {
    struct mt_wire entries[MT_WIRE_ENTRIES]; /* kind 0: none */
};

/* Tells that there is a checksum, in the lower half. */
#define MT_WIRE_CHECKED (UINT64_C(1) << 32)

/* A message, taken apart. */
struct mt_wire_message {
    struct mt_wire head;
    struct mt_wire_rest rest; /* zero where there is none; EAGER: bytes are
                               * the payload's */
    const void *payload;
    uint32_t payload_bytes;
};

/* Whether a message has a rest. */
MT_INLINE bool mt_wire_long(unsigned kind, unsigned flags)
{
    return kind != MT_WIRE_EAGER || (flags & MT_WIRE_SYNCHRONOUS) != 0;
}

/* Puts what stands for a header where a message begins in a ring. Returns how
 * many bytes it has. mt_wire_keep once it is sent. */
uint32_t mt_wire_shorten(const struct mt_wire_cache *cache,
                         struct mt_wire *head, void *place);
MT_INLINE void mt_wire_keep(struct mt_wire_cache *cache,
                            const struct mt_wire *head)
{
    cache->entries[head->entry] = *head;
}

/* MT_EPEER: not a message of ours. bytes need not be aligned. */
enum mt_status mt_wire_parse(const void *bytes, uint32_t count,
                             struct mt_wire_message *message_p);
/* The same of a message in a ring, which changes the cache. */
enum mt_status mt_wire_parse_ring(const void *bytes, uint32_t count,
                                  struct mt_wire_cache *cache,
                                  struct mt_wire_message *message_p);

#endif
