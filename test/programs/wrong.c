/*
 * The negative control: a preloaded library that spoils one byte of every 7th
 * call of the kinds named in WRONG (send, recv, bcast, allreduce, alltoall,
 * scatterv, put). A comparison of results that stays green under it proves
 * nothing.
 *
 * It wraps the C names, and those Fortran names through which Open MPI's
 * Fortran programs go past the C ones. Only contiguous data is spoilt; what
 * goes out, in a copy that stays, for the library may read it late.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* Whether this is the 7th call of the kinds chosen; *bytes is then the size of
 * its data. */
static int due(const char *kind, int count, MPI_Datatype type, size_t *bytes)
{
    static unsigned calls;
    const char *chosen = getenv("WRONG");
    MPI_Aint bound, extent;
    int size;

    if (chosen == NULL || strstr(chosen, kind) == NULL || ++calls % 7 != 0 ||
        count <= 0)
        return 0;
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &bound, &extent);
    *bytes = (size_t)size * count;
    return size > 0 && extent == size && bound == 0;
}

/* Changes one byte of the middle element: of a double the exponent, of
 * anything shorter than that the first byte. */
static void change(char *data, size_t bytes)
{
    data[bytes >= 8 ? (bytes / 2 & ~(size_t)7) + 6 : 0] ^= 0x10;
}

/* Spoils what a call has brought. */
static void spoil(const char *kind, void *buf, int count, MPI_Datatype type)
{
    size_t bytes;

    if (due(kind, count, type, &bytes))
        change(buf, bytes);
}

/* What to send instead of buf. */
static const void *spoilt(const char *kind, const void *buf, int count,
                          MPI_Datatype type)
{
    size_t bytes;
    char *copy;

    if (!due(kind, count, type, &bytes) || (copy = malloc(bytes)) == NULL)
        return buf;
    memcpy(copy, buf, bytes);
    change(copy, bytes);
    return copy;
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag,
             MPI_Comm comm)
{
    buf = spoilt("send", buf, count, type);
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest,
              int tag, MPI_Comm comm, MPI_Request *request)
{
    buf = spoilt("send", buf, count, type);
    return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Sendrecv(const void *out, int outs, MPI_Datatype out_type, int dest,
                 int out_tag, void *in, int ins, MPI_Datatype in_type,
                 int source, int in_tag, MPI_Comm comm, MPI_Status *status)
{
    out = spoilt("send", out, outs, out_type);
    return PMPI_Sendrecv(out, outs, out_type, dest, out_tag, in, ins, in_type,
                         source, in_tag, comm, status);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag,
             MPI_Comm comm, MPI_Status *status)
{
    int code = PMPI_Recv(buf, count, type, source, tag, comm, status);

    spoil("recv", buf, count, type);
    return code;
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int code = PMPI_Bcast(buf, count, type, root, comm);

    spoil("bcast", buf, count, type);
    return code;
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm)
{
    int code = PMPI_Allreduce(in, out, count, type, op, comm);

    spoil("allreduce", out, count, type);
    return code;
}

int MPI_Alltoall(const void *out, int outs, MPI_Datatype out_type, void *in,
                 int ins, MPI_Datatype in_type, MPI_Comm comm)
{
    int code = PMPI_Alltoall(out, outs, out_type, in, ins, in_type, comm);

    spoil("alltoall", in, ins, in_type);
    return code;
}

int MPI_Scatterv(const void *out, const int outs[], const int at[],
                 MPI_Datatype out_type, void *in, int ins,
                 MPI_Datatype in_type, int root, MPI_Comm comm)
{
    int code = PMPI_Scatterv(out, outs, at, out_type, in, ins, in_type, root,
                             comm);

    spoil("scatterv", in, ins, in_type);
    return code;
}

int MPI_Put(const void *buf, int count, MPI_Datatype type, int target,
            MPI_Aint at, int tcount, MPI_Datatype ttype, MPI_Win win)
{
    buf = spoilt("put", buf, count, type);
    return PMPI_Put(buf, count, type, target, at, tcount, ttype, win);
}

#ifdef OPEN_MPI
void mpi_send_(void *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest,
               MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *error)
{
    *error = MPI_Send(buf, *count, PMPI_Type_f2c(*type), *dest, *tag,
                      PMPI_Comm_f2c(*comm));
}

void mpi_isend_(void *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest,
                MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *request,
                MPI_Fint *error)
{
    MPI_Request c_request = MPI_REQUEST_NULL;

    *error = MPI_Isend(buf, *count, PMPI_Type_f2c(*type), *dest, *tag,
                       PMPI_Comm_f2c(*comm), &c_request);
    *request = PMPI_Request_c2f(c_request);
}
#endif
