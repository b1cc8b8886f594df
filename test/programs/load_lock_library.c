/*
 * The library of load_lock.c: its constructor runs under the loader's lock, and
 * gives the thread a quarter of a second to be in the middle of its first call.
 */
#include <mpi.h>
#include "program.h"

__attribute__((constructor)) static void begin(void)
{
    flag_set("constructor", 0);
    usleep(250000);
    MPI_Barrier(MPI_COMM_SELF);
}
