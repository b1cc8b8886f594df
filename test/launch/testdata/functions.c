/* Looks which functions there are, as a program does that is built against a later MPI
 * than it runs with: mpi4py's wheels, for one. Calls what it finds. With LOADER it loads
 * that as a plugin, so that MPI comes by dlopen. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef LOADER
int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*look)(void) = plugin != NULL ? (int (*)(void))dlsym(plugin, "look") : NULL;
    if (look == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return look();
}
#else
#include <mpi.h>

#define NAMES(F)                                                             \
    F(MPI_Send_c) F(MPI_Recv_c) F(MPI_Bcast_c) F(MPI_Get_count_c)              \
    F(MPI_Type_contiguous_c) F(MPI_Isendrecv) F(MPI_Allreduce_init)            \
    F(MPI_Psend_init) F(MPI_Session_init) F(MPI_Info_get_string)               \
    F(MPI_Status_get_source) F(MPI_Buffer_flush) F(MPI_Get_hw_resource_info)   \
    F(MPI_Comm_idup_with_info) F(MPI_Neighbor_alltoall_init)

#define DECLARE(name) extern char weak_##name[] __asm__(#name) __attribute__((weak));
NAMES(DECLARE)

int look(void)
{
    int rank = 0, size = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char token = 't';
    if (weak_MPI_Bcast_c != NULL) {
        int (*bcast)(void *, MPI_Count, MPI_Datatype, int, MPI_Comm) =
            (void *)weak_MPI_Bcast_c;
        bcast(&token, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    } else {
        MPI_Bcast(&token, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
#define SHOW(name) printf("%s %s\n", #name, weak_##name != NULL ? "is there" : "is not there");
        NAMES(SHOW)
    }
    MPI_Finalize();
    return 0;
}

#ifndef PLUGIN
int main(void) { return look(); }
#endif
#endif
