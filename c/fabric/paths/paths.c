/* paths.c: see paths.h. */
#include "paths.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void mt_path_say(void (*say)(void *user, const char *text), void *user,
                 const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (say == NULL) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    say(user, text);
}

uint64_t mt_path_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}
