/*
 * Calls that fail: argument "return" (MPI_ERRORS_RETURN), "user" (an error
 * handler that returns) or "longjmp" (one that jumps out of the call).
 *
 * Each rank: Init, Comm_rank, Comm_set_errhandler (with "user" and "longjmp"
 * Comm_create_errhandler and Errhandler_free too); 4 times Send to rank 99,
 * which fails, each followed by a Sendrecv of 4 bytes, which works; Allreduce,
 * Finalize. Error_class, 4 times, of what was returned ("return", "user") or
 * caught ("longjmp").
 */
#include <mpi.h>
#include <setjmp.h>
#include <string.h>
#include "program.h"

static jmp_buf back;
static int jumps, handled, caught;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled++;
    caught = *code;
    if (jumps)
        longjmp(back, 1);
}

static int bad_send(void)
{
    if (setjmp(back) != 0)
        return caught;
    return MPI_Send(&handled, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Errhandler mine;
    int rank, in, out, class, sum = 0, all;

    jumps = strcmp(argv[1], "longjmp") == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "return") == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    } else {
        MPI_Comm_create_errhandler(handler, &mine);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
        MPI_Errhandler_free(&mine);
    }
    for (int k = 0; k < 4; k++) {
        int code = bad_send();
        MPI_Error_class(code, &class);
        say("send %d: fails %d, bad rank %d", k, code != MPI_SUCCESS,
            class == MPI_ERR_RANK);
        out = rank + k;
        MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 0, &in, 1, MPI_INT, 1 - rank,
                     0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in;
    }
    MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: sum %d, all %d, handled %d", rank, sum, all, handled);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
