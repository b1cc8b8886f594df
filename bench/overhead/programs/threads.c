/*
 * threads.c - loops of two threads at MPI_THREAD_MULTIPLE, each on a
 * communicator of its own. The result is the mean of both threads' time per
 * call. Start on one rank.
 */
#include "bench.h"
#include "loops.h"

#include <pthread.h>

#define THREADS 2

static const struct named_loop loops[] = {
    {"2threads_Comm_rank", loop_comm_rank, 1.0},
    {"2threads_Iprobe", loop_iprobe, 1.0},
    {"2threads_Sendrecv", loop_sendrecv, 1.0},
};
#define LOOPS (sizeof(loops) / sizeof(loops[0]))

static pthread_barrier_t together;
static MPI_Comm comms[THREADS];
static long iterations[LOOPS];
static double ns[THREADS][LOOPS];

static void *worker(void *argument)
{
    int me = *(int *)argument;

    COMM = comms[me];
    pin(me);
    for (size_t i = 0; i < LOOPS; i++) {
        if (me == 0) {
            iterations[i] = calibrate(loops[i].loop);
        }
        pthread_barrier_wait(&together);
        /* not counted: both threads have left the barrier after it */
        loops[i].loop(iterations[i] / 10);
        ns[me][i] = time_loop(loops[i].loop, iterations[i], loops[i].calls);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int ids[THREADS], level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "this MPI offers no MPI_THREAD_MULTIPLE\n");
        return 2;
    }
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_SELF, &comms[i]);
        ids[i] = i;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, worker, &ids[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < LOOPS; i++) {
        print_result(loops[i].name, (ns[0][i] + ns[1][i]) / THREADS);
    }
    MPI_Finalize();
    return 0;
}
