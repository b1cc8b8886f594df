/*
 * overlap.c - how much computation hides behind a non-blocking operation.
 *
 *   --mode send   rank 0: Isend, compute, Wait; rank 1: Recv
 *   --mode recv   rank 0: Irecv, compute, Wait; rank 1: Send
 *
 * Two measures, both of the time of one turn of that loop at rank 0:
 *
 *   method=sweep  W/T for computations W of some times l0 (--factors), or of
 *                 --delays us. Sur 2006
 *   method=eq3.4  [c - (l - l0)] / l0 for the largest computation c with
 *                 l < 1.1 l0; c starts at a tenth of l0 and grows by a tenth
 *                 from step to step. Rashti 2010, 3.6.1
 *
 * l0 is the time without computation. A time is the median of block means.
 */
#include "bench.h"

#define OVERLAP_BLOCKS 10
#define RISE 1.1

struct overlap {
    int sends; /* rank 0 sends */
    size_t bytes;
    char *buffer;
    long iterations;
};

/* Whether this rank gets the message. */
static int receives(const struct overlap *o)
{
    return (bench_rank == 0) != o->sends;
}

static void turn(struct overlap *o, double compute_us)
{
    MPI_Request request;
    MPI_Status status;

    if (bench_rank != 0 && o->sends) {
        bench_recv(o->buffer, o->bytes, 0);
        return;
    }
    if (bench_rank != 0) {
        bench_send(o->buffer, o->bytes, 0);
        return;
    }
    if (o->sends) {
        MPI_Isend(o->buffer, (int)o->bytes, MPI_BYTE, 1, BENCH_TAG,
                  MPI_COMM_WORLD, &request);
    } else {
        MPI_Irecv(o->buffer, (int)o->bytes, MPI_BYTE, 1, BENCH_TAG,
                  MPI_COMM_WORLD, &request);
    }
    if (compute_us > 0.0) {
        bench_compute(compute_us);
    }
    MPI_Wait(&request, &status);
}

static void prepare(struct overlap *o, uint64_t seed)
{
    if (receives(o)) {
        memset(o->buffer, 0, o->bytes);
    } else {
        bench_fill(o->buffer, o->bytes, seed);
    }
}

static void verify(struct overlap *o, uint64_t seed)
{
    if (receives(o)) {
        bench_check(o->buffer, o->bytes, seed, "overlapped message");
    }
}

static void warm(struct overlap *o)
{
    long rounds = bench_rounds(o->bytes);
    double start = bench_now();

    for (long i = 0; i < rounds; i++) {
        prepare(o, 100 + (uint64_t)i);
        turn(o, 0.0);
        verify(o, 100 + (uint64_t)i);
        if (i % BENCH_CHECK_ROUNDS == BENCH_CHECK_ROUNDS - 1 &&
            !bench_go_on(bench_now() - start, bench_pair)) {
            return;
        }
    }
}

/* us per turn with so much computation. */
static double turn_us(struct overlap *o, double compute_us)
{
    long block = (o->iterations + OVERLAP_BLOCKS - 1) / OVERLAP_BLOCKS;
    double means[OVERLAP_BLOCKS], spent = 0.0;
    int n = 0;

    prepare(o, 1);
    do {
        double start = bench_now(), took;

        for (long i = 0; i < block; i++) {
            turn(o, compute_us);
        }
        took = bench_now() - start;
        means[n++] = took / (double)block;
        spent += took;
    } while (n < OVERLAP_BLOCKS && bench_go_on(spent, bench_pair));
    verify(o, 1);
    return bench_median(means, n);
}

/* The next computation as rank 0 decides it; below 0: no more. */
static double agreed(double us)
{
    MPI_Bcast(&us, 1, MPI_DOUBLE, 0, bench_pair);
    return us;
}

static void equation(struct overlap *o, double l0)
{
    double c = agreed(0.1 * l0), hidden = 0.0, at_c = 0.0, at_l = l0;

    while (c > 0.0) {
        double l = turn_us(o, c);

        if (l < RISE * l0) {
            at_c = c;
            at_l = l;
            hidden = c - (l - l0);
        }
        c = agreed(l < RISE * l0 ? c * 1.1 : -1.0);
    }
    bench_result("size=%zu method=eq3.4 overlap_pct=%.3f compute_us=%.4f "
                 "turn_us=%.4f l0_us=%.4f",
                 o->bytes, 100.0 * hidden / l0, at_c, at_l, l0);
}

static void sweep(struct overlap *o, double l0)
{
    struct bench_list delays, factors;
    int given = bench_text("delays", NULL) != NULL;

    delays = bench_numbers("delays", "0");
    factors = bench_numbers("factors", "0.5,1,2,4");
    for (int i = 0; i < (given ? delays.n : factors.n); i++) {
        double w = agreed(given ? delays.at[i] : factors.at[i] * l0);
        double t = turn_us(o, w);

        bench_result("size=%zu method=sweep w=%g%s overlap_pct=%.3f "
                     "compute_us=%.4f turn_us=%.4f l0_us=%.4f",
                     o->bytes, given ? w : factors.at[i], given ? "us" : "l0",
                     100.0 * w / t, w, t, l0);
    }
}

static void measure(size_t bytes, long iterations, int sends)
{
    struct overlap o = {.sends = sends,
                        .bytes = bytes,
                        .buffer = bench_alloc(bytes),
                        .iterations = iterations};
    double l0;

    warm(&o);
    l0 = turn_us(&o, 0.0);
    sweep(&o, l0);
    equation(&o, l0);
    bench_free(o.buffer, bytes);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations;
    int sends;

    bench_begin(&argc, &argv, "overlap-send", 2);
    sends = strcmp(bench_text("mode", "send"), "recv") != 0;
    bench_name = sends ? "overlap-send" : "overlap-recv";
    sizes = bench_sizes("8192,1048576");
    iterations = bench_number("iterations", 400);
    bench_calibrate();
    for (int i = 0; i < sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i];

        measure(bytes, bench_iterations(iterations, bytes), sends);
    }
    bench_done();
    return 0;
}
