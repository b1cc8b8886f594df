/* order.c: messages between two ranks are received in the order in which they
 * were sent, whatever their lengths and the ways they take; wildcards; several
 * communicators; unexpected and expected ones. Two ranks or more. */
#include "program.h"

enum { MESSAGES = 60 };

static char out[MESSAGES][LONGEST / 8], in[LONGEST / 8];

static int length_of(int i)
{
    return lengths[(i * 7) % (LENGTHS - 3)];
}

static void one_by_one(MPI_Comm comm, int from, int to, int any)
{
    MPI_Request requests[MESSAGES];
    MPI_Status status;
    int count;
    if (rank == from) {
        for (int i = 0; i < MESSAGES; i++) {
            fill(out[i], (size_t)length_of(i), (unsigned)i);
            MPI_Isend(out[i], length_of(i), MPI_BYTE, to, 3, comm,
                      &requests[i]);
        }
        MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    }
    if (rank == to) {
        for (int i = 0; i < MESSAGES; i++) {
            memset(in, 0, sizeof(in));
            MPI_Recv(in, (int)sizeof(in), MPI_BYTE,
                     any & 1 ? MPI_ANY_SOURCE : from,
                     any & 2 ? MPI_ANY_TAG : 3, comm, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK(count == length_of(i) && status.MPI_TAG == 3 &&
                  status.MPI_SOURCE == from);
            CHECK(filled(in, (size_t)length_of(i), (unsigned)i));
        }
    }
}

/* Receives posted first, with and without wildcards in turn. */
static void posted_first(MPI_Comm comm, int from, int to)
{
    static char room[MESSAGES][LONGEST / 8];
    MPI_Request requests[MESSAGES];
    MPI_Status statuses[MESSAGES];
    if (rank == to) {
        for (int i = 0; i < MESSAGES; i++) {
            MPI_Irecv(room[i], (int)sizeof(room[i]), MPI_BYTE,
                      i % 3 == 0 ? MPI_ANY_SOURCE : from,
                      i % 4 == 0 ? MPI_ANY_TAG : 9, comm, &requests[i]);
        }
        MPI_Send(NULL, 0, MPI_BYTE, from, 1, comm);
        MPI_Waitall(MESSAGES, requests, statuses);
        for (int i = 0; i < MESSAGES; i++) {
            int count;
            MPI_Get_count(&statuses[i], MPI_BYTE, &count);
            CHECK(count == length_of(i) &&
                  filled(room[i], (size_t)count, (unsigned)i));
        }
    }
    if (rank == from) {
        MPI_Recv(NULL, 0, MPI_BYTE, to, 1, comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < MESSAGES; i++) {
            fill(out[i], (size_t)length_of(i), (unsigned)i);
            MPI_Send(out[i], length_of(i), MPI_BYTE, to, 9, comm);
        }
    }
}

/* Tags tell messages apart, received from the last to the first. */
static void by_tag(MPI_Comm comm, int from, int to)
{
    MPI_Request requests[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        if (rank == from) {
            fill(out[i], (size_t)length_of(i), (unsigned)i);
            MPI_Isend(out[i], length_of(i), MPI_BYTE, to, 100 + i, comm,
                      &requests[i]);
        }
    }
    for (int i = MESSAGES - 1; i >= 0 && rank == to; i--) {
        MPI_Recv(in, (int)sizeof(in), MPI_BYTE, from, 100 + i, comm,
                 MPI_STATUS_IGNORE);
        CHECK(filled(in, (size_t)length_of(i), (unsigned)i));
    }
    if (rank == from) {
        MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    }
}

/* Everybody to rank 0, which takes what comes: per sender still in order. */
static void everybody(MPI_Comm comm)
{
    int next[64] = {0}, got;
    if (rank != 0) {
        for (int i = 0; i < MESSAGES; i++) {
            MPI_Send(&i, 1, MPI_INT, 0, i % 5, comm);
        }
        return;
    }
    for (int i = 0; i < MESSAGES * (size - 1); i++) {
        MPI_Status status;
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        CHECK(got == next[status.MPI_SOURCE]++ && status.MPI_TAG == got % 5);
    }
    for (int r = 1; r < size; r++) {
        CHECK(next[r] == MESSAGES);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm twin;
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    for (int any = 0; any < 4; any++) {
        one_by_one(MPI_COMM_WORLD, 0, size - 1, any);
        one_by_one(twin, size - 1, 0, any);
    }
    posted_first(twin, 0, size - 1);
    posted_first(MPI_COMM_WORLD, size - 1, 0);
    by_tag(twin, 0, size - 1);
    MPI_Barrier(MPI_COMM_WORLD); /* or wildcards take what comes later */
    everybody(MPI_COMM_WORLD);
    everybody(twin);
    MPI_Barrier(MPI_COMM_WORLD);
    /* what is sent in one is not received in the other */
    int other = (rank + 1) % size, before = (rank + size - 1) % size;
    int world = rank, second = rank + 1000, a = -1, b = -1;
    MPI_Request requests[2];
    MPI_Isend(&world, 1, MPI_INT, other, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&second, 1, MPI_INT, other, 5, twin, &requests[1]);
    MPI_Recv(&b, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin,
             MPI_STATUS_IGNORE);
    MPI_Recv(&a, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    CHECK(a == before && b == before + 1000);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&twin);
    return end();
}
