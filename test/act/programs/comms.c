/* comms.c: communicators made in every way, used, and freed, while others are in
 * use, and with messages under way; what is not carried by the tool beside what
 * is. Four ranks, or any number. */
#include "program.h"

/* Round the ring of a communicator, forwards and with a wildcard backwards. */
static void ring(MPI_Comm comm)
{
    int me, n, got = -1;
    if (comm == MPI_COMM_NULL) {
        return;
    }
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 1, &got, 1, MPI_INT,
                 (me + n - 1) % n, 1, comm, MPI_STATUS_IGNORE);
    CHECK(got == (me + n - 1) % n);
    MPI_Request request;
    MPI_Status status;
    MPI_Isend(&me, 1, MPI_INT, (me + n - 1) % n, 2, comm, &request);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 2, comm, &status);
    CHECK(got == (me + 1) % n && status.MPI_SOURCE == got);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void ring_and_free(MPI_Comm comm)
{
    ring(comm);
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_free(&comm);
        CHECK(comm == MPI_COMM_NULL);
    }
}

static void topologies(void)
{
    MPI_Comm comm, row;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, keep[2] = {0, 1};
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    int two[2] = {left, right}, degree = 2, index[64], edges[128], at, to;
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm);
    MPI_Cart_sub(comm, keep, &row);
    ring_and_free(row);
    int got = -1;
    MPI_Cart_shift(comm, 1, 1, &at, &to); /* ends in MPI_PROC_NULL */
    MPI_Sendrecv(&rank, 1, MPI_INT, to, 1, &got, 1, MPI_INT, at, 1, comm,
                 MPI_STATUS_IGNORE);
    CHECK(got == (at == MPI_PROC_NULL ? -1 : at));
    ring_and_free(comm);
    for (int i = 0; i < size; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &comm);
    ring_and_free(comm);
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, two,
                          MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    ring_and_free(comm);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, two, MPI_UNWEIGHTED, 2,
                                   two, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &comm);
    ring_and_free(comm);
}

static void groups(void)
{
    MPI_Group world, odd;
    MPI_Comm comm;
    int ranks[64], n = 0;
    for (int i = size - 1; i >= 0; i -= 2) {
        ranks[n++] = i; /* in another order */
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, n, ranks, &odd);
    MPI_Comm_create(MPI_COMM_WORLD, odd, &comm);
    ring_and_free(comm);
    int in = MPI_UNDEFINED;
    MPI_Group_rank(odd, &in);
    if (in != MPI_UNDEFINED) {
        MPI_Comm_create_group(MPI_COMM_WORLD, odd, 5, &comm);
        ring_and_free(comm);
    }
    MPI_Group_free(&odd);
    MPI_Group_free(&world);
}

/* These stay with the library. */
static void not_ours(void)
{
    MPI_Comm half, inter, merged, idup, child;
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &idup, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ring(idup);
    MPI_Comm_dup(idup, &child);
    ring_and_free(child);
    ring_and_free(idup);
    if (size < 2) {
        return;
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 9, &inter);
    int others, me, got = -1;
    MPI_Comm_remote_size(inter, &others);
    MPI_Comm_rank(inter, &me);
    if (me < others) {
        MPI_Sendrecv(&rank, 1, MPI_INT, me, 3, &got, 1, MPI_INT, me, 3, inter,
                     MPI_STATUS_IGNORE);
        CHECK(got == (rank ^ 1));
    }
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    ring_and_free(merged);
    MPI_Comm_free(&inter);
    ring_and_free(half);
}

/* Requests outlive the handle of their communicator. */
static void freed_in_use(void)
{
    static char out[300000], in[300000];
    MPI_Comm comm;
    MPI_Request requests[2];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int l = 1; l < 12; l++) {
        int n = lengths[l] <= 300000 ? lengths[l] : 300000;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        fill(out, (size_t)n, (unsigned)rank);
        MPI_Isend(out, n, MPI_BYTE, right, 1, comm, &requests[0]);
        MPI_Irecv(in, n, MPI_BYTE, left, 1, comm, &requests[1]);
        MPI_Comm_free(&comm);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        ring(comm);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(filled(in, (size_t)n, (unsigned)left));
        MPI_Comm_disconnect(&comm);
    }
}

/* And persistent ones can be started after it is gone; other things then lie
 * where something of it lay. */
static void freed_persistent(void)
{
    enum { BLOCKS = 200, ROUNDS = 50 };
    static char *blocks[BLOCKS];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    int out, in;
    MPI_Comm comm;
    MPI_Request requests[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Send_init(&out, 1, MPI_INT, right, 1, comm, &requests[0]);
    MPI_Recv_init(&in, 1, MPI_INT, left, 1, comm, &requests[1]);
    MPI_Comm_free(&comm);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)(8 + 16 * i));
        memset(blocks[i], 0x5a, (size_t)(8 + 16 * i));
    }
    for (int i = 0; i < ROUNDS; i++) {
        out = 1000 * i + rank;
        in = -1;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(in == 1000 * i + left);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_free(&comm);
    out = rank;
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(in == left);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

static int ring_when_freed(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key;
    (void)value;
    (void)extra;
    ring(comm);
    return MPI_SUCCESS;
}

/* What is called for its attributes while it is freed may still use it. */
static void used_when_freed(void)
{
    int key, value = 0;
    MPI_Comm comm;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, ring_when_freed, &key, NULL);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_attr(comm, key, &value);
        ring_and_free(comm);
    }
    MPI_Comm_free_keyval(&key);
}

static MPI_Comm outer;

static int receives_from_outer(MPI_Comm comm, int key, void *value, void *extra)
{
    int got = -1, left = (rank + size - 1) % size;
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    MPI_Recv(&got, 1, MPI_INT, left, 3, outer, MPI_STATUS_IGNORE);
    CHECK(got == left);
    return MPI_SUCCESS;
}

static int sends_and_frees(MPI_Comm comm, int key, void *inner, void *extra)
{
    MPI_Request request;
    (void)key;
    (void)extra;
    outer = comm;
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 3, comm, &request);
    MPI_Comm_free((MPI_Comm *)inner);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}

/* One is freed while another one is, and its callback uses that. */
static void freed_inside(void)
{
    int outer_key, inner_key, value = 0;
    MPI_Comm comm, inner;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sends_and_frees, &outer_key,
                           NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, receives_from_outer,
                           &inner_key, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &inner);
    MPI_Comm_set_attr(comm, outer_key, &inner);
    MPI_Comm_set_attr(inner, inner_key, &value);
    MPI_Comm_free(&comm);
    MPI_Comm_free_keyval(&inner_key);
    MPI_Comm_free_keyval(&outer_key);
}

int main(int argc, char **argv)
{
    MPI_Comm comm, again;
    begin(&argc, &argv);
    ring(MPI_COMM_WORLD);
    ring(MPI_COMM_SELF);
    for (int i = 0; i < 30; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &again);
        ring(comm);
        ring_and_free(again);
        ring_and_free(comm);
        MPI_Comm_split(MPI_COMM_WORLD,
                       rank % 3 == 2 ? MPI_UNDEFINED : rank % 3, -rank, &comm);
        ring_and_free(comm);
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank,
                            MPI_INFO_NULL, &comm);
        ring_and_free(comm);
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        ring_and_free(comm);
    }
    topologies();
    groups();
    not_ours();
    freed_in_use();
    freed_persistent();
    used_when_freed();
    freed_inside();
    ring(MPI_COMM_WORLD);
    return end();
}
