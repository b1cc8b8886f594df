/*
 * More than the tables of matched probes and of datatypes hold: of MPI_PROC_NULL, which
 * nobody has to receive, and of types that stay while others come and go.
 *
 * The rank, with itself: Init; 1,100 Improbe of MPI_PROC_NULL; 10 times Isend of 4 bytes,
 * Mprobe, Mrecv, Wait; 3,200 Type_contiguous; 100 times, k from 1 on, Type_contiguous of
 * k bytes, Type_commit, Sendrecv of one, Type_free; Finalize.
 */
#include <mpi.h>
#include "program.h"

enum { PROBES = 1100, MESSAGES = 10, TYPES = 3200, SIZES = 100 };

int main(int argc, char **argv)
{
    static char out[SIZES], in[SIZES];
    MPI_Datatype type;
    MPI_Message message;
    MPI_Request request;
    int flags = 0, flag, word = 0;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < PROBES; i++) {
        MPI_Improbe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &message,
                    MPI_STATUS_IGNORE);
        flags += flag;
    }
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Isend(&i, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        MPI_Mprobe(0, 0, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < TYPES; i++)
        MPI_Type_contiguous(1, MPI_BYTE, &type);
    for (int k = 1; k <= SIZES; k++) {
        MPI_Type_contiguous(k, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        MPI_Sendrecv(out, 1, type, 0, 0, in, 1, type, 0, 0, MPI_COMM_SELF,
                     MPI_STATUS_IGNORE);
        MPI_Type_free(&type);
    }
    say("flags %d, word %d", flags, word);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
