/* shortage.c: preloaded: the library that NOTHREAD names cannot start a thread, and
 * the one that NOFILE names cannot open /dev/null, as where its limits are reached.
 * Limits themselves would be those of the MPI library, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int open_fn(const char *, int, ...);

/* Whether the caller is of the library that a variable names. */
static int short_of(const char *variable, const void *caller)
{
    Dl_info info;
    const char *name = getenv(variable);
    return name != NULL && dladdr(caller, &info) != 0 &&
           strstr(info.dli_fname, name) != NULL;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*function)(void *), void *argument)
{
    if (short_of("NOTHREAD", __builtin_return_address(0))) {
        return EAGAIN;
    }
    create_fn *create = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attributes, function, argument);
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    mode_t mode = 0;
    if (strcmp(path, "/dev/null") == 0 &&
        short_of("NOFILE", __builtin_return_address(0))) {
        errno = EMFILE;
        return -1;
    }
    if ((flags & (O_CREAT | __O_TMPFILE)) != 0) {
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    open_fn *real = (open_fn *)dlsym(RTLD_NEXT, "open");
    return real(path, flags, mode);
}
