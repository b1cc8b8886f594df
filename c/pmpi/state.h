/* state.h: what the files of pmpi/ share about this process. Everything here
 * is cold: written between the first MPI call and MPI_Init's return, or under
 * mt_cold_lock. */
#ifndef MPITRACE_PMPI_STATE_H
#define MPITRACE_PMPI_STATE_H

#include "../include/base.h"
#include "../include/calls.gen.h"
#include "../include/segment.gen.h"
#include "../probe/shard.h"

/* Settings, as text, from the environment (knobs.c). */
struct mt_knobs {
    const char *mode, *quiet, *output, *segment_dir, *segment_bytes,
        *segment_bytes_max, *clock, *stack, *skip, *arrival, *reuse, *trace,
        *trace_bytes, *act_runtime, *act_wait, *act_faults, *act_policy,
        *act_rendezvous, *act_secret, *memmon_socket, *job_id, *keep_segments;
};

struct mt_process {
    uint32_t family; /* enum mt_mpi_family */
    bool started;    /* MPI_Init or MPI_Session_init was entered */
    bool chained;    /* a tool behind us defines other MPI_ entries */
    bool quiet;
    uint32_t pid;
    int32_t world_rank;
    int32_t world_size;
    struct mt_knobs knobs;
    struct mt_seg_header *header; /* NULL: no segment */
    char mpi_version[128];
};
extern struct mt_process mt_process;

/* Serialises all cold paths: tables of the process, growth, new shards. */
void mt_cold_lock(void);
void mt_cold_unlock(void);

