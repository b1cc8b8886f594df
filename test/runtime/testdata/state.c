/* state.c: prints what a runtime could change in a process: handlers of signals
 * that are set, the mask, and whether the runtime is mapped. Handlers are set
 * before MPI_Init as programs do. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void handler(int signal)
{
    (void)signal;
}

int main(int argc, char **argv)
{
    char line[512];
    int rank, mapped = 0, value = 1, sum = 0;
    struct sigaction set = {.sa_handler = handler}, now;
    sigset_t mask;
    sigaction(SIGSEGV, &set, NULL);
    sigaction(SIGCHLD, &set, NULL);
    set.sa_flags = SA_RESTART;
    sigaction(SIGURG, &set, NULL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        mapped |= strstr(line, "libmpishim-rt") != NULL;
    }
    printf("%d: mapped %d\n", rank, mapped);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int s = 1; s < 65; s++) {
        if (sigaction(s, NULL, &now) == 0 && now.sa_handler != SIG_DFL) {
            printf("%d: signal %d: handler %s, flags %x, blocked %d\n", rank, s,
                   now.sa_handler == handler   ? "own"
                   : now.sa_handler == SIG_IGN ? "ignore"
                                               : "other",
                   (unsigned)now.sa_flags & 0x93ffffffu, sigismember(&mask, s));
        }
    }
    MPI_Finalize();
    printf("%d: sum %d\n", rank, sum);
    return 0;
}
