/*
 * A program that any number of ranks can run, one included, and that needs no
 * shared memory of the MPI library: messages to itself and collectives. With an
 * argument it changes to that directory after Init, as programs do that work in
 * a scratch directory.
 *
 * Each rank: Init, Comm_rank; 10 Sendrecv of 4 bytes with itself, 3 Allreduce,
 * Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, in, sum = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && chdir(argv[1]) != 0)
        return 1;
    for (int k = 0; k < 10; k++) {
        MPI_Sendrecv(&k, 1, MPI_INT, rank, 0, &in, 1, MPI_INT, rank, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in * (k + 1);
    }
    for (int k = 0; k < 3; k++) {
        MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        sum += all;
    }
    say("rank %d: sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
