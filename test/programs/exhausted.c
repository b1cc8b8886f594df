/*
 * A program that has used up what the system gives at its end: argv[1] is
 * "memory", or the number of file descriptors that are left.
 *
 * The rank: Init, Barrier, Finalize.
 */
#include <mpi.h>
#include <string.h>
#include <sys/resource.h>
#include "program.h"

/* Lowers the limit: what the process has already it keeps. */
static void limit_to(int resource, rlim_t most)
{
    struct rlimit limit;

    getrlimit(resource, &limit);
    limit.rlim_cur = most;
    say("limited %d", setrlimit(resource, &limit));
}

static void leave_descriptors(int free)
{
    int last = -1, fd;

    limit_to(RLIMIT_NOFILE, 256);
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        last = fd;
    for (int k = 0; k < free; k++)
        close(last - k);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    say("finalize returns %d", MPI_Finalize());
    if (strcmp(argv[1], "memory") == 0)
        limit_to(RLIMIT_AS, 4096);
    else
        leave_descriptors(atoi(argv[1]));
    return 0;
}
