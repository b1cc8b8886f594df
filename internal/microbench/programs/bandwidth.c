/*
 * bandwidth.c - data per time between ranks 0 and 1, in MB/s of 10^6 bytes.
 *
 *   uni            rank 0 sends windows, the last one is acknowledged
 *   bidirectional  ping-pong: size / half round trip
 *   both-way       each posts a window of Isend, then one of Irecv; both
 *                  directions are counted
 *   blocking       as uni, by MPI_Send, one behind the other
 *
 * Qian 2010, 3.3; Rashti 2010, 3.3.2. A window holds as many messages as
 * --window says, fewer where they would fill more than WINDOW_BYTES.
 */
#include "bench.h"

#define WINDOW_MAX 1024
#define WINDOW_BYTES (16 << 20)

struct window {
    size_t bytes, stride;
    int n, peer;
    char *out, *in;
    MPI_Request requests[2 * WINDOW_MAX];
    MPI_Status statuses[2 * WINDOW_MAX]; /* for gcc: MPICH's IGNORE is 1 */
};

static void window_fill(struct window *w, uint64_t seed)
{
    for (int k = 0; k < w->n; k++) {
        bench_fill(w->out + (size_t)k * w->stride, w->bytes,
                   seed + (uint64_t)(2 * k + bench_rank));
    }
    memset(w->in, 0, w->stride * (size_t)w->n);
}

static void window_check(struct window *w, uint64_t seed, const char *what)
{
    for (int k = 0; k < w->n; k++) {
        bench_check(w->in + (size_t)k * w->stride, w->bytes,
                    seed + (uint64_t)(2 * k + w->peer), what);
    }
}

static int post_sends(struct window *w, int at)
{
    for (int k = 0; k < w->n; k++) {
        MPI_Isend(w->out + (size_t)k * w->stride, (int)w->bytes, MPI_BYTE,
                  w->peer, BENCH_TAG, MPI_COMM_WORLD, &w->requests[at++]);
    }
    return at;
}

static int post_receives(struct window *w, int at)
{
    for (int k = 0; k < w->n; k++) {
        MPI_Irecv(w->in + (size_t)k * w->stride, (int)w->bytes, MPI_BYTE,
                  w->peer, BENCH_TAG, MPI_COMM_WORLD, &w->requests[at++]);
    }
    return at;
}

static void one_way(struct window *w)
{
    int n = bench_rank == 0 ? post_sends(w, 0) : post_receives(w, 0);

    MPI_Waitall(n, w->requests, w->statuses);
}

static void blocking(struct window *w)
{
    for (int k = 0; bench_rank == 0 && k < w->n; k++) {
        MPI_Send(w->out + (size_t)k * w->stride, (int)w->bytes, MPI_BYTE,
                 w->peer, BENCH_TAG, MPI_COMM_WORLD);
    }
    if (bench_rank == 1) {
        MPI_Waitall(post_receives(w, 0), w->requests, w->statuses);
    }
}

static void both_ways(struct window *w)
{
    int n = post_sends(w, 0);

    n = post_receives(w, n);
    MPI_Waitall(n, w->requests, w->statuses);
}

/* us for so many windows, up to the answer to the last one. A block of
 * windows is one stream. */
static double run(struct window *w, void (*move)(struct window *), long windows)
{
    double start;

    bench_meet(w->peer);
    start = bench_now();
    for (long i = 0; i < windows; i++) {
        move(w);
    }
    bench_meet(w->peer);
    return bench_now() - start;
}

static void check_rounds(struct window *w, void (*move)(struct window *),
                         int receives)
{
    for (int i = 0; i < BENCH_CHECK_ROUNDS; i++) {
        uint64_t seed = 4 * WINDOW_MAX * (uint64_t)i;

        window_fill(w, seed);
        run(w, move, 1);
        if (receives) {
            window_check(w, seed, "window");
        }
    }
}

static double windows_mb_s(struct window *w, void (*move)(struct window *),
                           long iterations)
{
    int both = move == both_ways;
    long block = bench_block(iterations), done = 0;
    double spent = 0.0;

    check_rounds(w, move, both || bench_rank == 1);
    window_fill(w, 1);
    do {
        spent += run(w, move, block);
        done += block;
    } while (done < iterations && bench_go_on(spent, bench_pair));
    if (both || bench_rank == 1) {
        window_check(w, 1, "last window");
    }
    return (both ? 2.0 : 1.0) * (double)w->bytes * w->n * (double)done / spent;
}

static double ping_pong_mb_s(struct window *w, long iterations)
{
    double best;

    bench_warm_pair(w->out, w->in, w->bytes);
    return (double)w->bytes /
           bench_half_rtt(w->out, w->in, w->bytes, iterations, &best);
}

static void measure(size_t bytes, long window, long iterations,
                    const char *modes)
{
    static struct window w;
    size_t whole;

    w.bytes = w.stride = bytes;
    w.peer = 1 - bench_rank;
    w.n = (int)((double)window * (double)bytes > WINDOW_BYTES
                    ? WINDOW_BYTES / (double)bytes
                    : (double)window);
    w.n = w.n < 1 ? 1 : w.n;
    whole = bytes * (size_t)w.n;
    w.out = bench_alloc(whole);
    w.in = bench_alloc(whole);
    if (bench_has(modes, "uni")) {
        bench_result("mode=uni size=%zu mb_s=%.3f window=%d", bytes,
                     windows_mb_s(&w, one_way, iterations), w.n);
    }
    if (bench_has(modes, "bidirectional")) {
        bench_result("mode=bidirectional size=%zu mb_s=%.3f", bytes,
                     ping_pong_mb_s(&w, iterations * w.n));
    }
    if (bench_has(modes, "both-way")) {
        bench_result("mode=both-way size=%zu mb_s=%.3f window=%d", bytes,
                     windows_mb_s(&w, both_ways, iterations), w.n);
    }
    if (bench_has(modes, "blocking")) {
        bench_result("mode=blocking size=%zu mb_s=%.3f window=%d", bytes,
                     windows_mb_s(&w, blocking, iterations), w.n);
    }
    bench_free(w.out, whole);
    bench_free(w.in, whole);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    const char *modes;
    long window, iterations;

    bench_begin(&argc, &argv, "bandwidth", 2);
    sizes = bench_sizes("1024,65536,1048576");
    modes = bench_text("modes", "uni,bidirectional,both-way");
    window = bench_number("window", 64);
    iterations = bench_number("iterations", 40);
    if (window < 1 || window > WINDOW_MAX) {
        bench_usage("--window %ld: 1 to %d messages", window, WINDOW_MAX);
    }
    for (int i = 0; i < sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i];

        measure(bytes, window, bench_iterations(iterations, bytes), modes);
    }
    bench_done();
    return 0;
}
