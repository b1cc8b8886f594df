/*
 * Calls by way of a library that is stepped out of (MPITRACE_SKIP) and whose
 * stack frame has another size each time: half a megabyte, which is more than
 * the stack has beyond a small one. argv[1] is the library.
 *
 * Each rank: Init; Barrier from the library, 3 times each on two lines;
 * Finalize.
 */
#include <dlfcn.h>
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*barrier)(int) = (int (*)(int))dlsym(library, "library_barrier");
    int sum = 0;

    MPI_Init(&argc, &argv);
    for (int k = 0; k < 3; k++) {
        sum += barrier(500000); /* MPI_Barrier, site: large */
        sum += barrier(16);     /* MPI_Barrier, site: small */
    }
    say("sum %d", sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
