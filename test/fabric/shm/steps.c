/* steps.c WAY POINTS [OPERATION ...]: a process is killed behind any instruction
 * of what it does with a queue pair over shared memory. The survivor runs it by
 * single steps (ptrace), so that no moment is left out: POINTS of them, evenly
 * over the operation, or all (POINTS 0).
 *
 * After each death, within the limit: all that the survivor had posted to the dead
 * has completed, with an error that has a name or with data that is whole and in
 * order; its memory goes back; a third process, with a queue pair of its own and
 * one for datagrams that it shared with the dead, is answered as before. At the
 * end the survivor holds what it held at the beginning.
 *
 * WAY: inline, peer (an engine: who moves the data), or copies (as on a system
 * that lets no process read another). In every second death the survivor sleeps
 * at its channel instead of polling.
 *
 * POINTS still: it is not killed, but left where it touches memory of the survivor,
 * which gives that back: after ten seconds it does, and names who stands still.
 *
 * Status 0; 1, something is wrong; 77, this process may not trace its children. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../c/fabric/shm/shm.h"
#include "steps.h"

static const struct operation operations[] = {
    {"send short", SEND, SHORT, true},
    {"send", SEND, MIDDLE, true},
    {"send long", SEND, LONG, true},
    {"write and flag short", WRITE_FLAG, SHORT, false},
    {"write and flag", WRITE_FLAG, MIDDLE, false},
    {"write and notice", WRITE_IMM, LONG, true},
    {"read", READ, MIDDLE, false},
    {"read long", READ, LONG, true},
    {"receive short", RECEIVE, SHORT, true},
    {"receive long", RECEIVE, LONG, true},
    {"connect", CONNECT, SHORT, true},
    {"destroy", DESTROY, MIDDLE, true},
    {"close", CLOSE, MIDDLE, true},
    {"datagram", DATAGRAM, SHORT, true},
    {"datagram long", DATAGRAM, MIDDLE, true},
    {"datagram receive", DATAGRAM_RECEIVE, MIDDLE, true},
};

static uint64_t *flag_of(const struct operation *o, const struct areas *a,
                         uint64_t number)
{
    return (uint64_t *)(a->memory + slot_of(o, SLOTS)) + number;
}

/* ---- the survivor ---- */

/* It has completion queues of its own for each of the others. */
struct survivor {
    struct side dead;  /* towards the one that dies */
    struct side third; /* ... and the third */
    struct mt_fabric_qp *ud;
    struct mt_fabric_ah *third_ah;
    struct mt_fabric_mr *datagrams, *word;
    uint64_t said;    /* to the third so far */
    bool sleeps;      /* at the channel, this time */
};

static struct side side_towards(const struct side *s, int wire)
{
    struct side other = *s;
    other.wire = wire;
    OK(mt_fabric_cq_create(s->context, 1024, s->channel, &other.send_cq));
    OK(mt_fabric_cq_create(s->context, 1024, s->channel, &other.receive_cq));
    return other;
}

static void datagram_receive(struct survivor *v, uint64_t slot)
{
    post_receive(&v->third, v->ud, slot,
                 piece(v->datagrams, slot * MIDDLE, MIDDLE));
}

static void survivor_open(struct survivor *v, const struct setting *setting,
                          int wire)
{
    struct mt_fabric_address mine, theirs;
    v->dead = (struct side){.setting = setting, .rank = 0, .wire = -1};
    side_open(&v->dead, true);
    v->third = side_towards(&v->dead, wire);
    side_connect(&v->third);
    struct mt_fabric_qp_options o = ud_options(&v->third);
    OK(mt_fabric_qp_create(v->third.pd, &o, &v->ud));
    OK(mt_fabric_qp_address(v->ud, &mine));
    OK(mt_fabric_qp_connect(v->ud, NULL));
    swap(&v->third, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_ah_create(v->third.pd, &theirs, &v->third_ah));
    v->datagrams = registered(&v->third, DATAGRAMS * MIDDLE);
    v->word = registered(&v->third, 2 * SHORT);
    for (uint64_t i = 0; i < DATAGRAMS; i++) {
        datagram_receive(v, i);
    }
}

