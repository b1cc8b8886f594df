/* unwind.c: steps from frame to frame by the call-frame information, with the
 * unwinder of libgcc (linked statically, so that no library is added to the
 * process). Runs once per new call site, or per call with a stack depth. */
#include <unwind.h>

#include "state.h"

struct mt_step_search {
    uintptr_t address, frame; /* of the frame to step out of */
    uintptr_t outer, outer_frame;
    bool found;
};

/* In a trace function the IP is a frame's program counter and the CFA its
 * stack pointer: for a frame that made a call, the frame address of what it
 * called. */
static _Unwind_Reason_Code mt_step_visit(struct _Unwind_Context *c, void *arg)
{
    struct mt_step_search *s = arg;
    uintptr_t ip = _Unwind_GetIP(c), cfa = _Unwind_GetCFA(c);
    if (s->found) {
        s->outer = ip;
        s->outer_frame = cfa;
        return _URC_END_OF_STACK;
    }
    s->found = ip == s->address && cfa == s->frame;
    return cfa > s->frame ? _URC_END_OF_STACK : _URC_NO_REASON;
}

uintptr_t mt_unwind_step(uintptr_t address, uintptr_t frame, uint32_t *slot_p,
                         uint32_t *span_p)
{
    struct mt_step_search s = {.address = address, .frame = frame};
    _Unwind_Backtrace(mt_step_visit, &s);
    if (s.outer == 0 || s.outer_frame <= frame ||
        s.outer_frame - frame > 1 << 20) {
        return 0;
    }
    /* where in the frame the return address lies: next to its end on x86,
     * anywhere on arm64 */
    for (uintptr_t at = s.outer_frame - sizeof(uintptr_t); at >= frame;
         at -= sizeof(uintptr_t)) {
        if (*(const uintptr_t *)at == s.outer) {
            *slot_p = (uint32_t)(at - frame);
            *span_p = (uint32_t)(s.outer_frame - frame);
            return s.outer;
        }
    }
    return 0;
}

struct mt_inside_search {
    uintptr_t frame, guard;
    bool library; /* a frame of an MPI library lies between them */
    bool passed;  /* the stack could be followed beyond the guard */
};

static _Unwind_Reason_Code mt_inside_visit(struct _Unwind_Context *c, void *arg)
{
    struct mt_inside_search *s = arg;
    uintptr_t cfa = _Unwind_GetCFA(c);
    if (cfa >= s->guard) {
        s->passed = true;
        return _URC_END_OF_STACK;
    }
    /* program counters of frames outside the wrapper that was entered */
    if (cfa >= s->frame &&
        mt_module_caller(_Unwind_GetIP(c)) == MT_CALLER_LIBRARY) {
        s->library = true;
        return _URC_END_OF_STACK;
    }
    return _URC_NO_REASON;
}

bool mt_unwind_inside(uintptr_t frame, uintptr_t guard)
{
    struct mt_inside_search s = {.frame = frame, .guard = guard};
    _Unwind_Backtrace(mt_inside_visit, &s);
    return s.library || !s.passed;
}

struct mt_stack_walk {
    uintptr_t address, frame;
    struct mt_stack *stack;
    uintptr_t frames[MPITRACE_STACK_FRAMES + 1]; /* frame addresses */
    uintptr_t last; /* return address of the frame outside the last one kept */
    bool begun, cut;
};

static _Unwind_Reason_Code mt_stack_visit(struct _Unwind_Context *c, void *arg)
{
    struct mt_stack_walk *w = arg;
    uintptr_t ip = _Unwind_GetIP(c), cfa = _Unwind_GetCFA(c);
    struct mt_stack *stack = w->stack;
    w->begun |= ip == w->address && cfa == w->frame;
    if (!w->begun || ip == 0) {
        return _URC_NO_REASON;
    }
    w->frames[stack->depth] = cfa;
    if (stack->depth == mt_stack_depth) {
        w->last = ip;
        w->cut = true;
        return _URC_END_OF_STACK;
    }
    stack->frames[stack->depth++] =
        (struct mt_step){.address = ip, .application = 1};
    return _URC_NO_REASON;
}

