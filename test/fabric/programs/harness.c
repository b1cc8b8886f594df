/* harness.c: see harness.h. */
#define _GNU_SOURCE 1
#include "harness.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int fail_rank = -1;

void fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    const char *name = strrchr(file, '/');
    fprintf(stderr, "  rank %d, %s:%d: ", fail_rank,
            name != NULL ? name + 1 : file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _exit(1);
}

/* Of the address sanitizer; NULL in a build without it. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

void leave(void)
{
    if (__lsan_do_recoverable_leak_check != NULL &&
        __lsan_do_recoverable_leak_check() != 0) {
        FAIL("memory that was not given back");
    }
    _exit(0);
}

uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- progress ---- */

static struct {
    uint64_t moves;
    uint64_t happened_us; /* what is to be noticed; 0: nothing did */
} *all; /* shared by all processes of the suite */

void harness_open(void)
{
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
}

uint64_t moves(void)
{
    return __atomic_load_n(&all->moves, __ATOMIC_RELAXED);
}

void moved(void)
{
    __atomic_add_fetch(&all->moves, 1, __ATOMIC_RELAXED);
}

uint64_t idle_ms(struct idle *idle)
{
    enum { MOST_MS = 1000 };
    uint64_t now = now_ms(), passed = now - idle->asked;
    if (idle->asked == 0 || idle->seen != moves()) {
        idle->seen = moves();
        idle->ms = idle->times = 0;
    } else {
        idle->ms += passed < MOST_MS ? passed : MOST_MS;
    }
    idle->asked = now;
    idle->times++;
    return idle->ms;
}

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void harness_begin(void)
{
    __atomic_store_n(&all->happened_us, 0, __ATOMIC_RELAXED);
}

void happens(void)
{
    __atomic_store_n(&all->happened_us, now_us(), __ATOMIC_RELAXED);
}

void noticed(const char *what, uint64_t most_ms)
{
    uint64_t then = __atomic_load_n(&all->happened_us, __ATOMIC_RELAXED);
    if (then == 0) {
        return; /* it was on the other host */
    }
    uint64_t took_us = now_us() - then;
    printf("noticed after %llu us: %s\n", (unsigned long long)took_us, what);
    fflush(stdout);
    if (most_ms > 0 && took_us > most_ms * 1000) {
        FAIL("%s: noticed after %llu us, more than %llu ms", what,
             (unsigned long long)took_us, (unsigned long long)most_ms);
    }
}

uint64_t death_ms(const struct side *s)
{
    const char *device = s->setting->device;
    return strcmp(device, "shm") == 0 || strncmp(device, "iwarp:", 6) == 0
               ? 10000
               : 0;
}

void waiting(const struct side *s)
{
    static struct idle idle;
    if (idle_ms(&idle) > s->setting->limit_ms) {
        FAIL("nothing moved for %llu ms",
             (unsigned long long)s->setting->limit_ms);
    }
    if (idle.times > 256) { /* who could move it may want this processor */
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    } else if (idle.times % 64 == 0) {
        sched_yield();
    }
}

