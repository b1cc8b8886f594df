/* act.h: what libmpishim.so and libmpishim-rt.so know of each other. The shim
 * measures and forwards; the runtime, which the shim loads inside MPI_Init of a
 * job that asks for act, brings functions that stand in for some of the MPI
 * library's. The shim calls those where it would have called the library, so
 * both see every call of the application, and the library's own inner calls
 * see neither. */
#ifndef MPITRACE_ACT_H
#define MPITRACE_ACT_H

#include "base.h"
#include "calls.gen.h"
#include "segment.gen.h"
#include "status.h"

/* Changes whenever a struct of this file or the list of counts does. */
enum { MT_ACT_VERSION = 9 };

enum { MT_ACT_REASON = 224 }; /* bytes, with their end */

/* Where the runtime shows what it counts while the job runs: rows of the segment,
 * which only one thread at a time writes. decisions NULL: the segment had no room,
 * and nothing is shown. */
struct mt_act_live {
    struct mt_seg_act *act; /* sequence is the runtime's, all else the shim's */
    struct mt_seg_act_count *counts; /* MPITRACE_COUNTS */
    struct mt_seg_act_decision *decisions; /* MPITRACE_ACT_DECISIONS */
    struct mt_seg_section *counts_section, *decisions_section;
};

/* Who says a line, and when. */
enum mt_act_line {
    MT_ACT_ANY_RANK, /* unless the user wants to hear nothing (MPITRACE_QUIET) */
    MT_ACT_RANK_0,   /* so, and from rank 0 only */
    MT_ACT_LAST,     /* always: why the job is ended */
};

/* What the shim tells. Valid until the process ends. */
struct mt_act_host {
    uint32_t version; /* MT_ACT_VERSION */
    uint32_t family;  /* enum mt_mpi_family (segment.gen.h) */
    uint32_t world_rank, world_size;
    const char *world; /* which MPI_COMM_WORLD of the job this is */
    bool threads; /* MPI_THREAD_MULTIPLE was granted; later true also where a session
                   * began, whose thread level is its own */
    /* The MPI library's function, its PMPI_ name, by enum mt_call id; NULL: it
     * has none. */
    void *const *native;
    /* A symbol of the MPI library. */
    void *(*symbol)(const char *name);
    /* Why the runtime did not start, in its words: MT_ACT_REASON bytes, which it
     * fills on all ranks alike. */
    char *reason;
    /* The directory that the ledger is written to, or NULL: a copy, for the program may
     * change its environment, or write over it. */
    const char *output;
    /* A line for the user. */
    void (*say)(enum mt_act_line line, const char *text);
    /* The function that this thread is in, like MPI_Wait. */
    const char *(*call)(void);
    /* Where this thread's call stands in the program: an address, never 0; 1: that is
     * not known. */
    uint64_t (*site)(void);
    /* The policy that all ranks agreed on, as lines (docs/policy.md). */
    const char *policy;
    struct mt_act_live live;
    /* A fault script for the device (docs/fabric-faults.md); NULL: none. */
    const char *faults;
};

/* What the runtime brings: by enum mt_call id, with the signature of the MPI
 * function in the ABI of the family; NULL: the library's own stays. */
struct mt_act_functions {
    void *function[MPITRACE_CALL_LIMIT];
};

/* Exported by libmpishim-rt.so under this name. Called once, inside the
 * application's MPI_Init after the library's has returned, by all ranks of
 * MPI_COMM_WORLD: it may communicate. Not MT_OK: the job runs on without it, on
 * all ranks alike; MT_EVERSION without a reason: it does not know this struct. */
enum mt_status mt_act_start(const struct mt_act_host *host,
                            struct mt_act_functions *functions_p);
#define MT_ACT_START "mt_act_start"

#endif
