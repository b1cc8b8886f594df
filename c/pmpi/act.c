/* act.c: whether the job acts. Looks whether the runtime of act mode may be
 * loaded into this process, loads it, and hands the application's calls to what
 * it brings. Reached in act mode only; whatever fails here leaves the job in
 * observe mode, on all ranks. It knows nothing of how messages travel. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../gen/tables.h"
#include "../include/act.h"
#include "../include/counts.gen.h"
#include "../probe/call.h"
#include "../probe/request.h"
#include "compat.h"
#include "state.h"

enum {
    MT_TRIAL_THREADS = 8, /* more than the runtime starts */
    MT_TRIAL_DESCRIPTORS = 16, /* and than it opens, but for connections */
    MT_SAY_RANKS = 16, /* that say why they are alone; mpitrace run counts the others */
};
/* What the memory of the fabric reserves, and more. */
#define MT_TRIAL_BYTES ((size_t)2 << 30)
/* The least memory that ranks of a machine share is a file of this size. */
#define MT_TRIAL_FILE ((uint64_t)16 << 20)

typedef enum mt_status mt_act_start_fn(const struct mt_act_host *,
                                       struct mt_act_functions *);

static struct mt_act_functions mt_act_functions;
static struct mt_act_host mt_act_host;
static struct mt_act_live mt_act_live;

static bool mt_act_why(char *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool mt_act_why(char *why, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(why, MT_WHY, format, list);
    va_end(list);
    return false;
}

/* ---- may it be loaded? ---- */

static void *mt_act_wait(void *flag)
{
    while (__atomic_load_n((uint32_t *)flag, __ATOMIC_ACQUIRE) == 0) {
        sched_yield();
    }
    return NULL;
}

/* pthread_create is in libpthread before glibc 2.34, which every MPI library
 * brings. */
static bool mt_act_threads(char *why)
{
    typedef int create_fn(pthread_t *, const pthread_attr_t *,
                          void *(*)(void *), void *);
    typedef int join_fn(pthread_t, void **);
    create_fn *create = (create_fn *)dlsym(RTLD_DEFAULT, "pthread_create");
    join_fn *join = (join_fn *)dlsym(RTLD_DEFAULT, "pthread_join");
    if (create == NULL || join == NULL) {
        return mt_act_why(why, "the process has no thread library");
    }
    pthread_t threads[MT_TRIAL_THREADS];
    sigset_t all, before;
    uint32_t go = 0;
    int made = 0, failed = 0;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* they handle no signal */
    while (made < MT_TRIAL_THREADS && failed == 0) {
        failed = create(&threads[made], NULL, mt_act_wait, &go);
        made += failed == 0;
    }
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < made; i++) {
        join(threads[i], NULL);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return failed == 0 ||
           mt_act_why(why,
                      "only %d of %d threads could be started (%s): raise "
                      "ulimit -u or -v",
                      made, MT_TRIAL_THREADS, strerror(failed));
}

static bool mt_act_descriptors(char *why)
{
    int fds[MT_TRIAL_DESCRIPTORS], had = 0, error = 0;
    while (had < MT_TRIAL_DESCRIPTORS && error == 0) {
        fds[had] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        error = fds[had] < 0 ? errno : 0;
        had += error == 0;
    }
    for (int i = 0; i < had; i++) {
        close(fds[i]);
    }
    return error == 0 ||
           mt_act_why(why,
                      "only %d of %d files could be opened (%s): raise "
                      "ulimit -n",
                      had, MT_TRIAL_DESCRIPTORS, strerror(error));
}

/* By trial: limits are of many kinds, and only the kernel knows them all. Not so
 * with files, where the kernel answers by a signal. */
static bool mt_act_room(char *why)
{
    if (mt_file_limit() < MT_TRIAL_FILE) {
        return mt_act_why(why, "files of at most %llu KiB, %llu are needed: "
                          "raise ulimit -f",
                          (unsigned long long)mt_file_limit() >> 10,
                          (unsigned long long)MT_TRIAL_FILE >> 10);
    }
    void *p = mmap(NULL, MT_TRIAL_BYTES, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return mt_act_why(why, "no %zu MiB of address space: raise ulimit -v",
                          MT_TRIAL_BYTES >> 20);
    }
    bool others = mt_act_threads(why) && mt_act_descriptors(why);
    munmap(p, MT_TRIAL_BYTES);
    return others;
}

/* Whose calls are whose must be certain: with another tool or a translation
 * layer a request of ours could reach the library past the wrappers. */
static bool mt_act_alone(char *why)
{
    const char *tool = mt_module_tool(
        (uintptr_t)mt_real_pmpi[MPITRACE_CALL_Init]);
    if (tool != NULL) {
        return mt_act_why(why, "%s defines MPI functions too", tool);
    }
    if (mt_process.chained) {
        return mt_act_why(why, "another tool defines MPI functions too");
    }
    const char *omitted = mt_attach_omits();
    if (omitted != NULL) {
        return mt_act_why(why,
                          "%s of the MPI library does not come through this "
                          "variant of the shim: take libmpishim.so, by --shim",
                          omitted);
    }
    return mt_library_count() <= 1 ||
           mt_act_why(why, "there are two MPI libraries in the process");
}

/* Where a job goes on after failures (ULFM, Open MPI from 5.0, mpirun --with-ft),
 * functions that are not ours end what is under way on a communicator. */
static bool mt_act_unbroken(char *why)
{
    const bool *tolerant = mt_module_own_symbol(
        (uintptr_t)mt_real_pmpi[MPITRACE_CALL_Init], "ompi_ftmpi_enabled");
    return tolerant == NULL || !*tolerant ||
           mt_act_why(why, "the job goes on after failures (--with-ft, "
                      "mpi_ft_enable), of which messages of ours know nothing");
}

/* Memory of a GPU looks like any other, and reading it ends the process. */
static bool mt_act_copies(const char *policy, char *why)
{
    const char *driver = mt_module_gpu();
    return driver == NULL || strstr(policy, "\ngpu=ignore\n") != NULL ||
           mt_act_why(why,
                      "%s is loaded, and messages may lie in the memory of a "
                      "GPU: if none does, say so by gpu=ignore",
                      driver);
}

/* The file: as set, or beside this library. */
static void mt_act_path(char *path, size_t size)
{
    const char *self = mt_module_path((uintptr_t)&mt_act_path);
    const char *slash = strrchr(self, '/');
    if (mt_process.knobs.act_runtime[0] != '\0') {
        snprintf(path, size, "%s", mt_process.knobs.act_runtime);
    } else {
        snprintf(path, size, "%.*slibmpishim-rt.so",
                 slash != NULL ? (int)(slash + 1 - self) : 0, self);
    }
}

/* ---- loading ---- */

/* The threads of the runtime have all signals blocked, so that one which the
 * program has blocked everywhere waits for the program. */
static mt_act_start_fn *mt_act_load(const char *path, char *why)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *start = library != NULL ? dlsym(library, MT_ACT_START) : NULL;
    if (start == NULL) {
        const char *error = dlerror();
        mt_act_why(why, "%s", error != NULL ? error : path);
    }
    return (mt_act_start_fn *)start;
}

