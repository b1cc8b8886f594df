/* changed.c: rank 0 sends long messages to rank 1, and changes one while it is
 * being sent, as no program may. Rank 1 asks for each only when rank 0 is done
 * with that. Its argument is how many, and that half way one is changed: 1, or that
 * none is and rank 1 is ready for every other one before it is sent: 2; 3 is 1 with
 * MPI_Recv. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static char message[100000];

int main(int argc, char **argv)
{
    int rank, count = argc > 1 ? atoi(argv[1]) : 10;
    int what = argc > 2 ? atoi(argv[2]) : 0, changes = what == 1 || what == 3;
    int ready = what == 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < count; i++) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (ready && i % 2 == 1 && rank == 0) {
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 8, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
        if (rank == 0) {
            MPI_Isend(message, sizeof(message), MPI_BYTE, 1, 7, MPI_COMM_WORLD,
                      &request);
            message[5] += changes && i == count / 2;
        }
        if (changes) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (rank == 1 && what == 3) {
            MPI_Recv(message, sizeof(message), MPI_BYTE, 0, 7, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Irecv(message, sizeof(message), MPI_BYTE, 0, 7, MPI_COMM_WORLD,
                      &request);
        }
        if (ready && i % 2 == 1 && rank == 1) {
            MPI_Send(NULL, 0, MPI_BYTE, 0, 8, MPI_COMM_WORLD);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    printf("%d: done\n", rank);
    return 0;
}
