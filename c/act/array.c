/* array.c: the end of several requests, ours and the library's in any mixture.
 * The library is shown a copy of the array with MPI_REQUEST_NULL in the places of
 * ours; without an active request of ours it is given the call as it is. */
#include <stdlib.h>

#include "act.h"

enum { MT_ACT_FEW = 64 };

/* An array of requests, sorted by whose they are. */
struct mt_act_array {
    int count, ours, natives;
    int undone; /* of ours all before it are done */
    MT_Request *handles; /* the application's */
    MT_Request *copy;    /* of the library's; NULL: there are none */
    struct mt_act_wait wait;
    MT_Request few[MT_ACT_FEW];
    struct mt_act_request *found[MT_ACT_FEW]; /* ours; the first of many */
};

static struct mt_act_request *ours_at(const struct mt_act_array *array, int i)
{
    struct mt_act_request *request =
        i < MT_ACT_FEW ? array->found[i]
                       : mt_act_request_find(array->handles[i]);
    return request != NULL && request->active ? request : NULL;
}

/* Without it nobody could wait for the library's requests. */
static void *room(int count, size_t bytes)
{
    void *memory = malloc((size_t)count * bytes);
    if (memory == NULL) {
        mt_act.host->say(MT_ACT_LAST, "no memory to wait for an array of requests");
        MT_PMPI(Abort)(MT_COMM_WORLD, MT_ERR_NO_MEM);
    }
    return memory;
}

/* False: none is ours. */
static bool array_begin(struct mt_act_array *array, int count,
                        MT_Request *handles)
{
    array->count = count;
    array->ours = 0;
    array->natives = 0;
    array->undone = 0;
    array->handles = handles;
    array->copy = NULL;
    array->wait = (struct mt_act_wait){.turns = 0};
    for (int i = 0; handles != NULL && i < count; i++) {
        struct mt_act_request *request = mt_act_request_find(handles[i]);
        if (i < MT_ACT_FEW) {
            array->found[i] = request;
        }
        if (request != NULL && request->active) {
            array->ours++;
        } else if (handles[i] != MT_REQUEST_NULL) {
            array->natives++;
        }
    }
    if (array->ours == 0) {
        return false;
    }
    mt_act_look();
    if (mt_unlikely(array->natives > 0)) {
        array->copy = count <= MT_ACT_FEW ? array->few
                                           : room(count, sizeof(MT_Request));
        array->wait.untold = true; /* the library may call error handlers */
    }
    for (int i = 0; array->copy != NULL && i < count; i++) {
        array->copy[i] =
            ours_at(array, i) != NULL ? MT_REQUEST_NULL : handles[i];
    }
    return true;
}

static void array_end(struct mt_act_array *array)
{
    mt_act_waited(&array->wait);
    if (array->copy != NULL && array->copy != array->few) {
        free(array->copy);
    }
}

/* The library has ended some of its own. */
static void array_copy_back(struct mt_act_array *array)
{
    for (int i = 0; i < array->count; i++) {
        if (ours_at(array, i) == NULL) {
            array->handles[i] = array->copy[i];
        }
    }
}

/* The first of ours that is done, from an index on; -1: none. */
static int array_next(const struct mt_act_array *array, int first)
{
    for (int i = first; i < array->count; i++) {
        const struct mt_act_request *request = ours_at(array, i);
        if (request != NULL && mt_act_request_done(request)) {
            return i;
        }
    }
    return -1;
}

static bool array_done(struct mt_act_array *array)
{
    for (; array->undone < array->count; array->undone++) {
        const struct mt_act_request *request =
            ours_at(array, array->undone);
        if (request != NULL && !mt_act_request_done(request)) {
            return false;
        }
    }
    return true;
}

static MT_Status *status_at(MT_Status *statuses, int i)
{
    return statuses == MT_STATUS_IGNORE ? statuses : statuses + i;
}

static void error_at(MT_Status *statuses, int i, int error)
{
    if (statuses != MT_STATUS_IGNORE) {
        statuses[i].error = error;
    }
}

