/* config.c: what may be measured, whether the command line says it or the other
 * side: numbers, and their limits. */
#include "config.h"

#include <stdlib.h>

/* ---- numbers ---- */

const char *tool_number(const char *text, struct tool_range range,
                        uint64_t *value_p)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    end += shift > 0;
    if (text[0] < '0' || text[0] > '9' || (*end != '\0' && *end != ',') ||
        value > range.most >> shift || value << shift < range.least) {
        return NULL;
    }
    *value_p = value << shift;
    return end;
}

/* ---- what the other side says ---- */

static bool in(struct tool_range range, uint64_t value)
{
    return value >= range.least && value <= range.most;
}

const char *tool_config_wrong(const struct tool_config *c)
{
    if (c->mode >= TOOL_MODES) {
        return "mode";
    }
    if (c->size_count > TOOL_SIZES) {
        return "number of sizes";
    }
    for (uint32_t i = 0; i < c->size_count; i++) {
        if (!in(tool_size_range, c->sizes[i])) {
            return "size";
        }
    }
    return c->iterations != 0 && !in(tool_iterations_range, c->iterations)
               ? "number of iterations"
           : !in(tool_connections_range, c->connections)
               ? "number of connections"
           : !in(tool_duration_range, c->duration_ms) ? "duration"
           : c->operation >= TOOL_OPERATIONS          ? "operation"
           : c->registered > 1                        ? "kind of buffers"
           : !in(tool_threshold_range, c->threshold)  ? "threshold of striping"
                                                      : NULL;
}
