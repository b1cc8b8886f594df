/* nodefile.c: the last process of a job to leave this node writes the node
 * file into the result directory. What it does not get to (it was killed, or
 * the directory cannot be written) stays in shared memory for 'mpitrace
 * collect'. Everything here runs at exit, in no lock and with no MPI. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../include/fileroom.h"
#include "../include/version.gen.h"
#include "compat.h"
#include "state.h"

static char mt_output[1024];
static unsigned mt_snapshots;

/* Of the files that are written. Not on the stack: a process that ends in a signal
 * handler may have 8 KiB of it in all. */
struct mt_names {
    char path[1200]; /* while it is written */
    char name[1200];
    char control[640];
};

static struct mt_names *mt_names_new(void)
{
    void *p = mmap(NULL, sizeof(struct mt_names), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}

static void mt_names_free(struct mt_names *n)
{
    if (n != NULL) {
        munmap(n, sizeof(*n));
    }
}

/* ---- who is last ---- */

struct mt_control {
    uint32_t attached;
    uint32_t left;
};

/* Adds to one counter of the job's control file and returns both as they are
 * then. */
static bool mt_control_add(uint32_t attached, uint32_t left,
                           struct mt_control *now_p)
{
    const char *directory, *file;
    char path[600];
    mt_segment_path(&directory, &file);
    if (directory[0] == '\0') {
        return false;
    }
    snprintf(path, sizeof(path), "%s/control", directory);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    struct mt_control *c = MAP_FAILED;
    if (mt_file_room(fd, 0, sizeof(*c))) {
        c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (c == MAP_FAILED) {
        return false;
    }
    now_p->attached =
        __atomic_add_fetch(&c->attached, attached, __ATOMIC_ACQ_REL);
    now_p->left = __atomic_add_fetch(&c->left, left, __ATOMIC_ACQ_REL);
    munmap(c, sizeof(*c));
    return true;
}

void mt_nodefile_attach(void)
{
    struct mt_control now;
    char cwd[512] = ".";
    const char *output = mt_process.knobs.output;
    if (getcwd(cwd, sizeof(cwd)) == NULL) {
        memcpy(cwd, ".", 2);
    }
    if (output[0] == '/') {
        snprintf(mt_output, sizeof(mt_output), "%s", output);
    } else if (output[0] != '\0') {
        snprintf(mt_output, sizeof(mt_output), "%s/%s", cwd, output);
    } else {
        snprintf(mt_output, sizeof(mt_output), "%s/mpitrace-%s", cwd,
                 mt_process.header->job);
    }
    /* an image that exec has ended does not leave by itself, nor is its trace that of
     * the process any more */
    bool succeeds = mt_segment_succeeds();
    if (succeeds) {
        mt_trace_forget();
    }
    mt_control_add(1, succeeds, &now);
}

/* ---- one record ---- */

static uint32_t mt_crc_table[256];

/* IEEE 802.3 CRC-32, reflected. */
static uint32_t mt_crc32(uint32_t crc, const uint8_t *p, size_t n)
{
    if (mt_crc_table[1] == 0) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) {
                c = (c & 1) != 0 ? 0xedb88320 ^ (c >> 1) : c >> 1;
            }
            mt_crc_table[i] = c;
        }
    }
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc = mt_crc_table[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
    }
    return ~crc;
}

bool mt_write_all(int fd, const void *data, size_t n)
{
    const char *p = data;
    if ((uint64_t)lseek(fd, 0, SEEK_CUR) + n > mt_file_limit()) {
        errno = EFBIG; /* instead of SIGXFSZ */
        return false;
    }
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w <= 0) {
            return false;
        }
        p += w;
        n -= (size_t)w;
    }
    return true;
}

static bool mt_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Rows worth keeping: totals are allocated for all communicators and types,
 * the trailing ones are empty. */
static uint32_t mt_rows_kept(const struct mt_seg_section *s, const uint8_t *rows)
{
    uint32_t n = s->used < s->capacity ? s->used : s->capacity;
    if (s->kind == MPITRACE_SECTION_KIND_COMM_TOTALS ||
        s->kind == MPITRACE_SECTION_KIND_TYPE_TOTALS) {
        while (n > 0 && mt_zero(rows + (size_t)(n - 1) * s->entry_bytes,
                                s->entry_bytes)) {
            n--;
        }
    }
    return n;
}

/* Copies the used part of a segment; returns the bytes, 0 if the segment is
 * not one. to has room for size bytes. */