/* Of an entry that is null or inactive. */
static void status_empty(MT_Status *status)
{
    mt_status_set(status, MT_ANY_SOURCE, MT_ANY_TAG, 0, 0);
    if (mt_act.clears_errors) {
        status->error = MT_SUCCESS;
    }
}

/* The first error of a call: all its statuses have an error then. */
static void errors_begin(MT_Status *statuses, int count)
{
    for (int i = 0; i < count; i++) {
        error_at(statuses, i, MT_SUCCESS);
    }
}

/* Ends one of ours. The communicator of the first that fails is held in
 * *failed_p, NULL before, until its handler was called. True: it is this one. */
static bool complete_at(struct mt_act_array *array, int i, MT_Status *status,
                        struct mt_act_comm **failed_p, int *error_p)
{
    struct mt_act_request *request = ours_at(array, i);
    struct mt_act_comm *comm = request->comm;
    mt_act_ended();
    mt_act_comm_hold(comm);
    *error_p = mt_act_complete(request, &array->handles[i], status);
    if (mt_unlikely(*error_p != MT_SUCCESS && *failed_p == NULL)) {
        *failed_p = comm;
        return true;
    }
    mt_act_comm_let(comm);
    return false;
}

/* Calls its handler. */
static int failed_end(struct mt_act_comm *failed, int error)
{
    int rc = mt_act_error(failed, error);
    mt_act_comm_let(failed);
    return rc;
}

/* Ends all of ours that are done, and those that are null or inactive; failed_p: see
 * complete_at. native: what the library said of its own; after an error of theirs some
 * of ours may not be done. */
static void complete_ours(struct mt_act_array *array, MT_Status *statuses,
                          int native, struct mt_act_comm **failed_p)
{
    for (int i = 0; i < array->count; i++) {
        int error;
        if (ours_at(array, i) == NULL) {
            if (array->copy == NULL && statuses != MT_STATUS_IGNORE) {
                status_empty(&statuses[i]);
            }
            continue;
        }
        if (!mt_act_request_done(ours_at(array, i))) {
            error_at(statuses, i, MT_ERR_PENDING);
            continue;
        }
        if (complete_at(array, i, status_at(statuses, i), failed_p, &error) &&
            native == MT_SUCCESS) {
            errors_begin(statuses, array->count);
        }
        error_at(statuses, i, error);
    }
}

/* What a call on several requests returns. */
static int array_result(struct mt_act_comm *failed, int native)
{
    return failed != NULL ? failed_end(failed, MT_ERR_IN_STATUS) : native;
}

/* Requests of the library's that were ended before all of ours were. */
struct mt_act_ended {
    int count;
    int *places; /* in the array; room for all of the library's */
    MT_Status *statuses;
};

/* MPICH 4.2 ends a generalized request whose function fails without an error in its
 * status: what was ended with it has one then, of no known class. */
static void errors_told(MT_Status *statuses, int some)
{
    for (int i = 0; i < some; i++) {
        if (statuses[i].error != MT_SUCCESS) {
            return;
        }
    }
    for (int i = 0; i < some; i++) {
        statuses[i].error = MT_ERR_OTHER;
    }
}

/* While one of ours is not done the library's go on, those too that do so only in
 * calls which name them (nonblocking collective input and output of MPICH). What is done
 * is ended at once: Testall of MPICH asks the function of a generalized request again
 * each time. False: one has failed, *native_p. */
static bool natives_go_on(struct mt_act_array *array, struct mt_act_ended *ended,
                          int *native_p)
{
    int some = 0;
    if (array->copy == NULL) {
        return true;
    }
    if (ended->places == NULL) {
        ended->places = room(array->natives, sizeof(int));
        ended->statuses = room(array->natives, sizeof(MT_Status));
    }
    *native_p = MT_PMPI(Testsome)(array->count, array->copy, &some,
                                  ended->places + ended->count,
                                  ended->statuses + ended->count);
    if (some == MT_UNDEFINED ||
        (*native_p != MT_SUCCESS && *native_p != MT_ERR_IN_STATUS)) {
        some = 0;
    }
    if (*native_p == MT_ERR_IN_STATUS) {
        errors_told(ended->statuses + ended->count, some);
    }
    for (int i = 0; i < some && *native_p == MT_SUCCESS; i++) {
        ended->statuses[ended->count + i].error = MT_SUCCESS;
    }
    ended->count += some;
    return *native_p == MT_SUCCESS;
}

