/*
 * registration.c - what pinning and unpinning memory costs by size, on rank
 * 0. Without verbs mlock and munlock stand in for ibv_reg_mr and
 * ibv_dereg_mr: they fault in and pin the pages, but a network card's own
 * table is not written. Rashti 2010, 3.5.1.
 */
#include "bench.h"

#include <errno.h>
#include <sys/resource.h>

static void note_refusal(size_t bytes, int error)
{
    struct rlimit limit;

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) {
        bench_note("mlock of %zu bytes refused: %s", bytes, strerror(error));
        return;
    }
    bench_note("mlock of %zu bytes refused (%s): RLIMIT_MEMLOCK is %llu bytes; "
               "raise it with ulimit -l to measure larger sizes",
               bytes, strerror(error), (unsigned long long)limit.rlim_cur);
}

/* KiB that the kernel says are locked, -1 where it does not say. */
static long locked_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;

    if (file == NULL) {
        return -1;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "VmLck: %ld", &kib) == 1) {
            break;
        }
    }
    fclose(file);
    return kib;
}

/* Pins once, untimed, and asks the kernel whether it did; 0 if refused. */
static int pins(char *at, size_t bytes)
{
    long before = locked_kib(), after;

    if (mlock(at, bytes) != 0) {
        note_refusal(bytes, errno);
        return 0;
    }
    after = locked_kib();
    if (before >= 0 && (after - before) * 1024 < (long)bytes) {
        bench_fail("mlock of %zu bytes pinned %ld KiB", bytes, after - before);
    }
    if (munlock(at, bytes) != 0 || locked_kib() != before) {
        bench_fail("munlock of %zu bytes left them pinned", bytes);
    }
    return 1;
}

static int measure(size_t bytes, long iterations)
{
    char *at = bench_alloc(bytes);
    double pin = 0.0, unpin = 0.0;

    bench_fill(at, bytes, bytes);
    if (!pins(at, bytes)) {
        bench_free(at, bytes);
        return 0;
    }
    for (long i = 0; i < iterations; i++) {
        double start = bench_now(), between;

        if (mlock(at, bytes) != 0) {
            bench_fail("mlock of %zu bytes: %s", bytes, strerror(errno));
        }
        between = bench_now();
        munlock(at, bytes);
        pin += between - start;
        unpin += bench_now() - between;
    }
    bench_check(at, bytes, bytes, "pinned memory");
    bench_result("size=%zu pin_us=%.4f unpin_us=%.4f", bytes,
                 pin / (double)iterations, unpin / (double)iterations);
    bench_free(at, bytes);
    return 1;
}

int main(int argc, char **argv)
{
    struct bench_list sizes;
    long iterations;

    bench_begin(&argc, &argv, "registration", 1);
    sizes = bench_sizes("4096,65536,1048576");
    iterations = bench_number("iterations", 500);
    bench_note("mlock and munlock stand in for registration with a network "
               "card: the card's own share is not in the figures");
    for (int i = 0; i < sizes.n && bench_rank == 0; i++) {
        size_t bytes = (size_t)sizes.at[i];

        if (!measure(bytes, bench_iterations(iterations, bytes))) {
            break;
        }
    }
    bench_done();
    return 0;
}
