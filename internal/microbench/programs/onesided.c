/*
 * onesided.c - one Put or Get followed by a fence, from rank 0 to rank 1:
 * time of both calls at rank 0. Origin buffer and window lie on pages of
 * their own and are the same every time. Rashti 2010, 5.5.1.
 */
#include "bench.h"

struct window {
    int get;
    size_t bytes;
    char *origin, *memory;
    MPI_Win win;
};

static void access_fence(struct window *w)
{
    if (bench_rank == 0 && w->get) {
        MPI_Get(w->origin, (int)w->bytes, MPI_BYTE, 1, 0, (int)w->bytes,
                MPI_BYTE, w->win);
    } else if (bench_rank == 0) {
        MPI_Put(w->origin, (int)w->bytes, MPI_BYTE, 1, 0, (int)w->bytes,
                MPI_BYTE, w->win);
    }
    MPI_Win_fence(0, w->win);
}

/* Memory of the window is set between fences. */
static void prepare(struct window *w, uint64_t seed)
{
    int source = (bench_rank == 1) == w->get;
    char *at = bench_rank == 0 ? w->origin : w->memory;

    if (source) {
        bench_fill(at, w->bytes, seed);
    } else {
        memset(at, 0, w->bytes);
    }
    MPI_Win_fence(0, w->win);
}

static void verify(struct window *w, uint64_t seed)
{
    if (bench_rank == 0 && w->get) {
        bench_check(w->origin, w->bytes, seed, "Get");
    } else if (bench_rank == 1 && !w->get) {
        bench_check(w->memory, w->bytes, seed, "Put");
    }
    MPI_Win_fence(0, w->win);
}

static double access_us(struct window *w, long iterations)
{
    long block = bench_block(iterations), done = 0;
    double spent = 0.0;

    for (uint64_t i = 1; i <= BENCH_CHECK_ROUNDS; i++) {
        prepare(w, i);
        access_fence(w);
        verify(w, i);
    }
    prepare(w, 0);
    do {
        double start = bench_now();

        for (long i = 0; i < block; i++) {
            access_fence(w);
        }
        spent += bench_now() - start;
        done += block;
    } while (done < iterations && bench_go_on(spent, bench_pair));
    verify(w, 0);
    return spent / (double)done;
}

static void measure(int get, size_t bytes, long iterations)
{
    struct window w = {.get = get, .bytes = bytes};

    w.origin = bench_alloc(bytes);
    w.memory = bench_alloc(bytes);
    MPI_Win_create(w.memory, (MPI_Aint)bytes, 1, MPI_INFO_NULL, bench_pair,
                   &w.win);
    bench_result("op=%s size=%zu access_us=%.4f", get ? "get" : "put", bytes,
                 access_us(&w, iterations));
    MPI_Win_free(&w.win);
    bench_free(w.origin, bytes);
    bench_free(w.memory, bytes);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations;

    bench_begin(&argc, &argv, "onesided", 2);
    sizes = bench_sizes("256,3072,8192");
    iterations = bench_number("iterations", 2000);
    for (int i = 0; i < 2 * sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i / 2];

        measure(i % 2, bytes, bench_iterations(iterations, bytes));
    }
    bench_done();
    return 0;
}
