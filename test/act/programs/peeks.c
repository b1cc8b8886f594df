/* peeks.c: MPI_Request_get_status, and since MPI 4.1 those of several requests:
 * what is received by then is there, and requests remain until they are tested.
 * Among them requests of the library, null and inactive ones. Two ranks. */
#include "program.h"

enum { BYTES = 100000, OURS = 3, ALL = OURS + 3 };

static char out[OURS][BYTES], in[OURS][BYTES];
static MPI_Request requests[ALL], idle;
static MPI_Comm native;

static void check(int i, const MPI_Status *status)
{
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (i < OURS) {
        CHECK(count == BYTES - i && status->MPI_SOURCE == 1 - rank &&
              status->MPI_TAG == i);
        CHECK(filled(in[i], (size_t)count, (unsigned)(10 * rank + i)));
    } else if (i == OURS) { /* of the library */
        CHECK(count == 4 && status->MPI_SOURCE == 1 - rank &&
              status->MPI_TAG == 9);
    } else {
        CHECK(count == 0 && status->MPI_SOURCE == MPI_ANY_SOURCE &&
              status->MPI_TAG == MPI_ANY_TAG);
    }
}

static void start(int *native_in)
{
    for (int i = 0; i < OURS; i++) {
        memset(in[i], 0, BYTES);
        fill(out[i], BYTES, (unsigned)(10 * (1 - rank) + i));
        MPI_Irecv(in[i], BYTES, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD,
                  &requests[i]);
    }
    MPI_Irecv(native_in, 1, MPI_INT, 1 - rank, 9, native, &requests[OURS]);
    requests[OURS + 1] = MPI_REQUEST_NULL;
    requests[OURS + 2] = idle;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void send(int i)
{
    int number = 42;
    if (i < OURS) {
        MPI_Send(out[i], BYTES - i, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD);
    } else {
        MPI_Send(&number, 1, MPI_INT, 1 - rank, 9, native);
    }
}

static void finish(const int *native_in)
{
    MPI_Request before[ALL];
    MPI_Status statuses[ALL];
    memcpy(before, requests, sizeof(before));
    MPI_Waitall(ALL, requests, statuses);
    CHECK(*native_in == 42 && requests[OURS + 2] == idle);
    for (int i = 0; i < ALL; i++) {
        check(i, &statuses[i]);
        CHECK(i > OURS || before[i] != MPI_REQUEST_NULL);
    }
}

static void each(void)
{
    int native_in = 0, flag;
    MPI_Status status;
    start(&native_in);
    for (int i = 0; i <= OURS; i++) {
        send(i);
    }
    for (int i = 0; i < ALL; i++) {
        if (i == OURS + 1 && 10 * MPI_VERSION + MPI_SUBVERSION < 41) {
            continue; /* MPI_REQUEST_NULL is allowed since 4.1 */
        }
        do {
            MPI_Request_get_status(requests[i], &flag, &status);
        } while (!flag);
        check(i, &status);
        MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
        CHECK(flag);
    }
    finish(&native_in);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)

static void all_of_them(int ignore)
{
    int native_in = 0, flag = 1;
    MPI_Status statuses[ALL];
    start(&native_in);
    MPI_Request_get_status_all(ALL, requests, &flag, statuses);
    CHECK(!flag);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i <= OURS; i++) {
        send(i);
    }
    do {
        MPI_Request_get_status_all(ALL, requests, &flag,
                                   ignore ? MPI_STATUSES_IGNORE : statuses);
    } while (!flag);
    for (int i = 0; !ignore && i < ALL; i++) {
        check(i, &statuses[i]);
    }
    MPI_Request_get_status_all(OURS, requests, &flag, statuses); /* only ours */
    CHECK(flag);
    for (int i = 0; i < OURS; i++) {
        check(i, &statuses[i]);
    }
    finish(&native_in);
}

static void any_of_them(int which)
{
    int native_in = 0, flag = 1, index = 0;
    MPI_Status status;
    start(&native_in);
    MPI_Request_get_status_any(ALL, requests, &index, &flag, &status);
    CHECK(!flag);
    MPI_Barrier(MPI_COMM_WORLD);
    send(which);
    do {
        MPI_Request_get_status_any(ALL, requests, &index, &flag, &status);
    } while (!flag);
    CHECK(index == which);
    check(which, &status);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i <= OURS; i++) {
        if (i != which) {
            send(i);
        }
    }
    finish(&native_in);
    MPI_Request_get_status_any(ALL, requests, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED);
}

static void some_of_them(void)
{
    int native_in = 0, n = -1, indices[ALL], seen;
    MPI_Status statuses[ALL];
    start(&native_in);
    MPI_Request_get_status_some(ALL, requests, &n, indices, statuses);
    CHECK(n == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i <= OURS; i++) {
        send(i);
    }
    do { /* they stay, so in the end it is all of them; MPICH 4.2 makes no
          * progress there once it has found one */
        int flag;
        MPI_Iprobe(1 - rank, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        MPI_Request_get_status_some(ALL, requests, &n, indices, statuses);
        seen = 0;
        for (int i = 0; i < n; i++) {
            check(indices[i], &statuses[i]);
            seen |= 1 << indices[i];
        }
    } while (n < OURS + 1);
    CHECK(n == OURS + 1 && seen == (1 << (OURS + 1)) - 1);
    finish(&native_in);
    MPI_Request_get_status_some(ALL, requests, &n, indices, statuses);
    CHECK(n == MPI_UNDEFINED);
}

#else

static void all_of_them(int ignore) { (void)ignore; }
static void any_of_them(int which) { (void)which; }
static void some_of_them(void) {}

#endif

int main(int argc, char **argv)
{
    MPI_Request request;
    begin(&argc, &argv);
    MPI_Comm_idup(MPI_COMM_WORLD, &native, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Recv_init(in[0], 1, MPI_BYTE, 1 - rank, 8, MPI_COMM_WORLD, &idle);
    for (int round = 0; round < 20; round++) {
        each();
        all_of_them(round % 2);
        any_of_them(round % (OURS + 1));
        some_of_them();
    }
    MPI_Request_free(&idle);
    MPI_Comm_free(&native);
    return end();
}
