/*
 * Sessions alone: MPI_Init is never called.
 *
 * Each rank: Session_init, Session_get_num_psets, Group_from_session_pset,
 * Comm_create_from_group, Group_free, Comm_rank, 5 Sendrecv of 4 bytes, 2
 * Allreduce, Comm_free, Session_finalize.
 */
#include <mpi.h>
#include "program.h"

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, psets, in, out, sum = 0;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &psets);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                               &comm);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &rank);
    for (int k = 0; k < 5; k++) {
        out = rank + 10 * k;
        MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 0, &in, 1, MPI_INT, 1 - rank,
                     0, comm, MPI_STATUS_IGNORE);
        sum += in;
    }
    for (int k = 0; k < 2; k++) {
        MPI_Allreduce(&sum, &in, 1, MPI_INT, MPI_SUM, comm);
        sum += in;
    }
    MPI_Comm_free(&comm);
    say("rank %d, psets %d, sum %d", rank, psets > 1, sum);
    say("finalize returns %d", MPI_Session_finalize(&session));
    return 0;
}