/* say.c: notes what stderr is. */
void mt_say_begin(void);
/* One line on stderr that starts with "mpitrace: ", unless quiet. */
void mt_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same from rank 0 only (or where the rank is not known). */
void mt_say_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Why the program is ended: quiet or not. */
void mt_say_last(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* knobs.c */
void mt_knobs_read(struct mt_knobs *knobs_p);
void mt_knobs_warn_unknown(void);
uint64_t mt_knob_bytes(const char *name, const char *text, uint64_t lowest,
                       uint64_t highest, uint64_t otherwise);

/* attach.c: the MPI library behind us. Its functions, their PMPI_ names: */
extern void *mt_real_pmpi[MPITRACE_CALL_LIMIT];
void *mt_attach(uint32_t id, bool by_pmpi_name);
void *mt_attach_symbol(const char *name);
/* What stands in for a function that the library lacks; NULL: nothing does. */
void *mt_later(uint32_t id);
void mt_attach_detach_all(void);
void mt_attach_stand_ins(void *const *functions);
void mt_attach_retreat(void);
uint32_t mt_attach_count(void);
/* Says which functions of the library do not come through us. */
void mt_attach_report_uncounted(void);
/* Looks which of them libmpishim.so has, and this variant of it leaves out: how many, and
 * from then on the first, NULL if there is none. */
uint32_t mt_attach_omitted(void);
const char *mt_attach_omits(void);
/* 1 if an MPI library is mapped and was initialised although no call of its
 * Init came through us. */
int mt_attach_initialized(void);

/* modules.c: which loaded object an address lies in */
enum mt_caller mt_module_caller(uintptr_t address);
uint32_t mt_module_index(uintptr_t address);
bool mt_module_changed(void);
/* Objects that the loader has loaded and unloaded so far. */
uint64_t mt_module_changes(void);
/* MPI libraries mapped when last looked at; more than one with a translation
 * layer. */
unsigned mt_library_count(void);
/* The path of the first object that defines the symbol, NULL if none does. */
const char *mt_module_provider(const char *symbol, void **value_p);
/* The symbol as defined by the object that holds address, or NULL. */
void *mt_module_own_symbol(uintptr_t address, const char *symbol);
/* The path of the object that holds address, "" if it is not known. */
const char *mt_module_path(uintptr_t address);
/* The build id of that object in hexadecimal, "" if it has none. */
void mt_module_build_id(uintptr_t address, char *text, size_t size);
/* The same of a file; false: it cannot be read. */
bool mt_module_file_build_id(const char *path, char *text, size_t size);
/* The path of an object that defines MPI functions although it is neither the
 * program nor the one that holds library, NULL if there is none. */
const char *mt_module_tool(uintptr_t library);
/* The path of a driver or runtime of a GPU (CUDA, ROCm, Level Zero), NULL if none is
 * loaded. */
const char *mt_module_gpu(void);
/* Every function that the object exports. */
void mt_module_each_symbol(uintptr_t address,
                           void (*visit)(const char *name, void *arg),
                           void *arg);

/* unwind.c */
uintptr_t mt_unwind_step(uintptr_t address, uintptr_t frame, uint32_t *slot_p,
                         uint32_t *span_p);
bool mt_unwind_inside(uintptr_t frame, uintptr_t guard);
void mt_unwind_stack(uintptr_t address, uintptr_t frame,
                     struct mt_stack *stack_p);

/* registry.c: communicators and datatypes met so far, by handle */
struct mt_type_facts {
    int64_t size;
    char name[64];
};
struct mt_registry_ops {
    /* Asks the MPI library; false: it would not say. */
    bool (*comm_describe)(uint64_t handle, struct mt_comm *comm_p);
    bool (*type_describe)(uint64_t handle, struct mt_type_facts *facts_p);
};
extern struct mt_registry_ops mt_registry_ops;
bool mt_registry_init(void);
struct mt_comm *mt_registry_comm(uint64_t handle);
struct mt_comm *mt_registry_comm_add(const struct mt_comm *comm, uint64_t parent,
                                     uint32_t kind, uint32_t created_by,
                                     uint64_t salt, const char *name);
void mt_registry_comm_name(uint64_t handle, const char *name);
void mt_registry_comm_free(uint64_t handle);
void mt_registry_comm_distrust(uint64_t handle);
const int32_t *mt_registry_map(uint64_t group, int32_t size,
                               const int32_t *ranks);
void mt_registry_type(uint64_t handle, struct mt_type_cached *found_p);
void mt_registry_type_made(uint64_t handle, uint32_t created_by);
void mt_registry_type_free(uint64_t handle);
uint64_t mt_registry_group_hash(const int32_t *ranks, int32_t n);
uint64_t mt_registry_range_hash(int32_t first, int32_t n); /* first, first+1 .. */
void mt_registry_win(uint64_t win, uint64_t comm);
uint64_t mt_registry_win_comm(uint64_t win);

/* segment.c */
bool mt_segment_open(void);
void mt_segment_pair(void);
void mt_segment_memory(void);
struct mt_seg_section *mt_segment_section(uint32_t kind, uint32_t shard,
                                          uint32_t entry_bytes,
                                          uint32_t capacity, void **rows_p);
uint64_t mt_segment_left(void); /* bytes until it may grow no further */
void mt_segment_path(const char **directory_p, const char **file_p);
/* Whether the process had a segment before exec; that one is ended now. Once. */
bool mt_segment_succeeds(void);
void *mt_private_bytes(size_t bytes);
uint64_t mt_file_limit(void); /* RLIMIT_FSIZE, UINT64_MAX if none */

/* shards.c */
struct mt_shard *mt_shard_attach(void);
bool mt_shard_grow(struct mt_shard *shard, uint32_t kind);
bool mt_shard_reuse_grow(struct mt_shard *shard);
void mt_shard_peers(void);
struct mt_shard *mt_shard_scratch(uint64_t comm, uint64_t type);
void mt_shard_discard(struct mt_shard *shard);

/* clock.c */
void mt_clock_choose(const char *wanted);
void mt_clock_measure(struct mt_seg_header *h);
void mt_clock_calibrate(struct mt_seg_header *h, struct mt_shard *scratch,
                        uint64_t comm, uint64_t type);

/* job.c: job id, world, launcher */
void mt_job_identify(struct mt_seg_header *header);
const char *mt_process_executable(void);
unsigned long long mt_process_start(void);
unsigned long long mt_start_of(unsigned pid); /* 0: no such process */

/* nodefile.c */
void mt_nodefile_attach(void);
void mt_nodefile_leave(void);
void mt_nodefile_snapshot(void);

/* The result directory, made if it is not there; NULL: it cannot be. */
const char *mt_nodefile_directory(void);
bool mt_write_all(int fd, const void *data, size_t n);

/* tracefile.c */
void mt_trace_begin(void);
/* The file of an earlier image of the process goes. */
void mt_trace_forget(void);
bool mt_trace_spill(struct mt_shard *shard);

/* messages.c */
struct mt_matched {
    struct mt_comm *comm; /* never NULL */
    uint32_t serial;      /* of the receive in a trace, 0: not drawn yet */
};
void mt_message_put(uint64_t message, uint64_t comm, uint32_t serial);
struct mt_matched mt_message_take(uint64_t message);

/* presence.c: what the ranks of a job know of each other before they talk. */
enum mt_presence {
    MT_PRESENCE_GO,
    MT_PRESENCE_OBSERVE, /* so all were told; mpitrace run has said why */
    MT_PRESENCE_ALONE,   /* no verdict was to be had; why_p says why */
};
enum { MT_WHY = 256 }; /* bytes of a reason */
/* The hash among the lines of a policy, and its length. */
int mt_presence_hash(const char *policy, const char **hash_p);
/* Reports this rank, and why it cannot act ("": it can), and waits for all. */
enum mt_presence mt_presence_report(const char *policy, const char *runtime,
                                    const char *refused, char *why);
/* After GO: this rank has loaded the runtime, or could not. */
enum mt_presence mt_presence_loaded(const char *refused, char *why);

/* act.c: at the end of MPI_Init, on all ranks of MPI_COMM_WORLD. */
void mt_act_begin(bool spawned);
/* From now on several threads may call at once. */
void mt_act_several(void);

/* lifecycle.c */
void mt_kill_switch(const char *why);

#endif
