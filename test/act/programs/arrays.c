/* arrays.c: requests that the tool carries and requests of the library (of a
 * nonblocking collective, and of a communicator made by MPI_Comm_idup) in one
 * array, with null and inactive ones between them. Two ranks. */
#include "program.h"

enum { EACH = 4, ALL = 2 * EACH + 3 };

static MPI_Comm native;
static int in[2][EACH], out[2][EACH];
static MPI_Request idle;

/* i even: in MPI_COMM_WORLD, odd: in the library's communicator. */
static int start(MPI_Request *requests, int round)
{
    int other = 1 - rank, n = 0;
    for (int i = 0; i < EACH; i++) {
        for (int k = 0; k < 2; k++) {
            MPI_Comm comm = k == 0 ? MPI_COMM_WORLD : native;
            out[k][i] = 1000 * round + 10 * i + k;
            in[k][i] = -1;
            MPI_Irecv(&in[k][i], 1, MPI_INT, other, i, comm, &requests[n++]);
        }
    }
    requests[n++] = MPI_REQUEST_NULL;
    requests[n++] = idle;
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[n++]);
    return n;
}

static void answer(void)
{
    for (int i = EACH - 1; i >= 0; i--) {
        for (int k = 0; k < 2; k++) {
            MPI_Send(&out[k][i], 1, MPI_INT, 1 - rank, i,
                     k == 0 ? MPI_COMM_WORLD : native);
        }
    }
}

static void received(int round)
{
    for (int i = 0; i < EACH; i++) {
        for (int k = 0; k < 2; k++) {
            CHECK(in[k][i] == 1000 * round + 10 * i + k);
        }
    }
}

static void check_one(int index, const MPI_Status *status)
{
    int count = -1;
    if (index >= 2 * EACH) {
        CHECK(index == ALL - 1); /* of the collective */
        return;
    }
    MPI_Get_count(status, MPI_INT, &count);
    CHECK(count == 1 && status->MPI_SOURCE == 1 - rank &&
          status->MPI_TAG == index / 2);
}

static void all_at_once(int round, int test, int ignore)
{
    MPI_Request requests[ALL];
    MPI_Status statuses[ALL];
    int n = start(requests, round), flag = 0;
    answer();
    MPI_Status *out_ = ignore ? MPI_STATUSES_IGNORE : statuses;
    if (!test) {
        MPI_Waitall(n, requests, out_);
    }
    while (test && !flag) {
        MPI_Testall(n, requests, &flag, out_);
    }
    for (int i = 0; i < n; i++) {
        CHECK(requests[i] == (i == 2 * EACH + 1 ? idle : MPI_REQUEST_NULL));
        if (!ignore && i < 2 * EACH) {
            check_one(i, &statuses[i]);
        }
    }
    received(round);
}

static void one_at_a_time(int round, int test)
{
    MPI_Request requests[ALL];
    MPI_Status status;
    int n = start(requests, round), index, flag, seen = 0;
    answer();
    for (int i = 0; i < 2 * EACH + 1; i++) {
        flag = !test;
        if (!test) {
            MPI_Waitany(n, requests, &index, &status);
        }
        while (!flag) {
            MPI_Testany(n, requests, &index, &flag, &status);
        }
        CHECK(index >= 0 && index < n && (seen & (1 << index)) == 0);
        CHECK(requests[index] == MPI_REQUEST_NULL);
        seen |= 1 << index;
        check_one(index, &status);
    }
    if (test) {
        MPI_Testany(n, requests, &index, &flag, &status);
        CHECK(flag && index == MPI_UNDEFINED);
    } else {
        MPI_Waitany(n, requests, &index, &status);
        CHECK(index == MPI_UNDEFINED);
    }
    received(round);
}

static void some_at_a_time(int round, int test)
{
    MPI_Request requests[ALL];
    MPI_Status statuses[ALL];
    int n = start(requests, round), indices[ALL], some, seen = 0, left;
    answer();
    for (left = 2 * EACH + 1; left > 0; left -= some) {
        if (test) {
            MPI_Testsome(n, requests, &some, indices, statuses);
        } else {
            MPI_Waitsome(n, requests, &some, indices, statuses);
            CHECK(some > 0);
        }
        for (int i = 0; i < some; i++) {
            CHECK((seen & (1 << indices[i])) == 0);
            seen |= 1 << indices[i];
            check_one(indices[i], &statuses[i]);
        }
    }
    if (test) {
        MPI_Testsome(n, requests, &some, indices, statuses);
    } else {
        MPI_Waitsome(n, requests, &some, indices, statuses);
    }
    CHECK(some == MPI_UNDEFINED);
    received(round);
}

