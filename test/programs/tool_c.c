/*
 * A PMPI tool of the classic kind: wraps MPI_* in C and calls PMPI_*; counts
 * on stderr at Finalize. Preloaded in front of the shim and behind it.
 */
#include <mpi.h>
#include <stdio.h>

static int inits, sends, receives, exchanges, reductions;

int MPI_Init(int *argc, char ***argv)
{
    inits++;
    return PMPI_Init(argc, argv);
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag,
             MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag,
             MPI_Comm comm, MPI_Status *status)
{
    receives++;
    return PMPI_Recv(buf, count, type, source, tag, comm, status);
}

int MPI_Sendrecv(const void *out, int outs, MPI_Datatype outtype, int dest,
                 int outtag, void *in, int ins, MPI_Datatype intype, int source,
                 int intag, MPI_Comm comm, MPI_Status *status)
{
    exchanges++;
    return PMPI_Sendrecv(out, outs, outtype, dest, outtag, in, ins, intype,
                         source, intag, comm, status);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm)
{
    reductions++;
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Finalize(void)
{
    fprintf(stderr,
            "tool: %d Init, %d Send, %d Recv, %d Sendrecv, %d Allreduce\n",
            inits, sends, receives, exchanges, reductions);
    return PMPI_Finalize();
}
