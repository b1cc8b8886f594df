/* lifecycle.c: from the first MPI_Init to the end of the process. Inert before
 * it: the library has no constructor at all.
 *
 * Fail open: whatever goes wrong here closes the gate, and every wrapper
 * forwards from then on. */
#define _GNU_SOURCE
#include "lifecycle.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../probe/request.h"

struct mt_process mt_process = {.world_rank = -1};
uint32_t mt_cancel_used;
static const struct mt_family_ops *mt_family;
static bool mt_forked;
static int mt_sessions; /* open ones */
static pid_t mt_turn; /* the thread whose turn it is; atomic, 0: nobody's */
static bool mt_world_begun; /* MPI_Init has returned */

/* What atexit registers with, without an object that could be unloaded. */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *dso);

static uint64_t mt_since_ns(uint64_t ticks)
{
    double rate = mt_process.header->ticks_per_ns;
    return rate > 0 ? (uint64_t)((double)(mt_clock_now() - ticks) / rate) : 0;
}

void mt_kill_switch(const char *why)
{
    __atomic_store_n(&mt_gate, MT_GATE_CLOSED, __ATOMIC_RELEASE);
    mt_attach_detach_all();
    if (mt_process.header != NULL) {
        mt_process.header->flags |= MPITRACE_HEADER_FLAG_KILLED;
        snprintf(mt_process.header->fault, sizeof(mt_process.header->fault),
                 "%s", why);
    }
    mt_say("measurement stopped (%s); the program runs on", why);
}

/* A forked child shares the segment's pages: it must never write to them. */
static void mt_life_child(void)
{
    mt_forked = true;
    mt_turn = 0;
    __atomic_store_n(&mt_gate, MT_GATE_CLOSED, __ATOMIC_RELEASE);
    mt_attach_retreat();
}

static bool mt_life_requests(void)
{
    size_t slots = MT_REQUEST_SLOTS;
    mt_requests = mt_private_bytes(slots * sizeof(struct mt_request));
    mt_request_generations = mt_private_bytes(slots * sizeof(uint32_t));
    mt_request_displaced = mt_private_bytes(slots);
    mt_request_stamps = mt_private_bytes(slots * sizeof(uint32_t));
    mt_request_keys = mt_private_bytes(slots * sizeof(uint64_t));
    return mt_requests != NULL && mt_request_keys != NULL &&
           mt_request_generations != NULL && mt_request_displaced != NULL &&
           mt_request_stamps != NULL;
}

static void mt_life_phase_begin(void);

/* Everything that the hot path needs, in the order it needs it. */
static const char *mt_life_build(void)
{
    mt_ops.shard_attach = mt_shard_attach;
    mt_ops.module = mt_module_index;
    mt_ops.step = mt_unwind_step;
    mt_ops.stack = mt_unwind_stack;
    mt_ops.inside = mt_unwind_inside;
    mt_ops.grow = mt_shard_grow;
    mt_ops.reuse_grow = mt_shard_reuse_grow;
    mt_ops.spill = mt_trace_spill;
    mt_ops.pair = mt_segment_pair;
    mt_ops.type_find = mt_registry_type;
    mt_ops.comm_find = mt_registry_comm;
    if (!mt_segment_open()) {
        return "no memory for the segment";
    }
    if (!mt_registry_init() || !mt_life_requests()) {
        return "no memory for its tables";
    }
    if (mt_shard_attach() == NULL) {
        return "no room for a shard in the segment";
    }
    if (pthread_atfork(NULL, NULL, mt_life_child) != 0) {
        return "pthread_atfork failed";
    }
    mt_life_phase_begin();
    return NULL;
}

static enum mt_caller mt_life_any_caller(uintptr_t address)
{
    (void)address;
    return MT_CALLER_APPLICATION;
}

static uint32_t mt_life_no_module(uintptr_t address)
{
    (void)address;
    return 0;
}

/* Measures the hot path as the application would see it: our own calls count
 * as its, on a shard that is thrown away. No other thread is in MPI yet. */
