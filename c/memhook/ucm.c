/* ucm.c: events of libucm, the library with which UCX follows memory. It is
 * asked only where it is loaded; it hooks the functions of libc, in its own way
 * and once for all who ask, so it stands together with UCX and Open MPI. It
 * tells of an unmapping before it takes place. Raw system calls it does not
 * see. */
#include <dlfcn.h>

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

/* In the thread that unmaps, within a lock of libucm: allocates nothing. */
static void mt_memhook_ucm_unmapped(int type, struct ucm_vm_unmapped *event,
                                    void *argument)
{
    (void)type;
    volatile uint64_t *generations = argument;
    uintptr_t from = (uintptr_t)event->address;
    if (event->size == 0) {
        return;
    }
    uintptr_t first = from >> MT_MEMHOOK_SHIFT;
    uintptr_t last = (from + event->size - 1) >> MT_MEMHOOK_SHIFT;
    if (last - first >= MT_MEMHOOK_BUCKETS) {
        last = first + MT_MEMHOOK_BUCKETS - 1;
    }
    for (uintptr_t b = first; b <= last; b++) {
        /* pairs with the acquiring load of mt_memhook_stamp */
        __atomic_fetch_add(&generations[b % MT_MEMHOOK_BUCKETS], 1,
                           __ATOMIC_ACQ_REL);
    }
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
    if (set != NULL) {
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
    dlclose(library);
}
