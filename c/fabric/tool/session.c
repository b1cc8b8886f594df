/* session.c: the two processes, and how they end. */
#define _GNU_SOURCE 1
#include "tool.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void tool_fail(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "mpitrace fabric: %s\n", text);
    exit(1);
}

static void tool_say(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "mpitrace fabric: %s\n", text);
}

void tool_check(enum mt_status status, const char *what)
{
    if (status != MT_OK) {
        tool_fail("%s: %s", what, mt_status_text(status));
    }
}

uint64_t tool_now_ns(void)
{
    return mt_path_now_ns();
}

void tool_wait_slow(const struct tool *t, struct tool_wait *w, const char *what)
{
    uint64_t now = tool_now_ns();
    if (w->until_ns == 0) {
        w->until_ns = now + t->o.timeout_ms * UINT64_C(1000000);
    }
    if (now > w->until_ns) {
        tool_fail("rank %u waited %u s for %s", t->rank, t->o.timeout_ms / 1000,
                  what);
    }
    sched_yield(); /* two processes of one processor */
}

/* ---- beginning ---- */

static void tool_pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < 0) {
        return;
    }
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        tool_fail("processor %d: %s", cpu, strerror(errno));
    }
}

/* Lets the provider move data while this process waits at the socket. */
static void tool_idle(void *user)
{
    struct tool *t = user;
    for (uint32_t i = 0; i < t->rails.count; i++) {
        if (t->rails.rails[i].send_cq != NULL) {
            mt_fabric_poll(t->rails.rails[i].send_cq, NULL, 0);
        }
    }
    sched_yield();
}

/* Two processes of this host. */
static void tool_fork(struct tool *t, struct mt_socket_options *o)
{
    int fds[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        tool_fail("socketpair: %s", strerror(errno));
    }
    fflush(NULL);
    t->child = fork();
    if (t->child < 0) {
        tool_fail("fork: %s", strerror(errno));
    }
    t->rank = t->child == 0;
    if (t->rank == 1) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        t->child = -1;
    }
    close(fds[1 - t->rank]);
    o->rank = t->rank;
    tool_check(mt_socket_pair(o, fds[t->rank], &t->socket), "wire-up");
}

static void tool_join(struct tool *t)
{
    struct mt_socket_options o = {.size = 2,
                                  .timeout_ms = t->o.timeout_ms,
                                  .idle = tool_idle,
                                  .idle_user = t,
                                  .say = tool_say};
    enum mt_status status = MT_OK;
    if (t->o.listen != NULL) {
        o.address = t->o.listen;
        status = mt_socket_listen(&o, &t->socket);
        if (status == MT_OK) {
            fprintf(stderr, "mpitrace fabric: waiting at port %u\n",
                    t->socket.port);
            status = mt_socket_join(&t->socket);
        }
    } else if (t->o.connect != NULL) {
        o.rank = t->rank = 1;
        o.address = t->o.connect;
        status = mt_socket_connect(&o, &t->socket);
    } else {
        tool_fork(t, &o);
    }
    if (status != MT_OK) {
        exit(1); /* it was said why */
    }
}

void tool_swap(struct tool *t, const void *mine, void *theirs, size_t bytes)
{
    char *all = malloc(2 * bytes);
    if (all == NULL ||
        mt_socket_exchange(&t->socket, mine, bytes, all) != MT_OK) {
        exit(1); /* it was said why */
    }
    memcpy(theirs, all + (1 - t->rank) * bytes, bytes);
    free(all);
}

void tool_meet(struct tool *t)
{
    char mine = 'm', theirs;
    tool_swap(t, &mine, &theirs, 1);
}

/* Rank 0's configuration, after both have said which version they speak. */
static void tool_agree(struct tool *t)
{
    uint32_t version = TOOL_VERSION, their_version;
    struct tool_config theirs;
    tool_swap(t, &version, &their_version, sizeof(version));
    if (their_version != version) {
        tool_fail("the other side is version %u of this tool, this one %u: run "
                  "the same mpitrace on both hosts",
                  their_version, version);
    }
    t->config = t->o.config;
    tool_swap(t, &t->config, &theirs, sizeof(theirs));
    if (t->rank == 0) {
        return;
    }
    const char *wrong = tool_config_wrong(&theirs);
    if (wrong == NULL && tool_modes[theirs.mode].alone) {
        wrong = "mode";
    }
    if (wrong != NULL) {
        tool_fail("the other side asks for a %s that there is not", wrong);
    }
    t->config = theirs;
}

static void tool_open_rails(struct tool *t)
{
    struct mt_fabric_device device;
    uint32_t count = 0;
    struct mt_rails_options o = {.patterns = t->o.patterns,
                                 .per_port = t->o.per_port,
                                 .cq_depth = 4096,
                                 .fabric = {.engine = t->o.engine,
                                            .engine_cpu =
                                                t->o.engine_cpus[t->rank],
                                            .faults = t->o.faults,
                                            .say = tool_say}};
    if (o.patterns == NULL) {
        mt_fabric_devices(&device, 1, &count);
        if (count == 0) {
            tool_fail("there is no device: see mpitrace fabric list");
        }
        o.patterns = device.name;
    }
    enum mt_status status = mt_rails_open(&o, &t->rails);
    if (status == MT_ENODEVICE) {
        exit(1); /* it was said which there are */
    }
    tool_check(status, o.patterns);
    uint32_t mine = t->rails.count, theirs;
    tool_swap(t, &mine, &theirs, sizeof(mine));
    if (mine != theirs) {
        tool_fail("%u rails here (%s), %u there: name as many on both sides",
                  mine, o.patterns, theirs);
    }
}

void tool_start(struct tool *t)
{
    signal(SIGPIPE, SIG_IGN);
    t->child = -1;
    tool_join(t);
    tool_pin(t->o.cpus[t->rank]);
    tool_agree(t);
    tool_open_rails(t);
}

/* ---- end ---- */

int tool_stop(struct tool *t)
{
    int status = 0;
    tool_meet(t);
    tool_check(mt_rails_close(&t->rails), "closing the devices");
    mt_socket_close(&t->socket);
    if (t->child > 0) {
        struct tool_wait w = {0};
        while (waitpid(t->child, &status, WNOHANG) == 0) {
            tool_wait_slow(t, &w, "the other process to end");
        }
    }
    fflush(stdout);
    return status == 0 ? 0 : 1;
}

uint64_t tool_size(const struct tool *t, uint32_t i, const uint64_t *defaults,
                   uint32_t default_count)
{
    const uint64_t *sizes =
        t->config.size_count > 0 ? t->config.sizes : defaults;
    uint32_t count =
        t->config.size_count > 0 ? t->config.size_count : default_count;
    return i < count ? sizes[i] : 0;
}
