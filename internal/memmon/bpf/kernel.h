/* kernel.h: what memmon.bpf.c uses of the kernel: map definitions, helpers by
 * their numbers (which never change), and the few fields of kernel structures
 * that are read. Where a field lies is worked out when the program is loaded,
 * from the running kernel's own type information (BTF). */
#ifndef MPITRACE_MEMMON_KERNEL_H
#define MPITRACE_MEMMON_KERNEL_H

#include "base.h"

#define SECTION(name) __attribute__((section(name), used))
#define KERNEL __attribute__((preserve_access_index))

/* how a map states its properties to the loader */
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, type) type *name

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_ARRAY_OF_MAPS = 12 };
enum { MAP_NO_OTHER = 1 /* update: only if there is no such key */ };
enum { MAP_MMAPABLE = 1024 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value,
                                uint64_t flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static long (*const read_user)(void *to, uint32_t bytes,
                               const void *from) = (void *)112;
static long (*const read_kernel)(void *to, uint32_t bytes,
                                 const void *from) = (void *)113;
static struct task_struct *(*const current_task)(void) = (void *)158;
static const struct pt_regs *(*const task_registers)(struct task_struct *) =
    (void *)175;

struct mm_struct {
    unsigned long brk;
} KERNEL;

struct task_struct {
    struct mm_struct *mm;
} KERNEL;

struct io_kiocb {
    uint8_t opcode;
} KERNEL;

#if defined(__TARGET_ARCH_x86)

struct pt_regs {
    unsigned long r10, r8, dx, si, di, orig_ax;
} KERNEL;

#define CALL_NUMBER(regs) ((uint32_t)(regs)->orig_ax)
#define ARGUMENT_0(regs) ((regs)->di)
#define ARGUMENT_1(regs) ((regs)->si)
#define ARGUMENT_2(regs) ((regs)->dx)
#define ARGUMENT_3(regs) ((regs)->r10)
#define ARGUMENT_4(regs) ((regs)->r8)

#elif defined(__TARGET_ARCH_arm64)

struct pt_regs {
    uint64_t regs[31];
    uint64_t orig_x0; /* regs[0] holds the result when the call returns */
    int32_t syscallno;
} KERNEL;

#define CALL_NUMBER(registers) ((uint32_t)(registers)->syscallno)
#define ARGUMENT_0(registers) ((registers)->orig_x0)
#define ARGUMENT_1(registers) ((registers)->regs[1])
#define ARGUMENT_2(registers) ((registers)->regs[2])
#define ARGUMENT_3(registers) ((registers)->regs[3])
#define ARGUMENT_4(registers) ((registers)->regs[4])

#else
#error "no such architecture"
#endif

#endif
