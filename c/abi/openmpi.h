/* openmpi.h: the ABI of Open MPI 4 and 5. Handles are pointers to objects of
 * the library; predefined ones are its data symbols, looked up when the
 * library is attached (mt_openmpi_handles). */
#ifndef MPITRACE_ABI_OPENMPI_H
#define MPITRACE_ABI_OPENMPI_H

#include <stddef.h>
#include <stdint.h>

#define MT_NAME(function) mt_openmpi_##function

typedef void *MT_Comm;
typedef void *MT_Datatype;
typedef void *MT_Errhandler;
typedef void *MT_Group;
typedef void *MT_Info;
typedef void *MT_Message;
typedef void *MT_Op;
typedef void *MT_Request;
typedef void *MT_Session;
typedef void *MT_Win;

#define MT_U64(handle) ((uint64_t)(uintptr_t)(handle))

struct mt_openmpi_status {
    int source;
    int tag;
    int error;
    int cancelled;
    size_t bytes;
};
typedef struct mt_openmpi_status MT_Status;

#define MT_STATUS_IGNORE ((MT_Status *)0)
#define MT_IN_PLACE ((void *)1)
#define MT_BUFFER_AUTOMATIC ((void *)2) /* of MPI's ABI; Open MPI 5 has none yet */
#define MT_ANY_SOURCE (-1)
#define MT_PROC_NULL (-2)
#define MT_ROOT (-4)
#define MT_ERR_IN_STATUS 18
#define MT_ERR_PENDING 19
#define MT_CART 1
#define MT_GRAPH 2
#define MT_DIST_GRAPH 3
#define MT_TAG_UB 0
#define MT_COMBINER_FIRST 0
#define MT_ORDER_C 0

#define MT_ERR_REQUEST 7
#define MT_ERR_TRUNCATE 15
#define MT_ERR_OTHER 16
#define MT_ERR_IN_STATUS 18
#define MT_ERR_PENDING 19
#define MT_ERR_NO_MEM 39

/* Payload bytes that the operation behind a status moved. */
static inline int64_t mt_status_bytes(const MT_Status *s)
{
    return (int64_t)s->bytes;
}

static inline int mt_status_cancelled(const MT_Status *s)
{
    return s->cancelled != 0;
}

/* All of a status but its error, which only some calls set. */
static inline void mt_status_set(MT_Status *s, int source, int tag,
                                 uint64_t bytes, int cancelled)
{
    s->source = source;
    s->tag = tag;
    s->bytes = bytes;
    s->cancelled = cancelled != 0;
}

/* Of a send that is done. MPI leaves open what it says but whether the send was
 * cancelled; the library says what was sent, if it has made a request for it. */
static inline void mt_status_sent(MT_Status *s, int source, int tag,
                                  uint64_t bytes, int cancelled)
{
    mt_status_set(s, source, tag, bytes, cancelled);
}

/* Longest message, bytes, that needs no buffer of the application: the library's
 * eager limit inside a node, 4 KiB with its header. */
enum { MT_BSEND_UNBUFFERED = 4040 };

/* Predefined handles: our name and the library's. */
#define MT_OPENMPI_HANDLES(X)                                                \
    X(comm_world, "ompi_mpi_comm_world")                                     \
    X(comm_self, "ompi_mpi_comm_self")                                       \
    X(comm_null, "ompi_mpi_comm_null")                                       \
    X(request_null, "ompi_request_null")                                     \
    X(datatype_null, "ompi_mpi_datatype_null")                               \
    X(group_null, "ompi_mpi_group_null")                                     \
    X(message_no_proc, "ompi_message_no_proc")                               \
    X(message_null, "ompi_message_null")                                     \
    X(byte, "ompi_mpi_byte")                                                 \
    X(int64, "ompi_mpi_int64_t")                                             \
    X(max, "ompi_mpi_op_max")                                                \
    X(errors_return, "ompi_mpi_errors_return")

#define MT_OPENMPI_FIELD(name, symbol) void *name;
struct mt_openmpi_handles {
    MT_OPENMPI_HANDLES(MT_OPENMPI_FIELD)
};
#undef MT_OPENMPI_FIELD

/* Filled when the library is attached. */
extern struct mt_openmpi_handles mt_openmpi_handles;

#define MT_COMM_WORLD (mt_openmpi_handles.comm_world)
#define MT_COMM_SELF (mt_openmpi_handles.comm_self)
#define MT_COMM_NULL (mt_openmpi_handles.comm_null)
#define MT_DATATYPE_NULL (mt_openmpi_handles.datatype_null)
#define MT_REQUEST_NULL (mt_openmpi_handles.request_null)
#define MT_MESSAGE_NO_PROC (mt_openmpi_handles.message_no_proc)
#define MT_MESSAGE_NULL (mt_openmpi_handles.message_null)
#define MT_BYTE (mt_openmpi_handles.byte)
#define MT_INT64 (mt_openmpi_handles.int64)
#define MT_MAX (mt_openmpi_handles.max)
#define MT_ERRORS_RETURN (mt_openmpi_handles.errors_return)

#endif