/* Nothing is taken by a Testall that finds one missing. */
static void nothing_taken(void)
{
    MPI_Request requests[3];
    int flag = 1, a = -1, b = -1, c = -1, value = 7;
    if (rank == 0) {
        MPI_Irecv(&a, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&b, 1, MPI_INT, 1, 2, native, &requests[1]);
        MPI_Irecv(&c, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &requests[2]);
        MPI_Recv(NULL, 0, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 100; i++) {
            MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
            CHECK(!flag && requests[0] != MPI_REQUEST_NULL);
        }
        MPI_Request_get_status(requests[2], &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        flag = 0;
        while (!flag) {
            MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
        }
        CHECK(requests[0] != MPI_REQUEST_NULL && a == 7);
        MPI_Send(NULL, 0, MPI_INT, 1, 5, MPI_COMM_WORLD);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        CHECK(a == 7 && b == 7 && c == 7);
    } else {
        MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Send(&value, 1, MPI_INT, 0, 2, native);
        MPI_Send(NULL, 0, MPI_INT, 0, 4, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    }
}

static int queries;

static int query(void *error, MPI_Status *status)
{
    queries++;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 5;
    status->MPI_TAG = 6;
    return *(int *)error;
}

static int freed(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int cancelled(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

/* A generalized request that is done among some that are not yet, for many a turn: it is
 * asked once, and what it says stays, also where that is an error. */
static void generalized(int error)
{
    enum { ASKED, THEIRS, OURS, THREE };
    MPI_Request requests[THREE];
    MPI_Status statuses[THREE];
    int got[THREE] = {0}, value = 9, count = 0, rc;
    if (rank == 1) {
        usleep(20000);
        MPI_Send(&value, 1, MPI_INT, 0, THEIRS, native);
        MPI_Send(&value, 1, MPI_INT, 0, OURS, MPI_COMM_WORLD);
        return;
    }
    MPI_Grequest_start(query, freed, cancelled, &error, &requests[ASKED]);
    MPI_Grequest_complete(requests[ASKED]);
    MPI_Irecv(&got[THEIRS], 1, MPI_INT, 1, THEIRS, native, &requests[THEIRS]);
    MPI_Irecv(&got[OURS], 1, MPI_INT, 1, OURS, MPI_COMM_WORLD, &requests[OURS]);
    queries = 0;
    rc = MPI_Waitall(THREE, requests, statuses);
    CHECK(queries == 1);
    if (error == MPI_SUCCESS) {
        CHECK(rc == MPI_SUCCESS);
        MPI_Get_count(&statuses[ASKED], MPI_INT, &count);
        CHECK(count == 3 && statuses[ASKED].MPI_SOURCE == 5 && statuses[ASKED].MPI_TAG == 6);
        CHECK(statuses[THEIRS].MPI_TAG == THEIRS && statuses[OURS].MPI_TAG == OURS);
    } else {
        CHECK(class_of(rc) == MPI_ERR_IN_STATUS);
        CHECK(class_of(statuses[ASKED].MPI_ERROR) == class_of(error));
        CHECK(requests[ASKED] == MPI_REQUEST_NULL);
        for (int i = THEIRS; i <= OURS; i++) {
            CHECK(class_of(statuses[i].MPI_ERROR) == (requests[i] == MPI_REQUEST_NULL
                                                          ? MPI_SUCCESS
                                                          : MPI_ERR_PENDING));
        }
        CHECK(MPI_Waitall(THREE, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    }
    CHECK(got[THEIRS] == 9 && got[OURS] == 9);
}

int main(int argc, char **argv)
{
    MPI_Request making;
    int unused, flag, index, some;
    MPI_Status status;
    begin(&argc, &argv);
    MPI_Comm_idup(MPI_COMM_WORLD, &native, &making);
    MPI_Wait(&making, MPI_STATUS_IGNORE);
    MPI_Recv_init(&unused, 1, MPI_INT, 1 - rank, 99, MPI_COMM_WORLD, &idle);
    for (int round = 0; round < 20; round++) {
        all_at_once(round, round & 1, round & 2);
        one_at_a_time(round, round & 1);
        some_at_a_time(round, round & 1);
    }
    nothing_taken();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    generalized(MPI_SUCCESS);
    generalized(MPI_ERR_OTHER);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Request none[3] = {MPI_REQUEST_NULL, idle, MPI_REQUEST_NULL};
    MPI_Waitany(3, none, &index, &status);
    CHECK(index == MPI_UNDEFINED);
    MPI_Testall(3, none, &flag, MPI_STATUSES_IGNORE);
    CHECK(flag);
    MPI_Waitsome(3, none, &some, &index, MPI_STATUSES_IGNORE);
    CHECK(some == MPI_UNDEFINED);
    MPI_Wait(&none[0], &status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE);
    MPI_Request_free(&idle);
    MPI_Comm_free(&native);
    return end();
}
