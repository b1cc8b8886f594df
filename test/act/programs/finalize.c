/* finalize.c: delete callbacks of attributes of MPI_COMM_SELF, which MPI_Finalize
 * calls first: they are called last in, first out, and there is nothing of MPI
 * that they may not do. */
#include "program.h"

enum { LONG = 1200000 };

static MPI_Request persistent, unmatched, under_way;
static MPI_Comm duplicate;
static unsigned char *block;
static int order, number;

/* Set first: it ends what the program left. */
static int first(MPI_Comm comm, int key, void *value, void *state)
{
    int peer = rank ^ 1, got = -1, finalized = 1;
    MPI_Status status;
    CHECK(order++ == 1);
    CHECK(comm == MPI_COMM_SELF && value == &order);
    MPI_Finalized(&finalized);
    CHECK(!finalized);
    if (rank == 0) {
        MPI_Wait(&under_way, MPI_STATUS_IGNORE);
    } else {
        memset(block, 0, LONG);
        MPI_Recv(block, LONG, MPI_BYTE, 0, 8, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        CHECK(got == LONG && filled(block, LONG, 8));
    }
    number = 100 + rank;
    MPI_Request_free(&persistent);
    MPI_Cancel(&unmatched);
    MPI_Wait(&unmatched, &status);
    MPI_Test_cancelled(&status, &got);
    CHECK(got);
    MPI_Sendrecv(&number, 1, MPI_INT, peer, 1, &got, 1, MPI_INT, peer, 1,
                 duplicate, MPI_STATUS_IGNORE);
    CHECK(got == 100 + peer);
    MPI_Comm_free(&duplicate);
    MPI_Barrier(MPI_COMM_WORLD);
    say("%s", failures == 0 ? "right" : "wrong");
    return MPI_SUCCESS;
}

/* Set last: sends and receives, also through a communicator of its own. */
static int second(MPI_Comm comm, int key, void *value, void *state)
{
    int peer = rank ^ 1, got = -1;
    MPI_Comm made;
    CHECK(order++ == 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Sendrecv(&rank, 1, MPI_INT, peer, 2, &got, 1, MPI_INT, peer, 2, made,
                 MPI_STATUS_IGNORE);
    CHECK(got == peer);
    MPI_Comm_free(&made);
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int key;
    begin(&argc, &argv);
    block = malloc(LONG);
    MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, first, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &order);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, second, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Recv_init(&number, 1, MPI_INT, rank ^ 1, 77, MPI_COMM_WORLD,
                  &persistent);
    MPI_Irecv(&key, 1, MPI_INT, rank ^ 1, 78, duplicate, &unmatched);
    if (rank == 0) {
        fill(block, LONG, 8);
        MPI_Isend(block, LONG, MPI_BYTE, 1, 8, MPI_COMM_WORLD, &under_way);
    }
    MPI_Finalize();
    return failures != 0;
}
