/* stream.h: the records that mpitrace hands to mpitrace-otf2 on its standard
 * input. Numbers are little-endian. The stream is
 *
 *     8 bytes     "MPTOTF2" and the version, 1
 *     records     u32 type, u32 bytes of what follows, then so many bytes
 *
 * and ends with a record END. Events come first, in the order of time for each
 * location, then the definitions, numbered from 0 in the order in which they
 * come. (report/timeline/otf2/stream.go writes it.)
 *
 * The parser checks everything that the library would not: the size of every
 * record, that times of a location do not fall, that LEAVE closes the call that
 * was entered last, and that what is referred to gets defined. */
#ifndef MPITRACE_OTF2_STREAM_H
#define MPITRACE_OTF2_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum mt_otf2_type {
    /* u64 location, u64 time, then: */
    MT_OTF2_ENTER = 1,            /* u32 region */
    MT_OTF2_LEAVE = 2,            /* u32 region */
    MT_OTF2_SEND = 3,             /* u32 comm, u32 rank, u32 tag, u64 bytes */
    MT_OTF2_ISEND = 4,            /* as SEND, u64 request */
    MT_OTF2_RECV = 5,             /* as SEND */
    MT_OTF2_IRECV_REQUEST = 6,    /* u64 request */
    MT_OTF2_IRECV = 7,            /* as ISEND */
    MT_OTF2_COLLECTIVE_BEGIN = 8, /* nothing */
    MT_OTF2_COLLECTIVE_END = 9,   /* u32 comm, u32 root, u32 operation, u64 sent,
                                     u64 received */
    /* u64 location: it has no more events */
    MT_OTF2_CLOSE = 10,

    MT_OTF2_CLOCK = 16,    /* u64 ticks a second, u64 first, u64 length,
                              u64 first in ns since 1970 */
    MT_OTF2_STRING = 17,   /* text without end */
    MT_OTF2_NODE = 18,     /* u32 name, u32 class, u32 parent or NONE */
    MT_OTF2_PROCESS = 19,  /* u32 name, u32 node */
    MT_OTF2_LOCATION = 20, /* u32 name, u32 process */
    MT_OTF2_REGION = 21,   /* u32 name, u32 description, u32 role, u32 file,
                              u32 line */
    MT_OTF2_GROUP = 22,    /* u32 name, u32 kind, u64 members */
    MT_OTF2_COMM = 23,     /* u32 name, u32 group */
    MT_OTF2_PROPERTY = 24, /* u32 process, u32 name, u32 value */
    MT_OTF2_END = 32,      /* u64 records before it */
};

#define MT_OTF2_NONE UINT32_MAX

enum {
    MT_OTF2_LOCATIONS_MAX = 1 << 22,
    MT_OTF2_DEFINITIONS_MAX = 1 << 26,
    MT_OTF2_PAYLOAD_MAX = 1 << 24,
};

/* One record. Which fields count is said above. */
struct mt_otf2_record {
    enum mt_otf2_type type;
    uint64_t location, time;
    uint32_t region, comm, rank, tag, operation;
    uint64_t bytes, received, request;
    uint32_t self; /* number of a definition */
    uint32_t name, description, role, file, line, parent, kind, value;
    uint64_t clock[4];
    const char *text; /* ends with NUL */
    const uint64_t *members;
    uint32_t member_count;
};

/* Where records go. NULL is success, else a text without end that says what
 * went wrong. */
struct mt_otf2_sink {
    const char *(*record)(void *self, const struct mt_otf2_record *record);
    void *self;
};

/* What was read, or why not: the place is the byte at which the record begins
 * that could not be used. */
struct mt_otf2_outcome {
    uint64_t records, events, locations, byte;
    const char *why; /* NULL: all is well */
};

void mt_otf2_read(FILE *in, const struct mt_otf2_sink *sink,
                  struct mt_otf2_outcome *outcome_p);

#endif
