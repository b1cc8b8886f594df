/*
 * overlap.c - how much computation hides behind a non-blocking operation.
 *
 *   --mode send   rank 0: Isend, compute, Wait; rank 1: Recv
 *   --mode recv   rank 0: Irecv, compute, Wait; rank 1: Send
 *
 * With --peer sleep rank 1 posts its half by Irecv or Isend too, sleeps as long
 * as rank 0 computes, and waits: neither is in MPI then, and rank 1 leaves its
 * processor alone. Both meet before each turn, which is not timed. With --first
 * self rank 1 begins OVERLAP_LEAD_US behind rank 0, with peer it is the other way
 * round, and rank 0 is timed from its own beginning: forced order of arrival, of
 * the sweep. Rashti 2010, 4.4.1
 *
 * With --compute cpu rank 0 computes until it has had so much time of the
 * processor: what others take there (a thread, the kernel) makes T longer.
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
#define OVERLAP_LEAD_US 2000.0

struct overlap {
    int sends;  /* rank 0 sends */
    int sleeps; /* so does rank 1 while rank 0 computes */
    int last;   /* which rank begins later; -1: none */
    void (*compute)(double us);
    size_t bytes;
    char *buffer;
    long iterations;
};

/* Whether this rank gets the message. */
static int receives(const struct overlap *o)
{
    return (bench_rank == 0) != o->sends;
}

/* Starts the half of this rank. */
static void post(const struct overlap *o, MPI_Request *request)
{
    int peer = 1 - bench_rank;

    if (receives(o)) {
        MPI_Irecv(o->buffer, (int)o->bytes, MPI_BYTE, peer, BENCH_TAG,
                  MPI_COMM_WORLD, request);
    } else {
        MPI_Isend(o->buffer, (int)o->bytes, MPI_BYTE, peer, BENCH_TAG,
                  MPI_COMM_WORLD, request);
    }
}

static void sleep_us(double us)
{
    const struct timespec pause = {.tv_sec = (time_t)(us / 1e6),
                                   .tv_nsec = (long)(us * 1e3) % 1000000000};

    nanosleep(&pause, NULL);
}

/* us that one turn takes at this rank. */
static double turn(struct overlap *o, double compute_us)
{
    MPI_Request request;
    MPI_Status status;
    double start;

    if (o->sleeps) {
        bench_meet(1 - bench_rank);
    }
    if (o->last == bench_rank) {
        sleep_us(OVERLAP_LEAD_US);
    }
    start = bench_now();
    if (bench_rank == 0 || o->sleeps) {
        post(o, &request);
        if (compute_us > 0.0) {
            (bench_rank == 0 ? o->compute : sleep_us)(compute_us);
        }
        MPI_Wait(&request, &status);
    } else if (o->sends) {
        bench_recv(o->buffer, o->bytes, 0);
    } else {
        bench_send(o->buffer, o->bytes, 0);
    }
    return bench_now() - start;
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
        double took = 0.0;

        for (long i = 0; i < block; i++) {
            took += turn(o, compute_us);
        }
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

/* Which rank begins later. */
static int last(void)
{
    const char *first = bench_text("first", "together");

    return strcmp(first, "self") == 0 ? 1 : strcmp(first, "peer") == 0 ? 0 : -1;
}

static void measure(size_t bytes, long iterations, int sends)
{
    int cpu = strcmp(bench_text("compute", "wall"), "cpu") == 0;
    struct overlap o = {
        .sends = sends,
        .sleeps = strcmp(bench_text("peer", "wait"), "sleep") == 0,
        .last = last(),
        .compute = cpu ? bench_compute_cpu : bench_compute,
        .bytes = bytes,
        .buffer = bench_alloc(bytes),
        .iterations = iterations};
    const char *methods = bench_text("methods", "sweep,eq3.4");
    double l0;

    warm(&o);
    l0 = turn_us(&o, 0.0);
    if (bench_has(methods, "sweep")) {
        sweep(&o, l0);
    }
    if (bench_has(methods, "eq3.4")) {
        equation(&o, l0);
    }
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
