/*
 * A session that is opened before MPI_Init and closed after MPI_Finalize.
 *
 * Each rank: Session_init, Init, Comm_rank, 5 Sendrecv of 4 bytes, 2 Allreduce,
 * Finalize, Session_finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    MPI_Session session;
    int rank, in, out, sum = 0;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < 5; k++) {
        out = rank + 10 * k;
        MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 0, &in, 1, MPI_INT, 1 - rank,
                     0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in;
    }
    for (int k = 0; k < 2; k++) {
        MPI_Allreduce(&sum, &in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        sum += in;
    }
    say("rank %d, sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    say("session's returns %d", MPI_Session_finalize(&session));
    return 0;
}
