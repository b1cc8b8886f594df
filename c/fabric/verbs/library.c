/* library.c: libibverbs, loaded when it is first needed. */
#include "verbs.h"

#if MT_VERBS

#include <dirent.h>
#include <dlfcn.h>

static struct mt_verbs_library mt_library;
static bool mt_library_works;

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

static void mt_library_load(void)
{
    void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    bool complete = handle != NULL;
    if (handle == NULL) {
        return;
    }
#define MT_VERBS_LOAD(name)                                                    \
    mt_library.name =                                                          \
        (__typeof__(mt_library.name))dlsym(handle, "ibv_" #name);              \
    complete = complete && mt_library.name != NULL;
    MT_VERBS_FUNCTIONS(MT_VERBS_LOAD)
#undef MT_VERBS_LOAD
    /* rdma-core 32, October 2020 */
    mt_library.query_gid_table = (__typeof__(mt_library.query_gid_table))dlsym(
        handle, "_ibv_query_gid_table");
    /* pairs with mt_loaded */
    __atomic_store_n(&mt_library_works,
                     complete && mt_library.query_gid_table != NULL,
                     __ATOMIC_RELEASE);
}

static bool mt_loaded(void)
{
    return __atomic_load_n(&mt_library_works, __ATOMIC_ACQUIRE);
}

const struct mt_verbs_library *mt_verbs_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!mt_loaded() && mt_devices_exist()) {
        pthread_once(&once, mt_library_load);
    }
    return mt_loaded() ? &mt_library : NULL;
}

#endif
