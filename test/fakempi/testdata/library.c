/* An MPI library of a few functions with MPICH's ABI, for one rank. VERSION is what
 * it calls itself. Its Barrier calls Send and Recv by their public names, as
 * real libraries do; calls to Send are counted and told at Finalize.
 *
 * With BACK defined it is a translation layer: every call of the program goes
 * on to the library in that file, loaded out of sight of the dynamic linker's
 * global scope. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BOTH(type, name, list, body)                                         \
    type PMPI_##name list body type MPI_##name list                          \
        __attribute__((alias("PMPI_" #name)));

static int sends;
int MPI_Send(const void *, int, int, int, int, int);

#ifdef BACK
static void *back(const char *name)
{
    static void *handle;
    if (handle == NULL) {
        handle = dlopen(BACK, RTLD_NOW | RTLD_LOCAL);
    }
    return dlsym(handle, name);
}
#define FORWARD(name, otherwise) ((int (*)(void))back(name))()
#else
#define FORWARD(name, otherwise) (otherwise)
#endif

#ifdef EXTRA
int MPI_Teleport(void) { return 0; }
int MPI_Beam(void) { return 0; }
#endif

#ifdef REFUSES /* once */
static int refused;
BOTH(int, Init, (int *c, char ***v), { (void)c; (void)v; return refused++ == 0 ? 15 : 0; })
#else
BOTH(int, Init, (int *c, char ***v), { (void)c; (void)v; return FORWARD("MPI_Init", 0); })
#endif
BOTH(int, Session_init, (int i, int e, int *session), {
    static int opened;
    (void)i; (void)e;
    usleep(1000); /* it takes its time, also in several threads */
    *session = 0x38000000 + __atomic_add_fetch(&opened, 1, __ATOMIC_RELAXED);
    return 0;
})
BOTH(int, Session_finalize, (int *session), { *session = 0x38000000; return 0; })
BOTH(int, Group_from_session_pset, (int s, const char *name, int *group), {
    (void)name;
    *group = s;
    return 0;
})
BOTH(int, Group_size, (int g, int *n), { (void)g; *n = 1; return 0; })
BOTH(int, Group_rank, (int g, int *r), { (void)g; *r = 0; return 0; })
BOTH(int, Initialized, (int *flag), { *flag = 1; return 0; })
BOTH(int, Get_library_version, (char *text, int *n), {
    *n = sprintf(text, "%s\nsecond line", VERSION);
    return 0;
})
BOTH(int, Comm_rank, (int c, int *r), { (void)c; *r = 0; return 0; })
BOTH(int, Comm_size, (int c, int *n), { (void)c; *n = 1; return 0; })
BOTH(int, Comm_test_inter, (int c, int *f), { (void)c; *f = 0; return 0; })
BOTH(int, Comm_group, (int c, int *g), { *g = c; return 0; })
BOTH(int, Group_free, (int *g), { *g = 0; return 0; })
BOTH(int, Group_translate_ranks, (int a, int n, const int *in, int b, int *out), {
    (void)a; (void)b;
    memcpy(out, in, (size_t)n * sizeof(int));
    return 0;
})
BOTH(int, Query_thread, (int *level), { *level = 0; return 0; })
BOTH(int, Comm_get_parent, (int *c), { *c = 0x04000000; return 0; })
BOTH(int, Type_size_x, (int t, long *n), { *n = t >> 8 & 0xff; return 0; })
BOTH(int, Type_get_name, (int t, char *name, int *n), {
    (void)t;
    *n = sprintf(name, "MPI_SOME");
    return 0;
})
BOTH(int, Send, (const void *b, int n, int t, int d, int g, int c), {
    (void)b; (void)n; (void)t; (void)d; (void)g; (void)c;
    sends++;
    return 0;
})
BOTH(int, Barrier, (int c), {
    (void)c;
#ifdef BACK
    return FORWARD("MPI_Barrier", 0);
#else
    MPI_Send(NULL, 0, 0x4c00010d, 0, 0, c);
    return MPI_Send(NULL, 0, 0x4c00010d, 0, 0, c);
#endif
})
BOTH(int, Finalize, (void), {
    printf("%s: %d sends\n", VERSION, sends);
    fflush(stdout);
    return FORWARD("MPI_Finalize", 0);
})
BOTH(int, Abort, (int c, int code), {
    (void)c;
    printf("%s: abort %d\n", VERSION, code);
    fflush(stdout);
    _exit(code);
})
BOTH(double, Wtime, (void), { return 42.5; })
