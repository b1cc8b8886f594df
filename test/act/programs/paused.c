/* paused.c: while measurement is paused an error handler waits for an array of requests,
 * a long one, in the middle of a wait for another. Two ranks. */
#include "program.h"

enum { MANY = 5000 };

static int calls;

static void handler(MPI_Comm *comm, int *error, ...)
{
    static MPI_Request many[MANY];
    (void)comm;
    (void)error;
    for (int i = 0; i < MANY; i++) {
        many[i] = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < 3; i++) {
        MPI_Irecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &many[i]);
    }
    MPI_Waitall(MANY, many, MPI_STATUSES_IGNORE);
    calls++;
}

int main(int argc, char **argv)
{
    char room[4], text[8] = "1234567";
    MPI_Errhandler by_handler;
    MPI_Request requests[2];
    MPI_Comm comm;
    begin(&argc, &argv);
    MPI_Pcontrol(0);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &by_handler);
    MPI_Comm_set_errhandler(comm, by_handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, by_handler);
    for (int i = 0; i < 5; i++) {
        if (rank == 0) {
            MPI_Irecv(room, 4, MPI_CHAR, 1, 1, comm, &requests[0]);
            MPI_Irecv(room, 4, MPI_CHAR, 1, 2, comm, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        } else {
            MPI_Send(text, 3, MPI_CHAR, 0, 2, comm);
            MPI_Send(text, 8, MPI_CHAR, 0, 1, comm);
        }
        MPI_Barrier(comm);
    }
    CHECK(rank == 1 || calls >= 5);
    MPI_Pcontrol(1);
    MPI_Errhandler_free(&by_handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm);
    return end();
}
