/* nonblocking.c: MPI_Isend to MPI_Irecv, and how every request of ours starts. */
#include "act.h"

int mt_act_request_start(struct mt_act_request *request)
{
    struct mt_act_comm *comm = request->comm;
    const struct mt_act_message *m = &request->message;
    int error;
    if (request->persistent) {
        mt_act_type_use(request->type); /* a start gives one use back */
    }
    if (request->kind == MT_ACT_RECEIVE) {
        error = mt_act_receive(&request->operation, comm, m, request->type);
    } else {
        request->sent = (uint64_t)m->count * request->type->layout.size;
        error = request->kind == MT_ACT_SEND
                    ? mt_act_send(&request->operation, comm, m, request->type,
                                  request->mode)
                    : mt_act_buffered(comm, m, request->type);
    }
    request->active = error == MT_SUCCESS;
    return error;
}

/* False: not ours. */
static bool begin(enum mt_act_kind kind, enum mt_engine_mode mode,
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
    if (mt_unlikely(request == NULL)) {
        mt_act_type_put(type);
        *rc_p = mt_act_error(comm, MT_ERR_NO_MEM);
        return true;
    }
    request->mode = mode;
    request->message = *m;
    request->type = type;
    int error = mt_act_request_start(request);
    request->type = NULL; /* the start took it */
    if (mt_likely(error == MT_SUCCESS)) {
        *request_p = request->handle;
    } else {
        mt_act_request_put(request);
    }
    *rc_p = mt_act_error(comm, error);
    return true;
}

MT_ACT_REQUESTS(begin, Isend, const, MT_ACT_CALL_ISEND, MT_ACT_SEND,
                MT_ENGINE_STANDARD)
MT_ACT_REQUESTS(begin, Irsend, const, MT_ACT_CALL_ISEND, MT_ACT_SEND,
                MT_ENGINE_STANDARD)
MT_ACT_REQUESTS(begin, Issend, const, MT_ACT_CALL_ISEND, MT_ACT_SEND,
                MT_ENGINE_SYNCHRONOUS)
MT_ACT_REQUESTS(begin, Ibsend, const, MT_ACT_CALL_ISEND, MT_ACT_BUFFERED,
                MT_ENGINE_STANDARD)
MT_ACT_REQUESTS(begin, Irecv, , MT_ACT_CALL_IRECV, MT_ACT_RECEIVE,
                MT_ENGINE_STANDARD)

void mt_act_nonblocking_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE_BOTH(functions, Isend);
    MT_ACT_TAKE_BOTH(functions, Irsend);
    MT_ACT_TAKE_BOTH(functions, Issend);
    MT_ACT_TAKE_BOTH(functions, Ibsend);
    MT_ACT_TAKE_BOTH(functions, Irecv);
}
