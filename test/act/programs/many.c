/* many.c: very many messages that are on their own, freed or buffered, before
 * anybody receives one. What each of them costs must not depend on how many
 * there are, or this does not end in time. */
#include "program.h"

enum { MANY = 100000 };

static long numbers[MANY];

static void receive_all(void)
{
    for (long i = 0; i < MANY; i++) {
        long got = -1;
        MPI_Recv(&got, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (got != i) {
            CHECK(got == i);
            return;
        }
    }
}

static void freed(void)
{
    MPI_Request request;
    if (rank == 0) {
        for (long i = 0; i < MANY; i++) {
            numbers[i] = i;
            MPI_Isend(&numbers[i], 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, &request);
            MPI_Request_free(&request);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        receive_all();
    }
}

static void buffered(void)
{
    int bytes = MANY * ((int)sizeof(long) + MPI_BSEND_OVERHEAD + 64);
    void *buffer = malloc((size_t)bytes);
    if (rank == 0) {
        MPI_Buffer_attach(buffer, bytes);
        for (long i = 0; i < MANY; i++) {
            MPI_Bsend(&i, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Buffer_detach(&buffer, &bytes);
    } else {
        receive_all();
    }
    free(buffer);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    freed();
    MPI_Barrier(MPI_COMM_WORLD);
    buffered();
    return end();
}
