/* calls.c MESSAGES [woken]: short messages over shared memory take no system call.
 * Two processes send each other MESSAGES of 8 bytes by SEND, by WRITE of a flag
 * and by datagram, polling, while the kernel refuses them every system call
 * (seccomp) and tells which they wanted.
 *
 * What remains is the look after the peers, which is no message's: poll and
 * process_vm_readv, each once in LOOK_NS at most, which are answered here as if the
 * peer were well.
 *
 * woken: one side sleeps at its channel, so that the other has to wake it: the
 * check of the check, which must say so and end with status 1. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../programs/harness.h"

enum { BYTES = 8, LOOK_NS = 5000000 };

static uint64_t polls, reads; /* of the look after the peers */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* in the vdso: no system call */
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void result_set(ucontext_t *at, long result)
{
#if defined(__x86_64__)
    at->uc_mcontext.gregs[REG_RAX] = result;
#elif defined(__aarch64__)
    at->uc_mcontext.regs[0] = (uint64_t)result;
#else
#error "which register holds the result of a system call?"
#endif
}

static void refused(int number, siginfo_t *info, void *context)
{
    (void)number;
    if (info->si_syscall == SYS_process_vm_readv) {
        reads++;
        result_set(context, -EPERM); /* it is there, and may not be read */
#ifdef SYS_poll
    } else if (info->si_syscall == SYS_poll) {
        polls++;
        result_set(context, 0);
#endif
    } else if (info->si_syscall == SYS_ppoll) {
        polls++;
        result_set(context, 0);
    } else {
        char text[64];
        int n = snprintf(text, sizeof(text), "  system call %d\n",
                         info->si_syscall);
        ssize_t written = write(STDERR_FILENO, text, (size_t)n);
        (void)written;
        _exit(1);
    }
}

/* From here on only what ends the process, says why, and returns from a signal. */
static void refuse_all(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    struct sigaction action = {.sa_sigaction = refused, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* ---- both sides ---- */

struct ends {
    struct mt_fabric_qp *ud;
    struct mt_fabric_ah *ah;
    struct mt_fabric_mr *in, *flag;
    struct remote there;
    uint64_t word; /* what is sent */
};

static void ends_make(struct side *s, struct ends *e)
{
    struct mt_fabric_address mine, theirs;
    side_open(s, true);
    side_connect(s);
    struct mt_fabric_qp_options o = ud_options(s);
    OK(mt_fabric_qp_create(s->pd, &o, &e->ud));
    OK(mt_fabric_qp_address(e->ud, &mine));
    OK(mt_fabric_qp_connect(e->ud, NULL));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_ah_create(s->pd, &theirs, &e->ah));
    e->in = registered(s, 2 * BYTES);
    e->flag = allocated(s, BYTES);
    e->there = remote_of(s, e->flag);
    post_receive(s, s->qp, 0, piece(e->in, 0, BYTES));
    post_receive(s, e->ud, 1, piece(e->in, BYTES, BYTES));
    meet(s);
}

static void complete(struct mt_fabric_cq *cq, struct mt_fabric_completion *c)
{
    while (mt_fabric_poll(cq, c, 1) == 0) {
    }
    EQ(c->status, MT_OK);
}

enum way { BY_SEND, BY_FLAG, BY_DATAGRAM, WAYS };

static void give(struct side *s, struct ends *e, enum way way)
{
    struct mt_fabric_piece p = {&e->word, BYTES, 0};
    struct mt_fabric_send work = {.opcode = way == BY_FLAG ? MT_FABRIC_WRITE
                                                           : MT_FABRIC_SEND,
                                  .flags = MT_FABRIC_INLINE | MT_FABRIC_SIGNALED,
                                  .piece_count = 1,
                                  .pieces = &p,
                                  .remote_address = e->there.address,
                                  .rkey = e->there.rkey,
                                  .ah = way == BY_DATAGRAM ? e->ah : NULL};
    struct mt_fabric_completion c;
    OK(mt_fabric_post_send(way == BY_DATAGRAM ? e->ud : s->qp, &work));
    complete(s->send_cq, &c);
}

static uint64_t get(struct side *s, struct ends *e, enum way way, uint64_t want)
{
    struct mt_fabric_completion c;
    uint64_t *flag = e->flag->address;
    if (way == BY_FLAG) {
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != want) {
            mt_fabric_poll(s->receive_cq, NULL, 0);
        }
        return want;
    }
    uint64_t slot = way == BY_DATAGRAM, got;
    complete(s->receive_cq, &c);
    EQ(c.id, slot);
    memcpy(&got, (char *)e->in->address + slot * BYTES, BYTES);
    post_receive(s, way == BY_DATAGRAM ? e->ud : s->qp, slot,
                 piece(e->in, slot * BYTES, BYTES));
    return got;
}

static void play(struct side *s, uint64_t messages, bool woken)
{
    struct ends e = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ends_make(s, &e);
    if (woken) {
        OK(mt_fabric_cq_arm(s->receive_cq, false));
        meet(s);
    }
    uint64_t began = now_ns();
    refuse_all();
    for (enum way way = 0; way < WAYS; way++) {
        for (uint64_t i = 1; i <= messages; i++) {
            e.word = i;
            if (s->rank == 0) {
                give(s, &e, way);
            }
            EQ(get(s, &e, way, i), i);
            if (s->rank == 1) {
                give(s, &e, way);
            }
        }
    }
    uint64_t looks = (now_ns() - began) / LOOK_NS + 1;
    CHECK(polls <= looks && reads <= looks);
    _exit(0);
}

int main(int argc, char **argv)
{
    struct setting setting = {.device = "shm",
                              .options = {.engine_cpu = -1},
                              .limit_ms = 300000};
    int wires[2], failed = 0;
    pid_t pids[2];
    if (argc < 2) {
        fprintf(stderr, "usage: calls MESSAGES [woken]\n");
        return 2;
    }
    harness_open();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires) == 0);
    for (int rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        CHECK(pids[rank] >= 0);
        if (pids[rank] == 0) {
            struct side side = {.setting = &setting, .rank = rank,
                                .wire = wires[rank]};
            close(wires[1 - rank]);
            play(&side, strtoull(argv[1], NULL, 10), argc > 2);
        }
    }
    for (int left = 2; left > 0; left--) {
        int status;
        pid_t pid = wait(&status);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            failed = 1;
            kill(pids[pid == pids[0]], SIGKILL); /* it would wait for ever */
        }
    }
    return failed;
}
