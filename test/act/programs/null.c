/* null.c: MPI_PROC_NULL in every call, on either side of those that have two. Two
 * ranks. (Not looked at: statuses that MPICH 4.0 does not fill as MPI says.) */
#include "program.h"

static void nobody(const MPI_Status *status)
{
    int count = -1;
    MPI_Get_count(status, MPI_INT, &count);
    CHECK(status->MPI_SOURCE == MPI_PROC_NULL &&
          status->MPI_TAG == MPI_ANY_TAG && count == 0);
}

int main(int argc, char **argv)
{
    MPI_Request requests[4];
    MPI_Status status, statuses[4];
    int value = -1, got = -1, other;
    char room[1000 + MPI_BSEND_OVERHEAD];
    void *given;
    begin(&argc, &argv);
    other = 1 - rank;
    MPI_Buffer_attach(room, (int)sizeof(room));
    MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Ssend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Bsend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Rsend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    nobody(&status);
    MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    nobody(&status);
    MPI_Sendrecv(&rank, 1, MPI_INT, other, 1, &value, 1, MPI_INT,
                 MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    nobody(&status);
    MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, &got, 1, MPI_INT, other,
                 1, MPI_COMM_WORLD, &status);
    CHECK(got == other && status.MPI_SOURCE == other);
    MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, &got, 1, MPI_INT,
                 MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    nobody(&status);
    value = rank;
    MPI_Sendrecv_replace(&value, 1, MPI_INT, other, 1, MPI_PROC_NULL, 1,
                         MPI_COMM_WORLD, &status);
    nobody(&status);
    CHECK(value == rank);
    MPI_Sendrecv_replace(&value, 1, MPI_INT, MPI_PROC_NULL, 1, other, 1,
                         MPI_COMM_WORLD, &status);
    CHECK(value == other);
#if MPI_VERSION >= 4
    MPI_Isendrecv(&rank, 1, MPI_INT, other, 1, &value, 1, MPI_INT,
                  MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, &got, 1, MPI_INT, other,
                  1, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], &status);
    CHECK(got == other && status.MPI_SOURCE == other);
#endif
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD,
              &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD,
              &requests[1]);
    MPI_Irecv(&got, 1, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&rank, 1, MPI_INT, other, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, statuses);
    CHECK(got == other && statuses[2].MPI_SOURCE == other);
    MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD,
                  &requests[0]);
    MPI_Send_init(&rank, 1, MPI_INT, other, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Recv_init(&got, 1, MPI_INT, other, 3, MPI_COMM_WORLD, &requests[2]);
    MPI_Startall(3, requests);
    MPI_Waitall(3, requests, statuses);
    CHECK(statuses[2].MPI_SOURCE == other);
    for (int i = 0; i < 3; i++) {
        MPI_Request_free(&requests[i]);
    }
    int bytes;
    MPI_Buffer_detach(&given, &bytes);
    return end();
}
