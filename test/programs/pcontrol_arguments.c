/*
 * MPI_Pcontrol with further arguments, which are for another tool: integers,
 * pointers and floating-point numbers.
 *
 * The rank: Init; Pcontrol(5, ...), Barrier, Pcontrol(6, ...), Barrier,
 * Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    say("codes %d", MPI_Pcontrol(5, "solver", 0.5, 12L, "step", 1e300, -3));
    MPI_Barrier(MPI_COMM_WORLD);
    say("codes %d", MPI_Pcontrol(6, "output", -0.25, -1L, "", 3.0, 7));
    MPI_Barrier(MPI_COMM_WORLD);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
