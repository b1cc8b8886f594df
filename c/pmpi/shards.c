/* shards.c: makes shards, gives them to threads and takes them back when a
 * thread ends. A shard that comes back keeps its figures and goes to the next
 * new thread, so programs that make threads for every step stay within
 * MT_SHARDS_MAX; threads beyond that share the last one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compat.h"
#include "../probe/reuse.h"
#include "state.h"

enum {
    MT_SHARDS_MAX = 15, /* the shared one comes on top */
    MT_COMM_ROWS = 128,
    MT_TYPE_ROWS = 128,
    MT_PEER_ROWS = 1024,
    MT_PEER_SPECIAL_ROWS = 4,
    MT_PEER_INDEX_MAX = 1 << 17,
    MT_SHARD_BYTES = 128 * 1024, /* more than the sections of a shard take */
};

static struct mt_shard *mt_shards[MT_SHARDS_MAX + 1];
static uint32_t mt_shard_count;

/* What C++ registers destructors of thread_local objects with; in libc since
 * glibc 2.18, unlike pthread_key_create. */
extern int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object,
                                    void *dso);
extern void *__libc_stack_end;
extern void *__dso_handle __attribute__((visibility("hidden")));

/* A section of the segment, or private memory that nobody reads when the
 * segment is full: then the shard's figures are lost and it says so. */
static struct mt_seg_section *mt_rows(uint32_t kind, uint32_t shard,
                                      uint32_t entry_bytes, uint32_t capacity,
                                      void *rows_p)
{
    void *rows = NULL;
    struct mt_seg_section *s =
        mt_segment_section(kind, shard, entry_bytes, capacity, &rows);
    if (s == NULL) {
        s = mt_private_bytes(sizeof(*s) + (size_t)entry_bytes * capacity);
        if (s == NULL) {
            return NULL;
        }
        mt_process.header->flags |= MPITRACE_HEADER_FLAG_PARTIAL;
        *s = (struct mt_seg_section){.kind = kind, .shard = shard,
                                     .entry_bytes = entry_bytes,
                                     .capacity = capacity};
        rows = s + 1;
    }
    memcpy(rows_p, &rows, sizeof(rows));
    return s;
}

static bool mt_shard_peer_rows(struct mt_shard *shard)
{
    uint32_t size = (uint32_t)mt_process.world_size;
    uint32_t rows = size < MT_PEER_ROWS ? size : MT_PEER_ROWS;
    uint32_t limit = size < MT_PEER_INDEX_MAX ? size : MT_PEER_INDEX_MAX;
    shard->peer_section = mt_rows(
        MPITRACE_SECTION_KIND_PEERS, shard->number, sizeof(struct mt_seg_peer),
        rows + MT_PEER_SPECIAL_ROWS, &shard->peers);
    shard->peer_index =
        limit > 0 ? mt_private_bytes(limit * sizeof(uint16_t)) : NULL;
    shard->peer_limit = shard->peer_index != NULL ? limit : 0;
    return shard->peer_section != NULL;
}

static bool mt_shard_sections(struct mt_shard *shard)
{
    static struct mt_seg_peer nobody; /* until there are rows of peers */
    bool first = shard->number == 0;
    shard->peers = &nobody;
    struct mt_seg_section *thread =
        mt_rows(MPITRACE_SECTION_KIND_THREAD, shard->number,
                sizeof(struct mt_seg_thread), 1, &shard->thread);
    shard->site_section =
        mt_rows(MPITRACE_SECTION_KIND_SITES, shard->number,
                sizeof(struct mt_seg_site), first ? 768 : 512,
                &shard->site_rows);
    shard->function_section =
        mt_rows(MPITRACE_SECTION_KIND_FUNCTIONS, shard->number,
                sizeof(struct mt_seg_function), first ? 64 : 40,
                &shard->function_rows);
    struct mt_seg_section *comms =
        mt_rows(MPITRACE_SECTION_KIND_COMM_TOTALS, shard->number,
                sizeof(struct mt_seg_total), MT_COMM_ROWS,
                &shard->comm_totals);
    struct mt_seg_section *types =
        mt_rows(MPITRACE_SECTION_KIND_TYPE_TOTALS, shard->number,
                sizeof(struct mt_seg_total), MT_TYPE_ROWS,
                &shard->type_totals);
    if (thread == NULL || comms == NULL || types == NULL ||
        shard->site_section == NULL || shard->function_section == NULL) {
        return false;
    }
    /* these are indexed by entry of COMMS and TYPES: all rows count */
    comms->used = comms->capacity;
    types->used = types->capacity;
    thread->used = 1;
    return true;
}

