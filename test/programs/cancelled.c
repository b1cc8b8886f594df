/*
 * A thread that is to be cancelled at the next opportunity, when it calls MPI for
 * the first time.
 *
 * Each rank: Init_thread; a second thread makes Comm_rank and is cancelled
 * behind it; Finalize.
 */
#include <mpi.h>
#include <pthread.h>
#include "program.h"

static volatile int go;

static void *work(void *unused)
{
    int rank;
    (void)unused;
    while (!go) {
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* no library can be cancelled in it */
    for (;;)
        pthread_testcancel();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *end;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    pthread_create(&thread, NULL, work, NULL);
    pthread_cancel(thread);
    go = 1;
    pthread_join(thread, &end);
    say("cancelled %d", end == PTHREAD_CANCELED);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
