/* memmon.h: what the kernel program, the helper that loads it (internal/memmon)
 * and the processes that are watched (c/memhook) agree on. A test compares it
 * with the helper's own numbers.
 *
 * The helper listens on a Unix socket of sequenced packets. A process sends a
 * request; the answer brings a token and file descriptors: the map with the
 * generations, then what keeps the kernel program running for as long as
 * somebody relies on it, even when the helper is gone. The process maps the
 * generations, calls madvise(token, 0, MT_MEMMON_ATTACH), which fails but is
 * seen by the kernel program, and is watched from then on, until it ends or
 * sends MT_MEMMON_DETACH. All numbers are in the byte order of the machine. */
#ifndef MPITRACE_MEMMON_H
#define MPITRACE_MEMMON_H

#include "memhook.h"

enum {
    MT_MEMMON_MAGIC = 0x6d4d746d,  /* "mtMm" */
    MT_MEMMON_VERSION = 1,         /* also of struct mt_memmon_slot */
    MT_MEMMON_ATTACH = 0x6d70696d, /* an advice that no kernel knows */
    MT_MEMMON_MAX_FILES = 4,
};

#define MT_MEMMON_SOCKET "/run/mpitrace/memmon.sock"

/* What is mapped. */
struct mt_memmon_slot {
    uint64_t generations[MT_MEMHOOK_BUCKETS];
};

enum mt_memmon_type {
    MT_MEMMON_WATCH = 1,
    MT_MEMMON_DETACH = 2, /* no answer */
};

struct mt_memmon_request {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint64_t reserved; /* 0 */
};

enum mt_memmon_result {
    MT_MEMMON_OK = 0,
    MT_MEMMON_OTHER_VERSION = 1, /* version says which the helper has */
    MT_MEMMON_MALFORMED = 2,
    MT_MEMMON_REFUSED = 3, /* this user is not served */
    MT_MEMMON_FULL = 4,    /* as many processes are watched as may be */
    MT_MEMMON_FAILED = 5,  /* the kernel did not do it; the helper says why */
};

struct mt_memmon_answer {
    uint32_t magic;
    uint16_t version;
    uint16_t result;
    uint32_t buckets;
    uint32_t shift;
    uint64_t token;
    uint32_t files; /* descriptors that came along */
    uint32_t bytes; /* of the map, as it must be mapped: whole pages */
};

_Static_assert(sizeof(struct mt_memmon_request) == 16, "request");
_Static_assert(sizeof(struct mt_memmon_answer) == 32, "answer");

#endif
