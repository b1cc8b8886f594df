/* shared.c: two ranks that send a message to and fro and may run on one processor
 * only, the same one: who waits must give it to the other, or each message takes as
 * long as the scheduler lets a process spin. Counted is how often they do. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

enum { TURNS = 1000 };

static long yields;

/* What libraries call, ours among them, instead of that of libc. */
int sched_yield(void)
{
    __atomic_fetch_add(&yields, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_sched_yield);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *nap,
                    struct timespec *left)
{
    __atomic_fetch_add(&yields, 1, __ATOMIC_RELAXED);
    return syscall(SYS_clock_nanosleep, clock, flags, nap, left) == 0 ? 0 : EINTR;
}

int main(int argc, char **argv)
{
    cpu_set_t one;
    int value = 0, pinned = -1;
    for (int i = 0; i < CPU_SETSIZE && pinned != 0; i++) {
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        pinned = sched_setaffinity(0, sizeof(one), &one);
    }
    begin(&argc, &argv);
    CHECK(pinned == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    long before = __atomic_load_n(&yields, __ATOMIC_RELAXED);
    for (int i = 0; i < TURNS; i++) {
        if (rank == 0) {
            MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        }
        MPI_Recv(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (rank == 1) {
            MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        }
    }
    CHECK(__atomic_load_n(&yields, __ATOMIC_RELAXED) - before >= TURNS / 2);
    return end();
}
