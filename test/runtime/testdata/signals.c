/* signals.c: a program that takes its signals itself. It blocks all of them
 * before MPI_Init, so that every thread that the MPI library starts has them
 * blocked too, and takes them one by one. It prints which threads have any open,
 * and how many signals others than it have taken: none and 0. Handlers are set,
 * that a signal which goes astray is counted and does not end the process. */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 5, PAUSE_US = 2000 };

static const int taken[] = {SIGHUP,  SIGTRAP,   SIGBUS,  SIGFPE,  SIGILL,
                            SIGSEGV, SIGUSR1,   SIGALRM, SIGTERM, SIGSTKFLT,
                            SIGCHLD, SIGPROF,   SIGURG,  SIGPIPE, SIGSYS};
static volatile sig_atomic_t astray;

static void handler(int signal)
{
    (void)signal;
    astray++;
}

/* Without those that cannot be blocked, and the two of the C library. */
static unsigned long long open_signals(const char *task)
{
    char path[300], line[300];
    unsigned long long blocked = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "SigBlk:", 7) == 0) {
            blocked = strtoull(line + 7, NULL, 16);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    for (int s = 1; s < SIGRTMIN; s++) {
        if (s == SIGKILL || s == SIGSTOP || s > SIGSYS) {
            blocked |= 1ull << (s - 1);
        }
    }
    return ~blocked;
}

static void show_threads(int rank)
{
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    while ((entry = readdir(tasks)) != NULL) {
        unsigned long long open =
            entry->d_name[0] != '.' ? open_signals(entry->d_name) : 0;
        if (open != 0) {
            printf("%d: a thread has signals open: %llx\n", rank, open);
        }
    }
    closedir(tasks);
}

/* Of one signal to this process: whether it has not waited for us. */
static int lost(int number)
{
    struct timespec now = {0};
    sigset_t one;
    pid_t child = number == SIGCHLD ? fork() : 0;
    sigemptyset(&one);
    sigaddset(&one, number);
    if (number != SIGCHLD) {
        kill(getpid(), number);
    } else if (child == 0) {
        _exit(0);
    } else {
        waitpid(child, NULL, 0);
    }
    usleep(PAUSE_US); /* for a thread that takes it */
    return sigtimedwait(&one, NULL, &now) != number;
}

int main(int argc, char **argv)
{
    struct sigaction set = {.sa_handler = handler};
    sigset_t all;
    int rank, missing = 0;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        sigaction(taken[i], &set, NULL);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    show_threads(rank);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
            missing += lost(taken[i]);
        }
    }
    printf("%d: %d signals missing, %d astray\n", rank, missing, (int)astray);
    MPI_Finalize();
    return 0;
}
