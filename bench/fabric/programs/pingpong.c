/* pingpong.c DIVISOR [BYTES ...]: half round trips of MPI_Send and MPI_Recv between two
 * ranks, as mpitrace-fabric pingpong measures them: batches, of which it prints
 * the median and the least, in microseconds; and the bandwidth of windows of 64
 * MPI_Isend. The first and last word of each message are checked. One line a
 * size: bytes, median, least, MB/s of the best window. DIVISOR: so much less often
 * than usual. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 51, WINDOW = 64, WINDOWS = 20 };

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void check(const char *at, int bytes, long number)
{
    long first = 0, last = number;
    memcpy(&first, at, 8);
    if (bytes >= 16) {
        memcpy(&last, at + bytes - 8, 8);
    }
    if (first != number || last != number) {
        fprintf(stderr, "wrong data\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double batch(char *out, char *in, int bytes, long count, int rank)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (long i = 0; i < count; i++) {
        memcpy(out, &i, 8);
        if (bytes >= 16) {
            memcpy(out + bytes - 8, &i, 8);
        }
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        }
        MPI_Recv(in, bytes, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        check(in, bytes, i);
        if (rank == 1) {
            MPI_Send(out, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - began) / 2 / (double)count * 1e6;
}

static double window(char *out, char *in, int bytes, int rank)
{
    MPI_Request requests[WINDOW];
    double best = 0;
    for (int w = 0; w < WINDOWS; w++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        for (int i = 0; i < WINDOW; i++) {
            rank == 0 ? MPI_Isend(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD,
                                  &requests[i])
                      : MPI_Irecv(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD,
                                  &requests[i]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        rank == 0
            ? MPI_Recv(in, 0, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
            : MPI_Send(out, 0, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
        double rate = (double)bytes * WINDOW / (MPI_Wtime() - began) / 1e6;
        best = rate > best ? rate : best;
    }
    return best;
}

/* Memory that was never written is one page of zeros, which is faster to read than
 * any that holds data. */
static char *filled(int bytes)
{
    char *memory = malloc((size_t)bytes);
    if (memory == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(memory, 0x5a, (size_t)bytes);
    return memory;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long divisor = argc > 1 ? atol(argv[1]) : 1;
    if (divisor < 1) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int a = 2; a < argc; a++) {
        int bytes = atoi(argv[a]);
        if (bytes < 8) {
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        char *out = filled(bytes), *in = filled(bytes);
        long count = 400000000 / (bytes + 2000) / BATCHES + 1;
        double us[BATCHES];
        batch(out, in, bytes, count, rank);
        for (int b = 0; b < BATCHES; b++) {
            us[b] = batch(out, in, bytes, count, rank);
        }
        qsort(us, BATCHES, sizeof(us[0]), by_value);
        double rate = window(out, in, bytes, rank);
        if (rank == 0) {
            printf("%d %.4f %.4f %.1f\n", bytes, us[BATCHES / 2], us[0], rate);
        }
        free(out);
        free(in);
    }
    MPI_Finalize();
    return 0;
}