/* The library's that are left, once all of ours are done; failed, unless MT_SUCCESS: one
 * that was ended before has. Before complete_ours, which writes over empty places. */
static int natives_end(struct mt_act_array *array, struct mt_act_ended *ended,
                       int failed, MT_Status *statuses)
{
    int native = failed;
    if (failed == MT_SUCCESS) {
        native = MT_PMPI(Waitall)(array->count, array->copy, statuses);
    }
    for (int i = 0; failed != MT_SUCCESS && statuses != MT_STATUS_IGNORE &&
                    i < array->count;
         i++) {
        status_empty(&statuses[i]);
        error_at(statuses, i,
                 array->copy[i] == MT_REQUEST_NULL ? MT_SUCCESS : MT_ERR_PENDING);
    }
    for (int i = 0; i < ended->count && statuses != MT_STATUS_IGNORE; i++) {
        MT_Status *status = &statuses[ended->places[i]];
        int error = failed != MT_SUCCESS ? ended->statuses[i].error
                                         : status->error;
        *status = ended->statuses[i];
        status->error = error;
    }
    free(ended->places);
    free(ended->statuses);
    return native;
}

static int Waitall(int count, MT_Request *handles, MT_Status *statuses)
{
    struct mt_act_array array;
    struct mt_act_ended ended = {0};
    struct mt_act_comm *failed = NULL;
    int native = MT_SUCCESS;
    if (!mt_act_status_right(statuses) ||
        !array_begin(&array, count, handles)) {
        return MT_PMPI(Waitall)(count, handles, statuses);
    }
    while (!array_done(&array) && natives_go_on(&array, &ended, &native)) {
        mt_act_turn(&array.wait);
    }
    mt_act_waited(&array.wait);
    if (array.copy != NULL) {
        native = natives_end(&array, &ended, native, statuses);
        array_copy_back(&array);
    }
    complete_ours(&array, statuses, native, &failed);
    array_end(&array);
    return array_result(failed, native);
}

/* One of ours that never ends stands for those that are not done, so that the library's
 * are looked at and stay what they are. No thread ever ends it, so all may show it to the
 * library at once. After an error the library has ended some. */
static int natives_looked_at(struct mt_act_array *array, MT_Status *statuses)
{
    int flag, native = MT_SUCCESS;
    if (array->copy != NULL) {
        array->copy[array->undone] = mt_act.never;
        native = MT_PMPI(Testall)(array->count, array->copy, &flag, statuses);
        array->copy[array->undone] = MT_REQUEST_NULL;
    }
    return native;
}

static int Testall(int count, MT_Request *handles, int *flag,
                   MT_Status *statuses)
{
    struct mt_act_array array;
    struct mt_act_comm *failed = NULL;
    int native = MT_SUCCESS;
    if (flag == NULL || !mt_act_status_right(statuses) ||
        !array_begin(&array, count, handles)) {
        return MT_PMPI(Testall)(count, handles, flag, statuses);
    }
    *flag = array_done(&array);
    if (*flag == 0) {
        mt_act_poll();
        *flag = array_done(&array);
    }
    if (*flag == 0) {
        native = natives_looked_at(&array, statuses);
    } else if (array.copy != NULL) {
        native = MT_PMPI(Testall)(count, array.copy, flag, statuses);
    }
    if (array.copy != NULL) {
        array_copy_back(&array);
    }
    if (*flag != 0 || native == MT_ERR_IN_STATUS) {
        complete_ours(&array, statuses, native, &failed);
    }
    array_end(&array);
    return array_result(failed, native);
}

/* One of ours that is done. True: *rc_p is the result. */
static bool any_ours(struct mt_act_array *array, int *index, MT_Status *status,
                     int *rc_p)
{
    int i = array_next(array, 0);
    if (i < 0) {
        return false;
    }
    struct mt_act_comm *failed = NULL;
    complete_at(array, i, status, &failed, rc_p);
    *index = i;
    mt_act_waited(&array->wait); /* before a handler of the program */
    if (failed != NULL) {
        *rc_p = failed_end(failed, *rc_p);
    }
    return true;
}

