/* files.c: files that are written without waiting by all ranks together, and messages,
 * in one array of requests. MPICH goes on with such a file only in calls that name its
 * request. Two ranks; the first argument is wait or test. */
#include "program.h"

enum { ROUNDS = 20, INTS = 2000 };

static void end_both(MPI_Request *both, int waits)
{
    int done = 0;
    if (waits) {
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    }
    while (!waits && !done) {
        MPI_Testall(2, both, &done, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    static int out[INTS], in[INTS], word;
    int waits = argc > 1 && strcmp(argv[1], "wait") == 0, wrong = 0;
    MPI_Datatype every_other;
    MPI_Request request, both[2];
    MPI_Info info;
    MPI_File file;
    begin(&argc, &argv);
    MPI_Type_vector(INTS, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_File_open(MPI_COMM_WORLD, "files.data",
                  MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  info, &file);
    MPI_File_set_view(file, rank * (MPI_Offset)sizeof(int), MPI_INT, every_other,
                      "native", info);
    for (int i = 0; i < INTS; i++) {
        out[i] = 2 * i + rank;
    }
    for (int n = 0; n < ROUNDS; n++) {
        if (rank == n % 2) { /* its message comes when the other has written */
            MPI_Irecv(&word, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, &both[0]);
            MPI_File_iwrite_at_all(file, 0, out, INTS, MPI_INT, &both[1]);
            end_both(both, waits);
            CHECK(word == n);
            CHECK(both[0] == MPI_REQUEST_NULL && both[1] == MPI_REQUEST_NULL);
        } else {
            MPI_File_iwrite_at_all(file, 0, out, INTS, MPI_INT, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Send(&n, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD);
        }
    }
    MPI_File_read_at_all(file, 0, in, INTS, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < INTS; i++) {
        wrong += in[i] != out[i];
    }
    CHECK(wrong == 0);
    MPI_File_close(&file);
    MPI_Info_free(&info);
    MPI_Type_free(&every_other);
    return end();
}
