/*
 * Neighbourhood collectives on a line that does not wrap: the ranks at its ends
 * have MPI_PROC_NULL for a neighbour, to which nothing is sent.
 *
 * Each rank: Init, Cart_create, Comm_rank, Neighbor_alltoall of 8 bytes,
 * Neighbor_alltoallv of 4 bytes down and 8 up, Neighbor_alltoallw likewise,
 * Comm_free, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int size, rank, periodic = 0, counts[2] = {1, 2}, displacements[2] = {0, 2};
    int from[2] = {2, 1};
    MPI_Aint bytes[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Comm line;

    MPI_Init(&argc, &argv);
    size = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &line);
    MPI_Comm_rank(line, &rank);
    int out[4] = {rank, rank + 10, rank + 20, rank + 30};
    int in[4] = {-1, -1, -1, -1};
    MPI_Neighbor_alltoall(out, 2, MPI_INT, in, 2, MPI_INT, line);
    say("%d %d %d %d", in[0], in[1], in[2], in[3]);
    MPI_Neighbor_alltoallv(out, counts, displacements, MPI_INT, in, from, displacements, MPI_INT, line);
    say("%d %d %d %d", in[0], in[1], in[2], in[3]);
    MPI_Neighbor_alltoallw(out, counts, bytes, types, in, from, bytes, types, line);
    say("%d %d %d %d", in[0], in[1], in[2], in[3]);
    MPI_Comm_free(&line);
    return MPI_Finalize();
}
