/* guard.c: what the runtime of Go is not to do in a rank. When it is loaded it
 * sets handlers for SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and SIGURG, and on each of
 * its threads, which it starts when it likes, it opens SIGCHLD, SIGPROF, SIGTRAP
 * and others. A signal that the program has blocked everywhere, to read it by
 * signalfd or sigwait, would be taken there and lost. It also raises the limit of open
 * files of the whole process, which the program's children would inherit.
 *
 * It asks the kernel for all of this by the system call, so only the kernel can refuse:
 * a filter of seccomp, which a thread sets for itself and hands on to those that
 * it starts, answers these calls with "done" (docs/design/0009-act-mode.md). */
#include "guard.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIAL_THREADS = 16 }; /* Go has 5 */
/* Go reserves 1.2 GB, and each thread has a stack and an arena of malloc's. */
#define TRIAL_ADDRESSES ((size_t)2 << 30)
/* What may be written of it. */
#define TRIAL_DATA ((size_t)256 << 20)

static bool refuse(char *why, size_t bytes, const char *what, int error)
{
    snprintf(why, bytes, "%s: %s", what, strerror(error));
    return false;
}

/* ---- room ---- */

static bool reserve(size_t size, int protection)
{
    void *p = mmap(NULL, size, protection,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) {
        munmap(p, size);
    }
    return p != MAP_FAILED;
}

static void *idle(void *flag)
{
    while (__atomic_load_n((uint32_t *)flag, __ATOMIC_ACQUIRE) == 0) {
        sched_yield();
    }
    return NULL;
}

/* Returns 0, or why a thread could not be started. */
static int threads(void)
{
    pthread_t all[TRIAL_THREADS];
    uint32_t go = 0;
    int made = 0, failed = 0;
    while (made < TRIAL_THREADS && failed == 0) {
        failed = pthread_create(&all[made], NULL, idle, &go);
        made += failed == 0;
    }
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < made; i++) {
        pthread_join(all[i], NULL);
    }
    return failed;
}

bool mt_guard_room(char *why, size_t bytes)
{
    if (!reserve(TRIAL_ADDRESSES, PROT_NONE)) {
        return refuse(why, bytes, "no 2048 MiB of address space (ulimit -v)",
                      errno);
    }
    if (!reserve(TRIAL_DATA, PROT_READ | PROT_WRITE)) {
        return refuse(why, bytes, "no 256 MiB of data (ulimit -d)", errno);
    }
    int failed = threads();
    return failed == 0 ||
           refuse(why, bytes, "no 16 threads (ulimit -u)", failed);
}

/* ---- signals ---- */

#if defined(__x86_64__)
#define GUARD_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define GUARD_ARCH AUDIT_ARCH_AARCH64
#else
#error "which system calls does Go make here?"
#endif

/* 32 bits: half of an argument. */
#define LOAD_AT(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define LOAD(field) LOAD_AT(offsetof(struct seccomp_data, field))
/* Skips so many instructions if it is this value, and so many if it is not. */
#define SKIP(value, equal, other)                                            \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, equal, other)
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, what)

bool mt_guard_enter(char *why, size_t bytes)
{
    struct sock_filter filter[] = {
        LOAD(arch),
        SKIP(GUARD_ARCH, 0, 9),
        LOAD(nr),
        SKIP(SYS_rt_sigprocmask, 8, 0),
        SKIP(SYS_rt_sigaction, 7, 0),
        SKIP(SYS_setrlimit, 6, 0),
        SKIP(SYS_prlimit64, 0, 4),
        LOAD(args[2]), /* the new limit; NULL: it only asks */
        SKIP(0, 0, 3),
        LOAD_AT(offsetof(struct seccomp_data, args[2]) + 4),
        SKIP(0, 0, 1),
        ANSWER(SECCOMP_RET_ALLOW),
        ANSWER(SECCOMP_RET_ERRNO | 0),
    };
    struct sock_fprog program = {
        .len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    sigset_t all;
    sigfillset(&all); /* but those that glibc needs for setuid and the like */
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return refuse(why, bytes, "prctl(PR_SET_NO_NEW_PRIVS)", errno);
    }
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        return refuse(why, bytes, "seccomp, which keeps Go from signals",
                      errno);
    }
    return true;
}
