/*
 * progress.c - does a pending non-blocking operation advance while the
 * application computes? Rashti 2010, 3.6.2.
 *
 *   --mode send   both meet; rank 0: Isend, delay D, Wait, then waits for an
 *                 acknowledgement; rank 1: Recv, acknowledge. Latency: from
 *                 the meeting to the end of Recv, timed at rank 1
 *   --mode recv   both meet; rank 1: Send; rank 0: Irecv, delay D in which it
 *                 polls the last byte of the buffer, Wait. Latency: from the
 *                 meeting to the byte's change, else to the end of Wait
 *
 * Every delay gives the median latency, and the residual: what of the latency
 * without delay (l0) is left after the delay. recv: (done - end of delay)/l0,
 * 0 if the byte changed before; send: (latency - D)/l0, between 0 and 1, as
 * the two ends have different clocks.
 */
#include "bench.h"

#define SENTINEL 0xa5
#define ITERATIONS_MAX 100000

struct progress {
    size_t bytes;
    unsigned char *buffer;
    long iterations;
    double delay_us;
    double end_us;  /* length of the last delay as it was */
    int seen;       /* the sentinel came during the last delay */
};

/* Polls the last byte for so long; the time from start to its change, 0 if
 * it did not change. */
static double poll_sentinel(const struct progress *p, double start)
{
    const volatile unsigned char *last = p->buffer + p->bytes - 1;
    double end = start + p->delay_us, now, changed = 0.0;

    do {
        bench_spin(bench_chunk);
        now = bench_now();
        if (changed == 0.0 && *last == SENTINEL) {
            changed = now;
        }
    } while (now < end);
    return changed == 0.0 ? 0.0 : changed - start;
}

/* One instance at the rank that receives by Irecv: latency. */
static double receive_late(struct progress *p)
{
    double start = bench_now(), changed = 0.0;
    MPI_Request request;
    MPI_Status status;

    MPI_Irecv(p->buffer, (int)p->bytes, MPI_BYTE, 1, BENCH_TAG, MPI_COMM_WORLD,
              &request);
    if (p->delay_us > 0.0) {
        changed = poll_sentinel(p, start);
    }
    p->end_us = bench_now() - start;
    MPI_Wait(&request, &status);
    p->seen = changed > 0.0;
    return p->seen ? changed : bench_now() - start;
}

/* One instance at the rank that sends by Isend: the latency that rank 1's
 * acknowledgement brings. */
static double send_late(struct progress *p)
{
    double latency, start = bench_now();
    MPI_Request request;
    MPI_Status status;

    MPI_Isend(p->buffer, (int)p->bytes, MPI_BYTE, 1, BENCH_TAG, MPI_COMM_WORLD,
              &request);
    if (p->delay_us > 0.0) {
        bench_compute(p->delay_us - (bench_now() - start));
    }
    p->end_us = bench_now() - start;
    MPI_Wait(&request, &status);
    MPI_Recv(&latency, 1, MPI_DOUBLE, 1, BENCH_TAG_ACK, MPI_COMM_WORLD,
             &status);
    return latency;
}

static void peer_of_send(struct progress *p)
{
    double start = bench_now(), latency;

    bench_recv(p->buffer, p->bytes, 0);
    latency = bench_now() - start;
    MPI_Send(&latency, 1, MPI_DOUBLE, 0, BENCH_TAG_ACK, MPI_COMM_WORLD);
}

/* One instance; its latency at rank 0. */
static double instance(struct progress *p, int sends, uint64_t seed)
{
    int gets = (bench_rank == 0) != sends;
    double latency = 0.0;

    if (gets) {
        memset(p->buffer, 0, p->bytes);
    } else {
        bench_fill(p->buffer, p->bytes - 1, seed);
        p->buffer[p->bytes - 1] = SENTINEL;
    }
    MPI_Barrier(bench_pair);
    if (bench_rank == 0) {
        latency = sends ? send_late(p) : receive_late(p);
    } else if (sends) {
        peer_of_send(p);
    } else {
        bench_send(p->buffer, p->bytes, 0);
    }
    if (gets && p->buffer[p->bytes - 1] != SENTINEL) {
        bench_fail("wrong data: the last of %zu bytes", p->bytes);
    }
    if (gets) {
        bench_check(p->buffer, p->bytes - 1, seed, "delayed message");
    }
    return latency;
}