static bool mt_knob_on(const char *value) { return strcmp(value, "1") == 0; }

/* What a shard can do without: where there is no room, it is not measured. */
static void mt_shard_extras(struct mt_shard *shard)
{
    uint32_t rows = shard->number == 0 ? MT_ARRIVAL_ROWS : MT_ARRIVAL_ROWS / 4;
    if (mt_knob_on(mt_process.knobs.arrival)) {
        shard->arrival_class_section = mt_segment_section(
            MPITRACE_SECTION_KIND_ARRIVAL_CLASSES, shard->number,
            sizeof(struct mt_seg_arrival_class), MT_ARRIVAL_CLASSES + 1,
            (void **)&shard->arrival_classes);
        if (shard->arrival_class_section != NULL) {
            shard->arrival_class_section->used = MT_ARRIVAL_CLASSES + 1;
            shard->arrival_section = mt_segment_section(
                MPITRACE_SECTION_KIND_ARRIVALS, shard->number,
                sizeof(struct mt_seg_arrival), rows,
                (void **)&shard->arrival_rows);
        }
    }
    if (mt_knob_on(mt_process.knobs.trace)) {
        shard->event_section = mt_segment_section(
            MPITRACE_SECTION_KIND_EVENTS, shard->number,
            sizeof(struct mt_seg_event), MT_EVENT_ROWS,
            (void **)&shard->event_rows);
        shard->traced = shard->event_section != NULL;
    }
    if (mt_knob_on(mt_process.knobs.reuse)) {
        struct mt_seg_reuse *paths = NULL;
        struct mt_seg_section *s = mt_segment_section(
            MPITRACE_SECTION_KIND_REUSE, shard->number,
            sizeof(struct mt_seg_reuse), MPITRACE_PATH_PATHS, (void **)&paths);
        for (uint32_t i = 0; s != NULL && i < MPITRACE_PATH_PATHS; i++) {
            paths[i].path = i;
            s->used = i + 1;
        }
        mt_reuse_index(&shard->reuse, shard->reuse.first_index,
                       2 * MT_REUSE_CHUNK);
        shard->reuse.paths = paths;
    }
}

/* Doubles the usage table of a shard: rows in a section of their own, and an
 * index at most half full. The former index stays allocated. */
bool mt_shard_reuse_grow(struct mt_shard *shard)
{
    struct mt_reuse *t = &shard->reuse;
    uint32_t rows = t->room > 0 ? t->room : MT_REUSE_CHUNK;
    struct mt_seg_buffer *buffers = NULL;
    if (t->room + rows > MT_REUSE_ROWS) {
        return false;
    }
    mt_cold_lock();
    /* shards that are yet to be made come first */
    uint64_t others = MT_SHARDS_MAX + 1 - mt_shard_count;
    if (t->room > 0 && mt_segment_left() < rows * sizeof(*buffers) +
                                               others * MT_SHARD_BYTES) {
        mt_cold_unlock();
        return false;
    }
    uint32_t slots = 2 * (t->room + rows);
    uint32_t *index = t->room == 0
                          ? t->index
                          : mt_private_bytes(slots * sizeof(*index));
    struct mt_seg_section *s =
        index != NULL ? mt_segment_section(MPITRACE_SECTION_KIND_BUFFERS,
                                           shard->number, sizeof(*buffers),
                                           rows, (void **)&buffers)
                      : NULL;
    mt_cold_unlock();
    if (s == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < rows / MT_REUSE_CHUNK; i++) {
        t->chunks[t->room / MT_REUSE_CHUNK + i] = &buffers[i * MT_REUSE_CHUNK];
    }
    t->section = s;
    t->room += rows;
    mt_reuse_index(t, index, slots);
    return true;
}

