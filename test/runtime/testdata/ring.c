/* ring.c: a number goes round all ranks, each of which adds its own. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, ranks, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank > 0) {
        MPI_Recv(&sum, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    sum += rank;
    MPI_Send(&sum, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(&sum, 1, MPI_INT, ranks - 1, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        printf("round %d\n", sum);
    }
    MPI_Finalize();
    return 0;
}
