/* pool.c: requests and their handles. A handle is an inactive persistent request
 * of the MPI library's own, made once and used again and again, so whoever looks
 * at it (conversion to Fortran, a debugger, a function that we do not know) sees
 * a valid request that does nothing. */
#include <stdlib.h>

#include "act.h"

enum { MT_ACT_SWEEP = 32 };

static struct mt_act_request *mt_free;  /* under mt_act.lock, all three */
static struct mt_act_request *mt_freed; /* by the application, and active */
static struct mt_act_request *mt_all;
/* How many were freed, and how many are worth a look at all of them: twice what
 * the last one left, so that looking costs each only so much. Read without the
 * lock. */
static uint32_t mt_freed_count, mt_freed_many = MT_ACT_SWEEP;
static uint32_t mt_unpacking; /* freed receives that a thread is just ending */

MT_COLD static struct mt_act_request *request_make(void)
{
    struct mt_act_request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        return NULL;
    }
    if (MT_PMPI(Recv_init)(NULL, 0, MT_BYTE, 0, 0, mt_act.self,
                           &request->handle) != MT_SUCCESS) {
        free(request);
        return NULL;
    }
    mt_act_lock();
    bool put = mt_act_table_put(&mt_act.requests, MT_U64(request->handle),
                                request);
    if (put) {
        request->all = mt_all;
        mt_all = request;
    }
    mt_act_unlock();
    if (!put) {
        MT_PMPI(Request_free)(&request->handle);
        free(request);
        return NULL;
    }
    return request;
}

struct mt_act_request *mt_act_request_get(enum mt_act_kind kind,
                                          struct mt_act_comm *comm)
{
    if (mt_unlikely(mt_freed_count >= mt_freed_many)) {
        mt_act_requests_sweep();
    }
    mt_act_lock();
    struct mt_act_request *request = mt_free;
    if (mt_likely(request != NULL)) {
        mt_free = request->next;
    }
    mt_act_unlock();
    if (mt_unlikely(request == NULL)) {
        request = request_make();
        if (request == NULL) {
            return NULL;
        }
    }
    request->kind = kind;
    request->comm = comm;
    request->active = false;
    request->persistent = false;
    request->started = true;
    request->type = NULL;
    request->other = NULL;
    request->copy = NULL;
    return request;
}

void mt_act_request_put(struct mt_act_request *request)
{
    if (request->persistent) {
        mt_act_type_put(request->type);
    }
    void *other = request->other, *copy = request->copy;
    mt_act_lock(); /* another thread may ask what a communicator is used by */
    request->other = NULL;
    request->copy = NULL;
    request->active = false;
    request->comm = NULL;
    request->next = mt_free;
    mt_free = request;
    mt_act_unlock();
    free(other);
    free(copy);
}

/* Of one that was freed and is done. */
static void freed_end(struct mt_act_request *request)
{
    MT_Request handle = request->handle;
    request->persistent = false; /* its type goes here, with the rest */
    if (request->type != NULL) {
        mt_act_type_put(request->type);
    }
    mt_act_complete(request, &handle, MT_STATUS_IGNORE);
}

/* Whoever may know that it is done must find the message in its buffer. */
static bool unpacks_late(const struct mt_act_request *request)
{
    return request->started && request->kind != MT_ACT_BUFFERED &&
           request->operation.receive && request->operation.packed != NULL;
}

void mt_act_request_free(struct mt_act_request *request)
{
    if (!request->active) {
        mt_act_request_put(request);
        return;
    }
    if (mt_act_request_done(request)) {
        freed_end(request);
        return;
    }
    mt_act_lock();
    request->next = mt_freed;
    mt_freed = request;
    mt_freed_count++;
    mt_act.unpacked_late += unpacks_late(request);
    mt_act_unlock();
}

/* A receive that somebody may know to be done has been unpacked when this returns,
 * whichever thread does it. */
bool mt_act_requests_sweep(void)
{
    static _Thread_local bool sweeping; /* and ends one, which comes here again */
    struct mt_act_request *done = NULL;
    bool outer = !sweeping;
    mt_act_lock();
    struct mt_act_request **link = &mt_freed;
    while (*link != NULL) {
        struct mt_act_request *request = *link;
        if (mt_act_request_done(request)) {
            *link = request->next;
            request->next = done;
            done = request;
            mt_freed_count--;
            mt_unpacking += unpacks_late(request);
        } else {
            link = &request->next;
        }
    }
    bool none = mt_freed == NULL;
    mt_freed_many = 2 * mt_freed_count + MT_ACT_SWEEP;
    mt_act_unlock();
    sweeping = true;
    while (done != NULL) {
        struct mt_act_request *request = done;
        bool late = unpacks_late(request);
        done = request->next;
        freed_end(request);
        mt_act_lock();
        mt_unpacking -= late;
        mt_act.unpacked_late -= late;
        mt_act_unlock();
    }
    sweeping = !outer;
    while (outer && __atomic_load_n(&mt_unpacking, __ATOMIC_ACQUIRE) != 0) {
        sched_yield();
    }
    return none;
}

bool mt_act_request_uses(const struct mt_act_comm *comm, bool active)
{
    bool uses = false;
    mt_act_lock();
    for (struct mt_act_request *r = mt_all; r != NULL && !uses; r = r->all) {
        uses = r->comm == comm &&
               (!active || (r->active && !mt_act_request_done(r)));
    }
    mt_act_unlock();
    return uses;
}

void mt_act_requests_cancel(void)
{
    for (struct mt_act_request *r = mt_all; r != NULL; r = r->all) {
        if (r->active && r->kind == MT_ACT_RECEIVE &&
            !mt_act_request_done(r)) {
            mt_engine_cancel(&r->operation.engine);
        }
    }
}

void mt_act_requests_end(void)
{
    mt_act_table_free(&mt_act.requests);
    while (mt_all != NULL) {
        struct mt_act_request *request = mt_all;
        mt_all = request->all;
        MT_PMPI(Request_free)(&request->handle);
        if (!request->active || mt_act_request_done(request)) {
            free(request);
        }
    }
    mt_free = NULL;
    mt_freed = NULL;
    mt_freed_count = 0;
    mt_freed_many = MT_ACT_SWEEP;
}
