/* both.c: MPI_Sendrecv and its kin: a message out and one in, by one call. Where
 * one of them is to or from MPI_PROC_NULL, only the other is done. */
#include <stdlib.h>

#include "act.h"

/* Both messages of a call, checked. */
struct mt_act_pair {
    struct mt_act_comm *comm;
    struct mt_act_message out, in;
    struct mt_act_type *out_type, *in_type; /* NULL: MPI_PROC_NULL */
};

/* Whether the library takes what is said of a message to or from MPI_PROC_NULL. */
static bool null_right(struct mt_act_comm *comm, const struct mt_act_message *m,
                       enum mt_act_use use)
{
    struct mt_act_message to_somebody = *m;
    struct mt_act_type *type;
    to_somebody.rank = 0;
    if (mt_likely(mt_act_check(comm, &to_somebody, use, &type))) {
        mt_act_type_put(type);
        return true;
    }
    return m->count > INT32_MAX ||
           (use == MT_ACT_SENDS
                ? MT_PMPI(Send)(m->buffer, (int)m->count, m->datatype,
                                MT_PROC_NULL, m->tag, mt_act.self)
                : MT_PMPI(Recv)((void *)m->buffer, (int)m->count, m->datatype,
                                MT_PROC_NULL, m->tag, mt_act.self,
                                MT_STATUS_IGNORE)) == MT_SUCCESS;
}

/* False: not ours. */
static bool pair_begin(struct mt_act_pair *pair, MT_Comm handle)
{
    struct mt_act_comm *comm = mt_act_comm_find(handle);
    bool sends = pair->out.rank != MT_PROC_NULL;
    bool receives = pair->in.rank != MT_PROC_NULL;
    pair->comm = comm;
    pair->out_type = NULL;
    pair->in_type = NULL;
    if ((sends &&
         !mt_act_ours(comm, &pair->out, MT_ACT_SENDS, &pair->out_type)) ||
        comm == NULL || (!sends && !receives) ||
        (!sends && !null_right(comm, &pair->out, MT_ACT_SENDS))) {
        return false;
    }
    if (receives
            ? !mt_act_check(comm, &pair->in, MT_ACT_RECEIVES, &pair->in_type)
            : !null_right(comm, &pair->in, MT_ACT_RECEIVES)) {
        if (sends) {
            mt_act_type_put(pair->out_type);
        }
        return false;
    }
    return true;
}

/* Waits for the receive. After an error of the send it is taken back, since its
 * memory goes when we return. The first error of both. */
static int receive_end(struct mt_act_operation *in, int error,
                       MT_Status *status)
{
    if (error != MT_SUCCESS) {
        mt_engine_cancel(&in->engine);
    }
    mt_act_look();
    mt_act_await(in);
    mt_act_status(in, status);
    int own = mt_act_finish(in);
    return error != MT_SUCCESS ? error : own;
}

/* The receive first, so that a message to oneself finds it. *copy_p: what is
 * sent in place of the buffer that the receive may overwrite; else NULL. */
static int pair_start(struct mt_act_pair *pair, bool replace,
                      struct mt_act_operation *in, struct mt_act_operation *out,
                      void **copy_p)
{
    struct mt_act_type *type = pair->out_type;
    int error = MT_SUCCESS;
    void *copy = NULL;
    uint64_t bytes = 0;
    if (replace && type != NULL) {
        bytes = (uint64_t)pair->out.count * type->layout.size;
        copy = malloc(bytes + 1);
        if (copy == NULL || !mt_act_type_pack(type, pair->out.buffer,
                                              pair->out.count, copy)) {
            error = MT_ERR_NO_MEM;
        }
    }
    if (error != MT_SUCCESS) {
        if (pair->in_type != NULL) {
            mt_act_type_put(pair->in_type);
        }
    } else if (pair->in_type != NULL) {
        error = mt_act_receive(in, pair->comm, &pair->in, pair->in_type);
    }
    *copy_p = copy;
    if (type == NULL) {
        return error;
    }
    if (error == MT_SUCCESS && copy != NULL) {
        error = mt_act_send_bytes(out, pair->comm, &pair->out, copy, bytes);
        mt_act_type_put(type);
    } else if (error == MT_SUCCESS) {
        error = mt_act_send(out, pair->comm, &pair->out, type,
                            MT_ENGINE_STANDARD);
    } else {
        mt_act_type_put(type);
        return error;
    }
    return error != MT_SUCCESS && pair->in_type != NULL
               ? receive_end(in, error, MT_STATUS_IGNORE)
               : error;
}

