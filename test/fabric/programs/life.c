/* life.c: memory, queue pairs and processes that end while others use them:
 * what was given back is not touched any more. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* ---- memory given back ---- */

/* Who ends what, while the peer or its engine copies. */
enum ending {
    QP_WRITTEN, /* the peer writes here; the queue pair goes */
    MR_WRITTEN, /* ... the region goes */
    QP_SENDS,   /* SENDs of ours may be fetched by the peer; the queue pair goes */
    QP_READS,   /* READs of ours may be pushed by the peer */
    ENDINGS,
};

enum { BACK_BYTES = 1 << 20, BACK_WORKS = 4, BACK_OURS = 0xdd };

static struct mt_fabric_send back_work(enum mt_fabric_opcode opcode,
                                       const struct mt_fabric_piece *p,
                                       struct remote there)
{
    return (struct mt_fabric_send){.id = 1,
                                   .opcode = opcode,
                                   .flags = MT_FABRIC_SIGNALED,
                                   .piece_count = 1,
                                   .pieces = p,
                                   .remote_address = there.address,
                                   .rkey = there.rkey};
}

/* Ends it at some moment, and has the memory for itself from then on. */
static void give_back(struct side *s, enum ending how, struct mt_fabric_mr **mr,
                      struct remote there, uint64_t *state)
{
    struct mt_fabric_piece p = piece(*mr, 0, BACK_BYTES);
    struct mt_fabric_completion none;
    uint8_t *memory = (*mr)->address;
    for (int i = 0; i < BACK_WORKS && how >= QP_SENDS; i++) {
        struct mt_fabric_send work = back_work(
            how == QP_SENDS ? MT_FABRIC_SEND : MT_FABRIC_READ, &p, there);
        mt_fabric_post_send(s->qp, &work);
    }
    for (uint64_t n = random_next(state) % 400; n > 0; n--) {
        mt_fabric_poll(s->send_cq, &none, 1);
    }
    if (how == MR_WRITTEN) {
        OK(mt_fabric_mr_destroy(*mr));
        *mr = NULL;
    } else if (random_next(state) % 2 == 0) {
        OK(mt_fabric_qp_destroy(s->qp));
        s->qp = NULL;
    } else {
        OK(mt_fabric_qp_fail(s->qp));
    }
    memset(memory, BACK_OURS, BACK_BYTES);
    for (uint64_t until = now_ms() + 2; now_ms() < until;) {
        mt_fabric_poll(s->send_cq, &none, 1);
    }
    for (size_t i = 0; i < BACK_BYTES; i++) {
        EQ(memory[i], BACK_OURS);
    }
}

/* The peer: goes on until it is told. What it gets is whole. */
static void use_theirs(struct side *s, enum ending how, struct mt_fabric_mr *mr,
                       struct remote there, uint64_t seed)
{
    struct mt_fabric_piece p = piece(mr, 0, BACK_BYTES);
    struct mt_fabric_completion c;
    char told;
    while (recv(s->wire, &told, 1, MSG_DONTWAIT) != 1) {
        struct mt_fabric_send work = back_work(MT_FABRIC_WRITE, &p, there);
        waiting(s);
        if (how <= MR_WRITTEN) {
            mt_fabric_post_send(s->qp, &work);
        }
        mt_fabric_poll(s->send_cq, &c, 1);
        if (took(s->receive_cq, &c) && c.status == MT_OK) {
            EQ(c.bytes, BACK_BYTES);
            CHECK(filled(mr->address, BACK_BYTES, seed));
            post_receive(s, s->qp, 1, p);
        }
    }
}