void refuse_calls(int first, int second, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* ---- wire ---- */

static void wire_write(struct side *s, const void *bytes, size_t n)
{
    while (n > 0) {
        ssize_t did = write(s->wire, bytes, n);
        if (did <= 0) {
            FAIL("the other side is gone (%s)", strerror(errno));
        }
        bytes = (const char *)bytes + did;
        n -= (size_t)did;
    }
}

/* Drives the provider, and frees the send queue. */
static void take_completions(struct side *s)
{
    struct mt_fabric_completion none;
    if (s->send_cq == NULL) {
        return;
    }
    if (s->taken_tail - s->taken_head < 1024) {
        s->taken_tail +=
            mt_fabric_poll(s->send_cq, &s->taken[s->taken_tail % 1024], 1);
    } else {
        mt_fabric_poll(s->send_cq, &none, 0);
    }
}

/* Polls the queues meanwhile: a software provider moves data only then. */
static void wire_read(struct side *s, void *bytes, size_t n)
{
    while (n > 0) {
        struct pollfd fd = {.fd = s->wire, .events = POLLIN};
        if (poll(&fd, 1, 0) == 0) {
            take_completions(s);
            waiting(s);
            sched_yield();
            continue;
        }
        ssize_t did = read(s->wire, bytes, n);
        if (did <= 0) {
            FAIL("the other side is gone");
        }
        bytes = (char *)bytes + did;
        n -= (size_t)did;
        moved();
    }
}

void swap(struct side *s, const void *mine, void *theirs, size_t bytes)
{
    /* An engine thread's writes before are this thread's to read after, and what
     * this thread read before is that one's to write. */
    if (s->send_cq != NULL) {
        mt_fabric_poll(s->send_cq, NULL, 0);
    }
    wire_write(s, mine, bytes);
    wire_read(s, theirs, bytes);
    if (s->send_cq != NULL) {
        mt_fabric_poll(s->send_cq, NULL, 0);
    }
}

void meet(struct side *s)
{
    char out = 'm', in = 0;
    swap(s, &out, &in, 1);
    EQ(in, out);
}

void ready(struct side *s)
{
    if (!s->caps->waits_for_receive) {
        meet(s);
    }
}

/* ---- set-up ---- */

/* What the fabric said, as far as there is room; an engine thread may say it. */
static char all_said[16][256];
static unsigned said_count;

unsigned times_said(const char *part)
{
    unsigned n = 0;
    for (unsigned i = 0; i < 16; i++) {
        n += strstr(all_said[i], part) != NULL;
    }
    return n;
}

void say(void *user, const char *text)
{
    unsigned at = __atomic_fetch_add(&said_count, 1, __ATOMIC_RELAXED);
    (void)user;
    if (at < 16) {
        snprintf(all_said[at], sizeof(all_said[at]), "%s", text);
    }
    fprintf(stderr, "  fabric: %s\n", text);
}

void side_open(struct side *s, bool channel)
{
    struct mt_fabric_options options = s->setting->options;
    fail_rank = s->rank;
    options.say = say;
    OK(mt_fabric_open(s->setting->device, &options, &s->context));
    s->caps = &mt_fabric_query(s->context)->caps;
    OK(mt_fabric_pd_create(s->context, &s->pd));
    if (channel) {
        OK(mt_fabric_channel_create(s->context, &s->channel));
    }
    OK(mt_fabric_cq_create(s->context, 1024, s->channel, &s->send_cq));
    OK(mt_fabric_cq_create(s->context, 1024, s->channel, &s->receive_cq));
}

struct mt_fabric_qp_options rc_options(const struct side *s)
{
    return (struct mt_fabric_qp_options){
        .transport = MT_FABRIC_RC,
        .send_cq = s->send_cq,
        .receive_cq = s->receive_cq,
        .send_depth = 32,
        .receive_depth = 64,
        .pieces = 4,
        .inline_bytes = s->caps->max_inline < 64 ? s->caps->max_inline : 64,
        .reads = s->caps->max_reads < 4 ? s->caps->max_reads : 4,
        .port = 1,
        .timeout_ms = 2000,
    };
}

struct mt_fabric_qp_options ud_options(const struct side *s)
{
    struct mt_fabric_qp_options o = rc_options(s);
    o.transport = MT_FABRIC_UD;
    o.reads = 0;
    return o;
}

struct mt_fabric_qp *connect_with(struct side *s,
                                  const struct mt_fabric_qp_options *options)
{
    struct mt_fabric_qp *qp;
    struct mt_fabric_address mine = {0}, theirs;
    OK(mt_fabric_qp_create(s->pd, options, &qp));
    OK(mt_fabric_qp_address(qp, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_qp_connect(qp, &theirs));
    return qp;
}

void side_connect(struct side *s)
{
    struct mt_fabric_qp_options options = rc_options(s);
    s->qp = connect_with(s, &options);
}

struct mt_fabric_ah *ud_connect(struct side *s, struct mt_fabric_qp **qp_p)
{
    struct mt_fabric_qp_options options = ud_options(s);
    struct mt_fabric_address mine = {0}, theirs;
    struct mt_fabric_ah *ah;
    OK(mt_fabric_qp_create(s->pd, &options, qp_p));
    OK(mt_fabric_qp_connect(*qp_p, NULL));
    OK(mt_fabric_qp_address(*qp_p, &mine));
    swap(s, &mine, &theirs, sizeof(mine));
    OK(mt_fabric_ah_create(s->pd, &theirs, &ah));
    return ah;
}

void side_close(struct side *s)
{
    meet(s);
    side_close_alone(s);
}

void side_qp_destroy(struct side *s)
{
    if (s->qp != NULL) {
        OK(mt_fabric_qp_destroy(s->qp));
        s->qp = NULL;
    }
}

void side_close_alone(struct side *s)
{
    side_qp_destroy(s);
    OK(mt_fabric_cq_destroy(s->send_cq));
    OK(mt_fabric_cq_destroy(s->receive_cq));
    if (s->channel != NULL) {
        OK(mt_fabric_channel_destroy(s->channel));
    }
    OK(mt_fabric_pd_destroy(s->pd));
    OK(mt_fabric_close(s->context));
}

/* ---- memory ---- */

static uint8_t byte_at(size_t i, uint64_t seed)
{
    return (uint8_t)((i * 2654435761u + seed * 40503u) >> 7);
}

void fill(void *memory, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)memory)[i] = byte_at(i, seed);
    }
}

bool filled(const void *memory, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((const uint8_t *)memory)[i] != byte_at(i, seed)) {
            return false;
        }
    }
    return true;
}

