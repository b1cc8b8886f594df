/*
 * More of everything than a small table holds: call sites, communicators,
 * datatypes, requests under way.
 *
 * Each rank: Init; Comm_rank once and from 1,024 further places; 200 Comm_dup,
 * Barrier on each, 200 Comm_free; 500 times Type_contiguous, Type_commit,
 * Sendrecv of one such element (4 to 2,000 bytes), Type_free; 3,000 Irecv and
 * Isend of 4 bytes at once, Waitall; Finalize.
 */
#include <mpi.h>
#include "program.h"

#define ONE MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#define FOUR ONE ONE ONE ONE
#define SIXTEEN FOUR FOUR FOUR FOUR
#define SIXTY_FOUR SIXTEEN SIXTEEN SIXTEEN SIXTEEN

enum { COMMS = 200, TYPES = 500, REQUESTS = 3000 };

static int rank, out[REQUESTS], in[REQUESTS];
static MPI_Request requests[2 * REQUESTS];

static void communicators(void)
{
    MPI_Comm comms[COMMS];

    for (int k = 0; k < COMMS; k++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]);
    for (int k = 0; k < COMMS; k++)
        MPI_Barrier(comms[k]);
    for (int k = 0; k < COMMS; k++)
        MPI_Comm_free(&comms[k]);
}

static long datatypes(void)
{
    MPI_Datatype type;
    long sum = 0;

    for (int k = 1; k <= TYPES; k++) {
        out[k - 1] = rank + k;
        MPI_Type_contiguous(k, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Sendrecv(out, 1, type, 1 - rank, 0, in, 1, type, 1 - rank, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&type);
        sum += in[k - 1];
    }
    return sum;
}

static long under_way(void)
{
    long sum = 0;

    for (int k = 0; k < REQUESTS; k++)
        MPI_Irecv(&in[k], 1, MPI_INT, 1 - rank, k, MPI_COMM_WORLD,
                  &requests[k]);
    for (int k = 0; k < REQUESTS; k++)
        MPI_Isend(&out[k], 1, MPI_INT, 1 - rank, k, MPI_COMM_WORLD,
                  &requests[REQUESTS + k]);
    MPI_Waitall(2 * REQUESTS, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < REQUESTS; k++)
        sum += in[k];
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    ONE SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR
        SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR
            SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR
            communicators();
    say("rank %d: datatypes %ld", rank, datatypes());
    say("rank %d: requests %ld", rank, under_way());
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
