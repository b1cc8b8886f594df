/* core.c: core.h where the Go half is not linked in but in a library of its own,
 * libmpishim-go.so, which the service thread loads when a cache is opened. The
 * runtime of Go starts when the library is loaded, so that happens on a thread
 * that is guarded (guard.h) and where there is room for it; else there is no
 * cache. Only the service thread comes here. */
#include "../core.h"

#include <dlfcn.h>
#include <stdio.h>

#include "guard.h"

static struct {
    __typeof__(&mt_regservice_core_open) open;
    __typeof__(&mt_regservice_core_step) step;
    __typeof__(&mt_regservice_core_close) close;
} go;

static bool load(const char *path, char *text, size_t bytes)
{
    if (!mt_guard_room(text, bytes) || !mt_guard_enter(text, bytes)) {
        return false;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        go.open = dlsym(library, "mt_regservice_core_open");
        go.step = dlsym(library, "mt_regservice_core_step");
        go.close = dlsym(library, "mt_regservice_core_close");
    }
    if (go.open == NULL || go.step == NULL || go.close == NULL) {
        const char *error = dlerror();
        snprintf(text, bytes, "%s", error != NULL ? error : path);
        return false;
    }
    return true;
}

uintptr_t mt_regservice_core_open(struct mt_regservice_calls *calls, char *text,
                                  size_t bytes)
{
    return load(calls->library, text, bytes) ? go.open(calls, text, bytes) : 0;
}

void mt_regservice_core_step(uintptr_t core, struct mt_regcache_miss *misses,
                             uint32_t n, bool maintain,
                             struct mt_regservice_figures *figures_p)
{
    go.step(core, misses, n, maintain, figures_p);
}

uint32_t mt_regservice_core_close(uintptr_t core, bool abandon,
                                  struct mt_regservice_figures *figures_p)
{
    return go.close(core, abandon, figures_p);
}
