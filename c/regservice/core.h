/* core.h: what service.c and its Go half (shim/regservice) ask of each other.
 * Go gets functions as pointers, so that its archive links with nothing. All are
 * called by the service thread. */
#ifndef MPITRACE_REGSERVICE_CORE_H
#define MPITRACE_REGSERVICE_CORE_H

#include "service.h"

struct mt_regservice_keys {
    uint64_t handle;
    uint32_t lkey, rkey;
};

/* What Go asks of C. */
struct mt_regservice_calls {
    void *user;
    uint64_t max_bytes;
    uint32_t local_ranks;
    const char *library;
    const struct mt_memhook *watched;
    enum mt_status (*enlist)(void *user, uint64_t address, uint64_t bytes,
                             struct mt_regservice_keys *keys_p);
    void (*discharge)(void *user, uint64_t handle);
    void (*serve)(void *user, struct mt_regcache_order *orders, uint32_t n);
};

/* What C asks of Go. */

/* 0: it could not be made; text gets why, cut to bytes. */
uintptr_t mt_regservice_core_open(struct mt_regservice_calls *calls, char *text,
                                  size_t bytes);
/* Answers misses, or with n 0 deregisters what has lost its memory. maintain:
 * also what is due some ten times a second. */
void mt_regservice_core_step(uintptr_t core, struct mt_regcache_miss *misses,
                             uint32_t n, bool maintain,
                             struct mt_regservice_figures *figures_p);
/* Deregisters all that nobody holds; returns how many regions are held. With 0
 * the core is gone, else this is to be called again. abandon: gone whatever is
 * held. */
uint32_t mt_regservice_core_close(uintptr_t core, bool abandon,
                                  struct mt_regservice_figures *figures_p);

#endif
