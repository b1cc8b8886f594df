/* callbacks.c: functions of the program that the MPI library calls, or we do, and that
 * call MPI themselves: an operation, those of generalized requests, handlers of errors.
 * Two ranks. (MPI forbids messages in an operation; both libraries let them pass.) */
#include "program.h"

enum { LONG = 200000, CALLS = 8 };

static MPI_Comm other;
static char out[LONG], in[LONG];
static int operations, queries, frees, cancels, errors, last;

static void exchange(int with, int bytes, int tag)
{
    MPI_Status status;
    int count = -1;
    fill(out, (size_t)bytes, (unsigned)(tag + rank));
    memset(in, 0, (size_t)bytes);
    MPI_Sendrecv(out, bytes, MPI_BYTE, with, tag, in, bytes, MPI_BYTE, with, tag, other,
                 &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == bytes && status.MPI_SOURCE == with);
    CHECK(filled(in, (size_t)bytes, (unsigned)(tag + with)));
}

/* How often it is called is the library's affair: what it sends is received later. */
static void operation(void *left, void *right, int *n, MPI_Datatype *type)
{
    MPI_Request request;
    (void)type;
    for (int i = 0; i < *n; i++) {
        ((int *)right)[i] += ((int *)left)[i];
    }
    exchange(rank, 100, 1);
    exchange(rank, LONG, 2);
    MPI_Isend(&rank, 1, MPI_INT, 1 - rank, 3, other, &request);
    MPI_Request_free(&request);
    operations++;
}

static void operates(void)
{
    MPI_Op op;
    int one = 1, sum = 0, theirs = -1, got = -1;
    MPI_Op_create(operation, 1, &op);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(sum == 2);
    MPI_Reduce(&one, &sum, 1, MPI_INT, op, 0, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    MPI_Sendrecv(&operations, 1, MPI_INT, 1 - rank, 4, &theirs, 1, MPI_INT, 1 - rank, 4,
                 other, MPI_STATUS_IGNORE);
    CHECK(operations + theirs > 0);
    for (int i = 0; i < theirs; i++) {
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, other, MPI_STATUS_IGNORE);
        CHECK(got == 1 - rank);
    }
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    exchange(rank, LONG, 5);
    queries++;
    MPI_Status_set_elements(status, MPI_BYTE, 7);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int freed(void *extra)
{
    (void)extra;
    exchange(1 - rank, 100, 6);
    exchange(1 - rank, LONG, 7);
    frees++;
    return MPI_SUCCESS;
}

static int cancelled(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    exchange(1 - rank, LONG, 8);
    cancels++;
    return MPI_SUCCESS;
}

/* Alone, and among requests that are ours. */
static void generalized(int tests)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int count = -1, value = -1, done = 0;
    MPI_Grequest_start(query, freed, cancelled, NULL, &requests[1]);
    MPI_Cancel(&requests[1]);
    MPI_Irecv(&value, 1, MPI_INT, 1 - rank, 9, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, 1 - rank, 9, MPI_COMM_WORLD, &requests[2]);
    MPI_Grequest_complete(requests[1]);
    while (tests && !done) {
        MPI_Testall(3, requests, &done, statuses);
    }
    if (!tests) {
        MPI_Wait(&requests[1], &statuses[1]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Get_count(&statuses[1], MPI_BYTE, &count);
    CHECK(count == 7 && value == 1 - rank);
}

static void handler(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    errors++;
    last = class_of(*error);
    exchange(1 - rank, 100, 10);
    exchange(1 - rank, LONG, 11);
}

/* Found by the library in an argument, and by us in a message that is too long. */
static void fails(void)
{
    MPI_Errhandler errhandler;
    MPI_Comm comm;
    MPI_Request request;
    char few[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Comm_set_errhandler(comm, errhandler);
    MPI_Send(few, 1, MPI_BYTE, size, 1, comm);
    CHECK(errors == 1 && last == MPI_ERR_RANK);
    MPI_Isend(out, 8, MPI_BYTE, 1 - rank, 1, comm, &request);
    MPI_Recv(few, 2, MPI_BYTE, 1 - rank, 1, comm, MPI_STATUS_IGNORE);
    CHECK(errors == 2 && last == MPI_ERR_TRUNCATE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Errhandler_free(&errhandler);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int i = 0; i < CALLS; i++) {
        operations = queries = frees = cancels = errors = 0;
        operates();
        generalized(i % 2);
        CHECK(queries > 0 && frees == 1 && cancels == 1);
        fails();
    }
    MPI_Comm_free(&other);
    return end();
}
