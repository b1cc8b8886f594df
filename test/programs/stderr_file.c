/*
 * A program that closes stderr and opens a data file, which gets descriptor 2.
 *
 * Each rank: Init, Comm_rank, Barrier, Finalize.
 */
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    char path[512];
    int rank, fd;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    close(STDERR_FILENO);
    run_path(path, sizeof path, "data", rank);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    say("descriptor %d, %d bytes", fd, (int)write(fd, "data\n", 5));
    MPI_Barrier(MPI_COMM_WORLD);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
