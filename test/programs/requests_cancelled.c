/*
 * Receives that are cancelled before anything is sent to them.
 *
 * Each rank: Init, Comm_rank; 6 times Irecv with a tag nobody uses, Cancel,
 * Wait, Test_cancelled; one Irecv, Isend and Waitall of 4 bytes; Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, in = -1, out, flag, cancelled = 0;
    MPI_Request r[2];
    MPI_Status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < 6; k++) {
        MPI_Irecv(&in, 1, MPI_INT, 1 - rank, 77, MPI_COMM_WORLD, &r[0]);
        MPI_Cancel(&r[0]);
        MPI_Wait(&r[0], &status);
        MPI_Test_cancelled(&status, &flag);
        cancelled += flag != 0;
    }
    out = rank + 5;
    MPI_Irecv(&in, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(&out, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    say("rank %d: cancelled %d, received %d", rank, cancelled, in);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
