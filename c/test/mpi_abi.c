/* sources: */
/* The facts of c/abi/ against the installed mpi.h, and what the accessors read
 * out of a status against what MPI itself put in. */
#include <mpi.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>

#ifndef MT_ABI_OPENMPI
#define MT_ABI_OPENMPI 0
#endif
#ifndef MT_ABI_MPICH
#define MT_ABI_MPICH 0
#endif
#include "../abi/abi.h"

_Static_assert(MT_ANY_SOURCE == MPI_ANY_SOURCE, "MPI_ANY_SOURCE");
_Static_assert(MT_PROC_NULL == MPI_PROC_NULL, "MPI_PROC_NULL");
_Static_assert(MT_ROOT == MPI_ROOT, "MPI_ROOT");
_Static_assert(MT_UNDEFINED == MPI_UNDEFINED, "MPI_UNDEFINED");
_Static_assert(MT_SUCCESS == MPI_SUCCESS, "MPI_SUCCESS");
_Static_assert(MT_ERR_IN_STATUS == MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS");
_Static_assert(MT_ERR_PENDING == MPI_ERR_PENDING, "MPI_ERR_PENDING");
_Static_assert(MT_CART == MPI_CART, "MPI_CART");
_Static_assert(MT_GRAPH == MPI_GRAPH, "MPI_GRAPH");
_Static_assert(MT_DIST_GRAPH == MPI_DIST_GRAPH, "MPI_DIST_GRAPH");
_Static_assert(MT_THREAD_MULTIPLE == MPI_THREAD_MULTIPLE, "thread level");
_Static_assert(MT_ANY_TAG == MPI_ANY_TAG, "MPI_ANY_TAG");
_Static_assert(MT_TAG_UB == MPI_TAG_UB, "MPI_TAG_UB");
_Static_assert(MT_ORDER_C == MPI_ORDER_C, "MPI_ORDER_C");
_Static_assert(MT_ERR_BUFFER == MPI_ERR_BUFFER, "MPI_ERR_BUFFER");
_Static_assert(MT_ERR_TRUNCATE == MPI_ERR_TRUNCATE, "MPI_ERR_TRUNCATE");
_Static_assert(MT_ERR_OTHER == MPI_ERR_OTHER, "MPI_ERR_OTHER");
_Static_assert(MT_ERR_IN_STATUS == MPI_ERR_IN_STATUS, "MPI_ERR_IN_STATUS");
_Static_assert(MT_ERR_PENDING == MPI_ERR_PENDING, "MPI_ERR_PENDING");
_Static_assert(MT_ERR_REQUEST == MPI_ERR_REQUEST, "MPI_ERR_REQUEST");
_Static_assert(MT_ERR_NO_MEM == MPI_ERR_NO_MEM, "MPI_ERR_NO_MEM");
#define SAME_COMBINER(name)                                                  \
    _Static_assert((int)MT_COMBINER_##name == (int)MPI_COMBINER_##name, #name)
SAME_COMBINER(NAMED);
SAME_COMBINER(DUP);
SAME_COMBINER(CONTIGUOUS);
SAME_COMBINER(VECTOR);
SAME_COMBINER(HVECTOR);
SAME_COMBINER(INDEXED);
SAME_COMBINER(HINDEXED);
SAME_COMBINER(INDEXED_BLOCK);
SAME_COMBINER(STRUCT);
SAME_COMBINER(SUBARRAY);
SAME_COMBINER(DARRAY);
SAME_COMBINER(F90_REAL);
SAME_COMBINER(F90_COMPLEX);
SAME_COMBINER(F90_INTEGER);
SAME_COMBINER(RESIZED);
SAME_COMBINER(HINDEXED_BLOCK);
_Static_assert(sizeof(MT_Status) == sizeof(MPI_Status), "MPI_Status");
_Static_assert(offsetof(MT_Status, source) == offsetof(MPI_Status, MPI_SOURCE),
               "MPI_SOURCE");
_Static_assert(offsetof(MT_Status, tag) == offsetof(MPI_Status, MPI_TAG),
               "MPI_TAG");
_Static_assert(offsetof(MT_Status, error) == offsetof(MPI_Status, MPI_ERROR),
               "MPI_ERROR");
_Static_assert(sizeof(MT_Comm) == sizeof(MPI_Comm), "MPI_Comm");
_Static_assert(sizeof(MT_Datatype) == sizeof(MPI_Datatype), "MPI_Datatype");
_Static_assert(sizeof(MT_Request) == sizeof(MPI_Request), "MPI_Request");
_Static_assert(sizeof(MT_Group) == sizeof(MPI_Group), "MPI_Group");
_Static_assert(sizeof(MT_Win) == sizeof(MPI_Win), "MPI_Win");
_Static_assert(sizeof(MT_Op) == sizeof(MPI_Op), "MPI_Op");
_Static_assert(sizeof(MT_Info) == sizeof(MPI_Info), "MPI_Info");
_Static_assert(sizeof(MT_File) == sizeof(MPI_File), "MPI_File");
_Static_assert(sizeof(MT_Message) == sizeof(MPI_Message), "MPI_Message");
_Static_assert(sizeof(MT_Errhandler) == sizeof(MPI_Errhandler), "Errhandler");
_Static_assert(sizeof(MT_Aint) == sizeof(MPI_Aint), "MPI_Aint");
_Static_assert(sizeof(MT_Count) == sizeof(MPI_Count), "MPI_Count");
_Static_assert(sizeof(MT_Offset) == sizeof(MPI_Offset), "MPI_Offset");
_Static_assert(sizeof(MT_Fint) == sizeof(MPI_Fint), "MPI_Fint");

static int failures;

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);           \
            failures++;                                                      \
        }                                                                    \
    } while (0)

