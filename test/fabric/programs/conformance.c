/* conformance.c DEVICE [option=value ...] [TEST ...]: the conformance suite of
 * the fabric. The same tests for every provider; a test is left out only because
 * a capability is missing, which it names. One line a test: ok, skip or FAIL;
 * the last line counts. Status 0 if none failed.
 *
 * Options: engine=inline|peer|thread threads=0|1 faults=FILE seed=N
 * operations=N queue_pairs=N (1,000 unless told) limit=MS; copies=2: as on a
 * system that lets no process read the memory of another; pidfd=0: as before
 * Linux 5.3; crc=0: iwarp without the CRC of MPA, as act mode has it.
 *
 * rank=0|1 wire=IP:PORT: one side only. Rank 0 listens there, rank 1 connects;
 * both are started with the same tests, on one host or on two. IPv6 is written
 * [IP]:PORT, an address of the link [IP%INTERFACE]:PORT. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../c/fabric/paths/socket.h"
#include "harness.h"

/* Where the tests of a group can run. */
enum where { ANYWHERE, ONE_HOST, IF_NAMED };

static const struct group {
    const struct test *tests;
    enum where where;
} groups[] = {
    {tests_messages, ANYWHERE},  {tests_onesided, ANYWHERE},
    {tests_events, ANYWHERE},    {tests_datagrams, ANYWHERE},
    {tests_errors, ANYWHERE},    {tests_random, ANYWHERE},
    {tests_paths, ANYWHERE},     {tests_demand, ANYWHERE},
    {tests_life, ANYWHERE},      {tests_meeting, ONE_HOST},
    {tests_stress, ONE_HOST},    {tests_stopped, ONE_HOST},
    {tests_apart, IF_NAMED},     {tests_links, IF_NAMED},
    {tests_faults, IF_NAMED},    {tests_faults_ud, IF_NAMED},
    {tests_fair, IF_NAMED},      {tests_slow, IF_NAMED},
};

/* A process for one side; other: the end of the wire that is not its own. */
static pid_t start(const struct test *test, const struct setting *setting,
                   int rank, int wire, int other)
{
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    struct side side = {.setting = setting, .rank = rank, .wire = wire};
    close(other);
    test->run(&side);
    memset(&side, 0, sizeof(side)); /* what it names is lost, if it is there */
    leave();
}

/* Waits for all; kills them when none has got anything done for so long. */
static bool finish(const pid_t *pids, int count, uint64_t limit_ms)
{
    struct idle idle = {0};
    int left = count;
    bool good = true, killed = false;
    while (left > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            bool killed_itself =
                WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            left--;
            /* a test may kill itself to see what the other makes of it */
            good = good && (killed_itself ||
                            (WIFEXITED(status) && WEXITSTATUS(status) == 0));
            if (WIFSIGNALED(status) && !killed_itself) {
                fprintf(stderr, "  signal %d\n", WTERMSIG(status));
            }
            continue;
        }
        if (!killed && idle_ms(&idle) > limit_ms) {
            fprintf(stderr, "  nothing moved for %llu ms\n",
                    (unsigned long long)limit_ms);
            for (int i = 0; i < count; i++) {
                kill(pids[i], SIGABRT);
            }
            killed = true;
            good = false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    return good;
}

/* What rank and wire say; rank -1: both sides are ours. */
static struct {
    int rank;
    int listener;
    struct addrinfo *address;
} remote = {.rank = -1, .listener = -1};

static void wire_address(const char *text)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST};
    struct mt_host_port a;
    if (!mt_host_port_read(text, &a) ||
        getaddrinfo(a.host, a.port, &hints, &remote.address) != 0) {
        fprintf(stderr, "conformance: wire=%s: not IP:PORT\n", text);
        exit(2);
    }
}

static void wire_listen(void)
{
    int on = 1;
    const struct addrinfo *at = remote.address;
    remote.listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(remote.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(remote.listener, at->ai_addr, at->ai_addrlen) != 0 ||
        listen(remote.listener, 8) != 0) {
        perror("conformance: wire");
        exit(2);
    }
}

/* A wire for one test: -1 if the other does not come. */
static int wire_join(uint64_t limit_ms)
{
    uint64_t until = now_ms() + limit_ms;
    int wire = -1, on = 1;
    do {
        if (remote.rank == 0) {
            struct timeval time = {.tv_sec = (time_t)(limit_ms / 1000)};
            setsockopt(remote.listener, SOL_SOCKET, SO_RCVTIMEO, &time,
                       sizeof(time));
            wire = accept(remote.listener, NULL, NULL);
        } else {
            wire = socket(remote.address->ai_family, SOCK_STREAM, 0);
            if (connect(wire, remote.address->ai_addr,
                        remote.address->ai_addrlen) != 0) {
                close(wire);
                wire = -1;
                nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
            }
        }
    } while (wire < 0 && now_ms() < until);
    setsockopt(wire, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return wire;
}

static bool run_side(const struct test *test, const struct setting *setting)
{
    int wire = wire_join(4 * setting->limit_ms);
    if (wire < 0) {
        fprintf(stderr, "  the other side did not come\n");
        return false;
    }
    fflush(NULL);
    pid_t pid = start(test, setting, remote.rank, wire, remote.listener);
    close(wire);
    return finish(&pid, 1, 4 * setting->limit_ms);
}

static bool run(const struct test *test, const struct setting *setting)
{
    int wires[2];
    harness_begin();
    if (remote.rank >= 0) {
        return run_side(test, setting);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires) != 0) {
        perror("socketpair");
        return false;
    }
    fflush(NULL);
    pid_t pids[2] = {start(test, setting, 0, wires[0], wires[1]),
                     start(test, setting, 1, wires[1], wires[0])};
    close(wires[0]);
    close(wires[1]);
    return finish(pids, 2, 4 * setting->limit_ms);
}

