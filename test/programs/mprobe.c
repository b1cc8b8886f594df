/*
 * Matched probes.
 *
 * Rank 0: Init, Comm_rank; 8 Send of 4 * (k + 1) bytes to rank 1; Finalize.
 * Rank 1: Init, Comm_rank; 4 times Mprobe from any source, Get_count, Mrecv;
 * 2 times Mprobe, Imrecv, Wait; 2 times Improbe until it finds (noted), Mrecv
 * with the status ignored; Mrecv of MPI_MESSAGE_NO_PROC after a Mprobe of
 * MPI_PROC_NULL; Finalize.
 */
#include <mpi.h>
#include "program.h"

static int in[8];

static int matched(int k)
{
    MPI_Message message;
    MPI_Status status;
    MPI_Request request;
    int count = k + 1, flag = 0;
    long probes = 0;

    if (k < 4) {
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message,
                   &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Mrecv(in, count, MPI_INT, &message, &status);
    } else if (k < 6) {
        MPI_Mprobe(0, k, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(in, 8, MPI_INT, &message, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        for (; !flag; probes++)
            MPI_Improbe(0, k, MPI_COMM_WORLD, &flag, &message,
                        MPI_STATUS_IGNORE);
        MPI_Mrecv(in, 8, MPI_INT, &message, MPI_STATUS_IGNORE);
        note_calls(1, "MPI_Improbe", probes);
    }
    for (int i = 0; i < count; i++)
        flag += in[i];
    return flag;
}

int main(int argc, char **argv)
{
    int rank, out[8], sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < 8; i++)
            out[i] = i * k;
        if (rank == 0)
            MPI_Send(out, k + 1, MPI_INT, 1, k, MPI_COMM_WORLD);
        else
            sum += matched(k);
    }
    if (rank == 1) {
        MPI_Message none;
        MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE);
        MPI_Mrecv(in, 1, MPI_INT, &none, MPI_STATUS_IGNORE);
    }
    say("rank %d: sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
