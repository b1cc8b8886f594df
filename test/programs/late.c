/*
 * A program whose library ends MPI for it, in a destructor at exit; argv[1] is
 * the library.
 *
 * Each rank: Init, Comm_rank, Barrier; from the destructor: Barrier, Sendrecv
 * of 4 bytes, Finalize.
 */
#include <dlfcn.h>
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: loaded %d", rank, dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) != NULL);
    return 0;
}