static bool chosen(const char *name, enum where where, char **names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return count == 0 && where != IF_NAMED;
}

/* Takes name=value; false: it is not an option. */
static bool option(struct setting *s, const char *word)
{
    static const char *const engines[] = {"inline", "peer", "thread"};
    const char *value = strchr(word, '=');
    if (value == NULL) {
        return false;
    }
    size_t n = (size_t)(value++ - word);
    uint64_t number = strtoull(value, NULL, 10);
    if (strncmp(word, "engine", n) == 0) {
        for (int i = 0; i < 3; i++) {
            if (strcmp(value, engines[i]) == 0) {
                s->options.engine = (enum mt_fabric_engine)i;
            }
        }
    } else if (strncmp(word, "threads", n) == 0) {
        s->options.threads = number != 0;
    } else if (strncmp(word, "faults", n) == 0) {
        s->options.faults = value;
    } else if (strncmp(word, "seed", n) == 0) {
        s->seed = number;
    } else if (strncmp(word, "operations", n) == 0) {
        s->operations = number;
    } else if (strncmp(word, "queue_pairs", n) == 0) {
        s->queue_pairs = number;
    } else if (strncmp(word, "copies", n) == 0) {
        if (number == 2) {
            refuse_calls(SYS_process_vm_readv, SYS_process_vm_writev, EPERM);
        }
    } else if (strncmp(word, "pidfd", n) == 0) {
        if (number == 0) {
            refuse_calls(SYS_pidfd_open, SYS_pidfd_open, ENOSYS);
        }
    } else if (strncmp(word, "crc", n) == 0) {
        s->options.no_crc = number == 0;
    } else if (strncmp(word, "rank", n) == 0) {
        remote.rank = number != 0;
    } else if (strncmp(word, "wire", n) == 0) {
        wire_address(value);
    } else if (strncmp(word, "limit", n) == 0) {
        s->limit_ms = number;
    } else {
        fprintf(stderr, "conformance: no option %s\n", word);
        exit(2);
    }
    return true;
}

/* What the device can do when it is opened like this. */
static struct mt_fabric_caps caps_of(const struct setting *setting)
{
    struct mt_fabric_options options = setting->options;
    struct mt_fabric_context *context;
    options.say = say;
    enum mt_status status =
        mt_fabric_open(setting->device, &options, &context);
    if (status != MT_OK) {
        fprintf(stderr, "conformance: cannot open %s: %s\n", setting->device,
                mt_status_text(status));
        exit(2);
    }
    struct mt_fabric_caps caps = mt_fabric_query(context)->caps;
    mt_fabric_close(context);
    return caps;
}

int main(int argc, char **argv)
{
    struct setting setting = {.options = {.engine_cpu = -1},
                              .seed = 1,
                              .operations = 20000,
                              .queue_pairs = 1000,
                              .limit_ms = 20000};
    unsigned passed = 0, failed = 0, skipped = 0;
    int names = 2;
    if (argc < 2) {
        fprintf(stderr, "usage: conformance DEVICE [option=value ...] [TEST ...]\n");
        return 2;
    }
    setting.device = argv[1];
    while (names < argc && option(&setting, argv[names])) {
        names++;
    }
    signal(SIGPIPE, SIG_IGN);
    harness_open();
    if ((remote.rank >= 0) != (remote.address != NULL)) {
        fprintf(stderr, "conformance: rank and wire go together\n");
        return 2;
    }
    if (remote.rank == 0) {
        wire_listen();
    }
    const struct mt_fabric_caps caps = caps_of(&setting);
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        enum where where = groups[g].where;
        if (where == ONE_HOST && remote.rank >= 0) {
            continue;
        }
        for (const struct test *t = groups[g].tests; t->name != NULL; t++) {
            if (!chosen(t->name, where, argv + names, argc - names)) {
                continue;
            }
            const char *missing = t->missing != NULL ? t->missing(&caps) : "";
            if (missing[0] != '\0') {
                printf("skip %s: no %s\n", t->name, missing);
                skipped++;
                continue;
            }
            uint64_t began = now_ms();
            bool good = run(t, &setting);
            printf("%s %s (%llu ms)\n", good ? "ok  " : "FAIL", t->name,
                   (unsigned long long)(now_ms() - began));
            passed += good;
            failed += !good;
        }
    }
    printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
    return failed > 0 || passed == 0;
}
