/*
 * Corners of the standard where a tool may not look at what it is given, with
 * errors returned.
 *
 * The rank: Init, Comm_set_errhandler, Win_allocate, Win_lock_all,
 * Get_accumulate with MPI_NO_OP and no origin, Win_unlock_all, Win_free; three
 * truncated receives: Irecv of 10 bytes, Send of 100, Wait; three good ones of
 * 10 bytes; an Irecv, Pcontrol(0), its Send and Wait, Pcontrol(1); three more
 * good ones; 5 Sendrecv of 8 bytes; Wait, Test and Start of NULL, which return
 * an error or not as the library likes; Finalize.
 */
#include <mpi.h>
#include "program.h"

static char in[1000], out[1000];

static int receive(int posted, int sent, int pause)
{
    MPI_Request request;
    int rc;

    MPI_Irecv(in, posted, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
    if (pause)
        MPI_Pcontrol(0);
    MPI_Send(out, sent, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (pause)
        MPI_Pcontrol(1);
    return rc != MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int failed = 0, result = 7, *base;
    MPI_Win window;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &base, &window);
    MPI_Win_lock_all(0, window);
    say("no-op %d", MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, &result, 1,
                                       MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP,
                                       window));
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    for (int k = 0; k < 3; k++)
        failed += receive(10, 100, 0);
    say("truncated: %d failed", failed);
    for (int k = 0; k < 3; k++)
        failed += receive(1000, 10, 0);
    failed += receive(1000, 10, 1);
    for (int k = 0; k < 3; k++)
        failed += receive(1000, 10, 0);
    for (int k = 0; k < 5; k++)
        MPI_Sendrecv(out, 8, MPI_BYTE, 0, 2, in, 8, MPI_BYTE, 0, 2,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    say("all: %d failed", failed);
    say("NULL: %d %d", MPI_Wait(NULL, MPI_STATUS_IGNORE) != MPI_SUCCESS,
        MPI_Start(NULL) != MPI_SUCCESS);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
