/* clocks.c K DELAY_US END: collective operations on several hosts, a random
 * rank late, for some seconds; then END: finalize, exit or kill.
 *
 *   ledger call FUNCTION world INDEX RANK ENTER WAIT EXIT
 *
 * The hosts are namespaces of one machine, so CLOCK_MONOTONIC is the same on
 * all of them. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include "ledger.h"

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* Waits until the ledgers of all ranks are closed. */
static void all_closed(int rank, int size)
{
    char name[64];
    snprintf(name, sizeof(name), "closed.%d", rank);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    for (int other = 0; other < size; other++) {
        snprintf(name, sizeof(name), "closed.%d", other);
        while (access(name, F_OK) != 0) {
            pass(1000000);
        }
    }
}

int main(int argc, char **argv)
{
    int rank, size, one = 1, sum;
    unsigned state = 7;
    if (argc != 4) {
        return 2;
    }
    int k_max = atoi(argv[1]);
    int64_t late_ns = atoll(argv[2]) * 1000;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_name(MPI_COMM_WORLD, "world");
    ledger_open(rank);
    for (int k = 0; k < k_max; k++) {
        int late = (int)(next_random(&state) % (unsigned)size);
        pass(rank == late ? late_ns : 0);
        int64_t enter = now();
        if (k % 2 == 0) {
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        } else {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        int64_t leave = now();
        ledger("call %s world %d %d %" PRId64 " %" PRId64 " %" PRId64,
               k % 2 == 0 ? "Allreduce" : "Barrier", k / 2, rank, enter, enter,
               leave);
    }
    ledger_close();
    if (strcmp(argv[3], "finalize") != 0) {
        all_closed(rank, size); /* whoever ends first may end the others */
    }
    if (strcmp(argv[3], "kill") == 0) {
        kill(getpid(), SIGKILL);
    }
    if (strcmp(argv[3], "exit") == 0) {
        exit(0);
    }
    MPI_Finalize();
    return 0;
}
