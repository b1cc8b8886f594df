/* segment.c: makes the shared-memory segment of this rank and hands out its
 * sections. The layout is spec/segment.json.
 *
 * The file is allocated, not just sized: a store into a sparse file on a full
 * tmpfs ends the program with SIGBUS. It is mapped once at its largest size
 * and grows under the mapping. No descriptor stays open: a program that closes
 * all of its descriptors, or reuses their numbers, must not meet ours.
 * All functions but mt_segment_open expect the cold lock to be held. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "../include/fileroom.h"
#include "../include/version.gen.h"
#include "../probe/clock.h"
#include "compat.h"
#include "state.h"

static struct mt_seg_section *mt_directory;
static uint64_t mt_used_bytes;
static uint64_t mt_limit_bytes;
static uint64_t mt_private_total;
static uint64_t mt_inode;
static char mt_job_path[512];
static char mt_file_path[640];
static char mt_before_path[640]; /* of an earlier image of this process, or empty */

void mt_segment_path(const char **directory_p, const char **file_p)
{
    *directory_p = mt_job_path;
    *file_p = mt_file_path;
}

void *mt_private_bytes(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    mt_private_total += bytes;
    if (mt_process.header != NULL) {
        mt_process.header->private_bytes = mt_private_total;
    }
    return p;
}

/* Makes a directory of mode 0700, or accepts one that is ours alone. */
static bool mt_directory_make(const char *path)
{
    struct statx st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return false;
    }
    return mt_stat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, &st) &&
           S_ISDIR(st.stx_mode) && st.stx_uid == geteuid() &&
           (st.stx_mode & 0077) == 0;
}

uint64_t mt_file_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                   limit.rlim_cur != RLIM_INFINITY
               ? limit.rlim_cur
               : UINT64_MAX;
}

/* Bytes that a segment may take in the file system of path: never more than a
 * quarter of what is free, nor than the process may write (ulimit -f: beyond
 * it there is SIGXFSZ). */
static uint64_t mt_room(const char *path, uint64_t wanted)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0) {
        return 0;
    }
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize / 4;
    uint64_t limit = mt_file_limit();
    room = limit < room ? limit : room;
    return room < wanted ? room & ~UINT64_C(4095) : wanted;
}

/* Opens a file of the name that this process has; after exec an earlier image has it,
 * as a process in another PID namespace may: then with a number behind it. */
static int mt_segment_create(void)
{
    enum { IMAGES = 1000 };
    int n = snprintf(mt_file_path, sizeof(mt_file_path), "%s/%u-%llu",
                     mt_job_path, mt_process.pid,
                     (unsigned long long)mt_process_start());
    char *end = mt_file_path + n;
    size_t room = sizeof(mt_file_path) - (size_t)n;
    int fd = -1;
    mt_before_path[0] = '\0';
    for (unsigned k = 0; k < IMAGES; k++) {
        snprintf(end, room, k == 0 ? ".seg" : ".%u.seg", k);
        fd = open(mt_file_path,
                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST) {
            break;
        }
        memcpy(mt_before_path, mt_file_path, sizeof(mt_before_path));
    }
    return fd;
}

/* Ends the segment of the earlier image, if it is of this process. */
static bool mt_segment_replace(int fd, const struct mt_seg_header *own)
{
    uint64_t space = 0;
    uint32_t state = MPITRACE_STATE_EXITED;
    bool read =
        pread(fd, &space, sizeof(space),
              offsetof(struct mt_seg_header, pid_namespace)) == sizeof(space) &&
        pread(fd, &state, sizeof(state),
              offsetof(struct mt_seg_header, state)) == sizeof(state);
    if (!read || space != own->pid_namespace ||
        state > MPITRACE_STATE_FINALIZED) {
        return false;
    }
    state = state == MPITRACE_STATE_FINALIZED ? MPITRACE_STATE_EXITED
                                              : MPITRACE_STATE_EXITED_EARLY;
    return pwrite(fd, &state, sizeof(state),
                  offsetof(struct mt_seg_header, state)) == sizeof(state);
}

