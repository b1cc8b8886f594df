/*
 * An intercommunicator of two groups of one rank each, where peers are ranks
 * of the remote group (always 0) and not of MPI_COMM_WORLD.
 *
 * Each rank: Init, Comm_rank, Comm_split, Intercomm_create, Comm_remote_size,
 * 3 Sendrecv of 12 bytes with remote rank 0, Allreduce over the
 * intercommunicator, Barrier on it, Intercomm_merge, Comm_rank of the merged
 * one, 2 Sendrecv of 4 bytes there (its ranks are those of the world turned
 * round), 3 Comm_free, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, remote, merged_rank, out[3], in[3], sum = 0;
    MPI_Comm half, inter, merged;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank, 9, &inter);
    MPI_Comm_remote_size(inter, &remote);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3; i++)
            out[i] = rank + i * k;
        MPI_Sendrecv(out, 3, MPI_INT, 0, 0, in, 3, MPI_INT, 0, 0, inter,
                     MPI_STATUS_IGNORE);
        sum += in[0] + in[1] + in[2];
    }
    MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, inter);
    MPI_Barrier(inter);
    MPI_Intercomm_merge(inter, rank == 0, &merged);
    MPI_Comm_rank(merged, &merged_rank);
    for (int k = 0; k < 2; k++) {
        MPI_Sendrecv(&sum, 1, MPI_INT, 1 - merged_rank, 0, &out[k], 1, MPI_INT,
                     1 - merged_rank, 0, merged, MPI_STATUS_IGNORE);
        sum += out[k];
    }
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    say("rank %d: remote %d, merged rank %d, reduced %d, sum %d", rank, remote,
        merged_rank, in[0], sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
