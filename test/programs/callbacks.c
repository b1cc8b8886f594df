/*
 * The application's calls from inside callbacks: attribute copy and delete
 * functions, a reduction, an error handler, a generalized request.
 *
 * Each rank: Init, Comm_rank, Type_size of its own once before all; 2
 * Comm_create_keyval, Comm_set_attr, 2 Comm_dup (each runs a copy function:
 * Comm_rank, Type_size), 2 Comm_free (delete: Comm_rank), Comm_delete_attr
 * (delete: Comm_rank), 2 Comm_free_keyval; Op_create, 3 Allreduce (how often
 * the reduction runs is the library's: each time Type_size), Op_free;
 * Comm_create_errhandler, Comm_set_errhandler, Errhandler_free, a Send to rank
 * 99 (handler: Error_class, Error_string), Grequest_start, Grequest_complete,
 * Wait (query: Status_set_elements, Status_set_cancelled), Finalize. The calls
 * of Type_size are noted.
 */
#include <mpi.h>
#include "program.h"

static int copies, deletes, reductions, handled, queries, frees;
static long type_sizes;

static void size_of_int(void)
{
    int bytes;

    MPI_Type_size(MPI_INT, &bytes);
    type_sizes++;
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out,
                int *flag)
{
    int rank;

    (void)keyval;
    (void)extra;
    MPI_Comm_rank(comm, &rank);
    size_of_int();
    *(void **)out = in;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}

static int delete (MPI_Comm comm, int keyval, void *value, void *extra)
{
    int rank;

    (void)keyval;
    (void)value;
    (void)extra;
    deletes++;
    return MPI_Comm_rank(comm, &rank);
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    size_of_int();
    reductions++;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length;

    (void)comm;
    MPI_Error_class(*code, &class);
    MPI_Error_string(*code, text, &length);
    handled += class == MPI_ERR_RANK && length > 0;
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    queries++;
    MPI_Status_set_elements(status, MPI_INT, 12);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    frees++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    int key, unused, value = 5;
    MPI_Comm one, two;

    MPI_Comm_create_keyval(copy, delete, &key, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN,
                           &unused, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &value);
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_dup(one, &two);
    MPI_Comm_free(&two);
    MPI_Comm_free(&one);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_free_keyval(&unused);
    say("copies %d, deletes %d", copies, deletes);
}

static void reduction(int rank)
{
    int in = rank + 1, out, sum = 0;
    MPI_Op op;

    MPI_Op_create(add, 1, &op);
    for (int k = 0; k < 3; k++) {
        MPI_Allreduce(&in, &out, 1, MPI_INT, op, MPI_COMM_WORLD);
        sum += out;
    }
    MPI_Op_free(&op);
    say("sum %d", sum);
}

static void error(void)
{
    MPI_Errhandler mine;
    int code;

    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    MPI_Errhandler_free(&mine);
    code = MPI_Send(&handled, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    say("fails %d, handled %d", code != MPI_SUCCESS, handled);
}

static void generalized(void)
{
    MPI_Request request;
    MPI_Status status;

    MPI_Grequest_start(query, release, cancel, NULL, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    say("queries %d, frees %d, released %d", queries, frees,
        request == MPI_REQUEST_NULL);
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_of_int();
    attributes();
    reduction(rank);
    error();
    generalized();
    note_calls(rank, "MPI_Type_size", type_sizes);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
