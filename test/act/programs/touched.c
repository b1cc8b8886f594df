/* touched.c: programs that change memory which a message is using, in bytes that nobody
 * looks at: the corners of two messages that share an array, say. MPI forbids it, and
 * its libraries bear it. The other bytes arrive as they are, and nothing ends. Two
 * ranks. */
#include "program.h"

enum { LONG = 3 << 20, EVERY = 4096, TURNS = 12 };

static char out[LONG], in[LONG];

/* One byte in so many, until the request is done. */
static void touch(char *buffer, MPI_Request *request, int looks)
{
    int done = 0;
    for (unsigned n = 0; !done; n++) {
        for (int i = 0; i < LONG; i += EVERY) {
            ((volatile char *)buffer)[i]++;
        }
        if (n % (unsigned)looks == 0) {
            MPI_Test(request, &done, MPI_STATUS_IGNORE);
        }
    }
}

static int right(const char *buffer, int turn)
{
    for (int i = 0; i < LONG; i++) {
        if (i % EVERY != 0 && buffer[i] != (char)(i + turn)) {
            return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    MPI_Request requests[2];
    begin(&argc, &argv);
    for (int turn = 0; turn < TURNS; turn++) {
        int sends = turn % 2 == rank, looks = turn % 3 == 0 ? 1 : 50;
        for (int i = 0; i < LONG; i++) {
            out[i] = (char)(i + turn);
            in[i] = 0;
        }
        if (sends) {
            MPI_Isend(out, LONG, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, requests);
        } else {
            MPI_Irecv(in, LONG, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, requests);
        }
        touch(sends ? out : in, requests, looks);
        CHECK(sends || right(in, turn));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return end();
}
