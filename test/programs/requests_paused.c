/*
 * Persistent requests that are freed while measurement is paused: what comes
 * later gets their handles.
 *
 * The rank: Init; 100 times Recv_init of 4000 bytes, Pcontrol(0), Request_free,
 * Pcontrol(1), Irecv, Send of 4 bytes to itself, Wait; Finalize. Paused, the
 * first Pcontrol still counts.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    static int large[1000];
    int out = 1, in, sum = 0;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < 100; i++) {
        MPI_Recv_init(large, 1000, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        MPI_Pcontrol(0);
        MPI_Request_free(&request);
        MPI_Pcontrol(1);
        MPI_Irecv(&in, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Send(&out, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        sum += in;
    }
    say("sum %d", sum);
    return MPI_Finalize();
}