static void mt_life_calibrate(void)
{
    /* any two handles do: the scratch shard has them in its caches */
    struct mt_shard *scratch = mt_shard_scratch(2, 2);
    if (scratch != NULL) {
        uint32_t gate = mt_gate;
        mt_gate = 0;
        mt_ops.caller = mt_life_any_caller;
        mt_ops.module = mt_life_no_module;
        mt_clock_calibrate(mt_process.header, scratch, 2, 2);
        mt_ops.caller = mt_module_caller;
        mt_ops.module = mt_module_index;
        mt_gate = gate;
        mt_shard_discard(scratch);
    }
}

static void mt_life_stack_depth(void)
{
    char *end = NULL;
    unsigned long n = strtoul(mt_process.knobs.stack, &end, 10);
    if (*end != '\0' || n > MPITRACE_STACK_FRAMES) {
        mt_say_once("MPITRACE_STACK=%s is not a number from 0 to %d; 0 is used",
                    mt_process.knobs.stack, MPITRACE_STACK_FRAMES);
        n = 0;
    }
    mt_stack_depth = (uint32_t)n;
}

/* What the first of MPI_Init and MPI_Session_init does. */
static bool mt_life_start(void)
{
    mt_process.pid = (uint32_t)getpid();
    mt_knobs_read(&mt_process.knobs);
    mt_process.quiet = strcmp(mt_process.knobs.quiet, "1") == 0;
    mt_say_begin();
    mt_life_stack_depth();
    mt_clock_choose(mt_process.knobs.clock);
    uint64_t begin = mt_clock_now();
    const char *fault = mt_life_build();
    if (fault != NULL) {
        mt_kill_switch(fault);
        return false;
    }
    struct mt_seg_header *h = mt_process.header;
    mt_nodefile_attach();
    mt_trace_begin();
    mt_clock_measure(h);
    mt_segment_pair();
    mt_life_calibrate();
    h->functions_available = mt_attach_count();
    h->functions_intercepted =
        h->functions_available - mt_attach_omitted();
    h->init_enter_ticks = mt_clock_now();
    h->own_init_ns = mt_since_ns(begin);
    __atomic_store_n(&mt_gate, 0, __ATOMIC_RELEASE);
    return true;
}

