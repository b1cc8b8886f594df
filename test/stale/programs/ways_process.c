/* ways_process.c: memory lost because of other threads and processes. After a
 * fork the first to write gets a copy, which looks the same: there any
 * registration that is still found counts. */
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stale.h"

static char *create_once(struct place *p)
{
    if (p->own == NULL) {
        p->own = create_anonymous(p);
    }
    return p->own;
}

static void reap(long child)
{
    int status;
    if (child < 0 || waitpid((pid_t)child, &status, 0) != child) {
        die("a child");
    }
}

static void destroy_fork(struct place *p, char *a)
{
    (void)p, (void)a;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    reap(child);
}

static void destroy_clone(struct place *p, char *a)
{
    (void)p, (void)a;
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        _exit(0);
    }
    reap(child);
}

static void destroy_clone3(struct place *p, char *a)
{
    (void)p, (void)a;
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child == 0) {
        _exit(0);
    }
    reap(child);
}

/* The child has our memory, and takes it away. */
static void destroy_vfork(struct place *p, char *a)
{
    pid_t child = vfork();
    if (child == 0) {
        munmap(a, p->bytes);
        _exit(0);
    }
    reap(child);
}

static void *unmap(void *argument)
{
    struct place *p = argument;
    if (munmap(p->base, p->bytes) != 0) {
        die("munmap");
    }
    return NULL;
}

static void destroy_thread(struct place *p, char *a)
{
    (void)a;
    pthread_t thread;
    if (pthread_create(&thread, NULL, unmap, p) != 0 ||
        pthread_join(thread, NULL) != 0) {
        die("a thread");
    }
}

const struct way process_ways[] = {
    {"fork", create_once, destroy_fork, true, NULL},
    {"clone", create_once, destroy_clone, true, NULL},
    {"clone3", create_once, destroy_clone3, true, NULL},
    {"vfork", create_anonymous, destroy_vfork, false, NULL},
    {"thread", create_anonymous, destroy_thread, false, NULL},
    {NULL, NULL, NULL, false, NULL},
};
