/*
 * MPI_Pcontrol: off, on, and phases.
 *
 * Each rank: Init, Comm_rank; 3 Barrier; Pcontrol(0); 5 Barrier and
 * Pcontrol(1) that are not counted; 2 Barrier; Pcontrol(3), 4 Barrier;
 * Pcontrol(7), 6 Barrier; Finalize.
 */
#include <mpi.h>
#include "program.h"

static void barriers(int times)
{
    for (int k = 0; k < times; k++)
        MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, codes = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    barriers(3);
    codes += MPI_Pcontrol(0);
    barriers(5);
    codes += MPI_Pcontrol(1);
    barriers(2);
    codes += MPI_Pcontrol(3);
    barriers(4);
    codes += MPI_Pcontrol(7);
    barriers(6);
    say("rank %d: codes %d", rank, codes);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
