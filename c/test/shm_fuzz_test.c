/* sources: c/fabric/fabric.c c/fabric/status.c c/fabric/fault/completion.c c/fabric/fault/fault.c c/fabric/fault/script.c c/fabric/fault/work.c c/fabric/iwarp/address.c c/fabric/crc32c.c c/fabric/iwarp/in.c c/fabric/iwarp/iwarp.c c/fabric/iwarp/out.c c/fabric/iwarp/port.c c/fabric/iwarp/progress.c c/fabric/iwarp/region.c c/fabric/iwarp/slice.c c/fabric/iwarp/stream.c c/fabric/iwarp/ud.c c/fabric/iwarp/wire.c c/fabric/shm/arena.c c/fabric/shm/peers.c c/fabric/shm/receive.c c/fabric/shm/send.c c/fabric/shm/shm.c c/fabric/shm/ud.c c/fabric/soft/cq.c c/fabric/soft/soft.c c/fabric/soft/work.c c/fabric/verbs/device.c c/fabric/verbs/library.c c/fabric/verbs/ports.c c/fabric/verbs/qp.c c/fabric/verbs/source.c c/fabric/verbs/verbs.c c/fabric/verbs/work.c */
/* What a hostile process of the same machine writes into memory that it shares
 * with us: records of a connection, datagrams of an inbox, and the sources that
 * an answer would go to. LLVMFuzzerTestOneInput takes any input, main feeds it
 * many that begin as right ones. The first byte chooses. Nothing may crash, only
 * memory that the peer was given may change, and what is malformed is counted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../fabric/shm/shm.h"
#include "check.h"

enum { ROOM = 1 << 16, GUARD = 4096, MOST = 20000, RECEIVES = 8, FAR = 1 << 15 };

/* Both in this process: what the one would have done to it, the inputs do. */
struct end {
    struct mt_fabric_context *context;
    struct mt_fabric_pd *pd;
    struct mt_fabric_cq *cq;
    struct mt_fabric_qp *rc, *ud;
};

static struct end ours, theirs;
static struct mt_fabric_mr *mr;
static uint8_t *memory; /* guard, room, guard */
static uint8_t far_memory[FAR]; /* all of the peer that may be reached */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the kernel's part ---- */

static bool is_in(const struct iovec *range, const void *place, size_t bytes)
{
    uintptr_t at = (uintptr_t)range->iov_base, begin = (uintptr_t)place;
    return range->iov_len <= bytes && at >= begin &&
           at - begin <= bytes - range->iov_len;
}

/* Whether a process still has its arena is asked by the root of it. */
static bool is_in_root(const struct iovec *range, const struct end *e)
{
    return e->context != NULL &&
           is_in(range, ((struct mt_shm_context *)e->context)->arena.root,
                 sizeof(struct mt_shm_root));
}

static ssize_t reach(const struct iovec *local, unsigned long count,
                     const struct iovec *remote, bool write)
{
    size_t done = 0;
    if (!is_in(remote, far_memory, FAR) &&
        (write || !(is_in_root(remote, &ours) || is_in_root(remote, &theirs)))) {
        errno = EFAULT;
        return -1;
    }
    for (unsigned long i = 0; i < count; i++) {
        char *there = (char *)remote->iov_base + done;
        memcpy(write ? there : local[i].iov_base,
               write ? local[i].iov_base : there, local[i].iov_len);
        done += local[i].iov_len;
    }
    return (ssize_t)done;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local,
                         unsigned long local_count, const struct iovec *remote,
                         unsigned long remote_count, unsigned long flags)
{
    (void)pid, (void)remote_count, (void)flags;
    return reach(local, local_count, remote, false);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local,
                          unsigned long local_count, const struct iovec *remote,
                          unsigned long remote_count, unsigned long flags)
{
    (void)pid, (void)remote_count, (void)flags;
    return reach(local, local_count, remote, true);
}

/* ---- the two ends ---- */

