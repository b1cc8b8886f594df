/* memhook.c: finding a monitor, and what becomes of it after fork.
 *
 * Threads: start and stop take state.lock; look-ups take nothing. Allocates only
 * within start (dlopen does). Never calls MPI, prints nothing, patches nothing.
 *
 * After fork the child has another address space, which nobody watches. All that
 * says otherwise lies in pages that the kernel hands to a child filled with
 * zeroes (MADV_WIPEONFORK), whichever call made it, so there is no moment and
 * no kind of clone at which a child believes its parent's generations. A child
 * that shares the memory (vfork, CLONE_VM) is watched: the address space is. */
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "monitors.h"

struct mt_memhook mt_memhook;

/* The rest, which look-ups do not need. Zero is: nothing started, lock free. */
static struct mt_memhook_state {
    pthread_mutex_t lock;
    struct mt_memhook_helper helper;
    void *ucm; /* the library, NULL if it is not the monitor */
    uint64_t ucm_generations[MT_MEMHOOK_BUCKETS];
} MT_MEMHOOK_PAGE state;

static void mt_memhook_publish(enum mt_memhook_monitor monitor,
                               const volatile uint64_t *generations)
{
    mt_memhook.monitor = monitor;
    /* pairs with the reader's load of the pointer: what it points to is mapped,
     * or zeroed, by now */
    __atomic_store_n(&mt_memhook.generations, generations, __ATOMIC_RELEASE);
}

/* Has the children's copies of both pages emptied. */
static enum mt_status mt_memhook_wipe_on_fork(struct mt_memhook_why *why)
{
    if (madvise(&mt_memhook, sizeof mt_memhook, MADV_WIPEONFORK) != 0 ||
        madvise(&state, sizeof state, MADV_WIPEONFORK) != 0) {
        mt_memhook_because(why, "madvise(MADV_WIPEONFORK): %m");
        return MT_ENOTSUP;
    }
    return MT_OK;
}

typedef int mt_memhook_unmap_fn(void *address, size_t bytes);

static int mt_memhook_unmap_raw(void *address, size_t bytes)
{
    return (int)syscall(SYS_munmap, address, bytes);
}

/* What libc itself calls, also where an allocator has a munmap of its own that
 * the program gets; NULL if it is not found. */
static mt_memhook_unmap_fn *mt_memhook_unmap_of_libc(void)
{
    void *libc = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
    if (libc == NULL) {
        return NULL;
    }
    mt_memhook_unmap_fn *unmap = (mt_memhook_unmap_fn *)dlsym(libc, "munmap");
    dlclose(libc);
    return unmap;
}

/* Does unmapping a page so change its generation? */
static bool mt_memhook_works(const volatile uint64_t *generations,
                             mt_memhook_unmap_fn *unmap)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *probe =
        mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED) {
        return false;
    }
    uint64_t before = mt_memhook_stamp(generations, (uintptr_t)probe, page);
    unmap(probe, page);
    return mt_memhook_stamp(generations, (uintptr_t)probe, page) != before;
}

/* Once through helper.c. MT_EAGAIN: the kernel program does not watch us; if a
 * process that had our address space's place has just ended, it soon will. */
static enum mt_status mt_memhook_try_ebpf(const char *socket, uint64_t deadline,
                                          struct mt_memhook_why *why)
{
    enum mt_status status =
        mt_memhook_helper_open(&state.helper, socket, deadline, why);
    if (status != MT_OK) {
        return status;
    }
    const struct mt_memmon_slot *slot = state.helper.map;
    mt_memhook_helper_attach(&state.helper);
    if (!mt_memhook_works(slot->generations, mt_memhook_unmap_raw)) {
        mt_memhook_because(why, "%s watches another kernel than this one, or "
                           "the process is watched already", socket);
        mt_memhook_helper_close(&state.helper);
        return MT_EAGAIN;
    }
    mt_memhook_publish(MT_MEMHOOK_EBPF, slot->generations);
    return MT_OK;
}

static enum mt_status mt_memhook_start_ebpf(const char *socket,
                                            uint64_t deadline,
                                            struct mt_memhook_why *why)
{
    enum { FIRST_MS = 10, LAST_MS = 160 }; /* on a busy machine the helper takes a while */
    enum mt_status status = mt_memhook_try_ebpf(socket, deadline, why);
    for (long ms = FIRST_MS; ms <= LAST_MS && status == MT_EAGAIN; ms *= 2) {
        nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
        status = mt_memhook_try_ebpf(socket, deadline, why);
    }
    return status;
}

