/* inbox.h: where the datagrams for a queue pair are left by any number of
 * processes: a ring of cells, each for one datagram. One process reads. No
 * lock, no system call; killed anywhere, a writer holds up one cell, whose word
 * tells who it was.
 *
 * The word of a cell says in which turn of the ring it is, what it is, and who
 * claimed it: one compare-and-swap takes a free cell and leaves the name.
 * Writers look for the first free cell from a hint on. */
#ifndef MPITRACE_FABRIC_SHM_INBOX_H
#define MPITRACE_FABRIC_SHM_INBOX_H

#include "../../include/fabric.h"

enum {
    MT_INBOX_PAYLOAD = 4096,
    MT_INBOX_CELLS_LEAST = 16,
    MT_INBOX_CELLS_MOST = 256,
};

/* In bits 24..31 of a word, with the turn above, and the claimer's pid below
 * (which has 22 bits). Not zero, so that memory with other contents is not
 * taken for a free cell. */
enum mt_inbox_kind {
    MT_INBOX_FREE = 0xa1,
    MT_INBOX_CLAIMED = 0xa2,
    MT_INBOX_READY = 0xa3,
    MT_INBOX_CLOSED = 0xa4,
};

MT_INLINE uint64_t mt_inbox_word(uint64_t turn, enum mt_inbox_kind kind,
                                 int32_t pid)
{
    return turn << 32 | (uint64_t)kind << 24 | ((uint32_t)pid & 0xffffff);
}

MT_INLINE enum mt_inbox_kind mt_inbox_kind(uint64_t word)
{
    return (enum mt_inbox_kind)(word >> 24 & 0xff);
}

MT_INLINE int32_t mt_inbox_pid(uint64_t word)
{
    return (int32_t)(word & 0xffffff);
}

struct mt_inbox_cell {
    uint64_t word __attribute__((aligned(64)));
    uint32_t life; /* of the inbox that it is for */
    uint32_t bytes;
    struct mt_fabric_source source;
    uint32_t solicited;
    char payload[MT_INBOX_PAYLOAD] __attribute__((aligned(64)));
};

struct mt_inbox {
    uint32_t count; /* cells, a power of two; never changes */
    uint64_t hint
        __attribute__((aligned(64))); /* cells claimed so far, or less */
    struct mt_inbox_cell cells[];
};

#endif
