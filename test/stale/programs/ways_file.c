/* ways_file.c: pages of a shared file that leave the file while it stays
 * mapped. */
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stale.h"

static char *create_file(struct place *p)
{
    if (p->file >= 0) {
        return p->base;
    }
    p->file = memfd_create("stale", 0);
    if (p->file < 0 || ftruncate(p->file, 2 * (off_t)p->bytes) != 0 ||
        mmap(p->base, p->bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED_NOREPLACE, p->file, 0) != p->base) {
        die("a file in memory");
    }
    return p->base;
}

enum { GROW, PUNCH };

/* Another process, which is not watched and does with the file what it is told,
 * until there is nobody who could tell. */
static void obey(const struct place *p, int orders)
{
    char order;
    while (read(orders, &order, 1) == 1) {
        int error = order == GROW
                        ? ftruncate(p->file, 2 * (off_t)p->bytes)
                        : fallocate(p->file,
                                    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                    0, (off_t)p->bytes);
        if (error != 0 || write(orders, &order, 1) != 1) {
            break;
        }
    }
    _exit(0);
}

static char *create_shared(struct place *p)
{
    if (p->file >= 0) {
        return p->base;
    }
    create_file(p);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        die("socketpair");
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        obey(p, ends[1]);
    }
    if (child < 0 || close(ends[1]) != 0) {
        die("another process");
    }
    p->other = ends[0];
    return p->base;
}

static void elsewhere(const struct place *p, char order)
{
    if (write(p->other, &order, 1) != 1 || read(p->other, &order, 1) != 1) {
        die("another process");
    }
}

/* after its size was set to nothing */
static void grow(const struct place *p)
{
    if (ftruncate(p->file, 2 * (off_t)p->bytes) != 0) {
        die("ftruncate");
    }
}

static const char *path_of(const struct place *p, char path[64])
{
    snprintf(path, 64, "/proc/self/fd/%d", p->file);
    return path;
}

static void destroy_remove(struct place *p, char *a)
{
    if (madvise(a, p->bytes, MADV_REMOVE) != 0) {
        die("madvise(MADV_REMOVE)");
    }
}

/* The hole is made through another mapping of the file, far from the first. */
static void destroy_remove_alias(struct place *p, char *a)
{
    enum { APART = 64 << 20 };
    (void)a;
    char *room = mmap(NULL, APART + p->bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *alias = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                       p->file, 0);
    if (room == MAP_FAILED || alias == MAP_FAILED ||
        madvise(alias, p->bytes, MADV_REMOVE) != 0) {
        die("madvise(MADV_REMOVE)");
    }
    munmap(alias, p->bytes);
    munmap(room, APART + p->bytes);
}

static void destroy_punch(struct place *p, char *a)
{
    (void)a;
    if (fallocate(p->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  (off_t)p->bytes) != 0) {
        die("fallocate(FALLOC_FL_PUNCH_HOLE)");
    }
}

static void destroy_ftruncate(struct place *p, char *a)
{
    (void)a;
    if (ftruncate(p->file, 0) != 0) {
        die("ftruncate");
    }
    grow(p);
}

static void destroy_truncate(struct place *p, char *a)
{
    (void)a;
    char path[64];
    if (truncate(path_of(p, path), 0) != 0) {
        die("truncate");
    }
    grow(p);
}

static void reopened(const struct place *p, int fd)
{
    if (fd < 0) {
        die("opening with O_TRUNC");
    }
    close(fd);
    elsewhere(p, GROW); /* so that only the opening counts */
}

static void destroy_open(struct place *p, char *a)
{
    (void)a;
    char path[64];
    reopened(p, open(path_of(p, path), O_RDWR | O_TRUNC));
}

static void destroy_openat2(struct place *p, char *a)
{
    (void)a;
    char path[64];
    struct open_how how = {.flags = O_RDWR | O_TRUNC};
    reopened(p, (int)syscall(SYS_openat2, AT_FDCWD, path_of(p, path), &how,
                             sizeof how));
}

/* The other half of the file takes the place of what is mapped, in turn. */
static void destroy_remap(struct place *p, char *a)
{
    p->other = p->other == 0 ? 1 : 0;
    size_t page = (size_t)p->other * p->bytes / 4096;
    if (remap_file_pages(a, p->bytes, 0, page, 0) != 0) {
        unsupported("remap_file_pages");
    }
}

/* Another process punches the hole: nobody can see that. */
static void destroy_punch_elsewhere(struct place *p, char *a)
{
    (void)a;
    elsewhere(p, PUNCH);
}

const struct way file_ways[] = {
    {"file-remove", create_file, destroy_remove, false, NULL},
    {"file-remove-alias", create_file, destroy_remove_alias, false, NULL},
    {"file-punch", create_file, destroy_punch, false, NULL},
    {"file-ftruncate", create_file, destroy_ftruncate, false, NULL},
    {"file-truncate", create_file, destroy_truncate, false, NULL},
    {"file-open", create_shared, destroy_open, false, NULL},
    {"file-openat2", create_shared, destroy_openat2, false, NULL},
    {"file-remap", create_file, destroy_remap, false, NULL},
    {"file-punch-elsewhere", create_shared, destroy_punch_elsewhere, false, NULL},
    {NULL, NULL, NULL, false, NULL},
};
