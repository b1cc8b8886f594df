/* loads.c LIBRARY: loads a library that begins MPI, sends long messages, and says
 * whether Go is in the process. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 1 << 20, ROUNDS = 20 };

int main(int argc, char **argv)
{
    char line[4096], *mine = malloc(LONG), *theirs = malloc(LONG);
    int rank, wrong = 0, go = 0;
    if (argc != 2 || dlopen(argv[1], RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < ROUNDS; i++) {
        memset(mine, 2 * i + rank, LONG);
        MPI_Sendrecv(mine, LONG, MPI_CHAR, 1 - rank, 0, theirs, LONG, MPI_CHAR,
                     1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        wrong += theirs[0] != 2 * i + 1 - rank ||
                 theirs[LONG - 1] != 2 * i + 1 - rank;
    }
    MPI_Finalize();
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        go |= strstr(line, "libmpishim-go") != NULL;
    }
    printf("%d: %d wrong, Go %d\n", rank, wrong, go);
    return 0;
}
