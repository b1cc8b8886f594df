/*
 * A library whose destructor makes a child at exit, after MPI_Finalize; argv[1]
 * is the library.
 *
 * Each rank: Init, Comm_rank, Barrier, Finalize.
 */
#include <dlfcn.h>
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    say("rank %d: loaded %d", rank, dlopen(argv[1], RTLD_NOW) != NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