enum {
    ALL = MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE | MT_FABRIC_REMOTE_READ
};

struct mt_fabric_mr *registered(struct side *s, size_t bytes)
{
    struct mt_fabric_mr *mr;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    OK(mt_fabric_mr_register(s->pd, memory, bytes, ALL, &mr));
    return mr;
}

struct mt_fabric_mr *allocated(struct side *s, size_t bytes)
{
    struct mt_fabric_mr *mr;
    OK(mt_fabric_mr_allocate(s->pd, bytes, ALL, &mr));
    CHECK((uintptr_t)mr->address % 4096 == 0);
    for (size_t i = 0; i < bytes; i++) {
        CHECK(((const char *)mr->address)[i] == 0);
    }
    return mr;
}

void release(struct mt_fabric_mr *mr)
{
    void *memory = mr->address;
    size_t bytes = mr->bytes;
    OK(mt_fabric_mr_destroy(mr));
    CHECK(munmap(memory, bytes) == 0);
}

struct mt_fabric_piece piece(const struct mt_fabric_mr *mr, size_t offset,
                             size_t bytes)
{
    CHECK(offset + bytes <= mr->bytes);
    return (struct mt_fabric_piece){(char *)mr->address + offset,
                                    (uint32_t)bytes, mr->lkey};
}

struct remote remote_of(struct side *s, const struct mt_fabric_mr *mr)
{
    struct remote mine = {(uint64_t)(uintptr_t)mr->address, mr->rkey, 0}, theirs;
    swap(s, &mine, &theirs, sizeof(mine));
    return theirs;
}

/* ---- work ---- */

void post_receive(struct side *s, struct mt_fabric_qp *qp, uint64_t id,
                  struct mt_fabric_piece p)
{
    struct mt_fabric_receive work = {
        .id = id, .piece_count = 1, .pieces = &p};
    (void)s;
    OK(mt_fabric_post_receive(qp, &work));
}

void post(struct side *s, struct mt_fabric_qp *qp,
          const struct mt_fabric_send *work)
{
    for (;;) {
        enum mt_status status = mt_fabric_post_send(qp, work);
        if (status == MT_OK) {
            return;
        }
        if (status != MT_EAGAIN) {
            FAIL("post_send: %s", mt_status_text(status));
        }
        waiting(s);
        if (s->taken_tail - s->taken_head < 1024 &&
            took(s->send_cq, &s->taken[s->taken_tail % 1024])) {
            s->taken_tail++;
        }
    }
}

bool took(struct mt_fabric_cq *cq, struct mt_fabric_completion *c)
{
    if (mt_fabric_poll(cq, c, 1) == 0) {
        return false;
    }
    moved();
    return true;
}

struct mt_fabric_completion next(struct side *s, struct mt_fabric_cq *cq)
{
    struct mt_fabric_completion c;
    if (cq == s->send_cq && s->taken_head != s->taken_tail) {
        return s->taken[s->taken_head++ % 1024];
    }
    while (!took(cq, &c)) {
        waiting(s);
    }
    return c;
}

struct mt_fabric_completion next_ok(struct side *s, struct mt_fabric_cq *cq)
{
    struct mt_fabric_completion c = next(s, cq);
    if (c.status != MT_OK) {
        FAIL("completion of %llu: %s", (unsigned long long)c.id,
             mt_status_text(c.status));
    }
    return c;
}

void quiet(struct side *s, struct mt_fabric_cq *cq, unsigned ms)
{
    struct mt_fabric_completion c;
    uint64_t until = now_ms() + ms;
    (void)s;
    while (now_ms() < until) {
        if (mt_fabric_poll(cq, &c, 1) != 0) {
            FAIL("a completion of %llu (%s) that should not be",
                 (unsigned long long)c.id, mt_status_text(c.status));
        }
    }
}

struct mt_fabric_cq *sleep_on(struct side *s, int ms)
{
    uint64_t until = now_ms() + (uint64_t)ms;
    for (;;) {
        struct mt_fabric_cq *cq;
        if (mt_fabric_channel_take(s->channel, &cq) == MT_OK) {
            return cq;
        }
        uint64_t now = now_ms();
        struct pollfd fd = {.fd = mt_fabric_channel_fd(s->channel),
                            .events = POLLIN};
        /* who was not woken does not look */
        if (now >= until || poll(&fd, 1, (int)(until - now)) == 0) {
            return NULL;
        }
    }
}

/* ---- capabilities ---- */

const char *needs_events(const struct mt_fabric_caps *caps)
{
    return caps->events ? "" : "completion channels";
}

const char *needs_ud(const struct mt_fabric_caps *caps)
{
    return (caps->transports & MT_FABRIC_UD) != 0 ? "" : "UD";
}

uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}