static struct mt_shard *mt_shard_make(bool shared)
{
    struct mt_shard *shard = mt_private_bytes(sizeof(*shard));
    if (shard == NULL) {
        return NULL;
    }
    shard->number = mt_shard_count;
    shard->shared = shared;
    if (!mt_shard_sections(shard) ||
        (mt_process.world_size > 0 && !mt_shard_peer_rows(shard))) {
        return NULL;
    }
    mt_shard_extras(shard);
    shard->thread->overflow = shared;
    mt_shards[mt_shard_count] = shard;
    mt_shard_count++;
    mt_process.header->shards = mt_shard_count;
    return shard;
}

/* The thread that held the shard has ended. The first thread keeps its own:
 * handlers of exit() may still call MPI. */
static void mt_shard_return(void *arg)
{
    struct mt_shard *shard = arg;
    if ((uint32_t)syscall(SYS_gettid) == mt_process.pid) {
        return;
    }
    mt_tls.shard = NULL;
    mt_tls.ended = 1;
    if (mt_tls.scratch != NULL) {
        munmap(mt_tls.scratch, mt_tls.scratch_bytes);
        mt_tls.scratch = NULL;
        mt_tls.scratch_bytes = 0;
    }
    if (shard->shared == 0) {
        __atomic_store_n(&shard->held, 0, __ATOMIC_RELEASE);
    }
}

static struct mt_shard *mt_shard_free(void)
{
    for (uint32_t i = 0; i < mt_shard_count; i++) {
        if (__atomic_load_n(&mt_shards[i]->held, __ATOMIC_ACQUIRE) == 0) {
            return mt_shards[i];
        }
    }
    return NULL;
}

/* Where the frames of this thread end: glibc keeps a thread's descriptor at the
 * top of its stack; the first thread's stack begins at __libc_stack_end. */
static uintptr_t mt_stack_top(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t self = (uintptr_t)pthread_self();
    return self > here ? self : (uintptr_t)__libc_stack_end;
}

/* Lets the thread give its shard back when it ends. A destructor of
 * thread-specific data may call MPI after that; then the shard goes back with
 * the thread-specific data that are destroyed next. Those functions are in
 * libpthread before glibc 2.34, which a program with threads has loaded. */
static pthread_key_t mt_shard_key;
static int (*mt_shard_set)(pthread_key_t, const void *);

static void mt_shard_find_key(void)
{
    int (*create)(pthread_key_t *, void (*)(void *)) =
        dlsym(RTLD_DEFAULT, "pthread_key_create");
    void *function = dlsym(RTLD_DEFAULT, "pthread_setspecific");
    mt_cold_lock();
    if (mt_shard_set == NULL && create != NULL &&
        create(&mt_shard_key, mt_shard_return) == 0) {
        mt_shard_set = function;
    }
    mt_cold_unlock();
}

/* Not under the cold lock: the loader takes its own lock here, and a thread that
 * holds that one may run a constructor that calls MPI for the first time. */
static void mt_shard_lend(struct mt_shard *shard)
{
    if (mt_tls.ended == 0) {
        __cxa_thread_atexit_impl(mt_shard_return, shard, &__dso_handle);
        return;
    }
    if (mt_shard_set == NULL) {
        mt_shard_find_key();
    }
    if (mt_shard_set != NULL) {
        mt_shard_set(mt_shard_key, shard);
    }
}