static size_t mt_compact(const uint8_t *from, size_t size, uint8_t *to)
{
    const struct mt_seg_header *h = (const void *)from;
    struct mt_seg_header *copy = (void *)to;
    uint32_t sections = h->section_count;
    if (size < sizeof(*h) || memcmp(h->magic, "MPITRSEG", 8) != 0 ||
        h->version_major != MPITRACE_SEGMENT_MAJOR ||
        sections > MPITRACE_SECTIONS_MAX) {
        return 0;
    }
    memcpy(to, from, MPITRACE_SECTIONS_OFFSET);
    const struct mt_seg_section *in = (const void *)(from + MPITRACE_SECTIONS_OFFSET);
    struct mt_seg_section *out = (void *)(to + MPITRACE_SECTIONS_OFFSET);
    size_t at = MPITRACE_SECTIONS_OFFSET +
                sections * sizeof(struct mt_seg_section);
    for (uint32_t i = 0; i < sections; i++) {
        uint64_t bytes = (uint64_t)in[i].capacity * in[i].entry_bytes;
        if (in[i].offset > size || bytes > size - in[i].offset) {
            return 0;
        }
        uint32_t kept = mt_rows_kept(&in[i], from + in[i].offset);
        size_t n = (size_t)kept * in[i].entry_bytes;
        out[i] = in[i];
        out[i].used = out[i].capacity = kept;
        out[i].offset = at;
        memcpy(to + at, from + in[i].offset, n);
        at += (n + 7) & ~(size_t)7;
    }
    copy->file_bytes = at;
    return at;
}

static bool mt_record_write(int fd, const uint8_t *segment, size_t size)
{
    uint8_t *copy = mmap(NULL, size + 65536, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) {
        return false;
    }
    size_t n = mt_compact(segment, size, copy);
    struct mt_seg_record r = {.kind = 1, .bytes = n};
    memcpy(r.magic, "MTRC", 4);
    r.crc32 = mt_crc32(0, copy, n);
    bool done = n == 0 || (mt_write_all(fd, &r, sizeof(r)) &&
                           mt_write_all(fd, copy, n));
    munmap(copy, size + 65536);
    return done;
}

/* ---- the file ---- */

const char *mt_nodefile_directory(void)
{
    return mkdir(mt_output, 0777) == 0 || errno == EEXIST ? mt_output : NULL;
}

static int mt_nodefile_create(struct mt_names *names)
{
    struct timespec t;
    if (names == NULL || mt_nodefile_directory() == NULL) {
        return -1;
    }
    snprintf(names->path, sizeof(names->path), "%s/.%s.%u.part", mt_output,
             mt_process.header->node, mt_process.pid);
    int fd = open(names->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  0666);
    if (fd < 0) {
        return -1;
    }
    struct mt_seg_node_file f = {
        .version_major = MPITRACE_SEGMENT_MAJOR,
        .version_minor = MPITRACE_SEGMENT_MINOR,
        .layout_hash = MPITRACE_LAYOUT_HASH,
    };
    clock_gettime(CLOCK_REALTIME, &t);
    memcpy(f.magic, "MPITRNOD", 8);
    memcpy(f.node, mt_process.header->node, sizeof(f.node));
    memcpy(f.job, mt_process.header->job, sizeof(f.job));
    f.written_realtime_ns =
        (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    snprintf(f.writer, sizeof(f.writer), "libmpishim %s", MPITRACE_VERSION);
    if (!mt_write_all(fd, &f, sizeof(f))) {
        close(fd);
        unlink(names->path);
        return -1;
    }
    return fd;
}

/* Gives the file a name that nothing has yet; EEXIST if something has. */
static bool mt_nodefile_claim(const char *path, const char *name)
{
    if (link(path, name) == 0) {
        return true;
    }
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) {
        return false;
    }
    /* no hard links here: reserve the name, then take it */
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return false;
    }
    close(fd);
    return rename(path, name) == 0;
}

/* Gives the finished file its name: NODE.K.mtn with the first free K. */
static bool mt_nodefile_name(struct mt_names *names, const char *kind)
{
    bool named = false;
    for (unsigned k = 0; k < 10000 && !named; k++) {
        snprintf(names->name, sizeof(names->name), "%s/%s%s.%u.mtn", mt_output,
                 kind, mt_process.header->node, k);
        named = mt_nodefile_claim(names->path, names->name);
        if (!named && errno != EEXIST) {
            break;
        }
    }
    int error = errno;
    unlink(names->path);
    errno = error;
    return named;
}

/* A segment that nobody writes any more: its process has left or is dead. A
 * live one, between MPI_Init and its end, stays where it is. */
static bool mt_finished(const struct mt_seg_header *h)
{
    bool left = h->state == MPITRACE_STATE_EXITED ||
                h->state == MPITRACE_STATE_EXITED_EARLY;
    return left || h->pid_namespace != mt_process.header->pid_namespace ||
           mt_start_of(h->pid) != h->pid_start;
}

/* Opens a segment of ours by name; -1 with errno. */
static int mt_segment_reopen(int directory, const char *name,
                             struct statx *st_p)
{
    int in = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (in >= 0 && (!mt_stat(in, "", AT_EMPTY_PATH, st_p) ||
                    st_p->stx_uid != geteuid() ||
                    st_p->stx_size < sizeof(struct mt_seg_header))) {
        close(in);
        errno = ENOENT; /* not a segment of ours: as if it were not there */
        return -1;
    }
    return in;
}

/* Appends one segment file, if it is finished; false: it could not be read or
 * written, and nothing may be removed. */
