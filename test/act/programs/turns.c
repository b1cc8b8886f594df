/*
 * turns.c - exchanges with the rank whose number differs in the last bit, one every
 * 20 ms. After some of them rank 0 makes a file, so that somebody can do
 * something to the network.
 *
 * usage: turns N FILE
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONG = 20000, BEGUN = 10 };

int main(int argc, char **argv)
{
    static int out[LONG], in[LONG];
    int rank, right = 1;
    long turns = argc > 2 ? atol(argv[1]) : 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long i = 0; i < turns; i++) {
        int count = i % 4 == 3 ? LONG : 1; /* in rendezvous, and eager */

        out[0] = out[count - 1] = (int)i * 4 + rank;
        MPI_Sendrecv(out, count, MPI_INT, rank ^ 1, 5, in, count, MPI_INT,
                     rank ^ 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right = right && in[0] == (int)i * 4 + (rank ^ 1) && in[count - 1] == in[0];
        if (i == BEGUN && rank == 0) {
            FILE *file = fopen(argv[2], "w");

            right = right && file != NULL && fclose(file) == 0;
        }
        usleep(20000);
    }
    printf("%d: %s\n", rank, right && turns > BEGUN ? "right" : "wrong");
    MPI_Finalize();
    return 0;
}
