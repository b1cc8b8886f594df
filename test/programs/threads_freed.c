/*
 * A communicator and a datatype are freed by one thread while another one
 * waits in a receive that names them, with more threads than have figures of
 * their own.
 *
 * Rank 0: Init_thread, Comm_rank, Comm_dup; Comm_rank by each of 14 threads;
 * one more: Type_contiguous, Type_commit, Recv of 8 bytes; the last: Comm_free,
 * Type_free, Comm_rank and Send of nothing to rank 1; Finalize. Rank 1:
 * Init_thread, Comm_rank, Comm_dup, Recv of nothing, Send of 8 bytes,
 * Comm_free, Finalize.
 */
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>
#include "program.h"

enum { FILL = 14 };

static MPI_Comm comm;
static MPI_Datatype type;
static int in[2];
static pthread_barrier_t filled, done;
static volatile int receives;

static void *fill(void *unused)
{
    int rank;
    (void)unused;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&done);
    return NULL;
}

static void *receive(void *unused)
{
    (void)unused;
    MPI_Comm mine = comm;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    receives = 1;
    MPI_Recv(in, 1, type, 1, 0, mine, MPI_STATUS_IGNORE);
    return NULL;
}

static void *release(void *unused)
{
    int rank;
    (void)unused;
    while (!receives)
        usleep(1000);
    sleep(2); /* the other is in its receive by now */
    MPI_Comm_free(&comm);
    MPI_Type_free(&type);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
    return NULL;
}

static void many(void)
{
    pthread_t threads[FILL + 2];
    pthread_barrier_init(&filled, NULL, FILL + 1);
    pthread_barrier_init(&done, NULL, FILL + 1);
    for (int i = 0; i < FILL; i++)
        pthread_create(&threads[i], NULL, fill, NULL);
    pthread_barrier_wait(&filled);
    pthread_create(&threads[FILL], NULL, receive, NULL);
    pthread_create(&threads[FILL + 1], NULL, release, NULL);
    pthread_join(threads[FILL], NULL);
    pthread_join(threads[FILL + 1], NULL);
    pthread_barrier_wait(&done);
    for (int i = 0; i < FILL; i++)
        pthread_join(threads[i], NULL);
    say("received %d %d", in[0], in[1]);
}

int main(int argc, char **argv)
{
    int provided, rank, out[2] = {5, 6};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == 0) {
        many();
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, 2, MPI_INT, 0, 0, comm);
        MPI_Comm_free(&comm);
    }
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
