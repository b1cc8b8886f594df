/* temporary.c: how often a buffer is found registered while another one of 1 MB
 * is allocated and freed in every iteration. The monitor is that in the kernel, or
 * one made for the purpose, which changes the generations of what free() gives back
 * to the system: of its buckets, or, to compare, of all of them.
 *
 *     temporary adaptive|mapped near|far kernel|bucket|process ITERATIONS
 *
 * adaptive: malloc as it comes; mapped: every temporary is a mapping of its own.
 * near: the buffer lies where malloc puts it; far: away from the temporaries.
 * kernel: SOCKET is that of mpitrace memmon. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../c/include/memhook.h"
#include "../../../c/regcache/front.h"

static uint64_t generations[MT_MEMHOOK_BUCKETS];
static struct mt_regcache cache;
static bool whole; /* one generation for the process */
static bool kernel; /* sees for itself */

static void change(uintptr_t start, uintptr_t end)
{
    uintptr_t first = start >> MT_MEMHOOK_SHIFT;
    uintptr_t last = (end - 1) >> MT_MEMHOOK_SHIFT;
    if (whole) {
        first = 0;
        last = MT_MEMHOOK_BUCKETS - 1;
    }
    for (; first <= last; first++) {
        generations[first % MT_MEMHOOK_BUCKETS]++;
    }
}

/* free, seen by the monitor: a chunk that is a mapping is unmapped whole (glibc
 * marks it by the bit 2 of its size), and the heap's end may shrink. */
static __attribute__((noinline)) void watched_free(void *p)
{
    if (kernel) {
        free(p);
        return;
    }
    size_t size = *(const size_t *)((uintptr_t)p - sizeof(size_t));
    if ((size & 2) != 0) {
        uintptr_t start = (uintptr_t)p - 16;
        change(start, start + (size & ~(size_t)7));
    }
    uintptr_t before = (uintptr_t)sbrk(0);
    free(p);
    uintptr_t after = (uintptr_t)sbrk(0);
    if (after < before) {
        change(after, before);
    }
}

static void serve(void)
{
    struct mt_regcache_miss miss;
    static uint32_t slot;
    struct mt_regcache_order orders[3];
    memset(orders, 0, sizeof(orders));
    while (mt_regcache_misses_take(&cache, &miss, 1) > 0) {
        orders[0].verb = MT_REGCACHE_REVOKE;
        orders[0].slot = slot;
        slot = (slot + 1) % MT_REGCACHE_REGIONS;
        orders[1] = (struct mt_regcache_order){
            .verb = MT_REGCACHE_PUBLISH, .slot = slot,
            .start = miss.address & ~UINT64_C(4095),
            .end = (miss.address + miss.bytes + 4095) & ~UINT64_C(4095),
            .generation = miss.generation};
        orders[2] = (struct mt_regcache_order){
            .verb = MT_REGCACHE_POINT, .slot = slot, .start = miss.address};
        mt_regcache_serve(&cache, orders, 3);
    }
}

static void say(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "temporary: %s\n", text);
}

static void watch(const char *by)
{
    whole = strcmp(by, "process") == 0;
    kernel = strcmp(by, "kernel") == 0;
    mt_memhook = (struct mt_memhook){generations, MT_MEMHOOK_EBPF};
    if (kernel) {
        const struct mt_memhook_options options = {.socket = getenv("SOCKET"),
                                                   .timeout_ms = 120000,
                                                   .without_ucm = true,
                                                   .say = say};
        mt_memhook = (struct mt_memhook){.generations = NULL};
        if (mt_memhook_start(&options) != MT_OK) {
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    enum { BUFFER = 256 << 10, TEMPORARY = 1 << 20 };
    if (argc != 5) {
        fprintf(stderr, "usage: temporary adaptive|mapped near|far "
                        "kernel|bucket|process ITERATIONS\n");
        return 2;
    }
    if (strcmp(argv[1], "mapped") == 0) {
        mallopt(M_MMAP_THRESHOLD, 128 << 10); /* and no adapting */
    }
    watch(argv[3]);
    long n = atol(argv[4]), hits = 0;
    mt_regcache_init(&cache);
    char *buffer = malloc(BUFFER);
    char *spacer = strcmp(argv[2], "far") == 0 ? malloc(8 << 20) : NULL;
    for (long i = 0; i < n; i++) {
        char *temporary = malloc(TEMPORARY);
        memset(temporary, (int)i, 4096);
        const struct mt_regcache_region *r =
            mt_regcache_region_get(&cache, buffer, BUFFER);
        if (r != NULL) {
            hits++;
            mt_regcache_region_put(r);
        }
        watched_free(temporary);
        serve();
    }
    free(spacer);
    free(buffer);
    printf("%.6f\n", (double)hits / (double)n);
    return 0;
}
