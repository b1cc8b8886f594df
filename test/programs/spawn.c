/*
 * MPI_Comm_spawn: two ranks start two children of this same program, which are
 * ranks 0 and 1 of a MPI_COMM_WORLD of their own.
 *
 * Each parent: Init, Comm_get_parent, Comm_rank, Comm_spawn, 4 Send of 8 bytes
 * and 4 Recv of 8 bytes to and from the child of its rank, Comm_disconnect,
 * Finalize. Each child: Init, Comm_get_parent, Comm_rank, 4 times Recv and Send
 * to its parent, one Barrier with its sibling, Comm_disconnect, Finalize.
 */
#include <mpi.h>
#include "program.h"

static void serve(MPI_Comm parent, int rank)
{
    long value;

    for (int k = 0; k < 4; k++) {
        MPI_Recv(&value, 1, MPI_LONG, rank, 0, parent, MPI_STATUS_IGNORE);
        value *= 3;
        MPI_Send(&value, 1, MPI_LONG, rank, 0, parent);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    int rank, codes[2] = {-1, -1};
    long value, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (parent != MPI_COMM_NULL) {
        serve(parent, rank);
        MPI_Comm_disconnect(&parent);
        return MPI_Finalize();
    }
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &children, codes);
    for (int k = 0; k < 4; k++) {
        value = rank + k;
        MPI_Send(&value, 1, MPI_LONG, rank, 0, children);
        MPI_Recv(&value, 1, MPI_LONG, rank, 0, children, MPI_STATUS_IGNORE);
        sum += value;
    }
    MPI_Comm_disconnect(&children);
    say("rank %d: sum %ld, codes %d %d", rank, sum, codes[0], codes[1]);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
