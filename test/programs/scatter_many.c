/*
 * A scatter on the 1,100th communicator at once, where a rank that is not the
 * root has no datatype for what is sent, and the root, which keeps its own part where
 * it is, none for what is received, as MPI allows.
 *
 * Two ranks: Init, Comm_rank, 1,100 Comm_dup; rank 0: Type_contiguous,
 * Type_commit, Type_free behind the rest; Scatter, Iscatter and Wait, Scatterv
 * of 4 bytes to each from rank 0 on the last one; Finalize.
 */
#include <mpi.h>
#include <string.h>
#include "program.h"

enum { MANY = 1100 };

int main(int argc, char **argv)
{
    static MPI_Comm comms[MANY];
    MPI_Datatype type, none, received;
    MPI_Request request;
    int rank, out[2] = {1, 2}, in[3] = {0}, counts[2] = {1, 1}, at[2] = {0, 1};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < MANY; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    memset(&none, 0x5a, sizeof(none));
    type = none;
    received = rank == 0 ? none : MPI_INT;
    if (rank == 0) {
        MPI_Type_contiguous(1, MPI_INT, &type);
        MPI_Type_commit(&type);
    }
    MPI_Comm comm = comms[MANY - 1];
#define INTO(p) (rank == 0 ? MPI_IN_PLACE : (void *)(p))
    MPI_Scatter(out, 1, type, INTO(&in[0]), 1, received, 0, comm);
    MPI_Iscatter(out, 1, type, INTO(&in[1]), 1, received, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Scatterv(out, counts, at, type, INTO(&in[2]), 1, received, 0, comm);
    if (rank == 0)
        MPI_Type_free(&type);
    say("rank %d has %d %d %d", rank, in[0], in[1], in[2]);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
