/* overlap.c MODE K COMPUTE_US DELAY_US: requests with computation between start
 * and completion, the other side late by a known time.
 *
 *   ledger request NAME N WHOLE BEFORE BLOCKED     in ns, of all N
 *   ledger completing NS                           in all calls that complete
 *
 * WHOLE is from the return of the starting call to the return of the completing
 * one, BEFORE until that one was entered, BLOCKED the time inside it: of several
 * requests each has its even share. */
#include <mpi.h>

#include "ledger.h"

static int rank, k_max;
static int64_t compute_ns, delay_ns;
static char big[1 << 20];

static void meet(void)
{
    char out = 1, in;
    MPI_Sendrecv(&out, 1, MPI_CHAR, 1 - rank, 99, &in, 1, MPI_CHAR, 1 - rank,
                 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* inside is the time in the completing calls, counted once for each request,
 * share what is theirs of it. */
static void of_all(const char *name, int n, int64_t whole, int64_t inside,
                   int64_t share)
{
    ledger("request %s %d %" PRId64 " %" PRId64 " %" PRId64, name, n, whole,
           whole - inside, share);
}

/* A receive, the sender late. */
static void receive(void)
{
    int64_t whole = 0, blocked = 0;
    for (int k = 0; k < k_max; k++) {
        int message = k;
        meet();
        if (rank == 0) {
            pass(delay_ns);
            MPI_Send(&message, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            continue;
        }
        MPI_Request request;
        MPI_Irecv(&message, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        int64_t started = now();
        pass(compute_ns);
        int64_t wait = now();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        int64_t end = now();
        whole += end - started;
        blocked += end - wait;
    }
    if (rank == 1) {
        of_all("Irecv", k_max, whole, blocked, blocked);
    }
}

/* A send too large to be sent unasked, the receiver late. */
static void send(void)
{
    int64_t whole = 0, blocked = 0;
    for (int k = 0; k < k_max; k++) {
        meet();
        if (rank == 1) {
            pass(delay_ns);
            MPI_Recv(big, sizeof(big), MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            continue;
        }
        MPI_Request request;
        MPI_Isend(big, sizeof(big), MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
        int64_t started = now();
        pass(compute_ns);
        int64_t wait = now();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        int64_t end = now();
        whole += end - started;
        blocked += end - wait;
    }
    if (rank == 0) {
        of_all("Isend", k_max, whole, blocked, blocked);
    }
}

/* One place in the program for all that comes through here. */
__attribute__((noinline)) static void post(int *message, int tag,
                                           MPI_Request *request)
{
    MPI_Irecv(message, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, request);
}

/* Three receives from two places, completed by one call: two thirds of its time
 * belong to the first place, and none to requests without a peer, be they made
 * anew or persistent, nor to a persistent one that is not started. */
static void waitall(void)
{
    int64_t first = 0, second = 0, blocked = 0;
    MPI_Request request[9];
    int nothing;
    MPI_Recv_init(&nothing, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                  &request[7]);
    MPI_Recv_init(&nothing, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request[8]);
    for (int k = 0; k < k_max; k++) {
        int message[3] = {k, k, k};
        meet();
        if (rank == 0) {
            for (int i = 0; i < 3; i++) {
                pass(delay_ns / 3);
                MPI_Send(&message[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD);
            }
            continue;
        }
        int64_t started[3];
        MPI_Start(&request[7]);
        for (int i = 3; i < 6; i++) {
            MPI_Irecv(&nothing, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                      &request[i]);
        }
        MPI_Isend(&k, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                  &request[6]);
        for (int i = 0; i < 2; i++) {
            post(&message[i], i, &request[i]);
            started[i] = now();
        }
        MPI_Irecv(&message[2], 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &request[2]);
        started[2] = now();
        pass(compute_ns);
        int64_t wait = now();
        MPI_Waitall(9, request, MPI_STATUSES_IGNORE);
        int64_t end = now();
        first += 2 * end - started[0] - started[1];
        second += end - started[2];
        blocked += end - wait;
    }
    MPI_Request_free(&request[7]);
    MPI_Request_free(&request[8]);
    if (rank == 1) {
        of_all("Irecv", 2 * k_max, first, 2 * blocked, blocked * 2 / 3);
        of_all("Irecv", k_max, second, blocked, blocked / 3);
    }
}

/* A receive from a late sender beside sends that are complete at once, which have
 * one handle: by Waitall, by Waitsome. */
static void shared(void)
{
    enum { SENDS = 4 };
    int64_t blocked = 0;
    for (int k = 0; k < 2 * k_max; k++) {
        int message[SENDS], indices[SENDS + 1], done = 0;
        MPI_Request request[SENDS + 1];
        meet();
        if (rank == 0) {
            pass(delay_ns);
            MPI_Send(&k, 1, MPI_INT, 1, SENDS, MPI_COMM_WORLD);
            for (int i = 0; i < SENDS; i++) {
                MPI_Recv(&message[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            }
            continue;
        }
        for (int i = 0; i < SENDS; i++) {
            MPI_Isend(&k, 1, MPI_INT, 0, i, MPI_COMM_WORLD, &request[i]);
        }
        MPI_Irecv(message, 1, MPI_INT, 0, SENDS, MPI_COMM_WORLD,
                  &request[SENDS]);
        pass(compute_ns);
        int64_t wait = now();
        if (k % 2 == 0) {
            MPI_Waitall(SENDS + 1, request, MPI_STATUSES_IGNORE);
        }
        while (k % 2 != 0 && done != MPI_UNDEFINED) {
            MPI_Waitsome(SENDS + 1, request, &done, indices,
                         MPI_STATUSES_IGNORE);
        }
        blocked += now() - wait;
    }
    if (rank == 1) {
        ledger("completing %" PRId64, blocked);
    }
}

/* A collective operation, the other rank late. */
static void collective(void)
{
    int64_t whole = 0, blocked = 0;
    for (int k = 0; k < k_max; k++) {
        int one = 1, sum;
        MPI_Request request;
        meet();
        pass(rank == 0 ? delay_ns : 0);
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                       &request);
        int64_t started = now();
        pass(compute_ns);
        int64_t wait = now();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        int64_t end = now();
        whole += end - started;
        blocked += end - wait;
    }
    of_all("Iallreduce", k_max, whole, blocked, blocked);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        return 2;
    }
    k_max = atoi(argv[2]);
    compute_ns = atoll(argv[3]) * 1000;
    delay_ns = atoll(argv[4]) * 1000;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ledger_open(rank);
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"receive", receive},
                 {"send", send},
                 {"waitall", waitall},
                 {"shared", shared},
                 {"collective", collective}};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
        }
    }
    ledger_close();
    MPI_Finalize();
    return 0;
}
