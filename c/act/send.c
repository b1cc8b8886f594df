/* send.c: MPI_Send, MPI_Bsend, MPI_Ssend, MPI_Rsend. */
#include "act.h"

/* False: not ours. */
static bool send_blocking(const struct mt_act_message *m, MT_Comm handle,
                          enum mt_engine_mode mode, int *rc_p)
{
    struct mt_act_comm *comm = mt_act_comm_find(handle);
    struct mt_act_type *type;
    struct mt_act_operation operation;
    if (!mt_act_ours(comm, m, MT_ACT_SENDS, &type)) {
        return false;
    }
    mt_act_comm_hold(comm);
    int error = mt_act_send(&operation, comm, m, type, mode);
    if (mt_likely(error == MT_SUCCESS)) {
        mt_act_await(&operation);
        error = mt_act_finish(&operation);
    }
    *rc_p = mt_act_error(comm, error);
    mt_act_comm_let(comm);
    return true;
}

static bool send_buffered(const struct mt_act_message *m, MT_Comm handle,
                          enum mt_engine_mode mode, int *rc_p)
{
    struct mt_act_comm *comm = mt_act_comm_find(handle);
    struct mt_act_type *type;
    (void)mode;
    if (!mt_act_ours(comm, m, MT_ACT_SENDS, &type)) {
        return false;
    }
    *rc_p = mt_act_error(comm, mt_act_buffered(comm, m, type));
    return true;
}

#define MT_SEND(name, count_type, native, how, mode)                         \
    static int name(const void *buffer, count_type count,                    \
                    MT_Datatype datatype, int rank, int tag, MT_Comm comm)   \
    {                                                                        \
        struct mt_act_message m = {(void *)buffer, count, datatype, rank,    \
                                   tag, MT_ACT_CALL_SEND};                   \
        int rc;                                                              \
        return how(&m, comm, mode, &rc)                                      \
                   ? rc                                                      \
                   : native(buffer, count, datatype, rank, tag, comm);       \
    }
#define MT_SEND_BOTH(name, how, mode)                                        \
    MT_SEND(name, int, MT_PMPI(name), how, mode)                             \
    MT_SEND(name##_c, MT_Count, MT_PMPI_c(name), how, mode)

MT_SEND_BOTH(Send, send_blocking, MT_ENGINE_STANDARD)
MT_SEND_BOTH(Rsend, send_blocking, MT_ENGINE_STANDARD)
MT_SEND_BOTH(Ssend, send_blocking, MT_ENGINE_SYNCHRONOUS)
MT_SEND_BOTH(Bsend, send_buffered, MT_ENGINE_STANDARD)

void mt_act_send_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE_BOTH(functions, Send);
    MT_ACT_TAKE_BOTH(functions, Rsend);
    MT_ACT_TAKE_BOTH(functions, Ssend);
    MT_ACT_TAKE_BOTH(functions, Bsend);
}
