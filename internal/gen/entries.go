package main

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// entriesHead is the part of the entry file that does not depend on the calls.
// An entry changes nothing but %r11 (x16 on arm64), which no calling
// convention passes anything in, so return addresses, floating results and the
// variadic MPI_Pcontrol go through untouched.
const entriesHead = `
/* The exported entry points. Each is a jump through its slot; an empty slot
 * goes to mt_lazy, which attaches the MPI library and jumps on. */
    .text

#if defined(__x86_64__)

/* Saves everything that may carry an argument, asks mt_attach(id, by_pmpi_name)
 * where to go, and goes there. r11 = id * 2 + by_pmpi_name. */
    .type mt_lazy, @function
mt_lazy:
    .cfi_startproc
    push %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    push %rdi
    push %rsi
    push %rdx
    push %rcx
    push %r8
    push %r9
    push %rax
    push %r10
    sub $128, %rsp
    movups %xmm0, (%rsp)
    movups %xmm1, 16(%rsp)
    movups %xmm2, 32(%rsp)
    movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp)
    movups %xmm5, 80(%rsp)
    movups %xmm6, 96(%rsp)
    movups %xmm7, 112(%rsp)
    mov %r11d, %esi
    and $1, %esi
    mov %r11d, %edi
    shr $1, %edi
    call mt_attach
    mov %rax, %r11
    movups (%rsp), %xmm0
    movups 16(%rsp), %xmm1
    movups 32(%rsp), %xmm2
    movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4
    movups 80(%rsp), %xmm5
    movups 96(%rsp), %xmm6
    movups 112(%rsp), %xmm7
    add $128, %rsp
    pop %r10
    pop %rax
    pop %r9
    pop %r8
    pop %rcx
    pop %rdx
    pop %rsi
    pop %rdi
    pop %rbp
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    jmp *%r11
    .cfi_endproc
    .size mt_lazy, . - mt_lazy

    .macro ENTRY name, slots, id, pmpi
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    mov \slots+8*\id(%rip), %r11
    test %r11, %r11
    jz 1f
    jmp *%r11
1:  mov $2*\id+\pmpi, %r11d
    jmp mt_lazy
    .cfi_endproc
    .size \name, . - \name
    .endm

/* A PMPI_ name where a tool behind us defines the MPI_ one: notes it in bit 0
 * of the guard, the first word of mt_tls, for mt_enter_slow. */
    .macro MARK name, id
    .p2align 3
mark_\name:
    .cfi_startproc
    endbr64
    mov mt_tls@gottpoff(%rip), %r11
    orq $1, %fs:(%r11)
    jmp *mt_slots_mpi+8*\id(%rip)
    .cfi_endproc
    .endm

#elif defined(__aarch64__)

    .type mt_lazy, @function
mt_lazy:
    .cfi_startproc
    stp x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset 29, -224
    .cfi_offset 30, -216
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    and w1, w16, #1
    lsr w0, w16, #1
    bl mt_attach
    mov x16, x0
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldr x8, [sp, #80]
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldp x29, x30, [sp], #224
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size mt_lazy, . - mt_lazy

    .macro ENTRY name, slots, id, pmpi
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    hint #34
    adrp x16, \slots+8*\id
    ldr x16, [x16, #:lo12:\slots+8*\id]
    cbz x16, 1f
    br x16
1:  mov w16, #2*\id+\pmpi
    b mt_lazy
    .cfi_endproc
    .size \name, . - \name
    .endm

    .macro MARK name, id
    .p2align 3
mark_\name:
    .cfi_startproc
    hint #34
    adrp x16, :gottprel:mt_tls
    ldr x16, [x16, #:gottprel_lo12:mt_tls]
    mrs x17, tpidr_el0
    add x17, x17, x16
    ldr x16, [x17]
    orr x16, x16, #1
    str x16, [x17]
    adrp x16, mt_slots_mpi+8*\id
    ldr x16, [x16, #:lo12:mt_slots_mpi+8*\id]
    br x16
    .cfi_endproc
    .endm

#else
#error "entries.gen.S: x86-64 and arm64 only"
#endif

`

func (a *api) emitEntries() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* %s */\n%s", notice, entriesHead)
	for _, c := range a.calls {
		fmt.Fprintf(&b, "    ENTRY %s, mt_slots_mpi, %d, 0\n", c.Name, c.ID)
		fmt.Fprintf(&b, "    ENTRY P%s, mt_slots_pmpi, %d, 1\n", c.Name, c.ID)
		fmt.Fprintf(&b, "    MARK %s, %d\n", c.Name, c.ID)
	}
	limit := a.calls[len(a.calls)-1].ID + 1
	b.WriteString("\n    .bss\n    .p2align 6\n")
	for _, slots := range []string{"mt_slots_mpi", "mt_slots_pmpi"} {
		fmt.Fprintf(&b, "    .globl %[1]s\n    .hidden %[1]s\n    .type %[1]s, @object\n    .size %[1]s, %[2]d\n%[1]s:\n    .zero %[2]d\n", slots, 8*limit)
	}
	b.WriteString("\n    .section .rodata\n    .p2align 6\n    .globl mt_table_origin\n    .hidden mt_table_origin\nmt_table_origin:\n")
	byID := map[int]string{}
	for _, c := range a.calls {
		byID[c.ID] = c.Name
	}
	tables := []struct{ name, prefix string }{{"mt_table_openmpi", "mt_openmpi_"}, {"mt_table_mpich", "mt_mpich_"}, {"mt_table_pmpi_mark", "mark_"}}
	for _, t := range tables {
		fmt.Fprintf(&b, "    .globl %[1]s\n    .hidden %[1]s\n%[1]s:\n", t.name)
		for id := 0; id < limit; id++ {
			if name, ok := byID[id]; ok {
				fmt.Fprintf(&b, "    .long %s%s - mt_table_origin\n", t.prefix, name)
			} else {
				b.WriteString("    .long 0\n")
			}
		}
	}
	b.WriteString("\n    .section .note.GNU-stack, \"\", %progbits\n")
	return b.Bytes()
}

