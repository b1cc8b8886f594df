/* calls.h: the system calls that can take memory away, by architecture, and
 * the values of their arguments that matter. */
#ifndef MPITRACE_MEMMON_CALLS_H
#define MPITRACE_MEMMON_CALLS_H

#if defined(__TARGET_ARCH_x86)

enum {
    CALL_OPEN = 2,
    CALL_MMAP = 9,
    CALL_MUNMAP = 11,
    CALL_BRK = 12,
    CALL_MREMAP = 25,
    CALL_MADVISE = 28,
    CALL_SHMAT = 30,
    CALL_CLONE = 56,
    CALL_FORK = 57,
    CALL_SHMDT = 67,
    CALL_TRUNCATE = 76,
    CALL_FTRUNCATE = 77,
    CALL_CREAT = 85,
    CALL_REMAP_FILE_PAGES = 216,
    CALL_OPENAT = 257,
    CALL_FALLOCATE = 285,
};

/* The same by "int 0x80", which 64-bit programs may use too; two numbers are
 * those of 64-bit calls in the list above. */
#define COMPAT_CASES                                                         \
    case 5:   /* open */                                                     \
    case 8:   /* creat */                                                    \
    case 45:  /* brk */                                                      \
    case 90:  /* mmap with its arguments in memory */                        \
    case 91:  /* munmap */                                                   \
    case 92:  /* truncate */                                                 \
    case 93:  /* ftruncate */                                                \
    case 117: /* ipc: shmat and shmdt */                                     \
    case 120: /* clone */                                                    \
    case 163: /* mremap */                                                   \
    case 192: /* mmap2 */                                                    \
    case 193: /* truncate64 */                                               \
    case 194: /* ftruncate64 */                                              \
    case 219: /* madvise */                                                  \
    case 295: /* openat */                                                   \
    case 324: /* fallocate */                                                \
    case 397: /* shmat */                                                    \
    case 398: /* shmdt */

enum { CALL_X32 = 0x40000000 }; /* a bit of the number: 32-bit pointers */

#elif defined(__TARGET_ARCH_arm64)

enum {
    CALL_TRUNCATE = 45,
    CALL_FTRUNCATE = 46,
    CALL_FALLOCATE = 47,
    CALL_OPENAT = 56,
    CALL_SHMAT = 196,
    CALL_SHMDT = 197,
    CALL_BRK = 214,
    CALL_MUNMAP = 215,
    CALL_MREMAP = 216,
    CALL_CLONE = 220,
    CALL_MMAP = 222,
    CALL_MADVISE = 233,
    CALL_REMAP_FILE_PAGES = 234,
};

#define COMPAT_CASES /* a 64-bit process has no 32-bit calls */

enum { CALL_X32 = 0 };

#endif

/* since Linux 5.0 the numbers are the same everywhere */
enum {
    CALL_IO_URING_ENTER = 426,
    CALL_CLONE3 = 435,
    CALL_OPENAT2 = 437,
    CALL_PROCESS_MADVISE = 440,
};

enum {
    MAPPING_FIXED = 0x10,      /* mmap: replaces what is there */
    REMAPPING_FIXED = 2,       /* mremap: replaces what is there */
    ATTACH_REMAP = 040000,     /* shmat: replaces what is there */
    CLONE_MEMORY_SHARED = 0x100, /* clone: nothing is copied on write */
    ALLOCATE_KEEP_SIZE = 1,    /* fallocate: with no other flag, adds only */
    OPEN_TRUNCATE = 01000,
};

enum {
    RING_FALLOCATE = 17,
    RING_OPENAT = 18,
    RING_MADVISE = 25,
    RING_OPENAT2 = 28,
    RING_FTRUNCATE = 55,
};

#endif
