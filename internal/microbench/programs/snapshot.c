/*
 * snapshot.c - when the data of a message moves while both ends compute: Sur
 * 2006, progress snapshot.
 *
 * Both meet; rank 0: Irecv, computation W, Wait; rank 1: Isend, computation W,
 * Wait. While it computes rank 0 looks at the first and the last byte of its
 * buffer, which MPI would not notice. Of each W (--factors of l0, or --delays us)
 * the medians at rank 0, in us since the meeting:
 *
 *   posted_us  Irecv has returned, the computation begins
 *   first_us   the first byte came; last_us the last one; of what came after the
 *              computation, the end of Wait
 *   wait_us    Wait is entered; end_us it has returned
 *
 * and moved_pct, the share of the turns in which all had come before Wait. l0 is
 * the end without computation.
 */
#include "bench.h"

#define SENTINEL 0xa5
#define TURNS_MAX 10000

enum stamp { POSTED, FIRST, LAST, WAIT, END, STAMPS };

struct snapshot {
    size_t bytes;
    unsigned char *buffer;
    long iterations;
    double compute_us;
};

/* The time at which a byte was seen to have come; 0: not yet. */
static void look(const volatile unsigned char *byte, double now, double *seen)
{
    if (*seen == 0.0 && *byte == SENTINEL) {
        *seen = now;
    }
}

static void receive(struct snapshot *s, double stamps[STAMPS])
{
    double start = bench_now(), now = start, end;
    MPI_Request request;
    MPI_Status status;

    stamps[FIRST] = stamps[LAST] = 0.0;
    MPI_Irecv(s->buffer, (int)s->bytes, MPI_BYTE, 1, BENCH_TAG, MPI_COMM_WORLD,
              &request);
    stamps[POSTED] = bench_now() - start;
    end = start + stamps[POSTED] + s->compute_us;
    while (now < end) {
        bench_spin(bench_chunk);
        now = bench_now();
        look(s->buffer, now - start, &stamps[FIRST]);
        look(s->buffer + s->bytes - 1, now - start, &stamps[LAST]);
    }
    stamps[WAIT] = bench_now() - start;
    MPI_Wait(&request, &status);
    stamps[END] = bench_now() - start;
}

static void send(struct snapshot *s)
{
    MPI_Request request;
    MPI_Status status;

    MPI_Isend(s->buffer, (int)s->bytes, MPI_BYTE, 0, BENCH_TAG, MPI_COMM_WORLD,
              &request);
    bench_compute(s->compute_us);
    MPI_Wait(&request, &status);
}

/* One turn; at rank 0 its stamps. */
static void turn(struct snapshot *s, uint64_t seed, double stamps[STAMPS])
{
    if (bench_rank == 0) {
        memset(s->buffer, 0, s->bytes);
    } else {
        bench_fill(s->buffer + 1, s->bytes - 2, seed);
        s->buffer[0] = s->buffer[s->bytes - 1] = SENTINEL;
    }
    MPI_Barrier(bench_pair);
    if (bench_rank != 0) {
        send(s);
        return;
    }
    receive(s, stamps);
    if (s->buffer[0] != SENTINEL || s->buffer[s->bytes - 1] != SENTINEL) {
        bench_fail("wrong data: an end of %zu bytes", s->bytes);
    }
    bench_check(s->buffer + 1, s->bytes - 2, seed, "message of a snapshot");
}

/* Medians of the stamps with the computation of s; the share of the turns in
 * which all came before Wait. */
static double medians(struct snapshot *s, double out[STAMPS])
{
    static double all[STAMPS][TURNS_MAX];
    double stamps[STAMPS] = {0.0}, begin = bench_now();
    int n = 0, moved = 0;

    do {
        turn(s, 3 + (uint64_t)n, stamps);
        moved += stamps[LAST] > 0.0;
        for (int i = 0; i < STAMPS; i++) {
            all[i][n] = stamps[i] > 0.0 ? stamps[i] : stamps[END];
        }
        n++;
    } while (n < s->iterations &&
             (n % BENCH_CHECK_ROUNDS != 0 ||
              bench_go_on(bench_now() - begin, bench_pair)));
    for (int i = 0; i < STAMPS; i++) {
        out[i] = bench_median(all[i], n);
    }
    return (double)moved / n;
}

static void measure(size_t bytes, long iterations)
{
    struct snapshot s = {.bytes = bytes,
                         .buffer = (unsigned char *)bench_alloc(bytes),
                         .iterations = BENCH_CHECK_ROUNDS};
    int given = bench_text("delays", NULL) != NULL;
    struct bench_list list = given ? bench_numbers("delays", "0")
                                   : bench_numbers("factors", "1,2");
    double at[STAMPS], l0;

    medians(&s, at);
    s.iterations = iterations;
    medians(&s, at);
    l0 = at[END];
    for (int i = 0; i < list.n; i++) {
        double moved;

        s.compute_us = given ? list.at[i] : list.at[i] * l0;
        MPI_Bcast(&s.compute_us, 1, MPI_DOUBLE, 0, bench_pair);
        moved = medians(&s, at);
        bench_result("size=%zu w=%g%s posted_us=%.4f first_us=%.4f "
                     "last_us=%.4f wait_us=%.4f end_us=%.4f moved_pct=%.3f "
                     "l0_us=%.4f",
                     bytes, list.at[i], given ? "us" : "l0", at[POSTED],
                     at[FIRST], at[LAST], at[WAIT], at[END], 100.0 * moved, l0);
    }
    bench_free((char *)s.buffer, bytes);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations;

    bench_begin(&argc, &argv, "snapshot", 2);
    sizes = bench_sizes("8192,1048576");
    iterations = bench_number("iterations", 200);
    iterations = iterations > TURNS_MAX ? TURNS_MAX : iterations;
    bench_calibrate();
    for (int i = 0; i < sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i];

        measure(bytes < 3 ? 3 : bytes, bench_iterations(iterations, bytes));
    }
    bench_done();
    return 0;
}