/* The helper of the job may be on another node: then this node's own is asked. */
static enum mt_status mt_memhook_ask_ebpf(const char *socket, uint64_t deadline,
                                          struct mt_memhook_why *why)
{
    struct mt_memhook_why second;
    if (socket == NULL) {
        return mt_memhook_start_ebpf(MT_MEMMON_SOCKET, deadline, why);
    }
    enum mt_status status = mt_memhook_start_ebpf(socket, deadline, why);
    return status == MT_ENODEVICE
               ? mt_memhook_start_ebpf(MT_MEMMON_SOCKET, deadline, &second)
               : status;
}

static enum mt_status mt_memhook_start_ucm(struct mt_memhook_why *why)
{
    enum mt_status status =
        mt_memhook_ucm_open(&state.ucm, state.ucm_generations, why);
    if (status != MT_OK) {
        return status;
    }
    mt_memhook_unmap_fn *libcs = mt_memhook_unmap_of_libc();
    if (!mt_memhook_works(state.ucm_generations, munmap) || libcs == NULL ||
        !mt_memhook_works(state.ucm_generations, libcs)) {
        mt_memhook_because(why, "libucm does not tell of every munmap");
        mt_memhook_ucm_close(state.ucm, state.ucm_generations);
        state.ucm = NULL;
        return MT_ENOTSUP;
    }
    mt_memhook_publish(MT_MEMHOOK_UCM, state.ucm_generations);
    return MT_OK;
}

static void mt_memhook_say(const struct mt_memhook_options *options,
                           const struct mt_memhook_why *ebpf,
                           const struct mt_memhook_why *ucm)
{
    if (options->say == NULL) {
        return;
    }
    char line[2 * MT_MEMHOOK_WHY_BYTES + 100];
    if (state.ucm != NULL) {
        snprintf(line, sizeof line,
                 "memory is watched by libucm, which does not see raw system "
                 "calls (%s)", ebpf->text);
    } else {
        snprintf(line, sizeof line,
                 "nobody watches memory, so no registration is kept (%s; %s)",
                 ebpf->text, ucm->text);
    }
    options->say(options->argument, line);
}

static enum mt_status
mt_memhook_choose(const struct mt_memhook_options *options)
{
    struct mt_memhook_why ebpf = {"kernel monitor not wanted"};
    struct mt_memhook_why ucm = {"libucm not wanted"};
    unsigned timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : 2000;
    uint64_t deadline = mt_memhook_now_ns() + timeout_ms * UINT64_C(1000000);
    enum mt_status status = mt_memhook_wipe_on_fork(&ebpf);
    if (status != MT_OK) {
        ucm = ebpf;
    } else {
        if (!options->without_ebpf &&
            mt_memhook_ask_ebpf(options->socket, deadline, &ebpf) == MT_OK) {
            return MT_OK;
        }
        status = options->without_ucm ? MT_ENOTSUP : mt_memhook_start_ucm(&ucm);
    }
    mt_memhook_say(options, &ebpf, &ucm);
    return status;
}

enum mt_status mt_memhook_start(const struct mt_memhook_options *options)
{
    static const struct mt_memhook_options defaults;
    enum mt_status status = MT_OK;
    pthread_mutex_lock(&state.lock);
    if (mt_memhook.generations == NULL) {
        status = mt_memhook_choose(options != NULL ? options : &defaults);
    }
    pthread_mutex_unlock(&state.lock);
    return status == MT_OK ? MT_OK : MT_ENOTSUP;
}

void mt_memhook_stop(void)
{
    pthread_mutex_lock(&state.lock);
    enum mt_memhook_monitor monitor = mt_memhook.monitor;
    mt_memhook_publish(MT_MEMHOOK_NONE, NULL);
    if (monitor == MT_MEMHOOK_EBPF) {
        mt_memhook_helper_close(&state.helper);
    } else if (monitor == MT_MEMHOOK_UCM) {
        mt_memhook_ucm_close(state.ucm, state.ucm_generations);
        state.ucm = NULL;
    }
    pthread_mutex_unlock(&state.lock);
}

void mt_memhook_because(struct mt_memhook_why *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
}

uint64_t mt_memhook_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
