/*
 * multipair.c - 1, 2, 4, ... pairs of ranks at once: mean half round trip
 * (and that divided by the number of pairs), and the sum of the pairs'
 * both-way bandwidths. Pair p is rank p with rank p + ranks/2; every block
 * starts with a barrier of all ranks. Rashti 2010, 3.4.2.
 */
#include "bench.h"

#define WINDOW 16

struct pairs {
    int n, active, first, peer;
    size_t bytes;
    char *out, *in; /* WINDOW messages each */
    MPI_Request requests[2 * WINDOW];
    MPI_Status statuses[2 * WINDOW];
};

static void ping_pong(struct pairs *p)
{
    bench_exchange(p->out, p->in, p->bytes, p->first, p->peer);
}

static void both_ways(struct pairs *p)
{
    for (int k = 0; k < WINDOW; k++) {
        MPI_Isend(p->out + (size_t)k * p->bytes, (int)p->bytes, MPI_BYTE,
                  p->peer, BENCH_TAG, MPI_COMM_WORLD, &p->requests[k]);
    }
    for (int k = 0; k < WINDOW; k++) {
        MPI_Irecv(p->in + (size_t)k * p->bytes, (int)p->bytes, MPI_BYTE,
                  p->peer, BENCH_TAG, MPI_COMM_WORLD,
                  &p->requests[WINDOW + k]);
    }
    MPI_Waitall(2 * WINDOW, p->requests, p->statuses);
}

static uint64_t seed(uint64_t round, int sender, int slot)
{
    return (round << 32) + (uint64_t)sender * WINDOW + (uint64_t)slot;
}

static void prepare(struct pairs *p, uint64_t round)
{
    memset(p->in, 0, p->bytes * WINDOW);
    for (int k = 0; k < WINDOW; k++) {
        bench_fill(p->out + (size_t)k * p->bytes, p->bytes,
                   seed(round, bench_rank, k));
    }
}

static void verify(struct pairs *p, uint64_t round, int slots)
{
    for (int k = 0; k < slots; k++) {
        bench_check(p->in + (size_t)k * p->bytes, p->bytes,
                    seed(round, p->peer, k), "pair");
    }
}

/* us per move of this rank's pair; 0 where the rank has none. All ranks come
 * here. */
static double move_us(struct pairs *p, void (*move)(struct pairs *), int slots,
                      long iterations)
{
    long block = bench_block(iterations), done = 0;
    double spent = 0.0;

    for (uint64_t i = 1; i <= BENCH_CHECK_ROUNDS && p->active; i++) {
        prepare(p, i);
        move(p);
        verify(p, i, slots);
    }
    prepare(p, 0);
    do {
        double start;

        MPI_Barrier(MPI_COMM_WORLD);
        start = bench_now();
        for (long i = 0; i < block && p->active; i++) {
            move(p);
        }
        spent += bench_now() - start;
        done += block;
    } while (done < iterations && bench_go_on(spent, MPI_COMM_WORLD));
    if (!p->active) {
        return 0.0;
    }
    verify(p, 0, slots);
    return spent / (double)done;
}

/* Sum over the pairs, at rank 0. */
static double sum(const struct pairs *p, double value)
{
    double mine = p->active && p->first ? value : 0.0, all = 0.0;

    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

static void measure(size_t bytes, int n, long iterations)
{
    int half = bench_ranks / 2, place = bench_rank % half;
    struct pairs p = {.n = n,
                      .active = bench_rank < 2 * half && place < n,
                      .first = bench_rank < half,
                      .bytes = bytes};
    double us, mean, mb_s;

    p.peer = p.first ? bench_rank + half : bench_rank - half;
    p.out = bench_alloc(bytes * WINDOW);
    p.in = bench_alloc(bytes * WINDOW);
    us = move_us(&p, ping_pong, 1, iterations);
    mean = sum(&p, us / 2.0) / n;
    us = move_us(&p, both_ways, WINDOW, iterations / WINDOW + 1);
    mb_s = sum(&p, p.active ? 2.0 * WINDOW * (double)bytes / us : 0.0);
    bench_result("size=%zu pairs=%d half_rtt_us=%.4f throughput_mb_s=%.3f "
                 "normalized_us=%.4f",
                 bytes, n, mean, mb_s, mean / n);
    bench_free(p.out, bytes * WINDOW);
    bench_free(p.in, bytes * WINDOW);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations;

    bench_begin(&argc, &argv, "multipair", 2);
    sizes = bench_sizes("8,65536");
    iterations = bench_number("iterations", 2000);
    for (int i = 0; i < sizes.n; i++) {
        size_t bytes = (size_t)sizes.at[i];

        for (int n = 1; n <= bench_ranks / 2; n *= 2) {
            measure(bytes, n, bench_iterations(iterations, bytes));
        }
    }
    bench_done();
    return 0;
}
