/*
 * Communicators made and freed by the ten thousand, as by libraries that
 * duplicate the one they are given in each call: the memory of the process does
 * not grow.
 *
 * The rank: Init; 50000 Comm_dup and Comm_free; Finalize. It ends with status 1
 * if it grew.
 */
#include <mpi.h>
#include "program.h"

enum { EARLY = 10000, ALL = 50000, MAY_GROW = 1 << 20 };

/* Resident bytes of the process. */
static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = -1;

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        exit(99);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    long early = 0, grown;
    MPI_Comm made;

    MPI_Init(&argc, &argv);
    for (int k = 0; k < ALL; k++) {
        if (k == EARLY)
            early = resident();
        MPI_Comm_dup(MPI_COMM_SELF, &made);
        MPI_Comm_free(&made);
    }
    grown = resident() - early;
    if (grown > MAY_GROW)
        say("grown by %ld KiB", grown / 1024);
    say("finalize returns %d", MPI_Finalize());
    return grown > MAY_GROW;
}
