/*
 * cold.c - single calls of one rank with itself after everything has been
 * pushed out of the level-2 cache by walking over memory of four times its
 * size: what a call costs in a program that computes in between. Each call
 * is timed alone, so the figures hold the clock's own cost; differences
 * between variants do not. Start on one rank.
 */
#include "bench.h"
#include "loops.h"

#include <unistd.h>

#define CALLS 1500

static char *walk;
static size_t walk_bytes;

static void walk_setup(void)
{
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);

    walk_bytes = 4 * (size_t)(cache > 0 ? cache : 1 << 20);
    walk = malloc(walk_bytes);
    if (walk == NULL) {
        perror("malloc");
        exit(2);
    }
    memset(walk, 1, walk_bytes);
}

static void empty_cache(void)
{
    for (size_t i = 0; i < walk_bytes; i += 64) {
        walk[i]++;
    }
}

/* Mean without the slowest twentieth (interrupts): the counter behind the
 * clock of some processors steps by 10 ns, so a median would be coarse. */
static double trimmed_mean(double *values, int n)
{
    double sum = 0.0;
    int kept = n - n / 20;

    qsort(values, (size_t)n, sizeof(values[0]), compare_doubles);
    for (int i = 0; i < kept; i++) {
        sum += values[i];
    }
    return sum / kept;
}

static double time_cold(loop_fn loop, double calls)
{
    static double ns[CALLS];

    loop(10);
    for (int i = 0; i < CALLS; i++) {
        empty_cache();
        ns[i] = time_block(loop, 1) / calls;
    }
    return trimmed_mean(ns, CALLS);
}

int main(int argc, char **argv)
{
    static const struct named_loop loops[] = {
        {"cold_Comm_rank", loop_comm_rank, 1.0},
        {"cold_Iprobe", loop_iprobe, 1.0},
        {"cold_Sendrecv", loop_sendrecv, 1.0},
        {"cold_Irecv+Send+Wait", loop_irecv_send_wait, CALLS_IRECV},
        {"cold_Allreduce", loop_allreduce, 1.0},
    };

    MPI_Init(&argc, &argv);
    COMM = MPI_COMM_WORLD;
    pin(0);
    walk_setup();
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        print_result(loops[i].name, time_cold(loops[i].loop, loops[i].calls));
    }
    MPI_Finalize();
    return 0;
}
