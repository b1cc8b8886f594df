/*
 * One-sided communication.
 *
 * Each rank: Init, Comm_rank, Win_create, 2 Win_fence round 5 Put of 8 bytes, 2
 * more round 3 Get of 8 bytes, 2 more round 2 Accumulate of 8 bytes; Win_lock,
 * Fetch_and_op, Win_unlock; Win_free, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    long window[8], in[3] = {0}, out[5], one = 1, old = 0, sum = 0;
    int rank;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 8; i++)
        window[i] = 10 * rank + i;
    MPI_Win_create(window, sizeof window, sizeof(long), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    for (int k = 0; k < 5; k++) {
        out[k] = 100 * rank + k;
        MPI_Put(&out[k], 1, MPI_LONG, 1 - rank, k, 1, MPI_LONG, win);
    }
    MPI_Win_fence(0, win);
    MPI_Win_fence(0, win);
    for (int k = 0; k < 3; k++)
        MPI_Get(&in[k], 1, MPI_LONG, 1 - rank, 4 + k, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    MPI_Win_fence(0, win);
    for (int k = 0; k < 2; k++)
        MPI_Accumulate(&out[k], 1, MPI_LONG, 1 - rank, k, 1, MPI_LONG, MPI_SUM,
                       win);
    MPI_Win_fence(0, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1 - rank, 0, win);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 1 - rank, 7, MPI_SUM, win);
    MPI_Win_unlock(1 - rank, win);
    MPI_Win_free(&win);
    for (int i = 0; i < 8; i++)
        sum += window[i] * (i + 1);
    say("rank %d: got %ld %ld %ld, fetched %ld, sum %ld", rank, in[0], in[1],
        in[2], old, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
