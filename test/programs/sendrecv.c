/*
 * Sendrecv in its forms; messages to and from MPI_PROC_NULL, which are calls
 * but no messages; a receive that is larger than what arrives.
 *
 * Each rank: Init, Comm_rank; 5 Sendrecv, 24 bytes out, 40 bytes of room; 3
 * Sendrecv_replace of 16 bytes; Sendrecv with both sides MPI_PROC_NULL; Send
 * to and Recv from MPI_PROC_NULL; Sendrecv with any source; Get_count 5 times;
 * Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, peer, out[6], in[10] = {0}, count, sum = 0;
    MPI_Status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < 6; i++)
            out[i] = rank + k * i;
        MPI_Sendrecv(out, 6, MPI_INT, peer, 1, in, 10, MPI_INT, peer, 1,
                     MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        for (int i = 0; i < count; i++)
            sum += in[i] * (i + 1);
    }
    for (int k = 0; k < 3; k++) {
        MPI_Sendrecv_replace(out, 4, MPI_INT, peer, 2, peer, 2, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        sum += out[k];
    }
    MPI_Sendrecv(out, 6, MPI_INT, MPI_PROC_NULL, 3, in, 10, MPI_INT,
                 MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
    sum += status.MPI_SOURCE == MPI_PROC_NULL;
    MPI_Send(out, 6, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD);
    MPI_Recv(in, 6, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 6, MPI_INT, peer, 5, in, 10, MPI_INT, MPI_ANY_SOURCE,
                 MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 6; i++)
        sum += in[i];
    say("rank %d: sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