bool mt_segment_succeeds(void)
{
    int fd = mt_before_path[0] != '\0'
                 ? open(mt_before_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
                 : -1;
    if (fd < 0) {
        return false;
    }
    bool replaced = mt_segment_replace(fd, mt_process.header);
    close(fd);
    return replaced;
}

/* Tries one base directory; returns the mapping or NULL. */
static void *mt_segment_try(const char *base, const char *job, uint64_t bytes)
{
    if (!mt_directory_make(base)) {
        return NULL;
    }
    uint64_t limit = mt_room(base, mt_limit_bytes);
    if (limit < bytes) {
        return NULL;
    }
    snprintf(mt_job_path, sizeof(mt_job_path), "%s/%s", base, job);
    if (!mt_directory_make(mt_job_path)) {
        return NULL;
    }
    int fd = mt_segment_create();
    if (fd < 0) {
        return NULL;
    }
    struct statx st;
    void *p = MAP_FAILED;
    if (mt_file_room(fd, 0, bytes) &&
        mt_stat(fd, "", AT_EMPTY_PATH, &st)) {
        p = mmap(NULL, limit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (p == MAP_FAILED) {
        unlink(mt_file_path);
        rmdir(mt_job_path);
        return NULL;
    }
    mt_inode = st.stx_ino;
    mt_limit_bytes = limit;
    return p;
}

/* Where segments may live, best first. */
static void *mt_segment_place(const char *job, uint64_t bytes)
{
    char base[256];
    const char *dir = mt_process.knobs.segment_dir;
    if (dir[0] != '\0') {
        return mt_segment_try(dir, job, bytes);
    }
    snprintf(base, sizeof(base), "/dev/shm/mpitrace-%u", (unsigned)geteuid());
    void *p = mt_segment_try(base, job, bytes);
    if (p == NULL) {
        const char *tmp = getenv("TMPDIR");
        snprintf(base, sizeof(base), "%s/mpitrace-%u",
                 tmp != NULL && tmp[0] == '/' ? tmp : "/tmp",
                 (unsigned)geteuid());
        p = mt_segment_try(base, job, bytes);
    }
    return p;
}

static void mt_segment_fill(struct mt_seg_header *h, uint64_t bytes)
{
    h->version_major = MPITRACE_SEGMENT_MAJOR;
    h->version_minor = MPITRACE_SEGMENT_MINOR;
    h->layout_hash = MPITRACE_LAYOUT_HASH;
    h->header_bytes = sizeof(struct mt_seg_header);
    h->section_entry_bytes = sizeof(struct mt_seg_section);
    h->file_bytes = bytes;
    h->mpi_family = mt_process.family;
    h->world_rank = -1;
    h->pid = mt_process.pid;
    h->uid = getuid();
    h->measuring = 1;
    h->private_bytes = mt_private_total;
    h->clock_source = mt_clock_source;
    snprintf(h->shim_version, sizeof(h->shim_version), "%s", MPITRACE_VERSION);
    snprintf(h->mpi_version, sizeof(h->mpi_version), "%s",
             mt_process.mpi_version);
    mt_job_identify(h);
}

bool mt_segment_open(void)
{
    struct mt_seg_header identity = {0};
    struct mt_knobs *k = &mt_process.knobs;
    mt_limit_bytes = mt_knob_bytes("MPITRACE_SEGMENT_BYTES_MAX",
                                   k->segment_bytes_max, 262144, 67108864,
                                   MPITRACE_SEGMENT_BYTES_MAX);
    uint64_t bytes =
        mt_knob_bytes("MPITRACE_SEGMENT_BYTES", k->segment_bytes, 131072,
                      mt_limit_bytes, MPITRACE_SEGMENT_BYTES_DEFAULT);
    mt_segment_fill(&identity, bytes);
    void *p = mt_segment_place(identity.job, bytes);
    if (p == NULL) {
        mt_job_path[0] = mt_file_path[0] = '\0';
        p = mt_private_bytes(bytes);
        mt_limit_bytes = bytes;
        identity.flags |= MPITRACE_HEADER_FLAG_PRIVATE;
        mt_say_once("no shared memory for the segment (%s): measuring in "
                    "private memory, lost if the process is killed",
                    k->segment_dir[0] != '\0' ? k->segment_dir
                                              : "/dev/shm and TMPDIR are full "
                                                "or not writable");
    }
    if (p == NULL) {
        return false;
    }
    struct mt_seg_header *h = p;
    *h = identity;
    mt_directory = (void *)((char *)p + MPITRACE_SECTIONS_OFFSET);
    mt_used_bytes = MPITRACE_SECTIONS_OFFSET +
                    MPITRACE_SECTIONS_MAX * sizeof(struct mt_seg_section);
    mt_process.header = h;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(h->magic, "MPITRSEG", 8);
    return true;
}

/* Allocates the file up to bytes. The path may be gone or another's by now:
 * then it is not touched. */
static bool mt_segment_extend(uint64_t bytes)
{
    struct mt_seg_header *h = mt_process.header;
    if (bytes > mt_limit_bytes || (h->flags & MPITRACE_HEADER_FLAG_PRIVATE)) {
        return false;
    }
    int fd = open(mt_file_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    struct statx st;
    bool done = mt_stat(fd, "", AT_EMPTY_PATH, &st) && st.stx_ino == mt_inode &&
                mt_room(mt_job_path, bytes) >= bytes &&
                mt_file_room(fd, 0, bytes);
    close(fd);
    if (done) {
        h->file_bytes = bytes;
    }
    return done;
}

uint64_t mt_segment_left(void)
{
    return mt_limit_bytes > mt_used_bytes ? mt_limit_bytes - mt_used_bytes : 0;
}

/* A new section of capacity zeroed entries; NULL when the segment is full. */
struct mt_seg_section *mt_segment_section(uint32_t kind, uint32_t shard,
                                          uint32_t entry_bytes,
                                          uint32_t capacity, void **rows_p)
{
    struct mt_seg_header *h = mt_process.header;
    uint64_t offset = (mt_used_bytes + 63) & ~UINT64_C(63);
    uint64_t end = offset + (uint64_t)entry_bytes * capacity;
    if (h == NULL || h->section_count >= MPITRACE_SECTIONS_MAX) {
        return NULL;
    }
    if (end > h->file_bytes &&
        !mt_segment_extend((end + 65535) & ~UINT64_C(65535))) {
        return NULL;
    }
    struct mt_seg_section *s = &mt_directory[h->section_count];
    *s = (struct mt_seg_section){.kind = kind,
                                 .shard = shard,
                                 .offset = offset,
                                 .entry_bytes = entry_bytes,
                                 .capacity = capacity};
    mt_used_bytes = end;
    *rows_p = (char *)h + offset;
    __atomic_store_n(&h->section_count, h->section_count + 1,
                     __ATOMIC_RELEASE);
    return s;
}

static uint64_t mt_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Takes a (clock, MONOTONIC_RAW) pair: the narrowest of a few tries. The first
 * one also ties the clock to the time of day. Any thread may; the first of
 * several at once does. */
void mt_segment_pair(void)
{
    struct mt_seg_header *h = mt_process.header;
    uint32_t even = __atomic_load_n(&h->clock_sequence, __ATOMIC_RELAXED);
    if (even % 2 != 0 || !__atomic_compare_exchange_n(
                             &h->clock_sequence, &even, even + 1, false,
                             __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return;
    }
    uint64_t ticks = 0, ns = 0, narrowest = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = mt_clock_now();
        uint64_t raw = mt_ns(CLOCK_MONOTONIC_RAW);
        uint64_t after = mt_clock_now();
        if (after - before < narrowest) {
            narrowest = after - before;
            ticks = before + (after - before) / 2;
            ns = raw;
        }
    }
    if (h->first_ticks == 0) {
        h->first_ticks = ticks;
        h->first_monotonic_ns = ns;
        h->first_realtime_ns = mt_ns(CLOCK_REALTIME);
    }
    h->last_ticks = ticks;
    h->last_monotonic_ns = ns;
    __atomic_store_n(&h->clock_sequence, even + 2, __ATOMIC_RELEASE);
}

/* VmHWM of /proc/self/status, in parts: a process that ends in a signal handler may
 * have 8 KiB of stack in all. */
void mt_segment_memory(void)
{
    static const char key[] = "VmHWM:";
    size_t matched = 0;
    uint64_t kib = 0;
    char part[256];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, part, sizeof(part)) : -1;
    for (; n > 0; n = read(fd, part, sizeof(part))) {
        for (ssize_t i = 0; i < n; i++) {
            char c = part[i];
            if (matched < sizeof(key) - 1) {
                matched = c == key[matched] ? matched + 1 : c == key[0];
            } else if (c >= '0' && c <= '9') {
                kib = 10 * kib + (uint64_t)(c - '0');
            } else if (kib > 0) {
                mt_process.header->memory_high_kib = kib;
                close(fd);
                return;
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}
