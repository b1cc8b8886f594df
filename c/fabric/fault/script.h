/* script.h: the text that says what goes wrong (docs/fabric-faults.md).
 *
 *   seed 42
 *   drop 1/100 ud          datagrams that are never sent
 *   duplicate 1/100 ud
 *   reorder 1/50 ud        held back until another has been sent
 *   corrupt 1/200 ud       one byte changed, before the device's checksum
 *   delay 1/10 3           posted work is begun after 3 polls
 *   starve 1/50 200        completions of receives are kept back for 200 polls,
 *                          so that credits do not return, and receives run out
 *   rate 100 Mbit/s        posted work is begun when a link of this rate would
 *                          have carried it, behind what went there before
 *   full 1/20              posting finds the queue full
 *   register 1/5           registering memory fails
 *   event 1/10             an event of a completion queue is lost ...
 *                          until the queue is armed again
 *   break 1/10000          a queue pair goes into its error state
 *   lose 5000              the device is lost at its 5000th posting: an event
 *                          says so, and nothing of it completes any more
 *   die 5000               the process kills itself at its 5000th posting
 *
 * N/M is a probability; what is not named does not happen. '#' begins a comment.
 * Polls are from 1 to 1000. A rate is a whole number of bit/s, kbit/s, Mbit/s,
 * Gbit/s (powers of 1000) or B/s, kB/s, MB/s, GB/s (of 8 bit), from 1 kbit/s to
 * 1 Pbit/s.
 *
 * corrupt changes the payload before the device has it. To the device it is what
 * was sent, with the right checksum: the receiver gets changed bytes and no
 * error, as from a memory or a switch that spoils them unseen. What a link spoils
 * a device drops by its checksum, which is drop. */
#ifndef MPITRACE_FABRIC_FAULT_SCRIPT_H
#define MPITRACE_FABRIC_FAULT_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

enum mt_fault_kind {
    MT_FAULT_DROP,
    MT_FAULT_DUPLICATE,
    MT_FAULT_REORDER,
    MT_FAULT_CORRUPT,
    MT_FAULT_DELAY,
    MT_FAULT_STARVE,
    MT_FAULT_FULL,
    MT_FAULT_REGISTER,
    MT_FAULT_EVENT,
    MT_FAULT_BREAK,
    MT_FAULT_KINDS,
};

/* Limits of what a script may say. */
#define MT_FAULT_POLLS_MOST 1000u
#define MT_FAULT_RATE_LEAST UINT64_C(1000)
#define MT_FAULT_RATE_MOST UINT64_C(1000000000000000)

struct mt_fault_script {
    uint64_t seed;
    struct {
        uint32_t times, of; /* times in of; of 0: never */
    } rules[MT_FAULT_KINDS];
    uint32_t delay_polls, starve_polls;
    uint64_t bits_per_second; /* of each port; 0: as fast as it goes */
    uint64_t lose_at, die_at; /* 0: never */
};

/* Reads a script. On failure line_p is the line (from 1) and the result says
 * what is wrong with it; NULL: it is right. */
const char *mt_fault_parse(const char *text, size_t bytes,
                           struct mt_fault_script *script_p, unsigned *line_p);

#endif
