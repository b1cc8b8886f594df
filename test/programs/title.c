/*
 * Writes its title over its arguments and environment, as setproctitle() does.
 *
 * Each rank: Init, Comm_rank, Barrier, Finalize.
 */
#include <mpi.h>
#include <string.h>
#include "program.h"

extern char **environ;

static void set_title(char **argv, const char *title)
{
    char *begin = argv[0], *end = begin + strlen(begin) + 1;
    size_t n = 0;

    for (char **a = argv + 1; *a != NULL; a++)
        if (*a == end)
            end += strlen(*a) + 1;
    for (; environ[n] != NULL; n++)
        if (environ[n] == end)
            end += strlen(environ[n]) + 1;
    char **moved = malloc((n + 1) * sizeof *moved);
    for (size_t i = 0; i < n; i++)
        moved[i] = strdup(environ[i]);
    moved[n] = NULL;
    environ = moved;
    memset(begin, 0, (size_t)(end - begin));
    snprintf(begin, (size_t)(end - begin), "%s", title);
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    set_title(argv, "a title");
    MPI_Barrier(MPI_COMM_WORLD);
    say("rank %d: %s, %s", rank, argv[0],
        getenv("PATH") != NULL ? "PATH is set" : "no PATH");
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