func emitExports(calls []call) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* %s */\n{\n  global:\n", notice)
	for _, c := range calls {
		fmt.Fprintf(&b, "    %s;\n    P%s;\n", c.Name, c.Name)
	}
	b.WriteString("  local:\n    *;\n};\n")
	return b.Bytes()
}

func (a *api) emitNames() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* %s */\n#include \"tables.h\"\n\n#include <string.h>\n\n", notice)
	limit := a.calls[len(a.calls)-1].ID + 1
	offsets := make([]int, limit)
	var text strings.Builder
	text.WriteString("    \"\\0\"\n")
	at := 1
	known := []string{}
	for _, c := range a.calls {
		offsets[c.ID] = at
		fmt.Fprintf(&text, "    %q\n", c.Name+"\x00")
		at += len(c.Name) + 1
		known = append(known, c.Name)
	}
	notCalled := map[string]int{}
	for _, n := range a.NotIntercepted {
		notCalled[n[0]] = at
		fmt.Fprintf(&text, "    %q\n", n[0]+"\x00")
		at += len(n[0]) + 1
		known = append(known, n[0])
	}
	body := strings.ReplaceAll(text.String(), `\x00`, `\0`)
	fmt.Fprintf(&b, "static const char mt_name_text[] =\n%s    ;\n\nstatic const uint16_t mt_name_of[MPITRACE_CALL_LIMIT] = {\n", body)
	for id, o := range offsets {
		if o != 0 {
			fmt.Fprintf(&b, "    [%d] = %d,\n", id, o)
		}
	}
	b.WriteString("};\n\n/* offsets of all known names in alphabetical order */\nstatic const uint16_t mt_name_sorted[] = {\n")
	place := map[string]int{}
	for _, c := range a.calls {
		place[c.Name] = offsets[c.ID]
	}
	for n, o := range notCalled {
		place[n] = o
	}
	sort.Strings(known)
	for _, n := range known {
		fmt.Fprintf(&b, "    %d,\n", place[n])
	}
	b.WriteString(`};

const char *mt_call_name(uint32_t id)
{
    return mt_name_text + (id < MPITRACE_CALL_LIMIT ? mt_name_of[id] : 0);
}

int mt_call_known(const char *name)
{
    uint32_t low = 0;
    uint32_t high = sizeof(mt_name_sorted) / sizeof(mt_name_sorted[0]);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int order = strcmp(name, mt_name_text + mt_name_sorted[middle]);
        if (order == 0) {
            return 1;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return 0;
}
`)
	return b.Bytes()
}

// emitPrototypes writes the C prototypes of the spec, to be compiled after an
// installed mpi.h: a wrong one does not compile. HAVE_x is defined by the test
// for each function that the header declares.
func (a *api) emitPrototypes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* %s */\n", notice)
	for _, c := range a.calls {
		args := make([]string, 0, len(c.Args))
		for _, arg := range c.Args {
			args = append(args, declare(arg.Type, arg.Name))
		}
		list := strings.Join(args, ", ")
		if list == "" {
			list = "void"
		}
		fmt.Fprintf(&b, "#if defined(HAVE_%s)\n%s %s(%s);\n#endif\n", c.Name, c.Returns, c.Name, list)
	}
	return b.Bytes()
}

// emitTypes writes the type of every function, in the ABI that the file which
// includes it is compiled for.
func (a *api) emitTypes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* %s */\n/* The types of MPI's functions. Include after ../abi/abi.h. */\n#ifndef MPITRACE_TYPES_GEN_H\n#define MPITRACE_TYPES_GEN_H\n\n", notice)
	for _, c := range a.calls {
		if slices.ContainsFunc(c.Args, argument.variadic) {
			continue
		}
		fmt.Fprintf(&b, "typedef %s mt_fn_%s(%s);\n", abiType(c.Returns), strings.TrimPrefix(c.Name, "MPI_"), c.params(false))
	}
	b.WriteString("\n#endif\n")
	return b.Bytes()
}

// declare writes a C parameter: the brackets of an array go behind its name.
func declare(typ, name string) string {
	if typ == "..." {
		return typ
	}
	if i := strings.IndexByte(typ, '['); i >= 0 {
		return typ[:i] + " " + name + typ[i:]
	}
	return typ + " " + name
}
