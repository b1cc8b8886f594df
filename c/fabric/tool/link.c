/* link.c: memory and queue pairs between the two ranks, and checked data. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory ---- */

enum {
    ACCESS = MT_FABRIC_LOCAL_WRITE | MT_FABRIC_REMOTE_WRITE |
             MT_FABRIC_REMOTE_READ
};

/* Each side tells the other where its memory is. */
static void memory_swap(struct tool *t, struct tool_memory *m)
{
    struct {
        uint64_t at;
        uint32_t rkey, reserved;
    } mine = {0}, theirs;
    m->at = m->mr->address;
    mine.at = (uintptr_t)m->at;
    mine.rkey = m->mr->rkey;
    tool_swap(t, &mine, &theirs, sizeof(mine));
    m->remote_at = theirs.at;
    m->remote_rkey = theirs.rkey;
}

void tool_memory_open(struct tool *t, const struct mt_rail *rail,
                      uint64_t bytes, struct tool_memory *m)
{
    *m = (struct tool_memory){.bytes = bytes};
    tool_check(mt_fabric_mr_allocate(rail->pd, bytes, ACCESS, &m->mr),
               "allocating memory of the device");
    memory_swap(t, m);
}

void tool_data_open(struct tool *t, const struct mt_rail *rail, uint64_t bytes,
                    struct tool_memory *m)
{
    if (t->config.registered == 0) {
        tool_memory_open(t, rail, bytes, m);
        return;
    }
    *m = (struct tool_memory){.bytes = bytes, .registered = true};
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        tool_fail("%llu bytes: %s", (unsigned long long)bytes, strerror(errno));
    }
    tool_check(mt_fabric_mr_register(rail->pd, memory, bytes, ACCESS, &m->mr),
               "registering memory (see ulimit -l)");
    memory_swap(t, m);
}

void tool_memory_close(struct tool_memory *m)
{
    tool_check(mt_fabric_mr_destroy(m->mr), "giving memory back");
    if (m->registered) {
        munmap(m->at, m->bytes);
    }
}

/* A word that changes with place and seed, never 0. */
static uint64_t tool_word(uint64_t i, uint64_t seed)
{
    return mt_hash(i + seed * 7919 + 1) | 1;
}

void tool_fill(void *memory, uint64_t bytes, uint64_t seed)
{
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t word = tool_word(at, seed);
        uint64_t n = bytes - at < 8 ? bytes - at : 8;
        memcpy((char *)memory + at, &word, n);
    }
}

void tool_verify(const void *memory, uint64_t bytes, uint64_t seed,
                 const char *what)
{
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t word = tool_word(at, seed);
        uint64_t n = bytes - at < 8 ? bytes - at : 8;
        if (memcmp((const char *)memory + at, &word, n) != 0) {
            tool_fail("WRONG DATA: %s: byte %llu of %llu", what,
                      (unsigned long long)at, (unsigned long long)bytes);
        }
    }
}

void tool_stamp(char *at, uint64_t bytes, uint64_t number)
{
    if (bytes >= 16) {
        memcpy(at + bytes - 8, &number, 8);
    }
    memcpy(at, &number, bytes < 8 ? bytes : 8);
}

void tool_stamped(const char *at, uint64_t bytes, uint64_t number)
{
    uint64_t first = number, last = number;
    memcpy(&first, at, bytes < 8 ? bytes : 8);
    if (bytes >= 16) {
        memcpy(&last, at + bytes - 8, 8);
    }
    if (mt_unlikely(first != number || last != number)) {
        tool_fail("WRONG DATA: message %llu of %llu bytes",
                  (unsigned long long)number, (unsigned long long)bytes);
    }
}

/* ---- queue pairs ---- */

struct mt_fabric_qp_options tool_rc_options(const struct mt_rail *rail,
                                            uint32_t depth)
{
    uint32_t most = rail->caps->max_depth;
    return (struct mt_fabric_qp_options){
        .transport = MT_FABRIC_RC,
        .send_cq = rail->send_cq,
        .receive_cq = rail->receive_cq,
        .send_depth = depth < most ? depth : most,
        .receive_depth = depth < most ? depth : most,
        .pieces = 1,
        .inline_bytes =
            rail->caps->max_inline < 64 ? rail->caps->max_inline : 64,
        .port = rail->port};
}

void tool_connect(struct tool *t, const struct mt_rail *rail,
                  const struct mt_fabric_qp_options *options, uint32_t count,
                  struct mt_fabric_qp **qps)
{
    struct mt_fabric_address *mine = calloc(count, sizeof(*mine));
    struct mt_fabric_address *theirs = calloc(count, sizeof(*theirs));
    if (mine == NULL || theirs == NULL) {
        tool_fail("out of memory");
    }
    for (uint32_t i = 0; i < count; i++) {
        tool_check(mt_fabric_qp_create(rail->pd, options, &qps[i]),
                   "making a queue pair");
        tool_check(mt_fabric_qp_address(qps[i], &mine[i]), "its address");
    }
    tool_swap(t, mine, theirs, count * sizeof(*mine));
    for (uint32_t i = 0; i < count; i++) {
        tool_check(
            mt_fabric_qp_connect(
                qps[i], options->transport == MT_FABRIC_RC ? &theirs[i] : NULL),
            "connecting to the other process");
    }
    free(mine);
    free(theirs);
    tool_meet(t);
}

void tool_join_qp(struct tool *t, struct mt_fabric_qp *qp)
{
    struct mt_fabric_address mine, theirs;
    tool_check(mt_fabric_qp_address(qp, &mine), "an address");
    tool_swap(t, &mine, &theirs, sizeof(mine));
    tool_check(mt_fabric_qp_connect(qp, &theirs),
               "connecting to the other process");
    tool_meet(t); /* nobody sends before both are connected */
}

uint32_t tool_poll(struct mt_fabric_cq *cq, struct mt_fabric_completion *c,
                   uint32_t limit)
{
    uint32_t n = mt_fabric_poll(cq, c, limit);
    for (uint32_t i = 0; i < n; i++) {
        tool_check(c[i].status, "a transfer");
    }
    return n;
}

void tool_drain(struct tool *t)
{
    struct mt_fabric_completion c[16];
    for (uint32_t r = 0; r < t->rails.count; r++) {
        while (mt_fabric_poll(t->rails.rails[r].send_cq, c, 16) > 0) {
        }
        while (mt_fabric_poll(t->rails.rails[r].receive_cq, c, 16) > 0) {
        }
    }
}

struct mt_fabric_completion tool_next(struct tool *t, struct mt_fabric_cq *cq,
                                      const char *what)
{
    struct mt_fabric_completion c;
    struct tool_wait w = {0};
    while (tool_poll(cq, &c, 1) == 0) {
        tool_wait(t, &w, what);
    }
    return c;
}
