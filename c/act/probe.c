/* probe.c: MPI_Probe, MPI_Mprobe and their kin, and matched receives. The handle
 * of a matched message is one of the library's own: an empty message to this
 * process on the private duplicate of MPI_COMM_SELF, probed and never received
 * before the end. */
#include <stdlib.h>

#include "act.h"

struct mt_act_matched {
    MT_Message handle;
    MT_Request sent; /* the library may end it only when it is received */
    struct mt_engine_message *message; /* NULL: not in use */
    struct mt_act_comm *comm;
    struct mt_act_matched *next; /* not in use */
    struct mt_act_matched *all;
};

static struct mt_act_matched *mt_matched_free, *mt_matched_all;

/* What a probe of ours looks for. */
struct mt_act_wanted {
    struct mt_act_comm *comm;
    int32_t source, tag;
};

/* False: not ours. */
static bool wanted(int rank, int tag, MT_Comm handle, const MT_Status *status,
                   struct mt_act_wanted *w)
{
    struct mt_act_comm *comm = mt_act_comm_find(handle);
    if (comm == NULL || !mt_act_status_right(status) ||
        ((uint32_t)rank >= (uint32_t)comm->size && rank != MT_ANY_SOURCE) ||
        ((tag < 0 || tag > mt_act.tag_limit) && tag != MT_ANY_TAG)) {
        return false;
    }
    mt_act_look();
    *w = (struct mt_act_wanted){
        comm, rank == MT_ANY_SOURCE ? MT_ENGINE_ANY : rank,
        tag == MT_ANY_TAG ? MT_ENGINE_ANY : tag};
    return true;
}

static enum mt_status look(const struct mt_act_wanted *w, MT_Status *status,
                           struct mt_engine_message **message_p)
{
    struct mt_engine_envelope found;
    enum mt_status looked = mt_engine_probe(w->comm->context, w->source,
                                            w->tag, &found, message_p);
    if (looked == MT_OK && status != MT_STATUS_IGNORE) {
        mt_status_set(status, found.source, found.tag, found.bytes, 0);
    }
    return looked;
}

/* An error of MPI. */
static int look_now(const struct mt_act_wanted *w, MT_Status *status,
                    struct mt_engine_message **message_p, int *flag)
{
    enum mt_status looked = look(w, status, message_p);
    if (looked == MT_EAGAIN) {
        mt_act_poll();
        looked = look(w, status, message_p);
    }
    *flag = looked == MT_OK;
    return looked == MT_EAGAIN ? MT_SUCCESS : mt_act_error_of(looked);
}

static int look_until(const struct mt_act_wanted *w, MT_Status *status,
                      struct mt_engine_message **message_p)
{
    struct mt_act_wait wait = {0};
    enum mt_status looked;
    while ((looked = look(w, status, message_p)) == MT_EAGAIN) {
        mt_act_turn(&wait);
    }
    mt_act_waited(&wait);
    return mt_act_error_of(looked);
}

/* ---- handles of matched messages ---- */

static bool matched_native(struct mt_act_matched *matched)
{
    return MT_PMPI(Isend)(NULL, 0, MT_BYTE, 0, 0, mt_act.self,
                          &matched->sent) == MT_SUCCESS &&
           MT_PMPI(Mprobe)(0, 0, mt_act.self, &matched->handle,
                           MT_STATUS_IGNORE) == MT_SUCCESS;
}

MT_COLD static struct mt_act_matched *matched_make(void)
{
    struct mt_act_matched *matched = calloc(1, sizeof(*matched));
    if (matched == NULL || !matched_native(matched)) {
        free(matched);
        return NULL;
    }
    mt_act_lock();
    bool put = mt_act_table_put(&mt_act.messages, MT_U64(matched->handle),
                                matched);
    if (put) {
        matched->all = mt_matched_all;
        mt_matched_all = matched;
    }
    mt_act_unlock();
    if (!put) {
        free(matched);
        return NULL;
    }
    return matched;
}

static struct mt_act_matched *matched_get(struct mt_act_comm *comm)
{
    mt_act_lock();
    struct mt_act_matched *matched = mt_matched_free;
    if (matched != NULL) {
        mt_matched_free = matched->next;
    }
    mt_act_unlock();
    matched = matched != NULL ? matched : matched_make();
    if (matched != NULL) {
        matched->comm = comm;
    }
    return matched;
}