static void given_back(struct side *s)
{
    const uint64_t rounds = s->setting->operations < 1000 ? 16 : 80;
    uint64_t state = s->setting->seed + 4711;
    side_open(s, false);
    for (uint64_t round = 0; round < rounds; round++) {
        enum ending how = (enum ending)(round % ENDINGS);
        /* of the application, and of the provider */
        bool own = round / ENDINGS % 2 == 0;
        struct mt_fabric_mr *mr = own ? registered(s, BACK_BYTES)
                                      : allocated(s, BACK_BYTES);
        void *memory = mr->address;
        side_connect(s);
        struct remote there = remote_of(s, mr);
        fill(memory, BACK_BYTES, round);
        if (s->rank == 1 && how == QP_SENDS) {
            /* one at a time is in the memory that is looked at */
            post_receive(s, s->qp, 1, piece(mr, 0, BACK_BYTES));
        }
        meet(s);
        if (s->rank == 0) {
            /* memory of the provider goes with its region */
            if (own || how != MR_WRITTEN) {
                give_back(s, how, &mr, there, &state);
            }
            CHECK(write(s->wire, "t", 1) == 1);
        } else {
            use_theirs(s, how, mr, there, round);
        }
        meet(s);
        if (s->qp != NULL) {
            OK(mt_fabric_qp_destroy(s->qp));
            s->qp = NULL;
        }
        if (mr != NULL) {
            OK(mt_fabric_mr_destroy(mr));
        }
        CHECK(!own || munmap(memory, BACK_BYTES) == 0);
        struct mt_fabric_completion none;
        while (mt_fabric_poll(s->send_cq, &none, 1) == 1 ||
               mt_fabric_poll(s->receive_cq, &none, 1) == 1) {
        }
    }
    side_close(s);
}

/* ---- processes ---- */

/* The process goes on with another program: for its peers it is gone. */
static void other_program(struct side *s)
{
    side_open(s, false);
    side_connect(s);
    struct mt_fabric_mr *mr = registered(s, 4096);
    post_receive(s, s->qp, 1, piece(mr, 0, 64));
    meet(s);
    if (s->rank == 1) {
        char command[64]; /* ends when the other side does */
        snprintf(command, sizeof(command), "exec cat <&%d >/dev/null", s->wire);
        CHECK(fcntl(s->wire, F_SETFD, 0) == 0);
        happens();
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        FAIL("no shell");
    }
    struct mt_fabric_completion c = {.status = MT_OK};
    uint64_t began = now_ms();
    /* without a pause, which would be in what is measured */
    while (c.status == MT_OK) { /* on a real device only a send finds out */
        struct mt_fabric_piece p = piece(mr, 0, 64);
        struct mt_fabric_send work = back_work(MT_FABRIC_SEND, &p,
                                               (struct remote){0, 0, 0});
        enum mt_status status = mt_fabric_post_send(s->qp, &work);
        CHECK(status == MT_OK || status == MT_EAGAIN);
        mt_fabric_poll(s->send_cq, &c, 1);
        CHECK(now_ms() - began < s->setting->limit_ms);
    }
    noticed("another program", death_ms(s));
    CHECK(c.status == MT_EPEER || c.status == MT_EFLUSHED);
    c = next(s, s->receive_cq);
    EQ(c.id, 1);
    CHECK(c.status == MT_EPEER || c.status == MT_EFLUSHED);
    OK(mt_fabric_qp_destroy(s->qp));
    s->qp = NULL;
    release(mr);
    side_close_alone(s);
}

/* In a child: everything of the parent's says no, and does nothing; a context of
 * its own works. */
