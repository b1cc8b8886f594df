/* mpich.h: the common ABI of MPICH 3.1 and later, Intel MPI, MVAPICH and Cray
 * MPI (https://www.mpich.org/abi/). Handles are integers. */
#ifndef MPITRACE_ABI_MPICH_H
#define MPITRACE_ABI_MPICH_H

#define MT_NAME(function) mt_mpich_##function

typedef int MT_Comm;
typedef int MT_Datatype;
typedef int MT_Errhandler;
typedef int MT_Group;
typedef int MT_Info;
typedef int MT_Message;
typedef int MT_Op;
typedef int MT_Request;
typedef int MT_Session;
typedef int MT_Win;

#define MT_U64(handle) ((uint64_t)(uint32_t)(handle))

struct mt_mpich_status {
    int count_lo;
    int count_hi_and_cancelled;
    int source;
    int tag;
    int error;
};
typedef struct mt_mpich_status MT_Status;

#define MT_STATUS_IGNORE ((MT_Status *)1)
#define MT_IN_PLACE ((void *)-1)
#define MT_BUFFER_AUTOMATIC ((void *)-2)
#define MT_ANY_SOURCE (-2)
#define MT_PROC_NULL (-1)
#define MT_ROOT (-3)
#define MT_ERR_IN_STATUS 17
#define MT_ERR_PENDING 18
#define MT_GRAPH 1
#define MT_CART 2
#define MT_DIST_GRAPH 3
#define MT_TAG_UB 0x64400001
#define MT_COMBINER_FIRST 1
#define MT_ORDER_C 56

#define MT_ERR_TRUNCATE 14
#define MT_ERR_OTHER 15
#define MT_ERR_IN_STATUS 17
#define MT_ERR_PENDING 18
#define MT_ERR_REQUEST 19
#define MT_ERR_NO_MEM 34

#define MT_COMM_WORLD ((MT_Comm)0x44000000)
#define MT_COMM_SELF ((MT_Comm)0x44000001)
#define MT_COMM_NULL ((MT_Comm)0x04000000)
#define MT_DATATYPE_NULL ((MT_Datatype)0x0c000000)
#define MT_REQUEST_NULL ((MT_Request)0x2c000000)
#define MT_MESSAGE_NO_PROC ((MT_Message)0x6c000000)
#define MT_MESSAGE_NULL ((MT_Message)0x2c000000)
#define MT_BYTE ((MT_Datatype)0x4c00010d)
#define MT_INT64 ((MT_Datatype)0x4c00083a)
#define MT_MAX ((MT_Op)0x58000001)
#define MT_ERRORS_RETURN ((MT_Errhandler)0x54000001)

/* Payload bytes that the operation behind a status moved. */
static inline int64_t mt_status_bytes(const MT_Status *s)
{
    return (int64_t)(((uint64_t)((uint32_t)s->count_hi_and_cancelled >> 1) << 32) |
                     (uint32_t)s->count_lo);
}

static inline int mt_status_cancelled(const MT_Status *s)
{
    return s->count_hi_and_cancelled & 1;
}

/* All of a status but its error, which only some calls set. */
static inline void mt_status_set(MT_Status *s, int source, int tag,
                                 uint64_t bytes, int cancelled)
{
    s->source = source;
    s->tag = tag;
    s->count_lo = (int)(uint32_t)bytes;
    s->count_hi_and_cancelled =
        (int)((uint32_t)(bytes >> 32) << 1 | (cancelled != 0));
}

/* Of a send that is done. MPI leaves open what it says but whether the send was
 * cancelled, and the library leaves the rest as it was: programs may find there
 * what an earlier receive has said. */
static inline void mt_status_sent(MT_Status *s, int source, int tag,
                                  uint64_t bytes, int cancelled)
{
    (void)source, (void)tag, (void)bytes;
    s->count_hi_and_cancelled =
        (s->count_hi_and_cancelled & ~1) | (cancelled != 0);
}

/* Longest message, bytes, that needs no buffer of the application: none. */
enum { MT_BSEND_UNBUFFERED = -1 };

#endif
