/* status.c: what may be known before and after the end of a request. */
#include "program.h"

enum { INTS = 16 };

/* A type that only the library can unpack: every other pair of ints. */
static MPI_Datatype pairs(void)
{
    int sizes[1] = {INTS}, how[1] = {MPI_DISTRIBUTE_CYCLIC}, args[1] = {2};
    int grid[1] = {2};
    MPI_Datatype type;
    MPI_Type_create_darray(2, 0, 1, sizes, how, args, grid, MPI_ORDER_C,
                           MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

static int wrong_pairs(const int *numbers)
{
    int wrong = 0;
    for (int i = 0; i < INTS; i++) {
        wrong += numbers[i] != ((i / 2) % 2 == 0 ? i : -1);
    }
    return wrong;
}

/* Once MPI_Request_get_status has said so, the message is in the buffer. */
static void there_when_said(void)
{
    MPI_Datatype type = pairs();
    int numbers[INTS], flag = 0, count = -1;
    MPI_Status status;
    MPI_Request request;
    for (int i = 0; i < INTS; i++) {
        numbers[i] = rank == 0 ? i : -1;
    }
    if (rank == 0) {
        MPI_Send(numbers, 1, type, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Irecv(numbers, 1, type, 0, 0, MPI_COMM_WORLD, &request);
        while (!flag) {
            MPI_Request_get_status(request, &flag, &status);
        }
        CHECK(wrong_pairs(numbers) == 0);
        MPI_Get_count(&status, type, &count);
        CHECK(count == 1);
        numbers[0] = 77; /* it is the application's now */
        MPI_Request_get_status(request, &flag, &status);
        CHECK(flag && request != MPI_REQUEST_NULL);
        MPI_Wait(&request, &status);
        CHECK(numbers[0] == 77);
        numbers[0] = 0;
        CHECK(wrong_pairs(numbers) == 0);
        MPI_Get_count(&status, type, &count);
        CHECK(count == 1 && request == MPI_REQUEST_NULL);
    }
    MPI_Type_free(&type);
}

/* A receive that was freed is known to be done by a message behind it. */
static void there_when_known(void)
{
    MPI_Datatype type = pairs();
    int numbers[INTS], number = 0;
    MPI_Request request;
    for (int i = 0; i < INTS; i++) {
        numbers[i] = rank == 0 ? i : -1;
    }
    if (rank == 1) {
        MPI_Irecv(numbers, 1, type, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send(numbers, 1, type, 1, 2, MPI_COMM_WORLD);
        MPI_Send(&number, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&number, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(wrong_pairs(numbers) == 0);
    }
    MPI_Type_free(&type);
}

/* A receive for which there is no memory leaves the matched message where it is;
 * where none is needed, it receives it. */
static void no_memory(void)
{
    MPI_Datatype type = pairs(), many;
    MPI_Message message;
    MPI_Request request;
    int numbers[INTS];
    MPI_Type_contiguous(1 << 20, type, &many);
    MPI_Type_commit(&many);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < INTS; i++) {
            numbers[i] = rank == 0 ? i : -1;
        }
        if (rank == 0) {
            MPI_Send(numbers, 1, type, 1, 3, MPI_COMM_WORLD);
            continue;
        }
        int error;
        MPI_Mprobe(0, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        if (round == 0) {
            error = MPI_Mrecv(numbers, 1 << 23, many, &message,
                              MPI_STATUS_IGNORE);
            CHECK((error == MPI_SUCCESS) == (message == MPI_MESSAGE_NULL));
            if (error != MPI_SUCCESS) {
                CHECK(MPI_Mrecv(numbers, 1, type, &message,
                                MPI_STATUS_IGNORE) == MPI_SUCCESS);
            }
        } else {
            error = MPI_Imrecv(numbers, 1 << 23, many, &message, &request);
            CHECK((error == MPI_SUCCESS) == (message == MPI_MESSAGE_NULL));
            if (error != MPI_SUCCESS) {
                CHECK(MPI_Imrecv(numbers, 1, type, &message, &request) ==
                      MPI_SUCCESS);
            }
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        CHECK(message == MPI_MESSAGE_NULL && wrong_pairs(numbers) == 0);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Type_free(&many);
    MPI_Type_free(&type);
}

/* The error of a null request's status is what the library makes of it: left as
 * it was, or success, with requests of any kind beside it. */
static void error_field(void)
{
    enum { ENTRIES = 3, UNTOUCHED = 12345 };
    int in, out = rank, none = UNTOUCHED;
    MPI_Status statuses[ENTRIES];
    MPI_Request requests[ENTRIES] = {MPI_REQUEST_NULL};
    statuses[0].MPI_ERROR = UNTOUCHED;
    MPI_Waitall(1, requests, statuses);
    none = statuses[0].MPI_ERROR;
    for (int i = 0; i < ENTRIES; i++) {
        statuses[i].MPI_ERROR = UNTOUCHED;
        requests[i] = MPI_REQUEST_NULL;
    }
    MPI_Irecv(&in, 1, MPI_INT, rank ^ 1, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&out, 1, MPI_INT, rank ^ 1, 4, MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(ENTRIES, requests, statuses);
    CHECK(in == (rank ^ 1));
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS &&
          statuses[1].MPI_ERROR == none &&
          statuses[2].MPI_ERROR == MPI_SUCCESS);
}

/* NULL is no status where MPI_STATUS_IGNORE is something else. */
static void no_status(void)
{
    int in = -1, out = rank, flag = 0, peer = rank ^ 1;
    MPI_Request requests[2];
    if (MPI_STATUS_IGNORE == NULL) {
        return;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Irecv(&in, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&out, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &requests[1]);
    while (!flag) {
        MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
    }
#define REFUSED(call) CHECK(class_of(call) == MPI_ERR_ARG)
    REFUSED(MPI_Wait(&requests[0], NULL));
    REFUSED(MPI_Test(&requests[0], &flag, NULL));
    REFUSED(MPI_Request_get_status(requests[0], &flag, NULL));
    REFUSED(MPI_Waitall(2, requests, NULL));
    REFUSED(MPI_Testall(2, requests, &flag, NULL));
    REFUSED(MPI_Waitany(2, requests, &flag, NULL));
    REFUSED(MPI_Recv(&out, 1, MPI_INT, peer, 6, MPI_COMM_WORLD, NULL));
    REFUSED(MPI_Iprobe(peer, 6, MPI_COMM_WORLD, &flag, NULL));
    REFUSED(MPI_Sendrecv(&out, 1, MPI_INT, peer, 6, &out, 1, MPI_INT, peer, 6,
                         MPI_COMM_WORLD, NULL));
#undef REFUSED
    CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    CHECK(in == peer);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static int nothing(void *state)
{
    return MPI_SUCCESS;
}

static int empty(void *state, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int uncancelled(void *state, int complete)
{
    return MPI_SUCCESS;
}

/* A request of the library's that is done is found soon, though another kind
 * beside it always is done too. */
static void neither_starves(int by_test)
{
    enum { ENOUGH = 100 };
    MPI_Request requests[2];
    int number = 0, got, index = MPI_UNDEFINED, flag = 0, tries = 0;
    MPI_Grequest_start(empty, nothing, uncancelled, NULL, &requests[0]);
    MPI_Grequest_complete(requests[0]);
    while (index != 0 && tries++ < ENOUGH) {
        MPI_Isend(&number, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &requests[1]);
        MPI_Recv(&got, 1, MPI_INT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        if (by_test) {
            MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
        } else {
            MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        }
        if (requests[1] != MPI_REQUEST_NULL) {
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        }
    }
    CHECK(index == 0 && requests[0] == MPI_REQUEST_NULL);
}

/* What a status says that has the end of a send is left open by MPI, and programs
 * have found there what the library does: Open MPI says what was sent, MPICH leaves
 * what was there. */
static void said(const MPI_Status *status, int ints)
{
    int count = -1, cancelled = -1;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
#ifdef OPEN_MPI
    CHECK(status->MPI_SOURCE == rank && status->MPI_TAG == 9 && count == ints);
#else
    CHECK(status->MPI_SOURCE == 1234 && status->MPI_TAG == 5678 && count == 3);
#endif
    CHECK(!cancelled);
}

static void status_of_sends(int ints)
{
    static int numbers[1 << 16];
    MPI_Status status;
    MPI_Request request;
    if (rank == 1) {
        for (int i = 0; i < 4; i++) {
            MPI_Recv(numbers, ints, MPI_INT, 0, 9, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
        return;
    }
    for (int i = 0; i < 4; i++) {
        int flag = 0;
        memset(&status, 0, sizeof(status));
        status.MPI_SOURCE = 1234;
        status.MPI_TAG = 5678;
        MPI_Status_set_elements(&status, MPI_INT, 3);
        if (i < 3) {
            MPI_Issend(numbers, ints, MPI_INT, 1, 9, MPI_COMM_WORLD, &request);
        } else {
            MPI_Send_init(numbers, ints, MPI_INT, 1, 9, MPI_COMM_WORLD,
                          &request);
            MPI_Start(&request);
        }
        while (i == 1 && !flag) {
            MPI_Test(&request, &flag, &status);
        }
        if (i == 2) {
            MPI_Waitall(1, &request, &status);
        } else if (i != 1) {
            MPI_Wait(&request, &status);
        }
        said(&status, ints);
        if (i == 3) {
            MPI_Request_free(&request);
        }
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    status_of_sends(1);
    status_of_sends(1 << 16);
    there_when_said();
    there_when_known();
    no_memory();
    error_field();
    no_status();
    neither_starves(0);
    neither_starves(1);
    return end();
}
