/*
 * Ends without MPI_Finalize, or without exit; the argument says how. "exit" and
 * "_exit" end both ranks, with 0 and 3; "replace" calls Finalize and runs
 * another program in place of this one. "abort" (MPI_Abort), "term", "kill" and
 * "segv" end rank 1 when rank 0 has returned from its last call and sleeps;
 * with "stuck" rank 1 is killed while rank 0 waits for it in MPI_Recv. "handler"
 * ends both ranks and "handler_abort" rank 1 as "exit" and "abort" do, in a signal
 * handler on a stack of 8 or 16 KiB.
 *
 * Each rank: Init, Comm_rank, 5 Sendrecv of 8 bytes, Barrier. Then rank 0 of
 * "stuck" enters Recv, rank 1 of "abort" and "handler_abort" calls Abort; both of
 * "replace" Finalize.
 */
#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include "program.h"

static int *volatile nowhere; /* null */

static void handler_exit(int signal)
{
    (void)signal;
    exit(0);
}

static void handler_abort(int signal)
{
    (void)signal;
    MPI_Abort(MPI_COMM_WORLD, 7);
}

/* Below it is memory that nobody may touch. */
static void handle(void (*handler)(int), size_t bytes)
{
    char *memory = mmap(NULL, 65536 + bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t small = {.ss_sp = memory + 65536, .ss_size = bytes};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};

    mprotect(small.ss_sp, bytes, PROT_READ | PROT_WRITE);
    sigaltstack(&small, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

static void end(const char *how)
{
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "handler") == 0)
        handle(handler_exit, 8192);
    if (strcmp(how, "handler_abort") == 0)
        handle(handler_abort, 16384);
    if (strcmp(how, "_exit") == 0)
        _exit(3);
    if (strcmp(how, "replace") == 0) {
        MPI_Finalize();
        execl("/bin/sh", "sh", "-c", "echo another program", (char *)NULL);
    }
    if (strcmp(how, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (strcmp(how, "term") == 0)
        kill(getpid(), SIGTERM);
    if (strcmp(how, "segv") == 0)
        *nowhere = 1;
    kill(getpid(), SIGKILL);
}

static int of_both(const char *how)
{
    return strcmp(how, "exit") == 0 || strcmp(how, "_exit") == 0 ||
           strcmp(how, "handler") == 0 || strcmp(how, "replace") == 0;
}

int main(int argc, char **argv)
{
    const char *how = argv[1];
    double out, in, sum = 0;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < 5; k++) {
        out = rank + 2 * k;
        MPI_Sendrecv(&out, 1, MPI_DOUBLE, 1 - rank, 0, &in, 1, MPI_DOUBLE,
                     1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: sum %.1f", rank, sum);

    flag_set("ready", rank);
    flag_wait("ready", 1 - rank);
    if (of_both(how))
        end(how);
    if (rank == 0 && strcmp(how, "stuck") == 0) {
        flag_set("stuck", 0);
        MPI_Recv(&in, 1, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0)
        for (;;)
            pause();
    if (strcmp(how, "stuck") == 0) {
        flag_wait("stuck", 0);
        sleep(3); /* rank 0 is in MPI_Recv by then */
    }
    end(how);
    return 0;
}
