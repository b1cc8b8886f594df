/*
 * Functions that are new in MPI 4.0 and not large-count: partitioned messages,
 * persistent collectives, Isendrecv.
 *
 * Each rank: Init, Comm_rank; rank 0 Psend_init, Start, 4 Pready, Wait; rank 1
 * Precv_init, Start, Wait; Request_free; Allreduce_init, 3 times Start and
 * Wait, Request_free; Isendrecv, Wait; Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, data[40] = {0}, in, out, sum = 0;
    MPI_Request r;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Psend_init(data, 4, 10, MPI_INT, 1, 0, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &r);
        MPI_Start(&r);
        for (int p = 0; p < 4; p++) {
            for (int i = 0; i < 10; i++)
                data[10 * p + i] = i + p;
            MPI_Pready(p, r);
        }
    } else {
        MPI_Precv_init(data, 4, 10, MPI_INT, 0, 0, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &r);
        MPI_Start(&r);
    }
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Request_free(&r);
    for (int i = 0; i < 40; i++)
        sum += data[i] * (i + 1);

    MPI_Allreduce_init(&out, &in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &r);
    for (int k = 0; k < 3; k++) {
        out = rank + k;
        MPI_Start(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        sum += in;
    }
    MPI_Request_free(&r);
    MPI_Isendrecv(&rank, 1, MPI_INT, 1 - rank, 1, &in, 1, MPI_INT, 1 - rank, 1,
                  MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    say("rank %d: sum %d", rank, sum + in);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
