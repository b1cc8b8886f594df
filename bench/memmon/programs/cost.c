/* cost: nanoseconds of a short system call, of mapping and unmapping a megabyte,
 * and of looking whether a registration is still good; the least of some runs.
 *
 *   cost plain            nobody watches this process
 *   cost ebpf SOCKET      the helper's kernel program does
 *   cost ucm              libucm does
 *   cost wait SOCKET      is watched until its input ends: for a plain one beside */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../../c/include/memhook.h"

enum { RUNS = 25, CALLS = 4000, BYTES = 1 << 20 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void short_call(void)
{
    syscall(SYS_getppid);
}

/* opens nothing: a call that is looked at more closely */
static void watched_call(void)
{
    syscall(SYS_openat, -1, "", 0);
}

static void map_and_unmap(void)
{
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, BYTES);
}

static const volatile uint64_t *generations;
static volatile uint64_t sink;

/* 64 look-ups, of the generation alone */
static void look_up(void)
{
    for (uintptr_t i = 0; i < 64; i++) {
        sink += mt_memhook_stamp(generations, 0x7f0000000000 + (i << 16), 4096);
    }
}

static double least(void (*call)(void))
{
    double best = 1e99;
    for (int r = 0; r < RUNS; r++) {
        double start = now_ns();
        for (int i = 0; i < CALLS; i++) {
            call();
        }
        double each = (now_ns() - start) / CALLS;
        best = each < best ? each : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    static const uint64_t still[MT_MEMHOOK_BUCKETS];
    const char *who = argc > 1 ? argv[1] : "";
    bool ucm = strcmp(who, "ucm") == 0;
    generations = still;
    if (ucm && dlopen("libucs.so.0", RTLD_LAZY) == NULL) {
        fprintf(stderr, "cost: %s\n", dlerror());
        return 1;
    }
    if (strcmp(who, "plain") != 0) {
        struct mt_memhook_options options = {
            .socket = argc > 2 ? argv[2] : NULL,
            .timeout_ms = 10000,
            .without_ebpf = ucm,
            .without_ucm = !ucm,
        };
        if (mt_memhook_start(&options) != MT_OK) {
            fprintf(stderr, "cost: not watched\n");
            return 1;
        }
        generations = mt_memhook.generations;
    }
    if (strcmp(who, "wait") == 0) {
        puts("watched");
        fflush(stdout);
        (void)getchar();
        return 0;
    }
    printf("%.1f %.1f %.1f %.2f\n", least(short_call), least(watched_call),
           least(map_and_unmap), least(look_up) / 64);
    return 0;
}
