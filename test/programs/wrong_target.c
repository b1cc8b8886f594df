/*
 * What the negative control spoils: 14 calls of every kind that wrong.c knows,
 * each with its result in the sum that is printed.
 *
 * Each rank: Init, Comm_rank; 14 times Send and Recv of 16 bytes, Bcast and
 * Allreduce of 8, Alltoall of 8 to each; Win_create, 14 times Put of 8 bytes
 * between two Win_fence, Win_free, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    long in[2], out[2], window[14] = {0}, sums[5] = {0};
    int rank;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < 14; k++) {
        out[0] = out[1] = rank + k;
        if (rank == 0)
            MPI_Send(out, 2, MPI_LONG, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, 2, MPI_LONG, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(out, 2, MPI_LONG, 0, 0, MPI_COMM_WORLD);
        sums[0] += (k + 1) * (in[0] + 3 * in[1]);
        MPI_Bcast(out, 1, MPI_LONG, k % 2, MPI_COMM_WORLD);
        sums[1] += (k + 1) * out[0];
        MPI_Allreduce(out, in, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sums[2] += (k + 1) * in[0];
        MPI_Alltoall(out, 1, MPI_LONG, in, 1, MPI_LONG, MPI_COMM_WORLD);
        sums[3] += (k + 1) * (in[0] + 3 * in[1]);
    }
    MPI_Win_create(window, sizeof window, sizeof(long), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    for (int k = 0; k < 14; k++) {
        out[0] = rank + k;
        MPI_Win_fence(0, win);
        MPI_Put(out, 1, MPI_LONG, 1 - rank, k, 1, MPI_LONG, win);
        MPI_Win_fence(0, win);
    }
    MPI_Win_free(&win);
    for (int k = 0; k < 14; k++)
        sums[4] += window[k] * (k + 1);
    say("rank %d: %ld %ld %ld %ld %ld", rank, sums[0], sums[1], sums[2],
        sums[3], sums[4]);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
