/* script.h: the text that says what goes wrong (docs/fabric-faults.md).
 *
 *   seed 42
 *   drop 1/100 ud          datagrams that are never sent
 *   duplicate 1/100 ud
 *   reorder 1/50 ud        held back until another has been sent
 *   corrupt 1/200 ud       one byte changed
 *   delay 1/10 3           posted work is begun after 3 polls
 *   full 1/20              posting finds the queue full
 *   register 1/5           registering memory fails
 *   event 1/10             an event of a completion queue is lost ...
 *                          until the queue is armed again
 *   break 1/10000          a queue pair goes into its error state
 *   die 5000               the process kills itself at its 5000th posting
 *
 * N/M is a probability; what is not named does not happen. '#' begins a comment. */
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
    MT_FAULT_FULL,
    MT_FAULT_REGISTER,
    MT_FAULT_EVENT,
    MT_FAULT_BREAK,
    MT_FAULT_KINDS,
};

struct mt_fault_script {
    uint64_t seed;
    struct {
        uint32_t times, of; /* times in of; of 0: never */
    } rules[MT_FAULT_KINDS];
    uint32_t delay_polls;
    uint64_t die_at; /* 0: never */
};

/* Reads a script. On failure line_p is the line (from 1) and the result says
 * what is wrong with it; NULL: it is right. */
const char *mt_fault_parse(const char *text, size_t bytes,
                           struct mt_fault_script *script_p, unsigned *line_p);

#endif
