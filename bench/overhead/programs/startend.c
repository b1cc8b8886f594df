/*
 * startend.c - a job that starts, exchanges a few messages and ends. Each rank
 * prints how long its first call of any MPI function took, and its exit until
 * preloaded libraries were done: "rank RANK first_call NS exit NS". Start on
 * any number of ranks.
 */
#include "bench.h"
#include "exitclock.h"

#include <mpi.h>

#define EXCHANGES 100

static int me;
static double first_call;

static void handlers_end(void *unused)
{
    double now = now_ns();

    (void)unused;
    dprintf(1, "rank %d first_call %.0f exit %.0f\n", me, first_call,
            exit_times.in_destructors + now - exit_times.handlers);
}

__attribute__((destructor)) static void destructors_begin(void)
{
    __cxa_atexit(handlers_end, NULL, NULL);
    exit_times.destructors = now_ns();
}

/* Messages round the ring, so that there is something to keep. */
static void exchange(int size)
{
    char out = 0, in;
    int sum;

    for (int i = 0; i < EXCHANGES; i++) {
        MPI_Sendrecv(&out, 1, MPI_BYTE, (me + 1) % size, 7, &in, 1, MPI_BYTE,
                     (me + size - 1) % size, 7, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int size, flag;
    double start = now_ns();

    MPI_Initialized(&flag);
    first_call = now_ns() - start;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    exchange(size);
    MPI_Finalize();
    return 0;
}
