/* compat.c: keeps the library loadable where glibc is older than the one it was
 * built with. A preloaded file that needs a newer glibc stops every process of
 * the job; the oldest supported is 2.28, which a test checks. See also compat.h.
 * Whatever is defined here is seen by this library alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "state.h"

#if defined(DLFO_STRUCT_HAS_EH_DBASE)

struct mt_find {
    uintptr_t address;
    struct dl_find_object *result;
};

static int mt_find_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct mt_find *find = arg;
    struct dl_find_object *r = find->result;
    bool found = false;
    (void)size;
    memset(r, 0, sizeof(*r));
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && find->address >= at &&
            find->address < at + p->p_memsz) {
            found = true;
            r->dlfo_map_start = (void *)at;
            r->dlfo_map_end = (void *)(at + p->p_memsz);
        } else if (p->p_type == PT_GNU_EH_FRAME) {
            r->dlfo_eh_frame = (void *)at;
        }
    }
    return found && r->dlfo_eh_frame != NULL;
}

/* What libgcc's unwinder asks glibc 2.35 for, by the older interface. Cold: the
 * unwinder runs once per call site. */
int _dl_find_object(void *address, struct dl_find_object *result)
{
    struct mt_find find = {(uintptr_t)address, result};
    return dl_iterate_phdr(mt_find_visit, &find) == 1 ? 0 : -1;
}

#endif

/* The unwinder runs its initialisation through pthread_once, in libpthread
 * before glibc 2.34. It only fills a table, so running twice does no harm. */
int pthread_once(pthread_once_t *control, void (*routine)(void))
{
    if (__atomic_load_n(control, __ATOMIC_ACQUIRE) == PTHREAD_ONCE_INIT) {
        routine();
        __atomic_store_n(control, PTHREAD_ONCE_INIT + 1, __ATOMIC_RELEASE);
    }
    return 0;
}

/* libgcc looks only whether this exists, to tell that there may be threads. */
int __pthread_key_create(pthread_key_t *key, void (*destroy)(void *));
int __pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
    (void)key;
    (void)destroy;
    return 1;
}
