/* arenas.c: what a process of two shares with the other one over shared memory, and
 * what the kernel says of it. Locks all of its memory behind MPI_Init ("current"), or
 * before it and from then on ("future"). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LONG = 1 << 20 };

/* Counts the mappings of arenas, and those of them that a core dump would hold. */
static int arenas(int *dumped)
{
    char line[4096];
    int all = 0, ours = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    *dumped = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strstr(line, "memfd:mpitrace-fabric") != NULL) {
            ours = 1;
        } else if (strncmp(line, "VmFlags:", 8) == 0) {
            all += ours;
            *dumped += ours && strstr(line, " dd") == NULL;
            ours = 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return all;
}

static long shared_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        sscanf(line, "RssShmem: %ld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

/* Whether what the other one sends comes, short or long. */
static int exchange(int rank, char *mine, char *theirs, int bytes)
{
    memset(mine, rank, (size_t)bytes);
    memset(theirs, 7, (size_t)bytes);
    MPI_Sendrecv(mine, bytes, MPI_CHAR, 1 - rank, 0, theirs, bytes, MPI_CHAR,
                 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return theirs[0] == 1 - rank && theirs[bytes - 1] == 1 - rank;
}

int main(int argc, char **argv)
{
    enum { MOST_KIB = 256 << 10 };
    int rank, dumped, future = argc > 1 && strcmp(argv[1], "future") == 0;
    char *mine = malloc(LONG), *theirs = malloc(LONG);
    int locked = future && mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int right = exchange(rank, mine, theirs, 8);
    locked = locked || mlockall(MCL_CURRENT) == 0;
    right += exchange(rank, mine, theirs, 8);
    right += exchange(rank, mine, theirs, LONG);
    int all = arenas(&dumped);
    long kib = shared_kib();
    printf("%d: arenas %s, %d dumped, locked %d, memory %s, %d of 3 right\n",
           rank, all > 1 ? "yes" : "no", dumped, locked,
           kib >= 0 && kib < MOST_KIB ? "little" : "much", right);
    MPI_Finalize();
    return 0;
}
