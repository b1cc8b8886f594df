/* outlived.c: a receive of too long a message outlives its communicator, whose error
 * handler is called then, or returns, and nobody else's. Two ranks. */
#include "program.h"

static int called, strays;

static void handler(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    called += class_of(*error) == MPI_ERR_TRUNCATE;
}

static void stray(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    (void)error;
    strays++;
}

static void outlived(MPI_Errhandler mine, int calls, int length)
{
    static char buffer[LONGEST];
    MPI_Comm own;
    MPI_Request request;
    called = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_set_errhandler(own, mine);
    if (rank == 0) {
        MPI_Irecv(buffer, 1, MPI_BYTE, 1, 1, own, &request);
        MPI_Comm_free(&own);
        MPI_Send(NULL, 0, MPI_INT, 1, 9, MPI_COMM_WORLD);
        CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) ==
              MPI_ERR_TRUNCATE);
        CHECK(called == calls);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, length, MPI_BYTE, 0, 1, own);
        MPI_Comm_free(&own);
    }
}

int main(int argc, char **argv)
{
    MPI_Errhandler mine, strange;
    begin(&argc, &argv);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_create_errhandler(stray, &strange);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, strange);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, strange);
    for (int l = 2; l < LENGTHS; l++) {
        outlived(MPI_ERRORS_RETURN, 0, lengths[l]);
        outlived(mine, 1, lengths[l]);
    }
    CHECK(strays == 0);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&strange);
    MPI_Errhandler_free(&mine);
    return end();
}
