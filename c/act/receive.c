/* receive.c: MPI_Recv. */
#include "act.h"

/* False: not ours. */
static bool receive_blocking(const struct mt_act_message *m, MT_Comm handle,
                             MT_Status *status, int *rc_p)
{
    struct mt_act_comm *comm = mt_act_comm_find(handle);
    struct mt_act_type *type;
    struct mt_act_operation operation;
    if (comm == NULL || !mt_act_status_right(status) ||
        !mt_act_check(comm, m, MT_ACT_RECEIVES, &type)) {
        return false;
    }
    mt_act_comm_hold(comm);
    int error = mt_act_receive(&operation, comm, m, type);
    if (mt_likely(error == MT_SUCCESS)) {
        mt_act_look();
        mt_act_await(&operation);
        error = mt_act_finish(&operation);
        mt_act_status(&operation, status);
    }
    *rc_p = mt_act_error(comm, error);
    mt_act_comm_let(comm);
    return true;
}

static int Recv(void *buffer, int count, MT_Datatype datatype, int rank,
                int tag, MT_Comm comm, MT_Status *status)
{
    struct mt_act_message m = {buffer, count, datatype, rank, tag,
                               MT_ACT_CALL_RECV};
    int rc;
    return receive_blocking(&m, comm, status, &rc)
               ? rc
               : MT_PMPI(Recv)(buffer, count, datatype, rank, tag, comm,
                               status);
}

static int Recv_c(void *buffer, MT_Count count, MT_Datatype datatype, int rank,
                  int tag, MT_Comm comm, MT_Status *status)
{
    struct mt_act_message m = {buffer, count, datatype, rank, tag,
                               MT_ACT_CALL_RECV};
    int rc;
    return receive_blocking(&m, comm, status, &rc)
               ? rc
               : MT_PMPI_c(Recv)(buffer, count, datatype, rank, tag, comm,
                                 status);
}

void mt_act_receive_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE_BOTH(functions, Recv);
}