/* Finds in each frame where the return address of the next one lies. */
static void mt_stack_sizes(struct mt_stack_walk *w)
{
    struct mt_stack *stack = w->stack;
    for (uint32_t i = 0; i < stack->depth; i++) {
        struct mt_step *s = &stack->frames[i];
        if (i + 1 == stack->depth && !w->cut) {
            s->outermost = 1;
            break;
        }
        uintptr_t next =
            i + 1 < stack->depth ? stack->frames[i + 1].address : w->last;
        uintptr_t begin = w->frames[i], end = w->frames[i + 1];
        for (uintptr_t at = end - sizeof(uintptr_t);
             end - begin < 1 << 20 && at >= begin; at -= sizeof(uintptr_t)) {
            if (*(const uintptr_t *)at == next) {
                s->slot = (uint32_t)(at - begin);
                s->span = (uint32_t)(end - begin);
                break;
            }
        }
    }
}

enum { MT_STACK_ROWS = 1024, MT_STACK_INDEX = 2048 };

static struct mt_seg_section *mt_stack_section;
static struct mt_seg_stack *mt_stack_rows;
static uint16_t *mt_stack_index; /* open addressing, row + 1 */

static uint64_t mt_stack_row_hash(const struct mt_seg_stack *s)
{
    uint64_t h = s->depth;
    for (uint32_t i = 0; i < s->depth; i++) {
        h = mt_hash(h ^ s->frames[i]) ^ (h >> 29);
    }
    return mt_hash(h);
}

static bool mt_stack_equal(const struct mt_seg_stack *a,
                           const struct mt_seg_stack *b)
{
    bool same = a->depth == b->depth;
    for (uint32_t i = 0; same && i < a->depth; i++) {
        same = a->frames[i] == b->frames[i];
    }
    return same;
}

static bool mt_stack_make(void)
{
    mt_stack_section = mt_segment_section(
        MPITRACE_SECTION_KIND_STACKS, 0, sizeof(struct mt_seg_stack),
        MT_STACK_ROWS, (void **)&mt_stack_rows);
    mt_stack_index = mt_private_bytes(MT_STACK_INDEX * sizeof(uint16_t));
    return mt_stack_section != NULL && mt_stack_index != NULL;
}

/* The row of a stack plus 1; 0 where the table is full. */
static uint16_t mt_stack_row(const struct mt_seg_stack *stack)
{
    if (mt_stack_index == NULL && !mt_stack_make()) {
        return 0;
    }
    uint32_t slot = (uint32_t)(mt_stack_row_hash(stack) >> 53);
    while (mt_stack_index[slot] != 0) {
        if (mt_stack_equal(&mt_stack_rows[mt_stack_index[slot] - 1], stack)) {
            return mt_stack_index[slot];
        }
        slot = (slot + 1) % MT_STACK_INDEX;
    }
    struct mt_seg_section *s = mt_stack_section;
    if (s->used >= s->capacity) {
        s->dropped++;
        return 0;
    }
    mt_stack_rows[s->used] = *stack;
    __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
    mt_stack_index[slot] = (uint16_t)s->used;
    return mt_stack_index[slot];
}

void mt_unwind_stack(uintptr_t address, uintptr_t frame,
                     struct mt_stack *stack_p)
{
    struct mt_stack_walk w = {.address = address, .frame = frame,
                              .stack = stack_p};
    struct mt_seg_stack kept = {0};
    _Unwind_Backtrace(mt_stack_visit, &w);
    mt_stack_sizes(&w);
    for (; kept.depth < stack_p->depth; kept.depth++) {
        kept.frames[kept.depth] = stack_p->frames[kept.depth].address;
    }
    mt_cold_lock();
    uint32_t before = mt_stack_section != NULL ? mt_stack_section->used : 0;
    stack_p->row = kept.depth > 0 ? mt_stack_row(&kept) : 0;
    bool fresh = mt_stack_section != NULL && mt_stack_section->used > before;
    mt_cold_unlock();
    for (uint32_t i = 0; fresh && i < kept.depth; i++) {
        mt_module_index(kept.frames[i]); /* so that readers can resolve it */
    }
}
