/* act.h: what the stand-ins of one ABI share: the process's state, communicators,
 * datatypes and requests as we keep them.
 *
 * Threads. Any thread of the application may be in any function. The tables are
 * read without a lock; mt_act.lock is held for a few instructions when pools,
 * lists or tables change, and never across a call of the MPI library that may
 * call the application.
 *
 * Errors. A call with an argument that is wrong, or that means no message
 * (MPI_PROC_NULL), is handed to the MPI library, which treats it as ever; so no
 * function here invents an error of an argument. */
#ifndef MPITRACE_ACT_ACT_H
#define MPITRACE_ACT_ACT_H

#include <sched.h>

#include "names.h"
#include "../gen/types.gen.h"
#include "../include/act.h"
#include "../include/engine.h"
#include "policy.h"
#include "rules.h"
#include "table.h"

/* ---- the process ---- */

struct mt_act_comm;
struct mt_act_request;
struct mt_act_operation;

struct mt_act {
    struct mt_engine *engine; /* NULL: before MPI_Init, after MPI_Finalize */
    void *const *native;
    const struct mt_act_host *host;
    bool threads; /* on any rank */
    uint32_t local_ranks; /* of the job, on this machine */
    bool crowded; /* ranks on this machine want more processors than it has */
    bool clears_errors; /* the library, of null requests among others */
    int32_t tag_limit;
    MT_Comm world, self;  /* private duplicates */
    MT_Request never;     /* a receive on world that nothing matches */
    uint32_t never_taken; /* a thread is testing it */
    uint32_t lock;
    uint32_t ended; /* requests, by MPI_Wait and the like; atomic, may wrap, and what
                     * two threads do at once may count once */
    uint32_t unpacked_late; /* receives that were freed and are to be unpacked */
    struct mt_act_rules rules; /* count 0: all messages travel alike */
    uint8_t *nodes; /* enum mt_act_where of each process; NULL: not known */
    bool reuses; /* messages may leave straight from the application's memory */
    bool verify_stops;    /* the job, after a message that arrived wrong */
    uint32_t wrong_said;  /* one has arrived */
    struct mt_left_counts left; /* to the MPI library; atomic */
    struct mt_act_table comms, types, requests, messages;
};
extern struct mt_act mt_act;

