/*
 * Persistent requests, started many times.
 *
 * Each rank: Init, Comm_rank, Recv_init and Send_init of 40 bytes; 5 times
 * Startall and Waitall of both; 5 times Start of each, Wait of each; Wait twice
 * on the inactive ones; 2 Request_free, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, peer, in[10], out[10], sum = 0;
    MPI_Request r[2];
    MPI_Status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    MPI_Recv_init(in, 10, MPI_INT, peer, 3, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(out, 10, MPI_INT, peer, 3, MPI_COMM_WORLD, &r[1]);
    for (int k = 0; k < 10; k++) {
        for (int i = 0; i < 10; i++)
            out[i] = rank + k * i;
        if (k < 5) {
            MPI_Startall(2, r);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        } else {
            MPI_Start(&r[0]);
            MPI_Start(&r[1]);
            MPI_Wait(&r[1], MPI_STATUS_IGNORE);
            MPI_Wait(&r[0], &status);
            sum += status.MPI_SOURCE + status.MPI_TAG;
        }
        for (int i = 0; i < 10; i++)
            sum += in[i] * (i + 1);
    }
    MPI_Wait(&r[0], &status);
    MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    say("rank %d: sum %d, freed %d", rank, sum, r[0] == MPI_REQUEST_NULL);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
