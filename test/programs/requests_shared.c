/*
 * Requests whose handles the library may share: many small sends under way at
 * once, completed in another order than started.
 *
 * Each rank: Init, Comm_rank; 8 times 16 Irecv and 16 Isend of 4 bytes, Waitall
 * for the receives, then Wait for each send from the last to the first;
 * Barrier, Finalize.
 */
#include <mpi.h>
#include "program.h"

enum { N = 16 };

int main(int argc, char **argv)
{
    int rank, peer, in[N], out[N], sum = 0, nulls = 0;
    MPI_Request receives[N], sends[N];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    for (int round = 0; round < 8; round++) {
        for (int k = 0; k < N; k++)
            MPI_Irecv(&in[k], 1, MPI_INT, peer, k, MPI_COMM_WORLD,
                      &receives[k]);
        for (int k = 0; k < N; k++) {
            out[k] = rank + round * k;
            MPI_Isend(&out[k], 1, MPI_INT, peer, k, MPI_COMM_WORLD, &sends[k]);
        }
        MPI_Waitall(N, receives, MPI_STATUSES_IGNORE);
        for (int k = N - 1; k >= 0; k--) {
            MPI_Wait(&sends[k], MPI_STATUS_IGNORE);
            nulls += sends[k] == MPI_REQUEST_NULL;
            sum += in[k];
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: sum %d, nulls %d", rank, sum, nulls);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
