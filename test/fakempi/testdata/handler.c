/* A signal that comes while the shim looks for a call's site, under its lock: this
 * program's dl_iterate_phdr, which the shim asks there, raises it. The handler calls
 * MPI: MPI_Send, or with the argument "abort" MPI_Abort. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Send(const void *, int, int, int, int, int);
int MPI_Abort(int, int);

enum { WORLD = 0x44000000, BYTE = 0x4c00010d };

static volatile sig_atomic_t armed, came;
static int aborts;

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
        dlsym(RTLD_NEXT, "dl_iterate_phdr");
    if (armed) {
        armed = 0;
        raise(SIGUSR1);
    }
    return real(visit, arg);
}

static void handler(int signal)
{
    (void)signal;
    came++;
    if (aborts) {
        MPI_Abort(WORLD, 7);
    }
    MPI_Send("0123456789", 10, BYTE, 0, 0, WORLD);
}

int main(int argc, char **argv)
{
    aborts = argc > 1 && strcmp(argv[1], "abort") == 0;
    MPI_Init(&argc, &argv);
    signal(SIGUSR1, handler);
    alarm(60); /* a deadlock */
    armed = argc > 1;
    MPI_Send("0123456789", 10, BYTE, 0, 0, WORLD);
    fprintf(stderr, "signals: %d\n", (int)came);
    MPI_Send("0123456789", 10, BYTE, 0, 0, WORLD);
    return MPI_Finalize();
}