bool mt_life_turn(void)
{
    pid_t self = (pid_t)syscall(SYS_gettid), before = 0, at = 0;
    const struct timespec nap = {.tv_nsec = 1000000};
    time_t until = 0;
    while (!__atomic_compare_exchange_n(&mt_turn, &at, self, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (at == self) {
            return false;
        }
        until = at != before ? now.tv_sec + 10 : until;
        before = at;
        if (now.tv_sec < until) {
            nanosleep(&nap, NULL);
            at = 0; /* else it is taken from that one */
        }
    }
    return true;
}

void mt_life_turn_ends(bool turn)
{
    if (turn) {
        __atomic_store_n(&mt_turn, 0, __ATOMIC_RELEASE);
    }
}

bool mt_life_init_enter(void)
{
    if (mt_process.family == MPITRACE_MPI_FAMILY_UNKNOWN || !mt_life_turn()) {
        return false;
    }
    bool begun = false;
    if (!mt_process.started) {
        mt_process.started = true;
        begun = mt_life_start();
    } else { /* again, after one that failed, or inside it? */
        bool inside = (mt_tls.guard & ~MT_GUARD_MARKS) != 0;
        begun = !inside && mt_process.header != NULL && !mt_forked &&
                !mt_world_begun;
    }
    mt_life_turn_ends(true);
    return begun;
}

static void mt_life_running(const struct mt_family_ops *ops)
{
    struct mt_seg_header *h = mt_process.header;
    bool again = mt_family != NULL; /* a session came before MPI_Init */
    mt_family = ops;
    ops->query_thread_level();
    if (!again) {
        mt_knobs_warn_unknown();
    }
    if (!again && mt_process.world_rank <= 0) {
        mt_attach_report_uncounted();
    }
    __atomic_store_n(&h->state, MPITRACE_STATE_RUNNING, __ATOMIC_RELEASE);
}

/* What the program is outside of all phases for counts from here on, as its whole time
 * does: the library's MPI_Init is not a part of it. */
static void mt_life_phase_starts(uint64_t now)
{
    if (mt_phase == 0) { /* MPI_Pcontrol may be called before MPI_Init */
        mt_process.header->phase_enter_ticks = now;
    }
}

void mt_life_init_exit(const struct mt_family_ops *ops, bool failed)
{
    struct mt_seg_header *h = mt_process.header;
    uint64_t begin = mt_clock_now();
    if (!failed) {
        mt_world_begun = true;
        if (h->init_exit_ticks == 0) {
            h->init_exit_ticks = begin;
            mt_life_phase_starts(begin);
        }
        bool turn = mt_life_turn();
        h->flags &= ~(uint32_t)MPITRACE_HEADER_FLAG_SESSIONS;
        h->finalize_enter_ticks = 0; /* that of a session */
        ops->world_begin();
        if (ops->is_spawned()) {
            h->flags |= MPITRACE_HEADER_FLAG_SPAWNED;
        }
        mt_life_running(ops);
        mt_life_turn_ends(turn);
        mt_act_begin(ops->is_spawned());
    }
    h->own_init_ns += mt_since_ns(begin);
}

void mt_life_session_begin(const struct mt_family_ops *ops)
{
    struct mt_seg_header *h = mt_process.header;
    mt_sessions++;
    /* a session's thread level is its own, MPI_Query_thread does not tell it */
    mt_request_threads = 1;
    mt_act_several();
    if (h == NULL || mt_forked || h->init_exit_ticks != 0) {
        return;
    }
    h->init_exit_ticks = mt_clock_now();
    mt_life_phase_starts(h->init_exit_ticks);
    h->flags |= MPITRACE_HEADER_FLAG_SESSIONS;
    mt_shard_peers();
    mt_life_running(ops);
}

void mt_life_session_end(void)
{
    struct mt_seg_header *h = mt_process.header;
    bool turn = mt_life_turn();
    if (--mt_sessions == 0 && h != NULL && !mt_forked &&
        (h->flags & MPITRACE_HEADER_FLAG_SESSIONS) != 0) {
        h->finalize_enter_ticks = mt_clock_now();
        mt_segment_memory();
        mt_life_finalize_exit(false);
    }
    mt_life_turn_ends(turn);
}

void mt_life_finalize_enter(void)
{
    struct mt_seg_header *h = mt_process.header;
    uint64_t begin = mt_clock_now();
    if (h == NULL || mt_forked) {
        return;
    }
    if (mt_family != NULL) {
        mt_family->world_end();
    }
    h->finalize_enter_ticks = begin;
    mt_segment_pair();
    mt_segment_memory();
    h->own_finalize_ns += mt_since_ns(begin);
}

void mt_life_finalize_exit(bool failed)
{
    struct mt_seg_header *h = mt_process.header;
    if (h == NULL || failed || mt_forked) {
        return;
    }
    h->finalize_exit_ticks = mt_clock_now();
    mt_segment_pair();
    __atomic_store_n(&h->state, MPITRACE_STATE_FINALIZED, __ATOMIC_RELEASE);
}

void mt_life_abort(int code)
{
    struct mt_seg_header *h = mt_process.header;
    if (h == NULL || mt_forked) {
        return;
    }
    h->abort_code = code;
    mt_segment_pair();
    mt_segment_memory();
    __atomic_store_n(&h->state, MPITRACE_STATE_ABORTED, __ATOMIC_RELEASE);
}

/* ---- MPI_Pcontrol ---- */

enum { MT_PHASE_ROWS = 64, MT_PHASE_LEVEL = 3 };

static struct mt_seg_section *mt_phase_section;
static struct mt_seg_phase *mt_phase_rows;

static void mt_life_phase_begin(void)
{
    mt_cold_lock();
    mt_phase_section = mt_segment_section(
        MPITRACE_SECTION_KIND_PHASES, 0, sizeof(struct mt_seg_phase),
        MT_PHASE_ROWS, (void **)&mt_phase_rows);
    mt_cold_unlock();
    if (mt_phase_section != NULL) {
        mt_phase_rows[0].entered = 1;
        mt_phase_section->used = 1;
    }
    mt_process.header->phase_enter_ticks = mt_clock_now();
}

/* The row of a level; row 0 when the table is full. */
static uint32_t mt_phase_row(int level)
{
    struct mt_seg_section *s = mt_phase_section;
    for (uint32_t i = 1; i < s->used; i++) {
        if (mt_phase_rows[i].level == level) {
            return i;
        }
    }
    if (s->used >= s->capacity) {
        s->dropped++;
        return 0;
    }
    mt_phase_rows[s->used].level = level;
    __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
    return s->used - 1;
}

static void mt_phase_enter(int level)
{
    struct mt_seg_header *h = mt_process.header;
    uint64_t now = mt_clock_now();
    if (mt_phase_section == NULL) {
        return;
    }
    mt_cold_lock();
    mt_phase_rows[mt_phase].ticks += now - h->phase_enter_ticks;
    uint32_t row = mt_phase_row(level);
    mt_phase_rows[row].entered++;
    h->phase_enter_ticks = now;
    h->phase = row;
    __atomic_store_n(&mt_phase, row, __ATOMIC_RELEASE);
    mt_cold_unlock();
}

void mt_life_pcontrol(int level)
{
    struct mt_seg_header *h = mt_process.header;
    uint32_t gate = __atomic_load_n(&mt_gate, __ATOMIC_ACQUIRE);
    if (h == NULL || (gate & MT_GATE_CLOSED) != 0) {
        return;
    }
    if (level == 0 || level == 1) {
        h->measuring = (uint32_t)level;
        __atomic_store_n(&mt_gate, level == 0 ? MT_GATE_PAUSED : 0,
                         __ATOMIC_RELEASE);
    } else if (level == 2) {
        mt_segment_pair();
        mt_segment_memory();
        mt_nodefile_snapshot();
    } else if (level >= MT_PHASE_LEVEL) {
        mt_phase_enter(level);
    }
}

/* ---- the end of the process ---- */

static void mt_life_silent(void)
{
    if (mt_attach_initialized() != 0) {
        mt_say_once("MPI was used but no call came through libmpishim.so: the "
                    "program looks MPI functions up itself (dlsym), or another "
                    "library's definitions come first; nothing was measured");
    }
}

static void mt_life_end(void *unused)
{
    struct mt_seg_header *h = mt_process.header;
    (void)unused;
    if (mt_forked || mt_process.pid != (uint32_t)getpid()) {
        return; /* a child that a destructor made */
    }
    h->exit_ticks = mt_clock_now();
    mt_segment_pair();
    mt_segment_memory();
    if (h->state != MPITRACE_STATE_ABORTED) {
        __atomic_store_n(&h->state,
                         h->state == MPITRACE_STATE_FINALIZED
                             ? MPITRACE_STATE_EXITED
                             : MPITRACE_STATE_EXITED_EARLY,
                         __ATOMIC_RELEASE);
    }
    mt_nodefile_leave();
}

/* Destructors of other libraries run after ours and may call MPI, MPI_Finalize
 * not the least. What is registered while exit() runs its handlers comes after
 * all of them. */
__attribute__((destructor)) static void mt_life_exit(void)
{
    struct mt_seg_header *h = mt_process.header;
    if (mt_forked || (h != NULL && mt_process.pid != (uint32_t)getpid())) {
        return;
    }
    if (h == NULL) {
        mt_life_silent();
    } else if (__cxa_atexit(mt_life_end, NULL, NULL) != 0) {
        mt_life_end(NULL);
    }
}
