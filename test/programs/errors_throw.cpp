// Error handlers that throw a C++ exception out of the failing call.
//
// Each rank: Init, Comm_rank, Comm_create_errhandler, Comm_set_errhandler,
// Errhandler_free; 4 times Send to rank 99, which throws, each followed by a
// Sendrecv of 4 bytes, which works; Allreduce, Finalize.
#include <mpi.h>
#include <stdexcept>
#include "program.h"

static void thrower(MPI_Comm *, int *, ...)
{
    throw std::runtime_error("from the handler");
}

int main(int argc, char **argv)
{
    MPI_Errhandler mine;
    int rank, in, sum = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(thrower, &mine);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
    MPI_Errhandler_free(&mine);
    for (int k = 0; k < 4; k++) {
        try {
            MPI_Send(&k, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
            say("not thrown");
        } catch (const std::exception &e) {
            say("caught: %s", e.what());
        }
        int out = rank + k;
        MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 0, &in, 1, MPI_INT, 1 - rank,
                     0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in;
    }
    MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("rank %d: sum %d, all %d", rank, sum, all);
    say("finalize returns %d", MPI_Finalize());
}
