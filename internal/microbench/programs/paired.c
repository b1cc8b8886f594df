/*
 * paired.c - the same messages on two communicators, "paired" and "beside", in
 * turn, for which a policy of act mode may have different rules: what tells the
 * two apart is then measured within one job, whatever else the machine does.
 * Without such a rule they take the same time. Each has buffers of its own.
 *
 *   same      ping-pong, always from one buffer
 *   half      every second exchange takes a new one
 *   fresh     no buffer comes twice
 *   spectrum  the i-th of --buffers is used i times, one after the other
 *   blocking  one way by MPI_Send, one behind the other, --window buffers in turn
 *
 * Send buffers lie on pages of their own; there is one receive buffer (blocking:
 * a window of them). Rashti 2010, 3.5.2 (reuse) and 5.5.1 (spectrum). The
 * messages of same, half and fresh end where --pool bytes of buffers would.
 */
#include "bench.h"

enum pattern { SAME, HALF, FRESH, SPECTRUM, BLOCKING, PATTERNS };

static const char *const names[PATTERNS] = {"same", "half", "fresh", "spectrum",
                                            "blocking"};

enum { PAIRED, BESIDE, WAYS };

struct way {
    MPI_Comm comm;
    char *out, *in;
};

struct traffic {
    enum pattern pattern;
    size_t bytes, stride;
    long messages; /* each way and, of ping-pongs, each direction */
    long block;    /* of them are timed at once */
    long buffers, window;
    long *order; /* of the buffers of a block */
    struct way ways[WAYS];
    MPI_Request *requests; /* of a window */
    MPI_Status *statuses;  /* for gcc: MPICH's IGNORE is 1 */
};

/* The buffer of message n, when the one before was of this buffer. */
static long buffer_of(const struct traffic *t, long n, long before)
{
    switch (t->pattern) {
    case HALF:
        return n / 2;
    case FRESH:
        return n;
    case SPECTRUM: /* buffers 0 to b are used (b + 1)(b + 2) / 2 times */
        while ((before + 1) * (before + 2) / 2 <= n) {
            before++;
        }
        return before;
    case BLOCKING:
        return n % t->window;
    default:
        return 0;
    }
}

static uint64_t seed(const struct way *w, const struct traffic *t, long buffer,
                     int rank)
{
    return 4 * (uint64_t)buffer + 2 * (w == &t->ways[BESIDE]) + (uint64_t)rank;
}

static void ping_pong(const struct traffic *t, const struct way *w, long n)
{
    for (long i = 0; i < n; i++) {
        bench_exchange_on(w->comm, w->out + (size_t)t->order[i] * t->stride,
                          w->in, t->bytes, bench_rank == 0, 1 - bench_rank);
    }
}

static void one_way(const struct traffic *t, const struct way *w, long n)
{
    int bytes = (int)t->bytes;

    for (long i = 0; bench_rank == 0 && i < n; i++) {
        MPI_Send(w->out + (size_t)t->order[i] * t->stride, bytes, MPI_BYTE, 1,
                 BENCH_TAG, w->comm);
    }
    for (long i = 0; bench_rank == 1 && i < n; i += t->window) {
        for (long k = 0; k < t->window; k++) {
            MPI_Irecv(w->in + (size_t)k * t->stride, bytes, MPI_BYTE, 0,
                      BENCH_TAG, w->comm, &t->requests[k]);
        }
        MPI_Waitall((int)t->window, t->requests, t->statuses);
    }
}

/* us of n messages in the order of t, until both ranks are done with them. */
static double move(const struct traffic *t, const struct way *w, long n)
{
    double start;

    bench_meet(1 - bench_rank);
    start = bench_now();
    if (t->pattern == BLOCKING) {
        one_way(t, w, n);
    } else {
        ping_pong(t, w, n);
    }
    bench_meet(1 - bench_rank);
    return bench_now() - start;
}

/* What the last messages that came were. */
static void check(const struct traffic *t, const struct way *w, long n)
{
    long window = t->pattern == BLOCKING ? t->window : 1;

    for (long k = 0; k < window; k++) {
        if (window == 1 || bench_rank == 1) {
            bench_check(w->in + (size_t)k * t->stride, t->bytes,
                        seed(w, t, t->order[n - window + k], 1 - bench_rank),
                        names[t->pattern]);
        }
    }
    memset(w->in, 0, t->stride * (size_t)window);
}

/* Each way, from a buffer that is not timed; blocking: from all of them. */
static void warm_up(struct traffic *t)
{
    long n = t->pattern == BLOCKING ? t->window : 1;

    for (long i = 0; i < n; i++) {
        t->order[i] = t->pattern == BLOCKING ? i : t->buffers - 1;
    }
    for (long i = 0; i < bench_rounds(t->bytes); i++) {
        for (int k = PAIRED; k <= BESIDE; k++) {
            move(t, &t->ways[k], n);
            check(t, &t->ways[k], n);
        }
    }
}

