/*
 * The functions that MPI allows before Init and after Finalize, the last ones
 * also from an atexit function.
 *
 * Each rank: Initialized, Finalized before Init, which nobody counts; Init,
 * Comm_rank, 2 Barrier, Finalize; then Finalized 3 times, Initialized twice,
 * Get_version and Get_library_version once.
 */
#include <mpi.h>
#include "program.h"

static void late(void)
{
    int finalized = -1, initialized = -1;

    MPI_Finalized(&finalized);
    MPI_Initialized(&initialized);
    say("at exit: initialized %d, finalized %d", initialized, finalized);
}

int main(int argc, char **argv)
{
    int rank, initialized, finalized, major, minor, length, code;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];

    atexit(late);
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    say("before: initialized %d, finalized %d", initialized, finalized);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: finalize returns %d", rank, MPI_Finalize());
    code = MPI_Finalized(&finalized);
    say("finalized returns %d: %d", code, finalized);
    code = MPI_Finalized(&finalized);
    say("again %d: %d", code, finalized);
    code = MPI_Initialized(&initialized);
    say("initialized returns %d: %d", code, initialized);
    MPI_Get_version(&major, &minor);
    MPI_Get_library_version(library, &length);
    say("MPI %d.%d, text of %d", major, minor, length > 0);
    return 0;
}
