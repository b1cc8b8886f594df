/*
 * MPI found at run time. With argument "handle" every function is fetched by
 * dlsym(handle, ...), which goes round any preloaded library: nothing can be
 * counted, and the shim has to say so. With "global" the library is loaded
 * RTLD_GLOBAL and the functions are fetched by dlsym(RTLD_DEFAULT, ...), which
 * a preloaded library does answer. "closed" is the same, and closes the library once
 * a function was called: it stays, for the program has its functions.
 *
 * Each rank: Init, Comm_rank, 5 Barrier, Finalize. The second argument is the
 * library; MPI_COMM_WORLD comes from the mpi.h of the compiler.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <string.h>
#include "program.h"

int main(int argc, char **argv)
{
    void *library = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
    void *from = strcmp(argv[1], "handle") == 0 ? library : RTLD_DEFAULT;
    int rank = -1;
    (void)argc;

    if (library == NULL) {
        say("cannot load: %s", dlerror());
        return 1;
    }
    int (*init)(int *, char ***) =
        (int (*)(int *, char ***))dlsym(from, "MPI_Init");
    int (*comm_rank)(MPI_Comm, int *) =
        (int (*)(MPI_Comm, int *))dlsym(from, "MPI_Comm_rank");
    int (*barrier)(MPI_Comm) = (int (*)(MPI_Comm))dlsym(from, "MPI_Barrier");
    int (*finalize)(void) = (int (*)(void))dlsym(from, "MPI_Finalize");
#ifdef OPEN_MPI
    MPI_Comm world = (MPI_Comm)dlsym(library, "ompi_mpi_comm_world");
#else
    MPI_Comm world = MPI_COMM_WORLD;
#endif

    if (strcmp(argv[1], "closed") == 0) {
        int flag = -1;
        ((int (*)(int *))dlsym(from, "MPI_Initialized"))(&flag);
        say("initialized %d, closed %d", flag, dlclose(library));
    }
    init(NULL, NULL);
    comm_rank(world, &rank);
    for (int k = 0; k < 5; k++)
        barrier(world);
    say("rank %d: finalize returns %d", rank, finalize());
    return 0;
}