static int pair_blocking(struct mt_act_pair *pair, bool replace,
                         MT_Status *status)
{
    struct mt_act_operation in, out;
    void *copy;
    bool sends = pair->out_type != NULL, receives = pair->in_type != NULL;
    mt_act_comm_hold(pair->comm);
    int error = pair_start(pair, replace, &in, &out, &copy);
    bool started = error == MT_SUCCESS;
    if (started && sends) {
        mt_act_await(&out);
        error = mt_act_finish(&out);
    }
    if (started && receives) {
        error = receive_end(&in, error, status);
    } else if (!receives && status != MT_STATUS_IGNORE) {
        mt_status_set(status, MT_PROC_NULL, MT_ANY_TAG, 0, 0);
    }
    free(copy);
    error = mt_act_error(pair->comm, error);
    mt_act_comm_let(pair->comm);
    return error;
}

static int pair_nonblocking(struct mt_act_pair *pair, bool replace,
                            MT_Request *request_p)
{
    struct mt_act_request *request =
        mt_act_request_get(MT_ACT_PAIR, pair->comm);
    struct mt_act_operation *other =
        request != NULL ? malloc(sizeof(*other)) : NULL;
    if (other == NULL) {
        if (request != NULL) {
            mt_act_request_put(request);
        }
        return mt_act_error(pair->comm, MT_ERR_NO_MEM);
    }
    bool sends = pair->out_type != NULL;
    request->started = pair->in_type != NULL;
    int error =
        pair_start(pair, replace, &request->operation, other, &request->copy);
    if (sends && error == MT_SUCCESS) {
        request->other = other;
    } else {
        free(other);
    }
    if (error != MT_SUCCESS) {
        mt_act_request_put(request);
        return mt_act_error(pair->comm, error);
    }
    request->active = true;
    *request_p = request->handle;
    return MT_SUCCESS;
}

/* ---- the functions ---- */

#define MT_PAIR(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,        \
                recvcount, recvtype, source, recvtag)                        \
    {                                                                        \
        .out = {(void *)(sendbuf), sendcount, sendtype, dest, sendtag,       \
                MT_ACT_CALL_SENDRECV},                                       \
        .in = {recvbuf, recvcount, recvtype, source, recvtag,                \
               MT_ACT_CALL_SENDRECV},                                        \
    }

/* What the last argument must be. */
#define MT_RIGHT_status(status) mt_act_status_right(status)
#define MT_RIGHT_request(request) ((request) != NULL)

#define MT_SENDRECV(name, count_type, native, last_type, last, how)          \
    static int name(const void *sendbuf, count_type sendcount,               \
                    MT_Datatype sendtype, int dest, int sendtag,             \
                    void *recvbuf, count_type recvcount,                     \
                    MT_Datatype recvtype, int source, int recvtag,           \
                    MT_Comm comm, last_type *last)                           \
    {                                                                        \
        struct mt_act_pair pair =                                            \
            MT_PAIR(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,    \
                    recvcount, recvtype, source, recvtag);                   \
        return MT_RIGHT_##last(last) && pair_begin(&pair, comm)              \
                   ? how(&pair, false, last)                                 \
                   : native(sendbuf, sendcount, sendtype, dest, sendtag,     \
                            recvbuf, recvcount, recvtype, source, recvtag,   \
                            comm, last);                                     \
    }
#define MT_REPLACE(name, count_type, native, last_type, last, how)           \
    static int name(void *buffer, count_type count, MT_Datatype datatype,    \
                    int dest, int sendtag, int source, int recvtag,          \
                    MT_Comm comm, last_type *last)                           \
    {                                                                        \
        struct mt_act_pair pair =                                            \
            MT_PAIR(buffer, count, datatype, dest, sendtag, buffer, count,   \
                    datatype, source, recvtag);                              \
        return MT_RIGHT_##last(last) && pair_begin(&pair, comm)              \
                   ? how(&pair, true, last)                                  \
                   : native(buffer, count, datatype, dest, sendtag, source,  \
                            recvtag, comm, last);                            \
    }
#define MT_BOTH(form, name, last_type, last, how)                            \
    form(name, int, MT_PMPI(name), last_type, last, how)                     \
    form(name##_c, MT_Count, MT_PMPI_c(name), last_type, last, how)

MT_BOTH(MT_SENDRECV, Sendrecv, MT_Status, status, pair_blocking)
MT_BOTH(MT_REPLACE, Sendrecv_replace, MT_Status, status, pair_blocking)
MT_BOTH(MT_SENDRECV, Isendrecv, MT_Request, request, pair_nonblocking)
MT_BOTH(MT_REPLACE, Isendrecv_replace, MT_Request, request, pair_nonblocking)

void mt_act_both_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE_BOTH(functions, Sendrecv);
    MT_ACT_TAKE_BOTH(functions, Sendrecv_replace);
    MT_ACT_TAKE_BOTH(functions, Isendrecv);
    MT_ACT_TAKE_BOTH(functions, Isendrecv_replace);
}
