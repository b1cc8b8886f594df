/* registration.c: what registering memory costs, and giving it back (Rashti
 * 2010, 3.5.1: B9), each timed apart. Memory is touched before. */
#include "tool.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t sizes[] = {4096, 65536, 1048576, 16777216, 67108864};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

void tool_registration(struct tool *t)
{
    static const struct tool_column columns[] = {
        {"bytes", "bytes", 0},
        {"repetitions", "repetitions", 0},
        {"register_us", "register us", 3},
        {"deregister_us", "deregister us", 3},
        {NULL, NULL, 0}};
    const struct mt_rail *rail = &t->rails.rails[0];
    uint64_t bytes;
    tool_table_begin(t, columns);
    for (uint32_t i = 0; (bytes = tool_size(t, i, sizes, SIZES)) > 0; i++) {
        uint64_t n = UINT64_C(1) << 30, spent[2] = {0, 0};
        n = n / (bytes + (1 << 20)) + 1;
        n = t->config.iterations > 0 ? t->config.iterations : n;
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            tool_fail("%llu bytes: %s", (unsigned long long)bytes,
                      strerror(errno));
        }
        tool_fill(memory, bytes, bytes);
        for (uint64_t k = 0; k < n; k++) {
            struct mt_fabric_mr *mr;
            uint64_t a = tool_now_ns();
            tool_check(mt_fabric_mr_register(rail->pd, memory, bytes,
                                             MT_FABRIC_LOCAL_WRITE |
                                                 MT_FABRIC_REMOTE_WRITE |
                                                 MT_FABRIC_REMOTE_READ,
                                             &mr),
                       "registering memory (see ulimit -l)");
            uint64_t b = tool_now_ns();
            tool_check(mt_fabric_mr_destroy(mr), "deregistering memory");
            spent[0] += b - a;
            spent[1] += tool_now_ns() - b;
        }
        tool_verify(memory, bytes, bytes, "registered memory");
        munmap(memory, bytes);
        const struct tool_cell cells[] = {
            {NULL, (double)bytes},
            {NULL, (double)n},
            {NULL, (double)spent[0] / 1e3 / (double)n},
            {NULL, (double)spent[1] / 1e3 / (double)n}};
        tool_row(t, cells);
    }
    tool_table_end(t);
}
