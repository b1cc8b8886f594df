/* The first MPI call of all, while another thread loads a library whose constructor
 * calls MPI: the loader's lock is held by the one, and wanted by the other. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

int MPI_Initialized(int *);
int MPI_Init(int *, char ***);
int MPI_Finalize(void);

#ifdef PLUGIN
extern volatile int inside;

__attribute__((constructor)) static void begin(void)
{
    int flag = 0;
    inside = 1;
    usleep(200000); /* the other thread is on its way to the loader's lock */
    MPI_Initialized(&flag);
}
#else
volatile int inside;

static void *load(void *path)
{
    if (dlopen(path, RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        inside = 1;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t loader;
    int flag = 0;
    if (argc != 2) {
        return 2;
    }
    alarm(60); /* a deadlock */
    pthread_create(&loader, NULL, load, argv[1]);
    while (!inside) {
        usleep(1000);
    }
    MPI_Initialized(&flag);
    pthread_join(loader, NULL);
    MPI_Init(NULL, NULL);
    MPI_Finalize();
    printf("done\n");
    return 0;
}
#endif