static void in_child(struct side *s, struct mt_fabric_mr *mr)
{
    struct mt_fabric_piece p = piece(mr, 0, 64);
    struct mt_fabric_send send = back_work(MT_FABRIC_SEND, &p,
                                           (struct remote){0, 0, 0});
    struct mt_fabric_receive receive = {.piece_count = 1, .pieces = &p};
    struct mt_fabric_address address = {.bytes = 8};
    struct mt_fabric_completion c;
    struct mt_fabric_event event;
    struct mt_fabric_mr *other_mr;
    struct mt_fabric_qp *other_qp;
    struct mt_fabric_pd *pd;
    struct mt_fabric_cq *cq;
    struct mt_fabric_ah *ah;
    struct mt_fabric_qp_options o = rc_options(s);
    EQ(mt_fabric_post_send(s->qp, &send), MT_ESTATE);
    EQ(mt_fabric_post_receive(s->qp, &receive), MT_ESTATE);
    EQ(mt_fabric_poll(s->send_cq, &c, 1), 0);
    EQ(mt_fabric_poll(s->receive_cq, &c, 1), 0);
    EQ(mt_fabric_event_fd(s->context), -1);
    EQ(mt_fabric_event_take(s->context, &event), MT_ESTATE);
    EQ(mt_fabric_pd_create(s->context, &pd), MT_ESTATE);
    EQ(mt_fabric_mr_register(s->pd, &c, 8, 0, &other_mr), MT_ESTATE);
    EQ(mt_fabric_mr_destroy(mr), MT_ESTATE);
    EQ(mt_fabric_cq_create(s->context, 4, NULL, &cq), MT_ESTATE);
    EQ(mt_fabric_qp_create(s->pd, &o, &other_qp), MT_ESTATE);
    EQ(mt_fabric_qp_address(s->qp, &address), MT_ESTATE);
    EQ(mt_fabric_qp_connect(s->qp, &address), MT_ESTATE);
    EQ(mt_fabric_qp_fail(s->qp), MT_ESTATE);
    EQ(mt_fabric_qp_reset(s->qp), MT_ESTATE);
    EQ(mt_fabric_qp_destroy(s->qp), MT_ESTATE);
    EQ(mt_fabric_ah_create(s->pd, &address, &ah), MT_ESTATE);
    EQ(mt_fabric_cq_destroy(s->send_cq), MT_ESTATE);
    EQ(mt_fabric_pd_destroy(s->pd), MT_ESTATE);
    EQ(mt_fabric_close(s->context), MT_ESTATE);
    /* without a thread: the thread sanitizer allows none in a child */
    struct mt_fabric_options options = s->setting->options;
    options.engine = MT_FABRIC_ENGINE_INLINE;
    struct mt_fabric_context *own;
    OK(mt_fabric_open(s->setting->device, &options, &own));
    OK(mt_fabric_pd_create(own, &pd));
    OK(mt_fabric_mr_allocate(pd, 4096, MT_FABRIC_LOCAL_WRITE, &other_mr));
    OK(mt_fabric_mr_destroy(other_mr));
    OK(mt_fabric_pd_destroy(pd));
    OK(mt_fabric_close(own));
}

static void forked(struct side *s)
{
    static struct mt_fabric_mr *mr; /* named in a child, too: nothing is lost */
    side_open(s, false);
    side_connect(s);
    mr = registered(s, 4096);
    for (uint64_t i = 0; i < 8; i++) {
        post_receive(s, s->qp, i, piece(mr, 2048, 64));
    }
    meet(s);
    for (uint64_t i = 0; i < 8; i++) {
        pid_t pid = -1;
        int status = 0;
        if (s->rank == 0 && i % 4 == 1) {
            pid = fork();
            CHECK(pid >= 0);
        }
        if (pid == 0) {
            in_child(s, mr);
            leave();
        }
        struct mt_fabric_piece p = piece(mr, 0, 64);
        struct mt_fabric_send work = back_work(MT_FABRIC_SEND, &p,
                                               (struct remote){0, 0, 0});
        fill(mr->address, 64, i);
        post(s, s->qp, &work);
        next_ok(s, s->send_cq);
        EQ(next_ok(s, s->receive_cq).id, i);
        CHECK(filled((char *)mr->address + 2048, 64, i));
        CHECK(pid < 0 || (waitpid(pid, &status, 0) == pid && status == 0));
        meet(s);
    }
    release(mr);
    side_close(s);
}

/* Leaves so little address space that what another process shares has no room in
 * it; returns what is in use. */
static unsigned long long limit_space(void)
{
    unsigned long long pages = 0;
    struct rlimit limit;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file != NULL && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = pages * 4096 + (600ull << 20);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    return pages * 4096;
}

/* What was said of it names both sizes, in MiB. */
static void said_space(unsigned long long shared_mib)
{
    struct rlimit limit;
    char shared[64], all[64];
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    snprintf(shared, sizeof(shared), "space for the %llu MiB that process",
             shared_mib);
    snprintf(all, sizeof(all), "RLIMIT_AS is %llu MiB",
             (unsigned long long)limit.rlim_cur >> 20);
    EQ(times_said(shared), 1);
    EQ(times_said(all), 1);
}

/* A process has too little address space to share what one of its size does; and
 * enough for its own, but not for what a peer without a limit shares. */
