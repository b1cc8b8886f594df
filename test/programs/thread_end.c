/*
 * Threads that call MPI while they end, from a destructor of thread-specific
 * data that runs after what C++ would destroy.
 *
 * Each rank: Init_thread, Comm_rank, and in each of 20 threads, one after the
 * other, Comm_size and at its end 2 Sendrecv of 4 bytes with the rank itself;
 * Barrier, Finalize.
 */
#include <mpi.h>
#include <pthread.h>
#include "program.h"

static pthread_key_t key;

static void at_end(void *arg)
{
    int *sum = arg, got;

    for (int i = 1; i <= 2; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        *sum += got;
    }
}

static void *thread(void *arg)
{
    int size;

    MPI_Comm_size(MPI_COMM_SELF, &size);
    pthread_setspecific(key, arg);
    return NULL;
}

int main(int argc, char **argv)
{
    int level, rank, sum = 0;
    pthread_t id;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_key_create(&key, at_end);
    for (int i = 0; i < 20; i++) {
        pthread_create(&id, NULL, thread, &sum);
        pthread_join(id, NULL);
    }
    say("rank %d: sum %d", rank, sum);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