/* Lets the provider work: by polling, or asleep until there is something. */
static void attend(struct survivor *v, int sleep_ms)
{
    struct mt_fabric_cq *fired, *all[] = {v->dead.send_cq, v->dead.receive_cq,
                                          v->third.send_cq,
                                          v->third.receive_cq};
    if (!v->sleeps) {
        mt_fabric_poll(v->dead.send_cq, NULL, 0);
        return;
    }
    for (int i = 0; i < 4; i++) {
        OK(mt_fabric_cq_arm(all[i], false));
    }
    struct pollfd fd = {.fd = mt_fabric_channel_fd(v->dead.channel),
                        .events = POLLIN};
    poll(&fd, 1, sleep_ms);
    while (mt_fabric_channel_take(v->dead.channel, &fired) == MT_OK) {
    }
}

/* A completion, waited for. */
static struct mt_fabric_completion await(struct survivor *v,
                                         struct mt_fabric_cq *cq)
{
    struct mt_fabric_completion c;
    while (mt_fabric_poll(cq, &c, 1) == 0) {
        waiting(&v->dead);
        attend(v, 1);
    }
    moved();
    return c;
}

/* A datagram: of the dead, which is whole, or of the third. */
static bool datagram_is_answer(struct survivor *v, const struct operation *o,
                               const struct mt_fabric_completion *c)
{
    const char *at = (const char *)v->datagrams->address + c->id * MIDDLE;
    EQ(c->status, MT_OK);
    if (c->bytes == SHORT && memcmp(at, &v->said, SHORT) == 0) {
        return true;
    }
    bool whole = false;
    for (uint64_t i = 0; i < SENDS; i++) {
        whole = whole || filled(at, o->bytes, seed_of(1, i));
    }
    CHECK(o->kind == DATAGRAM && c->bytes == o->bytes && whole);
    return false;
}

/* The third is asked, by both queue pairs, and answers. */
static void ask_third(struct survivor *v, const struct operation *o)
{
    struct mt_fabric_piece out = piece(v->word, 0, SHORT);
    struct mt_fabric_send work = send_of(0, &out);
    v->said++;
    memcpy(v->word->address, &v->said, SHORT);
    post_receive(&v->third, v->third.qp, DATAGRAMS, piece(v->word, SHORT, SHORT));
    OK(mt_fabric_post_send(v->third.qp, &work));
    work.ah = v->third_ah;
    OK(mt_fabric_post_send(v->ud, &work));
    EQ(await(v, v->third.send_cq).status, MT_OK);
    EQ(await(v, v->third.send_cq).status, MT_OK);
    for (unsigned answers = 0; answers < 2;) {
        struct mt_fabric_completion c = await(v, v->third.receive_cq);
        if (c.id == DATAGRAMS) {
            EQ(c.status, MT_OK);
            CHECK(memcmp((char *)v->word->address + SHORT, &v->said, SHORT) == 0);
            answers++;
        } else {
            answers += datagram_is_answer(v, o, &c);
            datagram_receive(v, c.id);
        }
    }
}

/* Runs the child by instructions: limit of them, or until it stops itself (true).
 * steps_p: how many there were. */
static bool step(struct survivor *v, pid_t pid, uint64_t limit,
                 uint64_t *steps_p)
{
    int status;
    for (*steps_p = 0; *steps_p < limit; ++*steps_p) {
        if (*steps_p % STEPS == 0) {
            attend(v, 0);
        }
        CHECK(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0);
        CHECK(waitpid(pid, &status, 0) == pid);
        if (!WIFSTOPPED(status)) {
            FAIL("the child ended by itself (%x)", (unsigned)status);
        }
        if (WSTOPSIG(status) == SIGSTOP) {
            return true;
        }
        EQ(WSTOPSIG(status), SIGTRAP);
        moved();
    }
    return false;
}

/* What the dead wrote is whole, where a flag or a notice says that it is there. */
static void check_written(const struct operation *o, const struct areas *a,
                          uint64_t number)
{
    CHECK(filled(a->memory + slot_of(o, number), o->bytes,
                 seed_of(1, number)));
}

