/* tracefile.c: appends the events of a shard to the trace file of the rank,
 * NODE.PID.START.mtt in the result directory. The file is opened for each
 * portion: a descriptor of ours must not stay in the application. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

static char mt_trace_path[1200];
static uint64_t mt_trace_bytes, mt_trace_limit;
static bool mt_trace_ended;

void mt_trace_begin(void)
{
    mt_trace_limit =
        mt_knob_bytes("MPITRACE_TRACE_BYTES", mt_process.knobs.trace_bytes,
                      65536, UINT64_C(1) << 40, UINT64_C(256) << 20);
}

static void mt_trace_end(const char *why)
{
    __atomic_store_n(&mt_trace_ended, true, __ATOMIC_RELAXED);
    mt_say("the trace of rank %d ends here (%s); later events are counted as "
           "dropped",
           mt_process.world_rank, why);
}

static bool mt_trace_head(int fd)
{
    const struct mt_seg_header *h = mt_process.header;
    struct mt_seg_trace_file f = {
        .version_major = MPITRACE_SEGMENT_MAJOR,
        .version_minor = MPITRACE_SEGMENT_MINOR,
        .layout_hash = MPITRACE_LAYOUT_HASH,
        .pid = h->pid,
        .event_bytes = sizeof(struct mt_seg_event),
        .pid_start = h->pid_start,
    };
    memcpy(f.magic, "MPITRTRC", 8);
    memcpy(f.boot_id, h->boot_id, sizeof(f.boot_id));
    memcpy(f.node, h->node, sizeof(f.node));
    memcpy(f.job, h->job, sizeof(f.job));
    mt_trace_bytes = sizeof(f);
    return mt_write_all(fd, &f, sizeof(f));
}

static bool mt_trace_name(void)
{
    const struct mt_seg_header *h = mt_process.header;
    const char *directory = mt_nodefile_directory();
    if (directory == NULL) {
        return false;
    }
    snprintf(mt_trace_path, sizeof(mt_trace_path), "%s/%s.%u.%llu.mtt",
             directory, h->node, h->pid, (unsigned long long)h->pid_start);
    return true;
}

void mt_trace_forget(void)
{
    if (mt_trace_name()) {
        unlink(mt_trace_path);
    }
}

/* Opens the file at its end, and makes it the first time. */
static int mt_trace_open(void)
{
    int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
    if (mt_trace_path[0] == '\0' && !mt_trace_name()) {
        return -1;
    }
    flags |= mt_trace_bytes == 0 ? O_CREAT | O_EXCL : 0;
    int fd = open(mt_trace_path, flags, 0666);
    if (fd >= 0) {
        lseek(fd, 0, SEEK_END);
        if (mt_trace_bytes == 0 && !mt_trace_head(fd)) {
            close(fd);
            fd = -1;
        }
    }
    return fd;
}

bool mt_trace_spill(struct mt_shard *shard)
{
    struct mt_seg_section *s = shard->event_section;
    size_t bytes = (size_t)s->used * sizeof(struct mt_seg_event);
    bool done = false;
    int saved = errno; /* the application's */
    if (__atomic_load_n(&mt_trace_ended, __ATOMIC_RELAXED)) {
        return false;
    }
    mt_cold_lock();
    if (!mt_trace_ended && mt_trace_bytes + bytes > mt_trace_limit) {
        mt_trace_end("MPITRACE_TRACE_BYTES is reached");
    }
    if (!mt_trace_ended) {
        int fd = mt_trace_open();
        done = fd >= 0 && mt_write_all(fd, shard->event_rows, bytes);
        if (done) {
            mt_trace_bytes += bytes;
            __atomic_store_n(&s->used, 0, __ATOMIC_RELEASE);
        } else if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            /* there may be a descriptor again later: only these are lost */
            shard->thread->events_dropped += s->used;
            __atomic_store_n(&s->used, 0, __ATOMIC_RELEASE);
            done = true;
        } else {
            mt_trace_end(strerror(errno));
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    mt_cold_unlock();
    errno = saved;
    return done;
}
