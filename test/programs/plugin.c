/* A plug-in that calls MPI: loaded and unloaded by plugin_user.c and
 * plugin_host.c. */
#include <mpi.h>

int plugin_start(void)
{
    return MPI_Init(0, 0);
}
int plugin_finish(void)
{
    return MPI_Finalize();
}

/* Comm_rank, then as many Sendrecv of 4 bytes. */
int plugin_exchange(int times)
{
    int rank, in, sum = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < times; k++) {
        MPI_Sendrecv(&k, 1, MPI_INT, 1 - rank, 0, &in, 1, MPI_INT, 1 - rank, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in + rank;
    }
    return sum;
}
