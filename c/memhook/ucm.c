/* ucm.c: events of libucm, the library with which UCX follows memory. It is
 * asked only where it is loaded; it hooks the functions of libc, in its own way
 * and once for all who ask, so it stands together with UCX and Open MPI. It
 * tells of an unmapping before it takes place. Raw system calls it does not
 * see, nor what mremap replaces (MREMAP_FIXED), nor MADV_DONTNEED_LOCKED. */
#include <dlfcn.h>
#include <pthread.h>

#include "monitors.h"

/* ucm/api/ucm.h, the same in all versions since 1.0 */
enum { UCM_EVENT_VM_UNMAPPED = 1 << 17 };
enum { UCM_PRIORITY = 0 };

struct ucm_vm_unmapped {
    void *address;
    size_t size;
};

typedef void ucm_handler_fn(int type, struct ucm_vm_unmapped *event,
                            void *argument);
typedef int8_t ucm_set_fn(int events, int priority, ucm_handler_fn *handler,
                          void *argument);
typedef void ucm_unset_fn(int events, ucm_handler_fn *handler, void *argument);

/* Changes the generations of a range; pairs with the acquiring load of
 * mt_memhook_stamp. */
static void mt_memhook_ucm_change(volatile uint64_t *generations,
                                  uintptr_t from, size_t bytes)
{
    uintptr_t first = from >> MT_MEMHOOK_SHIFT;
    uintptr_t last = (from + bytes - 1) >> MT_MEMHOOK_SHIFT;
    if (last - first >= MT_MEMHOOK_BUCKETS) {
        last = first + MT_MEMHOOK_BUCKETS - 1;
    }
    for (uintptr_t b = first; b <= last; b++) {
        __atomic_fetch_add(&generations[b % MT_MEMHOOK_BUCKETS], 1,
                           __ATOMIC_ACQ_REL);
    }
}

/* In the thread that unmaps, within a lock of libucm: allocates nothing. */
static void mt_memhook_ucm_unmapped(int type, struct ucm_vm_unmapped *event,
                                    void *argument)
{
    (void)type;
    if (event->size > 0) {
        mt_memhook_ucm_change(argument, (uintptr_t)event->address, event->size);
    }
}

/* Of fork libucm tells nothing: what is private is copied on the next write, so
 * all generations change, before and after. */
static volatile uint64_t *followed; /* NULL if libucm is not the monitor */

static void mt_memhook_ucm_forks(void)
{
    volatile uint64_t *generations =
        __atomic_load_n(&followed, __ATOMIC_ACQUIRE);
    if (generations != NULL) {
        mt_memhook_ucm_change(generations, 0, SIZE_MAX);
    }
}

static bool mt_memhook_ucm_follow_fork(volatile uint64_t *generations)
{
    static bool registered; /* for good: handlers cannot be taken back */
    registered = registered || pthread_atfork(mt_memhook_ucm_forks,
                                              mt_memhook_ucm_forks, NULL) == 0;
    __atomic_store_n(&followed, generations, __ATOMIC_RELEASE);
    return registered;
}

enum mt_status mt_memhook_ucm_open(void **library_p,
                                   volatile uint64_t *generations,
                                   struct mt_memhook_why *why)
{
    void *library = dlopen("libucm.so.0", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) {
        mt_memhook_because(why, "libucm is not loaded");
        return MT_ENOTSUP;
    }
    ucm_set_fn *set = (ucm_set_fn *)dlsym(library, "ucm_set_event_handler");
    int8_t error = -1;
    if (set != NULL && mt_memhook_ucm_follow_fork(generations)) {
        error = set(UCM_EVENT_VM_UNMAPPED, UCM_PRIORITY,
                    mt_memhook_ucm_unmapped, (void *)generations);
    }
    if (error != 0) {
        mt_memhook_because(why, "libucm refuses to tell of events (%d)", error);
        dlclose(library);
        return MT_ENOTSUP;
    }
    *library_p = library;
    return MT_OK;
}

void mt_memhook_ucm_close(void *library, volatile uint64_t *generations)
{
    ucm_unset_fn *unset =
        (ucm_unset_fn *)dlsym(library, "ucm_unset_event_handler");
    if (unset != NULL) {
        unset(UCM_EVENT_VM_UNMAPPED, mt_memhook_ucm_unmapped,
              (void *)generations);
    }
    mt_memhook_ucm_follow_fork(NULL);
    dlclose(library);
}
