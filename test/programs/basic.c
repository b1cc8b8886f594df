/*
 * The same exchange of two ranks as in basic.cpp, basic_mpif.f, basic_use.f90,
 * basic_f08.f90, basic_large.c and basic.py.
 *
 * Each rank: Init, Comm_rank, Comm_size; 10 times Send and Recv of 100 ints;
 * 3 times Irecv, Isend of 50 doubles and Waitall; 4 times Sendrecv of one
 * double; 2 Bcast, 3 Allreduce, 1 Barrier, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, size, peer, ints[100], total = 0;
    double out[50], in[50], one, other, sum;
    MPI_Request r[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    peer = 1 - rank;

    for (int k = 0; k < 10; k++) {
        for (int i = 0; i < 100; i++)
            ints[i] = rank + k * i;
        if (rank == 0) {
            MPI_Send(ints, 100, MPI_INT, peer, k, MPI_COMM_WORLD);
            MPI_Recv(ints, 100, MPI_INT, peer, k, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else {
            int back[100];
            MPI_Recv(back, 100, MPI_INT, peer, k, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            MPI_Send(ints, 100, MPI_INT, peer, k, MPI_COMM_WORLD);
            for (int i = 0; i < 100; i++)
                ints[i] = back[i];
        }
        for (int i = 0; i < 100; i++)
            total += ints[i] * (i + 1);
    }
    say("rank %d of %d: sends and receives %d", rank, size, total);

    sum = 0;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 50; i++)
            out[i] = rank + 2 * k + i;
        MPI_Irecv(in, 50, MPI_DOUBLE, peer, 20 + k, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, 50, MPI_DOUBLE, peer, 20 + k, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 50; i++)
            sum += in[i] * (i + 1);
    }
    for (int k = 0; k < 4; k++) {
        one = rank + k;
        MPI_Sendrecv(&one, 1, MPI_DOUBLE, peer, 30, &other, 1, MPI_DOUBLE, peer,
                     30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += other * (k + 1);
    }
    say("rank %d: nonblocking and exchange %.1f", rank, sum);

    for (int k = 0; k < 2; k++) {
        one = rank == k ? 7 + k : 0;
        MPI_Bcast(&one, 1, MPI_DOUBLE, k, MPI_COMM_WORLD);
        sum += one;
    }
    for (int k = 0; k < 3; k++) {
        MPI_Allreduce(&one, &other, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum += other;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: collectives %.1f", rank, sum);
    say("rank %d: finalize returns %d", rank, MPI_Finalize());
    return 0;
}
