/* event.h: the event ring of trace mode (--trace). Events gather in a section
 * of the segment, so that a killed process keeps the last of them; a full
 * section is appended to the trace file of the rank through mt_ops.
 *
 * Must not: allocate, lock, enter the kernel (but through mt_ops, once in
 * MT_EVENT_ROWS events). */
#ifndef MPITRACE_PROBE_EVENT_H
#define MPITRACE_PROBE_EVENT_H

#include "call.h"

/* What a status says of a message. */
struct mt_envelope {
    int32_t source;
    int32_t tag;
    int64_t bytes;
};

/* Where and when a message was posted. */
struct mt_posted {
    uint64_t ticks;
    uint64_t address;
    uint32_t call;
    uint32_t serial;
    int32_t peer; /* in the communicator, negative: any */
    int32_t tag;
    bool blocking;
};

/* Numbers sends and receives of the process in the order of their posting; a matched
 * receive is posted by its probe. */
uint32_t mt_event_serial(bool receive);

void mt_event_call(const struct mt_call *call);
void mt_event_sent(const struct mt_call *call, const struct mt_comm *comm,
                   int32_t peer, int32_t tag, uint64_t bytes, bool blocking);
/* got is NULL where the completion was not seen. */
void mt_event_received(const struct mt_call *call, const struct mt_comm *comm,
                       const struct mt_posted *posted,
                       const struct mt_envelope *got, uint64_t bytes);

#endif
