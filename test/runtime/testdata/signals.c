/* signals.c: a program that takes its signals itself. It blocks all of them
 * before MPI_Init, so that every thread that the MPI library starts has them
 * blocked too, and takes them one by one: each that can be blocked, by
 * sigtimedwait and by signalfd, and SIGPROF of an interval timer. It prints which
 * threads have any open, how many signals others than it have taken, and whether
 * anybody has changed a handler: none, 0 and 0. Handlers are set, that a signal
 * which goes astray is counted and does not end the process. */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 2, PAUSE_US = 1000, LIMIT = 65 };

static volatile sig_atomic_t astray;

static void handler(int signal)
{
    (void)signal;
    astray++;
}

/* Not those that cannot be blocked, and the two of the C library. */
static int taken(int s)
{
    return s != SIGKILL && s != SIGSTOP && s != 32 && s != 33;
}

static unsigned long long open_signals(const char *task)
{
    char path[300], line[300];
    unsigned long long blocked = 0, open = 0;
    int found = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "SigBlk:", 7) == 0) {
            blocked = strtoull(line + 7, NULL, 16);
            found = 1;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    if (!found) {
        return 0; /* it has ended */
    }
    for (int s = 1; s < LIMIT; s++) {
        open |= taken(s) && (blocked >> (s - 1) & 1) == 0 ? 1ull << (s - 1) : 0;
    }
    return open;
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

/* One to this process, for a thread of somebody else's to take. */
static void cause(int number)
{
    pid_t child = number == SIGCHLD ? fork() : 0;
    if (number == SIGPROF) {
        struct itimerval soon = {.it_value = {.tv_usec = 1000}}, now;
        setitimer(ITIMER_PROF, &soon, NULL);
        do {
            getitimer(ITIMER_PROF, &now);
        } while (now.it_value.tv_usec != 0 || now.it_value.tv_sec != 0);
    } else if (number != SIGCHLD) {
        kill(getpid(), number);
    } else if (child == 0) {
        _exit(0);
    } else {
        waitpid(child, NULL, 0);
    }
    usleep(PAUSE_US);
}

/* Whether it has not waited for us. */
static int lost(int number, int by_descriptor)
{
    struct timespec now = {0};
    struct signalfd_siginfo info = {0};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    int fd = by_descriptor ? signalfd(-1, &one, SFD_NONBLOCK) : -1;
    cause(number);
    if (!by_descriptor) {
        return sigtimedwait(&one, NULL, &now) != number;
    }
    ssize_t n = read(fd, &info, sizeof(info));
    close(fd);
    return n != sizeof(info) || info.ssi_signo != (unsigned)number;
}

int main(int argc, char **argv)
{
    struct sigaction set = {.sa_handler = handler}, found;
    sigset_t all;
    int rank, missing = 0, sent = 0, changed = 0;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int s = 1; s < LIMIT; s++) {
        if (taken(s)) {
            sigaction(s, &set, NULL);
        }
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    show_threads(rank);
    for (int s = 1; s < LIMIT; s++) {
        changed += taken(s) && sigaction(s, NULL, &found) == 0 &&
                   found.sa_handler != handler;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int s = 1; s < LIMIT; s++) {
            for (int way = 0; taken(s) && way < 2; way++, sent++) {
                missing += lost(s, way);
            }
        }
    }
    show_threads(rank);
    printf("%d: %d of %d signals missing, %d astray, %d handlers changed\n",
           rank, missing, sent, (int)astray, changed);
    MPI_Finalize();
    return 0;
}
