/* unreceived.c: rank 0 sends what rank 1 never receives, and gives up the requests.
 * A wrong program, that ends nevertheless.
 *
 *   long     one message of 1 MiB
 *   many     300 of these, synchronous short ones, and short ones, whose senders
 *            do not wait; in a communicator that is freed, too
 *   matched  rank 1 matches it, and leaves it at that */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static char message[1 << 20];

static void send(MPI_Comm comm, int bytes, int synchronous)
{
    MPI_Request request;
    if (synchronous) {
        MPI_Issend(message, bytes, MPI_BYTE, 1, 0, comm, &request);
    } else {
        MPI_Isend(message, bytes, MPI_BYTE, 1, 0, comm, &request);
    }
    MPI_Request_free(&request);
}

static void send_many(MPI_Comm comm)
{
    for (int i = 0; i < 50; i++) {
        send(comm, sizeof(message), 0);
        send(comm, 8, 1);
        send(comm, sizeof(message) / 2, 1);
        send(comm, 8, 0);
    }
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Comm other;
    MPI_Message matched;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "many") == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
        if (rank == 0) {
            send_many(MPI_COMM_WORLD);
            send_many(other);
        }
        MPI_Comm_free(&other);
    } else if (rank == 0) {
        send(MPI_COMM_WORLD, sizeof(message), 0);
    } else if (strcmp(what, "matched") == 0) {
        MPI_Mprobe(0, 0, MPI_COMM_WORLD, &matched, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    printf("%d: done\n", rank);
    return 0;
}