/* The library's function, and its large-count form. */
#define MT_PMPI(name)                                                        \
    ((mt_fn_##name *)mt_act.native[MPITRACE_CALL_##name])
#define MT_PMPI_c(name)                                                      \
    ((mt_fn_##name##_c *)                                                    \
         mt_act.native[MPITRACE_CALL_##name | MPITRACE_CALL_LARGE])

/* Puts a stand-in into the table, if the library has the function. The name of
 * a stand-in is that of the function; the compiler compares the types. */
#define MT_ACT_PUT(functions, id, type, function_)                           \
    do {                                                                     \
        type *const checked_ = (function_);                                  \
        if (mt_act.native[id] != NULL) {                                     \
            (functions)->function[id] = (void *)checked_;                    \
        }                                                                    \
    } while (0)
#define MT_ACT_TAKE(functions, name)                                         \
    MT_ACT_PUT(functions, MPITRACE_CALL_##name, mt_fn_##name, name)
#define MT_ACT_TAKE_BOTH(functions, name)                                    \
    do {                                                                     \
        MT_ACT_TAKE(functions, name);                                        \
        MT_ACT_PUT(functions, MPITRACE_CALL_##name | MPITRACE_CALL_LARGE,    \
                   mt_fn_##name##_c, name##_c);                              \
    } while (0)

MT_INLINE void mt_act_lock(void)
{
    while (mt_unlikely(mt_act.threads || mt_act.host->threads) &&
           __atomic_exchange_n(&mt_act.lock, 1, __ATOMIC_ACQUIRE) != 0) {
        sched_yield(); /* held for a few instructions, unless preempted */
    }
}

MT_INLINE void mt_act_unlock(void)
{
    __atomic_store_n(&mt_act.lock, 0, __ATOMIC_RELEASE);
}

/* ---- communicators ---- */

/* Memory that the application has attached for its buffered messages. They are not
 * copied there, but no more are under way at once than there is room for. */
struct mt_act_buffer {
    uint64_t room, used; /* bytes; under mt_act.lock */
    bool attached; /* both atomic */
    bool flushes;  /* the application relies on a flush that does not wait */
};

struct mt_act_comm {
    MT_Comm handle;
    struct mt_engine_context *context;
    int32_t rank, size;
    uint32_t id;         /* the same on all of its members */
    uint32_t *processes; /* of its ranks, as ranks of MPI_COMM_WORLD */
    uint32_t rules; /* that may be for its messages */
    bool freed; /* by the application: the handle means nothing any more */
    MT_Errhandler handler; /* of one that was freed, for its requests */
    struct mt_act_buffer buffer; /* its own (MPI 4.1, 3.6), else the process's */
    uint32_t held; /* calls that are in the middle of it, with threads */
    struct mt_act_comm *next; /* freed ones that something still uses */
};

/* While a call goes on that has no request of the application's: another thread
 * may free the communicator meanwhile. The last thing is to let it go. */
MT_INLINE void mt_act_comm_hold(struct mt_act_comm *comm)
{
    if (mt_unlikely(mt_act.threads)) {
        __atomic_fetch_add(&comm->held, 1, __ATOMIC_RELAXED);
    }
}

MT_INLINE void mt_act_comm_let(struct mt_act_comm *comm)
{
    if (mt_unlikely(mt_act.threads)) {
        __atomic_fetch_sub(&comm->held, 1, __ATOMIC_RELEASE);
    }
}

/* One that this thread is just freeing, whose attributes' callbacks may use it. */
struct mt_act_comm *mt_act_comm_freeing(MT_Comm handle);

/* NULL: not ours. */
MT_INLINE struct mt_act_comm *mt_act_comm_find(MT_Comm handle)
{
    struct mt_act_comm *comm =
        mt_act_table_get(&mt_act.comms, MT_U64(handle));
    return mt_likely(comm != NULL) ? comm : mt_act_comm_freeing(handle);
}

/* The call that made it is done on all members; parent is where it came from.
 * All members learn the same: whether it is ours. */
void mt_act_comm_adopt(MT_Comm parent, MT_Comm made);
/* MPI_COMM_WORLD or MPI_COMM_SELF, whose members need not be asked. */
enum mt_status mt_act_comm_own(MT_Comm comm, uint32_t id);
/* Forgets all of them. */
void mt_act_comm_end(void);

/* ---- datatypes ---- */

enum mt_act_shape {
    MT_ACT_PLAIN,  /* bytes without a gap, from offset on */
    MT_ACT_BLOCKS, /* as layout says */
    MT_ACT_NATIVE, /* too many blocks, or too strange: MPI_Pack knows it */
};

struct mt_act_type {
    enum mt_act_shape shape;
    MT_Datatype handle;
    bool named;     /* stays for ever: users are not counted */
    uint32_t users; /* the table, and whoever found it; 0: spare */
    int64_t offset;
    struct mt_layout layout; /* its size and extent in every shape */
    struct mt_block *blocks;
    MT_Datatype native; /* of MT_ACT_NATIVE: the same type .. */
    int32_t shift; /* .. ours, which begins so far before the buffer; 0: it is not */
    struct mt_act_type *next; /* spare one */
};

/* What a datatype looks like, until mt_act_type_put; NULL: it is none, or not
 * committed. */
struct mt_act_type *mt_act_type_find(MT_Datatype handle);
/* Once more, by who has found it. */
MT_INLINE void mt_act_type_use(struct mt_act_type *type)
{
    if (!type->named) {
        __atomic_fetch_add(&type->users, 1, __ATOMIC_RELAXED);
    }
}
/* May call what the program has for attributes of a type that ends with it. */
void mt_act_type_free(struct mt_act_type *type);
MT_INLINE void mt_act_type_put(struct mt_act_type *type)
{
    if (!type->named &&
        __atomic_fetch_sub(&type->users, 1, __ATOMIC_ACQ_REL) == 1) {
        mt_act_type_free(type);
    }
}
/* Elements of any shape into bytes without a gap. False: the library failed. */
bool mt_act_type_pack(const struct mt_act_type *type, const void *buffer,
                      int64_t count, void *packed);
/* Back, of MT_ACT_NATIVE: perhaps fewer bytes than were packed. */
bool mt_act_type_unpack(const struct mt_act_type *type, const void *packed,
                        uint64_t bytes, void *buffer);
/* Whether it is predefined, and so never freed. */
bool mt_act_type_is_named(MT_Datatype handle);
/* Fills shape, offset, layout and blocks from the library's description, which it is
 * not asked for of a type that may just end. */
void mt_act_flatten(MT_Datatype handle, bool ends, struct mt_act_type *type);

/* ---- operations: a message on its way in or out ---- */

/* What is sent, or where it is received, as the application says it. */
struct mt_act_message {
    void *buffer;
    int64_t count;
    MT_Datatype datatype;
    int32_t rank, tag;
    enum mt_act_call call;
};

struct mt_act_operation {
    struct mt_engine_request engine;
    struct mt_act_comm *comm;
    struct mt_act_type *type; /* to be given back; NULL: it was plain */
    void *packed;             /* of MT_ACT_NATIVE */
    void *buffer;
    bool receive;
};

enum mt_act_use { MT_ACT_SENDS, MT_ACT_RECEIVES };

/* Whether a message of this kind may be ours at all: its arguments are right,
 * and it goes somewhere. The datatype is looked up, and given back if not. */
bool mt_act_check(const struct mt_act_comm *comm, const struct mt_act_message *m,
                  enum mt_act_use use, struct mt_act_type **type_p);
/* The same, of a communicator that need not be ours; counts messages that are
 * left to the library. */
bool mt_act_ours(const struct mt_act_comm *comm, const struct mt_act_message *m,
                 enum mt_act_use use, struct mt_act_type **type_p);
/* A communicator was left to the library, for a reason of mt_act.left. */
void mt_act_comm_left(MT_Comm made, uint64_t *reason);
/* Start, after a check. An MPI error class: nothing was started, and the type is
 * given back. */
int mt_act_send(struct mt_act_operation *operation, struct mt_act_comm *comm,
                const struct mt_act_message *m, struct mt_act_type *type,
                enum mt_engine_mode mode);
int mt_act_receive(struct mt_act_operation *operation, struct mt_act_comm *comm,
                   const struct mt_act_message *m, struct mt_act_type *type);
int mt_act_receive_message(struct mt_act_operation *operation,
                           struct mt_act_comm *comm,
                           const struct mt_act_message *m,
                           struct mt_act_type *type,
                           struct mt_engine_message *message);
/* After its end, once at least before the application may look at the buffer:
 * puts what was received there, if it is not there yet. */
void mt_act_unpack(struct mt_act_operation *operation);
/* After its end: unpacks, gives back what it held. The MPI error class. */
int mt_act_finish(struct mt_act_operation *operation);
/* A message that is not what was sent, received by this operation: says so once,
 * and ends the job if the policy wants that. */
void mt_act_wrong(const struct mt_act_operation *operation);
/* The same message as bytes of ours, whatever type they once had. */
int mt_act_send_bytes(struct mt_act_operation *operation,
                      struct mt_act_comm *comm, const struct mt_act_message *m,
                      void *address, uint64_t bytes);
/* Of a receive that is done; before or after mt_act_finish. */
void mt_act_status(const struct mt_act_operation *operation, MT_Status *status);

/* False: it is no place for a status, which the library says. */
MT_INLINE bool mt_act_status_right(const MT_Status *status)
{
    return status != NULL || MT_STATUS_IGNORE == NULL;
}

/* ---- waiting ---- */

/* Zeroed before the wait. */
struct mt_act_wait {
    uint32_t turns;
    uint32_t idle; /* turns in a row in which nothing happened */
    bool attends;  /* it has lasted, and the engine knows of it .. */
    bool untold;   /* .. or shall not */
    uint64_t since_ns; /* 0: not known yet */
    bool away;     /* the processor was given away since the last one */
};

/* Between two rounds of progress in which nothing was found, and now and then in
 * which something was: drives the MPI library from time to time, and gives the
 * processor away where it is needed. */
void mt_act_idle(struct mt_act_wait *wait);
enum { MT_ACT_MOVED = 16 }; /* turns between two calls of it, at most */

/* One round of both engines' progress. */
MT_INLINE void mt_act_turn(struct mt_act_wait *wait)
{
    bool moved = mt_unlikely(wait->away) ? mt_engine_progress(mt_act.engine)
                                         : mt_engine_spin(mt_act.engine);
    wait->turns++;
    wait->idle = moved ? 0 : wait->idle + 1;
    if (!moved || wait->turns % MT_ACT_MOVED == 0) {
        mt_act_idle(wait);
    } else {
        wait->away = false;
    }
}

/* Behind the last turn, and before a handler of the program is called. */
MT_INLINE void mt_act_waited(struct mt_act_wait *wait)
{
    if (mt_unlikely(wait->attends)) {
        wait->attends = false;
        mt_engine_leave(mt_act.engine);
    }
}

MT_INLINE void mt_act_await(const struct mt_act_operation *operation)
{
    struct mt_act_wait wait = {0};
    while (!mt_engine_done(&operation->engine)) {
        mt_act_turn(&wait);
    }
    mt_act_waited(&wait);
}

enum { MT_ACT_UNDRIVEN = 256 }; /* calls that wait or look, between two drives */
/* Drives the MPI library, unless that was done a moment ago. */
void mt_act_drive(void);

/* At the beginning of each call that waits or looks: it may find at once what it wants,
 * and take no turn. */
MT_INLINE void mt_act_look(void)
{
    if (mt_likely(mt_act.engine != NULL) && /* not in a child of fork */
        mt_unlikely(mt_engine_look(mt_act.engine) % MT_ACT_UNDRIVEN == 0)) {
        mt_act_drive();
    }
}

/* For calls that look and return: a round of ours, now and then of both. */
void mt_act_poll(void);

/* ---- errors ---- */

/* Through the communicator's error handler; returns what the call returns. */
int mt_act_error(const struct mt_act_comm *comm, int error);
int mt_act_error_of(enum mt_status status);

/* ---- requests ---- */

enum mt_act_kind {
    MT_ACT_SEND = 1,
    MT_ACT_BUFFERED, /* complete at once: the message is on its own */
    MT_ACT_RECEIVE,
    MT_ACT_PAIR, /* of MPI_Isendrecv: operation receives, other sends */
};

struct mt_act_request {
    struct mt_act_operation operation;
    MT_Request handle; /* an inactive persistent request of the library's */
    enum mt_act_kind kind;
    enum mt_engine_mode mode;
    bool active;
    bool persistent;
    bool started; /* false: MPI_PROC_NULL is where operation would receive from */
    struct mt_act_operation *other; /* of a pair; NULL: to MPI_PROC_NULL */
    void *copy;                     /* of a pair that replaces: what is sent */
    struct mt_act_message message;  /* of a persistent one, and of a send */
    struct mt_act_type *type;       /* of a persistent one */
    uint64_t sent;                  /* of a send: its payload, bytes */
    struct mt_act_comm *comm;
    struct mt_act_request *next; /* free, or freed while active */
    struct mt_act_request *all;
};

/* NULL: not ours. */
MT_INLINE struct mt_act_request *mt_act_request_find(MT_Request handle)
{
    return mt_act_table_get(&mt_act.requests, MT_U64(handle));
}

MT_INLINE bool mt_act_request_done(const struct mt_act_request *request)
{
    return (!request->started || request->kind == MT_ACT_BUFFERED ||
            mt_engine_done(&request->operation.engine)) &&
           (request->other == NULL || mt_engine_done(&request->other->engine));
}

/* From the pool, not active. NULL: no memory. */
struct mt_act_request *mt_act_request_get(enum mt_act_kind kind,
                                          struct mt_act_comm *comm);
void mt_act_request_put(struct mt_act_request *request);
/* MPI_Request_free: goes back to the pool when it has ended. */
void mt_act_request_free(struct mt_act_request *request);
/* Some active request, if active, else any, is of this communicator. */
bool mt_act_request_uses(const struct mt_act_comm *comm, bool active);
/* Ends what was freed and has come to its end. True: nothing is left. */
bool mt_act_requests_sweep(void);
/* Takes back the receives that nothing matched. */
void mt_act_requests_cancel(void);
/* Gives all handles back to the library. */
void mt_act_requests_end(void);

/* Starts it from its message and type, as MPI_Start does. An MPI error class. */
int mt_act_request_start(struct mt_act_request *request);
/* The program sees one end that it was given. */
MT_INLINE void mt_act_ended(void)
{
    uint32_t n = __atomic_load_n(&mt_act.ended, __ATOMIC_RELAXED);
    __atomic_store_n(&mt_act.ended, n + 1, __ATOMIC_RELAXED);
}

/* Ends one that is done: status, handle, error. No error handler is called. */
int mt_act_complete(struct mt_act_request *request, MT_Request *handle,
                    MT_Status *status);
/* What was received by one that is done is there, and its status told; it goes on
 * being active. */
void mt_act_peek(struct mt_act_request *request, MT_Status *status);

/* A message of this communicator was probed and is not received yet. */
bool mt_act_matched_uses(const struct mt_act_comm *comm);

/* A buffered message: copies it and lets it go. An MPI error class. */
int mt_act_buffered(struct mt_act_comm *comm, const struct mt_act_message *m,
                    struct mt_act_type *type);
/* Ends those that have come to their end. */
void mt_act_buffered_sweep(void);
/* A buffered message of this communicator, or one in its buffer, is under way. */
bool mt_act_buffered_uses(const struct mt_act_comm *comm);

/* ---- the stand-ins, file by file ---- */

/* Defines a function, and its large-count form, that makes a request for a message:
 * by make, which returns false if the message is the library's. */
#define MT_ACT_REQUEST_(make, name, constant, count_type, native, call, kind, \
                        mode)                                                \
    static int name(constant void *buffer, count_type count,                 \
                    MT_Datatype datatype, int rank, int tag, MT_Comm comm,   \
                    MT_Request *request)                                     \
    {                                                                        \
        struct mt_act_message m = {(void *)buffer, count, datatype, rank,    \
                                   tag, call};                               \
        int rc;                                                              \
        return make(kind, mode, &m, comm, request, &rc)                      \
                   ? rc                                                      \
                   : native(buffer, count, datatype, rank, tag, comm,        \
                            request);                                        \
    }
#define MT_ACT_REQUESTS(make, name, constant, call, kind, mode)              \
    MT_ACT_REQUEST_(make, name, constant, int, MT_PMPI(name), call, kind,    \
                    mode)                                                    \
    MT_ACT_REQUEST_(make, name##_c, constant, MT_Count, MT_PMPI_c(name),     \
                    call, kind, mode)

void mt_act_comm_functions(struct mt_act_functions *functions);
void mt_act_type_functions(struct mt_act_functions *functions);
void mt_act_send_functions(struct mt_act_functions *functions);
void mt_act_receive_functions(struct mt_act_functions *functions);
void mt_act_both_functions(struct mt_act_functions *functions);
void mt_act_nonblocking_functions(struct mt_act_functions *functions);
void mt_act_persistent_functions(struct mt_act_functions *functions);
void mt_act_probe_functions(struct mt_act_functions *functions);
void mt_act_probe_end(void);
void mt_act_wait_functions(struct mt_act_functions *functions);
void mt_act_array_functions(struct mt_act_functions *functions);
void mt_act_buffered_functions(struct mt_act_functions *functions);
void mt_act_left_functions(struct mt_act_functions *functions);

#endif