static bool mt_nodefile_append(int fd, int directory, const char *name)
{
    struct statx st;
    int in = mt_segment_reopen(directory, name, &st);
    if (in < 0) {
        return errno == ENOENT;
    }
    size_t size = st.stx_size;
    uint8_t *copy = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool done = false;
    if (copy != MAP_FAILED) {
        ssize_t n = pread(in, copy, size, 0);
        done = n >= (ssize_t)sizeof(struct mt_seg_header) &&
               (!mt_finished((const void *)copy) ||
                mt_record_write(fd, copy, (size_t)n));
        munmap(copy, size);
    }
    close(in);
    return done;
}

static bool mt_is_segment(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".seg") == 0;
}

/* Runs visit on every segment of the job directory. */
static bool mt_each_segment(int directory,
                            bool (*visit)(int fd, int directory,
                                          const char *name),
                            int fd)
{
    bool done = true;
    int again = dup(directory);
    DIR *d = again >= 0 ? fdopendir(again) : NULL;
    if (d == NULL) {
        if (again >= 0) {
            close(again);
        }
        return false;
    }
    rewinddir(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (mt_is_segment(e->d_name)) {
            done = visit(fd, directory, e->d_name) && done;
        }
    }
    closedir(d);
    return done;
}

static bool mt_remove_one(int fd, int directory, const char *name)
{
    struct statx st;
    int in = mt_segment_reopen(directory, name, &st);
    (void)fd;
    if (in < 0) {
        return false;
    }
    struct mt_seg_header *h = mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool finished = h != MAP_FAILED &&
                    pread(in, h, sizeof(*h), 0) == sizeof(*h) &&
                    mt_finished(h);
    if (h != MAP_FAILED) {
        munmap(h, sizeof(*h));
    }
    close(in);
    return finished && unlinkat(directory, name, 0) == 0;
}

/* What this process knows of the whole job is only its own rank; the line is
 * for those who preload by hand, 'mpitrace run' prints its own. */
static void mt_nodefile_tell(void)
{
    if (mt_process.knobs.job_id[0] == '\0') {
        mt_say("result in %s; see: mpitrace report %s", mt_output, mt_output);
    }
}

static void mt_nodefile_failed(const char *where)
{
    mt_say("cannot write the result into %s (%s); what was measured is in %s: "
           "mpitrace collect -o DIR",
           mt_output, strerror(errno), where);
}

static void mt_nodefile_all(const char *job_directory)
{
    struct mt_names *names = mt_names_new();
    int directory = open(job_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = directory >= 0 ? mt_nodefile_create(names) : -1;
    if (fd < 0) {
        mt_nodefile_failed(job_directory);
        if (directory >= 0) {
            close(directory);
        }
        mt_names_free(names);
        return;
    }
    bool done = mt_each_segment(directory, mt_nodefile_append, fd);
    done = close(fd) == 0 && done;
    if (!done || !mt_nodefile_name(names, "")) {
        mt_nodefile_failed(job_directory);
        unlink(names->path);
    } else {
        if (strcmp(mt_process.knobs.keep_segments, "1") != 0 &&
            mt_each_segment(directory, mt_remove_one, -1)) {
            snprintf(names->control, sizeof(names->control), "%s/control",
                     job_directory);
            unlink(names->control);
            rmdir(job_directory);
        }
        mt_nodefile_tell();
    }
    close(directory);
    mt_names_free(names);
}

/* Only this process: its segment is private, or a snapshot was asked for. */
static bool mt_nodefile_self(const char *kind)
{
    struct mt_names *names = mt_names_new();
    int fd = mt_nodefile_create(names);
    bool done = fd >= 0 &&
                mt_record_write(fd, (const uint8_t *)mt_process.header,
                                mt_process.header->file_bytes);
    if (fd >= 0) {
        done = close(fd) == 0 && done;
        if (!done) {
            unlink(names->path);
        }
    }
    done = done && mt_nodefile_name(names, kind);
    mt_names_free(names);
    return done;
}

void mt_nodefile_snapshot(void)
{
    char kind[32];
    snprintf(kind, sizeof(kind), "snapshot-%u-", mt_snapshots++);
    if (!mt_nodefile_self(kind)) {
        mt_say_once("cannot write a snapshot into %s (%s)", mt_output,
                    strerror(errno));
    }
}

void mt_nodefile_leave(void)
{
    struct mt_control now;
    const char *directory, *file;
    mt_segment_path(&directory, &file);
    if (mt_output[0] == '\0') {
        return; /* MPI_Init has not returned: the segment stays */
    }
    bool private = (mt_process.header->flags & MPITRACE_HEADER_FLAG_PRIVATE) != 0;
    if (private || !mt_control_add(0, 1, &now)) {
        /* no segment that others could see, or its directory was removed, or
         * there is no descriptor left */
        if (!private && access(file, F_OK) == 0) {
            mt_nodefile_failed(directory);
        } else if (mt_nodefile_self("")) {
            mt_nodefile_tell();
        } else {
            mt_nodefile_failed("this process only, and is lost");
        }
    } else if (now.left == now.attached) {
        mt_nodefile_all(directory);
    }
}
