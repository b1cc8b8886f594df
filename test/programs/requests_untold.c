/*
 * A persistent receive whose message is here, and too long, waited for by Waitall without
 * statuses, with errors returned: Open MPI says so then, and takes the request away, and
 * would do neither if statuses were wanted.
 *
 * Each rank: Init, Comm_rank, Comm_set_errhandler, Barrier, Finalize; rank 0: Send of 100
 * bytes; rank 1: Recv_init of 10 bytes, Start, Waitall.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    static char in[100], out[100];
    MPI_Request request;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0)
        MPI_Send(out, sizeof out, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Recv_init(in, 10, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        int failed = MPI_Waitall(1, &request, MPI_STATUSES_IGNORE) != MPI_SUCCESS;
        say("failed %d, null %d", failed, request == MPI_REQUEST_NULL);
    }
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
