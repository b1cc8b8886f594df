/*
 * Persistent requests that are freed while measurement is paused: what comes
 * later gets their handles. And some that are made while it is paused.
 *
 * The rank: Init; 100 times Recv_init of 4000 bytes, Pcontrol(0), Request_free,
 * Pcontrol(1), Irecv, Send of 4 bytes to itself, Wait. Pcontrol(0), Recv_init
 * and Send_init of 400 bytes with itself, Recv_init from nobody, Pcontrol(1); 50
 * times Startall and Waitall of all three, 3 Request_free; Finalize. Paused, the
 * first Pcontrol still counts.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    static int large[1000];
    int out = 1, in, sum = 0;
    MPI_Request request, made[3];

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
    MPI_Pcontrol(0);
    MPI_Recv_init(large, 100, MPI_INT, 0, 2, MPI_COMM_WORLD, &made[0]);
    MPI_Send_init(&large[500], 100, MPI_INT, 0, 2, MPI_COMM_WORLD, &made[1]);
    MPI_Recv_init(&in, 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, &made[2]);
    MPI_Pcontrol(1);
    for (int i = 0; i < 50; i++) {
        large[500] = i;
        MPI_Startall(3, made);
        MPI_Waitall(3, made, MPI_STATUSES_IGNORE);
        sum += large[0];
    }
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&made[i]);
    say("sum %d", sum);
    return MPI_Finalize();
}
