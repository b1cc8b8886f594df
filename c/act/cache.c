/* cache.c: whether registrations are kept, and keeping them. Nothing here is
 * agreed upon with other ranks: what one rank cannot do costs it speed only. */
#define _GNU_SOURCE
#include "cache.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MT_WATCH_MS = 10000 }; /* for a helper that is there to answer */

/* Set where somebody wants the kernel program to watch. */
static const char MONITOR[] = "MPITRACE_MEMMON_SOCKET";

static struct {
    struct mt_regservice *service; /* NULL: there is none, why says why */
    char why[320];                 /* with one: why not the kernel program watches */
} cache = {.why = "not asked for"};

/* ---- as the engine sees it ---- */

static bool get(void *user, void *address, uint64_t bytes,
                struct mt_engine_kept *kept_p)
{
    const struct mt_regcache_region *region =
        mt_regcache_region_get(user, address, bytes);
    if (region == NULL) {
        return false;
    }
    *kept_p = (struct mt_engine_kept){
        .reference = region, .lkey = region->lkey, .rkey = region->rkey};
    return true;
}

static void put(void *user, const void *reference)
{
    (void)user;
    mt_regcache_region_put(reference);
}

/* ---- beginning and end ---- */

static void note(void *user, const char *text)
{
    (void)user;
    snprintf(cache.why, sizeof(cache.why), "%s", text);
}

/* Beside the library that this is in. */
static bool find_go(char *path, size_t size)
{
    Dl_info self;
    if (dladdr((void *)mt_act_cache_open, &self) == 0) {
        return false;
    }
    const char *slash = strrchr(self.dli_fname, '/');
    int n = snprintf(path, size, "%.*slibmpishim-go.so",
                     slash != NULL ? (int)(slash + 1 - self.dli_fname) : 0,
                     self.dli_fname);
    return n > 0 && (size_t)n < size;
}

static bool open_service(const struct mt_act_policy *policy,
                         uint32_t local_ranks, struct mt_fabric_pd *pd)
{
    const struct mt_memhook_options watch = {
        .socket = getenv(MONITOR),
        .timeout_ms = MT_WATCH_MS,
        .say = note};
    char path[PATH_MAX];
    struct mt_regservice_options options = {.pd = pd,
                                            .local_ranks = local_ranks,
                                            .max_bytes = policy->pinned,
                                            .library = path,
                                            .say = note};
    if (mt_memhook_start(&watch) != MT_OK || !find_go(path, sizeof(path))) {
        return false;
    }
    enum mt_status status = mt_regservice_open(&options, &cache.service);
    if (status != MT_OK && status != MT_ETIMEOUT) { /* its thread may still use it */
        mt_memhook_stop();
    }
    return status == MT_OK;
}

void mt_act_cache_open(const struct mt_act_host *host,
                       const struct mt_act_policy *policy,
                       uint32_t local_ranks, struct mt_engine *engine)
{
    const struct mt_fabric_device *device = mt_engine_device(engine);
    char line[400];
    if (policy->cache == MT_ACT_CACHE_OFF) {
        note(NULL, "the policy has cache=off");
        return;
    }
    if (policy->cache == MT_ACT_CACHE_AUTO &&
        strcmp(device->provider, "verbs") != 0) {
        note(NULL, "registering with this device costs too little");
        return;
    }
    if (!open_service(policy, local_ranks, mt_engine_pd(engine))) {
        snprintf(line, sizeof(line), "registrations are not kept: %s",
                 cache.why);
        host->say(MT_ACT_RANK_0, line);
        return;
    }
    if (mt_memhook.monitor != MT_MEMHOOK_EBPF && getenv(MONITOR) != NULL) {
        host->say(MT_ACT_RANK_0, cache.why);
    }
    const struct mt_engine_keeper keeper = {
        .get = get, .put = put, .user = mt_regservice_table(cache.service)};
    mt_engine_keep(engine, &keeper);
}

void mt_act_cache_close(struct mt_engine *engine)
{
    if (cache.service != NULL) {
        mt_engine_keep(engine, NULL);
        mt_regservice_close(cache.service);
        mt_memhook_stop();
        cache.service = NULL;
    }
}

const char *mt_act_cache_off(void)
{
    return cache.service == NULL ? cache.why : NULL;
}

const char *mt_act_cache_watch(void)
{
    if (cache.service == NULL) {
        return NULL;
    }
    return mt_memhook.monitor == MT_MEMHOOK_EBPF ? "the kernel program"
                                                 : cache.why;
}

void mt_act_cache_count(struct mt_cache_counts *counts_p)
{
    struct mt_regservice_figures f = {0};
    if (cache.service != NULL) {
        mt_regservice_count(cache.service, &f);
    }
    *counts_p = (struct mt_cache_counts){
        .cache_hits = f.hits,
        .cache_misses = f.misses,
        .cache_registrations = f.registrations,
        .cache_merges = f.merges,
        .cache_evictions = f.evictions,
        .cache_invalidations = f.invalidations,
        .cache_refused = f.refused,
        .cache_pinned_bytes = f.pinned_bytes,
        .cache_regions = f.regions,
    };
}