static void matched_put(struct mt_act_matched *matched)
{
    matched->message = NULL;
    mt_act_lock();
    matched->next = mt_matched_free;
    mt_matched_free = matched;
    mt_act_unlock();
}

bool mt_act_matched_uses(const struct mt_act_comm *comm)
{
    bool uses = false;
    mt_act_lock();
    for (struct mt_act_matched *m = mt_matched_all; m != NULL; m = m->all) {
        uses = uses || (m->message != NULL && m->comm == comm);
    }
    mt_act_unlock();
    return uses;
}

void mt_act_probe_end(void)
{
    mt_act_table_free(&mt_act.messages);
    /* all before any is waited for: of two threads each may have probed the
     * message of the other */
    for (struct mt_act_matched *m = mt_matched_all; m != NULL; m = m->all) {
        MT_PMPI(Mrecv)(NULL, 0, MT_BYTE, &m->handle, MT_STATUS_IGNORE);
    }
    while (mt_matched_all != NULL) {
        struct mt_act_matched *matched = mt_matched_all;
        mt_matched_all = matched->all;
        MT_PMPI(Wait)(&matched->sent, MT_STATUS_IGNORE);
        free(matched);
    }
    mt_matched_free = NULL;
}

/* ---- the functions ---- */

static int Probe(int rank, int tag, MT_Comm comm, MT_Status *status)
{
    struct mt_act_wanted w;
    if (!wanted(rank, tag, comm, status, &w)) {
        return MT_PMPI(Probe)(rank, tag, comm, status);
    }
    mt_act_comm_hold(w.comm);
    int rc = mt_act_error(w.comm, look_until(&w, status, NULL));
    mt_act_comm_let(w.comm);
    return rc;
}

static int Iprobe(int rank, int tag, MT_Comm comm, int *flag, MT_Status *status)
{
    struct mt_act_wanted w;
    if (flag == NULL || !wanted(rank, tag, comm, status, &w)) {
        return MT_PMPI(Iprobe)(rank, tag, comm, flag, status);
    }
    return mt_act_error(w.comm, look_now(&w, status, NULL, flag));
}

static int Mprobe(int rank, int tag, MT_Comm comm, MT_Message *message,
                  MT_Status *status)
{
    struct mt_act_wanted w;
    if (message == NULL || !wanted(rank, tag, comm, status, &w)) {
        return MT_PMPI(Mprobe)(rank, tag, comm, message, status);
    }
    struct mt_act_matched *matched = matched_get(w.comm);
    if (matched == NULL) {
        return mt_act_error(w.comm, MT_ERR_NO_MEM);
    }
    mt_act_comm_hold(w.comm);
    int error = look_until(&w, status, &matched->message);
    if (error == MT_SUCCESS) {
        *message = matched->handle;
    } else {
        matched_put(matched);
    }
    error = mt_act_error(w.comm, error);
    mt_act_comm_let(w.comm);
    return error;
}

static int Improbe(int rank, int tag, MT_Comm comm, int *flag,
                   MT_Message *message, MT_Status *status)
{
    struct mt_act_wanted w;
    if (flag == NULL || message == NULL ||
        !wanted(rank, tag, comm, status, &w)) {
        return MT_PMPI(Improbe)(rank, tag, comm, flag, message, status);
    }
    struct mt_act_matched *matched = matched_get(w.comm);
    if (matched == NULL) {
        return mt_act_error(w.comm, MT_ERR_NO_MEM);
    }
    int error = look_now(&w, status, &matched->message, flag);
    if (*flag != 0) {
        *message = matched->handle;
    } else {
        matched_put(matched);
        *message = MT_MESSAGE_NULL;
    }
    return mt_act_error(w.comm, error);
}

/* The matched message of a call whose other arguments are right; NULL: not
 * ours. */
static struct mt_act_matched *matched_find(const MT_Message *handle,
                                           struct mt_act_message *m,
                                           struct mt_act_type **type_p)
{
    struct mt_act_matched *matched =
        handle != NULL
            ? mt_act_table_get(&mt_act.messages, MT_U64(*handle))
            : NULL;
    if (matched == NULL || matched->message == NULL) {
        return NULL;
    }
    m->rank = MT_ANY_SOURCE;
    m->tag = MT_ANY_TAG;
    return mt_act_check(matched->comm, m, MT_ACT_RECEIVES, type_p) ? matched
                                                                   : NULL;
}

