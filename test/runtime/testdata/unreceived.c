/* unreceived.c: rank 0 sends a message that nobody receives, and gives up its
 * request. A wrong program, that ends nevertheless. */
#include <mpi.h>
#include <stdio.h>

static char message[1 << 20];

int main(int argc, char **argv)
{
    int rank;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Isend(message, sizeof(message), MPI_BYTE, 1, 0, MPI_COMM_WORLD,
                  &request);
        MPI_Request_free(&request);
    }
    MPI_Finalize();
    printf("%d: done\n", rank);
    return 0;
}
