/*
 * reuse.c - ping-pong in which an iteration takes a new buffer or the one
 * before: 0, 50 and 100 % reuse, and the ratio no reuse / full reuse.
 * Rashti 2010, 3.5.2.
 *
 * A buffer serves to receive and to send back. Buffers are statically
 * allocated, touched beforehand and each on pages of its own; those of the
 * three cases are different ones. No buffer comes twice at 0 %, so the
 * iterations end where they would fill more than --pool bytes.
 */
#include "bench.h"

struct pool {
    char *at;
    size_t bytes, stride;
    long buffers, used, iterations;
    int reuse_pct;
};

/* Number of the buffer of an iteration: every second one is new at 50 %. */
static long buffer_of(const struct pool *p, long iteration)
{
    switch (p->reuse_pct) {
    case 0:
        return iteration;
    case 50:
        return iteration / 2;
    }
    return 0;
}

static void pool_open(struct pool *p)
{
    p->stride = (p->bytes + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE;
    p->buffers = buffer_of(p, p->iterations - 1) + 1;
    p->at = bench_alloc(p->stride * (size_t)p->buffers);
    for (long i = 0; i < p->buffers && bench_rank == 0; i++) {
        bench_fill(p->at + (size_t)i * p->stride, p->bytes, (uint64_t)i);
    }
}

/* Rank 1 answers with what it got, so both hold the patterns in the end. */
static void pool_close(struct pool *p)
{
    for (long i = 0; i < p->used; i++) {
        bench_check(p->at + (size_t)i * p->stride, p->bytes, (uint64_t)i,
                    "reuse");
    }
    bench_free(p->at, p->stride * (size_t)p->buffers);
}

/* us for the iterations from first on. */
static double exchanges(struct pool *p, long first, long n)
{
    int peer = 1 - bench_rank;
    double start = bench_now();

    for (long i = first; i < first + n; i++) {
        char *buffer = p->at + (size_t)buffer_of(p, i) * p->stride;

        bench_exchange(buffer, buffer, p->bytes, peer, peer);
    }
    return bench_now() - start;
}

/* Mean half round trip; p->iterations becomes what was done in the time. */
static double half_rtt(struct pool *p)
{
    long block = bench_block(p->iterations), done = 0;
    double spent = 0.0;

    pool_open(p);
    do {
        long n = p->iterations - done < block ? p->iterations - done : block;

        spent += exchanges(p, done, n);
        done += n;
    } while (done < p->iterations && bench_go_on(spent, bench_pair));
    p->used = buffer_of(p, done - 1) + 1;
    pool_close(p);
    p->iterations = done;
    return spent / (2.0 * (double)done);
}

static void measure(size_t bytes, long iterations)
{
    static const int percents[] = {100, 50, 0};
    char *out = bench_alloc(bytes), *in = bench_alloc(bytes);
    double us[3];

    bench_warm_pair(out, in, bytes);
    for (int i = 0; i < 3; i++) {
        struct pool p = {.bytes = bytes,
                         .iterations = iterations,
                         .reuse_pct = percents[i]};

        us[i] = half_rtt(&p);
        bench_result("size=%zu reuse_pct=%d half_rtt_us=%.4f iterations=%ld",
                     bytes, percents[i], us[i], p.iterations);
    }
    bench_result("size=%zu reuse_ratio=%.4f", bytes, us[2] / us[0]);
    bench_free(out, bytes);
    bench_free(in, bytes);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations, pool;

    bench_begin(&argc, &argv, "reuse", 2);
    sizes = bench_sizes("1024,16384,1048576");
    iterations = bench_number("iterations", 2000);
    pool = bench_number("pool", 64 << 20);
    for (int i = 0; i < sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i];
        long most = pool / (long)(bytes > BENCH_PAGE ? bytes : BENCH_PAGE);
        long n = bench_iterations(iterations, bytes);

        n = n < most ? n : most;
        measure(bytes, n < 4 ? 4 : n);
    }
    bench_done();
    return 0;
}
