/*
 * arrival.c - collectives that the ranks enter at different times.
 *
 * Every instance: barrier, a delay of the rank's own, t0, the collective, t1.
 * T is the time to send one message of the size (the fastest block of a
 * ping-pong of ranks 0 and 1).
 *
 *   arrival          every rank computes a random time, uniform in
 *                    [0, MIF*T]. Qian 2010, 6.3.2
 *   --late 25,75     that share of the ranks computes MIF*T (--law fixed) or
 *                    uniform in [0, MIF*T] (--law random), the others not.
 *                    Which ones is drawn anew for every instance from --seed.
 *                    Qian 2010, 6.5
 *
 * mean_us is the mean of t1 - t0, which holds the unavoidable waiting for
 * the last rank. beyond_us is the mean of t1 minus the last arrival of the
 * instance over all ranks. For that the clocks are aligned to that of rank 0
 * by ping-pongs before and after the instances, the offset taken linearly
 * between; clock_error_us bounds the error: half the shortest round trip.
 */
#include "bench.h"

#include <math.h>

#define INSTANCES_MAX 100000
#define ALIGN_ROUNDS 100

struct setting {
    const char *op;
    size_t bytes;
    double mif, late_pct; /* late_pct below 0: all ranks at random */
    int late_ranks, fixed;
    long instances;
    uint64_t seed;
    double message_us;
    char *out, *in;
};

/* Rank 0's clock minus ours, when, and by how much it may be wrong. */
struct offset {
    double us, at, error;
};

static struct offset align_with_root(void)
{
    struct offset best = {0.0, 0.0, INFINITY};

    for (int i = 0; i < ALIGN_ROUNDS; i++) {
        double sent = bench_now(), theirs, got;

        MPI_Send(&sent, 1, MPI_DOUBLE, 0, BENCH_TAG_ACK, MPI_COMM_WORLD);
        MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, BENCH_TAG_ACK, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        got = bench_now();
        if ((got - sent) / 2.0 < best.error) {
            best.error = (got - sent) / 2.0;
            best.at = (sent + got) / 2.0;
            best.us = theirs - best.at;
        }
    }
    return best;
}

/* All ranks, one after the other, with rank 0. */
static struct offset align_clocks(void)
{
    struct offset none = {0.0, bench_now(), 0.0};

