/*
 * tworanks.c - two ranks: 8-byte ping-pong (result per half round trip),
 * windows of 64 messages with one acknowledgement (per message) and an
 * 8-byte Allreduce (per call). Start on two ranks.
 */
#include "bench.h"

#include <mpi.h>

#define WINDOW 64
#define BYTES 8

static int me, other;
static char buffers[WINDOW][BYTES];

static void loop_ping_pong(long iterations)
{
    for (long i = 0; i < iterations; i++) {
        if (me == 0) {
            MPI_Send(buffers[0], BYTES, MPI_BYTE, other, 7, MPI_COMM_WORLD);
        }
        MPI_Recv(buffers[0], BYTES, MPI_BYTE, other, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (me != 0) {
            MPI_Send(buffers[0], BYTES, MPI_BYTE, other, 7, MPI_COMM_WORLD);
        }
    }
}

static void loop_window(long iterations)
{
    MPI_Request requests[WINDOW];
    char ack = 0;

    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < WINDOW; k++) {
            if (me == 0) {
                MPI_Isend(buffers[k], BYTES, MPI_BYTE, other, 7,
                          MPI_COMM_WORLD, &requests[k]);
            } else {
                MPI_Irecv(buffers[k], BYTES, MPI_BYTE, other, 7,
                          MPI_COMM_WORLD, &requests[k]);
            }
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (me == 0) {
            MPI_Recv(&ack, 1, MPI_BYTE, other, 8, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else {
            MPI_Send(&ack, 1, MPI_BYTE, other, 8, MPI_COMM_WORLD);
        }
    }
}

static void loop_allreduce(long iterations)
{
    long in = 1, out;

    for (long i = 0; i < iterations; i++) {
        MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* Both ranks must run the same number of iterations: rank 0 decides. */
static long agree(loop_fn loop)
{
    long iterations = 100;
    double ns;

    for (;;) {
        ns = time_block(loop, iterations);
        MPI_Bcast(&ns, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (ns >= BLOCK_NS) {
            return iterations;
        }
        iterations = more_iterations(iterations, ns);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        loop_fn loop;
        double units; /* results per iteration */
    } loops[] = {
        {"2ranks_ping-pong_8B", loop_ping_pong, 2.0},
        {"2ranks_window_64", loop_window, WINDOW},
        {"2ranks_Allreduce", loop_allreduce, 1.0},
    };
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "start on two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    other = 1 - me;
    pin(me);
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        long iterations = agree(loops[i].loop);
        double ns = time_loop(loops[i].loop, iterations, loops[i].units);

        if (me == 0) {
            print_result(loops[i].name, ns);
        }
    }
    MPI_Finalize();
    return 0;
}
