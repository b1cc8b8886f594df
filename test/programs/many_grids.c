/*
 * More communicators at once than are followed, and neighbourhood collectives
 * on the last of them.
 *
 * The rank: Init; 1,100 Cart_create of one process; 2 Neighbor_alltoallv of 4
 * bytes each way, Ineighbor_alltoallv and Wait on the last; 1,100 Comm_free;
 * Finalize.
 */
#include <mpi.h>
#include "program.h"

enum { GRIDS = 1100 };

int main(int argc, char **argv)
{
    static MPI_Comm grids[GRIDS];
    int one = 1, periodic = 1, counts[2] = {1, 1}, displacements[2] = {0, 1};
    int out[2] = {3, 4}, in[2] = {0, 0};
    MPI_Request request;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < GRIDS; i++) {
        MPI_Cart_create(MPI_COMM_SELF, 1, &one, &periodic, 0, &grids[i]);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Neighbor_alltoallv(out, counts, displacements, MPI_INT, in, counts, displacements, MPI_INT, grids[GRIDS - 1]);
        say("%d", in[0] + in[1]);
    }
    MPI_Ineighbor_alltoallv(out, counts, displacements, MPI_INT, in, counts, displacements, MPI_INT, grids[GRIDS - 1], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("%d", in[0] + in[1]);
    for (int i = 0; i < GRIDS; i++) {
        MPI_Comm_free(&grids[i]);
    }
    return MPI_Finalize();
}
