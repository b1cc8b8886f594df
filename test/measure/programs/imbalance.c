/* imbalance.c PATTERN K DELAY_US SEED: each collective operation K times, with
 * ranks late by a known time: fixed, random, ramp or alternating.
 *
 *   ledger call FUNCTION COMMUNICATOR INDEX RANK ENTER WAIT EXIT
 *
 * The moments stand just around the calls. Ranks meet before each operation
 * by messages, which leave no samples. */
#include <mpi.h>

#include "ledger.h"

static const char *pattern;
static int k_max, rank, size;
static int64_t late_ns;
static uint64_t seed;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* How late a rank of n is at the k-th operation. */
static int64_t lateness(int k, int r, int n)
{
    switch (pattern[0]) {
    case 'f':
        return r == n / 2 ? late_ns : 0;
    case 'r':
        if (pattern[2] == 'n') {
            return r == (int)(mix(seed + (uint64_t)k) % (uint64_t)n) ? late_ns
                                                                      : 0;
        }
        return late_ns * r / (n - 1);
    default:
        return r == (k % 2 == 0 ? 0 : n - 1) ? late_ns : 0;
    }
}

/* A barrier of messages (dissemination). */
static void meet(void)
{
    for (int d = 1; d < size; d *= 2) {
        char out = 1, in;
        MPI_Sendrecv(&out, 1, MPI_CHAR, (rank + d) % size, 99, &in, 1, MPI_CHAR,
                     (rank - d + size) % size, 99, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
}

/* start and finish are the calls; between them a nonblocking one computes. */
#define MEASURE(function_, name_, comm_, between_ns_, start_, finish_)         \
    do {                                                                       \
        int r_, n_;                                                            \
        MPI_Comm_rank(comm_, &r_);                                             \
        MPI_Comm_size(comm_, &n_);                                             \
        for (int k = 0; k < k_max; k++) {                                      \
            meet();                                                            \
            pass(lateness(k, r_, n_));                                         \
            int64_t enter = now(), wait = enter;                               \
            start_;                                                            \
            if ((between_ns_) > 0) {                                           \
                pass(between_ns_);                                             \
                wait = now();                                                  \
            }                                                                  \
            finish_;                                                           \
            int64_t leave = now();                                             \
            ledger("call %s %s %d %d %" PRId64 " %" PRId64 " %" PRId64,        \
                   function_, name_, k, r_, enter, wait, leave);               \
        }                                                                      \
    } while (0)

static void world(void)
{
    int one = rank, sum;
    int many[64] = {0}, back[64];
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Request request;
    MEASURE("Barrier", "world", c, 0, MPI_Barrier(c), );
    MEASURE("Allreduce", "world", c, 0,
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c), );
    MEASURE("Alltoall", "world", c, 0,
            MPI_Alltoall(many, 1, MPI_INT, back, 1, MPI_INT, c), );
    MEASURE("Bcast", "world", c, 0, MPI_Bcast(many, 64, MPI_INT, 0, c), );
    MEASURE("Reduce", "world", c, 0,
            MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 1, c), );
    MEASURE("Scan", "world", c, 0,
            MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, c), );
    MEASURE("Ibarrier", "world", c, late_ns / 4, MPI_Ibarrier(c, &request),
            MPI_Wait(&request, MPI_STATUS_IGNORE));
#if MPI_VERSION >= 4
    MPI_Request fence, total;
    MPI_Barrier_init(c, MPI_INFO_NULL, &fence);
    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, c, MPI_INFO_NULL,
                       &total);
    MEASURE("Barrier_init", "world", c, late_ns / 4, MPI_Start(&fence),
            MPI_Wait(&fence, MPI_STATUS_IGNORE));
    MEASURE("Allreduce_init", "world", c, late_ns / 4, MPI_Start(&total),
            MPI_Wait(&total, MPI_STATUS_IGNORE));
    MPI_Request_free(&fence);
    MPI_Request_free(&total);
#endif
}

static void parts(void)
{
    int one = rank, sum, pair[2];
    MPI_Comm half, ring;
    const char *name = rank % 2 == 0 ? "even" : "odd";
    int periods[1] = {1};
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_set_name(half, name);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, periods, 0, &ring);
    MPI_Comm_set_name(ring, "ring");
    MEASURE("Barrier", name, half, 0, MPI_Barrier(half), );
    MEASURE("Allreduce", name, half, 0,
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half), );
    MEASURE("Bcast", name, half, 0, MPI_Bcast(&one, 1, MPI_INT, 1, half), );
    int near[2] = {rank, -rank};
    MEASURE("Neighbor_alltoall", "ring", ring, 0,
            MPI_Neighbor_alltoall(near, 1, MPI_INT, pair, 1, MPI_INT, ring), );
    MPI_Request request;
    MEASURE("Ineighbor_allgather", "ring", ring, late_ns / 4,
            MPI_Ineighbor_allgather(&one, 1, MPI_INT, pair, 1, MPI_INT, ring,
                                    &request),
            MPI_Wait(&request, MPI_STATUS_IGNORE));
#if MPI_VERSION >= 4
    MPI_Request around;
    MPI_Neighbor_alltoall_init(near, 1, MPI_INT, pair, 1, MPI_INT, ring,
                               MPI_INFO_NULL, &around);
    MEASURE("Neighbor_alltoall_init", "ring", ring, late_ns / 4,
            MPI_Start(&around), MPI_Wait(&around, MPI_STATUS_IGNORE));
    MPI_Request_free(&around);
#endif
    MPI_Comm_free(&half);
    MPI_Comm_free(&ring);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        return 2;
    }
    pattern = argv[1];
    k_max = atoi(argv[2]);
    late_ns = atoll(argv[3]) * 1000;
    seed = strtoull(argv[4], NULL, 10);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_name(MPI_COMM_WORLD, "world");
    ledger_open(rank);
    world();
    parts();
    ledger_close();
    MPI_Finalize();
    return 0;
}
