/* memmon.bpf.c: runs in the kernel at the begin and the end of the system calls
 * that can take memory away, in the calling thread. When a watched process is
 * about to lose memory, and again when it has lost it, the generations of the
 * addresses change.
 *
 * What is watched is an address space (mm_struct), not a process id: threads,
 * children of vfork and kernel workers of io_uring share it, a new program
 * (exec) and a child of fork have another one, and no id can be mistaken.
 *
 * A process asks to be watched with madvise(token, 0, MT_MEMMON_ATTACH); the
 * kernel refuses that call, but it is seen here, and the helper, who gave out
 * the token, has put it into `pending`.
 *
 * Everything that a process can write (its generations, which it has mapped)
 * is only counted up here, never used as an address or an index.
 *
 * Why at the begin and at the end: a registration that is made between the two
 * may still hold the pages that go away. It must not outlive the call. */
#include "calls.h"
#include "kernel.h"
#include "memhook.h"
#include "memmon.h"

char license_text[] SECTION("license") = "Dual BSD/GPL";

/* Set by the loader where the tracepoint of io_uring cannot be attached. */
const volatile bool ring_is_not_seen = false;

/* One per watched process; a map of its own, so that it can be mapped there. */
struct generations {
    MAP_UINT(type, MAP_ARRAY);
    MAP_UINT(key_size, sizeof(uint32_t));
    MAP_UINT(value_size, sizeof(struct mt_memmon_slot));
    MAP_UINT(max_entries, 1);
    MAP_UINT(map_flags, MAP_MMAPABLE);
};

/* slot -> generations */
struct {
    MAP_UINT(type, MAP_ARRAY_OF_MAPS);
    MAP_TYPE(key, uint32_t);
    MAP_UINT(max_entries, 1); /* set by the loader */
    struct generations *values[];
} slots SECTION(".maps");

/* address space -> slot */
struct {
    MAP_UINT(type, MAP_HASH);
    MAP_TYPE(key, uint64_t);
    MAP_TYPE(value, uint32_t);
    MAP_UINT(max_entries, 1); /* set by the loader */
} watched SECTION(".maps");

/* token -> slot, until the process presents it */
struct {
    MAP_UINT(type, MAP_HASH);
    MAP_TYPE(key, uint64_t);
    MAP_TYPE(value, uint32_t);
    MAP_UINT(max_entries, 1); /* set by the loader */
} pending SECTION(".maps");

/* What is known of a slot, out of reach of the process. */
struct owner {
    uint64_t address_space; /* what the helper has to remove from `watched` */
    uint64_t heap_end;
};

struct {
    MAP_UINT(type, MAP_ARRAY);
    MAP_TYPE(key, uint32_t);
    MAP_TYPE(value, struct owner);
    MAP_UINT(max_entries, 1); /* set by the loader */
} owners SECTION(".maps");

static const uint32_t zero = 0;

static struct mt_memmon_slot *slot_of(struct mm_struct *mm, uint32_t *index_p)
{
    uint64_t key = (uint64_t)mm;
    uint32_t *index = map_lookup(&watched, &key);
    if (index == NULL) {
        return NULL;
    }
    *index_p = *index;
    void *generations = map_lookup(&slots, index_p);
    return generations == NULL ? NULL : map_lookup(generations, &zero);
}

/* Changes the generations of [from, from + bytes). Addresses are folded, so the
 * top byte that arm64 ignores does not count, and one that overflows, which the
 * kernel will refuse, changes some generations for nothing. The kernel rounds
 * ranges to pages, which never cross the end of a bucket. */
static void change(struct mt_memmon_slot *s, uint64_t from, uint64_t bytes)
{
    if (bytes == 0) {
        return;
    }
    uint64_t first = from >> MT_MEMHOOK_SHIFT;
    uint64_t count = ((from + bytes - 1) >> MT_MEMHOOK_SHIFT) - first + 1;
    if (bytes >= (uint64_t)MT_MEMHOOK_BUCKETS << MT_MEMHOOK_SHIFT) {
        count = MT_MEMHOOK_BUCKETS;
    }
    for (uint32_t i = 0; i < MT_MEMHOOK_BUCKETS && i < count; i++) {
        /* pairs with the acquiring load of mt_memhook_stamp */
        __sync_fetch_and_add(
            &s->generations[(first + i) % MT_MEMHOOK_BUCKETS], 1);
    }
}

