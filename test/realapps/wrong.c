//go:build ignore

/*
 * wrong.c - a deliberately wrong interposer: it spoils one byte of every 7th
 * message, broadcast or reduction. The comparison of results must fail under
 * it; one that stays green proves nothing.
 *
 * It wraps the C names, and those Fortran names through which Open MPI's
 * Fortran programs go past the C ones. Only contiguous data is spoiled, in a
 * copy that is never freed. (The first line keeps the Go tool away.)
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define EVERY 7

static unsigned calls;

/* Changes one byte of the middle element: of a double the exponent, of
 * anything shorter than that the first byte. */
static void spoil_bytes(char *data, size_t bytes)
{
    if (bytes > 0) {
        data[bytes >= 8 ? (bytes / 2 & ~(size_t)7) + 6 : 0] ^= 0x10;
    }
}

/* Whether this call is the 7th; *bytes is then the size of its data, 0 if
 * that is not contiguous. */
static int due(int count, MPI_Datatype type, size_t *bytes)
{
    MPI_Aint bound, extent;
    int size;

    if (++calls % EVERY != 0 || count <= 0) {
        return 0;
    }
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &bound, &extent);
    *bytes = extent == size && bound == 0 ? (size_t)size * (size_t)count : 0;
    return *bytes > 0;
}

/* What to send instead of buf. */
static const void *spoiled(const void *buf, int count, MPI_Datatype type)
{
    size_t bytes;
    char *copy;

    if (!due(count, type, &bytes) || (copy = malloc(bytes)) == NULL) {
        return buf;
    }
    memcpy(copy, buf, bytes);
    spoil_bytes(copy, bytes);
    return copy;
}

/* Spoils what a collective has brought. */
static void spoil(void *buf, int count, MPI_Datatype type)
{
    size_t bytes;

    if (due(count, type, &bytes)) {
        spoil_bytes(buf, bytes);
    }
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag,
             MPI_Comm comm)
{
    return PMPI_Send(spoiled(buf, count, type), count, type, dest, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest,
              int tag, MPI_Comm comm, MPI_Request *request)
{
    return PMPI_Isend(spoiled(buf, count, type), count, type, dest, tag, comm,
                      request);
}

int MPI_Sendrecv(const void *out, int outs, MPI_Datatype out_type, int dest,
                 int out_tag, void *in, int ins, MPI_Datatype in_type,
                 int source, int in_tag, MPI_Comm comm, MPI_Status *status)
{
    return PMPI_Sendrecv(spoiled(out, outs, out_type), outs, out_type, dest,
                         out_tag, in, ins, in_type, source, in_tag, comm,
                         status);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int status = PMPI_Bcast(buf, count, type, root, comm);

    spoil(buf, count, type);
    return status;
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm)
{
    int status = PMPI_Allreduce(in, out, count, type, op, comm);

    spoil(out, count, type);
    return status;
}

int MPI_Alltoall(const void *out, int outs, MPI_Datatype out_type, void *in,
                 int ins, MPI_Datatype in_type, MPI_Comm comm)
{
    int status = PMPI_Alltoall(out, outs, out_type, in, ins, in_type, comm);

    spoil(in, ins, in_type);
    return status;
}

int MPI_Scatterv(const void *out, const int outs[], const int at[],
                 MPI_Datatype out_type, void *in, int ins,
                 MPI_Datatype in_type, int root, MPI_Comm comm)
{
    int status = PMPI_Scatterv(out, outs, at, out_type, in, ins, in_type,
                               root, comm);

    spoil(in, ins, in_type);
    return status;
}

#ifdef OPEN_MPI
void mpi_send_(void *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest,
               MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *error);
void mpi_isend_(void *buf, MPI_Fint *count, MPI_Fint *type, MPI_Fint *dest,
                MPI_Fint *tag, MPI_Fint *comm, MPI_Fint *request,
                MPI_Fint *error);

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
