/* ledger.h: what this rank has carried itself, written down at the end. It knows
 * no MPI. */
#ifndef MPITRACE_ACT_LEDGER_H
#define MPITRACE_ACT_LEDGER_H

#include "../include/act.h"
#include "../include/engine.h"

/* Why a communicator, or a message that is sent, is the MPI library's. */
enum mt_act_left_reason {
    MT_ACT_LEFT_PARENT,            /* made from one that is */
    MT_ACT_LEFT_INTERCOMMUNICATOR, /* or merged from one */
    MT_ACT_LEFT_PROCESSES,         /* spawned, or joined */
    MT_ACT_LEFT_SESSION,
    MT_ACT_LEFT_IDUP,
    MT_ACT_LEFT_MEMORY, /* or the library failed, on any member */
    MT_ACT_LEFT_COMMUNICATORS,
    /* messages */
    MT_ACT_LEFT_COMMUNICATOR = 0, /* is the library's */
    MT_ACT_LEFT_ARGUMENTS,        /* the library is to judge them */
    MT_ACT_LEFT_MESSAGES,
};

struct mt_act_left {
    uint64_t communicators[MT_ACT_LEFT_COMMUNICATORS];
    uint64_t messages[MT_ACT_LEFT_MESSAGES];
    uint64_t bytes; /* of them */
};

/* Before the engine is closed. */
void mt_act_ledger_write(const struct mt_act_host *host,
                         const struct mt_engine *engine,
                         const struct mt_act_left *left);

#endif
