/* lifecycle.h: from MPI_Init to exit, as the wrappers of gen/ see it. */
#ifndef MPITRACE_PMPI_LIFECYCLE_H
#define MPITRACE_PMPI_LIFECYCLE_H

#include "state.h"

/* What differs between the ABIs when a process starts and ends. */
struct mt_family_ops {
    void (*world_begin)(void);
    void (*world_end)(void);
    void (*query_thread_level)(void);
    bool (*is_spawned)(void);
};

/* MPI_Init or MPI_Init_thread is about to be called: the segment is made and
 * the gate opens, so that a hang inside MPI_Init is seen. Returns false when
 * nothing is to be measured. */
bool mt_life_init_enter(void);
/* It has returned; own_ns is added to the cost of our own. */
void mt_life_init_exit(const struct mt_family_ops *ops, bool failed);
/* Threads may open and close sessions, and initialise MPI, at the same time: what is
 * done then is one thread's at a time. Who has had it for ten seconds loses it: that
 * thread has ended, or was jumped out of. False: it is ours already. */
bool mt_life_turn(void);
void mt_life_turn_ends(bool turn);
/* A session was opened, or closed: with the last one MPI is finalized. */
void mt_life_session_begin(const struct mt_family_ops *ops);
void mt_life_session_end(void);
void mt_life_finalize_enter(void);
void mt_life_finalize_exit(bool failed);
void mt_life_abort(int code);
/* MPI_Pcontrol(level). */
void mt_life_pcontrol(int level);

#endif
