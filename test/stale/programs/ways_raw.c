/* ways_raw.c: memory lost by system calls that no library sees. */
#include <errno.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "stale.h"

static void destroy_munmap(struct place *p, char *a)
{
    if (syscall(SYS_munmap, a, p->bytes) != 0) {
        die("munmap");
    }
}

static char *create_once(struct place *p)
{
    if (p->own == NULL) {
        p->own = create_anonymous(p);
    }
    return p->own;
}

/* moved to where nothing is, and unmapped there */
static void destroy_mremap(struct place *p, char *a)
{
    char *elsewhere = p->base + 8 * p->bytes;
    if (syscall(SYS_mremap, a, p->bytes, p->bytes,
                MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) != (long)elsewhere ||
        syscall(SYS_munmap, elsewhere, p->bytes) != 0) {
        die("mremap");
    }
}

/* other memory is moved onto the buffer */
static void destroy_mremap_over(struct place *p, char *a)
{
    struct place elsewhere = *p;
    elsewhere.base += 8 * p->bytes;
    char *other = create_anonymous(&elsewhere);
    if (syscall(SYS_mremap, other, p->bytes, p->bytes,
                MREMAP_MAYMOVE | MREMAP_FIXED, a) != (long)a) {
        die("mremap");
    }
}

/* the pages leave, the mapping stays */
static void destroy_mremap_dontunmap(struct place *p, char *a)
{
    enum { DONTUNMAP = 4 };
    char *elsewhere = p->base + 8 * p->bytes;
    if (syscall(SYS_mremap, a, p->bytes, p->bytes,
                MREMAP_MAYMOVE | MREMAP_FIXED | DONTUNMAP, elsewhere) !=
            (long)elsewhere ||
        syscall(SYS_munmap, elsewhere, p->bytes) != 0) {
        unsupported("mremap(MREMAP_DONTUNMAP)");
    }
}

static void destroy_fixed(struct place *p, char *a)
{
    if (syscall(SYS_mmap, a, p->bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (long)a) {
        die("mmap(MAP_FIXED)");
    }
}

static void destroy_dontneed(struct place *p, char *a)
{
    if (syscall(SYS_madvise, a, p->bytes, MADV_DONTNEED) != 0) {
        die("madvise");
    }
}

static void destroy_guard(struct place *p, char *a)
{
    enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };
    if (syscall(SYS_madvise, a, p->bytes, GUARD_INSTALL) != 0 ||
        syscall(SYS_madvise, a, p->bytes, GUARD_REMOVE) != 0) {
        unsupported("madvise(MADV_GUARD_INSTALL)");
    }
}

/* The heap, from its first end on. */
static char *create_brk(struct place *p)
{
    if (p->own == NULL) {
        p->own = (char *)(((uintptr_t)syscall(SYS_brk, 0) + 4095) / 4096 * 4096);
    }
    char *end = (char *)p->own + p->bytes;
    if (syscall(SYS_brk, end) != (long)end) {
        die("brk");
    }
    return p->own;
}

static void destroy_brk(struct place *p, char *a)
{
    (void)p;
    if (syscall(SYS_brk, a) != (long)a) {
        die("brk");
    }
}

static void destroy_process_madvise(struct place *p, char *a)
{
    if (p->file < 0) {
        p->file = (int)syscall(SYS_pidfd_open, getpid(), 0);
    }
    struct iovec range = {a, p->bytes};
    if (syscall(SYS_process_madvise, p->file, &range, 1ul, MADV_DONTNEED, 0) !=
        (long)p->bytes) {
        unsupported("process_madvise(MADV_DONTNEED) of oneself");
    }
}

enum { RING_ENTRIES = 16 };

/* What is shared with the kernel of a ring. */
struct ring {
    unsigned *sq_tail, *sq_flags, *sq_array, *cq_head, *cq_tail;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
    unsigned sq_mask, cq_mask;
    bool polled;
};

static void ring_open(struct place *p, struct ring *r, bool polled)
{
    struct io_uring_params q = {.flags = polled ? IORING_SETUP_SQPOLL : 0,
                                .sq_thread_idle = 2000};
    p->file = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &q);
    if (p->file < 0) {
        unsupported("io_uring_setup");
    }
    size_t bytes = q.cq_off.cqes + q.cq_entries * sizeof(struct io_uring_cqe);
    char *sq = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->file,
                    IORING_OFF_SQ_RING);
    r->entries = mmap(NULL, q.sq_entries * sizeof *r->entries,
                      PROT_READ | PROT_WRITE, MAP_SHARED, p->file,
                      IORING_OFF_SQES);
    if (sq == MAP_FAILED || r->entries == MAP_FAILED) {
        die("mapping a ring");
    }
    r->sq_tail = (unsigned *)(void *)(sq + q.sq_off.tail);
    r->sq_flags = (unsigned *)(void *)(sq + q.sq_off.flags);
    r->sq_array = (unsigned *)(void *)(sq + q.sq_off.array);
    r->cq_head = (unsigned *)(void *)(sq + q.cq_off.head);
    r->cq_tail = (unsigned *)(void *)(sq + q.cq_off.tail);
    r->completions = (struct io_uring_cqe *)(void *)(sq + q.cq_off.cqes);
    r->sq_mask = q.sq_entries - 1;
    r->cq_mask = q.cq_entries - 1;
    r->polled = polled;
}

static struct ring *ring_of(struct place *p, bool polled)
{
    static struct ring rings[2];
    if (p->file < 0) {
        ring_open(p, &rings[polled], polled);
    }
    return &rings[polled];
}

