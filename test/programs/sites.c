/*
 * The truth test of call sites: two sends on two lines, one of them in a loop,
 * one below a function that the compiler may not inline.
 *
 * Rank 0: Init, Comm_rank, 3 Send at "site: first", 2 at "site: second", 4 at
 * "site: nested", Finalize. Rank 1: Init, Comm_rank, 9 Recv, Finalize.
 */
#include <mpi.h>
#include "program.h"

static int value;
static volatile int two = 2, three = 3,
                    four = 4; /* keep the compiler from unrolling */

__attribute__((noinline)) static void inner(MPI_Comm world)
{
    MPI_Send(&value, 1, MPI_INT, 1, 0, world); /* site: nested */
    value++;
}

__attribute__((noinline)) static void outer(MPI_Comm world)
{
    for (int k = 0; k < four; k++)
        inner(world);
    value++;
}

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Status status;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        for (int k = 0; k < three; k++)
            MPI_Send(&value, 1, MPI_INT, 1, 0, world); /* site: first */
        for (int k = 0; k < two; k++)
            MPI_Send(&value, 1, MPI_INT, 1, 0, world); /* site: second */
        outer(world);
    } else {
        for (int k = 0; k < 9; k++)
            MPI_Recv(&value, 1, MPI_INT, 0, 0, world, &status);
    }
    say("rank %d: %d", rank, value);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
