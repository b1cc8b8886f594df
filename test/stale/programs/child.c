/* child: in a child of fork, made by libc or by the system call, nobody watches:
 * generations is NULL. The child may start on its own; it is then watched on its
 * own, and its parent still. Exit status 0 if all that is so. */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../c/include/memhook.h"
#include "../../../c/test/check.h"

static struct mt_memhook_options options;

/* Does unmapping change the generation? */
static bool watched(void)
{
    const volatile uint64_t *g = mt_memhook.generations;
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t before = mt_memhook_stamp(g, (uintptr_t)p, 4096);
    munmap(p, 4096);
    return mt_memhook_stamp(g, (uintptr_t)p, 4096) != before;
}

static int in_child(void)
{
    CHECK(mt_memhook.generations == NULL);
    CHECK_EQ(mt_memhook.monitor, MT_MEMHOOK_NONE);
    CHECK_EQ(mt_memhook_start(&options), MT_OK);
    CHECK(mt_memhook.generations != NULL && watched());
    mt_memhook_stop();
    CHECK(mt_memhook.generations == NULL);
    fflush(stdout);
    return check_failures != 0;
}

static void reap(pid_t child)
{
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK(watched());
}

int main(int argc, char **argv)
{
    options.socket = argv[argc - 1];
    options.timeout_ms = 120000;
    CHECK_EQ(mt_memhook_start(&options), MT_OK);
    CHECK_EQ(mt_memhook_start(&options), MT_OK); /* again: nothing happens */
    CHECK_EQ(mt_memhook.monitor, MT_MEMHOOK_EBPF);
    if (check_failures != 0) {
        return 1;
    }
    CHECK(watched());
    pid_t child = fork();
    if (child == 0) {
        _exit(in_child());
    }
    reap(child);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        _exit(in_child());
    }
    reap(child);
    mt_memhook_stop();
    mt_memhook_stop(); /* again: nothing happens */
    CHECK_EQ(mt_memhook_start(&options), MT_OK);
    CHECK(watched());
    return check_failures != 0;
}