/* Everything posted to the dead completes, and the last with an error. */
static void settle(struct survivor *v, const struct operation *o,
                   const struct areas *a)
{
    enum mt_status first = MT_OK;
    for (uint64_t n = 0; n < SLOTS; n++) {
        struct mt_fabric_completion c = await(v, v->dead.receive_cq);
        EQ(c.id, n);
        first = first != MT_OK ? first : c.status;
        if (c.status != MT_OK) {
            CHECK(c.status == MT_EPEER || c.status == MT_EFLUSHED);
            continue;
        }
        EQ(first, MT_OK); /* nothing good comes behind an error */
        if (o->kind == WRITE_IMM) {
            CHECK(c.has_immediate && c.immediate == n);
            check_written(o, a, n);
        } else {
            EQ(c.bytes, o->bytes);
            CHECK(filled((char *)a->in->address + slot_of(o, n), o->bytes,
                         seed_of(1, n)));
        }
    }
    CHECK(first != MT_OK);
    for (unsigned n = 0; n < REPLIES; n++) {
        struct mt_fabric_completion c = await(v, v->dead.send_cq);
        EQ(c.id, n);
        CHECK(c.status == MT_OK || c.status == MT_EPEER ||
              c.status == MT_EFLUSHED);
    }
    EQ(mt_fabric_qp_state(v->dead.qp), MT_FABRIC_QP_ERROR);
    for (uint64_t i = 0; o->kind == WRITE_FLAG && i < SENDS; i++) {
        uint64_t flag = __atomic_load_n(flag_of(o, a, i), __ATOMIC_ACQUIRE);
        CHECK(flag == 0 || flag == i + 1);
        if (flag != 0) {
            check_written(o, a, i);
        }
    }
}

static void post_replies(struct survivor *v, const struct operation *o,
                         const struct areas *a, struct mt_fabric_ah *ah)
{
    for (uint64_t i = 0; i < REPLIES; i++) {
        struct mt_fabric_piece p = piece(a->out, slot_of(o, i), o->bytes);
        struct mt_fabric_send work = send_of(i, &p);
        work.ah = ah;
        OK(mt_fabric_post_send(ah != NULL ? v->ud : v->dead.qp, &work));
    }
    for (uint64_t i = 0; ah != NULL && i < REPLIES; i++) {
        EQ(await(v, v->third.send_cq).status, MT_OK);
    }
}

/* A child at the beginning of its operation. */
static pid_t child_start(struct survivor *v, const struct operation *o)
{
    int wires[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct side side = {.setting = v->dead.setting, .rank = 1,
                            .wire = wires[1]};
        close(wires[0]);
        die(&side, o);
    }
    close(wires[1]);
    v->dead.wire = wires[0];
    return pid;
}

static void child_await(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, WUNTRACED) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == DENIED) {
        fprintf(stderr, "  children may not be traced here\n");
        exit(DENIED);
    }
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL) == 0);
}

/* Ends the child: killed where it is, or, once it has stopped itself, after it
 * has looked at what it got. */
