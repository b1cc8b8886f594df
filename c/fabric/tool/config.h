/* config.h: what is measured, as the command line of rank 0 says it and rank 1
 * gets it over the network: numbers, and their limits, which are those of both.
 *
 * Must not: print, or end the process. */
#ifndef MPITRACE_FABRIC_TOOL_CONFIG_H
#define MPITRACE_FABRIC_TOOL_CONFIG_H

#include "../../include/base.h"

/* TOOL_VERSION: of what the two processes tell each other. It is exchanged first
 * and alone, so that any other is understood. */
enum { TOOL_SIZES = 32, TOOL_VERSION = 3, TOOL_MODES = 9 };

/* What bandwidth carries messages by. */
enum tool_operation { TOOL_WRITE, TOOL_SEND, TOOL_OPERATIONS };

/* What both do, as rank 0 says. */
struct tool_config {
    uint32_t mode; /* index of the mode */
    uint32_t size_count;
    uint32_t iterations; /* 0: as many as the mode thinks right */
    uint32_t connections;
    uint32_t duration_ms;
    uint32_t operation;  /* enum tool_operation */
    uint32_t registered; /* 1: data lies in registered memory of the process,
                          * not in memory of the device */
    uint32_t reserved;
    uint64_t threshold;  /* of striping */
    uint64_t sizes[TOOL_SIZES];
};

struct tool_range {
    uint64_t least, most;
};

static const struct tool_range tool_size_range = {1, UINT64_C(1) << 28};
static const struct tool_range tool_iterations_range = {1, 1 << 30};
static const struct tool_range tool_connections_range = {2, 1024};
static const struct tool_range tool_duration_range = {1, 60000};
static const struct tool_range tool_threshold_range = {0, UINT64_C(1) << 30};

/* A number with K, M or G behind it, up to the end of the text or a comma, which
 * is returned; NULL: it is none, or out of range. */
const char *tool_number(const char *text, struct tool_range range,
                        uint64_t *value_p);

/* What the other side may not ask for, NULL: all of it may be done. */
const char *tool_config_wrong(const struct tool_config *c);

#endif