/* Starts to receive the message. Its handle is gone then; after an error it is
 * as it was. */
static int matched_receive(struct mt_act_matched *matched, MT_Message *handle,
                           const struct mt_act_message *m,
                           struct mt_act_type *type,
                           struct mt_act_operation *operation)
{
    int error = mt_act_receive_message(operation, matched->comm, m, type,
                                       matched->message);
    if (error == MT_SUCCESS) {
        *handle = MT_MESSAGE_NULL;
        matched_put(matched);
    }
    return error;
}

static bool mrecv(struct mt_act_message *m, MT_Message *handle,
                  MT_Status *status, int *rc_p)
{
    struct mt_act_type *type;
    struct mt_act_operation operation;
    struct mt_act_matched *matched =
        mt_act_status_right(status) ? matched_find(handle, m, &type) : NULL;
    if (matched == NULL) {
        return false;
    }
    struct mt_act_comm *comm = matched->comm;
    mt_act_comm_hold(comm);
    int error = matched_receive(matched, handle, m, type, &operation);
    if (error == MT_SUCCESS) {
        mt_act_look();
        mt_act_await(&operation);
        error = mt_act_finish(&operation);
        mt_act_status(&operation, status);
    }
    *rc_p = mt_act_error(comm, error);
    mt_act_comm_let(comm);
    return true;
}

static bool imrecv(struct mt_act_message *m, MT_Message *handle,
                   MT_Request *request_p, int *rc_p)
{
    struct mt_act_type *type;
    struct mt_act_matched *matched =
        request_p != NULL ? matched_find(handle, m, &type) : NULL;
    if (matched == NULL) {
        return false;
    }
    struct mt_act_comm *comm = matched->comm;
    mt_act_comm_hold(comm); /* while its use moves from the message to the request */
    struct mt_act_request *request = mt_act_request_get(MT_ACT_RECEIVE, comm);
    if (request == NULL) {
        mt_act_type_put(type);
        *rc_p = mt_act_error(comm, MT_ERR_NO_MEM);
        mt_act_comm_let(comm);
        return true;
    }
    int error =
        matched_receive(matched, handle, m, type, &request->operation);
    if (error == MT_SUCCESS) {
        request->active = true;
        *request_p = request->handle;
    } else {
        mt_act_request_put(request);
    }
    *rc_p = mt_act_error(comm, error);
    mt_act_comm_let(comm);
    return true;
}

/* The library refused the other arguments of a message of ours. It takes that for one of
 * mt_act.self, whose errors are returned; MPICH has called a handler by then. */
static int matched_refused(const MT_Message *handle, int error)
{
    struct mt_act_matched *matched =
        !MT_ABI_MPICH && error != MT_SUCCESS && handle != NULL
            ? mt_act_table_get(&mt_act.messages, MT_U64(*handle))
            : NULL;
    return matched != NULL && matched->message != NULL
               ? mt_act_error(matched->comm, error)
               : error;
}

#define MT_MATCHED(name, count_type, native, last_type, last, how)           \
    static int name(void *buffer, count_type count, MT_Datatype datatype,    \
                    MT_Message *message, last_type *last)                    \
    {                                                                        \
        struct mt_act_message m = {buffer, count, datatype, 0, 0,            \
                                   MT_ACT_CALL_RECV};                        \
        int rc;                                                              \
        return how(&m, message, last, &rc)                                   \
                   ? rc                                                      \
                   : matched_refused(                                        \
                         message,                                            \
                         native(buffer, count, datatype, message, last));    \
    }
MT_MATCHED(Mrecv, int, MT_PMPI(Mrecv), MT_Status, status, mrecv)
MT_MATCHED(Mrecv_c, MT_Count, MT_PMPI_c(Mrecv), MT_Status, status, mrecv)
MT_MATCHED(Imrecv, int, MT_PMPI(Imrecv), MT_Request, request, imrecv)
MT_MATCHED(Imrecv_c, MT_Count, MT_PMPI_c(Imrecv), MT_Request, request, imrecv)

void mt_act_probe_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE(functions, Probe);
    MT_ACT_TAKE(functions, Iprobe);
    MT_ACT_TAKE(functions, Mprobe);
    MT_ACT_TAKE(functions, Improbe);
    MT_ACT_TAKE_BOTH(functions, Mrecv);
    MT_ACT_TAKE_BOTH(functions, Imrecv);
}
