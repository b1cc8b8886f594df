/*
 * spectrum.c - ping-pong with a spectrum of reuse: of --buffers send buffers
 * the i-th is used i times, one after the other. They lie back to back, or
 * each on pages of its own (the worst case for registration by pages). One
 * receive buffer. Mean half round trip. Rashti 2010, 5.5.1.
 */
#include "bench.h"

struct spectrum {
    char *at, *in;
    size_t bytes, stride;
    long buffers, used;
    int first, peer;
};

static char *buffer(const struct spectrum *s, long i)
{
    return s->at + (size_t)(i - 1) * s->stride;
}

static uint64_t seed(long i, int first) { return 2 * (uint64_t)i + first; }

static void exchange(struct spectrum *s, long i)
{
    bench_exchange(buffer(s, i), s->in, s->bytes, s->first, s->peer);
}

/* us for buffer i, used i times. */
static double uses(struct spectrum *s, long i)
{
    double start = bench_now();

    for (long k = 0; k < i; k++) {
        exchange(s, i);
    }
    return bench_now() - start;
}

/* Mean half round trip over buffers 1 to s->used, up to the time limit. The
 * last message is checked. */
static double timed(struct spectrum *s)
{
    double spent = 0.0;

    memset(s->in, 0, s->bytes);
    s->used = 0;
    do {
        spent += uses(s, ++s->used);
    } while (s->used < s->buffers && bench_go_on(spent, bench_pair));
    bench_check(s->in, s->bytes, seed(s->used, !s->first), "last message");
    return spent / ((double)s->used * (double)(s->used + 1));
}

/* Every buffer once more, checked: afterwards, so that no buffer is known
 * to the library when it is timed. */
static void check(struct spectrum *s)
{
    for (long i = 1; i <= s->used; i++) {
        memset(s->in, 0, s->bytes);
        exchange(s, i);
        bench_check(s->in, s->bytes, seed(i, !s->first), "spectrum");
    }
}

static void measure(size_t bytes, long buffers, int separate)
{
    size_t page = (bytes + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE;
    struct spectrum s = {.bytes = bytes,
                         .stride = separate ? page : bytes,
                         .buffers = buffers,
                         .first = bench_rank == 0,
                         .peer = 1 - bench_rank};
    size_t whole = s.stride * (size_t)buffers;
    char *warm = bench_alloc(bytes);
    double us;

    s.at = bench_alloc(whole);
    s.in = bench_alloc(bytes);
    for (long i = 1; i <= buffers; i++) {
        bench_fill(buffer(&s, i), bytes, seed(i, s.first));
    }
    bench_warm_pair(warm, s.in, bytes);
    us = timed(&s);
    check(&s);
    bench_result("alloc=%s size=%zu half_rtt_us=%.4f buffers=%ld",
                 separate ? "separate-page" : "back-to-back", bytes, us,
                 s.used);
    if (s.used < buffers) {
        bench_note("size %zu: in some runs the time was up before all %ld "
                   "buffers were used; raise --limit-ms",
                   bytes, buffers);
    }
    bench_free(warm, bytes);
    bench_free(s.in, bytes);
    bench_free(s.at, whole);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long buffers;

    bench_begin(&argc, &argv, "spectrum", 2);
    sizes = bench_sizes("1024,8192");
    buffers = bench_number("buffers", 1000);
    if (buffers < 1 || buffers > 100000) {
        bench_usage("--buffers %ld: 1 to 100000", buffers);
    }
    for (int i = 0; i < 2 * sizes.n && bench_rank < 2; i++) {
        measure((size_t)sizes.at[i / 2], buffers, i % 2);
    }
    bench_done();
    return 0;
}
