/* freed.c: a thread frees the communicator and the datatypes that another thread
 * is in the middle of a call with, which MPI allows: the call goes on (MPI 4.1,
 * 7.4.3). MPI_Sendrecv, for its first half tells that it has begun. With an argument
 * all of them fail, as the communicator's handler lets them. Two ranks. */
#include "program.h"

#include <pthread.h>

enum { ROUNDS = 40, MOST = 100000 };

static int out[MOST], in[MOST];

struct job {
    MPI_Comm comm;
    MPI_Datatype type;
    int room, error;
    MPI_Status status;
};

static void *exchange(void *arg)
{
    struct job *job = arg;
    job->error = MPI_Sendrecv(out, 1, job->type, 1, 5, in, job->room, job->type, 1,
                              6, job->comm, &job->status);
    return NULL;
}

/* Rank 1 answers when the communicator is gone on rank 0. */
static void answer(MPI_Comm comm, int n, int round)
{
    int first[2], go = 0;
    for (int i = 0; i < n; i++) {
        out[i] = round + i;
    }
    MPI_Recv(first, 2, MPI_INT, 0, 5, comm, MPI_STATUS_IGNORE);
    CHECK(first[0] == round && first[1] == round + 1);
    MPI_Send(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(out, n, MPI_INT, 0, 6, comm);
    MPI_Comm_free(&comm);
}

/* fails: the answer does not fit. */
static void ask(MPI_Comm comm, int n, int round, int fails)
{
    struct job job = {.comm = comm, .room = fails ? n / 2 - 1 : n / 2};
    MPI_Comm again[3];
    pthread_t thread;
    int go = 0, got = -1;
    out[0] = round;
    out[1] = round + 1;
    memset(in, 0, sizeof(in));
    MPI_Type_contiguous(2, MPI_INT, &job.type);
    MPI_Type_commit(&job.type);
    if (fails) {
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    pthread_create(&thread, NULL, exchange, &job);
    MPI_Recv(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Datatype type = job.type;
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
    for (int i = 0; i < 3; i++) { /* in its place, perhaps */
        MPI_Comm_dup(MPI_COMM_SELF, &again[i]);
    }
    void *junk[100];
    for (int i = 0; i < 100; i++) {
        junk[i] = malloc((size_t)(16 + 8 * i));
        memset(junk[i], 0xa5, (size_t)(16 + 8 * i));
    }
    MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_free(&again[i]);
    }
    for (int i = 0; i < 100; i++) {
        free(junk[i]);
    }
    if (fails) {
        CHECK(class_of(job.error) == MPI_ERR_TRUNCATE);
        return;
    }
    MPI_Get_count(&job.status, MPI_INT, &got);
    CHECK(job.error == MPI_SUCCESS && got == n && job.status.MPI_SOURCE == 1);
    for (int i = 0; i < n; i++) {
        if (in[i] != round + i) {
            CHECK(in[i] == round + i);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        int n = round % 2 ? MOST : 10;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (rank == 0) {
            ask(comm, n, round, argc > 1);
        } else {
            answer(comm, n, round);
        }
    }
    return end();
}
