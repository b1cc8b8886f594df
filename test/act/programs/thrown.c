/* thrown.c: error handlers that do not come back, out of each call that waits. What
 * the call told others about its wait is over all the same: a long message behind it
 * arrives while the rank makes no call. Two ranks. */
#include "program.h"

#include <setjmp.h>

enum { LATE_US = 5000, LONG = 1 << 20, SHORT = 1, LARGE = 2, NEXT = 3, NAPS = 200000 };

static jmp_buf back;
static volatile int thrown;
static MPI_Comm comm;

static void handler(MPI_Comm *of, int *error, ...)
{
    (void)of;
    thrown = class_of(*error);
    longjmp(back, 1);
}

typedef void waiting_fn(char *value, MPI_Request *request);

static void receive(char *value, MPI_Request *request)
{
    (void)request;
    MPI_Recv(value, 1, MPI_CHAR, 1, SHORT, comm, MPI_STATUS_IGNORE);
}

static void exchange(char *value, MPI_Request *request)
{
    (void)request;
    MPI_Sendrecv(value, 1, MPI_CHAR, 1, SHORT, value, 1, MPI_CHAR, 1, SHORT, comm,
                 MPI_STATUS_IGNORE);
}

static void wait_one(char *value, MPI_Request *request)
{
    MPI_Irecv(value, 1, MPI_CHAR, 1, SHORT, comm, request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void wait_all(char *value, MPI_Request *request)
{
    MPI_Irecv(value, 1, MPI_CHAR, 1, SHORT, comm, request);
    MPI_Waitall(1, request, MPI_STATUSES_IGNORE);
}

static void wait_any(char *value, MPI_Request *request)
{
    int index;
    MPI_Irecv(value, 1, MPI_CHAR, 1, SHORT, comm, request);
    MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
}

static void wait_some(char *value, MPI_Request *request)
{
    int count, indices[1];
    MPI_Irecv(value, 1, MPI_CHAR, 1, SHORT, comm, request);
    MPI_Waitsome(1, request, &count, indices, MPI_STATUSES_IGNORE);
}

/* Rank 0: its one byte is two, which come late. Then it computes. */
static void throw_out_of(waiting_fn *call)
{
    static char large[LONG];
    static MPI_Request request; /* kept over longjmp, as is what is volatile */
    static char value;
    volatile char *last = &large[LONG - 1];
    thrown = -1;
    if (setjmp(back) == 0) {
        call(&value, &request);
    }
    CHECK(thrown == MPI_ERR_TRUNCATE || thrown == MPI_ERR_IN_STATUS);
    large[LONG - 1] = 0;
    MPI_Irecv(large, LONG, MPI_BYTE, 1, LARGE, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_BYTE, 1, NEXT, MPI_COMM_WORLD);
    for (int i = 0; *last == 0 && i < NAPS; i++) {
        usleep(300);
    }
    CHECK(*last == 1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void answer(waiting_fn *call)
{
    static char large[LONG];
    char two[2] = {0, 0}, value;
    large[LONG - 1] = 1;
    usleep(LATE_US);
    MPI_Send(two, 2, MPI_CHAR, 0, SHORT, comm);
    if (call == exchange) {
        MPI_Recv(&value, 1, MPI_CHAR, 0, SHORT, comm, MPI_STATUS_IGNORE);
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, NEXT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    usleep(LATE_US); /* now it computes */
    MPI_Send(large, LONG, MPI_BYTE, 0, LARGE, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static waiting_fn *const calls[] = {receive,  exchange, wait_one,
                                        wait_all, wait_any, wait_some};
    MPI_Errhandler mine;
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(comm, mine);
    MPI_Errhandler_free(&mine);
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (rank == 0) {
            throw_out_of(calls[i]);
        } else {
            answer(calls[i]);
        }
    }
    MPI_Comm_free(&comm);
    return end();
}