/* ---- the beginning ---- */

static void mt_act_say(enum mt_act_line line, const char *text)
{
    void (*const say)(const char *format, ...) =
        line == MT_ACT_RANK_0 ? mt_say_once
        : line == MT_ACT_LAST ? mt_say_last
                              : mt_say;
    say("%s", text);
}

static const char *mt_act_call(void)
{
    const struct mt_shard *shard = mt_tls.shard;
    uint32_t id = shard != NULL ? shard->thread->call : 0;
    return id != 0 ? mt_call_name(id) : "a call of MPI";
}

/* While measurement is paused, and in a shard of several threads, the address there may
 * be that of another call. */
static uint64_t mt_act_site(void)
{
    const struct mt_shard *shard = mt_tls.shard;
    bool known = shard != NULL && shard->shared == 0 &&
                 __atomic_load_n(&mt_gate, __ATOMIC_RELAXED) == 0;
    uint64_t address = known ? shard->thread->address : 0;
    return address != 0 ? address : 1;
}

static int mt_act_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The lines of the policy, of which mpitrace run has made one word. */
static const char *mt_act_policy(void)
{
    static char *text;
    text = strdup(mt_process.knobs.act_policy);
    char *to = text;
    for (const char *c = text; c != NULL && *c != '\0'; c++) {
        int high = *c == '%' ? mt_act_digit(c[1]) : -1;
        int low = high >= 0 ? mt_act_digit(c[2]) : -1;
        if (low >= 0) {
            *to++ = (char)(16 * high + low);
            c += 2;
        } else {
            *to++ = *c == '|' ? '\n' : *c;
        }
    }
    if (text != NULL) {
        *to = '\0';
    }
    return text != NULL ? text : "";
}

/* ---- in the segment ---- */

static struct mt_seg_section *mt_act_section(uint32_t kind, uint32_t bytes,
                                             uint32_t capacity, void **rows_p)
{
    mt_cold_lock();
    struct mt_seg_section *s =
        mt_segment_section(kind, 0, bytes, capacity, rows_p);
    mt_cold_unlock();
    return s;
}

/* Says that the job was to act, with this policy. Without room readers do not
 * see it. */
static void mt_act_show(const char *policy)
{
    struct mt_act_live *live = &mt_act_live;
    const char *hash;
    void *act, *counts, *decisions;
    struct mt_seg_section *s = mt_act_section(
        MPITRACE_SECTION_KIND_ACT, sizeof(*live->act), 1, &act);
    if (s == NULL) {
        return;
    }
    live->act = act;
    int length = mt_presence_hash(policy, &hash);
    snprintf(live->act->policy, sizeof(live->act->policy), "%.*s", length, hash);
    __atomic_store_n(&s->used, 1, __ATOMIC_RELEASE);
    live->counts_section =
        mt_act_section(MPITRACE_SECTION_KIND_ACT_COUNTS,
                       sizeof(*live->counts), MPITRACE_COUNTS, &counts);
    live->decisions_section = mt_act_section(
        MPITRACE_SECTION_KIND_ACT_DECISIONS, sizeof(*live->decisions),
        MPITRACE_ACT_DECISIONS, &decisions);
    if (live->counts_section != NULL && live->decisions_section != NULL) {
        live->counts = counts;
        live->decisions = decisions;
    }
}

