/*
 * Requests with nobody at the other end, under MPI_THREAD_MULTIPLE: the library
 * gives one handle to all of them, and to complete sends.
 *
 * The rank: Init_thread; 100 times 2 Irecv from MPI_PROC_NULL and Waitall; Recv_init
 * from MPI_PROC_NULL, 50 times Start and Wait, Request_free; 20 times Mprobe of
 * MPI_PROC_NULL, Imrecv and Wait; 200 times Irecv, Isend of 4 bytes to itself and
 * 2 Wait; Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int level, in, out = 1, sum = 0;
    char bytes[4000];
    MPI_Message none;
    MPI_Request request, pair[2];

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    for (int i = 0; i < 100; i++) {
        MPI_Irecv(bytes, 2000, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &pair[0]);
        MPI_Irecv(bytes, 2000, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &pair[1]);
        MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    }
    MPI_Recv_init(bytes, 4000, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 50; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    for (int i = 0; i < 20; i++) {
        MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE);
        MPI_Imrecv(bytes, 4000, MPI_BYTE, &none, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 200; i++) {
        MPI_Irecv(&in, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &pair[0]);
        MPI_Isend(&out, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &pair[1]);
        MPI_Wait(&pair[0], MPI_STATUS_IGNORE);
        MPI_Wait(&pair[1], MPI_STATUS_IGNORE);
        sum += in;
    }
    say("sum %d", sum);
    return MPI_Finalize();
}
