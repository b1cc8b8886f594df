/* modes.c: every mode of sending, blocking, nonblocking and persistent, to
 * another rank and to oneself, of every length. Even number of ranks. */
#include "program.h"

static char out[LONGEST], in[LONGEST];

typedef int send_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int isend_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                     MPI_Request *);

static send_fn *const sends[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};
static isend_fn *const isends[] = {MPI_Isend, MPI_Issend, MPI_Ibsend,
                                   MPI_Irsend};
static isend_fn *const inits[] = {MPI_Send_init, MPI_Ssend_init,
                                  MPI_Bsend_init, MPI_Rsend_init};

static void check(const MPI_Status *status, int length, int source,
                  unsigned seed)
{
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    CHECK(count == length && status->MPI_SOURCE == source &&
          status->MPI_TAG == 4 && filled(in, (size_t)length, seed));
}

/* The receive is posted before a ready send: by a message of its own. */
static void blocking(int other, int mode, int length)
{
    MPI_Request request;
    MPI_Status status;
    int first = rank < other;
    fill(out, (size_t)length, (unsigned)mode);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == first) {
            MPI_Irecv(in, LONGEST, MPI_BYTE, other, 4, MPI_COMM_WORLD,
                      &request);
            MPI_Send(NULL, 0, MPI_BYTE, other, 5, MPI_COMM_WORLD);
            MPI_Wait(&request, &status);
            check(&status, length, other, (unsigned)mode);
        } else {
            MPI_Recv(NULL, 0, MPI_BYTE, other, 5, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            sends[mode](out, length, MPI_BYTE, other, 4, MPI_COMM_WORLD);
        }
    }
}

static void nonblocking(int other, int mode, int length)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    fill(out, (size_t)length, (unsigned)mode + 10);
    MPI_Irecv(in, LONGEST, MPI_BYTE, other, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    isends[mode](out, length, MPI_BYTE, other, 4, MPI_COMM_WORLD,
                 &requests[1]);
    MPI_Waitall(2, requests, statuses);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    check(&statuses[0], length, other, (unsigned)mode + 10);
}

static void persistent(int other, int mode, int length)
{
    MPI_Request requests[2], before[2];
    MPI_Status statuses[2];
    /* Open MPI 4.1 copies a buffered one when it is made, and never again */
    int starts = inits[mode] == MPI_Bsend_init ? 1 : 3;
    fill(out, (size_t)length, (unsigned)mode);
    MPI_Recv_init(in, LONGEST, MPI_BYTE, other, 4, MPI_COMM_WORLD,
                  &requests[0]);
    inits[mode](out, length, MPI_BYTE, other, 4, MPI_COMM_WORLD, &requests[1]);
    memcpy(before, requests, sizeof(before));
    for (int i = 0; i < starts; i++) {
        unsigned seed = (unsigned)(mode + i);
        fill(out, (size_t)length, seed);
        memset(in, 0, sizeof(in));
        MPI_Start(&requests[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Startall(1, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        CHECK(memcmp(before, requests, sizeof(before)) == 0);
        check(&statuses[0], length, other, seed);
    }
    int flag = 0;
    MPI_Test(&requests[0], &flag, &statuses[0]); /* inactive */
    CHECK(flag && statuses[0].MPI_SOURCE == MPI_ANY_SOURCE &&
          statuses[0].MPI_TAG == MPI_ANY_TAG);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
}

static void exchange(int other, int length)
{
    MPI_Status status;
    fill(out, (size_t)length, (unsigned)rank);
    MPI_Sendrecv(out, length, MPI_BYTE, other, 4, in, LONGEST, MPI_BYTE, other,
                 4, MPI_COMM_WORLD, &status);
    check(&status, length, other, (unsigned)other);
    fill(in, (size_t)length, (unsigned)rank);
    MPI_Sendrecv_replace(in, length, MPI_BYTE, other, 4, other, 4,
                         MPI_COMM_WORLD, &status);
    check(&status, length, other, (unsigned)other);
#if MPI_VERSION >= 4
    MPI_Request request;
    MPI_Isendrecv(out, length, MPI_BYTE, other, 4, in, LONGEST, MPI_BYTE, other,
                  4, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    check(&status, length, other, (unsigned)other);
    fill(in, (size_t)length, (unsigned)rank);
    MPI_Isendrecv_replace(in, length, MPI_BYTE, other, 4, other, 4,
                          MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
    check(&status, length, other, (unsigned)other);
#endif
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int bytes = 8 * (LONGEST + MPI_BSEND_OVERHEAD), other = rank ^ 1, back;
    void *buffer = malloc((size_t)bytes), *given;
    MPI_Buffer_attach(buffer, bytes);
    for (int l = 0; l < LENGTHS; l++) {
        for (int mode = 0; mode < 4; mode++) {
            blocking(other, mode, lengths[l]);
            nonblocking(other, mode, lengths[l]);
            nonblocking(rank, mode, lengths[l]);
            persistent(other, mode, lengths[l]);
            persistent(rank, mode, lengths[l]);
        }
        exchange(other, lengths[l]);
        exchange(rank, lengths[l]);
    }
    MPI_Buffer_detach(&given, &back);
    CHECK(given == buffer && back == bytes);
    free(buffer);
    return end();
}
