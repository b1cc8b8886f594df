/* lost.c: the device of a rank goes away, by a fault script: messages end with an
 * error at both, whatever waits for one, and all else goes on. Two ranks. */
#include "program.h"

enum { ROUNDS = 1000000, LONG = 100000 };

static char memory[LONG];

static int round_trip(int n)
{
    int other = 1 - rank, count = n % 4 == 0 ? LONG : 8, error = MPI_SUCCESS;
    for (int i = 0; i < 2 && error == MPI_SUCCESS; i++) {
        error = rank == i ? MPI_Send(memory, count, MPI_BYTE, other, 1,
                                     MPI_COMM_WORLD)
                          : MPI_Recv(memory, count, MPI_BYTE, other, 1,
                                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return error;
}

/* Each at once. */
static void nothing_waits(void)
{
    int other = 1 - rank, flag;
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    CHECK(class_of(MPI_Send(memory, 8, MPI_BYTE, other, 2, MPI_COMM_WORLD)) ==
          MPI_ERR_OTHER);
    CHECK(class_of(MPI_Recv(memory, 8, MPI_BYTE, other, 2, MPI_COMM_WORLD,
                            &status)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Probe(other, 2, MPI_COMM_WORLD, &status)) ==
          MPI_ERR_OTHER);
    CHECK(class_of(MPI_Iprobe(other, 2, MPI_COMM_WORLD, &flag, &status)) ==
          MPI_ERR_OTHER);
    CHECK(class_of(MPI_Mprobe(other, 2, MPI_COMM_WORLD, &message, &status)) ==
          MPI_ERR_OTHER);
    CHECK(class_of(MPI_Improbe(other, 2, MPI_COMM_WORLD, &flag, &message,
                               &status)) == MPI_ERR_OTHER);
    MPI_Isend(memory, LONG, MPI_BYTE, other, 2, MPI_COMM_WORLD, &request);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPI_ERR_OTHER);
}

int main(int argc, char **argv)
{
    int error = MPI_SUCCESS, out = 5, in = 0;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int n = 0; n < ROUNDS && error == MPI_SUCCESS; n++) {
        error = round_trip(n);
    }
    CHECK(class_of(error) == MPI_ERR_OTHER);
    nothing_waits();
    MPI_Sendrecv(&out, 1, MPI_INT, rank, 3, &in, 1, MPI_INT, rank, 3,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in == out);
    return end();
}