struct point {
    double latency_us, residual, seen;
};

/* Medians over the instances with the delay of p; l0 0: not yet known. */
static struct point point(struct progress *p, int sends, double l0)
{
    static double latency[ITERATIONS_MAX], residual[ITERATIONS_MAX];
    struct point out = {0.0, 0.0, 0.0};
    double begin = bench_now();
    int n = 0;

    do {
        latency[n] = instance(p, sends, 7 + (uint64_t)n);
        residual[n] = sends ? latency[n] - p->delay_us
                            : latency[n] - p->end_us;
        if (p->seen || residual[n] < 0.0) {
            residual[n] = 0.0;
        }
        if (sends && l0 > 0.0 && residual[n] > l0) {
            residual[n] = l0;
        }
        out.seen += p->seen;
        n++;
    } while (n < p->iterations &&
             (n % BENCH_CHECK_ROUNDS != 0 ||
              bench_go_on(bench_now() - begin, bench_pair)));
    out.seen /= n;
    out.latency_us = bench_median(latency, n);
    out.residual = l0 > 0.0 ? bench_median(residual, n) / l0 : 0.0;
    return out;
}

static void report(const struct progress *p, const char *delay, struct point at,
                   double l0, int sends)
{
    if (sends) {
        bench_result("size=%zu delay=%s latency_us=%.4f residual_pct=%.3f "
                     "delay_us=%.4f l0_us=%.4f",
                     p->bytes, delay, at.latency_us, 100.0 * at.residual,
                     p->delay_us, l0);
        return;
    }
    bench_result("size=%zu delay=%s latency_us=%.4f residual_pct=%.3f "
                 "delay_us=%.4f l0_us=%.4f seen_pct=%.3f",
                 p->bytes, delay, at.latency_us, 100.0 * at.residual,
                 p->delay_us, l0, 100.0 * at.seen);
}

static void measure(size_t bytes, long iterations, int sends)
{
    struct progress p = {.bytes = bytes,
                         .buffer = (unsigned char *)bench_alloc(bytes),
                         .iterations = BENCH_CHECK_ROUNDS};
    int given = bench_text("delays", NULL) != NULL;
    struct bench_list list = given ? bench_numbers("delays", "0")
                                   : bench_numbers("factors", "2,5,10");
    double l0;

    point(&p, sends, 0.0);
    p.iterations = iterations;
    l0 = point(&p, sends, 0.0).latency_us;
    bench_result("size=%zu delay=0 latency_us=%.4f", bytes, l0);
    for (int i = 0; i < list.n; i++) {
        char name[32];

        p.delay_us = given ? list.at[i] : list.at[i] * l0;
        MPI_Bcast(&p.delay_us, 1, MPI_DOUBLE, 0, bench_pair);
        snprintf(name, sizeof(name), "%g%s", list.at[i], given ? "us" : "l0");
        report(&p, name, point(&p, sends, l0), l0, sends);
    }
    bench_free((char *)p.buffer, bytes);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations;
    int sends;

    bench_begin(&argc, &argv, "progress-send", 2);
    sends = strcmp(bench_text("mode", "send"), "recv") != 0;
    bench_name = sends ? "progress-send" : "progress-recv";
    sizes = bench_sizes("8192,262144");
    iterations = bench_number("iterations", 200);
    iterations = iterations > ITERATIONS_MAX ? ITERATIONS_MAX : iterations;
    bench_calibrate();
    for (int i = 0; i < sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i];

        measure(bytes < 2 ? 2 : bytes, bench_iterations(iterations, bytes),
                sends);
    }
    bench_done();
    return 0;
}
