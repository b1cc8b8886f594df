/*
 * Receives from MPI_ANY_SOURCE whose status is ignored: who sent is known to
 * the library only. Three ranks.
 *
 * Ranks 1 and 2: Init, Comm_rank; 6 Send of 100 * rank bytes to rank 0;
 * Barrier, Finalize. Rank 0: Init, Comm_rank; 4 Recv, 4 times Irecv and Wait, 2
 * times 2 Irecv and Waitall, all from any source with any tag, buffers of 400
 * bytes, statuses ignored; Barrier, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    char buffer[2][400] = {{0}};
    int rank, sum = 0;
    MPI_Request r[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; rank > 0 && k < 6; k++) {
        buffer[0][0] = (char)(rank + k);
        MPI_Send(buffer[0], 100 * rank, MPI_CHAR, 0, k, MPI_COMM_WORLD);
    }
    for (int k = 0; rank == 0 && k < 4; k++) {
        MPI_Recv(buffer[0], 400, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += buffer[0][0];
        MPI_Irecv(buffer[0], 400, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG,
                  MPI_COMM_WORLD, &r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        sum += buffer[0][0];
    }
    for (int k = 0; rank == 0 && k < 2; k++) {
        for (int i = 0; i < 2; i++)
            MPI_Irecv(buffer[i], 400, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG,
                      MPI_COMM_WORLD, &r[i]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        sum += buffer[0][0] + buffer[1][0];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
