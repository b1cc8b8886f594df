/* work.c STEPS MICROSECONDS [FILE]: an exchange round the ring and a reduction in
 * each step; the last rank works MICROSECONDS before it comes, the others wait.
 * With FILE there are further steps until it is there. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 1, rank, size;
    useconds_t work = argc > 2 ? (useconds_t)atoi(argv[2]) : 0;
    const char *file = argc > 3 ? argv[3] : NULL;
    double out[64] = {0}, in[64], more, going = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; going > 0; i++) {
        MPI_Request r[2];
        MPI_Irecv(in, 64, MPI_DOUBLE, (rank + size - 1) % size, 0,
                  MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, 64, MPI_DOUBLE, (rank + 1) % size, 0, MPI_COMM_WORLD,
                  &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        more = 0;
        if (rank == size - 1) {
            usleep(work);
            more = i < steps || (file != NULL && access(file, F_OK) != 0);
        }
        MPI_Allreduce(&more, &going, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
