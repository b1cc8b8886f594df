/* spy.c: preloaded behind the shim: says when the shim opens a socket or loads a
 * library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void tell(const void *caller, const char *what)
{
    Dl_info info;
    if (dladdr(caller, &info) != 0 && strstr(info.dli_fname, "libmpishim") != NULL) {
        fprintf(stderr, "spy: %s\n", what);
    }
}

int socket(int domain, int type, int protocol)
{
    tell(__builtin_return_address(0), "socket");
    return ((int (*)(int, int, int))dlsym(RTLD_NEXT, "socket"))(domain, type,
                                                                protocol);
}

void *dlopen(const char *path, int mode)
{
    void *from = __builtin_return_address(0);
    if (path != NULL && (mode & RTLD_NOLOAD) == 0) {
        tell(from, "dlopen");
    }
    return ((void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen"))(path, mode);
}