/* The same of the library's. */
static bool any_native(struct mt_act_array *array, int *index,
                       MT_Status *status, int *rc_p)
{
    int flag = 0;
    if (array->copy == NULL) {
        return false;
    }
    *rc_p =
        MT_PMPI(Testany)(array->count, array->copy, index, &flag, status);
    array_copy_back(array);
    return *rc_p != MT_SUCCESS || (flag != 0 && *index != MT_UNDEFINED);
}

/* One that is done, of either. Who was not served last is looked at first, so
 * that neither starves where the other always has one. */
static bool any_done(struct mt_act_array *array, int *index, MT_Status *status,
                     int *rc_p)
{
    static _Thread_local bool native_first;
    if (native_first && any_native(array, index, status, rc_p)) {
        native_first = false;
        return true;
    }
    if (any_ours(array, index, status, rc_p)) {
        native_first = true;
        return true;
    }
    return !native_first && any_native(array, index, status, rc_p);
}

static int Waitany(int count, MT_Request *handles, int *index,
                   MT_Status *status)
{
    struct mt_act_array array;
    int rc;
    if (index == NULL || !mt_act_status_right(status) ||
        !array_begin(&array, count, handles)) {
        return MT_PMPI(Waitany)(count, handles, index, status);
    }
    while (!any_done(&array, index, status, &rc)) {
        mt_act_turn(&array.wait);
    }
    array_end(&array);
    return rc;
}

static int Testany(int count, MT_Request *handles, int *index, int *flag,
                   MT_Status *status)
{
    struct mt_act_array array;
    int rc;
    if (index == NULL || flag == NULL || !mt_act_status_right(status) ||
        !array_begin(&array, count, handles)) {
        return MT_PMPI(Testany)(count, handles, index, flag, status);
    }
    *flag = any_done(&array, index, status, &rc);
    if (*flag == 0) {
        mt_act_poll();
        *flag = any_done(&array, index, status, &rc);
    }
    if (*flag == 0) {
        *index = MT_UNDEFINED;
        rc = MT_SUCCESS;
    }
    array_end(&array);
    return rc;
}

/* All that are done now: first the library's, then ours behind them. */
static int some_done(struct mt_act_array *array, int *outcount, int *indices,
                     MT_Status *statuses)
{
    struct mt_act_comm *failed = NULL;
    int native = MT_SUCCESS, n = 0;
    if (array->copy != NULL) {
        native = MT_PMPI(Testsome)(array->count, array->copy, &n, indices,
                                   statuses);
        array_copy_back(array);
        n = n == MT_UNDEFINED ? 0 : n;
    }
    for (int i = array_next(array, 0); i >= 0; i = array_next(array, i + 1)) {
        int error;
        if (complete_at(array, i, status_at(statuses, n), &failed, &error) &&
            native == MT_SUCCESS) {
            errors_begin(statuses, n);
        }
        error_at(statuses, n, error);
        indices[n++] = i;
    }
    *outcount = n;
    if (n > 0) {
        mt_act_waited(&array->wait); /* before a handler of the program */
    }
    return array_result(failed, native);
}

static int Waitsome(int count, MT_Request *handles, int *outcount, int *indices,
                    MT_Status *statuses)
{
    struct mt_act_array array;
    if (outcount == NULL || indices == NULL ||
        !mt_act_status_right(statuses) ||
        !array_begin(&array, count, handles)) {
        return MT_PMPI(Waitsome)(count, handles, outcount, indices, statuses);
    }
    int rc = some_done(&array, outcount, indices, statuses);
    while (*outcount == 0 && rc == MT_SUCCESS) {
        mt_act_turn(&array.wait);
        rc = some_done(&array, outcount, indices, statuses);
    }
    array_end(&array);
    return rc;
}

static int Testsome(int count, MT_Request *handles, int *outcount, int *indices,
                    MT_Status *statuses)
{
    struct mt_act_array array;
    if (outcount == NULL || indices == NULL ||
        !mt_act_status_right(statuses) ||
        !array_begin(&array, count, handles)) {
        return MT_PMPI(Testsome)(count, handles, outcount, indices, statuses);
    }
    int rc = some_done(&array, outcount, indices, statuses);
    if (*outcount == 0 && rc == MT_SUCCESS) {
        mt_act_poll();
        rc = some_done(&array, outcount, indices, statuses);
    }
    array_end(&array);
    return rc;
}

