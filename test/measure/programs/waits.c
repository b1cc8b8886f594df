/* waits.c SCENARIO K DELAY_US: messages whose one end comes late by a known
 * time.
 *
 *   ledger sent TO ENTER EXIT BLOCKING          in the order of sending
 *   ledger got FROM POST ENTER EXIT CALL        in the order of matching; CALL
 *                                               numbers the completing calls
 *
 * ENTER and EXIT are the moments around the call that sends, or completes. */
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include "ledger.h"

static int rank, size, calls;
static int64_t late_ns;
static char big[1 << 20];

static void meet(void)
{
    for (int d = 1; d < size; d *= 2) {
        char out = 1, in;
        MPI_Sendrecv(&out, 1, MPI_CHAR, (rank + d) % size, 99, &in, 1, MPI_CHAR,
                     (rank - d + size) % size, 99, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
}

static void sent(int to, int64_t enter, int64_t leave, int blocking)
{
    ledger("sent %d %" PRId64 " %" PRId64 " %d", to, enter, leave, blocking);
}

static void got(int from, int64_t post, int64_t enter, int64_t leave)
{
    ledger("got %d %" PRId64 " %" PRId64 " %" PRId64 " %d", from, post, enter,
           leave, calls);
}

static void send_to(int to, int bytes, int64_t late)
{
    pass(late);
    int64_t enter = now();
    MPI_Send(big, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
    sent(to, enter, now(), 1);
}

static void receive(int from, int tag, int bytes, int64_t late)
{
    MPI_Status status;
    pass(late);
    int64_t enter = now();
    MPI_Recv(big, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status);
    int64_t leave = now();
    calls++;
    got(status.MPI_SOURCE, enter, enter, leave);
}

static void late_sender(void)
{
    if (rank == 0) {
        send_to(1, 8, late_ns);
    } else {
        receive(0, 0, 8, 0);
    }
}

static void rendezvous(void)
{
    if (rank == 0) {
        send_to(1, sizeof(big), 0);
    } else {
        receive(0, 0, sizeof(big), late_ns);
    }
}

static void ssend(void)
{
    if (rank == 0) {
        int64_t enter = now();
        MPI_Ssend(big, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        sent(1, enter, now(), 1);
    } else {
        receive(0, 0, 8, late_ns);
    }
}

/* The receive is posted before the message is sent, and waited for after. */
static void early_receiver(void)
{
    MPI_Request request;
    if (rank == 0) {
        send_to(1, 8, late_ns);
        return;
    }
    int64_t post = now();
    MPI_Irecv(big, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
    pass(2 * late_ns);
    int64_t enter = now();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int64_t leave = now();
    calls++;
    got(0, post, enter, leave);
}

/* Rank 2 takes what comes; rank 0 is late, rank 1 twice as late. */
static void wildcard(void)
{
    if (rank < 2) {
        send_to(2, 8, late_ns * (rank + 1));
        return;
    }
    receive(MPI_ANY_SOURCE, MPI_ANY_TAG, 8, 0);
    receive(MPI_ANY_SOURCE, 0, 8, 0);
}

/* Rank 2 waits for both at once: the later one counts. */
static void waitall(void)
{
    if (rank < 2) {
        send_to(2, 8, late_ns * (rank + 1));
        return;
    }
    MPI_Request request[2];
    int64_t post[2];
    for (int i = 0; i < 2; i++) {
        post[i] = now();
        MPI_Irecv(big + 64 * i, 8, MPI_BYTE, i, 0, MPI_COMM_WORLD, &request[i]);
    }
    int64_t enter = now();
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    int64_t leave = now();
    calls++;
    got(0, post[0], enter, leave);
    got(1, post[1], enter, leave);
}

/* Two messages of one stream; the first is taken out of it by a matched probe and
 * received after the second. The second is late. */
static void matched(void)
{
    static int turns;
    MPI_Message message;
    MPI_Request request;
    if (rank == 0) {
        send_to(1, 8, 0);
        send_to(1, 16, late_ns);
        return;
    }
    MPI_Mprobe(0, 0, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    int64_t enter = now();
    MPI_Recv(big, 16, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int64_t leave = now(), post = now(), wait = post;
    if (turns++ % 2 == 0) {
        MPI_Mrecv(big, 8, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    } else {
        MPI_Imrecv(big, 8, MPI_BYTE, &message, &request);
        pass(late_ns / 2);
        wait = now();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    calls++;
    got(0, post, wait, now());
    calls++;
    got(0, enter, enter, leave);
}

/* As many messages as there may be, none late. */
static void flood(void)
{
    if (rank == 0) {
        send_to(1, 8, 0);
    } else {
        receive(0, 0, 8, 0);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        int met;
    } scenarios[] = {{"late-sender", late_sender, 1},
                     {"rendezvous", rendezvous, 1},
                     {"ssend", ssend, 1},
                     {"early-receiver", early_receiver, 1},
                     {"wildcard", wildcard, 1},
                     {"waitall", waitall, 1},
                     {"matched", matched, 1},
                     {"flood", flood, 0},
                     {"killed", flood, 0}};
    if (argc != 4) {
        return 2;
    }
    int k_max = atoi(argv[2]);
    late_ns = atoll(argv[3]) * 1000;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ledger_open(rank);
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        for (int k = 0; k < k_max && strcmp(argv[1], scenarios[i].name) == 0;
             k++) {
            if (scenarios[i].met) {
                meet();
            }
            scenarios[i].run();
        }
    }
    ledger_close();
    if (strcmp(argv[1], "killed") == 0) {
        if (rank == 0) {
            kill(getpid(), SIGKILL);
        }
        pause();
    }
    MPI_Finalize();
    return 0;
}
