/* nothread.c: preloaded: the runtime cannot start a thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*function)(void *), void *argument)
{
    Dl_info info;
    if (dladdr(__builtin_return_address(0), &info) != 0 &&
        strstr(info.dli_fname, "libmpishim-rt") != NULL) {
        return EAGAIN;
    }
    create_fn *create = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attributes, function, argument);
}
