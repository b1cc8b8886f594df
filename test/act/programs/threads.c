/* threads.c: several threads in sends, receives, probes and waits at once; each
 * pair of threads has a tag, and half of them a communicator of their own. Some ask what
 * a type is made of that others send, and free what they are told; or all look at one
 * request. Two ranks. */
#include <pthread.h>

#include "program.h"

enum { THREADS = 4, ROUNDS = 200 };

static MPI_Comm comms[THREADS];
static int wrong[THREADS];

static void *work(void *argument)
{
    int me = (int)(intptr_t)argument, other = 1 - rank;
    static char out[THREADS][70000], in[THREADS][70000];
    MPI_Comm comm = comms[me];
    for (int i = 0; i < ROUNDS; i++) {
        int n = lengths[(i + me) % 10];
        MPI_Request requests[2];
        MPI_Status status;
        int flag = 0, count = -1;
        fill(out[me], (size_t)n, (unsigned)(me + i));
        memset(in[me], 0, (size_t)n);
        if (i % 4 == 0) {
            MPI_Sendrecv(out[me], n, MPI_BYTE, other, me, in[me], 70000,
                         MPI_BYTE, other, me, comm, &status);
        } else if (i % 4 == 1) {
            MPI_Irecv(in[me], 70000, MPI_BYTE, other, me, comm, &requests[0]);
            MPI_Isend(out[me], n, MPI_BYTE, other, me, comm, &requests[1]);
            MPI_Wait(&requests[0], &status);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        } else if (i % 4 == 2) {
            MPI_Isend(out[me], n, MPI_BYTE, other, me, comm, &requests[0]);
            MPI_Message message;
            MPI_Mprobe(other, me, comm, &message, &status);
            MPI_Mrecv(in[me], 70000, MPI_BYTE, &message, &status);
            while (!flag) {
                MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
            }
        } else {
            MPI_Irecv(in[me], 70000, MPI_BYTE, MPI_ANY_SOURCE, me, comm,
                      &requests[0]);
            MPI_Send(out[me], n, MPI_BYTE, other, me, comm);
            MPI_Waitall(1, requests, &status);
        }
        MPI_Get_count(&status, MPI_BYTE, &count);
        wrong[me] += count != n || !filled(in[me], (size_t)n,
                                           (unsigned)(me + i));
    }
    return NULL;
}

/* Communicators are made by all threads at once, from different parents. */
static void *make(void *argument)
{
    int me = (int)(intptr_t)argument, got = -1;
    for (int i = 0; i < 20; i++) {
        MPI_Comm made;
        MPI_Comm_dup(comms[me], &made);
        MPI_Sendrecv(&me, 1, MPI_INT, 1 - rank, 0, &got, 1, MPI_INT, 1 - rank,
                     0, made, MPI_STATUS_IGNORE);
        wrong[me] += got != me;
        MPI_Comm_free(&made);
    }
    return NULL;
}

static MPI_Datatype pairs, four; /* of ints 0 and 2; two of it */

/* The first thread sends itself elements of a type, the others ask for it. */
static void *contents(void *argument)
{
    int me = (int)(intptr_t)argument, one;
    static int sent; /* by the first one: all of them */
    int out[4] = {10, 11, 12, 13}, in[4];
    while (me != 0 && !__atomic_load_n(&sent, __ATOMIC_RELAXED)) {
        MPI_Aint none;
        MPI_Datatype told;
        MPI_Type_get_contents(four, 1, 0, 1, &one, &none, &told);
        MPI_Type_free(&told);
    }
    for (int i = 0; me == 0 && i < 200 * ROUNDS; i++) {
        memset(in, 0, sizeof(in));
        MPI_Sendrecv(out, 1, pairs, 0, 3, in, 1, pairs, 0, 3, MPI_COMM_SELF,
                     MPI_STATUS_IGNORE);
        wrong[me] += in[0] != 10 || in[1] != 0 || in[2] != 12;
    }
    if (me == 0) {
        __atomic_store_n(&sent, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

enum { DEALT = 400000 };
static int dealt_out[DEALT], dealt_in[DEALT];
static MPI_Datatype dealt; /* the first half of each pair, as only the library knows */
static MPI_Request shown;
static int looking;

/* All look whether a message has come, without ending its request: who is told so finds
 * all of it. */
static void *look(void *argument)
{
    int me = (int)(intptr_t)argument, there = 0;
    __atomic_fetch_add(&looking, 1, __ATOMIC_RELAXED);
    while (me == 0 && __atomic_load_n(&looking, __ATOMIC_RELAXED) < THREADS) {
    }
    if (me == 0) {
        MPI_Send(dealt_out, 1, dealt, 1 - rank, 6, MPI_COMM_WORLD);
    }
    while (!there) {
        MPI_Status status;
        MPI_Request_get_status(shown, &there, &status);
    }
    for (int i = 0; i < DEALT; i++) {
        wrong[me] += dealt_in[i] != (i % 2 == 0 ? i : -1);
    }
    return NULL;
}

static void together(void *(*what)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t t = 0; t < THREADS; t++) {
        pthread_create(&threads[t], NULL, what, (void *)t);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        CHECK(wrong[t] == 0);
    }
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(level == MPI_THREAD_MULTIPLE);
    for (int t = 0; t < THREADS; t++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    }
    MPI_Comm own[THREADS];
    memcpy(own, comms, sizeof(own));
    comms[0] = comms[1] = MPI_COMM_WORLD;
    together(work);
    memcpy(comms, own, sizeof(own));
    together(make);
    MPI_Type_vector(2, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Type_contiguous(2, pairs, &four);
    together(contents);
    MPI_Type_free(&four);
    MPI_Type_free(&pairs);
    int ints = DEALT, how = MPI_DISTRIBUTE_CYCLIC, of = 1, grid = 2;
    MPI_Type_create_darray(2, 0, 1, &ints, &how, &of, &grid, MPI_ORDER_C, MPI_INT, &dealt);
    MPI_Type_commit(&dealt);
    for (int i = 0; i < ROUNDS / 2; i++) {
        for (int k = 0; k < DEALT; k++) {
            dealt_out[k] = k;
            dealt_in[k] = -1;
        }
        looking = 0;
        MPI_Irecv(dealt_in, 1, dealt, 1 - rank, 6, MPI_COMM_WORLD, &shown);
        together(look);
        MPI_Wait(&shown, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&dealt);
    for (int t = 0; t < THREADS; t++) {
        MPI_Comm_free(&comms[t]);
    }
    return end();
}
