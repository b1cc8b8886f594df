/* compat.h: functions that moved between glibc versions, bound to the version
 * that all have (see compat.c). */
#ifndef MPITRACE_PMPI_COMPAT_H
#define MPITRACE_PMPI_COMPAT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#define MT_GLIBC_BASE "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define MT_GLIBC_BASE "GLIBC_2.17"
#endif

/* in libdl before 2.34 */
__asm__(".symver dlsym, dlsym@" MT_GLIBC_BASE);
__asm__(".symver dlopen, dlopen@" MT_GLIBC_BASE);
__asm__(".symver dlerror, dlerror@" MT_GLIBC_BASE);

/* stat, lstat and fstat are symbols of their own since 2.33, statx since 2.28.
 * path may be "" with AT_EMPTY_PATH for the descriptor itself. */
static inline bool mt_stat(int directory, const char *path, int flags,
                           struct statx *st_p)
{
    return statx(directory, path, flags, STATX_BASIC_STATS, st_p) == 0;
}

#endif