static void child_end(pid_t pid, bool complete_operation)
{
    int status;
    if (complete_operation) {
        CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    } else {
        CHECK(kill(pid, SIGKILL) == 0);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}

/* What it says of the memory of others that it touches. */
static uint64_t touching(const struct survivor *v, pid_t pid)
{
    const struct mt_shm_context *context =
        (const struct mt_shm_context *)v->dead.context;
    for (uint32_t i = 0; i < context->peer_count; i++) {
        const struct mt_shm_peer *peer = context->peers[i];
        if (peer->identity.pid == pid) {
            return __atomic_load_n(&peer->root->touching, __ATOMIC_ACQUIRE);
        }
    }
    return 0;
}

/* A child at the beginning of its operation, and what it is to meet: a queue pair
 * with receives, or a handle of its own for datagrams. */
static pid_t live_begin(struct survivor *v, const struct operation *o,
                        struct areas *a, struct mt_fabric_ah **ah_p)
{
    struct side *s = &v->dead;
    bool datagrams = is_datagram(o);
    struct mt_fabric_qp_options options = rc_options(s);
    struct mt_fabric_address mine, theirs;
    pid_t pid = child_start(v, o);
    *a = areas_make(s, o);
    s->qp = NULL;
    *ah_p = NULL;
    if (!datagrams) {
        OK(mt_fabric_qp_create(s->pd, &options, &s->qp));
    }
    OK(mt_fabric_qp_address(datagrams ? v->ud : s->qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    remote_of(s, a->shared);
    if (!datagrams) {
        receives_post(s, o, a);
        OK(mt_fabric_qp_connect(s->qp, &theirs));
    } else if (o->kind == DATAGRAM_RECEIVE) {
        OK(mt_fabric_ah_create(s->pd, &theirs, ah_p));
    }
    child_await(pid);
    return pid;
}

/* It and what it met are gone, and so is the region. */
static void live_end(struct survivor *v, const struct operation *o, pid_t pid,
                     struct areas *a)
{
    child_end(pid, false);
    close(v->dead.wire);
    post_replies(v, o, a, NULL);
    settle(v, o, a);
    OK(mt_fabric_qp_destroy(v->dead.qp));
    release(a->out);
    release(a->in);
    CHECK(!o->registered || munmap(a->memory, slot_of(o, SLOTS) + 64) == 0);
}

static void stand_still(struct survivor *v, const struct operation *o)
{
    struct areas a;
    struct mt_fabric_ah *none;
    uint64_t steps, began;
    pid_t pid = live_begin(v, o, &a, &none);
    while (o->registered
               ? mt_touch_name(touching(v, pid)) != a.shared->rkey
               : touching(v, pid) % 2 == 0) {
        CHECK(!step(v, pid, 1, &steps)); /* it never does */
    }
    began = now_ms();
    OK(mt_fabric_mr_destroy(a.shared));
    began = now_ms() - began;
    CHECK(began >= 10000 && began < 100000);
    EQ(times_said("has stood still for 10 s"), 1);
    live_end(v, o, pid, &a);
    printf("ok   %s: given back after %llu ms\n", o->name,
           (unsigned long long)began);
}

/* A region of memory of the process is given back when a child, on its way to copy
 * to it, is behind each instruction (or some, a stride apart) before the one that
 * names it: nobody waits, and nothing is copied. */
static void take_back(struct survivor *v, const struct operation *o,
                      uint64_t stride)
{
    uint64_t points = 0;
    CHECK(stride > 0);
    for (bool named = false; !named; points += !named) {
        struct areas a;
        struct mt_fabric_ah *none;
        uint64_t steps;
        pid_t pid = live_begin(v, o, &a, &none);
        while (touching(v, pid) % 2 == 0) {
            CHECK(!step(v, pid, 1, &steps));
        }
        CHECK(points == 0 || !step(v, pid, stride * points, &steps));
        named = mt_touch_name(touching(v, pid)) == a.shared->rkey;
        if (!named) {
            const size_t bytes = slot_of(o, SLOTS) + 64;
            CHECK(touching(v, pid) % 2 != 0);
            OK(mt_fabric_mr_destroy(a.shared));
            memset(a.memory, 0x55, bytes);
            while (touching(v, pid) % 2 != 0) {
                CHECK(!step(v, pid, 1, &steps));
            }
            for (size_t i = 0; i < bytes; i++) {
                EQ(a.memory[i], 0x55);
            }
        } else { /* it dies, and then nobody is waited for */
            CHECK(kill(pid, SIGKILL) == 0);
            OK(mt_fabric_mr_destroy(a.shared));
        }
        live_end(v, o, pid, &a);
    }
    CHECK(points > 1);
    EQ(times_said("has stood still"), 0);
    printf("ok   %s: taken back at %llu instructions\n", o->name,
           (unsigned long long)points);
}

/* One life of a child, of so many instructions. Returns how many it took, and
 * whether that was the whole operation. */
static bool live(struct survivor *v, const struct operation *o, uint64_t limit,
                 uint64_t *steps_p)
{
    struct side *s = &v->dead;
    bool datagrams = is_datagram(o);
    struct mt_fabric_ah *ah;
    struct areas a;
    pid_t pid = live_begin(v, o, &a, &ah);
    if (!datagrams || ah != NULL) {
        post_replies(v, o, &a, ah);
    }
    bool whole = step(v, pid, limit, steps_p);
    child_end(pid, whole);
    close(s->wire);
    bool early = *steps_p % 3 == 0; /* before anybody knows of the death */
    if (early && o->registered) {
        OK(mt_fabric_mr_destroy(a.shared));
    }
    if (!datagrams) {
        settle(v, o, &a);
        OK(mt_fabric_qp_destroy(s->qp));
    }
    ask_third(v, o);
    if (ah != NULL) {
        OK(mt_fabric_ah_destroy(ah));
    }
    release(a.out);
    release(a.in);
    if (!early || !o->registered) {
        OK(mt_fabric_mr_destroy(a.shared));
    }
    CHECK(!o->registered || munmap(a.memory, slot_of(o, SLOTS) + 64) == 0);
    return whole;
}

/* What this process holds: descriptors, mappings of arenas, and the memory of
 * its own. */
struct holding {
    uint64_t fds, maps, blocks;
};

static struct holding holding(void)
{
    struct holding h = {0, 0, 0};
    char line[512];
    DIR *dir = opendir("/proc/self/fd");
    FILE *maps = fopen("/proc/self/maps", "re");
    struct dirent *entry;
    CHECK(dir != NULL && maps != NULL);
    while ((entry = readdir(dir)) != NULL) {
        struct stat info;
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, line, sizeof(line));
        h.fds++;
        if (n > 7 && memcmp(line, "/memfd:", 7) == 0 &&
            fstat(atoi(entry->d_name), &info) == 0) {
            h.blocks += (uint64_t)info.st_blocks;
        }
    }
    while (fgets(line, sizeof(line), maps) != NULL) {
        h.maps += strstr(line, "memfd:") != NULL;
    }
    closedir(dir);
    fclose(maps);
    return h;
}

/* What the dead used goes back, sooner or later. */
static void await_holding(struct survivor *v, struct holding before)
{
    struct holding now = holding();
    while (memcmp(&now, &before, sizeof(now)) != 0) {
        waiting(&v->dead);
        attend(v, 1);
        now = holding();
    }
}

static void run(struct survivor *v, const struct operation *o, uint64_t points)
{
    uint64_t whole, steps, deaths = 0;
    struct holding before = holding();
    uint64_t began = now_ms();
    v->sleeps = false;
    CHECK(live(v, o, UINT64_MAX, &whole));
    uint64_t count = points != 0 && points < whole ? points : whole;
    for (uint64_t i = 0; i < count; i++) {
        v->sleeps = i % 2 == 1;
        /* in the middle of each part: those of other ways lie elsewhere */
        live(v, o, whole * (2 * i + 1) / (2 * count), &steps);
        deaths++;
    }
    await_holding(v, before);
    printf("ok   %s: %llu instructions, %llu deaths, %llu ms\n", o->name,
           (unsigned long long)whole, (unsigned long long)deaths,
           (unsigned long long)(now_ms() - began));
}

static bool chosen(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return count == 0;
}

int main(int argc, char **argv)
{
    struct setting setting = {.device = "shm",
                              .options = {.engine_cpu = -1},
                              .limit_ms = 300000};
    static struct survivor survivor;
    int wires[2];
    if (argc < 3) {
        fprintf(stderr, "usage: steps inline|peer|copies POINTS|still|takenSTRIDE [OPERATION ...]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    harness_open();
    if (strcmp(argv[1], "copies") == 0) {
        refuse_calls(SYS_process_vm_readv, SYS_process_vm_writev, EPERM);
    }
    setting.options.engine = strcmp(argv[1], "peer") == 0
                                 ? MT_FABRIC_ENGINE_PEER
                                 : MT_FABRIC_ENGINE_INLINE;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires) == 0);
    pid_t third = fork();
    CHECK(third >= 0);
    if (third == 0) {
        struct side side = {.setting = &setting, .rank = 1, .wire = wires[1]};
        close(wires[0]);
        echo(&side);
    }
    close(wires[1]);
    survivor_open(&survivor, &setting, wires[0]);
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (!chosen(operations[i].name, argv + 3, argc - 3)) {
            continue;
        }
        if (strcmp(argv[2], "still") == 0) {
            stand_still(&survivor, &operations[i]);
        } else if (strncmp(argv[2], "taken", 5) == 0) {
            take_back(&survivor, &operations[i], strtoull(argv[2] + 5, NULL, 10));
        } else {
            run(&survivor, &operations[i], strtoull(argv[2], NULL, 10));
        }
    }
    kill(third, SIGKILL);
    waitpid(third, NULL, 0);
    return 0;
}
