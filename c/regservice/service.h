/* service.h: a registration cache for the memory of one protection domain: the
 * table of regcache/front.h, the thread that answers what is missed there, and
 * behind it the cache itself, which is written in Go (shim/regservice).
 *
 *     application threads            service thread
 *     mt_regcache_region_get ──miss──> mt_regservice_core_step: Go decides,
 *     mt_regcache_region_put           and has mt_fabric_mr_register called
 *
 * A path gets and puts regions as front.h says, with the table of the service;
 * no thread but the service's ever enters Go. Who watches memory is memhook.h's
 * matter, started before or after; without a monitor nothing is handed out.
 *
 * All memory is registered with one access, so that a region fits whoever asks.
 * Memory that may not be written is refused if that access writes: the caller
 * copies.
 *
 * In a child of fork the table is empty and stays so: its pages are wiped by the
 * kernel. The child may get and put, and nothing else.
 *
 * Must not: know MPI, or a provider. */
#ifndef MPITRACE_REGSERVICE_SERVICE_H
#define MPITRACE_REGSERVICE_SERVICE_H

#include "../include/fabric.h"
#include "../regcache/front.h"

struct mt_regservice;

struct mt_regservice_options {
    struct mt_fabric_pd *pd; /* of a context that was opened with threads */
    uint32_t access;         /* enum mt_fabric_access; 0: all of it */
    uint32_t local_ranks;    /* of this node, who share the budget; 0: 1 */
    uint64_t max_bytes;      /* registered at once, at most half of
                              * RLIMIT_MEMLOCK; 0: that limit, at most a
                              * quarter of the machine, over local_ranks */
    /* The file with the Go half; not asked for where that is linked in. */
    const char *library;
    void (*say)(void *user, const char *text); /* why it could not be opened */
    void *user;
};

/* Totals since the beginning, but for the first two. */
struct mt_regservice_figures {
    uint64_t pinned_bytes, regions; /* registered now */
    uint64_t hits;   /* in the table */
    uint64_t misses; /* in the table */
    uint64_t dropped; /* of these, not asked for since the queue was full */
    uint64_t registrations, merges, evictions, invalidations;
    uint64_t refused; /* requests of which nothing could be registered */
};

enum mt_status mt_regservice_open(const struct mt_regservice_options *options,
                                  struct mt_regservice **service_p);

/* Where to get regions from. */
struct mt_regcache *mt_regservice_table(const struct mt_regservice *service);

/* From any thread. What the service thread counts is as of its last work. */
void mt_regservice_count(const struct mt_regservice *service,
                         struct mt_regservice_figures *figures_p);

/* Nothing is handed out any more; everything is deregistered. Regions that are
 * held are waited for, for a second: MT_ESTATE if some still are. Then the table
 * stays for them to be put, and their registrations with it. */
enum mt_status mt_regservice_close(struct mt_regservice *service);

#endif
