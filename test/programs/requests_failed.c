/*
 * Persistent receives of which one fails inside an array, with errors returned.
 * (Open MPI calls a truncated message to oneself good: there nothing fails.)
 *
 * The rank: Init, Comm_set_errhandler; three times, with Waitall with statuses,
 * without, and Waitsome, which is called at most 3 times: 3 Recv_init of 10
 * bytes, Startall, Send of 10, 100 and 10 bytes, the completing call, 3
 * Request_free; Finalize.
 */
#include <mpi.h>
#include "program.h"

static char in[3][1000], out[100];

static int complete(int how, MPI_Request *r)
{
    MPI_Status status[3];
    int failed = 0, left = 3, calls = 0, n, index[3];

    if (how < 2)
        return MPI_Waitall(3, r, how == 0 ? status : MPI_STATUSES_IGNORE) !=
               MPI_SUCCESS;
    while (left > 0 && calls < 3) {
        failed += MPI_Waitsome(3, r, &n, index, status) != MPI_SUCCESS;
        calls++;
        left = n == MPI_UNDEFINED ? 0 : left - n;
    }
    note_calls(0, "MPI_Waitsome", calls);
    return failed;
}

int main(int argc, char **argv)
{
    MPI_Request r[3];

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int how = 0; how < 3; how++) {
        for (int i = 0; i < 3; i++)
            MPI_Recv_init(in[i], 10, MPI_BYTE, 0, i, MPI_COMM_WORLD, &r[i]);
        MPI_Startall(3, r);
        for (int i = 0; i < 3; i++)
            MPI_Send(out, i == 1 ? 100 : 10, MPI_BYTE, 0, i, MPI_COMM_WORLD);
        say("failed %d", complete(how, r));
        for (int i = 0; i < 3; i++)
            MPI_Request_free(&r[i]);
    }
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