static void mt_act_decided(uint32_t state, const char *reason)
{
    struct mt_seg_act *act = mt_act_live.act;
    if (act != NULL) {
        snprintf(act->reason, sizeof(act->reason), "%s", reason);
        __atomic_store_n(&act->state, state, __ATOMIC_RELEASE);
    }
}

void mt_act_several(void)
{
    mt_act_host.threads = true;
}

/* All ranks have it loaded. */
static bool mt_act_run(mt_act_start_fn *start, const char *policy, char *why)
{
    static char reason[MT_ACT_REASON];
    mt_act_host = (struct mt_act_host){
        .version = MT_ACT_VERSION,
        .output = mt_process.knobs.output[0] != '\0'
                      ? strdup(mt_process.knobs.output)
                      : NULL,
        .family = mt_process.family,
        .world_rank = (uint32_t)mt_process.world_rank,
        .world_size = (uint32_t)mt_process.world_size,
        .world = mt_process.header->world,
        .threads = mt_request_threads != 0,
        .native = mt_real_pmpi,
        .symbol = mt_attach_symbol,
        .reason = reason,
        .say = mt_act_say,
        .call = mt_act_call,
        .site = mt_act_site,
        .policy = policy,
        .live = mt_act_live,
        .faults = mt_process.knobs.act_faults[0] != '\0'
                      ? mt_process.knobs.act_faults
                      : NULL,
    };
    if (start(&mt_act_host, &mt_act_functions) != MT_OK) {
        return mt_act_why(why, "the runtime did not start: %s",
                          reason[0] != '\0'
                              ? reason
                              : "libmpishim-rt.so is of another version than "
                                "libmpishim.so: install both anew");
    }
    mt_attach_stand_ins(mt_act_functions.function);
    return true;
}

/* Two steps that all ranks take or none does: everybody is there and can, then
 * everybody has loaded the runtime. */
static enum mt_presence mt_act_agree(const char *policy,
                                     mt_act_start_fn **start_p, char *why)
{
    char path[1024], id[128] = "", refused[MT_WHY] = "";
    mt_act_path(path, sizeof(path));
    if (!mt_module_file_build_id(path, id, sizeof(id))) {
        mt_act_why(refused, "%s is not a library that can be read", path);
    } else if (mt_act_alone(refused) && mt_act_unbroken(refused) &&
               mt_act_copies(policy, refused)) {
        mt_act_room(refused);
    }
    enum mt_presence verdict = mt_presence_report(policy, id, refused, why);
    if (verdict == MT_PRESENCE_GO) {
        *start_p = mt_act_load(path, refused);
        verdict = mt_presence_loaded(refused, why);
    }
    return verdict;
}

void mt_act_begin(bool spawned)
{
    mt_act_start_fn *start = NULL;
    char why[MT_WHY];
    const char *mode = mt_process.knobs.mode;
    if (strcmp(mode, "act") != 0) {
        if (strcmp(mode, "observe") != 0 && strcmp(mode, "advise") != 0) {
            mt_say_once("MPITRACE_MODE=%s is not off, observe, advise or act; "
                        "observe is used", mode);
        }
        const char *wanted = getenv("MPITRACE_ACT");
        if (wanted != NULL && wanted[0] != '\0' &&
            mt_process.knobs.job_id[0] == '\0') {
            mt_say_once("MPITRACE_ACT is read by mpitrace run, which did not "
                        "start this job: it is only observed");
        }
        return;
    }
    const char *policy = mt_act_policy();
    mt_act_show(policy);
    if (spawned) {
        const char *reason = "spawned processes are only observed";
        mt_act_decided(MPITRACE_ACT_STATE_OBSERVES, reason);
        mt_say_once("%s", reason);
        return;
    }
    switch (mt_act_agree(policy, &start, why)) {
    case MT_PRESENCE_GO:
        if (mt_act_run(start, policy, why)) {
            mt_act_decided(MPITRACE_ACT_STATE_ACTS, "");
        } else {
            mt_act_decided(MPITRACE_ACT_STATE_OBSERVES, why);
            mt_say_once("act mode is off, the job is only observed: %s", why);
        }
        break;
    case MT_PRESENCE_ALONE:
        mt_act_decided(MPITRACE_ACT_STATE_OBSERVES, why);
        if (mt_process.world_rank < MT_SAY_RANKS) {
            mt_say("act mode is off, the job is only observed: %s", why);
        }
        break;
    case MT_PRESENCE_OBSERVE:
        mt_act_decided(MPITRACE_ACT_STATE_OBSERVES, "");
        break;
    }
}