static void open_ways(struct traffic *t)
{
    size_t window = (size_t)(t->pattern == BLOCKING ? t->window : 1);

    for (int k = PAIRED; k <= BESIDE; k++) {
        struct way *w = &t->ways[k];

        MPI_Comm_dup(bench_pair, &w->comm);
        MPI_Comm_set_name(w->comm, k == PAIRED ? "paired" : "beside");
        w->out = bench_alloc(t->stride * (size_t)t->buffers);
        w->in = bench_alloc(t->stride * window);
        for (long i = 0; i < t->buffers; i++) {
            bench_fill(w->out + (size_t)i * t->stride, t->bytes,
                       seed(w, t, i, bench_rank));
        }
    }
    t->order = (long *)bench_alloc(sizeof(long) * (size_t)t->block);
    t->requests = (MPI_Request *)bench_alloc(sizeof(*t->requests) *
                                             (size_t)t->window);
    t->statuses =
        (MPI_Status *)bench_alloc(sizeof(*t->statuses) * (size_t)t->window);
}

static void close_ways(struct traffic *t)
{
    size_t window = (size_t)(t->pattern == BLOCKING ? t->window : 1);

    for (int k = PAIRED; k <= BESIDE; k++) {
        MPI_Comm_free(&t->ways[k].comm);
        bench_free(t->ways[k].out, t->stride * (size_t)t->buffers);
        bench_free(t->ways[k].in, t->stride * window);
    }
    bench_free((char *)t->order, sizeof(long) * (size_t)t->block);
    bench_free((char *)t->requests, sizeof(*t->requests) * (size_t)t->window);
    bench_free((char *)t->statuses, sizeof(*t->statuses) * (size_t)t->window);
}

static void measure(struct traffic *t)
{
    double times[WAYS][BENCH_BLOCKS], shares[BENCH_BLOCKS], spent = 0.0;
    double each = t->pattern == BLOCKING ? 1.0 : 2.0;
    long done = 0, last = 0;
    int n = 0;

    open_ways(t);
    warm_up(t);
    do {
        for (long i = 0; i < t->block; i++) {
            last = t->order[i] = buffer_of(t, done + i, last);
        }
        for (int k = PAIRED; k <= BESIDE; k++) {
            int way = (n + k) % WAYS; /* who goes first profits from nothing */

            spent += times[way][n] = move(t, &t->ways[way], t->block);
            check(t, &t->ways[way], t->block);
        }
        shares[n] = 100.0 * times[PAIRED][n] / times[BESIDE][n];
        times[PAIRED][n++] /= each * (double)t->block;
        done += t->block;
    } while (n < BENCH_BLOCKS &&
             (n % WAYS != 0 || bench_go_on(spent, bench_pair)));
    if (n < BENCH_BLOCKS && t->pattern == SPECTRUM) {
        bench_note("size %zu: in some runs the time was up before all buffers "
                   "were used; raise --limit-ms", t->bytes);
    }
    close_ways(t);
    bench_result("pattern=%s size=%zu message_us=%.4f beside_pct=%.3f "
                 "buffers=%ld",
                 names[t->pattern], t->bytes,
                 bench_median(times[PAIRED], n), bench_median(shares, n),
                 t->pattern == BLOCKING ? t->window : last + 1);
}

/* How many messages, in blocks of the same length, and buffers there are. */
static void plan(struct traffic *t, long iterations, long buffers, long pool)
{
    long most = pool / (long)t->stride;

    if (most == 0) {
        bench_usage("--pool %ld: less than a buffer of %zu bytes", pool, t->bytes);
    }
    t->messages = iterations < most ? iterations : most;
    switch (t->pattern) {
    case SPECTRUM:
        t->messages = buffers * (buffers + 1) / 2;
        break;
    case BLOCKING:
        t->messages = iterations;
        break;
    default:
        break;
    }
    t->block = bench_block(t->messages);
    if (t->pattern == BLOCKING) {
        t->block = (t->block + t->window - 1) / t->window * t->window;
    }
    t->buffers = t->window;
    if (t->pattern != BLOCKING) {
        t->buffers = 1;
        for (long n = 1; n < t->block * BENCH_BLOCKS; n++) {
            t->buffers = buffer_of(t, n, t->buffers - 1) + 1;
        }
        t->buffers++; /* and one to warm up with */
    }
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    const char *patterns;
    long iterations, buffers, pool, window;

    bench_begin(&argc, &argv, "paired", 2);
    sizes = bench_sizes("1024,8192");
    patterns = bench_text("patterns", "same,half,fresh,spectrum,blocking");
    iterations = bench_number("iterations", 2000);
    buffers = bench_number("buffers", 300);
    pool = bench_number("pool", 64 << 20);
    window = bench_number("window", 64);
    if (buffers < 1 || buffers > 100000) {
        bench_usage("--buffers %ld: 1 to 100000", buffers);
    }
    if (window < 1 || window > 1024) {
        bench_usage("--window %ld: 1 to 1024 messages", window);
    }
    for (int i = 0; i < PATTERNS * sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i / PATTERNS];
        struct traffic t = {
            .pattern = (enum pattern)(i % PATTERNS),
            .bytes = bytes,
            .stride = (bytes + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE,
            .window = window};

        if (bench_has(patterns, names[t.pattern])) {
            plan(&t, bench_iterations(iterations, bytes), buffers, pool);
            measure(&t);
        }
    }
    bench_done();
    return 0;
}