static struct mt_fabric_qp *make(const struct end *e,
                                 enum mt_fabric_transport transport)
{
    struct mt_fabric_qp *qp = NULL;
    const struct mt_fabric_qp_options o = {.transport = transport,
                                           .send_cq = e->cq,
                                           .receive_cq = e->cq,
                                           .send_depth = 8,
                                           .receive_depth = RECEIVES,
                                           .pieces = 2,
                                           .reads = transport == MT_FABRIC_RC ? 4
                                                                              : 0,
                                           .port = 1};
    CHECK_EQ(mt_fabric_qp_create(e->pd, &o, &qp), MT_OK);
    return qp;
}

static void open_end(struct end *e)
{
    CHECK_EQ(mt_fabric_open("shm", NULL, &e->context), MT_OK);
    CHECK_EQ(mt_fabric_pd_create(e->context, &e->pd), MT_OK);
    CHECK_EQ(mt_fabric_cq_create(e->context, 256, NULL, &e->cq), MT_OK);
    e->rc = make(e, MT_FABRIC_RC);
    e->ud = make(e, MT_FABRIC_UD);
    CHECK_EQ(mt_fabric_qp_connect(e->ud, NULL), MT_OK);
}

static void receives(struct mt_fabric_qp *qp)
{
    struct mt_fabric_piece p[2] = {{mr->address, 100, mr->lkey},
                                   {(char *)mr->address + 8192, 9000, mr->lkey}};
    const struct mt_fabric_receive work = {.piece_count = 2, .pieces = p};
    while (mt_fabric_post_receive(qp, &work) == MT_OK) {
    }
}

static void plug(void)
{
    struct mt_fabric_address a, b;
    CHECK_EQ(mt_fabric_qp_address(ours.rc, &a), MT_OK);
    CHECK_EQ(mt_fabric_qp_address(theirs.rc, &b), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(ours.rc, &b), MT_OK);
    CHECK_EQ(mt_fabric_qp_connect(theirs.rc, &a), MT_OK);
    receives(ours.rc);
}

static void start(void)
{
    memory = aligned_alloc(64, ROOM + 2 * GUARD);
    memset(memory, 0xee, ROOM + 2 * GUARD);
    open_end(&ours);
    open_end(&theirs);
    CHECK_EQ(mt_fabric_mr_register(ours.pd, memory + GUARD, ROOM,
                                   MT_FABRIC_LOCAL_WRITE |
                                       MT_FABRIC_REMOTE_WRITE |
                                       MT_FABRIC_REMOTE_READ,
                                   &mr),
             MT_OK);
    plug();
    receives(ours.ud);
}

static void drain(void)
{
    struct mt_fabric_completion c[16];
    for (int i = 0; i < 3; i++) {
        while (mt_fabric_poll(ours.cq, c, 16) > 0) {
        }
        while (mt_fabric_poll(theirs.cq, c, 16) > 0) {
        }
    }
    struct mt_fabric_event event;
    while (mt_fabric_event_take(ours.context, &event) == MT_OK ||
           mt_fabric_event_take(theirs.context, &event) == MT_OK) {
    }
}

/* ---- targets ---- */

/* Records one behind the other, from where we read next. */
static void feed_records(const uint8_t *data, size_t size)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)ours.rc;
    char *at = (char *)mt_ring_at(qp->ring, qp->in.head);
    size_t room = (size_t)(qp->ring->data + MT_RING_BYTES - at);
    size = size < room ? size : room;
    memcpy(at, data, size);
    drain();
    if (mt_fabric_qp_state(ours.rc) == MT_FABRIC_QP_ERROR ||
        mt_fabric_qp_state(theirs.rc) == MT_FABRIC_QP_ERROR) {
        CHECK_EQ(mt_fabric_qp_reset(ours.rc), MT_OK);
        CHECK_EQ(mt_fabric_qp_reset(theirs.rc), MT_OK);
        plug();
    } else {
        memset(at, 0, size); /* what waits for a receive, or is no record yet */
        receives(ours.rc);
    }
}

