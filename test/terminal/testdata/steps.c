/*
 * Reduces a sum again and again until the file "stop" appears in the directory
 * of the argument. Rank 1 works longer than the others before each step. Once
 * the file "hang" is there, rank 1 does not call MPI until "stop" is.
 * It ends by itself after twenty minutes.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int there(const char *dir, const char *name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : ".";
    int rank, stop = 0;

    alarm(1200);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (!stop) {
        int mine;
        if (rank == 1) {
            usleep(2000);
            while (there(dir, "hang") && !there(dir, "stop"))
                usleep(10000);
        }
        mine = rank == 1 && there(dir, "stop");
        MPI_Allreduce(&mine, &stop, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
