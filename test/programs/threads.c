/*
 * Threads that call MPI at the same time: arguments THREADS ITERATIONS
 * GENERATIONS. Each generation makes THREADS new threads and joins them.
 *
 * Each rank: Init_thread, Comm_rank; in each thread ITERATIONS times Isend and
 * Irecv of 8 bytes to and from the same thread of the other rank, Wait for the
 * one, Wait for the other, and Comm_size; Barrier, Finalize.
 */
#include <mpi.h>
#include <pthread.h>
#include "program.h"

static int rank, iterations;
static long sums[64];

static void *work(void *arg)
{
    int me = (int)(long)arg, size;

    for (int k = 0; k < iterations; k++) {
        long out = rank + me * k, in = 0;
        MPI_Request r[2];
        MPI_Irecv(&in, 1, MPI_LONG, 1 - rank, me, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(&out, 1, MPI_LONG, 1 - rank, me, MPI_COMM_WORLD, &r[1]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        sums[me] += in * size;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = atoi(argv[1]), generations = atoi(argv[3]), provided;
    pthread_t ids[64];
    long sum = 0;

    iterations = atoi(argv[2]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int g = 0; g < generations; g++) {
        for (long t = 0; t < threads; t++)
            pthread_create(&ids[t], NULL, work, (void *)t);
        for (int t = 0; t < threads; t++)
            pthread_join(ids[t], NULL);
    }
    for (int t = 0; t < threads; t++)
        sum += sums[t];
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: multiple %d, sum %ld", rank, provided == MPI_THREAD_MULTIPLE,
        sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