/* ---- MPI 4.1, 3.7.5: the same of requests that go on ---- */

static int Request_get_status_all(int count, const MT_Request *handles,
                                  int *flag, MT_Status *statuses)
{
    struct mt_act_array array;
    int rc = MT_SUCCESS;
    if (flag == NULL || !mt_act_status_right(statuses) ||
        !array_begin(&array, count, (MT_Request *)handles)) {
        return MT_PMPI(Request_get_status_all)(count, handles, flag, statuses);
    }
    *flag = array_done(&array);
    if (*flag == 0) {
        mt_act_poll();
        *flag = array_done(&array);
    }
    if (*flag != 0 && array.copy != NULL) {
        rc = MT_PMPI(Request_get_status_all)(count, array.copy, flag, statuses);
    }
    for (int i = 0; *flag != 0 && i < count; i++) {
        struct mt_act_request *request = ours_at(&array, i);
        if (request != NULL) {
            mt_act_peek(request, status_at(statuses, i));
        } else if (array.copy == NULL && statuses != MT_STATUS_IGNORE) {
            status_empty(&statuses[i]);
        }
    }
    array_end(&array);
    return rc;
}

static int Request_get_status_any(int count, const MT_Request *handles,
                                  int *index, int *flag, MT_Status *status)
{
    struct mt_act_array array;
    int rc = MT_SUCCESS;
    if (index == NULL || flag == NULL || !mt_act_status_right(status) ||
        !array_begin(&array, count, (MT_Request *)handles)) {
        return MT_PMPI(Request_get_status_any)(count, handles, index, flag,
                                               status);
    }
    *index = array_next(&array, 0);
    if (*index < 0) {
        mt_act_poll();
        *index = array_next(&array, 0);
    }
    *flag = *index >= 0;
    if (*flag != 0) {
        mt_act_peek(ours_at(&array, *index), status);
    } else if (array.copy != NULL) {
        rc = MT_PMPI(Request_get_status_any)(count, array.copy, index, flag,
                                             status);
        *flag = *flag != 0 && *index != MT_UNDEFINED;
    }
    if (*flag == 0) {
        *index = MT_UNDEFINED;
    }
    array_end(&array);
    return rc;
}

static int Request_get_status_some(int count, const MT_Request *handles,
                                   int *outcount, int *indices,
                                   MT_Status *statuses)
{
    struct mt_act_array array;
    int rc = MT_SUCCESS, n = 0;
    if (outcount == NULL || indices == NULL ||
        !mt_act_status_right(statuses) ||
        !array_begin(&array, count, (MT_Request *)handles)) {
        return MT_PMPI(Request_get_status_some)(count, handles, outcount,
                                                indices, statuses);
    }
    if (array_next(&array, 0) < 0) {
        mt_act_poll();
    }
    if (array.copy != NULL) {
        rc = MT_PMPI(Request_get_status_some)(count, array.copy, &n, indices,
                                              statuses);
        n = n == MT_UNDEFINED ? 0 : n;
    }
    for (int i = array_next(&array, 0); i >= 0; i = array_next(&array, i + 1)) {
        mt_act_peek(ours_at(&array, i), status_at(statuses, n));
        indices[n++] = i;
    }
    *outcount = n;
    array_end(&array);
    return rc;
}

void mt_act_array_functions(struct mt_act_functions *functions)
{
    MT_ACT_TAKE(functions, Waitall);
    MT_ACT_TAKE(functions, Testall);
    MT_ACT_TAKE(functions, Waitany);
    MT_ACT_TAKE(functions, Testany);
    MT_ACT_TAKE(functions, Waitsome);
    MT_ACT_TAKE(functions, Testsome);
    MT_ACT_TAKE(functions, Request_get_status_all);
    MT_ACT_TAKE(functions, Request_get_status_any);
    MT_ACT_TAKE(functions, Request_get_status_some);
}
