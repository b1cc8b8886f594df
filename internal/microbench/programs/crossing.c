/*
 * crossing.c - two ranks meet, and then one receives while the other one sends, in
 * turn: whatever a receive says to its sender crosses the message. One direction at a
 * time, for where both ranks receive and send, what the one says is there before the
 * other one sends. Rashti 2010, 4.4.3.
 *
 *   exact  the buffer has the size of the message
 *   large  it has at least CROSSING_LARGE: a receiver that expects a long message
 *          is wrong if this one is short
 *
 * In turn on two communicators, "crossing" and "beside", for which a policy of act
 * mode may have different rules: what tells the two apart is then measured within
 * one job, where nothing else does. Without such a rule they take the same time.
 * Each size has communicators of its own, for a receiver that learnt from one size
 * that asking does not pay would ask for none of the next.
 */
#include "bench.h"

#define CROSSING_LARGE ((size_t)1 << 18)

struct crossing {
    char *out, *in;
    size_t bytes, room;
};

enum { CROSSING, BESIDE };

static MPI_Comm comms[2];

/* us of a message each way, without their meetings. */
static double cross(const struct crossing *x, MPI_Comm comm)
{
    int peer = 1 - bench_rank;
    double spent = 0.0;

    for (int sender = 0; sender < 2; sender++) {
        MPI_Request request;
        double start;

        bench_meet(peer);
        start = bench_now();
        if (sender == bench_rank) {
            MPI_Isend(x->out, (int)x->bytes, MPI_BYTE, peer, BENCH_TAG, comm,
                      &request);
        } else {
            MPI_Irecv(x->in, (int)x->room, MPI_BYTE, peer, BENCH_TAG, comm,
                      &request);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        spent += bench_now() - start;
    }
    return spent;
}

static double crossings(const struct crossing *x, MPI_Comm comm, long n)
{
    double spent = 0.0;

    for (long i = 0; i < n; i++) {
        spent += cross(x, comm);
    }
    return spent;
}

static void checked(const struct crossing *x, uint64_t seed)
{
    for (int way = CROSSING; way <= BESIDE; way++) {
        uint64_t at = 4 * seed + 2 * (uint64_t)way;

        bench_fill(x->out, x->bytes, at + (uint64_t)bench_rank);
        memset(x->in, 0, x->room);
        cross(x, comms[way]);
        bench_check(x->in, x->bytes, at + 1 - (uint64_t)bench_rank,
                    "crossing messages");
    }
}

static void open_comms(void)
{
    for (int way = CROSSING; way <= BESIDE; way++) {
        MPI_Comm_dup(bench_pair, &comms[way]);
        MPI_Comm_set_name(comms[way], way == CROSSING ? "crossing" : "beside");
    }
}

static void close_comms(void)
{
    for (int way = CROSSING; way <= BESIDE; way++) {
        MPI_Comm_free(&comms[way]);
    }
}

static void measure(const char *name, size_t bytes, size_t room, long iterations)
{
    struct crossing x = {.out = bench_alloc(bytes),
                         .in = bench_alloc(room),
                         .bytes = bytes,
                         .room = room};
    long block = bench_block(iterations), done = 0;
    double means[BENCH_BLOCKS], shares[BENCH_BLOCKS], spent = 0.0;
    int n = 0;

    open_comms();
    for (long i = 0; i < bench_rounds(bytes); i++) {
        checked(&x, (uint64_t)i);
    }
    do {
        double us[2];
        int first = n % 2; /* who goes first profits from nothing */

        us[first] = crossings(&x, comms[first], block);
        us[1 - first] = crossings(&x, comms[1 - first], block);
        means[n] = us[CROSSING] / (double)block;
        shares[n++] = 100.0 * us[CROSSING] / us[BESIDE];
        spent += us[CROSSING] + us[BESIDE];
        done += block;
    } while (n < BENCH_BLOCKS && done < iterations &&
             bench_go_on(spent, bench_pair));
    checked(&x, (uint64_t)done);
    close_comms();
    bench_result("cross=%s size=%zu exchange_us=%.4f beside_pct=%.3f buffer=%zu",
                 name, bytes, bench_median(means, n), bench_median(shares, n),
                 room);
    bench_free(x.out, bytes);
    bench_free(x.in, room);
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    const char *ways;
    long iterations;

    bench_begin(&argc, &argv, "crossing", 2);
    sizes = bench_sizes("1024,131072");
    ways = bench_text("cross", "exact,large");
    iterations = bench_number("iterations", 2000);
    for (int i = 0; i < sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i];
        long n = bench_iterations(iterations, bytes);

        if (bench_has(ways, "exact")) {
            measure("exact", bytes, bytes, n);
        }
        if (bench_has(ways, "large")) {
            measure("large", bytes,
                    bytes > CROSSING_LARGE ? bytes : CROSSING_LARGE, n);
        }
    }
    bench_done();
    return 0;
}
