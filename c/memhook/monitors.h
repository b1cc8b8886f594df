/* monitors.h: what memhook.c asks of the two monitors. */
#ifndef MPITRACE_MEMHOOK_MONITORS_H
#define MPITRACE_MEMHOOK_MONITORS_H

#include "../include/memhook.h"
#include "../include/memmon.h"

enum { MT_MEMHOOK_WHY_BYTES = 200 };

/* Why a monitor cannot be had, for the user. */
struct mt_memhook_why {
    char text[MT_MEMHOOK_WHY_BYTES];
};

void mt_memhook_because(struct mt_memhook_why *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A process that is watched by the kernel program. Descriptors are -1, or kept
 * open: the connection to say goodbye, the others keep the program attached
 * when the helper is gone. */
struct mt_memhook_helper {
    int connection;
    int holds[MT_MEMMON_MAX_FILES];
    unsigned held;
    /* what these were of when they were opened */
    uint64_t connection_file, hold_files[MT_MEMMON_MAX_FILES];
    void *map; /* struct mt_memmon_slot, read-only */
    size_t map_bytes;
    uint64_t token;
};

/* Asks the helper at socket to watch this process; returns before deadline_ns
 * (CLOCK_MONOTONIC). Nothing is left open unless MT_OK. The process is watched
 * after mt_memhook_helper_attach. */
enum mt_status mt_memhook_helper_open(struct mt_memhook_helper *helper,
                                      const char *socket, uint64_t deadline_ns,
                                      struct mt_memhook_why *why);
void mt_memhook_helper_attach(const struct mt_memhook_helper *helper);
void mt_memhook_helper_close(struct mt_memhook_helper *helper);

/* Subscribes to libucm if it is loaded: it counts up generations. */
enum mt_status mt_memhook_ucm_open(void **library_p,
                                   volatile uint64_t *generations,
                                   struct mt_memhook_why *why);
void mt_memhook_ucm_close(void *library, volatile uint64_t *generations);

uint64_t mt_memhook_now_ns(void);

#endif
