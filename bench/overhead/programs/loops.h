/*
 * loops.h - the one-rank loops, each a function of the number of
 * iterations. They use COMM, which the program sets per thread, and report
 * an MPI error by MPI's own default handler.
 */
#ifndef LOOPS_H
#define LOOPS_H

#include <mpi.h>
#include <stddef.h>

#define BUFFERS 64
#define SIZES 13          /* 1, 2, 4 ... 4096 bytes */
#define MANY_SIZES 20000  /* 1, 2, 3 ... 20000 bytes */
#define CALLS_IRECV 3.0   /* calls in one Irecv + Send + Wait */

static __thread MPI_Comm COMM;
static __thread char send_buffer[BUFFERS][4096];
static __thread char receive_buffer[BUFFERS][4096];

static inline void loop_comm_rank(long iterations)
{
    int rank;

    for (long i = 0; i < iterations; i++) {
        MPI_Comm_rank(COMM, &rank);
    }
}

static inline void loop_iprobe(long iterations)
{
    int flag;

    for (long i = 0; i < iterations; i++) {
        MPI_Iprobe(0, 7, COMM, &flag, MPI_STATUS_IGNORE);
    }
}

static inline void sendrecv(char *out, char *in, int bytes)
{
    MPI_Sendrecv(out, bytes, MPI_BYTE, 0, 7, in, bytes, MPI_BYTE, 0, 7, COMM,
                 MPI_STATUS_IGNORE);
}

static inline void loop_sendrecv(long iterations)
{
    for (long i = 0; i < iterations; i++) {
        sendrecv(send_buffer[0], receive_buffer[0], 8);
    }
}

static inline void loop_sendrecv_buffers(long iterations)
{
    for (long i = 0; i < iterations; i++) {
        long buffer = i % BUFFERS;

        sendrecv(send_buffer[buffer], receive_buffer[buffer],
                 1 << (i % SIZES));
    }
}

static inline void loop_irecv_send_wait(long iterations)
{
    MPI_Request request;

    for (long i = 0; i < iterations; i++) {
        MPI_Irecv(receive_buffer[0], 8, MPI_BYTE, 0, 7, COMM, &request);
        MPI_Send(send_buffer[0], 8, MPI_BYTE, 0, 7, COMM);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static inline void loop_allreduce(long iterations)
{
    long in = 1, out;

    for (long i = 0; i < iterations; i++) {
        MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, COMM);
    }
}

static inline void loop_many_sizes(long iterations)
{
    static char out[MANY_SIZES], in[MANY_SIZES];

    for (long i = 0; i < iterations; i++) {
        sendrecv(out, in, 1 + (int)(i % MANY_SIZES));
    }
}

struct named_loop {
    const char *name;
    loop_fn loop;
    double calls; /* results per iteration */
};

#endif
