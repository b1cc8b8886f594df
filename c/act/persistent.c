/* persistent.c: MPI_Send_init to MPI_Recv_init, MPI_Start, MPI_Startall. */
#include "act.h"

/* False: not ours. */
static bool prepare(enum mt_act_kind kind, enum mt_engine_mode mode,
                    const struct mt_act_message *m, MT_Comm handle,
                    MT_Request *request_p, int *rc_p)
{
    struct mt_act_comm *comm = mt_act_comm_find(handle);
    struct mt_act_type *type;
    enum mt_act_use use =
        kind == MT_ACT_RECEIVE ? MT_ACT_RECEIVES : MT_ACT_SENDS;
    if (request_p == NULL || !mt_act_ours(comm, m, use, &type)) {
        return false;
    }
    struct mt_act_request *request = mt_act_request_get(kind, comm);
    if (request == NULL) {
        mt_act_type_put(type);
        *rc_p = mt_act_error(comm, MT_ERR_NO_MEM);
        return true;
    }
    request->mode = mode;
    request->message = *m;
    request->type = type;
    request->persistent = true;
    *request_p = request->handle;
    *rc_p = MT_SUCCESS;
    return true;
}

MT_ACT_REQUESTS(prepare, Send_init, const, MT_ACT_CALL_PERSISTENT, MT_ACT_SEND,
                MT_ENGINE_STANDARD)
MT_ACT_REQUESTS(prepare, Rsend_init, const, MT_ACT_CALL_PERSISTENT,
                MT_ACT_SEND, MT_ENGINE_STANDARD)
MT_ACT_REQUESTS(prepare, Ssend_init, const, MT_ACT_CALL_PERSISTENT,
                MT_ACT_SEND, MT_ENGINE_SYNCHRONOUS)
MT_ACT_REQUESTS(prepare, Bsend_init, const, MT_ACT_CALL_PERSISTENT,
                MT_ACT_BUFFERED, MT_ENGINE_STANDARD)
MT_ACT_REQUESTS(prepare, Recv_init, , MT_ACT_CALL_IRECV, MT_ACT_RECEIVE,
                MT_ENGINE_STANDARD)

static int Start(MT_Request *handle)
{
    struct mt_act_request *request =
        handle != NULL ? mt_act_request_find(*handle) : NULL;
    if (request == NULL) {
        return MT_PMPI(Start)(handle);
    }
    if (mt_unlikely(request->active || !request->persistent)) {
        return mt_act_error(request->comm, MT_ERR_REQUEST);
    }
    return mt_act_error(request->comm, mt_act_request_start(request));
}

static int Startall(int count, MT_Request *handles)
{
    bool ours = false;
    for (int i = 0; handles != NULL && i < count && !ours; i++) {
        ours = mt_act_request_find(handles[i]) != NULL;
    }
    if (!ours) {
        return MT_PMPI(Startall)(count, handles);
    }
    int rc = MT_SUCCESS;
    for (int i = 0; i < count && rc == MT_SUCCESS; i++) {
        rc = Start(&handles[i]);
    }
    return rc;
}

void mt_act_persistent_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE_BOTH(functions, Send_init);
    MT_ACT_TAKE_BOTH(functions, Rsend_init);
    MT_ACT_TAKE_BOTH(functions, Ssend_init);
    MT_ACT_TAKE_BOTH(functions, Bsend_init);
    MT_ACT_TAKE_BOTH(functions, Recv_init);
    MT_ACT_TAKE(functions, Start);
    MT_ACT_TAKE(functions, Startall);
}
