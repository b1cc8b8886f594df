/*
 * Matched messages whose communicator is freed before they are received, and
 * some that are received where that is not counted, or with an error.
 *
 * The rank, with itself: Init, Comm_set_errhandler; three times Comm_dup,
 * Comm_set_errhandler, Isend of 8 bytes, Mprobe, Comm_free, and before that a
 * Mrecv that is too short and Error_class, or behind it Mrecv, or Imrecv and
 * Wait; Wait of the Isend. Comm_dup, Pcontrol(0), Isend, Mprobe, Mrecv, Wait
 * and Comm_free that are not counted, Pcontrol(1). After each of the four:
 * Isend of 8 bytes, Mprobe, Mrecv, Wait in MPI_COMM_WORLD. Finalize.
 */
#include <mpi.h>
#include "program.h"

static int out[2] = {3, 4}, in[2];
static long sum;

static void probed(MPI_Comm comm, MPI_Request *send, MPI_Message *message)
{
    MPI_Isend(out, 2, MPI_INT, 0, 0, comm, send);
    MPI_Mprobe(0, 0, comm, message, MPI_STATUS_IGNORE);
}

static void once(MPI_Comm comm)
{
    MPI_Request send;
    MPI_Message message;
    probed(comm, &send, &message);
    MPI_Mrecv(in, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    sum += in[0] * 10 + in[1];
}

static void freed(int how)
{
    MPI_Comm comm;
    MPI_Request send, receive;
    MPI_Message message;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    probed(comm, &send, &message);
    if (how == 2) {
        int error = MPI_Mrecv(in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        MPI_Error_class(error, &error);
        say("truncated %d", error == MPI_ERR_TRUNCATE);
    }
    MPI_Comm_free(&comm);
    if (how == 0) {
        MPI_Mrecv(in, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
    } else if (how == 1) {
        MPI_Imrecv(in, 2, MPI_INT, &message, &receive);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    sum += in[0] * 10 + in[1];
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* MPICH asks it */
    for (int how = 0; how < 3; how++) {
        freed(how);
        once(MPI_COMM_WORLD);
    }
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Pcontrol(0);
    once(comm);
    MPI_Comm_free(&comm);
    MPI_Pcontrol(1);
    once(MPI_COMM_WORLD);
    say("sum %ld", sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