static void no_space(struct side *s)
{
    const bool shared = strcmp(s->setting->device, "shm") == 0;
    const size_t large = 65ull << 30;
    struct mt_fabric_qp_options o;
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    if (s->rank == 0 && shared) {
        struct mt_fabric_context *none;
        struct mt_fabric_options options = s->setting->options;
        void *used = mmap(NULL, large, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(used != MAP_FAILED);
        limit_space();
        options.say = say;
        EQ(mt_fabric_open(s->setting->device, &options, &none), MT_ENOMEM);
        said_space(1024);
        CHECK(setrlimit(RLIMIT_AS, &before) == 0 && munmap(used, large) == 0);
    }
    side_open(s, false);
    if (s->rank == 0) {
        limit_space(); /* what it shares itself is there */
    }
    o = rc_options(s);
    struct mt_fabric_address mine = {0}, theirs;
    OK(mt_fabric_qp_create(s->pd, &o, &s->qp));
    OK(mt_fabric_qp_address(s->qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    if (s->rank == 0 && shared) {
        EQ(mt_fabric_qp_connect(s->qp, &theirs), MT_ENOMEM);
        EQ(times_said("space for the 1024 MiB that process"), 2);
        CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    }
    side_close(s);
}

/* Little address space is left: it works, or says what is missing. */
static void little_space(struct side *s)
{
    unsigned long long now = limit_space();
    struct mt_fabric_options options = s->setting->options;
    struct mt_fabric_context *context;
    options.say = say;
    enum mt_status mine = mt_fabric_open(s->setting->device, &options,
                                         &context);
    /* a sanitizer has taken so much that the rest seems little */
    CHECK(mine == MT_OK || (mine == MT_ENOMEM && now > 1ull << 40));
    if (mine != MT_OK && strcmp(s->setting->device, "shm") == 0) {
        said_space(1024);
    }
    if (mine == MT_OK) {
        OK(mt_fabric_close(context));
        side_open(s, false);
        side_connect(s);
        struct mt_fabric_mr *mr = registered(s, 1 << 20);
        post_receive(s, s->qp, 1, piece(mr, 0, 64));
        meet(s);
        struct mt_fabric_piece p = piece(mr, 64, 64);
        struct mt_fabric_send work = back_work(MT_FABRIC_SEND, &p,
                                               (struct remote){0, 0, 0});
        post(s, s->qp, &work);
        next_ok(s, s->send_cq);
        EQ(next_ok(s, s->receive_cq).id, 1);
        release(mr);
        side_close(s);
    }
}

/* Threads of this process that may run on this processor alone. */
static int threads_on(int cpu)
{
    char path[300], line[256], list[256];
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int count = 0;
    CHECK(tasks != NULL);
    while ((entry = readdir(tasks)) != NULL) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/status",
                 entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(path, "re") : NULL;
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            if (sscanf(line, "Cpus_allowed_list: %255s", list) == 1) {
                char *end;
                count += strtol(list, &end, 10) == cpu && *end == '\0';
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(tasks);
    return count;
}

/* The thread that moves data runs where it was told to, and no other does. */
static void engine_cpu(struct side *s)
{
    struct setting own = *s->setting;
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    int cpu = CPU_SETSIZE - 1;
    while (!CPU_ISSET((size_t)cpu, &set)) {
        cpu--;
    }
    int before = threads_on(cpu);
    own.options.engine = MT_FABRIC_ENGINE_THREAD;
    own.options.engine_cpu = cpu;
    s->setting = &own;
    side_open(s, false);
    /* a device has no thread; of one processor every thread has it alone */
    if (death_ms(s) > 0 && CPU_COUNT(&set) > 1) {
        EQ(threads_on(cpu), before + 1);
    }
    side_close(s);
}

const struct test tests_life[] = {
    {"memory given back", given_back, NULL},
    {"peer with another program", other_program, NULL},
    {"child of fork", forked, NULL},
    {"little address space", little_space, NULL},
    {"no address space for what is shared", no_space, NULL},
    {"engine on its processor", engine_cpu, NULL},
    {NULL, NULL, NULL},
};
