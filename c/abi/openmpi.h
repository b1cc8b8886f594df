/* openmpi.h: the ABI of Open MPI 4 and 5. Handles are pointers to objects of
 * the library; predefined ones are its data symbols, looked up when the
 * library is attached (mt_abi_openmpi in pmpi/attach.c). */
#ifndef MPITRACE_ABI_OPENMPI_H
#define MPITRACE_ABI_OPENMPI_H

#include <stddef.h>

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
#define MT_ANY_SOURCE (-1)
#define MT_PROC_NULL (-2)
#define MT_ROOT (-4)
#define MT_CART 1
#define MT_GRAPH 2
#define MT_DIST_GRAPH 3

/* Payload bytes that the operation behind a status moved. */
static inline int64_t mt_status_bytes(const MT_Status *s)
{
    return (int64_t)s->bytes;
}

static inline int mt_status_cancelled(const MT_Status *s)
{
    return s->cancelled != 0;
}

/* Predefined handles; filled when the library is attached. */
extern struct mt_openmpi_handles {
    void *comm_world, *comm_self, *comm_null;
    void *request_null, *datatype_null, *message_no_proc, *group_null;
} mt_openmpi_handles;

#define MT_COMM_WORLD (mt_openmpi_handles.comm_world)
#define MT_COMM_SELF (mt_openmpi_handles.comm_self)
#define MT_COMM_NULL (mt_openmpi_handles.comm_null)
#define MT_DATATYPE_NULL (mt_openmpi_handles.datatype_null)
#define MT_REQUEST_NULL (mt_openmpi_handles.request_null)
#define MT_MESSAGE_NO_PROC (mt_openmpi_handles.message_no_proc)

#endif
