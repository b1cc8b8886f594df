/*
 * 14 threads one after the other, all kept alive, each of which uses thousands
 * of buffers often: what is kept of buffers must leave room for later threads.
 *
 * The rank: Init_thread; in each of 14 threads 5,000 buffers, each sent to the
 * rank itself 20 times in a row: 100,000 Sendrecv of 4 bytes; Finalize.
 */
#include <mpi.h>
#include <pthread.h>
#include "program.h"

enum { THREADS = 14, BUFFERS = 5000, USES = 20 };

static pthread_barrier_t end;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int sum;

static void *work(void *arg)
{
    int *buffers = arg, in;

    pthread_mutex_lock(&turn);
    for (int b = 0; b < BUFFERS; b++) {
        for (int i = 0; i < USES; i++) {
            buffers[b] = i;
            MPI_Sendrecv(&buffers[b], 1, MPI_INT, 0, 0, &in, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
            sum += in;
        }
    }
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&end);
    return NULL;
}

int main(int argc, char **argv)
{
    int level;
    pthread_t threads[THREADS];

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    pthread_barrier_init(&end, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, calloc(BUFFERS, sizeof(int)));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    say("sum %d", sum);
    return MPI_Finalize();
}