/* Submits the first entries and waits for so many completions. */
static void ring_enter(int fd, struct ring *r, unsigned entries,
                       unsigned completions)
{
    unsigned tail = *r->sq_tail;
    for (unsigned i = 0; i < entries; i++) {
        r->sq_array[(tail + i) & r->sq_mask] = i;
    }
    __atomic_store_n(r->sq_tail, tail + entries, __ATOMIC_RELEASE);
    unsigned flags = IORING_ENTER_GETEVENTS;
    if (r->polled &&
        (__atomic_load_n(r->sq_flags, __ATOMIC_SEQ_CST) &
         IORING_SQ_NEED_WAKEUP) != 0) {
        flags |= IORING_ENTER_SQ_WAKEUP;
    }
    while (syscall(SYS_io_uring_enter, fd, r->polled ? 0 : entries, completions,
                   flags, NULL, 0) < 0) {
        if (errno != EINTR) {
            die("io_uring_enter");
        }
    }
}

/* The result of the next one that is complete. */
static int ring_result(struct ring *r)
{
    unsigned head = *r->cq_head;
    while (__atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE) == head) {
        usleep(10);
    }
    int result = r->completions[head & r->cq_mask].res;
    __atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

static struct io_uring_sqe entry_dontneed(const struct place *p, char *a)
{
    return (struct io_uring_sqe){.opcode = IORING_OP_MADVISE,
                                 .fd = -1,
                                 .addr = (uintptr_t)a,
                                 .len = (unsigned)p->bytes,
                                 .fadvise_advice = MADV_DONTNEED};
}

static void ring_dontneed(struct place *p, char *a, bool polled)
{
    struct ring *r = ring_of(p, polled);
    r->entries[0] = entry_dontneed(p, a);
    ring_enter(p->file, r, 1, 1);
    errno = -ring_result(r);
    if (errno != 0) {
        die("madvise by io_uring");
    }
}

/* Submitted well before the memory is used, carried out once an event has come: one
 * of several, so that mostly nothing is submitted between a loss and the next use. */
static char *create_linked(struct place *p)
{
    static uint64_t count, cycle;
    char *a = create_once(p);
    struct ring *r = ring_of(p, false);
    if (p->other < 0) {
        p->other = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
        cycle = 0;
    }
    if (cycle++ % (RING_ENTRIES / 2) != 0) {
        return a;
    }
    for (int i = 0; i < RING_ENTRIES; i += 2) {
        r->entries[i] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
                                              .flags = IOSQE_IO_LINK,
                                              .fd = p->other,
                                              .off = UINT64_MAX,
                                              .addr = (uintptr_t)&count,
                                              .len = sizeof count};
        r->entries[i + 1] = entry_dontneed(p, a);
    }
    ring_enter(p->file, r, RING_ENTRIES, 0);
    return a;
}

static void destroy_linked(struct place *p, char *a)
{
    struct ring *r = ring_of(p, false);
    (void)a;
    if (eventfd_write(p->other, 1) != 0) {
        die("eventfd");
    }
    ring_enter(p->file, r, 0, 2);
    if (ring_result(r) != (int)sizeof(uint64_t) || ring_result(r) != 0) {
        die("madvise by io_uring, behind a read");
    }
}

static void destroy_ring(struct place *p, char *a)
{
    ring_dontneed(p, a, false);
}

static void destroy_ring_polled(struct place *p, char *a)
{
    ring_dontneed(p, a, true);
}

#if defined(__x86_64__)

/* A 32-bit system call, from a 64-bit program. */
static long compat(long number, const void *first, size_t second)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static sigjmp_buf without_compat;

static void no_compat(int signal)
{
    (void)signal;
    siglongjmp(without_compat, 1);
}

/* A kernel without 32-bit calls (CONFIG_IA32_EMULATION, ia32_emulation=), and a
 * hypervisor that does not pass int 0x80 on, end a program that makes one with a
 * signal. */
static bool has_compat(void)
{
    enum { I386_GETPID = 20 };
    struct sigaction before, catch = {.sa_handler = no_compat};
    sigaction(SIGSEGV, &catch, &before);
    bool has = sigsetjmp(without_compat, 1) == 0 &&
               compat(I386_GETPID, NULL, 0) == getpid();
    sigaction(SIGSEGV, &before, NULL);
    return has;
}

static void destroy_compat(struct place *p, char *a)
{
    enum { I386_MUNMAP = 91 };
    long result = compat(I386_MUNMAP, a, p->bytes);
    if (result != 0) {
        errno = (int)-result;
        unsupported("munmap by int 0x80");
    }
}

#endif

const struct way raw_ways[] = {
    {"raw-munmap", create_anonymous, destroy_munmap, false, NULL},
    {"raw-mremap", create_anonymous, destroy_mremap, false, NULL},
    {"raw-mremap-over", create_once, destroy_mremap_over, false, NULL},
    {"raw-mremap-dontunmap", create_once, destroy_mremap_dontunmap, false, NULL},
    {"raw-fixed", create_once, destroy_fixed, false, NULL},
    {"raw-dontneed", create_once, destroy_dontneed, false, NULL},
    {"raw-guard", create_once, destroy_guard, false, NULL},
    {"raw-brk", create_brk, destroy_brk, false, NULL},
    {"raw-process-madvise", create_once, destroy_process_madvise, false, NULL},
    {"raw-io-uring", create_once, destroy_ring, false, NULL},
    {"raw-io-uring-polled", create_once, destroy_ring_polled, false, NULL},
    {"raw-io-uring-linked", create_linked, destroy_linked, false, NULL},
#if defined(__x86_64__)
    {"raw-int80", create_anonymous, destroy_compat, false, has_compat},
#endif
    {NULL, NULL, NULL, false, NULL},
};
