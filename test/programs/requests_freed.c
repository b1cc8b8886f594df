/*
 * Requests freed while they are active: the messages arrive all the same, and
 * their handles come back for others.
 *
 * Each rank: Init, Comm_rank; 20 times: Irecv of 4 bytes, Isend of 4 bytes,
 * Request_free of the send, Wait for the receive, Barrier; Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, in, out[20], sum = 0;
    MPI_Request receive, send;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < 20; k++) {
        out[k] = rank + k;
        MPI_Irecv(&in, 1, MPI_INT, 1 - rank, k, MPI_COMM_WORLD, &receive);
        MPI_Isend(&out[k], 1, MPI_INT, 1 - rank, k, MPI_COMM_WORLD, &send);
        MPI_Request_free(&send);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        sum += in;
    }
    say("rank %d: sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
