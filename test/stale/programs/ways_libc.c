/* ways_libc.c: memory lost by functions of libc, and inside them. */
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "stale.h"

static void destroy_munmap(struct place *p, char *a)
{
    if (munmap(a, p->bytes) != 0) {
        die("munmap");
    }
}

/* a huge page, half of which is lost */
static char *create_huge(struct place *p)
{
    enum { HUGE = 2 << 20 };
    p->bytes = HUGE;
    if (p->own == NULL) { /* both halves the first time */
        p->own = p;
        p->bytes = 2 * HUGE;
        create_anonymous(p);
        p->bytes = HUGE;
    } else {
        create_anonymous(p);
    }
    if (madvise(p->base, 2 * HUGE, MADV_HUGEPAGE) != 0) {
        unsupported("madvise(MADV_HUGEPAGE)");
    }
    memset(p->base, 1, p->bytes);
    return p->base;
}

static void destroy_dontneed(struct place *p, char *a)
{
    if (madvise(a, p->bytes, MADV_DONTNEED) != 0) {
        die("madvise");
    }
}

static void destroy_dontneed_locked(struct place *p, char *a)
{
    enum { DONTNEED_LOCKED = 24 };
    if (madvise(a, p->bytes, DONTNEED_LOCKED) != 0) {
        unsupported("madvise(MADV_DONTNEED_LOCKED)");
    }
}

/* other memory is moved onto the buffer */
static void destroy_mremap_over(struct place *p, char *a)
{
    struct place elsewhere = *p;
    elsewhere.base += 8 * p->bytes;
    char *other = create_anonymous(&elsewhere);
    if (mremap(other, p->bytes, p->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, a) !=
        a) {
        die("mremap");
    }
}

static void destroy_free_advice(struct place *p, char *a)
{
    if (madvise(a, p->bytes, MADV_FREE) != 0) {
        die("madvise(MADV_FREE)");
    }
}

/* what is kept of the memory */
static char *create_once(struct place *p)
{
    if (p->own == NULL) {
        p->own = create_anonymous(p);
    }
    return p->own;
}

/* glibc maps a large buffer of its own and unmaps it, both without PLT. */
static char *create_malloc(struct place *p)
{
    if (p->own == NULL) {
        mallopt(M_MMAP_THRESHOLD, 128 << 10); /* and no moving threshold */
        p->own = p;
    }
    char *a = malloc(p->bytes);
    if (a == NULL) {
        die("malloc");
    }
    return a;
}

/* Some allocators move addresses about unless an alignment is asked for. */
static char *create_aligned(struct place *p)
{
    char *a = aligned_alloc(4096, p->bytes);
    if (a == NULL) {
        die("aligned_alloc");
    }
    return a;
}

static void destroy_malloc(struct place *p, char *a)
{
    (void)p;
    free(a);
}

static void destroy_realloc(struct place *p, char *a)
{
    char *larger = realloc(a, 8 * p->bytes);
    if (larger == NULL) {
        die("realloc");
    }
    free(larger);
}

/* From the heap, of which the top is given back. */
static char *create_heap(struct place *p)
{
    if (p->own == NULL) {
        mallopt(M_MMAP_THRESHOLD, 32 << 20);
        mallopt(M_TRIM_THRESHOLD, 1 << 30); /* only malloc_trim does */
        p->own = p;
    }
    return create_malloc(p);
}

static void destroy_trim(struct place *p, char *a)
{
    (void)p;
    free(a);
    malloc_trim(0);
}

static char *create_shm(struct place *p)
{
    int id = shmget(IPC_PRIVATE, p->bytes, IPC_CREAT | 0600);
    char *a = id < 0 ? (char *)-1 : shmat(id, p->base, 0);
    if (id >= 0) {
        shmctl(id, IPC_RMID, NULL);
    }
    if (a != p->base) {
        die("shmat");
    }
    return a;
}

static void destroy_shm(struct place *p, char *a)
{
    (void)p;
    if (shmdt(a) != 0) {
        die("shmdt");
    }
}

/* another segment over what is there */
static char *create_shm_once(struct place *p)
{
    if (p->own == NULL) {
        p->own = create_shm(p);
    }
    return p->own;
}

static void destroy_shm_remap(struct place *p, char *a)
{
    int id = shmget(IPC_PRIVATE, p->bytes, IPC_CREAT | 0600);
    if (id < 0 || shmat(id, a, SHM_REMAP) != a) {
        die("shmat(SHM_REMAP)");
    }
    shmctl(id, IPC_RMID, NULL);
}

const struct way libc_ways[] = {
    {"munmap", create_anonymous, destroy_munmap, false, NULL},
    {"huge", create_huge, destroy_munmap, false, NULL},
    {"dontneed", create_once, destroy_dontneed, false, NULL},
    {"dontneed-locked", create_once, destroy_dontneed_locked, false, NULL},
    {"free-advice", create_once, destroy_free_advice, true, NULL},
    {"mremap-over", create_once, destroy_mremap_over, false, NULL},
    {"malloc", create_malloc, destroy_malloc, false, NULL},
    {"aligned", create_aligned, destroy_malloc, false, NULL},
    {"realloc", create_malloc, destroy_realloc, false, NULL},
    {"trim", create_heap, destroy_trim, false, NULL},
    {"shmdt", create_shm, destroy_shm, false, NULL},
    {"shm-remap", create_shm_once, destroy_shm_remap, false, NULL},
    {NULL, NULL, NULL, false, NULL},
};
