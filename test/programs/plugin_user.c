/*
 * An MPI program that loads and unloads a plug-in that calls MPI, three times;
 * argv[1] is the plug-in.
 *
 * Each rank: Init; 3 times, from the plug-in: Comm_rank and 4 Sendrecv of 4
 * bytes, then Barrier from the program; Finalize.
 */
#include <dlfcn.h>
#include <mpi.h>
#include "program.h"

int main(int argc, char **argv)
{
    const char *path = argv[1];

    MPI_Init(&argc, &argv);
    for (int k = 0; k < 3; k++) {
        void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*exchange)(int) = (int (*)(int))dlsym(plugin, "plugin_exchange");
        say("sum %d", exchange(4));
        say("closed %d", dlclose(plugin));
        say("gone %d", dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
