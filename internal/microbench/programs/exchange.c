/*
 * exchange.c - an iterative program in which each rank exchanges with both of its
 * neighbours in a ring (with two ranks both are the other one). Rashti 2010,
 * 4.4.1:
 *
 *   model 1  Produce(1); for i: Irecv(i); Isend(i); Produce(i+1);
 *            Wait(send); Wait(recv); Consume(i)
 *   model 2  Produce(1); for i: Isend(i); Consume(i-1); Irecv(i); Produce(i+1);
 *            Wait(send); Wait(recv)
 *
 * Produce and Consume take as long, half of the computation of an iteration, which
 * is a multiple (--factors) of the iteration without any. A message carries its
 * iteration and its sender in each page, which are checked. Times are of rank 0.
 */
#include "bench.h"

#define EXCHANGE_BLOCKS 10
#define NEIGHBOURS 2

struct exchange {
    int model;
    size_t bytes;
    double half_us; /* of the computation */
    char *out[NEIGHBOURS], *in[NEIGHBOURS];
    int to[NEIGHBOURS], from[NEIGHBOURS];
    long turn;
    double wait_us; /* of the iterations of a block; then median of the means */
};

static uint64_t mark(long turn, int from)
{
    return bench_word((uint64_t)turn, (uint64_t)from);
}

static void produce(struct exchange *x, long turn)
{
    uint64_t word = mark(turn, bench_rank);

    for (int k = 0; k < NEIGHBOURS; k++) {
        for (size_t i = 0; i + sizeof(word) <= x->bytes; i += BENCH_PAGE) {
            memcpy(x->out[k] + i, &word, sizeof(word));
        }
    }
    if (x->half_us > 0.0) {
        bench_compute(x->half_us);
    }
}

static void consume(struct exchange *x, long turn)
{
    for (int k = 0; k < NEIGHBOURS; k++) {
        uint64_t word = mark(turn, x->from[k]);

        for (size_t i = 0; i + sizeof(word) <= x->bytes; i += BENCH_PAGE) {
            if (memcmp(x->in[k] + i, &word, sizeof(word)) != 0) {
                bench_fail("wrong data: exchange, iteration %ld, from rank %d, "
                           "at byte %zu",
                           turn, x->from[k], i);
            }
        }
        bench_verified++;
    }
    if (x->half_us > 0.0) {
        bench_compute(x->half_us);
    }
}

/* What goes to neighbour k comes from that one's neighbour 1 - k. */
static void start_receives(struct exchange *x, MPI_Request *requests)
{
    for (int k = 0; k < NEIGHBOURS; k++) {
        MPI_Irecv(x->in[k], (int)x->bytes, MPI_BYTE, x->from[k],
                  BENCH_TAG + 1 - k, MPI_COMM_WORLD, &requests[k]);
    }
}

static void start_sends(struct exchange *x, MPI_Request *requests)
{
    for (int k = 0; k < NEIGHBOURS; k++) {
        MPI_Isend(x->out[k], (int)x->bytes, MPI_BYTE, x->to[k], BENCH_TAG + k,
                  MPI_COMM_WORLD, &requests[k]);
    }
}

/* One iteration. A buffer that is being sent is not written: what is produced
 * during the exchange goes out of the other half of the buffers. */
static void iterate(struct exchange *x, char *spare[NEIGHBOURS])
{
    MPI_Request sends[NEIGHBOURS], receives[NEIGHBOURS];
    MPI_Status statuses[NEIGHBOURS];
    long turn = x->turn++;
    double begin;

    if (x->model == 1) {
        start_receives(x, receives);
        start_sends(x, sends);
    } else {
        start_sends(x, sends);
        if (turn > 0) {
            consume(x, turn - 1);
        }
        start_receives(x, receives);
    }
    for (int k = 0; k < NEIGHBOURS; k++) {
        char *full = x->out[k];

        x->out[k] = spare[k];
        spare[k] = full;
    }
    produce(x, turn + 1);
    begin = bench_now();
    MPI_Waitall(NEIGHBOURS, sends, statuses);
    MPI_Waitall(NEIGHBOURS, receives, statuses);
    x->wait_us += bench_now() - begin;
    if (x->model == 1) {
        consume(x, turn);
    }
}

/* us of an iteration with so much computation; sets the wait of one. */
static double turn_us(struct exchange *x, long iterations, double compute_us)
{
    long block = (iterations + EXCHANGE_BLOCKS - 1) / EXCHANGE_BLOCKS;
    double means[EXCHANGE_BLOCKS], waits[EXCHANGE_BLOCKS], spent = 0.0;
    char *spare[NEIGHBOURS];
    int n = 0;

    for (int k = 0; k < NEIGHBOURS; k++) {
        spare[k] = bench_alloc(x->bytes);
    }
    x->half_us = 0.5 * compute_us;
    x->turn = 0;
    produce(x, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    do {
        double start = bench_now(), took;

        x->wait_us = 0.0;
        for (long i = 0; i < block; i++) {
            iterate(x, spare);
        }
        took = bench_now() - start;
        waits[n] = x->wait_us / (double)block;
        means[n++] = took / (double)block;
        spent += took;
    } while (n < EXCHANGE_BLOCKS && bench_go_on(spent, MPI_COMM_WORLD));
    x->wait_us = bench_median(waits, n);
    if (x->model == 2) {
        consume(x, x->turn - 1);
    }
    for (int k = 0; k < NEIGHBOURS; k++) {
        bench_free(spare[k], x->bytes);
    }
    return bench_median(means, n);
}

static void measure(int model, size_t bytes, long iterations)
{
    struct bench_list factors = bench_numbers("factors", "0.5,1,2,4");
    struct exchange x = {.model = model, .bytes = bytes};
    double l0;

    for (int k = 0; k < NEIGHBOURS; k++) {
        int step = k == 0 ? 1 : bench_ranks - 1;

        x.out[k] = bench_alloc(bytes);
        x.in[k] = bench_alloc(bytes);
        x.to[k] = x.from[k] = (bench_rank + step) % bench_ranks;
    }
    turn_us(&x, bench_rounds(bytes), 0.0);
    l0 = turn_us(&x, iterations, 0.0);
    MPI_Bcast(&l0, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int i = 0; i < factors.n; i++) {
        double w = factors.at[i] * l0;
        double t = turn_us(&x, iterations, w);

        bench_result("model=%d size=%zu w=%gl0 wait_us=%.4f turn_us=%.4f "
                     "compute_us=%.4f ratio_pct=%.1f",
                     model, bytes, factors.at[i], x.wait_us, t, w,
                     w > 0.0 ? 100.0 * l0 / w : 0.0);
    }
    for (int k = 0; k < NEIGHBOURS; k++) {
        bench_free(x.out[k], bytes);
        bench_free(x.in[k], bytes);
    }
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    const char *models;
    long iterations;

    bench_begin(&argc, &argv, "exchange", 2);
    sizes = bench_sizes("131072");
    models = bench_text("models", "1,2");
    iterations = bench_number("iterations", 400);
    bench_calibrate();
    for (int model = 1; model <= 2; model++) {
        for (int i = 0; i < sizes.n; i++) {
            size_t bytes = (size_t)sizes.at[i];

            if (bench_has(models, model == 1 ? "1" : "2")) {
                measure(model, bytes, bench_iterations(iterations, bytes));
            }
        }
    }
    bench_done();
    return 0;
}
