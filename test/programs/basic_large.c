/*
 * The exchange of basic.c by the large-count functions of MPI 4, and sizes
 * and counts of a datatype of more than 2 GiB (never sent).
 *
 * Each rank: Init, Comm_rank, Comm_size; 10 times Send_c and Recv_c of 100
 * ints; 3 times Irecv_c, Isend_c of 50 doubles and Waitall; 4 times Sendrecv_c
 * of one double; 2 Bcast_c, 3 Allreduce_c, Type_contiguous_c, Type_commit,
 * Type_size_c, Type_free, Barrier, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, size, peer, ints[100], back[100], total = 0;
    double out[50], in[50], one, other, sum = 0;
    MPI_Request r[2];
    MPI_Datatype huge;
    MPI_Count bytes;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    peer = 1 - rank;

    for (int k = 0; k < 10; k++) {
        for (int i = 0; i < 100; i++)
            ints[i] = rank + k * i;
        if (rank == 0)
            MPI_Send_c(ints, 100, MPI_INT, peer, k, MPI_COMM_WORLD);
        MPI_Recv_c(back, 100, MPI_INT, peer, k, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send_c(ints, 100, MPI_INT, peer, k, MPI_COMM_WORLD);
        for (int i = 0; i < 100; i++)
            total += back[i] * (i + 1);
    }
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 50; i++)
            out[i] = rank + 2 * k + i;
        MPI_Irecv_c(in, 50, MPI_DOUBLE, peer, 20 + k, MPI_COMM_WORLD, &r[0]);
        MPI_Isend_c(out, 50, MPI_DOUBLE, peer, 20 + k, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 50; i++)
            sum += in[i] * (i + 1);
    }
    for (int k = 0; k < 4; k++) {
        one = rank + k;
        MPI_Sendrecv_c(&one, 1, MPI_DOUBLE, peer, 30, &other, 1, MPI_DOUBLE,
                       peer, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += other * (k + 1);
    }
    for (int k = 0; k < 2; k++) {
        one = rank == k ? 7 + k : 0;
        MPI_Bcast_c(&one, 1, MPI_DOUBLE, k, MPI_COMM_WORLD);
        sum += one;
    }
    for (int k = 0; k < 3; k++) {
        MPI_Allreduce_c(&one, &other, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum += other;
    }
    MPI_Type_contiguous_c((MPI_Count)3 << 30, MPI_BYTE, &huge);
    MPI_Type_commit(&huge);
    MPI_Type_size_c(huge, &bytes);
    MPI_Type_free(&huge);
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d of %d: %d %.1f, %lld bytes", rank, size, total, sum,
        (long long)bytes);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
