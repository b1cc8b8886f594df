/*
 * collectives.c - Bcast and Scatter, each followed by a Barrier, with the
 * same buffers every time; time of the two calls, mean over the ranks, and
 * that of a Barrier alone. Rashti 2010, 5.5.1.
 */
#include "bench.h"

struct work {
    size_t bytes;
    char *out, *in; /* out: a block for each rank, at the root only */
};

static void bcast(struct work *w)
{
    MPI_Bcast(w->in, (int)w->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void scatter(struct work *w)
{
    MPI_Scatter(w->out, (int)w->bytes, MPI_BYTE, w->in, (int)w->bytes,
                MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void barrier(struct work *w)
{
    (void)w;
    MPI_Barrier(MPI_COMM_WORLD);
}

struct kind {
    const char *name;
    void (*call)(struct work *);
};

static const struct kind kinds[] = {
    {"bcast", bcast}, {"scatter", scatter}, {"barrier", barrier}};

/* Seed of what a rank gets in a round. */
static uint64_t seed(const struct kind *k, uint64_t round, int rank)
{
    return (round << 32) + (k->call == scatter ? (uint64_t)rank : 0);
}

static void prepare(const struct kind *k, struct work *w, uint64_t round)
{
    memset(w->in, 0, w->bytes);
    if (bench_rank != 0) {
        return;
    }
    if (k->call == bcast) {
        bench_fill(w->in, w->bytes, seed(k, round, 0));
    }
    for (int r = 0; r < bench_ranks; r++) {
        bench_fill(w->out + (size_t)r * w->bytes, w->bytes,
                   seed(k, round, r));
    }
}

static void verify(const struct kind *k, struct work *w, uint64_t round)
{
    if (k->call != barrier) {
        bench_check(w->in, w->bytes, seed(k, round, bench_rank), k->name);
    }
}

static double call_us(const struct kind *k, struct work *w, long iterations)
{
    long block = bench_block(iterations), done = 0;
    double spent = 0.0, all = 0.0;

    for (uint64_t i = 1; i <= BENCH_CHECK_ROUNDS; i++) {
        prepare(k, w, i);
        k->call(w);
        verify(k, w, i);
    }
    prepare(k, w, 0);
    do {
        double start;

        MPI_Barrier(MPI_COMM_WORLD);
        start = bench_now();
        for (long i = 0; i < block; i++) {
            k->call(w);
        }
        spent += bench_now() - start;
        done += block;
    } while (done < iterations && bench_go_on(spent, MPI_COMM_WORLD));
    verify(k, w, 0);
    spent /= (double)done;
    MPI_Reduce(&spent, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return all / bench_ranks;
}

static void measure(const struct kind *k, size_t bytes, long iterations)
{
    size_t whole = bytes * (size_t)bench_ranks;
    struct work w = {bytes, bench_alloc(whole), bench_alloc(bytes)};
    double us = call_us(k, &w, iterations);

    if (k->call == barrier) {
        bench_result("op=barrier call_us=%.4f", us);
    } else {
        bench_result("op=%s size=%zu call_us=%.4f", k->name, bytes, us);
    }
    bench_free(w.out, whole);
    bench_free(w.in, bytes);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations;

    bench_begin(&argc, &argv, "collectives", 2);
    sizes = bench_sizes("128,1024,8192");
    iterations = bench_number("iterations", 2000);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < sizes.n; i++) {
            size_t bytes = (size_t)sizes.at[i];

            measure(&kinds[k], bytes, bench_iterations(iterations, bytes));
        }
    }
    measure(&kinds[2], 8, bench_iterations(iterations, 8));
    bench_done();
    return 0;
}
