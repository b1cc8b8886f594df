/* wait.c: the end of one request: MPI_Wait, MPI_Test, MPI_Request_get_status,
 * MPI_Request_free, MPI_Cancel. A request of ours that is not active is handed
 * to the MPI library, for which it is inactive too. */
#include "act.h"

static struct mt_act_request *active(const MT_Request *handle)
{
    struct mt_act_request *request =
        handle != NULL ? mt_act_request_find(*handle) : NULL;
    return request != NULL && request->active ? request : NULL;
}

/* What the status of an ended request says. */
static void status_of(const struct mt_act_request *request, MT_Status *status)
{
    if (status == MT_STATUS_IGNORE) {
        return;
    }
    if (request->kind == MT_ACT_SEND || request->kind == MT_ACT_BUFFERED) {
        mt_status_sent(status, request->comm->rank, request->message.tag,
                       request->sent,
                       request->kind == MT_ACT_SEND &&
                           request->operation.engine.cancelled);
    } else if (!request->started) {
        mt_status_set(status, MT_PROC_NULL, MT_ANY_TAG, 0, 0);
    } else {
        mt_act_status(&request->operation, status);
    }
}

int mt_act_complete(struct mt_act_request *request, MT_Request *handle,
                    MT_Status *status)
{
    int error = MT_SUCCESS, other = MT_SUCCESS;
    status_of(request, status);
    if (request->started && request->kind != MT_ACT_BUFFERED) {
        error = mt_act_finish(&request->operation);
    }
    if (mt_unlikely(request->other != NULL)) {
        other = mt_act_finish(request->other);
    }
    if (request->persistent) {
        request->active = false;
    } else {
        *handle = MT_REQUEST_NULL;
        mt_act_request_put(request);
    }
    return error != MT_SUCCESS ? error : other;
}

void mt_act_peek(struct mt_act_request *request, MT_Status *status)
{
    if (request->started && request->kind != MT_ACT_BUFFERED) {
        mt_act_unpack(&request->operation);
    }
    status_of(request, status);
}

static int complete_one(struct mt_act_request *request, MT_Request *handle,
                        MT_Status *status)
{
    struct mt_act_comm *comm = request->comm;
    mt_act_ended();
    mt_act_comm_hold(comm);
    int error = mt_act_error(comm, mt_act_complete(request, handle, status));
    mt_act_comm_let(comm);
    return error;
}

static int Wait(MT_Request *handle, MT_Status *status)
{
    struct mt_act_request *request = active(handle);
    struct mt_act_wait wait = {0};
    if (request == NULL || !mt_act_status_right(status)) {
        return MT_PMPI(Wait)(handle, status);
    }
    mt_act_look();
    while (!mt_act_request_done(request)) {
        mt_act_turn(&wait);
    }
    mt_act_waited(&wait);
    return complete_one(request, handle, status);
}

/* Looks once more after a round of progress. */
static bool done_now(const struct mt_act_request *request)
{
    mt_act_look();
    if (mt_act_request_done(request)) {
        return true;
    }
    mt_act_poll();
    return mt_act_request_done(request);
}

static int Test(MT_Request *handle, int *flag, MT_Status *status)
{
    struct mt_act_request *request = active(handle);
    if (request == NULL || flag == NULL || !mt_act_status_right(status)) {
        return MT_PMPI(Test)(handle, flag, status);
    }
    *flag = done_now(request);
    if (*flag == 0) {
        return MT_SUCCESS;
    }
    return complete_one(request, handle, status);
}

static int Request_get_status(MT_Request handle, int *flag, MT_Status *status)
{
    struct mt_act_request *request = active(&handle);
    if (request == NULL || flag == NULL || !mt_act_status_right(status)) {
        return MT_PMPI(Request_get_status)(handle, flag, status);
    }
    *flag = done_now(request);
    if (*flag == 0) {
        return MT_SUCCESS;
    }
    mt_act_peek(request, status);
    if (!MT_ABI_MPICH || !request->started ||
        request->kind == MT_ACT_BUFFERED) {
        return MT_SUCCESS; /* Open MPI tells of an error when the request is ended */
    }
    int error = mt_act_error_of(request->operation.engine.status);
    if (error != MT_SUCCESS) { /* and MPICH has one handler for all requests */
        MT_PMPI(Comm_call_errhandler)(MT_COMM_WORLD, error);
    }
    return error;
}

static int Request_free(MT_Request *handle)
{
    struct mt_act_request *request =
        handle != NULL ? mt_act_request_find(*handle) : NULL;
    if (request == NULL) {
        return MT_PMPI(Request_free)(handle);
    }
    *handle = MT_REQUEST_NULL;
    mt_act_request_free(request);
    return MT_SUCCESS;
}

/* One that is not active is refused by MPICH; Open MPI says nothing, but may take what
 * was never started, as ours there, out of a queue that it is not in. */
static int Cancel(MT_Request *handle)
{
    struct mt_act_request *request =
        handle != NULL ? mt_act_request_find(*handle) : NULL;
    if (request == NULL || (!request->active && !MT_ABI_OPENMPI)) {
        return MT_PMPI(Cancel)(handle);
    }
    if (request->active &&
        (request->kind == MT_ACT_SEND || request->kind == MT_ACT_RECEIVE)) {
        mt_engine_cancel(&request->operation.engine);
    }
    return MT_SUCCESS;
}

void mt_act_wait_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE(functions, Wait);
    MT_ACT_TAKE(functions, Test);
    MT_ACT_TAKE(functions, Request_get_status);
    MT_ACT_TAKE(functions, Request_free);
    MT_ACT_TAKE(functions, Cancel);
}