static void change_all(struct mt_memmon_slot *s)
{
    change(s, 0, UINT64_MAX);
}

/* A page of hugetlbfs is replaced as a whole, whatever the length asked for.
 * Such pages larger than a bucket have 32 MiB to 1 GiB and lie on a multiple. */
static void change_replaced(struct mt_memmon_slot *s, uint64_t from,
                            uint64_t bytes)
{
    enum { SMALLEST = 32 << 20, LARGEST = 1 << 30 };
    if (from % SMALLEST == 0) {
        bytes = (bytes + LARGEST - 1) & ~(uint64_t)(LARGEST - 1);
    }
    change(s, from, bytes);
}

/* Advice that takes no page away; all other advice, also such as later kernels
 * may add, is taken for advice that does. */
static bool keeps_memory(uint32_t advice)
{
    switch (advice) {
    case 0:  /* NORMAL */
    case 1:  /* RANDOM */
    case 2:  /* SEQUENTIAL */
    case 3:  /* WILLNEED */
    case 10: /* DONTFORK */
    case 11: /* DOFORK */
    case 14: /* HUGEPAGE */
    case 15: /* NOHUGEPAGE */
    case 16: /* DONTDUMP */
    case 17: /* DODUMP */
    case 18: /* WIPEONFORK */
    case 19: /* KEEPONFORK */
    case 22: /* POPULATE_READ */
    case 23: /* POPULATE_WRITE */
        return true;
    }
    return false;
}

/* The end of the heap moves down: what lies above goes away. The end is that
 * at the begin of the call, which is still known at its end. */
static void seen_brk(struct mt_memmon_slot *s, uint32_t index,
                     const struct mm_struct *mm, uint64_t end, bool entering)
{
    struct owner *owner = map_lookup(&owners, &index);
    if (owner == NULL) {
        return;
    }
    uint64_t now = mm->brk;
    if (now > owner->heap_end) {
        owner->heap_end = now;
    }
    uint64_t before = owner->heap_end;
    if (end != 0 && end < before) {
        change(s, end, before - end);
    }
    if (!entering) {
        owner->heap_end = now;
    }
}

static bool shares_memory(const struct pt_regs *regs)
{
    uint64_t flags = 0; /* the first word of struct clone_args */
    return read_user(&flags, sizeof flags, (void *)ARGUMENT_0(regs)) == 0 &&
           (flags & CLONE_MEMORY_SHARED) != 0;
}

/* openat2 has its flags in memory */
static bool truncates(const struct pt_regs *regs)
{
    uint64_t flags = 0; /* the first word of struct open_how */
    return read_user(&flags, sizeof flags, (void *)ARGUMENT_2(regs)) != 0 ||
           (flags & OPEN_TRUNCATE) != 0;
}

/* Calls that take away the range they name. */
static void seen_range(struct mt_memmon_slot *s, const struct pt_regs *regs,
                       uint32_t call)
{
    uint64_t from = ARGUMENT_0(regs), bytes = ARGUMENT_1(regs);
    switch (call) {
    case CALL_MUNMAP:
    case CALL_REMAP_FILE_PAGES:
    case CALL_MPROTECT:
    case CALL_PKEY_MPROTECT:
        change(s, from, bytes);
        break;
    case CALL_MADVISE:
        if (!keeps_memory((uint32_t)ARGUMENT_2(regs))) {
            change(s, from, bytes);
        }
        break;
    case CALL_MMAP:
        if ((ARGUMENT_3(regs) & MAPPING_FIXED) != 0) {
            change_replaced(s, from, bytes);
        }
        break;
    case CALL_MREMAP:
        change_replaced(s, from, bytes);
        if ((ARGUMENT_3(regs) & REMAPPING_FIXED) != 0) {
            change_replaced(s, ARGUMENT_4(regs), ARGUMENT_2(regs));
        }
        break;
    }
}

/* Calls of which it is not known here which addresses they concern: copies on
 * write after a fork, holes in files, detached segments. */