/* A cell, word and all, where we read next; and one of another turn. */
static void feed_cell(const uint8_t *data, size_t size)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)ours.ud;
    uint64_t head = qp->inbox_head;
    struct mt_inbox_cell *cell =
        &qp->inbox->cells[head & (qp->inbox_count - 1)];
    memcpy(cell, data, size < sizeof(*cell) ? size : sizeof(*cell));
    drain();
    for (int i = 0; i < 2; i++) {
        mt_shm_inbox_look(qp); /* as time goes by */
    }
    if (qp->inbox_head == head) {
        cell->word = mt_inbox_word((uint32_t)(head / qp->inbox_count),
                                   MT_INBOX_FREE, 0);
    }
    receives(ours.ud);
}

/* Who is said to have sent a datagram gets one. */
static void feed_source(const uint8_t *data, size_t size)
{
    struct mt_fabric_source source = {{0}};
    struct mt_fabric_ah *ah;
    memcpy(&source, data, size < sizeof(source) ? size : sizeof(source));
    if (mt_fabric_ah_create_source(ours.pd, &source, &ah) != MT_OK) {
        return;
    }
    struct mt_fabric_piece p = {mr->address, 64, mr->lkey};
    const struct mt_fabric_send work = {.opcode = MT_FABRIC_SEND,
                                        .piece_count = 1,
                                        .pieces = &p,
                                        .ah = ah};
    CHECK_EQ(mt_fabric_post_send(ours.ud, &work), MT_OK);
    drain();
    CHECK_EQ(mt_fabric_ah_destroy(ah), MT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (memory == NULL) {
        start();
    }
    if (size < 1) {
        return 0;
    }
    switch (data[0] % 8) {
    case 0:
        feed_source(data + 1, size - 1);
        break;
    case 1:
        feed_cell(data + 1, size - 1);
        break;
    default:
        feed_records(data + 1, size - 1);
    }
    return 0;
}

/* ---- inputs that begin as right ones ---- */

static unsigned long long state = 1;

static uint32_t draw(uint32_t limit)
{
    return (uint32_t)(check_random(&state) % limit);
}

static size_t draw_record(uint8_t *at)
{
    struct mt_fabric_piece pieces[2] = {
        {far_memory + draw(99), draw(5000), 0},
        {far_memory + 8192 + draw(99), draw(9000), 0}};
    struct mt_ring_record r = {.kind = (uint8_t)(1 + draw(8)),
                               .flags = draw(2) == 0 ? 3 : (uint8_t)draw(16),
                               .rkey = mr->rkey};
    bool pulls = r.kind == MT_SHM_SEND_PULL || r.kind == MT_SHM_WRITE_PULL ||
                 r.kind == MT_SHM_READ_PUSH;
    r.address = (uint64_t)(uintptr_t)mr->address + draw(ROOM);
    r.bytes = r.kind == MT_SHM_READ ? 8 : draw(draw(4) == 0 ? 8000 : 100);
    r.total = draw(4) == 0 ? draw(20000) : r.bytes;
    if (pulls) {
        r.pieces = (uint16_t)(1 + draw(2));
        r.bytes = r.pieces * (uint32_t)sizeof(pieces[0]);
        r.total = pieces[0].bytes + (r.pieces > 1 ? pieces[1].bytes : 0);
    }
    size_t size = mt_ring_size(r.bytes);
    r.ready = UINT64_C(1) << 32 | size;
    memset(at, 0, size);
    memcpy(at, &r, sizeof(r));
    if (pulls) {
        memcpy(at + sizeof(r), pieces, r.bytes);
    }
    return size;
}

static size_t draw_cell(uint8_t *at)
{
    struct mt_shm_qp *qp = (struct mt_shm_qp *)ours.ud;
    struct mt_inbox_cell *cell = calloc(1, sizeof(*cell));
    cell->word = mt_inbox_word((uint32_t)(qp->inbox_head / qp->inbox_count),
                               draw(6) == 0 ? MT_INBOX_CLAIMED : MT_INBOX_READY,
                               (int32_t)draw(1 << 22));
    cell->life = draw(6) == 0 ? draw(99) : (uint32_t)qp->life;
    cell->bytes = draw(6) == 0 ? 4090 + draw(20) : draw(4096);
    memcpy(at, cell, sizeof(*cell));
    free(cell);
    return sizeof(*cell);
}

static size_t draw_source(uint8_t *at)
{
    struct mt_shm_context *context = (struct mt_shm_context *)theirs.context;
    struct mt_shm_qp *qp = (struct mt_shm_qp *)theirs.ud;
    const struct mt_shm_identity *i = &context->arena.root->identity;
    const struct mt_fabric_source source = {
        {(uint64_t)(uint32_t)i->pid | (uint64_t)(uint32_t)i->fd << 32,
         i->pid_start, mt_shm_offset(&context->arena, qp->inbox) + draw(2) * 8,
         (uint32_t)qp->life | (uint64_t)i->arena_id << 32}};
    memcpy(at, &source, sizeof(source));
    return sizeof(source);
}

/* A process that has no descriptor left cannot ask, and takes nobody for dead. */
static void without_descriptors(void)
{
    struct rlimit limit, none;
    pid_t dead = fork();
    if (dead == 0) {
        _exit(0);
    }
    CHECK_EQ(waitpid(dead, NULL, 0), dead);
    CHECK(mt_shm_pid_died((int32_t)dead));
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK(!mt_shm_pid_died((int32_t)getpid()));
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK(!mt_shm_pid_died((int32_t)getpid()));
}

int main(int argc, char **argv)
{
    static uint8_t input[MOST];
#if defined(__SANITIZE_THREAD__)
    uint64_t inputs = 2000; /* one thread: nothing new to find */
#else
    uint64_t inputs = 30000;
#endif
    inputs = argc > 1 ? strtoull(argv[1], NULL, 10) : inputs;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    without_descriptors();
    start();
    for (uint64_t i = 0; i < inputs; i++) {
        size_t n = 0;
        input[0] = (uint8_t)draw(256);
        if (input[0] % 8 == 0) {
            n = draw_source(input + 1);
        } else if (input[0] % 8 == 1) {
            n = draw_cell(input + 1);
        }
        for (uint32_t k = 1 + draw(3); k > 0 && input[0] % 8 > 1 && n < MOST / 2;
             k--) {
            n += draw_record(input + 1 + n);
        }
        for (uint32_t m = draw(4); m > 0; m--) {
            uint32_t most = n < 64 || draw(3) == 0 ? (uint32_t)n : 64;
            input[1 + draw(most)] = (uint8_t)draw(256);
        }
        LLVMFuzzerTestOneInput(input, n + 1);
    }
    CHECK(inputs < 1000 || mt_fabric_malformed(ours.context) > 0);
    for (uint32_t i = 0; i < GUARD; i++) {
        CHECK_EQ(memory[i], 0xee);
        CHECK_EQ(memory[GUARD + ROOM + i], 0xee);
    }
    CHECK_EQ(mt_fabric_mr_destroy(mr), MT_OK);
    for (struct end *e = &ours; e != NULL; e = e == &ours ? &theirs : NULL) {
        CHECK_EQ(mt_fabric_qp_destroy(e->rc), MT_OK);
        CHECK_EQ(mt_fabric_qp_destroy(e->ud), MT_OK);
        CHECK_EQ(mt_fabric_cq_destroy(e->cq), MT_OK);
        CHECK_EQ(mt_fabric_pd_destroy(e->pd), MT_OK);
        CHECK_EQ(mt_fabric_close(e->context), MT_OK);
    }
    free(memory);
    return check_failures != 0;
}
