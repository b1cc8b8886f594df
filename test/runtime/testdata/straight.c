/* Messages back and forth, each rank always from the same buffer, which it changes
 * as soon as the send is done. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGES = 400, BYTES = 16384 };

int main(int argc, char **argv)
{
    static unsigned char out[BYTES], in[BYTES];
    int rank, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2 * MESSAGES; i++) {
        if (i % 2 == rank) {
            for (int k = 0; k < BYTES; k++) {
                out[k] = (unsigned char)(k + i);
            }
            MPI_Send(out, BYTES, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
            continue;
        }
        MPI_Recv(in, BYTES, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        for (int k = 0; k < BYTES; k++) {
            wrong += in[k] != (unsigned char)(k + i);
        }
    }
    MPI_Finalize();
    return wrong > 0;
}
