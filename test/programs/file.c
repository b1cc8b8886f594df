/*
 * Files: the I/O layer of both libraries calls MPI itself, a lot, and none of
 * these calls are the application's.
 *
 * Each rank: Init, Comm_rank, File_open, File_set_view, 3 File_write_all of 400
 * bytes, File_seek, 3 File_read_all, File_iwrite_at, Wait, File_close, Barrier;
 * rank 0 File_delete; Finalize.
 */
#include <mpi.h>
#include <string.h>
#include "program.h"

int main(int argc, char **argv)
{
    int rank, out[100], in[100], sum = 0;
    char path[512];
    MPI_File file;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    run_path(path, sizeof path, "file", 0);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR,
                  MPI_INFO_NULL, &file);
    MPI_File_set_view(file, rank * 4000, MPI_INT, MPI_INT, "native",
                      MPI_INFO_NULL);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 100; i++)
            out[i] = rank + k * i;
        MPI_File_write_all(file, out, 100, MPI_INT, MPI_STATUS_IGNORE);
    }
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    for (int k = 0; k < 3; k++) {
        MPI_File_read_all(file, in, 100, MPI_INT, MPI_STATUS_IGNORE);
        for (int i = 0; i < 100; i++)
            sum += in[i] * (k + 1);
    }
    MPI_File_iwrite_at(file, 500, out, 100, MPI_INT, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        sum += MPI_File_delete(path, MPI_INFO_NULL);
    say("rank %d: sum %d", rank, sum);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
