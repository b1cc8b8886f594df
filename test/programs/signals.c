/*
 * An application with signal handlers of its own: SIGSEGV on an alternate
 * stack, left by siglongjmp, before and after MPI_Init; a SIGPROF timer that
 * ticks through the calls; SIGUSR2 with SA_SIGINFO. At the end the
 * dispositions must be those that the application (and MPI) left.
 *
 * Each rank: Init, Comm_rank, 20,000 Sendrecv of 4 bytes, Finalize.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include "program.h"

static sigjmp_buf back;
static volatile sig_atomic_t faults, ticks, users, off_stack;
static char stack[65536];
static int *volatile nowhere; /* null */

static void fault(int signal, siginfo_t *info, void *context)
{
    char here;

    (void)signal;
    (void)info;
    (void)context;
    off_stack += &here < stack || &here >= stack + sizeof stack;
    faults++;
    siglongjmp(back, 1);
}

static void tick(int signal)
{
    (void)signal;
    ticks++;
}
static void user(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    users += info->si_pid == getpid();
}

static void install(int signal, void *handler, int flags)
{
    struct sigaction action = {.sa_flags = flags};

    action.sa_sigaction = (void (*)(int, siginfo_t *, void *))handler;
    sigaction(signal, &action, NULL);
}

static void provoke(void)
{
    if (sigsetjmp(back, 1) == 0)
        *nowhere = 1;
}

static int still(int signal, void *handler)
{
    struct sigaction now;

    sigaction(signal, NULL, &now);
    return (void *)now.sa_sigaction == handler;
}

int main(int argc, char **argv)
{
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, found;
    struct itimerval period = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    int rank, in, sum = 0;

    sigaltstack(&alternate, NULL);
    install(SIGSEGV, (void *)fault, SA_ONSTACK | SA_SIGINFO);
    install(SIGPROF, (void *)tick, SA_RESTART);
    install(SIGUSR2, (void *)user, SA_SIGINFO);
    provoke();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    install(SIGSEGV, (void *)fault, SA_ONSTACK | SA_SIGINFO);
    provoke();
    kill(getpid(), SIGUSR2);
    setitimer(ITIMER_PROF, &period, NULL);
    for (int k = 0; k < 20000; k++) {
        MPI_Sendrecv(&k, 1, MPI_INT, 1 - rank, 0, &in, 1, MPI_INT, 1 - rank, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += in % 7;
    }
    for (volatile long spin = 0; ticks == 0; spin++)
        ;
    setitimer(ITIMER_PROF, &off, NULL);
    provoke();
    say("rank %d: sum %d, faults %d, off stack %d, users %d, ticks %d", rank,
        sum, (int)faults, (int)off_stack, (int)users, ticks > 0);
    sigaltstack(NULL, &found);
    say("kept: segv %d, prof %d, usr2 %d, stack %d",
        still(SIGSEGV, (void *)fault), still(SIGPROF, (void *)tick),
        still(SIGUSR2, (void *)user), found.ss_sp == stack);
    say("finalize returns %d", MPI_Finalize());
    return 0;
}
