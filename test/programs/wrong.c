/*
 * The negative control: a preloaded library that spoils one byte of every 7th
 * call of the kind named in WRONG (send, recv, bcast, allreduce, alltoall,
 * put). A comparison of results that stays green under it proves nothing.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* Whether this call of `kind` is to be spoilt; counts only the kind chosen. */
static int spoil(const char *kind)
{
    static int calls;
    const char *chosen = getenv("WRONG");

    return chosen != NULL && strcmp(chosen, kind) == 0 && ++calls % 7 == 0;
}

static size_t bytes_of(int count, MPI_Datatype type)
{
    int size;

    PMPI_Type_size(type, &size);
    return (size_t)count * size;
}

/* The same bytes with one spoilt, for as long as the library may read them. */
static void *spoilt_copy(const void *buf, int count, MPI_Datatype type)
{
    size_t bytes = bytes_of(count, type);
    char *copy = malloc(bytes);

    memcpy(copy, buf, bytes);
    copy[bytes / 2] ^= 1;
    return copy;
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag,
             MPI_Comm comm)
{
    if (!spoil("send"))
        return PMPI_Send(buf, count, type, dest, tag, comm);
    void *copy = spoilt_copy(buf, count, type);
    int code = PMPI_Send(copy, count, type, dest, tag, comm);
    free(copy);
    return code;
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag,
             MPI_Comm comm, MPI_Status *status)
{
    int code = PMPI_Recv(buf, count, type, source, tag, comm, status);

    if (spoil("recv"))
        ((char *)buf)[bytes_of(count, type) / 2] ^= 1;
    return code;
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int code = PMPI_Bcast(buf, count, type, root, comm);

    if (spoil("bcast"))
        ((char *)buf)[bytes_of(count, type) / 2] ^= 1;
    return code;
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm)
{
    int code = PMPI_Allreduce(in, out, count, type, op, comm);

    if (spoil("allreduce"))
        ((char *)out)[bytes_of(count, type) / 2] ^= 1;
    return code;
}

int MPI_Alltoall(const void *in, int ins, MPI_Datatype intype, void *out,
                 int outs, MPI_Datatype outtype, MPI_Comm comm)
{
    int code = PMPI_Alltoall(in, ins, intype, out, outs, outtype, comm);

    if (spoil("alltoall"))
        ((char *)out)[bytes_of(outs, outtype) / 2] ^= 1;
    return code;
}

/* The copy is left behind: the library may read it until the window is
 * synchronised. */
int MPI_Put(const void *buf, int count, MPI_Datatype type, int target,
            MPI_Aint at, int tcount, MPI_Datatype ttype, MPI_Win win)
{
    if (spoil("put"))
        buf = spoilt_copy(buf, count, type);
    return PMPI_Put(buf, count, type, target, at, tcount, ttype, win);
}
