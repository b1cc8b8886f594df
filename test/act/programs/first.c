/* first.c: who is first, the receive or the message, in both forced orders, with
 * messages of every kind between: long ones, shorter ones than their receives,
 * eager ones where a long one was expected, cancelled receives, wildcards. Two
 * ranks.
 *
 * With the argument lands the receiver makes no call until the message is there.
 *
 * With the argument measure it says how much computation hides behind Irecv ..
 * Wait in either order: W/T, with W twice the time of a turn without computation
 * (0.667: none of it); and with ping what a turn of two receives costs that meet
 * their messages half-way. It is for idle machines. */
#include "program.h"

#include <time.h>

enum { LONG = 1 << 20, TURNS = 60, TOKEN = 9, DATA = 1 };

static char data[2][LONG];

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void compute(double us)
{
    for (double end = now_us() + us; now_us() < end;) {
    }
}

static void token(int from)
{
    if (rank == from) {
        MPI_Send(NULL, 0, MPI_BYTE, 1 - from, TOKEN, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, from, TOKEN, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
}

/* One message to rank 0, whose receive is posted before it is sent, or when it
 * has been. Microseconds from there to the end of Wait, at rank 0. */
static double turn(int receiver_first, int bytes, double compute_us)
{
    MPI_Request request;
    double begin = 0;
    if (rank == 1) {
        if (receiver_first) {
            token(0);
            MPI_Send(data[0], bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
        } else {
            token(0);
            MPI_Isend(data[0], bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD,
                      &request);
            token(1);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        return 0;
    }
    if (!receiver_first) {
        token(0);
        token(1);
    }
    begin = now_us();
    MPI_Irecv(data[0], LONG, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &request);
    if (receiver_first) {
        token(0);
    }
    compute(compute_us);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return now_us() - begin;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(int receiver_first, int bytes, double compute_us)
{
    static double all[TURNS];
    for (int i = 0; i < TURNS; i++) {
        all[i] = turn(receiver_first, bytes, compute_us);
    }
    qsort(all, TURNS, sizeof(all[0]), by_value);
    return all[TURNS / 2];
}

static void measure(void)
{
    static const char *const order[] = {"message", "receive"};
    for (int first = 0; first < 2; first++) {
        for (int bytes = LONG / 16; bytes <= LONG; bytes *= 4) {
            median(first, bytes, 0);
            double none = median(first, bytes, 0);
            MPI_Bcast(&none, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            double with = median(first, bytes, 2 * none);
            if (rank == 0) {
                say("the %s is first, %d bytes: %.1f us, with %.1f us of "
                    "computation %.1f us, W/T %.3f",
                    order[first], bytes, none, 2 * none, with,
                    2 * none / with);
            }
        }
    }
}

/* Both ranks exchange at once: receives and messages meet half-way. It is for idle machines. */
static void ping(int bytes)
{
    static double all[TURNS * 4];
    for (int i = 0; i < TURNS * 4; i++) {
        MPI_Request request;
        double begin = now_us();
        MPI_Irecv(data[1], bytes, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD,
                  &request);
        MPI_Send(data[0], bytes, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        all[i] = now_us() - begin;
    }
    qsort(all, TURNS * 4, sizeof(all[0]), by_value);
    if (rank == 0) {
        say("exchange of %d bytes: %.2f us", bytes, all[TURNS * 2]);
    }
}

/* ---- what is right ---- */

static void orders(void)
{
    for (int i = 0; i < TURNS; i++) {
        int bytes = i % 5 == 4 ? 100 : LONG - 1000 * i;
        unsigned seed = (unsigned)i;
        memset(data[0], 0, LONG);
        if (rank == 1) {
            fill(data[0], (size_t)bytes, seed);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        turn(i % 2, bytes, i % 3 == 0 ? 500 : 0);
        CHECK(filled(data[0], (size_t)bytes, seed));
    }
}

/* A receiver that makes no call sees the whole message in its memory. */
static void lands(void)
{
    MPI_Request request;
    volatile char *last = &data[0][LONG - 1];
    if (rank == 1) {
        fill(data[0], LONG, 3);
        data[0][LONG - 1] = 1;
        token(0);
        MPI_Send(data[0], LONG, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
        return;
    }
    *last = 0;
    MPI_Irecv(data[0], LONG, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &request);
    token(0);
    for (int i = 0; *last == 0 && i < 300000; i++) {
        usleep(1000);
    }
    CHECK(*last == 1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(filled(data[0], LONG - 1, 3));
}

static void cancels(void)
{
    MPI_Request request[2];
    MPI_Status status;
    int cancelled;
    for (int i = 0; i < TURNS / 3; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            fill(data[0], LONG, (unsigned)i);
            token(0);
            MPI_Send(data[0], LONG, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
            continue;
        }
        MPI_Irecv(data[0], LONG, MPI_BYTE, 1, DATA, MPI_COMM_WORLD,
                  &request[0]);
        MPI_Irecv(data[1], LONG, MPI_BYTE, i % 2 == 0 ? 1 : MPI_ANY_SOURCE,
                  DATA, MPI_COMM_WORLD, &request[1]);
        if (i % 3 == 0) {
            token(0);
            compute(i * 20);
        }
        MPI_Cancel(&request[0]);
        MPI_Wait(&request[0], &status);
        MPI_Test_cancelled(&status, &cancelled);
        if (i % 3 != 0) {
            CHECK(cancelled != 0);
            token(0);
        }
        CHECK(cancelled != 0 || filled(data[0], LONG, (unsigned)i));
        if (cancelled == 0) {
            MPI_Cancel(&request[1]);
        }
        MPI_Wait(&request[1], &status);
        CHECK(cancelled == 0 || filled(data[1], LONG, (unsigned)i));
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "measure") == 0) {
        measure();
        for (int bytes = 64; bytes <= LONG; bytes *= 16) {
            ping(bytes);
            ping(bytes);
        }
    } else if (argc > 1 && strcmp(argv[1], "lands") == 0) {
        lands();
    } else {
        orders();
        cancels();
    }
    return end();
}
