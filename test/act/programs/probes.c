/* probes.c: MPI_Probe, MPI_Iprobe, MPI_Mprobe, MPI_Improbe, and what receives a
 * matched message; MPI_Cancel of receives and sends. Two ranks. */
#include "program.h"

static char out[LONGEST], in[LONGEST];

static void found(const MPI_Status *status, int length, int tag)
{
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    CHECK(count == length && status->MPI_SOURCE == 1 &&
          status->MPI_TAG == tag);
}

static void probed(int length, int how)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int flag = 0, source = how & 1 ? MPI_ANY_SOURCE : 1;
    int tag = how & 1 ? MPI_ANY_TAG : 8;
    memset(in, 0, sizeof(in));
    switch (how / 2) {
    case 0:
        MPI_Probe(source, tag, MPI_COMM_WORLD, &status);
        found(&status, length, 8);
        MPI_Recv(in, length, MPI_BYTE, 1, 8, MPI_COMM_WORLD, &status);
        break;
    case 1:
        while (!flag) {
            MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, &status);
        }
        found(&status, length, 8);
        MPI_Recv(in, LONGEST, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
        break;
    case 2:
        MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &status);
        found(&status, length, 8);
        MPI_Mrecv(in, length, MPI_BYTE, &message, &status);
        CHECK(message == MPI_MESSAGE_NULL);
        break;
    case 3:
        while (!flag) {
            MPI_Improbe(source, tag, MPI_COMM_WORLD, &flag, &message, &status);
        }
        found(&status, length, 8);
        MPI_Imrecv(in, LONGEST, MPI_BYTE, &message, &request);
        CHECK(message == MPI_MESSAGE_NULL);
        MPI_Wait(&request, &status);
        break;
    }
    found(&status, length, 8);
    CHECK(filled(in, (size_t)length, (unsigned)how));
}

/* A message that was matched is out of the queue: the second is found next, and
 * both may be received in any order. */