static void check_status(MPI_Count bytes, int cancelled)
{
    MPI_Status status;
    memset(&status, 0x5a, sizeof(status));
    MPI_Status_set_elements_x(&status, MPI_BYTE, bytes);
    MPI_Status_set_cancelled(&status, cancelled);
    CHECK(mt_status_bytes((MT_Status *)(void *)&status) == bytes);
    CHECK((mt_status_cancelled((MT_Status *)(void *)&status) != 0) ==
          (cancelled != 0));

    MPI_Status set;
    MPI_Count got = 0;
    int flag = 2;
    memset(&set, 0x5a, sizeof(set));
    mt_status_set((MT_Status *)(void *)&set, 3, 4, (uint64_t)bytes, cancelled);
    MPI_Get_elements_x(&set, MPI_BYTE, &got);
    MPI_Test_cancelled(&set, &flag);
    CHECK(set.MPI_SOURCE == 3 && set.MPI_TAG == 4 && got == bytes);
    CHECK((flag != 0) == (cancelled != 0));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    CHECK(MT_STATUS_IGNORE == (void *)MPI_STATUS_IGNORE);
    CHECK(MT_STATUS_IGNORE == (void *)MPI_STATUSES_IGNORE);
    CHECK(MT_IN_PLACE == (void *)MPI_IN_PLACE);
#if MT_ABI_MPICH
    CHECK(MT_COMM_WORLD == MPI_COMM_WORLD);
    CHECK(MT_COMM_SELF == MPI_COMM_SELF);
    CHECK(MT_COMM_NULL == MPI_COMM_NULL);
    CHECK(MT_REQUEST_NULL == MPI_REQUEST_NULL);
    CHECK(MT_MESSAGE_NO_PROC == MPI_MESSAGE_NO_PROC);
    CHECK(MT_DATATYPE_NULL == MPI_DATATYPE_NULL);
    CHECK(MT_MESSAGE_NULL == MPI_MESSAGE_NULL);
    CHECK(MT_BYTE == MPI_BYTE);
    CHECK(MT_INT64 == MPI_INT64_T);
    CHECK(MT_MAX == MPI_MAX);
    CHECK(MT_ERRORS_RETURN == MPI_ERRORS_RETURN);
#endif
    check_status(0, 0);
    check_status(12345, 0);
    check_status(12345, 1);
    check_status((MPI_Count)5 << 32, 0);
    check_status(((MPI_Count)5 << 32) + 7, 1);
    MPI_Finalize();
    return failures != 0;
}