    if (bench_rank != 0) {
        return align_with_root();
    }
    for (int i = 0; i < (bench_ranks - 1) * ALIGN_ROUNDS; i++) {
        int rank = 1 + i / ALIGN_ROUNDS;
        double theirs, now;

        MPI_Recv(&theirs, 1, MPI_DOUBLE, rank, BENCH_TAG_ACK, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        now = bench_now();
        MPI_Send(&now, 1, MPI_DOUBLE, rank, BENCH_TAG_ACK, MPI_COMM_WORLD);
    }
    return none;
}

static double to_root_clock(double t, struct offset a, struct offset b)
{
    double share = b.at > a.at ? (t - a.at) / (b.at - a.at) : 0.0;

    return t + a.us + share * (b.us - a.us);
}

/* ---- who is how late ---- */

/* Whether this rank is among the late ones of the instance: all ranks draw
 * the same ones, by the first steps of a shuffle. */
static int is_late(const struct setting *s, long instance)
{
    static int *order;
    uint64_t draw = s->seed + 0x51ed2701u * (uint64_t)(instance + 1);

    if (order == NULL && (order = malloc(sizeof(int) * bench_ranks)) == NULL) {
        bench_fail("no memory");
    }
    for (int i = 0; i < bench_ranks; i++) {
        order[i] = i;
    }
    for (int i = 0; i < s->late_ranks; i++) {
        int left = bench_ranks - i;
        int k = i + (int)(bench_uniform(draw, (uint64_t)i) * left);
        int chosen = order[k];

        order[k] = order[i];
        order[i] = chosen;
        if (chosen == bench_rank) {
            return 1;
        }
    }
    return 0;
}

static double delay_us(const struct setting *s, long instance)
{
    double most = s->mif * s->message_us;
    double share = bench_uniform(s->seed * 1000003u + (uint64_t)bench_rank,
                                 (uint64_t)instance);

    if (s->late_pct < 0.0) {
        return share * most;
    }
    if (!is_late(s, instance)) {
        return 0.0;
    }
    return s->fixed ? most : share * most;
}

/* ---- the collectives and their data ---- */

static size_t words(const struct setting *s)
{
    return s->bytes < 8 ? 1 : s->bytes / 8;
}

static uint64_t block_seed(long instance, int from, int to)
{
    return ((uint64_t)instance << 32) + (uint64_t)from * 65536u + (uint64_t)to;
}

static void prepare(struct setting *s, long instance)
{
    int blocks = strcmp(s->op, "alltoall") == 0 ? bench_ranks : 1;

    if (strcmp(s->op, "allreduce") == 0) {
        bench_fill(s->out, 8 * words(s), block_seed(instance, bench_rank, 0));
        memset(s->in, 0, 8 * words(s));
        return;
    }
    for (int to = 0; to < blocks; to++) {
        bench_fill(s->out + (size_t)to * s->bytes, s->bytes,
                   block_seed(instance, bench_rank, to));
    }
    memset(s->in, 0, s->bytes * (size_t)bench_ranks);
}

static void call(struct setting *s)
{
    int n = (int)s->bytes;

    if (strcmp(s->op, "alltoall") == 0) {
        MPI_Alltoall(s->out, n, MPI_BYTE, s->in, n, MPI_BYTE, MPI_COMM_WORLD);
    } else if (strcmp(s->op, "allgather") == 0) {
        MPI_Allgather(s->out, n, MPI_BYTE, s->in, n, MPI_BYTE, MPI_COMM_WORLD);
    } else {
        MPI_Allreduce(s->out, s->in, (int)words(s), MPI_UINT64_T, MPI_SUM,
                      MPI_COMM_WORLD);
    }
}

static void verify_sum(const struct setting *s, long instance)
{
    for (size_t i = 0; i < words(s); i++) {
        uint64_t want = 0, got;

        for (int r = 0; r < bench_ranks; r++) {
            want += bench_word(block_seed(instance, r, 0), i);
        }
        memcpy(&got, s->in + 8 * i, 8);
        if (got != want) {
            bench_fail("wrong data: allreduce, %zu bytes, at byte %zu",
                       8 * words(s), 8 * i);
        }
    }
    bench_verified++;
}

static void verify(const struct setting *s, long instance)
{
    int to = strcmp(s->op, "alltoall") == 0 ? bench_rank : 0;

    if (strcmp(s->op, "allreduce") == 0) {
        verify_sum(s, instance);
        return;
    }
    for (int from = 0; from < bench_ranks; from++) {
        bench_check(s->in + (size_t)from * s->bytes, s->bytes,
                    block_seed(instance, from, to), s->op);
    }
}

/* ---- measuring ---- */

static double enter[INSTANCES_MAX], leave[INSTANCES_MAX];

/* Runs the instances, fills enter and leave by this rank's clock and returns
 * how many there was time for. */
static long run(struct setting *s)
{
    double begin = bench_now();
    long n = 0;

    do {
        double us = delay_us(s, n);

        prepare(s, n);
        MPI_Barrier(MPI_COMM_WORLD);
        if (us > 0.0) {
            bench_compute(us);
        }
        enter[n] = bench_now();
        call(s);
        leave[n] = bench_now();
        verify(s, n);
        n++;
    } while (n < s->instances &&
             (n % BENCH_CHECK_ROUNDS != 0 ||
              bench_go_on(bench_now() - begin, MPI_COMM_WORLD)));
    return n;
}

/* What one rank contributes; sums over instances. */
struct figures {
    double inside, beyond, imbalance;
};

/* last and least arrival of every instance are known to all ranks */
static struct figures figures(const double *least, const double *last, long n)
{
    struct figures f = {0.0, 0.0, 0.0};

