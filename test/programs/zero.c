/*
 * Calls with count 0 and MPI_DATATYPE_NULL, which MPICH accepts and Open MPI
 * refuses: errors are returned by the communicator used, and only by it.
 *
 * The rank: Init, Comm_dup, Comm_set_errhandler; Bcast, Ibcast, Irecv and Send
 * with itself, Irecv and Isend with MPI_PROC_NULL, Recv_init; Comm_free,
 * Finalize. Wait and Request_free of those that work are noted.
 */
#include <mpi.h>
#include "program.h"

static long waits, frees;

static void finish(const char *what, int code, MPI_Request *request)
{
    say("%s: fails %d", what, code != MPI_SUCCESS);
    if (code != MPI_SUCCESS)
        return;
    say("%s: wait returns %d", what, MPI_Wait(request, MPI_STATUS_IGNORE));
    waits++;
}

int main(int argc, char **argv)
{
    int code;
    MPI_Request request, other;
    MPI_Comm comm;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);

    code = MPI_Bcast(NULL, 0, MPI_DATATYPE_NULL, 0, comm);
    say("bcast: fails %d", code != MPI_SUCCESS);
    code = MPI_Ibcast(NULL, 0, MPI_DATATYPE_NULL, 0, comm, &request);
    finish("ibcast", code, &request);

    code = MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, 0, 0, comm, &request);
    say("send: fails %d", MPI_Send(NULL, 0, MPI_DATATYPE_NULL, 0, 0, comm) !=
                              MPI_SUCCESS);
    finish("irecv", code, &request);

    code = MPI_Irecv(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, comm,
                     &request);
    finish("irecv of no process", code, &request);
    code = MPI_Isend(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, comm,
                     &request);
    finish("isend to no process", code, &request);
    code = MPI_Recv_init(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, comm,
                         &other);
    say("recv_init: fails %d", code != MPI_SUCCESS);
    if (code == MPI_SUCCESS) {
        MPI_Request_free(&other);
        frees++;
    }
    note_calls(0, "MPI_Wait", waits);
    note_calls(0, "MPI_Request_free", frees);
    MPI_Comm_free(&comm);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
