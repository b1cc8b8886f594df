/* A PMPI tool that takes the arguments of pcontrol_arguments.c and prints them
 * on stderr. */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>

int MPI_Pcontrol(const int level, ...)
{
    va_list args;

    va_start(args, level);
    const char *region = va_arg(args, const char *);
    double weight = va_arg(args, double);
    long number = va_arg(args, long);
    const char *part = va_arg(args, const char *);
    double size = va_arg(args, double);
    int last = va_arg(args, int);
    va_end(args);
    fprintf(stderr, "tool: %d '%s' %g %ld '%s' %g %d\n", level, region, weight,
            number, part, size, last);
    return MPI_SUCCESS;
}
