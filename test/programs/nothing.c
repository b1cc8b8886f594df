/*
 * Calls that move nothing, or less than they ask for.
 *
 * The rank: Init; Mprobe of MPI_PROC_NULL, Imrecv of 4 bytes, Wait;
 * Win_allocate, Win_lock_all, Put, Get, Accumulate and Rput of 4 bytes to
 * MPI_PROC_NULL, Wait, Win_unlock_all, Win_free; File_open, File_write of 100
 * bytes, 2 File_read of 1000 bytes at the end of the file, one with the status
 * ignored, File_read_at of 1000 bytes, of which 100 are there, Get_count twice,
 * File_close; Finalize.
 */
#include <mpi.h>
#include "program.h"

static char bytes[1000];

static void matched(void)
{
    MPI_Message none;
    MPI_Request request;
    int in = 7;

    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE);
    MPI_Imrecv(&in, 1, MPI_INT, &none, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("matched %d", in);
}

static void one_sided(void)
{
    int *base, out = 1, in = 7;
    MPI_Request request;
    MPI_Win window;

    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &base, &window);
    MPI_Win_lock_all(0, window);
    MPI_Put(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window);
    MPI_Get(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window);
    MPI_Accumulate(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM,
                   window);
    MPI_Rput(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    say("one-sided %d", in);
}

static void files(void)
{
    int at_end = -1, inside = -1;
    char path[512];
    MPI_File file;
    MPI_Status status;

    run_path(path, sizeof path, "file", 0);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR,
                  MPI_INFO_NULL, &file);
    MPI_File_write(file, bytes, 100, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_read(file, bytes, 1000, MPI_BYTE, &status);
    MPI_Get_count(&status, MPI_BYTE, &at_end);
    MPI_File_read(file, bytes, 1000, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_read_at(file, 0, bytes, 1000, MPI_BYTE, &status);
    MPI_Get_count(&status, MPI_BYTE, &inside);
    MPI_File_close(&file);
    say("read %d at the end, %d from the beginning", at_end, inside);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    matched();
    one_sided();
    files();
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
