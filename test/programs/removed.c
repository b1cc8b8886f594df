/*
 * A job whose directory of segments is removed under it, as some systems do
 * with what a user has in /dev/shm when a session of his ends.
 *
 * Each rank: Init, Comm_rank; 3 Sendrecv of 4 bytes, 2 Barrier around the
 * removal, 3 Sendrecv, Finalize.
 */
#include <dirent.h>
#include <mpi.h>
#include <string.h>
#include "program.h"

/* Removes the files of a directory, then the directory. */
static void remove_all(const char *path)
{
    char file[1024];
    DIR *dir = opendir(path);

    if (dir == NULL)
        exit(99);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.' && unlink(file) != 0)
            exit(99);
    }
    closedir(dir);
    if (rmdir(path) != 0)
        exit(99);
}

static int exchange(int rank)
{
    int in, out = rank + 1, sum = 0;

    for (int k = 0; k < 3; k++) {
        MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, k, &in, 1, MPI_INT, 1 - rank,
                     k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in;
    }
    return sum;
}

int main(int argc, char **argv)
{
    const char *base = getenv("MPITRACE_SEGMENT_DIR");
    const char *job = getenv("MPITRACE_JOB_ID");
    char path[512];
    int rank, sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    sum = exchange(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && base != NULL && job != NULL) {
        snprintf(path, sizeof path, "%s/%s", base, job);
        remove_all(path);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    sum += exchange(rank);
    say("rank %d: sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
