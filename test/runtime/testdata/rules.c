/* Rank 0 sends messages of several kinds to rank 1, so many of each that what
 * became of each kind shows in the counts: 1 of one, 2 of the next, 4, .. */
#include <mpi.h>
#include <stdlib.h>

static char buffer[1 << 20];
static int rank;

static void receive(int bytes, MPI_Comm comm, int times)
{
    for (int i = 0; i < times; i++) {
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE);
    }
}

static void plain(int bytes, MPI_Comm comm, int times)
{
    if (rank == 1) {
        receive(bytes, comm, times);
    }
    for (int i = 0; rank == 0 && i < times; i++) {
        MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, comm);
    }
}

/* Not inlined, so that it is a place with a name. */
__attribute__((noinline)) static void exchange_small(int bytes, int times)
{
    for (int i = 0; i < times; i++) {
        MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    }
}

static void persistent(int bytes, int times)
{
    MPI_Request request;
    if (rank == 1) {
        receive(bytes, MPI_COMM_WORLD, times);
        return;
    }
    MPI_Send_init(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
    for (int i = 0; i < times; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
}

/* Both ranks have something to send. */
static void exchange(int bytes, int times)
{
    static char other[1 << 20];
    for (int i = 0; i < times; i++) {
        MPI_Sendrecv(buffer, bytes, MPI_BYTE, 1 - rank, 1, other, bytes,
                     MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm bulk;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &bulk);
    plain(1 << 20, bulk, 1); /* before it has its name */
    MPI_Comm_set_name(bulk, "bulk data");
    plain(1 << 20, bulk, 2);
    plain(1 << 20, MPI_COMM_WORLD, 4);
    plain(4096, MPI_COMM_WORLD, 8);
    if (rank == 0) {
        exchange_small(4096, 16);
    } else if (rank == 1) {
        receive(4096, MPI_COMM_WORLD, 16);
    }
    plain(32768, MPI_COMM_WORLD, 32);
    persistent(32768, 64);
    exchange(32768, 128);
    MPI_Comm_free(&bulk);
    MPI_Finalize();
    return 0;
}
