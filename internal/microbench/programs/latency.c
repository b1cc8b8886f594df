/*
 * latency.c - ping-pong of ranks 0 and 1 with separate buffers: mean half
 * round trip, and that of the fastest block. Rashti 2010, 3.3.2.
 */
#include "bench.h"

static void measure(size_t bytes, long iterations)
{
    char *out = bench_alloc(bytes), *in = bench_alloc(bytes);
    double mean, best;

    bench_warm_pair(out, in, bytes);
    mean = bench_half_rtt(out, in, bytes, iterations, &best);
    bench_result("size=%zu half_rtt_us=%.4f best_us=%.4f", bytes, mean, best);
    bench_free(out, bytes);
    bench_free(in, bytes);
}

/* Where ranks 0 and 1 run, if on one node: node, tab, first line of the MPI
 * library's version. */
static void where(void)
{
    char node[2][MPI_MAX_PROCESSOR_NAME] = {""}, version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    MPI_Get_processor_name(node[0], &length);
    if (bench_rank == 1) {
        MPI_Send(node[0], sizeof(node[0]), MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    } else if (bench_rank == 0) {
        MPI_Recv(node[1], sizeof(node[1]), MPI_CHAR, 1, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        MPI_Get_library_version(version, &length);
        if (strcmp(node[0], node[1]) == 0)
            printf("where %s\t%.*s\n", node[0], (int)strcspn(version, "\n"),
                   version);
    }
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations;

    bench_begin(&argc, &argv, "latency", 2);
    sizes = bench_sizes("8,1024,65536");
    iterations = bench_number("iterations", 5000);
    for (int i = 0; i < sizes.n && bench_rank < 2; i++) {
        size_t bytes = (size_t)sizes.at[i];

        measure(bytes, bench_iterations(iterations, bytes));
    }
    where();
    bench_done();
    return 0;
}
