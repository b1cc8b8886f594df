/*
 * An error handler jumps out of a call, and the calls that follow are made from
 * deeper in the stack than the one that was left.
 *
 * Each rank: Init, Comm_rank, Comm_create_errhandler, Comm_set_errhandler,
 * Errhandler_free; 3 times a Send to rank 99, which fails, then below a large
 * frame 20 times: Sendrecv of 4 bytes, Irecv, Isend of 4 bytes, Waitall;
 * Allreduce, Finalize.
 */
#include <mpi.h>
#include <setjmp.h>
#include <string.h>
#include "program.h"

static jmp_buf back;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    longjmp(back, 1);
}

static __attribute__((noinline)) int deeper(int rank)
{
    volatile char room[20000];
    int in, other, sum = 0;
    MPI_Request r[2];

    room[0] = 1;
    for (int k = 0; k < 20; k++) {
        MPI_Sendrecv(&k, 1, MPI_INT, 1 - rank, 1, &in, 1, MPI_INT, 1 - rank, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(&other, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(&k, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        sum += in + other * k;
    }
    return sum + room[0];
}

int main(int argc, char **argv)
{
    static int rank, all, sum, jumps, k;
    MPI_Errhandler mine;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    MPI_Errhandler_free(&mine);
    for (k = 0; k < 3; k++) {
        if (setjmp(back) == 0)
            MPI_Send(&rank, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
        else
            jumps++;
        sum += deeper(rank);
    }
    MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: %d jumps, sum %d", rank, jumps, all);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