    for (long i = 0; i < n; i++) {
        f.inside += leave[i] - enter[i];
        f.beyond += leave[i] - last[i];
        f.imbalance += last[i] - least[i];
    }
    return f;
}

static void report(const struct setting *s, const double *mean, double error,
                   long n)
{
    char late[64] = "";

    if (s->late_pct >= 0.0) {
        snprintf(late, sizeof(late), " late_pct=%g", s->late_pct);
    }
    bench_result("op=%s size=%zu mif=%g%s mean_us=%.4f beyond_us=%.4f "
                 "imbalance_us=%.4f message_us=%.4f clock_error_us=%.4f "
                 "instances=%ld late_ranks=%d",
                 s->op, s->bytes, s->mif, late, mean[0], mean[1], mean[2],
                 s->message_us, error, n, s->late_ranks);
}

static void measure(struct setting *s)
{
    static double least[INSTANCES_MAX], last[INSTANCES_MAX];
    struct offset before, after;
    struct figures f;
    double mine[3], mean[3], error;
    long n;

    before = align_clocks();
    n = run(s);
    after = align_clocks();
    for (long i = 0; i < n; i++) {
        enter[i] = to_root_clock(enter[i], before, after);
        leave[i] = to_root_clock(leave[i], before, after);
    }
    MPI_Allreduce(enter, least, (int)n, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(enter, last, (int)n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    f = figures(least, last, n);
    mine[0] = f.inside / (double)n / bench_ranks;
    mine[1] = f.beyond / (double)n / bench_ranks;
    mine[2] = f.imbalance / (double)n / bench_ranks;
    MPI_Reduce(mine, mean, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    error = before.error > after.error ? before.error : after.error;
    MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    report(s, mean, error, n);
}

/* Time to send one message of the size, as all ranks then know it. */
static double message_us(size_t bytes)
{
    double best = 0.0;

    if (bench_rank < 2) {
        char *out = bench_alloc(bytes), *in = bench_alloc(bytes);

        bench_warm_pair(out, in, bytes);
        bench_half_rtt(out, in, bytes, bench_iterations(1000, bytes), &best);
        bench_free(out, bytes);
        bench_free(in, bytes);
    }
    MPI_Bcast(&best, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return best;
}

/* That share of the ranks, rounded; at least one is late, and one is not. */
static int late_ranks(double percent)
{
    double ranks = bench_ranks * percent / 100.0 + 0.5;

    if (ranks < 1.0) {
        return 1;
    }
    return ranks > bench_ranks - 1 ? bench_ranks - 1 : (int)ranks;
}

/* All of --mif and --late for one operation. */
static void sweep(struct setting *s)
{
    struct bench_list mifs = bench_numbers("mif", "1,32,128,512");
    struct bench_list late = bench_numbers("late", "0");
    int given = bench_text("late", NULL) != NULL;

    if (late.n > 1 && bench_ranks < 4) {
        bench_note("with %d ranks different shares of late ranks may round to "
                   "one number; use 4 or more",
                   bench_ranks);
    }
    for (int i = 0; i < mifs.n; i++) {
        for (int k = 0; k < late.n; k++) {
            s->mif = mifs.at[i];
            s->late_pct = given ? late.at[k] : -1.0;
            s->late_ranks = given ? late_ranks(late.at[k]) : 0;
            measure(s);
        }
    }
}

/* All operations with messages of one size. */
static void measure_size(struct setting *s, size_t bytes, const char *chosen)
{
    static const char *const ops[] = {"alltoall", "allgather", "allreduce"};
    size_t whole = (bytes + 8) * (size_t)bench_ranks;

    s->bytes = bytes;
    s->message_us = message_us(bytes);
    s->out = bench_alloc(whole);
    s->in = bench_alloc(whole);
    for (int k = 0; k < 3; k++) {
        s->op = ops[k];
        if (bench_has(chosen, ops[k])) {
            sweep(s);
        }
    }
    bench_free(s->out, whole);
    bench_free(s->in, whole);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    struct setting s = {.seed = 0};
    const char *chosen;

    bench_begin(&argc, &argv, "arrival", 2);
    bench_name = bench_text("late", NULL) != NULL ? "late" : "arrival";
    sizes = bench_sizes("8,8192");
    chosen = bench_text("ops", "alltoall,allgather,allreduce");
    s.seed = (uint64_t)bench_number("seed", 1);
    s.fixed = strcmp(bench_text("law", "fixed"), "random") != 0;
    s.instances = bench_number("iterations", 200);
    if (s.instances < 1 || s.instances > INSTANCES_MAX) {
        bench_usage("--iterations %ld: 1 to %d", s.instances, INSTANCES_MAX);
    }
    bench_calibrate();
    for (int i = 0; i < sizes.n; i++) {
        measure_size(&s, (size_t)sizes.at[i], chosen);
    }
    bench_done();
    return 0;
}