static void two_matched(void)
{
    MPI_Message first, second;
    int a = -1, b = -1, flag;
    MPI_Mprobe(1, 3, MPI_COMM_WORLD, &first, MPI_STATUS_IGNORE);
    MPI_Mprobe(1, 3, MPI_COMM_WORLD, &second, MPI_STATUS_IGNORE);
    CHECK(first != second);
    CHECK(MPI_Message_f2c(MPI_Message_c2f(first)) == first);
    MPI_Iprobe(1, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Mrecv(&b, 1, MPI_INT, &second, MPI_STATUS_IGNORE);
    MPI_Mrecv(&a, 1, MPI_INT, &first, MPI_STATUS_IGNORE);
    CHECK(a == 1 && b == 2);
}

static void cancelled_receive(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag = 0, value = -1;
    MPI_Irecv(&value, 1, MPI_INT, 1, 77, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag && request == MPI_REQUEST_NULL && value == -1);
    MPI_Recv_init(&value, 1, MPI_INT, 1, 77, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag && request != MPI_REQUEST_NULL);
    MPI_Start(&request); /* and it can be used again */
    MPI_Send(NULL, 0, MPI_INT, 1, 78, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag && value == 5);
    MPI_Request_free(&request);
    /* one that is matched is not cancelled */
    MPI_Irecv(&value, 1, MPI_INT, 1, 79, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_INT, 1, 80, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 1, 81, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag && value == 6);
}

enum { INACTIVE = 200 };

/* Persistent receives that are done are cancelled: Open MPI does nothing, MPICH says
 * that they are inactive. */
static void cancelled_inactive(void)
{
    MPI_Request requests[INACTIVE];
    int values[INACTIVE];
    for (int i = 0; i < INACTIVE; i++) {
        MPI_Recv_init(&values[i], 1, MPI_INT, 1, 100 + i, MPI_COMM_WORLD,
                      &requests[i]);
    }
    MPI_Startall(INACTIVE, requests);
    MPI_Send(NULL, 0, MPI_INT, 1, 98, MPI_COMM_WORLD);
    MPI_Waitall(INACTIVE, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < INACTIVE; i++) {
        int class = MPI_Cancel(&requests[i]);
        MPI_Error_class(class, &class);
        CHECK(class == MPI_SUCCESS || class == MPI_ERR_REQUEST);
        CHECK(values[i] == i);
        MPI_Request_free(&requests[i]);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Its communicator is freed between the probe and the receive. */
static void freed_communicator(void)
{
    MPI_Comm comms[3];
    MPI_Message messages[3];
    MPI_Request request;
    int values[3] = {0};
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        if (rank == 1) {
            MPI_Send(&i, 1, MPI_INT, 0, 5, comms[i]);
        } else {
            MPI_Mprobe(1, 5, comms[i], &messages[i], MPI_STATUS_IGNORE);
        }
        MPI_Comm_free(&comms[i]);
    }
    if (rank == 0) {
        MPI_Mrecv(&values[1], 1, MPI_INT, &messages[1], MPI_STATUS_IGNORE);
        MPI_Imrecv(&values[2], 1, MPI_INT, &messages[2], &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Mrecv(&values[0], 1, MPI_INT, &messages[0], MPI_STATUS_IGNORE);
        CHECK(values[0] == 0 && values[1] == 1 && values[2] == 2);
    }
}

/* A receive that is freed while active still receives. */
static void freed(void)
{
    MPI_Request request;
    static volatile int value = -1;
    MPI_Irecv((void *)&value, 1, MPI_INT, 1, 90, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
    MPI_Send(NULL, 0, MPI_INT, 1, 91, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 1, 92, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(value == 9);
}

/* A send is cancelled and not received, or received. */
static void cancelled_send(int length)
{
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0, flag = 0;
    if (rank == 1) {
        fill(out, (size_t)length, 7);
        MPI_Isend(out, length, MPI_BYTE, 0, 95, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        MPI_Send(&cancelled, 1, MPI_INT, 0, 96, MPI_COMM_WORLD);
        return;
    }
    memset(in, 0, (size_t)length);
    MPI_Irecv(in, length, MPI_BYTE, 1, 95, MPI_COMM_WORLD, &request);
    MPI_Recv(&cancelled, 1, MPI_INT, 1, 96, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (cancelled) {
        MPI_Cancel(&request);
    }
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag == cancelled && filled(in, (size_t)length, 7) == !cancelled);
}

static void receiver(void)
{
    for (int l = 0; l < LENGTHS; l++) {
        for (int how = 0; how < 8; how++) {
            probed(lengths[l], how);
        }
    }
    two_matched();
    cancelled_receive();
    freed();
    cancelled_inactive();
}

static void sender(void)
{
    MPI_Request request;
    int one = 1, two = 2, five = 5, six = 6, nine = 9;
    for (int l = 0; l < LENGTHS; l++) {
        for (int how = 0; how < 8; how++) {
            fill(out, (size_t)lengths[l], (unsigned)how);
            MPI_Send(out, lengths[l], MPI_BYTE, 0, 8, MPI_COMM_WORLD);
        }
    }
    MPI_Send(&one, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    MPI_Send(&two, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 0, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&five, 1, MPI_INT, 0, 77, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 0, 80, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&six, 1, MPI_INT, 0, 79, MPI_COMM_WORLD);
    MPI_Send(NULL, 0, MPI_INT, 0, 81, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 0, 91, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend(&nine, 1, MPI_INT, 0, 90, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Send(NULL, 0, MPI_INT, 0, 92, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 0, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < INACTIVE; i++) {
        MPI_Send(&i, 1, MPI_INT, 0, 100 + i, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (rank == 0) {
        receiver();
    } else {
        sender();
    }
    for (int l = 1; l < LENGTHS; l++) {
        cancelled_send(lengths[l]);
    }
    freed_communicator();
    MPI_Message message;
    MPI_Status status;
    int flag = 0;
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC &&
          status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status);
    CHECK(flag && status.MPI_SOURCE == MPI_PROC_NULL);
    return end();
}
