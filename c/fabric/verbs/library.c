/* library.c: libibverbs, loaded when it is first needed. */
#include "verbs.h"

#if MT_VERBS

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

static struct mt_verbs_library mt_library;
static bool mt_library_works;
static char mt_library_wrong[256]; /* why it does not */

/* A machine without devices does not load it at all. */
static bool mt_devices_exist(void)
{
    DIR *directory = opendir("/sys/class/infiniband");
    struct dirent *entry = NULL;
    if (directory == NULL) {
        return false;
    }
    while ((entry = readdir(directory)) != NULL && entry->d_name[0] == '.') {
    }
    closedir(directory);
    return entry != NULL;
}

/* A function of the library; the first that is missing is told. */
static void *mt_library_find(void *handle, const char *name)
{
    void *function = dlsym(handle, name);
    if (function == NULL && mt_library_wrong[0] == '\0') {
        snprintf(mt_library_wrong, sizeof(mt_library_wrong),
                 "libibverbs.so.1 has no %s: rdma-core 32 or newer is needed",
                 name);
    }
    return function;
}

static void mt_library_load(void)
{
    void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        snprintf(mt_library_wrong, sizeof(mt_library_wrong),
                 "libibverbs.so.1 cannot be loaded: %s",
                 why != NULL ? why : "no reason given");
        return;
    }
#define MT_VERBS_LOAD(name)                                                    \
    mt_library.name = (__typeof__(mt_library.name))mt_library_find(            \
        handle, "ibv_" #name);
    MT_VERBS_FUNCTIONS(MT_VERBS_LOAD)
#undef MT_VERBS_LOAD
    /* rdma-core 32, October 2020 */
    mt_library.query_gid_table =
        (__typeof__(mt_library.query_gid_table))mt_library_find(
            handle, "_ibv_query_gid_table");
    /* pairs with mt_loaded */
    __atomic_store_n(&mt_library_works, mt_library_wrong[0] == '\0',
                     __ATOMIC_RELEASE);
}

static bool mt_loaded(void)
{
    return __atomic_load_n(&mt_library_works, __ATOMIC_ACQUIRE);
}

static pthread_once_t mt_library_once = PTHREAD_ONCE_INIT;

const struct mt_verbs_library *mt_verbs_library(void)
{
    if (!mt_loaded() && mt_devices_exist()) {
        pthread_once(&mt_library_once, mt_library_load);
    }
    return mt_loaded() ? &mt_library : NULL;
}

const char *mt_verbs_missing(void)
{
    if (mt_loaded() || !mt_devices_exist()) {
        return NULL;
    }
    pthread_once(&mt_library_once, mt_library_load);
    return mt_loaded() ? NULL : mt_library_wrong;
}

#endif
