/* fixture.h: a shard in ordinary memory and an application made of numbers, so
 * that probe/ runs without MPI, segment or loader. Addresses below
 * FIXTURE_BINDING are the application's, those from there up to
 * FIXTURE_LIBRARY a binding's, those above an MPI library's. */
#ifndef MPITRACE_TEST_FIXTURE_H
#define MPITRACE_TEST_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "../probe/request.h"

enum { FIXTURE_BINDING = 0x10000000, FIXTURE_LIBRARY = 0x20000000 };
enum { FIXTURE_SITES = 1200, FIXTURE_FUNCTIONS = 80, FIXTURE_RANKS = 16 };

struct fixture {
    struct mt_shard shard;
    struct mt_seg_thread thread;
    struct mt_seg_section sites, functions, peers;
    struct mt_seg_site site_rows[FIXTURE_SITES];
    struct mt_seg_function function_rows[FIXTURE_FUNCTIONS];
    struct mt_seg_peer peer_rows[FIXTURE_RANKS + 4];
    struct mt_seg_total comm_totals[4], type_totals[4];
    struct mt_seg_section arrivals, classes, buffers[8], events;
    struct mt_seg_arrival arrival_rows[MT_ARRIVAL_ROWS];
    struct mt_seg_arrival_class class_rows[MT_ARRIVAL_CLASSES + 1];
    struct mt_seg_reuse paths[MPITRACE_PATH_PATHS];
    struct mt_seg_buffer buffer_rows[MT_REUSE_ROWS];
    uint32_t indexes[4 * MT_REUSE_ROWS];
    uint32_t grown, index_used;
    bool full; /* the table of buffers gets no more room */
    uint16_t peer_index[FIXTURE_RANKS];
};

static struct mt_comm fixture_comm = {.handle = 77, .index = 1,
                                      .size = FIXTURE_RANKS,
                                      .peers = FIXTURE_RANKS, .identity = 1,
                                      .id = 0x77, .kin = 0x99,
                                      .comparable = 1};
static struct fixture *fixture_next;

static inline enum mt_caller fixture_caller(uintptr_t address)
{
    return address >= FIXTURE_LIBRARY   ? MT_CALLER_LIBRARY
           : address >= FIXTURE_BINDING ? MT_CALLER_BINDING
                                        : MT_CALLER_APPLICATION;
}

static inline void *fixture_forward(uint32_t id, uintptr_t address, bool pmpi)
{
    (void)address;
    (void)pmpi;
    return mt_real_mpi[id];
}

static inline bool fixture_inside(uintptr_t frame, uintptr_t guard)
{
    return frame < guard;
}

static inline uint32_t fixture_module(uintptr_t address)
{
    (void)address;
    return 1;
}

static inline bool fixture_grow(struct mt_shard *shard, uint32_t kind)
{
    (void)shard;
    (void)kind;
    return false;
}

/* Room for buffers doubles, as pmpi/shards.c does it. */
static inline bool fixture_reuse_grow(struct mt_shard *shard)
{
    struct fixture *f = (struct fixture *)shard;
    struct mt_reuse *t = &shard->reuse;
    uint32_t rows = t->room > 0 ? t->room : MT_REUSE_CHUNK;
    if (f->full || t->room + rows > MT_REUSE_ROWS) {
        return false;
    }
    uint32_t slots = 2 * (t->room + rows);
    for (uint32_t i = 0; i < rows / MT_REUSE_CHUNK; i++) {
        t->chunks[t->room / MT_REUSE_CHUNK + i] =
            &f->buffer_rows[t->room + i * MT_REUSE_CHUNK];
    }
    t->section = &f->buffers[f->grown++];
    t->section->capacity = rows;
    t->room += rows;
    mt_reuse_index(t, &f->indexes[f->index_used], slots);
    f->index_used += slots;
    return true;
}

/* Turns on what a shard may do without. */
static inline void fixture_extras(struct fixture *f)
{
    f->arrivals.capacity = MT_ARRIVAL_ROWS;
    f->shard.arrival_section = &f->arrivals;
    f->shard.arrival_rows = f->arrival_rows;
    f->shard.arrival_class_section = &f->classes;
    f->shard.arrival_classes = f->class_rows;
    f->shard.reuse.paths = f->paths;
    mt_reuse_index(&f->shard.reuse, f->shard.reuse.first_index,
                   2 * MT_REUSE_CHUNK);
}

/* Every datatype handle is its own size. */
static inline void fixture_type(uint64_t handle, struct mt_type_cached *found_p)
{
    found_p->size = (int64_t)handle;
    found_p->index = 1;
}

static inline struct mt_comm *fixture_comm_find(uint64_t handle)
{
    (void)handle;
    return &fixture_comm;
}

static inline struct mt_shard *fixture_attach(void)
{
    mt_tls.shard = &fixture_next->shard;
    return mt_tls.shard;
}

static unsigned fixture_pairs; /* of clocks taken */

static inline void fixture_pair(void)
{
    fixture_pairs++;
}

static inline struct fixture *fixture_make(uint32_t site_capacity)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->sites.capacity = site_capacity;
    f->functions.capacity = FIXTURE_FUNCTIONS;
    f->peers.capacity = FIXTURE_RANKS + 4;
    f->shard.thread = &f->thread;
    f->shard.site_section = &f->sites;
    f->shard.site_rows = f->site_rows;
    f->shard.function_section = &f->functions;
    f->shard.function_rows = f->function_rows;
    f->shard.peer_section = &f->peers;
    f->shard.peers = f->peer_rows;
    f->shard.peer_index = f->peer_index;
    f->shard.peer_limit = FIXTURE_RANKS;
    f->shard.comm_totals = f->comm_totals;
    f->shard.type_totals = f->type_totals;
    mt_ops = (struct mt_ops){.shard_attach = fixture_attach,
                             .caller = fixture_caller,
                             .forward = fixture_forward,
                             .module = fixture_module,
                             .inside = fixture_inside,
                             .grow = fixture_grow,
                             .reuse_grow = fixture_reuse_grow,
                             .pair = fixture_pair,
                             .type_find = fixture_type,
                             .comm_find = fixture_comm_find};
    mt_gate = 0;
    fixture_next = f;
    return f;
}

/* An empty request table. */
static inline void fixture_requests(void)
{
    static struct mt_request requests[MT_REQUEST_SLOTS];
    static uint64_t keys[MT_REQUEST_SLOTS];
    static uint32_t generations[MT_REQUEST_SLOTS];
    static uint8_t displaced[MT_REQUEST_SLOTS];
    static uint32_t stamps[MT_REQUEST_SLOTS];
    memset(displaced, 0, sizeof(displaced));
    mt_request_displaced = displaced;
    memset(stamps, 0, sizeof(stamps));
    mt_request_stamps = stamps;
    memset(requests, 0, sizeof(requests));
    memset(generations, 0, sizeof(generations));
    memset(keys, 0, sizeof(keys));
    mt_requests = requests;
    mt_request_generations = generations;
    mt_request_keys = keys;
}

#endif