struct mt_shard *mt_shard_attach(void)
{
    mt_tls.stack_end = mt_stack_top();
    mt_cold_lock();
    struct mt_shard *shard = NULL;
    if (mt_process.header != NULL) {
        shard = mt_shard_free();
        if (shard == NULL && mt_shard_count < MT_SHARDS_MAX) {
            shard = mt_shard_make(false);
        } else if (shard == NULL && mt_shard_count == MT_SHARDS_MAX) {
            shard = mt_shard_make(true);
        } else if (shard == NULL) {
            shard = mt_shards[MT_SHARDS_MAX];
        }
    }
    if (shard != NULL) {
        shard->held = shard->shared == 0;
        shard->thread->tid = (uint32_t)syscall(SYS_gettid);
        shard->thread->threads_served += mt_tls.ended == 0;
        mt_process.header->threads_seen += mt_tls.ended == 0;
        mt_tls.shard = shard;
    }
    mt_cold_unlock();
    if (shard != NULL) {
        mt_shard_lend(shard);
    }
    return shard;
}

/* Peers can be counted once the size of MPI_COMM_WORLD is known. */
void mt_shard_peers(void)
{
    mt_cold_lock();
    for (uint32_t i = 0; i < mt_shard_count; i++) {
        if (mt_shards[i]->peer_section == NULL) {
            mt_shard_peer_rows(mt_shards[i]);
        }
    }
    mt_cold_unlock();
}

bool mt_shard_grow(struct mt_shard *shard, uint32_t kind)
{
    void *rows = NULL;
    bool sites = kind == MPITRACE_SECTION_KIND_SITES;
    mt_cold_lock();
    struct mt_seg_section *s = mt_segment_section(
        kind, shard->number,
        sites ? sizeof(struct mt_seg_site) : sizeof(struct mt_seg_function),
        sites ? 512 : 64, &rows);
    if (s != NULL && sites) {
        shard->site_section = s;
        shard->site_rows = rows;
    } else if (s != NULL) {
        shard->function_section = s;
        shard->function_rows = rows;
    }
    mt_cold_unlock();
    return s != NULL;
}

/* A shard that no reader sees, to calibrate with; freed by mt_shard_discard. */
struct mt_scratch_shard {
    struct mt_shard shard;
    struct mt_comm comm;
    struct mt_seg_thread thread;
    struct mt_seg_section sections[4];
    struct mt_seg_site sites[128];
    struct mt_seg_function functions[4];
    struct mt_seg_peer peers[8];
    struct mt_seg_total totals[2];
    struct mt_seg_reuse paths[MPITRACE_PATH_PATHS];
    struct mt_seg_buffer buffers[MT_REUSE_CHUNK];
    uint16_t peer_index[1];
};

static void mt_shard_scratch_reuse(struct mt_scratch_shard *m)
{
    struct mt_reuse *t = &m->shard.reuse;
    m->sections[3].capacity = MT_REUSE_CHUNK;
    t->paths = m->paths;
    t->section = &m->sections[3];
    t->chunks[0] = m->buffers;
    t->room = MT_REUSE_CHUNK;
    mt_reuse_index(t, t->first_index, 2 * MT_REUSE_CHUNK);
}

struct mt_shard *mt_shard_scratch(uint64_t comm, uint64_t type)
{
    struct mt_scratch_shard *m =
        mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) {
        return NULL;
    }
    struct mt_shard *s = &m->shard;
    m->sections[0].capacity = 128;
    m->sections[1].capacity = 4;
    m->sections[2].capacity = 8;
    m->comm = (struct mt_comm){.size = 1, .peers = 1, .identity = 1};
    s->thread = &m->thread;
    s->site_section = &m->sections[0];
    s->site_rows = m->sites;
    s->function_section = &m->sections[1];
    s->function_rows = m->functions;
    s->peer_section = &m->sections[2];
    s->peers = m->peers;
    s->peer_index = m->peer_index;
    s->peer_limit = 1;
    s->comm_totals = &m->totals[0];
    s->type_totals = &m->totals[1];
    mt_shard_scratch_reuse(m);
    for (int i = 0; i < MT_COMM_CACHE; i++) {
        s->comms[i] = (struct mt_comm_cached){comm, &m->comm, mt_comm_epoch, 0};
    }
    for (int i = 0; i < MT_TYPE_CACHE; i++) {
        s->types[i] = (struct mt_type_cached){type, 8, 0, mt_type_epoch};
    }
    return s;
}

void mt_shard_discard(struct mt_shard *shard)
{
    munmap(shard, sizeof(struct mt_scratch_shard));
}
