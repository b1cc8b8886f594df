/*
 * A library whose constructor calls MPI, while another thread calls MPI for the
 * first time; argv[1] is the library.
 *
 * The rank: Init_thread, Comm_size from the thread, Barrier from the
 * constructor, Finalize.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include "program.h"

static void *first_call(void *unused)
{
    int size;

    flag_wait("constructor", 0);
    MPI_Comm_size(MPI_COMM_SELF, &size);
    flag_set("thread", 0);
    return unused;
}

int main(int argc, char **argv)
{
    int level;
    pthread_t thread;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    pthread_create(&thread, NULL, first_call, NULL);
    say("loaded %d", dlopen(argv[1], RTLD_NOW) != NULL);
    pthread_join(thread, NULL);
    return MPI_Finalize();
}
