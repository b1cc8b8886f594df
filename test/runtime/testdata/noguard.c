/* noguard.c: a preloaded library in whose process no thread may give up
 * privileges, and so set no filter. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>

int prctl(int option, ...)
{
    typedef int prctl_fn(int, unsigned long, unsigned long, unsigned long,
                         unsigned long);
    prctl_fn *real = (prctl_fn *)dlsym(RTLD_NEXT, "prctl");
    unsigned long argument[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++) {
        argument[i] = va_arg(list, unsigned long);
    }
    va_end(list);
    if (option == PR_SET_NO_NEW_PRIVS) {
        errno = EINVAL;
        return -1;
    }
    return real(option, argument[0], argument[1], argument[2], argument[3]);
}
