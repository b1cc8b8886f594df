/* steady.c: two ranks send each other short and long messages, and then end, or
 * wait for somebody to end them ("wait"). */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORT = 500, LONG = 200, BYTES = 200000 };

static void swap(char *out, char *in, int bytes, int other)
{
    MPI_Sendrecv(out, bytes, MPI_BYTE, other, 1, in, bytes, MPI_BYTE, other, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank;
    char *out = calloc(1, BYTES), *in = calloc(1, BYTES);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < SHORT; i++) {
        swap(out, in, 8, 1 - rank);
    }
    for (int i = 0; i < LONG; i++) {
        swap(out, in, BYTES, 1 - rank);
    }
    while (argc > 1 && strcmp(argv[1], "wait") == 0) {
        sleep(1);
    }
    MPI_Finalize();
    free(out);
    free(in);
    return 0;
}