static bool takes_somewhere(const struct pt_regs *regs, uint32_t call)
{
    switch (call) {
#ifdef __TARGET_ARCH_x86
    case CALL_FORK:
    case CALL_CREAT:
        return true;
    case CALL_OPEN:
        return (ARGUMENT_1(regs) & OPEN_TRUNCATE) != 0;
#endif
    case CALL_MADVISE:
        return (uint32_t)ARGUMENT_2(regs) == ADVICE_REMOVE;
    case CALL_SHMDT:
    case CALL_TRUNCATE:
    case CALL_FTRUNCATE:
        return true;
    case CALL_SHMAT:
        return (ARGUMENT_2(regs) & ATTACH_REMAP) != 0;
    case CALL_CLONE:
        return (ARGUMENT_0(regs) & CLONE_MEMORY_SHARED) == 0;
    case CALL_CLONE3:
        return !shares_memory(regs);
    case CALL_OPENAT:
        return (ARGUMENT_2(regs) & OPEN_TRUNCATE) != 0;
    case CALL_OPENAT2:
        return truncates(regs);
    case CALL_FALLOCATE:
        return (ARGUMENT_1(regs) & ~(uint32_t)ALLOCATE_KEEP_SIZE) != 0;
    case CALL_PROCESS_MADVISE:
        return !keeps_memory((uint32_t)ARGUMENT_3(regs));
    case CALL_IO_URING_ENTER:
        return ring_is_not_seen;
    }
    return false;
}

/* The calling process wants to be watched. A token counts once; an address
 * space that is watched already, by another copy of the library, stays as it
 * is: the process then finds that its generations do not change. */
static void attach(struct mm_struct *mm, uint64_t token)
{
    uint32_t *found = map_lookup(&pending, &token);
    if (found == NULL) {
        return;
    }
    uint32_t slot = *found;
    uint64_t key = (uint64_t)mm;
    if (map_delete(&pending, &token) != 0 ||
        map_update(&watched, &key, &slot, MAP_NO_OTHER) != 0) {
        return;
    }
    struct owner owner = {.address_space = key};
    map_update(&owners, &slot, &owner, 0);
}

static __attribute__((always_inline)) void seen(bool entering)
{
    struct task_struct *task = current_task();
    const struct pt_regs *regs = task_registers(task);
    uint32_t call = CALL_NUMBER(regs);
    struct mm_struct *mm = task->mm;
    if (entering && call == CALL_MADVISE &&
        (uint32_t)ARGUMENT_2(regs) == MT_MEMMON_ATTACH) {
        attach(mm, ARGUMENT_0(regs));
        return;
    }
    uint32_t index = 0;
    struct mt_memmon_slot *s = slot_of(mm, &index);
    if (s == NULL) {
        return;
    }
    if (takes_somewhere(regs, call)) {
        change_all(s);
    } else if (call == CALL_BRK) {
        seen_brk(s, index, mm, ARGUMENT_0(regs), entering);
    } else {
        seen_range(s, regs, call);
    }
}

/* Attached to the tracepoints of the calls in calls.h, by the loader. */
SECTION("tracepoint/begin")
int call_begins(void *context)
{
    (void)context;
    seen(true);
    return 0;
}

SECTION("tracepoint/end")
int call_ends(void *context)
{
    (void)context;
    seen(false);
    return 0;
}

/* A request of io_uring, which another thread than the one that submits it may carry
 * out, and much later: a worker, or the polling thread of the ring, which all have the
 * address space. Its opcode is read as of an address that may be none. */
static __attribute__((always_inline)) void seen_request(const void *request)
{
    uint8_t opcode = 0; /* no operation */
    read_kernel(&opcode, sizeof opcode,
                &((const struct io_kiocb *)request)->opcode);
    switch (opcode) {
    case RING_FALLOCATE:
    case RING_OPENAT:
    case RING_MADVISE:
    case RING_OPENAT2:
    case RING_FTRUNCATE:
        break;
    default:
        return;
    }
    uint32_t index = 0;
    struct mt_memmon_slot *s = slot_of(current_task()->mm, &index);
    if (s != NULL) {
        change_all(s);
    }
}

SECTION("tp_btf/io_uring_submit_req")
int ring_submits(uint64_t *context)
{
    seen_request((const void *)context[0]);
    return 0;
}

/* Handed to a worker, as all of these are: by now what it was linked to is done. */
SECTION("tp_btf/io_uring_queue_async_work")
int ring_queues(uint64_t *context)
{
    seen_request((const void *)context[0]);
    return 0;
}

/* Carried out: nobody knows of it yet. */
SECTION("tp_btf/io_uring_complete")
int ring_completes(uint64_t *context)
{
    seen_request((const void *)context[1]);
    return 0;
}
