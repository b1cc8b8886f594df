/* handles.h: what the wrappers of one ABI need to know of its handles. Compiled
 * once per ABI, like handles.c and gen/wrappers.gen.c. */
#ifndef MPITRACE_PMPI_HANDLES_H
#define MPITRACE_PMPI_HANDLES_H

#include "../abi/abi.h"
#include "../probe/request.h"
#include "state.h"

/* A PMPI function with its type: MT_PMPI(Comm_size, MT_Comm, int *)(c, &n). */
#define MT_PMPI(name, ...)                                                   \
    ((int (*)(__VA_ARGS__))mt_real_pmpi[MPITRACE_CALL_##name])
#define MT_HAS(name) (mt_real_pmpi[MPITRACE_CALL_##name] != NULL)

/* After MPI_Init: sizes, MPI_COMM_WORLD and _SELF, rank maps. */
void MT_NAME(world_begin)(void);
/* Before MPI_Finalize: gives back what world_begin took. */
void MT_NAME(world_end)(void);
/* After MPI_Session_init: ranks relative to mpi://WORLD. */
void MT_NAME(session_begin)(MT_Session session);
/* Before MPI_Session_finalize. */
void MT_NAME(session_end)(MT_Session session);

/* A communicator was made from parent (MT_COMM_NULL: from a group). */
void MT_NAME(comm_made)(MT_Comm parent, MT_Comm made, uint32_t created_by,
                        uint64_t salt);
/* One whose handle may not be used yet: a duplicate of parent. */
void MT_NAME(comm_duplicated)(MT_Comm parent, MT_Comm made,
                              uint32_t created_by);
/* Asks for the topology: sets neighbours (0 without one) and absent. */
void MT_NAME(comm_neighbours)(struct mt_comm *comm);
void MT_NAME(query_thread_level)(void);
bool MT_NAME(is_spawned)(void);

/* What a call on an array of requests needs: the requests as they were, and
 * statuses, the caller's or our own. Lives from array_begin to array_end. */
struct mt_array {
    struct mt_pending *pending;
    MT_Status *statuses;
    MT_Status *given; /* which the library gets, or none: see array_persistent */
    int n;            /* requests noted */
    uint32_t awaited; /* of them, those that have a share of the call's time ... */
    const struct mt_pending *first; /* ... and the first of these */
    size_t bytes; /* of scratch memory; 0: it has none */
};

/* Publishes a call on an array with what it waits for, if that is one request: of
 * several it is not known which of them keeps it. */
MT_INLINE void mt_go_array(struct mt_call *call, const struct mt_array *array)
{
    mt_go_request(call, array->awaited == 1 ? array->first : NULL);
}

/* The class of a code that a function of MPI returned. */
int MT_NAME(error_class)(int code);

/* Notes n requests before the MPI library may complete them. Without memory
 * for it none is noted, and the measurement stops. */
void MT_NAME(array_begin)(struct mt_array *array, int n,
                          const MT_Request *requests, MT_Status *given);
/* Of MPI_Waitall. Open MPI reports the failure of a persistent request, and calls the
 * error handler, only where no statuses are wanted; else it is in that of the request.
 * So where the application wants none, and one may be persistent, it gets none of ours. */
void MT_NAME(array_persistent)(struct mt_array *array, const MT_Status *given);
void MT_NAME(array_end)(struct mt_array *array);

#endif
