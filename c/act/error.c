/* error.c: errors that the MPI library does not find itself, since the message
 * was not its: a message too long, a peer that is gone, no memory. */
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

int mt_act_error(const struct mt_act_comm *comm, int error)
{
    if (mt_unlikely(error != MT_SUCCESS)) {
        MT_PMPI(Comm_call_errhandler)
        (comm->freed ? MT_COMM_WORLD : comm->handle, error);
    }
    return error;
}
