/*
 * Matched probes, argv[1] = N of them outstanding at once, N even, and one made
 * while measurement is paused.
 *
 * The rank, with itself: Init; N Isend of 4 bytes, N Mprobe, then N / 2 Mrecv
 * and N / 2 Imrecv in turn, 2 Waitall; Isend of 4 bytes, Pcontrol(0), a Mprobe
 * and Pcontrol(1) that are not counted, Imrecv, 2 Wait; Finalize.
 */
#include <mpi.h>
#include "program.h"

enum { MOST = 1200 };

static int out[MOST + 1], in[MOST + 1];
static MPI_Request sends[MOST + 1], receives[MOST / 2 + 1];
static MPI_Message messages[MOST + 1];

static void probe(int k)
{
    MPI_Mprobe(0, k, MPI_COMM_WORLD, &messages[k], MPI_STATUS_IGNORE);
}

static void post(int k)
{
    out[k] = 3 * k;
    MPI_Isend(&out[k], 1, MPI_INT, 0, k, MPI_COMM_WORLD, &sends[k]);
}

int main(int argc, char **argv)
{
    int n = atoi(argv[1]);
    long sum = 0;

    if (n > MOST)
        return 99;
    MPI_Init(&argc, &argv);
    for (int k = 0; k < n; k++)
        post(k);
    for (int k = 0; k < n; k++)
        probe(k);
    for (int k = 0; k < n; k += 2) {
        MPI_Mrecv(&in[k], 1, MPI_INT, &messages[k], MPI_STATUS_IGNORE);
        MPI_Imrecv(&in[k + 1], 1, MPI_INT, &messages[k + 1], &receives[k / 2]);
    }
    MPI_Waitall(n / 2, receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(n, sends, MPI_STATUSES_IGNORE);

    post(n);
    MPI_Pcontrol(0);
    probe(n);
    MPI_Pcontrol(1);
    MPI_Imrecv(&in[n], 1, MPI_INT, &messages[n], &receives[0]);
    MPI_Wait(&receives[0], MPI_STATUS_IGNORE);
    MPI_Wait(&sends[n], MPI_STATUS_IGNORE);
    for (int k = 0; k <= n; k++)
        sum += in[k] * (k + 1L);
    say("sum %ld", sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
