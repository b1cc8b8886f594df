/* error.c: errors that the MPI library does not find itself, since the message
 * was not its: a message too long, a peer that is gone, no memory. */
#include <pthread.h>

#include "act.h"

int mt_act_error_of(enum mt_status status)
{
    switch (status) {
    case MT_OK:
        return MT_SUCCESS;
    case MT_ETRUNCATED:
        return MT_ERR_TRUNCATE;
    case MT_ENOMEM:
        return MT_ERR_NO_MEM;
    default:
        return MT_ERR_OTHER;
    }
}

static pthread_mutex_t mt_one = PTHREAD_MUTEX_INITIALIZER;

/* Through the handler that a communicator had when it was freed, by a stand-in that
 * has this rank only. */
MT_COLD static void error_of_freed(MT_Errhandler handler, int error)
{
    MT_Comm stand_in;
    pthread_mutex_lock(&mt_one);
    int rc = MT_PMPI(Comm_dup)(mt_act.self, &stand_in);
    pthread_mutex_unlock(&mt_one);
    if (rc != MT_SUCCESS) {
        MT_PMPI(Comm_call_errhandler)(MT_COMM_WORLD, error);
        return;
    }
    MT_PMPI(Comm_set_errhandler)(stand_in, handler);
    MT_PMPI(Comm_call_errhandler)(stand_in, error);
    MT_PMPI(Comm_free)(&stand_in);
}

int mt_act_error(const struct mt_act_comm *comm, int error)
{
    if (mt_likely(error == MT_SUCCESS)) {
        return error;
    }
    if (__atomic_load_n(&comm->freed, __ATOMIC_ACQUIRE) &&
        mt_act_comm_freeing(comm->handle) != comm) {
        error_of_freed(comm->handler, error);
    } else {
        MT_PMPI(Comm_call_errhandler)(comm->handle, error);
    }
    return error;
}
