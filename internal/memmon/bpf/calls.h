/* calls.h: the system calls that can take memory away, by architecture, and
 * the values of their arguments that matter. The loader attaches to the
 * tracepoints of the same calls (attach.go), which do not fire for 32-bit calls
 * in a 64-bit process. */
#ifndef MPITRACE_MEMMON_CALLS_H
#define MPITRACE_MEMMON_CALLS_H

#if defined(__TARGET_ARCH_x86)

enum {
    CALL_OPEN = 2,
    CALL_MMAP = 9,
    CALL_MPROTECT = 10,
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
    CALL_PKEY_MPROTECT = 329,
};

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
    CALL_MPROTECT = 226,
    CALL_MADVISE = 233,
    CALL_REMAP_FILE_PAGES = 234,
    CALL_PKEY_MPROTECT = 288,
};

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
    ADVICE_REMOVE = 9,         /* madvise: a hole in the file */
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
