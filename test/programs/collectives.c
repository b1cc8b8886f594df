/*
 * Every kind of collective, blocking and not, on the world, on a duplicate and
 * on MPI_COMM_SELF.
 *
 * Each rank: Init, Comm_rank, Comm_dup; once each on the duplicate: Barrier,
 * Bcast, Gather, Gatherv, Scatter, Scatterv, Allgather, Allgatherv, Alltoall,
 * Alltoallv, Alltoallw, Reduce, Allreduce, Reduce_scatter,
 * Reduce_scatter_block, Scan, Exscan; once each on the world, each with one
 * Wait: Ibarrier, Ibcast, Igather, Iscatter, Iallgather, Ialltoall, Ireduce,
 * Iallreduce, Iscan; Allreduce in place on MPI_COMM_SELF; Comm_free, Finalize.
 */
#include <mpi.h>
#include "program.h"

static long a[4], b[4], sum;
static int rank, ones[2] = {1, 1}, places[2] = {0, 1}, offsets[2] = {0, 8};

static void fill(void)
{
    for (int i = 0; i < 4; i++) {
        a[i] = rank + 2 * i + sum % 5;
        b[i] = 1;
    }
}

/* Adds what a call left in both buffers, and makes them new. */
static void add(int code)
{
    for (int i = 0; i < 4; i++)
        sum += (i + 1) * a[i] + (i + 5) * b[i];
    sum += 1000 * code;
    fill();
}

static void blocking(MPI_Comm c)
{
    MPI_Datatype types[2] = {MPI_LONG, MPI_LONG};

    fill();
    add(MPI_Barrier(c));
    add(MPI_Bcast(a, 4, MPI_LONG, 1, c));
    add(MPI_Gather(a, 2, MPI_LONG, b, 2, MPI_LONG, 0, c));
    add(MPI_Gatherv(a, 1, MPI_LONG, b, ones, places, MPI_LONG, 1, c));
    add(MPI_Scatter(a, 2, MPI_LONG, b, 2, MPI_LONG, 0, c));
    add(MPI_Scatterv(a, ones, places, MPI_LONG, b, 1, MPI_LONG, 1, c));
    add(MPI_Allgather(a, 2, MPI_LONG, b, 2, MPI_LONG, c));
    add(MPI_Allgatherv(a, 1, MPI_LONG, b, ones, places, MPI_LONG, c));
    add(MPI_Alltoall(a, 2, MPI_LONG, b, 2, MPI_LONG, c));
    add(MPI_Alltoallv(a, ones, places, MPI_LONG, b, ones, places, MPI_LONG, c));
    add(MPI_Alltoallw(a, ones, offsets, types, b, ones, offsets, types, c));
    add(MPI_Reduce(a, b, 4, MPI_LONG, MPI_SUM, 0, c));
    add(MPI_Allreduce(a, b, 4, MPI_LONG, MPI_MAX, c));
    add(MPI_Reduce_scatter(a, b, ones, MPI_LONG, MPI_SUM, c));
    add(MPI_Reduce_scatter_block(a, b, 1, MPI_LONG, MPI_SUM, c));
    add(MPI_Scan(a, b, 4, MPI_LONG, MPI_SUM, c));
    if (rank == 0)
        MPI_Exscan(a, (long[4]){0}, 4, MPI_LONG, MPI_SUM, c);
    else
        add(MPI_Exscan(a, b, 4, MPI_LONG, MPI_SUM, c));
}

static void finish(int code, MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
    add(code);
}

static void nonblocking(MPI_Comm c)
{
    MPI_Request r;
    int code;

    code = MPI_Ibarrier(c, &r), finish(code, &r);
    code = MPI_Ibcast(a, 4, MPI_LONG, 0, c, &r), finish(code, &r);
    code = MPI_Igather(a, 2, MPI_LONG, b, 2, MPI_LONG, 1, c, &r),
    finish(code, &r);
    code = MPI_Iscatter(a, 2, MPI_LONG, b, 2, MPI_LONG, 1, c, &r),
    finish(code, &r);
    code = MPI_Iallgather(a, 2, MPI_LONG, b, 2, MPI_LONG, c, &r),
    finish(code, &r);
    code = MPI_Ialltoall(a, 2, MPI_LONG, b, 2, MPI_LONG, c, &r),
    finish(code, &r);
    code = MPI_Ireduce(a, b, 4, MPI_LONG, MPI_SUM, 0, c, &r), finish(code, &r);
    code = MPI_Iallreduce(a, b, 4, MPI_LONG, MPI_SUM, c, &r), finish(code, &r);
    code = MPI_Iscan(a, b, 4, MPI_LONG, MPI_SUM, c, &r), finish(code, &r);
}

int main(int argc, char **argv)
{
    MPI_Comm copy;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    blocking(copy);
    say("rank %d: blocking %ld", rank, sum);
    nonblocking(MPI_COMM_WORLD);
    add(MPI_Allreduce(MPI_IN_PLACE, b, 4, MPI_LONG, MPI_SUM, MPI_COMM_SELF));
    MPI_Comm_free(&copy);
    say("rank %d: with nonblocking %ld", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
